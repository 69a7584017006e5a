// SPDX-License-Identifier: Apache-2.0
//
// Enqueue functions: ops that feed the replicas of a host, or all, one step.
//
// One is made by calling the input function, where that is called once for
// several replicas; its ops are built later, maybe in the body of a loop, and
// once: the queue that they go to is captured then.
//
// Where hosts' data may end at other times, what each takes is read first; then
// all are fed, unless there is nothing real for anyone (enqueue_loop.h).
#ifndef LS_ESTIMATOR_INPUT_ENQUEUE_H_
#define LS_ESTIMATOR_INPUT_ENQUEUE_H_

#include "estimator/input/input_feed.h"
#include "estimator/input/padding.h"
#include "estimator/input/recorder.h"

// All of it is lent.
typedef struct ls_enqueue_options {
  const ls_estimator_calls *calls;
  const ls_input_feed_options *feed;
  ls_recorder *recorder;
  int64_t host;
  // Of replicas that are on several hosts: the one that is fed. Else all of
  // the host.
  ls_opt replica;
  // Behind the end of its data set it goes on with padding, and says so, until
  // those of all others have ended.
  bool meets;
} ls_enqueue_options;

// What a step feeds, once it is read. Counted.
typedef struct ls_enqueue_values {
  ls_nest values;  // A list of tensors, or one of lists; none: not read yet.
  bool splits;     // Each is cut over the replicas.
  ls_nest givers;  // A list of ops, behind which all of them are there.
  ls_nest signals;
  ls_nest ended;  // A list of bool scalars: all true, if all is padding.
} ls_enqueue_values;

typedef struct ls_enqueue {
  ls_enqueue_options options;
  const ls_plan *plan;
  ls_device_name place;    // Of the host.
  char *names;             // The name scope that it was made in.
  int64_t num_replicas;    // That are fed.
  int64_t *ordinals;       // Of their cores,
  ls_device_name *hosts;   // and, where it feeds several hosts, theirs. NULL:
                           // `place`.
  int64_t rows;            // The input function's batch size; 0: not given.
  int64_t model_rows;      // A replica's.
  ls_feed_source source;   // Of a core each: that of the first.
  ls_infeed_queue *queue;  // Captured; NULL: not built yet.
  ls_enqueue_values read;
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
// The same in two parts: what is read, which stays in `read`, and feeding that.
LS_MUST_USE ls_status ls_enqueue_read(ls_enqueue *self);
LS_MUST_USE ls_status ls_enqueue_feed(ls_enqueue *self, ls_nest *out_ops);

// ---- Parts of it -----------------------------------------------------------
// Each takes elements in its way, into `read`.
LS_MUST_USE ls_status ls_enqueue_of_cores(ls_enqueue *self);
LS_MUST_USE ls_status ls_enqueue_to_cut(ls_enqueue *self);
LS_MUST_USE ls_status ls_enqueue_of_replicas(ls_enqueue *self);
LS_MUST_USE ls_status ls_enqueue_to_all(ls_enqueue *self);

// The ops of several lists, as one.
LS_MUST_USE ls_status ls_join_op_lists(const ls_nest *lists, size_t count,
                                       ls_nest *out_list);

// Calls the input function for one invocation.
LS_MUST_USE ls_status ls_enqueue_call_input(const ls_enqueue *self,
                                            int64_t invocation,
                                            ls_nest *out_made);
// What a batch for so many parts becomes, where sizes may be any.
ls_batch_padding ls_enqueue_padding(const ls_enqueue *self, int64_t parts);
// What a source gives, padded where it is the graph's, noted, as a list.
LS_MUST_USE ls_status ls_enqueue_next(ls_enqueue *self, ls_feed_source *source,
                                      ls_batch_padding padding,
                                      ls_feed_element *out_fed);
// A queue of such tuples, of which nothing but how they are cut over a
// replica's cores is set.
LS_MUST_USE ls_status ls_enqueue_make_queue(const ls_enqueue *self,
                                            ls_infeed_queue **out_queue);

#endif  // LS_ESTIMATOR_INPUT_ENQUEUE_H_
