// SPDX-License-Identifier: Apache-2.0
// Doors of a pod, and the faults that stand there. See lockstep/tpu_system.h.
//
// Thread-safe.
#ifndef LS_TPU_POD_POD_FAULT_H_
#define LS_TPU_POD_POD_FAULT_H_

#include "tpu/pod/pod.h"

typedef enum ls_pod_door {
  LS_DOOR_COMPILE,  // A program for it is compiled.
  LS_DOOR_RUN,      // A replica's core begins a run.
  LS_DOOR_DEQUEUE,  // It takes a tuple from its infeed.
  LS_DOOR_ENQUEUE,  // A host puts one there.
  LS_DOOR_OUTFEED,  // It puts one into its outfeed.
  LS_DOOR_HEALTH,   // Its host is asked how it is.
  LS_POD_DOORS,
} ls_pod_door;

// The effect on a call that passes a door.
typedef struct ls_pod_passing {
  int64_t nanos;             // It takes so long.
  bool loses, changes;       // The tuple.
  bool closes;               // The infeed, behind it.
  int64_t bytes;             // What memory there is; 0: enough.
  bool lame, silent, tells;  // Of the host's health.
} ls_pod_passing;

// Nothing is planned, and no host has to be asked how it is.
static inline bool ls_pod_is_undisturbed(const ls_pod *pod) {
  return __atomic_load_n(&pod->num_faults, __ATOMIC_ACQUIRE) == 0 &&
         __atomic_load_n(&pod->watched, __ATOMIC_RELAXED) == 0;
}
// One step of a core through a door. Who passes waits for `nanos`; costs a look
// while nothing is planned.
//   LS_UNAVAILABLE  the host or core is gone; LS_ABORTED: the outfeed fails;
//   LS_INVALID_ARGUMENT: it does not compile.
LS_MUST_USE ls_status ls_pod_pass_slowly(ls_core *core, ls_pod_door door,
                                         ls_pod_passing *out_passing);
static inline ls_status ls_pod_pass(ls_core *core, ls_pod_door door,
                                    ls_pod_passing *out_passing) {
  *out_passing = (ls_pod_passing){.tells = true};
  return ls_pod_is_undisturbed(core->pod)
             ? ls_ok()
             : ls_pod_pass_slowly(core, door, out_passing);
}
// The same of each core of the pod that a list of devices names, side by side;
// waits.
LS_MUST_USE ls_status ls_pod_pass_all(ls_pod *pod, const char *const *devices,
                                      int32_t count, ls_pod_door door);

// The system begins anew: what was gone is there, steps count from 0.
void ls_pod_restart_faults(ls_pod *pod);

// Hosts of a watched pod. A real host has a timer that ends it when nobody asks
// how it is; here callers that pass a door check if it would have.
//
// Has the host go, unless it was asked in time.
LS_MUST_USE ls_status ls_pod_check_watch(ls_pod *pod, int32_t host);
void ls_pod_note_asked(ls_pod *pod, int32_t host);
void ls_pod_restart_watch(ls_pod *pod);  // All were asked now.

// Reads what stands behind "fault=": "preempt@host1:step40". `name` is the
// whole one, for messages; NULL: the part is fine, else what is wrong with it.
// Texts are static.
const char *ls_pod_fault_parse(const char *text, size_t size,
                               ls_pod_fault *out_fault);

#endif  // LS_TPU_POD_POD_FAULT_H_
