// SPDX-License-Identifier: Apache-2.0
#include "nn/shares.h"

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/values/nest_builder.h"
#include "base/values/numbers.h"
#include "distribute/cross_device/cross_device.h"
#include "distribute/replicas/rounds.h"
#include "lockstep/strategy.h"
#include "lockstep/strategy_extended.h"

ls_shares ls_shares_find(bool mean) {
  ls_shares shares = {.replicas = ls_num_replicas()};
  shares.differ = shares.replicas > 1 && ls_replica_examples(&shares.count);
  if (shares.differ && mean)
    shares.total = ls_all_reduce(LS_REDUCE_SUM, shares.count);
  return shares;
}

ls_tensor ls_shares_examples(const ls_shares *shares,
                             ls_tensor (*sum)(ls_tensor count)) {
  ls_tensor count;
  bool alike = false;
  if (!ls_examples_find(&count, &alike)) return ls_scalar(LS_DTYPE_F64, 1);
  if (shares->replicas > 1 && !alike) count = sum(count);
  count = ls_convert(count, LS_DTYPE_F64);
  return shares->replicas > 1 && alike ? ls_mul_scalar(count, shares->replicas)
                                       : count;
}

// Returns x if there are examples, else -0, because y + -0 is y for every y, -0
// included.
static ls_tensor if_present(const ls_shares *shares, ls_tensor x) {
  const ls_tensor none = ls_scalar(ls_tensor_dtype(shares->count), 0);
  return ls_select(ls_greater(shares->count, none), x,
                   ls_scalar(ls_tensor_dtype(x), -0.0));
}

// Returns the contribution of a replica to a mean by examples.
static ls_tensor weighted_share(const ls_shares *shares, ls_tensor x) {
  const ls_dtype dtype = ls_tensor_dtype(x);
  const ls_dtype wide = ls_is_half(dtype) ? LS_DTYPE_F32 : dtype;
  return if_present(
      shares, ls_mul(ls_convert(x, wide), ls_convert(shares->count, wide)));
}

ls_tensor ls_shares_divided(ls_tensor total, ls_tensor sum, ls_dtype dtype) {
  const ls_dtype wide = ls_tensor_dtype(sum);
  const ls_tensor one = ls_div(ls_scalar(wide, 1), ls_convert(total, wide));
  return ls_convert(ls_mul(sum, one), dtype);
}

ls_tensor ls_shares_sum(const ls_shares *shares, ls_tensor x) {
  if (shares->replicas == 1) return x;
  return ls_all_reduce(LS_REDUCE_SUM,
                       shares->differ ? if_present(shares, x) : x);
}

ls_tensor ls_shares_mean(const ls_shares *shares, ls_tensor x) {
  if (shares->replicas == 1) return x;
  if (!shares->differ) return ls_all_reduce(LS_REDUCE_MEAN, x);
  return ls_shares_divided(
      shares->total, ls_all_reduce(LS_REDUCE_SUM, weighted_share(shares, x)),
      ls_tensor_dtype(x));
}

// ---- Forward pass ----------------------------------------------------------
static ls_nest mean_of_inputs(ls_nest inputs, ls_tensor x) {
  const ls_shares shares = {.replicas = ls_num_replicas(),
                            .differ = true,
                            .count = ls_nest_tensor(inputs, 1),
                            .total = ls_nest_tensor(inputs, 2)};
  return ls_leaf(ls_shares_mean(&shares, x));
}

static ls_nest take_mean(ls_nest inputs, void *user) {
  (void)user;
  return mean_of_inputs(inputs, ls_nest_tensor(inputs, 0));
}

// Computes the gradient of a mean over the batch. Losses are means over the
// examples of a part, and optimizers average them, so that each part gets the
// mean of the gradients.
static ls_nest mean_gradient(ls_nest inputs, ls_nest outputs, ls_nest gradients,
                             void *user) {
  (void)outputs;
  (void)user;
  return LS_TUPLE(mean_of_inputs(inputs, gradients.as.tensor), ls_none(),
                  ls_none());
}

ls_tensor ls_shares_statistic(const ls_shares *shares, ls_tensor x) {
  if (!shares->differ) return ls_shares_mean(shares, x);
  LS_OWN(ls_nest, made) = ls_custom_gradient(
      take_mean, mean_gradient, NULL,
      LS_TUPLE(ls_leaf(x), ls_leaf(shares->count), ls_leaf(shares->total)));
  if (made.kind == LS_KIND_TENSOR) return made.as.tensor;
  return ls_failed_tensor();
}

// ---- Contributions to sums -------------------------------------------------
ls_tensor ls_shares_given(const ls_shares *shares, bool mean, ls_tensor x) {
  if (!shares->differ) return x;
  return mean ? weighted_share(shares, x) : if_present(shares, x);
}

bool ls_shares_has_own_ops(const ls_shares *shares) {
  const ls_replica *replica =
      shares->replicas > 1 ? ls_replica_context() : NULL;
  if (replica == NULL) return false;
  const ls_cross_device *ops =
      ls_strategy_cross_device(ls_replica_strategy(replica));
  return ops != NULL && !ops->built_in;
}

ls_status ls_shares_reduce_by_own(const ls_shares *shares, bool mean,
                                  ls_tensor *xs, size_t count) {
  LS_OWN(ls_nest_builder, items) = {0};
  for (size_t i = 0; i < count; ++i)
    ls_nest_builder_append(&items,
                           ls_leaf(ls_shares_given(shares, mean, xs[i])));
  LS_OWN(ls_nest, all) = ls_nest_builder_finish(&items, LS_KIND_LIST);
  const bool divides = mean && shares->differ;
  LS_OWN(ls_nest, made) = ls_replica_all_reduce(
      ls_replica_context(), mean && !divides ? LS_REDUCE_MEAN : LS_REDUCE_SUM,
      all);
  LS_RETURN_IF_ERROR(ls_nest_status(made));
  for (size_t i = 0; i < count; ++i) {
    const ls_tensor x = ls_nest_tensor(made, i);
    const ls_dtype dtype = ls_tensor_dtype(xs[i]);
    xs[i] = divides ? ls_shares_divided(shares->total, x, dtype) : x;
  }
  return ls_ok();
}
