// SPDX-License-Identifier: Apache-2.0
// Estimators of a user's, with public headers only: "line", a dense layer on
// made-up examples, and "bare", which has nothing but a model. While there is a
// file `be-slow` an input takes its time.
#define _POSIX_C_SOURCE 200809L
#include <time.h>
#include <unistd.h>

#include "lockstep/full.h"

enum { PIXELS = 16, CLASSES = 4, BATCH = 32, EXAMPLES = 256 };

static ls_nest input(void *user, ls_input_call *call) {
  (void)user;
  while (access("be-slow", F_OK) == 0)
    (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  ls_dataset *data = ls_dataset_synthetic(&(ls_synthetic_options){
      .size = EXAMPLES, .shape = LS_SHAPE(PIXELS), .num_classes = CLASSES});
  if (call->mode == LS_MODE_TRAIN) data = ls_dataset_repeat(data, LS_INFINITE);
  return ls_nest_dataset(ls_dataset_batch(
      data, &(ls_batch_options){
                .size = ls_params_i64(call->params, "batch_size", BATCH)}));
}

// Batches of one size, whatever is asked for; at most all examples.
static ls_nest fixed_input(void *user, ls_input_call *call) {
  (void)user;
  ls_dataset *data = ls_dataset_synthetic(&(ls_synthetic_options){
      .size = 100, .shape = LS_SHAPE(PIXELS), .num_classes = CLASSES});
  return ls_nest_dataset(ls_dataset_batch(
      data,
      &(ls_batch_options){.size = ls_params_i64(call->params, "rows", BATCH)}));
}

static ls_nest metrics(ls_nest of, void *user) {
  const ls_nest value =
      ls_metric_accuracy(ls_nest_tensor(of, 0), ls_nest_tensor(of, 1),
                         ls_nest_tensor(of, 2), "accuracy");
  (void)user;
  return ls_nest_dict("", &(const char *){"accuracy"}, &value, 1);
}

static ls_status build(ls_bag *bag, const ls_model_call *call,
                       ls_estimator_spec_options *spec) {
  const int64_t width = ls_params_i64(call->params, "width", 8);
  const double rate = ls_params_f64(call->params, "rate", 0.05);
  ls_dense_layer *a =
      ls_dense_layer_in(bag, .name = "a", .inputs = PIXELS, .units = width,
                        .activation = LS_ACTIVATION_RELU, .seed = 1);
  ls_dense_layer *b = ls_dense_layer_in(bag, .name = "b", .inputs = width,
                                        .units = CLASSES, .seed = 2);
  ls_optimizer *adam = ls_adam_in(bag, .learning_rate = rate);
  ls_optimizer *sums = ls_cross_shard_in(bag, .optimizer = adam);
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  const ls_tensor logits = ls_dense_layer_apply(
      b, ls_dense_layer_apply(a, call->features.as.tensor));
  const ls_tensor best = ls_convert(ls_argmax(logits, 1), LS_DTYPE_I32);
  if (call->mode == LS_MODE_PREDICT) {
    const char *const names[] = {"class", "scores"};
    const ls_nest of[] = {ls_leaf(best), ls_leaf(ls_softmax(logits))};
    spec->predictions = ls_bag_nest(bag, ls_nest_dict("", names, of, 2));
  } else {
    const ls_tensor labels = call->labels.as.tensor;
    spec->loss = ls_weighted_mean(
        ls_cross_entropy_loss(logits, labels, 0, LS_REDUCTION_NONE),
        call->mask);
    spec->eval_metrics = (ls_host_function){
        .call = metrics,
        .tensors = ls_bag_nest(bag, LS_LIST(ls_leaf(labels), ls_leaf(best)))};
    if (call->mode == LS_MODE_TRAIN)
      spec->train_op = ls_train_op(sums, spec->loss);
  }
  return ls_bag_take_error(bag);
}

static ls_status model(void *user, ls_model_call *call,
                       ls_estimator_spec **out) {
  ls_bag bag = {0};
  ls_estimator_spec_options spec = {.mode = call->mode};
  (void)user;
  ls_status status = build(&bag, call, &spec);
  if (ls_status_is_ok(status))
    status = ls_tpu_estimator_spec_create(&spec, out);
  ls_bag_empty(&bag);
  return status;
}

static ls_status receive(void *user, ls_serving_receiver *out) {
  (void)user;
  out->features = ls_leaf(
      ls_placeholder(LS_DTYPE_F32, LS_SHAPE(LS_UNKNOWN_DIM, PIXELS), "x"));
  return ls_ok();
}

static const ls_estimator_type line = {
    .name = "line",
    .description = "the line that divides examples",
    .train = {.call = input},
    .eval = {.call = input},
    .predict = {.call = input},
    .receiver = {.call = receive},
    .options = {.model_fn = {.call = model},
                .train_batch_size = LS_SOME(BATCH),
                .eval_batch_size = LS_SOME(BATCH),
                .predict_batch_size = LS_SOME(BATCH),
                .any_batch = true},
    .tpu = {.iterations_per_loop = "5"},
    .train_steps = 40};
static const ls_estimator_type bare = {
    .name = "bare",
    .options = {.model_fn = {.call = model},
                .train_batch_size = LS_SOME(BATCH)}};
static const ls_estimator_type unsized = {
    .name = "unsized",
    .eval = {.call = input},
    .options = {.model_fn = {.call = model},
                .train_batch_size = LS_SOME(BATCH)}};
// Its input has its own batch size, and the estimator none.
static const ls_estimator_type fixed = {
    .name = "fixed",
    .train = {.call = fixed_input},
    .options = {.model_fn = {.call = model}},
    .train_steps = 3};
LS_EXPORT_ESTIMATORS(&line, &bare, &unsized, &fixed);
