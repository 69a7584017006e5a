// SPDX-License-Identifier: Apache-2.0
// What this layer keeps in each runtime: its pods, and the systems that are
// initialized.
//
// The runtime's lock guards it.
#ifndef LS_TPU_POD_STATE_H_
#define LS_TPU_POD_STATE_H_

#include "lockstep/tpu_system.h"
#include "tpu/pod/pod.h"

typedef struct ls_tpu_state {
  ls_allocator *allocator;
  ls_pod **pods;  // In order of making; counted.
  size_t num_pods, pods_capacity;
  uint64_t generations;  // Initializations so far, of all pods.
  uint64_t changes;      // Of what is in both tables, so far. Atomic.
  // The local system, if it was shut down and is not back; NULL: it was not.
  // Counted.
  ls_system_id *gone;
  // The system that was initialized while no other was, also after its shutdown
  // as long as others stay; NULL: none is initialized. Counted.
  ls_system_id *first;
  ls_tpu_system *systems;  // Initialized, pods or not. Their texts and
  size_t num_systems, systems_capacity;  // topologies are the state's.
} ls_tpu_state;

// NULL: none was made.
static inline ls_tpu_state *ls_tpu_state_find(const ls_runtime *runtime) {
  return ls_runtime_slot(runtime, LS_SLOT_TPU);
}
// A system in the table of those initialized; NULL: it is not there. Hold the
// runtime's lock.
ls_tpu_system *ls_tpu_state_system(const ls_tpu_state *state, const char *name,
                                   const char *job);
// Releases what an entry of the table owns.
void ls_tpu_system_deinit(ls_allocator *allocator, ls_tpu_system *system);
static inline void ls_tpu_state_note_change(ls_tpu_state *state) {
  __atomic_fetch_add(&state->changes, 1, __ATOMIC_ACQ_REL);
}
// Made on first use; NULL without memory. Hold the runtime's lock.
ls_tpu_state *ls_tpu_state_get(ls_runtime *runtime);

#endif  // LS_TPU_POD_STATE_H_
