// SPDX-License-Identifier: Apache-2.0
// The CPU engine: host calls of all replicas at once, outside of their code.
#include <string.h>

#include "base/memory/allocator.h"
#include "base/runtime_internal.h"
#include "base/threads/threads.h"
#include "lockstep/runs.h"
#include "lockstep/runtime_settings.h"
#include "support/callbacks.h"
#include "support/fault.h"
#include "support/lowered.h"

enum { REPLICAS = 5 };

// x is wide, y one for all; the answers are wide, and the variable's new value.
static const char text[] =
    "graph lowered \"p\" {"
    "  %1 = parameter() {dtype = f32, shape = shape[5,2], index = 0} : f32[5,2]"
    "  %2 = parameter() {dtype = f32, shape = shape[2], index = 1} : f32[2]"
    "  %3 = parameter() {dtype = f32, shape = shape[5,2], index = 2} : f32[5,2]"
    "  %4 = host(%1, %2) {kernel = kernel \"ask\", replicas = 5, wide = [0]}"
    "  : f32[5,2]"
    "  %5 = neg(%4) : f32[5,2]"
    "  return %5, %4 }";

// ---- Kernels ---------------------------------------------------------------
// What the calls did, and what they shall do on a replica.
typedef enum act {
  ACT_ANSWER,
  ACT_FAIL,     // From start.
  ACT_GIVE_UP,  // By ls_host_done.
  ACT_FORGET,   // Never done, until `kept` is.
  ACT_LATER,    // All of them at the last one's start, backwards.
} act;

static struct {
  act acts[REPLICAS];
  int32_t order[64];
  int calls;
  const void *inputs[REPLICAS], *outputs[REPLICAS];
  ls_host_call *kept[REPLICAS];
} host;

static void answer(ls_host_call *call) {
  const float *x = call->inputs[0], *y = call->inputs[1];
  float *out = call->outputs[0];
  for (int i = 0; i < 2; ++i)
    out[i] = x[i] + y[i] * (float)call->replica;
  ls_host_done(call, ls_ok());
}

static void answer_backwards(void) {
  for (int r = REPLICAS; r-- > 0;)
    if (host.kept[r] != NULL) answer(host.kept[r]);
}

static ls_status start(ls_host_call *call) {
  const int32_t r = call->replica;
  assert_int_equal(call->input_types[0].shape.rank, 1);
  host.order[host.calls++ % 64] = r;
  host.inputs[r] = call->inputs[0];
  host.outputs[r] = call->outputs[0];
  switch (host.acts[r]) {
  case ACT_ANSWER:
    answer(call);
    break;
  case ACT_FAIL:
    return ls_failed_precondition("replica %d does not want to", r);
  case ACT_GIVE_UP:
    ls_host_done(call, ls_out_of_range("replica %d has no more", r));
    break;
  case ACT_FORGET:
  case ACT_LATER:
    host.kept[r] = call;
    if (host.acts[r] == ACT_LATER && r == REPLICAS - 1) answer_backwards();
    break;
  }
  return ls_ok();
}

static const ls_host_kernel ask = {
    .name = "ask", .infer = infer_like_first, .start = start};
static const ls_host_kernel *const kernels[] = {&ask};

// ---- A program -------------------------------------------------------------
static const float x[REPLICAS][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}};
static const float y[2] = {100, 200};
static const void *const inputs[] = {x, y};

static ls_status create(lowered *program) {
  memset(&host, 0, sizeof(host));
  return lowered_create(&(lowered_options){.text = text,
                                           .num_uses = 1,
                                           .written = {true},
                                           .kernels = kernels,
                                           .num_kernels = 1},
                        program);
}

static void expect_answers(lowered *program) {
  float out[REPLICAS][2];
  memset(&host.kept, 0, sizeof(host.kept));
  host.calls = 0;
  expect_ok(lowered_run(program, inputs, (void *[]){out}));
  const float *variable = program->buffers[0]->data;
  for (int r = 0; r < REPLICAS; ++r)
    for (int i = 0; i < 2; ++i) {
      const float want = x[r][i] + y[i] * (float)r;
      assert_true(out[r][i] == -want && variable[2 * r + i] == want);
    }
}

TEST(each_replica_is_asked_in_order_with_its_part) {
  LS_OWN(lowered, program) = {0};
  expect_ok(create(&program));
  const void *before[2] = {0};
  for (int run = 0; run < 3; ++run) {
    expect_answers(&program);
    assert_int_equal(host.calls, REPLICAS);
    for (int r = 0; r < REPLICAS; ++r)
      assert_int_equal(host.order[r], r);
    // The memory is the instance's, for good.
    if (run > 0) {
      assert_ptr_equal(host.inputs[3], before[0]);
      assert_ptr_equal(host.outputs[3], before[1]);
    }
    before[0] = host.inputs[3];
    before[1] = host.outputs[3];
  }
}

TEST(calls_may_end_in_any_order) {
  LS_OWN(lowered, program) = {0};
  expect_ok(create(&program));
  for (int r = 0; r < REPLICAS; ++r)
    host.acts[r] = ACT_LATER;
  expect_answers(&program);
}

// ---- Strings ---------------------------------------------------------------
static const char string_text[] =
    "graph lowered \"p\" {"
    "  %1 = constant() {value = string[] [\"replica \"]} : string[]"
    "  %2 = host(%1) {kernel = kernel \"tell\", replicas = 5} : string[5]"
    "  %3 = replicate(%2) {replicas = 5, num_wide_split = 1,"
    "  num_wide_gathered = 1} (graph lowered \"r\" {"
    "    %1 = parameter() {dtype = string, shape = shape[], index = 0} varying"
    "    : string[]"
    "    return %1 }) : string[5]"
    "  %4 = host(%3) {kernel = kernel \"count\", replicas = 5, wide = [0]}"
    "  : i32[5]"
    "  return %4 }";

// What it takes, and the replica's number, so many times.
static ls_status start_telling(ls_host_call *call) {
  const ls_bytes *in = call->inputs[0];
  char told[64];
  memcpy(told, in->data, in->size);
  memset(told + in->size, '0' + call->replica, (size_t)call->replica);
  *(ls_bytes *)call->outputs[0] =
      (ls_bytes){told, in->size + (size_t)call->replica};
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static ls_status infer_count(const ls_object *state, const ls_type *in,
                             size_t num_in, ls_type *out, size_t *num_out) {
  (void)state, (void)in, (void)num_in;
  out[0] = (ls_type){LS_DTYPE_I32, LS_SCALAR};
  *num_out = 1;
  return ls_ok();
}

// Ten times its length, and what it ends with.
static ls_status start_counting(ls_host_call *call) {
  const ls_bytes *in = call->inputs[0];
  if (memcmp(in->data, "replica ", 8) != 0) return ls_internal("other bytes");
  *(int32_t *)call->outputs[0] =
      10 * (int32_t)in->size + (in->data[in->size - 1] & 15);
  ls_host_done(call, ls_ok());
  return ls_ok();
}

TEST(each_replica_has_strings_of_its_own) {
  static const ls_host_kernel tell = {
      .name = "tell", .infer = infer_like_first, .start = start_telling};
  static const ls_host_kernel count = {
      .name = "count", .infer = infer_count, .start = start_counting};
  const ls_host_kernel *const both[] = {&tell, &count};
  LS_OWN(lowered, program) = {0};
  expect_ok(lowered_create(&(lowered_options){.text = string_text,
                                              .kernels = both,
                                              .num_kernels = 2},
                           &program));
  for (int run = 0; run < 2; ++run) {
    int32_t out[REPLICAS] = {0};
    expect_ok(lowered_run(&program, NULL, (void *[]){out}));
    for (int r = 0; r < REPLICAS; ++r)
      assert_int_equal(out[r], 10 * (8 + r) + r);
  }
}

// ---- Failures --------------------------------------------------------------
TEST(the_lowest_replica_that_fails_is_told) {
  static const act ways[] = {ACT_FAIL, ACT_GIVE_UP};
  LS_OWN(lowered, program) = {0};
  expect_ok(create(&program));
  for (size_t low = 0; low < LS_COUNT_OF(ways); ++low)
    for (size_t high = 0; high < LS_COUNT_OF(ways); ++high) {
      memset(program.buffers[0]->data, 0, sizeof(x));
      memset(host.acts, 0, sizeof(host.acts));
      host.acts[1] = ways[low];
      host.acts[3] = ways[high];
      float out[REPLICAS][2];
      ls_status status = lowered_run(&program, inputs, (void *[]){out});
      expect_contains(ls_status_message(status), "in op");
      expect_contains(ls_status_message(status), ", replica 1");
      expect_status(status, low == 0 ? LS_FAILED_PRECONDITION : LS_OUT_OF_RANGE,
                    low == 0 ? "replica 1 does not want to"
                             : "replica 1 has no more");
      // Part of the results may be there: the variable has nothing of them.
      const float zeros[REPLICAS][2] = {0};
      assert_memory_equal(program.buffers[0]->data, zeros, sizeof(zeros));
      memset(host.acts, 0, sizeof(host.acts));
      expect_answers(&program);
    }
}

static ls_runtime *begin(void) {
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.threads = 1, .stall_ms = 100}, &runtime));
  (void)ls_runtime_make_current(runtime);
  return runtime;
}

static void end(ls_runtime *runtime, lowered *program) {
  lowered_destroy(program);
  assert_int_equal(ls_runtime_abandoned_calls(runtime), 2);
  ls_host_done(host.kept[1], ls_ok());
  ls_host_done(host.kept[3], ls_ok());
  assert_int_equal(ls_runtime_abandoned_calls(runtime), 0);
  (void)ls_runtime_make_current(NULL);
  expect_ok(ls_runtime_destroy(runtime));
}

TEST(replicas_whose_calls_do_not_end_are_named) {
  ls_runtime *runtime = begin();
  lowered program;
  expect_ok(create(&program));
  host.acts[1] = host.acts[3] = ACT_FORGET;
  ls_status status = lowered_run(&program, inputs, NULL);
  expect_contains(ls_status_message(status),
                  "shared code: waiting for the host in op");
  expect_contains(ls_status_message(status),
                  ", whose calls are out for replicas 1, 3, for 0.1");
  expect_status(status, LS_DEADLINE_EXCEEDED, "no progress for 0.1 s");
  // The next run has nothing to do with them.
  ls_host_call *kept[] = {host.kept[1], host.kept[3]};
  memset(host.acts, 0, sizeof(host.acts));
  expect_answers(&program);
  host.kept[1] = kept[0];
  host.kept[3] = kept[1];
  end(runtime, &program);
}

TEST(one_that_fails_is_told_where_others_do_not_end) {
  ls_runtime *runtime = begin();
  lowered program;
  expect_ok(create(&program));
  host.acts[1] = host.acts[3] = ACT_FORGET;
  host.acts[2] = host.acts[4] = ACT_GIVE_UP;
  expect_status(lowered_run(&program, inputs, NULL), LS_OUT_OF_RANGE,
                "replica 2 has no more");
  end(runtime, &program);
}

// ---- Memory ----------------------------------------------------------------
MEMORY_TEST(call_the_host) {
  LS_OWN(lowered, program) = {0};
  ls_status status = create(&program);
  if (ls_status_is_ok(status)) status = lowered_run(&program, inputs, NULL);
  return status;
}
