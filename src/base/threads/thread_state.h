// SPDX-License-Identifier: Apache-2.0
//
// Per-thread state of all layers.
//
// `work` belongs to the running fiber and is swapped with it; the rest belongs
// to the thread. Each layer above has its part: see LS_THREAD_PART. At a
// thread's end each layer that registered releases its state, the highest layer
// first; then the state is that of a new thread.
#ifndef LS_BASE_THREADS_THREAD_STATE_H_
#define LS_BASE_THREADS_THREAD_STATE_H_

#include "lockstep/cancel.h"
#include "lockstep/runtime.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// An iterator that makes an element on this thread; `outer` links those around
// it, since functions of its data set may use other iterators.
typedef struct ls_making {
  struct ls_making *outer;
  const struct ls_work *work;  // The iterator's work.
  const struct ls_runtime *runtime;
  // The two below are explained in data/making.h.
  const struct ls_work *released;  // Iterator that its own function released.
  const struct ls_work *awaits;    // While the thread waits, with the list.
  struct ls_making *next_wait;
  bool is_followed;
} ls_making;

// State of the running code: a fiber's, or the thread's own outside of fibers.
typedef struct ls_at_work {
  struct ls_fiber *fiber;      // The running fiber; NULL outside of fibers.
  struct ls_context *context;  // Graph and scopes; NULL: the thread's own.
  struct ls_runtime *runtime;  // NULL: the default runtime.
  struct ls_cancel *cancel;    // See lockstep/cancel.h. May be NULL.
  uint64_t run;                // Id of the host call's run; 0: none.
  ls_making *making;           // NULL: none.
  int pins;  // Callbacks on the stack that cannot be paused: foreign.h.
} ls_at_work;

// Layers that have state to release at a thread's end, the lowest first.
typedef enum ls_thread_layer {
  LS_THREAD_GRAPH,
  LS_THREAD_RUNTIME,
  LS_THREAD_DISTRIBUTE,
  LS_THREAD_LAYERS
} ls_thread_layer;

typedef struct ls_thread_state {
  ls_at_work work;
  const struct ls_workers *workers;            // Their job runs here.
  const struct ls_host_threads *host_threads;  // The owners of this thread.
  struct {
    uint64_t owner;  // Id of the seats; 0: no seat.
    struct ls_span_seat *seat;
  } spans;  // The thread's seat for spans; see base/trace.h.
  void (*leave[LS_THREAD_LAYERS])(void);
  // The layers' parts, all zero at the thread's start.
  _Alignas(max_align_t) unsigned char graph[256];
  _Alignas(max_align_t) unsigned char runtime[64];
  _Alignas(max_align_t) unsigned char distribute[128];
} ls_thread_state;

extern _Thread_local ls_thread_state ls_this_thread
    __attribute__((visibility("hidden")));

// Returns a layer's part as that layer's struct, after checking that it fits.
#define LS_THREAD_PART(Type, room)                                             \
  ((Type *)(void *)(ls_this_thread.room +                                      \
                    0 * sizeof(struct {                                        \
                      _Static_assert(sizeof(Type) <=                           \
                                         sizeof(ls_this_thread.room),          \
                                     "a thread's state has room for it");      \
                      char unused;                                             \
                    })))

// Calls `leave` when this thread ends. Returns false without memory.
bool ls_thread_at_end(ls_thread_layer layer, void (*leave)(void));

#endif  // LS_BASE_THREADS_THREAD_STATE_H_
