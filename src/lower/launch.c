// SPDX-License-Identifier: Apache-2.0
//
// Launches of replicated computations on a system's cores: see
// engine/backend.h.
#include "engine/backend.h"

#include "base/runtime_internal.h"
#include "graph/gather/gather.h"
#include "lower/ops.h"

static ls_node *find_in(ls_graph *graph, const char *name) {
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    ls_node *node = graph->nodes[i];
    if (node->type != LS_OP_TPU_REPLICATE_METADATA) continue;
    const char *mark = ls_node_mark(node, LS_MARK_REPLICATE);
    if (mark != NULL && strcmp(mark, name) == 0) return node;
  }
  return NULL;
}

// Finds the op with the computation's metadata: the replicate op, or, with one
// replica, the metadata op where it was built; NULL if there is none.
static ls_node *find_metadata(const ls_lower_scope *scope, ls_node *node,
                              const char *name) {
  if (node->type == LS_OP_REPLICATE) return node;
  ls_graph *graph = ls_graph_resolve(ls_node_source(scope->from, node).graph);
  for (; graph != NULL; graph = graph->parent) {
    ls_node *found = find_in(graph, name);
    if (found != NULL) return found;
  }
  return NULL;
}

// Finds a name in a text of zero-terminated names.
static bool launch_is_known(const ls_text *names, const char *name) {
  for (size_t at = 0; at < names->size; at += strlen(names->data + at) + 1)
    if (strcmp(names->data + at, name) == 0) return true;
  return false;
}

static ls_status launch_add(ls_lowering *all, const ls_node *metadata) {
  ls_program *program = all->program;
  ls_object *launch = NULL;
  LS_RETURN_IF_ERROR(
      all->runtime->launches->make(all->runtime, metadata, &launch));
  if (launch == NULL) return ls_ok();
  if (!ls_grow(all->allocator, &program->launches, &program->launches_capacity,
               program->num_launches + 1, sizeof(ls_object *))) {
    ls_object_release(launch);
    return ls_out_of_memory();
  }
  program->launches[program->num_launches++] = launch;
  return ls_ok();
}

ls_status ls_lower_launch(ls_lower_scope *scope, ls_node *node) {
  ls_lowering *all = scope->all;
  if (all->runtime->launches == NULL || scope->replicas > 0) return ls_ok();
  const char *name = ls_node_mark(node, LS_MARK_REPLICATE);
  if (name == NULL || launch_is_known(&all->launched, name)) return ls_ok();
  ls_text_append_bytes(&all->launched, name, strlen(name) + 1);
  LS_RETURN_IF_ERROR(ls_text_status(&all->launched));
  const ls_node *metadata = find_metadata(scope, node, name);
  return metadata == NULL ? ls_ok() : launch_add(all, metadata);
}
