// SPDX-License-Identifier: Apache-2.0
// The identity of a TPU system: its name and its job. Topologies, strategies,
// computations and feed ops keep an identity and find their pod by it. After a
// shutdown they find the next pod of the same name, never another system's.
// Reference-counted and immutable.
#ifndef LS_TPU_POD_SYSTEM_ID_H_
#define LS_TPU_POD_SYSTEM_ID_H_

#include <string.h>

#include "base/device_parts.h"
#include "base/memory/own.h"
#include "graph/flow.h"
#include "lockstep/object.h"
#include "lockstep/topology.h"
#include "lockstep/tpu_system.h"

struct ls_pod;

typedef struct ls_system_id {
  ls_object object;
  ls_allocator *allocator;
  const char *name;  // For example "virtual:2x2" or "local".
  const char *job;   // The job's name; "": the local system.
  char text[];       // Holds name and job.
} ls_system_id;
LS_OWNED_POINTER(ls_system_id, ls_object_release)

LS_MUST_USE ls_status ls_system_id_create(ls_allocator *allocator,
                                          const char *name, const char *job,
                                          ls_system_id **out_id);

// Compares two identities; NULL equals NULL only.
static inline bool ls_system_id_equal(const ls_system_id *a,
                                      const ls_system_id *b) {
  return a == b || (a != NULL && b != NULL && strcmp(a->name, b->name) == 0 &&
                    strcmp(a->job, b->job) == 0);
}

// Returns a job for messages: "localhost" for the local system.
static inline const char *ls_job_text(const char *job) {
  return job[0] != '\0' ? job : "localhost";
}

// ---- Current system --------------------------------------------------------
// A flow that names a system: a scope of a system, or a replicated computation,
// whose context (tpu/replicate/replicate.h) begins with an ls_system_flow. A
// flow lives as long as its scope is open.
typedef struct ls_system_flow {
  ls_flow flow;
  ls_system_id *id;  // Borrowed; NULL: not known.
  // The assignment of a computation's replicas, borrowed; NULL: replicas take
  // cores in order.
  const ls_device_assignment *assignment;
} ls_system_flow;
// Returns the innermost enclosing computation, NULL if there is none.
ls_system_flow *ls_computation_around(void);

// The cores of a TPU strategy, for layers below strategies.
typedef struct ls_strategy_cores {
  ls_system_id *system;              // Borrowed.
  ls_device_assignment *assignment;  // NULL: one replica on each core.
  // The assignment for computations, which is always set; NULL if the system is
  // outside this process.
  ls_device_assignment *all_cores;
  char job[LS_MAX_DEVICE_PART];
} ls_strategy_cores;

// Makes `id` the system of computations and feeds built until ls_scope_end,
// unless they name another one. Requires a graph that is being built.
void ls_system_scope_begin(ls_scope *scope, ls_system_flow *flow,
                           ls_system_id *id);

// Returns the system named by the enclosing computation, system scope or
// strategy, borrowed; NULL if none is.
ls_system_id *ls_system_around(void);
// Returns the system for what is being made: that of the enclosing computation,
// scope or strategy, if its job is the one that a device names (NULL or "":
// any). Otherwise the system of that job; without a job the local system, even
// after its shutdown, or the only one. NULL if there is none. The caller
// releases it.
//   LS_FAILED_PRECONDITION  there are several systems, or the first one was
//   shut
//                           down, and nothing names one: the message names two
LS_MUST_USE ls_status ls_system_here(ls_runtime *runtime, const char *noun,
                                     const char *job, ls_system_id **out_id);
// Returns the pod of a job: the initialized one, or else the only connected
// one; NULL if there is none. The caller releases it.
//   LS_FAILED_PRECONDITION  none is initialized, and several are connected
LS_MUST_USE ls_status ls_system_of_job(ls_runtime *runtime, const char *noun,
                                       const char *job,
                                       struct ls_pod **out_pod);

#endif  // LS_TPU_POD_SYSTEM_ID_H_
