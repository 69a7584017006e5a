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
// What becomes of the losses of single elements or rows.
typedef enum ls_reduction {
  LS_REDUCTION_MEAN,  // Over all of them: a scalar.
  LS_REDUCTION_SUM,
  LS_REDUCTION_NONE,  // They stay apart.
} ls_reduction;

LS_PLACED ls_tensor ls_reduce_loss(ls_tensor losses, ls_reduction reduction);
// sum(weights losses) / sum(weights), a scalar: for rows that count more or,
// with a weight of 0, not at all. Weights are shaped as the losses; where their
// sum is 0, so is the result. With ls_no_weights() it is the mean.
LS_PLACED ls_tensor ls_weighted_mean(ls_tensor losses, ls_tensor weights);

// By class. logits is [..., classes], labels [...] of integers, each the number
// of a class (see ls_softmax_cross_entropy): a loss for each row. With
// smoothing s the label's part of the target is 1 - s, and s is shared evenly
// by all classes.
//   -(1 - s) log_softmax(logits)[label] - s mean(log_softmax(logits))
LS_PLACED ls_tensor ls_cross_entropy_loss(ls_tensor logits, ls_tensor labels,
                                          double smoothing,
                                          ls_reduction reduction);
// The mean, without smoothing: a scalar.
LS_PLACED ls_tensor ls_mean_softmax_cross_entropy(ls_tensor logits,
                                                  ls_tensor labels);
// Targets are probabilities, shaped as the logits: a loss for each row.
//   -sum(targets log_softmax(logits))
LS_PLACED ls_tensor ls_soft_cross_entropy_loss(ls_tensor logits,
                                               ls_tensor targets,
                                               ls_reduction reduction);
// sum(p log(p / q)) along the last axis, where 0 log 0 is 0: the divergence of
// probabilities p from q, given as log q. A loss for each row.
LS_PLACED ls_tensor ls_kl_divergence_loss(ls_tensor log_q, ls_tensor p,
                                          ls_reduction reduction);

// By element; both operands broadcast.
//
// -t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)), as softplus(x) - x t
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
// The part of rows whose largest logit is the label's, an f32 scalar.
LS_PLACED ls_tensor ls_accuracy(ls_tensor logits, ls_tensor labels);
// Their number, an f32 scalar.
LS_PLACED ls_tensor ls_count_correct(ls_tensor logits, ls_tensor labels);
// The part of rows whose label is among the k largest logits, of equal ones
// those of lower index.
LS_PLACED ls_tensor ls_top_k_accuracy(ls_tensor logits, ls_tensor labels,
                                      int64_t k);

// A mean that runs over many steps, in two variables: "<name>/total" and
// "<name>/count", f64 scalars. Owned by one.
typedef struct ls_running_mean ls_running_mean;
LS_API LS_MUST_USE ls_status ls_running_mean_create(const char *name,
                                                    ls_running_mean **out_mean);
LS_API void ls_running_mean_destroy(ls_running_mean *mean);  // NULL is fine.
// Takes all elements of `values` in, on many replicas those of all: summed on
// each in the values' type (16-bit floats in f32), then along the tree. In a
// session the op is to be fetched.
LS_PLACED ls_op ls_running_mean_update(ls_running_mean *mean, ls_tensor values);
// total / count so far, an f64 scalar; nan before the first update.
LS_PLACED ls_tensor ls_running_mean_value(const ls_running_mean *mean);
LS_PLACED ls_op ls_running_mean_reset(ls_running_mean *mean);
// What there is to save, lent. Writes up to `capacity`, returns their number.
LS_API size_t ls_running_mean_variables(const ls_running_mean *mean,
                                        ls_variable **variables,
                                        size_t capacity);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_LOSSES_H_
