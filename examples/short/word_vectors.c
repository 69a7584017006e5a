// SPDX-License-Identifier: Apache-2.0
// Word vectors: an embedding learns from pairs of neighbours. Words are numbers
// on a ring, and those that are close get similar vectors.
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { WORDS = 32, WIDTH = 8, PAIRS = 256, STEPS = 150 };

typedef struct net {
  ls_embedding_layer *words;
  ls_dense_layer *contexts;
  ls_optimizer *optimizer;
} net;

static ls_nest step(ls_nest args, void *user) {
  const net *n = user;
  (void)args;
  const ls_tensor size = ls_scalar_i64(LS_DTYPE_I32, WORDS);
  const ls_tensor words = ls_convert(
      ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(PAIRS), 0, WORDS, NULL),
      LS_DTYPE_I32);
  // A neighbour is one or two further on.
  const ls_tensor distance =
      ls_convert(ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(PAIRS), 1, 3, NULL),
                 LS_DTYPE_I32);
  const ls_tensor neighbours = ls_remainder(ls_add(words, distance), size);
  const ls_tensor vectors = ls_embedding_layer_apply(n->words, words);
  const ls_tensor loss = ls_mean_softmax_cross_entropy(
      ls_dense_layer_apply(n->contexts, vectors), neighbours);
  ls_optimizer_minimize(n->optimizer, loss);
  return ls_leaf(loss);
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  net n = {.words = ls_embedding_layer_in(bag, .rows = WORDS, .width = WIDTH),
           .contexts = ls_dense_layer_in(bag, .inputs = WIDTH, .units = WORDS),
           .optimizer = ls_adam_in(bag, .learning_rate = 0.05)};
  ls_function *function = ls_function_in(bag, .call = step, .user = &n);
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
  const bool ok = ls_status_is_ok(status) && last < first / 3;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}
