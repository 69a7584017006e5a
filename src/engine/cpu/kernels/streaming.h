// SPDX-License-Identifier: Apache-2.0
//
// Streaming stores: for results that leave the caches before anything reads
// them.
//
// A store to a line that is in no cache reads the line from memory first, so a
// result in memory costs two transfers. A store past the caches costs one, but
// the next reader finds the result in memory only. So a kernel with operands
// larger than the caches computes tiles in its scratch, which stays in the
// first cache, and streams them to the result (ls_cpu_kernels.stream), unless
// it works in place, where the lines were read anyway.
#ifndef LS_ENGINE_CPU_KERNELS_STREAMING_H_
#define LS_ENGINE_CPU_KERNELS_STREAMING_H_

#include "engine/cpu/kernels.h"

// Bytes that exceed the last cache of most machines; and bytes of a tile.
enum { LS_STREAM_BYTES = 32 << 20, LS_STREAM_TILE = 1024 };

// Returns true if `bytes`, read and written by a kernel, are so many that the
// beginning of its result has left the caches when it ends.
static inline bool ls_cpu_is_streamed(size_t bytes) {
  return bytes > LS_STREAM_BYTES;
}

// Returns true if such a kernel gains from streaming stores.
static inline bool ls_cpu_streams(const ls_cpu_kernels *kernels, size_t bytes) {
  return kernels->stream != NULL && ls_cpu_is_streamed(bytes);
}

#endif  // LS_ENGINE_CPU_KERNELS_STREAMING_H_
