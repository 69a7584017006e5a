// SPDX-License-Identifier: Apache-2.0
//
// Replicas on several ranks: the same bytes as on one, and no rank waits for
// one that failed.
#include <string.h>
#include <unistd.h>

#include "distribute/own.h"
#include "lockstep/communicator.h"
#include "lockstep/host.h"
#include "support/expect.h"
#include "support/place.h"
#include "support/rank_job.h"
#include "support/replicas.h"
#include "support/sanitizer.h"
#include "support/small_models.h"
#include "support/values.h"

// ---- Training on ranks -----------------------------------------------------
// The bytes of all ranks are those of one that is alone.
static void expect_same_on(rank_job work, const int *ranks, size_t count) {
  LS_OWN(rank_job, alone) = work;
  rank_job_init(&alone);
  expect_ok(ls_standin_run(1, rank_job_train, &alone));
  const rank_record *want = &alone.records[0];
  assert_true(want->size > 0);
  for (size_t i = 0; i < count; ++i) {
    rank_job_init(&work);
    expect_ok(ls_standin_run(ranks[i], rank_job_train, &work));
    for (int k = 0; k < ranks[i]; ++k) {
      assert_int_equal(work.records[k].size, want->size);
      if (memcmp(work.records[k].bytes, want->bytes, want->size) != 0)
        fail_msg("rank %d of %d has other bytes", k, ranks[i]);
    }
    rank_job_deinit(&work);
  }
}

static void expect_same_on_two_and_four(const ls_model_type *type,
                                        int64_t batch) {
  const int ranks[] = {2, 4};
  const rank_job work = {.type = type,
                         .replicas = 8,
                         .steps = LS_SANITIZED ? 5 : 50,
                         .threads = 1,
                         .batch = batch};
  expect_same_on(work, ranks, LS_COUNT_OF(ranks));
}

TEST(training_mlp_on_ranks_gives_the_bytes_of_one) {
  expect_same_on_two_and_four(&small_mlp, 64);
  expect_same_on_two_and_four(&small_mlp, 61);
}

TEST(so_does_a_cnn_with_dropout) {
  expect_same_on_two_and_four(&small_cnn, 64);
}

TEST(so_does_a_gpt) { expect_same_on_two_and_four(&small_gpt, 32); }

TEST(replicas_need_not_be_dealt_evenly) {
  const int ranks[] = {2, 3, 5};
  for (int replicas = 5; replicas <= 9; ++replicas)
    for (int threads = 1; threads <= 3; threads += 2) {
      if (LS_SANITIZED && (threads == 1) == (replicas % 2 == 0)) continue;
      const rank_job work = {.type = &small_mlp,
                             .replicas = replicas,
                             .steps = 2,
                             .threads = threads,
                             .batch = 41};  // Some have an example more.
      expect_same_on(work, ranks, LS_COUNT_OF(ranks));
    }
}

// ---- Merges in loops -------------------------------------------------------
static ls_nest below_three(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar_i64(LS_DTYPE_I64, 3)));
}

// Merges what the replica has, all it gathers, and a number that it draws.
static ls_nest merge_again(ls_nest values, void *user) {
  const ls_tensor x = *(const ls_tensor *)user;
  const ls_tensor sum = ls_nest_tensor(values, 1);
  const ls_tensor mean = ls_all_reduce(
      LS_REDUCE_MEAN, ls_reduce_mean(ls_mul(x, sum), LS_ALL_AXES));
  const ls_tensor rows = ls_all_gather(ls_mul(x, mean), 0);
  const ls_tensor largest =
      ls_all_reduce(LS_REDUCE_MAX, ls_reduce_sum(ls_sub(x, sum), LS_ALL_AXES));
  const ls_tensor next =
      ls_add(ls_add(mean, ls_reduce_mean(rows, LS_ALL_AXES)), largest);
  return LS_TUPLE(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)),
                  ls_leaf(ls_mul_scalar(next, 0.1)));
}

// Gives what is merged, and what each replica has of it.
static ls_nest loop_step(ls_nest args, void *user) {
  ls_variable *variables[2];
  small_mlp.variables(user, variables, 2);
  ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor start = ls_reduce_mean(x, LS_ALL_AXES);
  LS_OWN(ls_nest, last) = ls_while(
      below_three, merge_again, &x,
      LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0)), ls_leaf(start)), 0);
  const ls_tensor merged = ls_nest_tensor(last, 1);
  ls_variable_assign_add(
      variables[1],
      ls_broadcast(ls_all_reduce(LS_REDUCE_SUM, merged), LS_SHAPE(256)));
  return LS_TUPLE(ls_leaf(merged), ls_leaf(ls_mul(x, merged)));
}

TEST(merges_in_loops_and_results_of_replicas_come_to_all) {
  const int ranks[] = {2, 3, 4};
  const rank_job work = {.type = &small_mlp,
                         .step = loop_step,
                         .replicas = 8,
                         .steps = 3,
                         .threads = 2,
                         .batch = 32};
  expect_same_on(work, ranks, LS_COUNT_OF(ranks));
}

// ---- Steps in loops --------------------------------------------------------
static ls_nest draw_again(ls_nest values, void *user) {
  const ls_tensor drawn =
      ls_random_uniform(LS_DTYPE_F32, LS_SCALAR, 0, 1, NULL);
  const ls_tensor x =
      user != NULL ? ls_all_reduce(LS_REDUCE_SUM, drawn) : drawn;
  return LS_TUPLE(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)),
                  ls_leaf(ls_add(ls_nest_tensor(values, 1), x)));
}

static ls_nest draw_in_steps(bool meets) {
  return ls_step_while(below_three, draw_again, meets ? &meets : NULL,
                       LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0)),
                                ls_leaf(ls_scalar(LS_DTYPE_F32, 0))),
                       0);
}

static ls_nest meeting_steps(ls_nest args, void *user) {
  (void)args, (void)user;
  return draw_in_steps(true);
}

static ls_nest lonely_steps(ls_nest args, void *user) {
  (void)args, (void)user;
  return draw_in_steps(false);
}

TEST(steps_in_loops_draw_the_same_on_ranks) {
  const int ranks[] = {2, 3};
  rank_job work = {.type = &small_mlp,
                   .step = meeting_steps,
                   .replicas = 4,
                   .steps = 2,
                   .threads = 1,
                   .batch = 8};
  expect_same_on(work, ranks, LS_COUNT_OF(ranks));
  // Also where replicas do not meet.
  work.step = lonely_steps;
  expect_same_on(work, ranks, LS_COUNT_OF(ranks));
}

// ---- Who runs what ---------------------------------------------------------
static int calls[8];  // Of each replica, on whatever rank.

static ls_status count_call(ls_host_call *call) {
  __atomic_fetch_add(&calls[call->replica], 1, __ATOMIC_RELAXED);
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel counting = {.name = "counting",
                                        .start = count_call};

static ls_nest counting_step(ls_nest args, void *user) {
  (void)user;
  ls_host_call_add(&counting, NULL, NULL, 0);
  return ls_leaf(ls_reduce_sum(ls_nest_tensor(args, 0), LS_ALL_AXES));
}

TEST(each_replica_runs_on_one_rank) {
  rank_job work = {.type = &small_mlp,
                   .step = counting_step,
                   .replicas = 8,
                   .steps = 5,
                   .threads = 1,
                   .batch = 16};
  memset(calls, 0, sizeof(calls));
  rank_job_init(&work);
  expect_ok(ls_standin_run(3, rank_job_train, &work));
  rank_job_deinit(&work);
  for (size_t r = 0; r < LS_COUNT_OF(calls); ++r)
    assert_int_equal(calls[r], 5);
}

// ---- Failures --------------------------------------------------------------
static ls_status fail_on_replica_five(ls_host_call *call) {
  ls_host_done(call, call->replica == 5
                         ? LS_STATUS(LS_DATA_LOSS, "the file is torn")
                         : ls_ok());
  return ls_ok();
}

static const ls_host_kernel failing = {.name = "failing",
                                       .start = fail_on_replica_five};

static ls_nest failing_step(ls_nest args, void *user) {
  (void)user;
  ls_host_call_add(&failing, NULL, NULL, 0);
  return ls_leaf(ls_all_reduce(
      LS_REDUCE_SUM, ls_reduce_sum(ls_nest_tensor(args, 0), LS_ALL_AXES)));
}

TEST(a_replica_that_fails_ends_the_step_on_all_ranks) {
  LS_OWN(rank_job, work) = {.type = &small_mlp,
                            .step = failing_step,
                            .replicas = 8,
                            .steps = 1,
                            .threads = 1,
                            .batch = 16};
  rank_job_init(&work);
  const ls_status status = ls_standin_run(4, rank_job_train, &work);
  expect_contains(ls_status_message(status), "on rank 2 of 4");
  expect_status(status, LS_DATA_LOSS, "the file is torn");
  for (int k = 0; k < 4; ++k)
    assert_int_equal(work.records[k].size, 0);
}

TEST(a_rank_without_replicas_is_refused) {
  LS_OWN(rank_job, work) = {
      .type = &small_mlp, .replicas = 2, .steps = 1, .threads = 1, .batch = 8};
  rank_job_init(&work);
  expect_status(ls_standin_run(3, rank_job_train, &work), LS_INVALID_ARGUMENT,
                "2 replicas on 3 ranks");
}

TEST(a_rank_of_other_numerics_is_refused) {
  for (int ranks = 3; ranks <= 4; ++ranks) {
    LS_OWN(rank_job, work) = {.type = &small_mlp,
                              .replicas = 8,
                              .steps = 1,
                              .threads = 1,
                              .batch = 8,
                              .direct = 2};
    rank_job_init(&work);
    const ls_status status = ls_standin_run(ranks, rank_job_train, &work);
    expect_contains(ls_status_message(status), "fast");
    expect_contains(ls_status_message(status), "direct");
    expect_contains(ls_status_message(status), "ranks 0 and 2 run '");
    expect_status(status, LS_FAILED_PRECONDITION, "another arithmetic: '");
    for (int k = 0; k < ranks; ++k)
      assert_int_equal(work.records[k].size, 0);
  }
}

// Random ops with a seed; rank 1's program has another factor.
typedef struct draws {
  int64_t seed;
  int32_t rank;
} draws;

static ls_nest draw_by_rank(ls_nest args, void *user) {
  const draws *self = user;
  (void)args;
  const ls_tensor x = ls_random_uniform(LS_DTYPE_F64, LS_SHAPE(4), 0, 1, NULL);
  return ls_leaf(ls_all_reduce(
      LS_REDUCE_SUM,
      ls_reduce_sum(ls_mul_scalar(x, self->rank == 1 ? 3 : 1), LS_ALL_AXES)));
}

static ls_status run_draws(ls_communicator *communicator, void *user) {
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  draws self = {*(const int64_t *)user, communicator->rank};
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_function, function) = NULL;
  LS_OWN(ls_nest, result) = ls_none();
  expect_ok(ls_function_create(&(ls_function_options){.call = draw_by_rank,
                                                      .user = &self,
                                                      .seed = self.seed},
                               &function));
  return ls_strategy_run(two, ls_traced(function), ls_none(), &result);
}

TEST(ranks_compare_programs_with_any_seed) {
  int64_t seeds[] = {0, 5, -1, INT64_MAX, INT64_MIN};
  for (size_t i = 0; i < LS_COUNT_OF(seeds); ++i)
    expect_status(ls_standin_run(2, run_draws, &seeds[i]),
                  LS_FAILED_PRECONDITION, "another program; op ");
}

// Ranks that keep their failures to themselves, of which rank 1 stays until the
// others have ended: what they know of it is what the communicator has told
// them.
typedef struct silent_job {
  rank_job work;
  int ended;          // Of the others, so many.
  ls_status seen[3];  // By rank.
} silent_job;

enum { PATIENCE_MS = 20000 };

static ls_status wait_for_others(const silent_job *self, int others) {
  for (int i = 0; i < PATIENCE_MS; ++i) {
    if (__atomic_load_n(&self->ended, __ATOMIC_ACQUIRE) == others)
      return ls_ok();
    usleep(1000);
  }
  return LS_STATUS(LS_DEADLINE_EXCEEDED,
                   "request %llu fails on rank 1, and the others wait",
                   (unsigned long long)self->work.nth);
}

static ls_status train_silently(ls_communicator *communicator, void *user) {
  silent_job *self = user;
  self->seen[communicator->rank] = rank_job_train(communicator, &self->work);
  if (communicator->rank == 1)
    return wait_for_others(self, communicator->ranks - 1);
  __atomic_fetch_add(&self->ended, 1, __ATOMIC_RELEASE);
  return ls_ok();
}

// With that request of rank 1 failing. Whether its steps make as many.
static bool train_short_of_memory(uint64_t nth) {
  silent_job self = {.work = {.type = &small_mlp,
                              .replicas = 3,
                              .steps = 2,
                              .threads = 1,
                              .batch = 6,
                              .nth = nth}};
  expect_ok(ls_counting_allocator_create(NULL, &self.work.memory));
  rank_job_init(&self.work);
  const ls_status status = ls_standin_run(3, train_silently, &self);
  const bool failed = !ls_status_is_ok(self.seen[1]);
  const ls_code code = failed ? LS_RESOURCE_EXHAUSTED : LS_OK;
  const char *told = failed ? "on rank 1 of 3" : "";
  expect_status(status, code, told);
  expect_status(self.seen[0], code, told);
  expect_status(self.seen[1], code, "");
  expect_status(self.seen[2], code, told);
  ls_counting_allocator_destroy(self.work.memory);
  rank_job_deinit(&self.work);
  return failed;
}

TEST(a_rank_without_memory_leaves_no_rank_waiting) {
  uint64_t nth = 1;
  while (train_short_of_memory(nth))
    nth += 25;
  assert_true(nth > 25);
}
