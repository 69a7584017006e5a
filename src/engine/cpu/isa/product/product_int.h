// SPDX-License-Identifier: Apache-2.0
//
// The product of integers that wrap around: product_body.h on compilers'
// vectors. Before it, define ELEM, an unsigned type, SIGNED, the signed one of
// its size, which the activation takes them for, and the two functions' names.

#include "engine/cpu/isa/isa.h"

#if defined(__AVX512BW__)
#define BYTES 64
#elif defined(__AVX2__)
#define BYTES 32
#else
#define BYTES 16
#endif
#define LANES (BYTES / sizeof(ELEM))
#define V(op) integers_##op
#define TURN transpose_panel

typedef ELEM integers __attribute__((vector_size(BYTES)));
typedef SIGNED signed_integers __attribute__((vector_size(BYTES)));
#define VEC integers

#define INLINE static inline __attribute__((always_inline))
INLINE integers integers_zero(void) { return (integers){0}; }
INLINE integers integers_set1(ELEM x) { return x - (integers){0}; }
INLINE integers integers_add(integers a, integers b) { return a + b; }
INLINE integers integers_fma(integers a, integers b, integers c) {
  return a * b + c;
}
INLINE integers integers_max(integers a, integers b) {
  const integers larger = (integers)((signed_integers)a > (signed_integers)b);
  return (a & larger) | (b & ~larger);
}
INLINE integers integers_load_n(const ELEM *p, size_t n) {
  integers v = {0};
  for (size_t i = 0; i < n; ++i)
    v[i] = p[i];
  return v;
}
INLINE integers integers_load(const ELEM *p) {
  integers v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
INLINE void integers_store(ELEM *p, integers v) {
  __builtin_memcpy(p, &v, sizeof(v));
}
INLINE void integers_store_n(ELEM *p, size_t n, integers v) {
  for (size_t i = 0; i < n; ++i)
    p[i] = v[i];
}

// dst[p * width + j] = src[j * stride + p] for p < k, j < columns.
static void transpose_panel(ELEM *dst, size_t width, const ELEM *src,
                            size_t stride, size_t k, size_t columns) {
  for (size_t p = 0; p < k; ++p)
    for (size_t j = 0; j < columns; ++j)
      dst[p * width + j] = src[j * stride + p];
}

#include "engine/cpu/isa/product/product_body.h"
