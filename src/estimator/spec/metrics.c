// SPDX-License-Identifier: Apache-2.0
//
// Metrics: sums in variables, and a quotient of sums. Sums are f64, so that
// counts of examples are exact. Each replica has sums of its own, which are
// added when the metric is read.
#include "lockstep/metrics.h"
#include "base/memory/own.h"

#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "graph/make/make.h"
#include "graph/own.h"
#include "lockstep/replica.h"
#include "lockstep/shape_rules.h"
#include "nn/shares.h"

enum { MOST_SUMS = 4 };

// ---- Sums ------------------------------------------------------------------
// A sum to which batches are added.
typedef struct sum {
  ls_tensor before;  // Value for reading the metric.
  ls_tensor after;   // Value after the update.
} sum;

static ls_status make_sum(const char *name, ls_tensor of_batch, sum *out) {
  static const char *const collections[] = {LS_COLLECTION_LOCAL_VARIABLES,
                                            LS_COLLECTION_METRIC_VARIABLES};
  const bool has_others = ls_has_strategy() && ls_num_replicas() > 1;
  LS_OWN(ls_variable, variable) = NULL;  // The graph holds a reference, too.
  LS_RETURN_IF_ERROR(ls_variable_create(
      &(ls_variable_options){
          .name = name,
          .dtype = LS_DTYPE_F64,
          .shape = ls_tensor_shape(of_batch),
          .trainable = LS_FLAG_OFF,
          .synchronization =
              has_others ? LS_SYNCHRONIZATION_ON_READ : LS_SYNCHRONIZATION_AUTO,
          .aggregation = has_others ? LS_AGGREGATION_SUM : LS_AGGREGATION_NONE,
          .collections = collections,
          .num_collections = 2},
      &variable));
  out->before = ls_variable_read(variable);
  if (has_others) out->before = ls_all_reduce(LS_REDUCE_SUM, out->before);
  out->after = ls_variable_assign_add(variable, of_batch);
  return ls_ok();
}

static bool metrics_is_given(ls_tensor weights) {
  return weights.graph != NULL;
}

static ls_tensor as_f64(ls_tensor x) { return ls_convert(x, LS_DTYPE_F64); }

// Returns the weight of each element of `values`.
static ls_tensor weights_like(ls_tensor weights, ls_tensor values) {
  ls_tensor each =
      metrics_is_given(weights) ? as_f64(weights) : ls_scalar(LS_DTYPE_F64, 1);
  if (ls_tensor_is_failed(each) || ls_tensor_is_failed(values))
    return ls_broadcast_like(each, values);
  const ls_status status = ls_weights_repeat("values", values, &each);
  return ls_status_is_ok(status) ? each : ls_make_failed("metric", status);
}

// ---- Pairs -----------------------------------------------------------------
// Makes a metric from sums over batches, or fails if a sum cannot be made.
static ls_nest make_metric(const char *const *names, const ls_tensor *of_batch,
                           size_t count,
                           ls_tensor (*value_of)(const ls_tensor *sums)) {
  sum sums[MOST_SUMS];
  ls_tensor before[MOST_SUMS] = {{0}};
  for (size_t i = 0; i < count; ++i) {
    LS_RETURN_FAILED_IF_ERROR(ls_tensor_is_failed(of_batch[i])
                                  ? ls_graph_take_error(ls_graph_current())
                                  : make_sum(names[i], of_batch[i], &sums[i]));
    if (ls_tensor_is_failed(of_batch[i]))
      return LS_FAIL(LS_INVALID_ARGUMENT, "a metric of a failed tensor");
    before[i] = sums[i].before;
  }
  ls_op ops[MOST_SUMS];
  for (size_t i = 0; i < count; ++i)
    ops[i] = ls_tensor_op(sums[i].after);
  const ls_tensor result = ls_convert(value_of(before), LS_DTYPE_F32);
  const ls_op update = ls_group(ops, count, "update");
  LS_RETURN_FAILED_IF_ERROR(ls_graph_take_error(ls_graph_current()));
  return LS_TUPLE(ls_leaf(result), ls_nest_op(update));
}

// ---- Checks ----------------------------------------------------------------
// Returns true if labels and predictions have one shape: with broadcasting,
// labels would count several times. Failed tensors pass, because they report
// their own failure.
static bool is_alike(ls_tensor labels, ls_tensor predictions) {
  return ls_tensor_is_failed(labels) || ls_tensor_is_failed(predictions) ||
         ls_shape_compatible(ls_tensor_shape(labels),
                             ls_tensor_shape(predictions));
}

static ls_nest metrics_refuse(const char *metric, ls_tensor labels,
                              ls_tensor predictions) {
  return LS_FAIL(
      LS_INVALID_ARGUMENT,
      "metric '%s' of labels %s and predictions %s: both have one shape",
      metric, LS_SHAPE_TEXT(ls_tensor_dtype(labels), ls_tensor_shape(labels)),
      LS_SHAPE_TEXT(ls_tensor_dtype(predictions),
                    ls_tensor_shape(predictions)));
}

// ---- Sums and means --------------------------------------------------------
static ls_tensor first_of(const ls_tensor *sums) { return sums[0]; }
static ls_tensor mean_of(const ls_tensor *sums) {
  // Returns 0 if the weights are 0.
  const ls_tensor zero = ls_scalar(LS_DTYPE_F64, 0);
  const ls_tensor is_some = ls_greater(sums[1], zero);
  const ls_tensor safe =
      ls_select(is_some, sums[1], ls_scalar(LS_DTYPE_F64, 1));
  return ls_select(is_some, ls_div(sums[0], safe), zero);
}
static ls_tensor root_of_mean(const ls_tensor *sums) {
  return ls_sqrt(mean_of(sums));
}

static ls_tensor add_up(ls_tensor values, ls_tensor weights) {
  return ls_reduce_sum(ls_mul(as_f64(values), weights), LS_ALL_AXES);
}

// Adds the same up, leaving out values of weight 0: those of padded rows may be
// NaN or infinite.
static ls_tensor add_present(ls_tensor values, ls_tensor weights,
                             ls_tensor each) {
  if (!metrics_is_given(weights) || !ls_dtype_is_float(ls_tensor_dtype(values)))
    return add_up(values, each);
  const ls_tensor zeros = ls_broadcast_like(ls_scalar(LS_DTYPE_F64, 0), values);
  const ls_tensor wide = as_f64(values);
  return add_up(ls_select(ls_equal(each, zeros), zeros, wide), each);
}

static ls_nest mean_metric(ls_tensor values, ls_tensor weights,
                           ls_tensor (*value_of)(const ls_tensor *sums)) {
  static const char *const names[] = {"total", "count"};
  const ls_tensor each = weights_like(weights, values);
  const ls_tensor batch[] = {add_present(values, weights, each),
                             ls_reduce_sum(each, LS_ALL_AXES)};
  return make_metric(names, batch, 2, value_of);
}

ls_nest ls_metric_sum(ls_tensor values, ls_tensor weights, const char *name) {
  static const char *const names[] = {"total"};
  LS_NAME_SCOPE(name != NULL ? name : "sum");
  const ls_tensor batch[] = {
      add_present(values, weights, weights_like(weights, values))};
  return make_metric(names, batch, 1, first_of);
}

ls_nest ls_metric_mean(ls_tensor values, ls_tensor weights, const char *name) {
  LS_NAME_SCOPE(name != NULL ? name : "mean");
  return mean_metric(values, weights, mean_of);
}

ls_nest ls_metric_accuracy(ls_tensor labels, ls_tensor predictions,
                           ls_tensor weights, const char *name) {
  if (!is_alike(labels, predictions))
    return metrics_refuse("accuracy", labels, predictions);
  LS_NAME_SCOPE(name != NULL ? name : "accuracy");
  return mean_metric(ls_equal(labels, predictions), weights, mean_of);
}

ls_nest ls_metric_rmse(ls_tensor labels, ls_tensor predictions,
                       ls_tensor weights, const char *name) {
  if (!is_alike(labels, predictions))
    return metrics_refuse("root_mean_squared_error", labels, predictions);
  LS_NAME_SCOPE(name != NULL ? name : "root_mean_squared_error");
  const ls_tensor predicted = as_f64(predictions);
  const ls_tensor off = ls_sub(as_f64(labels), predicted);
  return mean_metric(ls_square(off), weights, root_of_mean);
}

// ---- Positives -------------------------------------------------------------
// Makes a metric, the quotient of two sums: of elements where both bools hold,
// and of those where the first holds.
static ls_nest share_metric(ls_tensor selected, ls_tensor matching,
                            ls_tensor weights, const char *both,
                            const char *one) {
  const char *const names[] = {both, one};
  const ls_tensor each = weights_like(weights, selected);
  const ls_tensor hit = add_up(ls_and(selected, matching), each);
  const ls_tensor batch[] = {hit, add_up(selected, each)};
  return make_metric(names, batch, 2, mean_of);
}

ls_nest ls_metric_precision(ls_tensor labels, ls_tensor predictions,
                            ls_tensor weights, const char *name) {
  if (!is_alike(labels, predictions))
    return metrics_refuse("precision", labels, predictions);
  LS_NAME_SCOPE(name != NULL ? name : "precision");
  return share_metric(predictions, labels, weights, "true_positives",
                      "positives");
}

ls_nest ls_metric_recall(ls_tensor labels, ls_tensor predictions,
                         ls_tensor weights, const char *name) {
  if (!is_alike(labels, predictions))
    return metrics_refuse("recall", labels, predictions);
  LS_NAME_SCOPE(name != NULL ? name : "recall");
  return share_metric(labels, predictions, weights, "true_positives", "true");
}

// ---- Curves ----------------------------------------------------------------
// Makes the thresholds, [count, 1]; the first and the last are outside the
// range of predictions.
static ls_tensor make_thresholds(int64_t count) {
  const double beyond = 1e-7;
  LS_OWN(ls_array, array) = NULL;
  const ls_status status =
      ls_array_create(LS_DTYPE_F64, LS_SHAPE(count, 1), &array);
  if (!ls_status_is_ok(status)) return ls_make_failed("auc", status);
  double *values = ls_array_mutable_data(array);
  for (int64_t i = 0; i < count; ++i)
    values[i] = (double)i / (double)(count - 1);
  values[0] = -beyond;
  values[count - 1] = 1 + beyond;
  return ls_constant(array);
}

// Computes the area under the curve from four sums: true and false positives
// per threshold, and all positives and negatives.
static ls_tensor area_of(const ls_tensor *sums) {
  const double tiny = 1e-7;
  const ls_tensor positives = ls_add_scalar(sums[2], tiny);
  const ls_tensor tpr = ls_div(ls_add_scalar(sums[0], tiny), positives);
  const ls_tensor fpr = ls_div(sums[1], ls_add_scalar(sums[3], tiny));
  const int64_t count = ls_tensor_shape(tpr).dim[0];
  const ls_tensor next_fpr = ls_slice_axis(fpr, 0, 1, count);
  const ls_tensor width = ls_sub(ls_slice_axis(fpr, 0, 0, count - 1), next_fpr);
  const ls_tensor next_tpr = ls_slice_axis(tpr, 0, 1, count);
  const ls_tensor height =
      ls_add(ls_slice_axis(tpr, 0, 0, count - 1), next_tpr);
  return ls_mul_scalar(ls_reduce_sum(ls_mul(width, height), LS_ALL_AXES), 0.5);
}

ls_nest ls_metric_auc(ls_tensor labels, ls_tensor predictions,
                      ls_tensor weights, ls_opt num_thresholds,
                      const char *name) {
  enum { THRESHOLDS = 200 };
  static const char *const names[] = {"true_positives", "false_positives",
                                      "true", "false"};
  const int64_t count = num_thresholds.set ? num_thresholds.value : THRESHOLDS;
  if (count < 2)
    return LS_FAIL(
        LS_INVALID_ARGUMENT,
        "an area under a curve by %lld thresholds: at least 2 are needed",
        (long long)count);
  if (!is_alike(labels, predictions))
    return metrics_refuse("auc", labels, predictions);
  LS_NAME_SCOPE(name != NULL ? name : "auc");
  const ls_tensor each =
      ls_reshape(weights_like(weights, labels), LS_SHAPE(1, -1));
  const ls_tensor so = ls_reshape(labels, LS_SHAPE(1, -1));
  const ls_tensor thresholds = make_thresholds(count);
  const ls_tensor above =
      ls_greater(ls_reshape(as_f64(predictions), LS_SHAPE(1, -1)), thresholds);
  const ls_tensor true_positive = ls_mul(as_f64(ls_and(above, so)), each);
  const ls_tensor false_positive =
      ls_mul(as_f64(ls_and(above, ls_not(so))), each);
  const ls_tensor batch[] = {ls_reduce_sum(true_positive, LS_AXES(1)),
                             ls_reduce_sum(false_positive, LS_AXES(1)),
                             add_up(so, each), add_up(ls_not(so), each)};
  return make_metric(names, batch, 4, area_of);
}
