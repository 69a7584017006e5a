// SPDX-License-Identifier: Apache-2.0
#include "graph/gather/copy.h"

void ls_copying_init(ls_copying *c, ls_copying *outer, ls_graph *from,
                     ls_graph *to, ls_arena *memory) {
  *c = (ls_copying){.outer = outer,
                    .from = from,
                    .to = to,
                    .memory = memory,
                    .inside = outer != NULL ? outer->inside : NULL,
                    .as_is = outer != NULL && outer->as_is,
                    .without_gradients =
                        outer != NULL && outer->without_gradients,
                    .replica = outer != NULL ? outer->replica : -1,
                    .shows_copies = outer != NULL ? outer->shows_copies : 0};
  ls_map_init(&c->refs, from->allocator);
  ls_map_init(&c->ids, from->allocator);
}

void ls_copying_deinit(ls_copying *c) {
  for (size_t k = 0; k < c->num_clusters; ++k)
    ls_map_deinit(&c->clusters[k].results);
  ls_map_deinit(&c->refs);
  ls_map_deinit(&c->ids);
}

// What is there stays: a fed value is what is fed.
ls_status ls_copying_set(ls_copying *c, uint64_t ref, uint64_t to) {
  if (ls_map_find_u64(&c->refs, ref) != NULL) return ls_ok();
  return ls_map_insert_u64(&c->refs, ref, (void *)(uintptr_t)to)
             ? ls_ok()
             : ls_out_of_memory();
}

ls_status ls_copying_set_op(ls_copying *c, uint64_t id, uint64_t to) {
  return ls_map_insert_u64(&c->ids, id, (void *)(uintptr_t)to)
             ? ls_ok()
             : ls_out_of_memory();
}

// ---- Values ----------------------------------------------------------------
// A value that is nowhere: of one replica of several, or of all of them.
static ls_status undeclared(const ls_copying *c, ls_node *user, uint64_t ref) {
  char to[LS_MAX_FULL_NAME] = "a fetch", from[LS_MAX_FULL_NAME];
  ls_node *node = ls_graph_node_of(c->from, ref);
  if (user != NULL) ls_node_describe(c->from, user, to, sizeof(to));
  ls_node_describe(c->from, node, from, sizeof(from));
  const ls_cluster *cluster = ls_cluster_of_ref(c, ref);
  if (cluster != NULL)
    return ls_invalid_argument("Undeclared output of TPU computation '%s': %s "
                               "uses %s; return it from the computation",
                               cluster->name, to, from);
  if (node->type == LS_OP_TPU_REPLICATED_INPUT)
    return ls_invalid_argument("%s has values of %u replicas: only a "
                               "replicated computation can use it, not %s",
                               from, node->num_inputs, to);
  return ls_internal("%s was not copied for %s", from, to);
}

ls_status ls_copied(ls_copying *c, ls_node *user, uint64_t ref,
                    uint64_t *out_ref) {
  *out_ref = (uintptr_t)ls_map_find_u64(&c->refs, ref);
  if (*out_ref != 0) return ls_ok();
  if (!c->is_body) return undeclared(c, user, ref);
  uint64_t outer = 0;
  LS_RETURN_IF_ERROR(ls_copied(c->outer, user, ref, &outer));
  return ls_graph_add_capture(c->to, (ls_tensor){c->outer->to, outer}, out_ref);
}

// ---- Regions ---------------------------------------------------------------
static ls_status copy_results(ls_copying *c) {
  const size_t count = c->from->num_results;
  uint64_t *refs = ls_arena_new_array(c->memory, uint64_t, count + 1);
  if (refs == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(ls_copied(c, NULL, c->from->results[i], &refs[i]));
  return ls_graph_set_results(c->to, refs, count);
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

static ls_status copy_region(ls_copying *outer, ls_node *holder, ls_graph *from,
                             ls_graph **out_graph) {
  from = ls_graph_resolve(from);
  LS_RETURN_IF_ERROR(ls_graph_make(from->kind, from->name, from->runtime,
                                   outer->to, out_graph));
  ls_graph *to = *out_graph;
  to->is_while_body = from->is_while_body;
  to->is_replica = from->is_replica;
  to->trains = from->trains;
  ls_copying c;
  ls_copying_init(&c, outer, from, to, outer->memory);
  c.as_is = c.as_is || holder->type == LS_OP_REPLICATE;
  const char *mark = ls_node_mark(holder, LS_MARK_REPLICATE);
  if (mark != NULL && c.inside == NULL)
    c.inside = ls_cluster_named(outer, mark);
  ls_status status = copy_parameters(&c, holder);
  if (ls_status_is_ok(status)) status = ls_copy_level(&c, NULL);
  if (ls_status_is_ok(status)) status = copy_results(&c);
  ls_copying_deinit(&c);
  return status;
}

// ---- Ops -------------------------------------------------------------------
static void wait_for(const ls_copying *c, uint64_t id, ls_op *control,
                     size_t *count) {
  const uint64_t copy = (uintptr_t)ls_map_find_u64(&c->ids, id);
  for (size_t i = 0; i < *count; ++i)
    if (control[i].id == copy) return;
  if (copy != 0) control[(*count)++] = (ls_op){c->to, copy};
}

// What the op waits for. Metadata is gone; it stands for what it waited for.
static ls_status copy_control(const ls_copying *c, const ls_node *node,
                              ls_op_spec *spec) {
  size_t most = node->num_control;
  for (uint32_t i = 0; i < node->num_control; ++i)
    most += ls_graph_node(c->from, node->control[i])->num_control;
  ls_op *control = ls_arena_new_array(c->memory, ls_op, most + 1);
  if (control == NULL) return ls_out_of_memory();
  for (uint32_t i = 0; i < node->num_control; ++i) {
    const ls_node *before = ls_graph_node(c->from, node->control[i]);
    if (node->type == LS_OP_TPU_COMPILATION_RESULT) continue;
    wait_for(c, before->id, control, &spec->num_control);
    if (before->type != LS_OP_TPU_REPLICATE_METADATA) continue;
    for (uint32_t k = 0; k < before->num_control; ++k)
      wait_for(c, before->control[k], control, &spec->num_control);
  }
  spec->control = control;
  return ls_ok();
}

// The operands of the copy: those before the captures, then what the new
// regions capture.
static ls_status copy_inputs(ls_copying *c, ls_node *node,
                             const ls_op_spec *spec, size_t *out_count,
                             uint64_t **out_inputs) {
  const size_t leading = ls_node_captures(node, 0);
  const size_t most = ls_count_captures(spec->regions, spec->num_regions);
  uint64_t *inputs =
      ls_arena_new_array(c->memory, uint64_t, leading + most + 1);
  if (inputs == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < leading; ++i)
    LS_RETURN_IF_ERROR(ls_copied(c, node, node->inputs[i], &inputs[i]));
  *out_count = leading + ls_list_capture_refs(spec->regions, spec->num_regions,
                                              inputs + leading);
  *out_inputs = inputs;
  return ls_ok();
}

// The copy has its original's name; both graphs lie in one lifetime.
static void dress(const ls_copying *c, const ls_node *node, ls_node *copy) {
  memcpy(copy->outputs, node->outputs,
         node->num_outputs * sizeof(*node->outputs));
  copy->scope = node->scope;
  copy->base = node->base;
  copy->number = node->number;
  copy->device = node->device;
  copy->file = node->file;
  copy->line = node->line;
  copy->not_fed = node->not_fed;
  copy->not_fetched = node->not_fetched;
  copy->origin = ls_node_source(c->from, node);
}

// An op outside has a copy for each replica, on that one's host.
static ls_status show_copies(ls_copying *c, ls_node *node, ls_node *copy) {
  const size_t count = c->shows_copies;
  if (count == 0 || ls_node_mark(node, LS_MARK_OUTSIDE) == NULL) return ls_ok();
  const char *name = ls_node_name(c->from, node);
  const char **names = ls_arena_new_array(c->memory, const char *, count);
  int64_t *ids = ls_arena_new_array(c->memory, int64_t, count);
  const char **places = NULL;
  if (names == NULL || ids == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_copy_places(c, node, count, &places));
  const bool is_one = c->replica >= 0;  // It is one of the copies.
  if (places != NULL)
    LS_RETURN_IF_ERROR(ls_node_set_attr(
        c->to, copy,
        &(ls_attr){.name = "_places",
                   .kind = LS_ATTR_STRINGS,
                   .as.strings = {is_one ? &places[c->replica] : places,
                                  is_one ? 1 : count}}));
  if (is_one) return ls_ok();
  for (size_t r = 0; r < count; ++r) {
    ids[r] = (int64_t)r;
    names[r] =
        count == 1 ? name : ls_arena_format(c->memory, "%s/R%zu", name, r);
    if (names[r] == NULL) return ls_out_of_memory();
  }
  LS_RETURN_IF_ERROR(
      ls_node_set_attr(c->to, copy,
                       &(ls_attr){.name = "_xla_replica_id",
                                  .kind = LS_ATTR_INTS,
                                  .as.ints = {.items = ids, .count = count}}));
  return ls_node_set_attr(c->to, copy,
                          &(ls_attr){.name = "_copies",
                                     .kind = LS_ATTR_STRINGS,
                                     .as.strings = {names, count}});
}

// What one replica does by itself is done for that one: its calls of the host
// say so, and it draws its own random numbers.
static ls_status set_replica(ls_copying *c, ls_node *copy) {
  const int64_t replica = c->replica;
  LS_RETURN_IF_ERROR(ls_node_set_attr(c->to, copy,
                                      &(ls_attr){.name = "_xla_replica_id",
                                                 .kind = LS_ATTR_INT,
                                                 .as.i = replica}));
  const bool draws = (ls_node_info(copy)->traits & LS_OP_RANDOM) != 0 &&
                     ls_node_int(copy, LS_ATTR_ID_SAME_ON_ALL_REPLICAS) == 0;
  return draws || copy->type == LS_OP_HOST
             ? ls_node_set_attr(c->to, copy, &LS_OWN_I(REPLICA, replica))
             : ls_ok();
}

// The id of that replica.
static ls_status add_replica_id(ls_copying *c, const ls_node *node,
                                ls_node **out_copy) {
  ls_array *id = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_I32, LS_SCALAR, &id));
  ls_array_set_i64(id, 0, c->replica);
  const ls_attr value = LS_OWN_A(VALUE, id);
  *out_copy = ls_graph_append(
      c->to,
      &(ls_op_spec){.type = LS_OP_CONSTANT, .attrs = &value, .num_attrs = 1},
      NULL, node->num_outputs);
  ls_array_release(id);
  return *out_copy != NULL ? ls_ok() : ls_out_of_memory();
}

static ls_status append_copy(ls_copying *c, ls_node *node, ls_graph **regions,
                             ls_node **out_copy) {
  if (c->replica >= 0 && node->type == LS_OP_REPLICA_ID)
    return add_replica_id(c, node, out_copy);
  ls_op_spec spec = {.type = node->type,
                     .attrs = node->attrs,
                     .num_attrs = node->num_attrs,
                     .regions = regions};
  for (; spec.num_regions < node->num_regions; ++spec.num_regions)
    LS_RETURN_IF_ERROR(copy_region(c, node, node->regions[spec.num_regions],
                                   &regions[spec.num_regions]));
  uint64_t *inputs = NULL;
  LS_RETURN_IF_ERROR(copy_inputs(c, node, &spec, &spec.num_inputs, &inputs));
  LS_RETURN_IF_ERROR(copy_control(c, node, &spec));
  *out_copy = ls_graph_append(c->to, &spec, inputs, node->num_outputs);
  if (*out_copy == NULL) return ls_out_of_memory();
  memset(regions, 0, node->num_regions * sizeof(*regions));  // It has them.
  return ls_ok();
}

static ls_status add(ls_copying *c, ls_node *node, ls_graph **regions) {
  ls_node *copy = NULL;
  LS_RETURN_IF_ERROR(append_copy(c, node, regions, &copy));
  dress(c, node, copy);
  if (c->replica >= 0) LS_RETURN_IF_ERROR(set_replica(c, copy));
  LS_RETURN_IF_ERROR(show_copies(c, node, copy));
  LS_RETURN_IF_ERROR(ls_copying_set_op(c, node->id, copy->id));
  for (unsigned i = 0; i < node->num_outputs; ++i)
    if (!c->is_body ||
        ls_map_find_u64(&c->outer->refs, ls_ref(node->id, i)) == NULL)
      LS_RETURN_IF_ERROR(
          ls_copying_set(c, ls_ref(node->id, i), ls_ref(copy->id, i)));
  return ls_ok();
}

ls_status ls_copy_node(ls_copying *c, ls_node *node) {
  ls_graph **regions =
      ls_arena_new_array(c->memory, ls_graph *, node->num_regions + 1);
  if (regions == NULL) return ls_out_of_memory();
  const ls_status status = add(c, node, regions);
  for (uint32_t r = 0; r < node->num_regions; ++r)
    ls_graph_free(regions[r]);
  return status;
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
