// SPDX-License-Identifier: Apache-2.0
// cnn: two convolutions, a pool and two dense layers; Adam.
#include "models/classifier.h"

// Height and width of the images, and after the pool.
enum { SIDE = 28, POOLED = SIDE / 2 };
// Channels after each convolution, and units of the hidden dense layer.
enum { FIRST = 32, SECOND = 64, HIDDEN = 128, CLASSES = 10 };
enum { FEATURES = POOLED * POOLED * SECOND };

typedef struct cnn {
  ls_classifier base;
  ls_conv_layer *conv1, *conv2;
  ls_dense_layer *hidden, *logits;
} cnn;

static void cnn_destroy(void *self) {
  cnn *net = self;
  if (net == NULL) return;
  ls_conv_layer_destroy(net->conv1);
  ls_conv_layer_destroy(net->conv2);
  ls_dense_layer_destroy(net->hidden);
  ls_dense_layer_destroy(net->logits);
  ls_classifier_free(&net->base);
}

static ls_status add_conv(const char *name, int64_t channels, int64_t filters,
                          const ls_model_options *options,
                          ls_conv_layer **out_layer) {
  return ls_conv_layer_create(
      &(ls_conv_options){.name = name,
                         .channels = channels,
                         .filters = filters,
                         .window = LS_SHAPE(3, 3),
                         .how = {.padding = LS_PADDING_SAME},
                         .activation = LS_ACTIVATION_RELU,
                         .dtype = options->dtype,
                         .seed = options->seed},
      out_layer);
}

static ls_status cnn_fill(void *self, const ls_model_options *options) {
  cnn *net = self;
  LS_RETURN_IF_ERROR(add_conv("conv1", 1, FIRST, options, &net->conv1));
  LS_RETURN_IF_ERROR(add_conv("conv2", FIRST, SECOND, options, &net->conv2));
  LS_RETURN_IF_ERROR(ls_dense_layer_create(
      &(ls_dense_options){.name = "hidden",
                          .inputs = FEATURES,
                          .units = HIDDEN,
                          .activation = LS_ACTIVATION_RELU,
                          .dtype = options->dtype,
                          .seed = options->seed},
      &net->hidden));
  LS_RETURN_IF_ERROR(
      ls_dense_layer_create(&(ls_dense_options){.name = "logits",
                                                .inputs = HIDDEN,
                                                .units = net->base.outputs,
                                                .dtype = options->dtype,
                                                .seed = options->seed},
                            &net->logits));
  return ls_classifier_use_adam(&net->base, options);
}

static ls_status cnn_create(const ls_model_options *options, void **out_self) {
  return ls_classifier_create(sizeof(cnn), options, cnn_fill, cnn_destroy,
                              out_self);
}

static ls_tensor cnn_apply(const cnn *net, ls_nest args) {
  ls_tensor x = ls_classifier_examples(&net->base, args);
  x = ls_conv_layer_apply(net->conv1, x);
  x = ls_conv_layer_apply(net->conv2, x);
  x = ls_max_pool(x, LS_SHAPE(2, 2), NULL);
  x = ls_reshape(x, LS_SHAPE(-1, FEATURES));
  x = ls_dense_layer_apply(net->hidden, x);
  return ls_dense_layer_apply(net->logits, x);
}

static ls_nest cnn_train_step(ls_nest args, void *self) {
  const cnn *net = self;
  return ls_classifier_step(&net->base, cnn_apply(net, args), args);
}

static ls_nest cnn_logits(ls_nest args, void *self) {
  return ls_leaf(cnn_apply(self, args));
}

static size_t cnn_variables(void *self, ls_variable **out, size_t capacity) {
  const cnn *net = self;
  ls_variable *all[8] = {NULL};
  size_t count = 0;
  count += ls_conv_layer_variables(net->conv1, all + count, 2);
  count += ls_conv_layer_variables(net->conv2, all + count, 2);
  count += ls_dense_layer_variables(net->hidden, all + count, 2);
  count += ls_dense_layer_variables(net->logits, all + count, 2);
  return ls_classifier_list(all, count, out, capacity);
}

// Multiplications and additions of one example: forward and the weights'
// gradients of all layers, and the inputs' gradients of all but the first.
#define PRODUCTS                                                               \
  (2.0 * (2 * (SIDE * SIDE * 9 * FIRST) +                                      \
          3 * (SIDE * SIDE * 9 * FIRST * SECOND + FEATURES * HIDDEN +          \
               HIDDEN * CLASSES)))

const ls_model_type ls_model_cnn = {
    .name = "cnn",
    .description = "28x28x1 images, conv 3x3x32 relu, conv 3x3x64 relu, max "
                   "pool 2x2, dense 128 relu, dense 10; Adam",
    .batch_size = 128,
    .epochs = 5,
    .learning_rate = 1e-3,
    .example_shape = {.rank = 3, .dim = {SIDE, SIDE, 1}},
    .num_classes = CLASSES,
    .flops_per_example = PRODUCTS,
    .create = cnn_create,
    .destroy = cnn_destroy,
    .train_step = cnn_train_step,
    .logits = cnn_logits,
    .variables = cnn_variables,
    .optimizer = ls_classifier_optimizer,
    .any_task = true,
    .any_outputs = true,
};
