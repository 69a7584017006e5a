// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// Functions that an estimator is given: one makes a model, one makes its input.
//
//   static ls_nest input(void *user, ls_input_call *call) {
//     const int64_t batch = ls_params_i64(call->params, "batch_size", 32);
//     return ls_nest_dataset(ls_dataset_batch(...));
//   }
//
// Both are given parameters: a dict of the call's own, in which the estimator
// has set
//   batch_size  of this call: of a host, a core or all of them. Not set if
//               none was given, and if a model is exported
//   use_tpu     true if the model is for TPUs. For models only
//   context     position of the call in the system (ls_params_context). Only
//               for TPUs
//   cache       the previous step's cache, a list. For models only, when
//               trained or evaluated on TPUs
//
// Threads: the thread that calls the estimator calls functions, one at a time.
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
// Sets or replaces a parameter in a dict, in-out (none counts as an empty one);
// `value` is taken over.
LS_API LS_MUST_USE ls_status ls_params_set(ls_nest *params, const char *key,
                                           ls_nest value);
// Return a number of the dict; `otherwise` if it is not set, or no number.
LS_API int64_t ls_params_i64(ls_nest params, const char *key,
                             int64_t otherwise);
LS_API double ls_params_f64(ls_nest params, const char *key, double otherwise);

// Position of a call in its system: a counted object in its parameters, valid
// during the call only.
typedef struct ls_user_context ls_user_context;
// Returns the context, lent; NULL if the call is for a CPU.
LS_API const ls_user_context *ls_params_context(ls_nest params);

// All of the following refuse a NULL context (LS_INVALID_ARGUMENT).

// Deployment of an input function's call.
typedef struct ls_input_deployment {
  ls_device_name host;
  // num_replicas: those that this call feeds.
  int64_t invocation, num_invocations, num_replicas;
} ls_input_deployment;
//   LS_FAILED_PRECONDITION  the context is that of a model function.
LS_API LS_MUST_USE ls_status ls_user_context_deployment(
    const ls_user_context *context, ls_input_deployment *out_deployment);
LS_API LS_MUST_USE ls_status
ls_user_context_host(const ls_user_context *context, ls_device_name *out_host);
// Gets the device assignment, lent; NULL if replicas have one core.
//   LS_FAILED_PRECONDITION  the context is that of an input function.
LS_API LS_MUST_USE ls_status ls_user_context_assignment(
    const ls_user_context *context, ls_device_assignment **out_assignment);
//   LS_INVALID_ARGUMENT  replicas have several cores.
LS_API LS_MUST_USE ls_status ls_user_context_replicas_per_host(
    const ls_user_context *context, int64_t *out_count);
LS_API LS_MUST_USE ls_status ls_user_context_num_replicas(
    const ls_user_context *context, int64_t *out_count);
LS_API LS_MUST_USE ls_status
ls_user_context_num_hosts(const ls_user_context *context, int64_t *out_count);
// Gets the host's device and a replica's number there.
LS_API LS_MUST_USE ls_status ls_user_context_device_for_replica(
    const ls_user_context *context, int64_t replica, ls_device_name *out_host,
    int64_t *out_ordinal);
// Gets the device for ops of a host, given by its number or by a replica; host
// 0 if neither is set.
//   LS_FAILED_PRECONDITION  both are set.
LS_API LS_MUST_USE ls_status
ls_user_context_place_host(const ls_user_context *context, ls_opt host,
                           ls_opt replica, ls_device_name *out_name);

// ---- Input -----------------------------------------------------------------
typedef struct ls_input_call {
  ls_estimator_mode mode;
  ls_nest params;               // Owned by the call.
  const ls_run_config *config;  // Lent.
} ls_input_call;

// A function that returns a data set, whose elements are features or tuples
// (features, labels), or such tensors in the current graph; a list counts as
// features. Zero in a field means its default.
typedef struct ls_input_function {
  ls_nest (*call)(void *user, ls_input_call *call);  // Required.
  void *user;
  // Parameters among "params", "config" and "mode", lent. Default: all.
  const ls_parameters *arguments;
} ls_input_function;

// ---- Models ----------------------------------------------------------------
typedef struct ls_model_call {
  ls_nest features, labels;  // Lent. A none leaf if there are no labels.
  // Mask of a batch of any size (ls_estimator_options.any_batch), except in a
  // prediction: f32 [batch], 1 for an example and 0 for padding. The loss must
  // be the mean over the examples; gradients and losses of replicas are then
  // weighted by the number of examples, so that the loss of a replica without
  // any does not count, whatever its value. Functions of eval_metrics are given
  // the masks of all replicas after the tensors of a list, or as "mask" in a
  // dict: use them as weights of metrics. On a CPU no batch is padded: an
  // evaluation's mask is all ones. Otherwise a failed tensor, as
  // ls_no_weights().
  ls_tensor mask;
  ls_estimator_mode mode;
  ls_nest params;               // Owned by the call.
  const ls_run_config *config;  // Lent.
} ls_model_call;

// Makes a model in the current graph, once for all replicas. On a CPU that is
// the session's graph. On cores it is the body of a loop: additions to its
// collections stay inside, with a warning in the log, and an op with an effect,
// such as a write of a variable, runs in each step whether or not it is
// returned; on a CPU only returned ops run, and those they need. Ops that must
// run on both should be returned, or be control inputs of the train op
// (LS_CONTROL_SCOPE).
typedef struct ls_model_function {
  ls_status (*call)(void *user, ls_model_call *call,
                    ls_estimator_spec **out_spec);  // Required.
  void *user;
  // Parameters among "features", "labels", "mode", "params" and "config",
  // lent for the estimator's life. Default: all.
  const ls_parameters *arguments;
} ls_model_function;

// Makes a model function's `train_op`, for any system: applies the optimizer to
// the gradients of `loss` with respect to all trainable variables that were
// read (ls_optimizer_minimize), then adds 1 to the global step. A train op made
// in another way must add 1 to the global step too: it ends a training, names
// checkpoints and seeds random ops; a training in which it does not move fails
// (LS_INVALID_ARGUMENT). On TPUs use an optimizer of ls_cross_shard_create.
//   LS_FAILED_PRECONDITION  the graph has no global step.
LS_PLACED ls_op ls_train_op(ls_optimizer *optimizer, ls_tensor loss);

// Makes the cache of a loop's first step, a list of tensors; `batch_size` is a
// replica's share of the estimator's batch size. With LS_INPUT_BROADCAST, where
// each replica gets whole batches, it is the quotient, rounded down, too.
typedef struct ls_cache_function {
  ls_nest (*call)(void *user, int64_t batch_size);
  void *user;
} ls_cache_function;

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ESTIMATOR_FUNCTIONS_H_
