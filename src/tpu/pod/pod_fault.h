// SPDX-License-Identifier: Apache-2.0
// Fault points ("doors") of a pod, and the faults planned for them; see
// lockstep/tpu_system.h.
//
// Thread-safe.
#ifndef LS_TPU_POD_POD_FAULT_H_
#define LS_TPU_POD_POD_FAULT_H_

#include "tpu/pod/pod.h"

typedef enum ls_pod_door {
  LS_DOOR_COMPILE,  // A program for a core is compiled.
  LS_DOOR_RUN,      // A core begins a run.
  LS_DOOR_DEQUEUE,  // A core takes a tuple from its infeed.
  LS_DOOR_ENQUEUE,  // A host puts a tuple into an infeed.
  LS_DOOR_OUTFEED,  // A core puts a tuple into its outfeed.
  LS_DOOR_HEALTH,   // A core's host gets a health check.
  LS_POD_DOORS,
} ls_pod_door;

// The effect of faults on a call that passes a fault point.
typedef struct ls_pod_passing {
  int64_t nanos;        // Delay.
  bool loses, changes;  // The tuple is lost or altered.
  bool closes;          // The infeed closes afterwards.
  int64_t bytes;        // Available memory; 0: enough.
  // Host health: slow, unresponsive, or announces its end.
  bool lame, silent, tells;
} ls_pod_passing;

// Returns true if no fault is planned and no host is watched.
static inline bool ls_pod_is_undisturbed(const ls_pod *pod) {
  return __atomic_load_n(&pod->num_faults, __ATOMIC_ACQUIRE) == 0 &&
         __atomic_load_n(&pod->watched, __ATOMIC_RELAXED) == 0;
}
// Counts one step of a core through a fault point. The caller waits for the
// delay itself. With no fault planned the cost is one load.
//   LS_UNAVAILABLE       the host or core is gone
//   LS_ABORTED           the outfeed fails
//   LS_INVALID_ARGUMENT  the program does not compile
LS_MUST_USE ls_status ls_pod_pass_slowly(ls_core *core, ls_pod_door door,
                                         ls_pod_passing *out_passing);
static inline ls_status ls_pod_pass(ls_core *core, ls_pod_door door,
                                    ls_pod_passing *out_passing) {
  *out_passing = (ls_pod_passing){.tells = true};
  return ls_pod_is_undisturbed(core->pod)
             ? ls_ok()
             : ls_pod_pass_slowly(core, door, out_passing);
}
// Passes the fault point of each listed core in parallel, and waits for the
// longest delay.
LS_MUST_USE ls_status ls_pod_pass_all(ls_pod *pod, const char *const *devices,
                                      int32_t count, ls_pod_door door);

// Restarts the faults when the system is initialized again: lost hosts are back
// and steps count from 0.
void ls_pod_restart_faults(ls_pod *pod);

// Checks a host of a watched pod. A real host ends itself when its health
// checks stop; here callers that pass a fault point check if that time has
// passed, and then fail the host.
LS_MUST_USE ls_status ls_pod_check_watch(ls_pod *pod, int32_t host);
void ls_pod_note_asked(ls_pod *pod, int32_t host);
// Counts now as a health check of all hosts.
void ls_pod_restart_watch(ls_pod *pod);

// Parses a fault such as "preempt@host1:step40", the part after "fault=".
// Returns NULL or, as static text, the error.
const char *ls_pod_fault_parse(const char *text, size_t size,
                               ls_pod_fault *out_fault);

#endif  // LS_TPU_POD_POD_FAULT_H_
