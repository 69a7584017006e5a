// SPDX-License-Identifier: Apache-2.0
// What an op of infeed or outfeed is, and the calls of it.
//
// An op names its queue by system, device and number; the system is the one
// that is meant where the op is made, if there is one then. Which queue that
// is, is asked when it runs and kept until the system is initialized anew.
//
// Thread-safe, but for making.
#ifndef LS_TPU_FEEDS_FEED_H_
#define LS_TPU_FEEDS_FEED_H_

#include "base/device_parts.h"
#include "lockstep/host.h"
#include "lockstep/topology.h"
#include "tpu/feeds/pieces.h"
#include "tpu/pod/core_queues.h"

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
// Whether a core of a replica gets something.
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
// Adds an op; the feed is retained. `name` NULL: the kind's.
ls_op ls_feed_op_add(const char *name, ls_feed_state *feed,
                     const ls_tensor *inputs, size_t num_inputs);

// The ops of queues, with names: those of a replica's dequeue, or of whether
// there will be something to take, and of an enqueue on a host. Options but the
// types and how they are cut come from where they are made.
ls_op ls_feed_dequeue(ls_feed_kind kind, const char *name,
                      const ls_feed_options *options, const ls_tensor *inputs,
                      size_t num_inputs);
ls_op ls_feed_enqueue(ls_system_id *system, const char *name,
                      const ls_tensor *values, const ls_type *types,
                      size_t count, int64_t ordinal);

#endif  // LS_TPU_FEEDS_FEED_H_
