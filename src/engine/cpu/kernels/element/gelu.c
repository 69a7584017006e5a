// SPDX-License-Identifier: Apache-2.0
//
// gelu and its gradient in one kernel.
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

// Operands and results have one size.
typedef struct again_params {
  int64_t count;
  ls_dtype dtype;
  ls_cpu_gelu_again_fn *f32;
  void (*f64)(double *dx, double *y, const double *dy, const double *x,
              size_t n);
} again_params;

static void gelu_again_half(const again_params *self, uint16_t *dx, uint16_t *y,
                            const uint16_t *dy, const uint16_t *x,
                            int64_t count, float *wide) {
  float *wide_dy = wide, *wide_x = wide + LS_CHUNK;
  for (int64_t k = 0; k < count; k += LS_CHUNK) {
    const int64_t n = ls_min_i64(LS_CHUNK, count - k);
    ls_widen(self->dtype, wide_dy, dy + k, n);
    ls_widen(self->dtype, wide_x, x + k, n);
    self->f32(wide_dy, wide_x, wide_dy, wide_x, (size_t)n);
    ls_narrow(self->dtype, dx + k, wide_dy, n);
    ls_narrow(self->dtype, y + k, wide_x, n);
  }
}

static void gelu_again_loop(const ls_kernel_call *call, int64_t begin_block,
                            int64_t end_block) {
  const again_params *self = call->params;
  const int64_t begin = begin_block * LS_BLOCK;
  const int64_t count = ls_min_i64(end_block * LS_BLOCK, self->count) - begin;
  const size_t before = (size_t)begin * ls_dtype_size(self->dtype);
  void *dx = (char *)call->out[0] + before, *y = (char *)call->out[1] + before;
  const void *dy = (const char *)call->in[0] + before;
  const void *x = (const char *)call->in[1] + before;
  if (self->dtype == LS_DTYPE_F32)
    self->f32(dx, y, dy, x, (size_t)count);
  else if (self->dtype == LS_DTYPE_F64)
    self->f64(dx, y, dy, x, (size_t)count);
  else
    gelu_again_half(self, dx, y, dy, x, count, call->scratch);
}

ls_status kernel_gelu_again(ls_kernel_plan *plan) {
  LS_ARENA_NEW_OR_RETURN(plan->arena, again_params, self);
  *self = (again_params){.count = ls_shape_num_elements(plan->out[0].shape),
                         .dtype = plan->out[0].dtype,
                         .f32 = plan->kernels->gelu_again,
                         .f64 = plan->kernels->gelu_again_f64};
  plan->in_place = 1;
  plan->next_in_place = 2;
  if (ls_is_half(self->dtype)) plan->scratch = 2 * LS_CHUNK * sizeof(float);
  return ls_kernel_runs(plan, gelu_again_loop, self,
                        ls_blocks_of(self->count, LS_BLOCK));
}
