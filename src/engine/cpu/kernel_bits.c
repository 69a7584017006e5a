// SPDX-License-Identifier: Apache-2.0
//
// Bits of integers, and logic on bools: a bool is a byte, 0 or not.
//
// A number is worked on as an unsigned one of its bits alone. A shift by as
// many bits as there are, or more, or by less than none, moves all out.
#include "engine/cpu/kernel_list.h"
#include "engine/cpu/loops.h"

// How many bits a T has, and x's bits in W.
#define WIDTH(T) ((unsigned)(8 * sizeof(T)))
#define BITS(T, W, x) ((W)(x) & (W)(~(W)0 >> (8 * sizeof(W) - WIDTH(T))))

// ---- One operand -----------------------------------------------------------
#define UNARY(name, E, D, T, W) LS_SPAN_OF_ONE(name, E, D, T, T, W)

#define NOT_INTEGER(T, W, x) ((T) ~(W)(x))
#define NOT_BOOL(T, W, x) ((T)((x) == 0))
LS_EACH_INTEGER(UNARY, not, NOT_INTEGER)
UNARY(not, NOT_BOOL, BOOL, uint8_t, uint32_t)

// Sums of neighbours: of bits, pairs, nibbles, bytes. Unlike an instruction it
// is there on every machine, for vectors too.
static inline uint32_t ones_32(uint32_t x) {
  x -= x >> 1 & 0x55555555U;
  x = (x & 0x33333333U) + (x >> 2 & 0x33333333U);
  x = (x + (x >> 4)) & 0x0F0F0F0FU;
  x += x >> 8;
  return (x + (x >> 16)) & 0x3FU;
}
static inline uint64_t ones_64(uint64_t x) {
  x -= x >> 1 & UINT64_C(0x5555555555555555);
  x = (x & UINT64_C(0x3333333333333333)) +
      (x >> 2 & UINT64_C(0x3333333333333333));
  x = (x + (x >> 4)) & UINT64_C(0x0F0F0F0F0F0F0F0F);
  x += x >> 8;
  x += x >> 16;
  return (x + (x >> 32)) & 0x7FU;
}
// Every bit below one that is set.
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
#define POPCOUNT(T, W, x) ((T)ONES(W, BITS(T, W, x)))
#define LEADING(T, W, x) ((T)(WIDTH(T) - ONES(W, FILLED(W, BITS(T, W, x)))))
LS_EACH_INTEGER(UNARY, popcount, POPCOUNT)
LS_EACH_INTEGER(UNARY, leading, LEADING)

// ---- Two operands ----------------------------------------------------------
#define BINARY(name, E, D, T, W) LS_SPAN_OF_TWO(name, E, D, T, T, W)

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

// What fills in from above is all ones where the top bit is one. The amount is
// cut to one that C defines, and its result replaced where that is not it.
#define IS_OUT(T, W, y) (BITS(T, W, y) >= WIDTH(T))
#define AMOUNT(T, W, y) ((unsigned)(W)(y) & (WIDTH(T) - 1))
#define FILL(T, W, x) BITS(T, W, 0 - (BITS(T, W, x) >> (WIDTH(T) - 1)))
#define LEFT(T, W, x, y)                                                       \
  ((T)(IS_OUT(T, W, y) ? (W)0 : (W)(x) << AMOUNT(T, W, y)))
#define LOGICAL(T, W, x, y)                                                    \
  ((T)(IS_OUT(T, W, y) ? (W)0 : BITS(T, W, x) >> AMOUNT(T, W, y)))
#define ARITHMETIC(T, W, x, y)                                                 \
  ((T)(IS_OUT(T, W, y) ? FILL(T, W, x)                                         \
                       : (BITS(T, W, x) ^ FILL(T, W, x)) >> AMOUNT(T, W, y) ^  \
                             FILL(T, W, x)))
LS_EACH_INTEGER(BINARY, left, LEFT)
LS_EACH_INTEGER(BINARY, logical, LOGICAL)
LS_EACH_INTEGER(BINARY, arithmetic, ARITHMETIC)

// ---- Plan ------------------------------------------------------------------
#define ENTRY(name, D, T, W) [LS_DTYPE_##D] = name##_##D,
#define INTEGERS(name)                                                         \
  { LS_EACH_INTEGER(ENTRY, name) }
#define INTEGERS_AND_BOOL(name)                                                \
  { LS_EACH_INTEGER(ENTRY, name) ENTRY(name, BOOL, , ) }

static const ls_span spans[LS_OP_COUNT][LS_DTYPE_COUNT] = {
    [LS_OP_NOT] = INTEGERS_AND_BOOL(not ),
    [LS_OP_AND] = INTEGERS_AND_BOOL(and),
    [LS_OP_OR] = INTEGERS_AND_BOOL(or),
    [LS_OP_XOR] = INTEGERS_AND_BOOL(xor),
    [LS_OP_SHIFT_LEFT] = INTEGERS(left),
    [LS_OP_SHIFT_RIGHT_LOGICAL] = INTEGERS(logical),
    [LS_OP_SHIFT_RIGHT_ARITHMETIC] = INTEGERS(arithmetic),
    [LS_OP_POPCOUNT] = INTEGERS(popcount),
    [LS_OP_COUNT_LEADING_ZEROS] = INTEGERS(leading),
};

ls_status kernel_bits(ls_kernel_plan *plan) {
  return ls_elementwise_plan_by_dtype(plan, spans[plan->node->type],
                                      (ls_elementwise){0});
}
