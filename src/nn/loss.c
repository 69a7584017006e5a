// SPDX-License-Identifier: Apache-2.0
// Losses and metrics.
#include "lockstep/nn.h"

ls_tensor ls_mean_softmax_cross_entropy(ls_tensor logits, ls_tensor labels) {
  return ls_reduce_mean(ls_softmax_cross_entropy(logits, labels), LS_ALL_AXES);
}

// 1 for each row whose largest logit is the label's, else 0.
static ls_tensor hits(ls_tensor logits, ls_tensor labels) {
  const ls_tensor guess = ls_argmax(logits, -1);
  return ls_convert(ls_equal(guess, ls_convert(labels, LS_DTYPE_I64)),
                    LS_DTYPE_F32);
}

ls_tensor ls_accuracy(ls_tensor logits, ls_tensor labels) {
  return ls_reduce_mean(hits(logits, labels), LS_ALL_AXES);
}

ls_tensor ls_count_correct(ls_tensor logits, ls_tensor labels) {
  return ls_reduce_sum(hits(logits, labels), LS_ALL_AXES);
}
