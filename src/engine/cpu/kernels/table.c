// SPDX-License-Identifier: Apache-2.0
//
// The column `kernel` of ops.def as a table.
#include "engine/cpu/kernels/kernel.h"

// Ops that the compiler handles itself, and ops that lowering replaces.
#define kernel_engine NULL
#define kernel_none NULL

static const ls_kernel_prepare prepare_of[LS_OP_TABLE_COUNT] = {
#define LS_OP(id, name, inputs, traits, shape, gradient, lower, kernel, ...)   \
  [LS_OP_##id] = kernel_##kernel,
#include "graph/lowered_ops.def"
#include "lockstep/ops.def"
#undef LS_OP
};

ls_kernel_prepare ls_kernel_prepare_of(uint16_t op_type) {
  return op_type < LS_OP_TABLE_COUNT ? prepare_of[op_type] : NULL;
}
