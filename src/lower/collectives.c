// SPDX-License-Identifier: Apache-2.0
//
// Lowers collectives to merges, and to ops by which each replica takes its part
// of the results. Outside of replicas there is just one value.
#include "base/memory/own.h"
#include "graph/gather/gather.h"
#include "lower/flow.h"
#include "lower/ops.h"

ls_status lower_replica_id(ls_lower_scope *scope, ls_node *node) {
  uint64_t ref = 0;
  if (scope->replicas > 0)
    LS_RETURN_IF_ERROR(
        ls_lower_make(scope, LS_OP_REPLICA_ID, NULL, 0, NULL, 0, node, &ref));
  else
    LS_RETURN_IF_ERROR(ls_lower_scalar(scope, LS_DTYPE_I32, 0, node, &ref));
  return ls_lower_map(scope, ls_ref(node->id, 0), ref);
}

// ---- Shapes ----------------------------------------------------------------
// Returns the type of operand `input` on a replica.
static ls_type operand_on(const ls_lower_scope *scope, const ls_node *node,
                          uint32_t input, int32_t replica) {
  const ls_lower_scope *replica_scope =
      scope->bodies == NULL ? scope : &scope->bodies[scope->classes[replica]];
  return ls_lowered_type(replica_scope,
                         ls_lowered(replica_scope, node->inputs[input]));
}

// Checks that the op was made for the number of replicas around it, from which
// its type was inferred.
static ls_status check_replicas(const ls_lower_scope *scope,
                                const ls_node *node) {
  const ls_attr *made_for = ls_node_attr(node, LS_ATTR_ID_REPLICAS);
  const int64_t replicas = scope->replicas == 0 ? 1 : scope->replicas;
  if (made_for == NULL || made_for->as.i == replicas) return ls_ok();
  return ls_invalid_argument("%s was made for %lld replicas; there are %lld",
                             ls_node_info(node)->name,
                             (long long)made_for->as.i, (long long)replicas);
}

ls_status ls_lower_alone(ls_lower_scope *scope, ls_node *node) {
  LS_RETURN_IF_ERROR(check_replicas(scope, node));
  return lower_forward(scope, node);
}

ls_status ls_lower_check_operand(const ls_lower_scope *scope,
                                 const ls_node *node, int64_t but) {
  LS_RETURN_IF_ERROR(check_replicas(scope, node));
  const ls_type own =
      ls_lowered_type(scope, ls_lowered(scope, node->inputs[0]));
  for (int32_t r = 0; scope->bodies != NULL && r < scope->replicas; ++r) {
    ls_type other = operand_on(scope, node, 0, r);
    const ls_shape shape = other.shape;
    if (but >= 0 && but < shape.rank) other.shape.dim[but] = own.shape.dim[but];
    if (ls_shape_equal(own.shape, other.shape)) continue;
    return ls_invalid_argument(
        "the value is %s on replica %d and %s on replica %d; a collective "
        "needs one shape on all%s",
        LS_SHAPE_TEXT(own.dtype, own.shape), scope->replica,
        LS_SHAPE_TEXT(own.dtype, shape), r,
        but < 0 ? "" : " but along the axis");
  }
  return ls_ok();
}

// Returns, for each replica, the size of operand `input` along an axis (-1: the
// number of elements), in the graph's arena.
static ls_status sizes_on_all(ls_lower_scope *scope, const ls_node *node,
                              uint32_t input, int64_t axis,
                              int64_t **out_sizes) {
  if (scope->in_classes && scope->bodies == NULL)
    return ls_unimplemented("%s in a loop, branch or call while replicas have "
                            "arguments of other shapes",
                            ls_node_info(node)->name);
  LS_ARENA_SET_OR_RETURN(&scope->to->arena, int64_t, *out_sizes,
                         (size_t)scope->replicas);
  for (int32_t r = 0; r < scope->replicas; ++r) {
    const ls_type type = operand_on(scope, node, input, r);
    if (axis < -1 || axis >= type.shape.rank)
      return ls_invalid_argument("%s: axis %lld of %s",
                                 ls_node_info(node)->name, (long long)axis,
                                 LS_SHAPE_TEXT(type.dtype, type.shape));
    (*out_sizes)[r] =
        axis < 0 ? ls_shape_num_elements(type.shape) : type.shape.dim[axis];
  }
  return ls_ok();
}

// ---- Merges ----------------------------------------------------------------
ls_status lower_all_reduce(ls_lower_scope *scope, ls_node *node) {
  if (scope->replicas == 0) return lower_forward(scope, node);
  LS_RETURN_IF_ERROR(ls_lower_check_operand(scope, node, -1));
  if (ls_node_attr(node, LS_ATTR_ID_GROUPS) != NULL)
    return ls_lower_grouped(scope, node);
  return lower_copy(scope, node);
}

// Lowers cross_replica_sum, the name of all-reduce in replicated computations.
ls_status lower_expand_cross_replica_sum(ls_lower_scope *scope, ls_node *node) {
  if (scope->replicas == 0 || ls_node_attr(node, LS_ATTR_ID_GROUPS) != NULL)
    return lower_all_reduce(scope, node);
  LS_RETURN_IF_ERROR(ls_lower_check_operand(scope, node, -1));
  const uint64_t operand = ls_lowered(scope, node->inputs[0]);
  const ls_attr attr = LS_OWN_S(REDUCE, "sum");
  uint64_t ref = 0;
  LS_RETURN_IF_ERROR(ls_lower_make(scope, LS_OP_ALL_REDUCE, &operand, 1, &attr,
                                   1, node, &ref));
  return ls_lower_map(scope, ls_ref(node->id, 0), ref);
}

// Moves dimension `axis` to the front or, with `back`, the first dimension to
// `axis`.
static ls_status move_axis(ls_lower_scope *scope, const ls_node *node,
                           int64_t axis, bool back, uint64_t *ref) {
  if (axis == 0) return ls_ok();
  const int32_t rank = ls_lowered_type(scope, *ref).shape.rank;
  int64_t permutation[LS_MAX_RANK];
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t moved = back ? (i < axis    ? i + 1
                                  : i == axis ? 0
                                              : i)
                               : (i == 0      ? axis
                                  : i <= axis ? i - 1
                                              : i);
    permutation[i] = moved;
  }
  const ls_attr attr = LS_OWN_IS(PERMUTATION, permutation, (size_t)rank);
  return ls_lower_make(scope, LS_OP_TRANSPOSE, ref, 1, &attr, 1, node, ref);
}

ls_status ls_lower_gather_all(ls_lower_scope *scope, uint64_t ref,
                              const int64_t *rows, int32_t replicas,
                              const ls_node *origin, uint64_t *out_ref) {
  const ls_attr attrs[] = {LS_OWN_I(AXIS, 0),
                           LS_OWN_IS(ROWS, rows, (size_t)replicas)};
  return ls_lower_make(scope, LS_OP_ALL_GATHER, &ref, 1, attrs, 2, origin,
                       out_ref);
}

// Gathers along an axis. The engine joins rows only, so that another axis is
// moved to the front first.
ls_status lower_all_gather(ls_lower_scope *scope, ls_node *node) {
  if (scope->replicas == 0) return ls_lower_alone(scope, node);
  const int64_t axis = ls_node_int(node, LS_ATTR_ID_AXIS);
  int64_t *rows = NULL;
  if (ls_node_attr(node, LS_ATTR_ID_GROUPS) != NULL)
    return ls_lower_grouped(scope, node);
  // In a replicated computation all parts have equal sizes.
  const bool equal = ls_node_mark(node, LS_MARK_REPLICATE) != NULL;
  LS_RETURN_IF_ERROR(ls_lower_check_operand(scope, node, equal ? -1 : axis));
  LS_RETURN_IF_ERROR(sizes_on_all(scope, node, 0, axis, &rows));
  uint64_t ref = ls_lowered(scope, node->inputs[0]);
  LS_RETURN_IF_ERROR(move_axis(scope, node, axis, false, &ref));
  LS_RETURN_IF_ERROR(
      ls_lower_gather_all(scope, ref, rows, scope->replicas, node, &ref));
  LS_RETURN_IF_ERROR(move_axis(scope, node, axis, true, &ref));
  return ls_lower_map(scope, ls_ref(node->id, 0), ref);
}

// ---- A replica's part ------------------------------------------------------
ls_status ls_lower_own_entry(ls_lower_scope *scope, const int64_t *entries,
                             const ls_node *origin, uint64_t *out_ref) {
  LS_OWN(ls_array, array) = NULL;
  uint64_t inputs[2];
  ls_dtype dtype = LS_DTYPE_I32;
  for (int32_t r = 0; r < scope->replicas; ++r)
    if (entries[r] > INT32_MAX) dtype = LS_DTYPE_I64;
  LS_RETURN_IF_ERROR(ls_array_create(dtype, LS_SHAPE(scope->replicas), &array));
  for (int32_t r = 0; r < scope->replicas; ++r)
    ls_array_set_i64(array, r, entries[r]);
  const ls_attr value = LS_OWN_A(VALUE, array), axis = LS_OWN_I(AXIS, 0);
  LS_RETURN_IF_ERROR(ls_lower_make(scope, LS_OP_CONSTANT, NULL, 0, &value, 1,
                                   origin, &inputs[0]));
  LS_RETURN_IF_ERROR(ls_lower_make(scope, LS_OP_REPLICA_ID, NULL, 0, NULL, 0,
                                   origin, &inputs[1]));
  return ls_lower_make(scope, LS_OP_GATHER, inputs, 2, &axis, 1, origin,
                       out_ref);
}

// Takes `size` elements of x along an axis, from a start computed at run time.
static ls_status part_from(ls_lower_scope *scope, uint64_t x, int64_t axis,
                           uint64_t start, int64_t size, const ls_node *origin,
                           uint64_t *out_ref) {
  const ls_shape shape = ls_lowered_type(scope, x).shape;
  uint64_t inputs[LS_MAX_RANK + 1] = {x}, zero = 0;
  ls_size sizes[LS_MAX_RANK];
  LS_RETURN_IF_ERROR(ls_lower_scalar(scope, ls_lowered_type(scope, start).dtype,
                                     0, origin, &zero));
  for (int32_t i = 0; i < shape.rank; ++i) {
    inputs[i + 1] = i == axis ? start : zero;
    sizes[i] = (ls_size){LS_SIZE_CONSTANT, i == axis ? size : shape.dim[i]};
  }
  const ls_attr attr = LS_OWN_SZ(SIZES, sizes, (size_t)shape.rank);
  return ls_lower_make(scope, LS_OP_DYNAMIC_SLICE, inputs,
                       (size_t)shape.rank + 1, &attr, 1, origin, out_ref);
}

ls_status ls_lower_own_part(ls_lower_scope *scope, uint64_t x, int64_t axis,
                            const int64_t *starts, int64_t size,
                            const ls_node *origin, uint64_t *out_ref) {
  uint64_t start = 0;
  LS_RETURN_IF_ERROR(ls_lower_own_entry(scope, starts, origin, &start));
  return part_from(scope, x, axis, start, size, origin, out_ref);
}

// Replaces each size by the sum of the earlier ones; returns the total.
static int64_t sum_before(int64_t *sizes, int32_t count) {
  int64_t before = 0;
  for (int32_t r = 0; r < count; ++r) {
    const int64_t size = sizes[r];
    sizes[r] = before;
    before += size;
  }
  return before;
}

// Computes the sum once for all replicas; each replica takes its part.
ls_status lower_expand_reduce_scatter(ls_lower_scope *scope, ls_node *node) {
  if (scope->replicas == 0) return ls_lower_alone(scope, node);
  const int64_t axis = ls_node_int(node, LS_ATTR_ID_AXIS);
  int64_t *sizes = NULL;
  LS_RETURN_IF_ERROR(ls_lower_check_operand(scope, node, -1));
  if (ls_node_attr(node, LS_ATTR_ID_GROUPS) != NULL)
    return ls_lower_grouped(scope, node);
  LS_RETURN_IF_ERROR(
      sizes_on_all(scope, node, node->num_inputs == 2, axis, &sizes));
  if (node->num_inputs == 1)
    for (int32_t r = 0; r < scope->replicas; ++r)
      sizes[r] /= scope->replicas;
  const int64_t own = sizes[scope->replica];
  const int64_t sum = sum_before(sizes, scope->replicas);
  uint64_t ref = ls_lowered(scope, node->inputs[0]);
  const ls_shape whole = ls_lowered_type(scope, ref).shape;
  if (sum != whole.dim[axis])
    return ls_invalid_argument("the replicas' parts of axis %lld are %lld "
                               "together, it is %lld",
                               (long long)axis, (long long)sum,
                               (long long)whole.dim[axis]);
  LS_RETURN_IF_ERROR(ls_lower_make(scope, LS_OP_ALL_REDUCE, &ref, 1,
                                   ls_node_attr(node, LS_ATTR_ID_REDUCE), 1,
                                   node, &ref));
  LS_RETURN_IF_ERROR(
      ls_lower_own_part(scope, ref, axis, sizes, own, node, &ref));
  return ls_lower_map(scope, ls_ref(node->id, 0), ref);
}

// ---- Merges -----------------------------------------------------------------
// Lowers merge ops: gathers the replicas' values, inlines the body's ops, which
// run once, and gives each replica its own value of results that differ. Values
// are passed as flat rows, so that replicas may have different shapes.

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
  LS_RETURN_IF_ERROR(sizes_on_all(scope, node, input, -1, &sizes));
  LS_RETURN_IF_ERROR(ls_lower_flatten(
      scope, ls_lowered(scope, node->inputs[input]), node, &all));
  LS_RETURN_IF_ERROR(
      ls_lower_gather_all(scope, all, sizes, scope->replicas, node, &all));
  int64_t start = 0;
  for (int32_t r = 0; r < scope->replicas; ++r) {
    const ls_shape shape = operand_on(scope, node, input, r).shape;
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
  sum_before(sizes, scope->replicas);
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
