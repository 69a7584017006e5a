// SPDX-License-Identifier: Apache-2.0
// Debug switches: what debug.def lists, read once per runtime.
//
// A switch that cannot be read is reported in the log as a warning and counts
// as not given.
#ifndef LS_BASE_DEBUG_H_
#define LS_BASE_DEBUG_H_

#include <stdint.h>

#include "lockstep/runtime.h"

// Parts of the library that LS_DEBUG can make talk.
typedef enum ls_debug_area {
#define LS_DEBUG_AREA_ROW(id, name, help) LS_DEBUG_##id,
#include "base/debug.def"
#undef LS_DEBUG_AREA_ROW
  LS_DEBUG_AREA_COUNT,
} ls_debug_area;

typedef enum ls_isa {
  LS_ISA_ANY,   // The best that the machine has.
  LS_ISA_BASE,  // The level that the compiler assumes of every machine.
  LS_ISA_V3,    // x86-64-v3: AVX2 and FMA.
  LS_ISA_V4,    // x86-64-v4: AVX-512.
} ls_isa;

// How the CPU engine runs several replicas.
typedef enum ls_lanes_by {
  LS_LANES_TOGETHER,    // Side by side where they can, else by cost.
  LS_LANES_BY_COST,     // One by one, as costs less of these:
  LS_LANES_BY_THREADS,  // Replicas: each thread takes some.
  LS_LANES_BY_BLOCKS,   // The blocks of each instruction.
} ls_lanes_by;

// The switches of one runtime. Zeroed: none given.
typedef struct ls_debug {
  int level[LS_DEBUG_AREA_COUNT];  // 0: silent, to 9.
  char *dump_directory;            // NULL: no dumps.
  uint64_t dumps;                  // So far. Atomic.
  bool verify;
  uint64_t fault_at;  // The memory request to fail; 0: none.
  int threads;        // 0: not given.
  ls_isa isa;
  ls_lanes_by lanes;
  bool uncut;
  ls_opt log_levels;  // How many levels standard error gets, from ERROR on.
} ls_debug;

// Reads the switches through environment(user, name). `complain` is called
// with a line for each that cannot be read.
//   LS_RESOURCE_EXHAUSTED  no memory.
LS_MUST_USE ls_status ls_debug_init(
    ls_debug *debug, ls_allocator *allocator,
    const char *(*environment)(void *user, const char *name), void *user,
    void (*complain)(void *to, const char *line), void *to);
void ls_debug_deinit(ls_debug *debug, ls_allocator *allocator);

// The switches of a runtime; see debug.def.
int ls_debug_level(const ls_runtime *runtime, ls_debug_area area);
bool ls_debug_verify(const ls_runtime *runtime);
ls_isa ls_debug_isa(const ls_runtime *runtime);
ls_lanes_by ls_debug_lanes(const ls_runtime *runtime);
// How many levels of the log standard error gets without a sink: 0 none, 4 all.
int ls_debug_log_levels(const ls_runtime *runtime);
// Replicas' bodies are cut.
bool ls_debug_cut(const ls_runtime *runtime);
// NULL: no dumps. Valid as long as the runtime.
const char *ls_debug_dump_directory(const ls_runtime *runtime);
// The number of the next dump, from 1 on.
uint64_t ls_debug_count_dump(ls_runtime *runtime);

#endif  // LS_BASE_DEBUG_H_
