// SPDX-License-Identifier: Apache-2.0
//
// Feeds of a program's cores: ops on the hosts, made from an input function in
// the current graph.
#ifndef LS_ESTIMATOR_INPUT_INPUT_FEED_H_
#define LS_ESTIMATOR_INPUT_INPUT_FEED_H_

#include "estimator/spec/calls.h"
#include "lockstep/hook.h"
#include "lockstep/infeed.h"
#include "lockstep/iterator.h"

typedef struct ls_input_feed_options {
  // Batch axis of each tensor, borrowed; default 0. Batches are padded along
  // it, and cut if one element serves the replicas of a host.
  const int64_t *batch_axis;
  size_t num_batch_axes;
  // Accept batches of any size: they are padded to the program's size and get a
  // mask. A batch for several replicas is split evenly (sizes differ by at most
  // one, larger ones first), and each share is padded at its end. Hosts whose
  // data have ended feed padding until all others have ended.
  bool any_batch;
} ls_input_feed_options;

typedef struct ls_input_feed {
  // The queue that the program dequeues from; a tuple for each replica. Holds a
  // reference.
  ls_infeed_queue *queue;
  // A list of ops. A run feeds one step (`each_step`), or as many as the loop
  // variable says, or all up to the stop signal.
  ls_nest ops;
  bool each_step;
  // List of ops that tell all cores that the input has ended.
  ls_nest close_ops;
  // Bool scalar of the first host in predictions: true once it has fed the stop
  // signal. Else failed.
  ls_tensor stopping;
  ls_nest structure;  // Structure of tuples: features, labels, mask, signals.
  // Starts the data sets in each session, at the position that a checkpoint
  // restored, else at the start. NULL without data sets.
  ls_hook *hook;
  // Iterators whose positions go into checkpoints, by host. Their positions
  // count fed steps, whatever was read ahead. Holds references.
  ls_iterator **iterators;
  size_t num_iterators;
} ls_input_feed;

// Calls the input function for all hosts or cores. Modes that run on CPUs use
// cpu_input.h.
LS_MUST_USE ls_status ls_input_feed_make(const ls_estimator_calls *calls,
                                         const ls_input_feed_options *options,
                                         ls_input_feed *out_feed);
void ls_input_feed_drop(ls_input_feed *feed);  // May be zeroed.

// Sets the number of steps that the next run feeds and makes.
LS_MUST_USE ls_status ls_load_iterations(const ls_run_context *context,
                                         ls_variable *variable, int64_t count);

// ---- For tests -------------------------------------------------------------
// Also puts ops of plain values into loops on the hosts. Default off; per
// runtime.
LS_MUST_USE ls_status ls_input_feed_set_loops(bool on);

#endif  // LS_ESTIMATOR_INPUT_INPUT_FEED_H_
