// SPDX-License-Identifier: Apache-2.0
//
// Enqueue functions: ops that feed the replicas of a host, or all, one step.
//
// One is made by calling the input function, where that is called once for
// several replicas; its ops are built later, maybe in the body of a loop, and
// once: the queue that they go to is captured then.
#ifndef LS_ESTIMATOR_ENQUEUE_H_
#define LS_ESTIMATOR_ENQUEUE_H_

#include "estimator/input_feed.h"
#include "estimator/padding.h"
#include "estimator/recorder.h"

// All of it is lent.
typedef struct ls_enqueue_options {
  const ls_estimator_calls *calls;
  const ls_input_feed_options *options;
  ls_recorder *recorder;
  int64_t host;
  // Of replicas that are on several hosts: the one that is fed. Else all of
  // the host.
  ls_opt replica;
} ls_enqueue_options;

typedef struct ls_enqueue {
  ls_enqueue_options is;
  ls_estimator_input kind;
  ls_device_name place;    // Of the host.
  int64_t num_replicas;    // That are fed.
  int64_t *ordinals;       // Of their cores,
  ls_device_name *hosts;   // and, where it feeds several hosts, theirs. NULL:
                           // `place`.
  int64_t rows;            // The input function's batch size; 0: not given.
  int64_t model_rows;      // A replica's.
  ls_feed_source source;   // Of a core each: that of the first.
  ls_infeed_queue *queue;  // Captured; NULL: not built yet.
  ls_allocator *allocator;
} ls_enqueue;

LS_MUST_USE ls_status ls_enqueue_init(ls_enqueue *self,
                                      const ls_enqueue_options *options);
void ls_enqueue_deinit(ls_enqueue *self);  // Zeroed is fine.
// The ops, a list, and, of a prediction, the signals that go with them, a dict;
// else none.
//   LS_FAILED_PRECONDITION  they were built already
LS_MUST_USE ls_status ls_enqueue_build(ls_enqueue *self, ls_nest *out_ops,
                                       ls_nest *out_signals);

// ---- Parts of it -----------------------------------------------------------
// Each feeds in its way: takes elements, and gives ops and signals.
LS_MUST_USE ls_status ls_enqueue_of_cores(ls_enqueue *self, ls_nest *out_ops);
LS_MUST_USE ls_status ls_enqueue_of_host(ls_enqueue *self, ls_nest *out_ops,
                                         ls_nest *out_signals);
LS_MUST_USE ls_status ls_enqueue_of_replicas(ls_enqueue *self, ls_nest *out_ops,
                                             ls_nest *out_signals);
LS_MUST_USE ls_status ls_enqueue_to_all(ls_enqueue *self, ls_nest *out_ops,
                                        ls_nest *out_signals);

// Calls the input function for one invocation.
LS_MUST_USE ls_status ls_enqueue_call_input(const ls_enqueue *self,
                                            int64_t invocation,
                                            ls_nest *out_made);
// What a source gives, padded where it is the graph's, noted, as a list.
LS_MUST_USE ls_status ls_enqueue_next(ls_enqueue *self, ls_feed_source *source,
                                      ls_batch_padding padding,
                                      ls_fed *out_fed);
// A queue of such tuples, of which nothing but how they are cut over a
// replica's cores is set.
LS_MUST_USE ls_status ls_enqueue_make_queue(const ls_enqueue *self,
                                            ls_infeed_queue **out_queue);
// A list of tensors, or one of lists, to the queue, which is captured.
// `splits`: each is cut over the replicas.
LS_MUST_USE ls_status ls_enqueue_put(ls_enqueue *self, ls_nest values,
                                     bool splits, ls_nest *out_ops);

#endif  // LS_ESTIMATOR_ENQUEUE_H_
