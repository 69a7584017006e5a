// SPDX-License-Identifier: Apache-2.0
// Resolvers, private part.
#ifndef LS_TPU_SYSTEM_RESOLVER_H_
#define LS_TPU_SYSTEM_RESOLVER_H_

#include "base/memory/arena.h"
#include "lockstep/tpu_system.h"
#include "tpu/pod/pod.h"

// Kinds of systems, told apart by name.
typedef enum ls_tpu_kind {
  LS_TPU_LOCAL,
  LS_TPU_VIRTUAL,
  LS_TPU_ADDRESSES,
  LS_TPU_NAMED,  // A cloud system, whose name is looked up.
} ls_tpu_kind;

// Texts are in the arena; NULL if not given.
struct ls_tpu_resolver {
  ls_object object;
  ls_runtime *runtime;
  ls_arena arena;
  ls_tpu_resolver_options options;  // Completed with defaults.
  const char *name;                 // "" if not given.
  const char *zone, *project, *job, *coordinator, *coordinator_address;
  ls_tpu_kind kind;
  ls_pod_shape shape;  // For a local or virtual system.
  bool of_devices;     // The local system has the shape of the devices.
  ls_system_id *id;    // Identity of its pod.

  ls_mutex lock;  // Guards the arena after creation, and the fields below.
  const char *task_type;
  int32_t task_id;
  // NULL if this resolver did not initialize the system.
  ls_topology *topology;
};

static inline bool ls_tpu_is_pod(const ls_tpu_resolver *resolver) {
  return resolver->kind <= LS_TPU_VIRTUAL;
}
// Returns the name of the resolver's pod: "local" or the resolver's name.
// ls_tpu_pod_job returns the pod's job, or "".
static inline const char *ls_tpu_pod_name(const ls_tpu_resolver *resolver) {
  return resolver->kind == LS_TPU_LOCAL ? "local" : resolver->name;
}
static inline const char *ls_tpu_pod_job(const ls_tpu_resolver *resolver) {
  return resolver->kind == LS_TPU_LOCAL ? "" : resolver->job;
}

// Splits addresses such as "grpc://a:1,b" into one per task, strips prefixes
// and adds ports.
//   LS_INVALID_ARGUMENT  an empty address, or a bad port
LS_MUST_USE ls_status ls_tpu_split_addresses(ls_arena *arena, const char *name,
                                             const char *const **out_addresses,
                                             size_t *out_count);

// Finds out, by looking up its name, if the resolver's system is gone for good;
// also returns the system's state as static text. Only systems of kind
// LS_TPU_NAMED can be gone.
LS_MUST_USE ls_status ls_tpu_resolver_is_lost(const ls_tpu_resolver *resolver,
                                              bool *out_lost,
                                              const char **out_state);

// A system's answer, in the caller's arena.
typedef struct ls_tpu_devices {
  ls_device_name *names;  // Canonical names, sorted.
  size_t count;
  int32_t num_hosts, num_cores;
  int32_t per_host;  // Cores of each host; -1: hosts differ.
  // The caller's topology; NULL if not requested or not available.
  ls_topology *topology;
} ls_tpu_devices;
// Queries the resolver's system; without an answer repeats the query up to
// `retries` times.
//   LS_DEADLINE_EXCEEDED  no answer came in time
//   LS_UNIMPLEMENTED      the system has addresses, and no query is set
LS_MUST_USE ls_status ls_tpu_list_devices(const ls_tpu_resolver *resolver,
                                          const ls_tpu_question *question,
                                          int64_t retries, ls_arena *arena,
                                          ls_tpu_devices *out_devices);
// Size of the text for messages in which the names are printed; a long list is
// cut.
enum { LS_DEVICES_TEXT = 600 };
const char *ls_tpu_devices_text(const ls_tpu_devices *devices,
                                char text[LS_DEVICES_TEXT]);
// Lists the devices of a pod, sorted; `names` has room for all.
size_t ls_pod_num_devices(const ls_pod *pod);
void ls_pod_devices(const ls_pod *pod, ls_device_name *names);

// Fails with LS_UNIMPLEMENTED if the system has addresses and no query is set.
LS_MUST_USE ls_status ls_tpu_check_reachable(const ls_tpu_resolver *resolver);
// Opens the pod of a local or virtual system; the caller releases it.
LS_MUST_USE ls_status ls_tpu_open_pod(const ls_tpu_resolver *resolver,
                                      ls_pod **out_pod);

// ---- System ----------------------------------------------------------------
// Initialized systems, in a table by name and job.

// Initializes a pod and adds its system to the table; `*out_again` is true if
// the table had it.
LS_MUST_USE ls_status ls_pod_start(ls_pod *pod, bool *out_again);
// Shuts a pod down and removes its system from the table; `*out_was` is true if
// the table had it.
LS_MUST_USE ls_status ls_pod_stop(ls_pod *pod, bool *out_was);

#endif  // LS_TPU_SYSTEM_RESOLVER_H_
