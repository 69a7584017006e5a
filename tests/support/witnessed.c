// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "support/witnessed.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lockstep/host.h"
#include "lockstep/layers.h"
#include "lockstep/losses.h"

static witnessed *now;  // The one that trains.

static ls_status meet(const witnessed *w, const char *what) {
  if (w->fault.asks == NULL) return LS_STATUS(LS_DATA_LOSS, "%s fails", what);
  ls_train_stop_request(w->fault.asks);
  return ls_ok();
}

// ---- Input -----------------------------------------------------------------
static ls_status make_example(void *user, int64_t index, ls_nest out) {
  witnessed *w = user;
  const int64_t made = __atomic_add_fetch(&w->made, 1, __ATOMIC_RELAXED);
  if (w->fault.input_at > 0 && made == w->fault.input_at)
    LS_RETURN_IF_ERROR(meet(w, "an example"));
  const bool is_bad = w->fault.nan_at > 0 && made >= w->fault.nan_at;
  const ls_nest features = ls_nest_item(out, 0);
  float *x = ls_nest_data(features, 0);
  *(int64_t *)ls_nest_data(features, 1) = index;
  int32_t *y = ls_nest_data(out, 1);
  *y = (int32_t)(index % ESTIMATOR_CLASSES);
  for (int i = 0; i < ESTIMATOR_WIDTH; ++i)
    x[i] = is_bad ? NAN
                  : (float)((index * 7919 + i * 104729) % 1000) / 2000.0f +
                        (i % ESTIMATOR_CLASSES == *y ? 0.5f : 0.0f);
  return ls_ok();
}

static ls_nest input(void *user, ls_input_call *call) {
  ls_dataset *data = ls_dataset_from_function(&(ls_index_options){
      .size = WITNESSED_EXAMPLES,
      .element = LS_TUPLE(
          LS_LIST(ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(ESTIMATOR_WIDTH)),
                  ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)),
          ls_nest_spec(LS_DTYPE_I32, LS_SCALAR)),
      .get = make_example,
      .user = user,
  });
  data = ls_dataset_shuffle(data, &(ls_shuffle_options){.seed = 5});
  data = ls_dataset_repeat(data, LS_INFINITE);
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

static ls_nest hear(ls_nest tensors, void *user) {
  const ls_tensor inputs[] = {ls_nest_tensor(tensors, 0),
                              ls_nest_tensor(tensors, 1)};
  (void)user;
  return ls_nest_op(ls_host_call_add(&note_kernel, NULL, inputs, 2));
}

// ---- The model -------------------------------------------------------------
static ls_status train_op(ls_tensor loss, ls_op *out) {
  ls_optimizer *inner = NULL, *outer = NULL;
  LS_RETURN_IF_ERROR(ls_sgd_create(
      &(ls_sgd_options){.learning_rate = 0.1, .momentum = 0.9}, &inner));
  const ls_status status = ls_cross_shard_create(
      &(ls_cross_shard_options){.optimizer = inner}, &outer);
  ls_optimizer_release(inner);
  LS_RETURN_IF_ERROR(status);
  *out = ls_train_op(outer, loss);
  ls_optimizer_release(outer);
  return ls_ok();
}

static ls_status model(void *user, ls_model_call *call,
                       ls_estimator_spec **out) {
  const witnessed *w = user;
  ls_variable *weights = NULL, *steps = NULL;
  if (w->fault.in_trace) LS_RETURN_IF_ERROR(meet(w, "the model"));
  LS_RETURN_IF_ERROR(ls_weight_create(
      &(ls_weight_options){.name = "weights",
                           .shape =
                               LS_SHAPE(ESTIMATOR_WIDTH, ESTIMATOR_CLASSES)},
      &weights));
  const ls_tensor logits =
      ls_matmul(ls_nest_tensor(call->features, 0), ls_variable_read(weights));
  ls_variable_release(weights);
  LS_RETURN_IF_ERROR(ls_global_step_get(ls_graph_current(), &steps));
  const ls_tensor step = ls_reshape(ls_variable_read(steps), LS_SHAPE(1));
  const ls_nest said =
      LS_LIST(ls_leaf(step), ls_leaf(ls_nest_tensor(call->features, 1)));
  ls_estimator_spec_options o = {
      .mode = call->mode,
      .loss = ls_mean_softmax_cross_entropy(logits, call->labels.as.tensor),
      .host_call = {.call = hear, .tensors = said}};
  ls_status status = train_op(o.loss, &o.train_op);
  if (ls_status_is_ok(status)) status = ls_tpu_estimator_spec_create(&o, out);
  ls_nest_release(said);
  return status;
}

// ---- All of it -------------------------------------------------------------
ls_status witnessed_train(witnessed *w, ls_training_end *out_end) {
  char name[120];
  ls_run_config *config = NULL;
  ls_estimator *estimator = NULL;
  now = w;
  w->made = 0;
  snprintf(name, sizeof(name), "virtual:%dx1,cores=1%s%s", w->replicas,
           w->fault.pod != NULL ? "," : "",
           w->fault.pod != NULL ? w->fault.pod : "");
  const ls_tpu_config tpu = {.iterations_per_loop =
                                 w->iterations != NULL ? w->iterations : "7"};
  ls_status status = ls_tpu_run_config_create(
      &(ls_run_config_options){.master = name,
                               .model_dir = w->folder,
                               .random_seed = LS_SOME(11),
                               .save_checkpoints_steps = LS_SOME(w->save_steps),
                               .tpu = &tpu},
      &config);
  if (ls_status_is_ok(status))
    status = ls_estimator_create(
        &(ls_estimator_options){.model_fn = {.call = model, .user = w},
                                .config = config,
                                .train_batch_size = LS_SOME(WITNESSED_BATCH)},
        &estimator);
  if (ls_status_is_ok(status))
    status = ls_estimator_train(
        estimator,
        &(ls_estimator_training){.input = {.call = input, .user = w},
                                 .max_steps = LS_SOME(WITNESSED_STEPS),
                                 .stop = w->stop},
        out_end);
  ls_estimator_destroy(estimator);
  ls_run_config_release(config);
  return status;
}

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
