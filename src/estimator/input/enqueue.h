// SPDX-License-Identifier: Apache-2.0
//
// Enqueue functions: ops that feed the replicas of a host, or all, one step.
//
// One is made by calling the input function, where that is called once for
// several replicas; its ops are built later, maybe in the body of a loop, and
// once: the queue that they go to is captured then.
//
// If hosts' data may end at different times, the elements of all hosts are read
// first; then all are fed, unless there is nothing real for anyone.
#ifndef LS_ESTIMATOR_INPUT_ENQUEUE_H_
#define LS_ESTIMATOR_INPUT_ENQUEUE_H_

#include "base/values/nest_builder.h"
#include "estimator/input/input_feed.h"
#include "estimator/input/recorder.h"

// All of it is lent.
typedef struct ls_enqueue_options {
  const ls_estimator_calls *calls;
  const ls_input_feed_options *feed;
  ls_recorder *recorder;
  int64_t feeder;  // Its number in the plan.
  // After the end of its data set it goes on with padding until all others
  // have ended.
  bool ends_differ;
} ls_enqueue_options;

// The elements of a step, once they are read. Counted.
typedef struct ls_enqueue_values {
  ls_nest values;  // A list of tensors that is cut over the replicas, or one of
                   // lists, one a replica; none: not read yet.
  ls_op *givers;   // All of them wait for these.
  size_t num_givers;
  ls_nest signals;
  ls_nest ended;  // A list of bool scalars: all true, if all is padding.
} ls_enqueue_values;

typedef struct ls_enqueue {
  ls_enqueue_options options;
  const ls_plan *plan;
  int64_t host;
  ls_device_name place;    // Of the host.
  char *names;             // The name scope that it was made in.
  int64_t num_replicas;    // That are fed.
  ls_feed_source source;   // None where each core has one.
  ls_infeed_queue *queue;  // Captured; NULL: not built yet.
  ls_enqueue_values read;
  ls_allocator *allocator;
} ls_enqueue;

LS_MUST_USE ls_status ls_enqueue_init(ls_enqueue *self,
                                      const ls_enqueue_options *options);
void ls_enqueue_deinit(ls_enqueue *self);  // Zeroed is fine.
// Builds the ops, a list, and gives the signals of a prediction, a dict; else
// none.
//   LS_FAILED_PRECONDITION  they were built already
LS_MUST_USE ls_status ls_enqueue_build(ls_enqueue *self, ls_nest *out_ops,
                                       ls_nest *out_signals);
// The same in two steps: reading into `read`, and feeding from there.
LS_MUST_USE ls_status ls_enqueue_read(ls_enqueue *self);
LS_MUST_USE ls_status ls_enqueue_feed(ls_enqueue *self, ls_nest *out_ops);
// A queue of such tuples, of which nothing but how they are cut over a
// replica's cores is set.
LS_MUST_USE ls_status ls_enqueue_make_queue(const ls_enqueue *self,
                                            ls_infeed_queue **out_queue);

// Builds the ops in a loop, on the host whose device scope stands: as many
// times as the loop variable says, or, of a prediction, until the signal that
// was fed says stop. Gives the loop's last value, a scalar: the count, or the
// signal.
//
// If the data of several hosts end at different times (`ends_differ`), one loop
// reads all hosts' elements, and then feeds all of them, those that have ended
// with padding; when there is nothing but that, nothing is fed, and the loop
// fails with OUT_OF_RANGE. So a trip feeds all hosts, or none.
LS_MUST_USE ls_status ls_enqueue_loop(ls_enqueue *enqueues, size_t count,
                                      ls_tensor *out_last);

// Appends each of a list of ops.
void ls_append_ops(ls_nest_builder *list, ls_nest ops);

#endif  // LS_ESTIMATOR_INPUT_ENQUEUE_H_
