// SPDX-License-Identifier: Apache-2.0
// The identity of a TPU system: its name and its job. It travels with what is
// made for the system (topologies, strategies, computations, ops of infeed and
// outfeed), which by it finds the pod of now: after a shutdown the one that the
// same name stands for again, and never another system's.
//
// Counted and immutable.
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
  const char *name;  // "virtual:2x2", "local".
  const char *job;   // "": the local system.
  char text[];       // Both.
} ls_system_id;
LS_OWNED_POINTER(ls_system_id, ls_object_release)

LS_MUST_USE ls_status ls_system_id_create(ls_allocator *allocator,
                                          const char *name, const char *job,
                                          ls_system_id **out_id);

// NULL is equal to NULL alone.
static inline bool ls_system_id_equal(const ls_system_id *a,
                                      const ls_system_id *b) {
  return a == b || (a != NULL && b != NULL && strcmp(a->name, b->name) == 0 &&
                    strcmp(a->job, b->job) == 0);
}

// A job for messages: the local system's is "localhost".
static inline const char *ls_job_text(const char *job) {
  return job[0] != '\0' ? job : "localhost";
}

// ---- Which system is meant -------------------------------------------------
// A flow that says it: a scope of a system, or a replicated computation, whose
// context (tpu/replicate/context.h) begins with one. Lives as long as a scope
// of it is open.
typedef struct ls_system_flow {
  ls_flow flow;
  ls_system_id *id;  // Lent. NULL: not known.
  // The assignment of a computation's replicas, lent; NULL: their cores follow
  // each other.
  const ls_device_assignment *assignment;
} ls_system_flow;
// The innermost computation here or around; NULL: none.
ls_system_flow *ls_computation_around(void);

// The cores of a TPU strategy, as what lies below strategies sees them.
typedef struct ls_strategy_cores {
  ls_system_id *system;              // Lent.
  ls_device_assignment *assignment;  // NULL: one replica on each core.
  // The same as one, for computations; NULL: the system is not of this process.
  ls_device_assignment *all_cores;
  char job[LS_MAX_DEVICE_PART];
} ls_strategy_cores;

// Computations and feeds that are made until ls_scope_end are of this system,
// unless they name another one. In a graph that is being built.
void ls_system_scope_begin(ls_scope *scope, ls_system_flow *flow,
                           ls_system_id *id);

// The one that is said around what is made now: by a computation, such a scope
// or a strategy. NULL: none is. Lent.
ls_system_id *ls_system_around(void);
// The system that what is made now means: that of the computation around it, of
// the scope or of the strategy's; of these, the one that has the job which a
// device names (NULL or "": it names none). Else the system of that job;
// without one the local system, also when it was shut down, or the only one.
// NULL: there is none. The caller releases it.
//   LS_FAILED_PRECONDITION  there are several, or the first one was shut down,
//                           and nothing says which: names two of them.
LS_MUST_USE ls_status ls_system_here(ls_runtime *runtime, const char *noun,
                                     const char *job, ls_system_id **out_id);
// The pod of a job: the one that is initialized, or without one the only one
// that is connected; NULL: there is none. The caller releases it.
//   LS_FAILED_PRECONDITION  none is initialized, and several are connected.
LS_MUST_USE ls_status ls_system_of_job(ls_runtime *runtime, const char *noun,
                                       const char *job,
                                       struct ls_pod **out_pod);

#endif  // LS_TPU_POD_SYSTEM_ID_H_
