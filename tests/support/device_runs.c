// SPDX-License-Identifier: Apache-2.0
#include "support/device_runs.h"
#include "support/callbacks.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/own.h"
#include "lockstep/flow.h"
#include "lockstep/replicate.h"
#include "lockstep/training_loop.h"
#include "support/bystander.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"

// ---- The world -------------------------------------------------------------
static int64_t now;  // Atomic.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char lines[40000];
static const char *splits;
static bool watches;
static void (*on_line)(const char *line);

static int64_t read_clock(void *user) {
  (void)user;
  return __atomic_load_n(&now, __ATOMIC_RELAXED);
}

static void pass(void *user, int64_t nanos) {
  (void)user;
  __atomic_fetch_add(&now, nanos, __ATOMIC_RELAXED);
}

double device_runs_now(void) { return (double)read_clock(NULL) * 1e-9; }

static void keep_line(void *user, const ls_log_line *line) {
  (void)user;
  pthread_mutex_lock(&lock);
  const size_t used = strlen(lines);
  snprintf(lines + used, sizeof(lines) - used, "%c %s\n",
           line->level == LS_LOG_ERROR     ? 'E'
           : line->level == LS_LOG_WARNING ? 'W'
                                           : 'I',
           line->text);
  pthread_mutex_unlock(&lock);
  if (on_line != NULL) on_line(line->text);
}

void device_runs_on_line(void (*call)(const char *line)) { on_line = call; }

const char *device_runs_log(void) {
  static char seen[sizeof(lines)];
  pthread_mutex_lock(&lock);
  memcpy(seen, lines, sizeof(seen));
  lines[0] = '\0';
  pthread_mutex_unlock(&lock);
  return seen;
}

static const char *environment(void *user, const char *name) {
  (void)user;
  if (strcmp(name, "TPU_SPLIT_COMPILE_AND_EXECUTE") == 0) return splits;
  return watches && strcmp(name, "TF_TPU_WATCHDOG_TIMEOUT") == 0 ? "70" : NULL;
}

// ---- Ends on the host ------------------------------------------------------
static void destroy_nothing(ls_object *object) { (void)object; }
static const ls_object_type end_type = {.name = "end",
                                        .destroy = destroy_nothing};

static int64_t load(const int64_t *value) {
  return __atomic_load_n(value, __ATOMIC_RELAXED);
}

// Whether the call is this thing's last; then it has ended, or waits.
static bool is_last(device_end *self, ls_host_call *call, const char *what) {
  if (self->micros > 0) usleep((useconds_t)self->micros);
  if (load(&self->count) != load(&self->at)) return false;
  const int32_t code = __atomic_load_n(&self->code, __ATOMIC_RELAXED);
  if (self->once) __atomic_store_n(&self->at, -1, __ATOMIC_RELAXED);
  if (code != 0)
    ls_host_done(call, LS_STATUS((ls_code)code, "the %s has failed", what));
  else
    __atomic_store_n(&self->waits, true, __ATOMIC_RELEASE);
  return true;
}

static ls_status infer_source(const ls_object *state, const ls_type *in,
                              size_t num_in, ls_type *out, size_t *num_out) {
  (void)state, (void)in, (void)num_in;
  out[0] = (ls_type){LS_DTYPE_F32, LS_SHAPE(DEVICE_RUNS_MOST)};
  *num_out = 1;
  return ls_ok();
}

static ls_status start_source(ls_host_call *call) {
  if (!is_last((device_end *)call->state, call, "source"))
    ls_host_done(call, ls_ok());
  return ls_ok();
}

static ls_status take_source(ls_host_call *call) {
  device_end *self = (device_end *)call->state;
  const int64_t k = __atomic_fetch_add(&self->count, 1, __ATOMIC_RELAXED);
  float *out = call->outputs != NULL ? call->outputs[0] : NULL;
  for (int r = 0; r < DEVICE_RUNS_MOST && out != NULL; ++r)
    out[r] = (float)((k + 1) * (r + 1));
  return ls_ok();
}

static const ls_host_kernel source_kernel = {.name = "device_runs_source",
                                             .infer = infer_source,
                                             .start = start_source,
                                             .take = take_source,
                                             .cancel = cancel_call,
                                             .flags = LS_HOST_INLINE |
                                                      LS_HOST_WAITS};

// As a function of a user's.
static ls_status start_sink(ls_host_call *call) {
  device_end *self = (device_end *)call->state;
  if (is_last(self, call, "sink")) return ls_ok();
  const int64_t k = __atomic_fetch_add(&self->count, 1, __ATOMIC_RELAXED);
  for (size_t r = 0; r < call->num_inputs; ++r)
    if (*(const float *)call->inputs[r] != (float)((k + 1) * ((int64_t)r + 1)))
      __atomic_fetch_add(&self->wrong, 1, __ATOMIC_RELAXED);
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel sink_kernel = {.name = "device_runs_sink",
                                           .start = start_sink};

// ---- The graph -------------------------------------------------------------
static int32_t ordinal_of(const device_runs *self, int r) {
  int32_t ordinal = 0;
  expect_ok(ls_device_assignment_ordinal(self->assignment, r, 0, &ordinal));
  return ordinal;
}

static ls_device_name host_of(const device_runs *self, int r) {
  ls_device_name name;
  expect_ok(ls_device_assignment_host(self->assignment, r, 0, "worker", &name));
  return name;
}

// One tuple for each core.
static size_t put_step(device_runs *self, ls_nest *ops) {
  const ls_op op =
      ls_host_call_add(&source_kernel, &self->source.object, NULL, 0);
  const ls_tensor all = ls_op_output(op, 0);
  for (int r = 0; r < self->replicas; ++r) {
    const ls_tensor mine = ls_slice_axis(all, 0, r, r + 1);
    LS_DEVICE_SCOPE(host_of(self, r).text);
    ops[r] =
        ls_nest_op(ls_infeed_enqueue(mine, LS_SHAPE(1), ordinal_of(self, r)));
  }
  return (size_t)self->replicas;
}

static ls_nest feeds_on(ls_nest values, void *user) {
  const device_runs *self = user;
  if (self->options.predicts) return ls_leaf(ls_scalar(LS_DTYPE_BOOL, 1));
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_variable_read(self->iterations)));
}

static ls_nest feed_trip(ls_nest values, void *user) {
  ls_nest ops[DEVICE_RUNS_MOST];
  (void)put_step(user, ops);
  return LS_LIST(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)));
}

static void build_feed(device_runs *self) {
  ls_nest ops[DEVICE_RUNS_MOST], closes[DEVICE_RUNS_MOST];
  size_t count = 0;
  if (self->options.loops) {
    const ls_nest zero = LS_LIST(ls_leaf(ls_scalar(LS_DTYPE_I32, 0)));
    LS_OWN(ls_nest, made) = ls_while(feeds_on, feed_trip, self, zero, 1 << 30);
    ops[count++] = ls_nest_op(ls_tensor_op(ls_nest_tensor(made, 0)));
  } else {
    count = put_step(self, ops);
  }
  if (self->options.predicts) ops[count++] = ls_nest_op(self->train);
  self->enqueue = ls_nest_sequence(LS_KIND_LIST, ops, count);
  for (int r = 0; r < self->replicas; ++r) {
    LS_DEVICE_SCOPE(host_of(self, r).text);
    closes[r] = ls_nest_op(ls_infeed_close(ordinal_of(self, r)));
  }
  self->close = ls_nest_sequence(LS_KIND_LIST, closes, (size_t)self->replicas);
}

static ls_nest goes_on(ls_nest values, void *user) {
  const device_runs *self = user;
  if (self->options.predicts)
    return ls_leaf(
        ls_not_equal(ls_nest_tensor(values, 1), ls_scalar(LS_DTYPE_F32, 0)));
  return ls_leaf(ls_less(ls_nest_tensor(values, 0), ls_nest_tensor(values, 2)));
}

static ls_nest one_step(ls_nest values, void *user) {
  const device_runs *self = user;
  const ls_tensor x = ls_reshape(ls_nest_tensor(values, 3), LS_SCALAR);
  const ls_tensor sum = ls_add(ls_nest_tensor(values, 1), x);
  const ls_nest next = ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1));
  const ls_nest most = ls_leaf(ls_nest_tensor(values, 2));
  if (self->options.silent) return LS_LIST(next, ls_leaf(sum), most);
  LS_DEVICE_SCOPE("/device:TPU_REPLICATED_CORE:0");
  return LS_LIST(next, ls_leaf(sum), most, ls_nest_op(ls_outfeed_enqueue(x)));
}

static ls_nest on_core(ls_nest args, void *user) {
  device_runs *self = user;
  ls_nest outputs = ls_none();
  const ls_training_loop loop = {.condition = goes_on,
                                 .body = one_step,
                                 .user = self,
                                 .infeed = self->queue};
  LS_OWN(ls_nest, inputs) =
      LS_LIST(ls_leaf(ls_scalar(LS_DTYPE_I32, 0)),
              ls_leaf(ls_scalar(LS_DTYPE_F32, self->options.predicts)),
              ls_leaf(ls_nest_tensor(args, 0)));
  const ls_status status = ls_training_while(&loop, inputs, &outputs);
  return ls_status_is_ok(status) ? outputs : ls_fail(status);
}

static void build_program(device_runs *self) {
  ls_nest items[DEVICE_RUNS_MOST], outputs = ls_none();
  const ls_dtype dtype = LS_DTYPE_F32;
  const ls_shape shape = LS_SHAPE(self->replicas);
  expect_ok(ls_infeed_queue_create(
      &(ls_infeed_options){
          .dtypes = &dtype, .num_dtypes = 1, .shapes = &shape, .num_shapes = 1},
      &self->queue));
  const ls_tensor most = ls_variable_read(self->iterations);
  for (int r = 0; r < self->replicas; ++r)
    items[r] = LS_LIST(ls_leaf(most));
  LS_OWN(ls_nest, inputs) =
      ls_nest_sequence(LS_KIND_LIST, items, (size_t)self->replicas);
  expect_ok(ls_split_compile_and_replicate(
      on_core, self, inputs,
      &(ls_replicate_options){.assignment = self->assignment},
      &self->compile_status, &outputs));
  const ls_nest first = ls_nest_item(outputs, 0);
  const ls_op ops[] = {
      ls_tensor_op(ls_variable_assign_add(
          self->step, ls_convert(ls_nest_tensor(first, 0), LS_DTYPE_I64))),
      ls_tensor_op(
          ls_variable_assign_add(self->total, ls_nest_tensor(first, 1)))};
  self->train = ls_group(ops, 2, "train");
  ls_nest_release(outputs);
}

static void build_take(device_runs *self) {
  ls_tensor all[DEVICE_RUNS_MOST];
  if (self->options.silent) return;
  for (int r = 0; r < self->replicas; ++r) {
    LS_DEVICE_SCOPE(host_of(self, r).text);
    all[r] = ls_outfeed_dequeue(LS_DTYPE_F32, LS_SCALAR, ordinal_of(self, r));
  }
  const ls_op hears = ls_host_call_add(&sink_kernel, &self->sink.object, all,
                                       (size_t)self->replicas);
  if (!self->options.predicts) self->dequeue = LS_LIST(ls_nest_op(hears));
  LS_CONTROL_SCOPE(&hears, 1);
  self->said = ls_identity(all[0]);
}

static void build(device_runs *self) {
  expect_ok(ls_graph_create("devices", &self->graph));
  expect_ok(ls_global_step_create(self->graph, &self->step));
  expect_ok(ls_iterations_per_loop(self->graph, &self->iterations));
  LS_GRAPH_SCOPE(self->graph);
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "total",
                             .initial_value = ls_scalar(LS_DTYPE_F32, 0)},
      &self->total));
  build_program(self);
  build_feed(self);
  build_take(self);
  expect_ok(ls_graph_take_error(self->graph));
}

// ---- Beginning -------------------------------------------------------------
static void find_system(device_runs *self) {
  char name[64];
  snprintf(name, sizeof(name), "virtual:%dx1,cores=%d,hosts=%d",
           self->options.hosts, self->options.cores, self->options.hosts);
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = name,
                                 .core_bytes = self->options.core_bytes},
      &self->resolver));
  expect_ok(ls_tpu_connect(self->resolver));
  bystander_begin(name);
  // By which predictions may be fed on several hosts.
  ls_tpu_config tpu = {0};
  if (self->options.tpu != NULL) tpu = *self->options.tpu;
  if (self->options.predicts) tpu.per_host_input = LS_INPUT_BROADCAST;
  expect_ok(ls_tpu_run_config_create(
      &(ls_run_config_options){.resolver = self->resolver,
                               .tpu = &tpu,
                               .session_config = self->options.session_config},
      &self->config));
  const ls_opt batch = LS_SOME(self->replicas);
  expect_ok(ls_plans_create(
      &(ls_estimator_facts){.config = self->config,
                            .batch_sizes = {batch, batch, batch, batch}},
      &self->plans));
  expect_ok(ls_plans_get(
      self->plans, self->options.predicts ? LS_MODE_PREDICT : LS_MODE_TRAIN,
      false, &self->plan));
  LS_OWN(ls_tpu_metadata, metadata) = NULL;
  expect_ok(ls_tpu_metadata_query(self->resolver, true, &metadata));
  expect_ok(ls_device_assignment_build(
      metadata->topology,
      &(ls_device_assignment_options){.num_replicas = LS_SOME(self->replicas)},
      &self->assignment));
}

void device_runs_begin(device_runs *self, const device_runs_options *options) {
  *self = (device_runs){.options = *options,
                        .source = {.at = -1},
                        .sink = {.at = -1},
                        .dequeue = ls_none(),
                        .results = ls_none()};
  if (self->options.hosts == 0) self->options.hosts = 1;
  if (self->options.cores == 0) self->options.cores = 1;
  self->replicas = self->options.hosts * self->options.cores;
  ls_object_init(&self->source.object, &end_type);
  ls_object_init(&self->sink.object, &end_type);
  (void)device_runs_log();
  __atomic_store_n(&now, 0, __ATOMIC_RELAXED);
  splits = options->asks_compiler ? "1" : options->asks;
  watches = options->watches;
  const ls_clock clock = {.now = read_clock, .wall = read_clock, .sleep = pass};
  self->world = counted_begin_with(
      (ls_runtime_options){.threads = 2,
                           .stall_ms = options->stall_ms,
                           .clock = options->real_clock ? NULL : &clock,
                           .environment = environment,
                           .log = keep_line});
  find_system(self);
  build(self);
}

void device_runs_make_hook(device_runs *self) {
  if (self->rendezvous == NULL)
    expect_ok(ls_rendezvous_create(3, &self->rendezvous));
  expect_ok(ls_device_hook(
      &(ls_device_hook_options){.plan = self->plan,
                                .enqueue_ops = self->enqueue,
                                .dequeue_ops = self->dequeue,
                                .close_ops = self->close,
                                .compile_status = self->compile_status,
                                .each_step = !self->options.loops,
                                .predicts = self->options.predicts,
                                .input_end_fails =
                                    self->options.input_end_fails,
                                .rendezvous = self->rendezvous,
                                .input_ended = &self->input_ended},
      &self->hook));
}

ls_status device_runs_try_open(device_runs *self, ls_hook *const *others,
                               size_t num_others) {
  enum { MOST = 8 };
  ls_hook *hooks[MOST];
  for (size_t i = 0; i < num_others; ++i)
    hooks[i] = others[i];
  device_runs_make_hook(self);
  hooks[num_others] = self->hook;
  const ls_status status = ls_monitored_session_create(
      &(ls_monitored_options){
          .graph = self->graph, .hooks = hooks, .num_hooks = num_others + 1},
      &self->session);
  for (size_t i = 0; i < num_others; ++i)
    ls_hook_release(hooks[i]);
  return status;
}

void device_runs_open(device_runs *self, ls_hook *const *others,
                      size_t num_others) {
  expect_ok(device_runs_try_open(self, others, num_others));
}

// ---- Runs ------------------------------------------------------------------
ls_status device_runs_try(device_runs *self) {
  return ls_monitored_session_run(
      self->session,
      self->options.predicts ? ls_leaf(self->said) : ls_nest_op(self->train),
      NULL, 0, &self->results);
}

ls_status device_runs_all(device_runs *self) {
  ls_status status = ls_ok();
  while (ls_status_is_ok(status) &&
         !ls_monitored_session_should_stop(self->session))
    status = device_runs_try(self);
  return status;
}

ls_status device_runs_close(device_runs *self, ls_status how) {
  const ls_status status = ls_monitored_session_close(self->session, how);
  self->session = NULL;
  ls_hook_release(self->hook);
  self->hook = NULL;
  return status;
}

static void drop_graph(device_runs *self) {
  ls_nest_release(self->enqueue);
  ls_nest_release(self->dequeue);
  ls_nest_release(self->close);
  ls_infeed_queue_release(self->queue);
  ls_variable_release(self->total);
  ls_graph_destroy(self->graph);
}

void device_runs_renew(device_runs *self) {
  drop_graph(self);
  build(self);
}

void device_runs_end(device_runs *self) {
  if (self->session != NULL) ls_status_free(device_runs_close(self, ls_ok()));
  ls_hook_release(self->hook);
  ls_rendezvous_destroy(self->rendezvous);
  drop_graph(self);
  ls_device_assignment_release(self->assignment);
  ls_plans_destroy(self->plans);
  ls_run_config_release(self->config);
  ls_tpu_resolver_release(self->resolver);
  counted_end(&self->world);
}

// ---- What there is ---------------------------------------------------------
static double value_of(device_runs *self, ls_variable *variable) {
  LS_OWN(ls_array, value) = NULL;
  expect_ok(ls_session_variable_value(ls_monitored_session_now(self->session),
                                      variable, &value));
  return ls_array_f64(value, 0);
}

int64_t device_runs_step(device_runs *self) {
  return (int64_t)value_of(self, self->step);
}

double device_runs_total(device_runs *self) {
  return value_of(self, self->total);
}

ls_pod *device_runs_pod(device_runs *self) {
  return ls_pod_of_job(self->world.runtime, "worker");
}
