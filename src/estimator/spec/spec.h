// SPDX-License-Identifier: Apache-2.0
#ifndef LS_ESTIMATOR_SPEC_SPEC_H_
#define LS_ESTIMATOR_SPEC_SPEC_H_

#include "base/memory/arena.h"
#include "base/runtime_internal.h"
#include "lockstep/estimator_spec.h"
#include "lockstep/object.h"

struct ls_estimator_spec {
  ls_object object;
  ls_arena memory;  // Of the lists.
  bool is_tpu;
  ls_estimator_spec_options options;
  ls_scaffold scaffold;
};

// What a spec of the kind may not have, or must: in the current graph.
LS_MUST_USE ls_status
ls_estimator_spec_check(const ls_estimator_spec_options *options, bool is_tpu);
// Whether the function fits its tensors; `name` is "eval_metrics" or
// "host_call".
LS_MUST_USE ls_status ls_host_function_check(const ls_host_function *function,
                                             const char *name);
// Calls it. A dict that does not fit is found here: the log tells.
ls_nest ls_host_function_call(const ls_host_function *function,
                              const char *name);
// Checks what a function of eval_metrics has made: none, or a dict of (value,
// update op) pairs.
LS_MUST_USE ls_status ls_made_metrics_check(ls_nest metrics);

// ---- Scaffolds -------------------------------------------------------------
typedef enum ls_scaffold_stretch {
  LS_IN_SCAFFOLD_FN,
  LS_IN_SCAFFOLD_FINALIZE,
} ls_scaffold_stretch;
// Until ls_scope_end ops of the current graph, and of those inside, are refused
// that use what was made inside of a program: naming both.
void ls_scaffold_scope_begin(ls_scope *scope, ls_scaffold_stretch stretch);
// The scaffold of a spec: what its scaffold_fn makes in the graph, in such a
// scope, or a zeroed one.
LS_MUST_USE ls_status ls_program_scaffold(const ls_estimator_spec *spec,
                                          ls_graph *graph,
                                          ls_scaffold *out_scaffold);
// ls_scaffold_finalize in such a scope.
LS_MUST_USE ls_status ls_program_finalize(ls_scaffold *scaffold,
                                          ls_graph *graph);

#endif  // LS_ESTIMATOR_SPEC_SPEC_H_
