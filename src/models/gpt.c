// SPDX-License-Identifier: Apache-2.0
// gpt: a transformer that predicts the next token of a text, with layer norm
// before each part (Radford et al., 2019) and an output tied to the embedding;
// mean softmax cross-entropy over all tokens, Adam.
#include "models/classifier.h"

enum { TOKENS = 128, VOCABULARY = 256, WIDTH = 256 };
enum { BLOCKS = 4, HEADS = 4, INNER = 4 * WIDTH };
static const char *const block_names[BLOCKS] = {"block1", "block2", "block3",
                                                "block4"};

// x + attention(norm1(x)), then x + down(gelu(up(norm2(x)))).
typedef struct gpt_block {
  ls_norm_layer *norm1, *norm2;
  ls_attention_layer *attention;
  ls_dense_layer *up, *down;
} gpt_block;

typedef struct gpt {
  ls_classifier base;
  ls_embedding_layer *embedding;
  ls_variable *positions;  // [TOKENS, WIDTH]
  gpt_block blocks[BLOCKS];
  ls_norm_layer *norm;
} gpt;

static void gpt_destroy(void *self) {
  gpt *net = self;
  if (net == NULL) return;
  ls_embedding_layer_destroy(net->embedding);
  ls_variable_release(net->positions);
  for (int i = 0; i < BLOCKS; ++i) {
    const gpt_block *block = &net->blocks[i];
    ls_norm_layer_destroy(block->norm1);
    ls_norm_layer_destroy(block->norm2);
    ls_attention_layer_destroy(block->attention);
    ls_dense_layer_destroy(block->up);
    ls_dense_layer_destroy(block->down);
  }
  ls_norm_layer_destroy(net->norm);
  ls_classifier_free(&net->base);
}

// ---- Making ----------------------------------------------------------------
static ls_initializer small(void) { return ls_init_normal(0, 0.02); }

static ls_status add_norm(const char *name, const ls_model_options *options,
                          ls_norm_layer **out_layer) {
  return ls_norm_layer_create(
      &(ls_norm_options){.name = name,
                         .channels = WIDTH,
                         .dtype = ls_classifier_norm_dtype(options)},
      out_layer);
}

static ls_status add_dense(const char *name, int64_t inputs, int64_t units,
                           const ls_model_options *options,
                           ls_dense_layer **out_layer) {
  return ls_dense_layer_create(
      &(ls_dense_options){.name = name,
                          .inputs = inputs,
                          .units = units,
                          .no_bias = true,
                          .dtype = options->dtype,
                          .kernel_initializer = small(),
                          .seed = options->seed},
      out_layer);
}

static ls_status fill_block(const ls_model_options *options, gpt_block *block) {
  LS_RETURN_IF_ERROR(add_norm("norm1", options, &block->norm1));
  LS_RETURN_IF_ERROR(ls_attention_layer_create(
      &(ls_attention_layer_options){.width = WIDTH,
                                    .num_heads = HEADS,
                                    .causal = true,
                                    .no_bias = true,
                                    .dtype = options->dtype,
                                    .kernel_initializer = small(),
                                    .seed = options->seed},
      &block->attention));
  LS_RETURN_IF_ERROR(add_norm("norm2", options, &block->norm2));
  LS_RETURN_IF_ERROR(add_dense("up", WIDTH, INNER, options, &block->up));
  return add_dense("down", INNER, WIDTH, options, &block->down);
}

static ls_status gpt_fill(void *self, const ls_model_options *options) {
  gpt *net = self;
  LS_RETURN_IF_ERROR(
      ls_embedding_layer_create(&(ls_embedding_options){.rows = VOCABULARY,
                                                        .width = WIDTH,
                                                        .dtype = options->dtype,
                                                        .initializer = small(),
                                                        .seed = options->seed},
                                &net->embedding));
  LS_RETURN_IF_ERROR(
      ls_weight_create(&(ls_weight_options){.name = "positions",
                                            .shape = LS_SHAPE(TOKENS, WIDTH),
                                            .dtype = options->dtype,
                                            .initializer = small(),
                                            .seed = options->seed},
                       &net->positions));
  for (int i = 0; i < BLOCKS; ++i) {
    {
      LS_NAME_SCOPE(block_names[i]);
      LS_RETURN_IF_ERROR(fill_block(options, &net->blocks[i]));
    }
  }
  LS_RETURN_IF_ERROR(add_norm("norm", options, &net->norm));
  return ls_classifier_use_adam(&net->base, options);
}

static ls_status gpt_create(const ls_model_options *options, void **out_self) {
  return ls_classifier_create(sizeof(gpt), options, gpt_fill, gpt_destroy,
                              out_self);
}

// ---- Step ------------------------------------------------------------------
static ls_tensor block_apply(const gpt_block *block, ls_tensor x) {
  ls_tensor y = ls_norm_layer_apply(block->norm1, x);
  x = ls_add(x, ls_attention_layer_apply(block->attention, y));
  y = ls_norm_layer_apply(block->norm2, x);
  y = ls_gelu(ls_dense_layer_apply(block->up, y));
  return ls_add(x, ls_dense_layer_apply(block->down, y));
}

static ls_tensor gpt_apply(const gpt *net, ls_nest args) {
  const ls_tensor tokens = ls_nest_tensor(args, 0);
  const ls_tensor positions = ls_variable_read(net->positions);
  ls_tensor x =
      ls_add(ls_embedding_layer_apply(net->embedding, tokens), positions);
  for (int i = 0; i < BLOCKS; ++i) {
    {
      LS_NAME_SCOPE(block_names[i]);
      x = block_apply(&net->blocks[i], x);
    }
  }
  x = ls_norm_layer_apply(net->norm, x);
  return ls_embedding_layer_logits(net->embedding, x);
}

static ls_nest gpt_train_step(ls_nest args, void *self) {
  const gpt *net = self;
  return ls_classifier_step(&net->base, gpt_apply(net, args), args);
}

static ls_nest gpt_logits(ls_nest args, void *self) {
  return ls_leaf(gpt_apply(self, args));
}

static size_t block_variables(const gpt_block *block, ls_variable **out) {
  size_t count = ls_norm_layer_variables(block->norm1, out, 2);
  count += ls_attention_layer_variables(block->attention, out + count, 2);
  count += ls_norm_layer_variables(block->norm2, out + count, 2);
  count += ls_dense_layer_variables(block->up, out + count, 1);
  return count + ls_dense_layer_variables(block->down, out + count, 1);
}

// A block has 8 variables: two norms of 2, and 4 kernels.
enum { MOST_VARIABLES = 2 + 8 * BLOCKS + 2 };

static size_t gpt_variables(void *self, ls_variable **out, size_t capacity) {
  const gpt *net = self;
  ls_variable *all[MOST_VARIABLES] = {NULL};
  size_t count = ls_embedding_layer_variables(net->embedding, all, 1);
  all[count++] = net->positions;
  for (int i = 0; i < BLOCKS; ++i)
    count += block_variables(&net->blocks[i], all + count);
  count += ls_norm_layer_variables(net->norm, all + count, 2);
  return ls_classifier_list(all, count, out, capacity);
}

// ---- The row ---------------------------------------------------------------
// Products of one token, forward: in a block those of the four kernels, and its
// scores with all tokens and their weighted sum, as if none were masked; then
// the logits. Backward, each operand's gradient costs as much again.
#define KERNELS (WIDTH * 3 * WIDTH + WIDTH * WIDTH + 2 * WIDTH * INNER)
#define SCORES (2 * TOKENS * WIDTH)
#define PER_TOKEN (BLOCKS * (KERNELS + SCORES) + WIDTH * VOCABULARY)

const ls_model_type ls_model_gpt = {
    .name = "gpt",
    .description = "128 tokens of 256, width 256, 4 causal transformer blocks "
                   "of 4 heads, tied embedding; Adam",
    .batch_size = 16,
    .epochs = 3,
    .learning_rate = 1e-3,
    .example_dtype = LS_DTYPE_I32,
    .example_shape = {.rank = 1, .dim = {TOKENS}},
    .label_shape = {.rank = 1, .dim = {TOKENS}},
    .num_classes = VOCABULARY,
    .flops_per_example = 2.0 * 3 * TOKENS * PER_TOKEN,
    .create = gpt_create,
    .destroy = gpt_destroy,
    .train_step = gpt_train_step,
    .logits = gpt_logits,
    .variables = gpt_variables,
    .optimizer = ls_classifier_optimizer,
};
