// SPDX-License-Identifier: Apache-2.0
//
// Loops of steps with a state that each step passes on to the next. Used by
// training loops, estimators' programs, the loops of training runs, and steps
// on an iterator.
#ifndef LS_TPU_STEPS_STEP_LOOP_H_
#define LS_TPU_STEPS_STEP_LOOP_H_

#include "lockstep/training_loop.h"

// One step of a loop. It is built once and runs for all iterations.
typedef struct ls_step {
  ls_tensor index;  // Number of earlier steps, an i64; failed if not counted.
  // On input the previous step's state; on output this step's.
  ls_tensor *state;
  size_t num_state;
  ls_nest elements;  // The infeed's elements, borrowed; none without an infeed.
  ls_op *ops;        // The ops of the step, which ends when they have run.
  size_t num_ops, ops_capacity;
} ls_step;

// Options of a loop. A zero field has its default.
typedef struct ls_step_loop {
  ls_status (*step)(ls_step *step, void *user);
  // Makes a bool scalar, true if there is another step. NULL: the loop makes
  // `limit` steps.
  ls_status (*goes_on)(const ls_step *step, void *user, ls_tensor *out_goes_on);
  // Number of steps, an i64 scalar; a tensor of no graph: use `times`.
  ls_tensor limit;
  int64_t times;  // Number of steps as a constant; below 0: no limit.
  void *user;
  bool counts;  // True if the loop counts its steps even with `goes_on`.
  // Each step takes a tuple; the loop ends when none is left.
  ls_infeed_queue *infeed;
} ls_step_loop;

// Builds the loop in the current graph; a failure leaves no ops behind. `state`
// becomes that of the last step. `*out_count` (may be NULL) becomes the number
// of steps or, if the loop does not count, a tensor that waits for them.
//   LS_FAILED_PRECONDITION  an infeed outside of a replicated computation
LS_MUST_USE ls_status ls_step_loop_build(const ls_step_loop *loop,
                                         ls_tensor *state, size_t num_state,
                                         ls_tensor *out_count);
// Builds a loop whose state is a list of values, or none; if it is none,
// `*outputs` becomes the op to run.
LS_MUST_USE ls_status ls_step_loop_build_nest(const ls_step_loop *loop,
                                              ls_nest inputs, ls_nest *outputs);
// Checks a step's result, values for the whole state and then ops, and stores
// it in the step.
//   LS_INVALID_ARGUMENT  another structure or other types
LS_MUST_USE ls_status ls_step_take(ls_step *step, ls_nest made);

#endif  // LS_TPU_STEPS_STEP_LOOP_H_
