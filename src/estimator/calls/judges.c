// SPDX-License-Identifier: Apache-2.0
#include "estimator/calls/judges.h"

#include <string.h>

#include "base/text.h"
#include "lockstep/events.h"

ls_status ls_judges_init(ls_judges *self, const ls_eval_spec *eval) {
  *self = (ls_judges){0};
  LS_RETURN_IF_ERROR(ls_status_annotate(
      ls_stop_metric_parse(eval->stop_early, eval->patience, eval->min_delta,
                           NULL, &self->stop.metric),
      "early stopping by evaluations"));
  const bool keeps = eval->keep_best != NULL && eval->keep_best[0] != '\0';
  return ls_status_annotate(
      ls_stop_metric_parse(keeps ? eval->keep_best : eval->stop_early, 0, 0,
                           NULL, &self->keep.metric),
      "keep_best of evaluations");
}

// Counts a value as event files have it, so that a resumed training, which
// reads those, ends at the same step.
static void judge_count(ls_judge *self, int64_t step, double value) {
  ls_early_stop_count(&self->state, &self->metric, step, (double)(float)value);
}

// ---- Earlier evaluations ---------------------------------------------------
static ls_status judge_recall(ls_judge *self, const char *folder,
                              int64_t step) {
  LS_OWN(ls_event_numbers, numbers) = NULL;
  if (self->metric.name[0] == '\0') return ls_ok();
  LS_RETURN_IF_ERROR(ls_events_read(folder, self->metric.name, &numbers));
  for (size_t i = 0; i < numbers->count && numbers->items[i].step <= step; ++i)
    judge_count(self, numbers->items[i].step, numbers->items[i].value);
  return ls_ok();
}

ls_status ls_judges_recall(ls_judges *self, const ls_estimator *of,
                           const char *evaluation, int64_t step) {
  LS_OWN(ls_text, folder) = {0};
  LS_RETURN_IF_ERROR(ls_print_eval_folder(of, evaluation, &folder));
  LS_RETURN_IF_ERROR(judge_recall(&self->stop, ls_text_data(&folder), step));
  return judge_recall(&self->keep, ls_text_data(&folder), step);
}

// ---- An evaluation ---------------------------------------------------------
static ls_status judge_take(ls_judge *self, ls_nest metrics, int64_t step) {
  const char *name = self->metric.name;
  double value = 0;
  if (name[0] == '\0') return ls_ok();
  const ls_nest found = ls_nest_find(metrics, name);
  if (found.kind != LS_KIND_NONE) {
    LS_RETURN_IF_ERROR(ls_status_annotate(ls_nest_to_number(found, &value),
                                          "metric '%s'", name));
    judge_count(self, step, value);
    return ls_ok();
  }
  LS_OWN(ls_text, all) = {.allocator = ls_current_allocator()};
  for (size_t i = 0; i < ls_nest_count(metrics); ++i)
    if (strcmp(ls_nest_key(metrics, i), "global_step") != 0)
      ls_text_append_format(&all, "%s%s", all.size > 0 ? ", " : "",
                            ls_nest_key(metrics, i));
  LS_RETURN_IF_ERROR(ls_text_status(&all));
  return ls_invalid_argument("the evaluation has no metric '%s'; it has %s",
                             name, ls_text_data(&all));
}

ls_status ls_judges_count(ls_judges *self, ls_nest metrics, int64_t step) {
  LS_RETURN_IF_ERROR(judge_take(&self->stop, metrics, step));
  return judge_take(&self->keep, metrics, step);
}
