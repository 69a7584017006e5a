// SPDX-License-Identifier: Apache-2.0
//
// What the copies of a product will read, for its tiles to fetch: a part of the
// template product_body.h, which includes it behind its types.

#define LINE ((size_t)64)  // Bytes of a cache's line.

// The step behind `s`, of the same columns; false if there is none.
static bool step_after(const step *s, step *out) {
  const size_t k = elements_of(s->product->k);
  *out = *s;
  if (s->k1 < k) {
    out->k0 = s->k1;
  } else if (s->m1 < s->block->m1) {
    out->k0 = 0;
    out->m0 = s->m1;
    out->m1 = smaller(s->block->m1, out->m0 + M_BLOCK);
  } else {
    return false;
  }
  out->k1 = smaller(k, out->k0 + K_BLOCK);
  return true;
}

// `outer` rows of `inner` values that lie side by side, from `at` on. Where
// rows follow one another, lines do: memory is faster in that order.
static region region_of(const ELEM *at, size_t stride, size_t outer,
                        size_t inner) {
  if (stride == inner) {
    inner = LINE / sizeof(ELEM);
    outer = outer * stride / inner;
    stride = inner;
  }
  return (region){
      .at = (const char *)at,
      .rows = outer,
      .stride = stride * sizeof(ELEM),
      .lines = (inner * sizeof(ELEM) + LINE - 1) / LINE,
  };
}

static region a_region(const step *s) {
  const ls_cpu_product *p = s->product;
  const size_t k0 = s->k0 * VALUES, k = smaller(s->k1 * VALUES, p->k) - k0;
  const ELEM *at = a_at(s, s->m0, k0);
  return p->a_transposed ? region_of(at, p->lda, k, s->m1 - s->m0)
                         : region_of(at, p->lda, s->m1 - s->m0, k);
}

// Of the group at column `n`.
static region b_region(const step *s, size_t n) {
  const ls_cpu_product *p = s->product;
  const size_t k = smaller(s->k1 * VALUES, p->k) - s->k0 * VALUES;
  const size_t columns = smaller(s->n1 - n, GROUP);
  return p->b_transposed ? region_of(b_at(s, n), p->ldb, columns, k)
                         : region_of(b_at(s, n), p->ldb, k, columns);
}

static inline void look_nowhere(step *s) {
  for (size_t i = 0; i < 2; ++i)
    s->ahead[i].line = s->ahead[i].lines = 0;
}

// Finds what is copied after the group of columns that ends at `n`: the next
// group, or a block of A and the first group. Most products are small: nothing.
static void look_ahead(step *s, size_t n) {
  look_nowhere(s);
  if (n == s->n1 && s->k1 == elements_of(s->product->k) &&
      s->m1 == s->block->m1)
    return;
  step next;
  if (n < s->n1) {
    if (s->packs_b) s->ahead[1] = b_region(s, n);
  } else if (step_after(s, &next)) {
    if (s->packs_a) s->ahead[0] = a_region(&next);
    if (s->packs_b) s->ahead[1] = b_region(&next, s->n0);
  }
}

// Gives a tile its part of that; false if nothing is left.
static bool take_ahead(step *s, tile_work *work) {
  region *next = s->ahead;
  if (next->line == next->lines) ++next;
  if (next->line == next->lines) return false;
  work->ahead = next->at + next->row * next->stride + next->line * LINE;
  work->ahead_stride = next->stride;
  next->row += work->k * VALUES;
  if (next->row >= next->rows) {
    next->row = 0;
    ++next->line;
  }
  return true;
}
