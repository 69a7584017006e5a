// SPDX-License-Identifier: Apache-2.0
// unet: classes of pixels (Ronneberger et al., 2015). Three levels down to an
// eighth of the size and up again, where each level also sees the features of
// its size from the way down; softmax cross-entropy of all pixels, Adam.
#include <stdio.h>

#include "models/classifier.h"

enum { SIDE = 64, COLORS = 3, CLASSES = 21 };
// Levels below the full size, and channels at the full size, which double with
// each level.
enum { LEVELS = 3, FIRST_CHANNELS = 16 };

typedef struct conv_pair {
  ls_conv_layer *conv1, *conv2;
} conv_pair;

typedef struct unet {
  ls_classifier base;
  conv_pair down[LEVELS + 1];  // The last one is the bottom.
  ls_conv_layer *grow[LEVELS];
  conv_pair up[LEVELS];
  ls_conv_layer *logits;
} unet;

static void pair_destroy(conv_pair *pair) {
  ls_conv_layer_destroy(pair->conv1);
  ls_conv_layer_destroy(pair->conv2);
}

static void unet_destroy(void *self) {
  unet *net = self;
  if (net == NULL) return;
  for (int i = 0; i <= LEVELS; ++i)
    pair_destroy(&net->down[i]);
  for (int i = 0; i < LEVELS; ++i) {
    ls_conv_layer_destroy(net->grow[i]);
    pair_destroy(&net->up[i]);
  }
  ls_conv_layer_destroy(net->logits);
  ls_classifier_free(&net->base);
}

// ---- Making ----------------------------------------------------------------
// Creates layer `part` of level `level`, for example "down2/conv1".
static ls_status add_conv(const char *way, int level, const char *part,
                          int64_t channels, int64_t filters,
                          const ls_model_options *options,
                          ls_conv_layer **out_layer) {
  char name[48];
  snprintf(name, sizeof(name), "%s%d/%s", way, level + 1, part);
  return ls_conv_layer_create(
      &(ls_conv_options){.name = name,
                         .channels = channels,
                         .filters = filters,
                         .window = LS_SHAPE(3, 3),
                         .how = {.padding = LS_PADDING_SAME},
                         .activation = LS_ACTIVATION_RELU,
                         .dtype = options->dtype,
                         .kernel_initializer = ls_init_he_normal(),
                         .seed = options->seed},
      out_layer);
}

static ls_status pair_create(const char *way, int level, int64_t channels,
                             int64_t filters, const ls_model_options *options,
                             conv_pair *pair) {
  LS_RETURN_IF_ERROR(
      add_conv(way, level, "conv1", channels, filters, options, &pair->conv1));
  return add_conv(way, level, "conv2", filters, filters, options, &pair->conv2);
}

// Creates the transposed convolution that doubles the size, to level `level`.
static ls_status grow_create(int level, int64_t filters,
                             const ls_model_options *options,
                             ls_conv_layer **out_layer) {
  char name[48];
  snprintf(name, sizeof(name), "up%d/grow", level + 1);
  return ls_conv_layer_create(
      &(ls_conv_options){
          .name = name,
          .channels = 2 * filters,
          .filters = filters,
          .window = LS_SHAPE(2, 2),
          .how = {.strides = LS_SHAPE(2, 2), .padding = LS_PADDING_SAME},
          .transposed = true,
          .dtype = options->dtype,
          .seed = options->seed},
      out_layer);
}

static ls_status unet_fill(void *self, const ls_model_options *options) {
  unet *net = self;
  for (int i = 0; i <= LEVELS; ++i) {
    const int64_t filters = (int64_t)FIRST_CHANNELS << i;
    LS_RETURN_IF_ERROR(pair_create("down", i, i == 0 ? COLORS : filters / 2,
                                   filters, options, &net->down[i]));
  }
  for (int i = LEVELS - 1; i >= 0; --i) {
    const int64_t filters = (int64_t)FIRST_CHANNELS << i;
    LS_RETURN_IF_ERROR(grow_create(i, filters, options, &net->grow[i]));
    LS_RETURN_IF_ERROR(
        pair_create("up", i, 2 * filters, filters, options, &net->up[i]));
  }
  LS_RETURN_IF_ERROR(ls_conv_layer_create(
      &(ls_conv_options){.name = "logits",
                         .channels = FIRST_CHANNELS,
                         .filters = options->type->num_classes,
                         .window = LS_SHAPE(1, 1),
                         .dtype = options->dtype,
                         .seed = options->seed},
      &net->logits));
  return ls_classifier_use_adam(&net->base, options);
}

static ls_status unet_create(const ls_model_options *options, void **out_self) {
  return ls_classifier_create(sizeof(unet), options, unet_fill, unet_destroy,
                              out_self);
}

// ---- Step ------------------------------------------------------------------
static ls_tensor pair_apply(const conv_pair *pair, ls_tensor x) {
  return ls_conv_layer_apply(pair->conv2, ls_conv_layer_apply(pair->conv1, x));
}

static ls_tensor unet_apply(const unet *net, ls_nest args) {
  ls_tensor features[LEVELS];
  ls_tensor x = ls_classifier_examples(&net->base, args);
  for (int i = 0; i < LEVELS; ++i) {
    features[i] = pair_apply(&net->down[i], x);
    x = ls_max_pool(features[i], LS_SHAPE(2, 2), NULL);
  }
  x = pair_apply(&net->down[LEVELS], x);
  for (int i = LEVELS - 1; i >= 0; --i) {
    const ls_tensor both[] = {features[i],
                              ls_conv_layer_apply(net->grow[i], x)};
    x = pair_apply(&net->up[i], ls_concatenate(both, 2, -1));
  }
  return ls_conv_layer_apply(net->logits, x);
}

static ls_nest unet_train_step(ls_nest args, void *self) {
  const unet *net = self;
  return ls_classifier_step(&net->base, unet_apply(net, args), args);
}

static ls_nest unet_logits(ls_nest args, void *self) {
  return ls_leaf(unet_apply(self, args));
}

static size_t pair_variables(const conv_pair *pair, ls_variable **out) {
  const size_t count = ls_conv_layer_variables(pair->conv1, out, 2);
  return count + ls_conv_layer_variables(pair->conv2, out + count, 2);
}

// A layer has 2 variables: its kernel and its bias.
enum { MOST_VARIABLES = 2 * (2 * (LEVELS + 1) + 3 * LEVELS + 1) };

static size_t unet_variables(void *self, ls_variable **out, size_t capacity) {
  const unet *net = self;
  ls_variable *all[MOST_VARIABLES] = {NULL};
  size_t count = 0;
  for (int i = 0; i <= LEVELS; ++i)
    count += pair_variables(&net->down[i], all + count);
  for (int i = LEVELS - 1; i >= 0; --i) {
    count += ls_conv_layer_variables(net->grow[i], all + count, 2);
    count += pair_variables(&net->up[i], all + count);
  }
  count += ls_conv_layer_variables(net->logits, all + count, 2);
  return ls_classifier_list(all, count, out, capacity);
}

// ---- The row ---------------------------------------------------------------
// The products of one example: forward and the weights' gradients of all
// layers, and the inputs' gradients of all but the first. A 3x3 convolution
// between equally many channels costs the same on every level; one from half as
// many costs half of it, one of two levels' features twice as much, and the
// growth from the level below 2/9.
#define STEM (SIDE * SIDE * 9 * COLORS * FIRST_CHANNELS)
#define EVEN (SIDE * SIDE * 9.0 * FIRST_CHANNELS * FIRST_CHANNELS)
#define REST                                                                   \
  (EVEN * (1 + LEVELS * (1.5 + 3 + 2 / 9.0)) +                                 \
   SIDE * SIDE * FIRST_CHANNELS * CLASSES)

const ls_model_type ls_model_unet = {
    .name = "unet",
    .description = "64x64x3 images, a class of 21 for each pixel: U-Net of 4 "
                   "levels, 16 to 128 channels; Adam",
    .batch_size = 16,
    .epochs = 30,
    .learning_rate = 1e-3,
    .example_shape = {.rank = 3, .dim = {SIDE, SIDE, COLORS}},
    .label_shape = {.rank = 2, .dim = {SIDE, SIDE}},
    .num_classes = CLASSES,
    .task = &ls_task_pixels,
    .flops_per_example = 2.0 * (2 * STEM + 3 * REST),
    .create = unet_create,
    .destroy = unet_destroy,
    .train_step = unet_train_step,
    .logits = unet_logits,
    .variables = unet_variables,
    .optimizer = ls_classifier_optimizer,
    .any_outputs = true,
};
