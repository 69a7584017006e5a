// SPDX-License-Identifier: Apache-2.0
#include "grad/walk.h"

#include "base/text.h"
#include "lockstep/shape_rules.h"

// ---- Variables -------------------------------------------------------------
bool ls_gradient_walk_reads(const ls_gradient_walk *walk, const ls_node *node) {
  return ls_gradient_goal_of_read(walk, node, 0) != SIZE_MAX ||
         ls_gradient_find_reads(walk, node, NULL);
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
  ls_gradient_find_reads(walk, node, read);
  for (size_t i = 0; i < walk->num_goals; ++i) {
    if (!read[i]) continue;
    (*out_goals)[*out_count].variable = walk->goals[i].variable;
    (*out_sources)[(*out_count)++] = i;
  }
  return ls_ok();
}

// Inserts the term in the order of the ops that give the terms.
ls_status ls_gradient_walk_contribute(ls_gradient_walk *walk, size_t number,
                                      ls_tensor gradient) {
  ls_gradient_goal *goal = &walk->goals[number];
  if (goal->num_terms == goal->terms_capacity) {
    const size_t capacity = goal->terms_capacity * 2 + 2;
    LS_ARENA_ARRAY_OR_RETURN(walk->context->arena, ls_gradient_term, terms,
                             capacity);
    if (goal->num_terms != 0)
      memcpy(terms, goal->terms, goal->num_terms * sizeof(*terms));
    goal->terms = terms;
    goal->terms_capacity = capacity;
  }
  size_t at = goal->num_terms++;
  for (; at > 0 && goal->terms[at - 1].order > walk->visiting; --at)
    goal->terms[at] = goal->terms[at - 1];
  goal->terms[at] = (ls_gradient_term){walk->visiting, gradient};
  return ls_ok();
}

ls_status ls_gradient_walk_read(ls_gradient_walk *walk, const ls_node *read,
                                ls_tensor gradient) {
  for (size_t goal = ls_gradient_goal_of_read(walk, read, 0); goal != SIZE_MAX;
       goal = ls_gradient_goal_of_read(walk, read, goal + 1))
    LS_RETURN_IF_ERROR(ls_gradient_walk_contribute(walk, goal, gradient));
  return ls_ok();
}

// ---- Received gradients ----------------------------------------------------
static ls_status walk_add_term(ls_gradient_walk *walk, ls_tensor value,
                               ls_tensor gradient) {
  ls_arena *arena = walk->context->arena;
  const size_t index = ls_gradient_index(walk, ls_tensor_op(value));
  if (index == SIZE_MAX) return ls_ok();
  ls_gradient_entry *entry = &walk->entries[index];
  if (!(entry->flags & LS_GRADIENT_BETWEEN)) return ls_ok();
  if (entry->slots == NULL) {
    entry->num_slots = (uint32_t)ls_op_num_outputs(ls_tensor_op(value));
    LS_ARENA_SET_OR_RETURN(arena, ls_gradient_slot, entry->slots,
                           entry->num_slots);
  }
  ls_gradient_slot *at = &entry->slots[ls_ref_output(value.ref)];
  if (at->count == at->capacity) {
    const size_t capacity = at->capacity * 2 + 2;
    LS_ARENA_ARRAY_OR_RETURN(arena, ls_tensor, terms, capacity);
    if (at->count != 0) memcpy(terms, at->terms, at->count * sizeof(*terms));
    at->terms = terms;
    at->capacity = capacity;
  }
  at->terms[at->count++] = gradient;
  return ls_ok();
}

static void enqueue_if_ready(ls_gradient_walk *walk, size_t index) {
  ls_gradient_entry *entry = &walk->entries[index];
  if (entry->pending != 0 || !(entry->flags & LS_GRADIENT_BETWEEN) ||
      (entry->flags & LS_GRADIENT_QUEUED))
    return;
  entry->flags |= LS_GRADIENT_QUEUED;
  walk->queue[walk->queue_tail++] = index;
}

// ---- One op ----------------------------------------------------------------
ls_tensor ls_gradient_input(ls_backward *g, size_t index) {
  ls_tensor value = ls_failed_tensor();
  if (g->walk->failure == NULL)
    g->walk->failure =
        ls_forward_value(g->walk->forward, ls_op_input(g->op, index), &value);
  return value;
}

ls_tensor ls_gradient_output(ls_backward *g, size_t index) {
  ls_tensor value = ls_failed_tensor();
  if (g->walk->failure == NULL)
    g->walk->failure = ls_forward_value(
        g->walk->forward, ls_op_output(g->op, (unsigned)index), &value);
  return value;
}

// Sums the gradients received for each result; returns false if none was
// received.
static bool sum_results(ls_gradient_walk *walk, ls_gradient_entry *entry,
                        ls_op op) {
  bool any = false;
  for (uint32_t i = 0; entry->slots != NULL && i < entry->num_slots; ++i) {
    ls_gradient_slot *at = &entry->slots[i];
    if (at->count == 0) continue;
    any = true;
    at->sum =
        ls_gradient_sum(walk->context, ls_op_name(op), at->terms, at->count);
  }
  return any;
}

// Returns the first error among those of a forward value, of the rule, and of
// an op maker in the rule.
static ls_status rule_error(ls_gradient_walk *walk, ls_op op,
                            ls_status status) {
  if (walk->failure != NULL) {
    ls_status_free(status);
    status = walk->failure;
    walk->failure = NULL;
  }
  ls_graph *current = ls_graph_resolve(ls_graph_current());
  if (ls_status_is_ok(status) && current != NULL)
    status = current->kind == LS_GRAPH_EAGER ? ls_graph_take_error(current)
                                             : ls_graph_error(current);
  // Returns the failure of the name scope, which a rule without ops would miss.
  return ls_status_annotate(ls_status_is_ok(status) ? ls_scope_status()
                                                    : status,
                            "in the gradient of %s", LS_OP_TEXT(op));
}

// Checks that a gradient has its operand's type, and its shape as far as that
// is known.
static ls_status check_gradient(const ls_backward *g, size_t i) {
  const ls_tensor gradient = g->din[i];
  const ls_tensor input = ls_op_input(g->op, i);
  const ls_type type = {ls_tensor_dtype(input), ls_tensor_shape(input)};
  const ls_shape shape = ls_tensor_shape(gradient);
  const ls_node *made = ls_graph_node_of(gradient.graph, gradient.ref);
  if (made != NULL && made->failure != NULL)  // A failed eager value.
    return ls_status_clone(made->failure);
  if (ls_tensor_dtype(gradient) != type.dtype ||
      !ls_shape_compatible(shape, type.shape))
    return ls_invalid_argument(
        "Incompatible %s: input %zu of op %s is %s, its gradient is %s",
        ls_tensor_dtype(gradient) != type.dtype ? "types" : "shapes", i,
        LS_OP_TEXT(g->op), LS_SHAPE_TEXT(type.dtype, type.shape),
        LS_SHAPE_TEXT(ls_tensor_dtype(gradient), shape));
  ls_graph *graph = ls_graph_resolve(gradient.graph);
  if (graph->kind == LS_GRAPH_EAGER ||
      graph != ls_graph_resolve(ls_graph_current()))
    return ls_ok();
  ls_node *node = ls_graph_node_of(graph, gradient.ref);
  return ls_shape_merge(shape, type.shape,
                        &node->outputs[ls_ref_output(gradient.ref)].shape);
}

static void log_gradients(const ls_backward *g) {
  ls_text text = {.allocator = ls_runtime_allocator(g->walk->context->runtime)};
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

static ls_status call_rule(ls_backward *g) {
  ls_gradient_walk *walk = g->walk;
  LS_RETURN_IF_ERROR(
      rule_error(walk, g->op, ls_gradient_table[g->node->type](g)));
  for (size_t i = 0; i < g->num_inputs; ++i)
    if (g->din[i].ref != 0) LS_RETURN_IF_ERROR(check_gradient(g, i));
  if (!walk->context->gate) return ls_ok();
  ls_gradient_gate(walk->context, g->din, g->num_inputs);
  return rule_error(walk, g->op, NULL);
}

static ls_status apply_rule(ls_backward *g) {
  ls_gradient_walk *walk = g->walk;
  ls_scope names = {0};
  ls_gradient_begin_names(&names, ls_op_name(g->op), "_grad");
  const ls_status status = call_rule(g);
  ls_scope_end(&names);
  if (ls_status_is_ok(status) && ls_gradient_verbosity(walk->context) >= 1)
    log_gradients(g);
  return status;
}

// Calls the rule of an op, and passes the gradients to the operands.
static ls_status differentiate_op(ls_gradient_walk *walk, size_t index,
                                  ls_op op, const ls_node *node) {
  ls_arena *arena = walk->context->arena;
  const ls_gradient_entry *entry = &walk->entries[index];
  LS_ARENA_ARRAY_OR_RETURN(arena, ls_tensor, dout, entry->num_slots);
  LS_ARENA_ARRAY_OR_RETURN(arena, ls_tensor, din, node->num_inputs);
  LS_ARENA_ARRAY_OR_RETURN(arena, bool, wanted, node->num_inputs);
  // Gradients of trainable results only are passed on; integers are constants.
  bool given = false;
  for (uint32_t i = 0; i < entry->num_slots; ++i) {
    if (!ls_dtype_is_trainable(ls_tensor_dtype(ls_op_output(op, i)))) continue;
    dout[i] = entry->slots[i].sum;
    given = given || dout[i].ref != 0;
  }
  if (!given) return ls_ok();
  bool any = node->num_regions != 0 && ls_gradient_has_variables(walk);
  ls_graph *graph = ls_graph_resolve(op.graph);
  const size_t count = ls_gradient_count_operands(walk, graph, node);
  for (size_t i = 0; i < count; ++i) {
    size_t from = 0;
    const ls_gradient_entry *source = ls_gradient_source(
        walk, ls_gradient_operand(walk, graph, node, i), &from);
    wanted[i] = source != NULL && (source->flags & LS_GRADIENT_BETWEEN);
    any = any || wanted[i];
  }
  if (!any) return ls_ok();
  ls_backward g = {.op = op,
                   .node = node,
                   .dout = dout,
                   .din = din,
                   .wanted = wanted,
                   .num_inputs = node->num_inputs,
                   .num_outputs = entry->num_slots,
                   .walk = walk};
  LS_RETURN_IF_ERROR(apply_rule(&g));
  for (size_t i = 0; i < g.num_inputs; ++i)
    if (din[i].ref != 0)
      LS_RETURN_IF_ERROR(walk_add_term(walk, ls_op_input(op, i), din[i]));
  return ls_ok();
}

// Returns the op of an operand that depends on an x; SIZE_MAX if no operand
// does.
static size_t operand_behind(const ls_gradient_walk *walk, ls_graph *graph,
                             const ls_node *node) {
  const size_t count = ls_gradient_count_operands(walk, graph, node);
  for (size_t i = 0; i < count; ++i) {
    size_t from = 0;
    const ls_gradient_entry *source = ls_gradient_source(
        walk, ls_gradient_operand(walk, graph, node, i), &from);
    if (source != NULL && (source->flags & LS_GRADIENT_REACHED)) return from;
  }
  return SIZE_MAX;
}

// Refuses a loop value whose initial value depends on an x, and names the x.
static ls_status refuse_initial(const ls_gradient_walk *walk, ls_op op,
                                size_t at) {
  for (size_t next = at; next != SIZE_MAX;) {
    at = next;
    if (walk->entries[at].flags & LS_GRADIENT_TARGET) break;
    const ls_op source = ls_gradient_op_at(walk, at);
    ls_graph *graph = ls_graph_resolve(source.graph);
    next = operand_behind(walk, graph, ls_graph_node(graph, source.id));
  }
  return ls_invalid_argument(
      "a gradient is taken inside a loop with respect to '%s', through the "
      "initial value of '%s', which is loop-carried. Inside, take it with "
      "respect to the body's parameters and loop-invariant values; with "
      "respect to initial values, outside",
      ls_op_name(ls_gradient_op_at(walk, at)), ls_op_name(op));
}

static ls_status visit_with_gradients(ls_gradient_walk *walk, size_t index,
                                      ls_op op, ls_graph *graph,
                                      const ls_node *node) {
  const ls_gradient_entry *entry = &walk->entries[index];
  walk->visiting = index;
  if (ls_gradient_goal_of_read(walk, node, 0) != SIZE_MAX)
    return ls_gradient_walk_read(walk, node, entry->slots[0].sum);
  if ((entry->flags & LS_GRADIENT_STOP) || index >= walk->num_inside)
    return ls_ok();
  const ls_capture *capture = ls_gradient_capture(walk, graph, node);
  if (capture != NULL)
    return walk_add_term(walk, capture->outer, entry->slots[0].sum);
  if (ls_gradient_initial(walk, graph, node) != NULL) {
    const size_t behind = operand_behind(walk, graph, node);
    if (behind != SIZE_MAX) return refuse_initial(walk, op, behind);
  }
  if (ls_gradient_table[node->type] == gradient_none) return ls_ok();
  return differentiate_op(walk, index, op, node);
}

static ls_status visit_sums(ls_gradient_walk *walk, size_t index, ls_op op,
                            ls_graph *graph, const ls_node *node) {
  if (sum_results(walk, &walk->entries[index], op))
    LS_RETURN_IF_ERROR(visit_with_gradients(walk, index, op, graph, node));
  return rule_error(walk, op, NULL);
}

static ls_status visit_op(ls_gradient_walk *walk, size_t index) {
  const ls_op op = ls_gradient_op_at(walk, index);
  ls_graph *graph = ls_graph_resolve(op.graph);
  const ls_node *node = ls_graph_node(graph, op.id);
  ls_scope beside = {0};
  if (walk->forward->graph == NULL)
    ls_gradient_begin_beside(walk->context, &beside, op);
  else
    ls_gradient_begin_inside(walk->context, &beside, op);
  const ls_status status = visit_sums(walk, index, op, graph, node);
  ls_scope_end(&beside);
  if (!ls_status_is_ok(status) || index >= walk->num_inside) return status;
  const size_t count = ls_gradient_count_operands(walk, graph, node);
  for (size_t i = 0; i < count; ++i) {
    size_t from = 0;
    ls_gradient_entry *source = ls_gradient_source(
        walk, ls_gradient_operand(walk, graph, node, i), &from);
    if (source == NULL || source->pending == 0) continue;
    --source->pending;
    enqueue_if_ready(walk, from);
  }
  return ls_ok();
}

// ---- Results ---------------------------------------------------------------
static ls_status answer_variable(ls_gradient_walk *walk,
                                 ls_gradient_goal *goal) {
  if (goal->num_terms == 0) return ls_ok();
  LS_ARENA_ARRAY_OR_RETURN(walk->context->arena, ls_tensor, terms,
                           goal->num_terms);
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
      const size_t first = ls_gradient_first_goal(walk, i);
      if (first == i)
        LS_RETURN_IF_ERROR(answer_variable(walk, goal));
      else
        goal->gradient = walk->goals[first].gradient;
      continue;
    }
    const ls_gradient_entry *entry =
        &walk->entries[ls_gradient_index(walk, ls_tensor_op(goal->tensor))];
    const unsigned output = ls_ref_output(goal->tensor.ref);
    if (entry->slots != NULL && output < entry->num_slots)
      goal->gradient = entry->slots[output].sum;
  }
  return ls_ok();
}

ls_status ls_gradient_walk_run(ls_gradient_walk *walk) {
  LS_RETURN_IF_ERROR(ls_gradient_find_ops(walk));
  for (size_t i = 0; i < walk->num_seeds; ++i)
    LS_RETURN_IF_ERROR(
        walk_add_term(walk, walk->seeds[i].y, walk->seeds[i].gradient));
  for (size_t i = 0; i < walk->num_seeds; ++i)
    enqueue_if_ready(walk,
                     ls_gradient_index(walk, ls_tensor_op(walk->seeds[i].y)));
  while (walk->queue_head != walk->queue_tail)
    LS_RETURN_IF_ERROR(visit_op(walk, walk->queue[walk->queue_head++]));
  return answer(walk);
}
