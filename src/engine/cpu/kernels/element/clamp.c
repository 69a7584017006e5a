// SPDX-License-Identifier: Apache-2.0
//
// Clamp: min(max(x, low), high), NaN if one of them is (isa/typed_span.c).
#include "engine/cpu/kernels/list.h"
#include "engine/cpu/kernels/loops.h"

ls_status kernel_clamp(ls_kernel_plan *plan) {
  return ls_elementwise_plan_by_dtype(plan, plan->kernels->typed_spans->clamp,
                                      (ls_elementwise){0});
}
