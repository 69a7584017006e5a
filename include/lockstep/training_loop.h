// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// Training loops on a device: many steps in one run, each of which may take a
// tuple from its core's infeed.
//
// In a replicated computation the dequeue at the start of an iteration is a
// collective: either every replica gets a tuple and the iteration begins, or
// none begins it, which happens once an infeed is closed and empty. The loop
// then ends with the values of the last iteration and no effect of another one;
// tuples left in the queues of other cores stay there.
//
// Threads: a graph belongs to the threads that build it, one at a time.
#ifndef LOCKSTEP_TRAINING_LOOP_H_
#define LOCKSTEP_TRAINING_LOOP_H_

#include "lockstep/infeed.h"
#include "lockstep/parameters.h"
#include "lockstep/variable.h"

#ifdef __cplusplus
extern "C" {
#endif

// Zero in a field means its default.
typedef struct ls_training_loop {
  // Called with the loop-carried values, a tuple; returns a bool scalar, true
  // for another iteration. Required by ls_training_while.
  ls_callback condition;
  // Called with these values followed by the elements of the infeed; returns
  // the values of the next iteration, as many, followed by ops. An iteration is
  // over once these have run. Required.
  ls_callback body;
  void *user;
  // Queue from which each iteration takes a tuple, used or not. Its number of
  // shards becomes the number of replicas. Default: no infeed.
  ls_infeed_queue *infeed;
  // Declared parameters, for checks. Default: none declared.
  const ls_parameters *condition_parameters, *body_parameters;
} ls_training_loop;

// Repeats the body while the condition is true; each iteration is a step
// (ls_step_while). `inputs` is a list of values, lent, or none. `*outputs`,
// which the caller owns, is the list of final values; without inputs it is the
// op to run.
//   LS_FAILED_PRECONDITION  an infeed outside of a replicated computation
//   LS_INVALID_ARGUMENT     another number of arguments than declared; results
//                           that are not values followed by ops, or not of the
//                           inputs' types
LS_PLACED LS_MUST_USE ls_status ls_training_while(const ls_training_loop *loop,
                                                  ls_nest inputs,
                                                  ls_nest *outputs);
// Repeats the body `times` times; 0 and below: never. Ignores the condition.
LS_PLACED LS_MUST_USE ls_status ls_training_repeat(int64_t times,
                                                   const ls_training_loop *loop,
                                                   ls_nest inputs,
                                                   ls_nest *outputs);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TRAINING_LOOP_H_
