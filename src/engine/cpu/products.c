// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/products.h"

#include "engine/cpu/loops.h"

// Rows and columns of a block: with its partial sums, some of the second cache.
enum { BAND = 96, PANEL = 128 };

typedef struct products_params {
  ls_cpu_products all;
  ls_cpu_product_fn *run;
  size_t size;  // Of an element.
  int64_t panels;
  size_t stride;  // Bytes of a partial sum.
  size_t sums;    // Of all that may wait.
} products_params;

#define LOOPS(name, T)                                                         \
  static void add_##name(void *to, const void *from, int64_t count) {          \
    T *sum = to;                                                               \
    const T *x = from;                                                         \
    LS_INDEPENDENT                                                             \
    for (int64_t i = 0; i < count; ++i)                                        \
      sum[i] += x[i];                                                          \
  }                                                                            \
  static void scale_##name(void *to, const void *from, int64_t count,          \
                           int64_t replicas) {                                 \
    T *out = to;                                                               \
    const T *x = from;                                                         \
    const T reciprocal = 1 / (T)replicas;                                      \
    LS_INDEPENDENT                                                             \
    for (int64_t i = 0; i < count; ++i)                                        \
      out[i] = x[i] * reciprocal;                                              \
  }
LOOPS(f32, float)
LOOPS(f64, double)

// ---- A block ---------------------------------------------------------------
typedef struct block {
  int64_t m0, n0, rows, columns;
  char *sums;        // Complete subtrees that wait for their sibling,
  uint32_t waiting;  // ... so many of them.
} block;

static const char *at(const products_params *self, const void *base,
                      int64_t element) {
  return (const char *)base + (size_t)element * self->size;
}

// The replica's product, added to that of its left neighbour if it has one.
static void multiply(const products_params *self, const ls_kernel_call *call,
                     block *b, uint32_t replica) {
  const ls_cpu_products *all = &self->all;
  const bool adds = (replica & 1U) != 0;
  if (!adds) ++b->waiting;
  const ls_cpu_product product = {
      .m = (size_t)b->rows,
      .n = (size_t)b->columns,
      .k = (size_t)all->k,
      .a = at(self, call->in[0], replica * all->k * all->m + b->m0),
      .b = at(self, call->in[1], replica * all->k * all->n + b->n0),
      .c = b->sums + (b->waiting - 1) * self->stride,
      .lda = (size_t)all->m,
      .ldb = (size_t)all->n,
      .ldc = (size_t)b->columns,
      .a_transposed = true,
      .accumulate = adds,
  };
  self->run(&product, &(ls_cpu_block){0, product.m, 0, product.n},
            (char *)call->scratch + self->sums);
}

static void add_last_two(const products_params *self, block *b) {
  char *right = b->sums + --b->waiting * self->stride;
  char *left = right - self->stride;
  const int64_t count = b->rows * b->columns;
  if (self->all.dtype == LS_DTYPE_F64)
    add_f64(left, right, count);
  else
    add_f32(left, right, count);
}

static void store(const products_params *self, const block *b, void *out) {
  const ls_cpu_products *all = &self->all;
  const char *from = b->sums;
  const size_t row = (size_t)b->columns * self->size;
  for (int64_t i = 0; i < b->rows; ++i, from += row) {
    char *to =
        (char *)out + (size_t)((b->m0 + i) * all->n + b->n0) * self->size;
    if (!all->mean)
      memcpy(to, from, row);
    else if (all->dtype == LS_DTYPE_F64)
      scale_f64(to, from, b->columns, all->replicas);
    else
      scale_f32(to, from, b->columns, all->replicas);
  }
}

static void products_loop(const ls_kernel_call *call, int64_t begin_block,
                          int64_t end_block) {
  const products_params *self = call->params;
  const ls_cpu_products *all = &self->all;
  for (int64_t i = begin_block; i < end_block; ++i) {
    block b = {.m0 = i / self->panels * BAND,
               .n0 = i % self->panels * PANEL,
               .sums = call->scratch};
    b.rows = ls_min_i64(BAND, all->m - b.m0);
    b.columns = ls_min_i64(PANEL, all->n - b.n0);
    for (uint32_t r = 0; r < all->replicas; ++r) {
      multiply(self, call, &b, r);
      // As many subtrees are complete as there are trailing ones; the first
      // addition was the product's.
      for (uint32_t bits = r; (bits & 3U) == 3; bits >>= 1)
        add_last_two(self, &b);
    }
    while (b.waiting > 1)
      add_last_two(self, &b);
    store(self, &b, call->out[0]);
  }
}

// ---- Plan ------------------------------------------------------------------
ls_status ls_cpu_products_prepare(const ls_cpu_products *products,
                                  ls_kernel_plan *plan) {
  products_params *self = ls_arena_new(plan->arena, products_params);
  if (self == NULL) return ls_out_of_memory();
  const bool wide = products->dtype == LS_DTYPE_F64;
  const ls_cpu_kernels *kernels = plan->kernels;
  self->all = *products;
  self->run = wide ? kernels->product_f64 : kernels->product_f32;
  self->size = ls_dtype_size(products->dtype);
  self->panels = ls_blocks_of(products->n, PANEL);
  self->stride = BAND * PANEL * self->size;
  // As many as there are bits in a replica's number, and one more.
  uint32_t most = 1;
  while (products->replicas >> most != 0)
    ++most;
  self->sums = (most + 1) * self->stride;
  const ls_cpu_product largest = {.m = BAND,
                                  .n = PANEL,
                                  .k = (size_t)products->k,
                                  .a_transposed = true,
                                  .accumulate = true};
  plan->flops =
      2 * products->m * products->n * products->k * products->replicas;
  plan->scratch = self->sums + (wide ? kernels->product_f64_scratch(&largest)
                                     : kernels->product_f32_scratch(&largest));
  plan->loop = products_loop;
  plan->params = self;
  plan->blocks = ls_max_i64(1, ls_blocks_of(products->m, BAND) * self->panels);
  return ls_ok();
}
