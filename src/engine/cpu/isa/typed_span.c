// SPDX-License-Identifier: Apache-2.0
//
// Spans of all types: clamp, min(max(x, low), high), NaN if one of them is; and
// counts of bits.
#include "engine/cpu/isa/isa.h"
#include "engine/cpu/kernels/loops.h"

// ---- Clamp -----------------------------------------------------------------
#define CLAMP_INTEGER(T, W, to, x, low, high)                                  \
  do {                                                                         \
    const T above = LS_MAX_INTEGER(T, W, x, low);                              \
    (to) = LS_MIN_INTEGER(T, W, above, high);                                  \
  } while (0)
// A vector's maximum returns its second operand if one is NaN. A NaN in low
// would be lost in the minimum, so high is replaced by it; a NaN in x is kept.
#define CLAMP_FLOAT(T, W, to, x, low, high)                                    \
  do {                                                                         \
    const T value = (x), most_ = (low) != (low) ? (low) : (high);              \
    const T above = value > (low) ? value : (low);                             \
    const T between = above < most_ ? above : most_;                           \
    (to) = value != value ? value : between;                                   \
  } while (0)

// `ls` and `hs` are constants at every expansion: 0 for a scalar bound. A
// scalar is read first, so the output may lie on another operand.
#define CLAMP(name, E, D, T, W)                                                \
  static inline __attribute__((always_inline)) void clamp_steps_##D(           \
      T *o, const T *low, const T *x, const T *high, int64_t count,            \
      int64_t ls, int64_t hs) {                                                \
    const T first_low = low[0], first_high = high[0];                          \
    LS_INDEPENDENT                                                             \
    for (int64_t i = 0; i < count; ++i) {                                      \
      const T least = ls == 0 ? first_low : low[i];                            \
      const T most = hs == 0 ? first_high : high[i];                           \
      E(T, W, o[i], x[i], least, most);                                        \
    }                                                                          \
  }                                                                            \
  static void name##_##D(const ls_elementwise *self, void *out,                \
                         const void *const *in, int64_t count) {               \
    const T *low = in[0], *x = in[1], *high = in[2];                           \
    switch (self->scalars) {                                                   \
    case 0:                                                                    \
      clamp_steps_##D(out, low, x, high, count, 1, 1);                         \
      break;                                                                   \
    case 1:                                                                    \
      clamp_steps_##D(out, low, x, high, count, 0, 1);                         \
      break;                                                                   \
    case 4:                                                                    \
      clamp_steps_##D(out, low, x, high, count, 1, 0);                         \
      break;                                                                   \
    case 5:                                                                    \
      clamp_steps_##D(out, low, x, high, count, 0, 0);                         \
      break;                                                                   \
    default:                                                                   \
      break;                                                                   \
    }                                                                          \
  }
LS_EACH_INTEGER(CLAMP, clamp, CLAMP_INTEGER)
LS_EACH_FLOAT(CLAMP, clamp, CLAMP_FLOAT)

// ---- Counts of bits --------------------------------------------------------
#define UNARY(name, E, D, T, W) LS_SPAN_OF_ONE(name, E, D, T, T, W)

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
const ls_cpu_typed_spans LS_ISA_NAME(ls_cpu_typed_spans) = {
    .clamp = {LS_EACH_INTEGER(ENTRY, clamp) LS_EACH_FLOAT(ENTRY, clamp)},
    .popcount = {LS_EACH_INTEGER(ENTRY, popcount)},
    .leading_zeros = {LS_EACH_INTEGER(ENTRY, leading)},
};
