// SPDX-License-Identifier: Apache-2.0
//
// A function's effects run wherever it is called: who takes a result of the
// call has called it.
#include "distribute/own.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"
#include "support/ways.h"

static void make_count(ways *self) {
  ways_vector(self, "count", 0, (double[]){5});
}

static ls_nest count_and_double(ls_nest args, void *user) {
  ways *self = user;
  const ls_tensor x = ls_nest_item(args, 0).as.tensor;
  ls_variable_assign_add(self->variables[0], ls_scalar(LS_DTYPE_F32, 1));
  return ls_leaf(ls_add(x, x));
}

static ls_nest call_in_call(ls_nest args, void *user) {
  ways *self = user;
  ls_nest made = ls_none();
  const ls_status status = ls_function_call(self->more, args, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static ls_nest call_twice(ls_nest args, ways *self) {
  (void)args;
  ls_nest made = ls_none();
  LS_OWN(ls_function, inner) = function_of(count_and_double, self);
  self->more = inner;
  LS_OWN(ls_function, outer) = function_of(call_in_call, self);
  LS_OWN(ls_nest, three) = LS_TUPLE(ls_leaf(ls_scalar(LS_DTYPE_F32, 3)));
  ls_status status = ls_function_call(outer, three, &made);
  return ls_status_is_ok(status) ? LS_TUPLE(made) : ls_fail(status);
}

static void the_call_has_counted(const ways *self) {
  for (int r = 0; r < self->replicas; ++r) {
    ways_expect(self, "result", ways_result(self, 0, r, 0, 0), 6, 0);
    ways_expect(self, "count", ways_value(self, 0, r, 0), 6, 0);
  }
}

TEST(who_takes_a_result_has_called) {
  ways_hold(&(ways_case){.name = "call",
                         .make = make_count,
                         .step = call_twice,
                         .check = the_call_has_counted},
            1);
}

// ---- Results of replicas
// -----------------------------------------------------
static ls_nest replica_number(ls_nest args, void *user) {
  (void)args, (void)user;
  return ls_leaf(ls_convert(ls_replica_id(), LS_DTYPE_F32));
}

typedef struct counting {
  ls_strategy *strategy;
  ls_variable *count;
} counting;

static ls_nest count_and_run(ls_nest args, void *user) {
  const counting *self = user;
  ls_nest made = ls_none();
  ls_variable_assign_add(self->count, ls_scalar(LS_DTYPE_F32, 1));
  const ls_status status = ls_strategy_run(
      self->strategy, ls_plain(replica_number, NULL), args, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

// A function of them counts in a session that fetches a component.
static void expect_counted(ls_strategy *strategy) {
  LS_OWN(ls_graph, graph) = graph_named("counts");
  LS_OWN(ls_nest, made) = ls_none();
  LS_OWN(ls_nest, got) = ls_none();
  counting self = {strategy, NULL};
  ls_op initialize;
  {
    LS_GRAPH_SCOPE(graph);
    self.count = variable_of("count", LS_DTYPE_F32, LS_SCALAR, (double[]){5});
    LS_OWN(ls_function, f) = function_of(count_and_run, &self);
    expect_ok(ls_function_call(f, ls_none(), &made));
    initialize = ls_global_initializer();
  }
  LS_OWN(ls_session, session) = NULL;
  LS_OWN(ls_array, count) = NULL;
  LS_OWN(ls_variable, counted) = self.count;
  expect_ok(ls_session_create(graph, &session));
  expect_ok(ls_session_run(session, ls_nest_op(initialize), NULL, 0, &got));
  ls_nest_release(got);
  got = ls_none();
  expect_ok(ls_session_run(session, ls_distributed_component(made, 1), NULL, 0,
                           &got));
  assert_true(nest_element(got, 0) == 1);
  expect_ok(ls_session_variable_value(session, counted, &count));
  assert_true(ls_array_f64(count, 0) == 6);
}

TEST(who_takes_a_result_of_replicas_has_called) {
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  expect_counted(two);
}

// A step of an optimizer makes its slots when it is first taken.
static void make_weight(ways *self) {
  ways_vector(self, "weight", 0, (double[]){2});
  expect_ok(
      ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.125, .momentum = 0.5},
                    &self->optimizer));
}

static ls_tensor square_of_weight(ls_nest args, ways *self) {
  (void)args;
  const ls_tensor w = ls_variable_read(self->variables[0]);
  return ls_mul(w, w);
}

static ls_nest take_step(ls_nest args, void *user) {
  return ways_minimize(user, square_of_weight, args);
}

static ls_nest step_in_call(ls_nest args, ways *self) {
  ls_nest made = ls_none();
  (void)args;
  LS_OWN(ls_function, function) = function_of(take_step, self);
  LS_OWN(ls_nest, none) = LS_TUPLE(ls_none());
  const ls_status status = ls_function_call(function, none, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

TEST(what_a_call_makes_begins_once) {
  ways_hold(&(ways_case){.name = "step in a call",
                         .make = make_weight,
                         .step = step_in_call,
                         .steps = 3,
                         .without = 1 << WAY_EAGER},
            1);
}
