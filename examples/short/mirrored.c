// SPDX-License-Identifier: Apache-2.0
// One step on many replicas: each gets its part of the batch, and the gradient
// is that of the whole batch, so that 1 and 16 replicas learn the same.
#include <math.h>
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { SIZE = 256, BATCH = 64, EPOCHS = 5 };

typedef struct net {
  ls_dense_layer *layer;
  ls_optimizer *optimizer;
} net;

static ls_nest step(ls_nest batch, void *user) {
  const net *n = user;
  const ls_tensor logits =
      ls_dense_layer_apply(n->layer, ls_nest_tensor(batch, 0));
  const ls_tensor loss =
      ls_mean_softmax_cross_entropy(logits, ls_nest_tensor(batch, 1));
  ls_optimizer_minimize(n->optimizer, loss);
  return ls_leaf(ls_examples_mean(loss));
}

static ls_status train(ls_bag *bag, int64_t replicas, double *out_loss) {
  net n = {.layer = ls_dense_layer_in(bag, .inputs = 16, .units = 4),
           .optimizer = ls_sgd_in(bag, .learning_rate = 0.5)};
  ls_function *function = ls_function_in(bag, .call = step, .user = &n);
  ls_strategy *strategy =
      ls_mirrored_strategy_in(bag, .num_replicas = LS_SOME(replicas));
  ls_dataset *data = ls_dataset_synthetic(&(ls_synthetic_options){
      .size = SIZE, .shape = LS_SHAPE(16), .num_classes = 4});
  data = ls_dataset_repeat(ls_dataset_shuffle(data, NULL), EPOCHS);
  data = ls_dataset_batch(data, &(ls_batch_options){.size = BATCH});
  data = ls_dataset_in(bag, ls_dataset_parts(data, replicas));
  ls_iterator *batches = ls_iterator_in(bag, data);
  ls_nest *batch = ls_nest_in(bag, ls_none()),
          *loss = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  for (int i = 0; i < EPOCHS * SIZE / BATCH; ++i) {
    LS_RETURN_IF_ERROR(ls_iterator_next(batches, batch));
    LS_RETURN_IF_ERROR(
        ls_strategy_run(strategy, ls_traced(function), *batch, loss));
  }
  *out_loss = ls_nest_number(ls_distributed_component(*loss, 0));
  return ls_ok();
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  LS_RETURN_IF_ERROR(train(bag, 1, first));
  return train(bag, 16, last);
}

int main(void) {
  ls_bag bag = {0};
  double first = 0, last = 0;
  const ls_status status = run(&bag, &first, &last);
  printf("%.4f, then %.4f %s\n", first, last, ls_status_message(status));
  const bool ok =
      ls_status_is_ok(status) && first < 1 && fabs(first - last) < 1e-4;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}
