// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// Training loops on a device: many steps in one run, each of which may take a
// tuple from its core's infeed.
//
// In a replicated computation the dequeue at the head of a loop is a meeting:
// either every replica has its tuple and the trip begins, or none begins it,
// which is so once an infeed is closed and empty. Then the loop has ended, with
// the values of the trip before and no effect of another one; tuples that other
// cores have left stay in their queues.
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
  // Of the values that go round, a tuple: whether there is another trip, a bool
  // scalar. Needed by ls_training_while.
  ls_callback condition;
  // Of the values and, behind them, the elements of the infeed: the values of
  // the next trip, as many, and behind them ops. A trip is over once these have
  // run. Needed.
  ls_callback body;
  void *user;
  // Each trip takes a tuple, whether or not it is used. The queue's number of
  // shards becomes that of the replicas. Default: no infeed.
  ls_infeed_queue *infeed;
  // Checked where they are declared. Default: they are not.
  const ls_parameters *condition_parameters, *body_parameters;
} ls_training_loop;

// Goes round while the condition holds; each trip is a step (ls_step_while).
// `inputs` is a list of values, lent, or none. `*outputs` is the list of final
// values; without inputs it is the op to run.
//   LS_FAILED_PRECONDITION  an infeed outside of a replicated computation
//   LS_INVALID_ARGUMENT     another number of arguments than is declared;
//                           results that are not values and then ops, or not of
//                           the inputs' types
LS_PLACED LS_MUST_USE ls_status ls_training_while(const ls_training_loop *loop,
                                                  ls_nest inputs,
                                                  ls_nest *outputs);
// The same so many times; 0 and below: never. The condition is not looked at.
LS_PLACED LS_MUST_USE ls_status ls_training_repeat(int64_t times,
                                                   const ls_training_loop *loop,
                                                   ls_nest inputs,
                                                   ls_nest *outputs);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TRAINING_LOOP_H_
