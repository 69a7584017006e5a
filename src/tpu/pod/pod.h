// SPDX-License-Identifier: Apache-2.0
// A pod: hosts and their cores, as one table. No thread belongs to it.
//
// The pods of a runtime hang in its slot, by job and name: the same name means
// the same pod until that is shut down. Who keeps a pod retains it; one that
// was shut down stays a table that nobody finds any more.
//
// Thread-safe but for setting up: what a pod is never changes after
// ls_pod_open, what changes is guarded by its lock.
#ifndef LS_TPU_POD_POD_H_
#define LS_TPU_POD_POD_H_

#include <stdarg.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "engine/backend.h"
#include "lockstep/object.h"
#include "lockstep/tpu_system.h"
#include "tpu/pod/system_id.h"

enum {
  LS_MAX_POD_CORES = 1 << 16,  // Of one pod.
  LS_INFEED_DEPTH = 64,        // Tuples a queue holds by default.
};

typedef struct ls_core ls_core;
struct ls_core_queue;  // core_queues.h

// One core. All of its fields but the queues stay as they are.
struct ls_core {
  ls_pod *pod;
  int32_t host, ordinal;     // Its task, and its index there.
  int32_t at[LS_MESH_RANK];  // Where it stands in the mesh.
  // Made on demand, under the pod's lock, by who also sets pod->queues.
  struct ls_core_queue *infeed, *outfeed;
};

// Callbacks of the owner of the pod's queues.
typedef struct ls_core_queues {
  // The pod goes: frees what stands, half-built too. Nobody waits any more.
  void (*destroy)(ls_core *core);
  // Empties and opens the queues again, and tells waiting threads. Called
  // without the pod's lock.
  void (*reset)(ls_core *core);
} ls_core_queues;

struct ls_pod {
  ls_object object;
  ls_runtime *runtime;  // Lent.
  ls_allocator *allocator;
  ls_system_id *id;
  const char *name, *job;      // Its; "virtual:4x4,hosts=2", "worker".
  int32_t mesh[LS_MESH_RANK];  // Chips by x, y and z, cores of a chip.
  int32_t num_hosts, cores_per_host;
  int32_t queue_depth;  // Tuples a queue holds.
  int64_t core_bytes;   // Memory of a core; 0: no limit.
  ls_core *cores;       // By host, then by ordinal.
  ls_topology *topology;
  char *planned;  // The faults that it was made with; "" for none.

  ls_mutex lock;  // Guards what follows, and the cores' queues.
  // Number of its initialization; 0: not initialized now. Larger than all
  // earlier ones, of any pod of the runtime. Atomic: read without the lock.
  uint64_t generation;
  bool is_gone;  // It was shut down. Atomic: read without the lock.
  // Queues that were closed so far. Atomic: read without the lock.
  uint64_t closings;
  const ls_core_queues *queues;        // NULL: no core has a queue.
  struct ls_planned_fault *faults;     // See pod_fault.h.
  size_t num_faults, faults_capacity;  // The number also atomic.
  int64_t watched;                     // See ls_pod_watch. Atomic.
  int64_t *asked;  // When a host was, last; NULL: never watched.
};

// Mesh and hosts, as LS_MARK_MESH has them.
enum { LS_POD_SIZES = LS_MESH_RANK + 1 };
static inline void ls_topology_sizes(const ls_topology *topology,
                                     int64_t sizes[LS_POD_SIZES]) {
  for (int k = 0; k < LS_MESH_RANK; ++k)
    sizes[k] = ls_topology_mesh(topology)[k];
  sizes[LS_MESH_RANK] = ls_topology_num_tasks(topology);
}
static inline void ls_pod_sizes(const ls_pod *pod,
                                int64_t sizes[LS_POD_SIZES]) {
  ls_topology_sizes(pod->topology, sizes);
}

// ---- The table -------------------------------------------------------------
// The shape of a new pod.
typedef struct ls_pod_shape {
  int32_t mesh[LS_MESH_RANK];  // Each at least 1.
  int32_t hosts;               // Divides mesh[0]: they split x.
  int32_t queue_depth;         // Tuples a queue holds; 0: the default.
  int64_t core_bytes;          // Memory of a core; 0: no limit.
  const char *faults;          // ",fault=...,fault=..."; NULL or "": none.
} ls_pod_shape;

// Reads "4x4x2,cores=2,hosts=4", which stands behind "virtual:" in `name`; what
// it says of faults is lent by `text`.
//   LS_INVALID_ARGUMENT  names the text, the part and what is accepted.
LS_MUST_USE ls_status ls_pod_shape_parse(const char *name, const char *text,
                                         ls_pod_shape *out_shape);

// The pod of that name and job, made like this if there is none. The caller
// retains it.
//   LS_INVALID_ARGUMENT     more than LS_MAX_POD_CORES cores, or hosts that do
//                           not divide them.
//   LS_FAILED_PRECONDITION  there is one of another shape.
LS_MUST_USE ls_status ls_pod_open(ls_runtime *runtime, const char *name,
                                  const char *job, const ls_pod_shape *shape,
                                  ls_pod **out_pod);
// The same if there is one, else NULL. The caller retains it.
ls_pod *ls_pod_find(ls_runtime *runtime, const char *name, const char *job);
ls_pod *ls_pod_of_id(ls_runtime *runtime, const ls_system_id *id);
// The pod that a device of this job means: the one that is initialized, of
// which a job has one at most, or else the one made last; NULL without one. The
// caller releases it.
ls_pod *ls_pod_of_job(ls_runtime *runtime, const char *job);
// The only pod of a job (NULL: of any) that is initialized, or without one the
// only one that there is; NULL: there is none. `*out_other` is another such
// pod, if there is one. The caller releases both.
void ls_pod_only(ls_runtime *runtime, const char *job, ls_pod **out_pod,
                 ls_pod **out_other);
// The same of those with this topology; the local system, if it has it.
void ls_pod_of_topology(ls_runtime *runtime, const ls_topology *topology,
                        ls_pod **out_pod, ls_pod **out_other);
// Takes it out of the table, for good: devices do not mean it any longer.
void ls_pod_shut_down(ls_pod *pod);

// The pod on which a system's computations run now, or what says that it is
// still that one; `id` NULL: the local system. One that was never initialized
// can run them if it is the local one, until it is shut down. A system that is
// not of this process has no pod.
typedef struct ls_pod_of_now {
  ls_pod *pod;          // NULL: there is none. The caller releases it.
  uint64_t generation;  // Of it; else of the table of pods and systems.
} ls_pod_of_now;
//   LS_FAILED_PRECONDITION  the system is not initialized: names it.
LS_MUST_USE ls_status ls_pod_ready(ls_runtime *runtime, const ls_system_id *id,
                                   ls_pod_of_now *out_now);

// ---- One pod ---------------------------------------------------------------
// A new generation: what was compiled for the one before runs no longer, and
// queues are empty and open again.
void ls_pod_initialize(ls_pod *pod);
// Queues alone are: who waits there waits in vain.
void ls_pod_reset_queues(ls_pod *pod);
static inline uint64_t ls_pod_generation(const ls_pod *pod) {
  return __atomic_load_n(&pod->generation, __ATOMIC_ACQUIRE);
}
static inline bool ls_pod_is_initialized(const ls_pod *pod) {
  return ls_pod_generation(pod) > 0;
}
static inline bool ls_pod_is_gone(const ls_pod *pod) {
  return __atomic_load_n(&pod->is_gone, __ATOMIC_ACQUIRE);
}

static inline int32_t ls_pod_num_cores(const ls_pod *pod) {
  return pod->num_hosts * pod->cores_per_host;
}
// NULL: there is none.
static inline ls_core *ls_pod_core(ls_pod *pod, int64_t host, int64_t ordinal) {
  if (host < 0 || host >= pod->num_hosts || ordinal < 0 ||
      ordinal >= pod->cores_per_host)
    return NULL;
  return &pod->cores[host * pod->cores_per_host + ordinal];
}
// Checks that the pod is of these sizes, for which something was built.
//   LS_FAILED_PRECONDITION  says both.
LS_MUST_USE ls_status ls_pod_check_sizes(const ls_pod *pod,
                                         const int64_t sizes[LS_POD_SIZES]);
// The core that a device names, "/job:worker/task:1/device:TPU:3"; what a name
// leaves out is of the local system, task 0 or index 0. The caller retains its
// pod.
//   LS_INVALID_ARGUMENT  no name of a device.
//   LS_NOT_FOUND         no TPU, no pod of that job, no such host or core:
//                        names what there is.
LS_MUST_USE ls_status ls_pod_lookup_core(ls_runtime *runtime,
                                         const char *device,
                                         ls_core **out_core);
void ls_core_release(ls_core *core);  // The pod of one so found. NULL is fine.
LS_OWNED_POINTER(ls_core, ls_core_release)
// Returns true if a device is a core of a pod that is initialized.
bool ls_pod_has_core(ls_runtime *runtime, const char *device);
// The core of the pod that a device names by its task and index; NULL: it has
// no such core.
ls_core *ls_pod_core_at(ls_pod *pod, const char *device);
// The canonical name: "/job:worker/replica:0/task:1/device:TPU:3".
void ls_core_device(const ls_core *core, ls_device_name *out_name);

// ---- Log -------------------------------------------------------------------
// Writes a line of this layer to the runtime's log.
LS_PRINTF(3, 4)
static inline void ls_tpu_log(ls_runtime *runtime, ls_log_level level,
                              const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  ls_log_v(runtime, level, "tpu", format, arguments);
  va_end(arguments);
}

// ---- State -----------------------------------------------------------------
// Per-runtime state of this layer: pods and initialized systems. The runtime's
// lock guards it.
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

// ---- Launch ----------------------------------------------------------------
// The launch of a replicated computation on the cores of a pod: the doors of
// compiling and of beginning a run (launch.c).
extern const ls_launch_type ls_tpu_launches;

#endif  // LS_TPU_POD_POD_H_
