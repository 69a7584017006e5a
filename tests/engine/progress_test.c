// SPDX-License-Identifier: Apache-2.0
//
// A run that waits for the host stands still only if nothing in the runtime
// goes on: what it waits for may come of another run. Time is a clock that the
// test sets.
#include <stdio.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "base/threads/worker.h"
#include "lockstep/eager.h"
#include "lockstep/host.h"
#include "lockstep/runtime_settings.h"
#include "support/callbacks.h"
#include "support/lowered.h"
#include "support/replicas.h"

enum { LIMIT_MS = 1000, NANOS_PER_MS = 1000000 };

// ---- Time ------------------------------------------------------------------
typedef struct set_clock {
  int64_t time;   // Atomic.
  int64_t looks;  // So often somebody has looked. Atomic.
} set_clock;

static int64_t set_now(void *user) {
  set_clock *self = user;
  __atomic_add_fetch(&self->looks, 1, __ATOMIC_SEQ_CST);
  return __atomic_load_n(&self->time, __ATOMIC_SEQ_CST);
}

static void advance(set_clock *self, int64_t ms) {
  __atomic_add_fetch(&self->time, ms * NANOS_PER_MS, __ATOMIC_SEQ_CST);
}

// Who waits has seen the time, twice.
static void let_look(set_clock *self) {
  const int64_t before = __atomic_load_n(&self->looks, __ATOMIC_SEQ_CST);
  for (int i = 0; i < 5000; ++i) {
    if (__atomic_load_n(&self->looks, __ATOMIC_SEQ_CST) > before + 2) return;
    ls_clock_system()->sleep(NULL, 1000000);
  }
  fail_msg("nobody waits");
}

// ---- A run that waits ------------------------------------------------------
static struct {
  bool goes;  // Atomic: the call ends.
  int ends;   // Atomic: runs that have ended.
} host;

static ls_status start_waiting(ls_host_call *call) {
  while (!__atomic_load_n(&host.goes, __ATOMIC_SEQ_CST))
    ls_clock_system()->sleep(NULL, 1000000);
  *(int32_t *)call->outputs[0] = *(const int32_t *)call->inputs[0] + 100;
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static ls_status start_now(ls_host_call *call) {
  *(int32_t *)call->outputs[0] = *(const int32_t *)call->inputs[0] + 1;
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel waiting = {
    .name = "waiting", .infer = infer_like_first, .start = start_waiting};
static const ls_host_kernel quick = {
    .name = "quick", .infer = infer_like_first, .start = start_now};

typedef struct waiter {
  ls_runtime *runtime;
  lowered program;
  ls_worker thread;
  int32_t result;
  ls_status status;
} waiter;

static void make_program(const ls_host_kernel *const *kernel, lowered *out) {
  char text[512];
  snprintf(text, sizeof(text),
           "graph lowered \"p\" {"
           "  %%1 = parameter() {dtype = i32, shape = shape[], index = 0}"
           "  : i32[]"
           "  %%2 = host(%%1) {kernel = kernel \"%s\"} : i32[]"
           "  return %%2 }",
           (*kernel)->name);
  expect_ok(lowered_create(
      &(lowered_options){.text = text, .kernels = kernel, .num_kernels = 1},
      out));
}

static ls_status run_program(lowered *program, int32_t *result) {
  const int32_t one = 1;
  return lowered_run(program, (const void *[]){&one}, (void *[]){result});
}

static void run_waiter(void *user) {
  waiter *self = user;
  (void)ls_runtime_make_current(self->runtime);
  self->status = run_program(&self->program, &self->result);
  (void)ls_runtime_make_current(NULL);
  __atomic_add_fetch(&host.ends, 1, __ATOMIC_SEQ_CST);
}

static int num_ended(void) {
  return __atomic_load_n(&host.ends, __ATOMIC_SEQ_CST);
}

static void start_waiter(waiter *self, ls_runtime *runtime) {
  static const ls_host_kernel *const kernels[] = {&waiting};
  *self = (waiter){.runtime = runtime};
  make_program(kernels, &self->program);
  expect_ok(ls_worker_start(&self->thread, "waiter", NULL, run_waiter, self));
}

static ls_runtime *begin(const ls_clock *clock) {
  ls_runtime *runtime = NULL;
  memset(&host, 0, sizeof(host));
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.threads = 1, .stall_ms = LIMIT_MS, .clock = clock},
      &runtime));
  (void)ls_runtime_make_current(runtime);
  return runtime;
}

static void end(ls_runtime *runtime) {
  __atomic_store_n(&host.goes, true, __ATOMIC_SEQ_CST);
  for (int i = 0; i < 5000 && ls_runtime_abandoned_calls(runtime) > 0; ++i)
    ls_clock_system()->sleep(NULL, 1000000);
  (void)ls_runtime_make_current(NULL);
  expect_ok(ls_runtime_destroy(runtime));
}
LS_OWNED_POINTER(ls_runtime, end)

// ---- What another run does -------------------------------------------------
static void compute(void) {
  expect_ok(ls_frame_begin());
  assert_true(number_of(ls_leaf(ls_add(scalar_of(1), scalar_of(2)))) == 3);
  expect_ok(ls_frame_end(NULL));
}

static void call_host(void) {
  static const ls_host_kernel *const kernels[] = {&quick};
  LS_OWN(lowered, program) = {0};
  int32_t result = 0;
  make_program(kernels, &program);
  expect_ok(run_program(&program, &result));
  assert_int_equal(result, 2);
}

static void (*const moves[])(void) = {compute, call_host};

static void expect_told(waiter *self) {
  ls_worker_join(&self->thread);
  expect_contains(ls_status_message(self->status), "waiting for the host");
  expect_status(self->status, LS_DEADLINE_EXCEEDED, "no progress for 1 s");
}

TEST(a_run_does_not_stand_still_while_another_moves) {
  for (size_t i = 0; i < LS_COUNT_OF(moves); ++i)
    for (int told = 0; told < 2; ++told) {
      set_clock time = {0};
      const ls_clock clock = {.now = set_now, .user = &time};
      LS_OWN(ls_runtime, runtime) = begin(&clock);
      waiter self;
      start_waiter(&self, runtime);
      for (int k = 0; k < 4; ++k) {
        let_look(&time);
        assert_int_equal(num_ended(), 0);
        moves[i]();
        advance(&time, LIMIT_MS * 3 / 4);
      }
      let_look(&time);
      if (told == 0) {
        __atomic_store_n(&host.goes, true, __ATOMIC_SEQ_CST);
        ls_worker_join(&self.thread);
        expect_ok(self.status);
        assert_int_equal(self.result, 101);
      } else {
        assert_int_equal(num_ended(), 0);
        advance(&time, LIMIT_MS);
        expect_told(&self);
      }
      lowered_destroy(&self.program);
    }
}

TEST(nor_while_another_works_on_one_thing) {
  set_clock time = {0};
  const ls_clock clock = {.now = set_now, .user = &time};
  LS_OWN(ls_runtime, runtime) = begin(&clock);
  waiter self;
  start_waiter(&self, runtime);
  ls_runtime_begin_work(runtime);  // As a run does.
  for (int k = 0; k < 3; ++k) {
    let_look(&time);
    advance(&time, 2 * LIMIT_MS);
  }
  let_look(&time);
  assert_int_equal(num_ended(), 0);
  ls_runtime_end_work(runtime);
  let_look(&time);
  advance(&time, LIMIT_MS);
  expect_told(&self);
  lowered_destroy(&self.program);
}

// Neither is what the other waits for.
TEST(all_that_stand_still_are_told_at_once) {
  set_clock time = {0};
  const ls_clock clock = {.now = set_now, .user = &time};
  LS_OWN(ls_runtime, runtime) = begin(&clock);
  waiter all[3];
  for (int i = 0; i < 3; ++i) {
    start_waiter(&all[i], runtime);
    for (int k = 0; k < 3; ++k)
      let_look(&time);
  }
  advance(&time, LIMIT_MS);
  for (int i = 0; i < 3; ++i)
    expect_told(&all[i]);
  for (int i = 0; i < 3; ++i)
    lowered_destroy(&all[i].program);
}
