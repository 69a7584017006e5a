// SPDX-License-Identifier: Apache-2.0
//
// Threads that are told how often.
#include "estimator/device/controller.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/counted.h"
#include "support/fault.h"
#include "support/spec.h"
#include "support/thread_count.h"

typedef struct reader {
  int64_t counts[100];
  int num_counts;
  bool had_runtime;
  ls_runtime *runtime;
  bool read_again;  // Behind the end.
  bool waits;       // Before it reads. Atomic, as is what comes next.
  bool has_begun;
  bool is_named;
  char line[80];  // That was logged last.
  ls_controller *controller;
} reader;

static void read_all(ls_controller *controller, void *user) {
  reader *r = user;
  int64_t count = 0;
  r->had_runtime = ls_runtime_current() == r->runtime;
  r->is_named = threads_called("InfeedControlle") > 0;  // As much as fits.
  __atomic_store_n(&r->has_begun, true, __ATOMIC_RELEASE);
  while (__atomic_load_n(&r->waits, __ATOMIC_ACQUIRE))
    usleep(100);
  while (ls_controller_next(controller, &count))
    r->counts[r->num_counts++] = count;
  r->read_again = ls_controller_next(controller, &count);
}

// Who is told may ask the controller: no lock is held.
static void keep_line(void *user, const ls_log_line *line) {
  reader *r = user;
  int64_t count = 0;
  assert_false(ls_controller_next(r->controller, &count));
  snprintf(r->line, sizeof(r->line), "%s", line->text);
}

static reader run_with(bool waits, const int64_t *counts, int num_counts,
                       int stop_before, bool once) {
  reader r = {.waits = waits};
  counted c = counted_begin_with(
      (ls_runtime_options){.threads = 1, .log = keep_line, .log_user = &r});
  r.runtime = c.runtime;
  ls_controller *controller = NULL;
  expect_ok(
      ls_controller_start("InfeedController", read_all, &r, once, &controller));
  r.controller = controller;
  // Nothing need be sent for it to begin.
  while (waits && !__atomic_load_n(&r.has_begun, __ATOMIC_ACQUIRE))
    usleep(100);
  for (int i = 0; i < num_counts; ++i) {
    if (i == stop_before) ls_controller_stop(controller);
    expect_ok(ls_controller_send(controller, counts[i]));
  }
  __atomic_store_n(&r.waits, false, __ATOMIC_RELEASE);
  ls_controller_join(controller);
  counted_end(&c);
  assert_true(r.had_runtime);
  assert_false(r.read_again);
  assert_true(r.is_named);
  assert_string_equal(r.line, "InfeedController read its stop signal");
  return r;
}

static reader run(const int64_t *counts, int num_counts, int stop_before,
                  bool once) {
  return run_with(false, counts, num_counts, stop_before, once);
}

TEST(counts_are_read_in_order) {
  LS_SPEC("E3 E76 E77");
  static const int64_t counts[] = {5, 1, 7, 3};
  const reader all = run(counts, 4, -1, false);
  assert_int_equal(all.num_counts, 4);
  assert_memory_equal(all.counts, counts, sizeof(counts));
  // What is behind the stop stays unread.
  const reader two = run(counts, 4, 2, false);
  assert_int_equal(two.num_counts, 2);
  assert_memory_equal(two.counts, counts, 2 * sizeof(counts[0]));
  assert_int_equal(run(NULL, 0, -1, false).num_counts, 0);
}

TEST(one_count_is_enough_for_some) {
  LS_SPEC("E78");
  static const int64_t counts[] = {5, 1, 7};
  const reader one = run(counts, 3, -1, true);
  assert_int_equal(one.num_counts, 1);
  assert_int_equal(one.counts[0], 5);
  assert_int_equal(run(counts, 3, 0, true).num_counts, 0);
}

// All of them lie there before one is read.
TEST(counts_have_no_limit) {
  LS_SPEC("E76");
  int64_t counts[90];
  for (int i = 0; i < 90; ++i)
    counts[i] = i + 1;
  const reader all = run_with(true, counts, 90, -1, false);
  assert_int_equal(all.num_counts, 90);
  assert_memory_equal(all.counts, counts, sizeof(counts));
}

static ls_status start_and_join(void *user) {
  reader r = {.runtime = ls_runtime_current()};
  ls_controller *controller = NULL;
  (void)user;
  LS_RETURN_IF_ERROR(
      ls_controller_start("controller", read_all, &r, false, &controller));
  const ls_status status = ls_controller_send(controller, 3);
  ls_controller_join(controller);
  return status;
}

TEST(memory_that_fails_is_survived) {
  REFUSE_EACH(start_and_join, NULL);
  ls_controller_join(NULL);
}
