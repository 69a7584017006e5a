// SPDX-License-Identifier: Apache-2.0
#include "support/resumable.h"
#include "support/callbacks.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/allocator.h"
#include "base/runtime_internal.h"
#include "lockstep/checkpoint.h"
#include "lockstep/communicator.h"
#include "lockstep/eager.h"
#include "lockstep/element_spec.h"
#include "lockstep/hook.h"
#include "lockstep/nn.h"
#include "lockstep/streams.h"
#include "lockstep/tpu_strategy.h"
#include "lockstep/variable_parts.h"
#include "support/bystander.h"
#include "support/expect.h"
#include "support/place.h"
#include "train/own.h"

// ---- The model -------------------------------------------------------------
enum { FEATURES = 6, UNITS = 5, CLASSES = 3 };

typedef struct net {
  ls_dense_layer *hidden, *logits;
  ls_conv_layer *conv;  // In place of `hidden`; NULL: it is that.
  ls_optimizer *optimizer;
  ls_variable *taken;  // How often each example was.
  ls_variable *total;  // Of this replica's examples.
  double rate;
  int64_t inputs;  // Of the last layer.
  bool ops_reordered, writes_reordered;
} net;

static void destroy_net(void *self) {
  net *n = self;
  if (n == NULL) return;
  ls_dense_layer_destroy(n->hidden);
  ls_conv_layer_destroy(n->conv);
  ls_dense_layer_destroy(n->logits);
  ls_variable_release(n->taken);
  ls_variable_release(n->total);
  ls_optimizer_release(n->optimizer);
  free(n);
}

// Whose model the thread makes.
static _Thread_local const resumable *making;

static ls_status create_layers(net *n, const resumable *r) {
  const int64_t units = r->units > 0 ? r->units : UNITS;
  const int64_t inputs = r->convolves ? units * FEATURES : units;
  if (r->convolves)
    LS_RETURN_IF_ERROR(ls_conv_layer_create(
        &(ls_conv_options){.name = "hidden",
                           .channels = 1,
                           .filters = units,
                           .window = LS_SHAPE(2, 2),
                           .how = {.padding = LS_PADDING_SAME}},
        &n->conv));
  else
    LS_RETURN_IF_ERROR(ls_dense_layer_create(
        &(ls_dense_options){
            .name = "hidden", .inputs = FEATURES, .units = units},
        &n->hidden));
  n->inputs = inputs;
  return ls_dense_layer_create(
      &(ls_dense_options){.name = "logits", .inputs = inputs, .units = CLASSES},
      &n->logits);
}

static ls_status create_net(const ls_model_options *options, void **out_self) {
  net *n = *out_self = calloc(1, sizeof(*n));
  n->optimizer = ls_optimizer_retain(options->optimizer);
  n->ops_reordered = making->ops_reordered;
  n->writes_reordered = making->writes_reordered;
  LS_RETURN_IF_ERROR(create_layers(n, making));
  LS_RETURN_IF_ERROR(ls_variable_create(
      &(ls_variable_options){.name = "taken",
                             .dtype = LS_DTYPE_F32,
                             .shape = LS_SHAPE(RESUMABLE_EXAMPLES),
                             .trainable = LS_FLAG_OFF,
                             .aggregation = LS_AGGREGATION_SUM},
      &n->taken));
  return ls_variable_create(
      &(ls_variable_options){.name = "total",
                             .dtype = LS_DTYPE_F32,
                             .shape = LS_SCALAR,
                             .synchronization = LS_SYNCHRONIZATION_ON_READ,
                             .aggregation = LS_AGGREGATION_SUM},
      &n->total);
}

// The first feature is the example's number.
static ls_tensor apply(const net *n, ls_tensor x, bool training) {
  x = ls_slice(x, LS_SHAPE(0, 1), LS_SHAPE(-1, -1), LS_SCALAR);
  if (n->conv != NULL)
    x = ls_reshape(
        ls_conv_layer_apply(n->conv,
                            ls_reshape(x, LS_SHAPE(-1, 2, FEATURES / 2, 1))),
        LS_SHAPE(-1, n->inputs));
  else
    x = ls_dense_layer_apply(n->hidden, x);
  x = ls_relu(x);
  return ls_dense_layer_apply(n->logits,
                              ls_dropout(x, n->rate, training, NULL));
}

static ls_nest train_net(ls_nest args, void *self) {
  const net *n = self;
  const ls_tensor x = ls_nest_tensor(args, 0), labels = ls_nest_tensor(args, 1);
  const ls_tensor ids = ls_convert(
      ls_slice(x, LS_SHAPE(0, 0), LS_SHAPE(-1, 1), LS_SCALAR), LS_DTYPE_I32);
  const ls_tensor hot = ls_one_hot(ids, RESUMABLE_EXAMPLES, LS_DTYPE_F32);
  const ls_tensor early = ls_reduce_sum(x, LS_ALL_AXES);
  const ls_tensor taken =
      ls_reduce_sum(ls_reduce_sum(hot, LS_AXES(0)), LS_AXES(0));
  const ls_tensor sum =
      n->ops_reordered ? early : ls_reduce_sum(x, LS_ALL_AXES);
  if (n->writes_reordered) ls_variable_assign_add(n->total, sum);
  ls_variable_assign_add(n->taken, taken);
  if (!n->writes_reordered) ls_variable_assign_add(n->total, sum);
  const ls_tensor logits = apply(n, x, true);
  ls_tensor accuracy = ls_failed_tensor();
  if (n->ops_reordered) accuracy = ls_accuracy(logits, labels);
  const ls_tensor loss = ls_mean_softmax_cross_entropy(logits, labels);
  ls_optimizer_minimize(n->optimizer, loss);
  if (!n->ops_reordered) accuracy = ls_accuracy(logits, labels);
  const char *const keys[] = {"loss", "accuracy"};
  const ls_nest items[] = {ls_leaf(loss), ls_leaf(accuracy)};
  return ls_nest_dict("", keys, items, 2);
}

static ls_nest net_logits(ls_nest args, void *self) {
  return ls_leaf(apply(self, ls_nest_tensor(args, 0), false));
}

static size_t net_variables(void *self, ls_variable **out, size_t capacity) {
  const net *n = self;
  ls_variable *all[6] = {NULL};
  size_t count = n->conv != NULL ? ls_conv_layer_variables(n->conv, all, 2)
                                 : ls_dense_layer_variables(n->hidden, all, 2);
  count += ls_dense_layer_variables(n->logits, all + count, 2);
  all[count++] = n->taken;
  all[count++] = n->total;
  for (size_t i = 0; i < count && i < capacity; ++i)
    out[i] = all[i];
  return count;
}

static ls_optimizer *net_optimizer(void *self) {
  return ((net *)self)->optimizer;
}

static const ls_model_type net_type = {
    .name = "resumable",
    .batch_size = RESUMABLE_BATCH,
    .epochs = 3,
    .example_shape = {.rank = 1, .dim = {FEATURES + 1}},
    .num_classes = CLASSES,
    .create = create_net,
    .destroy = destroy_net,
    .train_step = train_net,
    .logits = net_logits,
    .variables = net_variables,
    .optimizer = net_optimizer,
};

// ---- A life of a rank ------------------------------------------------------
typedef struct life {
  const resumable *run;
  ls_train_result *result;
  bool writes;
  net *model;
  ls_train_stop stop;
  int64_t made;  // Atomic: examples that were.
  bool saved;    // Atomic: the run was stopped, and is.
  FILE *log;
  bool goes_on;  // From what the log has.
  float taken[RESUMABLE_EXAMPLES];
} life;

// ---- Data ------------------------------------------------------------------
static uint32_t mixed(uint32_t x) {
  x = (x ^ x >> 16) * 0x45d9f3bU;
  x = (x ^ x >> 16) * 0x45d9f3bU;
  return x ^ x >> 16;
}

// Random, and the same for an example of an epoch whoever makes it.
static ls_status add_noise(ls_nest element, ls_nest out,
                           const ls_map_call *call, void *user) {
  life *it = user;
  const int64_t made = __atomic_add_fetch(&it->made, 1, __ATOMIC_RELAXED);
  while (it->run->slow_from > 0 && made >= it->run->slow_from &&
         !__atomic_load_n(&it->saved, __ATOMIC_RELAXED))
    usleep(1000);
  const float *from = ls_nest_data(element, 0);
  float *to = ls_nest_data(out, 0);
  memcpy(ls_nest_data(out, 1), ls_nest_data(element, 1), sizeof(int32_t));
  to[0] = from[0];
  for (int i = 1; i <= FEATURES; ++i)
    to[i] =
        from[i] +
        (float)(mixed((uint32_t)(call->key >> 8) + (uint32_t)i) % 100) * 1e-3F;
  return ls_ok();
}

static ls_status take_time(ls_nest element, ls_nest out,
                           const ls_map_call *call, void *user) {
  const life *it = user;
  (void)call;
  usleep((useconds_t)it->run->test_micros);
  memcpy(ls_nest_data(out, 0), ls_nest_data(element, 0),
         (FEATURES + 1) * sizeof(float));
  memcpy(ls_nest_data(out, 1), ls_nest_data(element, 1), sizeof(int32_t));
  return ls_ok();
}

static ls_nest example_spec(void) {
  return LS_TUPLE(ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(FEATURES + 1)),
                  ls_nest_spec(LS_DTYPE_I32, LS_SCALAR));
}

static ls_dataset *arrays(int seed) {
  float x[RESUMABLE_EXAMPLES][FEATURES + 1];
  int32_t labels[RESUMABLE_EXAMPLES];
  for (int n = 0; n < RESUMABLE_EXAMPLES; ++n) {
    labels[n] = n % CLASSES;
    x[n][0] = (float)n;
    for (int i = 1; i <= FEATURES; ++i)
      x[n][i] =
          (float)(mixed((uint32_t)(n * FEATURES + i + seed)) % 1000) * 1e-3F +
          (i == labels[n] + 1 ? 1 : 0);
  }
  ls_array *all = NULL, *of = NULL;
  ls_status status = ls_status_join(
      ls_array_create_copy(LS_DTYPE_F32,
                           LS_SHAPE(RESUMABLE_EXAMPLES, FEATURES + 1), x, &all),
      ls_array_create_copy(LS_DTYPE_I32, LS_SHAPE(RESUMABLE_EXAMPLES), labels,
                           &of));
  if (!ls_status_is_ok(status)) return ls_dataset_from_arrays(ls_fail(status));
  return ls_dataset_from_arrays(
      LS_TUPLE(ls_nest_array(all), ls_nest_array(of)));
}

static ls_dataset *training_data(life *it) {
  ls_dataset *made = ls_dataset_map(
      arrays(it->run->data_seed), &(ls_map_options){.fill = add_noise,
                                                    .user = it,
                                                    .result = example_spec()});
  return it->run->stream
             ? ls_dataset_filter(made, &(ls_filter_options){.call = keep_all})
             : made;
}

static ls_dataset *test_data(life *it) {
  return ls_dataset_map(arrays(12345),
                        &(ls_map_options){.fill = take_time,
                                          .user = it,
                                          .result = example_spec()});
}

// ---- The log ---------------------------------------------------------------
// A line of each step: its number, and the examples it has taken. The size of
// the file is part of the run's state.
static ls_status save_log(void *self, ls_record *record) {
  life *it = self;
  if (it->log == NULL) return ls_record_set_i64(record, "bytes", 0);
  fflush(it->log);
  return ls_record_set_i64(record, "bytes", ftell(it->log));
}

// Counts what the log has.
static void count_taken(const char *text, float *taken) {
  memset(taken, 0, RESUMABLE_EXAMPLES * sizeof(*taken));
  for (const char *at = text; (at = strchr(at, ' ')) != NULL; ++at) {
    const long id = strtol(at + 1, NULL, 10);
    if (id >= 0 && id < RESUMABLE_EXAMPLES) ++taken[id];
  }
}

static char *read_path(const char *path, size_t *out_size) {
  const ls_file_system *files = ls_file_system_system();
  char *data = NULL;
  expect_ok(files->read(files->user, path, SIZE_MAX, ls_allocator_system(),
                        &data, out_size));
  return data;
}

static ls_status restore_log(void *self, const ls_record *record) {
  life *it = self;
  int64_t bytes = 0;
  size_t size = 0;
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "bytes", &bytes));
  if (it->log == NULL) return ls_ok();
  if (ftruncate(fileno(it->log), bytes) != 0 ||
      fseek(it->log, bytes, SEEK_SET) != 0)
    return ls_internal("the log cannot be cut");
  char *text = read_path(it->run->log, &size);
  count_taken(text, it->taken);
  ls_release(ls_allocator_system(), text);
  it->goes_on = true;
  return ls_ok();
}

// What the step has added to `taken`.
static ls_status log_step(life *it, int64_t step) {
  ls_array *value = NULL;
  ls_variable *all = it->model->taken;
  LS_RETURN_IF_ERROR(ls_variable_value(
      ls_variable_num_components(all) > 0 ? ls_variable_component(all, 0) : all,
      &value));
  const float *now = ls_array_data(value);
  // What a run that saved nothing has left.
  if (!it->goes_on && ftruncate(fileno(it->log), 0) != 0)
    return ls_internal("the log cannot be cut");
  it->goes_on = true;
  fprintf(it->log, "%lld:", (long long)step);
  for (int i = 0; i < RESUMABLE_EXAMPLES; ++i)
    for (; it->taken[i] < now[i]; ++it->taken[i])
      fprintf(it->log, " %d", i);
  fprintf(it->log, "\n");
  ls_array_release(value);
  return ls_ok();
}

void expect_each_example_once(const char *log, int64_t steps) {
  size_t size = 0;
  char *text = read_path(log, &size), *at = text;
  float taken[RESUMABLE_EXAMPLES];
  for (int64_t step = 1; step <= steps; ++step) {
    if (strtoll(at, NULL, 10) != step)
      fail_msg("'%s' has no step %lld where it should be", log,
               (long long)step);
    char *end = strchr(at, '\n');
    assert_non_null(end);
    at = end + 1;
    if (step % RESUMABLE_STEPS_PER_EPOCH != 0) continue;
    const char after = *at;
    *at = '\0';
    count_taken(text, taken);
    *at = after;
    for (int i = 0; i < RESUMABLE_EXAMPLES; ++i)
      if (taken[i] != (float)(step / RESUMABLE_STEPS_PER_EPOCH))
        fail_msg("'%s': example %d was taken %g times up to step %lld", log, i,
                 (double)taken[i], (long long)step);
  }
  assert_true(*at == '\0');
  ls_release(ls_allocator_system(), text);
}

// ---- Running ---------------------------------------------------------------
// Changes a number of the first variable.
static void spoil(net *model) {
  ls_variable *variable = NULL;
  LS_OWN(ls_array, value) = NULL;
  if (net_type.variables(model, &variable, 1) == 0 ||
      !ls_status_is_ok(ls_variable_value(variable, &value)))
    abort();
  ls_array_set_f64(value, 0, ls_array_f64(value, 0) + 0.5);
  if (!ls_status_is_ok(ls_variable_set_value(variable, value))) abort();
}

static void watch(void *user, const ls_train_report *report) {
  life *it = user;
  if (it->run->reported != NULL) it->run->reported(report);
  if (report->stopped) __atomic_store_n(&it->saved, true, __ATOMIC_RELAXED);
  if (report->stopped || report->epoch_end) return;
  if (it->log != NULL && !ls_status_is_ok(log_step(it, report->step))) abort();
  if (report->step == it->run->stop_at) ls_train_stop_request(&it->stop);
  if (report->step == it->run->spoil_at) spoil(it->model);
}

typedef struct parts {
  ls_strategy *strategy;
  ls_optimizer *optimizer;
  ls_model model;
  ls_dataset *train, *test;
} parts;

static ls_status make_strategy(const resumable *r, ls_strategy **out) {
  if (r->tpu == NULL)
    return ls_mirrored_strategy_create(
        &(ls_mirrored_options){.num_replicas =
                                   LS_SOME(r->replicas > 0 ? r->replicas : 1)},
        out);
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  bystander_begin(r->tpu);
  LS_RETURN_IF_ERROR(ls_tpu_resolver_connect(
      &(ls_tpu_resolver_options){.name = r->tpu, .queue_depth = 2}, &resolver));
  return ls_tpu_strategy_create(&(ls_tpu_options){.resolver = resolver}, out);
}

static ls_status make(life *it, parts *p) {
  const resumable *r = it->run;
  p->train = training_data(it);
  if (r->with_test) p->test = test_data(it);
  LS_RETURN_IF_ERROR(make_strategy(r, &p->strategy));
  LS_RETURN_IF_ERROR(ls_optimizer_create(
      "adam",
      &(ls_optimizer_options){
          .learning_rate = 0.05,
          .schedule = {LS_SCHEDULE_LINEAR, .steps = RESUMABLE_STEPS}},
      &p->optimizer));
  LS_STRATEGY_SCOPE(p->strategy);
  LS_RETURN_IF_ERROR(ls_scope_status());
  making = r;
  LS_RETURN_IF_ERROR(ls_model_create(
      &net_type, &(ls_model_options){.optimizer = p->optimizer}, &p->model));
  it->model = p->model.self;
  it->model->rate = r->rate != 0 ? r->rate : 0.5;
  return ls_ok();
}

static ls_status train(life *it, const parts *p, ls_hook *hook) {
  const resumable *r = it->run;
  const ls_saveable log = {"log", it, save_log, restore_log};
  return ls_train(
      &(ls_train_options){.model = &p->model,
                          .strategy = p->strategy,
                          .train = p->train,
                          .num_examples = RESUMABLE_EXAMPLES,
                          .test = p->test,
                          .batch_size = r->batch_size,
                          .steps = r->steps > 0 ? r->steps : RESUMABLE_STEPS,
                          .seed = r->seed,
                          .iterations_per_loop = r->iterations,
                          .loop_infeed = r->loop_infeed,
                          .run_folder = r->folder,
                          .events = r->events,
                          .overwrite = r->overwrite,
                          .resume = r->resume,
                          .inexact = r->inexact,
                          .warm_start = r->warm_start,
                          .save_steps = r->save_steps,
                          .keep = r->keep,
                          .keep_best = r->keep_best,
                          .save_goes_on = r->save_goes_on,
                          .save_background = r->save_background,
                          .states = &log,
                          .num_states = 1,
                          .log_every = 4,
                          .check_ranks = r->check_ranks,
                          .attest = r->attest,
                          .stop = r->stop != NULL ? r->stop : &it->stop,
                          .report = watch,
                          .report_user = it,
                          .hooks = &hook,
                          .num_hooks = hook != NULL ? 1 : 0},
      it->result);
}

static ls_status train_with_hook(life *it, const parts *p) {
  LS_OWN(ls_hook, hook) = NULL;
  if (it->run->make_hook != NULL) LS_RETURN_IF_ERROR(it->run->make_hook(&hook));
  return train(it, p, hook);
}

static ls_status run_in_runtime(life *it) {
  const resumable *r = it->run;
  parts p = {0};
  if (r->log != NULL && it->writes)
    it->log = fopen(r->log, r->resume ? "r+" : "w+");
  if (r->log != NULL && it->writes && it->log == NULL)
    it->log = fopen(r->log, "w+");
  ls_status status = make(it, &p);
  if (ls_status_is_ok(status)) status = train_with_hook(it, &p);
  ls_model_destroy(&p.model);
  ls_optimizer_release(p.optimizer);
  ls_dataset_release(p.train);
  ls_dataset_release(p.test);
  if (p.strategy != NULL) ls_strategy_release(p.strategy);
  if (it->log != NULL) fclose(it->log);
  return status;
}

static ls_status live(const resumable *r, ls_communicator *communicator,
                      ls_train_result *result) {
  life it = {.run = r,
             .result = result,
             .writes = communicator == NULL || communicator->rank == 0};
  LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){
      .threads = r->threads > 0 ? r->threads : 2,
      .math = r->math,
      .file_system =
          r->rank_files != NULL
              ? &r->rank_files[communicator != NULL ? communicator->rank : 0]
              : r->files,
      .log = r->log_line,
      .log_user = r->log_user,
      .communicator = communicator});
  const ls_status status = run_in_runtime(&it);
  const ls_status copy = ls_status_clone(status);
  ls_status_free(status);
  bystander_end(home.runtime);
  return copy;
}

typedef struct ranks_life {
  const resumable *run;
  ls_train_result *result;  // Of rank 0.
} ranks_life;

static ls_status live_as_rank(ls_communicator *communicator, void *user) {
  const ranks_life *it = user;
  resumable run = *it->run;
  ls_train_result result;
  if (communicator->rank == run.odd_rank && run.odd != NULL) run = *run.odd;
  if (communicator->rank != run.stops_on_rank) run.stop_at = 0;
  const ls_status status =
      live(&run, communicator, communicator->rank == 0 ? it->result : &result);
  if (it->run->seen != NULL)
    snprintf(it->run->seen[communicator->rank], RESUMABLE_MOST_TEXT, "%s: %s",
             ls_code_name(ls_status_code(status)), ls_status_message(status));
  if (it->run->blamed != NULL)
    it->run->blamed[communicator->rank] =
        __atomic_load_n(&communicator->failed_rank, __ATOMIC_ACQUIRE);
  return status;
}

ls_status resumable_run(const resumable *run, ls_train_result *result) {
  if (run->ranks <= 1) return live(run, NULL, result);
  return ls_standin_run(run->ranks, live_as_rank, &(ranks_life){run, result});
}

// ---- Files -----------------------------------------------------------------
char *read_folder_file(const char *folder, const char *name, size_t *out_size) {
  char path[512];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  return read_path(path, out_size);
}

void expect_same_file(const char *a, const char *b, const char *name) {
  size_t sizes[2] = {0};
  char *left = read_folder_file(a, name, &sizes[0]);
  char *right = read_folder_file(b, name, &sizes[1]);
  assert_int_equal(sizes[0], sizes[1]);
  if (memcmp(left, right, sizes[0]) != 0)
    fail_msg("'%s/%s' and '%s/%s' differ", a, name, b, name);
  ls_release(ls_allocator_system(), left);
  ls_release(ls_allocator_system(), right);
}

void remove_folder(const char *folder) {
  DIR *all = opendir(folder);
  if (all == NULL) return;
  char path[512];
  for (const struct dirent *it; (it = readdir(all)) != NULL;) {
    if (it->d_name[0] == '.') continue;
    snprintf(path, sizeof(path), "%s/%.255s", folder, it->d_name);
    unlink(path);
  }
  closedir(all);
  rmdir(folder);
}
