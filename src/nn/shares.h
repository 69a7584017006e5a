// SPDX-License-Identifier: Apache-2.0
// Means and sums over the replicas' parts of a batch. Each part counts by its
// examples; one without any counts nothing, whatever its value is.
#ifndef LS_NN_SHARES_H_
#define LS_NN_SHARES_H_

#include "lockstep/replica.h"

// This replica's share in the batch of all.
typedef struct ls_shares {
  int32_t replicas;
  bool differ;      // Parts may have different numbers of examples:
  ls_tensor count;  // this one's,
  ls_tensor total;  // and that of all.
} ls_shares;

// Asks where it stands; may add ops. `total` is for means alone.
ls_shares ls_shares_find(bool mean);
// The mean over all examples of a value that is a mean over this part's.
ls_tensor ls_shares_mean(const ls_shares *shares, ls_tensor x);
// The same in the forward pass: its gradient is that of the whole batch, of
// which optimizers take the mean.
ls_tensor ls_shares_statistic(const ls_shares *shares, ls_tensor x);
// Examples of all replicas together, an f64 scalar: 1 where no number of them
// is known. Where replicas may differ, `sum` adds up over them.
ls_tensor ls_shares_examples(const ls_shares *shares,
                             ls_tensor (*sum)(ls_tensor count));
// The sum over replicas that have examples.
ls_tensor ls_shares_sum(const ls_shares *shares, ls_tensor x);
// Return what this replica gives for a mean or sum, and a sum of that divided
// by `total` for a mean where parts differ.
ls_tensor ls_shares_given(const ls_shares *shares, bool mean, ls_tensor x);
ls_tensor ls_shares_divided(ls_tensor total, ls_tensor sum, ls_dtype dtype);
// Returns true if the strategy has cross-device ops of the user's own, which
// must be asked for what all_reduce would do in a compiled step.
bool ls_shares_has_own_ops(const ls_shares *shares);
// Such sums or means of all of them, in place, by one call of those ops.
LS_MUST_USE ls_status ls_shares_reduce_by_own(const ls_shares *shares,
                                              bool mean, ls_tensor *xs,
                                              size_t count);

#endif  // LS_NN_SHARES_H_
