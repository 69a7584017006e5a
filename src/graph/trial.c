// SPDX-License-Identifier: Apache-2.0
#include "graph/trial.h"

#include "graph/context.h"

// ---- The list --------------------------------------------------------------
bool ls_graph_note(ls_graph *graph, ls_graph_undo entry) {
  if (graph->num_trials == 0) return true;
  entry.text = ls_graph_intern(graph, entry.text);
  if (entry.text == NULL ||
      !ls_grow(graph->allocator, &graph->undo, &graph->undo_capacity,
               graph->num_undo + 1, sizeof(*graph->undo)))
    return false;
  if (entry.kind == LS_UNDO_REMOVED) ls_nest_retain(entry.leaf);
  graph->undo[graph->num_undo++] = entry;
  return true;
}

void ls_graph_undo_to(ls_graph *graph, size_t count) {
  const uint32_t trials = graph->num_trials;
  graph->num_trials = 0;  // Undoing is not noted.
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
    }
  }
  graph->num_trials = trials;
}

// What the last trial leaves stays.
static void forget(ls_graph *graph) {
  for (size_t i = 0; i < graph->num_undo; ++i)
    if (graph->undo[i].kind == LS_UNDO_REMOVED)
      ls_nest_release(graph->undo[i].leaf);
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
  *trial = (ls_trial){.meetings = ls_context_current()->meetings};
  if (graph == NULL || graph->kind == LS_GRAPH_EAGER) return;
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

// An error of others stays theirs, where they have built here meanwhile.
static ls_status join_error(ls_trial *trial, ls_graph *graph, bool met,
                            ls_status status) {
  if (met) {
    if (ls_status_is_ok(status)) status = ls_graph_error(graph);
    if (trial->error != NULL) ls_graph_fail(graph, trial->error);
    return status;
  }
  if (ls_status_is_ok(status))
    status = graph->error;
  else
    ls_status_free(graph->error);  // It says less than who has seen it.
  // In a graph that had failed before, that is the first cause.
  if (!ls_status_is_ok(status) && trial->error != NULL) {
    ls_status_free(status);
    status = ls_status_clone(trial->error);
  }
  graph->error = trial->error;
  graph->error_unplaced = trial->unplaced;
  return status;
}

static void end_in(ls_graph *graph, ls_graph_rollback_point mark, bool undo) {
  if (undo) ls_graph_rollback(graph, mark);
  if (--graph->num_trials == 0) forget(graph);
}

ls_status ls_trial_end(ls_trial *trial, ls_status status) {
  ls_graph *graph = trial->graph;
  if (graph == NULL) return status;
  const bool met = ls_context_current()->meetings != trial->meetings;
  status = join_error(trial, graph, met, status);
  const bool undo = !ls_status_is_ok(status) && !met;
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
