// SPDX-License-Identifier: Apache-2.0
//
// Shape rules, which the column `shape` of ops.def names. Each rule runs twice:
// while building, when sizes may be unknown, and while lowering, when all types
// of the inputs are known and those of the results must be, too.
#ifndef LS_GRAPH_INFER_INFER_H_
#define LS_GRAPH_INFER_INFER_H_

#include "graph/op_table.h"
#include "graph/variables/variable.h"

#define LS_OP(id, name, inputs, traits, shape, ...)                            \
  ls_status infer_##shape(ls_infer *infer);
#include "graph/lowered_ops.def"
#include "lockstep/ops.def"
#undef LS_OP

// Returns the attribute `dtype`.
ls_dtype ls_infer_dtype(const ls_infer *infer);
// Infers the type of operands `a` and `b`, which broadcast.
ls_status ls_infer_pair(ls_infer *infer, size_t a, size_t b);

// Returns the attribute `axis`, checked against operand 0 if its rank is known.
ls_status ls_infer_axis(const ls_infer *infer, int32_t *out_axis);
// Merges the known sizes of `shape` into result `out`, which must be
// compatible; `what` names it in the message.
ls_status ls_infer_merge(const ls_infer *infer, ls_shape shape, size_t out,
                         const char *what);
static inline ls_shape ls_infer_unknown(int32_t rank) {
  ls_shape shape = {.rank = rank};
  for (int32_t i = 0; i < rank; ++i)
    shape.dim[i] = LS_UNKNOWN_DIM;
  return shape;
}
static inline bool ls_infer_is_number(ls_dtype dtype) {
  return ls_dtype_is_float(dtype) || ls_dtype_is_integer(dtype);
}

// Returns the variable in the op's attributes, and sets the type of output 0 to
// its type.
ls_status ls_infer_variable(ls_infer *infer, ls_variable **out_variable);

// Prints the type of operand `i`, such as "f32[2,3]", for messages.
#define LS_OPERAND_TEXT(infer, i)                                              \
  LS_SHAPE_TEXT((infer)->in[i].dtype, (infer)->in[i].shape)

#endif  // LS_GRAPH_INFER_INFER_H_
