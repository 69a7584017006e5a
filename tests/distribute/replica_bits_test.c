// SPDX-License-Identifier: Apache-2.0
//
// A replica computes what the same callback computes alone, and draws the same
// numbers in every way to run.
#include <string.h>

#include "distribute/own.h"
#include "lockstep/ops.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

enum { REPLICAS = 3, WIDTH = 4 };

// ---- Vectors ---------------------------------------------------------------
static ls_tensor numbers(uint32_t seed, ls_shape shape) {
  LS_OWN(ls_array, array) = array_of_numbers(LS_DTYPE_F32, shape, seed);
  return ls_constant(array);
}

static ls_tensor vector_of(uint32_t seed) {
  return numbers(seed, LS_SHAPE(WIDTH));
}

// Ops whose rows lie along the last dimension, of a vector x: its only row.
// Weights are square, so that the result is as long as x.
static ls_nest of_one_vector(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0), none = {0};
  const ls_tensor matrix = numbers(1, LS_SHAPE(WIDTH, WIDTH));
  const ls_tensor label = ls_scalar(LS_DTYPE_I32, 2);
  (void)user;
  return LS_LIST(ls_leaf(ls_dense(x, matrix, none, LS_ACTIVATION_NONE)),
                 ls_leaf(ls_dense(x, matrix, vector_of(2), LS_ACTIVATION_RELU)),
                 ls_leaf(ls_layer_norm(x, vector_of(3), vector_of(4), 0.1)),
                 ls_leaf(ls_rms_norm(x, vector_of(5), 0.1)),
                 ls_leaf(ls_batch_norm_inference(
                     x, vector_of(6), vector_of(7), vector_of(8),
                     ls_exp(vector_of(9)), 0.1, LS_ACTIVATION_NONE)),
                 ls_leaf(ls_softmax(x)), ls_leaf(ls_log_softmax(x)),
                 ls_leaf(ls_softmax_cross_entropy(x, label)),
                 ls_leaf(ls_softmax_cross_entropy_grad(
                     x, label, ls_scalar(LS_DTYPE_F32, 0.5))));
}

static ls_nest vectors_of(int replicas, uint32_t seed) {
  ls_nest parts[REPLICAS];
  for (int r = 0; r < replicas; ++r)
    parts[r] = ls_nest_array(
        array_of_numbers(LS_DTYPE_F32, LS_SHAPE(WIDTH), seed + (uint32_t)r));
  return LS_LIST(ls_nest_distributed(LS_PER_REPLICA, parts, (size_t)replicas));
}

static const ls_array *component_of(ls_nest leaf, size_t replica) {
  const bool many = ls_distributed_count(leaf) > 0;
  return ls_nest_as_array(many ? ls_distributed_component(leaf, replica)
                               : leaf);
}

static void expect_same_array(const ls_array *a, const ls_array *b) {
  assert_int_equal(ls_array_size(a), ls_array_size(b));
  assert_memory_equal(ls_array_data(a), ls_array_data(b), ls_array_size(a));
}

TEST(vectors_of_replicas_are_rows_of_their_own) {
  LS_OWN(ls_nest, args) = vectors_of(REPLICAS, 20);
  LS_OWN(ls_nest, all) = call_on(REPLICAS, of_one_vector, NULL, args, 1);
  for (uint32_t r = 0; r < REPLICAS; ++r) {
    LS_OWN(ls_nest, own) = vectors_of(1, 20 + r);
    LS_OWN(ls_nest, alone) = call_on(1, of_one_vector, NULL, own, 1);
    for (size_t i = 0; i < ls_nest_count(alone); ++i)
      expect_same_array(component_of(ls_nest_item(all, i), r),
                        component_of(ls_nest_item(alone, i), 0));
  }
}

// ---- Draws -----------------------------------------------------------------
static ls_nest draws(ls_nest args, void *user) {
  const ls_random_options own = {
      .seed = 5, .stream = LS_SOME(7), .fixed = true};
  ls_random_options same = own;
  same.same_on_all_replicas = true;
  const ls_shape shape = LS_SHAPE(WIDTH);
  (void)args;
  (void)user;
  return LS_LIST(ls_leaf(ls_random_uniform(LS_DTYPE_F32, shape, 0, 1, &own)),
                 ls_leaf(ls_random_normal(LS_DTYPE_F64, shape, 0, 1, &own)),
                 ls_leaf(ls_random_unsigned(LS_DTYPE_U32, shape, &own)),
                 ls_leaf(ls_random_permutation(LS_DTYPE_I32, WIDTH, &own)),
                 ls_leaf(ls_random_uniform(LS_DTYPE_F32, shape, 0, 1, &same)));
}

// Calls a function, whose results are tensors then.
static ls_nest call_of_draws(ls_nest args, void *user) {
  ls_nest results = ls_none();
  const ls_status status = ls_function_call(user, args, &results);
  return ls_status_is_ok(status) ? results : ls_fail(status);
}

static ls_array *value_in(ls_nest leaf) {
  if (leaf.kind != LS_KIND_TENSOR)
    return ls_array_retain(ls_nest_as_array(leaf));
  return tensor_array(leaf.as.tensor);
}

// Expects these draws of replicas that run op by op, where `want` is traced.
static void expect_draws(ls_nest got, ls_nest want) {
  for (size_t i = 0; i < ls_nest_count(want); ++i)
    for (size_t r = 0; r < REPLICAS; ++r) {
      const ls_nest leaf = ls_nest_item(got, i);
      LS_OWN(ls_array, value) = value_in(ls_distributed_count(leaf) > 0
                                             ? ls_distributed_component(leaf, r)
                                             : leaf);
      expect_same_array(value, component_of(ls_nest_item(want, i), r));
    }
}

TEST(replicas_draw_op_by_op_what_they_draw_when_traced) {
  LS_OWN(ls_nest, none) = ls_nest_sequence(LS_KIND_LIST, NULL, 0);
  LS_OWN(ls_nest, traced) = call_on(REPLICAS, draws, NULL, none, 1);
  const ls_nest first = ls_nest_item(traced, 0), last = ls_nest_item(traced, 4);
  assert_memory_not_equal(ls_array_data(component_of(first, 0)),
                          ls_array_data(component_of(first, 1)),
                          WIDTH * sizeof(float));
  expect_same_array(component_of(last, 0), component_of(last, 2));
  LS_OWN(ls_function, function) = unnamed_function(draws, NULL);
  LS_OWN(ls_strategy, strategy) = mirrored_of(REPLICAS);
  expect_ok(ls_frame_begin());
  ls_nest got = run_on(strategy, draws, none, NULL);
  expect_draws(got, traced);
  ls_nest_release(got);
  got = run_on(strategy, call_of_draws, none, function);
  expect_draws(got, traced);
  ls_nest_release(got);
  expect_ok(ls_frame_end(NULL));
}

// A draw from outside that replica 1 is the first to look at.
static ls_nest looks_at(ls_nest args, void *user) {
  (void)args;
  if (ls_replica_number() == 0) return ls_leaf(ls_scalar(LS_DTYPE_F32, 0));
  return ls_leaf(ls_add_scalar(*(const ls_tensor *)user, 0));
}

TEST(a_draw_from_outside_is_nobodys) {
  const ls_random_options options = {.stream = LS_SOME(7), .fixed = true};
  LS_OWN(ls_nest, none) = ls_nest_sequence(LS_KIND_LIST, NULL, 0);
  LS_OWN(ls_strategy, strategy) = mirrored_of(REPLICAS);
  expect_ok(ls_frame_begin());
  ls_tensor pair[2];
  for (int i = 0; i < 2; ++i)
    pair[i] = ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(WIDTH), 0, 1, &options);
  ls_nest_release(run_on(strategy, looks_at, none, &pair[0]));
  ls_array *looked_at = value_in(ls_leaf(pair[0]));
  ls_array *alone = value_in(ls_leaf(pair[1]));
  expect_same_array(looked_at, alone);
  ls_array_release(looked_at);
  ls_array_release(alone);
  expect_ok(ls_frame_end(NULL));
}
