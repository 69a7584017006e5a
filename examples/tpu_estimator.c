// SPDX-License-Identifier: Apache-2.0
// A TPUEstimator program of TensorFlow in C, name by name: model_fn with three
// modes, eval_metrics and a host_call, input_fn, CrossShardOptimizer,
// train_and_evaluate, predict and export_saved_model.
//
// Usage: tpu_estimator [cpu]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/full.h"

enum { SIZE = 12, CLASSES = 10, BATCH = 128, STEPS = 60 };
static const char folder[] = "tpu_estimator.model";

// input_fn(params)
static ls_nest input(void *user, ls_input_call *call) {
  (void)user;
  const bool trains = call->mode == LS_MODE_TRAIN;
  ls_dataset *data = ls_dataset_synthetic(
      &(ls_synthetic_options){.size = trains ? 4096 : 512,
                              .shape = LS_SHAPE(SIZE, SIZE),
                              .num_classes = CLASSES,
                              .sample = trains ? 0 : 1});
  if (trains)
    data = ls_dataset_repeat(ls_dataset_shuffle(data, NULL), LS_INFINITE);
  return ls_nest_dataset(ls_dataset_batch(
      data, &(ls_batch_options){
                .size = ls_params_i64(call->params, "batch_size", BATCH),
                .remainder = LS_REMAINDER_DROP}));
}

// metric_fn(labels, logits): on the host, for the logits of all cores.
static ls_nest metrics(ls_nest tensors, void *user) {
  (void)user;
  const ls_tensor labels = ls_nest_find(tensors, "labels").as.tensor,
                  logits = ls_nest_find(tensors, "logits").as.tensor,
                  class_ids = ls_convert(ls_argmax(logits, 1), LS_DTYPE_I32);
  const ls_nest accuracy =
      ls_metric_accuracy(labels, class_ids, ls_no_weights(), "accuracy");
  return ls_nest_dict("", &(const char *){"accuracy"}, &accuracy, 1);
}

// host_call_fn(global_step, loss): writes what TensorBoard shows.
static ls_nest record(ls_nest tensors, void *user) {
  const ls_tensor step = ls_reduce_max(ls_nest_tensor(tensors, 0), LS_ALL_AXES),
                  loss =
                      ls_reduce_mean(ls_nest_tensor(tensors, 1), LS_ALL_AXES);
  ls_summary_writer *writer = NULL;
  const ls_status status =
      ls_file_writer_create(&(ls_file_writer_options){.folder = user}, &writer);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  LS_SUMMARY_SCOPE(writer);
  LS_RECORD_SUMMARIES_SCOPE(1);
  const ls_nest ops =
      LS_LIST(ls_nest_op(ls_summary_scalar("host/loss", loss, step)));
  ls_summary_writer_release(writer);
  return ops;
}

// A value of each core, for a function on the host.
static ls_nest one(ls_tensor x) { return ls_leaf(ls_reshape(x, LS_SHAPE(1))); }

static ls_nest pair(ls_bag *bag, const char *a, ls_tensor x, const char *b,
                    ls_tensor y) {
  const char *const names[] = {a, b};
  const ls_nest items[] = {ls_leaf(x), ls_leaf(y)};
  return ls_bag_nest(bag, ls_nest_dict("", names, items, 2));
}

static ls_tensor apply(ls_conv_layer *conv, ls_dense_layer *dense,
                       ls_tensor images) {
  ls_tensor x = ls_reshape(images, LS_SHAPE(-1, SIZE, SIZE, 1));
  x = ls_max_pool(ls_conv_layer_apply(conv, x), LS_SHAPE(2, 2), NULL);
  return ls_dense_layer_apply(dense,
                              ls_reshape(x, LS_SHAPE(-1, SIZE * SIZE * 2)));
}

static ls_status fill_spec(ls_bag *bag, const ls_model_call *call,
                           ls_estimator_spec_options *spec) {
  ls_conv_layer *conv = ls_conv_layer_in(bag, .name = "conv", .channels = 1,
                                         .filters = 8, .window = LS_SHAPE(3, 3),
                                         .how = {.padding = LS_PADDING_SAME},
                                         .activation = LS_ACTIVATION_RELU);
  ls_dense_layer *dense = ls_dense_layer_in(
      bag, .name = "dense", .inputs = SIZE * SIZE * 2, .units = CLASSES);
  ls_optimizer *adam = ls_adam_in(bag, .learning_rate = 0.003);
  ls_optimizer *optimizer = ls_cross_shard_in(bag, .optimizer = adam);
  ls_variable *step = NULL;
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  const ls_tensor logits = apply(conv, dense, call->features.as.tensor);
  if (call->mode == LS_MODE_PREDICT) {
    spec->predictions = pair(bag, "class_ids", ls_argmax(logits, 1),
                             "probabilities", ls_softmax(logits));
    return ls_bag_take_error(bag);
  }
  const ls_tensor labels = call->labels.as.tensor;
  spec->loss = ls_mean_softmax_cross_entropy(logits, labels);
  if (call->mode == LS_MODE_EVAL) {
    spec->eval_metrics = (ls_host_function){
        .call = metrics,
        .tensors = pair(bag, "labels", labels, "logits", logits)};
    return ls_bag_take_error(bag);
  }
  LS_RETURN_IF_ERROR(ls_global_step_get(ls_graph_current(), &step));
  spec->host_call = (ls_host_function){
      .call = record,
      .user = (void *)folder,
      .tensors = ls_bag_nest(
          bag, LS_LIST(one(ls_variable_read(step)), one(spec->loss)))};
  spec->train_op = ls_train_op(optimizer, spec->loss);
  return ls_bag_take_error(bag);
}

// model_fn(features, labels, mode, params)
static ls_status model(void *user, ls_model_call *call,
                       ls_estimator_spec **out) {
  ls_bag bag = {0};
  (void)user;
  ls_estimator_spec_options spec = {.mode = call->mode};
  ls_status status = fill_spec(&bag, call, &spec);
  if (ls_status_is_ok(status))
    status = ls_tpu_estimator_spec_create(&spec, out);
  ls_bag_empty(&bag);
  return status;
}

// serving_input_receiver_fn()
static ls_status receive(void *user, ls_serving_receiver *out) {
  (void)user;
  out->features = ls_leaf(ls_placeholder(
      LS_DTYPE_F32, LS_SHAPE(LS_UNKNOWN_DIM, SIZE, SIZE), "images"));
  return ls_ok();
}

static ls_status predict(ls_estimator *e) {
  ls_predictions *rows = NULL;
  ls_nest row = ls_none();
  LS_RETURN_IF_ERROR(ls_estimator_predict(
      e, &(ls_estimator_prediction){.input = {.call = input}}, &rows));
  ls_status status = ls_ok();
  for (int i = 0; i < 3 && ls_status_is_ok(status); ++i) {
    status = ls_predictions_next(rows, &row);
    if (!ls_status_is_ok(status)) break;
    const int64_t class_id =
        (int64_t)ls_nest_number(ls_nest_find(row, "class_ids"));
    const ls_array *all = ls_nest_as_array(ls_nest_find(row, "probabilities"));
    printf("row %d: class %d, probability %.3f\n", i, (int)class_id,
           ls_array_f64(all, class_id));
  }
  ls_nest_release(row);
  return ls_status_join(status, ls_predictions_close(rows));
}

static ls_status run(ls_estimator *e) {
  ls_train_and_evaluation end = {0};
  char *path = NULL;
  LS_RETURN_IF_ERROR(ls_train_and_evaluate(
      e,
      &(ls_train_spec){.input = {.call = input}, .max_steps = LS_SOME(STEPS)},
      &(ls_eval_spec){.input = {.call = input},
                      .start_delay_secs = LS_SOME(0),
                      .throttle_secs = LS_SOME(0)},
      &end));
  // A second call of the program finds the model trained.
  bool has_learnt = end.num_evaluations == 0;
  if (!has_learnt) {
    const double right = ls_nest_number(ls_nest_find(end.metrics, "accuracy"));
    printf("step %lld: loss %.4f, accuracy of the evaluation %.3f\n",
           (long long)end.training.step, end.training.loss, right);
    has_learnt = right > 0.9;
  }
  ls_train_and_evaluation_deinit(&end);
  if (!has_learnt) return LS_STATUS(LS_INTERNAL, "it has not learnt");
  LS_RETURN_IF_ERROR(predict(e));
  LS_RETURN_IF_ERROR(ls_estimator_export(
      e,
      &(ls_estimator_exporting){.base = "tpu_estimator.exports",
                                .receiver = {.call = receive}},
      &path));
  printf("exported to %s\n", path);
  ls_text_release(path);
  return ls_ok();
}

int main(int argc, char **argv) {
  const bool use_tpu = argc < 2 || strcmp(argv[1], "cpu") != 0;
  ls_run_config *config = NULL;
  ls_estimator *e = NULL;
  ls_status status = ls_tpu_run_config_create(
      &(ls_run_config_options){
          .master = use_tpu ? "virtual:2x2" : NULL,
          .model_dir = folder,
          .tpu = &(ls_tpu_config){.iterations_per_loop = "20"}},
      &config);
  if (ls_status_is_ok(status))
    status = ls_estimator_create(
        &(ls_estimator_options){.model_fn = {.call = model},
                                .config = config,
                                .use_tpu = use_tpu ? LS_FLAG_ON : LS_FLAG_OFF,
                                .train_batch_size = LS_SOME(BATCH),
                                .eval_batch_size = LS_SOME(BATCH),
                                .predict_batch_size = LS_SOME(BATCH)},
        &e);
  if (ls_status_is_ok(status)) status = run(e);
  const int failed = !ls_status_is_ok(status);
  if (failed) fprintf(stderr, "%s\n", ls_status_message(status));
  ls_status_free(status);
  ls_estimator_destroy(e);
  ls_run_config_release(config);
  return failed;
}
