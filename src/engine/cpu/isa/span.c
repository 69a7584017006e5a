// SPDX-License-Identifier: Apache-2.0
//
// Spans of floats whose elements are an IEEE operation or two: the compiler
// vectorizes them, with the same bits on every instruction set.
#include <math.h>

#include "engine/cpu/isa/bf16.h"
#include "engine/cpu/isa/isa.h"
#include "engine/cpu/kernels/loops.h"

// ---- Two operands ----------------------------------------------------------
#define BINARY(name, E, D, T, W) LS_SPAN_OF_TWO(name, E, D, T, T, W)

#define RELU_GRAD(T, W, x, y) ((y) > 0 ? (x) : (T)0)
LS_EACH_FLOAT(BINARY, add, LS_ADD_FLOAT)
LS_EACH_FLOAT(BINARY, sub, LS_SUB_FLOAT)
LS_EACH_FLOAT(BINARY, mul, LS_MUL_FLOAT)
LS_EACH_FLOAT(BINARY, div, LS_DIV_FLOAT)
LS_EACH_FLOAT(BINARY, maximum, LS_MAX_FLOAT)
LS_EACH_FLOAT(BINARY, minimum, LS_MIN_FLOAT)
LS_EACH_FLOAT(BINARY, relu_grad, RELU_GRAD)

// ---- One operand -----------------------------------------------------------
#define UNARY(name, E, D, T, W) LS_SPAN_OF_ONE(name, E, D, T, T, W)

#define NEG(T, W, x) (-(x))
#define ABS_F32(T, W, x) fabsf(x)
#define ABS_F64(T, W, x) fabs(x)
#define SQRT_F32(T, W, x) sqrtf(x)
#define SQRT_F64(T, W, x) sqrt(x)
// A zero keeps its sign, and NaN stays; a product flushes subnormals, which
// compare as 0.
#define SIGN(T, W, x) ((x) > 0 ? (T)1 : (x) < 0 ? (T)-1 : (x) * (T)0)
// Matches the product's epilogue: -0 and NaN stay.
#define RELU(T, W, x) LS_FLUSHED(T, (T)0 > (x) ? (T)0 : (x))
LS_EACH_FLOAT(UNARY, neg, NEG)
UNARY(abs, ABS_F32, F32, float, float)
UNARY(abs, ABS_F64, F64, double, double)
UNARY(sqrt, SQRT_F32, F32, float, float)
UNARY(sqrt, SQRT_F64, F64, double, double)
LS_EACH_FLOAT(UNARY, sign, SIGN)
LS_EACH_FLOAT(UNARY, relu, RELU)

// ---- Rounding --------------------------------------------------------------
// Rounds without a call. Without an instruction for it, adding 2^23 (2^52) to a
// smaller number rounds it to an integer, to even. Larger numbers are integers
// already, and NaN stays.
#if defined(__SSE4_1__)
#define ROUNDING(D, T, S, LIMIT)                                               \
  static inline T nearest_##D(T x) { return __builtin_rint##S(x); }            \
  static inline T below_##D(T x) { return __builtin_floor##S(x); }             \
  static inline T above_##D(T x) { return __builtin_ceil##S(x); }
#else
#define ROUNDING(D, T, S, LIMIT)                                               \
  static inline T nearest_##D(T x) {                                           \
    const T size = __builtin_fabs##S(x);                                       \
    const T near = (size + LIMIT) - LIMIT;                                     \
    return __builtin_copysign##S(size < LIMIT ? near : size, x);               \
  }                                                                            \
  static inline T below_##D(T x) {                                             \
    const T near = nearest_##D(x);                                             \
    return __builtin_copysign##S(near - (near > x ? (T)1 : (T)0), x);          \
  }                                                                            \
  static inline T above_##D(T x) {                                             \
    const T near = nearest_##D(x);                                             \
    return __builtin_copysign##S(near + (near < x ? (T)1 : (T)0), x);          \
  }
#endif
#define ROUNDING_AWAY(D, T, S, LIMIT)                                          \
  ROUNDING(D, T, S, LIMIT)                                                     \
  static inline T nearest_away_##D(T x) {                                      \
    const T size = __builtin_fabs##S(x), less = below_##D(size);               \
    const T step_up = size - less >= (T)0.5 ? (T)1 : (T)0;                     \
    return __builtin_copysign##S(less + step_up, x);                           \
  }
ROUNDING_AWAY(F32, float, f, 0x1p23F)
ROUNDING_AWAY(F64, double, , 0x1p52)
#define ROUND(T, W, x) nearest_##W(x)
#define FLOOR(T, W, x) below_##W(x)
#define CEIL(T, W, x) above_##W(x)
#define ROUND_AWAY(T, W, x) nearest_away_##W(x)
#define ROUNDS(name, E)                                                        \
  UNARY(name, E, F32, float, F32)                                              \
  UNARY(name, E, F64, double, F64)
ROUNDS(round, ROUND)
ROUNDS(floor, FLOOR)
ROUNDS(ceil, CEIL)
ROUNDS(round_away, ROUND_AWAY)

#define IS_FINITE_F32(T, W, x) (fabsf(x) < INFINITY)
#define IS_FINITE_F64(T, W, x) (fabs(x) < (double)INFINITY)
LS_SPAN_OF_ONE(is_finite, IS_FINITE_F32, F32, uint8_t, float, )
LS_SPAN_OF_ONE(is_finite, IS_FINITE_F64, F64, uint8_t, double, )
#define IS_FINITE_BF16(T, W, x) (((x)&0x7F80U) != 0x7F80U)
LS_SPAN_OF_ONE(is_finite, IS_FINITE_BF16, BF16, uint8_t, uint16_t, )

// ---- 16-bit floats ---------------------------------------------------------
// bf16: the operation W in f32, rounded once.
#define IN_F32(T, W, x) ls_narrow_bf16(W(float, F32, ls_widen_bf16(x)))
#define IN_F32_TWO(T, W, x, y)                                                 \
  ls_narrow_bf16(W(float, F32, ls_widen_bf16(x), ls_widen_bf16(y)))
#define BF16_ONE(name, W)                                                      \
  LS_SPAN_OF_ONE(name, IN_F32, BF16, uint16_t, uint16_t, W)
// Results of rounding, and signs, are bf16 already. Without an instruction NaN
// may not be quiet before it is narrowed.
#if defined(__SSE4_1__)
#define EXACT_F32(T, W, x)                                                     \
  ((uint16_t)(ls_float_bits(W(float, F32, ls_widen_bf16(x))) >> 16))
#else
#define EXACT_F32 IN_F32
#endif
#define BF16_EXACT(name, W)                                                    \
  LS_SPAN_OF_ONE(name, EXACT_F32, BF16, uint16_t, uint16_t, W)
#define BF16_TWO(name, W)                                                      \
  LS_SPAN_OF_TWO(name, IN_F32_TWO, BF16, uint16_t, uint16_t, W)
BF16_TWO(add, LS_ADD_FLOAT)
BF16_TWO(sub, LS_SUB_FLOAT)
BF16_TWO(mul, LS_MUL_FLOAT)
BF16_TWO(div, LS_DIV_FLOAT)
BF16_TWO(maximum, LS_MAX_FLOAT)
BF16_TWO(minimum, LS_MIN_FLOAT)
BF16_TWO(relu_grad, RELU_GRAD)
BF16_ONE(neg, NEG)
BF16_ONE(abs, ABS_F32)
BF16_ONE(sqrt, SQRT_F32)
#define RSQRT_F32(T, W, x) (1.0F / sqrtf(x))
BF16_ONE(rsqrt, RSQRT_F32)
BF16_EXACT(sign, SIGN)
BF16_ONE(relu, RELU)
BF16_EXACT(round, ROUND)
BF16_EXACT(floor, FLOOR)
BF16_EXACT(ceil, CEIL)
BF16_EXACT(round_away, ROUND_AWAY)

// f16: numbers below 0 are 0x8001 to 0xFC00.
#define NEG_BITS(T, W, x) ((uint16_t)((x) ^ 0x8000U))
#define ABS_BITS(T, W, x) ((uint16_t)((x)&0x7FFFU))
#define RELU_BITS(T, W, x) ((uint16_t)((x)-0x8001U) < 0x7C00U ? 0 : (x))
UNARY(neg, NEG_BITS, F16, uint16_t, )
UNARY(abs, ABS_BITS, F16, uint16_t, )
UNARY(relu, RELU_BITS, F16, uint16_t, )

#if VF_CONVERTS_F16
// Arithmetic in f32, rounded once. A scalar is repeated in a vector's memory,
// where the last elements, fewer than a vector, are copied, too.
#define F16_TWO(name, two)                                                     \
  static void name##_F16(const ls_elementwise *self, void *out,                \
                         const void *const *in, int64_t count) {               \
    const uint16_t *a = in[0], *b = in[1];                                     \
    const bool as = self->scalars != 1, bs = self->scalars != 2;               \
    uint16_t *o = out, x[VF_LANES], y[VF_LANES];                               \
    int64_t i = 0;                                                             \
    for (; i < VF_LANES; ++i) {                                                \
      x[i] = a[0];                                                             \
      y[i] = b[0];                                                             \
    }                                                                          \
    for (i = 0; i + VF_LANES <= count; i += VF_LANES)                          \
      vf_store_f16(o + i, two(vf_load_f16(as ? a + i : x),                     \
                              vf_load_f16(bs ? b + i : y)));                   \
    const size_t rest = (size_t)(count - i) * sizeof(*o);                      \
    if (as) memcpy(x, a + i, rest);                                            \
    if (bs) memcpy(y, b + i, rest);                                            \
    vf_store_f16(x, two(vf_load_f16(x), vf_load_f16(y)));                      \
    memcpy(o + i, x, rest);                                                    \
  }
#define F16_ONE(name, one)                                                     \
  static void name##_F16(const ls_elementwise *self, void *out,                \
                         const void *const *in, int64_t count) {               \
    (void)self;                                                                \
    const uint16_t *a = in[0];                                                 \
    uint16_t *o = out, x[VF_LANES] = {0};                                      \
    int64_t i = 0;                                                             \
    for (; i + VF_LANES <= count; i += VF_LANES)                               \
      vf_store_f16(o + i, one(vf_load_f16(a + i)));                            \
    const size_t rest = (size_t)(count - i) * sizeof(*o);                      \
    memcpy(x, a + i, rest);                                                    \
    vf_store_f16(x, one(vf_load_f16(x)));                                      \
    memcpy(o + i, x, rest);                                                    \
  }
#if defined(__AVX512F__)
#define ROUNDED(x, way) _mm512_roundscale_ps(x, (way) | _MM_FROUND_NO_EXC)
#else
#define ROUNDED(x, way)                                                        \
  (vf) {                                                                       \
    _mm256_round_ps((x).lo, (way) | _MM_FROUND_NO_EXC),                        \
        _mm256_round_ps((x).hi, (way) | _MM_FROUND_NO_EXC)                     \
  }
#endif
LS_INLINE vf nearest_of(vf x) { return ROUNDED(x, _MM_FROUND_TO_NEAREST_INT); }
LS_INLINE vf below_of(vf x) { return ROUNDED(x, _MM_FROUND_TO_NEG_INF); }
LS_INLINE vf above_of(vf x) { return ROUNDED(x, _MM_FROUND_TO_POS_INF); }
LS_INLINE vf rsqrt_of(vf x) { return vf_div(vf_set1(1.0F), vf_sqrt(x)); }
F16_ONE(round, nearest_of)
F16_ONE(floor, below_of)
F16_ONE(ceil, above_of)
F16_ONE(sqrt, vf_sqrt)
F16_ONE(rsqrt, rsqrt_of)

LS_INLINE vf max_vectors(vf x, vf y) { return vf_nan_or(x, vf_max(x, y)); }
LS_INLINE vf min_vectors(vf x, vf y) { return vf_nan_or(x, vf_min(x, y)); }
F16_TWO(add, vf_add)
F16_TWO(sub, vf_sub)
F16_TWO(mul, vf_mul)
F16_TWO(div, vf_div)
F16_TWO(maximum, max_vectors)
F16_TWO(minimum, min_vectors)
F16_TWO(relu_grad, vf_where_positive)
#endif

// ---- All -------------------------------------------------------------------
#define ENTRIES(D, ...)                                                        \
  {                                                                            \
    [LS_OP_ADD] = add_##D, [LS_OP_SUB] = sub_##D, [LS_OP_MUL] = mul_##D,       \
    [LS_OP_DIV] = div_##D, [LS_OP_MAXIMUM] = maximum_##D,                      \
    [LS_OP_MINIMUM] = minimum_##D, [LS_OP_RELU_GRAD] = relu_grad_##D,          \
    [LS_OP_NEG] = neg_##D, [LS_OP_ABS] = abs_##D, [LS_OP_SQRT] = sqrt_##D,     \
    [LS_OP_SIGN] = sign_##D, [LS_OP_RELU] = relu_##D,                          \
    [LS_OP_ROUND] = round_##D, [LS_OP_FLOOR] = floor_##D,                      \
    [LS_OP_CEIL] = ceil_##D, [LS_OP_ROUND_AWAY] = round_away_##D,              \
    [LS_OP_IS_FINITE] = is_finite_##D, __VA_ARGS__                             \
  }

const ls_cpu_spans LS_ISA_NAME(ls_cpu_spans) = {
    .f32 = ENTRIES(F32, ),
    .f64 = ENTRIES(F64, ),
    .bf16 = ENTRIES(BF16, [LS_OP_RSQRT] = rsqrt_BF16),
    .f16 =
        {
            [LS_OP_NEG] = neg_F16,
            [LS_OP_ABS] = abs_F16,
            [LS_OP_RELU] = relu_F16,
#if VF_CONVERTS_F16
            [LS_OP_ADD] = add_F16,
            [LS_OP_SUB] = sub_F16,
            [LS_OP_MUL] = mul_F16,
            [LS_OP_DIV] = div_F16,
            [LS_OP_MAXIMUM] = maximum_F16,
            [LS_OP_MINIMUM] = minimum_F16,
            [LS_OP_RELU_GRAD] = relu_grad_F16,
            [LS_OP_ROUND] = round_F16,
            [LS_OP_FLOOR] = floor_F16,
            [LS_OP_CEIL] = ceil_F16,
            [LS_OP_SQRT] = sqrt_F16,
            [LS_OP_RSQRT] = rsqrt_F16,
#endif
        },
};
