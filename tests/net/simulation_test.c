// SPDX-License-Identifier: Apache-2.0
//
// Training on simulated ranks with a fault drawn by a seed: late and repeated
// messages, short stops and clocks that jump change nothing; for the others
// every rank fails, names the cause, and the run resumes to the same bytes.
// LS_TEST_SEEDS=1000 tries more seeds.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/lockstep.h"
#include "lockstep/simulation.h"
#include "support/expect.h"

enum { RANKS = 3, REPLICAS = 4, EVENTS = 600 };

static const char model_path[] = "run/model.safetensors";

typedef struct training {
  ls_status ends[RANKS];
  bool resume, overwrite;
} training;

static ls_status train(const training *self) {
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
                                          .resume = self->resume,
                                          .overwrite = self->overwrite,
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
  ls_runtime_options options = {0};
  ls_runtime *runtime = NULL;
  ls_simulation_set_rank(communicator, &options);
  LS_RETURN_IF_ERROR(ls_runtime_create(&options, &runtime));
  ls_runtime *outside = ls_runtime_make_current(runtime);
  ls_status status = train(self);
  ls_runtime_make_current(outside);
  status = ls_status_join(status, ls_runtime_destroy(runtime));
  ls_status_free(self->ends[communicator->rank]);
  self->ends[communicator->rank] = ls_status_clone(status);
  return status;
}

static void free_ends(training *self) {
  for (int k = 0; k < RANKS; ++k) {
    ls_status_free(self->ends[k]);
    self->ends[k] = ls_ok();
  }
}

static ls_simulation *make(uint64_t seed, ls_fault *faults, size_t count) {
  ls_simulation *made = NULL;
  expect_ok(ls_simulation_create(&(ls_simulation_options){.seed = seed,
                                                          .faults = faults,
                                                          .num_faults = count},
                                 &made));
  return made;
}

// ---- Faults ----------------------------------------------------------------
static bool may_fail(ls_fault_kind kind) {
  return kind == LS_FAULT_LOST || kind == LS_FAULT_CUT ||
         kind == LS_FAULT_KILL || kind == LS_FAULT_POWER ||
         kind == LS_FAULT_DISK || kind == LS_FAULT_FULL;
}

// Checks how the ranks ended: one at least names the cause. Others may have had
// all they needed, or miss a file that the first to fail has removed.
static void check_ends(const training *self, const ls_fault *fault) {
  int named = 0;
  char rank[2][16];
  snprintf(rank[0], sizeof(rank[0]), "rank %d", fault->rank);
  snprintf(rank[1], sizeof(rank[1]), "rank %d", fault->to);
  for (int k = 0; k < RANKS; ++k) {
    const char *message = ls_status_message(self->ends[k]);
    named += ls_status_is_ok(self->ends[k]) ||
             strstr(message, rank[0]) != NULL ||
             (fault->to >= 0 && strstr(message, rank[1]) != NULL) ||
             (fault->path[0] != '\0' && strstr(message, fault->path) != NULL);
  }
  assert_true(fault->event > 0);
  assert_true(may_fail(fault->kind));
  for (int k = 0; k < RANKS && named == 0; ++k)
    print_message("rank %d: %s\n", k, ls_status_message(self->ends[k]));
  if (fault->kind != LS_FAULT_POWER && named == 0)
    fail_msg("fault %s of rank %d at event %lld", ls_fault_name(fault->kind),
             fault->rank, (long long)fault->event);
}

static void check_model(const ls_simulation *simulation, const char *expected,
                        size_t size) {
  size_t found_size = 0;
  const char *found = ls_simulation_file(simulation, model_path, &found_size);
  assert_non_null(found);
  assert_int_equal(found_size, size);
  assert_memory_equal(found, expected, size);
}

// Trains with the fault of a seed, and resumes, or begins again, while it ends
// the run.
static void survive(uint64_t seed, const char *expected, size_t size) {
  ls_fault fault = {.kind = (ls_fault_kind)(seed % LS_FAULT_KINDS),
                    .at = 1 + (int64_t)(seed * 7919 % EVENTS),
                    .nanos = 2000000000};
  training self = {.resume = false};
  size_t found = 0;
  ls_simulation *simulation = make(seed, &fault, 1);
  ls_status status = ls_simulation_run(simulation, RANKS, train_as_rank, &self);
  if (!ls_status_is_ok(status)) check_ends(&self, &fault);
  for (int life = 0;
       life < 2 && (!ls_status_is_ok(status) ||
                    ls_simulation_file(simulation, model_path, &found) == NULL);
       ++life) {
    ls_status_free(status);
    ls_simulation_wait(simulation, fault.nanos);
    self.resume =
        ls_simulation_file(simulation, "run/checkpoint", &found) != NULL;
    self.overwrite = !self.resume;
    status = ls_simulation_run(simulation, RANKS - 1, train_as_rank, &self);
  }
  expect_ok(status);
  check_model(simulation, expected, size);
  free_ends(&self);
  ls_simulation_destroy(simulation);
}

TEST(training_survives_the_faults_of_seeds) {
  const char *text = getenv("LS_TEST_SEEDS");
  const uint64_t seeds = text != NULL ? strtoull(text, NULL, 10) : 36;
  training self = {.resume = false};
  size_t size = 0;
  ls_simulation *alone = make(0, NULL, 0);
  expect_ok(ls_simulation_run(alone, 1, train_as_rank, &self));
  const char *expected = ls_simulation_file(alone, model_path, &size);
  assert_non_null(expected);
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    if (text != NULL) printf("seed %llu\n", (unsigned long long)seed);
    survive(seed, expected, size);
  }
  free_ends(&self);
  ls_simulation_destroy(alone);
}

TEST(equal_seeds_give_equal_logs) {
  ls_simulation *all[3];
  for (int i = 0; i < 3; ++i) {
    ls_fault faults[] = {
        {.kind = LS_FAULT_LATE, .at = 50, .nanos = 1000000000},
        {.kind = LS_FAULT_JUMP, .at = 100, .nanos = -3600000000000},
        {.kind = LS_FAULT_TWICE, .at = 120}};
    training self = {.resume = false};
    all[i] = make(i < 2 ? 7 : 8, faults, 3);
    expect_ok(ls_simulation_run(all[i], RANKS, train_as_rank, &self));
    free_ends(&self);
    for (int k = 0; k < 3; ++k)
      assert_true(faults[k].event >= faults[k].at);
  }
  assert_string_equal(ls_simulation_log(all[0]), ls_simulation_log(all[1]));
  assert_string_not_equal(ls_simulation_log(all[0]), ls_simulation_log(all[2]));
  assert_non_null(strstr(ls_simulation_log(all[0]), "fault jump of rank "));
  for (int i = 0; i < 3; ++i)
    ls_simulation_destroy(all[i]);
}

static ls_status sleep_on(ls_communicator *communicator, void *user) {
  ls_runtime_options options = {0};
  ls_simulation_set_rank(communicator, &options);
  const ls_clock *clock = options.clock;
  const int64_t began = clock->now(clock->user);
  clock->sleep(clock->user, *(const int64_t *)user);
  assert_true(clock->now(clock->user) - began >= *(const int64_t *)user);
  assert_true(ls_simulation_say(communicator, "awake"));
  return ls_ok();
}

TEST(ranks_that_do_not_end_are_ended) {
  const int64_t naps[] = {1000000000, 3600000000000};
  ls_simulation *simulation = make(1, NULL, 0);
  expect_ok(
      ls_simulation_run(simulation, RANKS, sleep_on, (void *)(uintptr_t)naps));
  assert_true(ls_simulation_now(simulation) >= naps[0]);
  assert_true(ls_simulation_events(simulation) > 0);
  assert_non_null(strstr(ls_simulation_log(simulation), "rank 2 says: awake"));
  ls_simulation_note(simulation, "again");
  assert_non_null(strstr(ls_simulation_log(simulation), " again\n"));
  expect_status(ls_simulation_run(simulation, 0, sleep_on, NULL),
                LS_INVALID_ARGUMENT, "0 ranks");
  ls_simulation_destroy(simulation);
}

// Returns the number of lines from the start that are of steps 1, 2, ...
static int64_t count_lines(const char *text) {
  int64_t count = 0;
  long long step = 0;
  while (text != NULL && sscanf(text, "{\"step\":%lld,", &step) == 1 &&
         step == count + 1) {
    ++count;
    text = strchr(text, '\n');
    if (text != NULL) ++text;
  }
  return count;
}

// A run resumes with the lines of all steps before its checkpoint.
TEST(lines_of_saved_steps_survive_a_power_cut) {
  int64_t most = 0;
  for (int64_t at = 1; at < 200; at += 3) {
    ls_fault fault = {.kind = LS_FAULT_POWER, .at = at};
    training self = {.resume = false};
    size_t size = 0;
    ls_simulation *simulation = make((uint64_t)at, &fault, 1);
    ls_status_free(ls_simulation_run(simulation, 1, train_as_rank, &self));
    free_ends(&self);
    const int64_t lines =
        count_lines(ls_simulation_file(simulation, "run/metrics.jsonl", &size));
    for (int64_t step = 1; step <= 5; ++step) {
      char path[64];
      snprintf(path, sizeof(path), "run/model.ckpt-%lld.json", (long long)step);
      if (ls_simulation_file(simulation, path, &size) == NULL) continue;
      assert_true(lines >= step);
      if (step > most) most = step;
    }
    ls_simulation_destroy(simulation);
  }
  assert_int_equal(most, 5);
}
