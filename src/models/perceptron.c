// SPDX-License-Identifier: Apache-2.0
// mlp and tiny: dense layers with relu between, softmax cross-entropy, SGD.
#include <stdio.h>
#include <string.h>

#include "lockstep/nn.h"
#include "models/types.h"

enum { MAX_LAYERS = 3 };

typedef struct perceptron {
  ls_allocator *allocator;
  size_t num_layers;
  ls_dense_layer *layers[MAX_LAYERS];
  ls_optimizer *optimizer;
  bool metrics;
} perceptron;

static void destroy(void *self) {
  perceptron *net = self;
  if (net == NULL) return;
  for (size_t i = 0; i < net->num_layers; ++i)
    ls_dense_layer_destroy(net->layers[i]);
  ls_optimizer_release(net->optimizer);
  net->allocator->release(net->allocator, net);
}

// `sizes`: the input's, then each layer's.
static ls_status fill(perceptron *net, const int64_t *sizes,
                      const ls_model_options *options, double learning_rate) {
  for (size_t i = 0; i < net->num_layers; ++i) {
    const bool last = i + 1 == net->num_layers;
    char name[32] = "logits";
    if (!last) snprintf(name, sizeof(name), "hidden%zu", i + 1);
    LS_RETURN_IF_ERROR(ls_dense_layer_create(
        &(ls_dense_options){.name = name,
                            .inputs = sizes[i],
                            .units = sizes[i + 1],
                            .activation =
                                last ? LS_ACTIVATION_NONE : LS_ACTIVATION_RELU,
                            .seed = options->seed},
        &net->layers[i]));
  }
  if (options->learning_rate != 0) learning_rate = options->learning_rate;
  const ls_schedule schedule = {.kind = options->decay_steps > 0
                                             ? LS_SCHEDULE_LINEAR
                                             : LS_SCHEDULE_CONSTANT,
                                 .steps = options->decay_steps};
  return ls_sgd_create(&(ls_sgd_options){.learning_rate = learning_rate,
                                         .schedule = schedule},
                       &net->optimizer);
}

static ls_status create(const int64_t *sizes, size_t num_layers,
                        const ls_model_options *options, double learning_rate,
                        void **out_self) {
  *out_self = NULL;
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  perceptron *net = allocator->allocate(allocator, sizeof(*net), 16);
  if (net == NULL) return ls_out_of_memory();
  memset(net, 0, sizeof(*net));
  net->allocator = allocator;
  net->num_layers = num_layers;
  net->metrics = options->metrics;
  const ls_status status = fill(net, sizes, options, learning_rate);
  if (!ls_status_is_ok(status))
    destroy(net);
  else
    *out_self = net;
  return status;
}

static ls_tensor apply(const perceptron *net, ls_tensor x) {
  for (size_t i = 0; i < net->num_layers; ++i)
    x = ls_dense_layer_apply(net->layers[i], x);
  return x;
}

static ls_nest train_step(ls_nest args, void *self) {
  const perceptron *net = self;
  const ls_tensor labels = ls_nest_tensor(args, 1);
  const ls_tensor logits = apply(net, ls_nest_tensor(args, 0));
  const ls_tensor loss = ls_mean_softmax_cross_entropy(logits, labels);
  ls_optimizer_minimize(net->optimizer, loss);
  const char *const keys[] = {"loss", "accuracy"};
  ls_nest items[2] = {ls_leaf(loss)};
  if (net->metrics) items[1] = ls_leaf(ls_accuracy(logits, labels));
  return ls_nest_dict("", keys, items, net->metrics ? 2 : 1);
}

static ls_nest logits(ls_nest args, void *self) {
  return ls_leaf(apply(self, ls_nest_tensor(args, 0)));
}

static size_t variables(void *self, ls_variable **out, size_t capacity) {
  const perceptron *net = self;
  for (size_t i = 0; i < net->num_layers; ++i) {
    if (2 * i < capacity) out[2 * i] = ls_dense_layer_kernel(net->layers[i]);
    if (2 * i + 1 < capacity)
      out[2 * i + 1] = ls_dense_layer_bias(net->layers[i]);
  }
  return 2 * net->num_layers;
}

// ---- The two ---------------------------------------------------------------
// The products of one example: forward and the weights' gradients of all
// layers, and the inputs' gradients of all but the first.
#define PRODUCTS(first, rest) (2.0 * (2 * ((first) + (rest)) + (rest)))

static ls_status create_tiny(const ls_model_options *options, void **out_self) {
  static const int64_t sizes[] = {16, 16, 4};
  return create(sizes, 2, options, ls_model_tiny.learning_rate, out_self);
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
    .destroy = destroy,
    .train_step = train_step,
    .logits = logits,
    .variables = variables,
};

static ls_status create_mlp(const ls_model_options *options, void **out_self) {
  static const int64_t sizes[] = {784, 512, 512, 10};
  return create(sizes, 3, options, ls_model_mlp.learning_rate, out_self);
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
    .destroy = destroy,
    .train_step = train_step,
    .logits = logits,
    .variables = variables,
};
