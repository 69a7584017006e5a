// SPDX-License-Identifier: Apache-2.0
//
// The hook that feeds a program on cores, and takes what it says, by two
// threads, while the program runs.
#ifndef LS_ESTIMATOR_DEVICE_DEVICE_HOOK_H_
#define LS_ESTIMATOR_DEVICE_DEVICE_HOOK_H_

#include "estimator/config/plan.h"
#include "lockstep/hook.h"
#include "lockstep/rendezvous.h"

// Nests, the rendezvous and the plan are lent for the hook's life.
typedef struct ls_device_hook_options {
  const ls_plan *plan;
  // Lists of ops. What feeds; what takes, once a step; what says to all cores
  // that there is nothing more.
  ls_nest enqueue_ops, dequeue_ops, close_ops;
  // See ls_split_compile_and_replicate; of no graph: there is none.
  ls_tensor compile_status;
  bool each_step;  // A run of the enqueue ops feeds one step, not a loop.
  bool predicts;   // They are run once, and have the program with them.
  // The end of the input goes to the rendezvous, as an error.
  bool input_end_fails;
  ls_rendezvous *rendezvous;
  // Is set by an end of the input, after which no run comes. The driver may
  // look at it once the loop has ended.
  bool *input_ended;
} ls_device_hook_options;

LS_MUST_USE ls_status ls_device_hook(const ls_device_hook_options *options,
                                     ls_hook **out_hook);
// Waits until what was sent has been fed, so that the places of iterators are
// those of the steps that were made. Of another hook: nothing.
void ls_device_hook_settle(ls_hook *hook);
// Why the program does not compile, where the environment's
// TPU_SPLIT_COMPILE_AND_EXECUTE is 1, so that this was asked before the first
// run; then there is no run. NULL: nothing is wrong. Lent for the hook's life.
const char *ls_device_hook_compile_error(const ls_hook *hook);

#endif  // LS_ESTIMATOR_DEVICE_DEVICE_HOOK_H_
