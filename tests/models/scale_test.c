// SPDX-License-Identifier: Apache-2.0
//
// A thousand replicas on a few cores: what they compute, and what one more of
// them costs.
#include "support/counted.h"
#include "support/expect.h"
#include "support/process.h"

#include <string.h>
#include <time.h>

#include "base/memory/own.h"
#include "lockstep/eager.h"
#include "support/canonical.h"
#include "support/function.h"
#include "support/trainer.h"
#include "support/values.h"

enum { MANY = 1024, FEW = 8 };

static float loss_of_replica(const trainer *training, size_t replica) {
  const ls_nest leaf = ls_distributed_component(training->result, replica);
  float loss = 0;
  memcpy(&loss, ls_array_data(ls_nest_as_array(leaf)), sizeof(loss));
  return loss;
}

// ---- What they compute -----------------------------------------------------
static void expect_same_values(const mlp *a, const mlp *b) {
  for (size_t i = 0; i < a->num_variables; ++i) {
    LS_OWN(ls_array, x) = variable_array(a->variables[i]);
    LS_OWN(ls_array, y) = variable_array(b->variables[i]);
    assert_int_equal(ls_array_size(x), ls_array_size(y));
    assert_memory_equal(ls_array_data(x), ls_array_data(y), ls_array_size(x));
  }
}

// `rows` examples on each of `replicas`.
static void expect_canonical(int replicas, int64_t rows, int steps) {
  static canonical hand;
  trainer training;
  expect_ok(trainer_create(&(trainer_options){&mlp_tiny, TRAINER_STRATEGY,
                                              rows * replicas, replicas},
                           &training));
  expect_ok(canonical_create(&mlp_tiny, &hand));
  for (int i = 0; i < steps; ++i) {
    expect_ok(trainer_step(&training));
    expect_ok(
        canonical_step(&hand, training.examples, training.labels, replicas));
    assert_int_equal(ls_distributed_count(training.result), replicas);
    for (int r = 0; r < replicas; ++r) {
      const float loss = loss_of_replica(&training, (size_t)r);
      assert_memory_equal(&loss, &hand.losses[r], sizeof(loss));
    }
    expect_same_values(&training.model, &hand.model);
  }
  canonical_destroy(&hand);
  trainer_destroy(&training);
}

TEST(a_thousand_replicas_add_along_the_canonical_tree) {
  expect_canonical(MANY, 1, 3);
  expect_canonical(MANY, 3, 2);
  expect_canonical(MANY - 1, 1, 2);
  expect_canonical(513, 2, 2);
}

// Each replica of mlp has one example; a sample of them is run alone.
TEST(replicas_of_mlp_give_what_their_example_gives_alone) {
  trainer training;
  mlp model = {0};
  expect_ok(trainer_create(
      &(trainer_options){&mlp_large, TRAINER_STRATEGY, MANY, MANY}, &training));
  expect_ok(mlp_create(&mlp_large, LS_DTYPE_F32, &model));
  ls_function *gradients = unnamed_function(mlp_gradients, &model);
  expect_ok(trainer_step(&training));
  for (int64_t r = 0; r < MANY; r += 93) {
    ls_array *example = NULL, *label = NULL;
    expect_ok(mlp_batch(&mlp_large, LS_DTYPE_F32, r, 1, &example, &label));
    LS_OWN(ls_nest, args) =
        LS_TUPLE(ls_nest_array(example), ls_nest_array(label));
    LS_OWN(ls_nest, alone) = call_results(gradients, args);
    const float loss = loss_of_replica(&training, (size_t)r);
    assert_memory_equal(&loss,
                        ls_array_data(ls_nest_as_array(ls_nest_item(alone, 0))),
                        sizeof(loss));
  }
  ls_function_release(gradients);
  mlp_destroy(&model);
  trainer_destroy(&training);
}

// ---- What they cost --------------------------------------------------------
typedef struct cost {
  uint64_t live, peak;  // Bytes that model, trace and program take.
  double first, later;  // Seconds of the first step and of a later one.
} cost;

static cost measure(const mlp_shape *shape, int replicas) {
  counted memory = counted_begin(1);
  trainer training;
  expect_ok(trainer_create(
      &(trainer_options){shape, TRAINER_STRATEGY, replicas, replicas},
      &training));
  const uint64_t data =
      ls_array_size(training.examples) + ls_array_size(training.labels);
  const double start = seconds_now();
  expect_ok(trainer_step(&training));
  const double middle = seconds_now();
  expect_ok(trainer_step(&training));
  const double end = seconds_now();
  const ls_allocator_counts counts = counted_now(&memory);
  trainer_destroy(&training);
  counted_end(&memory);
  return (cost){counts.live_bytes - data, counts.peak_bytes - data,
                middle - start, end - middle};
}

// Beside its part of the batch a replica has its activations and small
// gradients, argument views, results and a stub of its trace: no weights'
// gradients, no graph.
static void expect_cheap(const mlp_shape *shape, uint64_t live, uint64_t peak) {
  const cost few = measure(shape, FEW), many = measure(shape, MANY);
  const uint64_t more = MANY - FEW;
  assert_true(many.live > few.live);
  const uint64_t each_live = (many.live - few.live) / more;
  const uint64_t each_peak = (many.peak - few.peak) / more;
  print_message("%s: %.2f MB for %d replicas, %.2f MB for %d: %llu bytes a "
                "replica, %llu while tracing\n",
                shape->name, (double)few.live * 1e-6, FEW,
                (double)many.live * 1e-6, MANY, (unsigned long long)each_live,
                (unsigned long long)each_peak);
  print_message("%s: first step of %d replicas %.3f s, later ones %.3f s\n",
                shape->name, MANY, many.first, many.later);
  assert_true(each_live <= live);
  assert_true(each_peak <= peak);
}

TEST(one_more_replica_takes_a_few_kilobytes) {
  expect_cheap(&mlp_tiny, 8192, 8192);
  // Not more, although its gradients alone are 2.7 MB.
  expect_cheap(&mlp_large, 22528, 22528);
}
