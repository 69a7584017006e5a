// SPDX-License-Identifier: Apache-2.0
//
// The maxima of windows of 2 by 2 that tile their input, and which of its
// window each is. A block is a line of windows.
#include "engine/cpu/kernel_list.h"
#include "engine/cpu/loops.h"
#include "engine/cpu/pool.h"

typedef struct pool_params {
  const ls_cpu_windows *rows;
  int64_t width, channels;  // Of the input.
} pool_params;

void ls_pool_lines(const ls_cpu_windows *rows, const float *x, int64_t width,
                   int64_t channels, int64_t count, float *max,
                   uint8_t *places) {
  for (int64_t k = 0; k < count; ++k, x += 2 * width * channels)
    for (int64_t i = 0; i < width;
         i += 2, max += channels, places += channels) {
      const float *pixel = x + i * channels, *below = pixel + width * channels;
      rows->place_of_four(max, places,
                          (const float *const[]){pixel, pixel + channels, below,
                                                 below + channels},
                          (size_t)channels);
    }
}

static void pool_loop(const ls_kernel_call *call, int64_t begin_block,
                      int64_t end_block) {
  const pool_params *self = call->params;
  const int64_t line = self->width / 2 * self->channels;
  ls_pool_lines(self->rows, (const float *)call->in[0] + begin_block * 4 * line,
                self->width, self->channels, end_block - begin_block,
                (float *)call->out[0] + begin_block * line,
                (uint8_t *)call->out[1] + begin_block * line);
}

ls_status kernel_pool_max(ls_kernel_plan *plan) {
  pool_params *self = ls_arena_new(plan->arena, pool_params);
  if (self == NULL) return ls_out_of_memory();
  const ls_shape x = plan->in[0].shape;
  *self = (pool_params){
      .rows = plan->kernels->windows, .width = x.dim[2], .channels = x.dim[3]};
  plan->loop = pool_loop;
  plan->params = self;
  plan->blocks = ls_max_i64(1, x.dim[0] * x.dim[1] / 2);
  return ls_ok();
}
