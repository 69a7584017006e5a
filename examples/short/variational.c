// SPDX-License-Identifier: Apache-2.0
// A variational autoencoder of points on a circle: the code is a mean and a
// deviation, from which a point is drawn, and a divergence keeps codes near the
// standard normal distribution.
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { BATCH = 64, CODES = 2, UNITS = 32, STEPS = 300 };

typedef struct vae {
  ls_dense_layer *encoder, *mean, *log_deviation, *decoder, *output;
  ls_optimizer *optimizer;
} vae;

static ls_nest step(ls_nest args, void *user) {
  const vae *v = user;
  (void)args;
  const ls_tensor angle =
      ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(BATCH, 1), -3.14, 3.14, NULL);
  const ls_tensor parts[] = {ls_sin(angle), ls_cos(angle)};
  const ls_tensor x = ls_mul_scalar(ls_concatenate(parts, 2, 1), 3);
  const ls_tensor h = ls_dense_layer_apply(v->encoder, x);
  const ls_tensor mean = ls_dense_layer_apply(v->mean, h);
  const ls_tensor log_deviation = ls_dense_layer_apply(v->log_deviation, h);
  const ls_tensor deviation = ls_exp(log_deviation);
  const ls_tensor noise = ls_random_normal_like(LS_DTYPE_F32, mean, 0, 1, NULL);
  const ls_tensor code = ls_add(mean, ls_mul(deviation, noise));
  const ls_tensor y =
      ls_dense_layer_apply(v->output, ls_dense_layer_apply(v->decoder, code));
  const ls_tensor error = ls_mean_squared_error(y, x, LS_REDUCTION_MEAN);
  // (mean^2 + deviation^2 - 1) / 2 - log deviation, of each number.
  const ls_tensor divergence = ls_sub(
      ls_mul_scalar(
          ls_add_scalar(ls_add(ls_square(mean), ls_square(deviation)), -1),
          0.5),
      log_deviation);
  const ls_tensor loss = ls_add(
      error, ls_mul_scalar(ls_reduce_mean(divergence, LS_ALL_AXES), 0.01));
  ls_optimizer_minimize(v->optimizer, loss);
  return ls_leaf(error);
}

static ls_dense_layer *make(ls_bag *bag, const char *name, int64_t inputs,
                            int64_t units, ls_activation activation) {
  return ls_dense_layer_in(bag, .name = name, .inputs = inputs, .units = units,
                           .activation = activation);
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  vae v = {.encoder = make(bag, "encoder", 2, UNITS, LS_ACTIVATION_RELU),
           .mean = make(bag, "mean", UNITS, CODES, LS_ACTIVATION_NONE),
           .log_deviation =
               make(bag, "deviation", UNITS, CODES, LS_ACTIVATION_NONE),
           .decoder = make(bag, "decoder", CODES, UNITS, LS_ACTIVATION_RELU),
           .output = make(bag, "output", UNITS, 2, LS_ACTIVATION_NONE),
           .optimizer = ls_adam_in(bag, .learning_rate = 0.01)};
  ls_function *function = ls_function_in(bag, .call = step, .user = &v);
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
