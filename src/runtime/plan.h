// SPDX-License-Identifier: Apache-2.0
//
// Plans: compiled requests of a session, by what is fetched and fed. Usually a
// plan is one program.
#ifndef LS_RUNTIME_PLAN_H_
#define LS_RUNTIME_PLAN_H_

#include "base/memory/own.h"
#include "lower/lower.h"
#include "runtime/signature.h"
#include "runtime/store.h"

typedef struct ls_plan {
  struct ls_plan *next;  // The plan for another state of distributed variables.
  ls_allocator *allocator;
  ls_store *store;
  const ls_graph *graph;  // The session's,
  uint64_t num_edits;     // and its edits when the plan was made.
  size_t num_parts;
  ls_compiled **parts;
  ls_result_map results;
  uint32_t *feeds;  // Feed of each input; NULL: input i is feed i.
  size_t num_feeds;
  bool tells_failure;  // Returns a compilation's status: do not cache.
} ls_plan;

typedef struct ls_precompiled ls_precompiled;  // Defined below.

// Compiles a request and fills its `outputs`, which the plan keeps. `memory` is
// temporary. A computation whose compilation result is fetched but which is not
// run is compiled, too, and added to `precompiled`, unless that is NULL.
LS_MUST_USE ls_status ls_plan_create(const ls_lower_request *request,
                                     ls_store *store,
                                     ls_precompiled **precompiled,
                                     ls_arena *memory, ls_plan **out_plan);
// Destroys a plan and those linked after it. Accepts NULL.
void ls_plan_destroy(ls_plan *plan);
LS_OWNED_POINTER(ls_plan, ls_plan_destroy)

// Like the functions of a program in program.h. A plan that returns a
// compilation's failure is for one run.
bool ls_plan_is_current(const ls_plan *plan);
bool ls_plan_fits(const ls_plan *plan);
bool ls_plan_draws(const ls_plan *plan);
LS_MUST_USE ls_status ls_plan_run(const ls_plan *plan, const ls_run_args *args,
                                  ls_arena *memory, bool *out_stale);

// ---- Parts -----------------------------------------------------------------
// Splits a session run into parts that are independent.
//
// An op that waits for another run, or for another part of this run
// (LS_HOST_WAITS), must not block that other work, but a program is one stream
// of instructions. So a run that waits in several places becomes several
// programs, driven side by side. Ops stay together that are tied: by values and
// control edges from ops with effects, by a variable that one of them writes,
// by the state of a host kernel that does not wait, by an order key of host
// kernels. An op without effects goes to each part that uses it.
typedef struct ls_program_parts {
  size_t count;       // Number of parts, at least 1.
  uint32_t *fetches;  // The part of each fetch,
  uint32_t *targets;  // and of each target.
} ls_program_parts;

// ---- precompiled.c ---------------------------------------------------------
// Replicated computations that a session has compiled before running them,
// because their compilation result was fetched: each with all its outputs. A
// later run that fetches only such outputs, with the same feeds, uses that
// program.
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

// Destroys an entry and those after it. Accepts NULL.
void ls_precompiled_destroy(ls_precompiled *list);
LS_OWNED_POINTER(ls_precompiled, ls_precompiled_destroy)

// Compiles a computation of the request's graph, unless it is in the list.
// Placeholders of known shapes that it needs become feeds. `*out_told`, which
// the caller owns, is the result: an empty string, or protobuf's form of a code
// (1) and a message (2).
LS_MUST_USE ls_status ls_precompile(ls_precompiled **list,
                                    const ls_lower_request *request,
                                    const char *cluster, ls_store *store,
                                    ls_arena *memory, ls_array **out_told);
// Makes a plan from the list; NULL if the list does not have all that is
// fetched.
LS_MUST_USE ls_status ls_plan_from_precompiled(const ls_precompiled *list,
                                               const ls_lower_request *request,
                                               ls_plan **out_plan);

#endif  // LS_RUNTIME_PLAN_H_
