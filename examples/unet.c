// SPDX-License-Identifier: Apache-2.0
// A small U-Net: marks the pixels of a disc in a noisy image.
#include <stdio.h>
#include <stdlib.h>

#include "lockstep/lockstep.h"

enum { IMAGES = 32, SIDE = 24, STEPS = 60 };

typedef struct unet {
  ls_conv_layer *down, *bottom, *up, *across, *mask;
  ls_optimizer *optimizer;
} unet;

static ls_nest step(ls_nest args, void *user) {
  const unet *net = user;
  ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor fine = ls_relu(ls_conv_layer_apply(net->down, x));
  x = ls_max_pool(fine, LS_SHAPE(2, 2), NULL);
  x = ls_relu(ls_conv_layer_apply(net->bottom, x));
  x = ls_conv_layer_apply(net->up, x);
  x = ls_concatenate((ls_tensor[]){fine, x}, 2, -1);
  x = ls_relu(ls_conv_layer_apply(net->across, x));
  x = ls_conv_layer_apply(net->mask, x);
  const ls_tensor loss = ls_sigmoid_cross_entropy_loss(
      x, ls_nest_tensor(args, 1), LS_REDUCTION_MEAN);
  ls_optimizer_minimize(net->optimizer, loss);
  return ls_leaf(loss);
}

// Makes discs of random position and size, in noise, and the pixels they cover.
static void draw(float *image, float *mask) {
  for (int i = 0; i < IMAGES; ++i) {
    const int top = rand() % SIDE, left = rand() % SIDE, radius = 3 + i % 6;
    for (int y = -top; y < SIDE - top; ++y)
      for (int x = -left; x < SIDE - left; ++x) {
        *mask = y * y + x * x < radius * radius;
        *image++ = *mask++ + (float)rand() / (float)RAND_MAX;
      }
  }
}

static ls_conv_layer *conv(ls_bag *bag, int channels, int filters, int stride) {
  return ls_conv_layer_in(
      bag, .channels = channels, .filters = filters, .window = LS_SHAPE(3, 3),
      .how = {.strides = LS_SHAPE(stride, stride), .padding = LS_PADDING_SAME},
      .transposed = stride > 1);
}

static ls_status train(ls_bag *bag, double *first, double *last) {
  unet net = {.down = conv(bag, 1, 8, 1),
              .bottom = conv(bag, 8, 16, 1),
              .up = conv(bag, 16, 8, 2),
              .across = conv(bag, 16, 8, 1),
              .mask = conv(bag, 8, 1, 1),
              .optimizer = ls_adam_in(bag, .learning_rate = 0.01)};
  ls_function *function = ls_function_in(bag, .call = step, .user = &net);
  const ls_shape shape = LS_SHAPE(IMAGES, SIDE, SIDE, 1);
  ls_nest *data = ls_nest_in(bag, LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, shape),
                                           ls_nest_zeros(LS_DTYPE_F32, shape)));
  ls_nest *loss = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  draw(ls_nest_data(*data, 0), ls_nest_data(*data, 1));
  for (int i = 0; i < STEPS; ++i) {
    LS_RETURN_IF_ERROR(ls_function_call(function, *data, loss));
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
