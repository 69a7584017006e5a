// SPDX-License-Identifier: Apache-2.0
// A net trained on the devices of a PJRT plug-in, and on the CPU: the same
// program, the same losses. The argument names the device, as for the command;
// without one it is the plug-in that LS_PJRT_PLUGIN names, and without that
// there is nothing to do.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lockstep/full.h"

enum { REPLICAS = 8, BATCH = 64, STEPS = 200 };

typedef struct net {
  ls_dense_layer *hidden, *output;
  ls_optimizer *optimizer;
} net;

static ls_nest step(ls_nest batch, void *user) {
  const net *n = user;
  const ls_tensor hidden =
      ls_dense_layer_apply(n->hidden, ls_nest_tensor(batch, 0));
  const ls_tensor loss = ls_mean_softmax_cross_entropy(
      ls_dense_layer_apply(n->output, hidden), ls_nest_tensor(batch, 1));
  ls_optimizer_minimize(n->optimizer, loss);
  return ls_leaf(ls_examples_mean(loss));
}

static ls_dataset *make_batches(void) {
  ls_dataset *data = ls_dataset_synthetic(&(ls_synthetic_options){
      .size = 2048, .shape = LS_SHAPE(32), .num_classes = 10});
  data = ls_dataset_repeat(ls_dataset_shuffle(data, NULL), LS_INFINITE);
  data = ls_dataset_batch(data, &(ls_batch_options){.size = BATCH});
  return ls_dataset_parts(data, REPLICAS);
}

// Trains under the current runtime, in a bag.
static ls_status train(ls_bag *bag, double *out_loss) {
  net n = {.hidden = ls_dense_layer_in(bag, .inputs = 32, .units = 64,
                                       .activation = LS_ACTIVATION_RELU),
           .output = ls_dense_layer_in(bag, .inputs = 64, .units = 10),
           .optimizer = ls_adam_in(bag, .learning_rate = 0.003)};
  ls_function *function = ls_function_in(bag, .call = step, .user = &n);
  ls_strategy *strategy =
      ls_mirrored_strategy_in(bag, .num_replicas = LS_SOME(REPLICAS));
  ls_iterator *batches =
      ls_iterator_in(bag, ls_dataset_in(bag, make_batches()));
  ls_nest *batch = ls_nest_in(bag, ls_none()),
          *loss = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  for (int i = 0; i < STEPS; ++i) {
    // Returns when the device has read the batch: it computes the step while
    // the next batch is made.
    LS_RETURN_IF_ERROR(ls_iterator_next(batches, batch));
    LS_RETURN_IF_ERROR(
        ls_strategy_run(strategy, ls_traced(function), *batch, loss));
  }
  // Waits for the last loss.
  const ls_nest last = ls_distributed_component(*loss, 0);
  LS_RETURN_IF_ERROR(ls_array_wait(ls_nest_as_array(last)));
  *out_loss = ls_nest_number(last);
  return ls_ok();
}

static ls_status describe_and_train(ls_runtime *runtime, double *out_loss) {
  ls_device_facts facts = {0};
  LS_RETURN_IF_ERROR(ls_device_describe(runtime, &facts));
  printf("%s: %d device%s%s%s\n", facts.type, facts.count,
         facts.count == 1 ? "" : "s", facts.plugin != NULL ? " of " : "",
         facts.plugin != NULL ? facts.plugin : "");
  ls_bag bag = {0};
  const ls_status status = train(&bag, out_loss);
  ls_bag_empty(&bag);
  return status;
}

static ls_status train_on(const char *device, int num_devices,
                          double *out_loss) {
  ls_runtime *runtime = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_create(
      &(ls_runtime_options){.device = device,
                            .num_devices = num_devices,
                            .math = LS_MATH_DIRECT},  // Products in f32.
      &runtime));
  ls_runtime *former = ls_runtime_make_current(runtime);
  const ls_status status = describe_and_train(runtime, out_loss);
  (void)ls_runtime_make_current(former);
  return ls_status_join(status, ls_runtime_destroy(runtime));
}

int main(int argc, char **argv) {
  const char *device = argc > 1 ? argv[1] : "pjrt";
  if (argc < 2 && getenv("LS_PJRT_PLUGIN") == NULL) {
    printf("skipped: LS_PJRT_PLUGIN names no plug-in\n");
    return 0;
  }
  double losses[2] = {0};
  ls_status status = train_on("cpu", 0, &losses[0]);
  if (ls_status_is_ok(status))
    // Plug-ins with CPU devices make as many as are asked for.
    status = train_on(device, argc > 1 ? 0 : 2, &losses[1]);
  const bool ok = ls_status_is_ok(status);
  if (!ok) fprintf(stderr, "%s\n", ls_status_message(status));
  ls_status_free(status);
  printf("loss %.6f on the CPU, %.6f on %s\n", losses[0], losses[1], device);
  return ok && losses[1] < 0.5 && fabs(losses[1] - losses[0]) < 1e-3 ? 0 : 1;
}
