// SPDX-License-Identifier: Apache-2.0
//
// Results: from a program's outputs to a nest of arrays, filled in place when
// the caller's nest can hold them.
//
// The structure is a nest whose tensor leaves are one output each and whose
// distributed leaves are one output a component; other leaves are passed on.
#ifndef LS_RUNTIME_RESULTS_H_
#define LS_RUNTIME_RESULTS_H_

#include "lockstep/distributed.h"
#include "lockstep/graph.h"

// Makes `*results` a nest of arrays of these types, one an output, reusing what
// is there if it fits and nobody else holds it. `outputs[i]` is where output i
// goes: data of its array. `leaves` is scratch with room for as many leaves as
// the structure has, twice. What was there is in `*out_former`, for
// ls_results_close, which must follow unless this fails.
typedef struct ls_former_results {
  ls_nest nest;
  bool replaced;
} ls_former_results;
ls_status ls_results_open(ls_nest structure, const ls_type *types,
                          ls_nest *leaves, ls_nest *results, void **outputs,
                          ls_former_results *out_former);

// After the run, which ended with `status`: drops what was replaced, or puts it
// back if the run has failed. Returns `status`.
ls_status ls_results_close(ls_former_results former, ls_status status,
                           ls_nest *results);

#endif  // LS_RUNTIME_RESULTS_H_
