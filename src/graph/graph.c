// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

#include "base/memory/allocator.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "graph/context.h"
#include "graph/trial.h"
#include "graph/variables/variable.h"

static uint64_t last_id;

uint64_t ls_graph_last_id(void) {
  return __atomic_load_n(&last_id, __ATOMIC_RELAXED);
}

ls_status ls_graph_make(ls_graph_kind kind, const char *name,
                        ls_runtime *runtime, ls_graph *parent,
                        ls_graph **out_graph) {
  *out_graph = NULL;
  const int depth = parent == NULL ? 0 : parent->depth + 1;
  if (depth > LS_MAX_GRAPH_DEPTH)
    return ls_unimplemented("'%s' is nested in %d functions, loops or "
                            "branches; at most %d are possible",
                            name ? name : "", depth, LS_MAX_GRAPH_DEPTH);
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  // Uses the system's allocator, because handles may outlive the runtime.
  LS_NEW_OR_RETURN(ls_allocator_system(), ls_graph, graph);
  graph->head.tensors = &ls_graph_tensors;
  graph->kind = kind;
  graph->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
  graph->runtime = runtime;
  graph->allocator = allocator;
  graph->parent = parent;
  graph->depth = depth;
  graph->next_id = 1;
  ls_arena_init(&graph->arena, allocator);
  ls_arena_init(&graph->names_arena, allocator);
  ls_map_init(&graph->capture_index, allocator);
  ls_map_init(&graph->names, allocator);
  ls_map_init(&graph->scopes, allocator);
  ls_map_init(&graph->texts, allocator);
  ls_map_init(&graph->collections, allocator);
  graph->name = ls_arena_string(&graph->names_arena, name ? name : "");
  if (graph->name == NULL) {
    ls_graph_free(graph);
    return ls_out_of_memory();
  }
  *out_graph = graph;
  return ls_ok();
}

void ls_graph_give_to_user(ls_graph *graph) {
  graph->is_users = true;
  ls_runtime_note_made(graph->runtime, LS_MADE_GRAPH);
}

void ls_graph_begin_session(ls_graph *graph) {
  __atomic_fetch_add(&graph->num_sessions, 1, __ATOMIC_RELAXED);
}

void ls_graph_end_session(ls_graph *graph) {
  if (__atomic_sub_fetch(&graph->num_sessions, 1, __ATOMIC_ACQ_REL) ==
      LS_GRAPH_DESTROYED)
    ls_graph_free(graph);
}

void ls_node_forget(ls_node *node) {
  for (uint32_t i = 0; i < node->num_attrs; ++i) {
    const ls_attr *attr = &node->attrs[i];
    if (attr->kind == LS_ATTR_ARRAY) ls_array_release(attr->as.array);
    if (attr->kind == LS_ATTR_OBJECT) ls_object_release(attr->as.object);
  }
  for (uint32_t i = 0; i < node->num_regions; ++i)
    ls_graph_free(node->regions[i]);
  node->num_inputs = node->num_control = 0;
  node->num_attrs = node->num_regions = 0;
}

static void release_node(ls_node *node) {
  ls_node_forget(node);
  if (node->values != NULL)
    for (uint32_t i = 0; i < node->num_outputs; ++i)
      ls_array_release(node->values[i]);
  ls_status_free(node->failure);
  ls_object_release(node->late);
}

static void release_nodes(ls_graph *graph, size_t from) {
  for (size_t i = graph->num_nodes; i > from; --i)
    release_node(graph->nodes[i - 1]);
  if (graph->num_nodes > from) graph->num_nodes = from;
}

// Turns a destroyed graph into an empty one that refuses ops, for stale
// handles. Lowered graphs have no handles.
static void empty_destroyed(ls_graph *graph) {
  const bool has_handles = graph->kind != LS_GRAPH_LOWERED;
  *graph = (ls_graph){.head = {&ls_graph_tensors},
                      .kind = LS_GRAPH_LOWERED,
                      .name = "(destroyed)",
                      .next_id = 1,
                      .frozen = true};
  if (has_handles)
    ls_bury(graph);
  else
    ls_release(ls_allocator_system(), graph);
}

// Releases the ops and what refers to them. The lists are left as they were.
static void release_contents(ls_graph *graph) {
  release_nodes(graph, 0);
  ls_release(graph->allocator, graph->nodes);
  ls_release(graph->allocator, graph->parameters);
  ls_release(graph->allocator, graph->captures);
  ls_release(graph->allocator, graph->waits_outside);
  ls_release(graph->allocator, graph->results);
  ls_map_deinit(&graph->capture_index);
  ls_map_deinit(&graph->names);
  ls_map_deinit(&graph->scopes);
  ls_map_deinit(&graph->texts);
  ls_arena_deinit(&graph->arena);
  ls_arena_deinit(&graph->names_arena);
}

void ls_graph_free(ls_graph *graph) {
  if (graph == NULL) return;
  ls_runtime *runtime = graph->is_users ? graph->runtime : NULL;
  ls_graph_drop_collections(graph);
  for (size_t i = 0; i < graph->num_variables; ++i)
    ls_object_release(graph->variables[i]);
  for (size_t i = 0; i < graph->num_stubs; ++i)
    ls_graph_free(graph->stubs[i]);
  ls_release(graph->allocator, graph->stubs);
  ls_release(graph->allocator, graph->undo);
  ls_status_free(graph->error);
  ls_release(graph->allocator, graph->variables);
  release_contents(graph);
  empty_destroyed(graph);
  if (runtime != NULL) ls_runtime_note_gone(runtime, LS_MADE_GRAPH);
}

void ls_graph_forward(ls_graph *graph, ls_graph *to) {
  release_contents(graph);
  graph->nodes = NULL;
  graph->parameters = NULL;
  graph->captures = NULL;
  graph->waits_outside = NULL;
  graph->results = NULL;
  graph->nodes_capacity = 0;
  graph->num_parameters = graph->parameters_capacity = 0;
  graph->num_captures = graph->captures_capacity = 0;
  graph->num_waits_outside = graph->waits_capacity = 0;
  graph->num_results = 0;
  graph->name = to->name;
  graph->forward = to;
}

bool ls_graph_keep_stub(ls_graph *graph, ls_graph *stub) {
  if (!LS_GROW(graph->allocator, graph->stubs, graph->stubs_capacity,
               graph->num_stubs + 1))
    return false;
  graph->stubs[graph->num_stubs++] = stub;
  return true;
}

ls_graph_rollback_point ls_graph_mark(const ls_graph *graph) {
  return (ls_graph_rollback_point){
      .num_nodes = graph->num_nodes,
      .num_variables = graph->num_variables,
      .num_parameters = graph->num_parameters,
      .num_captures = graph->num_captures,
      .num_undo = graph->num_undo,
      .num_waits_outside = graph->num_waits_outside,
      .num_random = graph->num_random,
      .losses = graph->losses,
      .trains = graph->trains,
      .unsaveable = graph->unsaveable,
  };
}

void ls_graph_rollback(ls_graph *graph, ls_graph_rollback_point to) {
  // The arena keeps the memory of removed nodes: refusals are rare, and
  // interned names may lie in between.
  ls_graph_undo_to(graph, to.num_undo);
  release_nodes(graph, to.num_nodes);
  while (graph->num_variables > to.num_variables) {
    ls_variable *variable =
        (ls_variable *)graph->variables[--graph->num_variables];
    variable->is_dropped = true;
    ls_object_release(variable);
  }
  while (graph->num_captures > to.num_captures) {
    const ls_tensor outer = graph->captures[--graph->num_captures].outer;
    const ls_capture_key key = {outer.graph, outer.ref};
    ls_map_remove(&graph->capture_index, &key, sizeof(key));
  }
  graph->num_parameters = to.num_parameters;
  graph->num_waits_outside = to.num_waits_outside;
  graph->num_random = to.num_random;
  if (graph->kind == LS_GRAPH_EAGER) return;
  graph->losses = to.losses;
  graph->trains = to.trains;
  graph->unsaveable = to.unsaveable;
}

void ls_graph_drop_nodes(ls_graph *graph, size_t from,
                         bool (*drops)(const ls_node *node, void *user),
                         void *user) {
  size_t kept = from;
  for (size_t i = from; i < graph->num_nodes; ++i) {
    if (drops(graph->nodes[i], user))
      release_node(graph->nodes[i]);
    else
      graph->nodes[kept++] = graph->nodes[i];
  }
  if (from < graph->num_nodes) graph->num_nodes = kept;
}

void ls_graph_fail(ls_graph *graph, ls_status status) {
  if (graph->error == NULL && graph->runtime != NULL)
    graph->error = status;
  else
    ls_status_free(status);
}

// ---- Nodes -----------------------------------------------------------------
static bool copy_attr(ls_arena *arena, uint16_t type, uint16_t met_as,
                      const ls_attr *from, ls_attr *to) {
  *to = *from;
  ls_attr_set_id(type, met_as, to);
  if (to->id == LS_ATTR_ID_NONE) to->name = ls_arena_string(arena, from->name);
  if (to->name == NULL) return false;
  switch (from->kind) {
  case LS_ATTR_STRING:
    to->as.string = ls_arena_string(arena, from->as.string);
    return to->as.string != NULL;
  case LS_ATTR_INTS:
    to->as.ints.items = ls_arena_copy(arena, from->as.ints.items,
                                      from->as.ints.count * sizeof(int64_t));
    return to->as.ints.items != NULL;
  case LS_ATTR_SIZES:
    to->as.sizes.items = ls_arena_copy(arena, from->as.sizes.items,
                                       from->as.sizes.count * sizeof(ls_size));
    return to->as.sizes.items != NULL;
  case LS_ATTR_STRINGS: {
    const size_t count = from->as.strings.count;
    const char **items = ls_arena_new_array(arena, const char *, count);
    if (items == NULL) return false;
    for (size_t i = 0; i < count; ++i) {
      items[i] = ls_arena_string(arena, from->as.strings.items[i]);
      if (items[i] == NULL) return false;
    }
    to->as.strings.items = items;
    return true;
  }
  default:
    return true;
  }
}

// Copies the attributes of a spec. References are taken last, when nothing can
// fail any more.
static bool copy_attrs(ls_arena *arena, const ls_op_spec *spec, ls_node *node) {
  if (spec->num_attrs == 0) return true;
  ls_attr *attrs = ls_arena_new_array(arena, ls_attr, spec->num_attrs);
  if (attrs == NULL) return false;
  const uint16_t met_as =
      ls_attrs_met_as(spec->type, spec->attrs, spec->num_attrs);
  for (size_t i = 0; i < spec->num_attrs; ++i)
    if (!copy_attr(arena, spec->type, met_as, &spec->attrs[i], &attrs[i]))
      return false;
  node->attrs = attrs;
  node->num_attrs = (uint32_t)spec->num_attrs;
  return true;
}

void ls_node_retain_attrs(const ls_node *node) {
  for (uint32_t i = 0; i < node->num_attrs; ++i) {
    const ls_attr *attr = &node->attrs[i];
    if (attr->kind == LS_ATTR_ARRAY) ls_array_retain(attr->as.array);
    if (attr->kind == LS_ATTR_OBJECT) ls_object_retain(attr->as.object);
  }
}

ls_status ls_node_set_attr(ls_graph *graph, ls_node *node,
                           const ls_attr *attr) {
  ls_attr *attrs =
      ls_arena_new_array(&graph->arena, ls_attr, node->num_attrs + 1);
  ls_attr copy;
  if (attrs == NULL ||
      !copy_attr(&graph->arena, node->type, ls_node_met_as(node), attr, &copy))
    return ls_out_of_memory();
  uint32_t count = 0;
  const ls_attr *replaced = NULL;
  for (uint32_t i = 0; i < node->num_attrs; ++i) {
    if (strcmp(node->attrs[i].name, attr->name) == 0)
      replaced = &node->attrs[i];
    else
      attrs[count++] = node->attrs[i];
  }
  attrs[count++] = copy;
  if (copy.kind == LS_ATTR_ARRAY) ls_array_retain(copy.as.array);
  if (copy.kind == LS_ATTR_OBJECT) ls_object_retain(copy.as.object);
  if (replaced != NULL && replaced->kind == LS_ATTR_ARRAY)
    ls_array_release(replaced->as.array);
  if (replaced != NULL && replaced->kind == LS_ATTR_OBJECT)
    ls_object_release(replaced->as.object);
  node->attrs = attrs;
  node->num_attrs = count;
  return ls_ok();
}

ls_node *ls_graph_append(ls_graph *graph, const ls_op_spec *spec,
                         const uint64_t *input_refs, size_t num_outputs) {
  ls_arena *arena = &graph->arena;
  if (!LS_GROW(graph->allocator, graph->nodes, graph->nodes_capacity,
               graph->num_nodes + 1))
    return NULL;
  ls_node *node = ls_arena_new(arena, ls_node);
  if (node == NULL) return NULL;
  node->type = spec->type;
  node->num_inputs = (uint32_t)spec->num_inputs;
  node->num_control = (uint32_t)spec->num_control;
  node->num_outputs = (uint32_t)num_outputs;
  node->num_regions = (uint32_t)spec->num_regions;
  node->inputs =
      ls_arena_copy(arena, input_refs, spec->num_inputs * sizeof(uint64_t));
  node->outputs = ls_arena_new_array(arena, ls_type, num_outputs);
  node->control = ls_arena_new_array(arena, uint64_t, spec->num_control);
  node->regions = ls_arena_copy(arena, spec->regions,
                                spec->num_regions * sizeof(ls_graph *));
  if (node->inputs == NULL || node->outputs == NULL || node->control == NULL ||
      node->regions == NULL || !copy_attrs(arena, spec, node))
    return NULL;
  for (size_t i = 0; i < spec->num_control; ++i)
    node->control[i] = spec->control[i].id;
  ls_node_retain_attrs(node);
  node->replica = ls_context_current()->replica;
  for (size_t i = 0; i < spec->num_regions; ++i)
    spec->regions[i]->is_while_body |= spec->type == LS_OP_WHILE;
  node->id = graph->next_id++;
  graph->nodes[graph->num_nodes++] = node;
  return node;
}

size_t ls_graph_first_position(const ls_graph *graph, uint64_t id) {
  size_t low = 0, high = graph->num_nodes;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (graph->nodes[middle]->id < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

size_t ls_graph_position(const ls_graph *graph, uint64_t id) {
  // Ids are dense except in the eager graph, so the distance from the last id
  // gives the position.
  const uint64_t behind = graph->next_id - id;
  if (behind != 0 && behind <= graph->num_nodes &&
      graph->nodes[graph->num_nodes - behind]->id == id)
    return graph->num_nodes - (size_t)behind;
  const size_t low = ls_graph_first_position(graph, id);
  return low < graph->num_nodes && graph->nodes[low]->id == id ? low : SIZE_MAX;
}

ls_node *ls_graph_node(const ls_graph *graph, uint64_t id) {
  while (graph != NULL && graph->forward != NULL)
    graph = graph->forward;
  if (graph == NULL) return NULL;
  const size_t position = ls_graph_position(graph, id);
  return position == SIZE_MAX ? NULL : graph->nodes[position];
}

ls_type ls_graph_type(const ls_graph *graph, uint64_t ref) {
  const ls_node *node = ls_graph_node_of(graph, ref);
  if (node == NULL || ls_ref_output(ref) >= node->num_outputs)
    return (ls_type){LS_DTYPE_NONE, LS_SHAPE_UNKNOWN};
  return node->outputs[ls_ref_output(ref)];
}

// ---- Parameters and captures -----------------------------------------------
static ls_status append_parameter(ls_graph *graph, ls_type type,
                                  const char *name, uint64_t *out_ref) {
  LS_RETURN_IF_NO_MEMORY(LS_GROW(graph->allocator, graph->parameters,
                                 graph->parameters_capacity,
                                 graph->num_parameters + 1));
  const ls_attr attrs[] = {LS_OWN_T(DTYPE, type.dtype),
                           LS_OWN_SH(SHAPE, type.shape),
                           LS_OWN_I(INDEX, (int64_t)graph->num_parameters)};
  ls_node *node =
      ls_graph_append(graph,
                      &(ls_op_spec){.type = LS_OP_PARAMETER,
                                    .attrs = attrs,
                                    .num_attrs = LS_COUNT_OF(attrs)},
                      NULL, 1);
  if (node == NULL) return ls_out_of_memory();
  node->outputs[0] = type;
  if (graph->kind != LS_GRAPH_LOWERED)
    LS_RETURN_IF_ERROR(
        ls_graph_name_node(graph, node, NULL, name ? name : "parameter"));
  *out_ref = ls_ref(node->id, 0);
  graph->parameters[graph->num_parameters++] = *out_ref;
  return ls_ok();
}

ls_status ls_graph_add_parameter(ls_graph *graph, ls_type type,
                                 const char *name, ls_tensor *out_tensor) {
  *out_tensor = ls_failed_tensor();
  LS_ASSERT(graph->num_captures == 0);
  uint64_t ref = 0;
  LS_RETURN_IF_ERROR(append_parameter(graph, type, name, &ref));
  graph->num_declared = graph->num_parameters;
  *out_tensor = (ls_tensor){graph, ref};
  return ls_ok();
}

const ls_capture *ls_graph_find_capture(const ls_graph *graph,
                                        ls_tensor outer) {
  const ls_capture_key key = {outer.graph, outer.ref};
  const uintptr_t found =
      (uintptr_t)ls_map_find(&graph->capture_index, &key, sizeof(key));
  return found != 0 ? &graph->captures[found - 1] : NULL;
}

ls_status ls_graph_index_capture(ls_graph *graph, ls_tensor outer) {
  const ls_capture_key key = {outer.graph, outer.ref};
  return ls_memory_status(
      LS_GROW(graph->allocator, graph->captures, graph->captures_capacity,
              graph->num_captures + 1) &&
      ls_map_insert(&graph->capture_index, &key, sizeof(key),
                    (void *)(uintptr_t)(graph->num_captures + 1)));
}

ls_status ls_graph_add_capture(ls_graph *graph, ls_tensor outer,
                               uint64_t *out_ref) {
  const ls_capture *found = ls_graph_find_capture(graph, outer);
  if (found != NULL) {
    *out_ref = found->inner;
    return ls_ok();
  }
  // Makes the graphs in between capture the value, too.
  LS_RETURN_IF_ERROR(ls_trial_join(graph));
  LS_RETURN_IF_ERROR(ls_graph_index_capture(graph, outer));
  const ls_type type = ls_graph_type(outer.graph, outer.ref);
  const ls_status status = append_parameter(graph, type, "capture", out_ref);
  if (!ls_status_is_ok(status)) {
    const ls_capture_key key = {outer.graph, outer.ref};
    ls_map_remove(&graph->capture_index, &key, sizeof(key));
    return status;
  }
  graph->captures[graph->num_captures++] =
      (ls_capture){.outer = outer, .inner = *out_ref};
  return ls_ok();
}

bool ls_graph_wait_outside(ls_graph *graph, const ls_node *node,
                           const ls_op *ops, size_t count) {
  if (!LS_GROW(graph->allocator, graph->waits_outside, graph->waits_capacity,
               graph->num_waits_outside + count))
    return false;
  for (size_t i = 0; i < count; ++i)
    graph->waits_outside[graph->num_waits_outside++] =
        (ls_wait_outside){node->id, ops[i]};
  return true;
}

ls_status ls_graph_set_results(ls_graph *graph, const uint64_t *refs,
                               size_t count) {
  LS_NEW_ARRAY_OR_RETURN(graph->allocator, uint64_t, results, count);
  if (count != 0) memcpy(results, refs, count * sizeof(*refs));
  ls_release(graph->allocator, graph->results);
  graph->results = results;
  graph->num_results = count;
  return ls_ok();
}

static uint64_t renumbered(const uint64_t *ids, uint64_t ref) {
  return ls_ref(ids[ls_ref_id(ref)], ls_ref_output(ref));
}

ls_status ls_graph_keep_nodes(ls_graph *graph, const bool *keep) {
  LS_OWN_ARRAY_OR_RETURN(graph->allocator, uint64_t, ids, graph->next_id);
  size_t count = 0;
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    ls_node *node = graph->nodes[i];
    if (!keep[node->id]) {
      release_node(node);
      continue;
    }
    ids[node->id] = count + 1;
    node->id = count + 1;
    for (uint32_t k = 0; k < node->num_inputs; ++k)
      node->inputs[k] = renumbered(ids, node->inputs[k]);
    for (uint32_t k = 0; k < node->num_control; ++k)
      node->control[k] = ids[node->control[k]];
    for (uint32_t r = 0; r < node->num_regions; ++r)
      for (size_t c = 0; c < node->regions[r]->num_captures; ++c) {
        ls_tensor *outer = &node->regions[r]->captures[c].outer;
        outer->ref = renumbered(ids, outer->ref);
      }
    graph->nodes[count++] = node;
  }
  graph->num_nodes = count;
  graph->next_id = count + 1;
  for (size_t i = 0; i < graph->num_parameters; ++i)
    graph->parameters[i] = renumbered(ids, graph->parameters[i]);
  for (size_t i = 0; i < graph->num_captures; ++i)
    graph->captures[i].inner = renumbered(ids, graph->captures[i].inner);
  for (size_t i = 0; i < graph->num_results; ++i)
    graph->results[i] = renumbered(ids, graph->results[i]);
  ls_map_clear(&graph->capture_index);
  return ls_ok();
}

// ---- Public ----------------------------------------------------------------
ls_status ls_graph_create(const char *name, ls_graph **out_graph) {
  LS_REQUIRE_OUT(out_graph);
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_graph_make(LS_GRAPH_BUILD, name ? name : "graph",
                                   runtime, NULL, out_graph));
  ls_graph_give_to_user(*out_graph);
  return ls_ok();
}

// Destroys a user's graph; does nothing for graphs that belong to runtimes,
// functions or ops.
void ls_graph_destroy(ls_graph *graph) {
  if (graph == NULL || !graph->is_users) return;
  if (__atomic_fetch_or(&graph->num_sessions, LS_GRAPH_DESTROYED,
                        __ATOMIC_ACQ_REL) == 0)
    ls_graph_free(graph);
}

const char *ls_graph_name(const ls_graph *graph) { return graph->name; }

bool ls_graph_is_eager(const ls_graph *graph) {
  return graph->kind == LS_GRAPH_EAGER;
}

// There may be no current graph: the reason is what an op maker failed for.
static ls_status refuse_no_graph(const char *what) {
  ls_graph *graph = NULL;
  LS_RETURN_IF_ERROR(ls_graph_find_current(&graph));
  return ls_null_argument(what, "graph");
}

ls_status ls_graph_take_error(ls_graph *graph) {
  if (graph == NULL) return refuse_no_graph(__func__);
  const ls_status status = graph->error;
  graph->error = NULL;
  return status;
}

ls_status ls_graph_error(const ls_graph *graph) {
  if (graph == NULL) return refuse_no_graph(__func__);
  return ls_status_clone(graph->error);
}
