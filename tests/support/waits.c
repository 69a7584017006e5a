// SPDX-License-Identifier: Apache-2.0
#include "support/waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/ops.h"
#include "support/estimators.h"

static int64_t read_clock(void *user) {
  return __atomic_load_n(&((waits *)user)->now, __ATOMIC_RELAXED);
}

static int64_t read_wall(void *user) {
  return 1700000000 * (int64_t)SECOND + read_clock(user);
}

void waits_pass(void *user, int64_t nanos) {
  waits *w = user;
  const int64_t now = __atomic_add_fetch(&w->now, nanos, __ATOMIC_RELAXED);
  if (w->stops_at > 0 && now >= w->stops_at * SECOND)
    ls_train_stop_request(&w->stop);
  if (w->copy == NULL || now < w->copies_at * SECOND) return;
  assert_int_equal(system(w->copy), 0);
  w->copy = NULL;
}

static const char *environment(void *user, const char *name) {
  const waits *w = user;
  return strcmp(name, "TF_CONFIG") == 0 ? w->tf_config : NULL;
}

static void note(void *user, const ls_log_line *line) {
  waits *w = user;
  w->warnings += strstr(line->text, "checkpoint to evaluate") != NULL;
}

void waits_begin(waits *w, const char *tf_config) {
  *w = (waits){.tf_config = tf_config};
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.clock = &(ls_clock){.now = read_clock,
                                                 .wall = read_wall,
                                                 .sleep = waits_pass,
                                                 .user = w},
                            .environment = environment,
                            .environment_user = w,
                            .log = note,
                            .log_user = w},
      &w->runtime));
  w->before = ls_runtime_make_current(w->runtime);
}

void waits_end(waits *w) {
  (void)ls_runtime_make_current(w->before);
  expect_ok(ls_runtime_destroy(w->runtime));
}

ls_status waits_receive(void *user, ls_serving_receiver *out) {
  (void)user;
  out->features = ls_leaf(ls_placeholder(
      LS_DTYPE_F32, LS_SHAPE(LS_UNKNOWN_DIM, ESTIMATOR_WIDTH), "x"));
  return ls_ok();
}

ls_exporter *waits_exporter(ls_exporter_options o) {
  ls_exporter *exporter = NULL;
  o.receiver.call = waits_receive;
  expect_ok(ls_exporter_create(&o, &exporter));
  return exporter;
}

int waits_count_in(const char *folder) {
  char command[300];
  int count = 0;
  snprintf(command, sizeof(command), "ls '%s' 2>/dev/null | wc -l", folder);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  assert_int_equal(fscanf(pipe, "%d", &count), 1);
  pclose(pipe);
  return count;
}
