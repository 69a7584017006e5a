// SPDX-License-Identifier: Apache-2.0
//
// Every reference model: the same bytes on every instruction set, in each kind
// of arithmetic that a runtime can be told to use.
#include "support/expect.h"

#include <string.h>

#include "engine/cpu/kernels.h"
#include "support/sanitizer.h"
#include "support/training.h"

static bool has(const char *isa) { return ls_cpu_kernels_find(isa) != NULL; }

static bool convolves(const training_job *job) {
  return strcmp(job->model, "cnn") == 0 ||
         strcmp(job->model, "resnet20") == 0 || strcmp(job->model, "unet") == 0;
}

static bool is_small(const training_job *job) {
  return strcmp(job->model, "tiny") == 0 || strcmp(job->model, "mlp") == 0;
}

static training_job job_of(size_t index) {
  training_job job = training_small_job(index);
  job.before = NULL;
  return job;
}

static void expect_any_instruction_set(training_job job) {
  LS_OWN(training, want) = {0};
  job.isa = "v3";
  training_run(&job, &want);
  job.isa = "v4";
  if (has("v4")) expect_same_outcome(&want, &job);
  job.isa = "base";  // Where a fused multiply-add is a function call.
  const bool is_quick = is_small(&job) && job.math != LS_MATH_BF16;
  if (is_quick && !LS_SANITIZED) expect_same_outcome(&want, &job);
}

TEST(instruction_sets_do_not_matter) {
  if (!has("v3")) skip();
  for (size_t i = 0; i < TRAINING_MODELS; ++i)
    expect_any_instruction_set(job_of(i));
}

TEST(instruction_sets_do_not_matter_to_direct_sums) {
  if (!has("v3")) skip();
  for (size_t i = 0; i < TRAINING_MODELS; ++i) {
    training_job job = job_of(i);
    job.math = LS_MATH_DIRECT;
    if (convolves(&job)) expect_any_instruction_set(job);
  }
}

TEST(threads_do_not_matter_to_direct_sums) {
  static const int threads[] = {2, 3};
  for (size_t i = 0; i < TRAINING_MODELS; ++i) {
    training_job job = job_of(i);
    job.math = LS_MATH_DIRECT;
    if (convolves(&job)) expect_any_threads(job, threads, LS_SANITIZED ? 1 : 2);
  }
}

TEST(instruction_sets_and_threads_do_not_matter_to_bf16) {
  static const int threads[] = {3};
  for (size_t i = 0; i < TRAINING_MODELS; ++i) {
    training_job job = job_of(i);
    job.math = LS_MATH_BF16;
    job.steps = 1;
    if (LS_SANITIZED && !is_small(&job)) continue;
    expect_any_threads(job, threads, 1);
    if (has("v3")) expect_any_instruction_set(job);
  }
}

// Whether any variable does.
static bool differ(const training *a, const training *b) {
  for (size_t i = 0; i < a->num_values; ++i)
    if (memcmp(ls_array_data(a->values[i]), ls_array_data(b->values[i]),
               ls_array_size(a->values[i])) != 0)
      return true;
  return false;
}

// Else the tests above compare nothing new.
TEST(each_kind_of_arithmetic_has_bits_of_its_own) {
  for (size_t i = 0; i < TRAINING_MODELS; ++i) {
    training fast, direct;
    training_job job = job_of(i);
    job.steps = 1;
    if (LS_SANITIZED && strcmp(job.model, "gpt") == 0) continue;
    training_run(&job, &fast);
    job.math = LS_MATH_DIRECT;
    training_run(&job, &direct);
    assert_int_equal(differ(&fast, &direct), convolves(&job));
    training_deinit(&direct);
    job.math = LS_MATH_BF16;
    training_run(&job, &direct);
    assert_true(differ(&fast, &direct));
    training_deinit(&direct);
    training_deinit(&fast);
  }
}
