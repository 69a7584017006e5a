// SPDX-License-Identifier: Apache-2.0
//
// A loop of training steps that takes its batches from infeeds needs no more
// room than a step that is given its batch: what is fused in the one is fused
// in the other, and not computed ahead while a batch is waited for.
#include <stdlib.h>
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/function.h"
#include "lockstep/function_plan.h"
#include "lockstep/infeed.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/tpu_strategy.h"
#include "lockstep/train.h"
#include "lockstep/training_loop.h"
#include "lockstep/training_parts.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/place.h"
#include "support/replicas.h"
#include "support/small_models.h"
#include "support/values.h"
#include "tpu/own.h"

enum { REPLICAS = 4, BATCH = 32, STEPS = 3 };

typedef struct job {
  ls_model model;
  bool loops;
} job;

static ls_nest loss_of(const job *j, ls_nest args) {
  LS_OWN(ls_nest, made) = j->model.type->train_step(args, j->model.self);
  return ls_leaf(ls_nest_tensor(ls_nest_find(made, "loss"), 0));
}

static ls_nest trip(ls_nest values, void *user) {
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_leaf(ls_nest_tensor(values, 1)),
                                   ls_leaf(ls_nest_tensor(values, 2)));
  return LS_LIST(loss_of(user, args));
}

static ls_nest steps(ls_nest args, void *user) {
  const job *j = user;
  if (!j->loops) return loss_of(j, args);
  const ls_dtype dtypes[] = {LS_DTYPE_F32, LS_DTYPE_I32};
  ls_shape shapes[] = {small_mlp.example_shape, LS_SHAPE(BATCH)};
  for (int d = shapes[0].rank++; d > 0; --d)
    shapes[0].dim[d] = shapes[0].dim[d - 1];
  shapes[0].dim[0] = BATCH;
  ls_training_loop loop = {.body = trip, .user = user};
  ls_nest outputs = ls_none();
  expect_ok(ls_infeed_queue_create(
      &(ls_infeed_options){
          .dtypes = dtypes, .num_dtypes = 2, .shapes = shapes, .num_shapes = 2},
      &loop.infeed));
  LS_OWN(ls_nest, inputs) = LS_LIST(ls_leaf(ls_scalar(LS_DTYPE_F32, 0)));
  const ls_status status = ls_training_repeat(STEPS, &loop, inputs, &outputs);
  ls_infeed_queue_release(loop.infeed);
  return ls_status_is_ok(status) ? outputs : ls_fail(status);
}

static void feed(ls_strategy *s, ls_nest args) {
  const char *devices[REPLICAS];
  size_t count = 0;
  expect_ok(ls_strategy_worker_devices(s, devices, REPLICAS, &count));
  for (int k = 0; k < STEPS; ++k)
    for (size_t r = 0; r < REPLICAS; ++r) {
      LS_OWN(ls_nest, tuple) = LS_TUPLE(
          ls_nest_retain(ls_distributed_component(ls_nest_item(args, 0), r)),
          ls_nest_retain(ls_distributed_component(ls_nest_item(args, 1), r)));
      expect_ok(ls_infeed_put(devices[r], tuple));
    }
}

// Bytes of the plan beside variables.
static long long room_of(ls_strategy *s, bool loops) {
  job j = {.loops = loops};
  ls_nest batch = ls_none(), args = ls_none();
  ls_function *function = function_of(steps, &j);
  expect_ok(ls_model_create(&small_mlp, NULL, &j.model));
  expect_ok(ls_model_synthetic_batch(&small_mlp, BATCH, &batch));
  expect_ok(ls_train_split(s, batch, &args));
  if (loops) feed(s, args);
  ls_nest results =
      strategy_results(s, ls_traced(function), loops ? ls_none() : args);
  char *plan = NULL;
  expect_ok(ls_function_print_plan(function, &plan));
  const char *at = strstr(plan, "bytes: shared ");
  assert_non_null(at);
  const long long bytes = atoll(at + strlen("bytes: shared "));
  ls_text_release(plan);
  ls_nest_release(results);
  ls_nest_release(args);
  ls_nest_release(batch);
  ls_function_release(function);
  ls_model_destroy(&j.model);
  return bytes;
}

TEST(a_loop_needs_the_room_of_a_step) {
  LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){.threads = 1});
  LS_OWN(ls_strategy, s) = NULL;
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  expect_ok(ls_tpu_resolver_connect(
      &(ls_tpu_resolver_options){.name = "virtual:2x1"}, &resolver));
  expect_ok(
      ls_tpu_strategy_create(&(ls_tpu_options){.resolver = resolver}, &s));
  const long long step = room_of(s, false), loop = room_of(s, true);
  // Counters, and what asks whether there is a batch.
  if (loop > step + 2048) fail_msg("%lld bytes, not %lld", loop, step);
}
