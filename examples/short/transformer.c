// SPDX-License-Identifier: Apache-2.0
// A small transformer learns to reverse a sequence: an embedding of tokens and
// one of positions, attention, and a dense layer, with residuals and norms.
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { TOKENS = 8, LENGTH = 6, WIDTH = 32, BATCH = 32, STEPS = 250 };

typedef struct transformer {
  ls_embedding_layer *tokens, *positions;
  ls_norm_layer *norm;
  ls_attention_layer *attention;
  ls_dense_layer *output;
  ls_optimizer *optimizer;
} transformer;

static ls_nest step(ls_nest args, void *user) {
  const transformer *t = user;
  (void)args;
  const ls_tensor text = ls_convert(
      ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(BATCH, LENGTH), 0, TOKENS, NULL),
      LS_DTYPE_I32);
  const ls_tensor places = ls_iota(LS_DTYPE_I32, LS_SHAPE(BATCH, LENGTH), 1);
  const ls_tensor x = ls_add(ls_embedding_layer_apply(t->tokens, text),
                             ls_embedding_layer_apply(t->positions, places));
  const ls_tensor y =
      ls_add(x, ls_attention_layer_apply(t->attention,
                                         ls_norm_layer_apply(t->norm, x)));
  const ls_tensor loss = ls_mean_softmax_cross_entropy(
      ls_dense_layer_apply(t->output, y), ls_reverse(text, LS_AXES(1)));
  ls_optimizer_minimize(t->optimizer, loss);
  return ls_leaf(loss);
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  transformer t = {
      .tokens = ls_embedding_layer_in(bag, .name = "tokens", .rows = TOKENS,
                                      .width = WIDTH,
                                      .initializer = ls_init_normal(0, 0.5)),
      .positions = ls_embedding_layer_in(bag, .name = "positions",
                                         .rows = LENGTH, .width = WIDTH,
                                         .initializer = ls_init_normal(0, 0.5)),
      .norm = ls_norm_layer_in(bag, .channels = WIDTH),
      .attention = ls_attention_layer_in(bag, .width = WIDTH, .num_heads = 4),
      .output = ls_dense_layer_in(bag, .inputs = WIDTH, .units = TOKENS),
      .optimizer = ls_adam_in(bag, .learning_rate = 0.01)};
  ls_function *function = ls_function_in(bag, .call = step, .user = &t);
  ls_nest *args = ls_nest_in(bag, ls_none()),
          *loss = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  for (int i = 0; i < STEPS; ++i) {
    LS_RETURN_IF_ERROR(ls_function_call(function, *args, loss));
    *(i == 0 ? first : last) = ls_nest_number(*loss);
  }
  return ls_ok();
}

int main(void) {
  ls_bag bag = {0};
  double first = 0, last = 0;
  const ls_status status = run(&bag, &first, &last);
  printf("%.4f, then %.4f %s\n", first, last, ls_status_message(status));
  const bool ok = ls_status_is_ok(status) && last < first / 4;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}
