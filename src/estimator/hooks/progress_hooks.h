// SPDX-License-Identifier: Apache-2.0
// Hooks that watch the progress of a training.
#ifndef LS_ESTIMATOR_HOOKS_PROGRESS_HOOKS_H_
#define LS_ESTIMATOR_HOOKS_PROGRESS_HOOKS_H_

#include "lockstep/estimator.h"
#include "lockstep/events.h"
#include "lockstep/hook.h"
#include "net/agreement.h"

// Logs the loss and the global step every `log_steps` steps, rounded to whole
// runs. If time limits a run, logs after that time. If `log_steps` is unset,
// `*out_hook` becomes NULL.
LS_MUST_USE ls_status ls_loss_log_hook(ls_tensor loss, ls_loop_length length,
                                       ls_opt log_steps, ls_hook **out_hook);
// Reports steps and examples per second every `log_steps` steps, in the log and
// in `events`, borrowed. `steps_per_run` below 1: not known. `log_steps` unset:
// `*out_hook` becomes NULL.
LS_MUST_USE ls_status ls_examples_hook(ls_opt log_steps, int64_t steps_per_run,
                                       double batch_size,
                                       ls_event_writer *events,
                                       ls_hook **out_hook);

// Fails a training whose global step does not change, which would never end.
// `train_op` is the name of the op that should change the step, borrowed;
// `steps_per_run` is the number of steps of a loop on cores, else 1.
//   LS_INVALID_ARGUMENT  from a run: names the op, and ls_train_op
LS_MUST_USE ls_status ls_moving_step_hook(const char *train_op,
                                          int64_t steps_per_run,
                                          ls_hook **out_hook);

// Options of lines and reports.
typedef struct ls_lines_options {
  ls_training_lines wanted;
  const char *folder;  // The run's. Lent, like the variables.
  ls_variable *const *variables;
  size_t num_variables;
  int64_t first_step;  // Step at which the training begins.
  int64_t num_steps;   // Step at which it ends; 0: not known.
  int64_t steps_per_run;
  double batch_size;
  bool tests_again;  // A training that goes on repeats the evaluation there.
} ls_lines_options;

// Makes a hook that cuts the lines of later steps off when it begins and when a
// session is made, and adds lines and makes reports. It stands before the
// saver, so that a checkpoint has the lines of its steps.
LS_MUST_USE ls_status ls_lines_hook(const ls_lines_options *options,
                                    ls_hook **out_hook);

// Options of checks of ranks, lent.
typedef struct ls_ranks_check {
  ls_ranks *ranks;
  ls_variable *const *variables;
  size_t num_variables;
  const ls_dataset *data;        // NULL: the input reads none.
  bool is_new;                   // Begins without a checkpoint.
  int64_t every, steps_per_run;  // Steps between checks, and of a run.
} ls_ranks_check;

// Makes a hook that compares the data of all ranks and their variables: their
// initial values, and every so many steps; 0: no others.
//   LS_FAILED_PRECONDITION  before the first run, and
//   LS_DATA_LOSS            from a run: names the ranks, the variable and the
//                           step
LS_MUST_USE ls_status ls_ranks_hook(const ls_ranks_check *options,
                                    ls_hook **out_hook);

#endif  // LS_ESTIMATOR_HOOKS_PROGRESS_HOOKS_H_
