// SPDX-License-Identifier: Apache-2.0
#include "train/run_plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/status_cause.h"
#include "lockstep/tasks.h"

static const char state_name[] = "early stop";

enum { DEFAULT_PATIENCE = 3 };

// ---- The metric ------------------------------------------------------------
// Finds out if higher values of a metric are better. False: its name does not
// say.
static bool find_direction(const char *name, const ls_task *of, bool *out) {
  size_t count = 0;
  const ls_task *const *tasks = ls_tasks(&count);
  *out = false;
  if (strcmp(name, "loss") == 0) return true;
  for (size_t i = 0; of == NULL && i < count; ++i)
    if (strcmp(name, tasks[i]->metric) == 0) of = tasks[i];
  *out = of != NULL && !of->less_is_better;
  return of != NULL;
}

static ls_status parse_metric(const char *text, const ls_task *task,
                              ls_stop_metric *out) {
  const char *way = strchr(text, ':');
  char metric[sizeof(out->name)] = "";
  if (way != NULL && strcmp(way, ":min") != 0 && strcmp(way, ":max") != 0)
    way = NULL;  // A part of the name, which is unknown.
  const size_t size = way != NULL ? (size_t)(way - text) : strlen(text);
  if (size >= sizeof(out->name))
    return ls_invalid_argument("a metric's name has %zu bytes, the most are "
                               "%zu: %.40s...",
                               size, sizeof(out->name) - 1, text);
  snprintf(out->name, sizeof(out->name), "%.*s", (int)size, text);
  if (task != NULL) snprintf(metric, sizeof(metric), "test_%s", task->metric);
  if (task != NULL && strcmp(out->name, "test_loss") != 0 &&
      strcmp(out->name, metric) != 0)
    return ls_invalid_argument(
        "a run stops early by test_loss or %s, with :min or :max after it, not "
        "by '%s'",
        metric, text);
  const size_t prefix = task != NULL ? strlen("test_") : 0;
  if (!find_direction(out->name + prefix, task, &out->is_high) && way == NULL)
    return ls_invalid_argument("'%s' does not say which values are better: "
                               "give it as %s:min or %s:max",
                               text, text, text);
  if (way != NULL) out->is_high = strcmp(way, ":max") == 0;
  return ls_ok();
}

ls_status ls_stop_metric_parse(const char *text, int64_t patience,
                               double min_delta, const ls_task *task,
                               ls_stop_metric *out) {
  *out = (ls_stop_metric){.patience = patience, .min_delta = min_delta};
  if (patience < 0 || !(min_delta >= 0))
    return ls_invalid_argument(
        "patience is %lld and min_delta %g, expected 0 or more",
        (long long)patience, min_delta);
  if (text == NULL || text[0] == '\0')
    return patience == 0 && min_delta == 0
               ? ls_ok()
               : ls_invalid_argument("patience and min_delta are for "
                                     "stop_early");
  if (patience == 0) out->patience = DEFAULT_PATIENCE;
  return parse_metric(text, task, out);
}

bool ls_train_config_keeps_highest(const ls_train_config *config) {
  ls_stop_metric best = {.is_high = false};
  const char *metric = config->keep_best, *rule = config->stop_early;
  if (metric == NULL) return false;
  const size_t size = strlen(metric);
  if (rule != NULL && strncmp(rule, metric, size) == 0 && rule[size] == ':')
    metric = rule;
  if (strncmp(metric, "test_", 5) == 0) metric += 5;
  ls_status_free(parse_metric(metric, NULL, &best));
  return best.is_high;
}

// ---- Counting --------------------------------------------------------------
void ls_early_stop_count(ls_early_stop *self, const ls_stop_metric *metric,
                         int64_t step, double value) {
  if (step > self->step) {
    const double gain =
        metric->is_high ? value - self->best : self->best - value;
    const bool is_better =
        self->best_step == 0 || gain > metric->min_delta || isnan(self->best);
    self->step = step;
    ++self->waited;
    if (is_better && !isnan(value)) {
      self->best = value;
      self->best_step = step;
      self->waited = 0;
    }
  }
  // A run that is resumed may have another patience.
  self->is_over = self->waited >= metric->patience;
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

ls_status ls_early_stop_restore(ls_early_stop *self, const char *rule,
                                const ls_record *record) {
  const ls_record *state = NULL;
  const char *was = NULL;
  ls_early_stop read = {0};
  LS_RETURN_OK_IF(LS_NOT_FOUND, ls_record_find(record, state_name, &state));
  LS_RETURN_IF_ERROR(ls_record_get_text(state, "rule", &was));
  if (strcmp(was, rule) != 0) return ls_ok();
  const void *best = NULL;
  size_t size = 0;
  LS_RETURN_IF_ERROR(ls_record_get_i64(state, "step", &read.step));
  LS_RETURN_IF_ERROR(ls_record_get_i64(state, "best step", &read.best_step));
  LS_RETURN_IF_ERROR(ls_record_get_i64(state, "waited", &read.waited));
  LS_RETURN_IF_ERROR(ls_record_get_bytes(state, "best", &best, &size));
  if (size != sizeof(read.best))
    return LS_STATUS(LS_DATA_LOSS, "the best value has %zu bytes, not %zu",
                     size, sizeof(read.best));
  memcpy(&read.best, best, size);
  *self = read;
  return ls_ok();
}
