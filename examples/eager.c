// SPDX-License-Identifier: Apache-2.0
// Eager: every op runs as it is made, so that a model can be stepped through
// with a debugger and steered by plain C. A tape records the ops for gradients.
// A small net learns one period of a sine.
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { POINTS = 64, UNITS = 32, STEPS = 300 };

typedef struct sine_net {
  ls_dense_layer *hidden, *output;
  ls_optimizer *optimizer;
} sine_net;

static ls_status descend(const sine_net *net, ls_tape **tape,
                         double *out_loss) {
  LS_RETURN_IF_ERROR(ls_tape_begin(tape));
  const ls_tensor x =
      ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(POINTS, 1), -3, 3, NULL);
  const ls_tensor hidden = ls_tanh(ls_dense_layer_apply(net->hidden, x));
  const ls_tensor y = ls_dense_layer_apply(net->output, hidden);
  const ls_tensor loss = ls_mean_squared_error(y, ls_sin(x), LS_REDUCTION_MEAN);
  LS_RETURN_IF_ERROR(ls_optimizer_minimize_tape(net->optimizer, *tape, loss));
  return ls_tensor_item(loss, out_loss);
}

// Makes one step. The values made in a frame are freed at its end.
static ls_status step(const sine_net *net, double *out_loss) {
  ls_tape *tape = NULL;
  LS_RETURN_IF_ERROR(ls_frame_begin());
  const ls_status status = descend(net, &tape, out_loss);
  ls_tape_release(tape);
  return ls_status_join(status, ls_frame_end(NULL));
}

static ls_status train(ls_bag *bag, double *first, double *last) {
  const sine_net net = {.hidden = ls_dense_layer_in(
                            bag, .name = "hidden", .inputs = 1, .units = UNITS),
                        .output = ls_dense_layer_in(
                            bag, .name = "output", .inputs = UNITS, .units = 1),
                        .optimizer = ls_adam_in(bag, .learning_rate = 0.01)};
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  for (int i = 0; i < STEPS; ++i)
    LS_RETURN_IF_ERROR(step(&net, i == 0 ? first : last));
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
