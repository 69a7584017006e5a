// SPDX-License-Identifier: Apache-2.0
//
// Lowers slices whose sizes become known when lowering.
#include "lower/ops.h"

static ls_type index_type_of(const ls_lower_scope *scope, const ls_node *node,
                             uint32_t input) {
  return ls_lowered_type(scope, ls_lowered(scope, node->inputs[input]));
}

// Checks an axis against a rank that was not known while building.
static ls_status check_axis(const ls_node *node, int64_t axis, ls_type type) {
  if (axis >= 0 && axis < type.shape.rank) return ls_ok();
  return ls_invalid_argument("%s: axis %lld of %s", ls_node_info(node)->name,
                             (long long)axis,
                             LS_SHAPE_TEXT(type.dtype, type.shape));
}

// Replaces sizes that come from operands by numbers, and drops those operands.
ls_status lower_dynamic_slice(ls_lower_scope *scope, ls_node *node) {
  const ls_attr *attr = ls_node_attr(node, LS_ATTR_ID_SIZES);
  const size_t rank = attr->as.sizes.count;
  ls_size sizes[LS_MAX_RANK];
  uint64_t inputs[LS_MAX_RANK + 1], ref = 0;
  for (size_t i = 0; i < rank; ++i) {
    const ls_size size = attr->as.sizes.items[i];
    sizes[i] = size;
    if (size.operand == LS_SIZE_CONSTANT) continue;
    const ls_type from = index_type_of(scope, node, (uint32_t)size.operand);
    LS_RETURN_IF_ERROR(check_axis(node, size.value, from));
    sizes[i] = (ls_size){LS_SIZE_CONSTANT, from.shape.dim[size.value]};
  }
  for (size_t i = 0; i <= rank; ++i)
    inputs[i] = ls_lowered(scope, node->inputs[i]);
  const ls_attr known = LS_OWN_SZ(SIZES, sizes, rank);
  LS_RETURN_IF_ERROR(ls_lower_make(scope, LS_OP_DYNAMIC_SLICE, inputs, rank + 1,
                                   &known, 1, node, &ref));
  return ls_lower_map(scope, ls_ref(node->id, 0), ref);
}

// Pads with zeros around and between the elements.
ls_status lower_expand_slice_grad(ls_lower_scope *scope, ls_node *node) {
  const int64_t *starts = ls_node_attr(node, LS_ATTR_ID_STARTS)->as.ints.items;
  const int64_t *strides =
      ls_node_attr(node, LS_ATTR_ID_STRIDES)->as.ints.items;
  const size_t rank = ls_node_attr(node, LS_ATTR_ID_STARTS)->as.ints.count;
  const ls_type from = index_type_of(scope, node, 0);
  const ls_shape to = index_type_of(scope, node, 1).shape;
  if (from.shape.rank != (int32_t)rank || to.rank != (int32_t)rank)
    return ls_invalid_argument("slice_grad of %s: starts for %zu axes of %s",
                               LS_SHAPE_TEXT(from.dtype, from.shape), rank,
                               LS_SHAPE_TEXT(from.dtype, to));
  int64_t high[LS_MAX_RANK], interior[LS_MAX_RANK];
  for (size_t i = 0; i < rank; ++i) {
    const int64_t count = from.shape.dim[i];
    // With a single element the stride does not matter.
    interior[i] = count > 1 ? strides[i] - 1 : 0;
    const int64_t span = count == 0 ? 0 : count + (count - 1) * interior[i];
    high[i] = to.dim[i] - starts[i] - span;
  }
  uint64_t operands[2] = {ls_lowered(scope, node->inputs[0])}, ref = 0;
  LS_RETURN_IF_ERROR(ls_lower_scalar(scope, from.dtype, 0, node, &operands[1]));
  const ls_attr attrs[] = {LS_OWN_IS(PAD_LOW, starts, rank),
                           LS_OWN_IS(PAD_HIGH, high, rank),
                           LS_OWN_IS(INTERIOR, interior, rank)};
  LS_RETURN_IF_ERROR(ls_lower_make(scope, LS_OP_PAD, operands, 2, attrs,
                                   LS_COUNT_OF(attrs), node, &ref));
  return ls_lower_map(scope, ls_ref(node->id, 0), ref);
}

// Makes one slice per piece; the shape rule has checked that the pieces fill
// the whole value.
ls_status lower_expand_split_like(ls_lower_scope *scope, ls_node *node) {
  const int64_t axis = ls_node_int(node, LS_ATTR_ID_AXIS);
  const uint64_t x = ls_lowered(scope, node->inputs[0]);
  const ls_shape whole = ls_lowered_type(scope, x).shape;
  const size_t rank = (size_t)whole.rank;
  int64_t starts[LS_MAX_RANK] = {0}, limits[LS_MAX_RANK], strides[LS_MAX_RANK];
  for (size_t i = 0; i < rank; ++i) {
    limits[i] = whole.dim[i];
    strides[i] = 1;
  }
  limits[axis] = 0;
  const ls_attr attrs[] = {LS_OWN_IS(STARTS, starts, rank),
                           LS_OWN_IS(LIMITS, limits, rank),
                           LS_OWN_IS(STRIDES, strides, rank)};
  for (uint32_t i = 1; i < node->num_inputs; ++i) {
    uint64_t ref = 0;
    starts[axis] = limits[axis];
    limits[axis] += index_type_of(scope, node, i).shape.dim[axis];
    LS_RETURN_IF_ERROR(ls_lower_make(scope, LS_OP_SLICE, &x, 1, attrs,
                                     LS_COUNT_OF(attrs), node, &ref));
    LS_RETURN_IF_ERROR(ls_lower_map(scope, ls_ref(node->id, i - 1), ref));
  }
  return ls_ok();
}
