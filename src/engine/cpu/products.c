// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/products.h"

#include "engine/cpu/loops.h"
#include "engine/cpu/together.h"

// Rows and columns of a block: with its partial sums, some of the second cache.
enum { BAND = 128, PANEL = 256 };

typedef struct products_params {
  ls_cpu_products all;
  const ls_cpu_kernels *kernels;
  ls_cpu_product_fn *run;
  size_t size;  // Of an element.
  int64_t panels;
  size_t stride;  // Bytes of a partial sum.
  size_t sums;    // Of all that may wait.
} products_params;

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

// The replica's product, added to the last subtree if it completes that.
static void multiply(const products_params *self, const ls_kernel_call *call,
                     block *b, uint32_t replica, bool adds) {
  const ls_cpu_products *all = &self->all;
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
  ls_cpu_tree_add(self->kernels, self->all.dtype, left, left, right,
                  b->rows * b->columns);
}

static void store(const products_params *self, const block *b, void *out) {
  const ls_cpu_products *all = &self->all;
  const char *from = b->sums;
  const size_t row = (size_t)b->columns * self->size;
  for (int64_t i = 0; i < b->rows; ++i, from += row) {
    char *to =
        (char *)out + (size_t)((b->m0 + i) * all->n + b->n0) * self->size;
    if (all->mean)
      ls_cpu_tree_mean(all->dtype, to, from, b->columns, all->replicas);
    else
      memcpy(to, from, row);
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
      const ls_cpu_leaf leaf = ls_cpu_leaf_at(r, all->replicas);
      multiply(self, call, &b, r, leaf.merges > 0);
      // The first addition was the product's.
      for (uint32_t m = 1; m < leaf.merges; ++m)
        add_last_two(self, &b);
    }
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
  self->kernels = kernels;
  self->run = wide ? kernels->product_f64 : kernels->product;
  self->size = ls_dtype_size(products->dtype);
  self->panels = ls_blocks_of(products->n, PANEL);
  self->stride = BAND * PANEL * self->size;
  self->sums = ls_cpu_merge_depth(products->replicas) * self->stride;
  const ls_cpu_product largest = {.m = BAND,
                                  .n = PANEL,
                                  .k = (size_t)products->k,
                                  .a_transposed = true,
                                  .accumulate = true};
  plan->flops =
      2 * products->m * products->n * products->k * products->replicas;
  plan->scratch = self->sums + (wide ? kernels->product_f64_scratch(&largest)
                                     : kernels->product_scratch(&largest));
  plan->loop = products_loop;
  plan->params = self;
  plan->blocks = ls_max_i64(1, ls_blocks_of(products->m, BAND) * self->panels);
  return ls_ok();
}
