// SPDX-License-Identifier: Apache-2.0
// A runtime whose memory is counted.
#ifndef LS_TESTS_SUPPORT_COUNTED_H_
#define LS_TESTS_SUPPORT_COUNTED_H_

#include "base/memory/own.h"
#include "lockstep/allocator.h"
#include "lockstep/runtime.h"

typedef struct counted {
  ls_counting_allocator *memory;
  ls_runtime *runtime;
  ls_runtime *outside;  // Was current before.
} counted;

// Makes it, with so many threads (0: the default), and makes it current.
counted counted_begin(int threads);
// The same with other options, but for the allocator.
counted counted_begin_with(ls_runtime_options options);
// Destroys it: all memory has come back.
void counted_end(counted *self);
LS_OWNED_STRUCT(counted, counted_end)
// What it has taken so far.
ls_allocator_counts counted_now(const counted *self);

#endif  // LS_TESTS_SUPPORT_COUNTED_H_
