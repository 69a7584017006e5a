// SPDX-License-Identifier: Apache-2.0
//
// A small U-Net: finds the disc in a noisy image, pixel by pixel. Down by
// pooling, up by a transposed convolution, and a short cut beside them.
#include <stdio.h>
#include <stdlib.h>

#include "lockstep/lockstep.h"

enum { IMAGES = 32, SIDE = 24, STEPS = 60 };
enum { DOWN, BOTTOM, UP, ACROSS, MASK, NUM_LAYERS };

typedef struct unet {
  ls_conv_layer *layers[NUM_LAYERS];
  ls_optimizer *optimizer;
  ls_function *step;
  ls_nest data, loss;
} unet;

static ls_nest step(ls_nest args, void *user) {
  const unet *net = user;
  ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor fine = ls_relu(ls_conv_layer_apply(net->layers[DOWN], x));
  x = ls_max_pool(fine, LS_SHAPE(2, 2), NULL);
  x = ls_relu(ls_conv_layer_apply(net->layers[BOTTOM], x));
  x = ls_conv_layer_apply(net->layers[UP], x);
  x = ls_concatenate((ls_tensor[]){fine, x}, 2, -1);
  x = ls_relu(ls_conv_layer_apply(net->layers[ACROSS], x));
  x = ls_conv_layer_apply(net->layers[MASK], x);
  const ls_tensor loss = ls_sigmoid_cross_entropy_loss(
      x, ls_nest_tensor(args, 1), LS_REDUCTION_MEAN);
  ls_optimizer_minimize(net->optimizer, loss);
  return ls_leaf(loss);
}

// Discs anywhere and of any size, in noise; and the pixels they cover.
static ls_status make_data(ls_nest *out_data) {
  const ls_shape shape = LS_SHAPE(IMAGES, SIDE, SIDE, 1);
  *out_data = LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, shape),
                       ls_nest_zeros(LS_DTYPE_F32, shape));
  LS_TRY(ls_nest_status(*out_data));
  float *image = ls_nest_data(*out_data, 0), *mask = ls_nest_data(*out_data, 1);
  for (int i = 0; i < IMAGES; ++i) {
    const int top = rand() % SIDE, left = rand() % SIDE, radius = 3 + i % 6;
    for (int y = -top; y < SIDE - top; ++y)
      for (int x = -left; x < SIDE - left; ++x, ++image, ++mask) {
        *mask = y * y + x * x < radius * radius;
        *image = *mask + (float)rand() / (float)RAND_MAX;
      }
  }
  return ls_ok();
}

static ls_status train(unet *net, double *first, double *last) {
  const char *names[] = {"down", "bottom", "up", "across", "mask"};
  const int64_t channels[] = {1, 8, 16, 16, 8}, filters[] = {8, 16, 8, 8, 1};
  for (int i = 0; i < NUM_LAYERS; ++i) {
    ls_conv_options options = {.name = names[i],
                               .channels = channels[i],
                               .filters = filters[i],
                               .window = LS_SHAPE(3, 3),
                               .how.padding = LS_PADDING_SAME,
                               .transposed = i == UP};
    if (i == UP) options.how.strides = LS_SHAPE(2, 2);
    LS_TRY(ls_conv_layer_create(&options, &net->layers[i]));
  }
  LS_TRY(ls_adam_create(&(ls_adam_options){.learning_rate = 0.01},
                        &net->optimizer));
  LS_TRY(ls_function_create(&(ls_function_options){.call = step, .user = net},
                            &net->step));
  LS_TRY(make_data(&net->data));
  for (int i = 0; i < STEPS; ++i) {
    LS_TRY(ls_function_call(net->step, net->data, &net->loss));
    *(i == 0 ? first : last) = ls_nest_number(net->loss);
  }
  return ls_ok();
}

int main(void) {
  unet net = {0};
  double first = 0, last = 0;
  const ls_status status = train(&net, &first, &last);
  printf("loss %.4f, after training %.4f %s\n", first, last,
         ls_status_message(status));
  const int failed = !ls_status_is_ok(status) || !(last < first / 4);
  ls_status_free(status);
  ls_nest_release(net.loss);
  ls_nest_release(net.data);
  ls_function_release(net.step);
  ls_optimizer_release(net.optimizer);
  for (int i = 0; i < NUM_LAYERS; ++i)
    ls_conv_layer_destroy(net.layers[i]);
  return failed;
}
