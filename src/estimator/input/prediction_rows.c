// SPDX-License-Identifier: Apache-2.0
// Predictions: signals of their batches, and rows that are not padding.
#include "estimator/input/input.h"

#include <string.h>

#include "base/memory/own.h"
#include "base/values/array_internal.h"
#include "base/values/nest_internal.h"
#include "data/iterator.h"
#include "lockstep/graph.h"
#include "train/hooks/hook.h"

// ---- Signals ---------------------------------------------------------------
ls_tensor ls_stopping_signal(ls_nest signals) {
  const ls_tensor stopping =
      ls_nest_tensor(ls_nest_find(signals, LS_SIGNAL_STOPPING), 0);
  return ls_reshape(
      ls_slice(stopping, LS_SHAPE(0, 0), LS_SHAPE(1, 1), LS_SCALAR), LS_SCALAR);
}

ls_nest ls_should_stop(ls_nest signal) {
  double number = 0;
  if (signal.kind == LS_KIND_TENSOR)
    return ls_leaf(ls_and(signal.as.tensor, ls_scalar(LS_DTYPE_BOOL, 1)));
  LS_RETURN_FAILED_IF_ERROR(ls_nest_to_number(signal, &number));
  return ls_nest_bool(number != 0);
}

// ---- Rows ------------------------------------------------------------------
static ls_shape prediction_rows_shape_of(ls_nest leaf) {
  const ls_array *array = ls_nest_as_array(leaf);
  if (array != NULL) return ls_array_shape(array);
  return leaf.kind == LS_KIND_TENSOR ? ls_tensor_shape(leaf.as.tensor)
                                     : LS_SHAPE_UNKNOWN;
}

static ls_status prediction_rows_check_leaf(const char *key, ls_nest leaf,
                                            int64_t rows) {
  const ls_shape shape = prediction_rows_shape_of(leaf);
  // A tensor's unknown size is checked at run time.
  if (leaf.kind == LS_KIND_TENSOR &&
      (shape.rank < 0 || (shape.rank > 0 && shape.dim[0] < 0)))
    return ls_ok();
  return shape.rank > 0 && shape.dim[0] == rows
             ? ls_ok()
             : ls_invalid_argument("prediction '%s' is of shape %s: its first "
                                   "dimension must be the batch's, %lld",
                                   key, LS_SHAPE_TEXT(LS_DTYPE_F32, shape) + 3,
                                   (long long)rows);
}

ls_status ls_predictions_check(ls_nest predictions, int64_t rows) {
  if (!ls_nest_is_node(predictions))
    return prediction_rows_check_leaf("", predictions, rows);
  for (size_t i = 0; i < ls_nest_count(predictions); ++i) {
    const char *key = ls_nest_key(predictions, i);
    LS_RETURN_IF_ERROR(prediction_rows_check_leaf(
        key != NULL ? key : "", ls_nest_item(predictions, i), rows));
  }
  return ls_ok();
}

static int64_t rows_of_first(ls_nest predictions) {
  ls_nest first = ls_none();
  if (ls_nest_flatten(predictions, &first, 1) == 0) return 0;
  const ls_shape shape = prediction_rows_shape_of(first);
  return shape.rank > 0 ? shape.dim[0] : 0;
}

bool ls_prediction_is_kept(ls_nest padding, int64_t row) {
  const ls_array *mask = ls_nest_as_array(padding);
  return mask == NULL || ls_array_i64(mask, row) == 0;
}

ls_status ls_predictions_keep(ls_nest predictions, ls_nest padding,
                              int64_t *out_rows) {
  const ls_array *mask = ls_nest_as_array(padding);
  *out_rows = rows_of_first(predictions);
  if (mask == NULL) return ls_ok();
  const int64_t count = ls_array_num_elements(mask);
  *out_rows = 0;
  for (int64_t i = 0; i < count; ++i)
    *out_rows += ls_prediction_is_kept(padding, i);
  return ls_predictions_check(predictions, count);
}

// Copies the rows of a leaf that are not padding.
static ls_nest keep_rows(ls_nest leaf, void *user) {
  const ls_nest *padding = user;
  const ls_array *from = ls_nest_as_array(leaf);
  ls_array *kept = NULL;
  int64_t count = 0;
  if (from == NULL)
    return LS_FAIL(LS_INVALID_ARGUMENT,
                   "predictions that are no arrays have no rows");
  ls_shape shape = ls_array_shape(from);
  const int64_t rows = shape.dim[0];
  const size_t size = rows > 0 ? ls_array_size(from) / (size_t)rows : 0;
  for (int64_t i = 0; i < rows; ++i)
    count += ls_prediction_is_kept(*padding, i);
  shape.dim[0] = count;
  const ls_status status = ls_array_create(ls_array_dtype(from), shape, &kept);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  ls_array_lend(kept);
  char *end = ls_array_mutable_data(kept);
  for (int64_t i = 0; i < rows; ++i) {
    if (!ls_prediction_is_kept(*padding, i)) continue;
    memcpy(end, (const char *)ls_array_data(from) + (size_t)i * size, size);
    end += size;
  }
  const ls_status owned = ls_array_own(kept);
  if (ls_status_is_ok(owned)) return ls_nest_array(kept);
  ls_array_release(kept);
  return ls_fail(owned);
}

ls_status ls_predictions_rows(ls_nest predictions, ls_nest padding, bool stops,
                              ls_nest *out_rows) {
  const ls_array *mask = ls_nest_as_array(padding);
  int64_t rows = 0;
  *out_rows = ls_none();
  if (!stops && mask != NULL)
    LS_RETURN_IF_ERROR(ls_predictions_keep(predictions, padding, &rows));
  if (stops || mask == NULL || rows == ls_array_num_elements(mask)) {
    *out_rows = ls_nest_retain(predictions);
    return ls_ok();
  }
  return ls_take_nest(ls_nest_map(predictions, keep_rows, &padding), out_rows);
}

// ---- Start of data sets ----------------------------------------------------
// The hook that starts data sets when a session begins. A new iterator is at
// its start; after a lost session it goes back there, unless a checkpoint
// restored its position.

typedef struct beginning {
  bool has_begun;  // True if an earlier session has begun.
  size_t count;
  ls_iterator **iterators;
  // How often each iterator was restored before the latest session's start.
  int64_t *restores;
  ls_allocator *allocator;
} beginning;

static void destroy_beginning(void *state) {
  beginning *self = state;
  for (size_t i = 0; self->iterators != NULL && i < self->count; ++i)
    ls_iterator_release(self->iterators[i]);
  ls_release(self->allocator, self->iterators);
  ls_release(self->allocator, self->restores);
}
LS_OWNED_STRUCT(beginning, destroy_beginning)

static ls_status begin_sets(void *state, ls_run_context *context) {
  beginning *self = state;
  const int64_t began = ls_runtime_now(context->runtime);
  for (size_t i = 0; i < self->count; ++i) {
    ls_iterator *iterator = self->iterators[i];
    if (self->has_begun && iterator->restores == self->restores[i])
      LS_RETURN_IF_ERROR(ls_iterator_seek_epoch(iterator, 0));
    self->restores[i] = iterator->restores;
    // Makes threads read the first elements ahead.
    (void)ls_ahead_is_ready(iterator->ahead, NULL, NULL);
  }
  self->has_begun = true;
  ls_runtime_log(context->runtime, LS_LOG_INFO, "estimator",
                 "began %zu data set%s of the input in %.3f s", self->count,
                 self->count == 1 ? "" : "s",
                 (double)(ls_runtime_now(context->runtime) - began) * 1e-9);
  return ls_ok();
}

static const ls_hook_type beginning_type = {.name = "data sets of the input",
                                            .size = sizeof(beginning),
                                            .needs_session = true,
                                            .after_create_session = begin_sets,
                                            .destroy = destroy_beginning};

ls_status ls_begin_hook(ls_iterator *const *iterators, size_t count,
                        ls_hook **out_hook) {
  LS_OWN(beginning, self) = {.allocator = ls_current_allocator(),
                             .count = count};
  *out_hook = NULL;
  self.iterators = ls_new_array(self.allocator, ls_iterator *, count + 1);
  self.restores = ls_new_array(self.allocator, int64_t, count + 1);
  LS_RETURN_IF_NO_MEMORY(self.iterators != NULL && self.restores != NULL);
  for (size_t i = 0; i < count; ++i)
    self.iterators[i] = ls_iterator_retain(iterators[i]);
  const beginning initial = ls_give(&self);
  return ls_hook_make(&beginning_type, &initial, out_hook);
}
