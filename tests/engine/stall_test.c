// SPDX-License-Identifier: Apache-2.0
//
// Runs that stand still: they end with a table of who is where, a call that
// does not come back is abandoned and counted, and anybody may look on.
#include "support/expect.h"

#include <stdio.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "base/threads/worker.h"
#include "lockstep/eager.h"
#include "lockstep/host.h"
#include "lockstep/runs.h"
#include "lockstep/runtime_settings.h"
#include "support/callbacks.h"
#include "support/lowered.h"

enum { STALL_MS = 150, REPLICAS = 4 };

// ---- Kernels ---------------------------------------------------------------
// What they do on this replica; on the others they answer at once.
static struct {
  int32_t replica;  // Atomic.
  bool hangs;       // Atomic: until it is false, a stuck call waits.
  int starts;       // Atomic.
  ls_host_call *kept;
} host;

static ls_status answer(ls_host_call *call) {
  *(int32_t *)call->outputs[0] = *(const int32_t *)call->inputs[0] + 100;
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static bool is_stuck(const ls_host_call *call) {
  __atomic_add_fetch(&host.starts, 1, __ATOMIC_RELAXED);
  return call->replica == __atomic_load_n(&host.replica, __ATOMIC_RELAXED);
}

// A loop that does not end by itself.
static ls_status start_spinning(ls_host_call *call) {
  const bool stuck = is_stuck(call);
  while (stuck && __atomic_load_n(&host.hangs, __ATOMIC_ACQUIRE))
    ls_spin_pause();
  return answer(call);
}

static ls_status start_sleeping(ls_host_call *call) {
  const bool stuck = is_stuck(call);
  while (stuck && __atomic_load_n(&host.hangs, __ATOMIC_ACQUIRE))
    ls_clock_system()->sleep(NULL, 1000000);
  return answer(call);
}

// Returns at once, but is never done.
static ls_status start_forgetting(ls_host_call *call) {
  if (!is_stuck(call)) return answer(call);
  host.kept = call;
  return ls_ok();
}

static const ls_host_kernel spinning = {
    .name = "spinning", .infer = infer_like_first, .start = start_spinning};
static const ls_host_kernel sleeping = {
    .name = "sleeping", .infer = infer_like_first, .start = start_sleeping};
static const ls_host_kernel forgetting = {
    .name = "forgetting", .infer = infer_like_first, .start = start_forgetting};
static const ls_host_kernel *const kernels[] = {&spinning, &sleeping,
                                                &forgetting};

// ---- A program -------------------------------------------------------------
// Every replica asks the host for its id and 100, and all are reduced.
static void make(const ls_host_kernel *kernel, const char *reduce,
                 lowered *program) {
  char text[1024];
  snprintf(text, sizeof(text),
           "graph lowered \"p\" {"
           "  %%1 = replicate() {replicas = %d, num_split = 0, "
           "num_gathered = 0}"
           "  (graph lowered \"r\" {"
           "    %%1 = replica_id() varying : i32[]"
           "    %%2 = host(%%1) {kernel = kernel \"%s\"} varying : i32[]"
           "    %%3 = all_reduce(%%2) {reduce = \"%s\"} : i32[]"
           "    return %%3 }) : i32[]"
           "  return %%1 }",
           REPLICAS, kernel->name, reduce);
  expect_ok(lowered_create(
      &(lowered_options){.text = text, .kernels = &kernel, .num_kernels = 1},
      program));
}

static ls_runtime *begin(const ls_runtime_options *options) {
  ls_runtime *runtime = NULL;
  memset(&host, 0, sizeof(host));
  host.hangs = true;
  host.replica = 2;
  expect_ok(ls_runtime_create(options, &runtime));
  (void)ls_runtime_make_current(runtime);
  return runtime;
}

// Lets stuck calls go, and the runtime once they have.
static void end(ls_runtime *runtime) {
  __atomic_store_n(&host.hangs, false, __ATOMIC_RELEASE);
  if (host.kept != NULL) ls_host_done(host.kept, ls_ok());
  for (int i = 0; i < 5000 && ls_runtime_abandoned_calls(runtime) > 0; ++i)
    ls_clock_system()->sleep(NULL, 1000000);
  assert_int_equal(ls_runtime_abandoned_calls(runtime), 0);
  (void)ls_runtime_make_current(NULL);
  expect_ok(ls_runtime_destroy(runtime));
}
LS_OWNED_POINTER(ls_runtime, end)

// ---- Stuck calls -----------------------------------------------------------
// Where each replica is a part, none waits for a lower one.
static void expect_table(ls_status status, bool single) {
  const char *const parts[] = {
      "no progress for 0.15 s",
      "replica 2: waiting for the host in op",
      single ? "replicas 0-1, 3 arrived, replica 2 not"
             : "replicas 0-1 arrived, replicas 2-3 not",
      single ? "3 replicas have ended"
             : "replica 3: waiting for lower replicas at op",
      "replica 3 called the host in op host",
      "step 0 began",
  };
  for (size_t i = 0; i < LS_COUNT_OF(parts); ++i)
    expect_contains(ls_status_message(status), parts[i]);
  expect_status(status, LS_DEADLINE_EXCEEDED,
                "shared code: waiting for the replicas to end");
}

// One replica at a time for each thread, if there are two.
static const char *lanes_on_threads(void *user, const char *name) {
  (void)user;
  return strcmp(name, "LS_LANES") == 0 ? "threads" : NULL;
}

TEST(a_call_that_does_not_end_ends_its_run_with_a_table) {
  for (size_t i = 0; i < 2 * LS_COUNT_OF(kernels); ++i) {
    LS_OWN(ls_runtime, runtime) =
        begin(&(ls_runtime_options){.threads = 1 + (int)i % 2,
                                    .stall_ms = STALL_MS,
                                    .environment = lanes_on_threads});
    lowered program;
    int32_t sum = 0;
    make(kernels[i / 2], "sum", &program);
    expect_table(lowered_run(&program, NULL, (void *[]){&sum}), i % 2 == 1);
    assert_int_equal(ls_runtime_abandoned_calls(runtime), 1);
    // The next run has nothing to do with it.
    __atomic_store_n(&host.replica, -1, __ATOMIC_RELAXED);
    expect_ok(lowered_run(&program, NULL, (void *[]){&sum}));
    assert_int_equal(sum, 100 * REPLICAS + 6);
    assert_int_equal(ls_runtime_abandoned_calls(runtime), 1);
    lowered_destroy(&program);
    expect_status(ls_runtime_destroy(runtime), LS_FAILED_PRECONDITION,
                  "1 abandoned host call still runs; one of them: op");
  }
}

// Another call fails while one is stuck: the failure is told, after the stall.
static ls_status start_failing(ls_host_call *call) {
  if (call->replica == 3) return ls_out_of_range("no more data");
  return start_sleeping(call);
}

TEST(a_failed_run_does_not_wait_for_ever_either) {
  static const ls_host_kernel failing = {
      .name = "failing", .infer = infer_like_first, .start = start_failing};
  LS_OWN(ls_runtime, runtime) =
      begin(&(ls_runtime_options){.threads = 1, .stall_ms = STALL_MS});
  LS_OWN(lowered, program) = {0};
  make(&failing, "max", &program);
  expect_status(lowered_run(&program, NULL, NULL), LS_OUT_OF_RANGE,
                "no more data");
  assert_int_equal(ls_runtime_abandoned_calls(runtime), 1);
}

// Of an op of three replicas, behind one of more.
TEST(the_table_is_of_the_replicas_that_run) {
  static const char text[] =
      "graph lowered \"p\" {"
      "  %1 = replicate() {replicas = 6} (graph lowered \"a\" {"
      "    %1 = replica_id() varying : i32[]"
      "    %2 = all_reduce(%1) {reduce = \"sum\"} : i32[]"
      "    return %2 }) : i32[]"
      "  %2 = replicate(%1) {replicas = 3} (graph lowered \"b\" {"
      "    %1 = parameter() {dtype = i32, shape = shape[], index = 0}"
      "    captures (%1) : i32[]"
      "    %2 = replica_id() varying : i32[]"
      "    %3 = add(%1, %2) varying : i32[]"
      "    %4 = host(%3) {kernel = kernel \"sleeping\"} varying : i32[]"
      "    %5 = all_reduce(%4) {reduce = \"max\"} : i32[]"
      "    return %5 }) : i32[]"
      "  return %2 }";
  LS_OWN(ls_runtime, runtime) = begin(&(ls_runtime_options){
      .threads = 1, .stall_ms = STALL_MS, .environment = lanes_on_threads});
  LS_OWN(lowered, program) = {0};
  int32_t largest = 0;
  expect_ok(lowered_create(
      &(lowered_options){.text = text, .kernels = kernels, .num_kernels = 3},
      &program));
  ls_status status = lowered_run(&program, NULL, (void *[]){&largest});
  expect_contains(ls_status_message(status), "2 replicas have ended");
  expect_contains(ls_status_message(status),
                  "replicas 0-1 arrived, replica 2 not");
  expect_status(status, LS_DEADLINE_EXCEEDED,
                "replica 2: waiting for the host in op");
  __atomic_store_n(&host.replica, -1, __ATOMIC_RELAXED);
  expect_ok(lowered_run(&program, NULL, (void *[]){&largest}));
  assert_int_equal(largest, 15 + 2 + 100);
}

// ---- The clock -------------------------------------------------------------
// A clock on which every look is a second later.
static int64_t hasty_now(void *user) {
  return __atomic_add_fetch((int64_t *)user, INT64_C(1000000000),
                            __ATOMIC_RELAXED);
}

TEST(time_is_the_runtimes_clock) {
  int64_t time = 0;
  const ls_clock clock = {.now = hasty_now, .user = &time};
  LS_OWN(ls_runtime, runtime) =
      begin(&(ls_runtime_options){.threads = 1, .clock = &clock});
  LS_OWN(lowered, program) = {0};
  make(&sleeping, "sum", &program);
  expect_status(lowered_run(&program, NULL, NULL), LS_DEADLINE_EXCEEDED,
                "no progress for 30 s");
}

// ---- Looking on ------------------------------------------------------------
typedef struct looker {
  ls_runtime *runtime;
  char *text;
} looker;

// Looks until the stuck replica is alone, then lets it go.
static void look_on(void *user) {
  looker *self = user;
  for (int i = 0; i < 5000; ++i) {
    ls_text_release(self->text);
    expect_ok(ls_runs_print(self->runtime, &self->text));
    if (strstr(self->text, "replica 2: waiting") != NULL) break;
    ls_clock_system()->sleep(NULL, 1000000);
  }
  __atomic_store_n(&host.hangs, false, __ATOMIC_RELEASE);
}

TEST(a_run_can_be_looked_at_while_it_goes_on) {
  looker self = {.runtime = begin(&(ls_runtime_options){.threads = 1})};
  lowered program;
  ls_worker thread = {0};
  int32_t sum = 0;
  make(&sleeping, "sum", &program);
  expect_ok(ls_runs_print(self.runtime, &self.text));
  assert_string_equal(self.text, "");  // Nothing runs.
  expect_ok(ls_worker_start(&thread, "looker", NULL, look_on, &self));
  expect_ok(lowered_run(&program, NULL, (void *[]){&sum}));
  ls_worker_join(&thread);
  assert_int_equal(sum, 100 * REPLICAS + 6);
  expect_contains(self.text, "step 0\n");
  expect_contains(self.text, "replica 2: waiting for the host in op");
  expect_contains(self.text, "replicas 0-1 arrived, replicas 2-3 not");
  ls_text_release(self.text);
  lowered_destroy(&program);
  end(self.runtime);
}

// ---- Starting --------------------------------------------------------------
// Calls that wait for one another inside their kernels still all come to run.
static ls_status start_meeting(ls_host_call *call) {
  __atomic_add_fetch(&host.starts, 1, __ATOMIC_RELAXED);
  while (__atomic_load_n(&host.starts, __ATOMIC_RELAXED) < REPLICAS)
    ls_clock_system()->sleep(NULL, 1000000);
  return answer(call);
}

TEST(a_call_that_waits_is_passed_over_by_the_next) {
  static const ls_host_kernel meeting = {
      .name = "meeting", .infer = infer_like_first, .start = start_meeting};
  LS_OWN(ls_runtime, runtime) = begin(&(ls_runtime_options){.threads = 1});
  LS_OWN(lowered, program) = {0};
  int32_t largest = 0;
  make(&meeting, "max", &program);
  expect_ok(lowered_run(&program, NULL, (void *[]){&largest}));
  assert_int_equal(largest, 103);
}

TEST(a_stall_that_no_clock_can_measure_is_refused) {
  ls_runtime *runtime = NULL;
  expect_status(
      ls_runtime_create(&(ls_runtime_options){.stall_ms = INT64_MAX}, &runtime),
      LS_INVALID_ARGUMENT, "stall limit");
  assert_null(runtime);
}
