// SPDX-License-Identifier: Apache-2.0
#include "base/threads/thread_state.h"

#include <pthread.h>
#include <string.h>

#include "graph/context.h"
#include "support/expect.h"

static char left[64];

static void leave(const char *what) {
  strncat(left, what, sizeof(left) - strlen(left) - 1);
}
static void leave_graph(void) { leave("graph "); }
static void leave_runtime(void) { leave("runtime "); }
static void leave_distribute(void) { leave("distribute "); }

static void run_thread(void *(*body)(void *)) {
  pthread_t thread;
  left[0] = '\0';
  assert_int_equal(pthread_create(&thread, NULL, body, NULL), 0);
  pthread_join(thread, NULL);
}

static void *ask_for_all(void *unused) {
  assert_true(ls_thread_at_end(LS_THREAD_RUNTIME, leave_runtime));
  assert_true(ls_thread_at_end(LS_THREAD_GRAPH, leave_graph));
  assert_true(ls_thread_at_end(LS_THREAD_DISTRIBUTE, leave_distribute));
  return unused;
}

static void *ask_twice(void *unused) {
  assert_true(ls_thread_at_end(LS_THREAD_GRAPH, leave_graph));
  assert_true(ls_thread_at_end(LS_THREAD_GRAPH, leave_graph));
  return unused;
}

static void *ask_for_none(void *unused) { return unused; }

TEST(layers_leave_a_thread_from_above) {
  run_thread(ask_for_all);
  assert_string_equal(left, "distribute runtime graph ");
  run_thread(ask_twice);
  assert_string_equal(left, "graph ");
  run_thread(ask_for_none);
  assert_string_equal(left, "");
}

static void begin_anew(void) {
  leave("anew ");
  if (strlen(left) < 12)
    assert_true(ls_thread_at_end(LS_THREAD_DISTRIBUTE, begin_anew));
}

static void *ask_while_leaving(void *unused) {
  assert_true(ls_thread_at_end(LS_THREAD_GRAPH, begin_anew));
  return unused;
}

TEST(what_begins_while_a_thread_ends_is_left_too) {
  run_thread(ask_while_leaving);
  assert_string_equal(left, "anew anew anew ");
}

static void *end_in_a_refused_scope(void *unused) {
  ls_scope scope = {0};
  ls_context_refuse(&scope, ls_invalid_argument("of this thread alone"));
  expect_status(ls_scope_status(), LS_INVALID_ARGUMENT, "alone");
  pthread_exit(unused);
}

static void *expect_no_scope(void *unused) {
  expect_ok(ls_scope_status());
  assert_null(ls_context_current()->top);
  return unused;
}

// Its reason is given back, which a checker of leaks sees.
TEST(a_thread_may_end_in_a_refused_scope) {
  for (int i = 0; i < 3; ++i) {
    run_thread(end_in_a_refused_scope);
    run_thread(expect_no_scope);
  }
}
