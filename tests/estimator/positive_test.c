// SPDX-License-Identifier: Apache-2.0
// Numbers that must be positive are refused in one way, wherever they stand.
#include "estimator/config/config.h"

#include <stdio.h>

#include "base/memory/allocator.h"
#include "estimator/own.h"
#include "lockstep/estimator_hooks.h"
#include "lockstep/iteration_count.h"
#include "support/expect.h"
#include "support/spec.h"

static ls_status shards(int64_t value) {
  LS_OWN(ls_run_config, config) = NULL;
  const ls_tpu_config tpu = {.num_shards = LS_SOME(value)};
  return ls_tpu_run_config_create(
      &(ls_run_config_options){.tpu = &tpu, .model_dir = "m"}, &config);
}

static ls_status host_calls(int64_t value) {
  LS_OWN(ls_run_config, config) = NULL;
  const ls_tpu_config tpu = {.host_call_every_n_steps = LS_SOME(value)};
  return ls_tpu_run_config_create(
      &(ls_run_config_options){.tpu = &tpu, .model_dir = "m"}, &config);
}

static ls_status evaluation(int64_t value) {
  LS_OWN(ls_hook, hook) = NULL;
  return ls_eval_iterations_hook(value, &hook);
}

static ls_status samples(int64_t value) {
  ls_iteration_count *count = NULL;
  const ls_status status = ls_iteration_count_create(LS_SOME(value), &count);
  ls_iteration_count_destroy(count);
  return status;
}

static ls_status itself(int64_t value) {
  return ls_check_positive("train_batch_size", value);
}

TEST(what_is_not_positive_is_named_with_its_value) {
  LS_SPEC("E8");
  static const struct {
    ls_status (*check)(int64_t value);
    const char *name;
  } rows[] = {{itself, "train_batch_size"},
              {shards, "num_shards"},
              {host_calls, "host_call_every_n_steps"},
              {evaluation, "Eval steps"},
              {samples, "capacity"}};
  static const int64_t wrong[] = {0, -1, INT64_MIN}, right[] = {1, 8};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    for (size_t k = 0; k < LS_COUNT_OF(wrong); ++k) {
      char says[100];
      snprintf(says, sizeof(says), "%s must be positive, got %lld",
               rows[i].name, (long long)wrong[k]);
      expect_status(rows[i].check(wrong[k]), LS_INVALID_ARGUMENT, says);
    }
    for (size_t k = 0; k < LS_COUNT_OF(right); ++k)
      expect_ok(rows[i].check(right[k]));
  }
}
