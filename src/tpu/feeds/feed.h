// SPDX-License-Identifier: Apache-2.0
// Ops of infeed and outfeed, and their calls.
//
// An op names its queue by system, device and number; the system is the one
// that is meant where the op is made, if there is one then. The queue is looked
// up when it runs and kept until the system is initialized again.
//
// Thread-safe, but for making.
#ifndef LS_TPU_FEEDS_FEED_H_
#define LS_TPU_FEEDS_FEED_H_

#include "base/device_parts.h"
#include "base/threads/timers.h"
#include "lockstep/host.h"
#include "lockstep/topology.h"
#include "tpu/pod/core_queues.h"
#include "tpu/pod/pod_fault.h"

// ---- Pieces ----------------------------------------------------------------
// Values cut over the logical cores of a replica, in so many parts along each
// dimension; a rank of -1 is all of it on each core. Each dimension is cut
// greedily: pieces of ceil(size / parts), then the rest, then empty ones.
// Pieces are numbered row by row over the parts.
static inline bool ls_components_are_whole(ls_shape parts) {
  return parts.rank == LS_UNKNOWN_RANK;
}
// Their product; 1 of a whole.
int64_t ls_components_count(ls_shape parts);

// Checks that a value of this shape can be cut so over the cores of a replica.
LS_MUST_USE ls_status ls_components_check(ls_shape shape, ls_shape parts,
                                          int64_t cores);
// The same without a shape.
LS_MUST_USE ls_status ls_components_check_count(ls_shape parts, int64_t cores);

typedef struct ls_piece {
  ls_shape start, shape;
} ls_piece;

// Piece `core`; false: that core gets none.
bool ls_piece_of(ls_shape shape, ls_shape parts, int64_t core,
                 ls_piece *out_piece);
// Copies a piece to its place in the whole.
void ls_piece_copy(const ls_piece *piece, ls_shape shape, size_t item,
                   const void *from, void *to);

// "[2,1]", "[]".
#define LS_PARTS_TEXT(parts) LS_SHAPE_TEXT(LS_DTYPE_F32, parts) + 3

// ---- Ops of infeed and outfeed ---------------------------------------------
typedef enum ls_feed_kind {
  LS_INFEED_DEQUEUE,  // On a core.
  LS_OUTFEED_ENQUEUE,
  LS_INFEED_READY,
  LS_INFEED_ENQUEUE,  // On a host.
  LS_OUTFEED_DEQUEUE,
  LS_INFEED_CLOSE,
  LS_OUTFEED_CLOSE,
} ls_feed_kind;

static inline bool ls_feed_is_on_host(ls_feed_kind kind) {
  return kind >= LS_INFEED_ENQUEUE;
}
static inline bool ls_feed_is_outfeed(ls_feed_kind kind) {
  return kind == LS_OUTFEED_ENQUEUE || kind == LS_OUTFEED_DEQUEUE ||
         kind == LS_OUTFEED_CLOSE;
}
static inline bool ls_feed_takes(ls_feed_kind kind) {
  return kind == LS_INFEED_DEQUEUE || kind == LS_OUTFEED_DEQUEUE;
}

// The queues of an op: on a host by ordinal, else by replica and, where values
// are cut, by logical core.
typedef struct ls_feed_targets {
  struct ls_feed_targets *before;  // Those of other systems.
  ls_pod *pod;
  uint64_t generation;
  size_t count;
  ls_core_queue *queues[];  // NULL: not looked for.
} ls_feed_targets;

typedef struct ls_feed_call ls_feed_call;

// The state of an op.
typedef struct ls_feed_state {
  ls_object object;
  ls_allocator *allocator;
  ls_feed_kind kind;
  ls_device_parts device;  // Of the op.
  int64_t ordinal;         // On a host. Below 0: the device is the core.
  bool is_declared;        // Of enqueues: values must be of `types`.
  ls_system_id *system;    // Of whose cores it is; NULL: its device says it.
  ls_device_assignment *assignment;  // Of replicas. NULL: one after the other.
  int32_t logical_core;
  int32_t num_cores;  // Of a replica, where values are cut; else 1.
  size_t count;       // Elements, where they are known.
  ls_type *types;
  ls_shape *parts;  // How each is cut. NULL: none is.
  ls_mutex lock;    // Guards what follows.
  ls_feed_targets *targets;
  ls_feed_call *idle;
} ls_feed_state;

typedef struct ls_feed_options {
  ls_feed_kind kind;
  const char *device;  // "" and NULL: none.
  int64_t ordinal;
  ls_system_id *system;  // NULL: the one that is meant where it is made.
  const ls_device_assignment *assignment;
  const ls_type *types;   // NULL: not known.
  const ls_shape *parts;  // NULL: values are not cut.
  size_t count;
} ls_feed_options;

LS_MUST_USE ls_status ls_feed_create(const ls_feed_options *options,
                                     ls_feed_state **out_feed);

// The queues of replicas `first` on, or on a host of core `first`. They stay as
// long as the feed; `*out_targets` has at least `first + count`.
//   LS_NOT_FOUND            there is no system, or it has no such host
//   LS_FAILED_PRECONDITION  it is not initialized; several may be meant
//   LS_INVALID_ARGUMENT     no such core
LS_MUST_USE ls_status ls_feed_find(ls_feed_state *feed, ls_runtime *runtime,
                                   int64_t first, size_t count,
                                   ls_feed_targets **out_targets);
LS_OWNED_POINTER(ls_feed_state, ls_object_release)
// Returns true if a core of a replica gets something.
bool ls_feed_uses(const ls_feed_state *feed, int64_t core);
// The core of a host's op, from the attribute or the device it is placed on.
//   LS_INVALID_ARGUMENT  on a CPU, and not said.
LS_MUST_USE ls_status ls_feed_ordinal(const ls_feed_state *feed,
                                      int64_t *out_ordinal);

// "infeed_dequeue", ...
const char *ls_feed_kind_name(ls_feed_kind kind);
const ls_host_kernel *ls_feed_kernel(ls_feed_kind kind);

// A call that is under way; the pool of them is the feed's. The rest is
// feed_call.c's.
void ls_feed_calls_destroy(ls_feed_state *feed);

// The system of an op of infeed or outfeed; NULL: not known. Lent.
ls_system_id *ls_feed_op_system(ls_op op);

// The ops of queues, with names: those of a replica's dequeue, or of whether
// there will be something to take, and of an enqueue on a host. Options but the
// types and how they are cut come from where they are made.
ls_op ls_feed_dequeue(ls_feed_kind kind, const char *name,
                      const ls_feed_options *options, const ls_tensor *inputs,
                      size_t num_inputs);
ls_op ls_feed_enqueue(ls_system_id *system, const char *name,
                      const ls_tensor *values, const ls_type *types,
                      size_t count, int64_t ordinal);

// ---- Calls -----------------------------------------------------------------
// A call of an op that is under way: tries queues, each time that one reports
// that a try is worth while, until all have gone through. It belongs to the
// feed's pool, reports its status when its results are taken, and can be
// cancelled until then.
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
  // Fields of the thread that tries, or that has found it waiting and has
  // withdrawn the waiter.
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
// Returns true if something comes by queue `i`: where values are cut, not all
// cores of a replica need get a piece. And finds the piece of element `k`
// there; false if none.
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

#endif  // LS_TPU_FEEDS_FEED_H_
