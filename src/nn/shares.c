// SPDX-License-Identifier: Apache-2.0
#include "nn/shares.h"

ls_shares ls_shares_find(void) {
  ls_shares shares = {.replicas = ls_num_replicas()};
  shares.differ = shares.replicas > 1 && ls_replica_examples(&shares.count);
  if (shares.differ) shares.total = ls_all_reduce(LS_REDUCE_SUM, shares.count);
  return shares;
}

// x, or what a sum does not notice where there are no examples: -0 added to
// any number is that number, which +0 is not.
static ls_tensor present(const ls_shares *shares, ls_tensor x) {
  const ls_tensor none = ls_scalar(ls_tensor_dtype(shares->count), 0);
  return ls_select(ls_greater(shares->count, none), x,
                   ls_scalar(ls_tensor_dtype(x), -0.0));
}

ls_tensor ls_shares_sum(const ls_shares *shares, ls_tensor x) {
  if (shares->replicas == 1) return x;
  return ls_all_reduce(LS_REDUCE_SUM, shares->differ ? present(shares, x) : x);
}

ls_tensor ls_shares_mean(const ls_shares *shares, ls_tensor x) {
  if (shares->replicas == 1) return x;
  if (!shares->differ) return ls_all_reduce(LS_REDUCE_MEAN, x);
  const ls_dtype dtype = ls_tensor_dtype(x);
  const ls_dtype wide =
      ls_dtype_size(dtype) < ls_dtype_size(LS_DTYPE_F32) ? LS_DTYPE_F32 : dtype;
  const ls_tensor weighted =
      ls_mul(ls_convert(x, wide), ls_convert(shares->count, wide));
  const ls_tensor one =
      ls_div(ls_scalar(wide, 1), ls_convert(shares->total, wide));
  return ls_convert(
      ls_mul(ls_all_reduce(LS_REDUCE_SUM, present(shares, weighted)), one),
      dtype);
}
