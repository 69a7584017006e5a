// SPDX-License-Identifier: Apache-2.0
//
// Shape rules of what replicas do together. How many there are is an attribute,
// as a value does not know it.
#include "graph/infer.h"

ls_status infer_all_reduce(ls_infer *infer) {
  const ls_attr *reduce = ls_infer_attr(infer, "reduce");
  static const char *const names[] = {"sum", "mean", "max", "min"};
  bool known = false;
  for (size_t i = 0; reduce != NULL && i < LS_COUNT_OF(names); ++i)
    known = known || strcmp(reduce->as.string, names[i]) == 0;
  if (!known)
    return ls_invalid_argument(
        "all_reduce: '%s' is none of sum, mean, max, min",
        reduce == NULL ? "" : reduce->as.string);
  return infer_number(infer);
}

// The attribute `axis`, one of operand 0's.
static ls_status own_axis(const ls_infer *infer, int64_t *out_axis) {
  *out_axis = ls_infer_int(infer, "axis", 0);
  const int32_t rank = infer->in[0].shape.rank;
  if (*out_axis >= 0 && (rank < 0 || *out_axis < rank)) return ls_ok();
  return ls_invalid_argument("%s along axis %lld of %s: there are axes 0 to %d",
                             infer->op_name, (long long)*out_axis,
                             LS_OPERAND_TEXT(infer, 0), rank - 1);
}

// The rows of each replica are known when it is lowered. Before, what is known
// of the rows of one holds for all.
ls_status infer_all_gather(ls_infer *infer) {
  const ls_attr *rows = ls_infer_attr(infer, "rows");
  int64_t axis = 0;
  LS_RETURN_IF_ERROR(own_axis(infer, &axis));
  infer->out[0] = infer->in[0];
  if (infer->in[0].shape.rank < 0) return ls_ok();
  int64_t *dim = &infer->out[0].shape.dim[axis];
  if (rows == NULL && *dim >= 0) *dim *= ls_infer_int(infer, "replicas", 1);
  if (rows == NULL) return ls_ok();
  *dim = 0;
  for (size_t r = 0; r < rows->as.ints.count; ++r)
    *dim += rows->as.ints.items[r];
  return ls_ok();
}

// With a second operand the part is as long as that.
ls_status infer_reduce_scatter(ls_infer *infer) {
  const int64_t replicas = ls_infer_int(infer, "replicas", 1);
  int64_t axis = 0;
  if (infer->num_in < 1 || infer->num_in > 2)
    return ls_invalid_argument("reduce_scatter takes a value and, where parts "
                               "differ, one that is as long as the part; got "
                               "%zu",
                               infer->num_in);
  LS_RETURN_IF_ERROR(infer_all_reduce(infer));
  LS_RETURN_IF_ERROR(own_axis(infer, &axis));
  if (infer->in[0].shape.rank < 0) return ls_ok();
  int64_t *dim = &infer->out[0].shape.dim[axis];
  if (infer->num_in == 2) {
    const ls_shape like = infer->in[1].shape;
    *dim = axis < like.rank ? like.dim[axis] : LS_UNKNOWN_DIM;
    return ls_ok();
  }
  if (*dim >= 0 && *dim % replicas != 0)
    return ls_invalid_argument("reduce_scatter: axis %lld of %s cannot be cut "
                               "into %lld equal parts",
                               (long long)axis, LS_OPERAND_TEXT(infer, 0),
                               (long long)replicas);
  if (*dim >= 0) *dim /= replicas;
  return ls_ok();
}
