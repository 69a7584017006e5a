// SPDX-License-Identifier: Apache-2.0
//
// Results: from a program's outputs to a nest of arrays, filled in place when
// the caller's nest can hold them.
//
// The structure is a nest whose tensor leaves are one value each and whose
// distributed leaves are one value a component; other leaves are passed on.
// Values that are one output of the program are one array, so that what is the
// same on all replicas is there once.
#ifndef LS_RUNTIME_RESULTS_H_
#define LS_RUNTIME_RESULTS_H_

#include "lockstep/distributed.h"
#include "runtime/program.h"

// Which outputs a structure's values are.
typedef struct ls_result_map {
  uint32_t *outputs;  // Of each value.
  size_t num_values, num_outputs;
  ls_type *types;  // Of each output ...
  int *uses;       // ... and how many values it is.
  bool lends;      // Some are strings or objects, which arrays own.
} ls_result_map;

// Room for the outputs of `num_values` values, to be filled by ls_lower. Deinit
// it also after a failure; zeroed is fine.
ls_status ls_result_map_init(ls_result_map *map, ls_allocator *allocator,
                             size_t num_values);
void ls_result_map_deinit(ls_result_map *map, ls_allocator *allocator);
// Learns the rest from what was compiled: programs whose outputs are numbered
// one after another.
ls_status ls_result_map_finish(ls_result_map *map, ls_allocator *allocator,
                               ls_compiled *const *compiled, size_t count);

// Makes `*results` a nest of arrays, one an output, reusing what is there if it
// fits and nobody else holds it. `outputs[i]` is where output i goes: data of
// its array, NULL if no value is it. `leaves` is scratch with room for as many
// leaves as the structure has, twice. What was there is in `*out_former`, for
// ls_results_close, which must follow unless this fails.
typedef struct ls_former_results {
  ls_nest nest;
  bool replaced;
  bool lends;  // As in the map.
} ls_former_results;
ls_status ls_results_open(ls_nest structure, const ls_result_map *map,
                          ls_nest *leaves, ls_nest *results, void **outputs,
                          ls_former_results *out_former);

// After the run, which ended with `status`: drops what was replaced, or puts it
// back if the run has failed. Returns `status`.
ls_status ls_results_close(ls_former_results former, ls_status status,
                           ls_nest *results);

#endif  // LS_RUNTIME_RESULTS_H_
