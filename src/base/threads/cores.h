// SPDX-License-Identifier: Apache-2.0
// Cores: which real cores this process may use (the only place that asks).
#ifndef LS_BASE_THREADS_CORES_H_
#define LS_BASE_THREADS_CORES_H_

#include "base/memory/allocator.h"

typedef struct ls_cores ls_cores;

// Looks at the machine. Never fails for the machine's sake: what cannot be
// found out counts as one core.
LS_MUST_USE ls_status ls_cores_create(ls_allocator *allocator,
                                      ls_cores **out_cores);
void ls_cores_destroy(ls_cores *cores);  // NULL is fine.

// Lists the cores again: bindings may have changed. False without memory.
bool ls_cores_look_again(ls_cores *cores);

// Cores that the process may run on, at least 1. Two hardware threads of one
// core count once.
int ls_cores_count(const ls_cores *cores);
// Binds the calling thread to core `index`, where 0 is the one that whoever
// listed them ran on. False where that is not allowed or there is no such core:
// then nothing has changed.
bool ls_cores_bind(const ls_cores *cores, int index);

// Reads the first `most` numbers of a list such as "0-3,64" in /sys, up to
// where it is no list. Returns how many.
int ls_parse_processors(const char *list, int *out, int most);

#endif  // LS_BASE_THREADS_CORES_H_
