// SPDX-License-Identifier: Apache-2.0
#include "serve/serving.h"

#include "graph/copy.h"
#include "graph/gather/gather.h"
#include "graph/variables/variable.h"
#include "graph/walk.h"

// ---- Needed nodes ----------------------------------------------------------
// Marks the ops that a signature needs, and whole computations. A placeholder
// must be one of the inputs.
static ls_status prune_find_needed(ls_graph *graph, const ls_serve_signature *s,
                                   ls_arena *memory, bool *needed) {
  const size_t most = s->num_outputs + s->num_inputs;
  LS_ARENA_ARRAY_OR_RETURN(memory, uint64_t, refs, most + 1);
  for (size_t i = 0; i < s->num_outputs; ++i)
    refs[i] = s->outputs[i].tensor.ref;
  for (size_t i = 0; i < s->num_inputs; ++i)
    refs[s->num_outputs + i] = s->inputs[i].tensor.ref;
  const bool *own = NULL;
  LS_RETURN_IF_ERROR(
      ls_graph_find_needed(&(ls_gather_request){.graph = graph,
                                                .fetches = refs,
                                                .num_fetches = s->num_outputs,
                                                .feeds = refs + s->num_outputs,
                                                .num_feeds = s->num_inputs},
                           memory, &own));
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    if (!own[i]) continue;
    needed[i] = true;
    if (graph->nodes[i]->type == LS_OP_PLACEHOLDER)
      return ls_invalid_argument("signature '%s' needs placeholder '%s', which "
                                 "is not one of its inputs",
                                 s->key, ls_node_name(graph, graph->nodes[i]));
  }
  return ls_ok();
}

static ls_status prune_find_all(ls_graph *graph, const ls_serve_signatures *all,
                                ls_arena *memory, bool *needed) {
  for (size_t i = 0; i < all->count; ++i)
    LS_RETURN_IF_ERROR(
        prune_find_needed(graph, &all->items[i], memory, needed));
  for (size_t i = 0; i < all->count; ++i)
    for (size_t k = 0; k < all->items[i].num_inputs; ++k)
      needed[ls_graph_position(
          graph, ls_ref_id(all->items[i].inputs[k].tensor.ref))] = true;
  return ls_ok();
}

// ---- Copying ---------------------------------------------------------------
// Returns an attribute with an object that other processes cannot have, or
// NULL.
static const ls_attr *find_object(const ls_node *node) {
  for (uint32_t i = 0; i < node->num_attrs; ++i) {
    const ls_attr *attr = &node->attrs[i];
    if (attr->kind == LS_ATTR_OBJECT && attr->as.object != NULL &&
        attr->as.object->type != &ls_variable_object_type)
      return attr;
  }
  return NULL;
}

static ls_status check_attrs(const ls_copying *c, const ls_node *node) {
  char text[LS_MAX_FULL_NAME];
  ls_graph_walk walk;
  for (ls_graph_walk_begin_at(&walk, node); ls_graph_walk_next(&walk);) {
    if (walk.node->type == LS_OP_CUSTOM_GRADIENT) {
      ls_graph_walk_skip_regions(&walk);
      continue;
    }
    const ls_attr *attr = find_object(walk.node);
    if (attr == NULL) continue;
    ls_graph *graph = walk.graph == NULL ? c->from : walk.graph;
    return ls_unimplemented(
        "an export of %s (%s), whose '%s' is an object of this process ('%s')",
        ls_node_describe(graph, walk.node, text, sizeof(text)),
        ls_node_info(walk.node)->name, attr->name, attr->as.object->type->name);
  }
  return ls_ok();
}

static bool is_output(const ls_serve_signatures *all, uint64_t id) {
  for (size_t i = 0; i < all->count; ++i)
    for (size_t k = 0; k < all->items[i].num_outputs; ++k)
      if (ls_ref_id(all->items[i].outputs[k].tensor.ref) == id) return true;
  return false;
}

// Copies an op with a custom gradient as an identity, since its name is a
// signature's output.
static ls_status stand_in(ls_copying *c, ls_node *node) {
  if (node->num_outputs != 1)
    return ls_unimplemented(
        "an export of '%s', which has a gradient of its own "
        "and %u results",
        ls_node_name(c->from, node), node->num_outputs);
  const uint32_t first = (uint32_t)ls_node_int(node, LS_ATTR_ID_NUM_INPUTS);
  ls_node as = *node;
  as.type = LS_OP_IDENTITY;
  as.inputs = &node->inputs[first];
  as.num_inputs = 1;
  as.num_attrs = 0;
  return ls_copy_node(c, &as);
}

static ls_status copy_one(ls_copying *c, ls_node *node,
                          const ls_serve_signatures *all) {
  if (node->type == LS_OP_CUSTOM_GRADIENT)
    return is_output(all, node->id) ? stand_in(c, node)
                                    : ls_copy_without_gradient(c, node);
  LS_RETURN_IF_ERROR(check_attrs(c, node));
  return ls_copy_node(c, node);
}

// Copies the ops of a region; their names are not visible outside.
static ls_status copy_inside(ls_copying *c) {
  for (size_t i = 0; i < c->from->num_nodes; ++i) {
    ls_node *node = c->from->nodes[i];
    if (node->type == LS_OP_PARAMETER) continue;
    LS_RETURN_IF_ERROR(node->type == LS_OP_CUSTOM_GRADIENT
                           ? ls_copy_without_gradient(c, node)
                           : ls_copy_node(c, node));
  }
  return ls_ok();
}

static ls_status copy_needed(ls_graph *graph, const ls_serve_signatures *all,
                             ls_arena *memory, ls_graph *copy) {
  LS_ARENA_ARRAY_OR_RETURN(memory, bool, needed, graph->num_nodes + 1);
  memset(needed, 0, graph->num_nodes * sizeof(*needed));
  LS_RETURN_IF_ERROR(prune_find_all(graph, all, memory, needed));
  static const ls_copy_policy policy = {.copy_ops = copy_inside};
  LS_OWN(ls_copying, c) = {0};
  ls_copying_init(&c, NULL, graph, copy, memory);
  c.policy = &policy;
  for (size_t i = 0; i < graph->num_nodes; ++i)
    if (needed[i]) LS_RETURN_IF_ERROR(copy_one(&c, graph->nodes[i], all));
  return ls_ok();
}

// Exports are not bound to a TPU system: leaves the system's scope.
static ls_status leave_system(const ls_graph *graph) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);) {
    ls_node *node = walk.node;
    uint32_t kept = 0;
    for (uint32_t k = 0; k < node->num_attrs; ++k)
      kept += !ls_attr_is_of_system(&node->attrs[k]);
    if (kept == node->num_attrs) continue;
    LS_ARENA_ARRAY_OR_RETURN(&walk.graph->arena, ls_attr, attrs, kept + 1);
    kept = 0;
    for (uint32_t k = 0; k < node->num_attrs; ++k)
      if (!ls_attr_is_of_system(&node->attrs[k]))
        attrs[kept++] = node->attrs[k];
    node->attrs = attrs;
    node->num_attrs = kept;
  }
  return ls_ok();
}

static ls_status fill_copy(ls_graph *graph,
                           const ls_serve_signatures *signatures,
                           ls_arena *memory, ls_graph *copy) {
  LS_RETURN_IF_ERROR(copy_needed(graph, signatures, memory, copy));
  return leave_system(copy);
}

ls_status ls_serve_prune(ls_graph *graph, const ls_serve_signatures *signatures,
                         ls_arena *memory, ls_graph **out_copy) {
  ls_graph *copy = NULL;
  *out_copy = NULL;
  LS_RETURN_IF_ERROR(
      ls_graph_make(graph->kind, graph->name, graph->runtime, NULL, &copy));
  const ls_status status = fill_copy(graph, signatures, memory, copy);
  if (ls_status_is_ok(status))
    *out_copy = copy;
  else
    ls_graph_free(copy);
  return status;
}

// ---- Variables -------------------------------------------------------------
typedef struct listing {
  ls_map seen;
  ls_variable **list;  // NULL: only counts.
  size_t count;
} listing;

static bool list_variables(listing *l, const ls_graph *graph) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);) {
    const ls_attr *attr = ls_node_attr(walk.node, LS_ATTR_ID_VARIABLE);
    if (attr == NULL) continue;
    const uint64_t key = (uint64_t)(uintptr_t)attr->as.object;
    if (ls_map_find_u64(&l->seen, key) != NULL) continue;
    if (!ls_map_insert_u64(&l->seen, key, attr->as.object)) return false;
    if (l->list != NULL) l->list[l->count] = (ls_variable *)attr->as.object;
    ++l->count;
  }
  return true;
}

ls_status ls_serve_variables(const ls_graph *graph, ls_arena *memory,
                             ls_variable ***out_list, size_t *out_count) {
  listing l = {0};
  *out_list = NULL;
  ls_map_init(&l.seen, graph->allocator);
  bool ok = list_variables(&l, graph);
  ls_map_deinit(&l.seen);
  if (ok) {
    l = (listing){.list =
                      ls_arena_new_array(memory, ls_variable *, l.count + 1)};
    ls_map_init(&l.seen, graph->allocator);
    ok = l.list != NULL && list_variables(&l, graph);
    ls_map_deinit(&l.seen);
  }
  *out_list = l.list;
  *out_count = l.count;
  return ok ? ls_ok() : ls_out_of_memory();
}
