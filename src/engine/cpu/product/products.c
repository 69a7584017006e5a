// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/product/products.h"

#include "engine/cpu/kernels/batched.h"
#include "engine/cpu/kernels/loops.h"

// Most rows and columns of a block: with its partial sums, a part of the second
// cache. Of products with few additions it has FLAT_BAND rows, for the first
// cache; and fewer if there would be few blocks.
enum { BAND = 128, PANEL = 256, FLAT_BAND = 16, FEW_ADDITIONS = 32 };
enum { ENOUGH_BLOCKS = 6 };
// Rows of a block that are multiplied before they are scaled.
enum { STRIP = 16 };

typedef struct products_params {
  ls_cpu_products products;
  const ls_cpu_kernels *kernels;
  ls_cpu_product_fn *run;
  size_t size;  // Bytes of an element.
  int64_t band, panels;
  size_t stride;  // Bytes of a partial sum.
  size_t sums;    // Bytes of all waiting sums.
} products_params;

// ---- A block ---------------------------------------------------------------
enum { MOST_LEVELS = 33 };

// A block of the result and its complete subtrees, which wait for their
// siblings: each in its own buffer, or in none if none of its replicas
// contributes.
typedef struct block {
  int64_t m0, n0, rows, columns;
  char *sums;  // Memory of the buffers.
  uint32_t waiting;
  // Buffer of each waiting subtree; below 0: no contribution.
  int8_t buffers[MOST_LEVELS];
  int8_t used;  // Number of buffers in use, as a stack.
} block;

static const char *operand_at(const products_params *self, const void *base,
                              int64_t element) {
  return (const char *)base + (size_t)element * self->size;
}

static void *buffer_of(const products_params *self, const block *b,
                       uint32_t level) {
  return b->sums + (size_t)b->buffers[level] * self->stride;
}

#define SCALE(name, T)                                                         \
  static void scale_##name(T *x, double scale, int64_t count) {                \
    const T factor = (T)scale;                                                 \
    LS_INDEPENDENT                                                             \
    for (int64_t i = 0; i < count; ++i)                                        \
      x[i] *= factor;                                                          \
  }
SCALE(f32, float)
SCALE(f64, double)

static void add_scaled(const ls_cpu_kernels *kernels, bool wide, void *sum,
                       const void *x, double scale, int64_t count) {
  if (!wide) {  // Adding and subtracting -scale x give the same bits.
    kernels->sgd(sum, sum, x, -(float)scale, (size_t)count);
    return;
  }
  double *target = sum;
  const double *from = x;
  LS_INDEPENDENT
  for (int64_t i = 0; i < count; ++i)
    target[i] += from[i] * scale;
}

// Computes rows `begin` to `end` of the product of number `lane` of a part, at
// `target` or added to it.
static void multiply_rows(const products_params *self,
                          const ls_kernel_call *call, const block *b,
                          uint32_t part, uint32_t lane, int64_t begin,
                          int64_t end, void *target, bool adds) {
  const ls_cpu_products *products = &self->products;
  const int64_t k = products->parts[part].k;
  const ls_cpu_product product = {
      .m = (size_t)(end - begin),
      .n = (size_t)b->columns,
      .k = (size_t)k,
      .a = operand_at(self, call->in[2 * part],
                      lane * k * products->m + b->m0 + begin),
      .b = operand_at(self, call->in[2 * part + 1],
                      lane * k * products->n + b->n0),
      .c = target,
      .lda = (size_t)products->m,
      .ldb = (size_t)products->n,
      .ldc = (size_t)b->columns,
      .a_transposed = true,
      .accumulate = adds,
  };
  self->run(&product, &(ls_cpu_block){0, product.m, 0, product.n},
            (char *)call->scratch + self->sums);
}

// Computes a replica's product times a number, or adds that: strip by strip, so
// that the product stays in the first cache.
static void multiply_scaled(const products_params *self,
                            const ls_kernel_call *call, const block *b,
                            uint32_t part, uint32_t lane, char *target,
                            bool adds) {
  const double scale = self->products.parts[part].scale;
  const bool wide = self->products.dtype == LS_DTYPE_F64;
  char *own = b->sums + (size_t)b->used * self->stride;
  for (int64_t i = 0; i < b->rows; i += STRIP) {
    const int64_t end = ls_min_i64(b->rows, i + STRIP);
    const int64_t count = (end - i) * b->columns;
    char *sum = target + (size_t)(i * b->columns) * self->size;
    char *made = adds ? own : sum;
    multiply_rows(self, call, b, part, lane, i, end, made, false);
    if (adds)
      add_scaled(self->kernels, wide, sum, made, scale, count);
    else if (wide)
      scale_f64((double *)(void *)sum, scale, count);
    else
      scale_f32((float *)(void *)sum, scale, count);
  }
}

// Makes a replica's product a new subtree, or adds it to the last one.
static void add_contribution(const products_params *self,
                             const ls_kernel_call *call, block *b,
                             uint32_t part, uint32_t lane, bool adds) {
  if (!adds) b->buffers[b->waiting++] = b->used++;
  void *target = buffer_of(self, b, b->waiting - 1);
  if (self->products.parts[part].scales)
    multiply_scaled(self, call, b, part, lane, target, adds);
  else
    multiply_rows(self, call, b, part, lane, 0, b->rows, target, adds);
}

// Joins the last two subtrees.
static void add_last_two(const products_params *self, block *b) {
  const uint32_t right = --b->waiting, left = right - 1;
  if (b->buffers[right] < 0) return;
  if (b->buffers[left] < 0) {
    b->buffers[left] = b->buffers[right];
    return;
  }
  void *target = buffer_of(self, b, left);
  ls_cpu_tree_add(self->kernels, self->products.dtype, target, target,
                  buffer_of(self, b, right), b->rows * b->columns);
  --b->used;
}

static void store_block(const products_params *self, const block *b,
                        void *out) {
  const ls_cpu_products *products = &self->products;
  const char *from = buffer_of(self, b, 0);
  const size_t row = (size_t)b->columns * self->size;
  for (int64_t i = 0; i < b->rows; ++i, from += row) {
    char *target =
        (char *)out +
        (size_t)((b->m0 - products->first + i) * products->n + b->n0) *
            self->size;
    if (products->mean)
      ls_cpu_tree_mean(products->dtype, target, from, b->columns,
                       products->replicas);
    else
      memcpy(target, from, row);
  }
}

static void products_loop(const ls_kernel_call *call, int64_t begin_block,
                          int64_t end_block) {
  const products_params *self = call->params;
  const ls_cpu_products *products = &self->products;
  for (int64_t i = begin_block; i < end_block; ++i) {
    block b = {.m0 = products->first + i / self->panels * self->band,
               .n0 = i % self->panels * PANEL,
               .sums = call->scratch};
    b.rows = ls_min_i64(self->band, products->end - b.m0);
    b.columns = ls_min_i64(PANEL, products->n - b.n0);
    uint32_t part = 0;
    for (uint32_t r = 0; r < products->replicas; ++r) {
      const ls_cpu_leaf leaf = ls_cpu_leaf_at(r, products->replicas);
      const ls_cpu_product_part *p = &products->parts[part];
      if (part + 1 < products->num_parts && r == p->first + p->replicas)
        p = &products->parts[++part];
      const bool gives = r >= p->first && r < p->first + p->replicas;
      // The product's kernel makes the first addition.
      const bool adds =
          gives && leaf.merges > 0 && b.buffers[b.waiting - 1] >= 0;
      if (gives)
        add_contribution(self, call, &b, part, r - p->first + p->skipped, adds);
      else
        b.buffers[b.waiting++] = -1;
      for (uint32_t m = adds ? 1 : 0; m < leaf.merges; ++m)
        add_last_two(self, &b);
    }
    store_block(self, &b, call->out[0]);
  }
}

// ---- Plan ------------------------------------------------------------------
ls_status ls_cpu_products_prepare(const ls_cpu_products *products,
                                  ls_kernel_plan *plan) {
  LS_ARENA_NEW_OR_RETURN(plan->arena, products_params, self);
  const bool wide = products->dtype == LS_DTYPE_F64;
  const ls_cpu_kernels *kernels = plan->kernels;
  self->products = *products;
  self->kernels = kernels;
  self->run = wide ? kernels->product_f64 : kernels->product;
  self->size = ls_dtype_size(products->dtype);
  self->panels = ls_blocks_of(products->n, PANEL);
  int64_t k = 0, rows = 0;
  for (uint32_t i = 0; i < products->num_parts; ++i) {
    k = ls_max_i64(k, products->parts[i].k);
    rows += products->parts[i].k * products->parts[i].replicas;
  }
  const int64_t made = products->end - products->first;
  self->band = k < FEW_ADDITIONS ? FLAT_BAND : BAND;
  while (self->band > FLAT_BAND &&
         ls_blocks_of(made, self->band) * self->panels < ENOUGH_BLOCKS)
    self->band /= 2;
  self->stride = (size_t)(self->band * PANEL) * self->size;
  // Reserves one more buffer for a product that is scaled before it is added.
  self->sums = (ls_cpu_merge_depth(products->replicas) + 1) * self->stride;
  const ls_cpu_product largest = {.m = (size_t)self->band,
                                  .n = PANEL,
                                  .k = (size_t)k,
                                  .a_transposed = true,
                                  .accumulate = true};
  plan->flops = 2.0 * (double)made * (double)products->n * (double)rows;
  plan->scratch = self->sums + (wide ? kernels->product_f64_scratch(&largest)
                                     : kernels->product_scratch(&largest));
  return ls_kernel_runs(
      plan, products_loop, self,
      ls_max_i64(1, ls_blocks_of(made, self->band) * self->panels));
}

ls_status kernel_add_products(ls_kernel_plan *plan) {
  const uint32_t count = (uint32_t)(plan->num_in / 2);
  LS_ARENA_ARRAY_OR_RETURN(plan->arena, ls_cpu_product_part, parts, count);
  for (uint32_t i = 0; i < count; ++i)
    parts[i] = (ls_cpu_product_part){
        .first = i, .replicas = 1, .k = plan->in[2 * i].shape.dim[0]};
  const ls_shape shape = plan->out[0].shape;
  return ls_cpu_products_prepare(&(ls_cpu_products){.dtype = plan->out[0].dtype,
                                                    .m = shape.dim[0],
                                                    .n = shape.dim[1],
                                                    .end = shape.dim[0],
                                                    .replicas = count,
                                                    .parts = parts,
                                                    .num_parts = count},
                                 plan);
}
