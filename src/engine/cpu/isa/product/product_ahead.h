// SPDX-License-Identifier: Apache-2.0
//
// Prefetching of a product's next operands by its tiles: a part of the template
// product_body.h, which includes it after its types.

// Finds the step after `s`, with the same columns; returns false if there is
// none.
static bool step_after(const step *s, step *out) {
  const size_t k = count_elements(s->product->k);
  if (s->k1 == k && s->m1 == s->block->m1) return false;
  *out = *s;
  if (s->k1 < k) {
    out->k0 = s->k1;
  } else {
    out->k0 = 0;
    out->m0 = s->m1;
    out->m1 = min_size(s->block->m1, out->m0 + M_BLOCK);
  }
  out->k1 = min_size(k, out->k0 + K_BLOCK);
  return true;
}

// Describes `outer` rows of `inner` adjacent values, from `at` on. Contiguous
// rows count as one.
static walk walk_of(const ELEM *at, size_t stride, size_t outer, size_t inner) {
  if (stride == inner) {
    inner *= outer;
    outer = 1;
  }
  const size_t lines = (inner * sizeof(ELEM) + LINE - 1) / LINE;
  return (walk){
      .at = (const char *)at,
      .left = lines,
      .lines = lines,
      .skip = (ptrdiff_t)(stride * sizeof(ELEM)) - (ptrdiff_t)(lines * LINE),
      .in_all = (ptrdiff_t)(outer * lines),
  };
}

// Returns the walk of the strip at row m.
static walk a_walk(const step *s, size_t m) {
  const ls_cpu_product *p = s->product;
  const size_t k0 = s->k0 * VALUES, k = min_size(s->k1 * VALUES, p->k) - k0;
  const size_t rows = strip_end_at(s, m) - m;
  const ELEM *at = a_at(s, m, k0);
  return p->a_transposed ? walk_of(at, p->lda, k, rows)
                         : walk_of(at, p->lda, rows, k);
}

// Returns the walk of the group at column `n`.
static walk b_walk(const step *s, size_t n) {
  const ls_cpu_product *p = s->product;
  const size_t k = min_size(s->k1 * VALUES, p->k) - s->k0 * VALUES;
  const size_t columns = min_size(s->n1 - n, GROUP);
  return p->b_transposed ? walk_of(b_at(s, n), p->ldb, columns, k)
                         : walk_of(b_at(s, n), p->ldb, k, columns);
}

// Finds the strip of A that comes next, after the group of columns that ends at
// `n`.
static void look_ahead_a(step *s, size_t n) {
  step next;
  s->ahead[0].in_all = 0;
  if (!s->packs_a && !s->product->a_transposed) return;
  if (s->strip_end < s->m1)
    s->ahead[0] = a_walk(s, s->strip_end);
  else if (n == s->n1 && step_after(s, &next))
    s->ahead[0] = a_walk(&next, next.m0);
}

// Finds the panels of B that come after that group: the next one's, or the next
// step's first. Most products are small and have none.
static void look_ahead(step *s, size_t n) {
  step next;
  s->ahead[1].in_all = 0;
  if (n < s->n1)
    s->ahead[1] = b_walk(s, n);
  else if (step_after(s, &next))
    s->ahead[1] = b_walk(&next, s->n0);
  look_ahead_a(s, n);
}

// Gives a tile lines to prefetch; returns false if none are left.
static bool take_ahead(step *s, tile_work *work) {
  walk *next = s->ahead;
  if (next->in_all <= 0) ++next;
  if (next->in_all <= 0) return false;
  work->ahead = next;
  next->in_all -= (ptrdiff_t)(work->k * VALUES);
  return true;
}
