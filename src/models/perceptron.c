// SPDX-License-Identifier: Apache-2.0
// mlp and tiny: dense layers with relu between; SGD. Any number of inputs and
// outputs.
#include <stdio.h>

#include "models/classifier.h"

enum { MAX_LAYERS = 3 };

typedef struct perceptron {
  ls_classifier base;
  size_t num_layers;
  ls_dense_layer *layers[MAX_LAYERS];
} perceptron;

static void perceptron_destroy(void *self) {
  perceptron *net = self;
  if (net == NULL) return;
  for (size_t i = 0; i < net->num_layers; ++i)
    ls_dense_layer_destroy(net->layers[i]);
  ls_classifier_free(&net->base);
}

// Completes the network; `hidden` has the size of each hidden layer.
static ls_status perceptron_fill(perceptron *net, const int64_t *hidden,
                                 size_t num_hidden,
                                 const ls_model_options *options) {
  const size_t num_layers = num_hidden + 1;
  int64_t inputs = options->inputs > 0
                       ? options->inputs
                       : ls_shape_num_elements(options->type->example_shape);
  net->num_layers = num_layers;
  for (size_t i = 0; i < num_layers; ++i) {
    const bool last = i + 1 == num_layers;
    char name[32] = "logits";
    if (!last) snprintf(name, sizeof(name), "hidden%zu", i + 1);
    const int64_t units = last ? net->base.outputs : hidden[i];
    LS_RETURN_IF_ERROR(ls_dense_layer_create(
        &(ls_dense_options){.name = name,
                            .inputs = inputs,
                            .units = units,
                            .activation =
                                last ? LS_ACTIVATION_NONE : LS_ACTIVATION_RELU,
                            .dtype = options->dtype,
                            .seed = options->seed},
        &net->layers[i]));
    inputs = units;
  }
  return ls_classifier_use_sgd(&net->base, options, 0);
}

static ls_tensor perceptron_apply(const perceptron *net, ls_nest args) {
  ls_tensor x = ls_classifier_examples(&net->base, args);
  for (size_t i = 0; i < net->num_layers; ++i)
    x = ls_dense_layer_apply(net->layers[i], x);
  return x;
}

static ls_nest perceptron_train_step(ls_nest args, void *self) {
  const perceptron *net = self;
  return ls_classifier_step(&net->base, perceptron_apply(net, args), args);
}

static ls_nest perceptron_logits(ls_nest args, void *self) {
  return ls_leaf(perceptron_apply(self, args));
}

static size_t perceptron_variables(void *self, ls_variable **out,
                                   size_t capacity) {
  const perceptron *net = self;
  ls_variable *all[2 * MAX_LAYERS] = {NULL};
  size_t count = 0;
  for (size_t i = 0; i < net->num_layers; ++i)
    count += ls_dense_layer_variables(net->layers[i], all + count, 2);
  return ls_classifier_list(all, count, out, capacity);
}

// ---- The two ---------------------------------------------------------------
// Products of one example: forward and the weights' gradients of all layers,
// and the inputs' gradients of all but the first.
#define PRODUCTS(first, rest) (2.0 * (2 * ((first) + (rest)) + (rest)))

static ls_status fill_tiny(void *self, const ls_model_options *options) {
  return perceptron_fill(self, &(const int64_t){16}, 1, options);
}

static ls_status create_tiny(const ls_model_options *options, void **out_self) {
  return ls_classifier_create(sizeof(perceptron), options, fill_tiny,
                              perceptron_destroy, out_self);
}

const ls_model_type ls_model_tiny = {
    .name = "tiny",
    .description = "16 inputs, dense 16 relu, dense 4; SGD",
    .batch_size = 8,
    .epochs = 10,
    .learning_rate = 0.1,
    .example_shape = {.rank = 1, .dim = {16}},
    .num_classes = 4,
    .flops_per_example = PRODUCTS(16 * 16, 16 * 4),
    .create = create_tiny,
    .destroy = perceptron_destroy,
    .train_step = perceptron_train_step,
    .logits = perceptron_logits,
    .variables = perceptron_variables,
    .optimizer = ls_classifier_optimizer,
    .any_inputs = true,
    .any_task = true,
    .any_outputs = true,
};

static ls_status fill_mlp(void *self, const ls_model_options *options) {
  return perceptron_fill(self, (const int64_t[]){512, 512}, 2, options);
}

static ls_status create_mlp(const ls_model_options *options, void **out_self) {
  return ls_classifier_create(sizeof(perceptron), options, fill_mlp,
                              perceptron_destroy, out_self);
}

const ls_model_type ls_model_mlp = {
    .name = "mlp",
    .description = "784 inputs, dense 512 relu, dense 512 relu, dense 10; SGD",
    .batch_size = 256,
    .epochs = 20,
    .learning_rate = 0.1,
    .example_shape = {.rank = 1, .dim = {784}},
    .num_classes = 10,
    .flops_per_example = PRODUCTS(784 * 512, 512 * 512 + 512 * 10),
    .create = create_mlp,
    .destroy = perceptron_destroy,
    .train_step = perceptron_train_step,
    .logits = perceptron_logits,
    .variables = perceptron_variables,
    .optimizer = ls_classifier_optimizer,
    .any_inputs = true,
    .any_task = true,
    .any_outputs = true,
};
