// SPDX-License-Identifier: Apache-2.0
//
// Attention head by head: parameters made by attention.c, run by heads.c.
#ifndef LS_ENGINE_CPU_KERNELS_ATTENTION_HEADS_H_
#define LS_ENGINE_CPU_KERNELS_ATTENTION_HEADS_H_

#include "engine/cpu/kernels/kernel.h"

// Position of the heads' columns in an operand.
typedef struct ls_cpu_head_place {
  uint32_t operand;
  int64_t offset;  // Elements before the first head.
  int64_t rows, depth, pitch;
} ls_cpu_head_place;

typedef struct ls_cpu_attention_params {
  const ls_cpu_kernels *kernels;
  const ls_cpu_norms *norms;
  // Kernels for whole heads; NULL: bands of products.
  const ls_cpu_attention *head_kernels;
  ls_cpu_product_fn *product;
  ls_dtype dtype;
  // Bytes of an operand's element, and of a computed one.
  size_t element, wide;
  double scale;
  bool causal;
  int64_t heads, units, units_per_block;  // A unit is a head.
  int64_t band;  // Queries per band; whole heads: all queries.
  ls_cpu_head_place q, k, v, out;  // `out`: the result, or its gradient.
  ls_cpu_head_place dq, dk, dv;    // Results of the gradient.
  size_t table_scratch;            // Scratch of the product, or of whole heads.
} ls_cpu_attention_params;

// Returns the bytes of scratch per thread.
size_t ls_cpu_attention_scratch(const ls_cpu_attention_params *self,
                                bool gradient);
// Run blocks of heads.
void ls_cpu_attend(const ls_kernel_call *call, int64_t begin_block,
                   int64_t end_block);
void ls_cpu_attend_gradient(const ls_kernel_call *call, int64_t begin_block,
                            int64_t end_block);

#endif  // LS_ENGINE_CPU_KERNELS_ATTENTION_HEADS_H_
