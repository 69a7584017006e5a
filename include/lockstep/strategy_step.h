// SPDX-License-Identifier: Apache-2.0
// Layer: train
//
// Training of a mirrored strategy as an object: a step, and a monitor that runs
// it, in eager and in sessions alike.
//
//   ls_strategy_step *step = NULL;
//   LS_RETURN_IF_ERROR(ls_single_loss_step_create(
//       &(ls_single_loss_step_options){.strategy = strategy,
//                                      .dataset = make_examples,
//                                      .loss = loss_of,
//                                      .optimizer = optimizer},
//       &step));
//   LS_RETURN_IF_ERROR(ls_step_monitor_create(step, session, &monitor));
//   LS_RETURN_IF_ERROR(ls_step_monitor_run_steps(monitor, LS_SOME(100), NULL));
//
// Threads: a step and its monitor belong to one thread at a time.
#ifndef LOCKSTEP_STRATEGY_STEP_H_
#define LOCKSTEP_STRATEGY_STEP_H_

#include "lockstep/distribute_input.h"
#include "lockstep/optimizers.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Steps -----------------------------------------------------------------
// A step, reference-counted; belongs to the graph that is current when it is
// created, or to eager.
typedef struct ls_strategy_step ls_strategy_step;

// Creates a step with a strategy and nothing else. The caller owns a reference,
// here as below.
LS_API LS_MUST_USE ls_status
ls_strategy_step_create(ls_strategy *strategy, ls_strategy_step **out_step);
// Creates a step with input too: the function makes a data set for each host,
// and each element goes to one replica.
LS_API LS_MUST_USE ls_status ls_input_step_create(ls_strategy *strategy,
                                                  ls_dataset_function dataset,
                                                  void *user,
                                                  ls_strategy_step **out_step);

// Options of a step that trains. Zero in a field means its default.
typedef struct ls_single_loss_step_options {
  ls_strategy *strategy;        // Required; retained, as is the optimizer.
  ls_dataset_function dataset;  // Required.
  void *dataset_user;
  ls_loss_callback loss;  // Loss of a replica's element. Required.
  void *loss_user;
  ls_optimizer *optimizer;     // Required.
  ls_opt iterations_per_step;  // Optimizer steps per step. Default 1.
} ls_single_loss_step_options;
// Creates a step that takes an element for each replica, computes the gradients
// of its loss for all trainable variables that it uses, and updates these by
// the replicas' combined gradients. Replicas are built one after the other, so
// that variables that the loss creates in its first call exist for the others;
// runs are of all at once.
//   LS_INVALID_ARGUMENT  fewer than one iteration.
//   LS_UNIMPLEMENTED     a TPU strategy: see ls_strategy_run_steps.
LS_API LS_MUST_USE ls_status ls_single_loss_step_create(
    const ls_single_loss_step_options *options, ls_strategy_step **out_step);

LS_API ls_strategy_step *ls_strategy_step_retain(ls_strategy_step *step);
LS_API void ls_strategy_step_release(ls_strategy_step *step);  // NULL is fine.
LS_API ls_strategy *ls_strategy_step_strategy(const ls_strategy_step *step);

// Starts its input, in a build graph by an op; in eager, and without input,
// there is nothing to do and no op.
LS_API LS_MUST_USE ls_status ls_strategy_step_initialize(ls_strategy_step *step,
                                                         ls_op *out_op);
// Gets the next element, with a value for each replica: in eager at once, in a
// build graph at each run. The caller owns it.
//   LS_UNIMPLEMENTED  it has no input.
//   LS_OUT_OF_RANGE   in eager: the end.
LS_API LS_MUST_USE ls_status ls_strategy_step_next(ls_strategy_step *step,
                                                   ls_nest *out_element);
// Makes a step: in eager at once; in a build graph each run of `*out_op` (else
// no op) makes one.
//   LS_UNIMPLEMENTED  it is no step that trains.
//   LS_OUT_OF_RANGE   in eager: the end of the data; effects of the iterations
//                     before it remain.
LS_API LS_MUST_USE ls_status ls_strategy_step_run(ls_strategy_step *step,
                                                  ls_op *out_op);

// ---- Monitors --------------------------------------------------------------
typedef struct ls_step_monitor ls_step_monitor;
// Creates a monitor. In a build graph: starts the step's input in the session
// (lent), builds the step once, and initializes all variables of the graph. In
// eager there is no session. The caller owns it.
//   LS_INVALID_ARGUMENT  a session in eager, or none in a build graph.
LS_API LS_MUST_USE ls_status ls_step_monitor_create(ls_strategy_step *step,
                                                    ls_session *session,
                                                    ls_step_monitor **out);
LS_API void ls_step_monitor_destroy(ls_step_monitor *monitor);
// Runs this many steps; unset: until the data ends. The end of the data before
// that is no failure. `*out_done` (may be NULL) is the number of complete
// steps.
LS_API LS_MUST_USE ls_status ls_step_monitor_run_steps(ls_step_monitor *monitor,
                                                       ls_opt num_steps,
                                                       int64_t *out_done);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_STRATEGY_STEP_H_
