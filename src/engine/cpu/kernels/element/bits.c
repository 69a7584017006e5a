// SPDX-License-Identifier: Apache-2.0
//
// Bits of integers, and logic on bools: a bool is a byte, 0 or not.
//
// Bits are counted by isa/typed_span.c. A shift by at least the number of bits,
// or by a negative amount, moves all bits out.
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

// ---- One operand -----------------------------------------------------------
#define UNARY(name, E, D, T, W) LS_SPAN_OF_ONE(name, E, D, T, T, W)

#define NOT_INTEGER(T, W, x) ((T) ~(W)(x))
#define NOT_BOOL(T, W, x) ((T)((x) == 0))
LS_EACH_INTEGER(UNARY, not, NOT_INTEGER)
UNARY(not, NOT_BOOL, BOOL, uint8_t, uint32_t)

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
};

ls_status kernel_bits(ls_kernel_plan *plan) {
  const uint16_t op = plan->node->type;
  const ls_span *by_dtype = spans[op];
  if (op == LS_OP_POPCOUNT) by_dtype = plan->kernels->typed_spans->popcount;
  if (op == LS_OP_COUNT_LEADING_ZEROS)
    by_dtype = plan->kernels->typed_spans->leading_zeros;
  return ls_elementwise_plan_by_dtype(plan, by_dtype, (ls_elementwise){0});
}
