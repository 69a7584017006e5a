// SPDX-License-Identifier: Apache-2.0
#include "support/programs.h"

#include <stdio.h>
#include <string.h>

#include "estimator/input/input.h"
#include "lockstep/estimator_hooks.h"
#include "lockstep/tpu_system.h"
#include "runtime/own.h"
#include "support/bystander.h"

static void note(void *user, const ls_log_line *line) {
  programs *self = user;
  self->traced += strncmp(line->text, "replica ", 8) == 0;
  if (line->level != LS_LOG_WARNING) return;
  ++self->warnings;
  snprintf(self->last_warning, sizeof(self->last_warning), "%s", line->text);
}

static const char *environment(void *user, const char *name) {
  const programs *self = user;
  return strcmp(name, "TENSOR_TRACER_FLAGS") == 0 ? self->options.tracer_flags
                                                  : NULL;
}

static ls_nest no_input(void *user, ls_input_call *call) {
  (void)user, (void)call;
  return ls_none();
}

// ---- The feed --------------------------------------------------------------
// What a tuple has, in order.
static ls_nest structure_of(const programs_options *options) {
  static const char *const keys[] = {"features", "labels", "mask", "signals"};
  static const char *const signals[] = {"padding_mask", "stopping"};
  const char *used[4];
  ls_nest items[4];
  size_t count = 0;
  used[count] = keys[0];
  items[count++] = ls_nest_i64(0);
  if (!options->no_labels) {
    used[count] = keys[1];
    items[count++] = ls_nest_i64(0);
  }
  if (options->any_batch) {
    used[count] = keys[2];
    items[count++] = ls_nest_i64(0);
  }
  if (options->mode == LS_MODE_PREDICT) {
    const ls_nest values[] = {ls_nest_i64(0), ls_nest_i64(0)};
    used[count] = keys[3];
    items[count++] = ls_nest_dict("", options->pads ? signals : signals + 1,
                                  values, options->pads ? 2 : 1);
  }
  return ls_nest_dict("", used, items, count);
}

static void make_queue(programs *self) {
  const programs_options *options = &self->options;
  const int64_t rows = (int64_t)options->replicas * options->rows;
  ls_dtype dtypes[5];
  ls_shape shapes[5];
  size_t count = 0;
  dtypes[count] = LS_DTYPE_F32;
  shapes[count++] = LS_SHAPE(rows, PROGRAMS_COLUMNS);
  if (!options->no_labels) {
    dtypes[count] = LS_DTYPE_F32;
    shapes[count++] = LS_SHAPE(rows, 1);
  }
  if (options->any_batch) {
    dtypes[count] = LS_DTYPE_F32;
    shapes[count++] = LS_SHAPE(rows);
  }
  if (options->mode == LS_MODE_PREDICT && options->pads) {
    dtypes[count] = LS_DTYPE_I32;
    shapes[count++] = LS_SHAPE(rows);
  }
  if (options->mode == LS_MODE_PREDICT) {
    dtypes[count] = LS_DTYPE_BOOL;
    shapes[count++] = LS_SHAPE(rows, 1);
  }
  expect_ok(ls_infeed_queue_create(&(ls_infeed_options){.dtypes = dtypes,
                                                        .num_dtypes = count,
                                                        .shapes = shapes,
                                                        .num_shapes = count},
                                   &self->feed.queue));
  self->feed.structure = structure_of(options);
}

ls_array *programs_fed(const programs *self, int64_t step, int replica,
                       int which) {
  const int rows = self->options.rows;
  return array_of_numbers(LS_DTYPE_F32,
                          LS_SHAPE(rows, which == 0 ? PROGRAMS_COLUMNS : 1),
                          (uint32_t)(1 + 100 * step + 2 * replica + which));
}

// `count` numbers: `first` of one, the others of another.
static ls_nest flags_of(ls_dtype dtype, ls_shape shape, int count, int first,
                        double one, double other) {
  double values[64];
  for (int i = 0; i < count; ++i)
    values[i] = i < first ? one : other;
  return ls_nest_array(array_of(dtype, shape, values));
}

ls_device_name programs_core(const programs *self, int replica) {
  ls_device_name core;
  const ls_replica_core first = self->calls.plan->system->replicas[replica];
  snprintf(core.text, sizeof(core.text), "/job:worker/task:%d/device:TPU:%d",
           first.host, first.ordinal);
  return core;
}

void programs_put(programs *self, int64_t step, int replica, int real,
                  bool stops) {
  const programs_options *options = &self->options;
  ls_nest items[5];
  size_t count = 0;
  items[count++] = ls_nest_array(programs_fed(self, step, replica, 0));
  if (!options->no_labels)
    items[count++] = ls_nest_array(programs_fed(self, step, replica, 1));
  if (options->any_batch)
    items[count++] = flags_of(LS_DTYPE_F32, LS_SHAPE(options->rows),
                              options->rows, real, 1, 0);
  if (options->mode == LS_MODE_PREDICT && options->pads)
    items[count++] = flags_of(LS_DTYPE_I32, LS_SHAPE(options->rows),
                              options->rows, real, 0, 1);
  if (options->mode == LS_MODE_PREDICT)
    items[count++] = flags_of(LS_DTYPE_BOOL, LS_SHAPE(options->rows, 1),
                              options->rows, options->rows, stops, stops);
  LS_OWN(ls_nest, tuple) = ls_nest_sequence(LS_KIND_LIST, items, count);
  expect_ok(ls_infeed_put(programs_core(self, replica).text, tuple));
}

void programs_put_all(programs *self, int64_t step) {
  for (int r = 0; r < self->options.replicas; ++r)
    programs_put(self, step, r, self->options.rows, false);
}

void programs_close(programs *self) {
  ls_nest ops[PROGRAMS_MOST];
  LS_OWN(ls_graph, graph) = NULL;
  LS_OWN(ls_session, session) = NULL;
  LS_OWN(ls_nest, results) = ls_none();
  expect_ok(ls_graph_create("close", &graph));
  {
    LS_GRAPH_SCOPE(graph);
    for (int r = 0; r < self->options.replicas; ++r) {
      const ls_plan *plan = self->calls.plan;
      const ls_device_name host = ls_plan_replica_host(plan, r);
      LS_DEVICE_SCOPE(host.text);
      ops[r] = ls_nest_op(ls_infeed_close(plan->system->replicas[r].ordinal));
    }
  }
  expect_ok(ls_session_create(graph, &session));
  LS_OWN(ls_nest, all) =
      ls_nest_sequence(LS_KIND_LIST, ops, (size_t)self->options.replicas);
  expect_ok(ls_session_run(session, all, NULL, 0, &results));
}

// ---- The world -------------------------------------------------------------
static void make_system(programs *self) {
  const bool predicts = self->options.mode == LS_MODE_PREDICT;
  const char *name = self->options.replicas == 3   ? "virtual:3x1,cores=1"
                     : self->options.replicas == 1 ? "virtual:1x1,cores=1"
                     : predicts                    ? "virtual:2x2"
                                                   : "virtual:2x2,hosts=2";
  // What evaluations on several hosts are fed by.
  if (self->options.mode == LS_MODE_EVAL && self->options.replicas == 8 &&
      self->options.tpu.per_host_input == 0)
    self->options.tpu.per_host_input = LS_INPUT_PER_HOST_V2;
  expect_ok(ls_tpu_resolver_create(&(ls_tpu_resolver_options){.name = name},
                                   &self->resolver));
  expect_ok(ls_tpu_initialize(self->resolver, NULL));
  bystander_begin(name);
  expect_ok(ls_tpu_run_config_create(
      &(ls_run_config_options){.resolver = self->resolver,
                               .tpu = &self->options.tpu},
      &self->config));
  const ls_opt batch = {!self->options.no_batch,
                        (int64_t)self->options.replicas * self->options.rows};
  expect_ok(ls_plans_create(
      &(ls_estimator_facts){.config = self->config,
                            .batch_sizes = {batch, batch, batch, batch},
                            .use_tpu = self->options.on_cpu ? LS_FLAG_OFF
                                                            : LS_FLAG_DEFAULT,
                            .any_batch = self->options.any_batch},
      &self->plans));
}

void programs_begin(programs *self, programs_options options) {
  // The runtime may ask for its environment at once.
  *self = (programs){.options = options};
  const counted runtime =
      counted_begin_with((ls_runtime_options){.threads = 1,
                                              .stall_ms = 20000,
                                              .log = note,
                                              .log_user = self,
                                              .environment = environment,
                                              .environment_user = self});
  programs_begin_here(self, options);
  self->runtime = runtime;
}

void programs_begin_here(programs *self, programs_options options) {
  *self = (programs){.options = options};
  if (options.rows == 0) self->options.rows = PROGRAMS_ROWS;
  make_system(self);
  self->model = (ls_model_function){.call = options.model,
                                    .user = options.user,
                                    .arguments = options.arguments};
  self->input = (ls_input_function){.call = no_input};
  self->calls = (ls_estimator_calls){
      .model = &self->model, .input = &self->input, .config = self->config};
  expect_ok(ls_plans_get(self->plans, options.mode, false, &self->calls.plan));
  expect_ok(ls_graph_create("g", &self->graph));
  expect_ok(ls_global_step_create(self->graph, &self->global_step));
  make_queue(self);
}

void programs_end(programs *self) {
  programs_end_here(self);
  counted_end(&self->runtime);
}

void programs_end_here(programs *self) {
  ls_nest_release(self->results);
  ls_program_drop(&self->program);
  ls_infeed_queue_release(self->feed.queue);
  ls_nest_release(self->feed.structure);
  ls_session_destroy(self->session);
  ls_graph_destroy(self->graph);
  ls_plans_destroy(self->plans);
  ls_run_config_release(self->config);
  ls_tpu_resolver_release(self->resolver);
}

ls_status programs_try(programs *self) {
  LS_GRAPH_SCOPE(self->graph);
  return ls_program_build(
      &(ls_program_options){.calls = &self->calls,
                            .feed = &self->feed,
                            .cache = {self->options.cache, self->options.user},
                            .any_batch = self->options.any_batch,
                            .replica_0_loss = self->options.replica_0_loss},
      &self->program);
}

void programs_build(programs *self) {
  expect_ok(programs_try(self));
  programs_initialize(self);
}

// ---- Runs ------------------------------------------------------------------
void programs_initialize(programs *self) {
  ls_nest init = ls_none();
  {
    LS_GRAPH_SCOPE(self->graph);
    init = ls_nest_op(ls_global_initializer());
  }
  expect_ok(ls_session_create(self->graph, &self->session));
  programs_run(self, init);
}

void programs_set_steps(programs *self, int64_t count) {
  ls_variable *iterations = NULL;
  LS_OWN(ls_array, value) = NULL;
  const int32_t number = (int32_t)count;
  expect_ok(ls_iterations_per_loop(self->graph, &iterations));
  expect_ok(ls_array_create_copy(LS_DTYPE_I32, LS_SCALAR, &number, &value));
  expect_ok(ls_session_set_variable_value(self->session, iterations, value));
}

ls_status programs_try_run(programs *self, ls_nest fetches) {
  const ls_status status =
      ls_session_run(self->session, fetches, NULL, 0, &self->results);
  ls_nest_release(fetches);
  return status;
}

void programs_run(programs *self, ls_nest fetches) {
  expect_ok(programs_try_run(self, fetches));
}

const ls_array *programs_array(const programs *self, int index) {
  const ls_nest item =
      index < 0 ? self->results : ls_nest_item(self->results, (size_t)index);
  const ls_array *array = ls_nest_as_array(item);
  assert_non_null(array);
  return array;
}

double programs_number(const programs *self, int index) {
  return ls_array_f64(programs_array(self, index), 0);
}

ls_array *programs_value(programs *self, ls_variable *variable) {
  ls_array *value = NULL;
  expect_ok(ls_session_variable_value(self->session, variable, &value));
  return value;
}
