// SPDX-License-Identifier: Apache-2.0
// The loss that a program reports: each replica's is added in order of steps,
// and the replicas' once, at the end of a run, along the canonical tree.
#include "base/values/half.h"
#include "estimator/loop/steps.h"
#include "lockstep/flow.h"
#include "nn/shares.h"

// In which losses are added.
static ls_dtype wide_of(const ls_step_loop *steps) {
  return ls_is_half(steps->loss_dtype) ? LS_DTYPE_F32 : steps->loss_dtype;
}

// This replica's share, by its examples; of an evaluation those of all steps.
static ls_shares shares_of(const ls_step_loop *steps, ls_tensor examples) {
  return (ls_shares){.replicas = (int32_t)steps->replicas,
                     .differ = steps->options->any_batch,
                     .count = examples};
}

ls_status ls_carried_add_loss(ls_step_loop *steps, ls_tensor loss,
                              ls_tensor examples, ls_carried *carried) {
  if (!ls_dtype_is_float(ls_tensor_dtype(loss)))
    return ls_invalid_argument("the loss of a step must be of a float type: "
                               "'%s' is %s",
                               ls_tensor_name(loss),
                               ls_dtype_name(ls_tensor_dtype(loss)));
  steps->loss_dtype = ls_tensor_dtype(loss);
  const ls_dtype wide = wide_of(steps);
  if (steps->mode == LS_MODE_TRAIN) {
    carried->loss = ls_convert(loss, LS_DTYPE_F64);
    carried->examples = examples;
    return ls_ok();
  }
  const ls_shares shares = shares_of(steps, examples);
  ls_tensor add = ls_convert(loss, wide);
  if (shares.differ) {
    add = ls_shares_given(&shares, true, add);
    carried->examples = ls_add(carried->examples, examples);
  }
  carried->loss =
      ls_convert(ls_add(ls_convert(carried->loss, wide), add), LS_DTYPE_F64);
  return ls_ok();
}

// ---- At the end of a run ---------------------------------------------------
static ls_tensor sum_of(const ls_step_loop *steps, ls_tensor x) {
  return steps->replicas == 1 || steps->options->replica_0_loss
             ? x
             : ls_all_reduce(LS_REDUCE_SUM, x);
}

// Of the last step.
static ls_tensor train_loss(const ls_step_loop *steps, const ls_carried *last) {
  const ls_tensor loss = ls_convert(last->loss, wide_of(steps));
  ls_shares shares = shares_of(steps, last->examples);
  if (steps->replicas == 1 || steps->options->replica_0_loss) return loss;
  if (shares.differ) shares.total = sum_of(steps, last->examples);
  return ls_shares_mean(&shares, loss);
}

// Of all steps: by examples where their numbers differ, else by steps. Without
// any it is 0.
static ls_tensor eval_loss(const ls_step_loop *steps, const ls_carried *last) {
  const ls_dtype wide = wide_of(steps);
  const ls_tensor one = ls_scalar_i64(LS_DTYPE_I64, 1);
  const ls_tensor total = ls_convert(last->loss, wide);
  if (steps->options->any_batch)
    return ls_shares_divided(ls_maximum(sum_of(steps, last->examples), one),
                             sum_of(steps, total), wide);
  const ls_tensor mean = steps->replicas == 1 || steps->options->replica_0_loss
                             ? total
                             : ls_all_reduce(LS_REDUCE_MEAN, total);
  return ls_div(mean, ls_convert(ls_maximum(last->count, one), wide));
}

ls_tensor ls_reported_loss(const ls_step_loop *steps, const ls_carried *last) {
  return steps->mode == LS_MODE_TRAIN ? train_loss(steps, last)
                                      : eval_loss(steps, last);
}
