// SPDX-License-Identifier: Apache-2.0
// A gradient of one's own: bits that are rounded to 0 or 1, through which the
// gradient passes as if they were not ("straight-through"). Eight bits learn to
// code one of eight classes.
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { CLASSES = 8, BITS = 8, STEPS = 300 };

static ls_nest round_bits(ls_nest inputs, void *user) {
  const ls_tensor x = ls_nest_tensor(inputs, 0);
  (void)user;
  return ls_leaf(
      ls_convert(ls_greater(x, ls_scalar(LS_DTYPE_F32, 0.5)), LS_DTYPE_F32));
}

static ls_nest pass_gradient(ls_nest inputs, ls_nest outputs,
                             ls_nest output_gradients, void *user) {
  (void)inputs, (void)outputs, (void)user;
  return LS_LIST(ls_leaf(ls_nest_tensor(output_gradients, 0)));
}

typedef struct coder {
  ls_dense_layer *encoder, *decoder;
  ls_optimizer *optimizer;
} coder;

static ls_nest step(ls_nest args, void *user) {
  const coder *c = user;
  (void)args;
  const ls_tensor labels = ls_iota(LS_DTYPE_I32, LS_SHAPE(CLASSES), 0);
  const ls_tensor x = ls_one_hot(labels, CLASSES, LS_DTYPE_F32);
  const ls_tensor soft = ls_sigmoid(ls_dense_layer_apply(c->encoder, x));
  const ls_nest bits = ls_custom_gradient(round_bits, pass_gradient, NULL,
                                          LS_LIST(ls_leaf(soft)));
  const ls_tensor logits =
      ls_dense_layer_apply(c->decoder, ls_nest_tensor(bits, 0));
  const ls_tensor loss = ls_mean_softmax_cross_entropy(logits, labels);
  ls_optimizer_minimize(c->optimizer, loss);
  return ls_leaf(loss);
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  coder c = {.encoder = ls_dense_layer_in(bag, .name = "encoder",
                                          .inputs = CLASSES, .units = BITS),
             .decoder = ls_dense_layer_in(bag, .name = "decoder",
                                          .inputs = BITS, .units = CLASSES),
             .optimizer = ls_adam_in(bag, .learning_rate = 0.05)};
  ls_function *function = ls_function_in(bag, .call = step, .user = &c);
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
