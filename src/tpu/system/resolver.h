// SPDX-License-Identifier: Apache-2.0
// Resolvers, as this layer sees them.
#ifndef LS_TPU_SYSTEM_RESOLVER_H_
#define LS_TPU_SYSTEM_RESOLVER_H_

#include "base/memory/arena.h"
#include "lockstep/tpu_system.h"
#include "tpu/pod/pod.h"

// Kinds of systems by their names.
typedef enum ls_tpu_kind {
  LS_TPU_LOCAL,
  LS_TPU_VIRTUAL,
  LS_TPU_ADDRESSES,
  LS_TPU_NAMED,  // Looked up.
} ls_tpu_kind;

// The texts are in the arena; NULL: not given.
struct ls_tpu_resolver {
  ls_object object;
  ls_runtime *runtime;
  ls_arena arena;
  ls_tpu_resolver_options options;  // With defaults.
  const char *name;                 // "" without one.
  const char *zone, *project, *job, *coordinator, *coordinator_address;
  ls_tpu_kind kind;
  ls_pod_shape shape;  // Of a local or virtual system.
  ls_system_id *id;    // By which its pod is found.

  ls_mutex lock;  // Guards the arena from here on, and what follows.
  const char *task_type;
  int32_t task_id;
  ls_topology *topology;  // NULL: not initialized through it.
};

static inline bool ls_tpu_is_pod(const ls_tpu_resolver *resolver) {
  return resolver->kind <= LS_TPU_VIRTUAL;
}
// By which its pod is found: "local" or the name, and "" or the job.
static inline const char *ls_tpu_pod_name(const ls_tpu_resolver *resolver) {
  return resolver->kind == LS_TPU_LOCAL ? "local" : resolver->name;
}
static inline const char *ls_tpu_pod_job(const ls_tpu_resolver *resolver) {
  return resolver->kind == LS_TPU_LOCAL ? "" : resolver->job;
}

// Splits addresses, "grpc://a:1,b", into an item a task, with prefixes taken
// off and ports added.
//   LS_INVALID_ARGUMENT  an address that is empty, or no port.
LS_MUST_USE ls_status ls_tpu_split_addresses(ls_arena *arena, const char *name,
                                             const char *const **out_addresses,
                                             size_t *out_count);

// Finds out by lookup of a name if its system is gone for good, and its state
// then, static text. Others are there.
LS_MUST_USE ls_status ls_tpu_resolver_is_lost(const ls_tpu_resolver *resolver,
                                              bool *out_lost,
                                              const char **out_state);

// A system's answer, in an arena of the caller's.
typedef struct ls_tpu_devices {
  ls_device_name *names;  // Canonical, sorted.
  size_t count;
  int32_t num_hosts, num_cores;
  int32_t per_host;       // -1: hosts differ.
  ls_topology *topology;  // The caller's; NULL: not asked for or not there.
} ls_tpu_devices;
// Asks the resolver's system, `retries` times again.
//   LS_DEADLINE_EXCEEDED  it never answered in time.
//   LS_UNIMPLEMENTED      addresses, and no query.
LS_MUST_USE ls_status ls_tpu_list_devices(const ls_tpu_resolver *resolver,
                                          const ls_tpu_question *question,
                                          int64_t retries, ls_arena *arena,
                                          ls_tpu_devices *out_devices);
// The names, for messages: cut short where there are many.
enum { LS_DEVICES_TEXT = 600 };
const char *ls_tpu_devices_text(const ls_tpu_devices *devices,
                                char text[LS_DEVICES_TEXT]);
// The devices of a pod, sorted; `names` has room for as many as it has.
size_t ls_pod_num_devices(const ls_pod *pod);
void ls_pod_devices(const ls_pod *pod, ls_device_name *names);

// UNIMPLEMENTED if the system stands behind addresses and there is no query.
LS_MUST_USE ls_status ls_tpu_check_reachable(const ls_tpu_resolver *resolver);
// The pod of a local or virtual system; the caller releases it.
LS_MUST_USE ls_status ls_tpu_open_pod(const ls_tpu_resolver *resolver,
                                      ls_pod **out_pod);

// ---- System ----------------------------------------------------------------
// Systems that are initialized, by name and job: the table of them.

// Initializes a pod and puts it into the table; `*out_again`: it was there.
LS_MUST_USE ls_status ls_pod_start(ls_pod *pod, bool *out_again);
// Takes a pod out of the table and out of the runtime; `*out_was`: it was in.
LS_MUST_USE ls_status ls_pod_stop(ls_pod *pod, bool *out_was);

#endif  // LS_TPU_SYSTEM_RESOLVER_H_
