// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/product/products.h"

#include "engine/cpu/kernels/loops.h"

// Least values of k that are cut, and most columns.
enum { LONG_K = 4096, FEW_COLUMNS = 256 };
// Least values of a part, and their multiple: a cache line.
enum { PART_K = 1024, LINE = 16, MOST_PARTS = 8 };
// Rows of a block of the first step, elements of a block of the second.
enum { BAND = 384, STRETCH = 4096 };
// If the parts' sums have more than MANY_BYTES there is one step, with blocks
// of TALL_BAND rows: enough blocks to share without cutting along k.
enum { MANY_BYTES = 4 << 20, TALL_BAND = 128 };

typedef struct parts_params {
  ls_cpu_product product;  // The product of a part, without the arrays.
  const ls_cpu_kernels *kernels;
  ls_cpu_activation activation;
  bool has_bias;
  int64_t k, parts, bands;
  int64_t rows;  // Rows of a block of the last step.
  size_t sums;   // Offset of a part's sums in scratch, if there is one step.
} parts_params;

bool ls_product_has_parts(const ls_cpu_product *product) {
  return !product->a_transposed && product->k >= LONG_K &&
         product->n <= FEW_COLUMNS;
}

static int64_t size_of(const parts_params *self) {
  return (int64_t)(self->product.m * self->product.n);
}

// Writes the sums of a part for the rows [m0, m1) to `target`.
static void multiply_part(const parts_params *self, const ls_kernel_call *call,
                          int64_t part, int64_t m0, int64_t m1, float *target) {
  const int64_t length = (int64_t)self->product.k, first = part * length;
  ls_cpu_product product = self->product;
  product.m = (size_t)(m1 - m0);
  product.k = (size_t)ls_min_i64(length, self->k - first);
  product.a = (const float *)call->in[0] + m0 * (int64_t)product.lda + first;
  product.b = (const float *)call->in[1] +
              (product.b_transposed ? first : first * (int64_t)product.ldb);
  product.c = target;
  self->kernels->product(&product, &(ls_cpu_block){0, product.m, 0, product.n},
                         call->scratch);
}

// Applies bias and activation to `count` rows of sums.
static void finish_rows(const parts_params *self, const ls_kernel_call *call,
                        float *sums, int64_t count) {
  const size_t n = self->product.n;
  for (; count > 0; --count, sums += n) {
    if (self->has_bias) self->kernels->add(sums, sums, call->in[2], n);
    if (self->activation == LS_CPU_ACTIVATION_RELU)
      for (size_t j = 0; j < n; ++j)
        sums[j] = 0 > sums[j] ? 0 : sums[j];
  }
}

// First step: a block is a band of rows of a part.
static void multiply_parts_loop(const ls_kernel_call *call, int64_t begin_block,
                                int64_t end_block) {
  const parts_params *self = call->params;
  const int64_t m = (int64_t)self->product.m, n = (int64_t)self->product.n;
  for (int64_t i = begin_block; i < end_block; ++i) {
    const int64_t part = i / self->bands, m0 = i % self->bands * BAND;
    float *target = (float *)call->out[0] + part * size_of(self) + m0 * n;
    multiply_part(self, call, part, m0, ls_min_i64(m, m0 + BAND), target);
  }
}

// Second step: a block is some rows.
static void add_parts_loop(const ls_kernel_call *call, int64_t begin_block,
                           int64_t end_block) {
  const parts_params *self = call->params;
  const int64_t n = (int64_t)self->product.n;
  const int64_t begin = begin_block * self->rows;
  const int64_t end =
      ls_min_i64(end_block * self->rows, (int64_t)self->product.m);
  if (begin >= end) return;
  const size_t count = (size_t)((end - begin) * n);
  const float *part = (const float *)call->in[2 + self->has_bias] + begin * n;
  float *sums = (float *)call->out[0] + begin * n;
  memcpy(sums, part, count * sizeof(float));
  for (int64_t p = 1; p < self->parts; ++p)
    self->kernels->add(sums, sums, part + p * size_of(self), count);
  finish_rows(self, call, sums, end - begin);
}

// Both steps in one, without memory for all parts' sums: a block is a band of
// rows.
static void bands_loop(const ls_kernel_call *call, int64_t begin_block,
                       int64_t end_block) {
  const parts_params *self = call->params;
  const int64_t m = (int64_t)self->product.m, n = (int64_t)self->product.n;
  float *part = (float *)((char *)call->scratch + self->sums);
  for (int64_t i = begin_block; i < end_block; ++i) {
    const int64_t m0 = i * self->rows, m1 = ls_min_i64(m, m0 + self->rows);
    float *sums = (float *)call->out[0] + m0 * n;
    multiply_part(self, call, 0, m0, m1, sums);
    for (int64_t p = 1; p < self->parts; ++p) {
      multiply_part(self, call, p, m0, m1, part);
      self->kernels->add(sums, sums, part, (size_t)((m1 - m0) * n));
    }
    finish_rows(self, call, sums, m1 - m0);
  }
}

// ---- Plan ------------------------------------------------------------------
static void plan_two_steps(parts_params *self, ls_kernel_plan *plan) {
  const int64_t m = (int64_t)self->product.m;
  self->bands = ls_max_i64(1, ls_blocks_of(m, BAND));
  self->rows = STRETCH / ls_max_i64(1, (int64_t)self->product.n);
  plan->first = multiply_parts_loop;
  plan->first_blocks = self->parts * self->bands;
  plan->shared = (size_t)(self->parts * size_of(self)) * sizeof(float);
  plan->loop = add_parts_loop;
}

static void plan_one_step(parts_params *self, ls_kernel_plan *plan) {
  self->rows = TALL_BAND;
  self->sums = (plan->scratch + LINE * sizeof(float) - 1) /
               (LINE * sizeof(float)) * (LINE * sizeof(float));
  plan->scratch = self->sums + TALL_BAND * self->product.n * sizeof(float);
  plan->loop = bands_loop;
}

ls_status ls_product_parts_prepare(const ls_cpu_product *product, bool has_bias,
                                   ls_kernel_plan *plan) {
  LS_ARENA_NEW_OR_RETURN(plan->arena, parts_params, self);
  self->product = *product;
  self->product.activation = LS_CPU_ACTIVATION_NONE;
  self->kernels = plan->kernels;
  self->activation = product->activation;
  self->has_bias = has_bias;
  self->k = (int64_t)product->k;
  const int64_t most = ls_min_i64(MOST_PARTS, self->k / PART_K);
  const int64_t length = ls_blocks_of(ls_blocks_of(self->k, most), LINE) * LINE;
  self->product.k = (size_t)length;
  self->parts = ls_blocks_of(self->k, length);
  plan->params = self;
  plan->scratch = plan->kernels->product_scratch(&self->product);
  const int64_t bytes = self->parts * size_of(self) * (int64_t)sizeof(float);
  (bytes < MANY_BYTES ? plan_two_steps : plan_one_step)(self, plan);
  plan->blocks = ls_max_i64(1, ls_blocks_of((int64_t)product->m, self->rows));
  plan->flops = 2.0 * (double)size_of(self) * (double)self->k;
  return ls_ok();
}
