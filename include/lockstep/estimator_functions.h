// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// The functions that an estimator is given: one that makes a model, one that
// makes its input.
//
//   static ls_nest input(void *user, ls_input_call *call) {
//     const int64_t batch = ls_params_i64(call->params, "batch_size", 32);
//     return ls_nest_dataset(ls_dataset_batch(...));
//   }
//
// Both are given parameters: a dict of the call's own, in which the estimator
// has set
//   batch_size  of this call: of a host, a core or all of them. Not set where
//               none was given, and where a model is exported
//   use_tpu     whether the model is for TPUs. Of a model alone
//   context     where the call stands in the system (ls_params_context). Only
//               where it is for TPUs
//   cache       what the step before has left, a list. Of a model alone, where
//               it trains or is evaluated on TPUs
//
// Threads: functions are called by the thread that calls the estimator, one at
// a time.
#ifndef LOCKSTEP_ESTIMATOR_FUNCTIONS_H_
#define LOCKSTEP_ESTIMATOR_FUNCTIONS_H_

#include "lockstep/dataset.h"
#include "lockstep/device_name.h"
#include "lockstep/estimator_config.h"
#include "lockstep/estimator_spec.h"
#include "lockstep/optimizers.h"
#include "lockstep/parameters.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Parameters ------------------------------------------------------------
// Sets one in a dict, in-out (none counts as an empty one), in place of what it
// was; `value` is taken over.
LS_API LS_MUST_USE ls_status ls_params_set(ls_nest *params, const char *key,
                                           ls_nest value);
// A number in it; `otherwise` where it is not set, or no number.
LS_API int64_t ls_params_i64(ls_nest params, const char *key,
                             int64_t otherwise);
LS_API double ls_params_f64(ls_nest params, const char *key, double otherwise);

// Where a call stands in the system that it is for: a counted object in its
// parameters. It is of use during the call only.
typedef struct ls_user_context ls_user_context;
// Lent; NULL: the call is for a CPU.
LS_API const ls_user_context *ls_params_context(ls_nest params);

// All that follow refuse a context that is NULL (LS_INVALID_ARGUMENT).

// What a call of an input function feeds.
typedef struct ls_input_deployment {
  ls_device_name host;
  int64_t invocation, num_invocations, num_replicas;  // Fed by it.
} ls_input_deployment;
//   LS_FAILED_PRECONDITION  it is that of a model function.
LS_API LS_MUST_USE ls_status ls_user_context_deployment(
    const ls_user_context *context, ls_input_deployment *out_deployment);
LS_API LS_MUST_USE ls_status
ls_user_context_host(const ls_user_context *context, ls_device_name *out_host);
// Lent; NULL: replicas have one core.
//   LS_FAILED_PRECONDITION  it is that of an input function.
LS_API LS_MUST_USE ls_status ls_user_context_assignment(
    const ls_user_context *context, ls_device_assignment **out_assignment);
//   LS_INVALID_ARGUMENT  replicas have several cores.
LS_API LS_MUST_USE ls_status ls_user_context_replicas_per_host(
    const ls_user_context *context, int64_t *out_count);
LS_API LS_MUST_USE ls_status ls_user_context_num_replicas(
    const ls_user_context *context, int64_t *out_count);
LS_API LS_MUST_USE ls_status
ls_user_context_num_hosts(const ls_user_context *context, int64_t *out_count);
// The host's device and a replica's number there.
LS_API LS_MUST_USE ls_status ls_user_context_device_for_replica(
    const ls_user_context *context, int64_t replica, ls_device_name *out_host,
    int64_t *out_ordinal);
// Where a host's ops go: of a host, or of a replica; with neither set host 0.
//   LS_FAILED_PRECONDITION  both are set.
LS_API LS_MUST_USE ls_status
ls_user_context_place_host(const ls_user_context *context, ls_opt host,
                           ls_opt replica, ls_device_name *out_name);

// ---- Input -----------------------------------------------------------------
typedef struct ls_input_call {
  ls_estimator_mode mode;
  ls_nest params;               // The call's own.
  const ls_run_config *config;  // Lent.
} ls_input_call;

// What comes back is a data set, whose elements are features or tuples
// (features, labels), or such in the current graph; a list is features. Zero in
// a field means its default.
typedef struct ls_input_function {
  ls_nest (*call)(void *user, ls_input_call *call);  // Required.
  void *user;
  // Of "params", "config" and "mode" what it takes, lent. Default: all.
  const ls_parameters *arguments;
} ls_input_function;

// ---- Models ----------------------------------------------------------------
typedef struct ls_model_call {
  ls_nest features, labels;  // Lent. No labels: none.
  // With any size of batch (ls_estimator_options.any_batch), but in a
  // prediction: f32 [batch], 1 for an example and 0 for what fills the batch
  // up. The loss is the mean over the examples, by which gradients and losses
  // of replicas are weighted then; one of a replica without any counts for
  // nothing, whatever it is. Functions of eval_metrics are given the masks of
  // all replicas behind the tensors of a list, or as "mask" in a dict: weights
  // of metrics. Else failed, as ls_no_weights().
  ls_tensor mask;
  ls_estimator_mode mode;
  ls_nest params;               // The call's own.
  const ls_run_config *config;  // Lent.
} ls_model_call;

// Makes a model in the current graph: once for all replicas. On a CPU that is
// the session's graph. On cores it is the body of a loop: what is added to its
// collections stays inside, of which the log warns, and an op with an effect,
// such as a write of a variable, runs in each step whether or not it is
// returned; on a CPU only what is returned runs, and what that needs. Return,
// or have the train op wait for (LS_CONTROL_SCOPE), what is to run on both.
typedef struct ls_model_function {
  ls_status (*call)(void *user, ls_model_call *call,
                    ls_estimator_spec **out_spec);  // Required.
  void *user;
  // Of "features", "labels", "mode", "params" and "config" what it takes, lent
  // for the estimator's life. Default: all.
  const ls_parameters *arguments;
} ls_model_function;

// What a model function gives as `train_op`, on any system: a step of the
// optimizer down the gradient of `loss` in all that was read on the way to it
// (ls_optimizer_minimize), then the global step is one more. Whoever makes such
// an op in another way adds 1 to the global step too: it is what ends a
// training, names checkpoints and says what random ops draw; a training in
// which it does not move fails (LS_INVALID_ARGUMENT). On TPUs the optimizer is
// one of ls_cross_shard_create.
//   LS_FAILED_PRECONDITION  the graph has no global step.
LS_PLACED ls_op ls_train_op(ls_optimizer *optimizer, ls_tensor loss);

// What a loop's first step has as its cache, a list of tensors; `batch_size` is
// that of a replica.
typedef struct ls_cache_function {
  ls_nest (*call)(void *user, int64_t batch_size);
  void *user;
} ls_cache_function;

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ESTIMATOR_FUNCTIONS_H_
