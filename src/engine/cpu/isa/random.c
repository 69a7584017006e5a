// SPDX-License-Identifier: Apache-2.0
//
// Random bits and normal numbers, as many side by side as the instruction set
// has room for. Without branches, so that the compiler vectorizes them.
#include "base/values/box_muller.h"
#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/vec.h"

// ---- Random bits -----------------------------------------------------------
#if defined(__AVX512F__)
#define LANES 8
#define MULTIPLY(a, b) (lanes) _mm512_mul_epu32((__m512i)(a), (__m512i)(b))
#define COUNT(x)                                                               \
  (lanes) { x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7 }
#define LOWER(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define UPPER(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#elif defined(__AVX2__)
#define LANES 4
#define MULTIPLY(a, b) (lanes) _mm256_mul_epu32((__m256i)(a), (__m256i)(b))
#define COUNT(x)                                                               \
  (lanes) { x, x + 1, x + 2, x + 3 }
#define LOWER(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define UPPER(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

#if defined(LANES)
// A lane for each block. A word is the lower half of it, the only part that
// products read; the upper half does not matter.
typedef uint64_t lanes __attribute__((vector_size(8 * LANES)));

// Draws LANES blocks, like ls_random_source_bits.
LS_INLINE void draw_lanes(uint32_t *dst, const ls_random_source *source,
                          uint64_t block) {
  lanes c0 = COUNT(block), c1 = c0 >> 32;
  lanes c2 = (lanes){0} + source->id, c3 = c2 >> 32;
  uint32_t k0 = source->key[0], k1 = source->key[1];
  for (int round = 0; round < LS_PHILOX_ROUNDS; ++round) {
    const lanes a = MULTIPLY(c0, (lanes){0} + LS_PHILOX_FACTOR_0);
    const lanes b = MULTIPLY(c2, (lanes){0} + LS_PHILOX_FACTOR_2);
    c0 = (b >> 32) ^ c1 ^ k0;
    c2 = (a >> 32) ^ c3 ^ k1;
    c1 = b;
    c3 = a;
    k0 += LS_PHILOX_STEP_0;
    k1 += LS_PHILOX_STEP_1;
  }
  const lanes first = (c0 & UINT32_MAX) | c1 << 32;
  const lanes second = (c2 & UINT32_MAX) | c3 << 32;
  const lanes lower = LOWER(first, second), upper = UPPER(first, second);
  memcpy(dst, &lower, sizeof(lower));
  memcpy(dst + 2 * LANES, &upper, sizeof(upper));
}
#endif

void LS_ISA_NAME(ls_cpu_random_bits)(uint32_t *restrict dst,
                                     const ls_random_source *source,
                                     uint64_t first, size_t blocks) {
  const ls_random_source copy = *source;
  size_t i = 0;
#if defined(LANES)
  for (; i + LANES <= blocks; i += LANES)
    draw_lanes(dst + 4 * i, &copy, first + i);
#endif
  for (; i < blocks; ++i)
    ls_random_source_bits(&copy, first + i, dst + 4 * i);
}

// ---- Normals ---------------------------------------------------------------
void LS_ISA_NAME(ls_cpu_normals)(float *restrict dst,
                                 const uint32_t *restrict bits, size_t pairs) {
  for (size_t i = 0; i < pairs; ++i)
    ls_box_muller_f32(bits + 2 * i, dst + 2 * i);
}

void LS_ISA_NAME(ls_cpu_normals_f64)(double *restrict dst,
                                     const uint32_t *restrict bits,
                                     size_t pairs) {
  for (size_t i = 0; i < pairs; ++i)
    ls_box_muller_f64(bits + 4 * i, dst + 2 * i);
}
