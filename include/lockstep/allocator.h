// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Memory allocators. Everything created under a runtime takes its memory from
// the runtime's allocator, so that a program can count it and a test can make
// the n-th request fail.
//
// Threads: any thread may call an allocator's functions at any time.
#ifndef LOCKSTEP_ALLOCATOR_H_
#define LOCKSTEP_ALLOCATOR_H_

#include <stdint.h>

#include "lockstep/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// A thread-safe source of memory. `allocate` returns `size` bytes (at least
// one) of undefined content, aligned to `alignment` (a power of two), or NULL.
// `release` accepts NULL. `self` is the allocator itself, so that a struct that
// starts with an allocator can carry state.
typedef struct ls_allocator ls_allocator;
struct ls_allocator {
  void *(*allocate)(ls_allocator *self, size_t size, size_t alignment);
  void (*release)(ls_allocator *self, void *memory);
};

// Returns the system's malloc as an allocator. It is never destroyed.
LS_API ls_allocator *ls_allocator_system(void);

// An allocator that counts the requests it passes on and can fail on demand.
typedef struct ls_counting_allocator ls_counting_allocator;

// Totals of a counting allocator.
typedef struct ls_allocator_counts {
  uint64_t allocations;  // Requests so far, failed ones included.
  uint64_t live_blocks;  // Allocated and not yet released.
  uint64_t live_bytes;
  uint64_t peak_bytes;
} ls_allocator_counts;

// Creates a counting allocator over `base` (NULL: the system's).
LS_API LS_MUST_USE ls_status ls_counting_allocator_create(
    ls_allocator *base, ls_counting_allocator **out_allocator);
// Destroys the counting allocator. All memory from it must have been released.
LS_API void ls_counting_allocator_destroy(ls_counting_allocator *allocator);
// Returns the allocator to pass to a runtime, valid until the counting
// allocator is destroyed.
LS_API ls_allocator *
ls_counting_allocator_allocator(ls_counting_allocator *allocator);
LS_API ls_allocator_counts
ls_counting_allocator_counts(const ls_counting_allocator *allocator);
// Makes the `nth` request from now on (1 is the next one) fail, once. 0: none.
LS_API void ls_counting_allocator_fail_at(ls_counting_allocator *allocator,
                                          uint64_t nth);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ALLOCATOR_H_
