// SPDX-License-Identifier: Apache-2.0
//
// The prepare functions that the kernel column of ops.def names.
#ifndef LS_ENGINE_CPU_KERNELS_LIST_H_
#define LS_ENGINE_CPU_KERNELS_LIST_H_

#include "engine/cpu/kernels/kernel.h"

#define LS_OP(id, name, inputs, traits, shape, gradient, lower, kernel, ...)   \
  ls_status kernel_##kernel(ls_kernel_plan *plan);
#include "graph/lowered_ops.def"
#include "lockstep/ops.def"
#undef LS_OP

#endif  // LS_ENGINE_CPU_KERNELS_LIST_H_
