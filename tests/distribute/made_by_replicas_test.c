// SPDX-License-Identifier: Apache-2.0
//
// What replicas make in a run: variables they share, ops of each.
#include "lockstep/strategy.h"

#include <math.h>
#include <stdio.h>

#include "distribute/own.h"
#include "distribute/replicas/rounds.h"
#include "lockstep/function_plan.h"
#include "lockstep/graph.h"
#include "nn/own.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

// ---- Variables that replicas make ------------------------------------------
typedef struct made_variables {
  ls_variable *got[3][2];
  const char *extra;  // What replica 1 asks for besides.
  bool other_shape;
  int creations;
} made_variables;

static ls_nest make_variables(ls_nest args, void *user) {
  made_variables *m = user;
  const int r = ls_replica_number();
  (void)args;
  static const char *const names[3][2] = {
      {"foo_0", "bar"}, {"foo_1", "bar_3"}, {"foo", "bar"}};
  ls_status status = ls_ok();
  for (int i = 0; i < 2 && ls_status_is_ok(status); ++i) {
    ls_variable_options options = {.name = names[r][i], .dtype = LS_DTYPE_F32};
    if (m->other_shape && r == 1) options.shape = LS_SHAPE(7);
    status = ls_variable_create(&options, &m->got[r][i]);
  }
  if (ls_status_is_ok(status) && r == 1 && m->extra != NULL) {
    LS_OWN(ls_variable, more) = NULL;
    status = ls_variable_create(
        &(ls_variable_options){.name = m->extra, .dtype = LS_DTYPE_F32}, &more);
  }
  return ls_status_is_ok(status) ? ls_none() : ls_fail(status);
}

static void release_made(made_variables *m) {
  for (int r = 0; r < 3; ++r)
    for (int i = 0; i < 2; ++i)
      ls_variable_release(m->got[r][i]);
}
LS_OWNED_STRUCT(made_variables, release_made)

TEST(replicas_share_what_they_make) {
  LS_SPEC("V170 M54 M57 M58");
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  LS_OWN(ls_variable, before) = NULL;
  for (int again = 0; again < 2; ++again) {
    LS_OWN(made_variables, m) = {.extra = NULL};
    {
      LS_STRATEGY_SCOPE(strategy);
      {
        LS_CREATOR_SCOPE(count_creation, &m.creations);
        ls_nest_release(run_on(strategy, make_variables, ls_none(), &m));
      }
    }
    assert_int_equal(m.creations, 2);  // Replica 0's.
    for (int i = 0; i < 2; ++i) {
      assert_int_equal(ls_variable_num_components(m.got[0][i]), 3);
      assert_ptr_equal(m.got[1][i], m.got[0][i]);
      assert_ptr_equal(m.got[2][i], m.got[0][i]);
    }
    assert_string_equal(ls_variable_name(m.got[0][0]), "foo_0");
    // The next run starts anew.
    assert_ptr_not_equal(m.got[0][0], before);
    ls_variable_release(before);
    before = ls_variable_retain(m.got[0][0]);
  }
}

// ---- Optimizers that replicas make -----------------------------------------
// Makes an optimizer whose count of steps is no variable of the strategy.
static ls_nest train_with_own(ls_nest args, void *user) {
  ls_variable *variable = user;
  LS_OWN(ls_optimizer, adam) = NULL;
  (void)args;
  LS_RETURN_FAILED_IF_ERROR(
      ls_adam_create(&(ls_adam_options){.learning_rate = 0.5}, &adam));
  const ls_tensor w = ls_variable_read(variable);
  (void)ls_optimizer_minimize(adam, ls_square(w));
  return ls_leaf(w);
}

TEST(traced_replicas_share_an_optimizers_count) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_array, two) = array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){2});
  LS_OWN(ls_variable, variable) = NULL;
  LS_OWN(ls_function, function) = NULL;
  LS_OWN(ls_nest, results) = ls_none();
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(&(ls_variable_options){.name = "w",
                                                        .dtype = LS_DTYPE_F32,
                                                        .initial_array = two},
                                 &variable));
  }
  expect_ok(ls_function_create(
      &(ls_function_options){.call = train_with_own, .user = variable},
      &function));
  for (int i = 0; i < 3; ++i)
    expect_ok(
        ls_strategy_run(strategy, ls_traced(function), ls_none(), &results));
  // Two steps of Adam by 0.5 each, whatever the size of the gradient.
  for (size_t r = 0; r < 2; ++r) {
    const ls_array *w = ls_nest_as_array(ls_distributed_component(results, r));
    assert_true(fabs(ls_array_f64(w, 0) - 1) < 0.02);
  }
}

// Adds the replica's number to a variable that it makes, of which each has its
// own after the first call.
static ls_nest add_own(ls_nest args, void *user) {
  int *calls = user;
  LS_OWN(ls_variable, sum) = NULL;
  (void)args;
  ++*calls;
  LS_RETURN_FAILED_IF_ERROR(ls_variable_create(
      &(ls_variable_options){.name = "sum",
                             .dtype = LS_DTYPE_F32,
                             .trainable = LS_FLAG_OFF,
                             .synchronization = LS_SYNCHRONIZATION_ON_READ,
                             .aggregation = LS_AGGREGATION_SUM},
      &sum));
  return ls_leaf(
      ls_variable_assign_add(sum, ls_convert(ls_replica_id(), LS_DTYPE_F32)));
}

TEST(traced_replicas_keep_what_they_make) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_function, function) = NULL;
  LS_OWN(ls_nest, results) = ls_none();
  int calls = 0;
  expect_ok(ls_function_create(
      &(ls_function_options){.call = add_own, .user = &calls}, &function));
  for (int i = 1; i <= 3; ++i) {
    expect_ok(
        ls_strategy_run(strategy, ls_traced(function), ls_none(), &results));
    for (size_t r = 0; r < 2; ++r)
      assert_true(
          ls_array_f64(ls_nest_as_array(ls_distributed_component(results, r)),
                       0) == (double)i * (double)r);
  }
  assert_int_equal(calls, 2);
}

// An allocator that clears a function in the middle of a call.
typedef struct clearing {
  ls_allocator allocator;
  ls_function *function;
  int countdown;  // Requests left until it does; 0: never.
} clearing;

static void *clearing_allocate(ls_allocator *allocator, size_t size,
                               size_t alignment) {
  clearing *self = (clearing *)allocator;
  ls_allocator *system = ls_allocator_system();
  if (self->countdown > 0 && --self->countdown == 0)
    ls_function_clear(self->function);
  return system->allocate(system, size, alignment);
}

static void clearing_release(ls_allocator *allocator, void *memory) {
  (void)allocator;
  ls_allocator_system()->release(ls_allocator_system(), memory);
}

// Calls a function that is lowered again in its second call, and cleared at the
// nth request for memory of that call. Returns false if there are fewer.
static bool clear_at(int nth) {
  clearing memory = {{clearing_allocate, clearing_release}, NULL, 0};
  ls_runtime *runtime = NULL, *outside = ls_runtime_current();
  int calls = 0;
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.allocator = &memory.allocator, .threads = 1},
      &runtime));
  ls_runtime_make_current(runtime);
  {
    LS_OWN(ls_strategy, strategy) = mirrored_of(2);
    LS_OWN(ls_nest, results) = ls_none();
    expect_ok(ls_function_create(
        &(ls_function_options){.call = add_own, .user = &calls},
        &memory.function));
    const ls_callable traced = ls_traced(memory.function);
    expect_ok(ls_strategy_run(strategy, traced, ls_none(), &results));
    memory.countdown = nth;
    expect_ok(ls_strategy_run(strategy, traced, ls_none(), &results));
    nth = memory.countdown;
    memory.countdown = 0;
    // Nothing is left of what was cleared.
    const ls_graph *graph = ls_function_graph(memory.function);
    if (nth == 0 && calls == 2) assert_null(graph);
    expect_ok(ls_strategy_run(strategy, traced, ls_none(), &results));
    assert_int_equal(calls, nth == 0 ? 4 : 2);
    ls_function_release(memory.function);
  }
  ls_runtime_make_current(outside);
  expect_ok(ls_runtime_destroy(runtime));
  return nth == 0;
}

TEST(a_trace_made_of_a_cleared_one_goes_with_it) {
  int nth = 1;
  while (clear_at(nth))
    ++nth;
  assert_in_range(nth, 50, 100000);
}

TEST(a_variable_only_one_replica_makes_is_refused) {
  LS_SPEC("V170 M56 M57");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_nest made = ls_none();
  LS_OWN(made_variables, m) = {.extra = "only_here"};
  const ls_status status =
      ls_strategy_run(strategy, ls_plain(make_variables, &m), ls_none(), &made);
  expect_contains(ls_status_message(status), "'only_here'");
  expect_contains(ls_status_message(status), "CPU:1");
  expect_status(status, LS_FAILED_PRECONDITION, "replica 1");
  release_made(&m);
  m = (made_variables){.extra = "bar_7"};  // A second "bar".
  expect_status(
      ls_strategy_run(strategy, ls_plain(make_variables, &m), ls_none(), &made),
      LS_FAILED_PRECONDITION, "'bar_7'");
  release_made(&m);
  m = (made_variables){.other_shape = true};
  expect_status(
      ls_strategy_run(strategy, ls_plain(make_variables, &m), ls_none(), &made),
      LS_INVALID_ARGUMENT, "f32[7]");
}

TEST(numbers_behind_names_do_not_count) {
  LS_SPEC("M55");
  static const char *const cases[][2] = {
      {"Variable", "Variable"}, {"foo_1/bar_1/baz", "foo/bar/baz"},
      {"foo_1", "foo"},         {"foo_12/bar_345", "foo/bar"},
      {"foo_1:0", "foo_1:0"},   {"foo1", "foo1"},
      {"foo_a", "foo_a"},       {"a_1_2", "a_1"},
      {"foo_", "foo_"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); ++i) {
    char got[40];
    ls_canonical_variable_name(cases[i][0], got);
    assert_string_equal(got, cases[i][1]);
  }
}

// ---- In a graph ------------------------------------------------------------
typedef struct built {
  ls_strategy *strategy;
  ls_op merged, beside;
  ls_op controls[2];
} built;

static ls_nest merge_named(ls_strategy *s, ls_nest args, void *user) {
  built *b = user;
  (void)s;
  const ls_nest parts = ls_nest_item(args, 0);
  const ls_tensor c = ls_identity_named(
      ls_nest_tensor(ls_distributed_component(parts, 0), 0), "c");
  b->merged = ls_tensor_op(c);
  b->beside = ls_tensor_op(ls_scalar(LS_DTYPE_F32, 1));
  return ls_leaf(c);
}

static ls_nest build_named(ls_nest args, void *user) {
  built *b = user;
  const int r = ls_replica_number();
  ls_nest merged = ls_none();
  (void)args;
  const ls_tensor x = ls_identity_named(ls_scalar(LS_DTYPE_F32, r), "x");
  b->controls[r] = ls_tensor_op(x);
  {
    LS_NAME_SCOPE("foo");
    {
      LS_CONTROL_SCOPE(&b->controls[r], 1);
      LS_OWN(ls_nest, given) = LS_TUPLE(ls_leaf(x));
      merged =
          ls_replica_merge_call(ls_replica_context(), merge_named, given, b);
    }
  }
  return LS_TUPLE(ls_leaf(x), merged);
}

TEST(ops_are_named_and_placed_by_replica) {
  LS_SPEC("V171 V178 M159 M160");
  built b = {.strategy = mirrored_of(2)};
  ls_nest made = ls_none();
  ls_graph *graph = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    {
      LS_NAME_SCOPE("main");
      expect_ok(ls_strategy_run(b.strategy, ls_plain(build_named, &b),
                                ls_none(), &made));
    }
    const ls_nest x = ls_nest_item(made, 0);
    static const char *const names[] = {"main/x", "main/replica_1/x"};
    for (size_t r = 0; r < 2; ++r) {
      const ls_op op =
          ls_tensor_op(ls_nest_tensor(ls_distributed_component(x, r), 0));
      char device[80];
      snprintf(device, sizeof(device),
               "/job:localhost/replica:0/task:0/device:CPU:%zu", r);
      assert_string_equal(ls_op_name(op), names[r]);
      assert_string_equal(ls_op_device(op), device);
    }
    assert_string_equal(ls_op_name(b.merged), "main/foo/c");
    assert_int_equal(ls_op_num_control_inputs(b.beside), 2);
    for (size_t i = 0; i < 2; ++i)
      assert_int_equal(ls_op_control_input(b.beside, i).id, b.controls[i].id);
    // Replica 0's is its operand.
    assert_int_equal(ls_op_num_control_inputs(b.merged), 1);
    assert_int_equal(ls_op_control_input(b.merged, 0).id, b.controls[1].id);
    ls_nest_release(made);
    // Without a scope around it is the replica's alone.
    made = ls_none();
    expect_ok(ls_strategy_run(b.strategy, ls_plain(build_named, &b), ls_none(),
                              &made));
    assert_string_equal(ls_op_name(b.controls[1]), "replica_1/x");
  }
  ls_nest_release(made);
  ls_graph_destroy(graph);
  ls_strategy_release(b.strategy);
}
