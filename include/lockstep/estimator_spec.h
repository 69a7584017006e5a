// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// What a model function gives back: in a mode, what to train, to measure, to
// predict, and what the host does with it.
//
// Threads: of a spec any number of threads may read at the same time.
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
// A function and what it is given: values of a step, in a list or by name in a
// dict. Metrics give a dict of (value, update op) pairs, a host call ops or
// tensors. Zeroed: none.
typedef struct ls_host_function {
  ls_nest (*call)(ls_nest tensors, void *user);
  void *user;
  ls_nest tensors;
  ls_opt num_arguments;  // That it takes of a list. Default: any number.
} ls_host_function;

// ---- Specs -----------------------------------------------------------------
// Zero in a field means that it is not given. Everything is lent: lists are
// copied, and nests and hooks retained.
typedef struct ls_estimator_spec_options {
  ls_estimator_mode mode;  // Required.
  ls_nest predictions;     // A tensor, or a dict of them.
  ls_tensor loss;          // Of one element.
  ls_op train_op;
  const ls_export_output *export_outputs;
  size_t num_export_outputs;
  ls_hook *const *training_hooks;
  size_t num_training_hooks;
  ls_hook *const *evaluation_hooks;
  size_t num_evaluation_hooks;
  ls_hook *const *prediction_hooks;
  size_t num_prediction_hooks;

  // Of a plain spec.
  // A dict of (value, update op) tuples. In the replicas of a strategy each
  // makes its own: what is told is the first one's value, and all update.
  // Values of ls_metric_... (metrics.h) are of all replicas' examples there.
  ls_nest eval_metric_ops;
  ls_hook *const *training_chief_hooks;
  size_t num_training_chief_hooks;
  const ls_scaffold *scaffold;  // Default: a fresh one.

  // Of one for TPUs, which ls_tpu_estimator_spec_create takes.
  ls_host_function eval_metrics;
  ls_host_function host_call;
  ls_status (*scaffold_fn)(void *user, ls_scaffold *scaffold);
  void *scaffold_user;
  const ls_tensor *cache;  // What the next step is given.
  size_t cache_size;
} ls_estimator_spec_options;

typedef struct ls_estimator_spec ls_estimator_spec;

// Makes one for the current graph. `loss` of shape [1] becomes a scalar, and
// what is predicted is exported as "serving_default" where nothing is.
//   LS_INVALID_ARGUMENT     "Missing train_op", "Missing loss", "Missing
//                           predictions"; a loss of several elements; a value
//                           of another graph; metrics that are no pairs; other
//                           fields than this kind of spec has: names the field.
//   LS_FAILED_PRECONDITION  a function on the host takes another number of
//                           tensors.
LS_API LS_MUST_USE ls_status ls_estimator_spec_create(
    const ls_estimator_spec_options *options, ls_estimator_spec **out_spec);
LS_API LS_MUST_USE ls_status ls_tpu_estimator_spec_create(
    const ls_estimator_spec_options *options, ls_estimator_spec **out_spec);
// The same, lent, with defaults; `options` of either kind.
LS_API const ls_estimator_spec_options *
ls_estimator_spec_values(const ls_estimator_spec *spec);
LS_API bool ls_estimator_spec_is_tpu(const ls_estimator_spec *spec);
LS_API ls_estimator_spec *ls_estimator_spec_retain(ls_estimator_spec *spec);
LS_API void ls_estimator_spec_release(ls_estimator_spec *spec);

// A plain spec of one for TPUs, for use on CPUs: its functions on the host are
// called at once, in the current graph; what a host call gives is run by a hook
// with each step, and so is what tensor tracing says (tensor_tracer.h), if that
// is on. A plain one is retained.
LS_API LS_MUST_USE ls_status ls_estimator_spec_as_plain(
    ls_estimator_spec *spec, ls_estimator_spec **out_plain);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ESTIMATOR_SPEC_H_
