// SPDX-License-Identifier: Apache-2.0
//
// What runs on the cores of a system, a loop of steps of a model, and what
// their hosts do with what the steps say.
#ifndef LS_ESTIMATOR_PROGRAM_H_
#define LS_ESTIMATOR_PROGRAM_H_

#include "estimator/calls.h"
#include "estimator/input_feed.h"

typedef struct ls_program_options {
  const ls_estimator_calls *calls;
  const ls_input_feed *feed;
  ls_cache_function cache;  // Zeroed: none.
  bool any_batch;
  bool replica_0_loss;  // Is reported, in place of the mean over all.
} ls_program_options;

typedef struct ls_estimator_program {
  ls_op run;                 // All of it, but for the host's part.
  ls_tensor loss;            // Of the last step, or of all. Failed: none.
  ls_tensor steps;           // How many the run has made, i64.
  ls_tensor compile_status;  // A string: see ls_split_compile_and_replicate.
  ls_estimator_spec *spec;   // Of the model function. Counted.
  // What the hosts make of the steps' host functions: ops to be run once a
  // step, as a list; results of those in predictions.
  ls_nest host_ops, host_results;
  ls_nest metrics;      // Of an evaluation: a dict of (value, update op).
  ls_nest predictions;  // A dict.
  ls_tensor stopping, padding;  // Of a prediction.
} ls_estimator_program;

// Builds the program of the calls' mode in the current graph.
LS_MUST_USE ls_status ls_program_build(const ls_program_options *options,
                                       ls_estimator_program *out_program);
void ls_program_drop(ls_estimator_program *program);  // Zeroed is fine.

#endif  // LS_ESTIMATOR_PROGRAM_H_
