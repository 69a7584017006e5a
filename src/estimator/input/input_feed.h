// SPDX-License-Identifier: Apache-2.0
//
// Feeds of the cores of a program: ops on the hosts, made of an input function
// in the current graph.
#ifndef LS_ESTIMATOR_INPUT_INPUT_FEED_H_
#define LS_ESTIMATOR_INPUT_INPUT_FEED_H_

#include "estimator/spec/calls.h"
#include "lockstep/hook.h"
#include "lockstep/infeed.h"
#include "lockstep/iterator.h"

typedef struct ls_input_feed_options {
  // One a tensor, lent. Default: 0. Along it batches are filled up, and cut
  // where one element is for the replicas of a host.
  const int64_t *batch_axis;
  size_t num_batch_axes;
  // Batches of any size, a last one too, are padded to those of the program,
  // and come with a mask. Of a batch for several replicas each gets its even
  // share (sizes differ by at most one, larger ones first), which stands at the
  // beginning of what it is fed. Hosts whose data have ended are fed padding
  // until those of all others have.
  bool any_batch;
} ls_input_feed_options;

typedef struct ls_input_feed {
  // The program dequeues from it: tuples of all replicas together, of which
  // each gets one. Counted.
  ls_infeed_queue *queue;
  // A list of ops, of which a run feeds one step (`each_step`), or as many as
  // the loop variable says, or all up to the stop signal.
  ls_nest ops;
  bool each_step;
  ls_nest close_ops;  // Say that there is nothing more, to all cores. A list.
  // The first host's of a prediction: a bool scalar, true once it has fed the
  // stop signal. Else failed.
  ls_tensor stopping;
  ls_nest structure;  // Of tuples: features, labels, mask, signals.
  // Begins the data sets of each session, where a checkpoint has put them, else
  // at their start. NULL: there is no data set.
  ls_hook *hook;
  // Their positions go into checkpoints, in the order of hosts: those of the
  // steps that were fed, whatever is read ahead. Counted.
  ls_iterator **iterators;
  size_t num_iterators;
} ls_input_feed;

// Calls the input function for all hosts, or cores. Not where the calls' mode
// runs on CPUs: see cpu_input.h.
LS_MUST_USE ls_status ls_input_feed_make(const ls_estimator_calls *calls,
                                         const ls_input_feed_options *options,
                                         ls_input_feed *out_feed);
void ls_input_feed_drop(ls_input_feed *feed);  // Zeroed is fine.

// Sets how many steps the next run feeds, and makes.
LS_MUST_USE ls_status ls_load_iterations(const ls_run_context *context,
                                         ls_variable *variable, int64_t count);

// ---- For tests -------------------------------------------------------------
// Puts ops of values that are no data set's into loops on the hosts, too.
// Default off; of the current runtime.
LS_MUST_USE ls_status ls_input_feed_set_loops(bool on);

#endif  // LS_ESTIMATOR_INPUT_INPUT_FEED_H_
