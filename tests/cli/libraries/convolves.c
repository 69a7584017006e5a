// SPDX-License-Identifier: Apache-2.0
// A model of a user's, with public headers only: a convolution, dropout and a
// dense layer. While there is a file `be-slow` it takes its time to be traced,
// and says so in a file `is-traced`.
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "lockstep/lockstep.h"

enum { SIDE = 4, FILTERS = 6, CLASSES = 4 };

typedef struct convolves {
  ls_conv_layer *conv;
  ls_dense_layer *dense;
  ls_optimizer *optimizer;
} convolves;

static void destroy(void *self) {
  convolves *net = self;
  if (net == NULL) return;
  ls_conv_layer_destroy(net->conv);
  ls_dense_layer_destroy(net->dense);
  ls_optimizer_release(net->optimizer);
  free(net);
}

static ls_status fill(convolves *net, const ls_model_options *options) {
  LS_RETURN_IF_ERROR(ls_conv_layer_create(
      &(ls_conv_options){.channels = 1,
                         .filters = FILTERS,
                         .window = LS_SHAPE(3, 3),
                         .how = {.padding = LS_PADDING_SAME},
                         .activation = LS_ACTIVATION_RELU,
                         .seed = options->seed},
      &net->conv));
  LS_RETURN_IF_ERROR(
      ls_dense_layer_create(&(ls_dense_options){.inputs = SIDE * SIDE * FILTERS,
                                                .units = CLASSES,
                                                .seed = options->seed},
                            &net->dense));
  if (options->optimizer == NULL)
    return ls_adam_create(
        &(ls_adam_options){.learning_rate = options->learning_rate},
        &net->optimizer);
  net->optimizer = ls_optimizer_retain(options->optimizer);
  return ls_ok();
}

static ls_status create(const ls_model_options *options, void **out_self) {
  convolves *net = calloc(1, sizeof(*net));
  if (net == NULL) return ls_out_of_memory();
  const ls_status status = fill(net, options);
  if (!ls_status_is_ok(status))
    destroy(net);
  else
    *out_self = net;
  return status;
}

static ls_tensor apply(const convolves *net, ls_tensor x, bool training) {
  x = ls_conv_layer_apply(net->conv,
                          ls_reshape(x, LS_SHAPE(-1, SIDE, SIDE, 1)));
  x = ls_dropout(ls_reshape(x, LS_SHAPE(-1, SIDE * SIDE * FILTERS)), 0.25,
                 training, NULL);
  return ls_dense_layer_apply(net->dense, x);
}

static void take_time(void) {
  if (access("be-slow", F_OK) != 0) return;
  FILE *file = fopen("is-traced", "w");
  if (file != NULL) (void)fclose(file);
  while (access("be-slow", F_OK) == 0)
    (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static ls_nest train_step(ls_nest args, void *self) {
  const convolves *net = self;
  take_time();
  const ls_tensor labels = ls_nest_tensor(args, 1);
  const ls_tensor logits = apply(net, ls_nest_tensor(args, 0), true);
  const ls_tensor loss = ls_mean_softmax_cross_entropy(logits, labels);
  ls_optimizer_minimize(net->optimizer, loss);
  const char *const keys[] = {"loss", "accuracy"};
  const ls_nest items[] = {ls_leaf(loss), ls_leaf(ls_accuracy(logits, labels))};
  return ls_nest_dict("", keys, items, 2);
}

static ls_nest logits(ls_nest args, void *self) {
  return ls_leaf(apply(self, ls_nest_tensor(args, 0), false));
}

static size_t variables(void *self, ls_variable **out, size_t capacity) {
  const convolves *net = self;
  ls_variable *all[4] = {NULL};
  size_t count = ls_conv_layer_variables(net->conv, all, 2);
  count += ls_dense_layer_variables(net->dense, all + count, 2);
  for (size_t i = 0; i < count && i < capacity; ++i)
    out[i] = all[i];
  return count;
}

static ls_optimizer *optimizer(void *self) {
  return ((convolves *)self)->optimizer;
}

static const ls_model_type type = {
    .name = "convolves",
    .batch_size = 32,
    .epochs = 1,
    .learning_rate = 0.01,
    .example_shape = {.rank = 1, .dim = {SIDE * SIDE}},
    .num_classes = CLASSES,
    .create = create,
    .destroy = destroy,
    .train_step = train_step,
    .logits = logits,
    .variables = variables,
    .optimizer = optimizer,
};
LS_EXPORT_MODELS(&type);
