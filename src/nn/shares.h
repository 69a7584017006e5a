// SPDX-License-Identifier: Apache-2.0
// Means and sums over the replicas' parts of a batch. Each part is weighted by
// its number of examples; a part without examples is ignored, whatever its
// value.
#ifndef LS_NN_SHARES_H_
#define LS_NN_SHARES_H_

#include "lockstep/replica.h"

// This replica's share in the batch of all replicas.
typedef struct ls_shares {
  int32_t replicas;
  bool differ;      // True if parts may have different numbers of examples.
  ls_tensor count;  // Number of examples of this part.
  ls_tensor total;  // Number of examples of all parts.
} ls_shares;

// Finds this replica's share, which may add ops. `total` is only set for means.
ls_shares ls_shares_find(bool mean);
// Returns the mean over all examples of a value that is the mean over the
// examples of this part: ls_examples_mean without its gradient.
ls_tensor ls_shares_mean(const ls_shares *shares, ls_tensor x);
// Returns a mean over all examples for the forward pass. Its gradient is that
// of the whole batch, which optimizers average.
ls_tensor ls_shares_statistic(const ls_shares *shares, ls_tensor x);
// Returns the number of examples of all replicas, an f64 scalar; 1 if the
// number is not known. If replicas may differ, `sum` adds up their numbers.
ls_tensor ls_shares_examples(const ls_shares *shares,
                             ls_tensor (*sum)(ls_tensor count));
// Returns the sum over the replicas that have examples.
ls_tensor ls_shares_sum(const ls_shares *shares, ls_tensor x);
// Returns this replica's contribution to a mean or sum. ls_shares_divided
// divides a sum of contributions by `total`, for a mean over parts that differ.
ls_tensor ls_shares_given(const ls_shares *shares, bool mean, ls_tensor x);
ls_tensor ls_shares_divided(ls_tensor total, ls_tensor sum, ls_dtype dtype);
// Repeats weights, also a scalar, to the shape of values, which messages call
// `noun`. Neither is failed.
//   LS_INVALID_ARGUMENT  other dimensions, or another size than theirs or 1
LS_MUST_USE ls_status ls_weights_repeat(const char *noun, ls_tensor values,
                                        ls_tensor *weights);
// Returns true if the strategy has cross-device ops of the user's, which must
// then replace all_reduce in a compiled step.
bool ls_shares_has_own_ops(const ls_shares *shares);
// Reduces all tensors to means or sums, in place, with one call of the user's
// cross-device ops.
LS_MUST_USE ls_status ls_shares_reduce_by_own(const ls_shares *shares,
                                              bool mean, ls_tensor *xs,
                                              size_t count);

#endif  // LS_NN_SHARES_H_
