// SPDX-License-Identifier: Apache-2.0
// Calls of user functions: makes their arguments and checks their results.
#ifndef LS_ESTIMATOR_SPEC_CALLS_H_
#define LS_ESTIMATOR_SPEC_CALLS_H_

#include "base/memory/arena.h"
#include "base/runtime_internal.h"
#include "estimator/config/plan.h"
#include "lockstep/dataset.h"

// Data shared by all calls in one training, evaluation, prediction or export;
// all borrowed.
typedef struct ls_estimator_calls {
  const ls_plan *plan;
  const ls_model_function *model;
  const ls_input_function *input;
  const ls_run_config *config;
  ls_nest params;  // The estimator's.
  // For each tensor of a batch, the axis of the examples; 0 for tensors beyond
  // the list.
  const int64_t *batch_axis;
  size_t num_batch_axes;
} ls_estimator_calls;

// Checks that the model's functions declare the required arguments, and no
// unknown ones.
LS_MUST_USE ls_status ls_check_model_function(const ls_model_function *model,
                                              bool has_params);

// Host of a call of an input function, and the number of the call.
// ls_call_input makes the call; if its `place` is NULL, on a CPU. The caller
// releases the value.
typedef struct ls_input_place {
  ls_device_name host;
  int64_t invocation;
} ls_input_place;
LS_MUST_USE ls_status ls_call_input(const ls_estimator_calls *calls,
                                    const ls_input_place *place,
                                    ls_nest *out_made);

// Arguments of a model. `cache` is a list, or none if there is no cache.
typedef struct ls_model_inputs {
  ls_nest features, labels, cache;
  ls_tensor mask;
  bool keeps_kind;     // True to keep a TPU spec as it is on a CPU.
  bool keeps_metrics;  // True to leave the call of eval_metrics to the caller.
} ls_model_inputs;
// Calls the model function. On a CPU or for an export, a TPU spec becomes a
// plain one; on TPUs a spec that does not fit is refused.
LS_MUST_USE ls_status ls_call_model(const ls_estimator_calls *calls,
                                    const ls_model_inputs *inputs,
                                    ls_estimator_spec **out_spec);

// ---- Captured values -------------------------------------------------------
// A value that leaves a function called during a build. It is set once, and
// read only after that. Zeroed: not set.
typedef struct ls_captured {
  void *value;
  bool is_set;
} ls_captured;

// Sets the value.
//   LS_FAILED_PRECONDITION  the value was set before
LS_MUST_USE ls_status ls_captured_set(ls_captured *captured, const char *noun,
                                      void *value);
// Returns the value.
//   LS_FAILED_PRECONDITION  the value was not set
LS_MUST_USE ls_status ls_captured_get(const ls_captured *captured,
                                      const char *noun, void **out_value);

// ---- Values of input functions ---------------------------------------------
// Checks that a leaf of a data set's elements can be fed: it must be dense.
LS_MUST_USE ls_status ls_returned_check_leaf(const ls_leaf_spec *spec);
// Checks that the tensors of features and labels, or a data set's element
// specs, are dense and of known shapes, as cores need them.
//   LS_INVALID_ARGUMENT  names features or labels, the leaf and its type
LS_MUST_USE ls_status ls_returned_check_static(ls_nest features,
                                               ls_nest labels);

// ---- Specs -----------------------------------------------------------------
struct ls_estimator_spec {
  ls_object object;
  ls_arena memory;  // Holds the lists.
  bool is_tpu;
  bool has_scaffold;  // The user has given one.
  ls_estimator_spec_options options;
  ls_scaffold scaffold;
};

// Checks in the current graph that a spec has the fields that its kind requires
// and no others.
LS_MUST_USE ls_status
ls_estimator_spec_check(const ls_estimator_spec_options *options, bool is_tpu);
// Makes a plain spec (ls_estimator_spec_as_plain). With `keeps_metrics` it has
// the TPU spec's eval_metrics, which are not called.
LS_MUST_USE ls_status ls_spec_make_plain(ls_estimator_spec *spec,
                                         bool keeps_metrics,
                                         ls_estimator_spec **out_plain);
// Calls the function of eval_metrics or host_call; `name` says which. Logs a
// dict of tensors that does not fit its parameters.
ls_nest ls_host_function_call(const ls_host_function *function,
                              const char *name);
// Checks the result of an eval_metrics function: none, or a dict of (value,
// update op) pairs.
LS_MUST_USE ls_status ls_made_metrics_check(ls_nest metrics);

// ---- Scaffolds -------------------------------------------------------------
typedef enum ls_scaffold_stretch {
  LS_IN_SCAFFOLD_FN,
  LS_IN_SCAFFOLD_FINALIZE,
} ls_scaffold_stretch;
// Refuses, until ls_scope_end, ops of the current graph and of graphs inside
// that use values made inside a program. The error names the op and the value.
void ls_scaffold_scope_begin(ls_scope *scope, ls_scaffold_stretch stretch);
// Makes a spec's scaffold with its scaffold_fn, in the graph, within a scaffold
// scope. The scaffold is zeroed if the spec has no scaffold_fn.
LS_MUST_USE ls_status ls_program_scaffold(const ls_estimator_spec *spec,
                                          ls_graph *graph,
                                          ls_scaffold *out_scaffold);
// Finalizes a scaffold within a scaffold scope.
LS_MUST_USE ls_status ls_program_finalize(ls_scaffold *scaffold,
                                          ls_graph *graph);

#endif  // LS_ESTIMATOR_SPEC_CALLS_H_
