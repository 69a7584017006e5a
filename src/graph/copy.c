// SPDX-License-Identifier: Apache-2.0
#include "graph/copy.h"

void ls_copying_init(ls_copying *c, ls_copying *outer, ls_graph *from,
                     ls_graph *to, ls_arena *memory) {
  *c = (ls_copying){.policy = outer != NULL ? outer->policy : NULL,
                    .outer = outer,
                    .from = from,
                    .to = to,
                    .memory = memory};
  ls_map_init(&c->refs, from->allocator);
  ls_map_init(&c->ids, from->allocator);
}

void ls_copying_deinit(ls_copying *c) {
  ls_map_deinit(&c->refs);
  ls_map_deinit(&c->ids);
}

ls_status ls_copying_set(ls_copying *c, uint64_t ref, uint64_t to) {
  if (ls_map_find_u64(&c->refs, ref) != NULL) return ls_ok();
  return ls_memory_status(
      ls_map_insert_u64(&c->refs, ref, (void *)(uintptr_t)to));
}

ls_status ls_copying_set_op(ls_copying *c, uint64_t id, uint64_t to) {
  return ls_memory_status(
      ls_map_insert_u64(&c->ids, id, (void *)(uintptr_t)to));
}

// ---- Values ----------------------------------------------------------------
static ls_status copy_missing(const ls_copying *c, ls_node *user,
                              uint64_t ref) {
  char to[LS_MAX_FULL_NAME] = "a result", from[LS_MAX_FULL_NAME];
  if (user != NULL) ls_node_describe(c->from, user, to, sizeof(to));
  ls_node_describe(c->from, ls_graph_node_of(c->from, ref), from, sizeof(from));
  return ls_internal("%s was not copied for %s", from, to);
}

ls_status ls_copied(ls_copying *c, ls_node *user, uint64_t ref,
                    uint64_t *out_ref) {
  *out_ref = (uintptr_t)ls_map_find_u64(&c->refs, ref);
  if (*out_ref != 0) return ls_ok();
  if (!c->is_body)
    return c->policy != NULL && c->policy->missing != NULL
               ? c->policy->missing(c, user, ref)
               : copy_missing(c, user, ref);
  uint64_t outer = 0;
  LS_RETURN_IF_ERROR(ls_copied(c->outer, user, ref, &outer));
  return ls_graph_add_capture(c->to, (ls_tensor){c->outer->to, outer}, out_ref);
}

// ---- Regions ---------------------------------------------------------------
ls_status ls_graph_make_like(const ls_graph *graph, ls_graph *parent,
                             ls_graph **out_graph) {
  LS_RETURN_IF_ERROR(ls_graph_make(graph->kind, graph->name, parent->runtime,
                                   parent, out_graph));
  (*out_graph)->is_replica = graph->is_replica;
  (*out_graph)->trains = graph->trains;
  return ls_ok();
}

static ls_status copy_parameters(ls_copying *c, ls_node *holder) {
  const ls_graph *from = c->from;
  for (size_t i = 0; i < from->num_declared; ++i) {
    ls_tensor made;
    LS_RETURN_IF_ERROR(ls_graph_add_parameter(
        c->to, ls_graph_type(from, from->parameters[i]), NULL, &made));
    LS_RETURN_IF_ERROR(ls_copying_set(c, from->parameters[i], made.ref));
  }
  for (size_t i = 0; i < from->num_captures; ++i) {
    uint64_t outer = 0, ref = 0;
    LS_RETURN_IF_ERROR(
        ls_copied(c->outer, holder, from->captures[i].outer.ref, &outer));
    LS_RETURN_IF_ERROR(
        ls_graph_add_capture(c->to, (ls_tensor){c->outer->to, outer}, &ref));
    LS_RETURN_IF_ERROR(ls_copying_set(c, from->captures[i].inner, ref));
  }
  return ls_ok();
}

static ls_status copy_ops(ls_copying *c) {
  if (c->policy != NULL && c->policy->copy_ops != NULL)
    return c->policy->copy_ops(c);
  for (size_t i = 0; i < c->from->num_nodes; ++i)
    if (c->from->nodes[i]->type != LS_OP_PARAMETER)
      LS_RETURN_IF_ERROR(ls_copy_node(c, c->from->nodes[i]));
  return ls_ok();
}

static ls_status copy_results(ls_copying *c) {
  const size_t count = c->from->num_results;
  LS_ARENA_ARRAY_OR_RETURN(c->memory, uint64_t, refs, count + 1);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(ls_copied(c, NULL, c->from->results[i], &refs[i]));
  return ls_graph_set_results(c->to, refs, count);
}

ls_status ls_copy_region(ls_copying *c, ls_node *holder) {
  LS_RETURN_IF_ERROR(copy_parameters(c, holder));
  LS_RETURN_IF_ERROR(copy_ops(c));
  return copy_results(c);
}

static ls_status copy_region(ls_copying *outer, ls_node *holder, ls_graph *from,
                             ls_graph **out_graph) {
  from = ls_graph_resolve(from);
  LS_RETURN_IF_ERROR(ls_graph_make_like(from, outer->to, out_graph));
  if (outer->policy != NULL && outer->policy->copy_into != NULL)
    return outer->policy->copy_into(outer, holder, from, *out_graph);
  LS_OWN(ls_copying, c) = {0};
  ls_copying_init(&c, outer, from, *out_graph, outer->memory);
  return ls_copy_region(&c, holder);
}

// ---- Ops -------------------------------------------------------------------
static void copy_wait_for(const ls_copying *c, uint64_t id, ls_op *control,
                          size_t *count) {
  const uint64_t copy = (uintptr_t)ls_map_find_u64(&c->ids, id);
  for (size_t i = 0; i < *count; ++i)
    if (control[i].id == copy) return;
  if (copy != 0) control[(*count)++] = (ls_op){c->to, copy};
}

// Lists the copy's control inputs. Where a metadata op has no copy, the ops
// that it waits for take its place.
static ls_status copy_control(const ls_copying *c, const ls_node *node,
                              ls_op_spec *spec) {
  size_t most = node->num_control;
  for (uint32_t i = 0; i < node->num_control; ++i)
    most += ls_graph_node(c->from, node->control[i])->num_control;
  LS_ARENA_ARRAY_OR_RETURN(c->memory, ls_op, control, most + 1);
  for (uint32_t i = 0; i < node->num_control; ++i) {
    const ls_node *before = ls_graph_node(c->from, node->control[i]);
    if (node->type == LS_OP_TPU_COMPILATION_RESULT) continue;
    copy_wait_for(c, before->id, control, &spec->num_control);
    if (before->type != LS_OP_TPU_REPLICATE_METADATA) continue;
    for (uint32_t k = 0; k < before->num_control; ++k)
      copy_wait_for(c, before->control[k], control, &spec->num_control);
  }
  spec->control = control;
  return ls_ok();
}

// Lists the copy's operands: the copies of the operands before the captures,
// then the captures of the new regions.
static ls_status copy_inputs(ls_copying *c, ls_node *node, ls_op_spec *spec,
                             uint64_t **out_inputs) {
  const size_t leading = ls_node_captures(node, 0);
  const size_t captures = ls_count_captures(spec->regions, spec->num_regions);
  LS_ARENA_ARRAY_OR_RETURN(c->memory, uint64_t, inputs, leading + captures + 1);
  for (size_t i = 0; i < leading; ++i)
    LS_RETURN_IF_ERROR(ls_copied(c, node, node->inputs[i], &inputs[i]));
  ls_list_capture_refs(spec->regions, spec->num_regions, inputs + leading);
  spec->num_inputs = leading + captures;
  *out_inputs = inputs;
  return ls_ok();
}

static ls_status append_copy(ls_copying *c, ls_node *node, ls_graph **regions,
                             ls_node **out_copy) {
  ls_op_spec spec = {.type = node->type,
                     .attrs = node->attrs,
                     .num_attrs = node->num_attrs,
                     .regions = regions};
  for (; spec.num_regions < node->num_regions; ++spec.num_regions)
    LS_RETURN_IF_ERROR(copy_region(c, node, node->regions[spec.num_regions],
                                   &regions[spec.num_regions]));
  uint64_t *inputs = NULL;
  LS_RETURN_IF_ERROR(copy_inputs(c, node, &spec, &inputs));
  LS_RETURN_IF_ERROR(copy_control(c, node, &spec));
  *out_copy = ls_graph_append(c->to, &spec, inputs, node->num_outputs);
  if (*out_copy == NULL) return ls_out_of_memory();
  // The copy owns the regions now.
  memset(regions, 0, node->num_regions * sizeof(*regions));
  return ls_ok();
}

// Gives the copy its original's name, device and source position. The texts are
// shared, because both graphs live equally long.
static void copy_properties(const ls_copying *c, const ls_node *node,
                            ls_node *copy) {
  memcpy(copy->outputs, node->outputs,
         node->num_outputs * sizeof(*node->outputs));
  ls_node_take_name(copy, c->from, node);
  copy->device = node->device;
  copy->not_fed = node->not_fed;
  copy->not_fetched = node->not_fetched;
}

ls_status ls_copying_take(ls_copying *c, ls_node *node, ls_node *copy) {
  copy_properties(c, node, copy);
  if (c->policy != NULL && c->policy->finish != NULL)
    LS_RETURN_IF_ERROR(c->policy->finish(c, node, copy));
  LS_RETURN_IF_ERROR(ls_copying_set_op(c, node->id, copy->id));
  for (unsigned i = 0; i < node->num_outputs; ++i)
    if (!c->is_body ||
        ls_map_find_u64(&c->outer->refs, ls_ref(node->id, i)) == NULL)
      LS_RETURN_IF_ERROR(
          ls_copying_set(c, ls_ref(node->id, i), ls_ref(copy->id, i)));
  return ls_ok();
}

ls_status ls_copy_node(ls_copying *c, ls_node *node) {
  LS_ARENA_ARRAY_OR_RETURN(c->memory, ls_graph *, regions,
                           node->num_regions + 1);
  ls_node *copy = NULL;
  const ls_status status = append_copy(c, node, regions, &copy);
  for (uint32_t r = 0; r < node->num_regions; ++r)
    ls_graph_free(regions[r]);
  return ls_status_is_ok(status) ? ls_copying_take(c, node, copy) : status;
}

ls_status ls_copy_without_gradient(ls_copying *c, ls_node *node) {
  const uint32_t first = (uint32_t)ls_node_int(node, LS_ATTR_ID_NUM_INPUTS);
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    uint64_t ref = 0;
    LS_RETURN_IF_ERROR(ls_copied(c, node, node->inputs[first + i], &ref));
    LS_RETURN_IF_ERROR(ls_copying_set(c, ls_ref(node->id, i), ref));
  }
  return ls_ok();
}

// ---- Lowered ops -----------------------------------------------------------
// Makes the regions capture the operands of the new node.
static ls_status move_regions(const ls_node *node, ls_graph *to,
                              const uint64_t *inputs) {
  for (uint32_t r = 0; r < node->num_regions; ++r) {
    ls_graph *region = node->regions[r];
    const uint64_t *captured = inputs + ls_node_captures(node, r);
    region->parent = to;
    ls_map_clear(&region->capture_index);
    for (size_t i = 0; i < region->num_captures; ++i) {
      region->captures[i].outer = (ls_tensor){to, captured[i]};
      const ls_capture_key key = {to, captured[i]};
      if (!ls_map_insert(&region->capture_index, &key, sizeof(key),
                         (void *)(uintptr_t)(i + 1)))
        return ls_out_of_memory();
    }
  }
  return ls_ok();
}

ls_status ls_graph_move_node(ls_node *node, ls_graph *to,
                             const uint64_t *inputs, ls_node **out_node) {
  const ls_op_spec spec = ls_node_spec(node);
  ls_node *made = ls_graph_append(to, &spec, inputs, node->num_outputs);
  if (made == NULL) return ls_out_of_memory();
  memcpy(made->outputs, node->outputs,
         node->num_outputs * sizeof(*made->outputs));
  ls_node_take_place(made, NULL, node);
  made->once = node->once;
  *out_node = made;
  const ls_status status = move_regions(node, to, inputs);
  node->num_regions = 0;  // The copy owns the regions now.
  return status;
}
