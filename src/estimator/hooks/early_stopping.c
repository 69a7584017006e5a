// SPDX-License-Identifier: Apache-2.0
#include "lockstep/early_stopping.h"

#include <string.h>

#include "base/require.h"
#include "estimator/hooks/stop_rule.h"
#include "lockstep/graph_ops.h"
#include "lockstep/ops.h"
#include "train/hooks/hook.h"

typedef struct early {
  ls_early_stopping_options options;  // Of a function.
  ls_eval_rule eval;                  // Of another rule.
  bool is_chief;
  ls_step_timer timer;
  ls_tensor stop;  // The variable, read.
  ls_op set;
} early;

// ---- The variable ----------------------------------------------------------
// NULL: there is none.
static ls_status find_variable(const ls_graph *graph, ls_variable **out) {
  *out = NULL;
  const size_t count =
      ls_graph_collection(graph, LS_COLLECTION_LOCAL_VARIABLES, NULL, 0);
  ls_allocator *allocator = ls_current_allocator();
  ls_nest *leaves = ls_new_array(allocator, ls_nest, count + 1);
  if (leaves == NULL) return ls_out_of_memory();
  (void)ls_graph_collection(graph, LS_COLLECTION_LOCAL_VARIABLES, leaves,
                            count);
  for (size_t i = 0; i < count && *out == NULL; ++i) {
    ls_variable *variable = ls_nest_as_variable(leaves[i]);
    if (variable != NULL &&
        strcmp(ls_variable_name(variable), LS_STOP_VARIABLE) == 0)
      *out = variable;
  }
  ls_release(allocator, leaves);
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

static ls_status early_begin(void *user) {
  early *self = user;
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
  ls_nest nothing = ls_none();
  const ls_status status =
      ls_session_run(context->session, ls_nest_op(op), NULL, 0, &nothing);
  ls_nest_release(nothing);
  return status;
}

// ---- The chief -------------------------------------------------------------
static ls_status early_stopping_ask(early *self, bool *out_stop) {
  return self->options.rule == LS_STOP_BY_FUNCTION
             ? self->options.should_stop(self->options.user, out_stop)
             : ls_eval_rule_ask(&self->eval, out_stop);
}

static ls_status chief_after_run(void *user, ls_run_context *context,
                                 ls_nest results) {
  early *self = user;
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
static ls_status other_before_run(void *user, ls_run_context *context,
                                  ls_run_wish *wish) {
  (void)context;
  wish->fetches = ls_leaf(((early *)user)->stop);
  return ls_ok();
}

static ls_status other_after_run(void *user, ls_run_context *context,
                                 ls_nest results) {
  (void)user;
  if (ls_result_count(results) == 0) return ls_ok();
  ls_runtime_log(context->runtime, LS_LOG_INFO, "estimator",
                 "early stopping requested: no run behind this one");
  ls_run_context_request_stop(context);
  return ls_ok();
}

// ---- The hook --------------------------------------------------------------
static void early_destroy(void *user) {
  early *self = user;
  ls_eval_rule_deinit(&self->eval);
  ls_hook_free(self);
}

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
  self->is_chief = options->config == NULL ||
                   ls_run_config_values(options->config)->is_chief;
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
  early *self = ls_hook_state(sizeof(*self));
  if (self == NULL) return ls_out_of_memory();
  const ls_status status = early_stopping_fill(self, options);
  if (!ls_status_is_ok(status)) {
    early_destroy(self);
    return status;
  }
  if (self->is_chief)
    return ls_hook_of_steps(&(ls_hook_options){.name = "early stopping",
                                               .user = self,
                                               .begin = early_begin,
                                               .after_run = chief_after_run,
                                               .destroy = early_destroy},
                            true, out_hook);
  return ls_hook_of_state(&(ls_hook_options){.name = "early stopping",
                                             .user = self,
                                             .begin = early_begin,
                                             .before_run = other_before_run,
                                             .after_run = other_after_run,
                                             .destroy = early_destroy},
                          out_hook);
}
