// SPDX-License-Identifier: Apache-2.0
//
// Spans of elementary functions: of doubles, and of floats where f32math.h has
// them. The compiler vectorizes each.
#include "engine/cpu/elementary/f32math.h"
#include "engine/cpu/elementary/f64erf.h"
#include "engine/cpu/elementary/f64math.h"
#include "engine/cpu/elementary/f64trig.h"
#include "engine/cpu/elementary/large_angle.h"
#include "engine/cpu/isa/isa.h"
#include "engine/cpu/kernels/loops.h"

// ---- One operand -----------------------------------------------------------
#define UNARY(name, D, T, E) LS_SPAN_OF_ONE(name, E, D, T, T, )

#define EXP(T, W, x) ls_f64_exp(x)
#define EXPM1(T, W, x) ls_f64_expm1(x)
#define LOG(T, W, x) ls_f64_log(x)
#define LOG1P(T, W, x) ls_f64_log1p(x)
#define TANH(T, W, x) ls_f64_tanh(x)
#define ERF(T, W, x) ls_f64_erf(x)
#define ERFC(T, W, x) ls_f64_erfc(x)
#define CBRT(T, W, x) ls_f64_cbrt(x)
#define RSQRT(T, W, x) (1.0 / sqrt(x))
#define SIGMOID(T, W, x) (1.0 / (1.0 + ls_f64_exp(-(x))))
#define SOFTPLUS(T, W, x)                                                      \
  ((0.0 > (x) ? 0.0 : (x)) + ls_f64_log1p(ls_f64_exp(-ls_f64_abs(x))))
UNARY(exp, F64, double, EXP)
UNARY(expm1, F64, double, EXPM1)
UNARY(log, F64, double, LOG)
UNARY(log1p, F64, double, LOG1P)
UNARY(tanh, F64, double, TANH)
UNARY(erf, F64, double, ERF)
UNARY(erfc, F64, double, ERFC)
UNARY(cbrt, F64, double, CBRT)
UNARY(rsqrt, F64, double, RSQRT)
UNARY(sigmoid, F64, double, SIGMOID)
UNARY(softplus, F64, double, SOFTPLUS)

#define EXPM1_F32(T, W, x) ls_f32_expm1(x)
#define LOG1P_F32(T, W, x) ls_f32_log1p(x)
#define TANH_F32(T, W, x) ls_f32_tanh(x)
#define SOFTPLUS_F32(T, W, x) ls_f32_softplus(x)
#define ERFC_F32(T, W, x) ls_f32_erfc(x)
#define CBRT_F32(T, W, x) ls_f32_cbrt(x)
UNARY(expm1, F32, float, EXPM1_F32)
UNARY(log1p, F32, float, LOG1P_F32)
UNARY(tanh, F32, float, TANH_F32)
UNARY(softplus, F32, float, SOFTPLUS_F32)
UNARY(erfc, F32, float, ERFC_F32)
UNARY(cbrt, F32, float, CBRT_F32)

// Written with vectors, in isa/vecmath.h and isa/vecactivation.h.
#define OF_VECTORS(name)                                                       \
  static void name##_F32(const ls_elementwise *self, void *out,                \
                         const void *const *in, int64_t count) {               \
    (void)self;                                                                \
    LS_ISA_NAME(ls_cpu_##name)(out, in[0], (size_t)count);                     \
  }
OF_VECTORS(exp)
OF_VECTORS(log)
OF_VECTORS(erf)
OF_VECTORS(sigmoid)
OF_VECTORS(rsqrt)
OF_VECTORS(gelu)

// Computes x sigmoid(2u). At -40 the sigmoid is 0.
#define GELU_A 1.5957691216057308   // 2 sqrt(2 / pi)
#define GELU_B 0.07135481627260025  // A times 0.044715
LS_ALWAYS_INLINE double gelu_of(double x) {
  x = -40.0 > x ? -40.0 : x;
  return x / (1.0 + ls_f64_exp(-x * (GELU_A + GELU_B * x * x)));
}

// Computes, with s = sigmoid(2u): s + x s (1 - s) (2u)'. Beyond 40 that is 0 or
// 1.
LS_ALWAYS_INLINE double gelu_slope(double x) {
  x = -40.0 > x ? -40.0 : 40.0 < x ? 40.0 : x;
  const double t = x * (GELU_A + GELU_B * x * x);
  const double e = ls_f64_exp(-ls_f64_abs(t)), near = 1.0 / (1.0 + e);
  const double far = e * near;
  return (t < 0.0 ? far : near) +
         near * far * x * (GELU_A + 3.0 * GELU_B * x * x);
}
#define GELU(T, W, x) gelu_of(x)
UNARY(gelu, F64, double, GELU)

void LS_ISA_NAME(ls_cpu_gelu_again_f64)(double *dx, double *y, const double *dy,
                                        const double *from, size_t n) {
  LS_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    const double x = from[i];
    dx[i] = dy[i] * gelu_slope(x);
    y[i] = gelu_of(x);
  }
}

// ---- Angles ----------------------------------------------------------------
// Elements that are checked, and then computed, together.
enum { GROUP = 256 };

static ls_f64_angle reduce_any_F64(double x) {
  if (ls_f64_abs(x) < LS_F64_LARGE_ANGLE) return ls_f64_reduce(x);
  ls_f64_angle angle;
  angle.r.hi = ls_turn_reduce(x, &angle.r.lo, &angle.quarter);
  return angle;
}
static ls_f32_angle reduce_any_F32(float x) {
  if (fabsf(x) < (float)LS_F64_LARGE_ANGLE) return ls_f32_reduce((double)x);
  ls_f32_angle angle;
  double low;
  angle.r = ls_turn_reduce((double)x, &low, &angle.quarter);
  return angle;
}

#define OF_ANGLE(name, D, T, E, REDUCE)                                        \
  static void name##_##D(const ls_elementwise *self, void *out,                \
                         const void *const *in, int64_t count) {               \
    (void)self;                                                                \
    T *o = out;                                                                \
    const T *a = in[0];                                                        \
    for (int64_t k = 0; k < count; k += GROUP, o += GROUP, a += GROUP) {       \
      const int64_t n = ls_min_i64(GROUP, count - k);                          \
      uint64_t any = 0;                                                        \
      for (int64_t i = 0; i < n; ++i)                                          \
        any |= ls_f64_abs((double)a[i]) < LS_F64_LARGE_ANGLE ? 0U : 1U;        \
      if (any != 0) {                                                          \
        for (int64_t i = 0; i < n; ++i)                                        \
          o[i] = E(reduce_any_##D(a[i]), a[i]);                                \
        continue;                                                              \
      }                                                                        \
      LS_INDEPENDENT                                                           \
      for (int64_t i = 0; i < n; ++i)                                          \
        o[i] = E(REDUCE((double)a[i]), a[i]);                                  \
    }                                                                          \
  }
OF_ANGLE(sin, F64, double, ls_f64_sin_of, ls_f64_reduce)
OF_ANGLE(cos, F64, double, ls_f64_cos_of, ls_f64_reduce)
OF_ANGLE(tan, F64, double, ls_f64_tan_of, ls_f64_reduce)
OF_ANGLE(sin, F32, float, ls_f32_sin_of, ls_f32_reduce)
OF_ANGLE(cos, F32, float, ls_f32_cos_of, ls_f32_reduce)
OF_ANGLE(tan, F32, float, ls_f32_tan_of, ls_f32_reduce)

// ---- Two operands ----------------------------------------------------------
#define BINARY(name, D, T, E) LS_SPAN_OF_TWO(name, E, D, T, T, )

#define POW(T, W, x, y) ls_f64_pow(x, y)
#define POW_F32(T, W, x, y) ls_f32_pow(x, y)
#define ATAN2(T, W, y, x) ls_f64_atan2(y, x)
#define ATAN2_F32(T, W, y, x) ls_f32_atan2(y, x)
#define GELU_GRAD(T, W, dy, x) ((dy)*gelu_slope(x))
BINARY(pow, F64, double, POW)
BINARY(pow, F32, float, POW_F32)
BINARY(atan2, F64, double, ATAN2)
BINARY(atan2, F32, float, ATAN2_F32)
BINARY(gelu_grad, F64, double, GELU_GRAD)

// Quotients from 2^52 on have no exact remainder by one multiple: C's function
// takes these groups. `as` and `bs` are constants at every expansion: 0 for a
// scalar, which is read first, so that the output may lie on the other operand.
#define REMAINDER(D, T, FMOD)                                                  \
  LS_ALWAYS_INLINE void remainder_steps_##D(                                   \
      T *o, const T *a, const T *b, int64_t count, int64_t as, int64_t bs) {   \
    const T first_a = a[0], first_b = b[0];                                    \
    for (int64_t k = 0; k < count; k += GROUP) {                               \
      const int64_t end = ls_min_i64(k + GROUP, count);                        \
      uint64_t any = 0;                                                        \
      for (int64_t i = k; i < end; ++i) {                                      \
        const double x = (double)(as == 0 ? first_a : a[i]);                   \
        const double y = (double)(bs == 0 ? first_b : b[i]);                   \
        any |= ls_f64_abs(x / y) < 0x1p52 ? 0U : 1U;                           \
      }                                                                        \
      if (any != 0) {                                                          \
        for (int64_t i = k; i < end; ++i)                                      \
          o[i] = FMOD(as == 0 ? first_a : a[i], bs == 0 ? first_b : b[i]);     \
        continue;                                                              \
      }                                                                        \
      LS_INDEPENDENT                                                           \
      for (int64_t i = k; i < end; ++i)                                        \
        o[i] = (T)ls_f64_fmod((double)(as == 0 ? first_a : a[i]),              \
                              (double)(bs == 0 ? first_b : b[i]));             \
    }                                                                          \
  }                                                                            \
  static void remainder_##D(const ls_elementwise *self, void *out,             \
                            const void *const *in, int64_t count) {            \
    if (self->scalars == 0)                                                    \
      remainder_steps_##D(out, in[0], in[1], count, 1, 1);                     \
    else if (self->scalars == 1)                                               \
      remainder_steps_##D(out, in[0], in[1], count, 0, 1);                     \
    else                                                                       \
      remainder_steps_##D(out, in[0], in[1], count, 1, 0);                     \
  }
REMAINDER(F64, double, fmod)
REMAINDER(F32, float, fmodf)

// ---- Softmax ---------------------------------------------------------------
double LS_ISA_NAME(ls_cpu_exp_above)(double *dst, const double *src, double max,
                                     size_t n) {
  double sums[16] = {0}, powers[GROUP];
  for (size_t k = 0; k < n; k += GROUP) {
    const size_t count = n - k < GROUP ? n - k : GROUP;
    double *out = dst != NULL ? dst + k : powers;
    LS_INDEPENDENT
    for (size_t i = 0; i < count; ++i)
      out[i] = ls_f64_exp(src[k + i] - max);
    for (size_t i = 0; i < count; ++i)
      sums[i % 16] += out[i];
  }
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i)
      sums[i] += sums[i + half];
  return sums[0];
}

// ---- All -------------------------------------------------------------------
const ls_cpu_spans LS_ISA_NAME(ls_cpu_elementary) = {
    .f32 = {[LS_OP_EXP] = exp_F32,
            [LS_OP_LOG] = log_F32,
            [LS_OP_ERF] = erf_F32,
            [LS_OP_SIGMOID] = sigmoid_F32,
            [LS_OP_RSQRT] = rsqrt_F32,
            [LS_OP_GELU] = gelu_F32,
            [LS_OP_EXPM1] = expm1_F32,
            [LS_OP_LOG1P] = log1p_F32,
            [LS_OP_TANH] = tanh_F32,
            [LS_OP_SOFTPLUS] = softplus_F32,
            [LS_OP_SIN] = sin_F32,
            [LS_OP_COS] = cos_F32,
            [LS_OP_TAN] = tan_F32,
            [LS_OP_ERFC] = erfc_F32,
            [LS_OP_CBRT] = cbrt_F32,
            [LS_OP_POW] = pow_F32,
            [LS_OP_ATAN2] = atan2_F32,
            [LS_OP_REMAINDER] = remainder_F32},
    .f64 = {[LS_OP_EXP] = exp_F64,
            [LS_OP_EXPM1] = expm1_F64,
            [LS_OP_LOG] = log_F64,
            [LS_OP_LOG1P] = log1p_F64,
            [LS_OP_TANH] = tanh_F64,
            [LS_OP_ERF] = erf_F64,
            [LS_OP_ERFC] = erfc_F64,
            [LS_OP_CBRT] = cbrt_F64,
            [LS_OP_RSQRT] = rsqrt_F64,
            [LS_OP_SIGMOID] = sigmoid_F64,
            [LS_OP_SOFTPLUS] = softplus_F64,
            [LS_OP_GELU] = gelu_F64,
            [LS_OP_GELU_GRAD] = gelu_grad_F64,
            [LS_OP_SIN] = sin_F64,
            [LS_OP_COS] = cos_F64,
            [LS_OP_TAN] = tan_F64,
            [LS_OP_POW] = pow_F64,
            [LS_OP_ATAN2] = atan2_F64,
            [LS_OP_REMAINDER] = remainder_F64},
};
