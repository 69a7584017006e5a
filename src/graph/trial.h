// SPDX-License-Identifier: Apache-2.0
//
// Trials: undo what a refused call has built.
//   return LS_TRIAL(build());
//
// Inside, the current graph lists the changes of its tables, and
// its error is set aside: a failure of an op maker becomes the call's failure.
// Trials nest. In eager mode there is nothing to undo: values are freed with
// their frame, and a failure that the call returns is not recorded. Other
// graphs join when they are changed: those between this graph and the build
// graph, and regions of existing ops.
//
// If a replica pauses for the others inside (a merge call), their changes are
// mixed with its own: then only the trial around all replicas undoes anything.
#ifndef LS_GRAPH_TRIAL_H_
#define LS_GRAPH_TRIAL_H_

#include "graph/context.h"
#include "graph/graph.h"

typedef struct ls_joined_graph ls_joined_graph;

typedef struct ls_trial {
  struct ls_trial *outer;  // Enclosing trial of this thread or fiber.
  ls_graph *graph;  // The current graph; NULL: eager, or no memory for a graph.
  // Enclosing build graph, to which variables are added; NULL: `graph` is the
  // build graph.
  ls_graph *around;
  ls_graph_rollback_point here, there;
  ls_status error;  // Error of `graph` before the trial.
  bool unplaced;
  // Eager: the record of failures, if it had none before the trial.
  ls_first_failure *failure;
  uint64_t meetings;
  // Id of the newest graph; newer ones are freed with their ops.
  uint64_t last_graph;
  ls_joined_graph *joined;  // Other existing graphs that were changed.
} ls_trial;

void ls_trial_begin(ls_trial *trial);
// Returns `status`, or the first failure of an op maker since ls_trial_begin. A
// failure undoes the changes. If the graph had an error before, that error is
// returned.
LS_MUST_USE ls_status ls_trial_end(ls_trial *trial, ls_status status);
// Ends the trial of a call that returns a nest, which becomes none on failure.
LS_MUST_USE ls_status ls_trial_end_with(ls_trial *trial, ls_status status,
                                        ls_nest *out_value);
// Returns the status of a call that is made inside a trial, as ls_trial_end
// does, and as ls_trial_end_with does.
#define LS_TRIAL(...)                                                          \
  __extension__({                                                              \
    ls_trial ls_tried;                                                         \
    ls_trial_begin(&ls_tried);                                                 \
    ls_trial_end(&ls_tried, (__VA_ARGS__));                                    \
  })
#define LS_TRIAL_WITH(out_value, ...)                                          \
  __extension__({                                                              \
    ls_trial ls_tried;                                                         \
    ls_trial_begin(&ls_tried);                                                 \
    ls_trial_end_with(&ls_tried, (__VA_ARGS__), (out_value));                  \
  })

// ---- Changes of existing graphs --------------------------------------------
// Announces changes of `graph`, which need not be the current one: a region of
// an existing op, or an enclosing graph. The open trial undoes them.
LS_MUST_USE ls_status ls_trial_join(ls_graph *graph);
// Joins `graph`, and sets an attribute of an op in it. ls_trial_add_output
// announces another output of an op, ls_trial_add_result another result of the
// graph; the caller then appends it.
LS_MUST_USE ls_status ls_trial_set_attr(ls_graph *graph, ls_node *node,
                                        const ls_attr *attr);
LS_MUST_USE ls_status ls_trial_add_output(ls_graph *graph, ls_node *node);
LS_MUST_USE ls_status ls_trial_add_result(ls_graph *graph);

// ---- Undo list -------------------------------------------------------------
// Kinds of changes, with the state to restore.
typedef enum ls_undo_kind {
  LS_UNDO_NAME,   // The next number of a name was `before`.
  LS_UNDO_ADDED,  // `leaf` was not in the collection.
  // `leaf` was at position `before` in the collection; the entry holds a
  // reference.
  LS_UNDO_REMOVED,
  // `node` had `before` attributes, `attrs`; `leaf` holds the replaced one.
  LS_UNDO_ATTR,
  LS_UNDO_OUTPUTS,  // `node` had `before` outputs.
  LS_UNDO_RESULTS,  // The graph had `before` results.
} ls_undo_kind;
struct ls_graph_undo {
  ls_undo_kind kind;
  const ls_name_scope *scope;
  const char *text;  // Interned name of a node or collection; NULL: no name.
  size_t before;
  ls_nest leaf;
  ls_node *node;
  ls_attr *attrs;
};
// Records a change if a trial is open; copies the text. Returns false without
// memory.
LS_MUST_USE bool ls_graph_note(ls_graph *graph, ls_graph_undo entry);
// Undoes the recorded changes after the first `count`.
void ls_graph_undo_to(ls_graph *graph, size_t count);

// Resets the next number of a name; 0 removes the counter. Needs no memory, so
// that undoing cannot fail.
void ls_graph_reset_name(ls_graph *graph, const ls_name_scope *scope,
                         const char *base, uint32_t next);
// Puts a leaf back at its position in a collection and takes over the
// reference.
void ls_graph_restore_to_collection(ls_graph *graph, const char *name,
                                    ls_nest leaf, size_t position);

#endif  // LS_GRAPH_TRIAL_H_
