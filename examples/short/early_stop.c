// SPDX-License-Identifier: Apache-2.0
// ls_train: epochs, evaluation and a report, with a model of one's own. The
// report stops the training early, when the test loss is good enough.
#include <stdio.h>
#include <stdlib.h>

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

typedef struct watch {
  ls_train_stop stop;
  double first, last;
} watch;

static void report(void *user, const ls_train_report *progress) {
  watch *w = user;
  if (!progress->tested) return;
  if (w->first == 0) w->first = progress->test.loss;
  w->last = progress->test.loss;
  if (w->last < 0.2) ls_train_stop_request(&w->stop);
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  ls_synthetic_options options = {
      .size = 1024, .shape = LS_SHAPE(16), .num_classes = 4};
  ls_dataset *train = ls_dataset_in(bag, ls_dataset_synthetic(&options));
  options.sample = 1;
  ls_dataset *test = ls_dataset_in(bag, ls_dataset_synthetic(&options));
  ls_strategy *strategy =
      ls_mirrored_strategy_in(bag, .num_replicas = LS_SOME(2));
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  ls_model model = {0};
  LS_RETURN_IF_ERROR(
      ls_model_create(&net_type, &(ls_model_options){.metrics = true}, &model));
  watch w = {{0}, 0, 0};
  ls_train_result result = {0};
  const ls_status status = ls_train(&(ls_train_options){.model = &model,
                                                        .strategy = strategy,
                                                        .train = train,
                                                        .test = test,
                                                        .epochs = 50,
                                                        .stop = &w.stop,
                                                        .report = report,
                                                        .report_user = &w},
                                    &result);
  ls_model_destroy(&model);
  printf("%lld steps\n", (long long)result.steps);
  *first = w.first;
  *last = w.last;
  return status;
}

int main(void) {
  ls_bag bag = {0};
  double first = 0, last = 0;
  const ls_status status = run(&bag, &first, &last);
  printf("%.4f, then %.4f %s\n", first, last, ls_status_message(status));
  const bool ok = ls_status_is_ok(status) && first > 0.2 && last < 0.2;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}
