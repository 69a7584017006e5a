// SPDX-License-Identifier: Apache-2.0
#include "train/early_stop.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/status_cause.h"
#include "lockstep/tasks.h"

static const char state_name[] = "early stop";

// ---- The metric ------------------------------------------------------------
ls_status ls_stop_metric_parse(const char *text, const ls_task *task,
                               ls_stop_metric *out) {
  char metric[sizeof(out->name)];
  const char *const names[] = {"test_loss", metric};
  const size_t size = strcspn(text, ":");
  const char *way = text[size] == ':' ? text + size + 1 : NULL;
  *out = (ls_stop_metric){0};
  snprintf(metric, sizeof(metric), "test_%s", task->metric);
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i) {
    if (strlen(names[i]) == size && memcmp(names[i], text, size) == 0)
      snprintf(out->name, sizeof(out->name), "%s", names[i]);
  }
  const bool is_known =
      way == NULL || strcmp(way, "min") == 0 || strcmp(way, "max") == 0;
  if (out->name[0] == '\0' || !is_known)
    return ls_invalid_argument(
        "a run stops early by test_loss or %s, with :min or :max after it, not "
        "by '%s'",
        metric, text);
  out->is_high = way != NULL ? strcmp(way, "max") == 0
                             : strcmp(out->name, "test_loss") != 0 &&
                                   !task->less_is_better;
  return ls_ok();
}

// ---- Counting --------------------------------------------------------------
void ls_early_stop_count(ls_early_stop *self, const ls_stop_metric *metric,
                         const ls_train_options *options, int64_t step,
                         const ls_evaluation *evaluation) {
  if (step > self->step) {
    const double value = strcmp(metric->name, "test_loss") == 0
                             ? evaluation->loss
                             : evaluation->accuracy;
    const double gain =
        metric->is_high ? value - self->best : self->best - value;
    const bool is_better =
        self->best_step == 0 || gain > options->min_delta || isnan(self->best);
    self->step = step;
    ++self->waited;
    if (is_better && !isnan(value)) {
      self->best = value;
      self->best_step = step;
      self->waited = 0;
    }
  }
  // A run that is resumed may have another patience.
  self->is_over = self->waited >= options->patience;
}

// ---- State -----------------------------------------------------------------
ls_status ls_early_stop_save(const ls_early_stop *self, const char *rule,
                             ls_record *record) {
  ls_record *state = NULL;
  LS_RETURN_IF_ERROR(ls_record_add(record, state_name, &state));
  LS_RETURN_IF_ERROR(ls_record_set_text(state, "rule", rule));
  LS_RETURN_IF_ERROR(ls_record_set_i64(state, "step", self->step));
  LS_RETURN_IF_ERROR(ls_record_set_i64(state, "best step", self->best_step));
  LS_RETURN_IF_ERROR(ls_record_set_i64(state, "waited", self->waited));
  return ls_record_set_bytes(state, "best", &self->best, sizeof(self->best));
}

static ls_status read_state(const ls_record *state, ls_early_stop *out) {
  const void *best = NULL;
  size_t size = 0;
  LS_RETURN_IF_ERROR(ls_record_get_i64(state, "step", &out->step));
  LS_RETURN_IF_ERROR(ls_record_get_i64(state, "best step", &out->best_step));
  LS_RETURN_IF_ERROR(ls_record_get_i64(state, "waited", &out->waited));
  LS_RETURN_IF_ERROR(ls_record_get_bytes(state, "best", &best, &size));
  if (size != sizeof(out->best))
    return LS_STATUS(LS_DATA_LOSS, "the best value has %zu bytes, not %zu",
                     size, sizeof(out->best));
  memcpy(&out->best, best, size);
  return ls_ok();
}

ls_status ls_early_stop_restore(ls_early_stop *self, const char *rule,
                                const ls_record *record) {
  const ls_record *state = NULL;
  const char *was = NULL;
  ls_early_stop read = {0};
  LS_RETURN_OK_IF(LS_NOT_FOUND, ls_record_find(record, state_name, &state));
  LS_RETURN_IF_ERROR(ls_record_get_text(state, "rule", &was));
  if (strcmp(was, rule) != 0) return ls_ok();
  LS_RETURN_IF_ERROR(read_state(state, &read));
  *self = read;
  return ls_ok();
}
