// SPDX-License-Identifier: Apache-2.0
//
// Loops of steps with a state: what a step leaves, the next one finds. Training
// loops, programs of estimators, loops of training runs and steps on an
// iterator are such loops.
#ifndef LS_TPU_STEPS_STEP_LOOP_H_
#define LS_TPU_STEPS_STEP_LOOP_H_

#include "lockstep/training_loop.h"

// A step that is built, once for all.
typedef struct ls_step {
  ls_tensor index;  // Number of earlier steps, an i64; failed: not counted.
  // In: as the earlier step left it; out: as this one leaves it.
  ls_tensor *state;
  size_t num_state;
  ls_nest elements;  // Of the infeed, lent; none without one.
  ls_op *ops;        // The step is over once these have run.
  size_t num_ops, ops_capacity;
} ls_step;

// Zero in a field means its default.
typedef struct ls_step_loop {
  ls_status (*step)(ls_step *step, void *user);
  // Gives whether there is another step, a bool scalar. Default: while fewer
  // than `limit` were made.
  ls_status (*goes_on)(const ls_step *step, void *user, ls_tensor *out_goes_on);
  ls_tensor limit;  // An i64 scalar. Of no graph:
  int64_t times;    //   so many; below 0: none.
  void *user;
  bool counts;              // Also with `goes_on`.
  ls_infeed_queue *infeed;  // A step takes a tuple, or the loop ends.
} ls_step_loop;

// Builds it in the current graph, where only what it makes is left if it fails.
// `state` becomes that of the last step. `*out_count` is how many steps were
// made or, of a loop that does not count, a tensor that waits for them; it may
// be NULL.
//   LS_FAILED_PRECONDITION  an infeed outside of a replicated computation
LS_MUST_USE ls_status ls_step_loop_build(const ls_step_loop *loop,
                                         ls_tensor *state, size_t num_state,
                                         ls_tensor *out_count);
// The same of a list of values, or none; without any `*outputs` is the op to
// run.
LS_MUST_USE ls_status ls_step_loop_build_nest(const ls_step_loop *loop,
                                              ls_nest inputs, ls_nest *outputs);
// For a step: leaves what is made, values for the whole state and then ops.
//   LS_INVALID_ARGUMENT  something else, or values of other types.
LS_MUST_USE ls_status ls_step_take(ls_step *step, ls_nest made);

#endif  // LS_TPU_STEPS_STEP_LOOP_H_
