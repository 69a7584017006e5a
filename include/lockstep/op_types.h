// SPDX-License-Identifier: Apache-2.0
// Layer: graph
//
// The ids of ops, from the table of ops.
//
// Threads: ids are constants.
#ifndef LOCKSTEP_OP_TYPES_H_
#define LOCKSTEP_OP_TYPES_H_

typedef enum ls_op_type_id {
  LS_OP_NONE = 0,
#define LS_OP(id, ...) LS_OP_##id,
#include "lockstep/ops.def"
#undef LS_OP
  LS_OP_COUNT,
} ls_op_type_id;

#endif  // LOCKSTEP_OP_TYPES_H_
