// SPDX-License-Identifier: Apache-2.0
// The CPU engine: host calls.
#include "support/callbacks.h"
#include "support/fault.h"
#include "support/lowered.h"

#include <string.h>

#include "base/memory/allocator.h"
#include "base/threads/worker.h"

#define F "dtype = f32, shape = shape[2], index = "

// ---- Host calls ------------------------------------------------------------
// What the test's kernels did, and what they shall do.
static struct {
  int calls;
  int fail_at;  // Number of the call that fails; 0: none.
  float seen[8];
  ls_worker thread;
  ls_host_call *pending;
} host;

static void answer(ls_host_call *call) {
  const float *in = call->inputs[0];
  float *out = call->outputs[0];
  assert_int_equal(call->input_types[0].shape.dim[0], 2);
  assert_int_equal(call->output_types[0].dtype, LS_DTYPE_F32);
  host.seen[host.calls % 8] = in[0];
  for (int i = 0; i < 2; ++i)
    out[i] = in[i] + 100;
  if (++host.calls == host.fail_at) {
    ls_host_done(call, ls_out_of_range("no more data"));
  } else {
    ls_host_done(call, ls_ok());
  }
}

static ls_status start_now(ls_host_call *call) {
  volatile float tiny = 1e-20F;
  assert_true(tiny * tiny > 0);  // The caller's arithmetic, not the engine's.
  answer(call);
  return ls_ok();
}

static void answer_later(void *user) { answer(user); }

static ls_status start_later(ls_host_call *call) {
  ls_worker_join(&host.thread);
  host.thread = (ls_worker){0};
  return ls_worker_start(&host.thread, "host", NULL, answer_later, call);
}

static ls_status start_refused(ls_host_call *call) {
  (void)call;
  return ls_failed_precondition("the queue is closed");
}

static const ls_host_kernel now = {
    .name = "now", .infer = infer_like_first, .start = start_now};
static const ls_host_kernel later = {
    .name = "later", .infer = infer_like_first, .start = start_later};
static const ls_host_kernel refused = {
    .name = "refused", .infer = infer_like_first, .start = start_refused};
static const ls_host_kernel *const kernels[] = {&now, &later, &refused};

static void make_host(lowered *program, const char *text) {
  memset(&host, 0, sizeof(host));
  lowered_make(program,
               &(lowered_options){.text = text,
                                  .num_uses = 1,
                                  .written = {true},
                                  .kernels = kernels,
                                  .num_kernels = LS_COUNT_OF(kernels)});
}

static void end_host(lowered *program) {
  ls_worker_join(&host.thread);
  lowered_destroy(program);
}
LS_OWNED_(host_program, lowered, end_host(ls_owned))

// w = later(now(x) + x)
static const char host_text[] =
    "graph lowered \"p\" {"
    "  %1 = parameter() {" F "0} : f32[2]"
    "  %2 = parameter() {" F "1} : f32[2]"
    "  %3 = host(%1) {kernel = kernel \"now\"} : f32[2]"
    "  %4 = add(%3, %1) : f32[2]"
    "  %5 = host(%4) {kernel = kernel \"later\"} : f32[2]"
    "  %6 = neg(%5) : f32[2]"
    "  return %6, %5 }";

TEST(host_calls_run_in_order_now_or_later) {
  LS_OWN_BEGUN(host_program, program, make_host, host_text);
  const float x[2] = {1, 2};
  float out[2];
  for (int i = 0; i < 3; ++i) {
    expect_ok(lowered_run(&program, (const void *[]){x}, (void *[]){out}));
    assert_memory_equal(out, ((float[]){-202, -204}), 8);
    assert_int_equal(host.calls, 2 * i + 2);
  }
  assert_true(host.seen[0] == 1 && host.seen[1] == 102);
}

TEST(a_failed_host_call_fails_the_run_but_not_the_next) {
  LS_OWN_BEGUN(host_program, program, make_host, host_text);
  const float x[2] = {1, 2};
  float out[2] = {0};
  for (int call = 1; call <= 2; ++call) {
    host.calls = 0;
    host.fail_at = call;
    ls_status status =
        lowered_run(&program, (const void *[]){x}, (void *[]){out});
    expect_contains(ls_status_message(status), "in op");
    expect_contains(ls_status_message(status), "replica 0");
    expect_status(status, LS_OUT_OF_RANGE, "no more data");
    // Half of its result may be there: the variable has nothing of it.
    assert_memory_equal(program.buffers[0]->data, ((float[]){0, 0}), 8);
  }
  host.fail_at = 0;
  expect_ok(lowered_run(&program, (const void *[]){x}, (void *[]){out}));
  assert_memory_equal(out, ((float[]){-202, -204}), 8);
}

TEST(a_host_call_that_does_not_start_fails_the_run) {
  LS_OWN_BEGUN(host_program, program, make_host,
               "graph lowered \"p\" {"
               "  %1 = parameter() {" F "0} : f32[2]"
               "  %2 = parameter() {" F "1} : f32[2]"
               "  %3 = host(%1) {kernel = kernel \"refused\"} : f32[2]"
               "  return %3 }");
  const float x[2] = {1, 2};
  expect_status(lowered_run(&program, (const void *[]){x}, NULL),
                LS_FAILED_PRECONDITION, "the queue is closed");
}

// ---- Memory -----------------------------------------------------------------
MEMORY_TEST(call_the_host) {
  memset(&host, 0, sizeof(host));
  LS_OWN(host_program, program) = {0};
  const float x[2] = {1, 2};
  ls_status status =
      lowered_create(&(lowered_options){.text = host_text,
                                        .num_uses = 1,
                                        .written = {true},
                                        .kernels = kernels,
                                        .num_kernels = LS_COUNT_OF(kernels)},
                     &program);
  if (ls_status_is_ok(status)) {
    status = lowered_run(&program, (const void *[]){x}, NULL);
  }
  return status;
}
