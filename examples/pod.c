// SPDX-License-Identifier: Apache-2.0
// A pod of 32 cores on 4 hosts trains a net, and its hosts record each loss.
#include <stdio.h>

#include "lockstep/full.h"

typedef struct job {
  ls_model net;
  double loss;  // Last loss.
} job;

static void hear(void *user, const ls_summary_record *record) {
  ((job *)user)->loss = ls_array_f64(record->value, 0);
}

static ls_nest on_host(ls_nest loss, void *tag) {
  return ls_nest_op(ls_summary(tag, ls_nest_tensor(loss, 0)));
}

static ls_nest on_core(ls_nest batch, void *user) {  // A step.
  const ls_model *net = &((job *)user)->net;
  const ls_nest made = net->type->train_step(batch, net->self);
  (void)ls_outside_compilation(on_host, "loss", ls_nest_find(made, "loss"));
  return made;
}

static ls_status train(ls_bag *bag, job *j) {
  ls_tpu_resolver *pod = ls_tpu_resolver_in(bag, .name = "virtual:4x4,hosts=4");
  ls_strategy *strategy = ls_tpu_strategy_in(bag, .resolver = pod);
  ls_dataset *data = ls_dataset_synthetic(&(ls_synthetic_options){
      .size = 8192, .shape = LS_SHAPE(784), .num_classes = 10});
  data = ls_dataset_batch(data, &(ls_batch_options){.size = 64});
  ls_iterator *batches =
      ls_iterator_in(bag, ls_dataset_in(bag, ls_dataset_parts(data, 32)));
  ls_function *step = ls_function_in(bag, .call = on_core, .user = j);
  ls_nest *batch = ls_nest_in(bag, ls_none()),
          *made = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  LS_RETURN_IF_ERROR(ls_tpu_initialize(pod, NULL));
  LS_STRATEGY_SCOPE(strategy);
  LS_SUMMARY_SCOPE(ls_summary_writer_in(bag, hear, j));
  LS_RETURN_IF_ERROR(ls_model_create(ls_model_find("mlp"), NULL, &j->net));
  ls_status status = ls_ok();
  for (int i = 0; i < 128 && ls_status_is_ok(status); ++i) {
    LS_RETURN_IF_ERROR(ls_iterator_next(batches, batch));
    status = ls_strategy_run(strategy, ls_traced(step), *batch, made);
  }
  return status;
}

int main(void) {
  ls_bag bag = {0};
  job j = {.loss = 100};
  const ls_status status = train(&bag, &j);
  printf("loss %.4f %s\n", j.loss, ls_status_message(status));
  ls_status_free(status);
  ls_bag_empty(&bag);
  ls_model_destroy(&j.net);
  return j.loss < 0.1 ? 0 : 1;
}
