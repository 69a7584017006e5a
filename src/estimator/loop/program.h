// SPDX-License-Identifier: Apache-2.0
//
// Programs: a loop of a model's steps on the cores of a system, and the work of
// their hosts on the steps' outputs.
#ifndef LS_ESTIMATOR_LOOP_PROGRAM_H_
#define LS_ESTIMATOR_LOOP_PROGRAM_H_

#include "estimator/input/input_feed.h"
#include "estimator/spec/calls.h"

// Limit of the size of a run's predictions, in bytes.
#define LS_ONE_GIGABYTE 1073741824

typedef struct ls_program_options {
  const ls_estimator_calls *calls;
  const ls_input_feed *feed;
  ls_cache_function cache;  // Zeroed if not set.
  bool any_batch;
  bool replica_0_loss;  // Report replica 0's loss instead of the mean.
} ls_program_options;

typedef struct ls_estimator_program {
  // Runs everything but the hosts' part: the loop, then checks of variables. An
  // evaluation also counts its steps, and a prediction closes its outfeeds
  // after the last batch.
  ls_op run;
  // Mean loss over all examples: of the last step in a training, of all steps
  // in an evaluation. Failed if there is none. It waits for the loop alone,
  // except in an evaluation without metrics, where it waits for `run`.
  ls_tensor loss;
  ls_tensor steps;           // Number of steps the run has made, i64.
  bool reduces;              // The program contains ls_cross_replica_sum.
  ls_tensor compile_status;  // A string: see ls_split_compile_and_replicate.
  ls_estimator_spec *spec;   // Spec of the model function. Holds a reference.
  // Work on the hosts: a list of ops to run once a step (in a training with
  // host_call_every_n_steps n: once in n of a run's steps), and the results of
  // the host call. In a prediction the stop signal waits for them.
  ls_nest host_ops, host_results;
  // Evaluation: a dict of (value, update op), none without metrics. The update
  // op is `run`; values may be read after the hosts have handled all steps.
  ls_nest metrics;
  // Prediction of all replicas: a dict with all rows, and the rows' padding.
  ls_nest predictions;
  ls_tensor stopping, padding;  // A bool scalar, and an i32 [rows] or failed.
} ls_estimator_program;

// Builds the program for the calls' mode in the current graph, a build graph
// with a global step.
LS_MUST_USE ls_status ls_program_build(const ls_program_options *options,
                                       ls_estimator_program *out_program);
void ls_program_drop(ls_estimator_program *program);  // May be zeroed.

#endif  // LS_ESTIMATOR_LOOP_PROGRAM_H_
