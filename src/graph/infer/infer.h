// SPDX-License-Identifier: Apache-2.0
//
// Shape rules, named in the `shape` column of ops.def. Each runs twice: while
// building, when it may answer unknown, and while lowering, when inputs are
// known and it must answer.
#ifndef LS_GRAPH_INFER_INFER_H_
#define LS_GRAPH_INFER_INFER_H_

#include "graph/op_table.h"
#include "graph/variables/variable.h"

#define LS_OP(id, name, inputs, traits, shape, ...)                            \
  ls_status infer_##shape(ls_infer *infer);
#include "graph/lowered_ops.def"
#include "lockstep/ops.def"
#undef LS_OP

// The attribute `dtype`.
ls_dtype ls_infer_dtype(const ls_infer *infer);
// The type of operands `a` and `b`, which broadcast.
ls_status ls_infer_pair(ls_infer *infer, size_t a, size_t b);

// The attribute `axis`, in range of operand 0 if its rank is known.
ls_status ls_infer_axis(const ls_infer *infer, int32_t *out_axis);
// Puts what is known of `shape` into result `out`, which must fit it; `what` is
// its noun in the message.
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

// The variable of the attribute, and its type as that of output 0.
ls_status ls_infer_variable(ls_infer *infer, ls_variable **out_variable);

// "f32[2,3]" of operand `i`, for messages.
#define LS_OPERAND_TEXT(infer, i)                                              \
  LS_SHAPE_TEXT((infer)->in[i].dtype, (infer)->in[i].shape)

#endif  // LS_GRAPH_INFER_INFER_H_
