// SPDX-License-Identifier: Apache-2.0
//
// How much of something there can be: results and operands of an op, graphs
// that lie in graphs. What is too much is refused by a status, on the small
// stack of a fiber too.
#include "base/threads/fiber.h"
#include "graph/graph.h"
#include "lockstep/gradients.h"
#include "lockstep/ops.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/attrs.h"
#include "support/counted.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/sanitizer.h"
#include "support/values.h"

// ---- Results ---------------------------------------------------------------
// What is too wide for its type is seen without sanitizers.
enum { REPLICAS = LS_SANITIZED ? 128 : 1024, RESULTS = 65 };

static ls_nest many_results(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_reduce_sum(ls_nest_tensor(args, 0), LS_ALL_AXES);
  ls_nest items[RESULTS];
  for (int i = 0; i < RESULTS; ++i)
    items[i] = ls_leaf(ls_add_scalar(x, i));
  return ls_nest_sequence(LS_KIND_LIST, items, RESULTS);
}

TEST(replicas_may_give_more_results_than_16_bits_count) {
  double values[REPLICAS];
  for (int r = 0; r < REPLICAS; ++r)
    values[r] = r;
  LS_OWN(ls_nest, args) = LS_LIST(
      split_of(REPLICAS, array_of(LS_DTYPE_F32, LS_SHAPE(REPLICAS), values)));
  LS_OWN(ls_nest, results) = call_on(REPLICAS, many_results, NULL, args, 1);
  for (size_t i = 0; i < RESULTS; ++i)
    for (size_t r = 0; r < REPLICAS; r += 93)
      assert_float_equal(
          number_of(ls_distributed_component(ls_nest_item(results, i), r)),
          (double)(r + i), 0);
}

// ---- Operands --------------------------------------------------------------
enum { OPERANDS = 20 };

static ls_tensor broadcast_by_many(ls_tensor x) {
  ls_tensor inputs[OPERANDS];
  for (int i = 0; i < OPERANDS; ++i)
    inputs[i] = x;
  const ls_size size = {.operand = 1, .value = 0};
  const ls_attr sizes = LS_ATTR_SZ("sizes", &size, 1);
  return ls_op_output(ls_op_add(&(ls_op_spec){.type = LS_OP_BROADCAST,
                                              .inputs = inputs,
                                              .num_inputs = OPERANDS,
                                              .attrs = &sizes,
                                              .num_attrs = 1}),
                      0);
}

static ls_nest many_operands(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(broadcast_by_many(ls_nest_tensor(args, 0)));
}

TEST(operands_without_a_size_are_refused) {
  const double values[] = {1, 2, 3};
  static const char message[] =
      "broadcast takes 1 operands, or one more for each size, got 20";
  // Op by op.
  expect_ok(ls_frame_begin());
  const ls_tensor eager =
      broadcast_by_many(eager_of(LS_DTYPE_F32, LS_SHAPE(3), values));
  expect_status(ls_tensor_status(eager), LS_INVALID_ARGUMENT, message);
  expect_ok(ls_frame_end(NULL));
  // In a graph.
  ls_scope scope = {0};
  ls_graph *graph = graph_named("many");
  ls_graph_begin(&scope, graph);
  broadcast_by_many(ls_scalar(LS_DTYPE_F32, 1));
  ls_scope_end(&scope);
  expect_status(ls_graph_take_error(graph), LS_INVALID_ARGUMENT, message);
  ls_graph_destroy(graph);
  // Traced.
  ls_nest result = ls_none();
  LS_OWN(ls_nest, args) =
      LS_LIST(ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(3), values)));
  LS_OWN(ls_function, function) = unnamed_function(many_operands, NULL);
  expect_status(ls_function_call(function, args, &result), LS_INVALID_ARGUMENT,
                message);
}

// ---- Graphs in graphs ------------------------------------------------------
// The first four of eight cases are on a thread's stack, the others on a
// fiber's, which says all to a sanitizer.
enum { FIRST_STACK = LS_SANITIZED ? 4 : 0 };

// Loops or branches in one another: how many, and how many are left.
typedef struct nested {
  int depth, left;
  bool branches, differentiates;
} nested;

static ls_nest holds(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(ls_less(values.as.tensor, ls_scalar(LS_DTYPE_F32, 100)));
}

static ls_nest inner_of(ls_nest values, void *user);

static ls_nest branch_of(ls_nest none, void *user) {
  (void)none;
  return inner_of(ls_leaf(ls_scalar(LS_DTYPE_F32, 1)), user);
}

static ls_nest inner_of(ls_nest values, void *user) {
  nested *self = user;
  if (self->left == 0) return ls_leaf(ls_mul_scalar(values.as.tensor, 2));
  --self->left;
  const ls_nest made =
      self->branches
          ? ls_cond(ls_less(values.as.tensor, ls_scalar(LS_DTYPE_F32, 100)),
                    branch_of, branch_of, self)
          : ls_while(holds, inner_of, self, ls_nest_retain(values), 1);
  if (self->branches) self->left = 0;  // The other branch is no tree.
  return made;
}

static ls_nest nested_call(ls_nest args, void *user) {
  nested *self = user;
  self->left = self->depth;
  const ls_nest x = ls_leaf(ls_nest_tensor(args, 0));
  const ls_nest y = inner_of(x, self);
  if (!self->differentiates) return y;
  ls_nest dx = {0};
  const ls_status status = ls_gradients(&y, 1, &x, 1, NULL, &dx);
  ls_nest_release(y);
  return ls_status_is_ok(status) ? dx : ls_fail(status);
}

static ls_status call_nested(nested *self) {
  const double one = 1;
  LS_OWN(ls_function, function) = NULL;
  LS_OWN(ls_nest, result) = ls_none();
  LS_OWN(ls_nest, args) =
      LS_LIST(ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, &one)));
  ls_status status = ls_function_create(
      &(ls_function_options){.call = nested_call, .user = self}, &function);
  if (ls_status_is_ok(status))
    status = ls_function_call(function, args, &result);
  if (ls_status_is_ok(status)) assert_float_equal(number_of(result), 2, 0);
  return status;
}

typedef struct on_fiber {
  nested *of;
  ls_status status;
} on_fiber;

static void call_on_fiber(void *user) {
  on_fiber *self = user;
  self->status = call_nested(self->of);
}

static ls_status call_nested_on_fiber(nested *self) {
  ls_fiber_pool *pool = NULL;
  ls_fiber *fiber = NULL;
  on_fiber call = {.of = self};
  expect_ok(ls_fiber_pool_create(ls_allocator_system(), &pool));
  expect_ok(ls_fiber_create(pool, call_on_fiber, &call, &fiber));
  expect_ok(ls_fiber_resume(fiber));
  assert_true(ls_fiber_is_done(fiber));
  ls_fiber_destroy(fiber);
  ls_fiber_pool_destroy(pool);
  return call.status;
}

// The function is one of them.
TEST(graphs_lie_in_graphs_as_deep_as_is_said) {
  for (int i = FIRST_STACK; i < 8; ++i) {
    nested of = {.depth = LS_MAX_GRAPH_DEPTH - 1,
                 .branches = i % 2 != 0,
                 .differentiates = i / 2 % 2 != 0};
    if (of.branches && of.differentiates) continue;  // Of a constant.
    expect_ok(i < 4 ? call_nested(&of) : call_nested_on_fiber(&of));
  }
}

TEST(deeper_graphs_are_refused) {
  static const int depths[] = {LS_MAX_GRAPH_DEPTH, 5000};
  for (int i = FIRST_STACK; i < 8; ++i) {
    nested of = {.depth = depths[i % 2], .branches = i / 2 % 2 != 0};
    expect_status(i < 4 ? call_nested(&of) : call_nested_on_fiber(&of),
                  LS_UNIMPLEMENTED, "at most 64 are possible");
  }
}

// ---- Constants -------------------------------------------------------------
static ls_nest plus_constant(ls_nest args, void *user) {
  return ls_leaf(ls_add(ls_nest_tensor(args, 0),
                        ls_reduce_sum(ls_constant(user), LS_ALL_AXES)));
}

// Beside the array there is the program's own copy, and no text.
TEST(a_large_constant_is_copied_once) {
  enum { COUNT = 1 << 21 };
  const double one = 1;
  LS_OWN(counted, memory) = counted_begin(1);
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(COUNT), &array));
  for (int i = 0; i < COUNT; ++i)
    ((float *)ls_array_mutable_data(array))[i] = 1;
  LS_OWN(ls_nest, args) =
      LS_LIST(ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, &one)));
  LS_OWN(ls_function, function) = unnamed_function(plus_constant, array);
  const uint64_t before = counted_now(&memory).live_bytes;
  LS_OWN(ls_nest, result) = call_results(function, args);
  assert_float_equal(number_of(result), COUNT + 1, 0);
  const uint64_t peak = counted_now(&memory).peak_bytes - before;
  if (peak > COUNT * sizeof(float) * 5 / 4)
    fail_msg("%llu bytes for a constant of %zu", (unsigned long long)peak,
             COUNT * sizeof(float));
}
