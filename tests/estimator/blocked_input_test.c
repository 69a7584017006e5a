// SPDX-License-Identifier: Apache-2.0
//
// Inputs whose function does not return: nobody can end it, so the call waits;
// it says for what, and ends as soon as the function does.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lockstep/runs.h"
#include "lockstep/runtime_settings.h"
#include "support/counted.h"
#include "support/resumable.h"
#include "support/witnessed.h"

enum { STALL_MS = 1000, FIRST = 60, MOST_MILLIS = 60000 };
static const char at_work[] = "iterator 'input of host 0', at work in";

// Looks on, from a thread of its own, and lets the function return at last.
typedef struct watcher {
  witnessed w;
  ls_train_stop stop;
  bool asks;        // For a stop, once the function is blocked.
  bool opens;       // As soon as a look at the runs has told of it; else once
  bool has_logged;  //   the log has. Atomic.
  bool opened, seen;
  ls_runtime *runtime;
  pthread_t thread;
} watcher;

static void log_line(void *user, const ls_log_line *line) {
  watcher *self = user;
  if (strstr(line->text, "cannot be released") != NULL &&
      strstr(line->text, at_work) != NULL)
    __atomic_store_n(&self->has_logged, true, __ATOMIC_RELEASE);
}

static bool runs_tell(const watcher *self) {
  LS_OWN(printed, text) = NULL;
  expect_ok(ls_runs_print(self->runtime, &text));
  return strstr(text, at_work) != NULL;
}

static bool has_seen(watcher *self) {
  return self->opens ? runs_tell(self)
                     : __atomic_load_n(&self->has_logged, __ATOMIC_ACQUIRE);
}

static void *watch(void *user) {
  watcher *self = user;
  const int64_t *blocked = &self->w.blocked;
  int millis = 0;
  while (__atomic_load_n(blocked, __ATOMIC_RELAXED) == 0 &&
         ++millis < MOST_MILLIS)
    usleep(1000);
  if (self->asks) ls_train_stop_request(&self->stop);
  while (!(self->seen = has_seen(self)) && ++millis < MOST_MILLIS)
    usleep(1000);
  __atomic_store_n(&self->opened, true, __ATOMIC_RELEASE);
  return NULL;
}

static ls_status train(watcher *self, ls_training_end *end) {
  self->w.folder = "stuck";
  self->w.log = "stuck.log";
  self->w.replicas = 4;
  self->w.save_steps = 7;
  self->w.stop = &self->stop;
  if (self->w.fault.blocks_at == 0) self->w.fault.blocks_at = FIRST;
  self->w.fault.opened = &self->opened;
  remove_folder(self->w.folder);
  counted c = counted_begin_with(
      (ls_runtime_options){.threads = 2,
                           .stall_ms = self->opens ? 0 : STALL_MS,
                           .log = log_line,
                           .log_user = self});
  self->runtime = c.runtime;
  assert_int_equal(pthread_create(&self->thread, NULL, watch, self), 0);
  const ls_status status = witnessed_train(&self->w, end);
  assert_int_equal(pthread_join(self->thread, NULL), 0);
  assert_int_equal(ls_runtime_abandoned_calls(c.runtime), 0);
  counted_end(&c);
  assert_true(self->seen);
  return status;
}

TEST(who_looks_on_is_told_and_a_stop_ends_the_run_then) {
  LS_SPEC("E216");
  watcher self = {.asks = true, .opens = true};
  ls_training_end end;
  expect_ok(train(&self, &end));
  assert_true(end.stopped);
  assert_int_equal(end.step, 7);
}

TEST(what_stands_still_names_the_function) {
  watcher self = {0};
  ls_training_end end;
  const ls_status status = train(&self, &end);
  expect_contains(ls_status_message(status), "no progress for 1 s");
  expect_status(status, LS_DEADLINE_EXCEEDED, at_work);
}

// Host 0 blocks in the third step's batch, made ahead; host 1 then fails in the
// second step's.
TEST(another_hosts_failure_is_what_is_told) {
  watcher self = {
      .w = {.hosts = 2,
            .fault = {.blocks_at = 30, .input_at = 20, .hosts = 2}}};
  ls_training_end end;
  expect_status(train(&self, &end), LS_DATA_LOSS, "an example of host 1 fails");
}
