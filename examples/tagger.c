// SPDX-License-Identifier: Apache-2.0
// A sequence tagger: marks the words between an opening and a closing bracket.
// A word's tag depends on the words before and after it, so one LSTM reads
// forwards and another one backwards.
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { SENTENCES = 64, LENGTH = 10, STEPS = 200 };
enum { OPEN, CLOSE, VOCABULARY = 10, WIDTH = 8, UNITS = 16 };

typedef struct tagger {
  ls_embedding_layer *embedding;
  ls_recurrent_layer *forwards, *backwards;
  ls_dense_layer *tags;
  ls_optimizer *optimizer;
} tagger;

// Counts the words of this kind before each position, or after it.
static ls_tensor count(ls_tensor words, int word, bool behind) {
  const ls_tensor is_word = ls_equal(words, ls_scalar_i64(LS_DTYPE_I32, word));
  return ls_cumsum(ls_convert(is_word, LS_DTYPE_I32), 1, true, behind);
}

// Makes one step on generated sentences, new ones at each call.
static ls_nest step(ls_nest none, void *user) {
  (void)none;
  const tagger *net = user;
  const ls_tensor random = ls_random_uniform(
      LS_DTYPE_F32, LS_SHAPE(SENTENCES, LENGTH), 0, VOCABULARY, NULL);
  const ls_tensor words = ls_convert(random, LS_DTYPE_I32);
  const ls_tensor inside =
      ls_minimum(ls_scalar_i64(LS_DTYPE_I32, 1),
                 ls_mul(count(words, OPEN, false), count(words, CLOSE, true)));

  const ls_tensor x = ls_embedding_layer_apply(net->embedding, words);
  const ls_tensor past = ls_recurrent_layer_apply(net->forwards, x, NULL, NULL);
  const ls_tensor future = ls_recurrent_layer_apply(
      net->backwards, ls_reverse(x, LS_AXES(1)), NULL, NULL);
  const ls_tensor both[] = {past, ls_reverse(future, LS_AXES(1))};
  const ls_tensor logits =
      ls_dense_layer_apply(net->tags, ls_concatenate(both, 2, -1));
  const ls_tensor loss = ls_mean_softmax_cross_entropy(logits, inside);
  ls_optimizer_minimize(net->optimizer, loss);
  return ls_leaf(loss);
}

static ls_status train(ls_bag *bag, double *first, double *last) {
  tagger net = {.embedding = ls_embedding_layer_in(bag, .rows = VOCABULARY,
                                                   .width = WIDTH),
                .forwards = ls_recurrent_layer_in(
                    bag, .name = "forwards", .inputs = WIDTH, .units = UNITS),
                .backwards = ls_recurrent_layer_in(
                    bag, .name = "backwards", .inputs = WIDTH, .units = UNITS),
                .tags = ls_dense_layer_in(bag, .inputs = 2 * UNITS, .units = 2),
                .optimizer = ls_adam_in(bag, .learning_rate = 0.02)};
  ls_function *function = ls_function_in(bag, .call = step, .user = &net);
  ls_nest *loss = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  for (int i = 0; i < STEPS; ++i) {
    LS_RETURN_IF_ERROR(ls_function_call(function, ls_none(), loss));
    *(i == 0 ? first : last) = ls_nest_number(*loss);
  }
  return ls_ok();
}

int main(void) {
  ls_bag bag = {0};
  double first = 0, last = 0;
  const ls_status status = train(&bag, &first, &last);
  printf("loss %.4f, then %.4f %s\n", first, last, ls_status_message(status));
  ls_status_free(status);
  ls_bag_empty(&bag);
  return last < first / 4 ? 0 : 1;
}
