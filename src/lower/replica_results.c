// SPDX-License-Identifier: Apache-2.0
//
// Lists the results of replicas' bodies: results of the source and values of
// variables, one per replica or one for all.
#include "base/memory/own.h"
#include "lower/cut.h"

// Refuses stacks among a body's parameters and results.
static ls_status check_stacks(const ls_graph *body) {
  bool leaves = false;
  for (size_t i = 0; i < body->num_parameters; ++i)
    leaves |=
        ls_graph_type(body, body->parameters[i]).dtype == LS_DTYPE_VARIANT;
  for (size_t i = 0; i < body->num_results; ++i)
    leaves |= ls_graph_type(body, body->results[i]).dtype == LS_DTYPE_VARIANT;
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
  if (ls_lower_has_own(self->own, variable)) return ls_ok();
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

ls_status ls_lower_replicas_check_met(ls_lower_replicas *self) {
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

bool ls_lower_replicas_is_partial(const ls_lower_replicas *self,
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
    if (!common || ls_lower_replicas_is_partial(self, self->f->written[i]))
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

ls_status ls_lower_replicas_set_results(ls_lower_replicas *self) {
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

ls_status ls_lower_replicas_unify_written(ls_lower_replicas *self) {
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
