// SPDX-License-Identifier: Apache-2.0
// The CPU engine: values of all replicas on several ranks, each of which knows
// its own replicas' parts only.
#include <stdlib.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "lockstep/communicator.h"
#include "support/callbacks.h"
#include "support/fault.h"
#include "support/place.h"
#include "support/replica_lanes.h"
#include "support/sanitizer.h"
#include "support/wide.h"

#define WIDE_FILE LS_TESTS_DIR "/engine/wide.ls"

enum { MOST_RANKS = 4, MOST_REPLICAS = 16 };

typedef float rows[MOST_REPLICAS][LANES_WIDTH];

// What all ranks do, and what each gets.
typedef struct job {
  const char *template;
  int32_t replicas;
  int threads;
  const char *lanes;  // LS_LANES, or NULL: side by side.
  rows results[MOST_RANKS];
} job;

// How its replicas go must be how they were to.
static ls_status check_plan(lowered *program, const job *work) {
  if (lowered_plan_count(program, "launch") > 0)
    return work->lanes != NULL ? ls_ok() : ls_internal("there are lanes");
  return work->lanes == NULL && lowered_plan_count(program, "exchange") > 0
             ? ls_ok()
             : ls_internal("there are no lanes");
}

static ls_status run_program(const job *work, bool alone, rows out) {
  void *outputs[MOST_REPLICAS];
  for (int32_t r = 0; r < work->replicas; ++r)
    outputs[r] = out[r];
  LS_OWN(lowered, program) = {0};
  ls_status status = wide_create(work->template, work->replicas, &program);
  if (ls_status_is_ok(status) && !alone) status = check_plan(&program, work);
  for (int run = 0; run < 2 && ls_status_is_ok(status); ++run) {
    memset(out, 0x55, sizeof(rows));
    status = lowered_run(&program, lanes_rows, outputs);
  }
  return status;
}

static const char *lanes_by(void *user, const char *name) {
  const job *work = user;
  return strcmp(name, "LS_LANES") == 0 ? work->lanes : NULL;
}

static ls_status run_rank(ls_communicator *communicator, void *user) {
  job *work = user;
  LS_OWN(open_place, home) =
      runtime_begin((ls_runtime_options){.threads = work->threads,
                                         .communicator = communicator,
                                         .environment = lanes_by,
                                         .environment_user = work});
  return run_program(work, false, work->results[communicator->rank]);
}

static void expect_same(const wide_pair *p, const job *how, int32_t ranks) {
  static rows want;
  static job work;
  const int32_t replicas = how->replicas;
  work = *how;
  work.template = p->whole;
  (void)wide_rows();
  expect_ok(run_program(&work, true, want));
  work.template = p->cut;
  ls_status status = ls_standin_run(ranks, run_rank, &work);
  if (!ls_status_is_ok(status))
    fail_msg("%s, %d replicas, %d ranks: %s", p->what, replicas, ranks,
             ls_status_message(status));
  for (int32_t k = 0; k < ranks; ++k)
    if (memcmp(want, work.results[k], (size_t)replicas * sizeof(*want)) != 0)
      fail_msg("%s, %d replicas: rank %d of %d has other bytes", p->what,
               replicas, k, ranks);
}

TEST(several_ops_give_the_bytes_of_one_on_ranks) {
  static const int32_t replicas[] = {4, 7, 16};
  static const char *const lanes[] = {NULL, "blocks", "threads"};
  size_t count = 0;
  const wide_pair *pairs = wide_pairs(WIDE_FILE, &count);
  for (size_t i = 0; i < count; ++i)
    for (size_t k = 0; k < (LS_SANITIZED ? 2 : LS_COUNT_OF(replicas)); ++k)
      for (int32_t ranks = 2; ranks <= MOST_RANKS; ++ranks)
        for (size_t l = 0; l < LS_COUNT_OF(lanes); ++l)
          expect_same(&pairs[i],
                      &(job){.replicas = replicas[k],
                             .threads = 1 + ranks % 2,
                             .lanes = lanes[l]},
                      ranks);
}

// ---- Failures --------------------------------------------------------------
static const char host_text[] =
    "graph lowered \"p\" {"
    "  %1 = replicate() {replicas = $R, num_wide_gathered = 1} (graph lowered"
    "  \"a\" {"
    "    %1 = replica_id() varying : i32[]"
    "    return %1 }) : i32[$R]"
    "  %2 = host(%1) {kernel = kernel \"refuse\", replicas = $R, wide = [0]}"
    "  : i32[$R]"
    "  %3 = replicate(%2) {replicas = $R, num_wide_split = 1} (graph lowered"
    "  \"b\" {"
    "    %1 = parameter() {dtype = i32, shape = shape[], index = 0} varying"
    "    : i32[]"
    "    %2 = all_reduce(%1) {reduce = \"sum\"} : i32[]"
    "    return %2 }) : i32[]"
    "  return %3 }";

static uint8_t asked[MOST_REPLICAS];  // How often. Atomic.

static ls_status start_refusing(ls_host_call *call) {
  __atomic_add_fetch(&asked[call->replica], 1, __ATOMIC_RELAXED);
  if (call->replica != *(const int32_t *)call->inputs[0])
    return ls_internal("replica %d has another's part", call->replica);
  if (call->replica == 5) return ls_out_of_range("no more data");
  *(int32_t *)call->outputs[0] = call->replica;
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel refuse = {
    .name = "refuse", .infer = infer_like_first, .start = start_refusing};
static const ls_host_kernel *const refusing[] = {&refuse};

static ls_status run_refused(ls_communicator *communicator, void *user) {
  const int32_t replicas = *(const int32_t *)user;
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  HEAP(char, text) = wide_expand(host_text, replicas);
  LS_OWN(lowered, program) = {0};
  int32_t sum = 0;
  ls_status status = lowered_create(
      &(lowered_options){.text = text, .kernels = refusing, .num_kernels = 1},
      &program);
  if (ls_status_is_ok(status))
    status = lowered_run(&program, NULL, (void *[]){&sum});
  if (ls_status_is_ok(status) && sum != replicas * (replicas - 1) / 2)
    status = ls_internal("the sum is %d", sum);
  return status;
}

TEST(each_rank_asks_the_host_for_its_own_replicas) {
  memset(asked, 0, sizeof(asked));
  int32_t replicas = 5;
  expect_ok(ls_standin_run(2, run_refused, &replicas));
  for (int32_t r = 0; r < replicas; ++r)
    assert_int_equal(asked[r], 1);
}

TEST(a_call_that_fails_on_one_rank_fails_on_all) {
  int32_t replicas = 8;
  ls_status status = ls_standin_run(4, run_refused, &replicas);
  expect_contains(ls_status_message(status), "replica 5");
  expect_contains(ls_status_message(status), "rank 2");
  expect_status(status, LS_OUT_OF_RANGE, "no more data");
}
