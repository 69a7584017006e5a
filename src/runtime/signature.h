// SPDX-License-Identifier: Apache-2.0
//
// What a trace is found by: the structure of the arguments and what each leaf
// is.
#ifndef LS_RUNTIME_SIGNATURE_H_
#define LS_RUNTIME_SIGNATURE_H_

#include "base/memory/own.h"
#include "lockstep/distributed.h"
#include "lockstep/graph.h"

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

// Of arguments. INVALID_ARGUMENT naming a leaf that cannot be an argument.
ls_status ls_signature_init(ls_signature *signature, ls_allocator *allocator,
                            ls_nest args);
void ls_signature_deinit(ls_signature *signature);  // Zeroed is fine.
LS_OWNED_STRUCT(ls_signature, ls_signature_deinit)

// Whether these arguments have it. `leaves` is scratch with room for
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

#endif  // LS_RUNTIME_SIGNATURE_H_
