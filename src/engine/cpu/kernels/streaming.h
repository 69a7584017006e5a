// SPDX-License-Identifier: Apache-2.0
//
// Results that no cache keeps until somebody reads them.
//
// A store to a line that is in no cache reads the line from memory first, so
// that a result in memory costs two transfers. A store past the caches costs
// one, but whoever reads the result next finds it in memory only. So a kernel
// whose operands are far computes tiles in its scratch, which stays in the
// first cache, and streams them to where they belong
// (ls_cpu_kernels.stream); unless it works in place, where the lines were read
// anyway.
#ifndef LS_ENGINE_CPU_KERNELS_STREAMING_H_
#define LS_ENGINE_CPU_KERNELS_STREAMING_H_

#include "engine/cpu/kernels.h"

// Bytes that the last cache of few machines holds; and of a tile.
enum { LS_FAR_BYTES = 32 << 20, LS_FAR_TILE = 1024 };

// Whether `bytes`, all that a kernel reads and writes, are so many that the
// beginning of its result has left the caches at its end.
static inline bool ls_cpu_is_streamed(size_t bytes) {
  return bytes > LS_FAR_BYTES;
}

// Whether such a kernel gains by streaming.
static inline bool ls_cpu_streams(const ls_cpu_kernels *kernels, size_t bytes) {
  return kernels->stream != NULL && ls_cpu_is_streamed(bytes);
}

#endif  // LS_ENGINE_CPU_KERNELS_STREAMING_H_
