// SPDX-License-Identifier: Apache-2.0
//
// The product of floats that are rounded to bf16 first. Two neighbours along k
// make a pair of 32 bits, the even one below, and the rest is the product of
// product_body.h on pairs: half as many values of k, and an addition of both
// products of a pair, the odd one first, each exact and each sum rounded. That
// is what vdpbf16ps does; without it the same bits are computed in two steps.

#include <string.h>

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/product_turn.h"

#if defined(__AVX512BF16__)
LS_INLINE vf pair_multiply_add(vf x, vf y, vf sum) {
  return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)y);
}
#else
LS_INLINE vf pair_multiply_add(vf x, vf y, vf sum) {
  const vi upper = vi_set1((int32_t)0xffff0000);
  const vi a = vf_bits(x), b = vf_bits(y);
  sum =
      vf_fma(vi_as_float(vi_and(a, upper)), vi_as_float(vi_and(b, upper)), sum);
  return vf_fma(vi_as_float(vi_shl(a, 16)), vi_as_float(vi_shl(b, 16)), sum);
}
#endif

#define ELEM float
#define VEC vf
#define LANES VF_LANES
#define V(op) vf_##op
#define MULTIPLY_ADD pair_multiply_add
#define PRODUCT pairs_product
#define PRODUCT_SCRATCH pairs_scratch
static void pairs_product(const ls_cpu_product *product,
                          const ls_cpu_block *block, void *scratch);
static size_t pairs_scratch(const ls_cpu_product *product);
#include "engine/cpu/isa/product_body.h"

// Rows whose pairs are made at a time: as many as stay in the second cache.
enum { PAIR_BYTES = 512 << 10, LEAST_ROWS = 24, MOST_ROWS = 384 };

static size_t pairs_of(size_t k) { return (k + 1) / 2; }

static size_t rows_of(const ls_cpu_product *p) {
  const size_t row = pairs_of(p->k) * sizeof(float) + 1;
  size_t rows = PAIR_BYTES / row / LS_TILE_ROWS * LS_TILE_ROWS;
  if (rows < LEAST_ROWS) rows = LEAST_ROWS;
  if (rows > MOST_ROWS) rows = MOST_ROWS;
  return smaller(rows, p->m);
}

// The product of pairs, of the rows that are made at a time by the columns.
static ls_cpu_product of_pairs(const ls_cpu_product *p, size_t rows,
                               size_t columns) {
  ls_cpu_product pairs = *p;
  pairs.m = rows;
  pairs.n = columns;
  pairs.k = pairs_of(p->k);
  pairs.lda = p->a_transposed ? rows : pairs.k;
  pairs.ldb = p->b_transposed ? pairs.k : columns;
  pairs.m_line = pairs.k_line = 0;
  return pairs;
}

size_t LS_ISA_NAME(ls_cpu_product_bf16_scratch)(const ls_cpu_product *p) {
  const size_t rows = rows_of(p);
  const ls_cpu_product pairs = of_pairs(p, p->m, p->n);
  return (rows + p->n) * pairs.k * sizeof(float) + pairs_scratch(&pairs);
}

// ---- Pairs -----------------------------------------------------------------
// bf16 in the upper half of each lane, to nearest even.
LS_INLINE vi rounded(vf x) {
  const vi bits = vf_bits(x);
  const vi odd = vi_and(vi_shr(bits, 16), vi_set1(1));
  const vi sum = vi_add(vi_add(bits, odd), vi_set1(0x7fff));
  const vi nan = vi_or(bits, vi_set1(0x400000));
  const vf chosen = vf_select(vf_is_nan(x), vi_as_float(nan), vi_as_float(sum));
  return vi_and(vf_bits(chosen), vi_set1((int32_t)0xffff0000));
}

// Two rows side by side: to[i] = (even[i], odd[i]); without `odd`, zeros.
static void zip(float *to, const float *even, const float *odd, size_t n) {
  for (size_t i = 0; i < n; i += LANES) {
    const size_t left = smaller(LANES, n - i);
    const vi below = rounded(vf_load_n(even + i, left));
    vi pair = vi_and(vi_shr(below, 16), vi_set1(0xffff));
    if (odd != NULL) pair = vi_or(pair, rounded(vf_load_n(odd + i, left)));
    vf_store_n(to + i, left, vi_as_float(pair));
  }
}

// Neighbours of one row: 2 n values, the last one zero where k is odd.
static void narrow(uint16_t *to, const float *from, size_t n) {
  LS_ISA_NAME(ls_cpu_narrow_bf16)(to, from, n);
}

// The values of a row of A, as stored, at row m from k0 to k1: lines of them.
static const float *a_of(const ls_cpu_product *p, size_t m, size_t k) {
  return a_at(&(step){.product = p}, m, k);
}

static void pair_a(const ls_cpu_product *p, size_t m0, size_t m1, float *to) {
  const size_t rows = m1 - m0, pairs = pairs_of(p->k);
  if (p->a_transposed) {
    for (size_t k = 0; k < p->k; k += 2, to += rows)
      for (size_t m = m0; m < m1;) {
        const size_t end = line_end(p->m_line, m, m1);
        zip(to + (m - m0), a_of(p, m, k),
            k + 1 < p->k ? a_of(p, m, k + 1) : NULL, end - m);
        m = end;
      }
    return;
  }
  for (size_t m = m0; m < m1; ++m, to += pairs) {
    if (p->k % 2 != 0) to[pairs - 1] = 0;
    for (size_t k = 0; k < p->k;) {
      const size_t end = line_end(p->k_line, k, p->k);
      narrow((uint16_t *)(void *)to + k, a_of(p, m, k), end - k);
      k = end;
    }
  }
}

static void pair_b(const ls_cpu_product *p, size_t n0, size_t n1, float *to) {
  const size_t columns = n1 - n0, pairs = pairs_of(p->k);
  const float *b = p->b;
  if (!p->b_transposed) {
    for (size_t k = 0; k < p->k; k += 2, to += columns)
      zip(to, b + k * p->ldb + n0,
          k + 1 < p->k ? b + (k + 1) * p->ldb + n0 : NULL, columns);
    return;
  }
  for (size_t n = n0; n < n1; ++n, to += pairs) {
    if (p->k % 2 != 0) to[pairs - 1] = 0;
    narrow((uint16_t *)(void *)to, b + n * p->ldb, p->k);
  }
}

// ---- Views -----------------------------------------------------------------
// A view (of an image, whose values many taps share) stays one: what it reads
// is rounded once, into `room` floats at `to`, and read as pairs. False: pairs
// are not neighbours there, or there is less to round without.
//
// As stored, pairs lie side by side. Transposed, they lie lda apart: each value
// gets a pair with the one that follows it so.
static bool pair_view(const ls_cpu_product *p, size_t room, float *to,
                      ls_cpu_product *pairs) {
  if (p->m_line == 0 || p->k_line == 0 || p->m == 0 || p->k == 0 ||
      p->m_skip < 0 || p->k_skip < 0 || p->k % 2 != 0 || p->k_line % 2 != 0)
    return false;
  const float *a = p->a;
  const size_t count = (size_t)(a_of(p, p->m - 1, p->k - 1) - a) + 1;
  if (count > p->m * p->k) return false;
  *pairs = *p;
  pairs->a = to;
  pairs->k = p->k / 2;
  pairs->k_line = p->k_line / 2;
  if (p->a_transposed) {
    if (count - p->lda > room) return false;
    zip(to, a, a + p->lda, count - p->lda);
    pairs->lda = 2 * p->lda;
    return true;
  }
  if (pairs_of(count) > room || p->lda % 2 != 0 || p->m_skip % 2 != 0 ||
      p->k_skip % 2 != 0)
    return false;
  narrow((uint16_t *)(void *)to, a, count);
  pairs->lda = p->lda / 2;
  pairs->m_skip = p->m_skip / 2;
  pairs->k_skip = p->k_skip / 2;
  return true;
}

// ---- Product ---------------------------------------------------------------
void LS_ISA_NAME(ls_cpu_product_bf16)(const ls_cpu_product *p,
                                      const ls_cpu_block *block,
                                      void *scratch) {
  const size_t most = rows_of(p), columns = block->n1 - block->n0;
  float *b = scratch, *a = b + columns * pairs_of(p->k);
  float *rest = a + most * pairs_of(p->k);
  pair_b(p, block->n0, block->n1, b);
  ls_cpu_product view;
  if (pair_view(p, most * pairs_of(p->k), a, &view)) {
    view.n = columns;
    view.ldb = p->b_transposed ? view.k : columns;
    view.b = b;
    view.c = (float *)p->c + block->n0;
    if (p->bias != NULL) view.bias = (const float *)p->bias + block->n0;
    pairs_product(&view, &(ls_cpu_block){block->m0, block->m1, 0, columns},
                  rest);
    return;
  }
  for (size_t m = block->m0; m < block->m1;) {
    const size_t rows = smaller(most, block->m1 - m);
    ls_cpu_product pairs = of_pairs(p, rows, columns);
    pair_a(p, m, m + rows, a);
    pairs.a = a;
    pairs.b = b;
    pairs.c = (float *)p->c + m * p->ldc + block->n0;
    if (p->bias != NULL) pairs.bias = (const float *)p->bias + block->n0;
    pairs_product(&pairs, &(ls_cpu_block){0, rows, 0, columns}, rest);
    m += rows;
  }
}
