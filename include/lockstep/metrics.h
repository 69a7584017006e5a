// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// Metrics: aggregates of an evaluation over all its examples. Each is a tuple
// of a value and an op that adds a batch to it, as specs of estimators take it
// (lockstep/estimator_spec.h).
//
//   ls_nest accuracy = ls_metric_accuracy(labels, classes, ls_failed_tensor(),
//                                         "accuracy");
//
// Totals are in variables that no checkpoint stores, in the collections
// "local_variables" and "metric_variables". Before the first batch the value is
// 0. A value covers all examples together, however they are batched. In a
// replica of a strategy the op adds to a variable with a component for each
// replica (ON_READ, SUM), and the value covers all of them.
//
// `weights` weight the examples, 0: not counted: a scalar, or a tensor of as
// many dimensions as the values, each of the same size or 1; a zeroed tensor
// (ls_no_weights): each counts once. `name` is that of the scope;
// NULL: the metric's. A failed operand gives a failed nest. Labels and
// predictions must have the same shape: otherwise LS_INVALID_ARGUMENT names
// both.
//
// Threads: a graph belongs to the threads that build it, one at a time.
#ifndef LOCKSTEP_METRICS_H_
#define LOCKSTEP_METRICS_H_

#include "lockstep/hook.h"
#include "lockstep/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LS_COLLECTION_METRIC_VARIABLES "metric_variables"

static inline ls_tensor ls_no_weights(void) { return ls_failed_tensor(); }

// Sum and mean of all elements.
LS_PLACED ls_nest ls_metric_sum(ls_tensor values, ls_tensor weights,
                                const char *name);
LS_PLACED ls_nest ls_metric_mean(ls_tensor values, ls_tensor weights,
                                 const char *name);
// Fraction of predictions that equal the labels: both of one type.
LS_PLACED ls_nest ls_metric_accuracy(ls_tensor labels, ls_tensor predictions,
                                     ls_tensor weights, const char *name);
// For bools: the fraction of positive predictions that are correct, and the
// fraction of positive labels that are predicted.
LS_PLACED ls_nest ls_metric_precision(ls_tensor labels, ls_tensor predictions,
                                      ls_tensor weights, const char *name);
LS_PLACED ls_nest ls_metric_recall(ls_tensor labels, ls_tensor predictions,
                                   ls_tensor weights, const char *name);
// Area under the curve of true over false positives, for bool labels and
// predictions in [0, 1], by trapezoids between `num_thresholds` evenly spaced
// thresholds. Default 200.
//   LS_INVALID_ARGUMENT  fewer than 2.
LS_PLACED ls_nest ls_metric_auc(ls_tensor labels, ls_tensor predictions,
                                ls_tensor weights, ls_opt num_thresholds,
                                const char *name);
// Root of the mean of squared differences.
LS_PLACED ls_nest ls_metric_rmse(ls_tensor labels, ls_tensor predictions,
                                 ls_tensor weights, const char *name);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_METRICS_H_
