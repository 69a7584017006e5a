// SPDX-License-Identifier: Apache-2.0
//
// Results: what is one value is one array, and arrays that nobody else holds
// are filled again.
#include "distribute/own.h"
#include "lockstep/allocator.h"
#include "lockstep/function_plan.h"
#include "lockstep/session.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/tpu_strategies.h"
#include "support/values.h"

enum { REPLICAS = 5, SIZE = 1 << 16 };

// Gives what is the same on all replicas twice, and what differs.
static ls_nest step(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor sum =
      ls_all_reduce(LS_REDUCE_SUM, ls_reduce_sum(x, LS_AXES(0)));
  return LS_TUPLE(ls_leaf(sum), ls_leaf(sum),
                  ls_leaf(ls_add(ls_reduce_mean(x, LS_AXES(0)), sum)));
}

// A function and the parts of its batch.
typedef struct fixture {
  ls_strategy *strategy;
  ls_function *function;
  ls_nest args, results;
} fixture;

static void set_up(fixture *self, int64_t rows) {
  *self = (fixture){.strategy = mirrored_of(REPLICAS)};
  ls_nest parts = ls_none();
  ls_array *x = array_of_numbers(LS_DTYPE_F32, LS_SHAPE(rows, SIZE), 1);
  expect_ok(ls_strategy_split(self->strategy, x, &parts));
  ls_array_release(x);
  self->args = LS_TUPLE(parts);
  expect_ok(ls_function_create(&(ls_function_options){.call = step},
                               &self->function));
}

static void call(fixture *self) {
  expect_ok(ls_strategy_run(self->strategy, ls_traced(self->function),
                            self->args, &self->results));
}

static void tear_down(fixture *self) {
  ls_nest_release(self->results);
  ls_nest_release(self->args);
  ls_function_release(self->function);
  ls_strategy_release(self->strategy);
}

static ls_array *component(const fixture *self, size_t leaf, size_t replica) {
  const ls_nest item = ls_nest_item(self->results, leaf);
  assert_int_equal(ls_distributed_count(item), REPLICAS);
  return ls_nest_as_array(ls_distributed_component(item, replica));
}

static void expect_shared(const fixture *self) {
  ls_array *sum = component(self, 0, 0);
  for (size_t r = 0; r < REPLICAS; ++r) {
    assert_ptr_equal(component(self, 0, r), sum);
    assert_ptr_equal(component(self, 1, r), sum);
    for (size_t k = 0; k < r; ++k)
      assert_ptr_not_equal(component(self, 2, r), component(self, 2, k));
  }
}

TEST(what_all_replicas_share_is_one_array) {
  for (int64_t rows = REPLICAS; rows <= REPLICAS + 2; rows += 2) {
    fixture f;
    set_up(&f, rows);
    call(&f);
    expect_shared(&f);
    const void *sum = ls_array_data(component(&f, 0, 0));
    const void *last = ls_array_data(component(&f, 2, REPLICAS - 1));
    for (int i = 0; i < 3; ++i)
      call(&f);
    expect_shared(&f);
    assert_ptr_equal(ls_array_data(component(&f, 0, 3)), sum);
    assert_ptr_equal(ls_array_data(component(&f, 2, REPLICAS - 1)), last);
    tear_down(&f);
  }
}

// The second step has another batch.
TEST(what_somebody_holds_keeps_its_values) {
  fixture f, other;
  set_up(&f, REPLICAS);
  call(&f);
  ls_array *held = ls_array_retain(component(&f, 0, 2));
  const double before = ls_array_f64(held, 7);
  set_up(&other, 2 * REPLICAS);
  ls_nest args = f.args;
  f.args = other.args;
  call(&f);
  assert_ptr_not_equal(component(&f, 0, 0), held);
  assert_true(ls_array_f64(component(&f, 0, 0), 7) != before);
  assert_true(ls_array_f64(held, 7) == before);
  ls_array_release(held);
  // So it is if the nest is held, or a part of it.
  for (int whole = 0; whole < 2; ++whole) {
    LS_OWN(ls_nest, nest) =
        ls_nest_retain(whole ? f.results : ls_nest_item(f.results, 0));
    const ls_array *array = component(&f, 0, 0);
    call(&f);
    assert_ptr_not_equal(component(&f, 0, 0), array);
  }
  f.args = args;
  tear_down(&f);
  tear_down(&other);
}

TEST(one_copy_is_all_that_is_taken) {
  ls_counting_allocator *memory = NULL;
  ls_runtime *runtime = NULL;
  fixture f;
  expect_ok(ls_counting_allocator_create(NULL, &memory));
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){
          .allocator = ls_counting_allocator_allocator(memory), .threads = 1},
      &runtime));
  ls_runtime *outside = ls_runtime_make_current(runtime);
  set_up(&f, REPLICAS);
  call(&f);
  // Results that are made anew: a sum, and one of each replica.
  const uint64_t with = ls_counting_allocator_counts(memory).live_bytes;
  ls_nest_release(f.results);
  f.results = ls_none();
  const uint64_t without = ls_counting_allocator_counts(memory).live_bytes;
  const uint64_t value = SIZE * sizeof(float);
  assert_in_range(with - without, (1 + REPLICAS) * value,
                  (1 + REPLICAS) * value + 8192);
  call(&f);
  const uint64_t requests = ls_counting_allocator_counts(memory).allocations;
  for (int i = 0; i < 5; ++i)
    call(&f);
  assert_int_equal(ls_counting_allocator_counts(memory).allocations, requests);
  tear_down(&f);
  ls_runtime_make_current(outside);
  expect_ok(ls_runtime_destroy(runtime));
  ls_counting_allocator_destroy(memory);
}

TEST(a_fetch_given_twice_is_one_array) {
  ls_tensor a = ls_failed_tensor(), b = ls_failed_tensor();
  LS_OWN(ls_graph, graph) = graph_named("twice");
  {
    LS_GRAPH_SCOPE(graph);
    a = ls_scalar(LS_DTYPE_F32, 3);
    b = ls_add_scalar(a, 1);
  }
  LS_OWN(ls_session, session) = session_of(graph);
  LS_OWN(ls_nest, results) = ls_none();
  LS_OWN(ls_nest, fetches) = LS_TUPLE(ls_leaf(b), ls_leaf(a), ls_leaf(b));
  for (int i = 0; i < 2; ++i) {
    expect_ok(ls_session_run(session, fetches, NULL, 0, &results));
    ls_array *const arrays[] = {ls_nest_as_array(ls_nest_item(results, 0)),
                                ls_nest_as_array(ls_nest_item(results, 1)),
                                ls_nest_as_array(ls_nest_item(results, 2))};
    assert_ptr_equal(arrays[0], arrays[2]);
    assert_true(ls_array_f64(arrays[0], 0) == 4);
    assert_true(ls_array_f64(arrays[1], 0) == 3);
  }
}

// ---- Results among the inputs ----------------------------------------------
static ls_nest turn(ls_nest args, void *user) {
  (void)user;
  return LS_TUPLE(
      ls_leaf(ls_transpose(ls_nest_tensor(args, 0), (int[]){1, 0})));
}

static ls_array *square(void) {
  return array_of(LS_DTYPE_F32, LS_SHAPE(3, 3),
                  (double[]){1, 2, 3, 4, 5, 6, 7, 8, 9});
}

// Expects the square, or its transpose after an odd number of turns.
static void expect_turned(const ls_array *got, int turns) {
  for (int row = 0; row < 3; ++row)
    for (int column = 0; column < 3; ++column)
      assert_true(ls_array_f64(got, 3 * row + column) ==
                  (turns % 2 == 0 ? 3 * row + column : 3 * column + row) + 1);
}

// Turns a state in place, by the strategy or as a plain call.
static void turn_state(ls_strategy *strategy, ls_function *function) {
  LS_OWN(ls_nest, state) = LS_TUPLE(ls_nest_array(square()));
  for (int i = 1; i <= 3; ++i) {
    expect_ok(strategy != NULL ? ls_strategy_run(strategy, ls_traced(function),
                                                 state, &state)
                               : ls_function_call(function, state, &state));
    expect_turned(ls_nest_as_array(ls_nest_item(state, 0)), i);
  }
}

TEST(a_call_whose_results_hold_its_arguments_reads_them_first) {
  LS_OWN(ls_function, function) = function_of(turn, NULL);
  LS_OWN(ls_function, concrete) = NULL;
  LS_OWN(ls_strategy, mirrored) = mirrored_of(1);
  LS_OWN(ls_strategy, cores) = tpu_strategy_of(1);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(square()));
  expect_ok(ls_function_make_concrete(function, args, &concrete));
  turn_state(NULL, function);
  turn_state(NULL, concrete);
  turn_state(ls_strategy_current(), function);
  turn_state(mirrored, function);
  turn_state(cores, function);
}

TEST(a_run_reads_feeds_of_its_results_first) {
  LS_OWN(ls_graph, graph) = graph_named("feeds");
  ls_tensor x = ls_failed_tensor(), y = ls_failed_tensor();
  {
    LS_GRAPH_SCOPE(graph);
    x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(3, 3), "x");
    y = ls_transpose(x, (int[]){1, 0});
  }
  LS_OWN(ls_session, session) = session_of(graph);
  LS_OWN(ls_nest, results) = ls_nest_array(square());
  for (int i = 1; i <= 4; ++i) {
    ls_array *fed = ls_nest_as_array(results);
    LS_OWN(ls_array, view) = NULL;
    expect_ok(ls_array_create_view(LS_DTYPE_F32, LS_SHAPE(3, 3),
                                   ls_array_mutable_data(fed), NULL, NULL,
                                   &view));
    const ls_feed feed = {x, i % 2 == 0 ? view : fed};
    expect_ok(ls_session_run(session, ls_leaf(y), &feed, 1, &results));
    expect_turned(ls_nest_as_array(results), i);
  }
}

// The result is a view inside of the memory that is fed.
TEST(a_run_reads_the_feed_around_its_result_first) {
  LS_OWN(ls_graph, graph) = graph_named("around");
  ls_tensor x = ls_failed_tensor(), y = ls_failed_tensor();
  {
    LS_GRAPH_SCOPE(graph);
    x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(3), "x");
    y = ls_reduce_sum(x, LS_AXES(0));
  }
  LS_OWN(ls_session, session) = session_of(graph);
  LS_OWN(ls_array, fed) =
      array_of(LS_DTYPE_F32, LS_SHAPE(3), (double[]){1, 2, 3});
  ls_array *last = NULL;
  expect_ok(ls_array_create_view(LS_DTYPE_F32, LS_SCALAR,
                                 (float *)ls_array_mutable_data(fed) + 2, NULL,
                                 NULL, &last));
  LS_OWN(ls_nest, results) = ls_nest_array(last);
  expect_ok(
      ls_session_run(session, ls_leaf(y), &(ls_feed){x, fed}, 1, &results));
  assert_true(number_of(results) == 6 && ls_array_f64(fed, 2) == 3);
}

TEST(fetches_with_an_op_are_filled_in_place) {
  ls_tensor loss = ls_failed_tensor();
  LS_OWN(ls_graph, graph) = graph_named("train");
  {
    LS_GRAPH_SCOPE(graph);
    loss = ls_add_scalar(ls_scalar(LS_DTYPE_F32, 3), 1);
  }
  LS_OWN(ls_session, session) = session_of(graph);
  LS_OWN(ls_nest, results) = ls_none();
  LS_OWN(ls_nest, fetches) =
      LS_TUPLE(ls_leaf(loss), ls_nest_op(ls_tensor_op(loss)));
  expect_ok(ls_session_run(session, fetches, NULL, 0, &results));
  const ls_array *first = ls_nest_as_array(ls_nest_item(results, 0));
  const void *nest = results.as.ref;
  expect_ok(ls_session_run(session, fetches, NULL, 0, &results));
  assert_ptr_equal(results.as.ref, nest);
  assert_ptr_equal(ls_nest_as_array(ls_nest_item(results, 0)), first);
}

// ---- Devices ---------------------------------------------------------------
static ls_nest on_devices(const char *second) {
  const ls_nest items[] = {
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){1})),
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){2}))};
  return LS_TUPLE(ls_nest_distributed_on(
      LS_PER_REPLICA, items, (const char *const[]){"/device:CPU:0", second},
      2));
}

static ls_nest give_back(ls_nest args, void *out_device) {
  const ls_nest value = ls_nest_item(args, 0);
  *(char *)out_device = ls_distributed_device(value, 1)[strlen("/device:CPU:")];
  return ls_nest_retain(value);
}

TEST(a_distributed_value_keeps_its_devices_through_a_traced_function) {
  char device = 0;
  LS_OWN(ls_function, function) = function_of(give_back, &device);
  LS_OWN(ls_nest, results) = ls_none();
  for (int i = 1; i <= 4; ++i) {
    const char wanted = i <= 2 ? '1' : '2';
    LS_OWN(ls_nest, args) =
        on_devices(i <= 2 ? "/device:CPU:1" : "/device:CPU:2");
    expect_ok(ls_function_call(function, args, &results));
    assert_int_equal(device, wanted);
    assert_int_equal(ls_distributed_device(results, 1)[strlen("/device:CPU:")],
                     wanted);
  }
  assert_int_equal(ls_function_num_traces(function), 2);
}

static ls_nest pair(ls_nest a, ls_nest b) {
  return ls_nest_distributed(LS_PER_REPLICA, (ls_nest[]){a, b}, 2);
}

static ls_nest give_components_of_all_kinds(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_nest twice = ls_leaf(ls_add(x, x)), square = ls_leaf(ls_mul(x, x));
  const ls_nest outputs[] = {square, pair(twice, ls_leaf(x))};
  return LS_LIST(pair(twice, ls_none()), pair(ls_none(), ls_none()),
                 pair(ls_nest_op(ls_tensor_op(x)), square),
                 ls_nest_distributed(LS_MAP_OUTPUT, outputs, 2), ls_leaf(x));
}

// Expects the kinds that components have in eager, too: x = 3.
static void expect_components_of_all_kinds(ls_nest results) {
  expect_printed(results,
                 "[PerReplica:{\n  0: f32[] 6,\n  1: none\n}, "
                 "PerReplica:{\n  0: none,\n  1: none\n}, "
                 "PerReplica:{\n  0: none,\n  1: f32[] 9\n}, "
                 "MapOutput:{\n  0: f32[] 9,\n  1: PerReplica:{\n"
                 "  0: f32[] 6,\n  1: f32[] 3\n}\n}, f32[] 3]");
}

TEST(components_of_all_kinds_are_results) {
  LS_SPEC("V11 V74 M81");
  LS_OWN(ls_function, function) =
      function_of(give_components_of_all_kinds, NULL);
  LS_OWN(ls_nest, args) = LS_TUPLE(
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){3})));
  LS_OWN(ls_nest, results) = ls_none();
  const ls_array *last = NULL;
  for (int i = 0; i < 3; ++i) {
    expect_ok(ls_function_call(function, args, &results));
    expect_components_of_all_kinds(results);
    const ls_array *array = ls_nest_as_array(ls_nest_item(results, 4));
    if (i > 0) assert_ptr_equal(array, last);  // Filled in place.
    last = array;
  }
  LS_OWN(ls_nest, held) =
      ls_nest_retain(ls_distributed_component(ls_nest_item(results, 3), 1));
  expect_ok(ls_function_call(function, args, &results));
  assert_ptr_not_equal(ls_nest_as_array(ls_nest_item(results, 4)), last);
  expect_components_of_all_kinds(results);
}
