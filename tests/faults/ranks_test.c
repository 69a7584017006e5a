// SPDX-License-Identifier: Apache-2.0
//
// Ranks that train together, with every single request of one of them refused
// in turn: no rank waits for it, nothing is lost on any, what it tries again
// before the first step leaves it in step, and ranks that start anew end with
// the same numbers. Nor does one wait for a rank that fails around its steps.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "lockstep/communicator.h"
#include "lockstep/eager.h"
#include "lockstep/optimizers.h"
#include "lockstep/strategy.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/train.h"
#include "lockstep/variable_parts.h"
#include "support/expect.h"
#include "support/memory_files.h"
#include "support/sanitizer.h"

// ---- What a rank does ------------------------------------------------------
enum { RANKS = 2, REPLICAS = 3, NUM_STEPS = 2 };

typedef struct world {
  ls_strategy *strategy;
  ls_variable *w;
  ls_optimizer *optimizer;
  ls_function *function;
  ls_nest args, results;
} world;

static void drop(world *self) {
  ls_nest_release(self->results);
  ls_nest_release(self->args);
  ls_function_release(self->function);
  ls_optimizer_release(self->optimizer);
  ls_variable_release(self->w);
  if (self->strategy != NULL) ls_strategy_release(self->strategy);
  *self = (world){0};
}

// The loss of this replica, and of all.
static ls_nest down(ls_nest args, void *user) {
  world *self = user;
  ls_tensor x;
  const ls_status status = ls_distributed_as_tensor(ls_nest_item(args, 0), &x);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_tensor loss = ls_reduce_mean(
      ls_square(ls_mul(x, ls_variable_read(self->w))), LS_ALL_AXES);
  ls_optimizer_minimize(self->optimizer, loss);
  return LS_TUPLE(ls_leaf(loss), ls_leaf(ls_all_reduce(LS_REDUCE_MEAN, loss)));
}

static ls_status make_variable(world *self) {
  const float initial[] = {0.5F, -1, 2, 0.25F};
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create_copy(LS_DTYPE_F32, LS_SHAPE(4), initial, &array));
  return ls_variable_create(
      &(ls_variable_options){.name = "w", .initial_array = array}, &self->w);
}

// Two rows a replica.
static ls_status make_args(world *self) {
  LS_OWN(ls_array, x) = NULL;
  ls_nest split = ls_none();
  LS_RETURN_IF_ERROR(
      ls_array_create(LS_DTYPE_F32, LS_SHAPE(2 * REPLICAS, 4), &x));
  for (int64_t i = 0; i < ls_array_num_elements(x); ++i)
    ls_array_set_f64(x, i, 0.125 * (double)(i % 7) - 0.25);
  const ls_status status = ls_strategy_split(self->strategy, x, &split);
  LS_RETURN_IF_ERROR(status);
  self->args = LS_TUPLE(split);
  return ls_nest_status(self->args);
}

static ls_status make(world *self) {
  drop(self);
  LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(REPLICAS)},
      &self->strategy));
  ls_status status = ls_ok();
  {
    LS_STRATEGY_SCOPE(self->strategy);
    status = ls_scope_status();
    if (ls_status_is_ok(status)) status = make_variable(self);
  }
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(
      ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.5, .momentum = 0.5},
                    &self->optimizer));
  LS_RETURN_IF_ERROR(ls_function_create(
      &(ls_function_options){.call = down, .user = self}, &self->function));
  return make_args(self);
}

// ---- Lives -----------------------------------------------------------------
// What became of a rank.
typedef struct rank_life {
  ls_counting_allocator *memory;
  ls_status status;
  bool stepping;  // Its steps had begun.
  ls_code again;  // Of a step after one that failed.
  double outcome;
  uint64_t requests, lost;
} rank_life;

typedef struct life {
  int32_t failing;  // The rank
  uint64_t nth;     // whose request fails; 0: none.
  int32_t ended;    // Ranks that have.
  rank_life ranks[RANKS];
} life;

static ls_status sum_of(const world *self, double *out_sum) {
  LS_OWN(ls_array, value) = NULL;
  LS_RETURN_IF_ERROR(
      ls_variable_value(ls_variable_component(self->w, 0), &value));
  for (int64_t i = 0; i < ls_array_num_elements(value); ++i)
    *out_sum = *out_sum * 3 + ls_array_f64(value, i);
  return ls_ok();
}

static ls_status step(world *self, ls_nest args) {
  return ls_strategy_run(self->strategy, ls_traced(self->function), args,
                         &self->results);
}

static ls_status train(world *self, rank_life *rank) {
  ls_status status = make(self);
  // Nobody has waited for it yet.
  if (ls_status_code(status) == LS_RESOURCE_EXHAUSTED) {
    ls_status_free(status);
    status = make(self);
  }
  LS_RETURN_IF_ERROR(status);
  rank->stepping = true;
  for (int i = 0; i < NUM_STEPS && ls_status_is_ok(status); ++i)
    status = step(self, self->args);
  ls_counting_allocator_fail_at(rank->memory, 0);
  if (ls_status_is_ok(status)) return sum_of(self, &rank->outcome);
  LS_OWN(ls_status, again) = step(self, self->args);
  rank->again = ls_status_code(again);
  return status;
}

static ls_status train_alone(ls_communicator *communicator, rank_life *rank) {
  ls_runtime *runtime = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_create(
      &(ls_runtime_options){.allocator =
                                ls_counting_allocator_allocator(rank->memory),
                            .threads = 1,
                            .communicator = communicator},
      &runtime));
  ls_runtime *outside = ls_runtime_make_current(runtime);
  world self = {0};
  const ls_status status = train(&self, rank);
  ls_counting_allocator_fail_at(rank->memory, 0);
  drop(&self);
  ls_runtime_make_current(outside);
  return ls_status_join(status, ls_runtime_destroy(runtime));
}

enum { PATIENCE_US = 10 * 1000 * 1000, LOOK_US = 100 };

// A rank whose steps have begun keeps its failure to itself until the others
// have ended: they know of it what the communicator has told them.
static ls_status wait_for_others(life *self) {
  for (int i = 0; i < PATIENCE_US / LOOK_US; ++i) {
    if (__atomic_load_n(&self->ended, __ATOMIC_ACQUIRE) == RANKS - 1)
      return ls_ok();
    usleep(LOOK_US);
  }
  return LS_STATUS(LS_DEADLINE_EXCEEDED, "the others wait");
}

static ls_status live_as_rank(ls_communicator *communicator, void *user) {
  life *self = user;
  rank_life *rank = &self->ranks[communicator->rank];
  const bool failing = communicator->rank == self->failing && self->nth > 0;
  if (failing) ls_counting_allocator_fail_at(rank->memory, self->nth);
  rank->status = train_alone(communicator, rank);
  const ls_allocator_counts counts = ls_counting_allocator_counts(rank->memory);
  rank->requests = counts.allocations;
  rank->lost = counts.live_blocks;
  if (failing && rank->stepping) return wait_for_others(self);
  __atomic_fetch_add(&self->ended, 1, __ATOMIC_RELEASE);
  return ls_status_clone(rank->status);
}

static void expect_alike(const life *self, int32_t k, const life *wanted) {
  const bool same = memcmp(&self->ranks[k].outcome, &wanted->ranks[k].outcome,
                           sizeof(double)) == 0;
  if (self->ranks[k].lost == 0 && (same || wanted == self)) return;
  fail_msg("rank %d, with request %llu of rank %d refused: %llu blocks lost, "
           "%.17g and not %.17g",
           k, (unsigned long long)self->nth, self->failing,
           (unsigned long long)self->ranks[k].lost, self->ranks[k].outcome,
           wanted->ranks[k].outcome);
}

// One life of all ranks, which end as `wanted` (NULL: in any way) unless they
// fail. Whether the rank made so many requests.
static bool live(life *self, const life *wanted) {
  for (int32_t k = 0; k < RANKS; ++k)
    expect_ok(ls_counting_allocator_create(NULL, &self->ranks[k].memory));
  const ls_status status = ls_standin_run(RANKS, live_as_rank, self);
  const bool failed = !ls_status_is_ok(status);
  char told[32] = "";
  if (failed)
    snprintf(told, sizeof(told), "on rank %d of %d", self->failing, RANKS);
  expect_status(status, failed ? LS_RESOURCE_EXHAUSTED : LS_OK, told);
  for (int32_t k = 0; k < RANKS; ++k) {
    if (failed)
      expect_status(self->ranks[k].status, LS_RESOURCE_EXHAUSTED,
                    k == self->failing ? "" : told);
    else
      expect_ok(self->ranks[k].status);
    if (failed && self->ranks[k].stepping)
      assert_int_equal(self->ranks[k].again, LS_RESOURCE_EXHAUSTED);
    if (wanted != NULL) expect_alike(self, k, failed ? self : wanted);
    ls_counting_allocator_destroy(self->ranks[k].memory);
  }
  return self->ranks[self->failing].requests >= self->nth;
}

// With sanitizers every fifth request is refused, as elsewhere.
TEST(ranks_survive_any_failure_of_one) {
  life wanted = {0};
  live(&wanted, NULL);
  for (int32_t k = 0; k < RANKS; ++k) {
    uint64_t nth = 1;
    for (;; nth += LS_SANITIZED ? 5 : 1) {
      life self = {.failing = k, .nth = nth}, again = {0};
      if (!live(&self, &wanted)) break;
      if (nth % 10 == 1) live(&again, &wanted);  // From nothing, often enough.
    }
    print_message("rank %d: %llu requests\n", k, (unsigned long long)nth);
    assert_true(nth > 100);
  }
}

// ---- Arguments -------------------------------------------------------------
// Rank 1 has failed to make them.
static ls_status give_what_failed(ls_communicator *communicator, void *user) {
  life *self = user;
  rank_life *rank = &self->ranks[communicator->rank];
  ls_runtime *runtime = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_create(
      &(ls_runtime_options){.threads = 1, .communicator = communicator},
      &runtime));
  ls_runtime *outside = ls_runtime_make_current(runtime);
  world it = {0};
  rank->status = make(&it);
  if (ls_status_is_ok(rank->status)) {
    LS_OWN(ls_nest, failed) =
        communicator->rank == self->failing
            ? ls_fail(LS_STATUS(LS_DATA_LOSS, "the file is torn"))
            : ls_none();
    rank->status =
        step(&it, communicator->rank == self->failing ? failed : it.args);
  }
  drop(&it);
  ls_runtime_make_current(outside);
  rank->status = ls_status_join(rank->status, ls_runtime_destroy(runtime));
  if (communicator->rank == self->failing) return wait_for_others(self);
  __atomic_fetch_add(&self->ended, 1, __ATOMIC_RELEASE);
  return ls_ok();
}

TEST(a_rank_whose_arguments_failed_leaves_no_rank_waiting) {
  life self = {.failing = 1};
  expect_status(ls_standin_run(RANKS, give_what_failed, &self), LS_DATA_LOSS,
                "on rank 1 of 2");
  expect_status(self.ranks[0].status, LS_DATA_LOSS, "on rank 1 of 2");
  expect_status(self.ranks[1].status, LS_DATA_LOSS, "the file is torn");
}

// ---- Training loops --------------------------------------------------------
// Rank 0 writes the run, and a call to its files fails.
static ls_status train_tiny(ls_train_result *result) {
  const ls_model_type *type = ls_model_find("tiny");
  ls_strategy *strategy = NULL;
  ls_dataset *data = NULL;
  ls_model model = {0};
  ls_status status = ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(REPLICAS)}, &strategy);
  data = ls_dataset_synthetic(
      &(ls_synthetic_options){.size = 12,
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
                                          .steps = 2,
                                          .run_folder = "run",
                                          .save_background = LS_FLAG_OFF,
                                          .log_every = 1},
                      result);
  ls_model_destroy(&model);
  ls_dataset_release(data);
  if (strategy != NULL) ls_strategy_release(strategy);
  return status;
}

typedef struct training_life {
  life life;
  memory_files files[RANKS];
  ls_train_result results[RANKS];
} training_life;

static ls_status train_as_rank(ls_communicator *communicator, void *user) {
  training_life *self = user;
  memory_files *files = &self->files[communicator->rank];
  const bool failing =
      communicator->rank == self->life.failing && self->life.nth > 0;
  if (failing) files->fail_at = (int)self->life.nth;
  const ls_file_system system = memory_files_system(files);
  ls_runtime *runtime = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_create(
      &(ls_runtime_options){
          .threads = 1, .communicator = communicator, .file_system = &system},
      &runtime));
  ls_runtime *outside = ls_runtime_make_current(runtime);
  ls_status status = train_tiny(&self->results[communicator->rank]);
  ls_runtime_make_current(outside);
  status = ls_status_join(status, ls_runtime_destroy(runtime));
  self->life.ranks[communicator->rank].status = status;
  if (failing) return wait_for_others(&self->life);
  __atomic_fetch_add(&self->life.ended, 1, __ATOMIC_RELEASE);
  return ls_ok();
}

// Whether there were so many calls.
static bool train_with_files_failing(uint64_t nth) {
  training_life self = {.life = {.failing = 0, .nth = nth}};
  const ls_status status = ls_standin_run(RANKS, train_as_rank, &self);
  const ls_status *seen[] = {&self.life.ranks[0].status,
                             &self.life.ranks[1].status};
  const bool failed = !ls_status_is_ok(*seen[0]);
  // Rank 1 may have ended when the other one comes to save the model.
  const bool both = !ls_status_is_ok(*seen[1]);
  assert_true(both || !failed || self.results[1].steps == 2);
  expect_status(*seen[1], both ? LS_UNAVAILABLE : LS_OK,
                both ? "on rank 0 of 2" : "");
  expect_status(*seen[0], failed ? LS_UNAVAILABLE : LS_OK,
                failed ? "cannot" : "");
  expect_status(status, failed ? LS_UNAVAILABLE : LS_OK, "");
  assert_int_equal(self.files[1].count, 0);
  for (int32_t k = 0; k < RANKS; ++k)
    memory_files_clear(&self.files[k]);
  return failed;
}

TEST(a_rank_that_cannot_write_its_run_leaves_no_rank_waiting) {
  uint64_t nth = 1;
  while (train_with_files_failing(nth))
    ++nth;
  assert_true(nth > 8);
}
