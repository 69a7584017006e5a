// SPDX-License-Identifier: Apache-2.0
//
// Shape rules of ops that slice, pad, join and reverse values.
#include "graph/infer/infer.h"
#include "lockstep/shape_rules.h"

// Lists of integers of equal length, one number per axis.
typedef struct axis_list {
  ls_attr_id id;
  const int64_t *items;
} axis_list;

static ls_status read_lists(const ls_infer *infer, axis_list *lists,
                            size_t count, int32_t *out_rank) {
  for (size_t i = 0; i < count; ++i) {
    const ls_attr *attr = ls_infer_attr(infer, lists[i].id);
    if (i > 0 && attr->as.ints.count != (size_t)*out_rank)
      return ls_invalid_argument(
          "%s: '%s' has %zu numbers, '%s' has %d", infer->op_name, attr->name,
          attr->as.ints.count, ls_attr_table[lists[0].id].name, *out_rank);
    lists[i].items = attr->as.ints.items;
    *out_rank = (int32_t)attr->as.ints.count;
  }
  return ls_ok();
}

static ls_status check_rank(const ls_infer *infer, int32_t rank) {
  const int32_t have = infer->in[0].shape.rank;
  if (have == rank || have == LS_UNKNOWN_RANK) return ls_ok();
  return ls_invalid_argument("%s of %s: numbers for %d axes", infer->op_name,
                             LS_OPERAND_TEXT(infer, 0), rank);
}

// ---- Slices ----------------------------------------------------------------
// Computes the size of one sliced dimension; limit -1 is unknown.
static int64_t sliced(int64_t start, int64_t limit, int64_t stride) {
  if (limit < 0) return LS_UNKNOWN_DIM;
  return limit == start ? 0 : (limit - start - 1) / stride + 1;
}

static ls_status slice_shape(const ls_infer *infer, ls_type from,
                             ls_shape *out_shape) {
  axis_list lists[] = {{LS_ATTR_ID_STARTS, NULL},
                       {LS_ATTR_ID_LIMITS, NULL},
                       {LS_ATTR_ID_STRIDES, NULL}};
  const bool clamps = ls_infer_int(infer, LS_ATTR_ID_CLAMP) != 0;
  int32_t rank = 0;
  LS_RETURN_IF_ERROR(read_lists(infer, lists, LS_COUNT_OF(lists), &rank));
  if (from.shape.rank != rank && from.shape.rank != LS_UNKNOWN_RANK)
    return ls_invalid_argument("%s: starts for %d axes of %s", infer->op_name,
                               rank, LS_SHAPE_TEXT(from.dtype, from.shape));
  *out_shape = ls_infer_unknown(rank);
  for (int32_t i = 0; i < rank; ++i) {
    const int64_t size = from.shape.rank < 0 ? -1 : from.shape.dim[i];
    const int64_t limit = lists[1].items[i], stride = lists[2].items[i];
    const bool is_end = limit == -1 || (clamps && limit > size);
    const int64_t end = is_end ? size : limit;
    const bool is_behind = clamps && end >= 0 && lists[0].items[i] > end;
    const int64_t start = is_behind ? end : lists[0].items[i];
    if ((end >= 0 && start > end) || (size >= 0 && end > size))
      return ls_invalid_argument(
          "%s of %s: axis %d from %lld to %lld by %lld; 0 <= start <= limit <= "
          "size and stride >= 1 are required, limit -1 is the end",
          infer->op_name, LS_SHAPE_TEXT(from.dtype, from.shape), i,
          (long long)start, (long long)limit, (long long)stride);
    out_shape->dim[i] = sliced(start, end, stride);
  }
  return ls_shape_check(*out_shape);
}

ls_status infer_slice(ls_infer *infer) {
  infer->out[0].dtype = infer->in[0].dtype;
  return slice_shape(infer, infer->in[0], &infer->out[0].shape);
}

// Infers the gradient of a slice: operand 0 has the shape of a slice of operand
// 1; the result has operand 1's shape.
ls_status infer_slice_grad(ls_infer *infer) {
  ls_shape slice;
  LS_RETURN_IF_ERROR(slice_shape(infer, infer->in[1], &slice));
  infer->out[0] = infer->in[1];
  if (infer->in[0].dtype == infer->in[1].dtype &&
      ls_shape_compatible(slice, infer->in[0].shape))
    return ls_ok();
  return ls_invalid_argument("%s: %s is no such slice of %s", infer->op_name,
                             LS_OPERAND_TEXT(infer, 0),
                             LS_OPERAND_TEXT(infer, 1));
}

// Checks the starts, operands from `first` on: one integer scalar per axis.
static ls_status check_starts(const ls_infer *infer, size_t first,
                              int32_t rank) {
  if (infer->num_in < first + (size_t)rank)
    return ls_invalid_argument("%s of %s takes %d starts, got %zu",
                               infer->op_name, LS_OPERAND_TEXT(infer, 0), rank,
                               infer->num_in - first);
  for (size_t i = first; i < first + (size_t)rank; ++i)
    if (!ls_dtype_is_integer(infer->in[i].dtype) || infer->in[i].shape.rank > 0)
      return ls_invalid_argument(
          "%s: start %zu is %s, must be an integer scalar", infer->op_name,
          i - first, LS_OPERAND_TEXT(infer, i));
  return ls_ok();
}

// Returns true if no dimension of `part` is larger than the same dimension of
// `whole`.
static bool fits_in(ls_shape part, ls_shape whole) {
  if (part.rank < 0 || whole.rank < 0) return true;
  if (part.rank != whole.rank) return false;
  for (int32_t i = 0; i < part.rank; ++i)
    if (part.dim[i] >= 0 && whole.dim[i] >= 0 && part.dim[i] > whole.dim[i])
      return false;
  return true;
}

ls_status infer_dynamic_slice(ls_infer *infer) {
  ls_shape shape;
  LS_RETURN_IF_ERROR(ls_infer_sizes(infer, &shape));
  LS_RETURN_IF_ERROR(check_rank(infer, shape.rank));
  LS_RETURN_IF_ERROR(check_starts(infer, 1, shape.rank));
  infer->out[0] = (ls_type){infer->in[0].dtype, shape};
  if (!fits_in(shape, infer->in[0].shape))
    return ls_invalid_argument("dynamic_slice of %s: %s is larger",
                               LS_OPERAND_TEXT(infer, 0),
                               LS_SHAPE_TEXT(infer->in[0].dtype, shape));
  return ls_shape_check(shape);
}

ls_status infer_dynamic_update_slice(ls_infer *infer) {
  const ls_shape x = infer->in[0].shape, update = infer->in[1].shape;
  if (infer->in[0].dtype != infer->in[1].dtype || !fits_in(update, x))
    return ls_invalid_argument("dynamic_update_slice of %s by %s: dtypes and "
                               "ranks must be equal, sizes no larger",
                               LS_OPERAND_TEXT(infer, 0),
                               LS_OPERAND_TEXT(infer, 1));
  const int32_t rank = (int32_t)infer->num_in - 2;
  if ((x.rank >= 0 && x.rank != rank) ||
      (update.rank >= 0 && update.rank != rank))
    return ls_invalid_argument("dynamic_update_slice of %s: %d starts",
                               LS_OPERAND_TEXT(infer, 0), rank);
  infer->out[0] = infer->in[0];
  return check_starts(infer, 2, rank);
}

// ---- Pad, concatenate, reverse ---------------------------------------------
// Computes the size of a dimension with interior padding, and with all of its
// padding; returns false if it is too large or below 0.
static bool padded(int64_t size, int64_t low, int64_t high, int64_t interior,
                   int64_t *out_inside, int64_t *out) {
  int64_t inside = 0;
  *out_inside = *out = LS_UNKNOWN_DIM;
  if (size < 0) return true;
  if (size > 0 && (__builtin_mul_overflow(size - 1, interior, &inside) ||
                   __builtin_add_overflow(inside, size, &inside)))
    return false;
  *out_inside = inside;
  return !__builtin_add_overflow(inside, low, &inside) &&
         !__builtin_add_overflow(inside, high, &inside) && (*out = inside) >= 0;
}

ls_status infer_pad(ls_infer *infer) {
  axis_list lists[] = {{LS_ATTR_ID_PAD_LOW, NULL},
                       {LS_ATTR_ID_PAD_HIGH, NULL},
                       {LS_ATTR_ID_INTERIOR, NULL}};
  int32_t rank = 0;
  LS_RETURN_IF_ERROR(read_lists(infer, lists, LS_COUNT_OF(lists), &rank));
  LS_RETURN_IF_ERROR(check_rank(infer, rank));
  if (infer->in[1].dtype != infer->in[0].dtype || infer->in[1].shape.rank > 0)
    return ls_invalid_argument(
        "pad of %s by %s: the value must be a scalar of the same dtype",
        LS_OPERAND_TEXT(infer, 0), LS_OPERAND_TEXT(infer, 1));
  const ls_shape from = infer->in[0].shape;
  ls_shape shape = ls_infer_unknown(rank), inside = shape;
  for (int32_t i = 0; i < rank; ++i) {
    const int64_t low = lists[0].items[i], high = lists[1].items[i];
    const int64_t interior = lists[2].items[i];
    if (!padded(from.rank < 0 ? -1 : from.dim[i], low, high, interior,
                &inside.dim[i], &shape.dim[i]))
      return ls_invalid_argument(
          "pad of %s: axis %d by %lld below, %lld above and %lld between; the "
          "size that comes out must be 0 or more",
          LS_OPERAND_TEXT(infer, 0), i, (long long)low, (long long)high,
          (long long)interior);
  }
  infer->out[0] = (ls_type){infer->in[0].dtype, shape};
  LS_RETURN_IF_ERROR(ls_shape_check(inside));
  return ls_shape_check(shape);
}

// Sums the sizes along `axis` of the operands from `first` on; -1 if one is
// unknown.
static int64_t sum_along(const ls_infer *infer, size_t first, int32_t axis) {
  int64_t sum = 0;
  for (size_t i = first; i < infer->num_in; ++i) {
    const ls_shape shape = infer->in[i].shape;
    if (shape.rank < 0 || shape.dim[axis] < 0 ||
        __builtin_add_overflow(sum, shape.dim[axis], &sum))
      return LS_UNKNOWN_DIM;
  }
  return sum;
}

// Checks that operand `i` has operand 0's shape except along `axis`.
static ls_status check_beside(const ls_infer *infer, size_t i, int32_t axis) {
  const ls_shape first = infer->in[0].shape;
  ls_shape shape = infer->in[i].shape;
  bool fits = infer->in[i].dtype == infer->in[0].dtype;
  if (fits && shape.rank >= 0 && first.rank >= 0) {
    fits = shape.rank == first.rank;
    if (fits) shape.dim[axis] = first.dim[axis];
    fits = fits && ls_shape_compatible(shape, first);
  }
  if (fits && shape.rank >= 0) fits = axis < shape.rank;
  if (fits) return ls_ok();
  return ls_invalid_argument("%s along axis %d: operand %zu is %s, operand 0 "
                             "is %s; only the sizes along the axis may differ",
                             infer->op_name, axis, i, LS_OPERAND_TEXT(infer, i),
                             LS_OPERAND_TEXT(infer, 0));
}

ls_status infer_concatenate(ls_infer *infer) {
  int32_t axis = 0;
  LS_RETURN_IF_ERROR(ls_infer_axis(infer, &axis));
  infer->out[0] = (ls_type){infer->in[0].dtype, LS_SHAPE_UNKNOWN};
  for (size_t i = 0; i < infer->num_in; ++i) {
    LS_RETURN_IF_ERROR(check_beside(infer, i, axis));
    ls_shape shape = infer->in[i].shape;
    if (shape.rank < 0) continue;
    shape.dim[axis] = LS_UNKNOWN_DIM;
    LS_RETURN_IF_ERROR(ls_infer_merge(infer, shape, 0, "an operand"));
  }
  ls_shape *shape = &infer->out[0].shape;
  if (shape->rank < 0) return ls_ok();
  shape->dim[axis] = sum_along(infer, 0, axis);
  return ls_shape_check(*shape);
}

// Cuts operand 0 into one piece for each further operand.
ls_status infer_split_like(ls_infer *infer) {
  int32_t axis = 0;
  LS_RETURN_IF_ERROR(ls_infer_axis(infer, &axis));
  for (size_t i = 1; i < infer->num_in; ++i)
    LS_RETURN_IF_ERROR(check_beside(infer, i, axis));
  const ls_shape from = infer->in[0].shape;
  const int64_t sum = sum_along(infer, 1, axis);
  if (from.rank >= 0 && from.dim[axis] >= 0 && sum >= 0 &&
      sum != from.dim[axis])
    return ls_invalid_argument(
        "split_like of %s: the pieces' sizes along axis %d make %lld",
        LS_OPERAND_TEXT(infer, 0), axis, (long long)sum);
  LS_RETURN_IF_ERROR(ls_infer_outputs(infer, infer->num_in - 1));
  for (size_t i = 1; i < infer->num_in; ++i) {
    ls_shape shape = from;
    if (shape.rank >= 0) shape.dim[axis] = LS_UNKNOWN_DIM;
    infer->out[i - 1] = (ls_type){infer->in[0].dtype, shape};
    LS_RETURN_IF_ERROR(
        ls_infer_merge(infer, infer->in[i].shape, i - 1, "an operand"));
  }
  return ls_ok();
}

ls_status infer_reverse(ls_infer *infer) {
  const ls_attr *axes = ls_infer_attr(infer, LS_ATTR_ID_AXES);
  const int32_t rank = infer->in[0].shape.rank;
  unsigned seen = 0;
  for (size_t i = 0; i < axes->as.ints.count; ++i) {
    const int64_t axis = axes->as.ints.items[i];
    if ((rank >= 0 && axis >= rank) || (seen >> axis & 1))
      return ls_invalid_argument(
          "reverse of %s: axis %lld is out of range or there twice",
          LS_OPERAND_TEXT(infer, 0), (long long)axis);
    seen |= 1u << axis;
  }
  infer->out[0] = infer->in[0];
  return ls_ok();
}
