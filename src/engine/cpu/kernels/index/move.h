// SPDX-License-Identifier: Apache-2.0
//
// Moving elements: a result written in row order from an operand in which each
// of the result's dimensions has a step of its own.
#ifndef LS_ENGINE_CPU_KERNELS_INDEX_MOVE_H_
#define LS_ENGINE_CPU_KERNELS_INDEX_MOVE_H_

#include "engine/cpu/kernels/dims.h"
#include "engine/cpu/kernels/kernel.h"

// Elements from one index of a dense array's dimension to the next.
static inline int64_t ls_step_of(ls_shape shape, int32_t axis) {
  int64_t step = 1;
  for (int32_t i = axis + 1; i < shape.rank; ++i)
    step *= shape.dim[i];
  return step;
}

// Fills the plan. `dims` are those of the result, with the steps of operand 0,
// whose element `base` comes first. The loop uses operand 0 and result 0 only.
ls_status ls_move_plan(ls_kernel_plan *plan, ls_strided_dims dims,
                       int64_t base);

#endif  // LS_ENGINE_CPU_KERNELS_INDEX_MOVE_H_
