// SPDX-License-Identifier: Apache-2.0
//
// What a reduction does within each replica, before the sum over all, and with
// that sum afterwards: sums along axes, weights.
#ifndef LS_DISTRIBUTE_CROSS_DEVICE_WITHIN_H_
#define LS_DISTRIBUTE_CROSS_DEVICE_WITHIN_H_

#include "distribute/values/destinations.h"

typedef struct ls_within {
  ls_nest value;   // A PerReplica, to be summed; none: nothing has weight.
  double total;    // What a mean divides the sum by: elements, or weights.
  ls_tensor late;  // More of it, of sizes not known while building; or failed.
  bool divides;    // By a division, else by the reciprocal.
  ls_dtype dtype;  // Of the components as they were.
  ls_tensor like;  // One of them.
} ls_within;

// The sums of each component along the options' axes. The caller releases
// out_within->value.
//   LS_INVALID_ARGUMENT  an axis that there is not.
ls_status ls_sum_within(ls_nest leaf, const ls_reduce_options *options,
                        ls_within *out_within);
// The components times their weights; those of weight 0 are absent.
//   LS_INVALID_ARGUMENT  another number of weights, a negative one.
ls_status ls_weigh(ls_nest leaf, const ls_reduce_options *options,
                   ls_within *out_within);
// The weights' own check, and their sum.
ls_status ls_check_weights(const double *weights, size_t num_weights,
                           size_t count, double *out_total);
// The result of the sum over all components, a tensor leaf. The caller's.
ls_status ls_finish_within(ls_reduce_op op, const ls_within *within,
                           ls_nest sum, ls_nest *out_value);

#endif  // LS_DISTRIBUTE_CROSS_DEVICE_WITHIN_H_
