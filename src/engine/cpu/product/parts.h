// SPDX-License-Identifier: Apache-2.0
//
// Products of sums so long, for columns so few, that units of the result alone
// would not do: each would bring all of an operand into another order for few
// multiply-adds.
//
// So k is cut into parts, a function of k and the columns alone, and each is
// one chain of multiply-adds from +0. Then the parts' sums are added in order,
// and come the bias and the activation. Rows do not matter: replicas have the
// same bits side by side and apart.
#ifndef LS_ENGINE_CPU_PRODUCT_PARTS_H_
#define LS_ENGINE_CPU_PRODUCT_PARTS_H_

#include "engine/cpu/kernels/kernel.h"

// Whether a product of floats with this shape is one.
bool ls_product_has_parts(const ls_cpu_product *product);

// Fills in what is wanted of a plan. The kernel's inputs are A, B and, if it
// `has_bias`, that.
ls_status ls_product_parts_prepare(const ls_cpu_product *product, bool has_bias,
                                   ls_kernel_plan *plan);

#endif  // LS_ENGINE_CPU_PRODUCT_PARTS_H_
