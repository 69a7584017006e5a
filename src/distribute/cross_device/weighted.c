// SPDX-License-Identifier: Apache-2.0
//
// Means over the replicas by weights, from within them.
#include "base/memory/own.h"
#include "base/values/numbers.h"
#include "distribute/context/context.h"
#include "distribute/cross_device/cross_device.h"
#include "distribute/cross_device/within.h"
#include "graph/compare/compare.h"
#include "graph/make/make.h"
#include "lockstep/strategy_extended.h"

typedef struct weighting {
  const double *weights;
  size_t count;
  double total;
} weighting;

// This replica's weight. The same ops on all of them, whose traces are one.
static ls_tensor own_weight(const weighting *w, ls_dtype dtype) {
  LS_OWN(ls_array, array) = NULL;
  const ls_status status =
      ls_array_create(dtype, LS_SHAPE((int64_t)w->count), &array);
  if (!ls_status_is_ok(status)) return ls_make_failed("weighted_mean", status);
  for (size_t i = 0; i < w->count; ++i)
    ls_array_set_f64(array, (int64_t)i, w->weights[i]);
  const ls_tensor all = ls_constant(array);
  return ls_gather(all, ls_replica_id(), 0);
}

static ls_nest weighted_leaf(ls_nest leaf, void *user) {
  const weighting *w = user;
  ls_tensor x;
  const ls_status status = ls_distributed_as_tensor(leaf, &x);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_dtype mean = ls_mean_dtype(ls_tensor_dtype(x));
  const ls_dtype wide = ls_is_half(mean) ? LS_DTYPE_F32 : mean;
  const ls_tensor weight = own_weight(w, wide);
  // -0 added to any number is that number, which +0 is not.
  const ls_tensor present =
      ls_select(ls_greater(weight, ls_scalar(wide, 0)),
                ls_mul(ls_convert(x, wide), weight), ls_scalar(wide, -0.0));
  const ls_tensor sum = ls_all_reduce(LS_REDUCE_SUM, present);
  const ls_tensor made = ls_convert(ls_mean_of_sum(sum, w->total, false), mean);
  return ls_leaf(ls_same_note(made));
}

ls_nest ls_replica_weighted_mean(ls_replica *replica, ls_nest nest,
                                 const double *weights, size_t num_weights) {
  ls_status status = ls_replica_check(replica, "weighted_mean");
  weighting w = {.weights = weights, .count = num_weights};
  if (ls_status_is_ok(status))
    status = ls_replica_check_others(replica, "weighted_mean");
  if (ls_status_is_ok(status) && weights == NULL)
    status = ls_invalid_argument("the weights are NULL");
  if (ls_status_is_ok(status))
    status = ls_check_weights(weights, num_weights, (size_t)replica->count,
                              &w.total);
  return ls_status_is_ok(status) ? ls_nest_map(nest, weighted_leaf, &w)
                                 : ls_fail(status);
}
