// SPDX-License-Identifier: Apache-2.0
#include "lockstep/losses.h"

#include <math.h>

#include "base/plain.h"
#include "base/values/numbers.h"
#include "graph/make/make.h"
#include "nn/shares.h"

// Records how a loss is reduced: the last loss of a graph decides how losses
// are reduced over replicas.
static ls_tensor recorded(ls_tensor loss, const char *reduction) {
  if (ls_tensor_is_failed(loss)) return loss;
  const ls_status status =
      ls_graph_record_loss_reduction(ls_graph_current(), reduction);
  return ls_status_is_ok(status) ? loss : ls_make_failed("loss", status);
}

ls_tensor ls_reduce_loss(ls_tensor losses, ls_reduction reduction) {
  switch (reduction) {
  case LS_REDUCTION_MEAN:
    return recorded(ls_reduce_mean(losses, LS_ALL_AXES), "weighted_mean");
  case LS_REDUCTION_SUM:
    return recorded(ls_reduce_sum(losses, LS_ALL_AXES), "weighted_sum");
  case LS_REDUCTION_NONE:
    return recorded(losses, "none");
  }
  return ls_make_failed(
      "loss", ls_invalid_argument("there is no reduction %d", (int)reduction));
}

// Returns false after a failure if a loss with fractions is of integers, which
// would lose them.
static bool has_fractions(const char *loss, ls_tensor x,
                          ls_tensor *out_failed) {
  const ls_dtype dtype = ls_tensor_dtype(x);
  if (ls_tensor_is_failed(x) || ls_dtype_is_float(dtype)) return true;
  *out_failed = ls_make_failed(
      loss, ls_unimplemented("%s of %s: convert it to a float first", loss,
                             LS_SHAPE_TEXT(dtype, ls_tensor_shape(x))));
  return false;
}

ls_status ls_weights_repeat(const char *noun, ls_tensor values,
                            ls_tensor *weights) {
  const ls_shape shape = ls_tensor_shape(values);
  const ls_shape own = ls_tensor_shape(*weights);
  bool fits = own.rank <= 0 || shape.rank < 0 || own.rank == shape.rank;
  for (int32_t i = 0; fits && i < own.rank && i < shape.rank; ++i)
    fits = own.dim[i] == 1 || own.dim[i] < 0 || shape.dim[i] < 0 ||
           own.dim[i] == shape.dim[i];
  if (!fits)
    return ls_invalid_argument(
        "weights %s for %s %s: they need the same shape, a 1 in place of a "
        "size, or to be a scalar",
        LS_SHAPE_TEXT(ls_tensor_dtype(*weights), own), noun,
        LS_SHAPE_TEXT(ls_tensor_dtype(values), shape));
  if (!ls_shape_is_known(own) || !ls_shape_equal(own, shape))
    *weights = ls_broadcast_like(*weights, values);
  return ls_ok();
}

ls_tensor ls_weighted_mean(ls_tensor losses, ls_tensor weights) {
  if (ls_tensor_is_failed(weights) || ls_tensor_is_failed(losses))
    return ls_reduce_loss(losses, LS_REDUCTION_MEAN);
  const ls_dtype given = ls_tensor_dtype(losses), dtype = ls_wide_dtype(given);
  ls_tensor failed;
  if (!has_fractions("weighted mean", losses, &failed)) return failed;
  weights = ls_convert(weights, dtype);
  const ls_status status = ls_weights_repeat("losses", losses, &weights);
  if (!ls_status_is_ok(status)) return ls_make_failed("weighted mean", status);
  losses = ls_convert(losses, dtype);
  const ls_tensor zero = ls_scalar(dtype, 0), one = ls_scalar(dtype, 1);
  // The product of 0 with an infinity or NaN would be NaN.
  const ls_tensor weighted = ls_not_equal(weights, zero);
  const ls_tensor counts = ls_or(ls_is_finite(losses), weighted);
  const ls_tensor counted = ls_select(counts, losses, zero);
  const ls_tensor sum = ls_reduce_sum(ls_mul(counted, weights), LS_ALL_AXES);
  const ls_tensor total = ls_reduce_sum(weights, LS_ALL_AXES);
  const ls_tensor empty = ls_equal(total, zero);
  // Divides by 1 if there are no elements, because the gradient would be NaN.
  const ls_tensor mean =
      ls_select(empty, zero, ls_div(sum, ls_select(empty, one, total)));
  return recorded(ls_convert(mean, given), "weighted_mean");
}

// ---- Class labels ----------------------------------------------------------
ls_tensor ls_cross_entropy_loss(ls_tensor logits, ls_tensor labels,
                                double smoothing, ls_reduction reduction) {
  if (!(smoothing >= 0 && smoothing <= 1))
    return ls_make_failed(
        "cross entropy",
        ls_invalid_argument("label smoothing must be from 0 to 1, got %g",
                            smoothing));
  ls_tensor losses = ls_softmax_cross_entropy(logits, labels);
  if (smoothing > 0) {
    const ls_tensor even = ls_reduce_mean(ls_log_softmax(logits), LS_AXES(-1));
    const ls_tensor smooth = ls_mul_scalar(even, smoothing);
    losses = ls_sub(ls_mul_scalar(losses, 1 - smoothing), smooth);
  }
  return ls_reduce_loss(losses, reduction);
}

ls_tensor ls_mean_softmax_cross_entropy(ls_tensor logits, ls_tensor labels) {
  return ls_cross_entropy_loss(logits, labels, 0, LS_REDUCTION_MEAN);
}

ls_tensor ls_soft_cross_entropy_loss(ls_tensor logits, ls_tensor targets,
                                     ls_reduction reduction) {
  return ls_reduce_loss(ls_softmax_cross_entropy_soft(logits, targets),
                        reduction);
}

ls_tensor ls_kl_divergence_loss(ls_tensor log_q, ls_tensor p,
                                ls_reduction reduction) {
  p = ls_make_shaped_as("KL divergence", log_q, p);
  if (ls_tensor_is_failed(p)) return p;
  const ls_dtype dtype = ls_tensor_dtype(p);
  const ls_tensor zero = ls_scalar(dtype, 0), one = ls_scalar(dtype, 1);
  const ls_tensor some = ls_not_equal(p, zero);
  const ls_tensor log_p = ls_log(ls_select(some, p, one));
  // An infinity that is not used would make the gradient NaN.
  const ls_tensor used = ls_select(some, log_q, zero);
  const ls_tensor terms = ls_mul(p, ls_sub(log_p, used));
  const ls_tensor kept = ls_select(some, terms, zero);
  return ls_reduce_loss(ls_reduce_sum(kept, LS_AXES(-1)), reduction);
}

// ---- Elementwise -----------------------------------------------------------
// Returns true if one has more dimensions than the other, and neither is a
// scalar: [n, 1] and [n] would broadcast to [n, n]. Failed tensors pass,
// because they have reported their failure.
static bool ranks_differ(ls_tensor x, ls_tensor y) {
  if (ls_tensor_is_failed(x) || ls_tensor_is_failed(y)) return false;
  const int a = (int)ls_tensor_shape(x).rank, b = (int)ls_tensor_shape(y).rank;
  return a > 0 && b > 0 && a != b;
}

static ls_tensor refuse_ranks(const char *loss, ls_tensor x, ls_tensor y) {
  const ls_dtype dtype = ls_tensor_dtype(y);
  const ls_shape of_x = ls_tensor_shape(x), of_y = ls_tensor_shape(y);
  char remedy[160] = "";
  if (ls_shape_num_elements(of_x) == ls_shape_num_elements(of_y))
    ls_format(remedy, sizeof(remedy), "; ls_reshape can make the second %s",
              LS_SHAPE_TEXT(dtype, of_x));
  return ls_make_failed(
      loss, ls_invalid_argument("%s of %s and %s: they need as many dimensions "
                                "as each other, or one is a scalar%s",
                                loss, LS_SHAPE_TEXT(ls_tensor_dtype(x), of_x),
                                LS_SHAPE_TEXT(dtype, of_y), remedy));
}

ls_tensor ls_sigmoid_cross_entropy_loss(ls_tensor logits, ls_tensor targets,
                                        ls_reduction reduction) {
  if (ranks_differ(logits, targets))
    return refuse_ranks("sigmoid cross entropy", logits, targets);
  const ls_dtype dtype = ls_tensor_dtype(logits);
  ls_tensor failed;
  if (!has_fractions("sigmoid cross entropy", logits, &failed)) return failed;
  const ls_tensor one = ls_scalar(dtype, 1);
  const ls_tensor other = ls_greater(targets, ls_scalar(dtype, 0.5));
  const ls_tensor z = ls_select(other, ls_neg(logits), logits);
  const ls_tensor u = ls_select(other, ls_sub(one, targets), targets);
  const ls_tensor zu = ls_mul(z, u);
  return ls_reduce_loss(ls_sub(ls_softplus(z), zu), reduction);
}

ls_tensor ls_mean_squared_error(ls_tensor x, ls_tensor y,
                                ls_reduction reduction) {
  if (ranks_differ(x, y)) return refuse_ranks("mean squared error", x, y);
  return ls_reduce_loss(ls_square(ls_sub(x, y)), reduction);
}

ls_tensor ls_mean_absolute_error(ls_tensor x, ls_tensor y,
                                 ls_reduction reduction) {
  if (ranks_differ(x, y)) return refuse_ranks("mean absolute error", x, y);
  return ls_reduce_loss(ls_abs(ls_sub(x, y)), reduction);
}

// Returns true if the number is finite in this type.
static bool is_finite_in(ls_dtype dtype, double number) {
  uint64_t held = 0;
  ls_values_from_f64(dtype, &number, 1, &held);
  ls_values_to_f64(dtype, &held, 1, &number);
  return isfinite(number);
}

ls_tensor ls_huber_loss(ls_tensor x, ls_tensor y, double delta,
                        ls_reduction reduction) {
  ls_tensor failed;
  if (ranks_differ(x, y)) return refuse_ranks("huber", x, y);
  if (!has_fractions("huber", x, &failed)) return failed;
  if (delta == 0) delta = 1;
  if (!(delta > 0))
    return ls_make_failed(
        "huber", ls_invalid_argument("delta must be above 0, got %g", delta));
  // With c = min(|d|, delta) the loss is c^2 / 2 + delta (|d| - c).
  const ls_tensor distance = ls_abs(ls_sub(x, y));
  const ls_dtype dtype = ls_tensor_dtype(distance);
  const ls_tensor near = ls_minimum(distance, ls_scalar(dtype, delta));
  ls_tensor losses = ls_mul_scalar(ls_square(near), 0.5);
  if (is_finite_in(dtype, delta))
    losses = ls_add(losses, ls_mul_scalar(ls_sub(distance, near), delta));
  return ls_reduce_loss(losses, reduction);
}

ls_tensor ls_hinge_loss(ls_tensor x, ls_tensor targets,
                        ls_reduction reduction) {
  if (ranks_differ(x, targets)) return refuse_ranks("hinge", x, targets);
  const ls_tensor margin = ls_mul(x, targets);
  const ls_tensor one = ls_scalar(ls_tensor_dtype(margin), 1);
  return ls_reduce_loss(ls_relu(ls_sub(one, margin)), reduction);
}
