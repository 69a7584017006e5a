// SPDX-License-Identifier: Apache-2.0
#include "grad/walk.h"

#include <stdlib.h>

#include "base/memory/own.h"
#include "graph/variables/variable.h"
#include "graph/walk.h"
#include "lockstep/shape_rules.h"

// ---- Numbering -------------------------------------------------------------
// Returns the place of an op among all ops of the spans, or SIZE_MAX.
static size_t place_of(const ls_gradient_walk *walk, ls_op op) {
  const ls_graph *graph = ls_graph_resolve(op.graph);
  for (size_t i = walk->num_spans; i > 0; --i) {
    const ls_gradient_span *span = &walk->spans[i - 1];
    if (span->graph != graph) continue;
    const size_t at = ls_graph_position(graph, op.id);
    if (at >= span->begin && at < span->end)
      return span->base + at - span->begin;
  }
  return SIZE_MAX;
}

static ls_op op_at_place(const ls_gradient_walk *walk, size_t place) {
  size_t i = walk->num_spans - 1;
  while (walk->spans[i].base > place)
    --i;
  const ls_gradient_span *span = &walk->spans[i];
  return (ls_op){span->graph,
                 span->graph->nodes[span->begin + place - span->base]->id};
}

static int compare_places(const void *a, const void *b) {
  const size_t x = *(const size_t *)a, y = *(const size_t *)b;
  return (x > y) - (x < y);
}

size_t ls_gradient_index(const ls_gradient_walk *walk, ls_op op) {
  const size_t place = place_of(walk, op);
  if (place != SIZE_MAX) {
    const size_t *at = bsearch(&place, walk->places, walk->num_inside,
                               sizeof(place), compare_places);
    return at != NULL ? (size_t)(at - walk->places) : SIZE_MAX;
  }
  const ls_graph *graph = ls_graph_resolve(op.graph);
  for (size_t i = 0; i < walk->num_outside; ++i)
    if (walk->outside[i].id == op.id && walk->outside[i].graph == graph)
      return walk->num_inside + i;
  return SIZE_MAX;
}

ls_op ls_gradient_op_at(const ls_gradient_walk *walk, size_t index) {
  return index < walk->num_inside ? op_at_place(walk, walk->places[index])
                                  : walk->outside[index - walk->num_inside];
}

// ---- Operands --------------------------------------------------------------
const ls_capture *ls_gradient_capture(const ls_gradient_walk *walk,
                                      const ls_graph *graph,
                                      const ls_node *node) {
  if (node->type != LS_OP_PARAMETER || walk->spans[0].graph == graph)
    return NULL;
  const size_t number = (size_t)ls_node_int(node, LS_ATTR_ID_INDEX);
  return number < graph->num_declared
             ? NULL
             : &graph->captures[number - graph->num_declared];
}

const ls_tensor *ls_gradient_initial(const ls_gradient_walk *walk,
                                     const ls_graph *graph,
                                     const ls_node *node) {
  if (node->type != LS_OP_PARAMETER || walk->spans[0].graph == graph ||
      graph->initial == NULL)
    return NULL;
  const size_t number = (size_t)ls_node_int(node, LS_ATTR_ID_INDEX);
  return number < graph->num_declared ? &graph->initial[number] : NULL;
}

size_t ls_gradient_count_operands(const ls_gradient_walk *walk,
                                  const ls_graph *graph, const ls_node *node) {
  if (ls_gradient_capture(walk, graph, node) != NULL ||
      ls_gradient_initial(walk, graph, node) != NULL)
    return 1;
  const ls_op_info *info = ls_node_info(node);
  const size_t data = ls_op_most(info);
  // Eager ops that are not recorded have no inputs.
  return (info->traits & LS_OP_SIZED) != 0 && data < node->num_inputs
             ? data
             : node->num_inputs;
}

ls_tensor ls_gradient_operand(const ls_gradient_walk *walk, ls_graph *graph,
                              const ls_node *node, size_t i) {
  const ls_capture *capture = ls_gradient_capture(walk, graph, node);
  if (capture != NULL) return capture->outer;
  if (node->type == LS_OP_MEETING) {
    const bool given = i < (size_t)ls_node_int(node, LS_ATTR_ID_NUM_INPUTS);
    if (given != walk->context->in_replica) return ls_failed_tensor();
  }
  const ls_tensor *initial = ls_gradient_initial(walk, graph, node);
  return initial != NULL ? *initial : (ls_tensor){graph, node->inputs[i]};
}

ls_gradient_entry *ls_gradient_source(const ls_gradient_walk *walk,
                                      ls_tensor value, size_t *out_index) {
  if (!ls_dtype_is_trainable(ls_tensor_dtype(value))) return NULL;
  *out_index = ls_gradient_index(walk, ls_tensor_op(value));
  return *out_index == SIZE_MAX ? NULL : &walk->entries[*out_index];
}

// ---- Reads -----------------------------------------------------------------
// Returns true if a read of `read` is one of `goal`: of the variable, of its
// component, or of a handle's target.
static bool covers(const ls_variable *goal, const ls_variable *read) {
  bool found = goal == read || goal == read->container;
  for (size_t i = 0; i < goal->num_targets && !found; ++i)
    found = covers(goal->targets[i], read);
  return found;
}

size_t ls_gradient_first_goal(const ls_gradient_walk *walk, size_t goal) {
  size_t first = 0;
  while (walk->goals[first].variable != walk->goals[goal].variable)
    ++first;
  return first;
}

size_t ls_gradient_goal_of_read(const ls_gradient_walk *walk,
                                const ls_node *node, size_t from) {
  if (node->type != LS_OP_READ) return SIZE_MAX;
  const ls_variable *read = ls_node_named_variable(node);
  if (read == NULL) return SIZE_MAX;
  for (size_t i = from; i < walk->num_goals; ++i) {
    const ls_variable *goal = walk->goals[i].variable;
    if (goal != NULL && covers(goal, read) &&
        ls_gradient_first_goal(walk, i) == i)
      return i;
  }
  return SIZE_MAX;
}

bool ls_gradient_find_reads(const ls_gradient_walk *walk, const ls_node *node,
                            bool *read) {
  bool any = false;
  ls_graph_walk inside;
  for (ls_graph_walk_begin_at(&inside, node); ls_graph_walk_next(&inside);) {
    if (inside.node == node) continue;
    for (size_t goal = ls_gradient_goal_of_read(walk, inside.node, 0);
         goal != SIZE_MAX;
         goal = ls_gradient_goal_of_read(walk, inside.node, goal + 1)) {
      if (read == NULL) return true;
      any = read[goal] = true;
    }
  }
  return any;
}

bool ls_gradient_has_variables(const ls_gradient_walk *walk) {
  for (size_t i = 0; i < walk->num_goals; ++i)
    if (walk->goals[i].variable != NULL) return true;
  return false;
}

// ---- Find the ops ----------------------------------------------------------
// Returns the value of an x, zeroed for a variable, or of a y.
static ls_tensor end_of(const ls_gradient_walk *walk, size_t i) {
  return i < walk->num_goals ? walk->goals[i].tensor
                             : walk->seeds[i - walk->num_goals].y;
}

static ls_status find_place(const ls_gradient_walk *walk, ls_map *found,
                            ls_tensor value) {
  const size_t place =
      value.ref != 0 ? place_of(walk, ls_tensor_op(value)) : SIZE_MAX;
  return ls_memory_status(place == SIZE_MAX ||
                          ls_map_insert_u64(found, place, NULL));
}

// Finds the ops on which the xs and ys depend, so that the time does not grow
// with the rest of the graph.
static ls_status find_places(const ls_gradient_walk *walk, ls_map *found) {
  for (size_t i = 0; i < walk->num_goals + walk->num_seeds; ++i)
    LS_RETURN_IF_ERROR(find_place(walk, found, end_of(walk, i)));
  ls_map_item item;
  for (size_t at = 0; ls_map_next(found, &at, &item);) {
    uint64_t place;
    memcpy(&place, item.key, sizeof(place));
    const ls_op op = op_at_place(walk, (size_t)place);
    const ls_node *node = ls_graph_node(op.graph, op.id);
    const size_t count = ls_gradient_count_operands(walk, op.graph, node);
    for (size_t i = 0; i < count; ++i) {
      const ls_tensor value = ls_gradient_operand(walk, op.graph, node, i);
      if (ls_dtype_is_trainable(ls_tensor_dtype(value)))
        LS_RETURN_IF_ERROR(find_place(walk, found, value));
    }
  }
  return ls_ok();
}

static ls_status number_ops(ls_gradient_walk *walk) {
  ls_arena *arena = walk->context->arena;
  LS_OWN(ls_map, found) = {.allocator = walk->spans[0].graph->allocator};
  LS_RETURN_IF_ERROR(find_places(walk, &found));
  const size_t most = walk->num_goals + walk->num_seeds;
  const size_t num_entries = ls_map_count(&found) + most;
  walk->places = ls_arena_new_array(arena, size_t, ls_map_count(&found));
  walk->outside = ls_arena_new_array(arena, ls_op, most);
  walk->entries = ls_arena_new_array(arena, ls_gradient_entry, num_entries);
  walk->queue = ls_arena_new_array(arena, size_t, num_entries);
  if (walk->places == NULL || walk->outside == NULL || walk->entries == NULL ||
      walk->queue == NULL)
    return ls_out_of_memory();
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&found, &at, &item);) {
    uint64_t place;
    memcpy(&place, item.key, sizeof(place));
    walk->places[walk->num_inside++] = (size_t)place;
  }
  qsort(walk->places, walk->num_inside, sizeof(*walk->places), compare_places);
  for (size_t i = 0; i < most; ++i) {
    const ls_tensor value = end_of(walk, i);
    ls_op op = ls_tensor_op(value);
    op.graph = ls_graph_resolve(op.graph);
    if (value.ref != 0 && ls_gradient_index(walk, op) == SIZE_MAX)
      walk->outside[walk->num_outside++] = op;
  }
  return ls_ok();
}

// Returns true if an op passes no gradient on. Parameters are an exception:
// they have no rule, but may stand for outer values.
static bool blocks(const ls_node *node) {
  return node->type != LS_OP_PARAMETER &&
         ls_gradient_table[node->type] == gradient_none;
}

static void mark_node_reached(ls_gradient_walk *walk, ls_graph *graph,
                              const ls_node *node, size_t index,
                              bool variables) {
  ls_gradient_entry *entry = &walk->entries[index];
  const size_t count =
      blocks(node) ? 0 : ls_gradient_count_operands(walk, graph, node);
  for (size_t i = 0; i < count && !(entry->flags & LS_GRADIENT_REACHED); ++i) {
    size_t from = 0;
    const ls_gradient_entry *source = ls_gradient_source(
        walk, ls_gradient_operand(walk, graph, node, i), &from);
    if (source != NULL && (source->flags & LS_GRADIENT_REACHED))
      entry->flags |= LS_GRADIENT_REACHED;
  }
  if (!variables) return;
  if (ls_gradient_goal_of_read(walk, node, 0) != SIZE_MAX)
    entry->flags |= LS_GRADIENT_TARGET | LS_GRADIENT_REACHED;
  else if (node->num_regions != 0 && ls_gradient_find_reads(walk, node, NULL))
    entry->flags |= LS_GRADIENT_REACHED;
}

static void mark_reached(ls_gradient_walk *walk) {
  for (size_t i = 0; i < walk->num_goals; ++i)
    if (walk->goals[i].variable == NULL)
      walk->entries[ls_gradient_index(walk,
                                      ls_tensor_op(walk->goals[i].tensor))]
          .flags |= LS_GRADIENT_TARGET | LS_GRADIENT_REACHED;
  const bool variables = ls_gradient_has_variables(walk);
  for (size_t i = 0; i < walk->num_inside; ++i) {
    const ls_op op = ls_gradient_op_at(walk, i);
    mark_node_reached(walk, op.graph, ls_graph_node(op.graph, op.id), i,
                      variables);
  }
}

static void mark_node_between(ls_gradient_walk *walk, ls_graph *graph,
                              const ls_node *node) {
  const size_t count = ls_gradient_count_operands(walk, graph, node);
  for (size_t i = 0; i < count; ++i) {
    size_t from = 0;
    ls_gradient_entry *source = ls_gradient_source(
        walk, ls_gradient_operand(walk, graph, node, i), &from);
    if (source == NULL || !(source->flags & LS_GRADIENT_REACHED)) continue;
    source->flags |= LS_GRADIENT_BETWEEN;
    ++source->pending;
  }
}

// Marks backwards from the ys; an operand always precedes its users.
static void mark_between(ls_gradient_walk *walk) {
  for (size_t i = 0; i < walk->num_seeds; ++i) {
    ls_gradient_entry *entry =
        &walk->entries[ls_gradient_index(walk, ls_tensor_op(walk->seeds[i].y))];
    if (entry->flags & LS_GRADIENT_REACHED) entry->flags |= LS_GRADIENT_BETWEEN;
  }
  for (size_t i = walk->num_inside; i > 0; --i) {
    const ls_op op = ls_gradient_op_at(walk, i - 1);
    if (walk->entries[i - 1].flags & LS_GRADIENT_BETWEEN)
      mark_node_between(walk, op.graph, ls_graph_node(op.graph, op.id));
  }
}

// Marks the given stops, and each x that depends on no other x. Gradients end
// there.
static void mark_stops(ls_gradient_walk *walk) {
  for (size_t i = 0; i < walk->num_stops; ++i) {
    const size_t index = ls_gradient_index(walk, walk->stops[i]);
    if (index != SIZE_MAX) walk->entries[index].flags |= LS_GRADIENT_STOP;
  }
  for (size_t i = 0; i < walk->num_goals; ++i) {
    if (walk->goals[i].variable != NULL) continue;
    const ls_op op = ls_tensor_op(walk->goals[i].tensor);
    ls_gradient_entry *entry = &walk->entries[ls_gradient_index(walk, op)];
    ls_graph *graph = ls_graph_resolve(op.graph);
    const ls_node *node = ls_graph_node(graph, op.id);
    const size_t count = ls_gradient_count_operands(walk, graph, node);
    bool stop = true;
    for (size_t k = 0; k < count && stop; ++k) {
      size_t from = 0;
      const ls_gradient_entry *source = ls_gradient_source(
          walk, ls_gradient_operand(walk, graph, node, k), &from);
      stop = source == NULL || !(source->flags & LS_GRADIENT_BETWEEN);
    }
    if (stop) entry->flags |= LS_GRADIENT_STOP;
  }
}

ls_status ls_gradient_find_ops(ls_gradient_walk *walk) {
  LS_RETURN_IF_ERROR(number_ops(walk));
  mark_reached(walk);
  mark_between(walk);
  mark_stops(walk);
  return ls_ok();
}
