// SPDX-License-Identifier: Apache-2.0
// Models for tools/gpu-check, as a library that the command loads: a large gpt,
// and mlp's net with a call of the host in each step, and without.
#include <stdlib.h>

#include "lockstep/full.h"
#include "lockstep/host.h"

// What all have: a bag of layers, and which layers have variables.
typedef struct net {
  ls_bag bag;
  ls_dtype dtype;
  ls_optimizer *optimizer;
  ls_variable *variables[256];
  size_t num_variables;
} net;

static ls_nest take_step(net *self, ls_tensor logits, ls_nest args) {
  const ls_tensor labels = ls_nest_tensor(args, 1);
  const ls_tensor loss =
      ls_mean_softmax_cross_entropy(ls_convert(logits, LS_DTYPE_F32), labels);
  ls_optimizer_minimize(self->optimizer, loss);
  const char *const keys[] = {"loss", "accuracy"};
  const ls_nest items[] = {ls_leaf(loss), ls_leaf(ls_accuracy(logits, labels))};
  return ls_nest_dict("", keys, items, 2);
}

static size_t list_variables(void *self, ls_variable **out, size_t capacity) {
  const net *n = self;
  for (size_t i = 0; i < n->num_variables && i < capacity; ++i)
    out[i] = n->variables[i];
  return n->num_variables;
}

static ls_optimizer *find_optimizer(void *self) {
  return ((net *)self)->optimizer;
}

static void destroy(void *self) {
  net *n = self;
  if (n == NULL) return;
  ls_bag_empty(&n->bag);
  free(n);
}

// Finishes what `self` has made: it, or the first failure of its bag.
static ls_status finish(net *self, void **out_self) {
  const ls_status status = ls_bag_take_error(&self->bag);
  *out_self = self;
  if (!ls_status_is_ok(status)) {
    destroy(self);
    *out_self = NULL;
  }
  return status;
}

// ---- A large gpt -----------------------------------------------------------
enum { TOKENS = 1024, VOCABULARY = 256, WIDTH = 768, BLOCKS = 12, HEADS = 12 };

typedef struct block {
  ls_norm_layer *norm1, *norm2;
  ls_attention_layer *attention;
  ls_dense_layer *up, *down;
} block;

typedef struct gpt {
  net base;
  ls_embedding_layer *embedding, *positions;
  block blocks[BLOCKS];
  ls_norm_layer *norm;
} gpt;

static void make_block(gpt *g, block *b) {
  ls_bag *bag = &g->base.bag;
  net *n = &g->base;
  const ls_dtype dtype = n->dtype;
  const ls_initializer small = ls_init_normal(0, 0.02);
  b->norm1 = ls_norm_layer_in(bag, .channels = WIDTH);
  b->attention = ls_attention_layer_in(
      bag, .width = WIDTH, .num_heads = HEADS, .causal = true, .no_bias = true,
      .dtype = dtype, .kernel_initializer = small);
  b->norm2 = ls_norm_layer_in(bag, .channels = WIDTH);
  b->up = ls_dense_layer_in(bag, .inputs = WIDTH, .units = 4 * WIDTH,
                            .no_bias = true, .dtype = dtype,
                            .kernel_initializer = small);
  b->down = ls_dense_layer_in(bag, .inputs = 4 * WIDTH, .units = WIDTH,
                              .no_bias = true, .dtype = dtype,
                              .kernel_initializer = small);
  if (b->down == NULL) return;
  ls_variable **out = n->variables;
  size_t count = n->num_variables;
  count += ls_norm_layer_variables(b->norm1, out + count, 2);
  count += ls_attention_layer_variables(b->attention, out + count, 2);
  count += ls_norm_layer_variables(b->norm2, out + count, 2);
  count += ls_dense_layer_variables(b->up, out + count, 1);
  n->num_variables = count + ls_dense_layer_variables(b->down, out + count, 1);
}

static ls_status gpt_create(const ls_model_options *options, void **out_self) {
  gpt *g = calloc(1, sizeof(*g));
  if (g == NULL) return ls_out_of_memory();
  net *n = &g->base;
  ls_bag *bag = &n->bag;
  const ls_initializer small = ls_init_normal(0, 0.02);
  n->dtype = options->dtype;
  g->embedding =
      ls_embedding_layer_in(bag, .rows = VOCABULARY, .width = WIDTH,
                            .dtype = options->dtype, .initializer = small);
  g->positions =
      ls_embedding_layer_in(bag, .rows = TOKENS, .width = WIDTH,
                            .dtype = options->dtype, .initializer = small);
  for (int i = 0; i < BLOCKS; ++i)
    make_block(g, &g->blocks[i]);
  g->norm = ls_norm_layer_in(bag, .channels = WIDTH);
  n->optimizer = ls_adam_in(bag, .learning_rate = options->learning_rate);
  if (n->optimizer != NULL) {
    ls_variable **out = n->variables;
    size_t count = n->num_variables;
    count += ls_embedding_layer_variables(g->embedding, out + count, 1);
    count += ls_embedding_layer_variables(g->positions, out + count, 1);
    n->num_variables = count + ls_norm_layer_variables(g->norm, out + count, 2);
  }
  return finish(n, out_self);
}

static ls_tensor gpt_apply(const gpt *g, ls_nest args) {
  ls_variable *positions = NULL;
  (void)ls_embedding_layer_variables(g->positions, &positions, 1);
  ls_tensor x =
      ls_add(ls_embedding_layer_apply(g->embedding, ls_nest_tensor(args, 0)),
             ls_variable_read(positions));
  for (int i = 0; i < BLOCKS; ++i) {
    const block *b = &g->blocks[i];
    x = ls_add(x, ls_attention_layer_apply(b->attention,
                                           ls_norm_layer_apply(b->norm1, x)));
    const ls_tensor up =
        ls_dense_layer_apply(b->up, ls_norm_layer_apply(b->norm2, x));
    x = ls_add(x, ls_dense_layer_apply(b->down, ls_gelu(up)));
  }
  return ls_embedding_layer_logits(g->embedding,
                                   ls_norm_layer_apply(g->norm, x));
}

static ls_nest gpt_step(ls_nest args, void *self) {
  return take_step(self, gpt_apply(self, args), args);
}

static ls_nest gpt_logits(ls_nest args, void *self) {
  return ls_leaf(gpt_apply(self, args));
}

#define KERNELS (12 * WIDTH * WIDTH)
#define PER_TOKEN (BLOCKS * (KERNELS + 2 * TOKENS * WIDTH) + WIDTH * VOCABULARY)

static const ls_model_type gpt_large = {
    .name = "gpt-large",
    .description = "1,024 tokens of 256, width 768, 12 causal blocks; Adam",
    .batch_size = 8,
    .epochs = 1,
    .learning_rate = 1e-3,
    .example_dtype = LS_DTYPE_I32,
    .example_shape = {.rank = 1, .dim = {TOKENS}},
    .label_shape = {.rank = 1, .dim = {TOKENS}},
    .num_classes = VOCABULARY,
    .flops_per_example = 2.0 * 3 * TOKENS * PER_TOKEN,
    .create = gpt_create,
    .destroy = destroy,
    .train_step = gpt_step,
    .logits = gpt_logits,
    .variables = list_variables,
    .optimizer = find_optimizer,
};

// ---- A net that calls the host ---------------------------------------------
enum { PIXELS = 784, UNITS = 512, CLASSES = 10 };

typedef struct perceptron {
  net base;
  ls_dense_layer *hidden, *logits;
} perceptron;

static ls_status perceptron_create(const ls_model_options *options,
                                   void **out_self) {
  perceptron *p = calloc(1, sizeof(*p));
  if (p == NULL) return ls_out_of_memory();
  net *n = &p->base;
  n->dtype = options->dtype;
  p->hidden = ls_dense_layer_in(&n->bag, .inputs = PIXELS, .units = UNITS,
                                .activation = LS_ACTIVATION_RELU,
                                .dtype = options->dtype);
  p->logits = ls_dense_layer_in(&n->bag, .inputs = UNITS, .units = CLASSES,
                                .dtype = options->dtype);
  n->optimizer = ls_sgd_in(&n->bag, .learning_rate = options->learning_rate);
  if (n->optimizer != NULL) {
    n->num_variables = ls_dense_layer_variables(p->hidden, n->variables, 2);
    n->num_variables +=
        ls_dense_layer_variables(p->logits, n->variables + n->num_variables, 2);
  }
  return finish(n, out_self);
}

static ls_status infer_same(const ls_object *state, const ls_type *in,
                            size_t num_in, ls_type *out, size_t *num_out) {
  (void)state, (void)num_in;
  out[0] = in[0];
  *num_out = 1;
  return ls_ok();
}

// Adds 0, so that the net learns what it learns without the call.
static ls_status start_copy(ls_host_call *call) {
  const float *x = call->inputs[0];
  float *y = call->outputs[0];
  const int64_t count = ls_shape_num_elements(call->input_types[0].shape);
  for (int64_t i = 0; i < count; ++i)
    y[i] = x[i] + 0.0F;
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel copy_kernel = {.name = "copy",
                                           .infer = infer_same,
                                           .start = start_copy,
                                           .flags = LS_HOST_INLINE};

static ls_tensor perceptron_apply(const perceptron *p, ls_tensor x) {
  return ls_dense_layer_apply(p->logits, ls_dense_layer_apply(p->hidden, x));
}

static ls_nest plain_step(ls_nest args, void *self) {
  return take_step(self, perceptron_apply(self, ls_nest_tensor(args, 0)), args);
}

// The host adds 0 to a value of the loss's size; 4 bytes each way.
static ls_nest hosted_step(ls_nest args, void *self) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor mean = ls_stop_gradient(ls_reduce_mean(x, LS_ALL_AXES));
  const ls_tensor same =
      ls_op_output(ls_host_call_add(&copy_kernel, NULL, &mean, 1), 0);
  return take_step(self, perceptron_apply(self, ls_add(x, ls_sub(same, mean))),
                   args);
}

static ls_nest perceptron_logits(ls_nest args, void *self) {
  return ls_leaf(perceptron_apply(self, ls_nest_tensor(args, 0)));
}

#define PERCEPTRON(id, text, step)                                             \
  static const ls_model_type id = {                                            \
      .name = text,                                                            \
      .description = "784 inputs, dense 512, dense 10; SGD",                   \
      .batch_size = 256,                                                       \
      .epochs = 1,                                                             \
      .learning_rate = 0.1,                                                    \
      .example_shape = {.rank = 1, .dim = {PIXELS}},                           \
      .num_classes = CLASSES,                                                  \
      .flops_per_example = 2.0 * 3 * UNITS * (PIXELS + CLASSES),               \
      .create = perceptron_create,                                             \
      .destroy = destroy,                                                      \
      .train_step = step,                                                      \
      .logits = perceptron_logits,                                             \
      .variables = list_variables,                                             \
      .optimizer = find_optimizer}
PERCEPTRON(plain, "plain", plain_step);
PERCEPTRON(hosted, "hosted", hosted_step);

LS_EXPORT_MODELS(&gpt_large, &plain, &hosted);
