// SPDX-License-Identifier: Apache-2.0
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/numbers.h"
#include "distribute/variables/variable.h"
#include "graph/make/make.h"
#include "graph/trial.h"
#include "lockstep/losses.h"
#include "lockstep/shape_rules.h"
#include "nn/optimizer.h"
#include "nn/own.h"

// ---- One batch -------------------------------------------------------------
// Returns the labels as i64. Fails unless there is one integer for each row:
// other shapes would broadcast, and fractions be cut off.
static ls_tensor row_labels(ls_tensor logits, ls_tensor labels) {
  ls_shape rows = ls_tensor_shape(logits);
  const ls_shape shape = ls_tensor_shape(labels);
  if (rows.rank > 0) rows.dim[--rows.rank] = 0;
  const ls_dtype dtype = ls_tensor_dtype(labels);
  if (ls_tensor_is_failed(logits) || ls_tensor_is_failed(labels) ||
      (ls_shape_compatible(rows, shape) && ls_dtype_is_integer(dtype)))
    return ls_convert(labels, LS_DTYPE_I64);
  return ls_make_failed(
      "accuracy",
      ls_invalid_argument(
          "labels %s for logits %s: labels must be integers, one for each row "
          "of the logits; ls_reshape and ls_convert can make them so",
          LS_SHAPE_TEXT(dtype, shape),
          LS_SHAPE_TEXT(ls_tensor_dtype(logits), ls_tensor_shape(logits))));
}

// Returns 1 for each row whose largest logit is at the label, else 0.
static ls_tensor count_hits(ls_tensor logits, ls_tensor labels) {
  const ls_tensor guess = ls_argmax(logits, -1);
  return ls_convert(ls_equal(guess, row_labels(logits, labels)), LS_DTYPE_F32);
}

ls_tensor ls_accuracy(ls_tensor logits, ls_tensor labels) {
  return ls_reduce_mean(count_hits(logits, labels), LS_ALL_AXES);
}

ls_tensor ls_count_correct(ls_tensor logits, ls_tensor labels) {
  return ls_reduce_sum(count_hits(logits, labels), LS_ALL_AXES);
}

// Appends a dimension of size 1.
static ls_tensor as_column(ls_tensor x) {
  ls_shape shape = ls_tensor_shape(x);
  if (shape.rank < 0 || shape.rank == LS_MAX_RANK) return x;
  shape.dim[shape.rank++] = 1;
  return ls_reshape(x, shape);
}

ls_tensor ls_top_k_accuracy(ls_tensor logits, ls_tensor labels, int64_t k) {
  if (k < 1)
    return ls_make_failed(
        "top_k_accuracy",
        ls_invalid_argument("k must be at least 1, got %lld", (long long)k));
  const ls_tensor best = ls_op_output(ls_top_k(logits, k), 1);
  const ls_tensor label = as_column(row_labels(logits, labels));
  const ls_tensor found =
      ls_convert(ls_equal(ls_convert(best, LS_DTYPE_I64), label), LS_DTYPE_F32);
  return ls_reduce_mean(ls_reduce_max(found, LS_AXES(-1)), LS_ALL_AXES);
}

// ---- Many batches ----------------------------------------------------------
struct ls_running_mean {
  ls_allocator *allocator;
  char *name;
  ls_variable *total, *count;
};

static ls_status metric_create_variables(ls_running_mean *mean) {
  LS_NAME_SCOPE(mean->name);
  ls_variable_options options = {
      .name = "total", .dtype = LS_DTYPE_F64, .trainable = LS_FLAG_OFF};
  LS_RETURN_IF_ERROR(ls_variable_create(&options, &mean->total));
  options.name = "count";
  return ls_variable_create(&options, &mean->count);
}

ls_status ls_running_mean_create(const char *name, ls_running_mean **out_mean) {
  LS_REQUIRE_OUT(out_mean);
  if (name == NULL) name = "mean";
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_NEW_OR_RETURN(allocator, ls_running_mean, mean);
  mean->allocator = allocator;
  mean->name = ls_copy_text(allocator, name, strlen(name));
  LS_RETURN_IF_ERROR(LS_TRIAL(mean->name != NULL ? metric_create_variables(mean)
                                                 : ls_out_of_memory()));
  return ls_hand_over(&mean, out_mean);
}

void ls_running_mean_destroy(ls_running_mean *mean) {
  if (mean == NULL) return;
  ls_variable_release(mean->total);
  ls_variable_release(mean->count);
  ls_release(mean->allocator, mean->name);
  ls_release(mean->allocator, mean);
}

size_t ls_running_mean_variables(const ls_running_mean *mean,
                                 ls_variable **variables, size_t capacity) {
  if (capacity > 0) variables[0] = mean->total;
  if (capacity > 1) variables[1] = mean->count;
  return 2;
}

static ls_tensor sum_of_all(ls_tensor x) {
  return ls_num_replicas() > 1 ? ls_all_reduce(LS_REDUCE_SUM, x) : x;
}

ls_op ls_running_mean_update(ls_running_mean *mean, ls_tensor values) {
  LS_MAKE_REQUIRE_FOR_OP(mean);
  ls_op ops[2] = {{0}};
  LS_NAME_SCOPE(mean->name);
  const ls_dtype dtype = ls_tensor_dtype(values);
  if (ls_is_half(dtype))
    values = ls_convert(values, LS_DTYPE_F32);
  else if (!ls_dtype_is_float(dtype))
    values = ls_convert(values, LS_DTYPE_F64);
  const ls_tensor ones = ls_broadcast_like(ls_scalar(LS_DTYPE_F64, 1), values);
  const ls_tensor sum =
      ls_convert(ls_reduce_sum(values, LS_ALL_AXES), LS_DTYPE_F64);
  const ls_tensor number = ls_reduce_sum(ones, LS_ALL_AXES);
  ops[0] = ls_tensor_op(
      ls_write_common(mean->total, LS_OP_ASSIGN_ADD, sum_of_all(sum)));
  ops[1] = ls_tensor_op(
      ls_write_common(mean->count, LS_OP_ASSIGN_ADD, sum_of_all(number)));
  return ls_join_ops(ops, 2, "update");
}

ls_tensor ls_running_mean_value(const ls_running_mean *mean) {
  LS_MAKE_REQUIRE(mean);
  LS_NAME_SCOPE(mean->name);
  const ls_tensor count = ls_variable_read(mean->count);
  return ls_div(ls_variable_read(mean->total), count);
}

ls_status ls_running_mean_read(const ls_running_mean *mean, double *out_mean) {
  LS_REQUIRE_OUT(out_mean, mean);
  LS_OWN(ls_array, total) = NULL;
  LS_OWN(ls_array, count) = NULL;
  LS_RETURN_IF_ERROR(ls_variable_value(mean->total, &total));
  LS_RETURN_IF_ERROR(ls_variable_value(mean->count, &count));
  *out_mean = ls_array_f64(total, 0) / ls_array_f64(count, 0);
  return ls_ok();
}

ls_op ls_running_mean_reset(ls_running_mean *mean) {
  LS_MAKE_REQUIRE_FOR_OP(mean);
  const ls_tensor zero = ls_scalar(LS_DTYPE_F64, 0);
  ls_op ops[2] = {{0}};
  LS_NAME_SCOPE(mean->name);
  ops[0] = ls_tensor_op(ls_variable_assign(mean->total, zero));
  ops[1] = ls_tensor_op(ls_variable_assign(mean->count, zero));
  return ls_join_ops(ops, 2, "reset");
}
