// SPDX-License-Identifier: Apache-2.0
//
// A denoising autoencoder: gives back clean waves from noisy ones, through a
// bottleneck of eight numbers.
#include <math.h>
#include <stdio.h>

#include "lockstep/lockstep.h"

enum { WAVES = 128, SAMPLES = 64, WIDE = 48, CODE = 8, STEPS = 400 };
enum { NUM_LAYERS = 4 };

typedef struct autoencoder {
  ls_dense_layer *layers[NUM_LAYERS];
  ls_optimizer *optimizer;
  ls_function *step;
  ls_nest waves, loss;
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

// Sines of four frequencies and many phases.
static ls_status make_waves(ls_nest *out_waves) {
  *out_waves = LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(WAVES, SAMPLES)));
  LS_TRY(ls_nest_status(*out_waves));
  float *sample = ls_nest_data(*out_waves, 0);
  for (int i = 0; i < WAVES; ++i)
    for (int t = 0; t < SAMPLES; ++t)
      *sample++ = sinf(0.1F * (float)(1 + i % 4) * (float)t + (float)i);
  return ls_ok();
}

static ls_status train(autoencoder *net, double *first, double *last) {
  const int64_t sizes[] = {SAMPLES, WIDE, CODE, WIDE, SAMPLES};
  const char *const names[] = {"widen", "code", "widen_again", "output"};
  for (int i = 0; i < NUM_LAYERS; ++i)
    LS_TRY(ls_dense_layer_create(
        &(ls_dense_options){.name = names[i],
                            .inputs = sizes[i],
                            .units = sizes[i + 1],
                            .activation = sizes[i + 1] == WIDE
                                              ? LS_ACTIVATION_RELU
                                              : LS_ACTIVATION_NONE},
        &net->layers[i]));
  LS_TRY(ls_adam_create(NULL, &net->optimizer));
  LS_TRY(ls_function_create(&(ls_function_options){.call = step, .user = net},
                            &net->step));
  LS_TRY(make_waves(&net->waves));
  for (int i = 0; i < STEPS; ++i) {
    LS_TRY(ls_function_call(net->step, net->waves, &net->loss));
    *(i == 0 ? first : last) = ls_nest_number(net->loss);
  }
  return ls_ok();
}

int main(void) {
  autoencoder net = {0};
  double first = 0, last = 0;
  const ls_status status = train(&net, &first, &last);
  printf("loss %.4f, after training %.4f %s\n", first, last,
         ls_status_message(status));
  const int failed = !ls_status_is_ok(status) || !(last < first / 4);
  ls_status_free(status);
  ls_nest_release(net.loss);
  ls_nest_release(net.waves);
  ls_function_release(net.step);
  ls_optimizer_release(net.optimizer);
  for (int i = 0; i < NUM_LAYERS; ++i)
    ls_dense_layer_destroy(net.layers[i]);
  return failed;
}
