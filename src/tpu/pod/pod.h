// SPDX-License-Identifier: Apache-2.0
// A pod: hosts and their cores, as one table. No thread belongs to it.
//
// A runtime keeps its pods in a table by job and name; a name means one pod
// until the pod is shut down. A user of a pod retains it; after a shutdown the
// pod stays valid, but lookups no longer find it.
//
// Thread-safe after ls_pod_open: the fields that change later are guarded by
// the pod's lock.
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
  LS_MAX_POD_CORES = 1 << 16,  // Cores of one pod at most.
  LS_INFEED_DEPTH = 64,        // Default number of tuples in a queue.
};

typedef struct ls_core ls_core;
struct ls_core_queue;  // Defined in core_queues.h.

// One core. All fields but the queues are constant.
struct ls_core {
  ls_pod *pod;
  int32_t host, ordinal;     // The task, and the core's index in it.
  int32_t device;            // The runtime's device; -1: any.
  int32_t at[LS_MESH_RANK];  // Coordinates of the core in the mesh.
  // The core's queues, made on demand under the pod's lock; their maker also
  // sets pod->queues.
  struct ls_core_queue *infeed, *outfeed;
};

// Callbacks of the code that owns the pod's queues.
typedef struct ls_core_queues {
  // Frees the core's queues when the pod is destroyed, even if they are partly
  // built. No thread waits for them by then.
  void (*destroy)(ls_core *core);
  // Empties and reopens the queues and wakes their waiters. Called without the
  // pod's lock.
  void (*reset)(ls_core *core);
} ls_core_queues;

struct ls_pod {
  ls_object object;
  ls_runtime *runtime;  // Borrowed.
  ls_allocator *allocator;
  ls_system_id *id;
  const char *name, *job;      // Such as "virtual:4x4,hosts=2" and "worker".
  int32_t mesh[LS_MESH_RANK];  // Chips along x, y and z, and cores of a chip.
  int32_t num_hosts, cores_per_host;
  int32_t queue_depth;  // Number of tuples in a queue.
  int64_t core_bytes;   // Memory of a core; 0: no limit.
  ls_core *cores;       // Ordered by host, then by ordinal.
  ls_topology *topology;
  char *planned;  // The text of the pod's planned faults; "" for none.

  ls_mutex lock;  // Guards the fields below and the cores' queues.
  // Number of the current initialization; 0 if not initialized. Larger than all
  // earlier ones of any pod of the runtime. Atomic: read without the lock.
  uint64_t generation;
  bool is_gone;  // True after shutdown. Atomic: read without the lock.
  // Number of queues closed so far. Atomic: read without the lock.
  uint64_t closings;
  const ls_core_queues *queues;        // NULL: no core has a queue.
  struct ls_planned_fault *faults;     // The faults planned so far.
  size_t num_faults, faults_capacity;  // num_faults is atomic.
  // Time limit between health checks; see ls_pod_watch. Atomic.
  int64_t watched;
  int64_t *asked;  // Last health check of each host; NULL: never watched.
};

// Number of values of a mark LS_MARK_MESH: the mesh's sizes and the number of
// hosts.
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
  int32_t hosts;        // Number of hosts, a divisor of mesh[0]: hosts split x.
  int32_t queue_depth;  // Number of tuples in a queue; 0: the default.
  int64_t core_bytes;   // Memory of a core; 0: no limit.
  // Planned faults: ",fault=...,fault=..."; NULL or "": none.
  const char *faults;
  // The runtime's devices, whose hosts and coordinates count from 0; lent.
  // NULL: the cores fill the mesh.
  const ls_device_location *devices;
  int32_t num_devices;
} ls_pod_shape;

// Reads the sizes and options of a virtual pod from the part of `name` after
// "virtual:", such as "4x4x2,cores=2,hosts=4". out->faults points into `text`.
//   LS_INVALID_ARGUMENT  names the text, the part and what is accepted
LS_MUST_USE ls_status ls_pod_shape_parse(const char *name, const char *text,
                                         ls_pod_shape *out_shape);

// Returns the pod of this name and job; makes one if there is none. The caller
// releases it.
//   LS_INVALID_ARGUMENT     more than LS_MAX_POD_CORES cores, or a number of
//                           hosts that does not divide them
//   LS_FAILED_PRECONDITION  the existing pod has another shape
LS_MUST_USE ls_status ls_pod_open(ls_runtime *runtime, const char *name,
                                  const char *job, const ls_pod_shape *shape,
                                  ls_pod **out_pod);
// Returns the pod of this name and job, NULL if there is none. The caller
// releases it.
ls_pod *ls_pod_find(ls_runtime *runtime, const char *name, const char *job);
ls_pod *ls_pod_of_id(ls_runtime *runtime, const ls_system_id *id);
// Returns the pod on which the devices of a job are: the initialized pod (a job
// has at most one), else the pod made last; NULL if there is none. The caller
// releases it.
ls_pod *ls_pod_of_job(ls_runtime *runtime, const char *job);
// Returns NOT_FOUND for `what`, which names a job without a TPU system, and
// names a system of another job, if there is one.
ls_status ls_pod_refuse_job(ls_runtime *runtime, const char *what,
                            const char *job);
// Finds the only initialized pod of a job (NULL: of any), or else the only pod;
// NULL if there is none. `*out_other` is another such pod, if there is one. The
// caller releases both.
void ls_pod_only(ls_runtime *runtime, const char *job, ls_pod **out_pod,
                 ls_pod **out_other);
// Finds the local pod if it has this topology; otherwise the only pod with it,
// as ls_pod_only does.
void ls_pod_of_topology(ls_runtime *runtime, const ls_topology *topology,
                        ls_pod **out_pod, ls_pod **out_other);
// Takes a pod out of the table for good: devices no longer name it.
void ls_pod_shut_down(ls_pod *pod);

// The pod on which a system's computations run now, and a number by which a
// later call sees if the pod is still the same. The local system can run
// computations without being initialized, until it is shut down. A system
// outside this process has no pod.
typedef struct ls_pod_of_now {
  ls_pod *pod;          // NULL if the system has none. The caller releases it.
  uint64_t generation;  // Generation of the pod, else of the table of systems.
} ls_pod_of_now;
// Finds the pod of a system; `id` NULL means the local system.
//   LS_FAILED_PRECONDITION  the system is not initialized: names it
LS_MUST_USE ls_status ls_pod_ready(ls_runtime *runtime, const ls_system_id *id,
                                   ls_pod_of_now *out_now);

// ---- One pod ---------------------------------------------------------------
// Begins a new generation: programs compiled for the previous one no longer
// run, and queues are empty and open again.
void ls_pod_initialize(ls_pod *pod);
// Empties and reopens the queues without a new generation; calls that wait for
// them fail.
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
// Returns a core by host and ordinal; NULL if there is none.
static inline ls_core *ls_pod_core(ls_pod *pod, int64_t host, int64_t ordinal) {
  if (host < 0 || host >= pod->num_hosts || ordinal < 0 ||
      ordinal >= pod->cores_per_host)
    return NULL;
  return &pod->cores[host * pod->cores_per_host + ordinal];
}
// Checks that the pod has the sizes that a computation was built for.
//   LS_FAILED_PRECONDITION  names both sizes
LS_MUST_USE ls_status ls_pod_check_sizes(const ls_pod *pod,
                                         const int64_t sizes[LS_POD_SIZES]);
// Finds the core that a device names, such as
// "/job:worker/task:1/device:TPU:3"; parts left out mean the local system, task
// 0 and index 0. The caller releases the core's pod.
//   LS_INVALID_ARGUMENT  not the name of a device
//   LS_NOT_FOUND         no TPU, no pod of that job, no such host or core:
//                        names what there is
LS_MUST_USE ls_status ls_pod_lookup_core(ls_runtime *runtime,
                                         const char *device,
                                         ls_core **out_core);
// Releases the pod of a core that ls_pod_lookup_core found; NULL is allowed.
void ls_core_release(ls_core *core);
LS_OWNED_POINTER(ls_core, ls_core_release)
// Returns true if a name is that of a core of an initialized pod, and gives the
// core's device.
bool ls_pod_has_core(ls_runtime *runtime, const char *name,
                     int32_t *out_device);
// Returns the core of a pod at the device's task and index; NULL if it has
// none.
ls_core *ls_pod_core_at(ls_pod *pod, const char *device);
// Writes the canonical name: "/job:worker/replica:0/task:1/device:TPU:3".
void ls_core_device(const ls_core *core, ls_device_name *out_name);

// ---- Log -------------------------------------------------------------------
// Writes a line of the layer "tpu" to the runtime's log.
LS_PRINTF(3, 4)
static inline void ls_tpu_log(ls_runtime *runtime, ls_log_level level,
                              const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  ls_log_v(runtime, level, "tpu", format, arguments);
  va_end(arguments);
}

// ---- State -----------------------------------------------------------------
// The runtime's tables of pods and initialized systems. The runtime's lock
// guards them.
typedef struct ls_tpu_state {
  ls_allocator *allocator;
  ls_pod **pods;  // In order of creation; the table holds references.
  size_t num_pods, pods_capacity;
  uint64_t generations;  // Number of initializations of all pods so far.
  uint64_t changes;      // Number of changes of both tables so far. Atomic.
  // The local system between its shutdown and its next initialization, else
  // NULL. Holds a reference.
  ls_system_id *gone;
  // The system that was initialized when no other was; kept after its shutdown
  // as long as others are initialized. NULL if none is initialized. Holds a
  // reference.
  ls_system_id *first;
  // Initialized systems, with or without pods. Each entry owns its texts and
  // its topology.
  ls_tpu_system *systems;
  size_t num_systems, systems_capacity;
} ls_tpu_state;

// Returns the state, NULL if none was made.
static inline ls_tpu_state *ls_tpu_state_find(const ls_runtime *runtime) {
  return ls_runtime_slot(runtime, LS_SLOT_TPU);
}
// Finds an initialized system; NULL if it is not in the table. Requires the
// runtime's lock.
ls_tpu_system *ls_tpu_state_system(const ls_tpu_state *state, const char *name,
                                   const char *job);
// Frees the contents of a table entry.
void ls_tpu_system_deinit(ls_allocator *allocator, ls_tpu_system *system);
static inline void ls_tpu_state_note_change(ls_tpu_state *state) {
  __atomic_fetch_add(&state->changes, 1, __ATOMIC_ACQ_REL);
}
// Returns the state, made on first use; NULL without memory. Requires the
// runtime's lock.
ls_tpu_state *ls_tpu_state_get(ls_runtime *runtime);

// ---- Launch ----------------------------------------------------------------
// Launches of replicated computations on the cores of a pod: they pass the
// fault points of compiling and of starting a run (launch.c).
extern const ls_launch_type ls_tpu_launches;

// ---- Fault points ----------------------------------------------------------
// Fault points ("doors") of a pod, and the faults planned for them; see
// lockstep/tpu_system.h.
//
// Thread-safe.

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
  bool closes;          // True if the infeed closes after this call.
  int64_t bytes;        // Available memory of the core; 0: no limit.
  // True if the host is slow, unresponsive, or about to end.
  bool lame, silent, tells;
} ls_pod_passing;

// Returns true if no fault is planned and no host is watched.
static inline bool ls_pod_is_undisturbed(const ls_pod *pod) {
  return __atomic_load_n(&pod->num_faults, __ATOMIC_ACQUIRE) == 0 &&
         __atomic_load_n(&pod->watched, __ATOMIC_RELAXED) == 0;
}
// Counts one pass of a core through a fault point, and finds the effect of its
// faults. The caller waits for the delay itself. With no fault planned the cost
// is one load.
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
// Passes the fault point for each listed core in parallel, and waits for the
// longest delay.
LS_MUST_USE ls_status ls_pod_pass_all(ls_pod *pod, const char *const *devices,
                                      int32_t count, ls_pod_door door);

// Restarts the planned faults when the system is initialized again: lost hosts
// are back and steps count from 0.
void ls_pod_restart_faults(ls_pod *pod);

// Sets the time of the last health check of all hosts to now.
void ls_pod_restart_watch(ls_pod *pod);

// Parses a fault such as "preempt@host1:step40", the part after "fault=".
// Returns NULL or, as static text, the error.
const char *ls_pod_fault_parse(const char *text, size_t size,
                               ls_pod_fault *out_fault);

#endif  // LS_TPU_POD_POD_H_
