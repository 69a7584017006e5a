// SPDX-License-Identifier: Apache-2.0
//
// Lowers merge ops: gathers the replicas' values, inlines the body's ops, which
// run once, and gives each replica its own value of results that differ. Values
// are passed as flat rows, so that replicas may have different shapes.
#include "base/runtime_internal.h"
#include "lower/flow.h"

ls_status ls_lower_flatten(ls_lower_scope *scope, uint64_t ref,
                           const ls_node *origin, uint64_t *out_ref) {
  const int64_t count =
      ls_shape_num_elements(ls_lowered_type(scope, ref).shape);
  return ls_lower_reshape(scope, ref, LS_SHAPE(count), origin, out_ref);
}

ls_status ls_lower_elements(ls_lower_scope *scope, uint64_t ref, int64_t start,
                            int64_t limit, const ls_node *origin,
                            uint64_t *out_ref) {
  const int64_t stride = 1;
  const ls_attr attrs[] = {LS_OWN_IS(STARTS, &start, 1),
                           LS_OWN_IS(LIMITS, &limit, 1),
                           LS_OWN_IS(STRIDES, &stride, 1)};
  return ls_lower_make(scope, LS_OP_SLICE, &ref, 1, attrs, 3, origin, out_ref);
}

// Maps the parameters of the body for argument `input`, one per replica.
static ls_status map_argument(ls_lower_scope *scope, ls_lower_scope *inner,
                              const ls_node *node, uint32_t input) {
  int64_t *sizes = NULL;
  uint64_t all = 0;
  LS_RETURN_IF_ERROR(ls_lower_sizes_on_all(scope, node, input, -1, &sizes));
  LS_RETURN_IF_ERROR(ls_lower_flatten(
      scope, ls_lowered(scope, node->inputs[input]), node, &all));
  LS_RETURN_IF_ERROR(
      ls_lower_gather_all(scope, all, sizes, scope->replicas, node, &all));
  int64_t start = 0;
  for (int32_t r = 0; r < scope->replicas; ++r) {
    const ls_shape shape = ls_lower_operand_on(scope, node, input, r).shape;
    uint64_t own = 0;
    LS_RETURN_IF_ERROR(
        ls_lower_elements(scope, all, start, start + sizes[r], node, &own));
    LS_RETURN_IF_ERROR(ls_lower_reshape(scope, own, shape, node, &own));
    LS_RETURN_IF_ERROR(ls_lower_map(
        inner,
        inner->from
            ->parameters[input * (uint32_t)scope->replicas + (uint32_t)r],
        own));
    start += sizes[r];
  }
  return ls_ok();
}

// ---- Results ---------------------------------------------------------------
ls_status ls_lower_take_own(ls_lower_scope *scope, const uint64_t *refs,
                            const ls_node *node, uint64_t *out_ref) {
  const size_t replicas = (size_t)scope->replicas;
  const ls_shape shape = ls_lowered_type(scope, refs[scope->replica]).shape;
  LS_ARENA_ARRAY_OR_RETURN(&scope->to->arena, int64_t, sizes, replicas);
  LS_ARENA_ARRAY_OR_RETURN(&scope->to->arena, uint64_t, flat, replicas);
  for (size_t r = 0; r < replicas; ++r) {
    const ls_type type = ls_lowered_type(scope, refs[r]);
    const bool alike = scope->bodies == NULL ||
                       scope->classes[r] == scope->classes[scope->replica];
    if (alike && !ls_shape_equal(type.shape, shape))
      return ls_invalid_argument(
          "a merge returns %s to replica %d and %s to replica %zu, whose "
          "arguments have the same shapes",
          LS_SHAPE_TEXT(type.dtype, shape), scope->replica,
          LS_SHAPE_TEXT(type.dtype, type.shape), r);
    sizes[r] = ls_shape_num_elements(type.shape);
    LS_RETURN_IF_ERROR(ls_lower_flatten(scope, refs[r], node, &flat[r]));
  }
  const int64_t own = sizes[scope->replica];
  const ls_attr axis = LS_OWN_I(AXIS, 0);
  uint64_t ref = 0;
  LS_RETURN_IF_ERROR(ls_lower_make(scope, LS_OP_CONCATENATE, flat, replicas,
                                   &axis, 1, node, &ref));
  ls_lower_sum_before(sizes, scope->replicas);
  LS_RETURN_IF_ERROR(ls_lower_own_part(scope, ref, 0, sizes, own, node, &ref));
  return ls_lower_reshape(scope, ref, shape, node, out_ref);
}

static ls_status map_results(ls_lower_scope *scope, const ls_lower_scope *inner,
                             const ls_node *node) {
  const size_t replicas = (size_t)scope->replicas;
  const size_t gathered = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_GATHERED);
  const ls_graph *body = inner->from;
  LS_ARENA_ARRAY_OR_RETURN(&scope->to->arena, uint64_t, refs, replicas);
  for (size_t i = 0; i < node->num_outputs; ++i) {
    uint64_t ref = 0;
    if (i < gathered) {
      for (size_t r = 0; r < replicas; ++r)
        refs[r] = ls_lowered(inner, body->results[i * replicas + r]);
      LS_RETURN_IF_ERROR(ls_lower_take_own(scope, refs, node, &ref));
    } else {
      ref = ls_lowered(inner,
                       body->results[gathered * replicas + (i - gathered)]);
    }
    LS_RETURN_IF_ERROR(ls_lower_map(scope, ls_ref(node->id, (unsigned)i), ref));
  }
  return ls_ok();
}

// ---- The op ----------------------------------------------------------------
static ls_status lower_body(ls_lower_scope *scope, ls_lower_scope *inner,
                            const ls_node *node) {
  const ls_graph *body = inner->from;
  const uint32_t args = (uint32_t)ls_node_int(node, LS_ATTR_ID_NUM_ARGS);
  for (uint32_t i = 0; i < args; ++i) {
    const ls_dtype dtype =
        ls_lowered_type(scope, ls_lowered(scope, node->inputs[i])).dtype;
    if (dtype == LS_DTYPE_VARIANT)
      return ls_unimplemented("a stack is an argument of a merge call");
    LS_RETURN_IF_ERROR(map_argument(scope, inner, node, i));
  }
  for (size_t i = body->num_declared; i < body->num_parameters; ++i)
    LS_RETURN_IF_ERROR(ls_lower_map(
        inner, body->parameters[i],
        ls_lowered(scope, node->inputs[args + i - body->num_declared])));
  return ls_lower_flow_inline(scope, inner);
}

// Inlines the body's nodes into this scope, as a call does.
ls_status lower_merge_call(ls_lower_scope *scope, ls_node *node) {
  if (scope->replicas == 0)
    return ls_internal("a merge op outside of replicas");
  if (scope->in_classes && scope->bodies == NULL)
    return ls_unimplemented("a collective or merge call in a loop, branch or "
                            "call, while replicas' arguments differ in shape");
  if (ls_node_int(node, LS_ATTR_ID_REPLICAS) != scope->replicas)
    return ls_invalid_argument(
        "a merge of %lld replicas; there are %d",
        (long long)ls_node_int(node, LS_ATTR_ID_REPLICAS), scope->replicas);
  LS_OWN(ls_shared_scope, inner) =
      ls_lower_share_scope(scope, ls_graph_resolve(node->regions[0]));
  inner.replicas = 0;
  inner.in_merge = true;
  LS_RETURN_IF_ERROR(lower_body(scope, &inner, node));
  return map_results(scope, &inner, node);
}
