// SPDX-License-Identifier: Apache-2.0
#include "grad/walk.h"

#include "base/runtime_internal.h"
#include "base/text.h"
#include "graph/inline.h"
#include "graph/variable.h"

enum {
  FLAG_TARGET = 1,   // An x is among its results.
  FLAG_REACHED = 2,  // Depends on an x.
  FLAG_BETWEEN = 4,  // And a y depends on it.
  FLAG_STOP = 8,     // Not differentiated through.
  FLAG_QUEUED = 16,
};

static const size_t nowhere = SIZE_MAX;

// The gradients that came in for one result, and their sum.
typedef struct slot {
  ls_tensor *terms;
  size_t count, capacity;
  ls_tensor sum;
} slot;

struct ls_gradient_entry {
  uint32_t pending;  // Uses by ops that are still to be visited.
  uint8_t flags;
  uint16_t num_slots;
  slot *slots;  // One a result; NULL while there is no term.
};

// ---- Numbering -------------------------------------------------------------
static size_t index_of(const ls_gradient_walk *walk, ls_op op) {
  const ls_graph *graph = ls_graph_resolve(op.graph);
  for (size_t i = walk->num_spans; i > 0; --i) {
    const ls_gradient_span *span = &walk->spans[i - 1];
    if (span->graph != graph) continue;
    const size_t at = ls_graph_position(graph, op.id);
    if (at >= span->begin && at < span->end)
      return span->base + at - span->begin;
  }
  for (size_t i = 0; i < walk->num_outside; ++i)
    if (walk->outside[i].id == op.id && walk->outside[i].graph == graph)
      return walk->num_inside + i;
  return nowhere;
}

static ls_op op_at(const ls_gradient_walk *walk, size_t index) {
  if (index >= walk->num_inside) return walk->outside[index - walk->num_inside];
  size_t i = walk->num_spans - 1;
  while (walk->spans[i].base > index)
    --i;
  const ls_gradient_span *span = &walk->spans[i];
  return (ls_op){span->graph,
                 span->graph->nodes[span->begin + index - span->base]->id};
}

// ---- Operands --------------------------------------------------------------
// A capture has one operand: the value outside that it stands for, if the
// walk goes there.
static const ls_capture *capture_of(const ls_gradient_walk *walk,
                                    const ls_graph *graph,
                                    const ls_node *node) {
  if (node->type != LS_OP_PARAMETER || walk->spans[0].graph == graph)
    return NULL;
  const size_t number = (size_t)ls_node_int(node, "index", 0);
  return number < graph->num_declared
             ? NULL
             : &graph->captures[number - graph->num_declared];
}

// A value that goes round in a loop whose body is being traced has one too:
// what it starts from. No gradient passes there.
static const ls_tensor *initial_of(const ls_gradient_walk *walk,
                                   const ls_graph *graph,
                                   const ls_node *node) {
  if (node->type != LS_OP_PARAMETER || walk->spans[0].graph == graph ||
      graph->initial == NULL)
    return NULL;
  const size_t number = (size_t)ls_node_int(node, "index", 0);
  return number < graph->num_declared ? &graph->initial[number] : NULL;
}

// Operands that only lend their dimensions are none here.
static size_t count_operands(const ls_gradient_walk *walk,
                             const ls_graph *graph, const ls_node *node) {
  if (capture_of(walk, graph, node) != NULL ||
      initial_of(walk, graph, node) != NULL)
    return 1;
  const ls_op_info *info = ls_node_info(node);
  return (info->traits & LS_OP_SIZED) != 0 ? (size_t)info->data_inputs
                                           : node->num_inputs;
}

static ls_tensor operand(const ls_gradient_walk *walk, ls_graph *graph,
                         const ls_node *node, size_t i) {
  const ls_capture *capture = capture_of(walk, graph, node);
  if (capture != NULL) return capture->outer;
  const ls_tensor *initial = initial_of(walk, graph, node);
  return initial != NULL ? *initial : (ls_tensor){graph, node->inputs[i]};
}

// The entry of the op an operand comes from, if gradients may flow there.
static ls_gradient_entry *operand_entry(const ls_gradient_walk *walk,
                                        ls_tensor value, size_t *out_index) {
  if (!ls_dtype_is_trainable(ls_tensor_dtype(value))) return NULL;
  *out_index = index_of(walk, ls_tensor_op(value));
  return *out_index == nowhere ? NULL : &walk->entries[*out_index];
}

// ---- Variables -------------------------------------------------------------
// The goal that a read reads, or `nowhere`.
static size_t goal_of_read(const ls_gradient_walk *walk, const ls_node *node) {
  if (node->type != LS_OP_READ) return nowhere;
  const ls_attr *attr = ls_node_attr(node, "variable");
  if (attr == NULL) return nowhere;
  const ls_variable *read = (const ls_variable *)attr->as.object;
  for (size_t i = 0; i < walk->num_goals; ++i) {
    const ls_variable *goal = (const ls_variable *)walk->goals[i].variable;
    // A component that is read stands for the whole.
    if (goal != NULL && (goal == read || goal == read->container)) return i;
  }
  return nowhere;
}

// Marks in `read` the goals that are read inside; returns whether there is one.
static bool find_reads(const ls_gradient_walk *walk, const ls_node *node,
                       bool *read) {
  bool any = false;
  for (uint32_t r = 0; r < node->num_regions; ++r) {
    const ls_graph *region = ls_graph_resolve(node->regions[r]);
    for (size_t i = 0; i < region->num_nodes; ++i) {
      const size_t goal = goal_of_read(walk, region->nodes[i]);
      if (goal != nowhere) {
        any = true;
        if (read != NULL) read[goal] = true;
      }
      if (region->nodes[i]->num_regions != 0 &&
          find_reads(walk, region->nodes[i], read))
        any = true;
      if (any && read == NULL) return true;
    }
  }
  return any;
}

static bool has_variables(const ls_gradient_walk *walk) {
  for (size_t i = 0; i < walk->num_goals; ++i)
    if (walk->goals[i].variable != NULL) return true;
  return false;
}

bool ls_gradient_walk_reads(const ls_gradient_walk *walk, const ls_node *node) {
  return goal_of_read(walk, node) != nowhere || find_reads(walk, node, NULL);
}

ls_status ls_gradient_walk_variables(const ls_gradient_walk *walk,
                                     const ls_node *node,
                                     ls_gradient_goal **out_goals,
                                     size_t **out_sources, size_t *out_count) {
  ls_arena *arena = walk->context->arena;
  bool *read = ls_arena_new_array(arena, bool, walk->num_goals);
  *out_goals = ls_arena_new_array(arena, ls_gradient_goal, walk->num_goals);
  *out_sources = ls_arena_new_array(arena, size_t, walk->num_goals);
  *out_count = 0;
  if (read == NULL || *out_goals == NULL || *out_sources == NULL)
    return ls_out_of_memory();
  find_reads(walk, node, read);
  for (size_t i = 0; i < walk->num_goals; ++i) {
    if (!read[i]) continue;
    (*out_goals)[*out_count].variable = walk->goals[i].variable;
    (*out_sources)[(*out_count)++] = i;
  }
  return ls_ok();
}

// Terms are kept in the order of the ops they arose at.
static ls_status add_variable_term(ls_gradient_walk *walk, size_t number,
                                   size_t order, ls_tensor gradient) {
  ls_gradient_goal *goal = &walk->goals[number];
  if (goal->num_terms == goal->terms_capacity) {
    const size_t capacity = goal->terms_capacity * 2 + 2;
    ls_gradient_term *terms =
        ls_arena_new_array(walk->context->arena, ls_gradient_term, capacity);
    if (terms == NULL) return ls_out_of_memory();
    if (goal->num_terms != 0)
      memcpy(terms, goal->terms, goal->num_terms * sizeof(*terms));
    goal->terms = terms;
    goal->terms_capacity = capacity;
  }
  size_t at = goal->num_terms++;
  for (; at > 0 && goal->terms[at - 1].order > order; --at)
    goal->terms[at] = goal->terms[at - 1];
  goal->terms[at] = (ls_gradient_term){order, gradient};
  return ls_ok();
}

ls_status ls_gradient_walk_contribute(ls_gradient_walk *walk, size_t goal,
                                      ls_tensor gradient) {
  return add_variable_term(walk, goal, walk->visiting, gradient);
}

// ---- Which ops -------------------------------------------------------------
static ls_status number_ops(ls_gradient_walk *walk) {
  ls_arena *arena = walk->context->arena;
  const ls_gradient_span *last = &walk->spans[walk->num_spans - 1];
  walk->num_inside = last->base + (last->end - last->begin);
  const size_t most = walk->num_goals + walk->num_seeds;
  walk->outside = ls_arena_new_array(arena, ls_op, most);
  walk->num_entries = walk->num_inside + most;
  walk->entries =
      ls_arena_new_array(arena, ls_gradient_entry, walk->num_entries);
  walk->queue = ls_arena_new_array(arena, size_t, walk->num_entries);
  if (walk->outside == NULL || walk->entries == NULL || walk->queue == NULL)
    return ls_out_of_memory();
  for (size_t i = 0; i < most; ++i) {
    const ls_tensor value = i < walk->num_goals
                                ? walk->goals[i].tensor
                                : walk->seeds[i - walk->num_goals].y;
    ls_op op = ls_tensor_op(value);
    op.graph = ls_graph_resolve(op.graph);
    if (value.ref != 0 && index_of(walk, op) == nowhere)
      walk->outside[walk->num_outside++] = op;
  }
  return ls_ok();
}

static void mark_node_reached(ls_gradient_walk *walk, ls_graph *graph,
                              const ls_node *node, size_t index,
                              bool variables) {
  ls_gradient_entry *entry = &walk->entries[index];
  const size_t count = count_operands(walk, graph, node);
  for (size_t i = 0; i < count && !(entry->flags & FLAG_REACHED); ++i) {
    size_t from = 0;
    const ls_gradient_entry *source =
        operand_entry(walk, operand(walk, graph, node, i), &from);
    if (source != NULL && (source->flags & FLAG_REACHED))
      entry->flags |= FLAG_REACHED;
  }
  if (!variables) return;
  if (goal_of_read(walk, node) != nowhere)
    entry->flags |= FLAG_TARGET | FLAG_REACHED;
  else if (node->num_regions != 0 && find_reads(walk, node, NULL))
    entry->flags |= FLAG_REACHED;
}

static void mark_reached(ls_gradient_walk *walk) {
  for (size_t i = 0; i < walk->num_goals; ++i)
    if (walk->goals[i].variable == NULL)
      walk->entries[index_of(walk, ls_tensor_op(walk->goals[i].tensor))]
          .flags |= FLAG_TARGET | FLAG_REACHED;
  const bool variables = has_variables(walk);
  for (size_t s = 0; s < walk->num_spans; ++s) {
    const ls_gradient_span *span = &walk->spans[s];
    for (size_t i = span->begin; i < span->end; ++i)
      mark_node_reached(walk, span->graph, span->graph->nodes[i],
                        span->base + i - span->begin, variables);
  }
}

static void mark_node_between(ls_gradient_walk *walk, ls_graph *graph,
                              const ls_node *node) {
  const size_t count = count_operands(walk, graph, node);
  for (size_t i = 0; i < count; ++i) {
    size_t from = 0;
    ls_gradient_entry *source =
        operand_entry(walk, operand(walk, graph, node, i), &from);
    if (source == NULL || !(source->flags & FLAG_REACHED)) continue;
    source->flags |= FLAG_BETWEEN;
    ++source->pending;
  }
}

// Backwards from the ys; an operand is always before its use.
static void mark_between(ls_gradient_walk *walk) {
  for (size_t i = 0; i < walk->num_seeds; ++i) {
    ls_gradient_entry *entry =
        &walk->entries[index_of(walk, ls_tensor_op(walk->seeds[i].y))];
    if (entry->flags & FLAG_REACHED) entry->flags |= FLAG_BETWEEN;
  }
  for (size_t s = walk->num_spans; s > 0; --s) {
    const ls_gradient_span *span = &walk->spans[s - 1];
    for (size_t i = span->end; i > span->begin; --i)
      if (walk->entries[span->base + i - 1 - span->begin].flags & FLAG_BETWEEN)
        mark_node_between(walk, span->graph, span->graph->nodes[i - 1]);
  }
}

// An x with no other x before it is where differentiation ends.
static void mark_stops(ls_gradient_walk *walk) {
  for (size_t i = 0; i < walk->num_stops; ++i) {
    const size_t index = index_of(walk, walk->stops[i]);
    if (index != nowhere) walk->entries[index].flags |= FLAG_STOP;
  }
  for (size_t i = 0; i < walk->num_goals; ++i) {
    if (walk->goals[i].variable != NULL) continue;
    const ls_op op = ls_tensor_op(walk->goals[i].tensor);
    ls_gradient_entry *entry = &walk->entries[index_of(walk, op)];
    ls_graph *graph = ls_graph_resolve(op.graph);
    const ls_node *node = ls_graph_node(graph, op.id);
    const size_t count = count_operands(walk, graph, node);
    bool stop = true;
    for (size_t k = 0; k < count && stop; ++k) {
      size_t from = 0;
      const ls_gradient_entry *source =
          operand_entry(walk, operand(walk, graph, node, k), &from);
      stop = source == NULL || !(source->flags & FLAG_BETWEEN);
    }
    if (stop) entry->flags |= FLAG_STOP;
  }
}

// ---- Gradients that have come in -------------------------------------------
static ls_status add_term(ls_gradient_walk *walk, ls_tensor value,
                          ls_tensor gradient) {
  ls_arena *arena = walk->context->arena;
  const size_t index = index_of(walk, ls_tensor_op(value));
  if (index == nowhere) return ls_ok();
  ls_gradient_entry *entry = &walk->entries[index];
  if (!(entry->flags & FLAG_BETWEEN)) return ls_ok();
  if (entry->slots == NULL) {
    entry->num_slots = (uint16_t)ls_op_num_outputs(ls_tensor_op(value));
    entry->slots = ls_arena_new_array(arena, slot, entry->num_slots);
    if (entry->slots == NULL) return ls_out_of_memory();
  }
  slot *at = &entry->slots[ls_ref_output(value.ref)];
  if (at->count == at->capacity) {
    const size_t capacity = at->capacity * 2 + 2;
    ls_tensor *terms = ls_arena_new_array(arena, ls_tensor, capacity);
    if (terms == NULL) return ls_out_of_memory();
    if (at->count != 0) memcpy(terms, at->terms, at->count * sizeof(*terms));
    at->terms = terms;
    at->capacity = capacity;
  }
  at->terms[at->count++] = gradient;
  return ls_ok();
}

static void enqueue_if_ready(ls_gradient_walk *walk, size_t index) {
  ls_gradient_entry *entry = &walk->entries[index];
  if (entry->pending != 0 || !(entry->flags & FLAG_BETWEEN) ||
      (entry->flags & FLAG_QUEUED))
    return;
  entry->flags |= FLAG_QUEUED;
  walk->queue[walk->queue_tail++] = index;
}

// ---- One op ----------------------------------------------------------------
ls_tensor ls_gradient_input(ls_gradient *g, size_t index) {
  ls_tensor value = ls_failed_tensor();
  if (g->walk->failure == NULL)
    g->walk->failure =
        ls_forward_value(g->walk->forward, ls_op_input(g->op, index), &value);
  return value;
}

ls_tensor ls_gradient_output(ls_gradient *g, size_t index) {
  ls_tensor value = ls_failed_tensor();
  if (g->walk->failure == NULL)
    g->walk->failure = ls_forward_value(
        g->walk->forward, ls_op_output(g->op, (unsigned)index), &value);
  return value;
}

// The sums of what came in for each result; false if nothing did.
static bool sum_results(ls_gradient_walk *walk, ls_gradient_entry *entry,
                        ls_op op) {
  bool any = false;
  for (uint16_t i = 0; entry->slots != NULL && i < entry->num_slots; ++i) {
    slot *at = &entry->slots[i];
    if (at->count == 0) continue;
    any = true;
    at->sum =
        ls_gradient_sum(walk->context, ls_op_name(op), at->terms, at->count);
  }
  return any;
}

// The first error: of a forward value, of the rule, of an op maker in it.
static ls_status rule_error(ls_gradient_walk *walk, ls_op op,
                            ls_status status) {
  if (walk->failure != NULL) {
    ls_status_free(status);
    status = walk->failure;
    walk->failure = NULL;
  }
  ls_graph *current = ls_graph_resolve(ls_graph_current());
  if (status == NULL && current != NULL)
    status = current->kind == LS_GRAPH_EAGER ? ls_graph_take_error(current)
                                             : ls_graph_error(current);
  return ls_status_annotate(status, "in the gradient of '%s' (%s)",
                            ls_op_name(op), ls_op_type_name(op));
}

// A gradient has the operand's type, and what is known of its shape.
static ls_status check_gradient(const ls_gradient *g, size_t i) {
  const ls_tensor gradient = g->din[i];
  const ls_tensor input = ls_op_input(g->op, i);
  const ls_type type = {ls_tensor_dtype(input), ls_tensor_shape(input)};
  const ls_shape shape = ls_tensor_shape(gradient);
  const ls_node *made = ls_graph_node_of(gradient.graph, gradient.ref);
  if (made != NULL && made->failure != NULL)  // In eager.
    return ls_status_clone(made->failure);
  if (ls_tensor_dtype(gradient) != type.dtype ||
      !ls_shape_compatible(shape, type.shape))
    return ls_invalid_argument(
        "Incompatible shapes: input %zu of op '%s' (%s) is %s, its gradient "
        "is %s",
        i, ls_op_name(g->op), ls_op_type_name(g->op),
        LS_SHAPE_TEXT(type.dtype, type.shape),
        LS_SHAPE_TEXT(ls_tensor_dtype(gradient), shape));
  ls_graph *graph = ls_graph_resolve(gradient.graph);
  if (graph->kind == LS_GRAPH_EAGER ||
      graph != ls_graph_resolve(ls_graph_current()))
    return ls_ok();
  ls_node *node = ls_graph_node_of(graph, gradient.ref);
  return ls_shape_merge(shape, type.shape,
                        &node->outputs[ls_ref_output(gradient.ref)].shape);
}

static void log_gradients(const ls_gradient *g) {
  ls_text text;
  ls_text_init(&text, ls_runtime_allocator(g->walk->context->runtime));
  ls_text_append_format(&text, "%s:", ls_op_name(g->op));
  for (size_t i = 0; i < g->num_outputs; ++i)
    if (g->dout[i].ref != 0)
      ls_text_append_format(&text, " %s", ls_tensor_name(g->dout[i]));
  ls_text_append(&text, " ->");
  for (size_t i = 0; i < g->num_inputs; ++i)
    if (g->din[i].ref != 0)
      ls_text_append_format(&text, " %s", ls_tensor_name(g->din[i]));
  ls_runtime_log(g->walk->context->runtime, LS_LOG_DEBUG, "grad", "%s",
                 ls_text_data(&text));
  ls_text_deinit(&text);
}

static ls_status apply_rule(ls_gradient *g) {
  ls_gradient_walk *walk = g->walk;
  ls_scope names = {0};
  ls_gradient_begin_names(&names, ls_op_name(g->op), "_grad");
  ls_status status =
      rule_error(walk, g->op, ls_gradient_table[g->node->type](g));
  for (size_t i = 0; status == NULL && i < g->num_inputs; ++i)
    if (g->din[i].ref != 0) status = check_gradient(g, i);
  if (status == NULL && walk->context->gate) {
    ls_gradient_gate(walk->context, g->din, g->num_inputs);
    status = rule_error(walk, g->op, NULL);
  }
  ls_scope_end(&names);
  if (status == NULL && ls_gradient_verbosity(walk->context) >= 1)
    log_gradients(g);
  return status;
}

// Asks the op's rule, and hands its answers to the operands.
static ls_status differentiate(ls_gradient_walk *walk, size_t index, ls_op op,
                               const ls_node *node) {
  ls_arena *arena = walk->context->arena;
  const ls_gradient_entry *entry = &walk->entries[index];
  ls_tensor *dout = ls_arena_new_array(arena, ls_tensor, entry->num_slots);
  ls_tensor *din = ls_arena_new_array(arena, ls_tensor, node->num_inputs);
  bool *wanted = ls_arena_new_array(arena, bool, node->num_inputs);
  if (dout == NULL || din == NULL || wanted == NULL) return ls_out_of_memory();
  for (uint16_t i = 0; i < entry->num_slots; ++i)
    dout[i] = entry->slots[i].sum;
  bool any = node->num_regions != 0 && has_variables(walk);
  const size_t count = count_operands(walk, op.graph, node);
  for (size_t i = 0; i < count; ++i) {
    size_t from = 0;
    const ls_gradient_entry *source =
        operand_entry(walk, ls_op_input(op, i), &from);
    wanted[i] = source != NULL && (source->flags & FLAG_BETWEEN);
    any = any || wanted[i];
  }
  if (!any) return ls_ok();
  ls_gradient g = {.op = op,
                   .node = node,
                   .dout = dout,
                   .din = din,
                   .wanted = wanted,
                   .num_inputs = node->num_inputs,
                   .num_outputs = entry->num_slots,
                   .walk = walk};
  walk->visiting = index;
  LS_RETURN_IF_ERROR(apply_rule(&g));
  for (size_t i = 0; i < g.num_inputs; ++i)
    if (din[i].ref != 0)
      LS_RETURN_IF_ERROR(add_term(walk, ls_op_input(op, i), din[i]));
  return ls_ok();
}

// The operand that depends on an x; `nowhere`: none.
static size_t operand_behind(const ls_gradient_walk *walk, ls_graph *graph,
                             const ls_node *node) {
  const size_t count = count_operands(walk, graph, node);
  for (size_t i = 0; i < count; ++i) {
    size_t from = 0;
    const ls_gradient_entry *source =
        operand_entry(walk, operand(walk, graph, node, i), &from);
    if (source != NULL && (source->flags & FLAG_REACHED)) return from;
  }
  return nowhere;
}

// A value that goes round, whose initial value depends on an x: names that x.
static ls_status refuse_initial(const ls_gradient_walk *walk, ls_op op,
                                size_t at) {
  for (size_t next = at; next != nowhere;) {
    at = next;
    if (walk->entries[at].flags & FLAG_TARGET) break;
    const ls_op source = op_at(walk, at);
    ls_graph *graph = ls_graph_resolve(source.graph);
    next = operand_behind(walk, graph, ls_graph_node(graph, source.id));
  }
  return ls_invalid_argument(
      "a gradient is taken inside of a loop with respect to '%s', through the "
      "initial value of '%s', which goes round. Inside it can be taken with "
      "respect to the body's parameters and to what does not change; with "
      "respect to initial values, outside",
      ls_op_name(op_at(walk, at)), ls_op_name(op));
}

static ls_status visit_with_gradients(ls_gradient_walk *walk, size_t index,
                                      ls_op op, ls_graph *graph,
                                      const ls_node *node) {
  const ls_gradient_entry *entry = &walk->entries[index];
  const size_t goal = goal_of_read(walk, node);
  if (goal != nowhere)
    return add_variable_term(walk, goal, index, entry->slots[0].sum);
  if ((entry->flags & FLAG_STOP) || index >= walk->num_inside) return ls_ok();
  const ls_capture *capture = capture_of(walk, graph, node);
  if (capture != NULL)
    return add_term(walk, capture->outer, entry->slots[0].sum);
  if (initial_of(walk, graph, node) != NULL) {
    const size_t behind = operand_behind(walk, graph, node);
    if (behind != nowhere) return refuse_initial(walk, op, behind);
  }
  if (ls_gradient_table[node->type] == gradient_none) return ls_ok();
  return differentiate(walk, index, op, node);
}

static ls_status visit(ls_gradient_walk *walk, size_t index) {
  const ls_op op = op_at(walk, index);
  ls_graph *graph = ls_graph_resolve(op.graph);
  const ls_node *node = ls_graph_node(graph, op.id);
  ls_scope beside = {0};
  if (walk->forward->graph == NULL)
    ls_gradient_begin_beside(walk->context, &beside, op);
  ls_status status = ls_ok();
  if (sum_results(walk, &walk->entries[index], op))
    status = visit_with_gradients(walk, index, op, graph, node);
  if (status == NULL) status = rule_error(walk, op, NULL);
  ls_scope_end(&beside);
  if (status != NULL || index >= walk->num_inside) return status;
  const size_t count = count_operands(walk, graph, node);
  for (size_t i = 0; i < count; ++i) {
    size_t from = 0;
    ls_gradient_entry *source =
        operand_entry(walk, operand(walk, graph, node, i), &from);
    if (source == NULL || source->pending == 0) continue;
    --source->pending;
    enqueue_if_ready(walk, from);
  }
  return ls_ok();
}

// ---- Answers ---------------------------------------------------------------
static ls_status answer_variable(ls_gradient_walk *walk,
                                 ls_gradient_goal *goal) {
  if (goal->num_terms == 0) return ls_ok();
  ls_tensor *terms =
      ls_arena_new_array(walk->context->arena, ls_tensor, goal->num_terms);
  if (terms == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < goal->num_terms; ++i)
    terms[i] = goal->terms[i].gradient;
  goal->gradient = ls_gradient_sum(
      walk->context, ls_variable_name(goal->variable), terms, goal->num_terms);
  return ls_ok();
}

static ls_status answer(ls_gradient_walk *walk) {
  for (size_t i = 0; i < walk->num_goals; ++i) {
    ls_gradient_goal *goal = &walk->goals[i];
    if (goal->variable != NULL) {
      size_t first = 0;  // A variable given twice has one answer.
      while (walk->goals[first].variable != goal->variable)
        ++first;
      if (first == i)
        LS_RETURN_IF_ERROR(answer_variable(walk, goal));
      else
        goal->gradient = walk->goals[first].gradient;
      continue;
    }
    const ls_gradient_entry *entry =
        &walk->entries[index_of(walk, ls_tensor_op(goal->tensor))];
    const unsigned output = ls_ref_output(goal->tensor.ref);
    if (entry->slots != NULL && output < entry->num_slots)
      goal->gradient = entry->slots[output].sum;
  }
  return ls_ok();
}

ls_status ls_gradient_walk_run(ls_gradient_walk *walk) {
  LS_RETURN_IF_ERROR(number_ops(walk));
  mark_reached(walk);
  mark_between(walk);
  mark_stops(walk);
  for (size_t i = 0; i < walk->num_seeds; ++i)
    LS_RETURN_IF_ERROR(
        add_term(walk, walk->seeds[i].y, walk->seeds[i].gradient));
  for (size_t i = 0; i < walk->num_seeds; ++i)
    enqueue_if_ready(walk, index_of(walk, ls_tensor_op(walk->seeds[i].y)));
  while (walk->queue_head != walk->queue_tail)
    LS_RETURN_IF_ERROR(visit(walk, walk->queue[walk->queue_head++]));
  return answer(walk);
}
