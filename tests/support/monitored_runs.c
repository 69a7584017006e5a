// SPDX-License-Identifier: Apache-2.0
#include "support/monitored_runs.h"
#include "base/memory/own.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static int64_t now;  // Atomic.
static char lines[20000];
static pthread_mutex_t lines_lock = PTHREAD_MUTEX_INITIALIZER;

static int64_t read_clock(void *user) {
  (void)user;
  return __atomic_load_n(&now, __ATOMIC_RELAXED);
}

static void (*on_sleep)(void *user);
static void *on_sleep_user;

static void pass(void *user, int64_t nanos) {
  (void)user;
  __atomic_fetch_add(&now, nanos, __ATOMIC_RELAXED);
  if (on_sleep != NULL) on_sleep(on_sleep_user);
}

void monitored_runs_on_sleep(void (*call)(void *user), void *user) {
  on_sleep = call;
  on_sleep_user = user;
}

double monitored_runs_now(void) { return (double)read_clock(NULL) * 1e-9; }

static struct {
  const char *part;
  void (*call)(void *user);
  void *user;
} on_line;

void monitored_runs_on_line(const char *part, void (*call)(void *user),
                            void *user) {
  on_line.part = part;
  on_line.call = call;
  on_line.user = user;
}

static void keep_line(void *user, const ls_log_line *line) {
  (void)user;
  if (on_line.call != NULL && strstr(line->text, on_line.part) != NULL)
    on_line.call(on_line.user);
  pthread_mutex_lock(&lines_lock);
  const size_t used = strlen(lines);
  snprintf(lines + used, sizeof(lines) - used, "%s\n", line->text);
  pthread_mutex_unlock(&lines_lock);
}

void monitored_runs_pass(double seconds) {
  __atomic_fetch_add(&now, (int64_t)(seconds * 1e9), __ATOMIC_RELAXED);
}

const char *monitored_runs_log(void) {
  static char seen[sizeof(lines)];
  pthread_mutex_lock(&lines_lock);
  memcpy(seen, lines, sizeof(seen));
  lines[0] = '\0';
  pthread_mutex_unlock(&lines_lock);
  return seen;
}

static void build(monitored_runs *self) {
  expect_ok(ls_graph_create("monitored", &self->graph));
  expect_ok(ls_global_step_create(self->graph, &self->step));
  LS_GRAPH_SCOPE(self->graph);
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "weight",
                             .initial_value = ls_scalar(LS_DTYPE_F32, 5)},
      &self->weight));
  self->input = ls_placeholder(LS_DTYPE_F32, LS_SCALAR, "input");
  const ls_tensor at = ls_convert(ls_variable_read(self->step), LS_DTYPE_F32);
  self->loss = ls_div(ls_scalar(LS_DTYPE_F32, 1), ls_add_scalar(at, 1));
  const ls_op next = ls_tensor_op(
      ls_variable_assign_add(self->step, ls_scalar(LS_DTYPE_I64, 1)));
  LS_CONTROL_SCOPE(&next, 1);
  self->train = ls_tensor_op(
      ls_variable_assign_add(self->weight, ls_scalar(LS_DTYPE_F32, 2)));
}

void monitored_runs_begin(monitored_runs *self) {
  *self = (monitored_runs){.results = ls_none()};
  now = 0;
  lines[0] = '\0';
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){
          .clock =
              &(ls_clock){.now = read_clock, .wall = read_clock, .sleep = pass},
          .log = keep_line},
      &self->runtime));
  ls_runtime_make_current(self->runtime);
  build(self);
}

static void drop_graph(monitored_runs *self) {
  ls_variable_release(self->weight);
  ls_graph_destroy(self->graph);
}

void monitored_runs_renew(monitored_runs *self) {
  drop_graph(self);
  build(self);
}

void monitored_runs_end(monitored_runs *self) {
  if (self->session != NULL) monitored_runs_close(self);
  drop_graph(self);
  ls_runtime_make_current(NULL);
  expect_ok(ls_runtime_destroy(self->runtime));
}

void monitored_runs_open(monitored_runs *self, ls_hook *const *hooks,
                         size_t num_hooks, const char *checkpoints) {
  expect_ok(ls_monitored_session_create(
      &(ls_monitored_options){.graph = self->graph,
                              .hooks = hooks,
                              .num_hooks = num_hooks,
                              .checkpoints = checkpoints},
      &self->session));
  for (size_t i = 0; i < num_hooks; ++i)
    ls_hook_release(hooks[i]);
}

static ls_status make_late(void *user) {
  monitored_runs *self = user;
  self->late = ls_tensor_op(ls_variable_assign_add(
      self->step, ls_scalar_i64(LS_DTYPE_I64, self->late_steps)));
  return ls_ok();
}

ls_hook *monitored_runs_late(monitored_runs *self, int64_t steps) {
  ls_hook *hook = NULL;
  self->late_steps = steps;
  expect_ok(ls_hook_create(
      &(ls_hook_options){.name = "late", .user = self, .begin = make_late},
      &hook));
  return hook;
}

ls_status monitored_runs_try_late(monitored_runs *self) {
  return ls_monitored_session_run(self->session, ls_nest_op(self->late), NULL,
                                  0, &self->results);
}

ls_status monitored_runs_try(monitored_runs *self) {
  return ls_monitored_session_run(self->session, ls_nest_op(self->train), NULL,
                                  0, &self->results);
}

int monitored_runs_all(monitored_runs *self, int most) {
  int runs = 0;
  while (runs < most && !ls_monitored_session_should_stop(self->session)) {
    expect_ok(monitored_runs_try(self));
    ++runs;
  }
  return runs;
}

ls_status monitored_runs_try_close(monitored_runs *self, ls_status status) {
  return ls_monitored_session_close(ls_give(&self->session), status);
}

void monitored_runs_close(monitored_runs *self) {
  expect_ok(monitored_runs_try_close(self, ls_ok()));
}

int64_t monitored_runs_step(monitored_runs *self) {
  LS_OWN(ls_array, value) = NULL;
  expect_ok(ls_session_variable_value(ls_monitored_session_now(self->session),
                                      self->step, &value));
  return (int64_t)ls_array_f64(value, 0);
}
