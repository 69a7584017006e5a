// SPDX-License-Identifier: Apache-2.0
//
// Steps across replicas: what moves which component, in which scope; and the
// cross-device ops that are asked for the sums.
#include <math.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/cross_device.h"
#include "lockstep/function.h"
#include "lockstep/graph.h"
#include "lockstep/graph_ops.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/optimizers.h"
#include "lockstep/session.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable_parts.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

// ---- A table of one's own --------------------------------------------------
typedef struct own_set {
  int batches;
  size_t last_count;
  ls_reduce_op last_op;
  const char *last_variable;
} own_set;

// What the usual set makes, doubled, so that it shows who was asked.
static ls_status give_double(void *self, ls_reduce_op op, const ls_nest *values,
                             const ls_destinations *where, size_t count,
                             ls_nest *results) {
  own_set *own = self;
  ls_cross_device *usual = NULL;
  LS_OWN(ls_nest, list) = ls_none();
  ++own->batches;
  own->last_count = count;
  own->last_op = op;
  const ls_variable *variable = ls_nest_as_variable(where[count - 1].value);
  own->last_variable = variable != NULL ? ls_variable_name(variable) : "";
  expect_ok(ls_reduce_to_one_create(NULL, &usual));
  const ls_status status =
      ls_cross_device_batch_reduce(usual, op, values, where, count, &list);
  ls_cross_device_release(usual);
  for (size_t i = 0; ls_status_is_ok(status) && i < count; ++i) {
    const ls_nest item = ls_nest_item(list, i);
    const size_t parts = ls_distributed_count(item);
    ls_nest doubled[8];
    const char *devices[8];
    for (size_t k = 0; k < parts; ++k) {
      devices[k] = ls_distributed_device(item, k);
      {
        LS_DEVICE_SCOPE(devices[k]);
        doubled[k] = ls_leaf(
            ls_mul_scalar(ls_distributed_component(item, k).as.tensor, 2));
      }
    }
    results[i] = ls_nest_distributed_on(LS_MIRRORED, doubled, devices, parts);
  }
  return status;
}

static const ls_cross_device_table own_table = {.name = "double",
                                                .batch_reduce = give_double};

static void use_own_set(ls_strategy *strategy, own_set *own) {
  LS_OWN(ls_cross_device, ops) = NULL;
  expect_ok(ls_cross_device_create(&own_table, own, &ops));
  expect_ok(ls_strategy_set_cross_device(strategy, ops));
}

// ---- Steps of replicas -----------------------------------------------------
typedef struct problem {
  ls_strategy *strategy;
  ls_variable *a, *b;
  ls_optimizer *optimizer;
  bool reversed;  // Odd replicas give the variables the other way round.
  ls_status refused;
} problem;

static void begin(problem *p, int replicas, ls_gradients_over_replicas how) {
  *p = (problem){.strategy = mirrored_of(replicas)};
  p->a = variable_in(p->strategy, (variable_kind){.name = "a"});
  p->b = variable_in(p->strategy, (variable_kind){.name = "b"});
  expect_ok(
      ls_sgd_create(&(ls_sgd_options){.learning_rate = 1, .over_replicas = how},
                    &p->optimizer));
}

static void end(problem *p) {
  ls_optimizer_release(p->optimizer);
  ls_variable_release(p->a);
  ls_variable_release(p->b);
  ls_strategy_release(p->strategy);
}
LS_OWNED_STRUCT(problem, end)

// The gradient of a is the mean of the rows, that of b twice as much.
static ls_nest follow(ls_nest args, void *user) {
  problem *p = user;
  ls_tensor rows = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, 0), &rows));
  const ls_tensor x = ls_reduce_mean(rows, LS_ALL_AXES);
  const ls_nest gradients[] = {ls_leaf(x), ls_none(),
                               ls_leaf(ls_mul_scalar(x, 2))};
  ls_variable *variables[] = {p->a, p->b, p->b};
  if (p->reversed && ls_replica_number() == 1) {
    variables[0] = p->b;
    variables[2] = p->a;
  }
  const ls_op op = ls_optimizer_apply(p->optimizer, variables, gradients, 3);
  if (!ls_graph_is_eager(ls_graph_current())) return ls_none();
  const ls_status status = ls_tensor_status(ls_op_output(op, 0));
  return ls_status_is_ok(status) ? ls_none() : ls_fail(status);
}

static ls_nest rows_of(ls_strategy *strategy, int64_t rows) {
  ls_nest split = ls_none();
  LS_OWN(ls_array, array) = array_of_numbers(LS_DTYPE_F32, LS_SHAPE(rows), 9);
  for (int64_t i = 0; i < rows; ++i)
    ls_array_set_f64(array, i, (double)i + 1);
  expect_ok(ls_strategy_split(strategy, array, &split));
  return LS_TUPLE(split);
}

static void expect_moved(const problem *p, double wanted) {
  for (size_t i = 0; i < ls_variable_num_components(p->a); ++i) {
    double a = 0, b = 0;
    read_variable(ls_variable_component(p->a, i), &a, 1);
    read_variable(ls_variable_component(p->b, i), &b, 1);
    if (fabs(a + wanted) > 1e-5 || fabs(b + 2 * wanted) > 1e-5)
      fail_msg("component %zu moved by %g and %g, wanted %g", i, a, b, -wanted);
  }
}

TEST(compiled_steps_ask_the_users_table_once) {
  static const int64_t rows[] = {6, 5, 2};  // Even, uneven, one has none.
  for (int how = LS_GRADIENTS_MEAN; how <= LS_GRADIENTS_SUM; ++how)
    for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
      own_set own = {0};
      LS_OWN_BEGUN(problem, p, begin, 3, (ls_gradients_over_replicas)how);
      use_own_set(p.strategy, &own);
      LS_OWN(ls_nest, args) = rows_of(p.strategy, rows[i]);
      LS_OWN(ls_function, function) = unnamed_function(follow, &p);
      LS_OWN(ls_nest, result) =
          strategy_results(p.strategy, ls_traced(function), args);
      assert_int_equal(own.batches, 1);
      assert_int_equal(own.last_count, 2);
      static const double sums[] = {1.5 + 3.5 + 5.5, 1.5 + 3.5 + 5, 3};
      expect_moved(&p, how == LS_GRADIENTS_SUM ? 2 * sums[i]
                                               : 2 * ((double)rows[i] + 1) / 2);
    }
}

TEST(replicas_meet_for_the_step_of_all) {
  LS_SPEC("M166 M182");
  static const int64_t rows[] = {6, 5};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    own_set own = {0};
    LS_OWN_BEGUN(problem, p, begin, 3, LS_GRADIENTS_SUM);
    use_own_set(p.strategy, &own);
    LS_OWN(ls_nest, args) = rows_of(p.strategy, rows[i]);
    ls_nest_release(run_on(p.strategy, follow, args, &p));
    // Pairs without a gradient are gone, the others go together.
    assert_int_equal(own.batches, 1);
    assert_int_equal(own.last_count, 2);
    assert_int_equal(own.last_op, LS_REDUCE_SUM);
    assert_string_equal(own.last_variable, "b");
    expect_moved(&p, 2 * (i == 0 ? 10.5 : 10));
  }
}

TEST(means_of_replicas_that_meet_count_examples) {
  LS_SPEC("M182");
  LS_OWN_BEGUN(problem, p, begin, 3, LS_GRADIENTS_MEAN);
  LS_OWN(ls_nest, args) = rows_of(p.strategy, 5);
  ls_nest_release(run_on(p.strategy, follow, args, &p));
  expect_moved(&p, 3);
}

TEST(other_variables_on_other_replicas_are_refused) {
  LS_SPEC("M166");
  LS_OWN_BEGUN(problem, p, begin, 2, LS_GRADIENTS_MEAN);
  p.reversed = true;
  LS_OWN(ls_nest, args) = rows_of(p.strategy, 4);
  ls_nest result = ls_none();
  expect_status(
      ls_strategy_run(p.strategy, ls_plain(follow, &p), args, &result),
      LS_INVALID_ARGUMENT, "same variables in the same order");
  expect_moved(&p, 0);
}

static ls_nest apply_nothing(ls_nest args, void *user) {
  (void)args;
  problem *p = user;
  const ls_nest gradients[] = {ls_none(), ls_none()};
  const ls_op op = ls_optimizer_apply(
      p->optimizer, (ls_variable *const[]){p->a, p->b}, gradients, 2);
  return ls_fail(ls_tensor_status(ls_op_output(op, 0)));
}

TEST(steps_that_cannot_be_are_refused) {
  LS_SPEC("M166 M168");
  LS_OWN_BEGUN(problem, p, begin, 2, LS_GRADIENTS_MEAN);
  ls_nest result = ls_none();
  ls_op op = {0};
  expect_status(ls_strategy_run(p.strategy, ls_plain(apply_nothing, &p),
                                ls_none(), &result),
                LS_INVALID_ARGUMENT, "'a', 'b'");
  LS_OWN(ls_variable, plain) = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "alone", .dtype = LS_DTYPE_F32}, &plain));
  const ls_nest none = ls_none(), one = ls_leaf(scalar_of(1));
  expect_status(
      ls_optimizer_apply_across(p.optimizer, &p.a, &one, 1, NULL, &op),
      LS_FAILED_PRECONDITION, "ls_optimizer_apply");
  {
    LS_STRATEGY_SCOPE(p.strategy);
    const ls_op made = ls_optimizer_apply(p.optimizer, &p.a, &one, 1);
    expect_status(ls_tensor_status(ls_op_output(made, 0)),
                  LS_FAILED_PRECONDITION, "ls_optimizer_apply_across");
    expect_status(
        ls_optimizer_apply_across(p.optimizer, &p.a, &none, 1, NULL, &op),
        LS_INVALID_ARGUMENT, "'a'");
    expect_status(
        ls_optimizer_apply_across(p.optimizer, &plain, &one, 1, NULL, &op),
        LS_INVALID_ARGUMENT, "'alone' has 0 components");
    const ls_nest text = ls_nest_f64(1);
    expect_status(
        ls_optimizer_apply_across(p.optimizer, &p.a, &text, 1, NULL, &op),
        LS_UNIMPLEMENTED, "no plain tensor");
  }
  expect_moved(&p, 0);
}

// ---- A built step ----------------------------------------------------------
typedef struct built {
  ls_strategy *strategy;
  ls_graph *graph;
  ls_variable *w, *global_step;
  ls_optimizer *optimizer;
  ls_op init, train;
  own_set own;
} built;

static void build(built *b) {
  *b = (built){.strategy = mirrored_of(2)};
  use_own_set(b->strategy, &b->own);
  expect_ok(ls_graph_create("g", &b->graph));
  expect_ok(
      ls_adam_create(&(ls_adam_options){.learning_rate = 0.5,
                                        .over_replicas = LS_GRADIENTS_SUM},
                     &b->optimizer));
  {
    LS_GRAPH_SCOPE(b->graph);
    b->w = variable_in(b->strategy, (variable_kind){.name = "w", .initial = 3});
    b->global_step =
        variable_in(b->strategy, (variable_kind){.name = "global_step",
                                                 .dtype = LS_DTYPE_I64});
    LS_OWN(ls_nest, gradients) = per_replica_scalars((double[]){1, 2}, 2);
    {
      LS_STRATEGY_SCOPE(b->strategy);
      expect_ok(ls_optimizer_apply_across(b->optimizer, &b->w, &gradients, 1,
                                          b->global_step, &b->train));
    }
    b->init = ls_global_initializer();
  }
  expect_ok(ls_graph_error(b->graph));
}

static void unbuild(built *b) {
  ls_variable_release(b->w);
  ls_variable_release(b->global_step);
  ls_optimizer_release(b->optimizer);
  ls_graph_destroy(b->graph);
  ls_strategy_release(b->strategy);
}

TEST(a_step_moves_each_component_once) {
  LS_SPEC("M168");
  built b;
  build(&b);
  assert_int_equal(b.own.batches, 1);
  assert_int_equal(b.own.last_op, LS_REDUCE_SUM);
  assert_string_equal(b.own.last_variable, "w");
  ls_session *session = session_of(b.graph);
  ls_nest out = session_results(session, ls_nest_op(b.init));
  double w = 3, m = 0, v = 0;
  for (int t = 1; t <= 3; ++t) {
    expect_ok(ls_session_run(session, ls_nest_op(b.train), NULL, 0, &out));
    const double g = 6;  // 1 + 2, doubled by the table.
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    w -= 0.5 * (m / (1 - pow(0.9, t))) / (sqrt(v / (1 - pow(0.999, t))) + 1e-8);
    for (size_t i = 0; i < 2; ++i) {
      ls_variable *slot = NULL, *component = ls_variable_component(b.w, i);
      expect_ok(ls_optimizer_slot(b.optimizer, component, "m", &slot));
      assert_true(fabs(session_number(session, component) - w) < 1e-4);
      assert_true(fabs(session_number(session, slot) - m) < 1e-4);
      assert_true(session_number(session,
                                 ls_variable_component(b.global_step, i)) == t);
    }
  }
  ls_nest_release(out);
  ls_session_destroy(session);
  unbuild(&b);
}

TEST(slots_are_beside_their_variables) {
  LS_SPEC("M168");
  built b;
  build(&b);
  ls_variable *slot = NULL;
  expect_ok(ls_optimizer_slot(b.optimizer, b.w, "v", &slot));
  assert_string_equal(ls_variable_name(slot), "w/v");
  assert_int_equal(ls_variable_num_components(slot), 2);
  static const char *const names[] = {"w/v", "w/v/replica_1"};
  for (size_t i = 0; i < 2; ++i) {
    ls_variable *component = ls_variable_component(b.w, i);
    expect_ok(ls_optimizer_slot(b.optimizer, component, "v", &slot));
    assert_string_equal(ls_variable_name(slot), names[i]);
    assert_string_equal(ls_variable_device(slot),
                        ls_variable_device(component));
  }
  expect_status(ls_optimizer_slot(b.optimizer, b.w, "x", &slot), LS_NOT_FOUND,
                "no slot 'x' of variable 'w'");
  assert_null(slot);
  unbuild(&b);
}

static size_t num_ops_under(const ls_graph *graph, const char *scope) {
  size_t found = 0;
  for (size_t i = 0; i < ls_graph_num_ops(graph); ++i)
    found +=
        strncmp(ls_op_name(ls_graph_op(graph, i)), scope, strlen(scope)) == 0;
  return found;
}

TEST(updates_are_named_after_replica_and_component) {
  LS_SPEC("M168");
  built b;
  build(&b);
  assert_true(num_ops_under(b.graph, "adam/update_0/update_w/") > 3);
  assert_true(num_ops_under(b.graph, "adam/update_1/update_w/replica_1/") > 3);
  assert_int_equal(num_ops_under(b.graph, "adam/update_1/update_w/"),
                   num_ops_under(b.graph, "adam/update_1/update_w/replica_1/"));
  ls_nest ops[4];
  assert_int_equal(ls_graph_collection(b.graph, LS_COLLECTION_TRAIN_OP, ops, 4),
                   1);
  assert_int_equal(ops[0].kind, LS_KIND_OP);
  assert_int_equal(ops[0].as.op.id, b.train.id);
  unbuild(&b);
}
