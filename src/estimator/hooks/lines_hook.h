// SPDX-License-Identifier: Apache-2.0
// What a training tells of its steps: lines of metrics.jsonl, and reports.
#ifndef LS_ESTIMATOR_HOOKS_LINES_HOOK_H_
#define LS_ESTIMATOR_HOOKS_LINES_HOOK_H_

#include "lockstep/estimator.h"
#include "train/hooks/hook.h"

typedef struct ls_lines_options {
  ls_training_lines wanted;
  const char *folder;  // The run's. Lent, like the variables.
  ls_variable *const *variables;
  size_t num_variables;
  int64_t num_steps, steps_per_run;
  double batch_size;
  bool tests_again;  // A training that goes on repeats the evaluation there.
} ls_lines_options;

// Makes a hook that cuts the lines of later steps off when a session is made,
// and adds lines and makes reports. It stands before the saver, so that a
// checkpoint has the lines of its steps.
LS_MUST_USE ls_status ls_lines_hook(const ls_lines_options *options,
                                    ls_hook **out_hook);

#endif  // LS_ESTIMATOR_HOOKS_LINES_HOOK_H_
