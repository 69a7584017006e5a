// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// Result of a model function: by mode, what to train, to measure and to
// predict, and the functions to call on the host.
//
// Threads: any number of threads may read a spec at the same time.
#ifndef LOCKSTEP_ESTIMATOR_SPEC_H_
#define LOCKSTEP_ESTIMATOR_SPEC_H_

#include "lockstep/monitored_session.h"
#include "lockstep/serving.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ls_estimator_mode {
  LS_MODE_NONE,
  LS_MODE_TRAIN,
  LS_MODE_EVAL,
  LS_MODE_PREDICT,
  LS_NUM_MODES,
} ls_estimator_mode;

// ---- Functions on the host -------------------------------------------------
// A function and its arguments: values of a step, in a list or by name in a
// dict. Metrics return a dict of (value, update op) pairs, a host call ops or
// tensors. Zeroed: none.
typedef struct ls_host_function {
  ls_nest (*call)(ls_nest tensors, void *user);
  void *user;
  ls_nest tensors;
  // Number of arguments of a list it takes. Default: any number.
  ls_opt num_arguments;
} ls_host_function;

// ---- Specs -----------------------------------------------------------------
// Zero in a field means that it is not given. Everything is lent: lists are
// copied, and nests and hooks retained.
typedef struct ls_estimator_spec_options {
  ls_estimator_mode mode;  // Required.
  ls_nest predictions;     // A tensor, or a dict of them.
  ls_tensor loss;          // A tensor of one element.
  ls_op train_op;
  const ls_export_output *export_outputs;
  size_t num_export_outputs;
  ls_hook *const *training_hooks;
  size_t num_training_hooks;
  ls_hook *const *evaluation_hooks;
  size_t num_evaluation_hooks;
  ls_hook *const *prediction_hooks;
  size_t num_prediction_hooks;

  // For a plain spec. A dict of (value, update op) tuples. In a strategy each
  // replica makes its own: the first one's value is reported, and all are
  // updated. Values of ls_metric_... (metrics.h) cover all replicas' examples
  // there.
  ls_nest eval_metric_ops;
  ls_hook *const *training_chief_hooks;
  size_t num_training_chief_hooks;
  const ls_scaffold *scaffold;  // Default: a fresh one.

  // For TPU specs, made by ls_tpu_estimator_spec_create.
  ls_host_function eval_metrics;
  ls_host_function host_call;
  ls_status (*scaffold_fn)(void *user, ls_scaffold *scaffold);
  void *scaffold_user;
  const ls_tensor *cache;  // Cache for the next step.
  size_t cache_size;
} ls_estimator_spec_options;

typedef struct ls_estimator_spec ls_estimator_spec;

// Creates a spec for the current graph. `loss` of shape [1] becomes a scalar,
// and predictions are exported as "serving_default" if no export outputs are
// given. The caller owns a reference.
//   LS_INVALID_ARGUMENT     "Missing train_op", "Missing loss", "Missing
//                           predictions"; a loss of several elements; a value
//                           of another graph; metrics that are no pairs; a
//                           field that this kind of spec does not have: names
//                           it.
//   LS_FAILED_PRECONDITION  a function on the host takes another number of
//                           tensors.
LS_API LS_MUST_USE ls_status ls_estimator_spec_create(
    const ls_estimator_spec_options *options, ls_estimator_spec **out_spec);
LS_API LS_MUST_USE ls_status ls_tpu_estimator_spec_create(
    const ls_estimator_spec_options *options, ls_estimator_spec **out_spec);
// Returns the options, with defaults, lent; for a spec of either kind.
LS_API const ls_estimator_spec_options *
ls_estimator_spec_values(const ls_estimator_spec *spec);
LS_API bool ls_estimator_spec_is_tpu(const ls_estimator_spec *spec);
LS_API ls_estimator_spec *ls_estimator_spec_retain(ls_estimator_spec *spec);
LS_API void ls_estimator_spec_release(ls_estimator_spec *spec);

// Makes a plain spec of a TPU spec, for use on CPUs: its functions on the host
// are called at once, in the current graph; a hook runs the results of the host
// call with each step, and those of tensor tracing (tensor_tracer.h), if that
// is on. A plain spec is retained.
LS_API LS_MUST_USE ls_status ls_estimator_spec_as_plain(
    ls_estimator_spec *spec, ls_estimator_spec **out_plain);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ESTIMATOR_SPEC_H_
