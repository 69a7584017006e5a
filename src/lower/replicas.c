// SPDX-License-Identifier: Apache-2.0
//
// How replicate ops are lowered: bodies for classes of replicas, and what each
// replica gives.
#include <stdio.h>

#include "base/runtime_internal.h"
#include "graph/passes/twins.h"
#include "lower/cut.h"
#include "lower/flow.h"

// Stacks stay inside of a replica.
static ls_status check_stacks(const ls_graph *body) {
  bool leaves = false;
  for (size_t i = 0; i < body->num_parameters; ++i)
    leaves |=
        ls_graph_type(body, body->parameters[i]).dtype == LS_DTYPE_VARIANT;
  for (size_t i = 0; i < body->num_results; ++i)
    leaves |= ls_graph_type(body, body->results[i]).dtype == LS_DTYPE_VARIANT;
  if (!leaves) return ls_ok();
  return ls_unimplemented(
      "a loop stands on one side of a border of replicas and its gradient on "
      "the other; a stack does not cross it");
}

// A replicate op on its way. Replicas whose arguments have the same shapes are
// a class and run one body; what the bodies have in common is computed once.
typedef struct replicate {
  ls_lower_flow *f;
  size_t replicas, num_split;
  int64_t *classes;  // Of each replica.
  size_t *first;     // Of each class, its first replica.
  size_t num_classes;
  ls_lower_scope *bodies;
  size_t num_bodies;      // That were opened.
  uint32_t **twins;       // Of each body but the first: see ls_find_twins.
  size_t *place;          // Where result i of the source went,
  size_t *written_place;  // and the value of written variable i.
  size_t num_gathered;
  // Variables of which each replica has a value of its own: a split argument,
  // and a result of each. Found one after another.
  const ls_lower_own *own;
  ls_variable *differs;  // Not in that list, and to be: it is all anew.
  bool goes_apart;       // So it is with a loop or branch to be taken apart.
  // What the body is cut by, if it is.
  ls_common_values values;
  bool is_cut;
  uint64_t *outputs;  // Of the op, or of what it was cut into.
} replicate;

// ---- Classes ---------------------------------------------------------------
static ls_shape split_shape(const replicate *self, size_t s, size_t r) {
  return ls_lowered_type(self->f->scope,
                         self->f->inputs.items[s * self->replicas + r])
      .shape;
}

static bool are_alike(const replicate *self, size_t a, size_t b) {
  for (size_t s = 0; s < self->num_split; ++s)
    if (!ls_shape_equal(split_shape(self, s, a), split_shape(self, s, b)))
      return false;
  return true;
}

static void find_classes(replicate *self) {
  for (size_t r = 0; r < self->replicas; ++r) {
    size_t k = 0;
    while (k < self->num_classes && !are_alike(self, self->first[k], r))
      ++k;
    if (k == self->num_classes) self->first[self->num_classes++] = r;
    self->classes[r] = (int64_t)k;
  }
}

static ls_status open_body(replicate *self, size_t k) {
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

// Replicas that train on the same batch each do the whole work for nothing:
// mostly a batch was given to a strategy without having been split.
static void warn_of_equal_gradients(const replicate *self) {
  const ls_graph *from = ls_graph_resolve(self->f->node->regions[0]);
  if (!from->trains || self->replicas < 2) return;
  const ls_node *node = ls_find_equal_merges(self->bodies[0].to);
  if (node == NULL) return;
  const char *name = self->f->scope->from->name;
  char place[300] = "";
  if (node->file != NULL)
    snprintf(place, sizeof(place), " at %s:%d", node->file, node->line);
  char key[600];  // Another trace of the same is for other shapes.
  snprintf(key, sizeof(key), "equal gradients of '%s'%s", name, place);
  ls_log_limited(
      self->f->scope->to->runtime, key, 1, LS_LOG_WARNING, "distribute",
      "'%s' trains on the same examples on each of %zu replicas: what they put "
      "together%s is equal on all, %zu times the work of one. Give each its "
      "part of "
      "the batch, by "
      "ls_dataset_parts(data, %zu) or ls_strategy_split",
      name, self->replicas, place, self->replicas, self->replicas);
}

// Whether what all replicas come to together is to be cut out of the body.
static ls_status find_cut(replicate *self) {
  const ls_graph *body = self->bodies[0].to;
  const ls_lowering *all = self->f->scope->all;
  // Steps must stand around.
  if (!ls_debug_cut(body->runtime) && all->num_step_flows == 0) return ls_ok();
  LS_RETURN_IF_ERROR(ls_can_cut(&self->values, body, &self->is_cut));
  for (size_t i = 0; i < all->num_step_flows && !self->is_cut; ++i)
    if (all->step_flows[i].node->varying)
      return ls_unimplemented(
          "%s, in which outside compiled ops write a variable, on several "
          "replicas beside values of %d dimensions, or between a loop and its "
          "gradient",
          ls_op_name(all->step_flows[i].source), LS_MAX_RANK);
  return ls_ok();
}

// A loop or branch with steps in it through which replicas go in own ways is to
// be taken apart.
static ls_status note_apart(replicate *self, const ls_step_flow *flow) {
  ls_lowering *all = self->f->scope->all;
  for (size_t i = 0; i < all->num_apart; ++i)
    if (all->apart[i].graph == flow->source.graph &&
        all->apart[i].id == flow->source.id)
      return ls_ok();
  if (!ls_grow(all->allocator, &all->apart, &all->apart_capacity,
               all->num_apart + 1, sizeof(*all->apart)))
    return ls_out_of_memory();
  all->apart[all->num_apart++] = flow->source;
  self->goes_apart = true;
  return ls_ok();
}

static ls_status check_step_flows(replicate *self) {
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

// Whether a value of the first body differs between replicas.
static bool varies(const replicate *self, uint64_t ref) {
  const ls_graph *body = self->bodies[0].to;
  return self->is_cut ? ls_value_varies(&self->values, body, ref)
                      : ls_graph_node_of(body, ref)->varying;
}

static ls_status mark(replicate *self) {
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

// ---- Results ---------------------------------------------------------------
// Whether refs, one of each body, are one value.
static bool is_common(const replicate *self, const uint64_t *refs) {
  const ls_graph *first = self->bodies[0].to;
  const size_t place = ls_graph_position(first, ls_ref_id(refs[0]));
  if (varies(self, refs[0])) return false;
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

// Where refs, one of each body, are listed already, or the end.
static size_t find_all(const ls_ref_list *lists, const uint64_t *refs,
                       size_t count) {
  for (size_t i = 0; i < lists[0].count; ++i) {
    size_t k = 0;
    while (k < count && lists[k].items[i] == refs[k])
      ++k;
    if (k == count) return i;
  }
  return lists[0].count;
}

// The results of the source that are common, or those that are not.
static ls_status list_some(replicate *self, bool common, ls_ref_list *lists,
                           uint64_t *refs) {
  const ls_graph *from = self->f->node->regions[0];
  for (size_t i = 0; i < from->num_results; ++i) {
    for (size_t k = 0; k < self->num_classes; ++k) {
      refs[k] = ls_lowered(&self->bodies[k], from->results[i]);
      LS_RETURN_IF_ERROR(ls_mask_check_result(&self->bodies[k], refs[k]));
    }
    if (is_common(self, refs) != common) continue;
    self->place[i] = find_all(lists, refs, self->num_classes);
    if (self->place[i] < lists[0].count) continue;
    LS_RETURN_IF_ERROR(push_all(lists, refs, self->num_classes));
  }
  return ls_ok();
}

// A variable is written with a value that differs between replicas.
static ls_status note_differing(replicate *self, ls_variable *variable) {
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

// What merges have read as one value for all is one.
static ls_status check_met(replicate *self) {
  const ls_lowering *all = self->f->scope->all;
  for (size_t i = 0; i < all->num_met; ++i) {
    const ls_met_value *met = &all->met[i];
    if (met->body == self->bodies[0].to
            ? !varies(self, met->ref)
            : !ls_graph_node_of(met->body, met->ref)->varying)
      continue;
    LS_RETURN_IF_ERROR(note_differing(self, met->variable));
    return ls_internal("a merge uses what '%s' is on each replica",
                       met->variable->name);
  }
  return ls_ok();
}

// Replicas are on the cores of some of its components only: the others keep
// what they have.
static bool is_partial(const replicate *self, const ls_variable *variable) {
  return variable->num_components > self->replicas &&
         ls_lower_core_copies(self->f->node, variable) != NULL;
}

static ls_status list_written(replicate *self, bool common, ls_ref_list *lists,
                              uint64_t *refs) {
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

// The bodies' results in their final order: what differs, then what is the same
// everywhere; of both, results of the source and written variables.
static ls_status list_results(replicate *self, ls_ref_list *lists,
                              uint64_t *refs) {
  LS_RETURN_IF_ERROR(list_some(self, false, lists, refs));
  LS_RETURN_IF_ERROR(list_written(self, false, lists, refs));
  self->num_gathered = lists[0].count;
  LS_RETURN_IF_ERROR(list_some(self, true, lists, refs));
  return list_written(self, true, lists, refs);
}

static ls_status set_results(replicate *self) {
  ls_allocator *allocator = self->f->scope->all->allocator;
  const size_t count = self->num_classes;
  ls_ref_list *lists = ls_new_array(allocator, ls_ref_list, count);
  uint64_t *refs = ls_new_array(allocator, uint64_t, count);
  ls_status status =
      lists == NULL || refs == NULL ? ls_out_of_memory() : ls_ok();
  for (size_t k = 0; lists != NULL && k < count; ++k)
    lists[k].allocator = allocator;
  if (ls_status_is_ok(status)) status = list_results(self, lists, refs);
  for (size_t k = 0; lists != NULL && k < count; ++k) {
    if (ls_status_is_ok(status))
      status = ls_graph_set_results(self->bodies[k].to, lists[k].items,
                                    lists[k].count);
    if (ls_status_is_ok(status)) status = check_stacks(self->bodies[k].to);
    ls_release(allocator, lists[k].items);
  }
  ls_release(allocator, lists);
  ls_release(allocator, refs);
  return status;
}

// ---- The op ----------------------------------------------------------------
static ls_status append(replicate *self) {
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

// The same as several ops.
static ls_status append_cut(replicate *self) {
  ls_lower_flow *f = self->f;
  ls_graph *body = self->bodies[0].to;
  for (size_t i = 0; i < body->num_captures; ++i)
    LS_RETURN_IF_ERROR(
        ls_ref_list_push(&f->inputs, body->captures[i].outer.ref));
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

// The split arguments, then own variables.
static ls_status list_inputs(replicate *self) {
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

// What replica 0 has of a value, for all.
static ls_status take_first(replicate *self, uint64_t *ref) {
  ls_lower_scope *scope = &self->bodies[0];
  const ls_shape shape = ls_lowered_type(scope, *ref).shape;
  const int64_t count = ls_shape_num_elements(shape);
  int64_t *rows =
      ls_arena_new_array(&scope->to->arena, int64_t, self->replicas);
  if (rows == NULL) return ls_out_of_memory();
  for (size_t r = 0; r < self->replicas; ++r)
    rows[r] = count;
  LS_RETURN_IF_ERROR(ls_lower_flatten(scope, *ref, NULL, ref));
  LS_RETURN_IF_ERROR(ls_lower_gather_all(scope, *ref, rows,
                                         (int32_t)self->replicas, NULL, ref));
  LS_RETURN_IF_ERROR(ls_lower_elements(scope, *ref, 0, count, NULL, ref));
  return ls_lower_reshape(scope, *ref, shape, NULL, ref);
}

// Where a body is left whole, a loop of which something differs differs as a
// whole: of what is written and is the same on all, replica 0's is taken.
static ls_status unify_written(replicate *self) {
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

static ls_status lower_bodies(replicate *self) {
  LS_RETURN_IF_ERROR(list_inputs(self));
  find_classes(self);
  for (size_t k = 0; k < self->num_classes; ++k)
    LS_RETURN_IF_ERROR(open_body(self, k));
  LS_RETURN_IF_ERROR(ls_lower_flow_lower(self->bodies, self->num_classes));
  // Reading what was written may add to the bodies.
  for (size_t i = 0; i < self->f->num_written; ++i)
    for (size_t k = 0; k < self->num_classes; ++k) {
      uint64_t unused = 0;
      LS_RETURN_IF_ERROR(
          ls_lower_read(&self->bodies[k], self->f->written[i], &unused));
    }
  LS_RETURN_IF_ERROR(mark(self));
  LS_RETURN_IF_ERROR(unify_written(self));
  LS_RETURN_IF_ERROR(check_met(self));
  return set_results(self);
}

// The first output of result `at`.
static size_t output_of(const replicate *self, size_t at) {
  const size_t gathered = self->num_gathered;
  return at < gathered ? at * self->replicas
                       : gathered * self->replicas + (at - gathered);
}

// The variables' values behind the op.
static ls_status take_written(const replicate *self) {
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

static ls_status lower_all(replicate *self) {
  ls_lower_flow *f = self->f;
  LS_RETURN_IF_ERROR(lower_bodies(self));
  const size_t num_results = self->bodies[0].to->num_results;
  self->outputs = ls_new_array(f->scope->all->allocator, uint64_t,
                               output_of(self, num_results) + 1);
  if (self->outputs == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(self->is_cut ? append_cut(self) : append(self));
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

static bool is_listed(ls_variable *const *list, size_t count,
                      const ls_variable *variable) {
  for (size_t i = 0; i < count; ++i)
    if (list[i] == variable) return true;
  return false;
}

// Who writes a component of an own variable writes that.
static void write_own_as_whole(replicate *self) {
  ls_lower_flow *f = self->f;
  size_t count = 0;
  for (size_t i = 0; i < f->num_written; ++i) {
    ls_variable *variable = f->written[i];
    if (variable->container != NULL &&
        ls_lower_has_own(self->own, variable->container))
      variable = variable->container;
    if (!is_listed(f->written, count, variable)) f->written[count++] = variable;
  }
  f->num_written = count;
}

static ls_status begin(replicate *self) {
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
  return self->classes == NULL || self->first == NULL || self->bodies == NULL ||
                 self->twins == NULL || self->place == NULL ||
                 self->written_place == NULL
             ? ls_out_of_memory()
             : ls_ok();
}

static void end(replicate *self) {
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

// Whether it is to be lowered again: with one more own variable, or with loops
// and branches taken apart.
static ls_status lower_with(ls_lower_scope *scope, ls_node *node,
                            ls_lower_own *own, bool *out_again) {
  ls_lower_flow f;
  replicate self = {.f = &f, .own = own};
  ls_status status = ls_lower_flow_begin(&f, scope, node);
  if (ls_status_is_ok(status)) status = begin(&self);
  if (ls_status_is_ok(status)) status = lower_all(&self);
  *out_again = self.differs != NULL || self.goes_apart;
  if (*out_again) {
    ls_status_free(status);
    status = self.differs != NULL
                 ? ls_lower_add_own(own, scope->all->allocator, self.differs)
                 : ls_ok();
  }
  end(&self);
  ls_lower_flow_end(&f);
  return status;
}

ls_status lower_replicate(ls_lower_scope *scope, ls_node *node) {
  if (scope->replicas > 0 || scope->in_merge)
    return ls_invalid_argument("replicas inside replicas: a replicated body "
                               "cannot hold another");
  const size_t replicas = (size_t)ls_node_int(node, LS_ATTR_ID_REPLICAS);
  ls_lower_own own = {0};
  ls_status status = ls_lower_find_own(scope, node->regions[0], replicas, &own);
  for (bool again = true; again && ls_status_is_ok(status);)
    status = lower_with(scope, node, &own, &again);
  ls_release(scope->all->allocator, own.items);
  return status;
}
