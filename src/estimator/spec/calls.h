// SPDX-License-Identifier: Apache-2.0
//
// Calls of users' functions: what they are given, and what may come back.
#ifndef LS_ESTIMATOR_SPEC_CALLS_H_
#define LS_ESTIMATOR_SPEC_CALLS_H_

#include "estimator/config/plan.h"
#include "lockstep/dataset.h"

// What all calls in one training, evaluation, prediction or export have in
// common; lent.
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

// Whether functions declare what they may, and take what they must: those of
// the model for parameters that are given or not.
LS_MUST_USE ls_status ls_check_model_function(const ls_model_function *model,
                                              bool has_params);

// Calls the input function. `place`: on which host it is, its device, and the
// how-manieth call this is; NULL: for a CPU, on which it stands. The caller's.
typedef struct ls_input_place {
  ls_device_name host;
  int64_t invocation;
} ls_input_place;
LS_MUST_USE ls_status ls_call_input(const ls_estimator_calls *calls,
                                    const ls_input_place *place,
                                    ls_nest *out_made);

// Checks that a leaf of a data set's elements can be fed: is dense.
LS_MUST_USE ls_status ls_returned_check_leaf(const ls_leaf_spec *spec);
// Checks that the tensors of features and labels, or the specs of a data set's
// elements, are dense and of known shapes, as cores need them.
//   LS_INVALID_ARGUMENT  names features or labels, the leaf and its type
LS_MUST_USE ls_status ls_returned_check_static(ls_nest features,
                                               ls_nest labels);

// What a model is called with. `cache`: a list, or none where there is to be
// none.
typedef struct ls_model_inputs {
  ls_nest features, labels, cache;
  ls_tensor mask;
  bool keeps_kind;  // On a CPU a spec for TPUs stays one.
} ls_model_inputs;
// Calls the model function: for a CPU or an export where the plan says so.
// There a spec for TPUs becomes a plain one; on TPUs one that does not fit is
// refused.
LS_MUST_USE ls_status ls_call_model(const ls_estimator_calls *calls,
                                    const ls_model_inputs *inputs,
                                    ls_estimator_spec **out_spec);

#endif  // LS_ESTIMATOR_SPEC_CALLS_H_
