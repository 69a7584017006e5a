// SPDX-License-Identifier: Apache-2.0
// A call of an op of infeed or outfeed that is under way: tries of queues, each
// time that one says that a try is worth while, until all have gone through.
#ifndef LS_TPU_FEEDS_FEED_CALL_H_
#define LS_TPU_FEEDS_FEED_CALL_H_

#include "base/threads/timers.h"
#include "tpu/feeds/feed.h"
#include "tpu/pod/pod_fault.h"

// Of the feed's pool. How it went is told when its results are taken: until
// then it can be cancelled.
struct ls_feed_call {
  ls_feed_call *next;
  ls_feed_state *feed;
  ls_host_call *call;
  ls_feed_targets *targets;
  size_t first, count;  // Of the targets.
  size_t at;            // What is tried or waited for.
  ls_mutex lock;  // Guards what follows, and is held where it begins to wait.
  ls_queue_waiter waiter;
  ls_queue *waits_for;  // Where the waiter is, or was.
  bool is_cancelled, is_parked;
  ls_timer timer;  // Parked: until it is called.
  // Of who tries, or has found it waiting and has withdrawn the waiter.
  uint64_t closings;       // Seen so far; see wait_for_tuple.
  bool has_tuples;         // Of INFEED_READY: its result.
  bool has_yielded;        // Of enqueues: all is put, others have gone on.
  ls_nest *tuples;         // Taken; of enqueues the first is to be put.
  ls_pod_passing passing;  // What goes wrong with that.
  size_t most_tuples;
  ls_status status;
};

static inline ls_core_queue *ls_feed_queue_at(const ls_feed_call *self,
                                              size_t i) {
  return self->targets->queues[self->first + i];
}
static inline ls_feed_state *ls_feed_of(const ls_host_call *call) {
  return (ls_feed_state *)call->state;
}
// "infeed" or "outfeed".
const char *ls_feed_word(const ls_feed_state *feed);
// Whether something comes that way: where values are cut, not all cores of a
// replica need get a piece. And the piece of element `k` that comes by queue
// `i`; false: none does.
bool ls_feed_is_used(const ls_feed_call *self, size_t i);
bool ls_feed_piece_at(const ls_feed_call *self, size_t i, size_t k,
                      ls_piece *out_piece);

// A call with its queues, and room for so many tuples.
LS_MUST_USE ls_status ls_feed_call_begin(ls_host_call *call, size_t num_tuples,
                                         ls_feed_call **out_call);
// Tries, until it is over or waits; begins to when so much time has passed.
void ls_feed_call_go_on(ls_feed_call *self, int64_t nanos);
// Ends one that waits.
void ls_feed_call_cancel(ls_feed_call *self);
// How it went. Gives the tuples back that there are, and the call.
LS_MUST_USE ls_status ls_feed_call_end(ls_feed_call *self, size_t num_tuples);

#endif  // LS_TPU_FEEDS_FEED_CALL_H_
