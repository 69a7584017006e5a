// SPDX-License-Identifier: Apache-2.0
//
// Results: what is one value is one array, and arrays that nobody else holds
// are filled again.
#include "lockstep/allocator.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/replicas.h"
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
