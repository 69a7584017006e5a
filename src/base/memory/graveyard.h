// SPDX-License-Identifier: Apache-2.0
// A graveyard: memory of things that plain handles point to, after they have
// gone. Who looks at a handle that is stale reads what was left there, which
// says that nothing is, and not memory that is another's.
//
// The newest LS_GRAVES of them lie there; what goes before them is given back.
//
// Thread-safe.
#ifndef LS_BASE_MEMORY_GRAVEYARD_H_
#define LS_BASE_MEMORY_GRAVEYARD_H_

enum { LS_GRAVES = 4096 };

// Takes over memory of the system's allocator. NULL is fine.
void ls_bury(void *memory);

#endif  // LS_BASE_MEMORY_GRAVEYARD_H_
