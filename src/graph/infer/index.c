// SPDX-License-Identifier: Apache-2.0
//
// Shape rules of lookups by index, scans and sorts.
#include "graph/infer/infer.h"
#include "lockstep/shape_rules.h"

static ls_status check_indices(const ls_infer *infer, size_t i) {
  if (ls_dtype_is_integer(infer->in[i].dtype)) return ls_ok();
  return ls_invalid_argument("%s: indices are integers, got %s", infer->op_name,
                             LS_OPERAND_TEXT(infer, i));
}

// ---- Lookups ---------------------------------------------------------------
// Computes x's shape with `axis` replaced by the dimensions of the indices.
static ls_status gathered_shape(const ls_infer *infer, int32_t axis,
                                ls_shape *out_shape) {
  const ls_shape x = infer->in[0].shape, indices = infer->in[1].shape;
  *out_shape = LS_SHAPE_UNKNOWN;
  if (x.rank < 0 || indices.rank < 0) return ls_ok();
  const int32_t rank = x.rank - 1 + indices.rank;
  if (rank > LS_MAX_RANK)
    return ls_invalid_argument("%s of %s by %s: rank %d, at most %d",
                               infer->op_name, LS_OPERAND_TEXT(infer, 0),
                               LS_OPERAND_TEXT(infer, 1), rank, LS_MAX_RANK);
  ls_shape shape = {.rank = rank};
  for (int32_t i = 0; i < rank; ++i)
    shape.dim[i] = i < axis                  ? x.dim[i]
                   : i < axis + indices.rank ? indices.dim[i - axis]
                                             : x.dim[i + 1 - indices.rank];
  *out_shape = shape;
  return ls_shape_check(shape);
}

ls_status infer_gather(ls_infer *infer) {
  int32_t axis = 0;
  LS_RETURN_IF_ERROR(ls_infer_axis(infer, &axis));
  LS_RETURN_IF_ERROR(check_indices(infer, 1));
  infer->out[0].dtype = infer->in[0].dtype;
  return gathered_shape(infer, axis, &infer->out[0].shape);
}

static ls_status check_combine(const ls_infer *infer) {
  const char *name = ls_infer_attr(infer, LS_ATTR_ID_COMBINE)->as.string;
  if (strcmp(name, "update") != 0 && !ls_infer_is_number(infer->in[0].dtype))
    return ls_invalid_argument("scatter by %s takes numbers, got %s", name,
                               LS_OPERAND_TEXT(infer, 0));
  return ls_ok();
}

ls_status infer_scatter(ls_infer *infer) {
  int32_t axis = 0;
  ls_shape wanted;
  LS_RETURN_IF_ERROR(ls_infer_axis(infer, &axis));
  LS_RETURN_IF_ERROR(check_combine(infer));
  LS_RETURN_IF_ERROR(check_indices(infer, 1));
  LS_RETURN_IF_ERROR(gathered_shape(infer, axis, &wanted));
  infer->out[0] = infer->in[0];
  if (infer->in[2].dtype == infer->in[0].dtype &&
      ls_shape_compatible(wanted, infer->in[2].shape))
    return ls_ok();
  return ls_invalid_argument(
      "scatter into %s by %s: the updates must be %s, are %s",
      LS_OPERAND_TEXT(infer, 0), LS_OPERAND_TEXT(infer, 1),
      LS_SHAPE_TEXT(infer->in[0].dtype, wanted), LS_OPERAND_TEXT(infer, 2));
}

ls_status infer_indexed_slices(ls_infer *infer) {
  ls_shape shape, wanted;
  LS_RETURN_IF_ERROR(ls_infer_sizes(infer, &shape));
  LS_RETURN_IF_ERROR(check_indices(infer, 0));
  infer->out[0] = (ls_type){infer->in[1].dtype, shape};
  const ls_type in[] = {infer->out[0], infer->in[0]};
  ls_infer gather = *infer;
  gather.in = in;
  gather.num_in = LS_COUNT_OF(in);
  LS_RETURN_IF_ERROR(gathered_shape(&gather, 0, &wanted));
  if (ls_infer_is_number(infer->in[1].dtype) &&
      ls_shape_compatible(wanted, infer->in[1].shape))
    return ls_ok();
  return ls_invalid_argument(
      "indexed_slices of %s at %s: the values must be numbers %s, are %s",
      LS_SHAPE_TEXT(infer->in[1].dtype, shape), LS_OPERAND_TEXT(infer, 0),
      LS_SHAPE_TEXT(infer->in[1].dtype, wanted), LS_OPERAND_TEXT(infer, 1));
}

ls_status infer_assign_scatter(ls_infer *infer) {
  ls_variable *variable = NULL;
  LS_RETURN_IF_ERROR(ls_infer_variable(infer, &variable));
  const ls_type in[] = {variable->type, infer->in[0], infer->in[1]};
  ls_infer scatter = *infer;
  scatter.in = in;
  scatter.num_in = LS_COUNT_OF(in);
  return ls_status_annotate(infer_scatter(&scatter), "into variable '%s'",
                            variable->name);
}

// Checks that operands 0 and 1 have the same rank and sizes except along the
// axis. Returns the known part of the indices' shape.
static ls_status along_shape(const ls_infer *infer, ls_shape *out_shape) {
  int32_t axis = 0;
  LS_RETURN_IF_ERROR(ls_infer_axis(infer, &axis));
  LS_RETURN_IF_ERROR(check_indices(infer, 1));
  ls_shape x = infer->in[0].shape;
  if (x.rank >= 0) x.dim[axis] = LS_UNKNOWN_DIM;
  ls_status status = ls_shape_merge(x, infer->in[1].shape, out_shape);
  if (ls_status_is_ok(status)) return status;
  ls_status_free(status);
  return ls_invalid_argument(
      "%s of %s by %s: only the sizes along axis %d may differ", infer->op_name,
      LS_OPERAND_TEXT(infer, 0), LS_OPERAND_TEXT(infer, 1), axis);
}

ls_status infer_take_along(ls_infer *infer) {
  infer->out[0].dtype = infer->in[0].dtype;
  return along_shape(infer, &infer->out[0].shape);
}

ls_status infer_add_along(ls_infer *infer) {
  ls_shape wanted;
  LS_RETURN_IF_ERROR(along_shape(infer, &wanted));
  infer->out[0] = infer->in[0];
  if (ls_infer_is_number(infer->in[0].dtype) &&
      infer->in[2].dtype == infer->in[0].dtype &&
      ls_shape_compatible(wanted, infer->in[2].shape))
    return ls_ok();
  return ls_invalid_argument(
      "add_along of %s by %s: the updates must be numbers as %s, are %s",
      LS_OPERAND_TEXT(infer, 0), LS_OPERAND_TEXT(infer, 1),
      LS_SHAPE_TEXT(infer->in[0].dtype, wanted), LS_OPERAND_TEXT(infer, 2));
}

// ---- Scans -----------------------------------------------------------------
ls_status infer_cumulative(ls_infer *infer) {
  int32_t axis = 0;
  LS_RETURN_IF_ERROR(ls_infer_axis(infer, &axis));
  return infer_number(infer);
}

ls_status infer_linear_scan(ls_infer *infer) {
  LS_RETURN_IF_ERROR(infer_cumulative(infer));
  if (infer->in[1].dtype == infer->in[0].dtype)
    return ls_infer_merge(infer, infer->in[1].shape, 0, "what is added");
  return ls_invalid_argument("linear_scan of %s and %s: the dtypes differ",
                             LS_OPERAND_TEXT(infer, 0),
                             LS_OPERAND_TEXT(infer, 1));
}

// ---- Sorts -----------------------------------------------------------------
// Outputs: the sorted operands and the permutation.
ls_status infer_sort(ls_infer *infer) {
  int32_t axis = 0;
  LS_RETURN_IF_ERROR(ls_infer_axis(infer, &axis));
  if (!ls_infer_is_number(infer->in[0].dtype) &&
      infer->in[0].dtype != LS_DTYPE_BOOL)
    return ls_invalid_argument("sort by numbers or bools, got %s",
                               LS_OPERAND_TEXT(infer, 0));
  LS_RETURN_IF_ERROR(ls_infer_outputs(infer, infer->num_in + 1));
  infer->out[infer->num_in] = (ls_type){LS_DTYPE_I64, infer->in[0].shape};
  for (size_t i = 1; i < infer->num_in; ++i)
    LS_RETURN_IF_ERROR(ls_infer_merge(infer, infer->in[i].shape, infer->num_in,
                                      "what is carried along"));
  for (size_t i = 0; i < infer->num_in; ++i)
    infer->out[i] =
        (ls_type){infer->in[i].dtype, infer->out[infer->num_in].shape};
  return ls_ok();
}

// Outputs: the largest values and their indices.
ls_status infer_top_k(ls_infer *infer) {
  const int64_t k = ls_infer_int(infer, LS_ATTR_ID_K);
  ls_shape shape = infer->in[0].shape;
  const int64_t size = shape.rank > 0 ? shape.dim[shape.rank - 1] : -1;
  if (shape.rank == 0 || (size >= 0 && k > size) ||
      !ls_infer_is_number(infer->in[0].dtype))
    return ls_invalid_argument("top_k of %s with k %lld: it takes numbers, and "
                               "k must be 0 to the size of the last dimension",
                               LS_OPERAND_TEXT(infer, 0), (long long)k);
  if (shape.rank > 0) shape.dim[shape.rank - 1] = k;
  LS_RETURN_IF_ERROR(ls_infer_outputs(infer, 2));
  infer->out[0] = (ls_type){infer->in[0].dtype, shape};
  infer->out[1] = (ls_type){LS_DTYPE_I32, shape};
  return ls_shape_check(shape);
}

ls_status infer_clamp(ls_infer *infer) {
  const ls_type low = infer->in[0], x = infer->in[1], high = infer->in[2];
  infer->out[0] = x;
  if (!ls_infer_is_number(x.dtype) || low.dtype != x.dtype ||
      high.dtype != x.dtype)
    return ls_invalid_argument(
        "clamp of %s between %s and %s: they must be numbers of one dtype",
        LS_OPERAND_TEXT(infer, 1), LS_OPERAND_TEXT(infer, 0),
        LS_OPERAND_TEXT(infer, 2));
  for (size_t i = 0; i < 3; i += 2) {
    ls_status status = ls_ok();
    if (infer->in[i].shape.rank > 0)
      status = ls_shape_merge(infer->out[0].shape, infer->in[i].shape,
                              &infer->out[0].shape);
    if (ls_status_is_ok(status)) continue;
    ls_status_free(status);
    return ls_invalid_argument(
        "clamp of %s: a bound is %s, must be a scalar or as large",
        LS_OPERAND_TEXT(infer, 1), LS_OPERAND_TEXT(infer, i));
  }
  return ls_ok();
}
