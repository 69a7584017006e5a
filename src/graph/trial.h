// SPDX-License-Identifier: Apache-2.0
//
// Trials: what a refused call has built is taken back.
//
//   ls_trial trial;
//   ls_trial_begin(&trial);
//   return ls_trial_end(&trial, build());
//
// Between the two the current graph keeps a list of what its tables were, and
// its sticky error is set aside: an op maker's failure inside is the call's.
// Trials nest. In eager there is nothing to take back: values go with their
// frame. Other graphs join in when they are changed: those between this one and
// the build graph, and regions of ops that stand.
//
// A replica that met the others inside (a merge call) has built between things
// of theirs: then only the trial around all of them takes anything back.
#ifndef LS_GRAPH_TRIAL_H_
#define LS_GRAPH_TRIAL_H_

#include "graph/graph.h"

typedef struct ls_joined_graph ls_joined_graph;

typedef struct ls_trial {
  struct ls_trial *outer;  // Of this thread or fiber.
  ls_graph *graph;         // NULL: eager, or no memory for it.
  ls_graph *around;  // The build graph that variables go to; NULL: the same.
  ls_graph_rollback_point here, there;
  ls_status error;  // Of `graph`, from before.
  bool unplaced;
  uint64_t meetings;
  uint64_t last_graph;      // Later ones go with their ops.
  ls_joined_graph *joined;  // Others that were there, and are changed.
} ls_trial;

void ls_trial_begin(ls_trial *trial);
// Gives `status`, or the first failure of an op maker since the beginning. If
// that is a refusal, the graph is as it was; if it had an error then, that is
// the status.
LS_MUST_USE ls_status ls_trial_end(ls_trial *trial, ls_status status);
// The same of a call with a result: of a refused one it becomes none.
LS_MUST_USE ls_status ls_trial_end_with(ls_trial *trial, ls_status status,
                                        ls_nest *out_value);

// ---- Changes to what was there ---------------------------------------------
// `graph` is about to be changed and need not be the current one: a region of
// an op that stands, or a graph around. What follows is taken back with the
// trial under way.
LS_MUST_USE ls_status ls_trial_join(ls_graph *graph);
// The same for an op's attribute, which is set; and for one more output of an
// op or result of a graph, which the caller adds behind those there are.
LS_MUST_USE ls_status ls_trial_set_attr(ls_graph *graph, ls_node *node,
                                        const ls_attr *attr);
LS_MUST_USE ls_status ls_trial_add_output(ls_graph *graph, ls_node *node);
LS_MUST_USE ls_status ls_trial_add_result(ls_graph *graph);

// ---- For the tables of a graph ---------------------------------------------
// One entry of the list: what to do to have it as before.
typedef enum ls_undo_kind {
  LS_UNDO_NAME,     // A name's next number was `before`.
  LS_UNDO_ADDED,    // `leaf` was not in the collection.
  LS_UNDO_REMOVED,  // `leaf`, held, was at `before` in the collection.
  LS_UNDO_ATTR,     // `node` had these `attrs`, so many; one is held for it.
  LS_UNDO_OUTPUTS,  // `node` had so many outputs.
  LS_UNDO_RESULTS,  // The graph had so many results.
} ls_undo_kind;
struct ls_graph_undo {
  ls_undo_kind kind;
  const ls_name_scope *scope;
  const char *text;  // Name or collection; the graph's copy. NULL: none.
  size_t before;
  ls_nest leaf;
  ls_node *node;
  ls_attr *attrs;
};
// Notes an entry if a trial is under way; copies the text. False: no memory.
LS_MUST_USE bool ls_graph_note(ls_graph *graph, ls_graph_undo entry);
// Undoes what was noted after the first `count` entries.
void ls_graph_undo_to(ls_graph *graph, size_t count);

// The next number of a name: 0 forgets it. For undoing: takes no memory.
void ls_graph_reset_name(ls_graph *graph, const ls_name_scope *scope,
                         const char *base, uint32_t next);
// Puts a leaf back where it was; the reference is handed over.
void ls_graph_restore_to_collection(ls_graph *graph, const char *name,
                                    ls_nest leaf, size_t position);

#endif  // LS_GRAPH_TRIAL_H_
