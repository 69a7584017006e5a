// SPDX-License-Identifier: Apache-2.0
//
// The stages of chains (engine/cpu/kernels/element/chain.h) and the function
// that runs them.
//
// Four vectors are the accumulator and four are kept: as many as go into a call
// by register on every instruction set that has vectors.
#include <math.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/vec.h"
#include "engine/cpu/kernels/element/chain.h"

#if defined(__AVX512F__)
enum { VECTOR = 64 };
#define EXTREME_OF(kind, x, y) _mm512_##kind##_ps(x, y)
#elif defined(__AVX__)
enum { VECTOR = 32 };
#define EXTREME_OF(kind, x, y) _mm256_##kind##_ps(x, y)
#else
enum { VECTOR = 16 };
#define EXTREME_OF(kind, x, y) _mm_##kind##_ps(x, y)
#endif

typedef float lanes __attribute__((vector_size(VECTOR)));
typedef int32_t mask __attribute__((vector_size(VECTOR)));
// A vector at any address.
typedef float array __attribute__((vector_size(VECTOR), aligned(4), may_alias));

_Static_assert(LS_CHAIN_ELEMENTS % (4 * sizeof(lanes) / sizeof(float)) == 0,
               "a chain's elements are whole rounds");

// ---- Stages ----------------------------------------------------------------
#define MACHINE                                                                \
  const ls_chain_stage *at, char *const *slots, size_t offset, lanes a0,       \
      lanes a1, lanes a2, lanes a3, lanes b0, lanes b1, lanes b2, lanes b3
typedef void stage_fn(MACHINE);
#define GO_ON                                                                  \
  ((stage_fn *)at[1].run)(at + 1, slots, offset, a0, a1, a2, a3, b0, b1, b2, b3)

LS_INLINE array *array_of(const ls_chain_stage *at, char *const *slots,
                          size_t offset, int n) {
  return (array *)(slots[at->slot[n]] + offset);
}

// Reads a number; a zero keeps its sign.
LS_INLINE lanes load_number(const ls_chain_stage *at, char *const *slots,
                            int n) {
  return *(const float *)slots[at->slot[n]] - (lanes){0};
}

// Operand of vector i, by its source and its number among the stage's slots.
#define KEPT(i, n) b##i
#define ARRAY(i, n) array_of(at, slots, offset, n)[i]
#define NUMBER(i, n) load_number(at, slots, n)

// All vectors of the accumulator, a, or of the kept array, b.
#define READ(v)                                                                \
  v##0 = ARRAY(0, 0), v##1 = ARRAY(1, 0), v##2 = ARRAY(2, 0), v##3 = ARRAY(3, 0)
#define WRITE(v)                                                               \
  ARRAY(0, 0) = v##0, ARRAY(1, 0) = v##1, ARRAY(2, 0) = v##2, ARRAY(3, 0) = v##3

static void load_accumulator(MACHINE) {
  READ(a);
  GO_ON;
}

static void keep_array(MACHINE) {
  READ(b);
  GO_ON;
}

static void store_accumulator(MACHINE) {
  WRITE(a);
  GO_ON;
}

static void store_last(MACHINE) {
  (void)b0, (void)b1, (void)b2, (void)b3;
  WRITE(a);
}

static void run_stages(const ls_chain_stage *stages, char *const *slots,
                       int64_t count) {
  const lanes none = {0};
  const size_t bytes = (size_t)count * sizeof(float);
  for (size_t offset = 0; offset < bytes; offset += 4 * sizeof(lanes))
    ((stage_fn *)stages->run)(stages, slots, offset, none, none, none, none,
                              none, none, none, none);
}

// ---- One operand -----------------------------------------------------------
#define UNARY(name, E)                                                         \
  LS_INLINE lanes name##_of(lanes x) { return E; }                             \
  static void name(MACHINE) {                                                  \
    a0 = name##_of(a0);                                                        \
    a1 = name##_of(a1);                                                        \
    a2 = name##_of(a2);                                                        \
    a3 = name##_of(a3);                                                        \
    GO_ON;                                                                     \
  }

LS_INLINE lanes select_lanes(mask m, lanes x) { return (lanes)((mask)x & m); }

LS_INLINE lanes select_by(mask m, lanes yes, lanes no) {
  return (lanes)(((mask)yes & m) | ((mask)no & ~m));
}

// Return y if an operand is NaN or both are zeros, as subnormals are.
#if defined(__x86_64__)
LS_INLINE lanes larger_of(lanes x, lanes y) { return EXTREME_OF(max, x, y); }
LS_INLINE lanes smaller_of(lanes x, lanes y) { return EXTREME_OF(min, x, y); }
#else
LS_INLINE lanes larger_of(lanes x, lanes y) {
  return select_by(x > y, x, y) * ls_cpu_one;
}
LS_INLINE lanes smaller_of(lanes x, lanes y) {
  return select_by(x < y, x, y) * ls_cpu_one;
}
#endif

LS_INLINE lanes sqrt_of_all(lanes x) {
#if defined(__AVX512F__)
  return _mm512_sqrt_ps(x);
#else
  for (size_t i = 0; i < sizeof(x) / sizeof(float); ++i)
    x[i] = sqrtf(x[i]);
  return x;
#endif
}

// Equal to the spans of span.c.
UNARY(negate, -x)
UNARY(absolute, select_lanes((mask){0} + INT32_MAX, x))
UNARY(root, sqrt_of_all(x))
UNARY(sign,
      select_by(x > 0, (lanes){0} + 1, select_by(x < 0, (lanes){0} - 1, x * 0)))
UNARY(relu, larger_of((lanes){0}, x))

// ---- Two operands ----------------------------------------------------------
#define BINARY_OF(name, SOURCE)                                                \
  static void name##_##SOURCE(MACHINE) {                                       \
    a0 = name(a0, SOURCE(0, 0));                                               \
    a1 = name(a1, SOURCE(1, 0));                                               \
    a2 = name(a2, SOURCE(2, 0));                                               \
    a3 = name(a3, SOURCE(3, 0));                                               \
    GO_ON;                                                                     \
  }
#define BINARY_OF_EACH(name)                                                   \
  BINARY_OF(name, KEPT)                                                        \
  BINARY_OF(name, ARRAY)                                                       \
  BINARY_OF(name, NUMBER)
// Define each with the accumulator on the left, then on the right.
#define BINARY(name, E)                                                        \
  LS_INLINE lanes name(lanes x, lanes y) { return E; }                         \
  LS_INLINE lanes name##_right(lanes y, lanes x) { return E; }                 \
  BINARY_OF_EACH(name)                                                         \
  BINARY_OF_EACH(name##_right)

BINARY(sum, x + y)
BINARY(difference, x - y)
BINARY(product, (x * y))
BINARY(quotient, x / y)
BINARY(larger, select_by(x != x, x, larger_of(x, y)))
BINARY(smaller, select_by(x != x, x, smaller_of(x, y)))
BINARY(where_positive, (lanes)((mask)x &(y > 0)))

// ---- Products followed by an operation -------------------------------------
#define PRODUCT_OF(end, ONE, TWO)                                              \
  static void product_##end##_##ONE##_##TWO(MACHINE) {                         \
    a0 = end(product(a0, ONE(0, 0)), TWO(0, 1));                               \
    a1 = end(product(a1, ONE(1, 0)), TWO(1, 1));                               \
    a2 = end(product(a2, ONE(2, 0)), TWO(2, 1));                               \
    a3 = end(product(a3, ONE(3, 0)), TWO(3, 1));                               \
    GO_ON;                                                                     \
  }
#define PRODUCT(end)                                                           \
  PRODUCT_OF(end, KEPT, KEPT)                                                  \
  PRODUCT_OF(end, KEPT, ARRAY)                                                 \
  PRODUCT_OF(end, KEPT, NUMBER)                                                \
  PRODUCT_OF(end, ARRAY, KEPT)                                                 \
  PRODUCT_OF(end, ARRAY, ARRAY)                                                \
  PRODUCT_OF(end, ARRAY, NUMBER)                                               \
  PRODUCT_OF(end, NUMBER, KEPT)                                                \
  PRODUCT_OF(end, NUMBER, ARRAY)                                               \
  PRODUCT_OF(end, NUMBER, NUMBER)

PRODUCT(sum)
PRODUCT(difference)
PRODUCT(difference_right)

// ---- All -------------------------------------------------------------------
#define ENTRY(name) (ls_chain_stage_fn *)(name)
#define BY_SOURCE(name)                                                        \
  { ENTRY(name##_KEPT), ENTRY(name##_ARRAY), ENTRY(name##_NUMBER) }
#define BY_SIDE(name)                                                          \
  { BY_SOURCE(name), BY_SOURCE(name##_right) }
#define BY_SOURCES(end)                                                        \
  {                                                                            \
    BY_SOURCE(product_##end##_KEPT), BY_SOURCE(product_##end##_ARRAY),         \
        BY_SOURCE(product_##end##_NUMBER)                                      \
  }

const ls_cpu_chains LS_ISA_NAME(ls_cpu_chains) = {
    .run = run_stages,
    .load = ENTRY(load_accumulator),
    .keep = ENTRY(keep_array),
    .store = ENTRY(store_accumulator),
    .store_last = ENTRY(store_last),
    .unary = {[LS_OP_NEG] = ENTRY(negate),
              [LS_OP_ABS] = ENTRY(absolute),
              [LS_OP_SQRT] = ENTRY(root),
              [LS_OP_SIGN] = ENTRY(sign),
              [LS_OP_RELU] = ENTRY(relu)},
    .binary = {[LS_OP_ADD] = BY_SIDE(sum),
               [LS_OP_SUB] = BY_SIDE(difference),
               [LS_OP_MUL] = BY_SIDE(product),
               [LS_OP_DIV] = BY_SIDE(quotient),
               [LS_OP_MAXIMUM] = BY_SIDE(larger),
               [LS_OP_MINIMUM] = BY_SIDE(smaller),
               [LS_OP_RELU_GRAD] = BY_SIDE(where_positive)},
    .product = {BY_SOURCES(sum), BY_SOURCES(difference),
                BY_SOURCES(difference_right)},
};
