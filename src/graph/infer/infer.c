// SPDX-License-Identifier: Apache-2.0
//
// Shape rules of sources, elementwise ops and variables.
#include "graph/infer/infer.h"

#include <float.h>
#include <string.h>

#include "base/values/random.h"
#include "lockstep/shape_rules.h"

// ---- Sources ---------------------------------------------------------------
ls_status infer_constant(ls_infer *infer) {
  const ls_attr *value = ls_infer_attr(infer, LS_ATTR_ID_VALUE);
  infer->out[0] = (ls_type){ls_array_dtype(value->as.array),
                            ls_array_shape(value->as.array)};
  return ls_ok();
}

ls_dtype ls_infer_dtype(const ls_infer *infer) {
  return ls_infer_attr(infer, LS_ATTR_ID_DTYPE)->as.dtype;
}

ls_status ls_infer_axis(const ls_infer *infer, int32_t *out_axis) {
  const int64_t axis = ls_infer_int(infer, LS_ATTR_ID_AXIS);
  const int32_t rank = infer->in[0].shape.rank;
  if (rank != LS_UNKNOWN_RANK && axis >= rank)
    return ls_invalid_argument("%s of %s along axis %lld", infer->op_name,
                               LS_OPERAND_TEXT(infer, 0), (long long)axis);
  *out_axis = (int32_t)axis;
  return ls_ok();
}

ls_status ls_infer_merge(const ls_infer *infer, ls_shape shape, size_t out,
                         const char *what) {
  ls_shape merged;
  const ls_status status =
      ls_shape_merge(infer->out[out].shape, shape, &merged);
  if (ls_status_is_ok(status)) infer->out[out].shape = merged;
  if (ls_status_is_ok(status)) return status;
  ls_status_free(status);
  return ls_invalid_argument(
      "%s of %s: %s must be %s, is %s", infer->op_name,
      LS_OPERAND_TEXT(infer, 0), what,
      LS_SHAPE_TEXT(infer->out[out].dtype, infer->out[out].shape),
      LS_SHAPE_TEXT(infer->out[out].dtype, shape));
}

ls_status infer_placeholder(ls_infer *infer) {
  const ls_attr *shape = ls_infer_attr(infer, LS_ATTR_ID_SHAPE);
  infer->out[0].dtype = ls_infer_dtype(infer);
  infer->out[0].shape = shape->as.shape;
  return ls_ok();
}

ls_status infer_iota(ls_infer *infer) {
  infer->out[0].dtype = ls_infer_dtype(infer);
  LS_RETURN_IF_ERROR(ls_infer_sizes(infer, &infer->out[0].shape));
  const int64_t axis = ls_infer_int(infer, LS_ATTR_ID_AXIS);
  if (axis >= infer->out[0].shape.rank)
    return ls_invalid_argument("iota along axis %lld of rank %d",
                               (long long)axis, infer->out[0].shape.rank);
  return ls_shape_check(infer->out[0].shape);
}

static double infer_real(const ls_infer *infer, ls_attr_id id) {
  const ls_attr *attr = ls_infer_attr(infer, id);
  return attr != NULL ? attr->as.f : ls_attr_table[id].otherwise.f;
}

// Checks that [low, high) has ends that the type can reach, and a number.
static ls_status check_range(const ls_infer *infer, ls_dtype dtype) {
  const double low = infer_real(infer, LS_ATTR_ID_LOW);
  const double high = infer_real(infer, LS_ATTR_ID_HIGH);
  if (!(low < high)) return ls_ok();  // All draws are `low`.
  const double limit = dtype == LS_DTYPE_F64 ? DBL_MAX : (double)FLT_MAX;
  if (low < -limit || high > limit)
    return ls_invalid_argument("%s of %s in [%g, %g): the ends must be from "
                               "%g to %g",
                               infer->op_name, ls_dtype_name(dtype), low, high,
                               -limit, limit);
  if (ls_random_range_of(dtype, low, high).least < high) return ls_ok();
  return ls_invalid_argument("%s: no number of %s lies in [%.17g, %.17g)",
                             infer->op_name, ls_dtype_name(dtype), low, high);
}

ls_status infer_random(ls_infer *infer) {
  infer->out[0].dtype = ls_infer_dtype(infer);
  if (!ls_dtype_is_float(infer->out[0].dtype))
    return ls_invalid_argument("%s returns floats, got %s", infer->op_name,
                               ls_dtype_name(infer->out[0].dtype));
  LS_RETURN_IF_ERROR(check_range(infer, infer->out[0].dtype));
  LS_RETURN_IF_ERROR(ls_infer_sizes(infer, &infer->out[0].shape));
  return ls_shape_check(infer->out[0].shape);
}

ls_status infer_random_by_example(ls_infer *infer) {
  LS_RETURN_IF_ERROR(infer_random(infer));
  const ls_type ids = infer->in[0];
  const ls_shape shape = infer->out[0].shape;
  const int64_t rows = shape.rank > 0 ? shape.dim[0] : 0;
  if (ids.dtype == LS_DTYPE_I64 && shape.rank > 0 &&
      ls_shape_compatible(ids.shape, LS_SHAPE(rows)))
    return ls_ok();
  return ls_invalid_argument("random numbers %s by example: an id is needed "
                             "for each slice along dimension 0, i64, got %s",
                             LS_SHAPE_TEXT(infer->out[0].dtype, shape),
                             LS_OPERAND_TEXT(infer, 0));
}

ls_status infer_nothing(ls_infer *infer) {
  infer->num_out = 0;
  return ls_ok();
}

ls_status infer_replica_id(ls_infer *infer) {
  infer->out[0] = (ls_type){LS_DTYPE_I32, LS_SCALAR};
  return ls_ok();
}

// ---- One operand -----------------------------------------------------------
static ls_status same_if(ls_infer *infer, bool fits, const char *wanted) {
  if (!fits)
    return ls_invalid_argument("%s takes %s, got %s", infer->op_name, wanted,
                               LS_OPERAND_TEXT(infer, 0));
  infer->out[0] = infer->in[0];
  return ls_ok();
}

ls_status infer_same(ls_infer *infer) { return same_if(infer, true, ""); }

ls_status infer_number(ls_infer *infer) {
  return same_if(infer, ls_infer_is_number(infer->in[0].dtype), "numbers");
}

ls_status infer_float(ls_infer *infer) {
  return same_if(infer, ls_dtype_is_float(infer->in[0].dtype), "floats");
}

ls_status infer_convert(ls_infer *infer) {
  infer->out[0].dtype = ls_infer_dtype(infer);
  const ls_dtype from = infer->in[0].dtype, to = infer->out[0].dtype;
  const bool possible = (ls_infer_is_number(from) || from == LS_DTYPE_BOOL) &&
                        (ls_infer_is_number(to) || to == LS_DTYPE_BOOL);
  if (!possible)
    return ls_unimplemented("convert from %s to %s: numbers and bools only",
                            ls_dtype_name(from), ls_dtype_name(to));
  infer->out[0].shape = infer->in[0].shape;
  return ls_ok();
}

ls_status infer_dim_size(ls_infer *infer) {
  int32_t axis = 0;
  infer->out[0] = (ls_type){LS_DTYPE_I64, LS_SCALAR};
  return ls_infer_axis(infer, &axis);
}

// ---- Two and more operands -------------------------------------------------
ls_status ls_infer_pair(ls_infer *infer, size_t a, size_t b) {
  if (infer->in[a].dtype != infer->in[b].dtype)
    return ls_invalid_argument(
        "%s of %s and %s: the dtypes differ; convert one with ls_convert",
        infer->op_name, LS_OPERAND_TEXT(infer, a), LS_OPERAND_TEXT(infer, b));
  infer->out[0].dtype = infer->in[a].dtype;
  ls_status status = ls_shape_broadcast(infer->in[a].shape, infer->in[b].shape,
                                        &infer->out[0].shape);
  if (ls_status_is_ok(status)) return status;
  ls_status_free(status);
  return ls_invalid_argument(
      "%s of %s and %s: the shapes do not broadcast; sizes must be equal, or "
      "one of them 1, counted from the last dimension",
      infer->op_name, LS_OPERAND_TEXT(infer, a), LS_OPERAND_TEXT(infer, b));
}

ls_status infer_arithmetic(ls_infer *infer) {
  if (!ls_infer_is_number(infer->in[0].dtype))
    return ls_invalid_argument("%s takes numbers, got %s", infer->op_name,
                               LS_OPERAND_TEXT(infer, 0));
  return ls_infer_pair(infer, 0, 1);
}

ls_status infer_compare(ls_infer *infer) {
  if (!ls_infer_is_number(infer->in[0].dtype) &&
      infer->in[0].dtype != LS_DTYPE_BOOL)
    return ls_invalid_argument("%s takes numbers or bools, got %s",
                               infer->op_name, LS_OPERAND_TEXT(infer, 0));
  LS_RETURN_IF_ERROR(ls_infer_pair(infer, 0, 1));
  infer->out[0].dtype = LS_DTYPE_BOOL;
  return ls_ok();
}

ls_status infer_select(ls_infer *infer) {
  if (infer->in[0].dtype != LS_DTYPE_BOOL)
    return ls_invalid_argument("select takes a bool condition, got %s",
                               LS_OPERAND_TEXT(infer, 0));
  LS_RETURN_IF_ERROR(ls_infer_pair(infer, 1, 2));
  const ls_shape both = infer->out[0].shape;
  ls_status status =
      ls_shape_broadcast(infer->in[0].shape, both, &infer->out[0].shape);
  if (ls_status_is_ok(status)) return status;
  ls_status_free(status);
  return ls_invalid_argument(
      "select by %s between %s and %s: the shapes do not broadcast",
      LS_OPERAND_TEXT(infer, 0), LS_OPERAND_TEXT(infer, 1),
      LS_OPERAND_TEXT(infer, 2));
}

ls_status infer_add_n(ls_infer *infer) {
  LS_RETURN_IF_ERROR(infer_number(infer));
  for (size_t i = 1; i < infer->num_in; ++i) {
    ls_shape merged;
    ls_status status =
        ls_shape_merge(infer->out[0].shape, infer->in[i].shape, &merged);
    if (!ls_status_is_ok(status) || infer->in[i].dtype != infer->out[0].dtype) {
      ls_status_free(status);
      return ls_invalid_argument("add_n: operand %zu is %s, operand 0 is %s", i,
                                 LS_OPERAND_TEXT(infer, i),
                                 LS_OPERAND_TEXT(infer, 0));
    }
    infer->out[0].shape = merged;
  }
  return ls_ok();
}

// ---- Variables -------------------------------------------------------------
ls_status ls_infer_variable(ls_infer *infer, ls_variable **out_variable) {
  *out_variable =
      (ls_variable *)ls_infer_attr(infer, LS_ATTR_ID_VARIABLE)->as.object;
  if ((*out_variable)->is_dropped)
    return ls_failed_precondition(
        "%s: variable '%s' went with the refused call that made it",
        infer->op_name, (*out_variable)->name);
  infer->out[0] = (*out_variable)->type;
  return ls_ok();
}

ls_status infer_read(ls_infer *infer) {
  ls_variable *variable = NULL;
  return ls_infer_variable(infer, &variable);
}

ls_status infer_is_initialized(ls_infer *infer) {
  ls_variable *variable = NULL;
  LS_RETURN_IF_ERROR(ls_infer_variable(infer, &variable));
  infer->out[0] = (ls_type){LS_DTYPE_BOOL, LS_SCALAR};
  return ls_ok();
}

ls_status infer_assign(ls_infer *infer) {
  ls_variable *variable = NULL;
  LS_RETURN_IF_ERROR(ls_infer_variable(infer, &variable));
  if (infer->in[0].dtype == variable->type.dtype &&
      ls_shape_compatible(infer->in[0].shape, variable->type.shape))
    return ls_ok();
  return ls_invalid_argument(
      "%s: variable '%s' is %s, the value %s", infer->op_name, variable->name,
      LS_SHAPE_TEXT(variable->type.dtype, variable->type.shape),
      LS_OPERAND_TEXT(infer, 0));
}

// ---- Wide values ------------------------------------------------------------
ls_status ls_wide_type(ls_type part, int64_t replicas, ls_type *out_type) {
  const int32_t rank = part.shape.rank;
  *out_type = part;
  if (part.dtype == LS_DTYPE_RESOURCE || part.dtype == LS_DTYPE_VARIANT)
    return ls_unimplemented(
        "a wide value of %s: elements must be numbers or strings",
        ls_dtype_name(part.dtype));
  if (rank < 0) return ls_ok();
  if (rank == LS_MAX_RANK)
    return ls_invalid_argument(
        "a wide value of %s would have %d dimensions; at most %d are possible",
        LS_SHAPE_TEXT(part.dtype, part.shape), rank + 1, LS_MAX_RANK);
  memmove(out_type->shape.dim + 1, part.shape.dim,
          (size_t)rank * sizeof(*part.shape.dim));
  out_type->shape.dim[0] = replicas;
  ++out_type->shape.rank;
  return ls_ok();
}

ls_status ls_wide_part(ls_type wide, int64_t replicas, ls_type *out_type) {
  const int32_t rank = wide.shape.rank;
  *out_type = wide;
  if (rank < 0) return ls_ok();
  if (rank == 0 || (wide.shape.dim[0] >= 0 && wide.shape.dim[0] != replicas))
    return ls_invalid_argument("%s is no wide value of %lld replicas",
                               LS_SHAPE_TEXT(wide.dtype, wide.shape),
                               (long long)replicas);
  memmove(out_type->shape.dim, wide.shape.dim + 1,
          (size_t)(rank - 1) * sizeof(*wide.shape.dim));
  out_type->shape.dim[rank - 1] = 0;
  --out_type->shape.rank;
  return ls_ok();
}
