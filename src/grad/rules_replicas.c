// SPDX-License-Identifier: Apache-2.0
//
// Rules of collectives.
#include "base/runtime_internal.h"
#include "grad/rules.h"
#include "grad/walk.h"
#include "graph/gather/gather.h"
#include "graph/make/make.h"

// The groups of the op, as an argument for another op; NULL: one group of all
// replicas.
typedef struct own_groups {
  ls_replica_groups groups;
  int32_t *members;
} own_groups;

static const ls_replica_groups *groups_of(const ls_gradient *g,
                                          own_groups *out) {
  const ls_attr *attr = ls_node_attr(g->node, LS_ATTR_ID_GROUPS);
  *out = (own_groups){0};
  if (attr == NULL) return NULL;
  const size_t count = attr->as.ints.count;
  out->members = ls_new_array(ls_current_allocator(), int32_t, count);
  out->groups.size = (size_t)ls_node_int(g->node, LS_ATTR_ID_GROUP_SIZE);
  // Without memory `members` is NULL and `count` 0, which the op maker refuses.
  out->groups.count = out->members == NULL ? 0 : count / out->groups.size;
  out->groups.members = out->members;
  for (size_t i = 0; out->members != NULL && i < count; ++i)
    out->members[i] = (int32_t)attr->as.ints.items[i];
  return &out->groups;
}

static void drop_groups(own_groups *groups) {
  ls_release(ls_current_allocator(), groups->members);
}

// ---- Recorded results of collectives ---------------------------------------
static ls_status met_again(ls_gradient *g) {
  const ls_replica_hooks *hooks = ls_context_current()->hooks;
  const char *op = ls_node_attr(g->node, LS_ATTR_ID_OP)->as.string;
  if (hooks == NULL || strcmp(op, ls_op_table[LS_OP_MERGE_CALL].name) != 0)
    return gradient_refused(g);
  ls_arena *arena = g->walk->context->arena;
  const size_t num_given = (size_t)ls_node_int(g->node, LS_ATTR_ID_NUM_INPUTS);
  LS_ARENA_ARRAY_OR_RETURN(arena, ls_tensor, given, num_given);
  LS_ARENA_ARRAY_OR_RETURN(arena, ls_tensor, got, g->num_outputs);
  for (size_t i = 0; i < num_given; ++i)
    given[i] = ls_gradient_input(g, i);
  for (size_t i = 0; i < g->num_outputs; ++i)
    got[i] = ls_gradient_output(g, i);
  return hooks->merge_gradient(given, num_given, got, g->dout, g->num_outputs,
                               g->din);
}

// In a replica, applies the rule of the recorded collective, so that replicas
// exchange gradients. Outside of replicas, passes the gradient to the recorded
// results.
ls_status gradient_meeting(ls_gradient *g) {
  if (g->walk->context->in_replica) {
    const uint16_t op = ls_node_met_as(g->node);
    return op != LS_OP_NONE ? ls_gradient_table[op](g) : met_again(g);
  }
  const size_t first = (size_t)ls_node_int(g->node, LS_ATTR_ID_NUM_INPUTS);
  for (size_t i = 0; i < g->num_outputs; ++i)
    g->din[first + i] = g->dout[i];
  return ls_ok();
}

// ---- Collectives -----------------------------------------------------------
// A replica's value contributes to the sum on every replica, so its gradient is
// the sum of all replicas' gradients.
ls_status gradient_all_reduce(ls_gradient *g) {
  const char *reduce = ls_node_attr(g->node, LS_ATTR_ID_REDUCE)->as.string;
  const bool is_mean = strcmp(reduce, "mean") == 0;
  if (!is_mean && strcmp(reduce, "sum") != 0)
    return ls_not_found(
        "op '%s' (all_reduce by %s) has no gradient: only sum and mean have "
        "one; wrap its operand in ls_stop_gradient to stop the gradient",
        ls_op_name(g->op), reduce);
  const ls_reduce_op op = is_mean ? LS_REDUCE_MEAN : LS_REDUCE_SUM;
  own_groups own;
  const ls_replica_groups *groups = groups_of(g, &own);
  g->din[0] = groups == NULL && g->node->type == LS_OP_MEETING
                  ? ls_all_reduce_met(op, g->dout[0])
                  : ls_all_reduce_in(op, g->dout[0], groups);
  drop_groups(&own);
  return ls_ok();
}

// The gradient has the layout of the value.
ls_status gradient_sharding(ls_gradient *g) {
  static const ls_attr_id own[] = {LS_ATTR_ID_SHARDING, LS_ATTR_ID_TILE,
                                   LS_ATTR_ID_TILE_DEVICES};
  const char *mark = ls_node_mark(g->node, LS_MARK_SHARDING);
  ls_attr attrs[LS_COUNT_OF(own) + 1];
  size_t count = 0;
  for (size_t i = 0; i < LS_COUNT_OF(own); ++i) {
    const ls_attr *attr = ls_node_attr(g->node, own[i]);
    if (attr != NULL) attrs[count++] = *attr;
  }
  if (mark != NULL)
    attrs[count++] = (ls_attr){
        .name = LS_MARK_SHARDING, .kind = LS_ATTR_STRING, .as.string = mark};
  g->din[0] = ls_make(LS_OP_SHARDING, &g->dout[0], 1, attrs, count);
  return ls_ok();
}

// The gradient is the same op, applied to the result's gradient.
ls_status gradient_cross_replica_sum(ls_gradient *g) {
  static const ls_attr_id own[] = {LS_ATTR_ID_REDUCE, LS_ATTR_ID_REPLICAS,
                                   LS_ATTR_ID_GROUPS, LS_ATTR_ID_GROUP_SIZE};
  ls_attr attrs[LS_COUNT_OF(own)];
  size_t count = 0;
  for (size_t i = 0; i < LS_COUNT_OF(own); ++i) {
    const ls_attr *attr = ls_node_attr(g->node, own[i]);
    if (attr != NULL) attrs[count++] = *attr;
  }
  g->din[0] = ls_make(LS_OP_CROSS_REPLICA_SUM, &g->dout[0], 1, attrs, count);
  return ls_ok();
}

// Each replica's rows are in the result of every replica: adds up the
// gradients, of which each replica takes its own rows.
ls_status gradient_all_gather(ls_gradient *g) {
  own_groups own;
  const int axis = (int)ls_node_int(g->node, LS_ATTR_ID_AXIS);
  const ls_replica_groups *groups = groups_of(g, &own);
  g->din[0] =
      groups != NULL
          ? ls_reduce_scatter_in(LS_REDUCE_SUM, g->dout[0], axis, groups)
          : ls_reduce_scatter_like(LS_REDUCE_SUM, g->dout[0], axis,
                                   ls_gradient_input(g, 0));
  drop_groups(&own);
  return ls_ok();
}

// All replicas contribute to each part of the sum, so that each replica gathers
// the gradients of all parts.
ls_status gradient_reduce_scatter(ls_gradient *g) {
  const char *reduce = ls_node_attr(g->node, LS_ATTR_ID_REDUCE)->as.string;
  const bool is_mean = strcmp(reduce, "mean") == 0;
  if (!is_mean && strcmp(reduce, "sum") != 0)
    return ls_not_found(
        "op '%s' (reduce_scatter by %s) has no gradient: only sum and mean "
        "have one; wrap its operand in ls_stop_gradient to stop the gradient",
        ls_op_name(g->op), reduce);
  own_groups own;
  const ls_attr *size = ls_node_attr(g->node, LS_ATTR_ID_GROUP_SIZE);
  const int64_t all = ls_node_int(g->node, LS_ATTR_ID_REPLICAS);
  g->din[0] =
      ls_all_gather_in(g->dout[0], (int)ls_node_int(g->node, LS_ATTR_ID_AXIS),
                       groups_of(g, &own));
  if (is_mean)
    g->din[0] =
        ls_mul_scalar(g->din[0], 1 / (double)(size != NULL ? size->as.i : all));
  drop_groups(&own);
  return ls_ok();
}

// Sends the gradients back the opposite way.
ls_status gradient_all_to_all(ls_gradient *g) {
  own_groups own;
  g->din[0] = ls_all_to_all(
      g->dout[0], (int)ls_node_int(g->node, LS_ATTR_ID_CONCAT_AXIS),
      (int)ls_node_int(g->node, LS_ATTR_ID_SPLIT_AXIS), groups_of(g, &own));
  drop_groups(&own);
  return ls_ok();
}

ls_status gradient_permute(ls_gradient *g) {
  const ls_attr *sources = ls_node_attr(g->node, LS_ATTR_ID_SOURCES);
  const size_t replicas = sources->as.ints.count;
  ls_allocator *allocator = ls_current_allocator();
  int32_t(*pairs)[2] = ls_allocate(allocator, replicas * sizeof(*pairs));
  if (pairs == NULL) return ls_out_of_memory();
  size_t count = 0;
  for (size_t r = 0; r < replicas; ++r) {
    if (sources->as.ints.items[r] < 0) continue;
    pairs[count][0] = (int32_t)r;
    pairs[count++][1] = (int32_t)sources->as.ints.items[r];
  }
  g->din[0] =
      ls_collective_permute(g->dout[0], (const int32_t(*)[2])pairs, count);
  ls_release(allocator, pairs);
  return ls_ok();
}

// Sums the gradients on the replica that was the source.
ls_status gradient_replica_broadcast(ls_gradient *g) {
  const ls_tensor root =
      ls_scalar_i64(LS_DTYPE_I32, ls_node_int(g->node, LS_ATTR_ID_ROOT));
  const ls_tensor sum = ls_all_reduce(LS_REDUCE_SUM, g->dout[0]);
  g->din[0] =
      ls_select(ls_equal(ls_replica_id(), root), sum, ls_gradient_zeros(sum));
  return ls_ok();
}
