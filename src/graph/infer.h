// SPDX-License-Identifier: Apache-2.0
//
// Shape rules, named in the `shape` column of ops.def. Each runs twice: while
// building, when it may answer unknown, and while lowering, when inputs are
// known and it must answer.
#ifndef LS_GRAPH_INFER_H_
#define LS_GRAPH_INFER_H_

#include "graph/op_table.h"

#define LS_OP(id, name, inputs, traits, shape, ...) \
  ls_status infer_##shape(ls_infer *infer);
#include "lockstep/ops.def"
#undef LS_OP

// "f32[2,3]" of operand `i`, for messages.
#define LS_OPERAND_TEXT(infer, i) \
  LS_SHAPE_TEXT((infer)->in[i].dtype, (infer)->in[i].shape)

#endif  // LS_GRAPH_INFER_H_
