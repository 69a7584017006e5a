// SPDX-License-Identifier: Apache-2.0
// Predictions: results of a model for each example, on request.
#include <string.h>

#include "base/require.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "estimator/calls/job.h"
#include "estimator/input/input.h"
#include "lockstep/ops.h"
#include "train/hooks/hook.h"
#include "train/hooks/saving.h"

struct ls_predictions {
  ls_runtime *runtime;  // Current in all calls.
  ls_job job;
  ls_monitored_session *session;
  ls_estimator_checkpoint checkpoint;  // For the first and later sessions.
  bool batches;
  ls_nest fetches;
  ls_nest batch;        // The run's requested predictions, borrowed.
  ls_nest padding;      // Marks the batch's rows of padding, borrowed.
  ls_nest whole;        // The batch without rows of padding.
  int64_t next, count;  // Next row, and number of rows, without padding.
  int64_t row;          // Row of the batch from which the next one is found.
  // Number of batches returned, and of those that a new session repeats.
  int64_t given, again;
  int64_t sessions;  // Number of sessions made.
  ls_status ended;   // Result of the predictions, once they have ended.
  bool has_ended;
};

// ---- Fetches --------------------------------------------------------
static bool predict_is_wanted(const ls_estimator_prediction *prediction,
                              const char *key) {
  for (size_t i = 0; i < prediction->num_keys; ++i)
    if (strcmp(prediction->keys[i], key) == 0) return true;
  return prediction->keys == NULL;
}

static ls_status no_keys(const ls_estimator_prediction *prediction,
                         ls_nest predictions) {
  return ls_invalid_argument(
      "none of the requested keys ('%s'%s) is one of the predictions %s",
      prediction->num_keys > 0 ? prediction->keys[0] : "",
      prediction->num_keys > 1 ? ", ..." : "", LS_NEST_TEXT(predictions));
}

static ls_status predict_choose(const ls_estimator_prediction *prediction,
                                ls_nest predictions, ls_nest *out) {
  if (predictions.kind != LS_KIND_DICT) {
    if (prediction->keys != NULL)
      return ls_invalid_argument("keys of predictions that are no dict");
    *out = ls_nest_retain(predictions);
    return ls_ok();
  }
  LS_OWN(ls_nest_builder, kept) = {0};
  for (size_t i = 0; i < ls_nest_count(predictions); ++i)
    if (predict_is_wanted(prediction, ls_nest_key(predictions, i)))
      ls_nest_builder_append_named(
          &kept, ls_nest_key(predictions, i),
          ls_nest_retain(ls_nest_item(predictions, i)));
  if (kept.count == 0 && kept.failed.kind == LS_KIND_NONE)
    return no_keys(prediction, predictions);
  return ls_take_nest(ls_nest_builder_finish(&kept, LS_KIND_DICT), out);
}

// Lists the predictions, the padding and the results of host calls, and the
// program that computes them: on cores, a step in each run.
static ls_status make_fetches(ls_predictions *self,
                              const ls_estimator_prediction *prediction) {
  const ls_job *job = &self->job;
  ls_nest wanted = ls_none();
  LS_RETURN_IF_ERROR(predict_choose(prediction, job->predictions, &wanted));
  return ls_take_nest(LS_LIST(wanted,
                              ls_tensor_is_failed(job->program.padding)
                                  ? ls_none()
                                  : ls_leaf(job->program.padding),
                              ls_nest_retain(job->program.host_results),
                              job->program.run.id != 0
                                  ? ls_nest_op(job->program.run)
                                  : ls_none()),
                      &self->fetches);
}

// ---- Hooks -----------------------------------------------------------------
static ls_status predict_add_hooks(ls_job *job,
                                   const ls_estimator_prediction *prediction) {
  const ls_estimator_spec_options *spec = ls_estimator_spec_values(job->spec);
  LS_GRAPH_SCOPE(job->graph);
  LS_RETURN_IF_ERROR(ls_job_add_hooks(job, LS_HOOKS_OF_INPUT));
  LS_RETURN_IF_ERROR(ls_hook_list_add_all(&job->hooks, prediction->hooks,
                                          prediction->num_hooks));
  LS_RETURN_IF_ERROR(ls_job_add_hooks(job, LS_HOOKS_OF_STEPS));
  LS_RETURN_IF_ERROR(ls_job_add_hooks(job, LS_HOOKS_BEFORE_MODEL));
  return ls_hook_list_add_all(&job->hooks, spec->prediction_hooks,
                              spec->num_prediction_hooks);
}

static ls_status predict_begin(ls_predictions *self,
                               const ls_estimator_prediction *prediction) {
  ls_job *job = &self->job;
  {
    LS_GRAPH_SCOPE(job->graph);
    LS_RETURN_IF_ERROR(job->kind->build(job));
  }
  LS_RETURN_IF_ERROR(make_fetches(self, prediction));
  LS_RETURN_IF_ERROR(ls_job_set_values(job));
  LS_RETURN_IF_ERROR(predict_add_hooks(job, prediction));
  return ls_job_session(job, false, &self->session);
}

// ---- End -------------------------------------------------------------------
// Ends the predictions. Keeps the result `how`, which is taken over, for later
// calls.
static void predict_end(ls_predictions *self, ls_status how) {
  if (self->has_ended) {
    ls_status_free(how);
    return;
  }
  const ls_status status = self->session != NULL
                               ? ls_monitored_session_close(self->session, how)
                               : how;
  self->session = NULL;
  ls_nest_release(self->fetches);
  self->fetches = ls_none();
  ls_nest_release(self->whole);
  self->whole = ls_none();
  self->job.estimator->has_predictions = false;
  self->ended = ls_job_end(&self->job, "prediction_loop", status);
  self->has_ended = true;
  ls_estimator_checkpoint_close(&self->checkpoint);
}

ls_status ls_estimator_predict(ls_estimator *estimator,
                               const ls_estimator_prediction *prediction,
                               ls_predictions **out_predictions) {
  LS_REQUIRE_OUT(out_predictions, estimator, prediction);
  LS_REQUIRE_EACH(prediction->keys, prediction->num_keys);
  LS_RETURN_IF_ERROR(
      ls_hooks_check("hooks", prediction->hooks, prediction->num_hooks));
  if (estimator->has_predictions)
    return ls_failed_precondition("predictions of this estimator are open: "
                                  "close them first (ls_predictions_close)");
  LS_NEW_OR_RETURN(ls_current_allocator(), ls_predictions, self);
  self->runtime = ls_runtime_current();
  self->batches = prediction->batches;
  self->job.stop = prediction->stop;
  self->job.checkpoint = &self->checkpoint;
  ls_status status =
      ls_job_begin(&self->job, estimator, LS_MODE_PREDICT, &prediction->input);
  self->job.estimator = estimator;
  estimator->has_predictions = true;
  if (ls_status_is_ok(status))
    status = ls_estimator_checkpoint_open(estimator, prediction->checkpoint,
                                          &self->checkpoint);
  if (ls_status_is_ok(status)) status = predict_begin(self, prediction);
  if (ls_status_is_ok(status)) {
    *out_predictions = self;
    return status;
  }
  predict_end(self, status);
  status = self->ended;
  ls_release(ls_current_allocator(), self);
  return status;
}

// ---- Rows ------------------------------------------------------------------
// Returns row `index` of an array, or none for other leaves.
static ls_nest row_of(ls_nest leaf, void *user) {
  const int64_t index = *(const int64_t *)user;
  const ls_array *from = ls_nest_as_array(leaf);
  ls_array *row = NULL;
  if (from == NULL) return ls_none();
  const ls_shape whole = ls_array_shape(from);
  ls_shape shape = {.rank = whole.rank - 1};
  for (int32_t i = 1; i < whole.rank; ++i)
    shape.dim[i - 1] = whole.dim[i];
  const size_t size =
      whole.dim[0] > 0 ? ls_array_size(from) / (size_t)whole.dim[0] : 0;
  LS_RETURN_FAILED_IF_ERROR(ls_array_create_copy(
      ls_array_dtype(from), shape,
      (const char *)ls_array_data(from) + size * (size_t)index, &row));
  return ls_nest_array(row);
}

static ls_status first_dimension(const char *key, ls_nest leaf,
                                 int64_t *count) {
  const ls_array *array = ls_nest_as_array(leaf);
  const ls_shape shape = array != NULL ? ls_array_shape(array) : LS_SCALAR;
  if (shape.rank < 1)
    return ls_invalid_argument("prediction '%s' has no rows", key);
  if (*count >= 0 && shape.dim[0] != *count)
    return ls_invalid_argument(
        "prediction '%s' has %lld rows, others have %lld", key,
        (long long)shape.dim[0], (long long)*count);
  *count = shape.dim[0];
  return ls_ok();
}

// Counts a batch's rows without padding, of which all predictions must have the
// same number.
static ls_status predict_count_rows(ls_predictions *self) {
  const ls_nest batch = self->batch;
  int64_t count = -1;
  self->count = 0;
  if (batch.kind == LS_KIND_DICT)
    for (size_t i = 0; i < ls_nest_count(batch); ++i)
      LS_RETURN_IF_ERROR(first_dimension(ls_nest_key(batch, i),
                                         ls_nest_item(batch, i), &count));
  else
    LS_RETURN_IF_ERROR(first_dimension("predictions", batch, &count));
  return ls_predictions_keep(batch, self->padding, &self->count);
}

// Takes the batch; a batch of only padding counts as no batch.
static ls_status take_batch(ls_predictions *self) {
  const ls_nest padding = self->padding;
  ls_nest_release(self->whole);
  self->whole = ls_none();
  self->count = 1;
  if (padding.kind == LS_KIND_NONE) {
    self->whole = ls_nest_retain(self->batch);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(ls_predictions_keep(self->batch, padding, &self->count));
  self->count = self->count > 0;
  return ls_predictions_rows(self->batch, padding, false, &self->whole);
}

// Runs the next batch. A new session starts from the beginning, so that it
// repeats batches already returned, which are skipped.
static ls_status run_next(ls_predictions *self, ls_nest *out_results) {
  if (ls_monitored_session_should_stop(self->session))
    return LS_STATUS(LS_OUT_OF_RANGE, "predictions have ended");
  LS_RETURN_IF_ERROR(ls_monitored_session_run(self->session, self->fetches,
                                              NULL, 0, out_results));
  const int64_t sessions = ls_monitored_sessions(self->session);
  if (sessions != self->sessions) self->again = self->given;
  self->sessions = sessions;
  return ls_ok();
}

static ls_status next_batch(ls_predictions *self) {
  ls_nest results = ls_none();
  for (;;) {
    LS_RETURN_IF_ERROR(run_next(self, &results));
    if (self->again == 0) break;
    --self->again;
  }
  ++self->given;
  self->batch = ls_nest_item(results, 0);
  self->padding = ls_nest_item(results, 1);
  self->next = self->row = 0;
  return self->batches ? take_batch(self) : predict_count_rows(self);
}

static ls_status predict_take(ls_predictions *self, ls_nest *row) {
  int64_t index = self->row;
  while (!self->batches && !ls_prediction_is_kept(self->padding, index))
    ++index;
  // Advances only after success, so that the caller may ask for the same row
  // again.
  LS_RETURN_IF_ERROR(
      ls_nest_give(self->batches ? ls_nest_retain(self->whole)
                                 : ls_nest_map(self->batch, row_of, &index),
                   row));
  ++self->next;
  self->row = index + 1;
  return ls_ok();
}

ls_status ls_predictions_next(ls_predictions *predictions, ls_nest *row) {
  LS_REQUIRE(row, predictions);
  ls_runtime *before = ls_runtime_make_current(predictions->runtime);
  while (!predictions->has_ended && predictions->next >= predictions->count) {
    const ls_status status = next_batch(predictions);
    if (!ls_status_is_ok(status)) predict_end(predictions, status);
  }
  (void)ls_runtime_make_current(before);
  if (!predictions->has_ended) return predict_take(predictions, row);
  return ls_status_is_ok(predictions->ended)
             ? LS_STATUS(LS_OUT_OF_RANGE, "there are no more predictions")
             : ls_status_clone(predictions->ended);
}

ls_status ls_predictions_close(ls_predictions *predictions) {
  if (predictions == NULL) return ls_ok();
  ls_runtime *before = ls_runtime_make_current(predictions->runtime);
  predict_end(predictions, ls_ok());
  const ls_status status = predictions->ended;
  ls_release(ls_current_allocator(), predictions);
  (void)ls_runtime_make_current(before);
  return status;
}
