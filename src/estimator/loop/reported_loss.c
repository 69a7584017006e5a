// SPDX-License-Identifier: Apache-2.0
// The loss that a program reports. Each replica sums its losses in order of
// steps; the replicas' sums are added once, at the end of a run, along the
// canonical tree.
#include "base/values/numbers.h"
#include "estimator/loop/program.h"
#include "lockstep/flow.h"
#include "nn/shares.h"

// Returns the type in which losses are summed.
static ls_dtype find_wide(const ls_model_steps *steps) {
  return ls_is_half(steps->loss_dtype) ? LS_DTYPE_F32 : steps->loss_dtype;
}

// Returns the weight of this replica, from its number of examples; in an
// evaluation, from those of all steps.
static ls_shares find_shares(const ls_model_steps *steps, ls_tensor examples) {
  return (ls_shares){.replicas = (int32_t)steps->num_replicas,
                     .differ = ls_model_steps_count_examples(steps),
                     .count = examples};
}

ls_status ls_model_steps_add_loss(ls_model_steps *steps, ls_tensor loss,
                                  ls_tensor examples, ls_tensor *state) {
  const bool counts = ls_model_steps_count_examples(steps);
  if (!ls_dtype_is_float(ls_tensor_dtype(loss)))
    return ls_invalid_argument("the loss of a step must be of a float type: "
                               "'%s' is %s",
                               ls_tensor_name(loss),
                               ls_dtype_name(ls_tensor_dtype(loss)));
  steps->loss_dtype = ls_tensor_dtype(loss);
  const ls_dtype wide = find_wide(steps);
  if (steps->mode == LS_MODE_TRAIN) {
    state[LS_STATE_LOSS] = ls_convert(loss, LS_DTYPE_F64);
    if (counts) state[LS_STATE_EXAMPLES] = examples;
    return ls_ok();
  }
  const ls_shares shares = find_shares(steps, examples);
  ls_tensor added = ls_convert(loss, wide);
  if (counts) {
    added = ls_shares_given(&shares, true, added);
    state[LS_STATE_EXAMPLES] = ls_add(state[LS_STATE_EXAMPLES], examples);
  }
  state[LS_STATE_LOSS] = ls_convert(
      ls_add(ls_convert(state[LS_STATE_LOSS], wide), added), LS_DTYPE_F64);
  return ls_ok();
}

// ---- At the end of a run ---------------------------------------------------
// Reduces over the replicas whose losses are reported: all replicas, or the
// first.
static ls_tensor reduce_loss(const ls_model_steps *steps, ls_reduce_op op,
                             ls_tensor x) {
  return steps->options->replica_0_loss ? x : ls_all_reduce(op, x);
}

// Returns the loss of a training's last step.
static ls_tensor train_loss(const ls_model_steps *steps,
                            const ls_tensor *state) {
  const ls_tensor loss = ls_convert(state[LS_STATE_LOSS], find_wide(steps));
  if (steps->options->replica_0_loss) return loss;
  const bool counts = steps->options->any_batch;
  const ls_tensor examples =
      counts ? state[LS_STATE_EXAMPLES] : ls_failed_tensor();
  ls_shares shares = find_shares(steps, examples);
  if (counts) shares.total = reduce_loss(steps, LS_REDUCE_SUM, examples);
  return ls_shares_mean(&shares, loss);
}

// Returns the mean loss of all steps: per example if the numbers of examples
// may differ, else per step. The mean of no steps is 0.
static ls_tensor eval_loss(const ls_model_steps *steps, const ls_tensor *state,
                           ls_tensor count) {
  const ls_dtype wide = find_wide(steps);
  const ls_tensor one = ls_scalar_i64(LS_DTYPE_I64, 1);
  const ls_tensor total = ls_convert(state[LS_STATE_LOSS], wide);
  if (steps->options->any_batch)
    return ls_shares_divided(
        ls_maximum(reduce_loss(steps, LS_REDUCE_SUM, state[LS_STATE_EXAMPLES]),
                   one),
        reduce_loss(steps, LS_REDUCE_SUM, total), wide);
  return ls_div(reduce_loss(steps, LS_REDUCE_MEAN, total),
                ls_convert(ls_maximum(count, one), wide));
}

ls_tensor ls_reported_loss(const ls_model_steps *steps, const ls_tensor *state,
                           ls_tensor count) {
  return steps->mode == LS_MODE_TRAIN ? train_loss(steps, state)
                                      : eval_loss(steps, state, count);
}
