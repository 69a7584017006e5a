// SPDX-License-Identifier: Apache-2.0
// Debug switches: the rows of debug.def, read once per runtime.
//
// A malformed switch is logged as a warning and ignored.
#ifndef LS_BASE_DEBUG_H_
#define LS_BASE_DEBUG_H_

#include <stdint.h>

#include "lockstep/runtime.h"

// Parts of the library that LS_DEBUG makes print debug output.
typedef enum ls_debug_area {
#define LS_DEBUG_AREA_ROW(id, name, help) LS_DEBUG_##id,
#include "base/debug.def"
#undef LS_DEBUG_AREA_ROW
  LS_DEBUG_AREA_COUNT,
} ls_debug_area;

typedef enum ls_isa {
  LS_ISA_ANY,   // The best level the machine has.
  LS_ISA_BASE,  // The level every machine of this kind has.
  LS_ISA_V3,    // x86-64-v3: AVX2 and FMA.
  LS_ISA_V4,    // x86-64-v4: AVX-512.
} ls_isa;

// Ways in which the CPU engine runs several replicas.
typedef enum ls_lanes_by {
  LS_LANES_TOGETHER,    // Batched where possible; elsewhere chosen by cost.
  LS_LANES_BY_COST,     // One by one, the cheaper of the two below.
  LS_LANES_BY_THREADS,  // Each thread runs some replicas.
  LS_LANES_BY_BLOCKS,   // Threads share each instruction's blocks.
} ls_lanes_by;

// The debug switches of one runtime. Zeroed: all at their defaults.
typedef struct ls_debug {
  int level[LS_DEBUG_AREA_COUNT];  // 0 (silent) to 9.
  char *dump_directory;            // NULL: no dumps.
  uint64_t dumps;                  // Number of dumps so far. Atomic.
  bool verify;
  uint64_t fault_at;  // The memory request to fail; 0: none.
  int threads;        // 0: not given.
  ls_isa isa;
  ls_lanes_by lanes;
  bool uncut;
  ls_opt log_levels;  // Levels that standard error gets, from ERROR on.
} ls_debug;

// Reads the switches through environment(user, name). Calls `complain` with a
// line for each malformed switch.
//   LS_RESOURCE_EXHAUSTED  no memory.
LS_MUST_USE ls_status ls_debug_init(
    ls_debug *debug, ls_allocator *allocator,
    const char *(*environment)(void *user, const char *name), void *user,
    void (*complain)(void *to, const char *line), void *to);
void ls_debug_deinit(ls_debug *debug, ls_allocator *allocator);

// Getters of a runtime's switches; debug.def explains each.
int ls_debug_level(const ls_runtime *runtime, ls_debug_area area);
bool ls_debug_verify(const ls_runtime *runtime);
ls_isa ls_debug_isa(const ls_runtime *runtime);
ls_lanes_by ls_debug_lanes(const ls_runtime *runtime);
// Returns how many levels of the log standard error gets if no sink is set: 0
// none, 4 all.
int ls_debug_log_levels(const ls_runtime *runtime);
// Returns true if replicas' bodies are cut.
bool ls_debug_cut(const ls_runtime *runtime);
// Returns the folder for dumps, valid as long as the runtime; NULL: no dumps.
const char *ls_debug_dump_directory(const ls_runtime *runtime);
// Returns the number of the next dump, counted from 1.
uint64_t ls_debug_count_dump(ls_runtime *runtime);

#endif  // LS_BASE_DEBUG_H_
