// SPDX-License-Identifier: Apache-2.0
// Calls of users' functions: their arguments, and checks of their results.
#ifndef LS_ESTIMATOR_SPEC_CALLS_H_
#define LS_ESTIMATOR_SPEC_CALLS_H_

#include "base/memory/arena.h"
#include "base/runtime_internal.h"
#include "estimator/config/plan.h"
#include "lockstep/dataset.h"

// The common part of all calls in one training, evaluation, prediction or
// export; lent.
typedef struct ls_estimator_calls {
  const ls_plan *plan;
  const ls_model_function *model;
  const ls_input_function *input;
  const ls_run_config *config;
  ls_nest params;  // The estimator's.
  // Along which axis the examples of each tensor of a batch lie; of others: 0.
  const int64_t *batch_axis;
  size_t num_batch_axes;
} ls_estimator_calls;

// Checks that the model's functions declare known arguments and take the
// required ones.
LS_MUST_USE ls_status ls_check_model_function(const ls_model_function *model,
                                              bool has_params);

// Calls the input function. `place`: its host, and the number of the call;
// NULL: for a CPU, on which it runs. The caller's.
typedef struct ls_input_place {
  ls_device_name host;
  int64_t invocation;
} ls_input_place;
LS_MUST_USE ls_status ls_call_input(const ls_estimator_calls *calls,
                                    const ls_input_place *place,
                                    ls_nest *out_made);

// What a model is called with. `cache`: a list, or none where there is to be
// none.
typedef struct ls_model_inputs {
  ls_nest features, labels, cache;
  ls_tensor mask;
  bool keeps_kind;  // On a CPU a spec for TPUs stays one.
} ls_model_inputs;
// Calls the model function. For a CPU or an export, by the plan, a spec for
// TPUs becomes a plain one; on TPUs one that does not fit is refused.
LS_MUST_USE ls_status ls_call_model(const ls_estimator_calls *calls,
                                    const ls_model_inputs *inputs,
                                    ls_estimator_spec **out_spec);

// ---- Captured values -------------------------------------------------------
// A value of a function that is called while something is built around it: set
// once, and read only after that. Zeroed: nothing is captured yet.
typedef struct ls_captured {
  void *value;
  bool is_set;
} ls_captured;

//   LS_FAILED_PRECONDITION  something was captured before.
LS_MUST_USE ls_status ls_captured_set(ls_captured *captured, const char *noun,
                                      void *value);
//   LS_FAILED_PRECONDITION  nothing was.
LS_MUST_USE ls_status ls_captured_get(const ls_captured *captured,
                                      const char *noun, void **out_value);

// ---- Values of input functions ---------------------------------------------
// Checks that a leaf of a data set's elements can be fed: is dense.
LS_MUST_USE ls_status ls_returned_check_leaf(const ls_leaf_spec *spec);
// Checks that the tensors of features and labels, or the specs of a data set's
// elements, are dense and of known shapes, as cores need them.
//   LS_INVALID_ARGUMENT  names features or labels, the leaf and its type
LS_MUST_USE ls_status ls_returned_check_static(ls_nest features,
                                               ls_nest labels);

// ---- Specs -----------------------------------------------------------------
struct ls_estimator_spec {
  ls_object object;
  ls_arena memory;  // Of the lists.
  bool is_tpu;
  ls_estimator_spec_options options;
  ls_scaffold scaffold;
};

// Checks what a spec of the kind must have and may not have, in the current
// graph.
LS_MUST_USE ls_status
ls_estimator_spec_check(const ls_estimator_spec_options *options, bool is_tpu);
// Calls a function of eval_metrics or host_call, by `name`. The log tells of a
// dict that does not fit.
ls_nest ls_host_function_call(const ls_host_function *function,
                              const char *name);
// Checks the result of a function of eval_metrics: none, or a dict of (value,
// update op) pairs.
LS_MUST_USE ls_status ls_made_metrics_check(ls_nest metrics);

// ---- Scaffolds -------------------------------------------------------------
typedef enum ls_scaffold_stretch {
  LS_IN_SCAFFOLD_FN,
  LS_IN_SCAFFOLD_FINALIZE,
} ls_scaffold_stretch;
// Until ls_scope_end refuses ops of the current graph, and of those inside,
// that use values made inside of a program: names both.
void ls_scaffold_scope_begin(ls_scope *scope, ls_scaffold_stretch stretch);
// Makes the scaffold of a spec by its scaffold_fn in the graph, in such a
// scope, or a zeroed one.
LS_MUST_USE ls_status ls_program_scaffold(const ls_estimator_spec *spec,
                                          ls_graph *graph,
                                          ls_scaffold *out_scaffold);
// ls_scaffold_finalize in such a scope.
LS_MUST_USE ls_status ls_program_finalize(ls_scaffold *scaffold,
                                          ls_graph *graph);

#endif  // LS_ESTIMATOR_SPEC_CALLS_H_
