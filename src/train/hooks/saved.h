// SPDX-License-Identifier: Apache-2.0
// Finds the variables that a session saves and restores.
#ifndef LS_TRAIN_HOOKS_SAVED_H_
#define LS_TRAIN_HOOKS_SAVED_H_

#include "train/hooks/hook.h"

typedef struct ls_saved_values {
  ls_saver saver;  // Saves variables in the session, exact.
  ls_variable **variables;
} ls_saved_values;

// Sets `values` to these variables, lent; without any, to all in the graph's
// "variables" or, for functions, to those of the model and its optimizer.
// Replaces former contents; accepts zeroed `values`.
LS_MUST_USE ls_status ls_saved_values_take(ls_saved_values *values,
                                           const ls_run_context *context,
                                           ls_variable *const *variables,
                                           size_t count);
void ls_saved_values_drop(ls_saved_values *values);
LS_OWNED_STRUCT(ls_saved_values, ls_saved_values_drop)

// Lists (lends) the variables in a collection; the caller owns the list.
LS_MUST_USE ls_status ls_collection_variables(const ls_graph *graph,
                                              const char *name,
                                              ls_variable ***out_variables,
                                              size_t *out_count);
// Lists the ops in a collection, including those of its tensors; the caller
// owns the list.
//   LS_INVALID_ARGUMENT  it contains something else.
LS_MUST_USE ls_status ls_collection_ops(const ls_graph *graph, const char *name,
                                        ls_op **out_ops, size_t *out_count);

#endif  // LS_TRAIN_HOOKS_SAVED_H_
