// SPDX-License-Identifier: Apache-2.0
// Tiny language models of a user's, with public headers only: a causal
// attention layer between an embedding and the logits by the same table.
#include <stdlib.h>

#include "lockstep/lockstep.h"

enum { TOKENS = 16, WIDTH = 16 };

typedef struct language {
  ls_embedding_layer *embedding;
  ls_attention_layer *attention;
  ls_optimizer *optimizer;
} language;

static void destroy(void *self) {
  language *net = self;
  if (net == NULL) return;
  ls_embedding_layer_destroy(net->embedding);
  ls_attention_layer_destroy(net->attention);
  ls_optimizer_release(net->optimizer);
  free(net);
}

static ls_status fill(language *net, const ls_model_options *options) {
  LS_RETURN_IF_ERROR(ls_embedding_layer_create(
      &(ls_embedding_options){.rows = options->type->num_classes,
                              .width = WIDTH,
                              .initializer = ls_init_normal(0, 0.3),
                              .seed = options->seed},
      &net->embedding));
  LS_RETURN_IF_ERROR(ls_attention_layer_create(
      &(ls_attention_layer_options){.width = WIDTH,
                                    .num_heads = 2,
                                    .causal = options->type->num_classes != 128,
                                    .no_bias = true,
                                    .seed = options->seed},
      &net->attention));
  if (options->optimizer == NULL)
    return ls_adam_create(
        &(ls_adam_options){.learning_rate = options->learning_rate},
        &net->optimizer);
  net->optimizer = ls_optimizer_retain(options->optimizer);
  return ls_ok();
}

static ls_status create(const ls_model_options *options, void **out_self) {
  language *net = calloc(1, sizeof(*net));
  if (net == NULL) return ls_out_of_memory();
  const ls_status status = fill(net, options);
  if (!ls_status_is_ok(status))
    destroy(net);
  else
    *out_self = net;
  return status;
}

static ls_tensor apply(const language *net, ls_nest args) {
  const ls_tensor x =
      ls_embedding_layer_apply(net->embedding, ls_nest_tensor(args, 0));
  return ls_embedding_layer_logits(net->embedding,
                                   ls_attention_layer_apply(net->attention, x));
}

static ls_nest train_step(ls_nest args, void *self) {
  const language *net = self;
  const ls_tensor labels = ls_nest_tensor(args, 1), logits = apply(net, args);
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
  const language *net = self;
  ls_variable *all[3] = {NULL};
  size_t count = ls_embedding_layer_variables(net->embedding, all, 1);
  count += ls_attention_layer_variables(net->attention, all + count, 2);
  for (size_t i = 0; i < count && i < capacity; ++i)
    out[i] = all[i];
  return count;
}

static ls_optimizer *optimizer(void *self) {
  return ((language *)self)->optimizer;
}

#define LANGUAGE_MODEL(model_name, classes)                                    \
  static const ls_model_type model_name = {                                    \
      .name = #model_name,                                                     \
      .batch_size = 8,                                                         \
      .epochs = 1,                                                             \
      .learning_rate = 0.03,                                                   \
      .example_dtype = LS_DTYPE_I32,                                           \
      .example_shape = {.rank = 1, .dim = {TOKENS}},                           \
      .label_shape = {.rank = 1, .dim = {TOKENS}},                             \
      .num_classes = (classes),                                                \
      .create = create,                                                        \
      .destroy = destroy,                                                      \
      .train_step = train_step,                                                \
      .logits = logits,                                                        \
      .variables = variables,                                                  \
      .optimizer = optimizer,                                                  \
  }
LANGUAGE_MODEL(words, 256);
LANGUAGE_MODEL(ascii, 128);  // Its logits depend on bytes to come.
LANGUAGE_MODEL(few, 8);

LS_EXPORT_MODELS(&words, &ascii, &few);
