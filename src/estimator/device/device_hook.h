// SPDX-License-Identifier: Apache-2.0
//
// The hook that feeds a program on cores and takes its outputs, by two threads,
// while the program runs.
#ifndef LS_ESTIMATOR_DEVICE_DEVICE_HOOK_H_
#define LS_ESTIMATOR_DEVICE_DEVICE_HOOK_H_

#include "estimator/config/plan.h"
#include "lockstep/hook.h"
#include "lockstep/rendezvous.h"

// Options of the hook. It borrows nests, rendezvous and plan.
typedef struct ls_device_hook_options {
  const ls_plan *plan;
  // Lists of ops: to feed; to take outputs, once a step; and to tell all cores
  // that the input has ended.
  ls_nest enqueue_ops, dequeue_ops, close_ops;
  // See ls_split_compile_and_replicate; failed if there is none.
  ls_tensor compile_status;
  bool each_step;  // A run of the enqueue ops feeds one step, not a loop.
  bool predicts;   // Predicts: the ops run once, together with the program.
  // Record the end of the input in the rendezvous as an error.
  bool input_end_fails;
  ls_rendezvous *rendezvous;
  // Set when the input ends, after which no run follows. The caller may read it
  // when the loop has ended.
  bool *input_ended;
} ls_device_hook_options;

LS_MUST_USE ls_status ls_device_hook(const ls_device_hook_options *options,
                                     ls_hook **out_hook);
// Waits until all posted steps have been fed, so that iterators are at the
// position after the steps made. No effect on other hooks.
void ls_device_hook_settle(ls_hook *hook);
// Returns why the program does not compile, if the environment's
// TPU_SPLIT_COMPILE_AND_EXECUTE is 1, so that this was checked before the first
// run (which is then not made). NULL if it compiles. Borrowed from the hook.
const char *ls_device_hook_compile_error(const ls_hook *hook);

#endif  // LS_ESTIMATOR_DEVICE_DEVICE_HOOK_H_
