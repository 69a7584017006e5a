// SPDX-License-Identifier: Apache-2.0
//
// Lowers inputs of replicated computations whose sizes differ between replicas.
// If all ops see real sizes, no padding is made: replicas with different shapes
// are different classes (replicas.c), or masks mark the real rows (mask.h).
#include "lower/ops.h"

// Pads a value with zeros at the end, up to `shape`.
static ls_status padding_pad(ls_lower_scope *scope, const ls_node *node,
                             uint64_t ref, ls_shape shape, uint64_t *out_ref) {
  const ls_type type = ls_lowered_type(scope, ref);
  const size_t rank = (size_t)type.shape.rank;
  int64_t low[LS_MAX_RANK] = {0}, high[LS_MAX_RANK], interior[LS_MAX_RANK];
  for (size_t i = 0; i < rank; ++i) {
    high[i] = shape.dim[i] - type.shape.dim[i];
    interior[i] = 0;
  }
  *out_ref = ref;
  if (ls_shape_equal(type.shape, shape)) return ls_ok();
  uint64_t operands[2] = {ref};
  LS_RETURN_IF_ERROR(ls_lower_scalar(scope, type.dtype, 0, node, &operands[1]));
  const ls_attr attrs[] = {LS_OWN_IS(PAD_LOW, low, rank),
                           LS_OWN_IS(PAD_HIGH, high, rank),
                           LS_OWN_IS(INTERIOR, interior, rank)};
  return ls_lower_make(scope, LS_OP_PAD, operands, 2, attrs, LS_COUNT_OF(attrs),
                       node, out_ref);
}

// In a program for several sizes, takes the padded value and the real sizes
// from the program's inputs.
static ls_status take_bucket(ls_lower_scope *scope, const ls_node *node,
                             const ls_bucket *bucket) {
  const uint32_t replicas = node->num_inputs;
  for (uint32_t r = 0; r < replicas; ++r) {
    const uint64_t feed = bucket->sizes_of->inputs[r];
    LS_RETURN_IF_ERROR(ls_lower_map(scope, ls_ref(node->id, r),
                                    ls_lowered(scope, node->inputs[r])));
    LS_RETURN_IF_ERROR(ls_lower_map(scope, ls_ref(node->id, replicas + r),
                                    ls_bucket_size(scope->all->buckets, feed)));
  }
  return ls_ok();
}

ls_status lower_padded_input(ls_lower_scope *scope, ls_node *node) {
  const ls_attr *axes = ls_node_attr(node, LS_ATTR_ID_AXES);
  const bool keeps = ls_node_int(node, LS_ATTR_ID_DYNAMIC_PADDER) != 0;
  const uint32_t replicas = node->num_inputs;
  const ls_bucket *bucket = ls_bucket_of(scope->all->buckets, node);
  if (bucket != NULL) return take_bucket(scope, node, bucket);
  ls_type padded;  // Type on each replica; its other axes have equal sizes.
  LS_RETURN_IF_ERROR(ls_lower_infer(scope, node, &padded));
  for (uint32_t r = 0; r < replicas; ++r) {
    const uint64_t value = ls_lowered(scope, node->inputs[r]);
    const ls_shape shape = ls_lowered_type(scope, value).shape;
    uint64_t ref = value;
    if (!keeps)
      LS_RETURN_IF_ERROR(padding_pad(scope, node, value, padded.shape, &ref));
    LS_RETURN_IF_ERROR(ls_lower_map(scope, ls_ref(node->id, r), ref));
    for (size_t i = 0; i < axes->as.ints.count; ++i) {
      const int64_t size = shape.dim[axes->as.ints.items[i]];
      LS_RETURN_IF_ERROR(
          ls_lower_scalar(scope, LS_DTYPE_I32, (double)size, node, &ref));
      LS_RETURN_IF_ERROR(ls_lower_map(
          scope, ls_ref(node->id, (unsigned)(1 + i) * replicas + r), ref));
    }
  }
  return ls_ok();
}

// Finds the padded input that a replica's value comes from, NULL if there is
// none.
static const ls_node *find_padded_input(const ls_lower_scope *scope,
                                        uint64_t ref) {
  const ls_graph *from = scope->from;
  const ls_node *node = ls_graph_node_of(from, ref);
  while (node->type == LS_OP_IDENTITY)
    node = ls_graph_node_of(from, node->inputs[0]);
  if (node->type != LS_OP_PARAMETER || scope->holder == NULL) return NULL;
  const size_t s = (size_t)ls_node_int(node, LS_ATTR_ID_INDEX);
  const ls_node *holder = scope->holder;
  if (s >= (size_t)ls_node_int(holder, LS_ATTR_ID_NUM_SPLIT)) return NULL;
  const ls_node *outer = ls_graph_node_of(
      scope->outer->from, holder->inputs[s * (size_t)scope->replicas]);
  return outer->type == LS_OP_TPU_PADDED_INPUT &&
                 ls_node_int(outer, LS_ATTR_ID_DYNAMIC_PADDER) != 0
             ? outer
             : NULL;
}

// Passes an input without padding on unchanged. A padded one gets a mask.
ls_status lower_real_part(ls_lower_scope *scope, ls_node *node) {
  const ls_node *padded = find_padded_input(scope, node->inputs[0]);
  if (padded == NULL)
    return ls_invalid_argument("its operand is no input of a replicated "
                               "computation that was padded");
  const ls_bucket *bucket = ls_bucket_of(scope->all->buckets, padded);
  if (bucket != NULL)
    LS_RETURN_IF_ERROR(
        ls_mask_set(scope, ls_lowered(scope, node->inputs[0]),
                    &(ls_mask){.source = bucket->sizes_of,
                               .size = ls_lowered(scope, node->inputs[1])}));
  return lower_forward(scope, node);
}
