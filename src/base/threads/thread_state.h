// SPDX-License-Identifier: Apache-2.0
//
// Per-thread state, of all layers.
//
// `work` belongs to the fiber that runs, and comes and goes with it; the rest
// is the thread's own, whatever runs on it. The layers above have rooms of
// their own: see LS_THREAD_PART. When a thread ends, each layer that requested
// it releases its state, the uppermost first; after that the state is as of a
// thread that begins.
#ifndef LS_BASE_THREADS_THREAD_STATE_H_
#define LS_BASE_THREADS_THREAD_STATE_H_

#include "lockstep/cancel.h"
#include "lockstep/runtime.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// An iterator that makes an element on this thread, and those around it: the
// functions of its data set may use other iterators.
typedef struct ls_making {
  struct ls_making *outer;
  const struct ls_work *work;  // The iterator's.
  const struct ls_runtime *runtime;
  // See data/making.h.
  const struct ls_work *released;  // Refused to go meanwhile. NULL: none.
  const struct ls_work *awaits;    // While the thread waits, with the list.
  struct ls_making *next_wait;
  bool is_followed;
} ls_making;

// Of a fiber, else of the thread itself.
typedef struct ls_at_work {
  struct ls_fiber *fiber;      // NULL: none.
  struct ls_context *context;  // Being built; NULL: the thread's own.
  struct ls_runtime *runtime;  // NULL: the default one.
  struct ls_cancel *cancel;    // See lockstep/cancel.h. NULL: none.
  uint64_t run;                // Of this host call; see ls_run_args. 0: none's.
  ls_making *making;           // NULL: none.
} ls_at_work;

// Layers that leave something, the lowest first.
typedef enum ls_thread_layer {
  LS_THREAD_GRAPH,
  LS_THREAD_RUNTIME,
  LS_THREAD_DISTRIBUTE,
  LS_THREAD_LAYERS
} ls_thread_layer;

typedef struct ls_thread_state {
  ls_at_work work;
  const struct ls_workers *workers;            // It is in their job.
  const struct ls_host_threads *host_threads;  // It does their jobs.
  struct {
    uint64_t owner;  // Of the seat; 0: nobody's.
    struct ls_span_seat *seat;
  } spans;  // Where it notes what it does; see base/trace.h.
  void (*leave[LS_THREAD_LAYERS])(void);
  // Rooms, all zero when the thread begins.
  _Alignas(max_align_t) unsigned char graph[256];
  _Alignas(max_align_t) unsigned char runtime[64];
  _Alignas(max_align_t) unsigned char distribute[128];
} ls_thread_state;

extern _Thread_local ls_thread_state ls_this_thread
    __attribute__((visibility("hidden")));

// The room of a layer as that layer's struct, which fits.
#define LS_THREAD_PART(Type, room)                                             \
  ((Type *)(void *)(ls_this_thread.room +                                      \
                    0 * sizeof(struct {                                        \
                      _Static_assert(sizeof(Type) <=                           \
                                         sizeof(ls_this_thread.room),          \
                                     "a thread's state has room for it");      \
                      char unused;                                             \
                    })))

// Has `leave` called when this thread ends. False: there is no place for it.
bool ls_thread_at_end(ls_thread_layer layer, void (*leave)(void));

#endif  // LS_BASE_THREADS_THREAD_STATE_H_
