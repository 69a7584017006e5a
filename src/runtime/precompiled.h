// SPDX-License-Identifier: Apache-2.0
//
// Replicated computations that a session has compiled before they run, for who
// fetched how that went: each with all that it gives. A run that asks for some
// of that alone, and feeds the same, takes what was compiled.
#ifndef LS_RUNTIME_PRECOMPILED_H_
#define LS_RUNTIME_PRECOMPILED_H_

#include "runtime/plan.h"

struct ls_precompiled {
  ls_precompiled *next;
  ls_allocator *allocator;
  char *cluster;
  uint64_t *fetches;
  ls_op *targets;
  uint64_t *feeds;
  ls_type *feed_types;
  size_t num_fetches, num_targets, num_feeds;
  ls_plan *plan;
};

// It and those behind it. NULL is fine.
void ls_precompiled_destroy(ls_precompiled *list);

// Compiles a computation of the request's graph, if it is not in the list. What
// is needed, of known size and not fed will be.
// `*out_told`, the caller's, says how it went: a string that is empty, or
// protobuf's form of a code (1) and a message (2).
LS_MUST_USE ls_status ls_precompile(ls_precompiled **list,
                                    const ls_lower_request *request,
                                    const char *cluster, ls_store *store,
                                    ls_arena *memory, ls_array **out_told);
// A plan of what is in the list; NULL: that is not enough.
LS_MUST_USE ls_status ls_plan_from_precompiled(const ls_precompiled *list,
                                               const ls_lower_request *request,
                                               ls_plan **out_plan);

#endif  // LS_RUNTIME_PRECOMPILED_H_
