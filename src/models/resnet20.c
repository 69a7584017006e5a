// SPDX-License-Identifier: Apache-2.0
// resnet20: the residual network of 20 layers for 32x32 images (He et al.,
// 2016); softmax cross-entropy, SGD with momentum.
#include <stdio.h>
#include <string.h>

#include "models/classifier.h"

enum { SIDE = 32, CLASSES = 10 };
enum { STAGES = 3, BLOCKS = 3, NUM_BLOCKS = STAGES * BLOCKS };
enum { FIRST_CHANNELS = 16, LAST_CHANNELS = FIRST_CHANNELS << (STAGES - 1) };

// A convolution without bias and its batch norm.
typedef struct conv_unit {
  ls_conv_layer *conv;
  ls_batch_norm_layer *norm;
} conv_unit;

// relu(unit2(unit1(x)) + x), where x goes through `projection` if there is one.
typedef struct residual_block {
  conv_unit unit1, unit2;
  ls_conv_layer *projection;
} residual_block;

typedef struct resnet {
  ls_classifier base;
  conv_unit stem;
  residual_block blocks[NUM_BLOCKS];
  ls_dense_layer *logits;
} resnet;

static void unit_destroy(conv_unit *unit) {
  ls_conv_layer_destroy(unit->conv);
  ls_batch_norm_layer_destroy(unit->norm);
}

static void resnet20_destroy(void *self) {
  resnet *net = self;
  if (net == NULL) return;
  unit_destroy(&net->stem);
  for (int i = 0; i < NUM_BLOCKS; ++i) {
    unit_destroy(&net->blocks[i].unit1);
    unit_destroy(&net->blocks[i].unit2);
    ls_conv_layer_destroy(net->blocks[i].projection);
  }
  ls_dense_layer_destroy(net->logits);
  ls_classifier_free(&net->base);
}

// ---- Making ----------------------------------------------------------------
typedef struct conv_size {
  int64_t window, channels, filters, stride;
} conv_size;

static ls_status conv_create(const char *name, conv_size size,
                             const ls_model_options *options,
                             ls_conv_layer **out_layer) {
  return ls_conv_layer_create(
      &(ls_conv_options){.name = name,
                         .channels = size.channels,
                         .filters = size.filters,
                         .window = LS_SHAPE(size.window, size.window),
                         .how = {.strides = LS_SHAPE(size.stride, size.stride),
                                 .padding = LS_PADDING_SAME},
                         .no_bias = true,
                         .dtype = options->dtype,
                         .kernel_initializer = ls_init_he_normal(),
                         .seed = options->seed},
      out_layer);
}

static ls_status unit_create(const char *name, conv_size size,
                             ls_activation activation,
                             const ls_model_options *options, conv_unit *unit) {
  char full[64];
  snprintf(full, sizeof(full), "%s/conv", name);
  LS_RETURN_IF_ERROR(conv_create(full, size, options, &unit->conv));
  snprintf(full, sizeof(full), "%s/norm", name);
  return ls_batch_norm_layer_create(
      &(ls_batch_norm_options){.name = full,
                               .channels = size.filters,
                               .momentum = 0.9,
                               .activation = activation,
                               .dtype = ls_classifier_norm_dtype(options)},
      &unit->norm);
}

// The first block of every stage but the first one halves the image and
// doubles the channels.
static ls_status block_create(int number, const ls_model_options *options,
                              residual_block *block) {
  const int stage = number / BLOCKS;
  const bool halves = stage > 0 && number % BLOCKS == 0;
  const int64_t filters = (int64_t)FIRST_CHANNELS << stage;
  const conv_size first = {3, halves ? filters / 2 : filters, filters,
                           halves ? 2 : 1};
  char name[48];
  snprintf(name, sizeof(name), "stage%d/block%d/unit1", stage + 1,
           number % BLOCKS + 1);
  LS_RETURN_IF_ERROR(
      unit_create(name, first, LS_ACTIVATION_RELU, options, &block->unit1));
  name[strlen(name) - 1] = '2';
  LS_RETURN_IF_ERROR(unit_create(name, (conv_size){3, filters, filters, 1},
                                 LS_ACTIVATION_NONE, options, &block->unit2));
  if (!halves) return ls_ok();
  snprintf(name, sizeof(name), "stage%d/projection", stage + 1);
  return conv_create(name, (conv_size){1, filters / 2, filters, 2}, options,
                     &block->projection);
}

static ls_status resnet20_fill(void *self, const ls_model_options *options) {
  resnet *net = self;
  LS_RETURN_IF_ERROR(unit_create("stem", (conv_size){3, 3, FIRST_CHANNELS, 1},
                                 LS_ACTIVATION_RELU, options, &net->stem));
  for (int i = 0; i < NUM_BLOCKS; ++i)
    LS_RETURN_IF_ERROR(block_create(i, options, &net->blocks[i]));
  LS_RETURN_IF_ERROR(
      ls_dense_layer_create(&(ls_dense_options){.name = "logits",
                                                .inputs = LAST_CHANNELS,
                                                .units = net->base.outputs,
                                                .dtype = options->dtype,
                                                .seed = options->seed},
                            &net->logits));
  return ls_classifier_use_sgd(&net->base, options, 0.9);
}

static ls_status resnet20_create(const ls_model_options *options,
                                 void **out_self) {
  return ls_classifier_create(sizeof(resnet), options, resnet20_fill,
                              resnet20_destroy, out_self);
}

// ---- Step ------------------------------------------------------------------
static ls_tensor unit_apply(const conv_unit *unit, ls_tensor x, bool training) {
  return ls_batch_norm_layer_apply(
      unit->norm, ls_conv_layer_apply(unit->conv, x), training);
}

static ls_tensor resnet20_apply(const resnet *net, ls_nest args,
                                bool training) {
  ls_tensor x = ls_classifier_examples(&net->base, args);
  x = unit_apply(&net->stem, x, training);
  for (int i = 0; i < NUM_BLOCKS; ++i) {
    const residual_block *block = &net->blocks[i];
    ls_tensor y = unit_apply(&block->unit1, x, training);
    y = unit_apply(&block->unit2, y, training);
    if (block->projection != NULL)
      x = ls_conv_layer_apply(block->projection, x);
    x = ls_relu(ls_add(y, x));
  }
  return ls_dense_layer_apply(net->logits, ls_reduce_mean(x, LS_AXES(1, 2)));
}

static ls_nest resnet20_train_step(ls_nest args, void *self) {
  const resnet *net = self;
  return ls_classifier_step(&net->base, resnet20_apply(net, args, true), args);
}

static ls_nest resnet20_logits(ls_nest args, void *self) {
  return ls_leaf(resnet20_apply(self, args, false));
}

static size_t unit_variables(const conv_unit *unit, ls_variable **out) {
  const size_t count = ls_conv_layer_variables(unit->conv, out, 1);
  return count + ls_batch_norm_layer_variables(unit->norm, out + count, 4);
}

// A unit has 5 variables: kernel, scale, offset and the two averages.
enum { MOST_VARIABLES = 5 * (1 + 2 * NUM_BLOCKS) + STAGES - 1 + 2 };

static size_t resnet20_variables(void *self, ls_variable **out,
                                 size_t capacity) {
  const resnet *net = self;
  ls_variable *all[MOST_VARIABLES] = {NULL};
  size_t count = unit_variables(&net->stem, all);
  for (int i = 0; i < NUM_BLOCKS; ++i) {
    const residual_block *block = &net->blocks[i];
    count += unit_variables(&block->unit1, all + count);
    count += unit_variables(&block->unit2, all + count);
    if (block->projection != NULL)
      count += ls_conv_layer_variables(block->projection, all + count, 1);
  }
  count += ls_dense_layer_variables(net->logits, all + count, 2);
  return ls_classifier_list(all, count, out, capacity);
}

// ---- The row ---------------------------------------------------------------
// The products of one example: forward and the weights' gradients of all
// layers, and the inputs' gradients of all but the first. A convolution
// between equally many channels costs the same in every stage, one that halves
// the image half of it, and a projection an 18th.
#define STEM (SIDE * SIDE * 9 * 3 * FIRST_CHANNELS)
#define EVEN (SIDE * SIDE * 9 * FIRST_CHANNELS * FIRST_CHANNELS)
#define REST                                                                   \
  (EVEN * (2 * NUM_BLOCKS - (STAGES - 1)) +                                    \
   (EVEN / 2 + EVEN / 18) * (STAGES - 1) + LAST_CHANNELS * CLASSES)

const ls_model_type ls_model_resnet20 = {
    .name = "resnet20",
    .description = "32x32x3 images, residual network of 20 layers with batch "
                   "norm; SGD with momentum",
    .batch_size = 64,
    .epochs = 30,
    .learning_rate = 0.1,
    .example_shape = {.rank = 3, .dim = {SIDE, SIDE, 3}},
    .num_classes = CLASSES,
    .flops_per_example = 2.0 * (2 * STEM + 3 * REST),
    .create = resnet20_create,
    .destroy = resnet20_destroy,
    .train_step = resnet20_train_step,
    .logits = resnet20_logits,
    .variables = resnet20_variables,
    .optimizer = ls_classifier_optimizer,
    .any_task = true,
    .any_outputs = true,
};
