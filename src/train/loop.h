// SPDX-License-Identifier: Apache-2.0
// A run on its way: epochs of steps, counted, with hooks around them. All else
// that a run does is theirs (own_hooks.h).
#ifndef LS_TRAIN_LOOP_H_
#define LS_TRAIN_LOOP_H_

#include "lockstep/training_parts.h"
#include "train/device_loop.h"
#include "train/own_hooks.h"

typedef struct ls_loop {
  ls_runtime *runtime;
  ls_run_plan plan;
  ls_run_place place;
  ls_function *function;
  bool checked;  // The first step was one.
  ls_dataset *batches;
  ls_iterator *input;
  ls_device_loop *device_loop;  // NULL: each step is a run.
  ls_evaluator *evaluator;      // NULL: no test set.
  ls_run_folder folder;
  // What the folder says of the steps behind those that it went on from is
  // there still.
  bool continues;
  int64_t resumed;
  bool replaces;  // A former run is there, on rank 0, until the first step.
  ls_saves saves;
  ls_run_ranks ranks;
  bool asked;       // This rank was asked to stop.
  ls_status unmet;  // Ranks could not agree.
  ls_own_hooks own;
  ls_hook_list hooks;
  bool is_guarded;        // One of the caller's judges the loss.
  ls_nest args, results;  // `args`: a batch, dealt to replicas.
  ls_named_result loss, accuracy;
  ls_step_numbers *numbers;  // Of the steps that were run last.
  size_t numbers_capacity;
} ls_loop;

// ---- Its steps (loop.c) ----------------------------------------------------
// So many were made, of so many examples each, and gave `numbers`: they count,
// up to the first whose loss is no number.
//   LS_OUT_OF_RANGE  there is one.
LS_MUST_USE ls_status ls_loop_count(ls_loop *it, int64_t steps,
                                    int64_t examples);

// ---- Many steps in one run (stretch.c) -------------------------------------
// Whether the options can be.
LS_MUST_USE ls_status ls_stretch_check(const ls_loop *it);
// Behind a step that was a run of its own: what follows may be such a stretch.
LS_MUST_USE ls_status ls_stretch_prepare(ls_loop *it);
// How many steps the next run can make, of what the epoch has. 1: it is a step
// of its own.
int64_t ls_stretch_length(const ls_loop *it);
// Makes them, or fewer where a stop is asked for.
LS_MUST_USE ls_status ls_stretch_run(ls_loop *it, int64_t steps);

// ---- Its folder (loop_folder.c) --------------------------------------------
// Begins there, or goes on with what is there.
LS_MUST_USE ls_status ls_loop_begin(ls_loop *it);
// The run is what it is to be: what it takes the place of goes.
LS_MUST_USE ls_status ls_loop_settle(ls_loop *it);

#endif  // LS_TRAIN_LOOP_H_
