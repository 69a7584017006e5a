// SPDX-License-Identifier: Apache-2.0
#include "lockstep/early_stopping.h"

#include <string.h>

#include "base/require.h"
#include "estimator/hooks/stop_rule.h"
#include "lockstep/ops.h"
#include "train/hooks/hook.h"
#include "train/hooks/saved.h"

typedef struct early {
  ls_early_stopping_options options;  // Of a function.
  ls_eval_rule eval;                  // Of another rule.
  ls_step_timer timer;
  ls_tensor stop;  // The variable, read.
  ls_op set;
} early;

// ---- The variable ----------------------------------------------------------
// NULL: there is none.
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

// The graph has it; the result is lent. It is in no checkpoint: what stopped a
// former training is not about this one.
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

static ls_status early_stopping_run_op(const ls_run_context *context,
                                       ls_op op) {
  LS_OWN(ls_nest, nothing) = ls_none();
  return ls_session_run(context->session, ls_nest_op(op), NULL, 0, &nothing);
}

// ---- The chief -------------------------------------------------------------
static ls_status early_stopping_ask(early *self, bool *out_stop) {
  return self->options.rule == LS_STOP_BY_FUNCTION
             ? self->options.should_stop(self->options.user, out_stop)
             : ls_eval_rule_ask(&self->eval, out_stop);
}

static ls_status chief_after_run(void *state, ls_run_context *context,
                                 ls_nest results) {
  early *self = state;
  bool stop = false;
  (void)results;
  if (!ls_step_timer_is_due(&self->timer, context->steps)) return ls_ok();
  (void)ls_step_timer_done(&self->timer, context->steps, NULL, NULL);
  LS_RETURN_IF_ERROR(early_stopping_ask(self, &stop));
  if (!stop) return ls_ok();
  ls_runtime_log(context->runtime, LS_LOG_INFO, "estimator",
                 "requesting early stopping at global step %lld",
                 (long long)context->steps);
  LS_RETURN_IF_ERROR(early_stopping_run_op(context, self->set));
  ls_run_context_request_stop(context);
  return ls_ok();
}

// ---- Others ----------------------------------------------------------------
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
                 "early stopping requested: no run behind this one");
  ls_run_context_request_stop(context);
  return ls_ok();
}

// ---- The hook --------------------------------------------------------------
static void early_destroy(void *state) {
  ls_eval_rule_deinit(&((early *)state)->eval);
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
    return ls_invalid_argument("early stopping: neither should_stop nor a rule "
                               "over a metric");
  if (options->metric != NULL || options->folder != NULL ||
      options->evaluation != NULL || options->threshold != 0 ||
      options->max_steps != 0 || options->min_steps != 0)
    return ls_invalid_argument("early stopping: fields of a rule over a metric "
                               "are given beside should_stop");
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
             : ls_eval_rule_init(&self->eval, options);
}

ls_status ls_early_stopping_hook(const ls_early_stopping_options *options,
                                 ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook);
  LS_REQUIRE(options);
  const bool is_chief = options->config == NULL ||
                        ls_run_config_values(options->config)->is_chief;
  LS_OWN(ls_hook, hook) = NULL;
  LS_RETURN_IF_ERROR(
      ls_hook_make(is_chief ? &chief_type : &other_type, NULL, &hook));
  LS_RETURN_IF_ERROR(early_stopping_fill(hook->state, options));
  *out_hook = ls_give(&hook);
  return ls_ok();
}
