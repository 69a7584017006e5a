// SPDX-License-Identifier: Apache-2.0
// A model of a user's that gives each pixel of an 8x8 image a class, with
// public headers only: a 1x1 convolution.
#include <stdlib.h>

#include "lockstep/lockstep.h"

typedef struct pixels {
  ls_conv_layer *layer;
  ls_optimizer *optimizer;
} pixels;

static void destroy(void *self) {
  pixels *net = self;
  if (net == NULL) return;
  ls_conv_layer_destroy(net->layer);
  ls_optimizer_release(net->optimizer);
  free(net);
}

static ls_status fill(pixels *net, const ls_model_options *options) {
  LS_RETURN_IF_ERROR(ls_conv_layer_create(
      &(ls_conv_options){.name = "only",
                         .channels = 3,
                         .filters = options->type->num_classes,
                         .window = LS_SHAPE(1, 1),
                         .seed = options->seed},
      &net->layer));
  return ls_adam_create(
      &(ls_adam_options){.learning_rate = options->learning_rate},
      &net->optimizer);
}

static ls_status create(const ls_model_options *options, void **out_self) {
  pixels *net = calloc(1, sizeof(*net));
  if (net == NULL) return ls_out_of_memory();
  const ls_status status = fill(net, options);
  if (!ls_status_is_ok(status))
    destroy(net);
  else
    *out_self = net;
  return status;
}

static ls_tensor apply(const pixels *net, ls_nest args) {
  return ls_conv_layer_apply(net->layer, ls_nest_tensor(args, 0));
}

static ls_nest train_step(ls_nest args, void *self) {
  const pixels *net = self;
  const ls_tensor labels = ls_nest_tensor(args, 1);
  const ls_tensor logits = apply(net, args);
  const ls_tensor loss = ls_mean_softmax_cross_entropy(logits, labels);
  ls_optimizer_minimize(net->optimizer, loss);
  const char *const keys[] = {"loss", "accuracy"};
  const ls_nest items[] = {ls_leaf(loss), ls_leaf(ls_accuracy(logits, labels))};
  return ls_nest_dict("", keys, items, 2);
}

static ls_nest logits(ls_nest args, void *self) {
  return ls_leaf(apply(self, args));
}

static size_t variables(void *self, ls_variable **out, size_t capacity) {
  const pixels *net = self;
  return ls_conv_layer_variables(net->layer, out, capacity);
}

static ls_optimizer *optimizer(void *self) {
  return ((pixels *)self)->optimizer;
}

static const ls_model_type type = {
    .name = "pixels",
    .description = "8x8x3 images, a class of 2 for each pixel; Adam",
    .batch_size = 4,
    .epochs = 40,
    .learning_rate = 0.2,
    .example_shape = {.rank = 3, .dim = {8, 8, 3}},
    .label_shape = {.rank = 2, .dim = {8, 8}},
    .num_classes = 2,
    .flops_per_example = 2.0 * 2 * 64 * 6,
    .create = create,
    .destroy = destroy,
    .train_step = train_step,
    .logits = logits,
    .variables = variables,
    .optimizer = optimizer,
    .any_outputs = true,
};

LS_EXPORT_MODELS(&type);
