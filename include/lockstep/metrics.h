// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// Metrics: what an evaluation says of all its examples. Each is a pair of a
// value and of an op that adds a batch to it: a tuple, as specs of estimators
// take it (lockstep/estimator_spec.h).
//
//   ls_nest accuracy = ls_metric_accuracy(labels, classes, ls_failed_tensor(),
//                                         "accuracy");
//
// What it has seen is in variables that are no part of checkpoints, in the
// collections "local_variables" and "metric_variables". Before the first batch
// the value is 0. A value is of all examples together, whatever the batches. In
// a replica of a strategy the op adds what that replica has seen, to a variable
// with a component for each (ON_READ, SUM), and the value is of all of them.
//
// `weights` say how much an example counts, broadcast to the values, 0: not at
// all; a zeroed tensor (ls_no_weights): each counts once. `name` is that of the
// scope; NULL: the metric's. A failed operand gives a failed nest. Labels and
// predictions have one shape: another one is LS_INVALID_ARGUMENT, and names
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

// Sums and means of all elements.
LS_PLACED ls_nest ls_metric_sum(ls_tensor values, ls_tensor weights,
                                const char *name);
LS_PLACED ls_nest ls_metric_mean(ls_tensor values, ls_tensor weights,
                                 const char *name);
// How many predictions are the labels, of all: both of one type.
LS_PLACED ls_nest ls_metric_accuracy(ls_tensor labels, ls_tensor predictions,
                                     ls_tensor weights, const char *name);
// Of bools: how many of those predicted are so, and of those that are so are
// predicted.
LS_PLACED ls_nest ls_metric_precision(ls_tensor labels, ls_tensor predictions,
                                      ls_tensor weights, const char *name);
LS_PLACED ls_nest ls_metric_recall(ls_tensor labels, ls_tensor predictions,
                                   ls_tensor weights, const char *name);
// The area under the curve of true over false positives, of bool labels and
// predictions in [0, 1], by trapezoids between so many thresholds, evenly
// spread. Default 200.
//   LS_INVALID_ARGUMENT  fewer than 2.
LS_PLACED ls_nest ls_metric_auc(ls_tensor labels, ls_tensor predictions,
                                ls_tensor weights, ls_opt num_thresholds,
                                const char *name);
// The root of the mean of squared differences.
LS_PLACED ls_nest ls_metric_rmse(ls_tensor labels, ls_tensor predictions,
                                 ls_tensor weights, const char *name);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_METRICS_H_
