// SPDX-License-Identifier: Apache-2.0
//
// Labels that the host gives: inputs of the program and results of host calls,
// as they are or rearranged. They are checked before devices get them; others,
// which a program computes, give NaN where they are no classes.
#include "engine/pjrt/pjrt.h"
#include "graph/walk.h"

struct ls_pjrt_labels {
  struct ls_pjrt_labels *next;
  const ls_node *host;  // Call that gives the labels; NULL: an input.
  uint32_t index;       // Output of the call, or input of the program.
  ls_labels labels;
  const char *text;  // The op that uses them, with its line.
};

// A use of labels.
typedef struct use {
  ls_pjrt_executable *executable;
  ls_graph_walk walk;
  int64_t num_classes;
} use;

static ls_status add_labels(use *u, const ls_node *host, size_t index,
                            ls_type type) {
  ls_pjrt_executable *self = u->executable;
  char op[LS_MAX_FULL_NAME], place[LS_MAX_FULL_NAME];
  for (const ls_pjrt_labels *at = self->labels; at != NULL; at = at->next)
    if (at->host == host && at->index == index &&
        at->labels.num_classes == u->num_classes)
      return ls_ok();
  LS_ARENA_ARRAY_OR_RETURN(&self->arena, ls_pjrt_labels, made, 1);
  *made = (ls_pjrt_labels){
      .next = self->labels,
      .host = host,
      .index = (uint32_t)index,
      .labels = {type.dtype, ls_shape_num_elements(type.shape), u->num_classes},
      .text = ls_arena_format(
          &self->arena, "%s%s",
          ls_emit_describe_op(u->walk.graph, u->walk.node, op, sizeof(op)),
          ls_emit_describe_place(u->walk.graph, u->walk.node, place,
                                 sizeof(place)))};
  LS_RETURN_IF_NO_MEMORY(made->text != NULL);
  self->labels = made;
  return ls_ok();
}

static ls_status trace_labels(use *u, size_t level, uint64_t ref);

// Traces a region's parameter to the values that are given for it.
static ls_status trace_parameter(use *u, size_t level, size_t index) {
  const ls_graph *region = u->walk.levels[level].graph;
  const ls_node *holder = u->walk.levels[level].holder;
  const uint32_t r = u->walk.levels[level].region;
  if (holder->type == LS_OP_COND) return ls_ok();  // Perhaps not taken.
  if (index >= region->num_declared)
    return trace_labels(u, level - 1,
                        holder->inputs[ls_node_captures(holder, r) + index -
                                       region->num_declared]);
  if (holder->type != LS_OP_REPLICATE) return ls_ok();  // Differs by trip.
  const size_t replicas = (size_t)ls_node_int(holder, LS_ATTR_ID_REPLICAS);
  const size_t split = (size_t)ls_node_int(holder, LS_ATTR_ID_NUM_SPLIT);
  if (index >= split)
    return trace_labels(u, level - 1,
                        holder->inputs[split * replicas + index - split]);
  for (size_t i = 0; i < replicas; ++i)
    LS_RETURN_IF_ERROR(
        trace_labels(u, level - 1, holder->inputs[index * replicas + i]));
  return ls_ok();
}

// Traces labels to where all of them, and no others, come from.
static ls_status trace_labels(use *u, size_t level, uint64_t ref) {
  const ls_graph *graph = u->walk.levels[level].graph;
  const ls_type type = ls_graph_type(graph, ref);
  const ls_node *node = ls_graph_node_of(graph, ref);
  switch (node->type) {
  case LS_OP_RESHAPE:
  case LS_OP_TRANSPOSE:
  case LS_OP_BARRIER:
    return trace_labels(u, level, node->inputs[ls_ref_output(ref)]);
  case LS_OP_CONVERT: {
    const ls_dtype from = ls_graph_type(graph, node->inputs[0]).dtype;
    const bool is_wider = ls_dtype_size(from) < ls_dtype_size(type.dtype);
    return ls_dtype_is_float(from) || !is_wider
               ? ls_ok()
               : trace_labels(u, level, node->inputs[0]);
  }
  case LS_OP_HOST:
    return add_labels(u, node, ls_ref_output(ref), type);
  case LS_OP_PARAMETER: {
    const size_t index = (size_t)ls_node_int(node, LS_ATTR_ID_INDEX);
    if (level > 0) return trace_parameter(u, level, index);
    return index < u->executable->program->num_inputs
               ? add_labels(u, NULL, index, type)
               : ls_ok();
  }
  default:
    return ls_ok();
  }
}

ls_status ls_pjrt_find_labels(ls_pjrt_executable *self) {
  use u = {.executable = self};
  ls_graph_walk *walk = &u.walk;
  for (ls_graph_walk_begin(walk, self->program->body);
       ls_graph_walk_next(walk);) {
    const uint16_t type = walk->node->type;
    if (type != LS_OP_CROSS_ENTROPY && type != LS_OP_CROSS_ENTROPY_GRAD)
      continue;
    const ls_shape logits =
        ls_graph_type(walk->graph, walk->node->inputs[0]).shape;
    u.num_classes = logits.dim[logits.rank - 1];
    LS_RETURN_IF_ERROR(
        trace_labels(&u, walk->num_levels - 1, walk->node->inputs[1]));
  }
  return ls_ok();
}

ls_status ls_pjrt_check_labels(const ls_pjrt_executable *self,
                               const ls_emit_host *site,
                               const void *const *values, int32_t replicas) {
  for (const ls_pjrt_labels *at = self->labels; at != NULL; at = at->next) {
    if (at->host != (site != NULL ? site->node : NULL)) continue;
    ls_labels labels = at->labels;
    const size_t operand = site != NULL ? site->num_inputs + at->index : 0;
    if (site != NULL)
      labels.count = ls_shape_num_elements(site->types[operand].shape) *
                     (site->wide[operand] ? replicas : 1);
    LS_RETURN_IF_ERROR(ls_status_annotate(
        ls_labels_check(&labels, values[at->index]), "in %s", at->text));
  }
  return ls_ok();
}
