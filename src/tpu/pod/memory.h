// SPDX-License-Identifier: Apache-2.0
// What memory of a core a program takes, had the core some of its own: the
// variables that it uses, its constants, and a part of what it works with.
#ifndef LS_TPU_POD_MEMORY_H_
#define LS_TPU_POD_MEMORY_H_

#include "engine/backend.h"
#include "tpu/pod/pod.h"

typedef struct ls_core_memory {
  const ls_program *program;
  const ls_plan_facts *facts;
  int32_t replicas, cores_per_replica;
} ls_core_memory;

// How many bytes it takes of each core.
int64_t ls_core_memory_bytes(const ls_core_memory *memory);
//   LS_RESOURCE_EXHAUSTED  more than the core has: names both, and the largest
//                          values.
LS_MUST_USE ls_status ls_core_memory_check(const ls_core *core, int64_t limit,
                                           const ls_core_memory *memory);

#endif  // LS_TPU_POD_MEMORY_H_
