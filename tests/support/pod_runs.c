// SPDX-License-Identifier: Apache-2.0
#include "support/pod_runs.h"

#include "support/bystander.h"
#include <stdio.h>

pod_runs pod_runs_begin(int hosts, int cores, ls_runtime_options options) {
  pod_runs self = {.c = counted_begin_with(options), .results = ls_none()};
  const ls_pod_shape shape = {.mesh = {hosts, cores, 1, 1}, .hosts = hosts};
  expect_ok(ls_pod_open(self.c.runtime, "virtual", "", &shape, &self.pod));
  ls_pod_initialize(self.pod);
  bystander_begin("local");
  expect_ok(ls_graph_create("g", &self.graph));
  expect_ok(ls_session_create(self.graph, &self.session));
  return self;
}

int64_t pod_runs_now;
char pod_runs_warning[256];

static int64_t read_now(void *user) {
  (void)user;
  return pod_runs_now;
}

static void pass(void *user, int64_t nanos) {
  (void)user;
  pod_runs_now += nanos;
}

static void note_warning(void *user, const ls_log_line *line) {
  (void)user;
  if (line->level == LS_LOG_WARNING)
    snprintf(pod_runs_warning, sizeof(pod_runs_warning), "%s", line->text);
}

pod_runs pod_runs_begin_watched(int hosts, int cores) {
  static const ls_clock clock = {read_now, read_now, pass, NULL};
  pod_runs_now = 0;
  pod_runs_warning[0] = '\0';
  return pod_runs_begin(
      hosts, cores,
      (ls_runtime_options){.threads = 1, .clock = &clock, .log = note_warning});
}

void pod_inject(ls_pod *pod, ls_pod_fault fault) {
  expect_ok(ls_pod_inject(pod, &fault));
}

void pod_runs_end(pod_runs *self) {
  ls_nest_release(self->results);
  ls_session_destroy(self->session);
  ls_graph_destroy(self->graph);
  ls_object_release(self->pod);
  counted_end(&self->c);
}

ls_status pod_runs_try(pod_runs *self, ls_nest fetches) {
  const ls_status status =
      ls_session_run(self->session, fetches, NULL, 0, &self->results);
  ls_nest_release(fetches);
  return status;
}

void pod_runs_do(pod_runs *self, ls_nest fetches) {
  expect_ok(pod_runs_try(self, fetches));
}

double pod_runs_number(const pod_runs *self, size_t index) {
  const ls_nest item = ls_nest_is_node(self->results)
                           ? ls_nest_item(self->results, index)
                           : self->results;
  const ls_array *array = ls_nest_as_array(item);
  assert_non_null(array);
  return ls_array_f64(array, 0);
}

// ---- Ops -------------------------------------------------------------------
ls_tensor pod_number(double value) { return ls_scalar(LS_DTYPE_F32, value); }

static const char *device_of(int task, const char *type, int index) {
  static char text[80];
  snprintf(text, sizeof(text), "/job:localhost/task:%d/device:%s:%d", task,
           type, index);
  return text;
}

ls_op put_tensor(int task, int core, ls_tensor value) {
  LS_DEVICE_SCOPE(device_of(task, "CPU", 0));
  return ls_infeed_enqueue_tuple(&value, 1, NULL, 0, core);
}

ls_op put_number(int task, int core, double value) {
  return put_tensor(task, core, pod_number(value));
}

ls_tensor get_number(int task, int core) {
  LS_DEVICE_SCOPE(device_of(task, "CPU", 0));
  return ls_outfeed_dequeue(LS_DTYPE_F32, LS_SCALAR, core);
}

ls_tensor take_number(int task, int core) {
  LS_DEVICE_SCOPE(device_of(task, "TPU", core));
  return ls_infeed_dequeue(LS_DTYPE_F32, LS_SCALAR);
}

ls_op give_tensor(int task, int core, ls_tensor value) {
  LS_DEVICE_SCOPE(device_of(task, "TPU", core));
  return ls_outfeed_enqueue(value);
}
