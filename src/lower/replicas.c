// SPDX-License-Identifier: Apache-2.0
//
// Lowers replicate ops.
#include "base/memory/own.h"
#include "lower/cut.h"

// ---- Results ----------------------------------------------------------------
// Lists the results of replicas' bodies: results of the source and values of
// variables, one per replica or one for all.

// Refuses stacks among a body's parameters and results.
static ls_status check_stacks(const ls_graph *body) {
  bool leaves = false;
  for (size_t i = 0; i < body->num_parameters; ++i)
    leaves |= ls_is_stack(body, body->parameters[i]);
  for (size_t i = 0; i < body->num_results; ++i)
    leaves |= ls_is_stack(body, body->results[i]);
  if (!leaves) return ls_ok();
  return ls_unimplemented("a loop is on one side of a boundary of replicas and "
                          "its gradient on the other; a stack cannot cross it");
}

// Returns true if refs, one in each body, stand for one value that is the same
// for all replicas.
static bool is_common(const ls_lower_replicas *self, const uint64_t *refs) {
  const ls_graph *first = self->bodies[0].to;
  const size_t place = ls_graph_position(first, ls_ref_id(refs[0]));
  if (ls_lower_replicas_varies(self, refs[0])) return false;
  for (size_t k = 1; k < self->num_classes; ++k)
    if (self->twins[k][ls_graph_position(self->bodies[k].to,
                                         ls_ref_id(refs[k]))] != place ||
        ls_ref_output(refs[k]) != ls_ref_output(refs[0]))
      return false;
  return true;
}

static ls_status push_all(ls_ref_list *lists, const uint64_t *refs,
                          size_t count) {
  for (size_t k = 0; k < count; ++k)
    LS_RETURN_IF_ERROR(ls_ref_list_push(&lists[k], refs[k]));
  return ls_ok();
}

// Finds refs, one in each body, in the lists; returns the end if they are not
// listed.
static size_t find_listed(const ls_ref_list *lists, const uint64_t *refs,
                          size_t count) {
  for (size_t i = 0; i < lists[0].count; ++i) {
    size_t k = 0;
    while (k < count && lists[k].items[i] == refs[k])
      ++k;
    if (k == count) return i;
  }
  return lists[0].count;
}

// Lists the results of the source that are common or, if not `common`, the
// others.
static ls_status list_some(ls_lower_replicas *self, bool common,
                           ls_ref_list *lists, uint64_t *refs) {
  const ls_graph *from = self->f->node->regions[0];
  for (size_t i = 0; i < from->num_results; ++i) {
    for (size_t k = 0; k < self->num_classes; ++k) {
      refs[k] = ls_lowered(&self->bodies[k], from->results[i]);
      LS_RETURN_IF_ERROR(ls_mask_check_result(&self->bodies[k], refs[k]));
    }
    if (is_common(self, refs) != common) continue;
    self->place[i] = find_listed(lists, refs, self->num_classes);
    if (self->place[i] < lists[0].count) continue;
    LS_RETURN_IF_ERROR(push_all(lists, refs, self->num_classes));
  }
  return ls_ok();
}

// Records that a variable is written with a value that differs by replica.
static ls_status note_differing(ls_lower_replicas *self,
                                ls_variable *variable) {
  if (variable->container != NULL) variable = variable->container;
  if (ls_lower_lists(self->own->items, self->own->count, variable))
    return ls_ok();
  if (variable->num_components == self->replicas ||
      (variable->num_components > 0 &&
       ls_lower_core_copies(self->f->node, variable) != NULL))
    self->differs = variable;
  return ls_unimplemented(
      "variable '%s' is written with a value that differs between replicas, "
      "and is one for all of them; merge it first, for instance with "
      "ls_all_reduce, or make it under the strategy",
      variable->name);
}

// Checks that values that merges have read as common values are the same on all
// replicas.
static ls_status check_met(ls_lower_replicas *self) {
  const ls_lowering *all = self->f->scope->all;
  for (size_t i = 0; i < all->num_met; ++i) {
    const ls_met_value *met = &all->met[i];
    if (met->body == self->bodies[0].to
            ? !ls_lower_replicas_varies(self, met->ref)
            : !ls_graph_node_of(met->body, met->ref)->varying)
      continue;
    LS_RETURN_IF_ERROR(note_differing(self, met->variable));
    return ls_internal("a merge uses each replica's value of '%s'",
                       met->variable->name);
  }
  return ls_ok();
}

// Returns true if only some of the variable's components are on cores of
// replicas. The other components keep their values.
static bool is_partial(const ls_lower_replicas *self,
                       const ls_variable *variable) {
  return variable->num_components > self->replicas &&
         ls_lower_core_copies(self->f->node, variable) != NULL;
}

static ls_status list_written(ls_lower_replicas *self, bool common,
                              ls_ref_list *lists, uint64_t *refs) {
  for (size_t i = 0; i < self->f->num_written; ++i) {
    for (size_t k = 0; k < self->num_classes; ++k)
      LS_RETURN_IF_ERROR(
          ls_lower_read(&self->bodies[k], self->f->written[i], &refs[k]));
    if (is_common(self, refs) != common) continue;
    if (!common || is_partial(self, self->f->written[i]))
      LS_RETURN_IF_ERROR(note_differing(self, self->f->written[i]));
    self->written_place[i] = lists[0].count;
    LS_RETURN_IF_ERROR(push_all(lists, refs, self->num_classes));
  }
  return ls_ok();
}

// Sets the results of the bodies in their final order: those that differ, then
// the common ones. In both groups the source's results come first, then written
// variables.
static ls_status set_listed_results(ls_lower_replicas *self, ls_ref_list *lists,
                                    uint64_t *refs) {
  LS_RETURN_IF_ERROR(list_some(self, false, lists, refs));
  LS_RETURN_IF_ERROR(list_written(self, false, lists, refs));
  self->num_gathered = lists[0].count;
  LS_RETURN_IF_ERROR(list_some(self, true, lists, refs));
  LS_RETURN_IF_ERROR(list_written(self, true, lists, refs));
  for (size_t k = 0; k < self->num_classes; ++k) {
    LS_RETURN_IF_ERROR(ls_graph_set_results(self->bodies[k].to, lists[k].items,
                                            lists[k].count));
    LS_RETURN_IF_ERROR(check_stacks(self->bodies[k].to));
  }
  return ls_ok();
}

static ls_status set_results(ls_lower_replicas *self) {
  ls_allocator *allocator = self->f->scope->all->allocator;
  const size_t count = self->num_classes;
  LS_OWN_ARRAY_OR_RETURN(allocator, uint64_t, refs, count);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_ref_list, lists, count);
  for (size_t k = 0; k < count; ++k)
    lists[k].allocator = allocator;
  const ls_status status = set_listed_results(self, lists, refs);
  for (size_t k = 0; k < count; ++k)
    ls_release(allocator, lists[k].items);
  return status;
}

// Replaces a value by replica 0's value, for all replicas.
static ls_status take_first(ls_lower_replicas *self, uint64_t *ref) {
  ls_lower_scope *scope = &self->bodies[0];
  const ls_shape shape = ls_lowered_type(scope, *ref).shape;
  const int64_t count = ls_shape_num_elements(shape);
  LS_ARENA_ARRAY_OR_RETURN(&scope->to->arena, int64_t, rows, self->replicas);
  for (size_t r = 0; r < self->replicas; ++r)
    rows[r] = count;
  LS_RETURN_IF_ERROR(ls_lower_flatten(scope, *ref, NULL, ref));
  LS_RETURN_IF_ERROR(ls_lower_gather_all(scope, *ref, rows,
                                         (int32_t)self->replicas, NULL, ref));
  LS_RETURN_IF_ERROR(ls_lower_elements(scope, *ref, 0, count, NULL, ref));
  return ls_lower_reshape(scope, *ref, shape, NULL, ref);
}

// Uses replica 0's value of written variables that are the same on all
// replicas, in a body that is not cut: there, a loop with one differing value
// counts as differing as a whole.
static ls_status unify_written(ls_lower_replicas *self) {
  ls_graph *body = self->bodies[0].to;
  if (self->is_cut || self->num_classes > 1) return ls_ok();
  for (size_t i = 0; i < self->f->num_written; ++i) {
    ls_variable *variable = self->f->written[i];
    uint64_t ref = 0;
    if (variable->num_components > 0 || variable->container != NULL) continue;
    LS_RETURN_IF_ERROR(ls_lower_read(&self->bodies[0], variable, &ref));
    if (!ls_graph_node_of(body, ref)->varying ||
        ls_value_varies(&self->values, body, ref))
      continue;
    LS_RETURN_IF_ERROR(take_first(self, &ref));
    LS_RETURN_IF_ERROR(ls_lower_write(&self->bodies[0], variable, ref));
    ls_mark_varying(body, self->num_split + self->own->count);
  }
  return ls_ok();
}

// ---- The op ----------------------------------------------------------------
static ls_status replicas_append(ls_lower_replicas *self) {
  const ls_attr attrs[] = {
      LS_OWN_I(REPLICAS, (int64_t)self->replicas),
      LS_OWN_I(NUM_SPLIT, (int64_t)(self->num_split + self->own->count)),
      LS_OWN_I(NUM_GATHERED, (int64_t)self->num_gathered),
      LS_OWN_IS(CLASSES, self->classes, self->replicas)};
  ls_node *made = NULL;
  LS_RETURN_IF_ERROR(ls_lower_flow_append(
      self->f, attrs, self->num_classes > 1 ? 4 : 3, &made));
  for (uint32_t i = 0; i < made->num_outputs; ++i)
    self->outputs[i] = ls_ref(made->id, i);
  return ls_ok();
}

// Appends the ops that a cut body becomes.
static ls_status append_cut(ls_lower_replicas *self) {
  ls_lower_flow *f = self->f;
  ls_graph *body = self->bodies[0].to;
  LS_RETURN_IF_ERROR(ls_ref_list_push_captures(&f->inputs, &body, 1));
  return ls_cut_replicas(
      &(ls_cut_request){.values = &self->values,
                        .body = body,
                        .to = f->scope->to,
                        .replicas = (uint32_t)self->replicas,
                        .num_split = self->num_split + self->own->count,
                        .num_gathered = self->num_gathered,
                        .inputs = f->inputs.items,
                        .outputs = self->outputs,
                        .origin = f->node,
                        .from = f->scope->from});
}

// Lists the split arguments, then the variables with a value for each replica.
static ls_status replicas_list_inputs(ls_lower_replicas *self) {
  ls_lower_flow *f = self->f;
  for (size_t i = 0; i < self->num_split * self->replicas; ++i)
    LS_RETURN_IF_ERROR(
        ls_ref_list_push(&f->inputs, ls_lowered(f->scope, f->node->inputs[i])));
  for (size_t i = 0; i < self->own->count; ++i)
    for (size_t r = 0; r < self->replicas; ++r) {
      uint64_t ref = 0;
      LS_RETURN_IF_ERROR(ls_lower_read(
          f->scope, ls_lower_component_of(f->node, self->own->items[i], r),
          &ref));
      LS_RETURN_IF_ERROR(ls_ref_list_push(&f->inputs, ref));
    }
  return ls_ok();
}

static ls_status lower_bodies(ls_lower_replicas *self) {
  LS_RETURN_IF_ERROR(replicas_list_inputs(self));
  ls_lower_replicas_find_classes(self);
  for (size_t k = 0; k < self->num_classes; ++k)
    LS_RETURN_IF_ERROR(ls_lower_replicas_open_body(self, k));
  LS_RETURN_IF_ERROR(ls_lower_flow_lower(self->bodies, self->num_classes));
  // Reads the written variables first, because that may add nodes to the
  // bodies.
  for (size_t i = 0; i < self->f->num_written; ++i)
    for (size_t k = 0; k < self->num_classes; ++k) {
      uint64_t unused = 0;
      LS_RETURN_IF_ERROR(
          ls_lower_read(&self->bodies[k], self->f->written[i], &unused));
    }
  LS_RETURN_IF_ERROR(ls_lower_replicas_mark(self));
  LS_RETURN_IF_ERROR(unify_written(self));
  LS_RETURN_IF_ERROR(check_met(self));
  return set_results(self);
}

// Returns the number of the first output for result `at`.
static size_t output_of(const ls_lower_replicas *self, size_t at) {
  const size_t gathered = self->num_gathered;
  return at < gathered ? at * self->replicas
                       : gathered * self->replicas + (at - gathered);
}

// Sets the variables' new values to the results of the op.
static ls_status take_written(const ls_lower_replicas *self) {
  ls_lower_flow *f = self->f;
  for (size_t i = 0; i < f->num_written; ++i) {
    const size_t at = self->written_place[i];
    const uint64_t *refs = &self->outputs[output_of(self, at)];
    const bool is_gathered = at < self->num_gathered;
    if (!is_gathered && !is_partial(self, f->written[i])) {
      LS_RETURN_IF_ERROR(ls_lower_write(f->scope, f->written[i], refs[0]));
      continue;
    }
    for (size_t r = 0; r < self->replicas; ++r)
      LS_RETURN_IF_ERROR(ls_lower_write(
          f->scope, ls_lower_component_of(f->node, f->written[i], r),
          refs[is_gathered ? r : 0]));
  }
  return ls_ok();
}

static ls_status lower_all(ls_lower_replicas *self) {
  ls_lower_flow *f = self->f;
  LS_RETURN_IF_ERROR(lower_bodies(self));
  const size_t num_results = self->bodies[0].to->num_results;
  LS_SET_ARRAY_OR_RETURN(f->scope->all->allocator, uint64_t, self->outputs,
                         output_of(self, num_results) + 1);
  LS_RETURN_IF_ERROR(self->is_cut ? append_cut(self) : replicas_append(self));
  for (size_t i = 0; i < f->node->num_outputs; ++i) {
    const size_t at = self->place[i / self->replicas];
    const uint64_t ref =
        self->outputs[output_of(self, at) +
                      (at < self->num_gathered ? i % self->replicas : 0)];
    LS_RETURN_IF_ERROR(
        ls_lower_map(f->scope, ls_ref(f->node->id, (unsigned)i), ref));
  }
  return take_written(self);
}

// Counts a write of a component as a write of the variable, if each replica has
// its own value.
static void write_own_as_whole(ls_lower_replicas *self) {
  ls_lower_flow *f = self->f;
  size_t count = 0;
  for (size_t i = 0; i < f->num_written; ++i) {
    ls_variable *variable = f->written[i];
    if (variable->container != NULL &&
        ls_lower_lists(self->own->items, self->own->count, variable->container))
      variable = variable->container;
    if (!ls_lower_lists(f->written, count, variable))
      f->written[count++] = variable;
  }
  f->num_written = count;
}

static ls_status replicas_begin(ls_lower_replicas *self) {
  const ls_node *node = self->f->node;
  ls_allocator *allocator = self->f->scope->all->allocator;
  const size_t replicas = (size_t)ls_node_int(node, LS_ATTR_ID_REPLICAS);
  self->replicas = replicas;
  self->f->scope->all->num_met = 0;
  self->f->scope->all->num_step_flows = 0;
  write_own_as_whole(self);
  self->num_split = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_SPLIT);
  ls_common_values_init(&self->values, allocator);
  self->classes = ls_new_array(allocator, int64_t, replicas);
  self->first = ls_new_array(allocator, size_t, replicas);
  self->bodies = ls_new_array(allocator, ls_lower_scope, replicas);
  self->twins = ls_new_array(allocator, uint32_t *, replicas);
  self->place =
      ls_new_array(allocator, size_t, node->regions[0]->num_results + 1);
  self->written_place =
      ls_new_array(allocator, size_t, self->f->num_written + 1);
  LS_RETURN_IF_NO_MEMORY(self->classes != NULL && self->first != NULL &&
                         self->bodies != NULL && self->twins != NULL &&
                         self->place != NULL && self->written_place != NULL);
  return ls_ok();
}

static void replicas_end(ls_lower_replicas *self) {
  ls_allocator *allocator = self->f->scope->all->allocator;
  for (size_t k = 0; k < self->num_bodies; ++k)
    ls_lower_scope_deinit(&self->bodies[k]);
  for (size_t k = 1; self->twins != NULL && k < self->num_classes; ++k)
    ls_release(allocator, self->twins[k]);
  ls_release(allocator, self->classes);
  ls_release(allocator, self->first);
  ls_release(allocator, self->bodies);
  ls_release(allocator, self->twins);
  ls_release(allocator, self->place);
  ls_release(allocator, self->written_place);
  ls_release(allocator, self->outputs);
  ls_common_values_deinit(&self->values);
}
LS_OWNED_STRUCT(ls_lower_replicas, replicas_end)

// Lowers the op. `*out_again` is true if it must be lowered again, with one
// more variable with a value for each replica, or with loops and branches taken
// apart.
static ls_status lower_with(ls_lower_scope *scope, ls_node *node,
                            ls_lower_own *own, bool *out_again) {
  *out_again = false;
  LS_OWN(ls_lower_flow, f) = {.scope = scope};
  LS_OWN(ls_lower_replicas, self) = {.f = &f, .own = own};
  LS_RETURN_IF_ERROR(ls_lower_flow_begin(&f, scope, node));
  LS_RETURN_IF_ERROR(replicas_begin(&self));
  const ls_status status = lower_all(&self);
  *out_again = self.differs != NULL || self.goes_apart;
  if (!*out_again) return status;
  ls_status_free(status);
  return self.differs != NULL
             ? ls_lower_add_own(own, scope->all->allocator, self.differs)
             : ls_ok();
}

ls_status lower_replicate(ls_lower_scope *scope, ls_node *node) {
  if (scope->replicas > 0 || scope->in_merge)
    return ls_invalid_argument(
        "replicas inside replicas: a replicated body cannot contain another");
  const size_t replicas = (size_t)ls_node_int(node, LS_ATTR_ID_REPLICAS);
  ls_lower_own own = {0};
  LS_OWN_FIELD(scope->all->allocator, own.items);
  ls_program *program = scope->all->program;
  if ((int32_t)replicas > program->replicas)
    program->replicas = (int32_t)replicas;
  LS_RETURN_IF_ERROR(
      ls_lower_find_own(scope, node->regions[0], replicas, &own));
  for (bool again = true; again;)
    LS_RETURN_IF_ERROR(lower_with(scope, node, &own, &again));
  return ls_ok();
}
