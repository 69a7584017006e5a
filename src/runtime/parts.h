// SPDX-License-Identifier: Apache-2.0
//
// Parts of a session run that can do without each other.
//
// What waits for something that another run does, or another part of this one
// (LS_HOST_WAITS), must not keep that from happening: a program is one stream.
// So a run that waits in several places is of several programs, driven side by
// side. Together stays what hangs together: by values and control of what has
// effects, by a variable that some of it writes, by the state of a host kernel
// that does not wait, by the order that host kernels ask for. What has no
// effect, nor needs one, belongs to whoever uses it, and to each of them.
#ifndef LS_RUNTIME_PARTS_H_
#define LS_RUNTIME_PARTS_H_

#include "lower/lower.h"

typedef struct ls_program_parts {
  size_t count;       // At least 1.
  uint32_t *fetches;  // The part of each fetch ...
  uint32_t *targets;  // ... and target.
} ls_program_parts;

// Finds the parts of a request; in the arena, which also has what is needed
// meanwhile.
LS_MUST_USE ls_status ls_find_parts(const ls_lower_request *request,
                                    ls_arena *memory,
                                    ls_program_parts *out_parts);

#endif  // LS_RUNTIME_PARTS_H_
