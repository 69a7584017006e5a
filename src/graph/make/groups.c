// SPDX-License-Identifier: Apache-2.0
//
// Op makers: collectives within groups of replicas, and exchanges between
// pairs.
//
// While replicas run op by op, each gathers all replicas' values and computes
// its own result from them.
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "graph/compare/compare.h"
#include "graph/make/make.h"

// ---- Groups ----------------------------------------------------------------
// Groups as the attributes list them; members NULL: all replicas form one
// group.
typedef struct group_list {
  ls_allocator *allocator;
  int64_t *members;
  size_t size, count;  // Members of one group, and of all groups.
} group_list;

static ls_status read_groups(const ls_replica_groups *groups, group_list *out) {
  const size_t replicas = (size_t)ls_context_replicas();
  *out = (group_list){.allocator = ls_current_allocator(), .size = replicas};
  if (groups == NULL) return ls_ok();
  if (groups->size == 0 || replicas % groups->size != 0 ||
      groups->count != replicas / groups->size)
    return ls_invalid_argument("%zu groups of %zu members for %zu replicas",
                               groups->count, groups->size, replicas);
  if (groups->members == NULL)
    return ls_invalid_argument(
        "the members of %zu groups are at NULL: list %zu replicas",
        groups->count, replicas);
  LS_SET_ARRAY_OR_RETURN(out->allocator, int64_t, out->members, replicas);
  LS_OWN_ARRAY_OR_RETURN(out->allocator, bool, seen, replicas);
  out->size = groups->size;
  out->count = replicas;
  for (size_t i = 0; i < replicas; ++i) {
    const int32_t member = groups->members[i];
    if (member < 0 || (size_t)member >= replicas || seen[member])
      return ls_invalid_argument(
          "replica %d is in a group twice, or not one of %zu", member,
          replicas);
    seen[member] = true;
    out->members[i] = member;
  }
  return ls_ok();
}

static void drop_groups(group_list *list) {
  ls_release(list->allocator, list->members);
}

// Returns the index of the first member of `me`'s group, and its position in
// the group.
static size_t find_group(const group_list *list, int64_t me,
                         size_t *out_place) {
  size_t at = (size_t)me;
  for (size_t i = 0; i < list->count; ++i)
    if (list->members[i] == me) at = i;
  *out_place = at % list->size;
  return at - *out_place;
}

static int64_t group_member(const group_list *list, size_t index) {
  return list->members == NULL ? (int64_t)index : list->members[index];
}

// ---- Run op by op ----------------------------------------------------------
typedef struct stack {
  ls_tensor all;  // [replicas, ...]
  group_list groups;
  size_t first, place;  // This replica's group and position.
} stack;

static stack stack_values(const ls_replica_hooks *hooks, ls_tensor x,
                          group_list groups) {
  ls_shape shape = ls_tensor_shape(x);
  for (int32_t i = shape.rank; i > 0; --i)
    shape.dim[i] = shape.dim[i - 1];
  shape.dim[0] = 1;
  ++shape.rank;
  stack s = {.groups = groups};
  s.all = hooks->all_gather(ls_reshape(x, shape), 0);
  s.first = find_group(&groups, hooks->rows_before(1, ls_context_replicas()),
                       &s.place);
  return s;
}

static ls_tensor value_of(const stack *s, int64_t replica) {
  return ls_gather(s->all, ls_scalar_i64(LS_DTYPE_I32, replica), 0);
}

// Lists the values of the group's members, in order of their ids or in listed
// order.
static ls_tensor *values_of(const stack *s, bool by_id) {
  const group_list *groups = &s->groups;
  ls_tensor *items = ls_new_array(groups->allocator, ls_tensor, groups->size);
  if (items == NULL) return NULL;
  for (size_t i = 0; i < groups->size; ++i) {
    const int64_t own = group_member(groups, s->first + i);
    size_t place = 0;
    for (size_t k = 0; by_id && k < groups->size; ++k)
      place += group_member(groups, s->first + k) < own;
    items[by_id ? place : i] = value_of(s, own);
  }
  return items;
}

static ls_tensor combine(ls_reduce_op op, const ls_tensor *items, size_t n) {
  if (op == LS_REDUCE_SUM) return ls_add_n(items, n);
  ls_tensor x = items[0];
  if (op != LS_REDUCE_MEAN) {
    for (size_t i = 1; i < n; ++i)
      x = op == LS_REDUCE_MAX ? ls_maximum(x, items[i])
                              : ls_minimum(x, items[i]);
    return x;
  }
  const ls_dtype dtype = ls_tensor_dtype(x);
  const ls_dtype wide =
      ls_dtype_size(dtype) < ls_dtype_size(LS_DTYPE_F32) ? LS_DTYPE_F32 : dtype;
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY(allocator, ls_tensor, wider, n);
  if (wider == NULL) return ls_make_failed("all_reduce", ls_out_of_memory());
  for (size_t i = 0; i < n; ++i)
    wider[i] = ls_convert(items[i], wide);
  x = ls_convert(ls_mul_scalar(ls_add_n(wider, n), 1 / (double)n), dtype);
  return x;
}

static ls_tensor reduce_stack(const ls_replica_hooks *hooks, ls_reduce_op op,
                              ls_tensor x, group_list groups) {
  const stack s = stack_values(hooks, x, groups);
  LS_OWN_MEMORY(groups.allocator, ls_tensor, items) = values_of(&s, true);
  if (items == NULL) return ls_make_failed("all_reduce", ls_out_of_memory());
  return combine(op, items, groups.size);
}

static ls_tensor own_part(const ls_replica_hooks *hooks, ls_tensor x, int axis,
                          const group_list *groups) {
  size_t place = 0;
  const int64_t me = hooks->rows_before(1, ls_context_replicas());
  const int64_t rows = ls_tensor_shape(x).dim[axis] / (int64_t)groups->size;
  const size_t first = find_group(groups, me, &place);
  place = 0;  // Order by id.
  for (size_t k = 0; k < groups->size; ++k)
    place += group_member(groups, first + k) < me;
  return ls_slice_axis(x, axis, (int64_t)place * rows,
                       ((int64_t)place + 1) * rows);
}

static ls_tensor groups_exchange(const ls_replica_hooks *hooks, ls_tensor x,
                                 int split_axis, int concat_axis,
                                 group_list groups) {
  const stack s = stack_values(hooks, x, groups);
  LS_OWN_MEMORY(groups.allocator, ls_tensor, items) = values_of(&s, false);
  if (items == NULL) return ls_make_failed("all_to_all", ls_out_of_memory());
  const int64_t rows =
      ls_tensor_shape(x).dim[split_axis] / (int64_t)groups.size;
  for (size_t i = 0; i < groups.size; ++i)
    items[i] = ls_slice_axis(items[i], split_axis, (int64_t)s.place * rows,
                             ((int64_t)s.place + 1) * rows);
  return ls_concatenate(items, groups.size, concat_axis);
}

// ---- Makers ----------------------------------------------------------------
// Checks the op's attributes and applies its shape rule before replicas
// exchange values; the values of all must fit into one stack.
static ls_status groups_check_op(uint16_t type, ls_tensor x,
                                 const ls_attr *attrs, size_t num_attrs) {
  ls_type in = {ls_tensor_dtype(x), ls_tensor_shape(x)}, out = {0};
  ls_op_spec spec = {.type = type, .num_attrs = num_attrs};
  LS_OWN(ls_arena, arena) = {0};
  if (ls_tensor_is_failed(x)) return ls_ok();
  ls_arena_init(&arena, ls_current_allocator());
  LS_RETURN_IF_ERROR(
      ls_attrs_resolve(&arena, type, attrs, num_attrs, &spec.attrs));
  LS_RETURN_IF_ERROR(ls_attrs_check(type, spec.attrs, num_attrs, 1));
  if (in.shape.rank < 0 || in.shape.rank >= LS_MAX_RANK)
    return ls_unimplemented("%s of %s: its rank must be below %d",
                            ls_op_table[type].name,
                            LS_SHAPE_TEXT(in.dtype, in.shape), LS_MAX_RANK);
  ls_infer infer;
  return ls_infer_run(&infer, &spec, &in, 1, &out, &arena);
}

typedef struct asked {
  uint16_t type;
  ls_reduce_op op;
  int axis, other_axis;
} asked;

static ls_tensor by_hooks(const ls_replica_hooks *hooks, const asked *a,
                          ls_tensor x, group_list groups) {
  switch (a->type) {
  case LS_OP_ALL_GATHER: {
    const stack s = stack_values(hooks, x, groups);
    ls_tensor *items = values_of(&s, true);
    if (items == NULL) return ls_make_failed("all_gather", ls_out_of_memory());
    const ls_tensor made = ls_concatenate(items, groups.size, a->axis);
    ls_release(groups.allocator, items);
    return made;
  }
  case LS_OP_REDUCE_SCATTER:
    return own_part(hooks, reduce_stack(hooks, a->op, x, groups), a->axis,
                    &groups);
  case LS_OP_ALL_TO_ALL:
    return groups_exchange(hooks, x, a->axis, a->other_axis, groups);
  default:
    return reduce_stack(hooks, a->op, x, groups);
  }
}

// Makes the collective op or, op by op, a meeting op for the values that
// replicas received.
static ls_tensor make_asked(const asked *a, const ls_attr *own, size_t num_own,
                            ls_tensor x, const ls_replica_groups *groups) {
  const ls_replica_hooks *hooks = ls_context_current()->hooks;
  ls_attr attrs[6];
  group_list list;
  ls_status status = read_groups(groups, &list);
  memcpy(attrs, own, num_own * sizeof(*own));
  attrs[num_own++] = LS_OWN_I(REPLICAS, ls_context_replicas());
  if (list.members != NULL) {
    attrs[num_own++] = LS_OWN_IS(GROUPS, list.members, list.count);
    attrs[num_own++] = LS_OWN_I(GROUP_SIZE, (int64_t)list.size);
  }
  if (ls_status_is_ok(status) && hooks != NULL)
    status = groups_check_op(a->type, x, attrs, num_own);
  ls_tensor made = ls_failed_tensor();
  if (!ls_status_is_ok(status))
    made = ls_make_failed(ls_op_table[a->type].name, status);
  else if (hooks == NULL)
    made = ls_make(a->type, &x, 1, attrs, num_own);
  else
    made = ls_make_meeting(a->type, x, attrs, num_own,
                           by_hooks(hooks, a, x, list));
  drop_groups(&list);
  return made;
}

static const char *groups_name_of(ls_reduce_op op) {
  static const char *const names[] = {"sum", "mean", "max", "min"};
  return (unsigned)op < LS_COUNT_OF(names) ? names[op] : "?";
}

ls_tensor ls_all_reduce_in(ls_reduce_op op, ls_tensor x,
                           const ls_replica_groups *groups) {
  if (groups == NULL) return ls_all_reduce(op, x);
  if (ls_divides_integers(op, x))
    return ls_divide_integers(
        ls_all_reduce_in(LS_REDUCE_SUM, ls_widen_integers(x), groups),
        ls_mean_dtype(ls_tensor_dtype(x)), (int64_t)groups->size);
  const ls_attr own = LS_OWN_S(REDUCE, groups_name_of(op));
  return make_asked(&(asked){.type = LS_OP_ALL_REDUCE, .op = op}, &own, 1, x,
                    groups);
}

ls_tensor ls_all_gather_in(ls_tensor x, int axis,
                           const ls_replica_groups *groups) {
  if (groups == NULL) return ls_all_gather(x, axis);
  const ls_attr own = LS_OWN_I(AXIS, axis);
  return make_asked(&(asked){.type = LS_OP_ALL_GATHER, .axis = axis}, &own, 1,
                    x, groups);
}

ls_tensor ls_reduce_scatter_in(ls_reduce_op op, ls_tensor x, int axis,
                               const ls_replica_groups *groups) {
  if (groups == NULL) return ls_reduce_scatter(op, x, axis);
  if (ls_divides_integers(op, x))
    return ls_divide_integers(
        ls_reduce_scatter_in(LS_REDUCE_SUM, ls_widen_integers(x), axis, groups),
        ls_mean_dtype(ls_tensor_dtype(x)), (int64_t)groups->size);
  const ls_attr own[] = {LS_OWN_S(REDUCE, groups_name_of(op)),
                         LS_OWN_I(AXIS, axis)};
  return make_asked(
      &(asked){.type = LS_OP_REDUCE_SCATTER, .op = op, .axis = axis}, own, 2, x,
      groups);
}

ls_tensor ls_all_to_all(ls_tensor x, int split_axis, int concat_axis,
                        const ls_replica_groups *groups) {
  const ls_attr own[] = {LS_OWN_I(SPLIT_AXIS, split_axis),
                         LS_OWN_I(CONCAT_AXIS, concat_axis)};
  return make_asked(&(asked){.type = LS_OP_ALL_TO_ALL,
                             .axis = split_axis,
                             .other_axis = concat_axis},
                    own, 2, x, groups);
}

// ---- Pairs -----------------------------------------------------------------
// Finds the source of each replica, -1 for none.
static ls_status read_pairs(const int32_t (*pairs)[2], size_t num_pairs,
                            int64_t *sources, size_t replicas) {
  if (pairs == NULL && num_pairs > 0)
    return ls_invalid_argument("%zu pairs of replicas at NULL", num_pairs);
  LS_OWN_ARRAY_OR_RETURN(ls_current_allocator(), bool, sent, replicas);
  for (size_t r = 0; r < replicas; ++r)
    sources[r] = -1;
  for (size_t i = 0; i < num_pairs; ++i) {
    const int32_t from = pairs[i][0], to = pairs[i][1];
    if (from < 0 || to < 0 || (size_t)from >= replicas ||
        (size_t)to >= replicas || sent[from] || sources[to] >= 0)
      return ls_invalid_argument(
          "collective_permute: replica %d to %d: one of them is not one of "
          "%zu, or is source or target twice",
          from, to, replicas);
    sent[from] = true;
    sources[to] = from;
  }
  return ls_ok();
}

// Makes an op in which each replica receives the value of its source, or zeros
// if that is -1.
static ls_tensor make_received(uint16_t type, ls_tensor x, ls_attr attr,
                               const int64_t *sources, int64_t root) {
  const ls_replica_hooks *hooks = ls_context_current()->hooks;
  const group_list all = {.allocator = ls_current_allocator(),
                          .size = (size_t)ls_context_replicas()};
  if (hooks == NULL) return ls_make(type, &x, 1, &attr, 1);
  const ls_status status = groups_check_op(type, x, &attr, 1);
  if (!ls_status_is_ok(status))
    return ls_make_failed(ls_op_table[type].name, status);
  const stack s = stack_values(hooks, x, all);
  const int64_t source = sources != NULL ? sources[s.place] : root;
  const ls_tensor got =
      source >= 0 ? value_of(&s, source)
                  : ls_fill(ls_tensor_dtype(x), ls_tensor_shape(x), 0);
  return ls_make_meeting(type, x, &attr, 1, got);
}

ls_tensor ls_collective_permute(ls_tensor x, const int32_t (*pairs)[2],
                                size_t num_pairs) {
  const size_t replicas = (size_t)ls_context_replicas();
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY(allocator, int64_t, sources, replicas);
  const ls_status status =
      sources == NULL ? ls_out_of_memory()
                      : read_pairs(pairs, num_pairs, sources, replicas);
  if (!ls_status_is_ok(status))
    return ls_make_failed("collective_permute", status);
  return make_received(LS_OP_PERMUTE, x, LS_OWN_IS(SOURCES, sources, replicas),
                       sources, -1);
}

ls_tensor ls_collective_broadcast(ls_tensor x, int32_t root) {
  const int32_t replicas = ls_context_replicas();
  if (root < 0 || root >= replicas)
    return ls_make_failed(
        "collective_broadcast",
        ls_invalid_argument("replica %d is not one of %d", root, replicas));
  return ls_same_note(make_received(LS_OP_REPLICA_BROADCAST, x,
                                    LS_OWN_I(ROOT, root), NULL, root));
}
