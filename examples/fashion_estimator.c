// SPDX-License-Identifier: Apache-2.0
// Fashion-MNIST from end to end: an estimator trains a net on eight cores,
// evaluates it after each epoch, and exports it: our own program, ONNX and
// StableHLO.
//
// Usage: fashion_estimator [EPOCHS]
#include <stdio.h>
#include <stdlib.h>

#include "lockstep/full.h"

enum { BATCH = 256, STEPS_AN_EPOCH = 60000 / BATCH, SERVED = 4 };

static ls_nest input(void *train, ls_input_call *call) {
  ls_dataset *data = ls_dataset_convert(
      ls_dataset_fashion_mnist(NULL, train != NULL), 0,
      &(ls_convert_options){.dtype = LS_DTYPE_F32, .scale = 1.0 / 255});
  if (train != NULL)
    data = ls_dataset_repeat(ls_dataset_shuffle(data, NULL), -1);
  return ls_nest_dataset(ls_dataset_batch(
      data, &(ls_batch_options){
                .size = ls_params_i64(call->params, "batch_size", BATCH)}));
}

// Runs on the host, for all cores.
static ls_nest metrics(ls_nest tensors, void *user) {
  const ls_tensor y = ls_nest_tensor(tensors, 0),
                  predicted = ls_nest_tensor(tensors, 1);
  const ls_nest value =
      ls_metric_accuracy(y, predicted, ls_nest_tensor(tensors, 2), NULL);
  return ls_nest_dict("", &(const char *){user}, &value, 1);
}

// Builds the model, on each core. The bag owns its layers.
static ls_status build(ls_bag *bag, void *user, const ls_model_call *call,
                       ls_estimator_spec_options *spec) {
  ls_dense_layer *a =
      ls_dense_layer_in(bag, .name = "a", .inputs = 784, .units = 256,
                        .activation = LS_ACTIVATION_RELU);
  ls_dense_layer *b =
      ls_dense_layer_in(bag, .name = "b", .inputs = 256, .units = 10);
  ls_optimizer *adam = ls_adam_in(bag, .learning_rate = 0.001);
  ls_optimizer *sums = ls_cross_shard_in(bag, .optimizer = adam);
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  const ls_tensor x = ls_reshape(call->features.as.tensor, LS_SHAPE(-1, 784));
  const ls_tensor logits = ls_dense_layer_apply(b, ls_dense_layer_apply(a, x));
  const ls_nest p = ls_leaf(ls_softmax(logits));
  spec->predictions =
      ls_bag_nest(bag, ls_nest_dict("", &(const char *){"p"}, &p, 1));
  if (call->mode != LS_MODE_PREDICT) {
    const ls_tensor y = ls_convert(call->labels.as.tensor, LS_DTYPE_I32);
    const ls_tensor predicted = ls_convert(ls_argmax(logits, 1), LS_DTYPE_I32);
    spec->loss = ls_weighted_mean(
        ls_cross_entropy_loss(logits, y, 0, LS_REDUCTION_NONE), call->mask);
    const ls_nest tensors =
        ls_bag_nest(bag, LS_LIST(ls_leaf(y), ls_leaf(predicted)));
    spec->eval_metrics = (ls_host_function){metrics, user, tensors, {0}};
    if (call->mode == LS_MODE_TRAIN)
      spec->train_op = ls_train_op(sums, spec->loss);
  }
  return ls_bag_take_error(bag);
}

static ls_status model(void *user, ls_model_call *call,
                       ls_estimator_spec **out) {
  ls_bag bag = {0};
  ls_estimator_spec_options spec = {.mode = call->mode};
  ls_status status = build(&bag, user, call, &spec);
  if (ls_status_is_ok(status))
    status = ls_tpu_estimator_spec_create(&spec, out);
  ls_bag_empty(&bag);
  return status;
}

static ls_status receive(void *user, ls_serving_receiver *out) {
  (void)user;
  out->features = ls_leaf(
      ls_placeholder(LS_DTYPE_F32, LS_SHAPE(LS_UNKNOWN_DIM, 28, 28), "images"));
  return ls_ok();
}

static ls_status run(ls_estimator *e, int epochs) {
  ls_nest now = ls_none();
  char *path = NULL;
  for (int i = 1; i <= epochs; ++i) {
    const ls_estimator_training training = {
        .input = {.call = input, .user = "train"},
        .max_steps = LS_SOME(i * STEPS_AN_EPOCH)};
    const ls_estimator_evaluation all = {.input = {.call = input}};
    LS_RETURN_IF_ERROR(ls_estimator_train(e, &training, NULL));
    LS_RETURN_IF_ERROR(ls_estimator_evaluate(e, &all, &now));
    const double right = ls_nest_number(ls_nest_find(now, "accuracy"));
    printf("epoch %d: accuracy %.4f\n", i, right);
    ls_nest_release(now);
    if (right < 0.8) return LS_STATUS(LS_INTERNAL, "it has not learnt");
  }
  const ls_estimator_exporting exporting = {.base = "fashion.exports",
                                            .receiver = {.call = receive},
                                            .onnx = LS_FLAG_ON,
                                            .stablehlo = LS_FLAG_ON,
                                            .batch_size = SERVED};
  LS_RETURN_IF_ERROR(ls_estimator_export(e, &exporting, &path));
  printf("exported to %s\n", path);
  ls_text_release(path);
  return ls_ok();
}

int main(int argc, char **argv) {
  ls_run_config *config = NULL;
  ls_estimator *e = NULL;
  const ls_tpu_config loops = {.iterations_per_loop = "39"};
  ls_status status = ls_tpu_run_config_create(
      &(ls_run_config_options){
          .model_dir = "fashion.model", .master = "virtual:2x2", .tpu = &loops},
      &config);
  if (ls_status_is_ok(status))
    status = ls_estimator_create(
        &(ls_estimator_options){.model_fn = {.call = model, .user = "accuracy"},
                                .config = config,
                                .train_batch_size = LS_SOME(BATCH),
                                .eval_batch_size = LS_SOME(1000),
                                .any_batch = true},
        &e);
  if (ls_status_is_ok(status)) status = run(e, argc > 1 ? atoi(argv[1]) : 1);
  puts(ls_status_message(status));
  const int failed = !ls_status_is_ok(status);
  ls_status_free(status);
  ls_estimator_destroy(e);
  ls_run_config_release(config);
  return failed;
}
