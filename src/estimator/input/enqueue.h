// SPDX-License-Identifier: Apache-2.0
//
// Enqueue functions: ops that feed one step to the replicas of a host, or to
// all.
//
// Making one calls the input function, if one call serves several replicas. Its
// ops are built once and later, possibly in the body of a loop; building them
// also sets the queue that they feed.
//
// If hosts' data may end at different times, the elements of all hosts are read
// first, then all hosts are fed, unless every element is padding.
#ifndef LS_ESTIMATOR_INPUT_ENQUEUE_H_
#define LS_ESTIMATOR_INPUT_ENQUEUE_H_

#include "base/values/nest_builder.h"
#include "estimator/input/input_feed.h"
#include "estimator/input/recorder.h"

// Options; all are borrowed.
typedef struct ls_enqueue_options {
  const ls_estimator_calls *calls;
  const ls_input_feed_options *feed;
  ls_recorder *recorder;
  int64_t feeder;  // Number of the feeder in the plan.
  // After the end of its data, feed padding until all others have ended.
  bool ends_differ;
} ls_enqueue_options;

// The elements of a step after reading. Holds references.
typedef struct ls_enqueue_values {
  // A list of tensors that is cut over the replicas, or a list per replica;
  // none: not read.
  ls_nest values;
  ls_op *givers;  // Ops that all reads have to finish with.
  size_t num_givers;
  ls_nest signals;
  ls_nest ended;  // Bool scalars; all true if everything read is padding.
} ls_enqueue_values;

typedef struct ls_enqueue {
  ls_enqueue_options options;
  const ls_plan *plan;
  int64_t host;
  ls_device_name place;    // Device of the host.
  char *names;             // Name scope in which it was made.
  int64_t num_replicas;    // Number of replicas to feed.
  ls_feed_source source;   // None if each core has its own.
  ls_infeed_queue *queue;  // Set when built; NULL before.
  ls_enqueue_values read;
  ls_allocator *allocator;
} ls_enqueue;

LS_MUST_USE ls_status ls_enqueue_init(ls_enqueue *self,
                                      const ls_enqueue_options *options);
void ls_enqueue_deinit(ls_enqueue *self);  // May be zeroed.
// Builds the ops, a list; returns the signals of a prediction, a dict, else
// none.
//   LS_FAILED_PRECONDITION  they were built before
LS_MUST_USE ls_status ls_enqueue_build(ls_enqueue *self, ls_nest *out_ops,
                                       ls_nest *out_signals);
// Build the ops in two steps: reading into `read`, and feeding from there.
LS_MUST_USE ls_status ls_enqueue_read(ls_enqueue *self);
LS_MUST_USE ls_status ls_enqueue_feed(ls_enqueue *self, ls_nest *out_ops);
// Makes a queue for such tuples; sets only how they are partitioned over a
// replica's cores.
LS_MUST_USE ls_status ls_enqueue_make_queue(const ls_enqueue *self,
                                            ls_infeed_queue **out_queue);

// Builds a loop of the ops, on the host of the current device scope. It runs as
// often as the loop variable says; for predictions until a fed signal says
// stop. Returns the loop's last value, a scalar: the count or the signal.
//
// If the data of several hosts end at different times (`ends_differ`), one loop
// reads all hosts' elements and then feeds all hosts; those whose data have
// ended get padding. When only padding is left, nothing is fed and the loop
// fails with OUT_OF_RANGE. So an iteration feeds all hosts or none.
LS_MUST_USE ls_status ls_enqueue_loop(ls_enqueue *enqueues, size_t count,
                                      ls_tensor *out_last);

// Appends the ops of a list.
void ls_append_ops(ls_nest_builder *list, ls_nest ops);

#endif  // LS_ESTIMATOR_INPUT_ENQUEUE_H_
