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

#define EXPM1(T, W, x) ls_f64_expm1(x)
#define LOG(T, W, x) ls_f64_log(x)
#define LOG1P(T, W, x) ls_f64_log1p(x)
#define TANH(T, W, x) ls_f64_tanh(x)
#define ERFC(T, W, x) ls_f64_erfc(x)
#define CBRT(T, W, x) ls_f64_cbrt(x)
#define RSQRT(T, W, x) (1.0 / sqrt(x))
#define SIGMOID(T, W, x) (1.0 / (1.0 + ls_f64_exp(-(x))))
#define SOFTPLUS(T, W, x)                                                      \
  ((0.0 > (x) ? 0.0 : (x)) + ls_f64_log1p(ls_f64_exp(-ls_f64_abs(x))))
UNARY(expm1, F64, double, EXPM1)
UNARY(log, F64, double, LOG)
UNARY(log1p, F64, double, LOG1P)
UNARY(tanh, F64, double, TANH)
UNARY(erfc, F64, double, ERFC)
UNARY(cbrt, F64, double, CBRT)
UNARY(rsqrt, F64, double, RSQRT)
UNARY(sigmoid, F64, double, SIGMOID)
UNARY(softplus, F64, double, SOFTPLUS)

#define EXPM1_F32(T, W, x) ls_f32_expm1(x)
#define TANH_F32(T, W, x) ls_f32_tanh(x)
#define SOFTPLUS_F32(T, W, x) ls_f32_softplus(x)
#define ERFC_F32(T, W, x) ls_f32_erfc(x)
#define CBRT_F32(T, W, x) ls_f32_cbrt(x)
UNARY(expm1, F32, float, EXPM1_F32)
UNARY(tanh, F32, float, TANH_F32)
UNARY(softplus, F32, float, SOFTPLUS_F32)
UNARY(erfc, F32, float, ERFC_F32)
UNARY(cbrt, F32, float, CBRT_F32)

// Written with vectors, in isa/vecmath.h.
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

// ---- In groups --------------------------------------------------------------
// Elements that are checked, and then computed, together: by INSIDE if all of
// them are in the range in which it is right, else by ANY. Both give the same
// bits there.
enum { GROUP = 256 };
#define IN_GROUPS(name, D, T, IN_RANGE, INSIDE, ANY)                           \
  static void name##_##D(const ls_elementwise *self, void *out,                \
                         const void *const *in, int64_t count) {               \
    (void)self;                                                                \
    T *o = out;                                                                \
    const T *a = in[0];                                                        \
    for (int64_t k = 0; k < count; k += GROUP, o += GROUP, a += GROUP) {       \
      const int64_t n = ls_min_i64(GROUP, count - k);                          \
      uint64_t any = 0;                                                        \
      for (int64_t i = 0; i < n; ++i)                                          \
        any |= IN_RANGE((double)a[i]) ? 0U : 1U;                               \
      if (any != 0) {                                                          \
        for (int64_t i = 0; i < n; ++i)                                        \
          o[i] = ANY(a[i]);                                                    \
        continue;                                                              \
      }                                                                        \
      LS_INDEPENDENT                                                           \
      for (int64_t i = 0; i < n; ++i)                                          \
        o[i] = (T)INSIDE((double)a[i]);                                        \
    }                                                                          \
  }

#define IS_NORMAL_POWER(x) (ls_f64_abs(x) <= LS_F64_EXP_NORMAL)
IN_GROUPS(exp, F64, double, IS_NORMAL_POWER, ls_f64_exp_normal, ls_f64_exp)

static void erf_F64(const ls_elementwise *self, void *out,
                    const void *const *in, int64_t count) {
  (void)self;
  double r[GROUP], rounded[GROUP], *o = out;
  const double *a = in[0];
  for (int64_t k = 0; k < count; k += GROUP, o += GROUP, a += GROUP) {
    const int64_t n = ls_min_i64(GROUP, count - k);
    for (int64_t i = 0; i < n; ++i) {
      const ls_f64_erf_parts parts = ls_f64_erf_begin(a[i]);
      r[i] = parts.r;
      rounded[i] = parts.rounded;
    }
    LS_INDEPENDENT
    for (int64_t i = 0; i < n; ++i)
      o[i] = ls_f64_erf_end(a[i], (ls_f64_erf_parts){r[i], rounded[i]});
  }
}

#define IS_LOG1P(x) ((x) > -1.0 && (x) < (double)INFINITY)
IN_GROUPS(log1p, F32, float, IS_LOG1P, ls_f32_log1p_inside, ls_f32_log1p)

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
// Returns the sine of x + quarters * pi / 2, for quarters 0 and 1.
static float sin_any_F32(float x, uint64_t quarters) {
  if (x == 0.0f && quarters == 0) return x;
  if (x != x) return x;
  if (fabsf(x) < (float)LS_F64_LARGE_ANGLE)
    return ls_f32_sin_of(
        ls_f32_half_turns_of((double)x, quarters == 0 ? 0.0 : 0.5));
  const ls_f32_angle angle = reduce_any_F32(x);
  return ls_f32_sin_of(
      ls_f32_half_turns_from(angle.quarter + quarters, angle.r));
}

#define IS_SMALL_ANGLE(x) (ls_f64_abs(x) < LS_F64_LARGE_ANGLE)
#define SIN_F64(x) ls_f64_sin_of(ls_f64_reduce(x), x)
#define SIN_F64_ANY(x) ls_f64_sin_of(reduce_any_F64(x), x)
#define COS_F64(x) ls_f64_cos_of(ls_f64_reduce(x), x)
#define COS_F64_ANY(x) ls_f64_cos_of(reduce_any_F64(x), x)
#define TAN_F64(x) ls_f64_tan_of(ls_f64_reduce(x), x)
#define TAN_F64_ANY(x) ls_f64_tan_of(reduce_any_F64(x), x)
IN_GROUPS(sin, F64, double, IS_SMALL_ANGLE, SIN_F64, SIN_F64_ANY)
IN_GROUPS(cos, F64, double, IS_SMALL_ANGLE, COS_F64, COS_F64_ANY)
IN_GROUPS(tan, F64, double, IS_SMALL_ANGLE, TAN_F64, TAN_F64_ANY)

#define SIN_F32(x)                                                             \
  ((x) == 0.0 ? (float)(x) : ls_f32_sin_of(ls_f32_half_turns_of(x, 0.0)))
#define SIN_F32_ANY(x) sin_any_F32(x, 0)
#define COS_F32(x) ls_f32_sin_of(ls_f32_half_turns_of(x, 0.5))
#define COS_F32_ANY(x) sin_any_F32(x, 1)
#define TAN_F32(x) ls_f32_tan_of(ls_f32_reduce(x), (float)(x))
#define TAN_F32_ANY(x) ls_f32_tan_of(reduce_any_F32(x), x)
IN_GROUPS(sin, F32, float, IS_SMALL_ANGLE, SIN_F32, SIN_F32_ANY)
IN_GROUPS(cos, F32, float, IS_SMALL_ANGLE, COS_F32, COS_F32_ANY)
IN_GROUPS(tan, F32, float, IS_SMALL_ANGLE, TAN_F32, TAN_F32_ANY)

// ---- Two operands ----------------------------------------------------------
#define BINARY(name, D, T, E) LS_SPAN_OF_TWO(name, E, D, T, T, )

#define ATAN2(T, W, y, x) ls_f64_atan2(y, x)
#define GELU_GRAD(T, W, dy, x) ((dy)*gelu_slope(x))
BINARY(atan2, F64, double, ATAN2)
BINARY(gelu_grad, F64, double, GELU_GRAD)

// As IN_GROUPS. `as` and `bs` are constants at every expansion: 0 for a scalar,
// which is read first, so that the output may lie on the other operand.
#define IN_GROUPS_OF_TWO(name, D, T, IN_RANGE, INSIDE, ANY)                    \
  LS_ALWAYS_INLINE void name##_steps_##D(                                      \
      T *o, const T *a, const T *b, int64_t count, int64_t as, int64_t bs) {   \
    const T first_a = a[0], first_b = b[0];                                    \
    for (int64_t k = 0; k < count; k += GROUP) {                               \
      const int64_t end = ls_min_i64(k + GROUP, count);                        \
      uint64_t any = 0;                                                        \
      for (int64_t i = k; i < end; ++i) {                                      \
        const double x = (double)(as == 0 ? first_a : a[i]);                   \
        const double y = (double)(bs == 0 ? first_b : b[i]);                   \
        any |= IN_RANGE(x, y) ? 0U : 1U;                                       \
      }                                                                        \
      if (any != 0) {                                                          \
        for (int64_t i = k; i < end; ++i)                                      \
          o[i] = ANY(as == 0 ? first_a : a[i], bs == 0 ? first_b : b[i]);      \
        continue;                                                              \
      }                                                                        \
      LS_INDEPENDENT                                                           \
      for (int64_t i = k; i < end; ++i)                                        \
        o[i] = (T)INSIDE((double)(as == 0 ? first_a : a[i]),                   \
                         (double)(bs == 0 ? first_b : b[i]));                  \
    }                                                                          \
  }                                                                            \
  static void name##_##D(const ls_elementwise *self, void *out,                \
                         const void *const *in, int64_t count) {               \
    if (self->scalars == 0)                                                    \
      name##_steps_##D(out, in[0], in[1], count, 1, 1);                        \
    else if (self->scalars == 1)                                               \
      name##_steps_##D(out, in[0], in[1], count, 0, 1);                        \
    else                                                                       \
      name##_steps_##D(out, in[0], in[1], count, 1, 0);                        \
  }

// Quotients from 2^52 on have no exact remainder by one multiple: C's function
// takes their groups.
#define IS_SMALL_QUOTIENT(x, y) (ls_f64_abs(x) < ls_f64_abs(y) * 0x1p52)
IN_GROUPS_OF_TWO(remainder, F64, double, IS_SMALL_QUOTIENT, ls_f64_fmod, fmod)
IN_GROUPS_OF_TWO(remainder, F32, float, IS_SMALL_QUOTIENT, ls_f64_fmod, fmodf)

#define IS_PLAIN_POINT(y, x)                                                   \
  (ls_f64_abs(y) + ls_f64_abs(x) > 0.0 &&                                      \
   ls_f64_abs(y) + ls_f64_abs(x) < (double)INFINITY)
IN_GROUPS_OF_TWO(atan2, F32, float, IS_PLAIN_POINT, ls_f32_atan2_inside,
                 ls_f32_atan2)

#define IS_PLAIN_POWER(x, y)                                                   \
  ((x) > 0.0 && (x) < (double)INFINITY && ls_f64_abs(y) < (double)INFINITY)
IN_GROUPS_OF_TWO(pow, F64, double, IS_PLAIN_POWER, ls_f64_pow_inside,
                 ls_f64_pow)
IN_GROUPS_OF_TWO(pow, F32, float, IS_PLAIN_POWER, ls_f32_pow_inside, ls_f32_pow)

// ---- Softmax ---------------------------------------------------------------
double LS_ISA_NAME(ls_cpu_exp_above)(double *dst, const double *src, double max,
                                     size_t n) {
  double sums[16] = {0}, powers[GROUP];
  for (size_t k = 0; k < n; k += GROUP) {
    const size_t count = n - k < GROUP ? n - k : GROUP;
    double *out = dst != NULL ? dst + k : powers;
    LS_INDEPENDENT
    for (size_t i = 0; i < count; ++i)
      out[i] = src[k + i] - max;
    exp_F64(NULL, out, (const void *[]){out}, (int64_t)count);
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
      for (size_t j = 0; j < 16; ++j)
        sums[j] += out[i + j];
    for (; i < count; ++i)
      sums[i % 16] += out[i];
  }
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i)
      sums[i] += sums[i + half];
  return sums[0];
}

// A scalar is repeated, chunk by chunk.
static void gelu_grad_F32(const ls_elementwise *self, void *out,
                          const void *const *in, int64_t count) {
  float repeated[LS_CHUNK];
  const uint32_t scalars = self->scalars;
  if (scalars == 0) {
    LS_ISA_NAME(ls_cpu_gelu_grad)(out, in[0], in[1], (size_t)count);
    return;
  }
  for (int64_t k = 0; scalars != 0 && k < LS_CHUNK; ++k)
    repeated[k] = *(const float *)in[scalars == 1 ? 0 : 1];
  for (int64_t k = 0; k < count; k += LS_CHUNK) {
    const float *dy = scalars == 1 ? repeated : (const float *)in[0] + k;
    const float *x = scalars == 2 ? repeated : (const float *)in[1] + k;
    LS_ISA_NAME(ls_cpu_gelu_grad)
    ((float *)out + k, dy, x, (size_t)ls_min_i64(LS_CHUNK, count - k));
  }
}

// ---- All -------------------------------------------------------------------
const ls_cpu_spans LS_ISA_NAME(ls_cpu_elementary) = {
    .f32 = {[LS_OP_EXP] = exp_F32,
            [LS_OP_LOG] = log_F32,
            [LS_OP_ERF] = erf_F32,
            [LS_OP_SIGMOID] = sigmoid_F32,
            [LS_OP_RSQRT] = rsqrt_F32,
            [LS_OP_GELU] = gelu_F32,
            [LS_OP_GELU_GRAD] = gelu_grad_F32,
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
