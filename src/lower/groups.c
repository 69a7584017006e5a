// SPDX-License-Identifier: Apache-2.0
//
// Lowers collectives of groups and pairs of replicas: gathers the values of all
// replicas into one stack, from which each replica takes its part. The sums of
// all groups are computed once, for all replicas.
#include "lower/ops.h"

typedef struct groups {
  ls_lower_scope *scope;
  const ls_node *node;
  uint64_t stack;  // [replicas, ...]
  ls_shape shape;  // Shape of one value.
  ls_dtype dtype;
  int32_t replicas, size;
  const int64_t *members;  // Listed replicas; NULL: in order of ids.
  int64_t *entries;        // Scratch: one number per replica.
} groups;

static int64_t group_member(const groups *g, int32_t index) {
  return g->members == NULL ? index : g->members[index];
}

// Adds a first dimension of size 1.
static ls_shape in_front(ls_shape shape) {
  ls_shape made = {.rank = shape.rank + 1, .dim = {1}};
  for (int32_t i = 0; i < shape.rank; ++i)
    made.dim[i + 1] = shape.dim[i];
  return made;
}

static ls_status stack_values(ls_lower_scope *scope, const ls_node *node,
                              groups *g) {
  const ls_attr *members = ls_node_attr(node, LS_ATTR_ID_GROUPS);
  const ls_attr *size = ls_node_attr(node, LS_ATTR_ID_GROUP_SIZE);
  uint64_t ref = ls_lowered(scope, node->inputs[0]);
  const ls_type type = ls_lowered_type(scope, ref);
  *g = (groups){.scope = scope,
                .node = node,
                .shape = type.shape,
                .dtype = type.dtype,
                .replicas = scope->replicas,
                .size = size == NULL ? scope->replicas : (int32_t)size->as.i,
                .members = members == NULL ? NULL : members->as.ints.items};
  LS_RETURN_IF_ERROR(ls_lower_check_operand(scope, node, -1));
  if ((members != NULL && members->as.ints.count != (size_t)g->replicas) ||
      g->size > g->replicas || g->replicas % g->size != 0)
    return ls_invalid_argument(
        "groups of %d with %zu replicas; there are %d", g->size,
        members == NULL ? (size_t)g->replicas : members->as.ints.count,
        g->replicas);
  if (type.shape.rank == LS_MAX_RANK)
    return ls_unimplemented("%s of %s: its rank must be below %d",
                            ls_node_info(node)->name,
                            LS_SHAPE_TEXT(type.dtype, type.shape), LS_MAX_RANK);
  LS_ARENA_SET_OR_RETURN(&scope->to->arena, int64_t, g->entries,
                         (size_t)g->replicas);
  for (int32_t r = 0; r < g->replicas; ++r)
    g->entries[r] = 1;
  LS_RETURN_IF_ERROR(
      ls_lower_reshape(scope, ref, in_front(type.shape), node, &ref));
  return ls_lower_gather_all(scope, ref, g->entries, g->replicas, node,
                             &g->stack);
}

// Slices x along axis 0, at an i32 scalar.
static ls_status pick(const groups *g, uint64_t x, uint64_t index,
                      uint64_t *out_ref) {
  const uint64_t inputs[] = {x, index};
  const ls_attr axis = LS_OWN_I(AXIS, 0);
  return ls_lower_make(g->scope, LS_OP_GATHER, inputs, 2, &axis, 1, g->node,
                       out_ref);
}

static ls_status value_of(const groups *g, int64_t replica, uint64_t *out_ref) {
  uint64_t index = 0;
  LS_RETURN_IF_ERROR(ls_lower_scalar(g->scope, LS_DTYPE_I32, (double)replica,
                                     g->node, &index));
  return pick(g, g->stack, index, out_ref);
}

static ls_status groups_concatenate(const groups *g, const uint64_t *refs,
                                    int64_t axis, uint64_t *out_ref) {
  const ls_attr attr = LS_OWN_I(AXIS, axis);
  return ls_lower_make(g->scope, LS_OP_CONCATENATE, refs, (size_t)g->size,
                       &attr, 1, g->node, out_ref);
}

// Returns the position in a group's list of the group's `index`-th smallest id.
static int32_t place_by_id(const groups *g, int32_t first, int32_t index) {
  int32_t place = 0;
  for (int32_t k = 0; k < g->size; ++k)
    place += group_member(g, first + k) < group_member(g, first + index);
  return place;
}

// ---- Sums of groups --------------------------------------------------------
// Sums along the canonical tree; sums 16-bit floats in f32, and rounds once.
static ls_status groups_sum(const groups *g, uint64_t *refs, bool is_mean,
                            uint64_t *out_ref) {
  const bool half = ls_dtype_is_float(g->dtype) && ls_dtype_size(g->dtype) < 4;
  if (is_mean && !ls_dtype_is_float(g->dtype))
    return ls_unimplemented("no mean of %s; convert it to a float first",
                            ls_dtype_name(g->dtype));
  for (int32_t i = 0; is_mean && half && i < g->size; ++i)
    LS_RETURN_IF_ERROR(
        ls_lower_convert(g->scope, refs[i], LS_DTYPE_F32, g->node, &refs[i]));
  LS_RETURN_IF_ERROR(ls_lower_make(g->scope, LS_OP_ADD_N, refs, (size_t)g->size,
                                   NULL, 0, g->node, out_ref));
  if (!is_mean) return ls_ok();
  const ls_dtype wide = half ? LS_DTYPE_F32 : g->dtype;
  uint64_t inputs[] = {*out_ref, 0};
  LS_RETURN_IF_ERROR(ls_lower_scalar(g->scope, wide, 1 / (double)g->size,
                                     g->node, &inputs[1]));
  LS_RETURN_IF_ERROR(
      ls_lower_make(g->scope, LS_OP_MUL, inputs, 2, NULL, 0, g->node, out_ref));
  return ls_lower_convert(g->scope, *out_ref, g->dtype, g->node, out_ref);
}

static ls_status groups_reduce(const groups *g, const char *how, uint64_t *refs,
                               uint64_t *out_ref) {
  if (strcmp(how, "sum") == 0 || strcmp(how, "mean") == 0)
    return groups_sum(g, refs, how[0] == 'm', out_ref);
  const uint16_t type = strcmp(how, "max") == 0 ? LS_OP_MAXIMUM : LS_OP_MINIMUM;
  uint64_t pair[] = {refs[0], 0};
  for (int32_t i = 1; i < g->size; ++i) {
    pair[1] = refs[i];
    LS_RETURN_IF_ERROR(
        ls_lower_make(g->scope, type, pair, 2, NULL, 0, g->node, &pair[0]));
  }
  *out_ref = pair[0];
  return ls_ok();
}

static ls_status reduce_group(const groups *g, int32_t first, uint64_t *refs,
                              uint64_t *out_ref) {
  for (int32_t i = 0; i < g->size; ++i)
    LS_RETURN_IF_ERROR(value_of(g, group_member(g, first + i),
                                &refs[place_by_id(g, first, i)]));
  return groups_reduce(g, ls_node_attr(g->node, LS_ATTR_ID_REDUCE)->as.string,
                       refs, out_ref);
}

// Computes the sums of all groups, and takes the sum of this replica's group.
static ls_status own_sum(const groups *g, uint64_t *out_ref) {
  const int32_t count = g->replicas / g->size;
  LS_ARENA_ARRAY_OR_RETURN(&g->scope->to->arena, uint64_t, refs,
                           (size_t)(g->size + count));
  uint64_t *sums = refs + g->size, all = 0, index = 0;
  for (int32_t q = 0; q < count; ++q) {
    LS_RETURN_IF_ERROR(reduce_group(g, q * g->size, refs, &sums[q]));
    LS_RETURN_IF_ERROR(ls_lower_reshape(g->scope, sums[q], in_front(g->shape),
                                        g->node, &sums[q]));
    for (int32_t i = 0; i < g->size; ++i)
      g->entries[group_member(g, q * g->size + i)] = q;
  }
  const ls_attr axis = LS_OWN_I(AXIS, 0);
  LS_RETURN_IF_ERROR(ls_lower_make(g->scope, LS_OP_CONCATENATE, sums,
                                   (size_t)count, &axis, 1, g->node, &all));
  LS_RETURN_IF_ERROR(ls_lower_own_entry(g->scope, g->entries, g->node, &index));
  return pick(g, all, index, out_ref);
}

// ---- Values of other replicas ----------------------------------------------
// Takes the value of member i of this replica's group, counted by id or by
// position.
static ls_status from_member(const groups *g, int32_t i, bool by_id,
                             uint64_t *out_ref) {
  uint64_t index = 0;
  if (g->members == NULL) return value_of(g, i, out_ref);
  for (int32_t at = 0; at < g->replicas; ++at) {
    const int32_t first = at - at % g->size;
    int32_t from = first + i;
    for (int32_t k = 0; by_id && k < g->size; ++k)
      if (place_by_id(g, first, k) == i) from = first + k;
    g->entries[group_member(g, at)] = group_member(g, from);
  }
  LS_RETURN_IF_ERROR(ls_lower_own_entry(g->scope, g->entries, g->node, &index));
  return pick(g, g->stack, index, out_ref);
}

// Computes where each replica's part begins. The parts are ordered by position
// in the group, or by id.
static void note_starts(const groups *g, bool by_id, int64_t size) {
  for (int32_t at = 0; at < g->replicas; ++at) {
    const int32_t first = at - at % g->size;
    const int32_t place =
        by_id ? place_by_id(g, first, at - first) : at - first;
    g->entries[group_member(g, at)] = place * size;
  }
}

static ls_status gather_group(const groups *g, int64_t axis,
                              uint64_t *out_ref) {
  LS_ARENA_ARRAY_OR_RETURN(&g->scope->to->arena, uint64_t, refs,
                           (size_t)g->size);
  for (int32_t i = 0; i < g->size; ++i)
    LS_RETURN_IF_ERROR(from_member(g, i, true, &refs[i]));
  return groups_concatenate(g, refs, axis, out_ref);
}

ls_status ls_lower_grouped(ls_lower_scope *scope, ls_node *node) {
  groups g;
  uint64_t ref = 0;
  const int64_t axis = ls_node_int(node, LS_ATTR_ID_AXIS);
  LS_RETURN_IF_ERROR(stack_values(scope, node, &g));
  LS_RETURN_IF_ERROR(node->type == LS_OP_ALL_GATHER
                         ? gather_group(&g, axis, &ref)
                         : own_sum(&g, &ref));
  if (node->type == LS_OP_REDUCE_SCATTER) {
    const int64_t size = g.shape.dim[axis] / g.size;
    note_starts(&g, true, size);
    LS_RETURN_IF_ERROR(
        ls_lower_own_part(scope, ref, axis, g.entries, size, node, &ref));
  }
  return ls_lower_map(scope, ls_ref(node->id, 0), ref);
}

// Returns true if each replica sends the same row to all others, as a broadcast
// does, and returns the row. All replicas then receive equal rows, which are
// gathered once.
static bool gives_one_row(const ls_lower_scope *scope, const ls_node *node,
                          uint64_t *out_row) {
  const uint64_t ref = ls_lowered(scope, node->inputs[0]);
  const ls_node *copies = ls_graph_node(scope->to, ls_ref_id(ref));
  if (copies->type != LS_OP_BROADCAST ||
      ls_node_attr(node, LS_ATTR_ID_GROUPS) != NULL ||
      ls_node_int(node, LS_ATTR_ID_SPLIT_AXIS) != 0 ||
      ls_node_int(node, LS_ATTR_ID_CONCAT_AXIS) != 0)
    return false;
  *out_row = copies->inputs[0];
  const ls_shape row = ls_lowered_type(scope, *out_row).shape;
  ls_shape all = ls_lowered_type(scope, ref).shape;
  if (row.rank != all.rank || all.dim[0] != scope->replicas) return false;
  all.dim[0] = 1;
  return ls_shape_equal(row, all);
}

static ls_status gather_rows(ls_lower_scope *scope, const ls_node *node,
                             uint64_t row) {
  LS_ARENA_ARRAY_OR_RETURN(&scope->to->arena, int64_t, rows,
                           (size_t)scope->replicas);
  uint64_t ref = 0;
  for (int32_t r = 0; r < scope->replicas; ++r)
    rows[r] = 1;
  LS_RETURN_IF_ERROR(ls_lower_check_operand(scope, node, -1));
  LS_RETURN_IF_ERROR(
      ls_lower_gather_all(scope, row, rows, scope->replicas, node, &ref));
  return ls_lower_map(scope, ls_ref(node->id, 0), ref);
}

ls_status lower_expand_all_to_all(ls_lower_scope *scope, ls_node *node) {
  uint64_t row = 0;
  if (scope->replicas == 0) return ls_lower_alone(scope, node);
  if (gives_one_row(scope, node, &row)) return gather_rows(scope, node, row);
  groups g;
  LS_RETURN_IF_ERROR(stack_values(scope, node, &g));
  const int64_t axis = ls_node_int(node, LS_ATTR_ID_SPLIT_AXIS);
  const int64_t size = g.shape.dim[axis] / g.size;
  uint64_t ref = 0, *refs = ls_arena_new_array(&scope->to->arena, uint64_t,
                                               (size_t)g.size);
  if (refs == NULL) return ls_out_of_memory();
  for (int32_t i = 0; i < g.size; ++i) {
    LS_RETURN_IF_ERROR(from_member(&g, i, false, &refs[i]));
    note_starts(&g, false, size);
    LS_RETURN_IF_ERROR(ls_lower_own_part(scope, refs[i], axis, g.entries, size,
                                         node, &refs[i]));
  }
  LS_RETURN_IF_ERROR(groups_concatenate(
      &g, refs, ls_node_int(node, LS_ATTR_ID_CONCAT_AXIS), &ref));
  return ls_lower_map(scope, ls_ref(node->id, 0), ref);
}

// ---- Pairs -----------------------------------------------------------------
// Returns y if this replica has a source, else zeros.
static ls_status or_zeros(const groups *g, const int64_t *sources, uint64_t y,
                          uint64_t *out_ref) {
  uint64_t own = 0, zero = 0, inputs[3] = {0, y, 0};
  LS_RETURN_IF_ERROR(ls_lower_own_entry(g->scope, sources, g->node, &own));
  LS_RETURN_IF_ERROR(
      ls_lower_scalar(g->scope, LS_DTYPE_I32, 0, g->node, &zero));
  LS_RETURN_IF_ERROR(ls_lower_make(g->scope, LS_OP_GREATER_EQUAL,
                                   (const uint64_t[]){own, zero}, 2, NULL, 0,
                                   g->node, &inputs[0]));
  LS_RETURN_IF_ERROR(
      ls_lower_scalar(g->scope, g->dtype, 0, g->node, &inputs[2]));
  return ls_lower_make(g->scope, LS_OP_SELECT, inputs, 3, NULL, 0, g->node,
                       out_ref);
}

ls_status lower_expand_permute(ls_lower_scope *scope, ls_node *node) {
  const ls_attr *sources = ls_node_attr(node, LS_ATTR_ID_SOURCES);
  const int64_t *from = sources->as.ints.items;
  uint64_t ref = ls_lowered(scope, node->inputs[0]), index = 0;
  if (scope->replicas == 0) {
    const ls_type type = ls_lowered_type(scope, ref);
    if (from[0] >= 0) return lower_forward(scope, node);
    LS_RETURN_IF_ERROR(ls_lower_scalar(scope, type.dtype, 0, node, &ref));
    LS_RETURN_IF_ERROR(ls_lower_broadcast(scope, ref, type.shape, node, &ref));
    return ls_lower_map(scope, ls_ref(node->id, 0), ref);
  }
  groups g;
  LS_RETURN_IF_ERROR(stack_values(scope, node, &g));
  if (sources->as.ints.count != (size_t)g.replicas)
    return ls_invalid_argument("%zu replicas have a source; there are %d",
                               sources->as.ints.count, g.replicas);
  for (int32_t r = 0; r < g.replicas; ++r)
    g.entries[r] = from[r] < 0 ? 0 : from[r];
  LS_RETURN_IF_ERROR(ls_lower_own_entry(scope, g.entries, node, &index));
  LS_RETURN_IF_ERROR(pick(&g, g.stack, index, &ref));
  LS_RETURN_IF_ERROR(or_zeros(&g, from, ref, &ref));
  return ls_lower_map(scope, ls_ref(node->id, 0), ref);
}

ls_status lower_expand_replica_broadcast(ls_lower_scope *scope, ls_node *node) {
  if (scope->replicas == 0) return lower_forward(scope, node);
  groups g;
  uint64_t ref = 0;
  const int64_t root = ls_node_int(node, LS_ATTR_ID_ROOT);
  if (root >= scope->replicas)
    return ls_invalid_argument("replica %lld is not one of %d", (long long)root,
                               scope->replicas);
  LS_RETURN_IF_ERROR(stack_values(scope, node, &g));
  LS_RETURN_IF_ERROR(value_of(&g, root, &ref));
  return ls_lower_map(scope, ls_ref(node->id, 0), ref);
}
