// SPDX-License-Identifier: Apache-2.0
//
// A kind of session run that was seen before: what was asked for, compiled, as
// a rule in one part.
#ifndef LS_RUNTIME_PLAN_H_
#define LS_RUNTIME_PLAN_H_

#include "base/memory/own.h"
#include "lower/lower.h"
#include "runtime/signature.h"
#include "runtime/store.h"

typedef struct ls_plan {
  struct ls_plan *next;  // The same for another state of distributed variables.
  ls_allocator *allocator;
  ls_store *store;
  size_t num_parts;
  ls_compiled **parts;
  ls_result_map results;
  uint32_t *feeds;  // Of each input; NULL: input i is feed i.
  size_t num_feeds;
  bool tells_failure;  // Of a compilation, which may go well another time.
} ls_plan;

typedef struct ls_precompiled ls_precompiled;  // See below.

// Compiles a request, whose `outputs` are the plan's to fill. `memory` is for
// what is needed meanwhile. Where it asks how a computation compiles that it
// does not need, that is compiled too and goes to `precompiled`; NULL: it does
// not.
LS_MUST_USE ls_status ls_plan_create(const ls_lower_request *request,
                                     ls_store *store,
                                     ls_precompiled **precompiled,
                                     ls_arena *memory, ls_plan **out_plan);
// Destroys it and those after it. NULL is fine.
void ls_plan_destroy(ls_plan *plan);
LS_OWNED_POINTER(ls_plan, ls_plan_destroy)

// As those of a program.
bool ls_plan_fits(const ls_plan *plan);
bool ls_plan_draws(const ls_plan *plan);
LS_MUST_USE ls_status ls_plan_run(const ls_plan *plan, const ls_run_args *args,
                                  ls_arena *memory, bool *out_stale);

// ---- parts.c ----------------------------------------------------------------
// Parts of a session run that can do without each other.
//
// An op that waits for something that another run does, or another part of this
// one (LS_HOST_WAITS), must not keep that from happening: a program is one
// stream. So a run that waits in several places is of several programs, driven
// side by side. Ops stay together that are tied: by values and control of what
// has effects, by a variable that some of them write, by the state of a host
// kernel that does not wait, by the order that host kernels ask for. What has
// no effect, nor needs one, belongs to whatever uses it, and to each of them.
typedef struct ls_program_parts {
  size_t count;       // At least 1.
  uint32_t *fetches;  // The part of each fetch ...
  uint32_t *targets;  // ... and target.
} ls_program_parts;

// Finds the parts of a request; in the arena, which also has what is needed
// meanwhile.
LS_MUST_USE ls_status ls_find_parts(const ls_lower_request *request,
                                    ls_arena *memory,
                                    ls_program_parts *out_parts);

// ---- precompiled.c ----------------------------------------------------------
// Replicated computations that a session has compiled before they run, as
// somebody fetched how that went: each with all that it gives. A run that asks
// for some of that alone, and feeds the same, takes what was compiled.
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

// Destroys it and those after it. NULL is fine.
void ls_precompiled_destroy(ls_precompiled *list);
LS_OWNED_POINTER(ls_precompiled, ls_precompiled_destroy)

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

#endif  // LS_RUNTIME_PLAN_H_
