// SPDX-License-Identifier: Apache-2.0
// Cores: the real cores that this process may use.
#ifndef LS_BASE_THREADS_CORES_H_
#define LS_BASE_THREADS_CORES_H_

#include "base/memory/allocator.h"

typedef struct ls_cores ls_cores;

// Lists the machine's cores. Fails only without memory: without information
// about the machine, reports one core.
LS_MUST_USE ls_status ls_cores_create(ls_allocator *allocator,
                                      ls_cores **out_cores);
void ls_cores_destroy(ls_cores *cores);  // NULL is fine.

// Lists the cores again, since bindings may have changed. Returns false without
// memory.
bool ls_cores_look_again(ls_cores *cores);

// Returns the number of cores that the process may run on, at least 1. Hardware
// threads of a core count once.
int ls_cores_count(const ls_cores *cores);
// Binds the calling thread to core `index`; 0 is the core on which
// ls_cores_create ran. Returns false and changes nothing if the binding is
// refused or there is no such core.
bool ls_cores_bind(const ls_cores *cores, int index);

// Reads up to `most` numbers of a list such as "0-3,64" in /sys and stops at
// the first malformed character. Returns their number.
int ls_parse_processors(const char *list, int *out, int most);

#endif  // LS_BASE_THREADS_CORES_H_
