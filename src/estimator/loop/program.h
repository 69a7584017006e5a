// SPDX-License-Identifier: Apache-2.0
//
// Programs: a loop of steps of a model on the cores of a system, and the work
// of their hosts on what the steps send.
#ifndef LS_ESTIMATOR_LOOP_PROGRAM_H_
#define LS_ESTIMATOR_LOOP_PROGRAM_H_

#include "estimator/input/input_feed.h"
#include "estimator/spec/calls.h"

// The limit of a run's predictions, in bytes.
#define LS_ONE_GIGABYTE 1073741824

typedef struct ls_program_options {
  const ls_estimator_calls *calls;
  const ls_input_feed *feed;
  ls_cache_function cache;  // Zeroed: none.
  bool any_batch;
  bool replica_0_loss;  // Is reported, in place of the mean over all.
} ls_program_options;

typedef struct ls_estimator_program {
  // All of it, but for the host's part: the loop, then checks of variables; in
  // an evaluation the steps are counted, and in a prediction outfeeds are
  // closed after the last batch.
  ls_op run;
  // The mean over all examples: in a training of the last step, in an
  // evaluation of all. Failed: none. Waiting for it waits for the loop alone,
  // but in an evaluation without metrics for all of `run`.
  ls_tensor loss;
  ls_tensor steps;  // How many the run has made, i64.
  bool reduces;     // Something goes through ls_cross_replica_sum in it.
  ls_tensor compile_status;  // A string: see ls_split_compile_and_replicate.
  ls_estimator_spec *spec;   // Of the model function. Counted.
  // The steps' host functions on the hosts: a list of ops to be run once a step
  // (with host_call_every_n_steps n, of a training: once in n of a run's); and
  // the results of the host call. In a prediction the stopping
  // signal waits for them.
  ls_nest host_ops, host_results;
  // In an evaluation: a dict of (value, update op); the op is `run`, and values
  // are read once the hosts have done all steps. None without metrics.
  ls_nest metrics;
  // In a prediction, of all replicas: a dict, all rows, and their padding.
  ls_nest predictions;
  ls_tensor stopping, padding;  // A bool scalar, and i32 [rows] or failed.
} ls_estimator_program;

// Builds the program of the calls' mode in the current graph, a build graph
// with a global step.
LS_MUST_USE ls_status ls_program_build(const ls_program_options *options,
                                       ls_estimator_program *out_program);
void ls_program_drop(ls_estimator_program *program);  // Zeroed is fine.

#endif  // LS_ESTIMATOR_LOOP_PROGRAM_H_
