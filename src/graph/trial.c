// SPDX-License-Identifier: Apache-2.0
#include "graph/trial.h"

#include "base/memory/own.h"
#include "graph/context.h"

// ---- List of changes -------------------------------------------------------
static bool holds_leaf(const ls_graph_undo *entry) {
  return entry->kind == LS_UNDO_REMOVED || entry->kind == LS_UNDO_ATTR;
}

bool ls_graph_note(ls_graph *graph, ls_graph_undo entry) {
  if (graph->num_trials == 0) return true;
  if (entry.text != NULL) {
    entry.text = ls_graph_intern(graph, entry.text);
    if (entry.text == NULL) return false;
  }
  if (!LS_GROW(graph->allocator, graph->undo, graph->undo_capacity,
               graph->num_undo + 1))
    return false;
  if (holds_leaf(&entry)) ls_nest_retain(entry.leaf);
  graph->undo[graph->num_undo++] = entry;
  return true;
}

// Returns the reference that an attribute holds as a leaf, or none.
static ls_nest held_by(const ls_attr *attr) {
  if (attr->kind == LS_ATTR_ARRAY && attr->as.array != NULL)
    return (ls_nest){.kind = LS_KIND_ARRAY, .as.ref = attr->as.array};
  return attr->kind == LS_ATTR_OBJECT && attr->as.object != NULL
             ? (ls_nest){.kind = LS_KIND_OBJECT, .as.ref = attr->as.object}
             : ls_none();
}

// Removes the last attribute and restores the attribute that it replaced.
static void unset_attr(const ls_graph_undo *entry) {
  ls_node *node = entry->node;
  ls_nest_release(held_by(&node->attrs[node->num_attrs - 1]));
  node->attrs = entry->attrs;
  node->num_attrs = (uint32_t)entry->before;
}

void ls_graph_undo_to(ls_graph *graph, size_t count) {
  const uint32_t trials = graph->num_trials;
  graph->num_trials = 0;  // Undoing is not recorded.
  while (graph->num_undo > count) {
    const ls_graph_undo *entry = &graph->undo[--graph->num_undo];
    switch (entry->kind) {
    case LS_UNDO_NAME:
      ls_graph_reset_name(graph, entry->scope, entry->text,
                          (uint32_t)entry->before);
      break;
    case LS_UNDO_ADDED:
      ls_graph_remove_from_collection(graph, entry->text, entry->leaf);
      break;
    case LS_UNDO_REMOVED:
      ls_graph_restore_to_collection(graph, entry->text, entry->leaf,
                                     entry->before);
      break;
    case LS_UNDO_ATTR:
      unset_attr(entry);
      break;
    case LS_UNDO_OUTPUTS:
      entry->node->num_outputs = (uint32_t)entry->before;
      break;
    case LS_UNDO_RESULTS:
      graph->num_results = entry->before;
      break;
    }
  }
  graph->num_trials = trials;
}

// Drops the list of changes when the last trial has ended.
static void trial_forget(ls_graph *graph) {
  for (size_t i = 0; i < graph->num_undo; ++i)
    if (holds_leaf(&graph->undo[i])) ls_nest_release(graph->undo[i].leaf);
  ls_release(graph->allocator, graph->undo);
  graph->undo = NULL;
  graph->num_undo = graph->undo_capacity = 0;
}

// ---- Trials ----------------------------------------------------------------
static ls_graph *build_graph_around(const ls_graph *graph) {
  ls_graph *at = graph->parent;
  while (at != NULL && at->kind != LS_GRAPH_BUILD)
    at = at->parent;
  return at;
}

void ls_trial_begin(ls_trial *trial) {
  ls_graph *graph = ls_graph_resolve(ls_graph_current());
  ls_context *context = ls_context_current();
  *trial = (ls_trial){.outer = context->trial, .meetings = context->meetings};
  if (context->failure != NULL && context->failure->status == NULL)
    trial->failure = context->failure;
  if (graph == NULL || graph->kind == LS_GRAPH_EAGER) return;
  context->trial = trial;
  trial->last_graph = ls_graph_last_id();
  trial->graph = graph;
  trial->here = ls_graph_mark(graph);
  ++graph->num_trials;
  trial->error = graph->error;
  trial->unplaced = graph->error_unplaced;
  graph->error = NULL;
  trial->around = build_graph_around(graph);
  if (trial->around == NULL) return;
  trial->there = ls_graph_mark(trial->around);
  ++trial->around->num_trials;
}

// Combines the errors when a trial ends. If other replicas have built ops in
// the graph meanwhile (`met`), their error stays.
static ls_status join_error(ls_trial *trial, ls_graph *graph, bool met,
                            ls_status status) {
  if (met) {
    if (ls_status_is_ok(status)) status = ls_graph_error(graph);
    if (trial->error != NULL) ls_graph_fail(graph, trial->error);
    return status;
  }
  // The caller's status has more details.
  status = ls_status_join(status, graph->error);
  // If the graph had an error before the trial, that is the root cause.
  if (!ls_status_is_ok(status) && trial->error != NULL) {
    ls_status_free(status);
    status = ls_status_clone(trial->error);
  }
  graph->error = trial->error;
  graph->error_unplaced = trial->unplaced;
  return status;
}

// ---- Other graphs ----------------------------------------------------------
struct ls_joined_graph {
  ls_joined_graph *next;
  ls_graph *graph;
  ls_graph_rollback_point mark;
};

static const ls_graph *trial_root_of(const ls_graph *graph) {
  while (graph->parent != NULL)
    graph = graph->parent;
  return graph;
}

// Returns true if the trial must list the graph as changed: it existed before
// the trial, belongs to the same outermost graph, and is not listed yet.
static bool trial_lacks(const ls_trial *trial, const ls_graph *graph) {
  if (trial == NULL || graph == trial->graph || graph == trial->around ||
      graph->id > trial->last_graph ||
      trial_root_of(graph) != trial_root_of(trial->graph))
    return false;
  const ls_joined_graph *at = trial->joined;
  while (at != NULL && at->graph != graph)
    at = at->next;
  return at == NULL;
}

ls_status ls_trial_join(ls_graph *graph) {
  ls_trial *trial = ls_context_current()->trial;
  if (!trial_lacks(trial, graph)) return ls_ok();
  LS_NEW_OR_RETURN(graph->allocator, ls_joined_graph, joined);
  *joined = (ls_joined_graph){trial->joined, graph, ls_graph_mark(graph)};
  trial->joined = joined;
  ++graph->num_trials;
  return ls_ok();
}

ls_status ls_trial_set_attr(ls_graph *graph, ls_node *node,
                            const ls_attr *attr) {
  const ls_attr *replaced = ls_node_attr_named(node, attr->name);
  LS_RETURN_IF_ERROR(ls_trial_join(graph));
  const ls_graph_undo entry = {.kind = LS_UNDO_ATTR,
                               .before = node->num_attrs,
                               .leaf = replaced != NULL ? held_by(replaced)
                                                        : ls_none(),
                               .node = node,
                               .attrs = node->attrs};
  const size_t noted = graph->num_undo;
  if (!ls_graph_note(graph, entry)) return ls_out_of_memory();
  const ls_status status = ls_node_set_attr(graph, node, attr);
  if (!ls_status_is_ok(status) && graph->num_undo > noted) {
    // The attribute was not set, so that nothing can be undone.
    ls_nest_release(entry.leaf);
    graph->num_undo = noted;
  }
  return status;
}

ls_status ls_trial_add_output(ls_graph *graph, ls_node *node) {
  LS_RETURN_IF_ERROR(ls_trial_join(graph));
  return ls_memory_status(
      ls_graph_note(graph, (ls_graph_undo){.kind = LS_UNDO_OUTPUTS,
                                           .before = node->num_outputs,
                                           .node = node}));
}

ls_status ls_trial_add_result(ls_graph *graph) {
  LS_RETURN_IF_ERROR(ls_trial_join(graph));
  return ls_memory_status(
      ls_graph_note(graph, (ls_graph_undo){.kind = LS_UNDO_RESULTS,
                                           .before = graph->num_results}));
}

// ---- End -------------------------------------------------------------------
static void end_in(ls_graph *graph, ls_graph_rollback_point mark, bool undo) {
  if (undo) ls_graph_rollback(graph, mark);
  if (--graph->num_trials == 0) trial_forget(graph);
}

// Moves the kept changes to the enclosing trial, which may still undo them.
static void end_in_joined(ls_trial *trial, bool undo) {
  while (trial->joined != NULL) {
    ls_joined_graph *joined = trial->joined;
    trial->joined = joined->next;
    if (!undo && trial_lacks(trial->outer, joined->graph)) {
      joined->next = trial->outer->joined;
      trial->outer->joined = joined;
      continue;
    }
    end_in(joined->graph, joined->mark, undo);
    ls_release(joined->graph->allocator, joined);
  }
}

ls_status ls_trial_end(ls_trial *trial, ls_status status) {
  ls_graph *graph = trial->graph;
  if (trial->failure != NULL && !ls_status_is_ok(status)) {
    ls_status_free(trial->failure->status);
    *trial->failure = (ls_first_failure){.outer = trial->failure->outer};
  }
  if (graph == NULL) return status;
  ls_context *context = ls_context_current();
  context->trial = trial->outer;
  const bool met = context->meetings != trial->meetings;
  status = join_error(trial, graph, met, status);
  const bool undo = !ls_status_is_ok(status) && !met;
  end_in_joined(trial, undo);
  end_in(graph, trial->here, undo);
  if (trial->around != NULL) end_in(trial->around, trial->there, undo);
  return status;
}

ls_status ls_trial_end_with(ls_trial *trial, ls_status status,
                            ls_nest *out_value) {
  status = ls_trial_end(trial, status);
  if (ls_status_is_ok(status) || out_value == NULL) return status;
  ls_nest_release(*out_value);
  *out_value = ls_none();
  return status;
}
