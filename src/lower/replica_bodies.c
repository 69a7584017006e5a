// SPDX-License-Identifier: Apache-2.0
//
// Makes a body for each class of replicas, and finds the values that differ
// between replicas in lowered bodies.
#include <stdio.h>

#include "base/runtime_internal.h"
#include "graph/walk.h"
#include "lower/cut.h"

// ---- Common values ----------------------------------------------------------
// Finds the values of a replicate body that are the same on all replicas.
//
// Values that vary are marked, and marks are never removed: a value that varies
// in one iteration of a loop varies in all iterations. A region is visited
// again only when one more of its parameters varies.

// The marks of one graph.
typedef struct marks {
  const ls_graph *graph;
  size_t *first;  // By node position: index of its first result in `varies`.
  bool *varies;
  bool done;  // True if no parameter was marked since the last visit.
} marks;

void ls_common_values_init(ls_common_values *self, ls_allocator *allocator) {
  ls_arena_init(&self->memory, allocator);
  ls_map_init(&self->graphs, allocator);
}

void ls_common_values_deinit(ls_common_values *self) {
  ls_map_deinit(&self->graphs);
  ls_arena_deinit(&self->memory);
}

static marks *common_values_find(const ls_common_values *self,
                                 const ls_graph *graph) {
  return ls_map_find_u64(&self->graphs, graph->id);
}

static ls_status marks_of(ls_common_values *self, const ls_graph *graph,
                          marks **out) {
  *out = common_values_find(self, graph);
  if (*out != NULL) return ls_ok();
  LS_ARENA_NEW_OR_RETURN(&self->memory, marks, made);
  made->graph = graph;
  size_t count = 0;
  LS_ARENA_SET_OR_RETURN(&self->memory, size_t, made->first,
                         graph->num_nodes + 1);
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    made->first[i] = count;
    count += graph->nodes[i]->num_outputs;
  }
  made->varies = ls_arena_new_array(&self->memory, bool, count + 1);
  if (made->varies == NULL ||
      !ls_map_insert_u64(&self->graphs, graph->id, made))
    return ls_out_of_memory();
  *out = made;
  return ls_ok();
}

static bool *varies_at(const marks *m, uint64_t ref) {
  return &m->varies[m->first[ls_graph_position(m->graph, ls_ref_id(ref))] +
                    ls_ref_output(ref)];
}

static void mark_outputs(const marks *m, size_t place) {
  const ls_node *node = m->graph->nodes[place];
  for (uint32_t k = 0; k < node->num_outputs; ++k)
    m->varies[m->first[place] + k] = true;
}

static void mark_parameter(marks *m, size_t index) {
  bool *varies = varies_at(m, m->graph->parameters[index]);
  if (*varies) return;
  *varies = true;
  m->done = false;
}

static ls_status mark_graph(ls_common_values *self, marks *m);

// ---- Nodes -----------------------------------------------------------------
// Returns true if the op takes or returns a stack. Stacks cannot cross the
// boundary of replicas, so that a loop with a stack stays inside.
static bool node_has_stack(const ls_graph *graph, const ls_node *node) {
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    if (ls_is_stack(graph, node->inputs[i])) return true;
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    if (node->outputs[i].dtype == LS_DTYPE_VARIANT) return true;
  return false;
}

static bool takes_varying(const marks *m, const ls_node *node) {
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    if (*varies_at(m, node->inputs[i])) return true;
  return false;
}

// Marks all results of an op.
static void mark_whole(const marks *m, size_t place) {
  const ls_node *node = m->graph->nodes[place];
  if (takes_varying(m, node) || ls_node_any(node, ls_node_is_own))
    mark_outputs(m, place);
}

static ls_status mark_region(ls_common_values *self, const marks *m,
                             const ls_node *node, uint32_t r, marks **out) {
  const ls_graph *region = node->regions[r];
  const uint64_t *captured = node->inputs + ls_node_captures(node, r);
  LS_RETURN_IF_ERROR(marks_of(self, region, out));
  for (size_t i = 0; i < region->num_captures; ++i)
    if (*varies_at(m, captured[i]))
      mark_parameter(*out, region->num_declared + i);
  return ls_ok();
}

static ls_status mark_loop(ls_common_values *self, marks *m, size_t place) {
  const ls_node *node = m->graph->nodes[place];
  bool *round = &m->varies[m->first[place]];
  const uint32_t count = (uint32_t)ls_node_int(node, LS_ATTR_ID_NUM_CARRIED);
  marks *condition = NULL, *body = NULL;
  LS_RETURN_IF_ERROR(mark_region(self, m, node, 0, &condition));
  LS_RETURN_IF_ERROR(mark_region(self, m, node, 1, &body));
  for (uint32_t i = 0; i < count; ++i)
    round[i] |= *varies_at(m, node->inputs[i]);
  for (bool more = true; more;) {
    for (uint32_t i = 0; i < count; ++i) {
      if (!round[i]) continue;
      mark_parameter(condition, i);
      mark_parameter(body, i);
    }
    LS_RETURN_IF_ERROR(mark_graph(self, condition));
    LS_RETURN_IF_ERROR(mark_graph(self, body));
    if (*varies_at(condition, condition->graph->results[0])) {
      mark_outputs(m, place);
      return ls_ok();
    }
    more = false;
    for (uint32_t i = 0; i < count; ++i) {
      if (round[i] || !*varies_at(body, body->graph->results[i])) continue;
      round[i] = more = true;
    }
  }
  return ls_ok();
}

static ls_status mark_branches(ls_common_values *self, marks *m, size_t place) {
  const ls_node *node = m->graph->nodes[place];
  if (*varies_at(m, node->inputs[0])) {
    mark_outputs(m, place);
    return ls_ok();
  }
  for (uint32_t r = 0; r < node->num_regions; ++r) {
    marks *branch = NULL;
    LS_RETURN_IF_ERROR(mark_region(self, m, node, r, &branch));
    LS_RETURN_IF_ERROR(mark_graph(self, branch));
    for (uint32_t i = 0; i < node->num_outputs; ++i)
      m->varies[m->first[place] + i] |=
          *varies_at(branch, branch->graph->results[i]);
  }
  return ls_ok();
}

static ls_status mark_node(ls_common_values *self, marks *m, size_t place) {
  const ls_node *node = m->graph->nodes[place];
  if (node->type == LS_OP_PARAMETER || node->once ||
      (ls_node_info(node)->traits & LS_OP_MERGE))
    return ls_ok();
  if (node->type == LS_OP_WHILE && !node_has_stack(m->graph, node))
    return mark_loop(self, m, place);
  if (node->type == LS_OP_COND && !node_has_stack(m->graph, node))
    return mark_branches(self, m, place);
  mark_whole(m, place);
  return ls_ok();
}

// Marks stacks from which a varying value is taken, back to the op that makes
// them.
static bool mark_stacks(const marks *m) {
  bool found = false;
  for (size_t i = m->graph->num_nodes; i > 0; --i) {
    const ls_node *node = m->graph->nodes[i - 1];
    if (node->num_outputs == 0 || !m->varies[m->first[i - 1]]) continue;
    for (uint32_t k = 0; k < node->num_inputs; ++k) {
      const uint64_t ref = node->inputs[k];
      if (!ls_is_stack(m->graph, ref) || *varies_at(m, ref) ||
          ls_graph_node_of(m->graph, ref)->type == LS_OP_PARAMETER)
        continue;
      mark_outputs(m, ls_graph_position(m->graph, ls_ref_id(ref)));
      found = true;
    }
  }
  return found;
}

static ls_status mark_graph(ls_common_values *self, marks *m) {
  if (m->done) return ls_ok();
  m->done = true;
  do {
    for (size_t i = 0; i < m->graph->num_nodes; ++i)
      LS_RETURN_IF_ERROR(mark_node(self, m, i));
  } while (mark_stacks(m));
  return ls_ok();
}

// ---- Queries ---------------------------------------------------------------
// Finds common values in a body whose first `num_split` parameters differ.
static ls_status find_common_values(ls_common_values *self,
                                    const ls_graph *body, size_t num_split) {
  marks *m = NULL;
  LS_RETURN_IF_ERROR(marks_of(self, body, &m));
  for (size_t i = 0; i < num_split; ++i)
    mark_parameter(m, i);
  return mark_graph(self, m);
}

bool ls_value_varies(const ls_common_values *self, const ls_graph *graph,
                     uint64_t ref) {
  return *varies_at(common_values_find(self, graph), ref);
}

// Returns true if a region has a value that varies, or a merge.
static bool concerns_replicas(const ls_common_values *self,
                              const ls_graph *graph) {
  const marks *m = NULL;
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);) {
    const ls_node *node = walk.node;
    if (ls_node_info(node)->traits & (LS_OP_MERGE | LS_OP_ON_HOST)) return true;
    if (m == NULL || m->graph != walk.graph)
      m = common_values_find(self, walk.graph);
    for (uint32_t k = 0; m != NULL && k < node->num_outputs; ++k)
      if (*varies_at(m, ls_ref(node->id, k))) return true;
  }
  return false;
}

// Returns true if replicas may take different paths through a loop or branch
// that all of them reach.
static bool node_goes_apart(const ls_common_values *self, const ls_graph *graph,
                            const ls_node *node) {
  const ls_graph *first = node->regions[0];
  const bool is_loop = node->type == LS_OP_WHILE;
  if (common_values_find(self, is_loop ? first : graph) == NULL) return false;
  return is_loop ? ls_value_varies(self, first, first->results[0])
                 : ls_value_varies(self, graph, node->inputs[0]);
}

bool ls_node_leaves(const ls_common_values *self, const ls_graph *graph,
                    const ls_node *node) {
  if (node->once) return false;
  if (node->type == LS_OP_HOST) return true;
  if ((node->type != LS_OP_WHILE && node->type != LS_OP_COND) ||
      node_has_stack(graph, node) || node_goes_apart(self, graph, node))
    return false;
  return concerns_replicas(self, node->regions[0]) ||
         concerns_replicas(self, node->regions[1]);
}

// ---- Classes ---------------------------------------------------------------
static ls_shape split_shape(const ls_lower_replicas *self, size_t s, size_t r) {
  return ls_lowered_type(self->f->scope,
                         self->f->inputs.items[s * self->replicas + r])
      .shape;
}

static bool are_alike(const ls_lower_replicas *self, size_t a, size_t b) {
  for (size_t s = 0; s < self->num_split; ++s)
    if (!ls_shape_equal(split_shape(self, s, a), split_shape(self, s, b)))
      return false;
  return true;
}

void ls_lower_replicas_find_classes(ls_lower_replicas *self) {
  for (size_t r = 0; r < self->replicas; ++r) {
    size_t k = 0;
    while (k < self->num_classes && !are_alike(self, self->first[k], r))
      ++k;
    if (k == self->num_classes) self->first[self->num_classes++] = r;
    self->classes[r] = (int64_t)k;
  }
}

ls_status ls_lower_replicas_open_body(ls_lower_replicas *self, size_t k) {
  const ls_graph *from = self->f->node->regions[0];
  char name[32];
  snprintf(name, sizeof(name), k == 0 ? "replica" : "replica_%zu",
           self->first[k]);
  ls_lower_scope *inner = &self->bodies[k];
  LS_RETURN_IF_ERROR(
      ls_lower_flow_open(self->f, self->f->node->regions[0], name, inner));
  ++self->num_bodies;
  inner->replicas = (int32_t)self->replicas;
  inner->in_classes = self->num_classes > 1;
  inner->holder = self->f->node;
  if (self->f->scope->all->buckets != NULL) {
    inner->masks = ls_masks_create(inner);
    if (inner->masks == NULL) return ls_out_of_memory();
  }
  inner->bodies = self->bodies;
  inner->num_bodies = self->num_classes;
  inner->classes = self->classes;
  inner->replica = (int32_t)self->first[k];
  for (size_t s = 0; s < self->num_split; ++s) {
    const ls_type type = ls_lowered_type(
        self->f->scope,
        self->f->inputs.items[s * self->replicas + self->first[k]]);
    uint64_t ref = 0;
    LS_RETURN_IF_ERROR(ls_lower_flow_declare(inner, type, &ref));
    LS_RETURN_IF_ERROR(ls_lower_map(inner, from->parameters[s], ref));
  }
  for (size_t i = 0; i < self->own->count; ++i) {
    uint64_t ref = 0;
    ls_variable *variable = self->own->items[i];
    LS_RETURN_IF_ERROR(ls_lower_flow_declare(inner, variable->type, &ref));
    inner->own = self->own->items;
    inner->num_own = i + 1;
    LS_RETURN_IF_ERROR(ls_lower_set(inner, variable, ref));
  }
  return ls_lower_flow_map_captures(self->f, inner);
}

// ---- Values that differ ----------------------------------------------------
// Warns if replicas train on the same batch, which wastes their work: usually
// the batch was given to a strategy without being split.
static ls_status warn_of_equal_gradients(const ls_lower_replicas *self) {
  const ls_graph *from = ls_graph_resolve(self->f->node->regions[0]);
  const ls_graph *body = self->bodies[0].to;
  bool is_drawn = false;
  if (!from->trains || self->replicas < 2) return ls_ok();
  LS_OWN_ARRAY_OR_RETURN(self->f->scope->all->allocator, unsigned, sources,
                         body->num_nodes + 1);
  for (size_t i = 0; i < from->num_captures; ++i) {
    const uint64_t ref = ls_lowered(&self->bodies[0], from->captures[i].inner);
    if (ref != 0 && ls_graph_type(body, ref).shape.rank > 0)
      sources[ls_graph_position(body, ls_ref_id(ref))] = LS_OF_BATCH;
  }
  const ls_node *node = ls_find_equal_merges(
      body, self->num_split + self->own->count, sources, &is_drawn);
  if (node == NULL) return ls_ok();
  const char *name = self->f->scope->from->name;
  char place[300] = "";
  if (node->file != NULL)
    snprintf(place, sizeof(place), " at %s:%d", node->file, node->line);
  char key[600];  // One line for traces of all shapes.
  snprintf(key, sizeof(key), "equal gradients of '%s'%s", name, place);
  ls_log_limited(
      self->f->scope->to->runtime, key, 1, LS_LOG_WARNING, "distribute",
      "'%s' trains on the same examples on each of %zu replicas: their values "
      "in a collective%s %s, %zu times the work of one. Give each its "
      "part of the batch, by ls_dataset_parts(data, %zu) or ls_strategy_split",
      name, self->replicas, place,
      is_drawn ? "differ by random numbers alone" : "are equal", self->replicas,
      self->replicas);
  return ls_ok();
}

// Decides if the body is cut at ops that all replicas run together.
static ls_status find_cut(ls_lower_replicas *self) {
  const ls_graph *body = self->bodies[0].to;
  const ls_lowering *all = self->f->scope->all;
  // Without cutting, continues only if there are no steps, which must be
  // outside of the replicate ops.
  if (!ls_debug_cut(body->runtime) && all->num_step_flows == 0) return ls_ok();
  LS_RETURN_IF_ERROR(ls_can_cut(&self->values, body, &self->is_cut));
  for (size_t i = 0; i < all->num_step_flows && !self->is_cut; ++i)
    if (all->step_flows[i].node->varying)
      return ls_unimplemented(
          "%s, in which outside compiled ops write a variable, on several "
          "replicas together with values of %d dimensions, or between a loop "
          "and its gradient",
          ls_op_name(all->step_flows[i].source), LS_MAX_RANK);
  return ls_ok();
}

// Marks a loop or branch with steps as one to take apart, because replicas take
// different paths through it.
static ls_status note_apart(ls_lower_replicas *self, const ls_step_flow *flow) {
  ls_lowering *all = self->f->scope->all;
  for (size_t i = 0; i < all->num_apart; ++i)
    if (all->apart[i].graph == flow->source.graph &&
        all->apart[i].id == flow->source.id)
      return ls_ok();
  LS_PUSH_OR_RETURN(all->allocator, all->apart, all->num_apart,
                    all->apart_capacity, flow->source);
  self->goes_apart = true;
  return ls_ok();
}

static ls_status check_step_flows(ls_lower_replicas *self) {
  const ls_lowering *all = self->f->scope->all;
  for (size_t i = 0; i < all->num_step_flows; ++i) {
    const ls_step_flow *flow = &all->step_flows[i];
    if (node_has_stack(flow->graph, flow->node))
      return ls_unimplemented("the gradient of %s, in which outside compiled "
                              "ops write a variable, on several replicas",
                              ls_op_name(flow->source));
    if (node_goes_apart(&self->values, flow->graph, flow->node))
      LS_RETURN_IF_ERROR(note_apart(self, flow));
  }
  return self->goes_apart ? ls_internal("a step was left in a loop or branch")
                          : ls_ok();
}

bool ls_lower_replicas_varies(const ls_lower_replicas *self, uint64_t ref) {
  const ls_graph *body = self->bodies[0].to;
  return self->is_cut ? ls_value_varies(&self->values, body, ref)
                      : ls_graph_node_of(body, ref)->varying;
}

ls_status ls_lower_replicas_mark(ls_lower_replicas *self) {
  for (size_t k = 0; k < self->num_classes; ++k)
    ls_mark_varying(self->bodies[k].to, self->num_split + self->own->count);
  if (self->num_classes == 1) {
    LS_RETURN_IF_ERROR(find_common_values(&self->values, self->bodies[0].to,
                                          self->num_split + self->own->count));
    LS_RETURN_IF_ERROR(check_step_flows(self));
    LS_RETURN_IF_ERROR(warn_of_equal_gradients(self));
    return find_cut(self);
  }
  ls_allocator *allocator = self->f->scope->all->allocator;
  for (size_t k = 1; k < self->num_classes; ++k) {
    LS_SET_ARRAY_OR_RETURN(allocator, uint32_t, self->twins[k],
                           self->bodies[k].to->num_nodes + 1);
  }
  return ls_mark_classes(self->f->regions, self->num_classes, self->twins);
}
