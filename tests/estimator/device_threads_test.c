// SPDX-License-Identifier: Apache-2.0
//
// Threads beside a program that get counts of steps.
#include "estimator/device/device.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/counted.h"
#include "support/fault.h"
#include "support/spec.h"
#include "support/thread_count.h"

// What the infeed's thread has read; the other one's work is not looked at.
typedef struct reader {
  ls_runtime *runtime;
  int64_t counts[100];
  int num_counts;
  bool had_runtime, is_named;
  bool waits;  // Before it reads. Atomic, as is what comes next.
  bool has_begun;
  char line[80];  // That the infeed's thread has logged last.
} reader;

static ls_status begin_reading(void *user) {
  reader *r = user;
  r->had_runtime = ls_runtime_current() == r->runtime;
  r->is_named = threads_called("InfeedControlle") > 0;  // As much as fits.
  __atomic_store_n(&r->has_begun, true, __ATOMIC_RELEASE);
  while (__atomic_load_n(&r->waits, __ATOMIC_ACQUIRE))
    usleep(100);
  return ls_ok();
}

static ls_status read_count(void *user, int64_t count) {
  reader *r = user;
  r->counts[r->num_counts++] = count;
  return ls_ok();
}

static ls_status begin_nothing(void *user) {
  (void)user;
  return ls_ok();
}

static ls_status drop_count(void *user, int64_t count) {
  (void)user, (void)count;
  return ls_ok();
}

static ls_status keep_status(void *user, ls_status status) {
  (void)user;
  return status;
}

static void keep_line(void *user, const ls_log_line *line) {
  reader *r = user;
  if (strncmp(line->text, "InfeedController", 16) == 0)
    snprintf(r->line, sizeof(r->line), "%s", line->text);
}

static ls_status run_threads(reader *r, bool once, const int64_t *counts,
                             int num_counts) {
  const ls_device_work works[LS_DEVICE_THREADS] = {
      {"InfeedController", "infeed", once, false, begin_reading, read_count,
       keep_status},
      {"OutfeedController", "outfeed", false, false, begin_nothing, drop_count,
       keep_status}};
  LS_OWN(ls_graph, graph) = NULL;
  LS_OWN(ls_session, session) = NULL;
  ls_rendezvous *rendezvous = NULL;
  ls_device_threads threads = {.runtime = NULL};
  ls_status status = ls_graph_create("g", &graph);
  if (ls_status_is_ok(status)) status = ls_session_create(graph, &session);
  if (ls_status_is_ok(status)) status = ls_rendezvous_create(1, &rendezvous);
  if (ls_status_is_ok(status))
    status = ls_device_threads_init(&threads, works, r, rendezvous);
  if (ls_status_is_ok(status))
    status = ls_device_threads_start(&threads, session);
  // Nothing need be posted for it to begin.
  while (ls_status_is_ok(status) && r->waits &&
         !__atomic_load_n(&r->has_begun, __ATOMIC_ACQUIRE))
    usleep(100);
  for (int i = 0; i < num_counts && ls_status_is_ok(status); ++i)
    status = ls_device_threads_post(&threads, counts[i]);
  __atomic_store_n(&r->waits, false, __ATOMIC_RELEASE);
  if (ls_status_is_ok(status)) {
    ls_device_threads_settle(&threads, LS_INFEED_THREAD);
    ls_device_threads_join(&threads, LS_INFEED_THREAD);
  }
  ls_device_threads_deinit(&threads);
  ls_rendezvous_destroy(rendezvous);
  return status;
}

static reader run(bool waits, bool once, const int64_t *counts,
                  int num_counts) {
  reader r = {.waits = waits};
  counted c = counted_begin_with(
      (ls_runtime_options){.threads = 1, .log = keep_line, .log_user = &r});
  r.runtime = c.runtime;
  expect_ok(run_threads(&r, once, counts, num_counts));
  counted_end(&c);
  assert_true(r.had_runtime);
  assert_true(r.is_named);
  assert_string_equal(r.line, "InfeedController read its stop signal");
  return r;
}

TEST(counts_are_read_in_order_up_to_the_stop) {
  LS_SPEC("E3 E76 E77");
  static const int64_t counts[] = {5, 1, 7, 3};
  const reader all = run(false, false, counts, 4);
  assert_int_equal(all.num_counts, 4);
  assert_memory_equal(all.counts, counts, sizeof(counts));
  assert_int_equal(run(false, false, NULL, 0).num_counts, 0);
}

TEST(one_count_is_enough_for_some) {
  LS_SPEC("E78");
  static const int64_t counts[] = {5, 1, 7};
  const reader one = run(false, true, counts, 3);
  assert_int_equal(one.num_counts, 1);
  assert_int_equal(one.counts[0], 5);
  assert_int_equal(run(false, true, NULL, 0).num_counts, 0);
}

// All of them lie there before one is read.
TEST(counts_have_no_limit) {
  LS_SPEC("E76");
  int64_t counts[90];
  for (int i = 0; i < 90; ++i)
    counts[i] = i + 1;
  const reader all = run(true, false, counts, 90);
  assert_int_equal(all.num_counts, 90);
  assert_memory_equal(all.counts, counts, sizeof(counts));
}

static ls_status start_and_join(void *user) {
  static const int64_t counts[] = {3};
  reader r = {.runtime = ls_runtime_current()};
  (void)user;
  return run_threads(&r, false, counts, 1);
}

TEST(memory_that_fails_is_survived) { REFUSE_EACH(start_and_join, NULL); }
