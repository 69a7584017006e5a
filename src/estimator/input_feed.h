// SPDX-License-Identifier: Apache-2.0
//
// What feeds the cores of a program: ops on the hosts, made of an input
// function in the current graph.
#ifndef LS_ESTIMATOR_INPUT_FEED_H_
#define LS_ESTIMATOR_INPUT_FEED_H_

#include "estimator/calls.h"
#include "lockstep/infeed.h"
#include "lockstep/iterator.h"

typedef struct ls_input_feed_options {
  const int64_t *batch_axis;  // One a tensor, lent. Default: 0.
  size_t num_batch_axes;
  // Batches of any size, a last one too, are padded to those of the program,
  // and come with a mask.
  bool any_batch;
} ls_input_feed_options;

typedef struct ls_input_feed {
  // Whose tuples the program takes: that of the first host. Counted.
  ls_infeed_queue *queue;
  // What feeds: a list of ops, of which a run feeds one step (`each_step`), or
  // as many as the loop variable says, or all up to the stop signal.
  ls_nest ops;
  bool each_step;
  ls_nest close_ops;   // Say that there is nothing more, to all cores. A list.
  ls_tensor stopping;  // Of a prediction: the first host's, as it is fed.
  ls_nest structure;   // What the tuples are: features, labels, mask, signals.
  ls_hook *hook;       // Begins the data sets of each session.
  // Whose places go into checkpoints, in the order of hosts. Counted.
  ls_iterator **iterators;
  size_t num_iterators;
} ls_input_feed;

// Calls the input function for all hosts, or cores.
LS_MUST_USE ls_status ls_input_feed_make(const ls_estimator_calls *calls,
                                         const ls_input_feed_options *options,
                                         ls_input_feed *out_feed);
void ls_input_feed_drop(ls_input_feed *feed);  // Zeroed is fine.

// The elements of a tuple, as users know them. Nests are the caller's.
typedef struct ls_fed_values {
  ls_nest features, labels;
  ls_tensor mask, stopping, padding;  // Failed: there is none.
} ls_fed_values;
LS_MUST_USE ls_status ls_input_feed_unpack(const ls_input_feed *feed,
                                           ls_nest elements,
                                           ls_fed_values *out_values);

#endif  // LS_ESTIMATOR_INPUT_FEED_H_
