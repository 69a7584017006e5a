// SPDX-License-Identifier: Apache-2.0
//
// Training on simulated ranks with a fault drawn by a seed: late and repeated
// messages and short stops change nothing; for lost and cut messages and dead
// ranks every other rank fails within five seconds, names the cause, and the
// run resumes to the same bytes. LS_TEST_SEEDS=1000 tries more seeds.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/communicator.h"
#include "lockstep/lockstep.h"
#include "support/expect.h"
#include "support/memory_files.h"

enum { RANKS = 3, REPLICAS = 4 };

typedef struct training {
  memory_files files[RANKS];
  ls_status ends[RANKS];
  bool resume;
} training;

static ls_status train(bool resume) {
  const ls_model_type *type = ls_model_find("tiny");
  ls_strategy *strategy = NULL;
  ls_model model = {0};
  ls_status status = ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(REPLICAS)}, &strategy);
  ls_dataset *data = ls_dataset_synthetic(
      &(ls_synthetic_options){.size = 24,
                              .shape = type->example_shape,
                              .num_classes = type->num_classes});
  if (ls_status_is_ok(status)) status = ls_dataset_status(data);
  if (ls_status_is_ok(status))
    status =
        ls_model_create(type, &(ls_model_options){.metrics = true}, &model);
  if (ls_status_is_ok(status))
    status = ls_train(&(ls_train_options){.model = &model,
                                          .strategy = strategy,
                                          .train = data,
                                          .batch_size = 6,
                                          .steps = 5,
                                          .run_folder = "run",
                                          .save_steps = 1,
                                          .resume = resume,
                                          .save_background = LS_FLAG_OFF,
                                          .log_every = 1},
                      &(ls_train_result){0});
  ls_model_destroy(&model);
  ls_dataset_release(data);
  if (strategy != NULL) ls_strategy_release(strategy);
  return status;
}

static ls_status train_as_rank(ls_communicator *communicator, void *user) {
  training *self = user;
  const ls_file_system system =
      memory_files_system(&self->files[communicator->rank]);
  ls_runtime *runtime = NULL;
  LS_RETURN_IF_ERROR(
      ls_runtime_create(&(ls_runtime_options){.threads = 1,
                                              .input_threads = LS_SOME(0),
                                              .communicator = communicator,
                                              .file_system = &system},
                        &runtime));
  ls_runtime *outside = ls_runtime_make_current(runtime);
  ls_status status = train(self->resume);
  ls_runtime_make_current(outside);
  status = ls_status_join(status, ls_runtime_destroy(runtime));
  self->ends[communicator->rank] = ls_status_clone(status);
  return status;
}

// ---- Faults ----------------------------------------------------------------
enum { LATE, LOST, TWICE, CUT, DIES, STOPS, KINDS };

// Copies a log into a char *.
static void keep_log(void *user, const char *text) {
  *(char **)user = strdup(text);
}

static ls_standin_faults draw_faults(uint64_t seed, int kind, char **out_log) {
  enum { CHANCE = 10000 };
  return (ls_standin_faults){.seed = seed,
                             .late = kind == LATE ? CHANCE : 0,
                             .lost = kind == LOST ? CHANCE : 0,
                             .twice = kind == TWICE ? CHANCE : 0,
                             .cut = kind == CUT ? CHANCE : 0,
                             .dies = kind == DIES ? CHANCE : 0,
                             .stops = kind == STOPS ? CHANCE : 0,
                             .late_ms = 3000,
                             .stop_ms = 3000,
                             .most = 1,
                             .log = keep_log,
                             .log_user = out_log};
}

// Returns the time of the first line of a log that has a text; -1: there is
// none.
static double find_time(const char *log, const char *text) {
  const char *found = strstr(log, text);
  if (found == NULL) return -1;
  while (found > log && found[-1] != '\n')
    --found;
  return strtod(found, NULL);
}

static const char *const fates[KINDS] = {": late", ": lost", ": twice",
                                         ": cut",  ": dies", ": stops"};

// Checks how the ranks ended: each named the cause, but for one that has died,
// and those that had all they needed.
static void check_ends(const training *self, int kind, const char *log) {
  const double fault = find_time(log, fates[kind]);
  const double told = find_time(log, "of kind 1");
  int named = 0;
  for (int k = 0; k < RANKS; ++k)
    named += ls_status_is_ok(self->ends[k]) ||
             strstr(ls_status_message(self->ends[k]), "rank ") != NULL;
  assert_true(fault >= 0);
  assert_true(kind == LOST || kind == CUT || kind == DIES);
  assert_true(named >= RANKS - 1);
  if (told >= 0) assert_true(told - fault <= 5);
}

static void free_ends(training *self) {
  for (int k = 0; k < RANKS; ++k) {
    ls_status_free(self->ends[k]);
    self->ends[k] = ls_ok();
  }
}

static void check_model(const training *self, const memory_file *expected) {
  const memory_file *model =
      memory_files_find(&self->files[0], "run/model.safetensors");
  assert_non_null(model);
  assert_int_equal(model->size, expected->size);
  assert_memory_equal(model->data, expected->data, model->size);
}

static void clear(training *self) {
  free_ends(self);
  for (int k = 0; k < RANKS; ++k)
    memory_files_clear(&self->files[k]);
}

// Trains with the fault of a seed, and resumes if it has ended the run.
static void survive(uint64_t seed, const memory_file *expected) {
  const int kind = (int)(seed % KINDS);
  char *log = NULL;
  const ls_standin_faults faults = draw_faults(seed, kind, &log);
  training self = {.resume = false};
  ls_status status = ls_standin_simulate(RANKS, train_as_rank, &self, &faults);
  assert_non_null(log);
  if (!ls_status_is_ok(status)) check_ends(&self, kind, log);
  ls_status_free(status);
  free_ends(&self);
  free(log);
  if (memory_files_find(&self.files[0], "run/model.safetensors") == NULL) {
    self.resume = true;
    status = ls_standin_run(RANKS - 1, train_as_rank, &self);
    if (ls_status_code(status) == LS_NOT_FOUND) {
      // It ended before its first save.
      ls_status_free(status);
      clear(&self);
      self.resume = false;
      status = ls_standin_run(RANKS - 1, train_as_rank, &self);
    }
    expect_ok(status);
  }
  check_model(&self, expected);
  clear(&self);
}

TEST(training_survives_the_faults_of_seeds) {
  const char *text = getenv("LS_TEST_SEEDS");
  const uint64_t seeds = text != NULL ? strtoull(text, NULL, 10) : 36;
  training alone = {.resume = false};
  expect_ok(ls_standin_run(1, train_as_rank, &alone));
  const memory_file *expected =
      memory_files_find(&alone.files[0], "run/model.safetensors");
  assert_non_null(expected);
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    if (text != NULL) printf("seed %llu\n", (unsigned long long)seed);
    survive(seed, expected);
  }
  clear(&alone);
}

TEST(equal_seeds_give_equal_logs) {
  char *logs[3] = {0};
  for (int i = 0; i < 3; ++i) {
    ls_standin_faults faults = draw_faults(i < 2 ? 7 : 8, LATE, &logs[i]);
    faults.most = 0;
    training self = {.resume = false};
    expect_ok(ls_standin_simulate(RANKS, train_as_rank, &self, &faults));
    clear(&self);
  }
  assert_string_equal(logs[0], logs[1]);
  assert_string_not_equal(logs[0], logs[2]);
  for (int i = 0; i < 3; ++i)
    free(logs[i]);
}
