// SPDX-License-Identifier: Apache-2.0
//
// Moving of elements: a result written in row order from an operand that has a
// stride along each of the result's dimensions.
#ifndef LS_ENGINE_CPU_KERNELS_INDEX_MOVE_H_
#define LS_ENGINE_CPU_KERNELS_INDEX_MOVE_H_

#include "engine/cpu/kernels/dims.h"
#include "engine/cpu/kernels/kernel.h"

// Returns the number of elements from one index of a dense array's dimension to
// the next.
static inline int64_t ls_step_of(ls_shape shape, int32_t axis) {
  int64_t step = 1;
  for (int32_t i = axis + 1; i < shape.rank; ++i)
    step *= shape.dim[i];
  return step;
}

// Fills the plan. `dims` are those of the result, with the strides of operand
// 0; `base` is the operand's first element. The loop uses operand 0 and result
// 0 only.
ls_status ls_move_plan(ls_kernel_plan *plan, ls_strided_dims dims,
                       int64_t base);

#endif  // LS_ENGINE_CPU_KERNELS_INDEX_MOVE_H_
