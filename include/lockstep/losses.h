// SPDX-License-Identifier: Apache-2.0
// Layer: nn
//
// Losses and metrics.
//
// Threads: ops are added to the thread's current graph; a metric is used as its
// variables are.
#ifndef LOCKSTEP_LOSSES_H_
#define LOCKSTEP_LOSSES_H_

#include "lockstep/ops.h"
#include "lockstep/variable.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Losses ----------------------------------------------------------------
// Reduction of the losses of single elements or rows.
typedef enum ls_reduction {
  LS_REDUCTION_MEAN,  // Mean over all of them: a scalar.
  LS_REDUCTION_SUM,
  LS_REDUCTION_NONE,  // No reduction.
} ls_reduction;

LS_PLACED ls_tensor ls_reduce_loss(ls_tensor losses, ls_reduction reduction);
// Returns sum(weights losses) / sum(weights), a scalar: for rows that count
// more or, with a weight of 0, not at all. Weights have the losses' shape, or
// are repeated to it before both sums: a scalar, and a size of 1; [n] with
// [n, 1] fails. If their sum is 0, the result is 0. With ls_no_weights() it is
// the mean.
LS_PLACED ls_tensor ls_weighted_mean(ls_tensor losses, ls_tensor weights);

// Cross entropy by class. logits is [..., classes], labels [...] of integers,
// each the number of a class (see ls_softmax_cross_entropy): a loss per row.
// With smoothing s the target is 1 - s for the label, plus s shared evenly by
// all classes.
//   -(1 - s) log_softmax(logits)[label] - s mean(log_softmax(logits))
LS_PLACED ls_tensor ls_cross_entropy_loss(ls_tensor logits, ls_tensor labels,
                                          double smoothing,
                                          ls_reduction reduction);
// The mean of it without smoothing: a scalar.
LS_PLACED ls_tensor ls_mean_softmax_cross_entropy(ls_tensor logits,
                                                  ls_tensor labels);
// Cross entropy with probabilities as targets, shaped as the logits: a loss per
// row.
//   -sum(targets log_softmax(logits))
LS_PLACED ls_tensor ls_soft_cross_entropy_loss(ls_tensor logits,
                                               ls_tensor targets,
                                               ls_reduction reduction);
// Divergence of probabilities p from q, given as log q: sum(p log(p / q)) along
// the last axis, where 0 log 0 is 0. Both have the same shape. A loss per row.
LS_PLACED ls_tensor ls_kl_divergence_loss(ls_tensor log_q, ls_tensor p,
                                          ls_reduction reduction);

// The following losses are by element. Operands of as many dimensions
// broadcast, and a scalar to any shape; [n, 1] with [n] fails.
//
// -t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)), as softplus(z) - z u, where
// z and u are x and t or, for t above 1/2, -x and 1 - t: small losses keep
// their digits.
LS_PLACED ls_tensor ls_sigmoid_cross_entropy_loss(ls_tensor logits,
                                                  ls_tensor targets,
                                                  ls_reduction reduction);
LS_PLACED ls_tensor ls_mean_squared_error(ls_tensor x, ls_tensor y,
                                          ls_reduction reduction);
LS_PLACED ls_tensor ls_mean_absolute_error(ls_tensor x, ls_tensor y,
                                           ls_reduction reduction);
// (x - y)^2 / 2 up to |x - y| = delta, then delta (|x - y| - delta / 2). Delta
// 0: 1.
LS_PLACED ls_tensor ls_huber_loss(ls_tensor x, ls_tensor y, double delta,
                                  ls_reduction reduction);
// max(0, 1 - t x) for targets t of -1 and 1.
LS_PLACED ls_tensor ls_hinge_loss(ls_tensor x, ls_tensor targets,
                                  ls_reduction reduction);

// ---- Metrics ---------------------------------------------------------------
// Labels are as those of cross entropy: for logits [..., classes] integers
// [...], one for each row; [n, 1] with [n, classes] fails.
//
// Returns the fraction of rows whose largest logit is the label's, an f32
// scalar.
LS_PLACED ls_tensor ls_accuracy(ls_tensor logits, ls_tensor labels);
// Returns the number of such rows, an f32 scalar.
LS_PLACED ls_tensor ls_count_correct(ls_tensor logits, ls_tensor labels);
// Returns the fraction of rows whose label is among the k largest logits, equal
// ones taken by lower index; k is at least 1.
LS_PLACED ls_tensor ls_top_k_accuracy(ls_tensor logits, ls_tensor labels,
                                      int64_t k);

// Returns the mean over the examples of all replicas of a value, of floats,
// that is on each replica the mean over its own examples, as a loss or an
// accuracy. Each replica is weighted by its number of examples
// (ls_replica_examples); one without examples does not count, whatever its
// value. For a step's results: ls_all_reduce with LS_REDUCE_MEAN takes replicas
// as equals, and a mean over no examples is NaN. With one replica it is x.
LS_PLACED ls_tensor ls_examples_mean(ls_tensor x);

// A mean over many steps, kept in two variables: "<name>/total" and
// "<name>/count", f64 scalars. The caller destroys it.
typedef struct ls_running_mean ls_running_mean;
LS_API LS_MUST_USE ls_status ls_running_mean_create(const char *name,
                                                    ls_running_mean **out_mean);
LS_API void ls_running_mean_destroy(ls_running_mean *mean);  // NULL is fine.
// Adds all elements of `values`, on many replicas those of all: summed on each
// in the values' type (16-bit floats in f32, others than floats in f64), then
// along the tree. In a session the op must be fetched. Replicas that run op by
// op all make the call, in their callbacks themselves.
LS_PLACED ls_op ls_running_mean_update(ls_running_mean *mean, ls_tensor values);
// Returns total / count so far, an f64 scalar; NaN before the first update.
LS_PLACED ls_tensor ls_running_mean_value(const ls_running_mean *mean);
LS_PLACED ls_op ls_running_mean_reset(ls_running_mean *mean);
// Reads that number, outside of graphs.
LS_API LS_MUST_USE ls_status ls_running_mean_read(const ls_running_mean *mean,
                                                  double *out_mean);
// Lists the variables to save, lent. Writes up to `capacity`, returns their
// number.
LS_API size_t ls_running_mean_variables(const ls_running_mean *mean,
                                        ls_variable **variables,
                                        size_t capacity);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_LOSSES_H_
