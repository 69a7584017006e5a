// SPDX-License-Identifier: Apache-2.0
// A model with a layer and a metric of its own: trains, evaluates and predicts
// on a CPU, then on the 8 cores of a pod, with the same functions and results.
#include <math.h>
#include <stdio.h>

#include "lockstep/full.h"

enum { PIXELS = 64, HIDDEN = 24, CLASSES = 5, BATCH = 64 };
enum { EXAMPLES = 512, STEPS = 60 };

static ls_nest input(void *user, ls_input_call *call) {
  (void)user;
  ls_dataset *data = ls_dataset_synthetic(&(ls_synthetic_options){
      .size = EXAMPLES, .shape = LS_SHAPE(PIXELS), .num_classes = CLASSES});
  if (call->mode == LS_MODE_TRAIN) data = ls_dataset_repeat(data, LS_INFINITE);
  return ls_nest_dataset(ls_dataset_batch(
      data, &(ls_batch_options){
                .size = ls_params_i64(call->params, "batch_size", BATCH)}));
}

// Returns the value of a weight; the graph retains the weight itself. Does
// nothing after an error.
static ls_tensor weight(ls_status *status, const char *name, int64_t rows,
                        int64_t columns) {
  ls_variable *made = NULL;
  if (ls_status_is_ok(*status))
    *status = ls_weight_create(
        &(ls_weight_options){.name = name, .shape = LS_SHAPE(rows, columns)},
        &made);
  if (!ls_status_is_ok(*status)) return ls_failed_tensor();
  const ls_tensor value = ls_variable_read(made);
  ls_variable_release(made);
  return value;
}

// Multiplies each unit by a gate.
static ls_tensor gated(ls_status *status, ls_tensor x) {
  const ls_tensor value = ls_matmul(x, weight(status, "value", PIXELS, HIDDEN));
  const ls_tensor gate = ls_matmul(x, weight(status, "gate", PIXELS, HIDDEN));
  return ls_mul(ls_tanh(value), ls_sigmoid(gate));
}

// Runs on a host: makes metrics over all batches, from logits and labels of all
// cores.
static ls_nest metrics(ls_nest tensors, void *user) {
  (void)user;
  const ls_tensor logits = ls_nest_tensor(tensors, 0);
  const ls_tensor labels = ls_nest_tensor(tensors, 1);
  const ls_tensor one_hot = ls_one_hot(labels, CLASSES, LS_DTYPE_F32);
  const ls_tensor right = ls_reduce_sum(ls_mul(logits, one_hot), LS_AXES(1));
  // Lower the true class, so that the maximum is the best other class.
  const ls_tensor other =
      ls_reduce_max(ls_sub(logits, ls_mul_scalar(one_hot, 1e6)), LS_AXES(1));
  return ls_nest_dict(
      "", (const char *const[]){"accuracy", "margin"},
      (ls_nest[]){
          ls_metric_accuracy(labels,
                             ls_convert(ls_argmax(logits, 1), LS_DTYPE_I32),
                             ls_no_weights(), "accuracy"),
          ls_metric_mean(ls_sub(right, other), ls_no_weights(), "margin")},
      2);
}

static ls_status train_op(ls_tensor loss, ls_op *out_op) {
  ls_optimizer *sgd = NULL, *optimizer = NULL;
  LS_RETURN_IF_ERROR(ls_sgd_create(
      &(ls_sgd_options){.learning_rate = 0.1, .momentum = 0.9}, &sgd));
  const ls_status status = ls_cross_shard_create(
      &(ls_cross_shard_options){.optimizer = sgd}, &optimizer);
  ls_optimizer_release(sgd);
  LS_RETURN_IF_ERROR(status);
  *out_op = ls_train_op(optimizer, loss);
  ls_optimizer_release(optimizer);
  return ls_ok();
}

static ls_status model(void *user, ls_model_call *call,
                       ls_estimator_spec **out_spec) {
  static const char *const key = "class";
  ls_estimator_spec_options spec = {.mode = call->mode};
  ls_status status = ls_ok();
  (void)user;
  const ls_tensor hidden = gated(&status, call->features.as.tensor);
  const ls_tensor logits =
      ls_matmul(hidden, weight(&status, "out", HIDDEN, CLASSES));
  LS_RETURN_IF_ERROR(status);
  const ls_nest best = ls_leaf(ls_argmax(logits, 1));
  ls_nest made = ls_none();
  if (call->mode == LS_MODE_PREDICT) {
    made = ls_nest_dict("", &key, &best, 1);
    spec.predictions = made;
  } else {
    const ls_tensor labels = call->labels.as.tensor;
    spec.loss = ls_mean_softmax_cross_entropy(logits, labels);
    made = LS_LIST(ls_leaf(logits), ls_leaf(labels));
    if (call->mode == LS_MODE_EVAL)
      spec.eval_metrics = (ls_host_function){.call = metrics, .tensors = made};
    else
      status = train_op(spec.loss, &spec.train_op);
  }
  if (ls_status_is_ok(status))
    status = ls_tpu_estimator_spec_create(&spec, out_spec);
  ls_nest_release(made);
  return status;
}

// ---- Where it runs ---------------------------------------------------------
typedef struct outcome {
  double loss, accuracy, margin;
  int classes[EXAMPLES], count;  // Predicted classes.
} outcome;

static ls_status predict(ls_estimator *estimator, outcome *out) {
  ls_predictions *predictions = NULL;
  ls_nest row = ls_none();
  LS_RETURN_IF_ERROR(ls_estimator_predict(
      estimator, &(ls_estimator_prediction){.input = {.call = input}},
      &predictions));
  ls_status status = ls_predictions_next(predictions, &row);
  while (ls_status_is_ok(status) && out->count < EXAMPLES) {
    out->classes[out->count++] =
        (int)ls_array_f64(ls_nest_as_array(ls_nest_find(row, "class")), 0);
    status = ls_predictions_next(predictions, &row);
  }
  ls_nest_release(row);
  if (ls_status_code(status) == LS_OUT_OF_RANGE) {  // End of the predictions.
    ls_status_free(status);
    status = ls_ok();
  }
  return ls_status_join(status, ls_predictions_close(predictions));
}

static ls_status use(ls_estimator *estimator, outcome *out) {
  ls_nest found = ls_none();
  LS_RETURN_IF_ERROR(
      ls_estimator_train(estimator,
                         &(ls_estimator_training){.input = {.call = input},
                                                  .max_steps = LS_SOME(STEPS)},
                         NULL));
  LS_RETURN_IF_ERROR(ls_estimator_evaluate(
      estimator,
      &(ls_estimator_evaluation){.input = {.call = input},
                                 .steps = LS_SOME(EXAMPLES / BATCH)},
      &found));
  out->loss = ls_nest_number(ls_nest_find(found, "loss"));
  out->accuracy = ls_nest_number(ls_nest_find(found, "accuracy"));
  out->margin = ls_nest_number(ls_nest_find(found, "margin"));
  ls_nest_release(found);
  return predict(estimator, out);
}

static ls_status run(const char *folder, const char *pod, outcome *out) {
  ls_run_config *config = NULL;
  ls_estimator *estimator = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_run_config_create(
      &(ls_run_config_options){
          .master = pod,
          .model_dir = folder,
          .tpu = &(ls_tpu_config){.iterations_per_loop = "4"}},
      &config));
  ls_status status = ls_estimator_create(
      &(ls_estimator_options){.model_fn = {.call = model},
                              .config = config,
                              .use_tpu = pod != NULL ? LS_FLAG_ON : LS_FLAG_OFF,
                              .train_batch_size = LS_SOME(BATCH),
                              .eval_batch_size = LS_SOME(BATCH),
                              .predict_batch_size = LS_SOME(BATCH)},
      &estimator);
  if (ls_status_is_ok(status)) status = use(estimator, out);
  printf("%-12s loss %.4f, accuracy %.3f, margin %.3f, %d predictions %s\n",
         pod != NULL ? pod : "CPU", out->loss, out->accuracy, out->margin,
         out->count, ls_status_message(status));
  ls_estimator_destroy(estimator);
  ls_run_config_release(config);
  return status;
}

// Sums over 8 cores are added in another order: the last bits may differ.
static bool same(const outcome *a, const outcome *b) {
  bool equal = a->count == EXAMPLES && b->count == EXAMPLES;
  for (int i = 0; i < EXAMPLES; ++i)
    equal &= a->classes[i] == b->classes[i];
  return equal && a->accuracy == b->accuracy &&
         fabs(a->loss - b->loss) < 1e-4 && fabs(a->margin - b->margin) < 1e-3;
}

int main(void) {
  static outcome cpu, pod;
  ls_status status = run("custom_model.cpu", NULL, &cpu);
  if (ls_status_is_ok(status))
    status = run("custom_model.pod", "virtual:2x2", &pod);
  const bool good =
      ls_status_is_ok(status) && same(&cpu, &pod) && pod.accuracy > 0.9;
  ls_status_free(status);
  return good ? 0 : 1;
}
