// SPDX-License-Identifier: Apache-2.0
//
// Spans of integers, which wrap around, and logic on bools: a bool is a byte, 0
// or not.
//
// A shift by at least the number of bits, or by a negative amount, moves all
// bits out.
#include "engine/cpu/isa/isa.h"
#include "engine/cpu/kernels/loops.h"

// ---- Two operands ----------------------------------------------------------
#define BINARY(name, E, D, T, W) LS_SPAN_OF_TWO(name, E, D, T, T, W)

LS_EACH_INTEGER(BINARY, add, LS_ADD_INTEGER)
LS_EACH_INTEGER(BINARY, sub, LS_SUB_INTEGER)
LS_EACH_INTEGER(BINARY, mul, LS_MUL_INTEGER)
LS_EACH_INTEGER(BINARY, maximum, LS_MAX_INTEGER)
LS_EACH_INTEGER(BINARY, minimum, LS_MIN_INTEGER)

// Elements that are raised to powers together.
enum { POWERS = 64 };

// Multiplies squares, in as many rounds as the largest exponent has bits. A
// negative exponent stands for 1 / x^n towards zero, which is 0 except for 1
// and -1; all bits are set for x = 0.
#define RAISE(W, PRODUCT)                                                      \
  static void raise_##W(W *power, W *x, W *y, bool is_signed) {                \
    W all = 0;                                                                 \
    for (int i = 0; i < POWERS; ++i) {                                         \
      const bool inverts = is_signed && y[i] >> (LS_WIDTH(W) - 1) != 0;        \
      const W ones = (W) ~(W)0, last = y[i] & 1;                               \
      const W inverse = x[i] == 0                   ? ones                     \
                        : x[i] == 1 || x[i] == ones ? x[i]                     \
                                                    : 0;                       \
      y[i] = !inverts ? y[i] : x[i] == ones ? last : 1;                        \
      x[i] = inverts ? inverse : x[i];                                         \
      all = all | y[i];                                                        \
      power[i] = 1;                                                            \
    }                                                                          \
    for (; all != 0; all = (W)(all >> 1))                                      \
      for (int i = 0; i < POWERS; ++i) {                                       \
        const W by = (y[i] & 1) != 0 ? x[i] : 1;                               \
        power[i] = (W)((PRODUCT)power[i] * by);                                \
        x[i] = (W)((PRODUCT)x[i] * x[i]);                                      \
        y[i] = (W)(y[i] >> 1);                                                 \
      }                                                                        \
  }
RAISE(uint16_t, uint32_t)
RAISE(uint32_t, uint32_t)
RAISE(uint64_t, uint64_t)

#define POWER(is_signed, D, T, W)                                              \
  static void pow_##D(const ls_elementwise *self, void *out,                   \
                      const void *const *in, int64_t count) {                  \
    const T *a = in[0], *b = in[1];                                            \
    const bool one = (self->scalars & 1) != 0,                                 \
               same = (self->scalars & 2) != 0;                                \
    W x[POWERS] = {0}, y[POWERS] = {0}, power[POWERS];                         \
    for (int64_t at = 0; at < count; at += POWERS) {                           \
      const int64_t n = ls_min_i64(POWERS, count - at);                        \
      for (int64_t i = 0; i < n; ++i)                                          \
        x[i] = (W)(one ? a[0] : a[at + i]);                                    \
      for (int64_t i = 0; i < n; ++i)                                          \
        y[i] = (W)(same ? b[0] : b[at + i]);                                   \
      raise_##W(power, x, y, is_signed);                                       \
      for (int64_t i = 0; i < n; ++i)                                          \
        ((T *)out)[at + i] = (T)power[i];                                      \
    }                                                                          \
  }
POWER(true, I8, int8_t, uint16_t)
POWER(true, I16, int16_t, uint16_t)
POWER(true, I32, int32_t, uint32_t)
POWER(true, I64, int64_t, uint64_t)
POWER(false, U8, uint8_t, uint16_t)
POWER(false, U16, uint16_t, uint16_t)
POWER(false, U32, uint32_t, uint32_t)
POWER(false, U64, uint64_t, uint64_t)

// Reads x even where it is not chosen, so that the loop is vectorized.
#define RELU_GRAD(T, W, x, y) ((T)((W)(x) & (0 - (W)((y) > 0))))
LS_EACH_INTEGER(BINARY, relu_grad, RELU_GRAD)

// Divides in floats, as vectors have no other division, with the results of
// LS_DIV_SIGNED: the quotient of integers of 16 bits in f32, or of 32 bits in
// f64, is never rounded up to a whole number.
#define QUOTIENT(is_signed, D, T, W)                                           \
  static inline T quotient_##T(T x, T y) {                                     \
    const T by = (T)(y == 0 || (is_signed && y == (T)-1) ? 1 : y);             \
    const T minus = (T)(0 - (W)x);                                             \
    T q = 0;                                                                   \
    if (sizeof(T) <= 2)                                                        \
      q = (T)(int32_t)((float)x / (float)by);                                  \
    else if (is_signed && sizeof(T) == 4)                                      \
      q = (T)(int32_t)((double)x / (double)by);                                \
    else                                                                       \
      q = (T)(x / by);                                                         \
    return y == 0 ? (T) ~(W)0 : is_signed && y == (T)-1 ? minus : q;           \
  }
LS_EACH_SIGNED(QUOTIENT, true)
LS_EACH_UNSIGNED(QUOTIENT, false)
#define DIV(T, W, x, y) quotient_##T(x, y)
#define REMAINDER(T, W, x, y)                                                  \
  ((T)((y) == 0 ? (x) : (T)((W)(x) - (W)quotient_##T(x, y) * (W)(y))))
LS_EACH_INTEGER(BINARY, div, DIV)
LS_EACH_INTEGER(BINARY, remainder, REMAINDER)

// ---- One operand -----------------------------------------------------------
#define UNARY(name, E, D, T, W) LS_SPAN_OF_ONE(name, E, D, T, T, W)

#define NEG_INTEGER(T, W, x) ((T)(0 - (W)(x)))
LS_EACH_INTEGER(UNARY, neg, NEG_INTEGER)

#define ABS_SIGNED(T, W, x) ((x) < 0 ? NEG_INTEGER(T, W, x) : (x))
#define ABS_UNSIGNED(T, W, x) (x)
LS_EACH_SIGNED(UNARY, abs, ABS_SIGNED)
LS_EACH_UNSIGNED(UNARY, abs, ABS_UNSIGNED)

#define SIGN_SIGNED(T, W, x) ((T)(((x) > 0) - ((x) < 0)))
#define SIGN_UNSIGNED(T, W, x) ((T)((x) != 0))
LS_EACH_SIGNED(UNARY, sign, SIGN_SIGNED)
LS_EACH_UNSIGNED(UNARY, sign, SIGN_UNSIGNED)

#define RELU_SIGNED(T, W, x) ((x) < 0 ? (T)0 : (x))
#define RELU_UNSIGNED(T, W, x) (x)
LS_EACH_SIGNED(UNARY, relu, RELU_SIGNED)
LS_EACH_UNSIGNED(UNARY, relu, RELU_UNSIGNED)

// ---- Bits ------------------------------------------------------------------
#define NOT_INTEGER(T, W, x) ((T) ~(W)(x))
#define NOT_BOOL(T, W, x) ((T)((x) == 0))
LS_EACH_INTEGER(UNARY, not, NOT_INTEGER)
UNARY(not, NOT_BOOL, BOOL, uint8_t, uint32_t)

#define AND(T, W, x, y) ((T)((W)(x) & (W)(y)))
#define OR(T, W, x, y) ((T)((W)(x) | (W)(y)))
#define XOR(T, W, x, y) ((T)((W)(x) ^ (W)(y)))
#define AS_BOOLS(E, x, y) ((uint8_t)(((x) != 0) E((y) != 0)))
#define AND_BOOL(T, W, x, y) AS_BOOLS(&, x, y)
#define OR_BOOL(T, W, x, y) AS_BOOLS(|, x, y)
#define XOR_BOOL(T, W, x, y) AS_BOOLS(^, x, y)
LS_EACH_INTEGER(BINARY, and, AND)
LS_EACH_INTEGER(BINARY, or, OR)
LS_EACH_INTEGER(BINARY, xor, XOR)
BINARY(and, AND_BOOL, BOOL, uint8_t, uint32_t)
BINARY(or, OR_BOOL, BOOL, uint8_t, uint32_t)
BINARY(xor, XOR_BOOL, BOOL, uint8_t, uint32_t)

// Shifts of bytes and pairs of bytes take steps of 8, 4, 2 and 1 bits: there
// are no instructions that shift vectors of these by vectors. An amount out of
// range counts as the largest one, which an arithmetic shift by more bits
// equals.
#define UNSIGNED(T)                                                            \
  __typeof__(_Generic((T)0, int8_t                                             \
                      : (uint8_t)0, int16_t                                    \
                      : (uint16_t)0, int32_t                                   \
                      : (uint32_t)0, int64_t                                   \
                      : (uint64_t)0, default                                   \
                      : (T)0))
#define SIGNED(T)                                                              \
  __typeof__(_Generic((T)0, uint8_t                                            \
                      : (int8_t)0, uint16_t                                    \
                      : (int16_t)0, uint32_t                                   \
                      : (int32_t)0, uint64_t                                   \
                      : (int64_t)0, default                                    \
                      : (T)0))
#define STEP(LANE, bits, op) r = (LANE)((by & (bits)) != 0 ? r op(bits) : r)
#define SHIFT(name, LANE, op, out_of_range, D, T, W)                           \
  static inline T name##_by_##T(T x, T amount) {                               \
    const UNSIGNED(T) top = LS_WIDTH(T) - 1, given = (UNSIGNED(T))amount;      \
    const UNSIGNED(T) by = given > top ? top : given;                          \
    LANE(T) r = (LANE(T))x;                                                    \
    if (sizeof(T) > 2) {                                                       \
      r = (LANE(T))(r op by);                                                  \
    } else {                                                                   \
      if (sizeof(T) == 2) STEP(LANE(T), 8, op);                                \
      STEP(LANE(T), 4, op);                                                    \
      STEP(LANE(T), 2, op);                                                    \
      STEP(LANE(T), 1, op);                                                    \
    }                                                                          \
    return (T)(given > top ? out_of_range : r);                                \
  }
LS_EACH_INTEGER(SHIFT, left, UNSIGNED, <<, 0)
LS_EACH_INTEGER(SHIFT, logical, UNSIGNED, >>, 0)
LS_EACH_INTEGER(SHIFT, arithmetic, SIGNED, >>, r)
#define LEFT(T, W, x, y) left_by_##T(x, y)
#define LOGICAL(T, W, x, y) logical_by_##T(x, y)
#define ARITHMETIC(T, W, x, y) arithmetic_by_##T(x, y)
LS_EACH_INTEGER(BINARY, left, LEFT)
LS_EACH_INTEGER(BINARY, logical, LOGICAL)
LS_EACH_INTEGER(BINARY, arithmetic, ARITHMETIC)

// Counts the ones of 64 bits by an instruction if there is one for scalars but
// no fast product of vectors; otherwise sums neighbours: of bits, pairs,
// nibbles, bytes.
static inline uint8_t ones_8(uint8_t x) {
  x = (uint8_t)(x - (x >> 1 & 0x55));
  x = (uint8_t)((x & 0x33) + (x >> 2 & 0x33));
  return (uint8_t)((x + (x >> 4)) & 0x0F);
}
static inline uint16_t ones_16(uint16_t x) {
  x = (uint16_t)(x - (x >> 1 & 0x5555));
  x = (uint16_t)((x & 0x3333) + (x >> 2 & 0x3333));
  x = (uint16_t)((x + (x >> 4)) & 0x0F0F);
  return (uint16_t)((x + (x >> 8)) & 0x1F);
}
static inline uint32_t ones_32(uint32_t x) {
  x -= x >> 1 & 0x55555555U;
  x = (x & 0x33333333U) + (x >> 2 & 0x33333333U);
  x = (x + (x >> 4)) & 0x0F0F0F0FU;
  x += x >> 8;
  return (x + (x >> 16)) & 0x3FU;
}
static inline uint64_t ones_64(uint64_t x) {
#if defined(__POPCNT__) && !defined(__AVX512DQ__)
  return (uint64_t)__builtin_popcountll(x);
#else
  // Not the difference x - (x >> 1 & 0x55...), which gcc takes for the
  // instruction.
  x = (x & UINT64_C(0x5555555555555555)) +
      (x >> 1 & UINT64_C(0x5555555555555555));
  x = (x & UINT64_C(0x3333333333333333)) +
      (x >> 2 & UINT64_C(0x3333333333333333));
  x = (x + (x >> 4)) & UINT64_C(0x0F0F0F0F0F0F0F0F);
  return x * UINT64_C(0x0101010101010101) >> 56;
#endif
}

// Sets all bits below the highest one that is set.
static inline uint8_t filled_8(uint8_t x) {
  x = (uint8_t)(x | x >> 1);
  x = (uint8_t)(x | x >> 2);
  return (uint8_t)(x | x >> 4);
}
static inline uint16_t filled_16(uint16_t x) {
  x = (uint16_t)(x | x >> 1);
  x = (uint16_t)(x | x >> 2);
  x = (uint16_t)(x | x >> 4);
  return (uint16_t)(x | x >> 8);
}
static inline uint64_t filled_64(uint64_t x) {
  x |= x >> 1;
  x |= x >> 2;
  x |= x >> 4;
  x |= x >> 8;
  x |= x >> 16;
  return x | x >> 32;
}

static inline uint8_t leading_8(uint8_t x) {
  return (uint8_t)(8 - ones_8(filled_8(x)));
}
static inline uint16_t leading_16(uint16_t x) {
  return (uint16_t)(16 - ones_16(filled_16(x)));
}
// Reads the exponent of x as a float. Without the bit below the highest one, x
// is not rounded up to a power of two.
static inline uint32_t leading_32(uint32_t x) {
  const uint32_t bits = ls_float_bits((float)(int32_t)(x & ~(x >> 1)));
  const uint32_t zeros = 158 - (bits >> 23);
  return (int32_t)x < 0 ? 0 : zeros < 32 ? zeros : 32;
}
// As ones_64: by an instruction for scalars.
static inline uint64_t leading_64(uint64_t x) {
#if defined(__LZCNT__)
  return x == 0 ? 64 : (uint64_t)__builtin_clzll(x);
#else
  return 64 - ones_64(filled_64(x));
#endif
}

#define OF_SIZE(T, name, x)                                                    \
  (sizeof(T) == 8   ? name##_64((uint64_t)(x))                                 \
   : sizeof(T) == 4 ? name##_32((uint32_t)(x))                                 \
   : sizeof(T) == 2 ? name##_16((uint16_t)(x))                                 \
                    : name##_8((uint8_t)(x)))
#define POPCOUNT(T, W, x) ((T)OF_SIZE(T, ones, x))
#define LEADING(T, W, x) ((T)OF_SIZE(T, leading, x))
LS_EACH_INTEGER(UNARY, popcount, POPCOUNT)
LS_EACH_INTEGER(UNARY, leading, LEADING)

// ---- All -------------------------------------------------------------------
#define ENTRY(name, D, T, W) [LS_DTYPE_##D] = name##_##D,
#define INTEGERS(name)                                                         \
  { LS_EACH_INTEGER(ENTRY, name) }
#define INTEGERS_AND_BOOL(name)                                                \
  { LS_EACH_INTEGER(ENTRY, name) ENTRY(name, BOOL, , ) }

const ls_cpu_typed_spans LS_ISA_NAME(ls_cpu_integer_spans) = {{
    [LS_OP_ADD] = INTEGERS(add),
    [LS_OP_SUB] = INTEGERS(sub),
    [LS_OP_MUL] = INTEGERS(mul),
    [LS_OP_DIV] = INTEGERS(div),
    [LS_OP_REMAINDER] = INTEGERS(remainder),
    [LS_OP_MAXIMUM] = INTEGERS(maximum),
    [LS_OP_MINIMUM] = INTEGERS(minimum),
    [LS_OP_POW] = INTEGERS(pow),
    [LS_OP_RELU_GRAD] = INTEGERS(relu_grad),
    [LS_OP_NEG] = INTEGERS(neg),
    [LS_OP_ABS] = INTEGERS(abs),
    [LS_OP_SIGN] = INTEGERS(sign),
    [LS_OP_RELU] = INTEGERS(relu),
    [LS_OP_NOT] = INTEGERS_AND_BOOL(not ),
    [LS_OP_AND] = INTEGERS_AND_BOOL(and),
    [LS_OP_OR] = INTEGERS_AND_BOOL(or),
    [LS_OP_XOR] = INTEGERS_AND_BOOL(xor),
    [LS_OP_SHIFT_LEFT] = INTEGERS(left),
    [LS_OP_SHIFT_RIGHT_LOGICAL] = INTEGERS(logical),
    [LS_OP_SHIFT_RIGHT_ARITHMETIC] = INTEGERS(arithmetic),
    [LS_OP_POPCOUNT] = INTEGERS(popcount),
    [LS_OP_COUNT_LEADING_ZEROS] = INTEGERS(leading),
}};
