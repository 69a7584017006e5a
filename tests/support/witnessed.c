// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "support/witnessed.h"
#include "support/estimators.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lockstep/element_spec.h"
#include "lockstep/host.h"
#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "lockstep/metrics.h"
#include "lockstep/optimizer_state.h"
#include "support/bystander.h"
#include "train/own.h"

static witnessed *now;  // The one that trains.

static ls_status meet(witnessed *w, const char *what) {
  __atomic_add_fetch(&w->faults, 1, __ATOMIC_RELAXED);
  if (w->fault.asks == NULL) return LS_STATUS(LS_DATA_LOSS, "%s fails", what);
  ls_train_stop_request(w->fault.asks);
  return ls_ok();
}

// ---- Input -----------------------------------------------------------------
// What a host's data set knows.
typedef struct host_input {
  witnessed *w;
  int host;
} host_input;
static host_input inputs[WITNESSED_HOSTS];

static ls_status meet_input(witnessed *w, int host, int64_t made) {
  const witnessed_fault *f = &w->fault;
  char what[40];
  const unsigned hosts = f->hosts != 0 ? f->hosts : 1;
  if (f->blocks_at > 0 && made >= f->blocks_at && host == f->blocks_on) {
    __atomic_add_fetch(&w->blocked, 1, __ATOMIC_RELAXED);
    while (!__atomic_load_n(f->opened, __ATOMIC_ACQUIRE))
      usleep(1000);
  }
  if ((hosts & 1u << host) == 0) return ls_ok();
  if (f->input_at == 0 || made != f->input_at) return ls_ok();
  // A failure of one host would end the others before they block.
  while (f->blocks_at > 0 && host != f->blocks_on &&
         __atomic_load_n(&w->blocked, __ATOMIC_RELAXED) == 0 &&
         !__atomic_load_n(f->opened, __ATOMIC_ACQUIRE))
    usleep(1000);
  snprintf(what, sizeof(what), "an example of host %d", host);
  return meet(w, what);
}

static bool is_from(int64_t made, int64_t at) { return at > 0 && made >= at; }

static ls_status make_example(void *user, int64_t index, ls_nest out) {
  const host_input *of = user;
  witnessed *w = of->w;
  const int64_t made =
      __atomic_add_fetch(&w->made[of->host], 1, __ATOMIC_RELAXED);
  LS_RETURN_IF_ERROR(meet_input(w, of->host, made));
  const ls_nest features = ls_nest_item(out, 0);
  float *x = ls_nest_data(features, 0);
  *(int64_t *)ls_nest_data(features, 1) = index;
  int32_t *y = ls_nest_data(out, 1);
  *y = (int32_t)(index % ESTIMATOR_CLASSES);
  for (int i = 0; i < ESTIMATOR_WIDTH; ++i)
    x[i] = is_from(made, w->fault.nan_at) ? NAN
           : is_from(made, w->fault.zeros_at)
               ? 0
               : (float)((index * 7919 + i * 104729) % 1000) / 2000.0f +
                     (i % ESTIMATOR_CLASSES == *y ? 0.5f : 0.0f);
  return ls_ok();
}

// Of each host a share, shuffled and without end where it trains.
static ls_nest input(void *user, ls_input_call *call) {
  ls_input_deployment where;
  const ls_status status =
      ls_user_context_deployment(ls_params_context(call->params), &where);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  host_input *of = &inputs[where.invocation];
  *of = (host_input){.w = user, .host = (int)where.invocation};
  const bool trains = call->mode == LS_MODE_TRAIN;
  ls_dataset *data = ls_dataset_from_function(&(ls_index_options){
      .size = WITNESSED_EXAMPLES,
      .element = LS_TUPLE(
          LS_LIST(ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(ESTIMATOR_WIDTH)),
                  ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)),
          ls_nest_spec(LS_DTYPE_I32, LS_SCALAR)),
      .get = make_example,
      .user = of,
  });
  if (where.num_invocations > 1)
    data = ls_dataset_shard(data, where.num_invocations, where.invocation);
  if (trains) data = ls_dataset_shuffle(data, &(ls_shuffle_options){.seed = 5});
  data = trains ? ls_dataset_repeat(data, LS_INFINITE)
                : ls_dataset_take(data, WITNESSED_BATCHES * WITNESSED_BATCH);
  return ls_nest_dataset(ls_dataset_batch(
      data, &(ls_batch_options){
                .size = ls_params_i64(call->params, "batch_size", 1)}));
}

// ---- The log ---------------------------------------------------------------
// A line in one write, that a kill does not cut.
static ls_status note(ls_host_call *call) {
  char line[1024];
  const int64_t step = *(const int64_t *)call->inputs[0];
  const int64_t *ids = call->inputs[1];
  int used = snprintf(line, sizeof(line), "%" PRId64 ":", step);
  if (now->fault.host_at > 0 && step == now->fault.host_at)
    LS_RETURN_IF_ERROR(meet(now, "the host"));
  for (int64_t i = 0; i < ls_shape_num_elements(call->input_types[1].shape);
       ++i)
    used +=
        snprintf(line + used, sizeof(line) - (size_t)used, " %" PRId64, ids[i]);
  line[used++] = '\n';
  const int file = open(now->log, O_WRONLY | O_APPEND | O_CREAT, 0666);
  const bool done =
      file >= 0 && write(file, line, (size_t)used) == (ssize_t)used;
  if (file >= 0) close(file);
  if (done) ls_host_done(call, ls_ok());
  return done ? ls_ok() : LS_STATUS(LS_UNAVAILABLE, "no log");
}

static const ls_host_kernel note_kernel = {.name = "witnessed_note",
                                           .start = note};

// In evaluations, which make no step.
static ls_status count(ls_host_call *call) {
  if (now->fault.host_at > 0 &&
      __atomic_add_fetch(&now->heard, 1, __ATOMIC_RELAXED) ==
          now->fault.host_at)
    LS_RETURN_IF_ERROR(meet(now, "the host"));
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel count_kernel = {.name = "witnessed_count",
                                            .start = count};

static ls_nest add_call(const ls_host_kernel *kernel, ls_nest tensors) {
  const ls_tensor said[] = {ls_nest_tensor(tensors, 0),
                            ls_nest_tensor(tensors, 1)};
  return ls_nest_op(ls_host_call_add(kernel, NULL, said, 2));
}

static ls_nest hear(ls_nest tensors, void *user) {
  (void)user;
  return add_call(&note_kernel, tensors);
}

static ls_nest hear_evaluation(ls_nest tensors, void *user) {
  (void)user;
  return add_call(&count_kernel, tensors);
}

// ---- The model -------------------------------------------------------------

// Finite, and without a gradient where a row is all zeros.
static ls_tensor mean_length(ls_tensor rows) {
  return ls_reduce_mean(ls_sqrt(ls_reduce_sum(ls_mul(rows, rows), LS_AXES(1))),
                        LS_ALL_AXES);
}

static ls_nest metrics(ls_nest tensors, void *user) {
  (void)user;
  return ls_nest_dict("", (const char *const[]){"right"},
                      (ls_nest[]){ls_metric_accuracy(ls_nest_tensor(tensors, 0),
                                                     ls_nest_tensor(tensors, 1),
                                                     ls_no_weights(), "right")},
                      1);
}

static ls_status say(ls_model_call *call, ls_nest *out_said) {
  ls_variable *steps = NULL;
  LS_RETURN_IF_ERROR(ls_global_step_get(ls_graph_current(), &steps));
  const ls_tensor step = ls_reshape(ls_variable_read(steps), LS_SHAPE(1));
  *out_said =
      LS_LIST(ls_leaf(step), ls_leaf(ls_nest_tensor(call->features, 1)));
  return ls_nest_status(*out_said);
}

static ls_status make_hook(witnessed *w, bool models, ls_hook **out_hook);

static ls_status model(void *user, ls_model_call *call,
                       ls_estimator_spec **out) {
  witnessed *w = user;
  ls_variable *weights = NULL;
  LS_OWN(ls_nest, said) = ls_none();
  LS_OWN(ls_nest, made) = ls_none();
  LS_OWN(ls_hook, hook) = NULL;
  if (w->fault.in_trace) LS_RETURN_IF_ERROR(meet(w, "the model"));
  LS_RETURN_IF_ERROR(ls_weight_create(
      &(ls_weight_options){.name = "weights",
                           .shape =
                               LS_SHAPE(ESTIMATOR_WIDTH, ESTIMATOR_CLASSES)},
      &weights));
  const ls_tensor logits =
      ls_matmul(ls_nest_tensor(call->features, 0), ls_variable_read(weights));
  ls_variable_release(weights);
  ls_estimator_spec_options o = {.mode = call->mode};
  ls_status status = make_hook(w, true, &hook);
  o.training_hooks = o.evaluation_hooks = o.prediction_hooks = &hook;
  o.num_training_hooks = o.num_evaluation_hooks = o.num_prediction_hooks =
      hook != NULL;
  if (call->mode == LS_MODE_PREDICT) {
    o.predictions = made = ls_nest_dict("", (const char *const[]){"logits"},
                                        (ls_nest[]){ls_leaf(logits)}, 1);
  } else if (ls_status_is_ok(status)) {
    const ls_tensor labels = call->labels.as.tensor;
    o.loss = ls_add(ls_mean_softmax_cross_entropy(logits, labels),
                    ls_mul_scalar(mean_length(logits), 0.001));
    status = say(call, &said);
    o.host_call = (ls_host_function){
        .call = call->mode == LS_MODE_TRAIN ? hear : hear_evaluation,
        .tensors = said};
    if (call->mode == LS_MODE_EVAL)
      o.eval_metrics = (ls_host_function){
          .call = metrics,
          .tensors = made =
              LS_LIST(ls_leaf(labels),
                      ls_leaf(ls_convert(ls_argmax(logits, 1), LS_DTYPE_I32)))};
    else if (ls_status_is_ok(status))
      status = cross_shard_train_op(o.loss, &o.train_op);
  }
  if (ls_status_is_ok(status)) status = ls_tpu_estimator_spec_create(&o, out);
  return status;
}

// ---- Hooks -----------------------------------------------------------------
static ls_status meet_at(void *user, witnessed_moment moment) {
  witnessed *w = user;
  if (w->fault.moment != moment || w->faults > 0) return ls_ok();
  if (moment >= WITNESSED_BEFORE && moment <= WITNESSED_AFTER &&
      w->runs++ < w->fault.at)
    return ls_ok();
  ++w->faults;
  return LS_STATUS(w->fault.code, "the hook fails");
}
static ls_status at_begin(void *user) { return meet_at(user, WITNESSED_BEGIN); }
static ls_status at_session(void *user, ls_run_context *context) {
  (void)context;
  return meet_at(user, WITNESSED_SESSION);
}
static ls_status before_run(void *user, ls_run_context *context,
                            ls_run_wish *wish) {
  (void)context;
  (void)wish;
  return meet_at(user, WITNESSED_BEFORE);
}
static ls_status after_run(void *user, ls_run_context *context,
                           ls_nest results) {
  (void)context;
  (void)results;
  return meet_at(user, WITNESSED_AFTER);
}
static ls_status at_end(void *user, ls_run_context *context) {
  (void)context;
  return meet_at(user, WITNESSED_END);
}

// NULL: there is none.
static ls_status make_hook(witnessed *w, bool models, ls_hook **out_hook) {
  *out_hook = NULL;
  if (w->fault.moment == WITNESSED_NEVER || w->fault.models != models)
    return ls_ok();
  return ls_hook_create(&(ls_hook_options){.name = "of the test",
                                           .user = w,
                                           .begin = at_begin,
                                           .after_create_session = at_session,
                                           .before_run = before_run,
                                           .after_run = after_run,
                                           .end = at_end},
                        out_hook);
}

// ---- All of it -------------------------------------------------------------
typedef struct made {
  ls_run_config *config;
  ls_estimator *estimator;
  ls_hook *hook;  // The caller's; NULL: none.
} made;

static ls_status make(witnessed *w, bool evaluates, made *m) {
  char name[160];
  now = w;
  memset(w->made, 0, sizeof(w->made));
  w->heard = w->runs = w->faults = 0;
  __atomic_store_n(&w->blocked, 0, __ATOMIC_RELAXED);
  *m = (made){0};
  snprintf(name, sizeof(name), "virtual:%dx1,cores=1,hosts=%d%s%s", w->replicas,
           w->hosts > 0 ? w->hosts : 1, w->fault.pod != NULL ? "," : "",
           w->fault.pod != NULL ? w->fault.pod : "");
  const ls_tpu_config tpu = {
      .iterations_per_loop = w->iterations != NULL ? w->iterations : "7",
      // Evaluations and predictions of several hosts know no other way.
      .per_host_input = evaluates && w->hosts > 1 ? LS_INPUT_BROADCAST
                                                  : (ls_input_pipeline)0};
  LS_RETURN_IF_ERROR(ls_tpu_run_config_create(
      &(ls_run_config_options){.master = name,
                               .model_dir = w->folder,
                               .random_seed = LS_SOME(11),
                               .save_checkpoints_steps = LS_SOME(w->save_steps),
                               .tpu = &tpu},
      &m->config));
  LS_RETURN_IF_ERROR(ls_estimator_create(
      &(ls_estimator_options){.model_fn = {.call = model, .user = w},
                              .config = m->config,
                              .train_batch_size = LS_SOME(WITNESSED_BATCH),
                              .eval_batch_size = LS_SOME(WITNESSED_BATCH),
                              .predict_batch_size = LS_SOME(WITNESSED_BATCH)},
      &m->estimator));
  bystander_begin(name);
  return make_hook(w, false, &m->hook);
}

static ls_status drop(made *m, ls_status status) {
  bystander_end(ls_runtime_current());
  ls_hook_release(m->hook);
  ls_estimator_destroy(m->estimator);
  ls_run_config_release(m->config);
  return status;
}

ls_status witnessed_train(witnessed *w, ls_training_end *out_end) {
  made m;
  *out_end = (ls_training_end){0};
  ls_status status = make(w, false, &m);
  if (ls_status_is_ok(status))
    status = ls_estimator_train(
        m.estimator,
        &(ls_estimator_training){.input = {.call = input, .user = w},
                                 .max_steps = LS_SOME(WITNESSED_STEPS),
                                 .hooks = &m.hook,
                                 .num_hooks = m.hook != NULL,
                                 .stop = w->stop},
        out_end);
  return drop(&m, status);
}

ls_status witnessed_evaluate(witnessed *w, const char *checkpoint,
                             ls_nest *out_metrics) {
  made m;
  *out_metrics = ls_none();
  ls_status status = make(w, true, &m);
  if (ls_status_is_ok(status))
    status = ls_estimator_evaluate(
        m.estimator,
        &(ls_estimator_evaluation){.input = {.call = input, .user = w},
                                   .steps = LS_SOME(WITNESSED_BATCHES),
                                   .checkpoint = checkpoint,
                                   .hooks = &m.hook,
                                   .num_hooks = m.hook != NULL,
                                   .stop = w->stop},
        out_metrics);
  return drop(&m, status);
}

static ls_status take_rows(ls_predictions *predictions, float *rows,
                           int *out_rows) {
  ls_nest row = ls_none();
  ls_status status = ls_predictions_next(predictions, &row);
  while (ls_status_is_ok(status)) {
    const ls_array *logits = ls_nest_as_array(ls_nest_find(row, "logits"));
    assert_true(*out_rows < WITNESSED_BATCHES * WITNESSED_BATCH);
    memcpy(rows + ESTIMATOR_CLASSES * (*out_rows)++, ls_array_data(logits),
           sizeof(float) * ESTIMATOR_CLASSES);
    status = ls_predictions_next(predictions, &row);
  }
  ls_nest_release(row);
  if (ls_status_code(status) != LS_OUT_OF_RANGE) return status;
  ls_status_free(status);
  return ls_ok();
}

ls_status witnessed_predict(witnessed *w, const char *checkpoint, float *rows,
                            int *out_rows) {
  made m;
  ls_predictions *predictions = NULL;
  *out_rows = 0;
  ls_status status = make(w, true, &m);
  if (ls_status_is_ok(status))
    status = ls_estimator_predict(
        m.estimator,
        &(ls_estimator_prediction){.input = {.call = input, .user = w},
                                   .checkpoint = checkpoint,
                                   .hooks = &m.hook,
                                   .num_hooks = m.hook != NULL,
                                   .stop = w->stop},
        &predictions);
  if (ls_status_is_ok(status)) status = take_rows(predictions, rows, out_rows);
  status = ls_status_join(status, ls_predictions_close(predictions));
  return drop(&m, status);
}

ls_status witnessed_train_and_evaluate(witnessed *w,
                                       ls_train_and_evaluation *out) {
  made m;
  *out = (ls_train_and_evaluation){0};
  ls_status status = make(w, false, &m);
  const ls_input_function from = {.call = input, .user = w};
  if (ls_status_is_ok(status))
    status = ls_train_and_evaluate(
        m.estimator,
        &(ls_train_spec){.input = from,
                         .max_steps = LS_SOME(WITNESSED_STEPS),
                         .hooks = &m.hook,
                         .num_hooks = m.hook != NULL,
                         .stop = w->stop},
        &(ls_eval_spec){.input = from,
                        .steps = LS_SOME(WITNESSED_BATCHES),
                        .throttle_secs = LS_SOME(0)},
        out);
  return drop(&m, status);
}

// ---- What the log says -----------------------------------------------------
static FILE *open_log(const char *path) {
  FILE *file = fopen(path, "r");
  if (file == NULL) fail_msg("there is no '%s'", path);
  return file;
}

void witnessed_expect_steps(const char *log, const char *whole,
                            int counts[WITNESSED_STEPS]) {
  static char wanted[WITNESSED_STEPS][1024], line[1024];
  memset(wanted, 0, sizeof(wanted));
  memset(counts, 0, sizeof(*counts) * WITNESSED_STEPS);
  FILE *file = open_log(whole);
  while (fgets(line, sizeof(line), file) != NULL) {
    const int step = atoi(line);
    assert_in_range(step, 0, WITNESSED_STEPS - 1);
    assert_int_equal(wanted[step][0], 0);
    memcpy(wanted[step], line, sizeof(line));
  }
  fclose(file);
  file = open_log(log);
  while (fgets(line, sizeof(line), file) != NULL) {
    const int step = atoi(line);
    assert_in_range(step, 0, WITNESSED_STEPS - 1);
    assert_string_equal(line, wanted[step]);
    ++counts[step];
  }
  fclose(file);
}
