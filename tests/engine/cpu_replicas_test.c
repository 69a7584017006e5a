// SPDX-License-Identifier: Apache-2.0
// The CPU engine: replicas, and lanes that park.
#include "support/callbacks.h"
#include "support/fault.h"
#include "support/lowered.h"
#include "support/replica_lanes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/threads/worker.h"

// ---- Lanes -----------------------------------------------------------------
TEST(a_lane_has_its_arguments_and_gives_its_results) {
  LS_OWN(lowered, program) = {0};
  lanes_create(
      &program,
      "graph lowered \"p\" {"
      "  %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]"
      "  %2 = parameter() {dtype = i32, shape = shape[], index = 1} : i32[]"
      "  %3 = add(%1, %2) : i32[]"
      "  %4:10 = replicate(%1, %2, %3, %3, %3, %1, %2)"
      "  {replicas = 3, num_split = 2, num_gathered = 3}"
      "  (graph lowered \"r\" {"
      "    %1 = parameter() {dtype = i32, shape = shape[], index = 0} varying"
      "    : i32[]"
      "    %2 = parameter() {dtype = i32, shape = shape[], index = 1} varying"
      "    : i32[]"
      "    %3 = parameter() {dtype = i32, shape = shape[], index = 2}"
      "    captures (%2) : i32[]"
      "    %4 = mul(%1, %2) varying : i32[]"
      "    %5 = add(%4, %3) varying : i32[]"
      "    %6 = add(%3, %3) : i32[]"
      "    return %5, %1, %3, %6 })"
      "  : i32[], i32[], i32[], i32[], i32[], i32[], i32[], i32[], i32[],"
      "    i32[]"
      "  %5 = add(%4, %4:9) : i32[]"
      "  return %4, %4:1, %4:2, %4:3, %4:4, %4:5, %4:6, %4:7, %4:8, %4:9, %5"
      "}");
  const int32_t a = 2, b = 5;
  int32_t out[11];
  void *outputs[11];
  for (int i = 0; i < 11; ++i)
    outputs[i] = &out[i];
  expect_ok(lowered_run(&program, (const void *[]){&a, &b}, outputs));
  // Splits: (2, 7), (5, 7), (7, 2); 5 is added.
  const int32_t want[11] = {14 + 5, 35 + 5, 14 + 5, 2, 5, 7, 5, 5, 5, 10, 29};
  assert_memory_equal(out, want, sizeof(out));
}

// x - mean(x), then the sum of squares of that, then that over the sum.
static const char norm_body[] =
    "%2 = all_reduce(%1) {reduce = \"mean\"} : f32[7]"
    "%3 = sub(%1, %2) varying : f32[7]"
    "%4 = mul(%3, %3) varying : f32[7]"
    "%5 = all_reduce(%4) {reduce = \"sum\"} : f32[7]"
    "%6 = constant() {value = f32[] [1]} : f32[]"
    "%7 = add(%5, %6) : f32[7]"
    "%8 = div(%3, %7) varying : f32[7]"
    "%9 = mul(%8, %3) varying : f32[7]"
    "%10 = all_reduce(%9) {reduce = \"sum\"} : f32[7]"
    "return %2, %7, %10";

LANE_TEST(lanes_park_until_a_merge_has_its_value) {
  lanes_fill_values();
  for (size_t k = 1; k < LANES_COUNTS; ++k) {
    const int32_t replicas = lanes_counts[k];
    const size_t n = (size_t)replicas;
    char *text =
        lanes_text(replicas, ":3", norm_body, "f32[7], f32[7], f32[7]");
    LS_OWN_BEGUN(lowered, program, lanes_create, text);
    free(text);
    assert_true(lowered_facts(&program).frame_bytes > 0);
    float mean[LANES_WIDTH], sum[LANES_WIDTH], last[LANES_WIDTH];
    for (int run = 0; run < 2; ++run) {
      expect_ok(lowered_run(&program, lanes_rows, (void *[]){mean, sum, last}));
    }
    for (size_t i = 0; i < LANES_WIDTH; ++i) {
      float apart[LANES_MOST], squares[LANES_MOST];
      const float m = lanes_tree_sum(&lanes_values[0][i], n, LANES_WIDTH) *
                      (1.0F / (float)replicas);
      for (size_t r = 0; r < n; ++r) {
        apart[r] = lanes_values[r][i] - m;
        squares[r] = apart[r] * apart[r];
      }
      const float s = lanes_tree_sum(squares, n, 1) + 1;
      for (size_t r = 0; r < n; ++r)
        squares[r] = apart[r] / s * apart[r];
      const float l = lanes_tree_sum(squares, n, 1);
      assert_memory_equal(&mean[i], &m, 4);
      assert_memory_equal(&sum[i], &s, 4);
      assert_memory_equal(&last[i], &l, 4);
    }
  }
}

// x = x / 2 + sum(x) / 4, k times in each lane, meeting in the loop.
static const char loop_body[] =
    "%2 = constant() {value = i32[] [0]} : i32[]"
    "%3:2 = while(%2, %1) {num_carried = 2, max_trips = 5} varying"
    "(graph lowered \"c\" loop {"
    "  %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]"
    "  %2 = parameter() {dtype = f32, shape = shape[7], index = 1} : f32[7]"
    "  %3 = constant() {value = i32[] [9]} : i32[]"
    "  %4 = less(%1, %3) : bool[]"
    "  return %4 }, graph lowered \"b\" loop {"
    "  %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]"
    "  %2 = parameter() {dtype = f32, shape = shape[7], index = 1} : f32[7]"
    "  %3 = constant() {value = i32[] [1]} : i32[]"
    "  %4 = add(%1, %3) : i32[]"
    "  %5 = constant() {value = f32[] [0.5]} : f32[]"
    "  %6 = constant() {value = f32[] [0.25]} : f32[]"
    "  %7 = mul(%2, %5) : f32[7]"
    "  %8 = all_reduce(%7) {reduce = \"sum\"} : f32[7]"
    "  %9 = mul(%8, %6) : f32[7]"
    "  %10 = add(%9, %7) : f32[7]"
    "  return %4, %10 }) : i32[], f32[7]"
    "%4 = all_reduce(%3:1) {reduce = \"sum\"} : f32[7]"
    "return %4";

TEST(lanes_meet_again_and_again_in_a_loop) {
  lanes_fill_values();
  for (size_t k = 1; k < LANES_COUNTS; ++k) {
    const int32_t replicas = lanes_counts[k];
    const size_t n = (size_t)replicas;
    char *text = lanes_text(replicas, "", loop_body, "f32[7]");
    LS_OWN_BEGUN(lowered, program, lanes_create, text);
    free(text);
    float sum[LANES_WIDTH];
    for (int run = 0; run < 2; ++run) {
      expect_ok(lowered_run(&program, lanes_rows, (void *[]){sum}));
    }
    for (size_t i = 0; i < LANES_WIDTH; ++i) {
      float x[LANES_MOST];
      for (size_t r = 0; r < n; ++r)
        x[r] = lanes_values[r][i];
      for (int trip = 0; trip < 5; ++trip) {
        for (size_t r = 0; r < n; ++r)
          x[r] *= 0.5F;
        const float all = lanes_tree_sum(x, n, 1) * 0.25F;
        for (size_t r = 0; r < n; ++r)
          x[r] = all + x[r];
      }
      const float want = lanes_tree_sum(x, n, 1);
      assert_memory_equal(&sum[i], &want, 4);
    }
  }
}

// x = x / 2 + a quarter of lane 0's x, which all rows are gathered for.
static const char gather_body[] =
    "%%2 = constant() {value = i32[] [0]} : i32[]"
    "%%3:2 = while(%%2, %%1) {num_carried = 2, max_trips = 5} varying"
    "(graph lowered \"c\" loop {"
    "  %%1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]"
    "  %%2 = parameter() {dtype = f32, shape = shape[7], index = 1} : f32[7]"
    "  %%3 = constant() {value = bool[] [true]} : bool[]"
    "  return %%3 }, graph lowered \"b\" loop {"
    "  %%1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]"
    "  %%2 = parameter() {dtype = f32, shape = shape[7], index = 1} : f32[7]"
    "  %%3 = reshape(%%2) {sizes = sizes[1,7]} : f32[1,7]"
    "  %%4 = all_gather(%%3) {axis = 0, rows = [%s]} : f32[%d,7]"
    "  %%5 = gather(%%4, %%1) {axis = 0} : f32[7]"
    "  %%6 = constant() {value = f32[] [0.5]} : f32[]"
    "  %%7 = mul(%%2, %%6) : f32[7]"
    "  %%8 = constant() {value = f32[] [0.25]} : f32[]"
    "  %%9 = mul(%%5, %%8) : f32[7]"
    "  %%10 = add(%%7, %%9) : f32[7]"
    "  return %%1, %%10 }) : i32[], f32[7]"
    "%%4 = all_reduce(%%3:1) {reduce = \"sum\"} : f32[7]"
    "return %%4";

static char *gather_text(int32_t replicas) {
  char rows[3 * LANES_MOST + 1] = "", *body = NULL;
  for (int32_t r = 0; r < replicas; ++r)
    snprintf(rows + 3 * r, 4, "%s", r == 0 ? "  1" : ", 1");
  const size_t size = sizeof(gather_body) + sizeof(rows) + 16;
  body = malloc(size);
  assert_non_null(body);
  snprintf(body, size, gather_body, rows, replicas);
  char *text = lanes_text(replicas, "", body, "f32[7]");
  free(body);
  return text;
}

TEST(rows_gathered_in_a_loop_are_those_of_their_trip) {
  lanes_fill_values();
  for (size_t k = 1; k < LANES_COUNTS && lanes_counts[k] <= 100; ++k) {
    const size_t n = (size_t)lanes_counts[k];
    char *text = gather_text(lanes_counts[k]);
    LS_OWN_BEGUN(lowered, program, lanes_create, text);
    free(text);
    float sum[LANES_WIDTH];
    expect_ok(lowered_run(&program, lanes_rows, (void *[]){sum}));
    for (size_t i = 0; i < LANES_WIDTH; ++i) {
      float x[LANES_MOST];
      for (size_t r = 0; r < n; ++r)
        x[r] = lanes_values[r][i];
      for (int trip = 0; trip < 5; ++trip) {
        const float first = x[0] * 0.25F;
        for (size_t r = 0; r < n; ++r)
          x[r] = x[r] * 0.5F + first;
      }
      const float want = lanes_tree_sum(x, n, 1);
      assert_memory_equal(&sum[i], &want, 4);
    }
  }
}

// Lane r adds r + 1 ones in a loop of its own length.
TEST(lanes_may_go_different_ways_between_merges) {
  LS_OWN(lowered, program) = {0};
  lanes_create(
      &program,
      "graph lowered \"p\" {"
      "  %1 = replicate() {replicas = 6, num_split = 0, num_gathered = 0}"
      "  (graph lowered \"r\" {"
      "    %1 = replica_id() varying : i32[]"
      "    %2 = constant() {value = i32[] [0]} : i32[]"
      "    %3 = while(%2, %1) {num_carried = 1} varying"
      "    (graph lowered \"c\" loop {"
      "      %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]"
      "      %2 = parameter() {dtype = i32, shape = shape[], index = 1}"
      "      captures (%1) : i32[]"
      "      %3 = less_equal(%1, %2) : bool[]"
      "      return %3 }, graph lowered \"b\" loop {"
      "      %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]"
      "      %2 = constant() {value = i32[] [1]} : i32[]"
      "      %3 = add(%1, %2) : i32[]"
      "      return %3 }) : i32[]"
      "    %4 = all_reduce(%3) {reduce = \"sum\"} : i32[]"
      "    return %4 }) : i32[]"
      "  return %1 }");
  int32_t sum = 0;
  expect_ok(lowered_run(&program, NULL, (void *[]){&sum}));
  assert_int_equal(sum, 1 + 2 + 3 + 4 + 5 + 6);
}

LANE_TEST(lanes_that_miss_each_other_are_named) {
  LS_OWN(lowered, program) = {0};
  lanes_create(
      &program,
      "graph lowered \"p\" {"
      "  %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]"
      "  %2 = replicate(%1) {replicas = 12, num_split = 0, num_gathered = 0}"
      "  (graph lowered \"r\" {"
      "    %1 = parameter() {dtype = i32, shape = shape[], index = 0}"
      "    captures (%1) : i32[]"
      "    %2 = replica_id() varying : i32[]"
      "    %3 = less(%2, %1) varying : bool[]"
      "    %4 = cond(%3, %2, %2) varying"
      "    (graph lowered \"then\" {"
      "      %1 = parameter() {dtype = i32, shape = shape[], index = 0}"
      "      captures (%2) : i32[]"
      "      %2 = all_reduce(%1) {reduce = \"sum\"} : i32[]"
      "      return %2 }, graph lowered \"else\" {"
      "      %1 = parameter() {dtype = i32, shape = shape[], index = 0}"
      "      captures (%2) : i32[]"
      "      return %1 }) : i32[]"
      "    %5 = all_reduce(%4) {reduce = \"sum\"} : i32[]"
      "    return %5 }) : i32[]"
      "  return %2 }");
  int32_t out = 0;
  const struct {
    int32_t meeting;
    const char *message;
  } deadlocks[] = {
      {10, "replicas 0-9: waiting for other replicas at op"},
      {10, "replicas 0-9 arrived, replicas 10-11 not"},
      {1, "replica 0: waiting for other replicas at op"},
      {1, "replicas 1-11: waiting for lower replicas"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(deadlocks); ++i) {
    ls_status status = lowered_run(
        &program, (const void *[]){&deadlocks[i].meeting}, (void *[]){&out});
    expect_status(status, LS_FAILED_PRECONDITION, deadlocks[i].message);
  }
  // All or none: that is fine, also after a failure.
  for (int32_t meeting = 0; meeting <= 12; meeting += 12) {
    expect_ok(
        lowered_run(&program, (const void *[]){&meeting}, (void *[]){&out}));
    assert_int_equal(out, meeting == 0 ? 66 : 66 * 12);
  }
}

// ---- Host calls ------------------------------------------------------------
enum { CALLERS = 6 };
static struct {
  ls_worker threads[CALLERS];
  ls_host_call *calls[CALLERS];
  int started;
  int32_t fails;  // This replica's call; -1: none.
} host;

// Answers all calls, those of the highest replicas first.
static void answer_all(void *user) {
  (void)user;
  for (int r = CALLERS; r-- > 0;) {
    ls_host_call *call = host.calls[r];
    *(int32_t *)call->outputs[0] = *(const int32_t *)call->inputs[0] * 10;
    ls_host_done(call,
                 r == host.fails ? ls_out_of_range("no more data") : ls_ok());
  }
}

// No call is answered before the last lane has made its own.
static ls_status start_together(ls_host_call *call) {
  host.calls[call->replica] = call;
  if (++host.started % CALLERS != 0) return ls_ok();
  ls_worker *thread = &host.threads[0];
  ls_worker_join(thread);
  *thread = (ls_worker){0};
  return ls_worker_start(thread, "host", NULL, answer_all, NULL);
}

static const ls_host_kernel together = {
    .name = "together", .infer = infer_like_first, .start = start_together};
static const ls_host_kernel *const kernels[] = {&together};

static const char host_text[] =
    "graph lowered \"p\" {"
    "  %1:2 = replicate() {replicas = 6, num_split = 0, num_gathered = 0}"
    "  (graph lowered \"r\" {"
    "    %1 = replica_id() varying : i32[]"
    "    %2 = constant() {value = i32[] [1]} : i32[]"
    "    %3 = add(%1, %2) varying : i32[]"
    "    %4 = all_reduce(%3) {reduce = \"sum\"} : i32[]"
    "    %5 = host(%3) {kernel = kernel \"together\"} varying : i32[]"
    "    %6 = add(%5, %3) varying : i32[]"
    "    %7 = all_reduce(%6) {reduce = \"sum\"} : i32[]"
    "    %8 = add(%6, %4) varying : i32[]"
    "    %9 = mul(%8, %5) varying : i32[]"
    "    %10 = all_reduce(%9) {reduce = \"max\"} : i32[]"
    "    return %7, %10 }) : i32[], i32[]"
    "  return %1, %1:1 }";

TEST(lanes_go_on_while_another_one_waits_for_the_host) {
  LS_OWN(lowered, program) = {0};
  memset(&host, 0, sizeof(host));
  expect_ok(lowered_create(&(lowered_options){.text = host_text,
                                              .kernels = kernels,
                                              .num_kernels = 1},
                           &program));
  for (host.fails = -1; host.fails < CALLERS; ++host.fails) {
    int32_t sum = 0, max = 0;
    ls_status status = lowered_run(&program, NULL, (void *[]){&sum, &max});
    if (host.fails < 0) {
      expect_ok(status);
      assert_int_equal(sum, 11 * 21);
      assert_int_equal(max, (66 + 21) * 60);
    } else {
      char replica[32];
      snprintf(replica, sizeof(replica), "replica %d", host.fails);
      expect_status(status, LS_OUT_OF_RANGE, replica);
    }
  }
  ls_worker_join(&host.threads[0]);
}

static void answer_first(void *user) {
  (void)user;
  usleep(10000);
  *(int32_t *)host.calls[0]->outputs[0] = 0;
  ls_host_done(host.calls[0], ls_ok());
}

// Answers the call of replica 0, for which all others wait, last.
static ls_status start_late(ls_host_call *call) {
  if (call->replica == 0) {
    host.calls[0] = call;
    return ls_worker_start(&host.threads[0], "host", NULL, answer_first, NULL);
  }
  *(int32_t *)call->outputs[0] = *(const int32_t *)call->inputs[0] * 10;
  ls_host_done(call, ls_ok());
  return ls_ok();
}

TEST(lanes_wait_for_a_late_one_behind_a_loop_without_trips) {
  static const ls_host_kernel late = {
      .name = "late", .infer = infer_like_first, .start = start_late};
  static const ls_host_kernel *const late_kernels[] = {&late};
  static const char text[] =
      "graph lowered \"p\" {"
      "  %1 = replicate() {replicas = 6, num_split = 0, num_gathered = 0}"
      "  (graph lowered \"r\" {"
      "    %1 = replica_id() varying : i32[]"
      "    %2 = host(%1) {kernel = kernel \"late\"} varying : i32[]"
      "    %3 = while(%2) {num_carried = 1} varying"
      "    (graph lowered \"c\" loop {"
      "      %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]"
      "      %2 = constant() {value = bool[] [false]} : bool[]"
      "      return %2 }, graph lowered \"b\" loop {"
      "      %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]"
      "      %2 = all_reduce(%1) {reduce = \"sum\"} : i32[]"
      "      return %2 }) : i32[]"
      "    %4 = add(%3, %1) varying : i32[]"
      "    %5 = all_reduce(%4) {reduce = \"sum\"} : i32[]"
      "    return %5 }) : i32[]"
      "  return %1 }";
  LS_OWN(lowered, program) = {0};
  int32_t sum = 0;
  expect_ok(lowered_create(&(lowered_options){.text = text,
                                              .kernels = late_kernels,
                                              .num_kernels = 1},
                           &program));
  expect_ok(lowered_run(&program, NULL, (void *[]){&sum}));
  assert_int_equal(sum, 11 * 15);
  ls_worker_join(&host.threads[0]);
}

// ---- Memory ----------------------------------------------------------------
static ls_status run_all(void *user) {
  (void)user;
  const char *const bodies[] = {norm_body, loop_body};
  ls_status status = ls_ok();
  for (size_t i = 0; i < LS_COUNT_OF(bodies) && ls_status_is_ok(status); ++i) {
    HEAP(char, text) = lanes_text(5, i == 0 ? ":3" : "", bodies[i],
                                  i == 0 ? "f32[7], f32[7], f32[7]" : "f32[7]");
    status =
        lowered_run_once(&(lowered_options){.text = text}, lanes_rows, NULL);
  }
  return status;
}

TEST(a_failed_memory_request_loses_nothing) {
  lanes_fill_values();
  REFUSE_EACH(run_all, NULL);
}

TEST_FILE(.run = lanes_run_tests)
