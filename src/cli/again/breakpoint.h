// SPDX-License-Identifier: Apache-2.0
// lockstep replay --break: the files of one step of a run.
#ifndef LS_CLI_AGAIN_BREAKPOINT_H_
#define LS_CLI_AGAIN_BREAKPOINT_H_

#include "cli/train/train_flags.h"

// The step at which a run is stopped; step 0: none.
typedef struct cli_breakpoint {
  const char *folder;  // Folder of its files.
  int64_t step;
} cli_breakpoint;

// Writes the variables before the step. Called after the step before it.
ls_status cli_breakpoint_before(const cli_breakpoint *at,
                                const cli_again *again);
// Writes the batch and the gradients of the step: makes it once more, from the
// variables before it, with its gradients kept. Prints the largest ones. Called
// after the step.
//   LS_UNIMPLEMENTED  a model without an ls_optimizer; names it.
//   LS_INTERNAL       the step came to other values the second time.
ls_status cli_breakpoint_after(const cli_breakpoint *at, const cli_again *again,
                               const ls_run_context *context);

// Lists (lends) the variables of the model and its optimizer. Free the list
// with cli_release.
ls_status cli_list_variables(const ls_model *model, ls_variable ***out,
                             size_t *out_count);
#endif  // LS_CLI_AGAIN_BREAKPOINT_H_
