// SPDX-License-Identifier: Apache-2.0
#include "graph/gather/gather.h"

#include "base/memory/own.h"
#include "base/require.h"
#include "graph/gather/copy.h"
#include "graph/walk.h"

const char *ls_node_mark(const ls_node *node, const char *name) {
  const ls_attr *attr = ls_node_attr_named(node, name);
  return attr != NULL && attr->kind == LS_ATTR_STRING ? attr->as.string : NULL;
}

// ---- Marks -----------------------------------------------------------------
// Searches a graph for marks to gather. Replicate ops, as in the text of a
// gathered graph, need no work.
static ls_status look_for_marks(const ls_graph *graph, bool *found) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);) {
    if (walk.node->type == LS_OP_REPLICATE) {
      ls_graph_walk_skip_regions(&walk);
      continue;
    }
    if (ls_node_attr_named(walk.node, LS_MARK_REPLICATE) != NULL) {
      *found = true;
    } else if (ls_node_attr_named(walk.node, LS_MARK_OUTSIDE) != NULL) {
      char text[LS_MAX_FULL_NAME];
      return ls_internal(
          "%s has '" LS_MARK_OUTSIDE "' and no '" LS_MARK_REPLICATE "'",
          ls_node_describe(walk.graph, walk.node, text, sizeof(text)));
    }
  }
  return ls_ok();
}

// ---- Map the request -------------------------------------------------------
// Adds the parameters of a function, or a placeholder for each feed.
static ls_status add_feeds(ls_copying *c, const ls_gather_request *request) {
  ls_graph *from = c->from;
  for (size_t i = 0; i < from->num_declared; ++i) {
    ls_tensor parameter;
    LS_RETURN_IF_ERROR(ls_graph_add_parameter(
        c->to, ls_graph_type(from, from->parameters[i]), NULL, &parameter));
    LS_RETURN_IF_ERROR(ls_copying_set(c, from->parameters[i], parameter.ref));
  }
  for (size_t i = 0; i < request->num_feeds; ++i) {
    const uint64_t ref = request->feeds[i];
    const ls_type type = ls_graph_type(from, ref);
    if (ls_map_find_u64(&c->refs, ref) != NULL) continue;
    const ls_attr attrs[] = {LS_OWN_T(DTYPE, type.dtype),
                             LS_OWN_SH(SHAPE, type.shape)};
    ls_node *node = ls_graph_append(c->to,
                                    &(ls_op_spec){.type = LS_OP_PLACEHOLDER,
                                                  .attrs = attrs,
                                                  .num_attrs = 2},
                                    NULL, 1);
    if (node == NULL) return ls_out_of_memory();
    node->outputs[0] = type;
    ls_node_take_name(node, from, ls_graph_node_of(from, ref));
    LS_RETURN_IF_ERROR(ls_copying_set(c, ref, ls_ref(node->id, 0)));
  }
  return ls_ok();
}

static void add_target(const ls_copying *c, uint64_t id, ls_gathered *out) {
  const uint64_t copy = (uintptr_t)ls_map_find_u64(&c->ids, id);
  if (copy != 0) out->targets[out->num_targets++] = (ls_op){c->to, copy};
}

static ls_status translate(ls_copying *c, const ls_gather_request *request,
                           ls_gathered *out) {
  LS_ARENA_SET_OR_RETURN(c->memory, uint64_t, out->fetches,
                         request->num_fetches + 1);
  LS_ARENA_SET_OR_RETURN(c->memory, uint64_t, out->feeds,
                         request->num_feeds + 1);
  LS_ARENA_SET_OR_RETURN(c->memory, ls_op, out->targets,
                         request->num_targets + c->from->num_nodes + 1);
  for (size_t i = 0; i < request->num_fetches; ++i)
    LS_RETURN_IF_ERROR(
        ls_copied(c, NULL, request->fetches[i], &out->fetches[i]));
  for (size_t i = 0; i < request->num_feeds; ++i)
    LS_RETURN_IF_ERROR(ls_copied(c, NULL, request->feeds[i], &out->feeds[i]));
  for (size_t i = 0; i < request->num_targets; ++i)
    add_target(c, request->targets[i].id, out);
  for (size_t i = 0; i < c->from->num_nodes; ++i)
    if (c->level->needed[i] && c->level->cluster_of[i] != 0 &&
        ls_cluster_at(c, i) == NULL && ls_node_has_effects(c->from->nodes[i]))
      add_target(c, c->from->nodes[i]->id, out);
  return ls_ok();
}

static ls_status gather(ls_copying *c, const ls_gather_request *request,
                        ls_gathered *out) {
  LS_RETURN_IF_ERROR(add_feeds(c, request));
  LS_RETURN_IF_ERROR(ls_copy_level(c, request));
  c->to->trains = c->from->trains;
  return translate(c, request, out);
}

ls_status ls_graph_gather(const ls_gather_request *request, ls_arena *memory,
                          ls_gathered *out) {
  ls_graph *from = ls_graph_resolve(request->graph);
  bool found = false;
  *out = (ls_gathered){0};
  LS_RETURN_IF_ERROR(look_for_marks(from, &found));
  if (!found) return ls_ok();
  LS_OWN(ls_held_graph, to) = NULL;
  LS_RETURN_IF_ERROR(
      ls_graph_make(from->kind, from->name, from->runtime, NULL, &to));
  LS_OWN(ls_gathering, c) = {0};
  LS_RETURN_IF_ERROR(ls_gather_begin(&c, NULL, from, to, memory));
  c.level->shows_copies = request->shows_copies;
  LS_RETURN_IF_ERROR(gather(&c, request, out));
  out->graph = ls_give(&to);
  return ls_ok();
}

ls_status ls_graph_find_needed(const ls_gather_request *request,
                               ls_arena *memory, const bool **out_needed) {
  LS_OWN(ls_gathering, c) = {0};
  *out_needed = NULL;
  LS_RETURN_IF_ERROR(
      ls_gather_begin(&c, NULL, request->graph, request->graph, memory));
  for (size_t i = 0; i < request->num_feeds; ++i)
    LS_RETURN_IF_ERROR(
        ls_copying_set(&c, request->feeds[i], request->feeds[i]));
  LS_RETURN_IF_ERROR(ls_find_clusters(&c));
  LS_RETURN_IF_ERROR(ls_find_needed(&c, request));
  *out_needed = c.level->needed;
  return ls_ok();
}

ls_status ls_graph_print_gathered(const ls_graph *graph, char **out_text) {
  LS_REQUIRE_OUT(out_text, graph);
  ls_graph *from = ls_graph_resolve((ls_graph *)(uintptr_t)graph);
  const ls_gather_request request = {.graph = from,
                                     .fetches = from->results,
                                     .num_fetches = from->num_results,
                                     .feeds = from->parameters,
                                     .num_feeds = from->num_declared,
                                     .effects_are_roots = true,
                                     .shows_copies = true};
  ls_gathered gathered;
  LS_OWN(ls_arena, memory) = {.allocator = graph->allocator};
  LS_RETURN_IF_ERROR(ls_graph_gather(&request, &memory, &gathered));
  if (gathered.graph == NULL) return ls_graph_print(graph, out_text);
  LS_OWN(ls_held_graph, copy) = gathered.graph;
  LS_RETURN_IF_ERROR(
      ls_graph_set_results(copy, gathered.fetches, request.num_fetches));
  return ls_graph_print(copy, out_text);
}
