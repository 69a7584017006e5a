// SPDX-License-Identifier: Apache-2.0
//
// Makes a body for each class of replicas, and finds the values that differ
// between replicas in lowered bodies.
#include <stdio.h>

#include "base/runtime_internal.h"
#include "lower/cut.h"

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
    LS_RETURN_IF_ERROR(ls_lower_write(inner, variable, ref));
  }
  return ls_lower_flow_map_captures(self->f, inner);
}

// ---- Values that differ ----------------------------------------------------
// Warns if replicas train on the same batch, which wastes their work: usually
// the batch was given to a strategy without being split.
static void warn_of_equal_gradients(const ls_lower_replicas *self) {
  const ls_graph *from = ls_graph_resolve(self->f->node->regions[0]);
  if (!from->trains || self->replicas < 2) return;
  const ls_node *node = ls_find_equal_merges(self->bodies[0].to);
  if (node == NULL) return;
  const char *name = self->f->scope->from->name;
  char place[300] = "";
  if (node->file != NULL)
    snprintf(place, sizeof(place), " at %s:%d", node->file, node->line);
  char key[600];  // One line for traces of all shapes.
  snprintf(key, sizeof(key), "equal gradients of '%s'%s", name, place);
  ls_log_limited(
      self->f->scope->to->runtime, key, 1, LS_LOG_WARNING, "distribute",
      "'%s' trains on the same examples on each of %zu replicas: their values "
      "in a collective%s are equal, %zu times the work of one. Give each its "
      "part of the batch, by ls_dataset_parts(data, %zu) or ls_strategy_split",
      name, self->replicas, place, self->replicas, self->replicas);
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
    if (ls_node_has_stack(flow->graph, flow->node))
      return ls_unimplemented("the gradient of %s, in which outside compiled "
                              "ops write a variable, on several replicas",
                              ls_op_name(flow->source));
    if (ls_node_goes_apart(&self->values, flow->graph, flow->node))
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
    LS_RETURN_IF_ERROR(ls_find_common_values(
        &self->values, self->bodies[0].to, self->num_split + self->own->count));
    LS_RETURN_IF_ERROR(check_step_flows(self));
    warn_of_equal_gradients(self);
    return find_cut(self);
  }
  ls_allocator *allocator = self->f->scope->all->allocator;
  for (size_t k = 1; k < self->num_classes; ++k) {
    self->twins[k] =
        ls_new_array(allocator, uint32_t, self->bodies[k].to->num_nodes + 1);
    if (self->twins[k] == NULL) return ls_out_of_memory();
  }
  return ls_mark_classes(self->f->regions, self->num_classes, self->twins);
}
