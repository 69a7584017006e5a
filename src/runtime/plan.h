// SPDX-License-Identifier: Apache-2.0
//
// A kind of session run that was seen before: what was asked for, compiled, as
// a rule in one part; see parts.h.
#ifndef LS_RUNTIME_PLAN_H_
#define LS_RUNTIME_PLAN_H_

#include "base/memory/own.h"
#include "runtime/results.h"
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

typedef struct ls_precompiled ls_precompiled;  // See precompiled.h.

// Compiles a request, whose `outputs` are the plan's to fill. `memory` is for
// what is needed meanwhile. Where it asks how a computation compiles that it
// does not need, that is compiled too and goes to `precompiled`; NULL: it does
// not.
LS_MUST_USE ls_status ls_plan_create(const ls_lower_request *request,
                                     ls_store *store,
                                     ls_precompiled **precompiled,
                                     ls_arena *memory, ls_plan **out_plan);
// It and those behind it. NULL is fine.
void ls_plan_destroy(ls_plan *plan);
LS_OWNED_POINTER(ls_plan, ls_plan_destroy)

// As those of a program.
bool ls_plan_fits(const ls_plan *plan);
bool ls_plan_draws(const ls_plan *plan);
LS_MUST_USE ls_status ls_plan_run(const ls_plan *plan, const ls_run_args *args,
                                  ls_arena *memory, bool *out_stale);

#endif  // LS_RUNTIME_PLAN_H_
