// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/product_parts.h"

#include "engine/cpu/loops.h"

// Least values of k that are cut, and most columns.
enum { LONG_K = 4096, FEW_COLUMNS = 256 };
// Least values of a part, and what they are a multiple of: a cache's line.
enum { PART_K = 1024, LINE = 16, MOST_PARTS = 8 };
// Rows of a block of the first step, elements of one of the second.
enum { BAND = 384, STRETCH = 4096 };

typedef struct parts_params {
  ls_cpu_product product;  // Of a part, without the arrays.
  const ls_cpu_kernels *kernels;
  ls_cpu_activation activation;
  bool has_bias;
  int64_t k, parts, bands;
  int64_t rows;  // Of a block of the second step.
} parts_params;

bool ls_product_has_parts(const ls_cpu_product *product) {
  return !product->a_transposed && product->k >= LONG_K &&
         product->n <= FEW_COLUMNS;
}

static int64_t size_of(const parts_params *self) {
  return (int64_t)(self->product.m * self->product.n);
}

// The first step: a block is a band of rows of a part.
static void parts_loop(const ls_kernel_call *call, int64_t begin_block,
                       int64_t end_block) {
  const parts_params *self = call->params;
  const int64_t length = (int64_t)self->product.k;
  for (int64_t i = begin_block; i < end_block; ++i) {
    const int64_t part = i / self->bands, first = part * length;
    ls_cpu_product product = self->product;
    product.k = (size_t)ls_min_i64(length, self->k - first);
    product.a = (const float *)call->in[0] + first;
    product.b = (const float *)call->in[1] +
                (product.b_transposed ? first : first * (int64_t)product.ldb);
    product.c = (float *)call->out[0] + part * size_of(self);
    const size_t m0 = (size_t)(i % self->bands * BAND);
    const size_t m1 = product.m - m0 < BAND ? product.m : m0 + BAND;
    self->kernels->product(&product, &(ls_cpu_block){m0, m1, 0, product.n},
                           call->scratch);
  }
}

// The second step: a block is some rows.
static void sum_loop(const ls_kernel_call *call, int64_t begin_block,
                     int64_t end_block) {
  const parts_params *self = call->params;
  void (*const add)(float *, const float *, const float *, size_t) =
      self->kernels->add;
  const size_t n = self->product.n;
  const int64_t begin = begin_block * self->rows;
  const int64_t end =
      ls_min_i64(end_block * self->rows, (int64_t)self->product.m);
  const float *bias = self->has_bias ? call->in[2] : NULL;
  for (int64_t i = begin; i < end; ++i) {
    const float *part =
        (const float *)call->in[2 + self->has_bias] + i * (int64_t)n;
    float *sums = (float *)call->out[0] + i * (int64_t)n;
    memcpy(sums, part, n * sizeof(float));
    for (int64_t p = 1; p < self->parts; ++p)
      add(sums, sums, part + p * size_of(self), n);
    if (bias != NULL) add(sums, sums, bias, n);
    if (self->activation == LS_CPU_ACTIVATION_RELU)
      for (size_t j = 0; j < n; ++j)
        sums[j] = 0 > sums[j] ? 0 : sums[j];
  }
}

ls_status ls_product_parts_prepare(const ls_cpu_product *product, bool has_bias,
                                   ls_kernel_plan *plan) {
  parts_params *self = ls_arena_new(plan->arena, parts_params);
  if (self == NULL) return ls_out_of_memory();
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
  const int64_t m = (int64_t)product->m, n = (int64_t)product->n;
  self->bands = ls_max_i64(1, ls_blocks_of(m, BAND));
  self->rows = STRETCH / ls_max_i64(1, n);
  plan->params = self;
  plan->scratch = plan->kernels->product_scratch(&self->product);
  plan->first = parts_loop;
  plan->first_blocks = self->parts * self->bands;
  plan->shared = (size_t)(self->parts * m * n) * sizeof(float);
  plan->loop = sum_loop;
  plan->blocks = ls_max_i64(1, ls_blocks_of(m, self->rows));
  plan->flops = 2 * m * n * self->k;
  return ls_ok();
}
