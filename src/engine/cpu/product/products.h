// SPDX-License-Identifier: Apache-2.0
//
// The sum over replicas of products, each of a transposed matrix and another
// one, as weights' gradients are: from the operands of all replicas at once, so
// that no replica's product is ever stored.
//
// A block of the result is computed for one replica after the other and added
// up along the canonical tree while it is in the cache: the bits are those of
// whole products that are merged (run/merge.h).
#ifndef LS_ENGINE_CPU_PRODUCT_PRODUCTS_H_
#define LS_ENGINE_CPU_PRODUCT_PRODUCTS_H_

#include "engine/cpu/kernels/kernel.h"

// Some of the replicas, whose operands lie one behind the other: of each
// [k, m] turned, times [k, n], times `scale` if that is wanted.
typedef struct ls_cpu_product_part {
  uint32_t first, replicas;
  uint32_t skipped;  // Of those whose operands lie there, before the first.
  int64_t k;
  double scale;
  bool scales;
} ls_cpu_product_part;

typedef struct ls_cpu_products {
  ls_dtype dtype;  // F32 or F64.
  int64_t m, n;
  uint32_t replicas;
  bool mean;
  ls_cpu_product_part *parts;  // Ascending. Who is in none gives nothing.
  uint32_t num_parts;          // At least one.
} ls_cpu_products;

// Fills in what is wanted of a plan. The kernel's inputs are, for each part,
// all left operands and all right ones.
ls_status ls_cpu_products_prepare(const ls_cpu_products *products,
                                  ls_kernel_plan *plan);

#endif  // LS_ENGINE_CPU_PRODUCT_PRODUCTS_H_
