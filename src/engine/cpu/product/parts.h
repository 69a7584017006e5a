// SPDX-License-Identifier: Apache-2.0
//
// Products with sums so long, for columns so few, that units of the result
// alone would be inefficient: each would rearrange all of an operand for few
// multiply-adds.
//
// So k is cut into parts, a function of k and the columns alone, and each part
// is one chain of multiply-adds from +0. Then the parts' sums are added in
// order, followed by bias and activation. The cut does not depend on the rows:
// replicas have the same bits as one batch and separately.
#ifndef LS_ENGINE_CPU_PRODUCT_PARTS_H_
#define LS_ENGINE_CPU_PRODUCT_PARTS_H_

#include "engine/cpu/kernels/kernel.h"

// Returns true if a product of floats of this shape is computed in parts.
bool ls_product_has_parts(const ls_cpu_product *product);

// Fills in the plan. The kernel's inputs are A, B and, with `has_bias`, the
// bias.
ls_status ls_product_parts_prepare(const ls_cpu_product *product, bool has_bias,
                                   ls_kernel_plan *plan);

#endif  // LS_ENGINE_CPU_PRODUCT_PARTS_H_
