// SPDX-License-Identifier: Apache-2.0
// An estimator trains a net of its own on a pod of 32 cores, whose hosts record
// the outputs of each step while the next ones run.
#include <stdio.h>

#include "lockstep/full.h"

enum { PIXELS = 196, HIDDEN = 32, CLASSES = 10, BATCH = 256, STEPS = 96 };
static const char folder[] = "host_calls.model";

static ls_nest input(void *user, ls_input_call *call) {
  (void)user;
  ls_dataset *data = ls_dataset_synthetic(&(ls_synthetic_options){
      .size = 4096, .shape = LS_SHAPE(PIXELS), .num_classes = CLASSES});
  data = ls_dataset_repeat(data, LS_INFINITE);
  return ls_nest_dataset(ls_dataset_batch(
      data, &(ls_batch_options){
                .size = ls_params_i64(call->params, "batch_size", BATCH)}));
}

// Runs on a host, once per step, with losses and steps of all cores.
static ls_nest report(ls_nest tensors, void *user) {
  const ls_tensor losses = ls_nest_tensor(tensors, 0);
  const ls_tensor step = ls_reduce_max(ls_nest_tensor(tensors, 1), LS_ALL_AXES);
  ls_summary_writer *writer = NULL;
  (void)user;
  const ls_status status = ls_file_writer_create(
      &(ls_file_writer_options){.folder = folder}, &writer);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  LS_SUMMARY_SCOPE(writer);
  LS_RECORD_SUMMARIES_SCOPE(1);
  const ls_nest ops = LS_LIST(
      ls_nest_op(
          ls_summary_scalar("mean", ls_reduce_mean(losses, LS_ALL_AXES), step)),
      ls_nest_op(
          ls_summary_scalar("worst", ls_reduce_max(losses, LS_ALL_AXES), step)),
      ls_nest_op(ls_summary_histogram("losses", losses, step)));
  ls_summary_writer_release(writer);  // The ops retain it.
  return ops;
}

// Builds the model, on a core.
static ls_status model(void *user, ls_model_call *call,
                       ls_estimator_spec **out_spec) {
  ls_bag bag = {0};
  ls_optimizer *optimizer = NULL;
  ls_variable *steps = NULL;
  (void)user;
  ls_dense_layer *hidden =
      ls_dense_layer_in(&bag, .name = "hidden", .inputs = PIXELS,
                        .units = HIDDEN, .activation = LS_ACTIVATION_RELU);
  ls_dense_layer *out = ls_dense_layer_in(&bag, .name = "out", .inputs = HIDDEN,
                                          .units = CLASSES);
  ls_optimizer *adam = ls_adam_in(&bag, .learning_rate = 0.01);
  ls_status status = ls_bag_take_error(&bag);
  if (ls_status_is_ok(status))
    status = ls_cross_shard_create(&(ls_cross_shard_options){.optimizer = adam},
                                   &optimizer);
  if (ls_status_is_ok(status))
    status = ls_global_step_get(ls_graph_current(), &steps);
  if (ls_status_is_ok(status)) {
    const ls_tensor images = call->features.as.tensor;
    const ls_tensor loss = ls_mean_softmax_cross_entropy(
        ls_dense_layer_apply(out, ls_dense_layer_apply(hidden, images)),
        call->labels.as.tensor);
    const ls_tensor step = ls_variable_read(steps);
    const ls_nest tensors = LS_LIST(ls_leaf(ls_reshape(loss, LS_SHAPE(1))),
                                    ls_leaf(ls_reshape(step, LS_SHAPE(1))));
    status = ls_tpu_estimator_spec_create(
        &(ls_estimator_spec_options){
            .mode = call->mode,
            .loss = loss,
            .train_op = ls_train_op(optimizer, loss),
            .host_call = {.call = report, .tensors = tensors}},
        out_spec);
    ls_nest_release(tensors);
  }
  ls_optimizer_release(optimizer);
  ls_bag_empty(&bag);
  return status;
}

static ls_status train(ls_run_config **config, ls_estimator **estimator) {
  LS_RETURN_IF_ERROR(ls_tpu_run_config_create(
      &(ls_run_config_options){
          .master = "virtual:4x4,hosts=4",
          .model_dir = folder,
          .checkpoints = LS_FLAG_OFF,
          .tpu = &(ls_tpu_config){.iterations_per_loop = "16"}},
      config));
  LS_RETURN_IF_ERROR(ls_estimator_create(
      &(ls_estimator_options){.model_fn = {.call = model},
                              .config = *config,
                              .train_batch_size = LS_SOME(BATCH)},
      estimator));
  return ls_estimator_train(*estimator,
                            &(ls_estimator_training){.input = {.call = input},
                                                     .steps = LS_SOME(STEPS)},
                            NULL);
}

// First and last values written.
static ls_status read_losses(double *first, double *last) {
  ls_event_numbers *numbers = NULL;
  LS_RETURN_IF_ERROR(ls_events_read(folder, "mean", &numbers));
  if (numbers->count == STEPS) {
    *first = numbers->items[0].value;
    *last = numbers->items[STEPS - 1].value;
  }
  ls_event_numbers_destroy(numbers);
  return ls_ok();
}

int main(void) {
  ls_run_config *config = NULL;
  ls_estimator *estimator = NULL;
  double first = 0, last = 1;
  ls_status status = train(&config, &estimator);
  if (ls_status_is_ok(status)) status = read_losses(&first, &last);
  printf("loss %.4f, then %.4f %s\n", first, last, ls_status_message(status));
  ls_status_free(status);
  ls_estimator_destroy(estimator);
  ls_run_config_release(config);
  return last < first / 4 ? 0 : 1;
}
