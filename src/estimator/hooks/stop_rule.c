// SPDX-License-Identifier: Apache-2.0
#include "estimator/hooks/stop_rule.h"

#include <math.h>
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/events.h"

// ---- Making ----------------------------------------------------------------
static bool has_threshold(ls_stop_rule rule) {
  return rule == LS_STOP_IF_HIGHER || rule == LS_STOP_IF_LOWER;
}

static bool wants_higher(ls_stop_rule rule) {
  return rule == LS_STOP_IF_HIGHER || rule == LS_STOP_IF_NO_INCREASE;
}

static ls_status stop_rule_check(const ls_early_stopping_options *o) {
  if ((unsigned)o->rule > LS_STOP_IF_NO_DECREASE)
    return ls_invalid_argument("early stopping: there is no rule %d",
                               (int)o->rule);
  if (o->should_stop != NULL)
    return ls_invalid_argument("early stopping: should_stop is given beside a "
                               "rule over a metric");
  if (o->metric == NULL || o->metric[0] == '\0')
    return ls_invalid_argument("early stopping: the metric is not given");
  if (has_threshold(o->rule) && isnan(o->threshold))
    return ls_invalid_argument("early stopping: the threshold is no number");
  if (has_threshold(o->rule) && o->max_steps != 0)
    return ls_invalid_argument("early stopping: max_steps is %lld, and the "
                               "rule has a threshold",
                               (long long)o->max_steps);
  if (!has_threshold(o->rule) && o->max_steps < 1)
    return ls_invalid_argument("early stopping: max_steps is %lld, expected 1 "
                               "or more",
                               (long long)o->max_steps);
  if (!has_threshold(o->rule) && o->threshold != 0)
    return ls_invalid_argument("early stopping: the threshold is %g, and the "
                               "rule has none",
                               o->threshold);
  if (o->min_steps < 0)
    return ls_invalid_argument("early stopping: min_steps is %lld, expected 0 "
                               "or more",
                               (long long)o->min_steps);
  if (o->folder != NULL && o->evaluation != NULL)
    return ls_invalid_argument("early stopping: both a folder, '%s', and an "
                               "evaluation, '%s'",
                               o->folder, o->evaluation);
  return ls_ok();
}

static ls_status find_folder(ls_text *out, const ls_early_stopping_options *o) {
  const char *model_dir =
      o->config != NULL ? ls_run_config_values(o->config)->model_dir : NULL;
  if (o->folder != NULL) {
    ls_text_append(out, o->folder);
    return ls_text_status(out);
  }
  if (model_dir == NULL)
    return ls_invalid_argument("early stopping: neither a folder of "
                               "evaluations nor a configuration with a "
                               "model_dir");
  ls_text_append_format(out, "%s/eval", model_dir);
  if (o->evaluation != NULL && o->evaluation[0] != '\0')
    ls_text_append_format(out, "_%s", o->evaluation);
  return ls_text_status(out);
}

ls_status ls_eval_rule_init(ls_eval_rule *rule,
                            const ls_early_stopping_options *o) {
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN(ls_text, folder) = {0};
  *rule = (ls_eval_rule){.rule = o->rule,
                         .threshold = (double)(float)o->threshold,
                         .max_steps = o->max_steps,
                         .min_steps = o->min_steps};
  LS_RETURN_IF_ERROR(stop_rule_check(o));
  ls_text_init(&folder, allocator);
  LS_RETURN_IF_ERROR(find_folder(&folder, o));
  rule->folder = ls_copy_text(allocator, folder.data, folder.size);
  LS_RETURN_IF_NO_MEMORY(rule->folder);
  rule->metric = ls_copy_text(allocator, o->metric, strlen(o->metric));
  LS_RETURN_IF_NO_MEMORY(rule->metric);
  return ls_ok();
}

void ls_eval_rule_deinit(ls_eval_rule *rule) {
  ls_release(ls_current_allocator(), rule->metric);
  ls_release(ls_current_allocator(), rule->folder);
  *rule = (ls_eval_rule){0};
}

// ---- Asking ----------------------------------------------------------------
static bool is_better(const ls_eval_rule *rule, double value, double than) {
  return wants_higher(rule->rule) ? value > than : value < than;
}

static bool crosses(const ls_eval_rule *rule, const ls_event_number *it) {
  if (!is_better(rule, it->value, rule->threshold)) return false;
  ls_runtime_log(ls_runtime_current(), LS_LOG_INFO, "estimator",
                 "at step %lld metric '%s' is %g, %s than %g: stopping",
                 (long long)it->step, rule->metric, it->value,
                 wants_higher(rule->rule) ? "higher" : "lower",
                 rule->threshold);
  return true;
}

// `best` is the best so far; what is no number is worse than any.
static bool stands_still(const ls_eval_rule *rule, const ls_event_number *it,
                         const ls_event_number **best) {
  if (*best == NULL || is_better(rule, it->value, (*best)->value) ||
      (isnan((*best)->value) && !isnan(it->value)))
    *best = it;
  const int64_t passed = it->step - (*best)->step;
  if (passed < rule->max_steps) return false;
  ls_runtime_log(ls_runtime_current(), LS_LOG_INFO, "estimator",
                 "no %s of metric '%s' for %lld steps, since step %lld, of at "
                 "most %lld: stopping",
                 wants_higher(rule->rule) ? "increase" : "decrease",
                 rule->metric, (long long)passed, (long long)(*best)->step,
                 (long long)rule->max_steps);
  return true;
}

// A name that is never written would never stop anything.
static void warn_of_name(const ls_eval_rule *rule,
                         const ls_event_numbers *numbers) {
  ls_text tags;
  ls_text_init(&tags, ls_current_allocator());
  const int64_t step = numbers->items[numbers->count - 1].step;
  for (size_t i = 0; i < numbers->count; ++i)
    if (numbers->items[i].step == step)
      ls_text_append_format(&tags, "%s%s", tags.size > 0 ? ", " : "",
                            numbers->items[i].tag);
  if (ls_text_data(&tags) != NULL)
    ls_log_limited(
        ls_runtime_current(), rule->folder, 1, LS_LOG_WARNING, "estimator",
        "early stopping: there is no metric '%s' in '%s': at step "
        "%lld there are %s",
        rule->metric, rule->folder, (long long)step, ls_text_data(&tags));
  ls_text_deinit(&tags);
}

ls_status ls_eval_rule_ask(const ls_eval_rule *rule, bool *out_stop) {
  ls_event_numbers *numbers = NULL;
  const ls_event_number *best = NULL;
  bool is_there = false;
  *out_stop = false;
  LS_RETURN_IF_ERROR(ls_events_read(rule->folder, NULL, &numbers));
  for (size_t i = 0; i < numbers->count && !*out_stop; ++i) {
    const ls_event_number *it = &numbers->items[i];
    if (strcmp(it->tag, rule->metric) != 0) continue;
    is_there = true;
    if (it->step < rule->min_steps) continue;
    *out_stop = has_threshold(rule->rule) ? crosses(rule, it)
                                          : stands_still(rule, it, &best);
  }
  if (!is_there && numbers->count > 0) warn_of_name(rule, numbers);
  ls_event_numbers_destroy(numbers);
  return ls_ok();
}
