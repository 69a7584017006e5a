// SPDX-License-Identifier: Apache-2.0
//
// The maxima of adjacent windows of 2 by 2, and the position of each in its
// window. A block is a line of windows.
#include "engine/cpu/conv/sparse.h"
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

typedef struct pool_params {
  const ls_cpu_windows *rows;
  int64_t height, width, channels;  // Sizes of the input.
} pool_params;

void ls_pool_lines(const ls_cpu_windows *rows, const float *x, int64_t width,
                   int64_t channels, int64_t count, float *max,
                   uint8_t *places) {
  for (int64_t k = 0; k < count; ++k, x += 2 * width * channels)
    for (int64_t i = 1; i < width; i += 2) {
      const float *pixel = x + (i - 1) * channels;
      const float *below = pixel + width * channels;
      rows->place_of_four(max, places,
                          (const float *const[]){pixel, pixel + channels, below,
                                                 below + channels},
                          (size_t)channels);
      max += channels;
      places += channels;
    }
}

ls_status ls_pool_check(const ls_kernel_plan *plan, int64_t channels) {
  if (channels % LS_POOL_CHANNELS == 0) return ls_ok();
  return ls_unimplemented("the CPU engine runs %s of channels in multiples of "
                          "%d only, not of %lld",
                          ls_node_info(plan->node)->name, LS_POOL_CHANNELS,
                          (long long)channels);
}

static void pool_loop(const ls_kernel_call *call, int64_t begin_block,
                      int64_t end_block) {
  const pool_params *self = call->params;
  const int64_t lines = self->height / 2;
  const int64_t line = self->width * self->channels;
  for (int64_t b = begin_block; b < end_block; ++b) {
    const int64_t first = b / lines * self->height + b % lines * 2;
    const int64_t target = b * (self->width / 2) * self->channels;
    ls_pool_lines(self->rows, (const float *)call->in[0] + first * line,
                  self->width, self->channels, 1,
                  (float *)call->out[0] + target,
                  (uint8_t *)call->out[1] + target);
  }
}

ls_status kernel_pool_max(ls_kernel_plan *plan) {
  LS_ARENA_NEW_OR_RETURN(plan->arena, pool_params, self);
  const ls_shape x = plan->in[0].shape;
  LS_RETURN_IF_ERROR(ls_pool_check(plan, x.dim[3]));
  *self = (pool_params){.rows = plan->kernels->windows,
                        .height = x.dim[1],
                        .width = x.dim[2],
                        .channels = x.dim[3]};
  plan->loop = pool_loop;
  plan->params = self;
  plan->blocks = x.dim[0] * (x.dim[1] / 2);
  return ls_ok();
}
