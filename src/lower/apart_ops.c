// SPDX-License-Identifier: Apache-2.0
//
// Makes the ops that replace a loop or branch, finds steps in loops and
// branches, and refuses loops and branches that cannot be taken apart.
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "graph/gather/gather.h"
#include "graph/walk.h"
#include "lower/apart.h"

static ls_status apart_ops_append(const ls_apart *a, ls_graph *to,
                                  const ls_op_spec *spec,
                                  const uint64_t *inputs, size_t num_outputs,
                                  ls_node **out_node) {
  const ls_node *node = a->node;
  *out_node = ls_graph_append(to, spec, inputs, num_outputs);
  if (*out_node == NULL) return ls_out_of_memory();
  (*out_node)->origin = ls_node_source(a->scope->from, node);
  (*out_node)->file = node->file;
  (*out_node)->line = node->line;
  return ls_ok();
}

ls_status ls_apart_make(const ls_apart *a, ls_graph *to, uint16_t type,
                        const uint64_t *inputs, size_t num_inputs, ls_attr attr,
                        ls_dtype dtype, uint64_t *out_ref) {
  ls_node *node = NULL;
  LS_RETURN_IF_ERROR(
      apart_ops_append(a, to,
                       &(ls_op_spec){.type = type,
                                     .num_inputs = num_inputs,
                                     .attrs = &attr,
                                     .num_attrs = attr.name != NULL},
                       inputs, 1, &node));
  node->outputs[0] = (ls_type){dtype, LS_SCALAR};
  *out_ref = ls_ref(node->id, 0);
  return ls_ok();
}

ls_status ls_apart_make_number(const ls_apart *a, ls_graph *to, ls_dtype dtype,
                               int64_t value, uint64_t *out_ref) {
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(dtype, LS_SCALAR, &array));
  ls_array_set_i64(array, 0, value);
  return ls_apart_make(a, to, LS_OP_CONSTANT, NULL, 0, LS_OWN_A(VALUE, array),
                       dtype, out_ref);
}

ls_status ls_apart_make_not(const ls_apart *a, ls_graph *to, uint64_t x,
                            uint64_t *out_ref) {
  return ls_apart_make(a, to, LS_OP_NOT, &x, 1, (ls_attr){0}, LS_DTYPE_BOOL,
                       out_ref);
}

ls_status ls_apart_make_and(const ls_apart *a, ls_graph *to, uint64_t mask,
                            uint64_t x, uint64_t *out_ref) {
  const uint64_t inputs[] = {mask, x};
  *out_ref = x;
  return mask == 0 ? ls_ok()
                   : ls_apart_make(a, to, LS_OP_AND, inputs, 2, (ls_attr){0},
                                   LS_DTYPE_BOOL, out_ref);
}

ls_status ls_apart_make_any(const ls_apart *a, ls_graph *to, uint64_t x,
                            uint64_t *out_ref) {
  uint64_t count = 0, terms[2];
  LS_RETURN_IF_ERROR(ls_apart_make(a, to, LS_OP_CONVERT, &x, 1,
                                   LS_OWN_T(DTYPE, LS_DTYPE_I32), LS_DTYPE_I32,
                                   &count));
  LS_RETURN_IF_ERROR(ls_apart_make(a, to, LS_OP_ALL_REDUCE, &count, 1,
                                   LS_OWN_S(REDUCE, "max"), LS_DTYPE_I32,
                                   &terms[0]));
  LS_RETURN_IF_ERROR(ls_apart_make_number(a, to, LS_DTYPE_I32, 0, &terms[1]));
  return ls_apart_make(a, to, LS_OP_GREATER, terms, 2, (ls_attr){0},
                       LS_DTYPE_BOOL, out_ref);
}

ls_status ls_apart_make_region(const ls_apart *a, const char *name,
                               ls_graph *around, ls_graph **out_graph) {
  return ls_graph_make(LS_GRAPH_REGION, name, a->scope->from->runtime, around,
                       out_graph);
}

ls_status ls_apart_append_flow(const ls_apart *a, ls_graph *to, uint16_t type,
                               const uint64_t *leading, size_t num_leading,
                               const ls_attr *attrs, size_t num_attrs,
                               ls_graph **regions, size_t num_regions,
                               const ls_type *types, size_t num_outputs,
                               ls_node **out_node) {
  ls_arena *memory = (ls_arena *)(uintptr_t)&a->memory;
  const size_t count = num_leading + ls_count_captures(regions, num_regions);
  LS_ARENA_ARRAY_OR_RETURN(memory, uint64_t, inputs, count + 1);
  memcpy(inputs, leading, num_leading * sizeof(*inputs));
  ls_list_capture_refs(regions, num_regions, inputs + num_leading);
  LS_RETURN_IF_ERROR(apart_ops_append(a, to,
                                      &(ls_op_spec){.type = type,
                                                    .num_inputs = count,
                                                    .attrs = attrs,
                                                    .num_attrs = num_attrs,
                                                    .regions = regions,
                                                    .num_regions = num_regions},
                                      inputs, num_outputs, out_node));
  // The op owns the regions now.
  memset(regions, 0, num_regions * sizeof(*regions));
  memcpy((*out_node)->outputs, types, num_outputs * sizeof(*types));
  return ls_ok();
}

ls_status ls_apart_append_cond(const ls_apart *a, ls_graph *to,
                               uint64_t predicate, ls_graph **regions,
                               const ls_type *types, size_t num_outputs,
                               ls_node **out_node) {
  return ls_apart_append_flow(a, to, LS_OP_COND, &predicate, 1, NULL, 0,
                              regions, 2, types, num_outputs, out_node);
}

// ---- Join branches ---------------------------------------------------------
static ls_status apart_ops_give(ls_graph *region, ls_graph *around,
                                const uint64_t *refs, size_t count,
                                ls_arena *memory) {
  LS_ARENA_ARRAY_OR_RETURN(memory, uint64_t, inner, count + 1);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        ls_graph_add_capture(region, (ls_tensor){around, refs[i]}, &inner[i]));
  return ls_graph_set_results(region, inner, count);
}

ls_status ls_apart_join(ls_apart *a, ls_graph *to, uint64_t predicate,
                        const uint64_t *yes, const uint64_t *no, size_t count,
                        uint64_t *out_refs) {
  if (count == 0) return ls_ok();
  ls_node *node = NULL;
  LS_ARENA_ARRAY_OR_RETURN(&a->memory, ls_type, types, count + 1);
  for (size_t i = 0; i < count; ++i)
    types[i] = ls_graph_type(to, yes[i]);
  LS_OWN(ls_apart_regions, r) = {{NULL, NULL}};
  LS_RETURN_IF_ERROR(ls_apart_make_region(a, "yes", to, &r.items[0]));
  LS_RETURN_IF_ERROR(ls_apart_make_region(a, "no", to, &r.items[1]));
  LS_RETURN_IF_ERROR(apart_ops_give(r.items[0], to, yes, count, &a->memory));
  LS_RETURN_IF_ERROR(apart_ops_give(r.items[1], to, no, count, &a->memory));
  LS_RETURN_IF_ERROR(
      ls_apart_append_cond(a, to, predicate, r.items, types, count, &node));
  for (size_t i = 0; i < count; ++i)
    out_refs[i] = ls_ref(node->id, (unsigned)i);
  return ls_ok();
}

// ---- Checks ----------------------------------------------------------------
bool ls_is_step(const ls_node *node) {
  return node->type == LS_OP_MERGE_CALL &&
         ls_node_mark(node, LS_MARK_OUTSIDE) != NULL;
}

bool ls_holds_step(const ls_node *node) {
  return ls_node_any(node, ls_is_step);
}

bool ls_condition_writes(const ls_node *loop) {
  return ls_graph_any(loop->regions[0], ls_node_assigns);
}

ls_status ls_apart_refuse(ls_graph *graph, ls_node *node, const char *why) {
  char text[LS_MAX_FULL_NAME];
  ls_node_describe(graph, node, text, sizeof(text));
  return ls_invalid_argument("%s is %s", text, why);
}

static bool merges(const ls_node *node) {
  switch (node->type) {
  case LS_OP_REDUCE_SCATTER:
  case LS_OP_ALL_TO_ALL:
  case LS_OP_PERMUTE:
  case LS_OP_REPLICA_BROADCAST:
  case LS_OP_CROSS_REPLICA_SUM:
    return true;
  case LS_OP_MERGE_CALL:
    return !ls_is_step(node);
  default:
    return (ls_node_info(node)->traits & LS_OP_MERGE) != 0;
  }
}

ls_status ls_apart_check_node(const ls_apart_level *l, const ls_node *node) {
  if (l->mask == 0) return ls_ok();
  ls_graph_walk walk;
  for (ls_graph_walk_begin_at(&walk, node); ls_graph_walk_next(&walk);) {
    if (merges(walk.node))
      return ls_apart_refuse(
          walk.graph == NULL ? l->c.from : walk.graph, walk.node,
          "a collective in a loop or branch whose path may differ between "
          "replicas, with outside compiled ops that write variables: make the "
          "condition the same on all, for instance with ls_all_reduce");
    if (ls_is_step(walk.node)) ls_graph_walk_skip_regions(&walk);
  }
  return ls_ok();
}

ls_status ls_apart_check_loop(const ls_apart *a, const ls_node *loop) {
  const ls_graph *condition = ls_graph_resolve(loop->regions[0]);
  bool draws = false;
  for (size_t i = 0; i < condition->num_nodes; ++i)
    draws = draws || ls_node_any_trait(condition->nodes[i], LS_OP_RANDOM);
  if (ls_node_attr(loop, LS_ATTR_ID_NUM_SAVED) == NULL && !draws)
    return ls_ok();
  return ls_unimplemented(
      "a loop %s %s",
      draws ? "draws random numbers in its condition and"
            : "has a gradient and",
      a->together ? "writes a variable in its condition"
                  : "has outside compiled ops that write a variable, and "
                    "replicas make different numbers of iterations");
}
