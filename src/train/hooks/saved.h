// SPDX-License-Identifier: Apache-2.0
// Variables of a session that are saved and restored.
#ifndef LS_TRAIN_HOOKS_SAVED_H_
#define LS_TRAIN_HOOKS_SAVED_H_

#include "train/hooks/hook.h"

typedef struct ls_saved_values {
  ls_saver saver;  // Of variables in the session, exact.
  ls_variable **variables;
} ls_saved_values;

// These, lent, or where there are none all in the graph's "variables"; of
// functions, all of the model and its optimizer. In place of what it was;
// zeroed is fine.
LS_MUST_USE ls_status ls_saved_values_take(ls_saved_values *values,
                                           const ls_run_context *context,
                                           ls_variable *const *variables,
                                           size_t count);
void ls_saved_values_drop(ls_saved_values *values);
LS_OWNED_STRUCT(ls_saved_values, ls_saved_values_drop)

// The variables of a collection, lent: a list of the caller's.
LS_MUST_USE ls_status ls_collection_variables(const ls_graph *graph,
                                              const char *name,
                                              ls_variable ***out_variables,
                                              size_t *out_count);
// The ops of one, those of its tensors too: as above.
//   LS_INVALID_ARGUMENT  it has something else.
LS_MUST_USE ls_status ls_collection_ops(const ls_graph *graph, const char *name,
                                        ls_op **out_ops, size_t *out_count);

#endif  // LS_TRAIN_HOOKS_SAVED_H_
