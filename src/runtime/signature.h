// SPDX-License-Identifier: Apache-2.0
//
// Keys of traces: the structure of the arguments and what each leaf is.
#ifndef LS_RUNTIME_SIGNATURE_H_
#define LS_RUNTIME_SIGNATURE_H_

#include "base/memory/own.h"
#include "lockstep/distributed.h"
#include "lockstep/graph.h"
#include "runtime/program.h"

// One leaf. Arrays and eager tensors count by type, host scalars by value, the
// rest by identity.
typedef struct ls_leaf_key {
  ls_kind kind;
  ls_type type;
  uint64_t bits;
  uint32_t slots;  // Values it brings: 1, a component each, or none.
} ls_leaf_key;

typedef struct ls_signature {
  ls_allocator *allocator;
  ls_nest structure;  // Leaves are none.
  ls_leaf_key *keys;  // One a leaf, in the order of flattening.
  size_t num_leaves;
  ls_type *types;  // One a slot.
  size_t num_slots;
} ls_signature;

// Makes that of arguments. INVALID_ARGUMENT naming a leaf that cannot be an
// argument.
ls_status ls_signature_init(ls_signature *signature, ls_allocator *allocator,
                            ls_nest args);
void ls_signature_deinit(ls_signature *signature);  // Zeroed is fine.
LS_OWNED_STRUCT(ls_signature, ls_signature_deinit)

// Returns true if these arguments have it. `leaves` is scratch with room for
// `num_leaves`; it holds the flattened arguments afterwards. Allocates nothing
// when they do.
bool ls_signature_matches(const ls_signature *signature, ls_nest args,
                          ls_nest *leaves);

// The arrays behind the slots, lent, in order. Only after a match.
//   (a failed eager tensor's own status)
ls_status ls_signature_arrays(const ls_signature *signature,
                              const ls_nest *leaves, const void **data);

// ---- Values -----------------------------------------------------------------
// The arguments of a call with that signature as declared parameters of a
// function's graph; distributed ones are distributed parameters.
ls_nest ls_trace_parameters(ls_graph *graph, const ls_signature *signature,
                            ls_nest args);
// The arguments with their arrays as constants of the current graph.
ls_nest ls_trace_constants(ls_nest args);
// Makes the tensors of a nest the results of a function's graph, in the order
// of flattening; of a distributed one its components.
ls_status ls_trace_set_results(ls_graph *graph, ls_nest results);

// ---- results.c --------------------------------------------------------------
// Results: from a program's outputs to a nest of arrays, filled in place when
// the caller's nest can hold them.
//
// The structure is a nest whose tensor leaves are one value each and whose
// distributed leaves are one value a component; other leaves are passed on.
// Values that are one output of the program are one array, so that what is the
// same on all replicas is there once.

// Maps a structure's values to outputs.
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

#endif  // LS_RUNTIME_SIGNATURE_H_
