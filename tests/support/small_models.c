// SPDX-License-Identifier: Apache-2.0
#include "support/small_models.h"

#include "lockstep/bag.h"
#include "models/classifier.h"

enum { MOST_VARIABLES = 32 };

// What all three begin with. The bag owns the layers.
typedef struct small_net {
  ls_classifier base;
  ls_bag bag;
} small_net;

static void destroy(void *self) {
  small_net *net = self;
  if (net == NULL) return;
  ls_bag_empty(&net->bag);
  ls_classifier_free(&net->base);
}

// ---- mlp -------------------------------------------------------------------
typedef struct mlp_net {
  small_net net;
  ls_dense_layer *first, *second, *logits;
} mlp_net;

static ls_status mlp_fill(void *self, const ls_model_options *options) {
  mlp_net *mlp = self;
  ls_bag *bag = &mlp->net.bag;
  mlp->first = ls_dense_layer_in(bag, .name = "first", .inputs = 64,
                                 .units = 256, .activation = LS_ACTIVATION_RELU,
                                 .seed = options->seed);
  mlp->second = ls_dense_layer_in(
      bag, .name = "second", .inputs = 256, .units = 128,
      .activation = LS_ACTIVATION_RELU, .seed = options->seed);
  mlp->logits = ls_dense_layer_in(bag, .name = "logits", .inputs = 128,
                                  .units = 10, .seed = options->seed);
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  return ls_classifier_use_sgd(&mlp->net.base, options, 0.5);
}

static ls_status mlp_create(const ls_model_options *options, void **out_self) {
  return ls_classifier_create(sizeof(mlp_net), options, mlp_fill, destroy,
                              out_self);
}

static ls_tensor mlp_apply(const mlp_net *mlp, ls_nest args) {
  ls_tensor x = ls_classifier_examples(&mlp->net.base, args);
  x = ls_reshape(x, LS_SHAPE(-1, 64));
  x = ls_dense_layer_apply(mlp->first, x);
  x = ls_dense_layer_apply(mlp->second, x);
  return ls_dense_layer_apply(mlp->logits, x);
}

static ls_nest mlp_train_step(ls_nest args, void *self) {
  const mlp_net *mlp = self;
  return ls_classifier_step(&mlp->net.base, mlp_apply(mlp, args), args);
}

static ls_nest mlp_logits(ls_nest args, void *self) {
  return ls_leaf(mlp_apply(self, args));
}

static size_t mlp_variables(void *self, ls_variable **out, size_t capacity) {
  const mlp_net *mlp = self;
  ls_variable *all[MOST_VARIABLES];
  size_t count = ls_dense_layer_variables(mlp->first, all, 2);
  count += ls_dense_layer_variables(mlp->second, all + count, 2);
  count += ls_dense_layer_variables(mlp->logits, all + count, 2);
  return ls_classifier_list(all, count, out, capacity);
}

const ls_model_type small_mlp = {
    .name = "small_mlp",
    .learning_rate = 0.05,
    .example_shape = {.rank = 3, .dim = {8, 8, 1}},
    .num_classes = 10,
    .create = mlp_create,
    .destroy = destroy,
    .train_step = mlp_train_step,
    .logits = mlp_logits,
    .variables = mlp_variables,
    .optimizer = ls_classifier_optimizer,
};

// ---- cnn -------------------------------------------------------------------
typedef struct cnn_net {
  small_net net;
  ls_conv_layer *conv1, *conv2;
  ls_dense_layer *hidden, *logits;
} cnn_net;

static ls_status cnn_fill(void *self, const ls_model_options *options) {
  cnn_net *cnn = self;
  ls_bag *bag = &cnn->net.bag;
  const ls_convolution_options same = {.padding = LS_PADDING_SAME};
  cnn->conv1 =
      ls_conv_layer_in(bag, .name = "conv1", .channels = 1, .filters = 16,
                       .window = LS_SHAPE(3, 3), .how = same,
                       .activation = LS_ACTIVATION_RELU, .seed = options->seed);
  cnn->conv2 =
      ls_conv_layer_in(bag, .name = "conv2", .channels = 16, .filters = 16,
                       .window = LS_SHAPE(3, 3), .how = same,
                       .activation = LS_ACTIVATION_RELU, .seed = options->seed);
  cnn->hidden = ls_dense_layer_in(bag, .name = "hidden", .inputs = 256,
                                  .units = 64, .activation = LS_ACTIVATION_RELU,
                                  .seed = options->seed);
  cnn->logits = ls_dense_layer_in(bag, .name = "logits", .inputs = 64,
                                  .units = 10, .seed = options->seed);
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  return ls_classifier_use_adam(&cnn->net.base, options);
}

static ls_status cnn_create(const ls_model_options *options, void **out_self) {
  return ls_classifier_create(sizeof(cnn_net), options, cnn_fill, destroy,
                              out_self);
}

static ls_tensor cnn_apply(const cnn_net *cnn, ls_nest args, bool training) {
  ls_tensor x = ls_classifier_examples(&cnn->net.base, args);
  x = ls_conv_layer_apply(cnn->conv1, x);
  x = ls_conv_layer_apply(cnn->conv2, x);
  x = ls_reshape(ls_max_pool(x, LS_SHAPE(2, 2), NULL), LS_SHAPE(-1, 256));
  x = ls_dropout(x, 0.25, training, NULL);
  x = ls_dense_layer_apply(cnn->hidden, x);
  x = ls_dropout(x, 0.5, training, NULL);
  return ls_dense_layer_apply(cnn->logits, x);
}

static ls_nest cnn_train_step(ls_nest args, void *self) {
  const cnn_net *cnn = self;
  return ls_classifier_step(&cnn->net.base, cnn_apply(cnn, args, true), args);
}

static ls_nest cnn_logits(ls_nest args, void *self) {
  return ls_leaf(cnn_apply(self, args, false));
}

static size_t cnn_variables(void *self, ls_variable **out, size_t capacity) {
  const cnn_net *cnn = self;
  ls_variable *all[MOST_VARIABLES];
  size_t count = ls_conv_layer_variables(cnn->conv1, all, 2);
  count += ls_conv_layer_variables(cnn->conv2, all + count, 2);
  count += ls_dense_layer_variables(cnn->hidden, all + count, 2);
  count += ls_dense_layer_variables(cnn->logits, all + count, 2);
  return ls_classifier_list(all, count, out, capacity);
}

const ls_model_type small_cnn = {
    .name = "small_cnn",
    .learning_rate = 0.01,
    .example_shape = {.rank = 3, .dim = {8, 8, 1}},
    .num_classes = 10,
    .create = cnn_create,
    .destroy = destroy,
    .train_step = cnn_train_step,
    .logits = cnn_logits,
    .variables = cnn_variables,
    .optimizer = ls_classifier_optimizer,
};

// ---- gpt -------------------------------------------------------------------
enum { TOKENS = 8, VOCABULARY = 32, WIDTH = 32, BLOCKS = 2 };

typedef struct gpt_block {
  ls_norm_layer *norm1, *norm2;
  ls_attention_layer *attention;
  ls_dense_layer *up, *down;
} gpt_block;

typedef struct gpt_net {
  small_net net;
  ls_embedding_layer *embedding;
  ls_variable *positions;
  gpt_block blocks[BLOCKS];
  ls_norm_layer *norm;
} gpt_net;

static void fill_block(ls_bag *bag, int64_t seed, gpt_block *block) {
  block->norm1 = ls_norm_layer_in(bag, .name = "norm1", .channels = WIDTH);
  block->attention = ls_attention_layer_in(bag, .width = WIDTH, .num_heads = 2,
                                           .causal = true, .seed = seed);
  block->norm2 = ls_norm_layer_in(bag, .name = "norm2", .channels = WIDTH);
  block->up = ls_dense_layer_in(bag, .name = "up", .inputs = WIDTH,
                                .units = 2 * WIDTH, .seed = seed);
  block->down = ls_dense_layer_in(bag, .name = "down", .inputs = 2 * WIDTH,
                                  .units = WIDTH, .seed = seed);
}

static void release_variable(void *variable) { ls_variable_release(variable); }

static ls_status gpt_fill(void *self, const ls_model_options *options) {
  static const char *const names[BLOCKS] = {"block1", "block2"};
  gpt_net *gpt = self;
  ls_bag *bag = &gpt->net.bag;
  gpt->embedding = ls_embedding_layer_in(bag, .rows = VOCABULARY,
                                         .width = WIDTH, .seed = options->seed);
  ls_status status = ls_weight_create(
      &(ls_weight_options){.name = "positions",
                           .shape = LS_SHAPE(TOKENS, WIDTH),
                           .initializer = ls_init_normal(0, 0.02),
                           .seed = options->seed},
      &gpt->positions);
  ls_bag_keep(bag, status, gpt->positions, release_variable);
  for (int i = 0; i < BLOCKS; ++i) {
    LS_NAME_SCOPE(names[i]);
    fill_block(bag, options->seed, &gpt->blocks[i]);
  }
  gpt->norm = ls_norm_layer_in(bag, .channels = WIDTH);
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  return ls_classifier_use_adam(&gpt->net.base, options);
}

static ls_status gpt_create(const ls_model_options *options, void **out_self) {
  return ls_classifier_create(sizeof(gpt_net), options, gpt_fill, destroy,
                              out_self);
}

static ls_tensor block_apply(const gpt_block *block, ls_tensor x) {
  ls_tensor y = ls_norm_layer_apply(block->norm1, x);
  x = ls_add(x, ls_attention_layer_apply(block->attention, y));
  y = ls_norm_layer_apply(block->norm2, x);
  y = ls_gelu(ls_dense_layer_apply(block->up, y));
  return ls_add(x, ls_dense_layer_apply(block->down, y));
}

static ls_tensor gpt_apply(const gpt_net *gpt, ls_nest args) {
  const ls_tensor tokens = ls_nest_tensor(args, 0);
  ls_tensor x = ls_add(ls_embedding_layer_apply(gpt->embedding, tokens),
                       ls_variable_read(gpt->positions));
  for (int i = 0; i < BLOCKS; ++i)
    x = block_apply(&gpt->blocks[i], x);
  x = ls_norm_layer_apply(gpt->norm, x);
  return ls_embedding_layer_logits(gpt->embedding, x);
}

static ls_nest gpt_train_step(ls_nest args, void *self) {
  const gpt_net *gpt = self;
  return ls_classifier_step(&gpt->net.base, gpt_apply(gpt, args), args);
}

static ls_nest gpt_logits(ls_nest args, void *self) {
  return ls_leaf(gpt_apply(self, args));
}

static size_t gpt_variables(void *self, ls_variable **out, size_t capacity) {
  const gpt_net *gpt = self;
  ls_variable *all[MOST_VARIABLES];
  size_t count = ls_embedding_layer_variables(gpt->embedding, all, 1);
  all[count++] = gpt->positions;
  for (int i = 0; i < BLOCKS; ++i) {
    const gpt_block *block = &gpt->blocks[i];
    count += ls_norm_layer_variables(block->norm1, all + count, 2);
    count += ls_attention_layer_variables(block->attention, all + count, 4);
    count += ls_norm_layer_variables(block->norm2, all + count, 2);
    count += ls_dense_layer_variables(block->up, all + count, 2);
    count += ls_dense_layer_variables(block->down, all + count, 2);
  }
  count += ls_norm_layer_variables(gpt->norm, all + count, 2);
  return ls_classifier_list(all, count, out, capacity);
}

const ls_model_type small_gpt = {
    .name = "small_gpt",
    .learning_rate = 0.003,
    .example_dtype = LS_DTYPE_I32,
    .example_shape = {.rank = 1, .dim = {TOKENS}},
    .label_shape = {.rank = 1, .dim = {TOKENS}},
    .num_classes = VOCABULARY,
    .create = gpt_create,
    .destroy = destroy,
    .train_step = gpt_train_step,
    .logits = gpt_logits,
    .variables = gpt_variables,
    .optimizer = ls_classifier_optimizer,
};
