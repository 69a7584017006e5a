// SPDX-License-Identifier: Apache-2.0
//
// Signatures: keys of traces, made of the arguments' structure and a key per
// leaf.
#ifndef LS_RUNTIME_SIGNATURE_H_
#define LS_RUNTIME_SIGNATURE_H_

#include "base/memory/own.h"
#include "lockstep/graph.h"
#include "runtime/program.h"

// Key of one leaf: arrays and eager tensors count by type, host scalars by
// value, distributed values by their components' types and devices, all others
// by identity.
typedef struct ls_leaf_key {
  ls_kind kind;
  ls_type type;
  uint64_t bits;
  uint32_t slots;  // Number of values in the leaf: 1, one per component, or 0.
  ls_nest shell;   // A distributed leaf with empty components. Lent.
} ls_leaf_key;

typedef struct ls_signature {
  ls_allocator *allocator;
  ls_nest structure;  // The arguments' structure, with empty leaves and shells.
  ls_leaf_key *keys;  // One per leaf, in flattening order.
  size_t num_leaves;
  ls_type *types;  // One per slot.
  size_t num_slots;
  uint64_t hash;  // As ls_signature_hash returns it.
} ls_signature;

// Makes the signature of arguments. INVALID_ARGUMENT names a leaf that cannot
// be an argument.
ls_status ls_signature_init(ls_signature *signature, ls_allocator *allocator,
                            ls_nest args);
void ls_signature_deinit(ls_signature *signature);  // Accepts zeroed.
LS_OWNED_STRUCT(ls_signature, ls_signature_deinit)

// Returns a hash of leaves, equal for those of equal signatures.
uint64_t ls_signature_hash(const ls_nest *leaves, size_t num_leaves);
// Returns true if the arguments, flattened to `leaves`, have this signature.
// Allocates nothing if they match.
bool ls_signature_matches(const ls_signature *signature, ls_nest args,
                          const ls_nest *leaves);
// Returns the first leaf that differs if two signatures differ in the values of
// host scalars only, else -1.
int64_t ls_signature_other_scalar(const ls_signature *a, const ls_signature *b);

// Lists (lends) the arrays of the slots, in order. Only after a match.
//   (a failed eager tensor's own status)
ls_status ls_signature_arrays(const ls_signature *signature,
                              const ls_nest *leaves, const void **data);

// ---- Values ----------------------------------------------------------------
// Declares parameters of a function's graph for arguments of that signature;
// distributed leaves become distributed parameters.
ls_nest ls_trace_parameters(ls_graph *graph, const ls_signature *signature,
                            ls_nest args);
// Replaces arrays among the arguments by constants of the current graph.
ls_nest ls_trace_constants(ls_nest args);
// Returns true if a distributed leaf has components that are neither arrays nor
// tensors.
bool ls_trace_has_others(ls_nest args);
// Replaces such components by tensors of the current graph, or in eager by
// arrays: host scalars are i32 or f32, variables are read. A leaf whose
// components are all none becomes none.
ls_nest ls_trace_tensors(ls_nest args);
// Lists the refs of tensor leaves, also distributed ones. Returns their number;
// `refs` may be NULL.
size_t ls_trace_list_refs(const ls_nest *leaves, size_t num_leaves,
                          uint64_t *refs);
// Makes the tensors of a nest the results of a function's graph, in flattening
// order; of a distributed leaf its components.
ls_status ls_trace_set_results(ls_graph *graph, ls_nest results);

// ---- results.c -------------------------------------------------------------
// Results: a program's outputs as a nest of arrays, filled in place if the
// caller's nest can hold them.
//
// The structure is a nest whose tensor leaves are one value each and whose
// distributed leaves are one value per component; other leaves are copied.
// Values that are the same output of the program share one array, so that a
// result common to all replicas exists once.

// Maps a structure's values to outputs.
typedef struct ls_result_map {
  uint32_t *outputs;  // Output of each value.
  size_t num_values, num_outputs;
  ls_type *types;  // Type of each output,
  int *uses;       // and the number of its values.
  bool lends;      // Some outputs are strings or objects, lent by the run.
  bool is_late;    // Outputs arrive late: the run takes their arrays.
} ls_result_map;

// Makes room for the outputs of `num_values` values, which ls_lower fills in.
// Call deinit even after a failure; it accepts a zeroed map.
ls_status ls_result_map_init(ls_result_map *map, ls_allocator *allocator,
                             size_t num_values);
void ls_result_map_deinit(ls_result_map *map, ls_allocator *allocator);
// Completes the map from the compiled programs, whose outputs are numbered
// consecutively.
ls_status ls_result_map_finish(ls_result_map *map, ls_allocator *allocator,
                               ls_compiled *const *compiled, size_t count);

// Arrays that a run reads though their owners' counts do not show it: the
// argument that is lent to a call, as far as it is an object, and feeds.
// Everything in a nest is held by it.
typedef struct ls_result_inputs {
  const void *lent;
  const void *const *feeds;
  const ls_type *types;
  size_t num_feeds;
} ls_result_inputs;

// Makes `*results` a nest of arrays, one per output, and reuses the nest there
// if it fits, nobody else holds it and the run does not read its arrays. Sets
// the outputs and arrays of `args`, which are in `places`, with room for twice
// the outputs; NULL if no value uses the output. `leaves` is scratch with room
// for twice the structure's leaves. The old nest is in `*out_former`, for
// ls_results_close, which must follow unless this fails.
typedef struct ls_former_results {
  ls_nest nest;
  bool replaced;
} ls_former_results;
ls_status ls_results_open(ls_nest structure, const ls_result_map *map,
                          ls_result_inputs inputs, ls_nest *leaves,
                          ls_nest *results, void **places, ls_run_args *args,
                          ls_former_results *out_former);

// Completes results after the run, which ended with `status`: drops the old
// nest, or puts it back if the run failed. Returns `status`.
ls_status ls_results_close(ls_former_results former, ls_status status,
                           ls_nest *results);

bool ls_signature_same_type(ls_type a, ls_type b);

#endif  // LS_RUNTIME_SIGNATURE_H_
