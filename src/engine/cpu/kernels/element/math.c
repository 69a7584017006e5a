// SPDX-License-Identifier: Apache-2.0
//
// Mathematical functions of one and two operands.
//
// Rounding is written out here; elementary functions are in isa/elementary.c.
#include <math.h>

#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

// ---- One operand -----------------------------------------------------------
#define UNARY(name, E, D, T, W)                                                \
  static void name##_##D(const ls_elementwise *self, void *out,                \
                         const void *const *in, int64_t count) {               \
    (void)self;                                                                \
    T *o = out;                                                                \
    const T *a = in[0];                                                        \
    LS_INDEPENDENT                                                             \
    for (int64_t i = 0; i < count; ++i)                                        \
      o[i] = E(a[i]);                                                          \
  }

// Rounds without a call: adding 2^23 (2^52) to a smaller number rounds it to an
// integer, to even. Larger numbers are integers already, and NaN stays.
#define ROUNDING(D, T, FABS, COPYSIGN, LIMIT)                                  \
  static inline T nearest_##D(T x) {                                           \
    const T size = FABS(x);                                                    \
    const T near = (size + LIMIT) - LIMIT;                                     \
    return COPYSIGN(size < LIMIT ? near : size, x);                            \
  }                                                                            \
  static inline T below_##D(T x) {                                             \
    const T near = nearest_##D(x);                                             \
    return COPYSIGN(near - (near > x ? (T)1 : (T)0), x);                       \
  }                                                                            \
  static inline T above_##D(T x) {                                             \
    const T near = nearest_##D(x);                                             \
    return COPYSIGN(near + (near < x ? (T)1 : (T)0), x);                       \
  }                                                                            \
  static inline T nearest_away_##D(T x) {                                      \
    const T size = FABS(x), less = below_##D(size);                            \
    const T step_up = size - less >= (T)0.5 ? (T)1 : (T)0;                     \
    return COPYSIGN(less + step_up, x);                                        \
  }
ROUNDING(F32, float, fabsf, copysignf, 0x1p23F)
ROUNDING(F64, double, fabs, copysign, 0x1p52)
UNARY(round, nearest_F32, F32, float, )
UNARY(round, nearest_F64, F64, double, )
UNARY(floor, below_F32, F32, float, )
UNARY(floor, below_F64, F64, double, )
UNARY(ceil, above_F32, F32, float, )
UNARY(ceil, above_F64, F64, double, )
UNARY(round_away, nearest_away_F32, F32, float, )
UNARY(round_away, nearest_away_F64, F64, double, )

#define IS_FINITE_F32(T, W, x) (fabsf(x) < INFINITY)
#define IS_FINITE_F64(T, W, x) (fabs(x) < (double)INFINITY)
LS_SPAN_OF_ONE(is_finite, IS_FINITE_F32, F32, uint8_t, float, )
LS_SPAN_OF_ONE(is_finite, IS_FINITE_F64, F64, uint8_t, double, )

// ---- Two operands ----------------------------------------------------------
#define BINARY(name, E, D, T, W) LS_SPAN_OF_TWO(name, E, D, T, T, W)

#define REMAINDER_SIGNED(T, W, x, y)                                           \
  ((T)((y) == 0 ? (x) : (y) == -1 ? 0 : (x) % (y)))
#define REMAINDER_UNSIGNED(T, W, x, y) ((T)((y) == 0 ? (x) : (x) % (y)))
LS_EACH_SIGNED(BINARY, remainder, REMAINDER_SIGNED)
LS_EACH_UNSIGNED(BINARY, remainder, REMAINDER_UNSIGNED)

// The table's function has no scalar operands: a scalar is repeated, chunk by
// chunk.
static void gelu_grad_F32(const ls_elementwise *self, void *out,
                          const void *const *in, int64_t count) {
  float repeated[LS_CHUNK];
  const uint32_t scalars = self->scalars;
  if (scalars == 0) {
    self->binary(out, in[0], in[1], (size_t)count);
    return;
  }
  for (int64_t k = 0; scalars != 0 && k < LS_CHUNK; ++k)
    repeated[k] = *(const float *)in[scalars == 1 ? 0 : 1];
  for (int64_t k = 0; k < count; k += LS_CHUNK) {
    const float *dy = scalars == 1 ? repeated : (const float *)in[0] + k;
    const float *x = scalars == 2 ? repeated : (const float *)in[1] + k;
    self->binary((float *)out + k, dy, x,
                 (size_t)ls_min_i64(LS_CHUNK, count - k));
  }
}

// ---- gelu and its gradient -------------------------------------------------
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

// ---- Plan ------------------------------------------------------------------
#define ENTRY(name, D, T, W) [LS_DTYPE_##D] = name##_##D,
#define FLOATS(name)                                                           \
  { LS_EACH_FLOAT(ENTRY, name) }

static const ls_span spans[LS_OP_COUNT][LS_DTYPE_COUNT] = {
    [LS_OP_CEIL] = FLOATS(ceil),
    [LS_OP_FLOOR] = FLOATS(floor),
    [LS_OP_ROUND] = FLOATS(round),
    [LS_OP_ROUND_AWAY] = FLOATS(round_away),
    [LS_OP_IS_FINITE] = FLOATS(is_finite),
    [LS_OP_GELU_GRAD] = {[LS_DTYPE_F32] = gelu_grad_F32},
    [LS_OP_REMAINDER] = {LS_EACH_INTEGER(ENTRY, remainder)},
};

ls_status kernel_math(ls_kernel_plan *plan) {
  const uint16_t op = plan->node->type;
  return ls_elementwise_plan_by_dtype(
      plan, spans[op], (ls_elementwise){.binary = plan->kernels->gelu_grad});
}

ls_status kernel_gelu_again(ls_kernel_plan *plan) {
  LS_ARENA_NEW_OR_RETURN(plan->arena, again_params, self);
  *self = (again_params){.count = ls_shape_num_elements(plan->out[0].shape),
                         .dtype = plan->out[0].dtype,
                         .f32 = plan->kernels->gelu_again,
                         .f64 = plan->kernels->gelu_again_f64};
  plan->loop = gelu_again_loop;
  plan->params = self;
  plan->blocks = ls_blocks_of(self->count, LS_BLOCK);
  plan->in_place = 1;
  plan->next_in_place = 2;
  if (ls_is_half(self->dtype)) plan->scratch = 2 * LS_CHUNK * sizeof(float);
  return ls_ok();
}
