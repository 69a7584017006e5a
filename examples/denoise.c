// SPDX-License-Identifier: Apache-2.0
// A denoising autoencoder: restores clean waves from noisy ones, through a
// bottleneck of eight numbers.
#include <math.h>
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { WAVES = 128, SAMPLES = 64, WIDE = 48, CODE = 8, STEPS = 400 };
enum { NUM_LAYERS = 4 };

typedef struct autoencoder {
  ls_dense_layer *layers[NUM_LAYERS];
  ls_optimizer *optimizer;
} autoencoder;

static ls_nest step(ls_nest args, void *user) {
  const autoencoder *net = user;
  const ls_tensor clean = ls_nest_tensor(args, 0);
  const ls_tensor noise = ls_random_normal(  // New at each step.
      LS_DTYPE_F32, ls_tensor_shape(clean), 0, 0.3, NULL);
  ls_tensor x = ls_add(clean, noise);
  for (int i = 0; i < NUM_LAYERS; ++i)
    x = ls_dense_layer_apply(net->layers[i], x);
  const ls_tensor loss = ls_mean_squared_error(x, clean, LS_REDUCTION_MEAN);
  ls_optimizer_minimize(net->optimizer, loss);
  return ls_leaf(loss);
}

// Makes sines of four frequencies and many phases.
static void make_waves(float *sample) {
  for (int i = 0; i < WAVES; ++i)
    for (int t = 0; t < SAMPLES; ++t)
      *sample++ = sinf(0.1F * (float)(1 + i % 4) * (float)t + (float)i);
}

static ls_status train(ls_bag *bag, double *first, double *last) {
  static const int sizes[] = {SAMPLES, WIDE, CODE, WIDE, SAMPLES};
  static const char *names[] = {"widen", "code", "widen_again", "output"};
  autoencoder net = {.optimizer = ls_adam_in(bag)};
  for (int i = 0; i < NUM_LAYERS; ++i)
    net.layers[i] = ls_dense_layer_in(
        bag, .name = names[i], .inputs = sizes[i], .units = sizes[i + 1],
        .activation =
            sizes[i + 1] == WIDE ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE);
  ls_function *function = ls_function_in(bag, .call = step, .user = &net);
  ls_nest *waves = ls_nest_in(
      bag, LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(WAVES, SAMPLES))));
  ls_nest *loss = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  make_waves(ls_nest_data(*waves, 0));
  for (int i = 0; i < STEPS; ++i) {
    LS_RETURN_IF_ERROR(ls_function_call(function, *waves, loss));
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
