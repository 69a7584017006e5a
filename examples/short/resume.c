// SPDX-License-Identifier: Apache-2.0
// Resuming: a run that is stopped after 50 steps and goes on ends with the same
// weights, to the bit, as one that is not.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/lockstep.h"

typedef struct net {
  ls_dense_layer *layer;
  ls_optimizer *optimizer;
} net;

static void destroy_net(void *self) {
  net *n = self;
  if (n == NULL) return;
  ls_dense_layer_destroy(n->layer);
  ls_optimizer_release(n->optimizer);
  free(n);
}

static ls_status create_net(const ls_model_options *options, void **out_self) {
  net *n = calloc(1, sizeof(*n));
  if (n == NULL) return ls_out_of_memory();
  *out_self = n;
  LS_RETURN_IF_ERROR(ls_dense_layer_create(
      &(ls_dense_options){.inputs = 16, .units = 4, .seed = options->seed},
      &n->layer));
  return ls_adam_create(
      &(ls_adam_options){.learning_rate = options->learning_rate},
      &n->optimizer);
}

static ls_nest net_logits(ls_nest args, void *self) {
  const net *n = self;
  return ls_leaf(ls_dense_layer_apply(n->layer, ls_nest_tensor(args, 0)));
}

static ls_nest net_step(ls_nest args, void *self) {
  const net *n = self;
  const ls_tensor labels = ls_nest_tensor(args, 1);
  const ls_tensor logits =
      ls_dense_layer_apply(n->layer, ls_nest_tensor(args, 0));
  const ls_tensor loss = ls_mean_softmax_cross_entropy(logits, labels);
  ls_optimizer_minimize(n->optimizer, loss);
  const char *const keys[] = {"loss", "accuracy"};
  const ls_nest items[] = {ls_leaf(loss), ls_leaf(ls_accuracy(logits, labels))};
  return ls_nest_dict("", keys, items, 2);
}

static size_t net_variables(void *self, ls_variable **out, size_t capacity) {
  return ls_dense_layer_variables(((net *)self)->layer, out, capacity);
}

static ls_optimizer *net_optimizer(void *self) {
  return ((net *)self)->optimizer;
}

static const ls_model_type net_type = {
    .name = "net",
    .batch_size = 32,
    .epochs = 3,
    .learning_rate = 0.01,
    .example_shape = {.rank = 1, .dim = {16}},
    .num_classes = 4,
    .create = create_net,
    .destroy = destroy_net,
    .train_step = net_step,
    .logits = net_logits,
    .variables = net_variables,
    .optimizer = net_optimizer,
};

// Trains up to `steps`, in a folder; copies the weights.
static ls_status train(ls_bag *bag, const char *folder, int64_t steps,
                       bool resume, float *weights) {
  ls_dataset *data = ls_dataset_in(
      bag, ls_dataset_synthetic(&(ls_synthetic_options){
               .size = 1024, .shape = LS_SHAPE(16), .num_classes = 4}));
  ls_strategy *strategy =
      ls_mirrored_strategy_in(bag, .num_replicas = LS_SOME(4));
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  ls_model model = {0};
  LS_RETURN_IF_ERROR(
      ls_model_create(&net_type, &(ls_model_options){.metrics = true}, &model));
  ls_train_result result = {0};
  ls_status status = ls_train(&(ls_train_options){.model = &model,
                                                  .strategy = strategy,
                                                  .train = data,
                                                  .steps = steps,
                                                  .run_folder = folder,
                                                  .resume = resume,
                                                  .overwrite = !resume},
                              &result);
  ls_array *kernel = NULL;
  if (ls_status_is_ok(status)) {
    const net *n = model.self;
    status = ls_variable_value(ls_dense_layer_kernel(n->layer), &kernel);
  }
  if (ls_status_is_ok(status))
    memcpy(weights, ls_array_data(kernel), 64 * sizeof(*weights));
  ls_array_release(kernel);
  ls_model_destroy(&model);
  return status;
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  float whole[64], halves[64];
  LS_RETURN_IF_ERROR(train(bag, "resume.whole", 96, false, whole));
  LS_RETURN_IF_ERROR(train(bag, "resume.halves", 50, false, halves));
  LS_RETURN_IF_ERROR(train(bag, "resume.halves", 96, true, halves));
  *first = (double)whole[0];
  *last = (double)halves[0];
  return memcmp(whole, halves, sizeof(whole)) == 0
             ? ls_ok()
             : ls_internal("the weights differ");
}

int main(void) {
  ls_bag bag = {0};
  double first = 0, last = 0;
  const ls_status status = run(&bag, &first, &last);
  printf("%.4f, then %.4f %s\n", first, last, ls_status_message(status));
  const bool ok = ls_status_is_ok(status) && first != 0 && first == last;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}
