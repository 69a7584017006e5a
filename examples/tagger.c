// SPDX-License-Identifier: Apache-2.0
//
// A sequence tagger: marks the words between an opening and a closing bracket.
// Whether a word is inside depends on what comes before it and on what comes
// after it, so one LSTM reads forwards and another one backwards.
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { SENTENCES = 64, LENGTH = 10, STEPS = 200 };
enum { OPEN, CLOSE, VOCABULARY = 10, WIDTH = 8, UNITS = 16 };

typedef struct tagger {
  ls_embedding_layer *embedding;
  ls_recurrent_layer *forwards, *backwards;
  ls_dense_layer *tags;
  ls_optimizer *optimizer;
  ls_function *step;
  ls_nest loss;
} tagger;

// How many words of this kind there are before each place, or behind it.
static ls_tensor count(ls_tensor words, int word, bool behind) {
  const ls_tensor is = ls_equal(words, ls_scalar_i64(LS_DTYPE_I32, word));
  return ls_cumsum(ls_convert(is, LS_DTYPE_I32), 1, true, behind);
}

// One step on sentences made up on the spot, other ones at each call.
static ls_nest step(ls_nest none, void *user) {
  (void)none;
  const tagger *net = user;
  const ls_tensor words =
      ls_convert(ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(SENTENCES, LENGTH), 0,
                                   VOCABULARY, NULL),
                 LS_DTYPE_I32);
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

static ls_status train(tagger *net, double *first, double *last) {
  LS_TRY(ls_embedding_layer_create(
      &(ls_embedding_options){.rows = VOCABULARY, .width = WIDTH},
      &net->embedding));
  ls_recurrent_options lstm = {.inputs = WIDTH, .units = UNITS};
  lstm.name = "forwards";
  LS_TRY(ls_recurrent_layer_create(&lstm, &net->forwards));
  lstm.name = "backwards";
  LS_TRY(ls_recurrent_layer_create(&lstm, &net->backwards));
  LS_TRY(ls_dense_layer_create(
      &(ls_dense_options){.inputs = 2 * UNITS, .units = 2}, &net->tags));
  LS_TRY(ls_adam_create(&(ls_adam_options){.learning_rate = 0.02},
                        &net->optimizer));
  LS_TRY(ls_function_create(&(ls_function_options){.call = step, .user = net},
                            &net->step));
  for (int i = 0; i < STEPS; ++i) {
    LS_TRY(ls_function_call(net->step, ls_none(), &net->loss));
    *(i == 0 ? first : last) = ls_nest_number(net->loss);
  }
  return ls_ok();
}

int main(void) {
  tagger net = {0};
  double first = 0, last = 0;
  const ls_status status = train(&net, &first, &last);
  printf("loss %.4f, after training %.4f %s\n", first, last,
         ls_status_message(status));
  const int failed = !ls_status_is_ok(status) || !(last < first / 4);
  ls_status_free(status);
  ls_nest_release(net.loss);
  ls_function_release(net.step);
  ls_optimizer_release(net.optimizer);
  ls_dense_layer_destroy(net.tags);
  ls_recurrent_layer_destroy(net.backwards);
  ls_recurrent_layer_destroy(net.forwards);
  ls_embedding_layer_destroy(net.embedding);
  return failed;
}
