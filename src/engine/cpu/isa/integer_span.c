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
LS_EACH_SIGNED(BINARY, div, LS_DIV_SIGNED)
LS_EACH_UNSIGNED(BINARY, div, LS_DIV_UNSIGNED)
LS_EACH_INTEGER(BINARY, maximum, LS_MAX_INTEGER)
LS_EACH_INTEGER(BINARY, minimum, LS_MIN_INTEGER)

static uint64_t integer_power(uint64_t base, uint64_t exponent) {
  uint64_t power = 1;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1U) != 0) power *= base;
    base *= base;
  }
  return power;
}

// Negative exponents: x^-n is 1 / x^n towards zero, which is 0 except for 1 and
// -1; all bits set for x = 0.
static uint64_t signed_power(int64_t base, int64_t exponent) {
  if (exponent >= 0) return integer_power((uint64_t)base, (uint64_t)exponent);
  if (base == 0) return ~UINT64_C(0);
  if (base == 1) return 1;
  if (base == -1) return (exponent & 1) != 0 ? ~UINT64_C(0) : 1;
  return 0;
}

#define POW_SIGNED(T, W, x, y) ((T)signed_power((x), (y)))
#define POW_UNSIGNED(T, W, x, y) ((T)integer_power((x), (y)))
LS_EACH_SIGNED(BINARY, pow, POW_SIGNED)
LS_EACH_UNSIGNED(BINARY, pow, POW_UNSIGNED)

#define RELU_GRAD(T, W, x, y) ((y) > 0 ? (x) : (T)0)
LS_EACH_INTEGER(BINARY, relu_grad, RELU_GRAD)

#define REMAINDER_SIGNED(T, W, x, y)                                           \
  ((T)((y) == 0 ? (x) : (y) == -1 ? 0 : (x) % (y)))
#define REMAINDER_UNSIGNED(T, W, x, y) ((T)((y) == 0 ? (x) : (x) % (y)))
LS_EACH_SIGNED(BINARY, remainder, REMAINDER_SIGNED)
LS_EACH_UNSIGNED(BINARY, remainder, REMAINDER_UNSIGNED)

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

// A right shift fills in ones if the top bit is one. The amount is masked to
// one that C defines, and the result replaced where the true amount is out of
// range.
#define IS_OUT(T, W, y) (LS_BITS(T, W, y) >= LS_WIDTH(T))
#define AMOUNT(T, W, y) ((unsigned)(W)(y) & (LS_WIDTH(T) - 1))
#define FILL(T, W, x) LS_BITS(T, W, 0 - (LS_BITS(T, W, x) >> (LS_WIDTH(T) - 1)))
#define LEFT(T, W, x, y)                                                       \
  ((T)(IS_OUT(T, W, y) ? (W)0 : (W)(x) << AMOUNT(T, W, y)))
#define LOGICAL(T, W, x, y)                                                    \
  ((T)(IS_OUT(T, W, y) ? (W)0 : LS_BITS(T, W, x) >> AMOUNT(T, W, y)))
#define ARITHMETIC(T, W, x, y)                                                 \
  ((T)(IS_OUT(T, W, y)                                                         \
           ? FILL(T, W, x)                                                     \
           : (LS_BITS(T, W, x) ^ FILL(T, W, x)) >> AMOUNT(T, W, y) ^           \
                 FILL(T, W, x)))
LS_EACH_INTEGER(BINARY, left, LEFT)
LS_EACH_INTEGER(BINARY, logical, LOGICAL)
LS_EACH_INTEGER(BINARY, arithmetic, ARITHMETIC)

// Counts the ones of 64 bits by an instruction if there is one for scalars but
// not for vectors; otherwise sums neighbours: of bits, pairs, nibbles, bytes.
static inline uint32_t ones_32(uint32_t x) {
  x -= x >> 1 & 0x55555555U;
  x = (x & 0x33333333U) + (x >> 2 & 0x33333333U);
  x = (x + (x >> 4)) & 0x0F0F0F0FU;
  x += x >> 8;
  return (x + (x >> 16)) & 0x3FU;
}
static inline uint64_t ones_64(uint64_t x) {
#if defined(__POPCNT__)
  return (uint64_t)__builtin_popcountll(x);
#else
  x -= x >> 1 & UINT64_C(0x5555555555555555);
  x = (x & UINT64_C(0x3333333333333333)) +
      (x >> 2 & UINT64_C(0x3333333333333333));
  x = (x + (x >> 4)) & UINT64_C(0x0F0F0F0F0F0F0F0F);
  x += x >> 8;
  x += x >> 16;
  return (x + (x >> 32)) & 0x7FU;
#endif
}

// Sets all bits below the highest one that is set.
static inline uint32_t filled_32(uint32_t x) {
  x |= x >> 1;
  x |= x >> 2;
  x |= x >> 4;
  x |= x >> 8;
  return x | x >> 16;
}
static inline uint64_t filled_64(uint64_t x) {
  x |= x >> 1;
  x |= x >> 2;
  x |= x >> 4;
  x |= x >> 8;
  x |= x >> 16;
  return x | x >> 32;
}

#define ONES(W, x) (sizeof(W) == 8 ? ones_64(x) : ones_32((uint32_t)(x)))
#define FILLED(W, x) (sizeof(W) == 8 ? filled_64(x) : filled_32((uint32_t)(x)))
#define POPCOUNT(T, W, x) ((T)ONES(W, LS_BITS(T, W, x)))
#define LEADING(T, W, x)                                                       \
  ((T)(LS_WIDTH(T) - ONES(W, FILLED(W, LS_BITS(T, W, x)))))
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
