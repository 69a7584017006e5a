// SPDX-License-Identifier: Apache-2.0
//
// The sum over replicas of products, each of a transposed matrix and another
// one, like gradients of weights: computed from the operands of all replicas at
// once, so that no replica's product is ever stored. The products that an
// add_products op adds up count as those of replicas.
//
// A block of the result is computed for one replica after the other and added
// up along the canonical tree while it is in the cache: the bits are those of
// whole products that are merged (run/merge.h), or given to add_n.
#ifndef LS_ENGINE_CPU_PRODUCT_PRODUCTS_H_
#define LS_ENGINE_CPU_PRODUCT_PRODUCTS_H_

#include "engine/cpu/kernels/kernel.h"

// Replicas whose operands are concatenated: for each, [k, m] transposed, times
// [k, n], times `scale` if given.
typedef struct ls_cpu_product_part {
  uint32_t first, replicas;
  uint32_t skipped;  // Replicas in the operands before the first one used.
  int64_t k;
  double scale;
  bool scales;
} ls_cpu_product_part;

typedef struct ls_cpu_products {
  ls_dtype dtype;  // F32 or F64.
  int64_t m, n;
  int64_t first, end;  // Rows of the result to compute.
  uint32_t replicas;
  bool mean;
  // Ascending. Replicas in no part contribute nothing.
  ls_cpu_product_part *parts;
  uint32_t num_parts;  // At least 1.
} ls_cpu_products;

// Fills in the plan. The kernel's inputs are, for each part, all left operands
// and all right ones.
ls_status ls_cpu_products_prepare(const ls_cpu_products *products,
                                  ls_kernel_plan *plan);

// ---- Parts -----------------------------------------------------------------
// Products with such long sums, and so few columns, that units of the result
// alone would be inefficient: each would rearrange all of an operand for few
// multiply-adds.
//
// So k is cut into parts, a function of k and the columns alone, and each part
// is one chain of multiply-adds from +0. Then the parts' sums are added in
// order, followed by bias and activation. The cut does not depend on the rows:
// replicas have the same bits as one batch and separately.

#endif  // LS_ENGINE_CPU_PRODUCT_PRODUCTS_H_
