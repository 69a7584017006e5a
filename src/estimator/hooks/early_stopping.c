// SPDX-License-Identifier: Apache-2.0
// Hooks that end a training as soon as its evaluations or a user function
// demand it.
#include "lockstep/early_stopping.h"

#include <math.h>
#include <string.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "lockstep/events.h"
#include "lockstep/ops.h"
#include "train/hooks/hook.h"
#include "train/hooks/saving.h"

// ---- Rules over a metric ---------------------------------------------------
// A rule over the metrics that evaluations have written to event files.
typedef struct eval_rule {
  ls_stop_rule rule;
  char *metric, *folder;  // Owned by the rule.
  double threshold;
  int64_t max_steps, min_steps;
} eval_rule;

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
    return ls_invalid_argument(
        "early stopping: should_stop is given together with a metric's rule");
  if (o->metric == NULL || o->metric[0] == '\0')
    return ls_invalid_argument("early stopping: the metric is not given");
  if (has_threshold(o->rule) && isnan(o->threshold))
    return ls_invalid_argument("early stopping: the threshold is no number");
  if (has_threshold(o->rule) && o->max_steps != 0)
    return ls_invalid_argument(
        "early stopping: max_steps is %lld, and the rule has a threshold",
        (long long)o->max_steps);
  if (!has_threshold(o->rule) && o->max_steps < 1)
    return ls_invalid_argument(
        "early stopping: max_steps is %lld, expected 1 or more",
        (long long)o->max_steps);
  if (!has_threshold(o->rule) && o->threshold != 0)
    return ls_invalid_argument(
        "early stopping: the threshold is %g, but the rule has none",
        o->threshold);
  if (o->min_steps < 0)
    return ls_invalid_argument(
        "early stopping: min_steps is %lld, expected 0 or more",
        (long long)o->min_steps);
  if (o->folder != NULL && o->evaluation != NULL)
    return ls_invalid_argument(
        "early stopping: both a folder, '%s', and an evaluation, '%s'",
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
    return ls_invalid_argument(
        "early stopping: neither a folder of evaluations nor a configuration "
        "with a model_dir");
  ls_text_append_format(out, "%s/eval", model_dir);
  if (o->evaluation != NULL && o->evaluation[0] != '\0')
    ls_text_append_format(out, "_%s", o->evaluation);
  return ls_text_status(out);
}

static ls_status eval_rule_init(eval_rule *rule,
                                const ls_early_stopping_options *o) {
  ls_allocator *allocator = ls_current_allocator();
  *rule = (eval_rule){.rule = o->rule,
                      .threshold = (double)(float)o->threshold,
                      .max_steps = o->max_steps,
                      .min_steps = o->min_steps};
  LS_RETURN_IF_ERROR(stop_rule_check(o));
  LS_OWN(ls_text, folder) = {.allocator = allocator};
  LS_RETURN_IF_ERROR(find_folder(&folder, o));
  rule->folder = ls_copy_text(allocator, folder.data, folder.size);
  LS_RETURN_IF_NO_MEMORY(rule->folder);
  return ls_keep_text(allocator, o->metric, &rule->metric);
}

static bool is_better(const eval_rule *rule, double value, double than) {
  return wants_higher(rule->rule) ? value > than : value < than;
}

static bool crosses_threshold(const eval_rule *rule,
                              const ls_event_number *number) {
  if (!is_better(rule, number->value, rule->threshold)) return false;
  ls_runtime_log(ls_runtime_current(), LS_LOG_INFO, "estimator",
                 "at step %lld metric '%s' is %g, %s than %g: stopping",
                 (long long)number->step, rule->metric, number->value,
                 wants_higher(rule->rule) ? "higher" : "lower",
                 rule->threshold);
  return true;
}

// Returns true if a metric has not improved for the allowed steps; `*best` is
// the best so far. A NaN is worse than any number.
static bool stands_still(const eval_rule *rule, const ls_event_number *number,
                         const ls_event_number **best) {
  if (*best == NULL || is_better(rule, number->value, (*best)->value) ||
      (isnan((*best)->value) && !isnan(number->value)))
    *best = number;
  const int64_t passed = number->step - (*best)->step;
  if (passed < rule->max_steps) return false;
  ls_runtime_log(ls_runtime_current(), LS_LOG_INFO, "estimator",
                 "no %s of metric '%s' for %lld steps, since step %lld, of at "
                 "most %lld: stopping",
                 wants_higher(rule->rule) ? "increase" : "decrease",
                 rule->metric, (long long)passed, (long long)(*best)->step,
                 (long long)rule->max_steps);
  return true;
}

// Warns if no evaluation writes a metric of this name, because the rule would
// never stop a training.
static void warn_of_name(const eval_rule *rule,
                         const ls_event_numbers *numbers) {
  LS_OWN(ls_text, tags) = {.allocator = ls_current_allocator()};
  const int64_t step = numbers->items[numbers->count - 1].step;
  for (size_t i = 0; i < numbers->count; ++i)
    if (numbers->items[i].step == step)
      ls_text_append_format(&tags, "%s%s", tags.size > 0 ? ", " : "",
                            numbers->items[i].tag);
  if (ls_text_data(&tags) != NULL)
    ls_log_limited(
        ls_runtime_current(), rule->folder, 1, LS_LOG_WARNING, "estimator",
        "early stopping: there is no metric '%s' in '%s': step %lld has %s",
        rule->metric, rule->folder, (long long)step, ls_text_data(&tags));
}

static ls_status eval_rule_ask(const eval_rule *rule, bool *out_stop) {
  ls_event_numbers *numbers = NULL;
  const ls_event_number *best = NULL;
  bool is_there = false;
  *out_stop = false;
  LS_RETURN_IF_ERROR(ls_events_read(rule->folder, NULL, &numbers));
  for (size_t i = 0; i < numbers->count && !*out_stop; ++i) {
    const ls_event_number *number = &numbers->items[i];
    if (strcmp(number->tag, rule->metric) != 0) continue;
    is_there = true;
    if (number->step < rule->min_steps) continue;
    *out_stop = has_threshold(rule->rule) ? crosses_threshold(rule, number)
                                          : stands_still(rule, number, &best);
  }
  if (!is_there && numbers->count > 0) warn_of_name(rule, numbers);
  ls_event_numbers_destroy(numbers);
  return ls_ok();
}

// ---- The state -------------------------------------------------------------
typedef struct early {
  ls_early_stopping_options options;  // Options, if a user function decides.
  eval_rule eval;                     // The rule, if a metric decides.
  ls_step_timer timer;
  ls_tensor stop;  // Value of the stop variable.
  ls_op set;
} early;

// ---- The variable ----------------------------------------------------------
// Finds the stop variable; NULL if the graph has none.
static ls_status find_variable(const ls_graph *graph, ls_variable **out) {
  LS_OWN_MEMORY(ls_current_allocator(), ls_variable *, variables) = NULL;
  size_t count = 0;
  *out = NULL;
  LS_RETURN_IF_ERROR(ls_collection_variables(
      graph, LS_COLLECTION_LOCAL_VARIABLES, &variables, &count));
  for (size_t i = 0; i < count && *out == NULL; ++i)
    if (strcmp(ls_variable_name(variables[i]), LS_STOP_VARIABLE) == 0)
      *out = variables[i];
  return ls_ok();
}

// Makes the stop variable, borrowed from the graph. It is a local variable and
// so in no checkpoint, because the stop of an earlier training must not stop
// this one.
static ls_status make_variable(ls_variable **out) {
  static const char *const collections[] = {LS_COLLECTION_LOCAL_VARIABLES};
  LS_RETURN_IF_ERROR(
      ls_variable_create(&(ls_variable_options){.name = LS_STOP_VARIABLE,
                                                .dtype = LS_DTYPE_BOOL,
                                                .shape = LS_SCALAR,
                                                .trainable = LS_FLAG_OFF,
                                                .collections = collections,
                                                .num_collections = 1},
                         out));
  ls_variable_release(*out);
  return ls_ok();
}

static ls_status early_begin(void *state) {
  early *self = state;
  ls_graph *graph = ls_graph_current();
  LS_NAME_SCOPE("");
  ls_variable *variable = NULL;
  LS_RETURN_IF_ERROR(find_variable(graph, &variable));
  if (variable == NULL) LS_RETURN_IF_ERROR(make_variable(&variable));
  self->stop = ls_variable_read(variable);
  self->set =
      ls_tensor_op(ls_variable_assign(variable, ls_scalar(LS_DTYPE_BOOL, 1)));
  self->timer.last_step = -1;
  return ls_tensor_is_failed(self->stop) || self->set.id == 0
             ? ls_graph_take_error(graph)
             : ls_ok();
}

// ---- The chief -------------------------------------------------------------
static ls_status chief_after_run(void *state, ls_run_context *context,
                                 ls_nest results) {
  early *self = state;
  LS_OWN(ls_nest, nothing) = ls_none();
  bool stop = false;
  (void)results;
  if (!ls_step_timer_is_due(&self->timer, context->steps)) return ls_ok();
  (void)ls_step_timer_done(&self->timer, context->steps, NULL, NULL);
  LS_RETURN_IF_ERROR(self->options.rule == LS_STOP_BY_FUNCTION
                         ? self->options.should_stop(self->options.user, &stop)
                         : eval_rule_ask(&self->eval, &stop));
  if (!stop) return ls_ok();
  ls_runtime_log(context->runtime, LS_LOG_INFO, "estimator",
                 "requesting early stopping at global step %lld",
                 (long long)context->steps);
  LS_RETURN_IF_ERROR(ls_session_run(context->session, ls_nest_op(self->set),
                                    NULL, 0, &nothing));
  ls_run_context_request_stop(context);
  return ls_ok();
}

// ---- Other workers ---------------------------------------------------------
static ls_status other_before_run(void *state, ls_run_context *context,
                                  ls_run_wish *wish) {
  (void)context;
  wish->fetches = ls_leaf(((early *)state)->stop);
  return ls_ok();
}

static ls_status other_after_run(void *state, ls_run_context *context,
                                 ls_nest results) {
  (void)state;
  if (ls_result_count(results) == 0) return ls_ok();
  ls_runtime_log(context->runtime, LS_LOG_INFO, "estimator",
                 "early stopping requested: this is the last run");
  ls_run_context_request_stop(context);
  return ls_ok();
}

// ---- The hook --------------------------------------------------------------
static void early_destroy(void *state) {
  ls_release(ls_current_allocator(), ((early *)state)->eval.metric);
  ls_release(ls_current_allocator(), ((early *)state)->eval.folder);
}

static const ls_hook_type chief_type = {.name = "early stopping",
                                        .size = sizeof(early),
                                        .counts = true,
                                        .needs_session = true,
                                        .begin = early_begin,
                                        .after_run = chief_after_run,
                                        .destroy = early_destroy};
static const ls_hook_type other_type = {.name = "early stopping",
                                        .size = sizeof(early),
                                        .needs_session = true,
                                        .begin = early_begin,
                                        .before_run = other_before_run,
                                        .after_run = other_after_run,
                                        .destroy = early_destroy};

static ls_status check_function(const ls_early_stopping_options *options) {
  if (options->should_stop == NULL)
    return ls_invalid_argument(
        "early stopping: neither should_stop nor a rule over a metric");
  if (options->metric != NULL || options->folder != NULL ||
      options->evaluation != NULL || options->threshold != 0 ||
      options->max_steps != 0 || options->min_steps != 0)
    return ls_invalid_argument("early stopping: fields of a metric's rule are "
                               "given together with should_stop");
  return ls_ok();
}

static ls_status early_stopping_fill(early *self,
                                     const ls_early_stopping_options *options) {
  const bool by_steps = options->run_every_steps.set;
  self->options = *options;
  if (by_steps && options->run_every_secs.set)
    return ls_invalid_argument("early stopping: only one of run_every_secs, "
                               "%lld, and run_every_steps, %lld, can be given",
                               options->run_every_secs.value,
                               options->run_every_steps.value);
  const ls_opt often =
      by_steps ? options->run_every_steps : options->run_every_secs;
  if (often.set && often.value < 1)
    return ls_invalid_argument("early stopping: %s is %lld, expected 1 or more",
                               by_steps ? "run_every_steps" : "run_every_secs",
                               often.value);
  ls_opt seconds = options->run_every_secs;
  if (!by_steps && !seconds.set) seconds = LS_SOME(60);
  LS_RETURN_IF_ERROR(
      ls_step_timer_begin(&self->timer, options->run_every_steps, seconds));
  return options->rule == LS_STOP_BY_FUNCTION
             ? check_function(options)
             : eval_rule_init(&self->eval, options);
}

ls_status ls_early_stopping_hook(const ls_early_stopping_options *options,
                                 ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook, options);
  const bool is_chief = options->config == NULL ||
                        ls_run_config_values(options->config)->is_chief;
  LS_OWN(ls_hook, hook) = NULL;
  LS_RETURN_IF_ERROR(
      ls_hook_make(is_chief ? &chief_type : &other_type, NULL, &hook));
  LS_RETURN_IF_ERROR(early_stopping_fill(hook->state, options));
  return ls_hand_over(&hook, out_hook);
}
