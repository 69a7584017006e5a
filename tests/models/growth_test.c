// SPDX-License-Identifier: Apache-2.0
//
// Long runs take no more memory than short ones: what the process holds does
// not grow from one epoch to the next, nor from one eager step to the next.
#include "support/counted.h"
#include "support/expect.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "distribute/own.h"
#include "lockstep/eager.h"
#include "lockstep/train.h"
#include "support/mlp.h"
#include "support/sanitizer.h"
#include "support/training.h"

enum { BOUND = 100 << 10 };

// ---- What the process holds ------------------------------------------------
// Bytes of resident memory; 0 where the system does not say. Takes none itself.
static int64_t resident_bytes(void) {
  char text[128];
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t size = read(file, text, sizeof(text) - 1);
  close(file);
  if (size <= 0) return 0;
  text[size] = '\0';
  char *at = text;
  (void)strtoll(at, &at, 10);  // All of it, mapped or not.
  return strtoll(at, NULL, 10) * sysconf(_SC_PAGESIZE);
}

// A sanitizer keeps what was freed for a while.
static bool can_tell(void) { return !LS_SANITIZED && resident_bytes() > 0; }

static void expect_little_growth(const char *what, int64_t before,
                                 int64_t after) {
  if (can_tell() && after - before > BOUND)
    fail_msg("%s: %lld kB more", what, (long long)(after - before) / 1024);
}

// ---- Epochs ----------------------------------------------------------------
enum { EPOCHS = LS_SANITIZED ? 6 : 100, EXAMPLES = 48, BATCH = 16 };

// At the end of each epoch.
typedef struct epochs {
  counted memory;
  int64_t resident[EPOCHS + 1];
  uint64_t live[EPOCHS + 1];
  int64_t count;
} epochs;

static void note_epoch(void *user, const ls_train_report *report) {
  epochs *it = user;
  if (!report->epoch_end || it->count > EPOCHS) return;
  it->resident[it->count] = resident_bytes();
  it->live[it->count++] = counted_now(&it->memory).live_bytes;
}

static void train_epochs(epochs *it) {
  const ls_model_type *type = ls_model_find("mlp");
  LS_OWN(ls_model, model) = {0};
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_dataset, dataset) = NULL;
  ls_train_result result;
  expect_ok(
      ls_model_create(type, &(ls_model_options){.metrics = true}, &model));
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(2)}, &strategy));
  dataset = ls_dataset_synthetic(
      &(ls_synthetic_options){.size = EXAMPLES,
                              .num_classes = type->num_classes,
                              .shape = type->example_shape});
  expect_ok(ls_train(&(ls_train_options){.model = &model,
                                         .strategy = strategy,
                                         .train = dataset,
                                         .test = dataset,
                                         .batch_size = BATCH,
                                         .epochs = EPOCHS,
                                         .report = note_epoch,
                                         .report_user = it},
                     &result));
  assert_int_equal(result.steps, EPOCHS * (EXAMPLES / BATCH));
}

TEST(epochs_after_the_first_take_no_more_memory) {
  // On one thread: another that wakes late in a run first touches its memory
  // then, which is no growth.
  epochs it = {.memory = counted_begin(1)};
  train_epochs(&it);
  assert_int_equal(it.count, EPOCHS);
  // The first one compiles, the second one is the first that does not.
  expect_little_growth("epochs", it.resident[1], it.resident[EPOCHS - 1]);
  assert_int_equal(it.live[1], it.live[EPOCHS - 1]);
  counted_end(&it.memory);
}

// ---- Eager -----------------------------------------------------------------
TEST(eager_steps_with_tapes_take_no_more_memory) {
  enum { STEPS = LS_SANITIZED ? 40 : 300, WARM = 20 };
  LS_OWN(counted, memory) = counted_begin(1);
  LS_OWN(mlp, model) = {0};
  LS_OWN(ls_array, examples) = NULL;
  LS_OWN(ls_array, labels) = NULL;
  expect_ok(mlp_create(&mlp_tiny, LS_DTYPE_F32, &model));
  expect_ok(mlp_batch(&mlp_tiny, LS_DTYPE_F32, 0, 8, &examples, &labels));
  int64_t resident = 0;
  uint64_t live = 0;
  for (int i = 0; i < STEPS; ++i) {
    ls_array *loss = NULL;
    expect_ok(mlp_step_eager(&model, examples, labels, &loss));
    ls_array_release(loss);
    if (i != WARM) continue;
    resident = resident_bytes();
    live = counted_now(&memory).live_bytes;
  }
  expect_little_growth("eager steps", resident, resident_bytes());
  assert_int_equal(live, counted_now(&memory).live_bytes);
}
