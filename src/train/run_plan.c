// SPDX-License-Identifier: Apache-2.0
#include "train/run_plan.h"

#include <string.h>

#include "lockstep/runtime_settings.h"
#include "lockstep/tasks.h"
#include "lockstep/training_parts.h"

enum { DEFAULT_KEEP = 5 };

int64_t ls_train_count_steps(const ls_model_type *type, int64_t train_size,
                             int64_t batch_size, int64_t epochs,
                             int64_t steps) {
  const ls_model_type none = {0};  // Has no defaults.
  if (type == NULL) type = &none;
  if (batch_size == 0) batch_size = type->batch_size;
  if (batch_size < 1 || train_size < 0) return 0;
  const int64_t per_epoch =
      train_size / batch_size + (train_size % batch_size != 0);
  if (epochs == 0 && steps > 0) return per_epoch > 0 ? steps : 0;
  int64_t all = 0;
  if (__builtin_mul_overflow(epochs > 0 ? epochs : type->epochs, per_epoch,
                             &all))
    all = INT64_MAX;
  return steps > 0 && steps < all ? steps : all;
}

// ---- Options ---------------------------------------------------------------
static ls_status check_keeping(const ls_train_options *o) {
  const char *metric = ls_model_type_task(o->model->type)->metric;
  if (o->save_seconds < 0 || o->save_steps < 0 || o->keep.value < 0 ||
      !(o->keep_every_hours >= 0))
    return ls_invalid_argument(
        "options of saving cannot be negative: save_seconds %lld, save_steps "
        "%lld, keep %lld, keep_every_hours %g",
        (long long)o->save_seconds, (long long)o->save_steps,
        (long long)o->keep.value, o->keep_every_hours);
  if (o->keep_best == NULL) return ls_ok();
  const bool is_tested = strncmp(o->keep_best, "test_", 5) == 0;
  const char *name = o->keep_best + (is_tested ? 5 : 0);
  if (strcmp(name, "loss") != 0 && strcmp(name, metric) != 0)
    return ls_invalid_argument("keep_best is '%s', expected loss, %s, "
                               "test_loss or test_%s",
                               o->keep_best, metric, metric);
  return !is_tested || o->test != NULL
             ? ls_ok()
             : ls_invalid_argument("keep_best is '%s', but there is no test "
                                   "set",
                                   o->keep_best);
}

// Checks the rule of early stopping, and completes it.
static ls_status plan_stop(ls_run_plan *plan) {
  ls_train_options *o = &plan->options;
  if (o->stop_early != NULL && o->stop_early[0] == '\0') o->stop_early = NULL;
  LS_RETURN_IF_ERROR(
      ls_stop_metric_parse(o->stop_early, o->patience, o->min_delta,
                           ls_model_type_task(o->model->type), &plan->stop));
  if (o->stop_early == NULL) return ls_ok();
  if (o->test == NULL)
    return ls_invalid_argument("stop_early is '%s', but there is no test set",
                               o->stop_early);
  o->patience = plan->stop.patience;
  if (o->keep_best == NULL) o->keep_best = plan->stop.name;
  return ls_ok();
}

static ls_status run_plan_check_options(const ls_train_options *o) {
  if (o->epochs < 0 || o->steps < 0 || o->batch_size < 1 || o->log_every < 1)
    return ls_invalid_argument(
        "epochs and steps cannot be negative and a batch needs at least one "
        "example, got %lld, %lld and %lld",
        (long long)o->epochs, (long long)o->steps, (long long)o->batch_size);
  if (o->iterations_per_loop < 1 || o->iterations_per_loop > INT32_MAX)
    return ls_invalid_argument("a loop of %lld steps: 1 to %d are possible",
                               (long long)o->iterations_per_loop, INT32_MAX);
  if (o->check_ranks < 0 || o->checksum < 0)
    return ls_invalid_argument(
        "%s is %lld, expected a number of steps",
        o->checksum < 0 ? "checksum" : "check_ranks",
        (long long)(o->checksum < 0 ? o->checksum : o->check_ranks));
  if (o->resume && o->from != NULL)
    return ls_invalid_argument("a run either resumes in its folder or goes on "
                               "from that of another one, '%s'",
                               o->from);
  if (o->from == NULL && o->from_step.set)
    return ls_invalid_argument("from_step is %lld, but `from` names no run",
                               o->from_step.value);
  LS_RETURN_IF_ERROR(check_keeping(o));
  return ls_train_check_data(o->model->type, o->train);
}

// ---- config.json -----------------------------------------------------------
static void fill_config(ls_runtime *runtime, ls_run_plan *plan) {
  const ls_train_options *o = &plan->options;
  ls_train_config *config = &plan->config;
  if (o->config != NULL) *config = *o->config;
  if (config->model == NULL) config->model = o->model->type->name;
  if (config->learning_rate == 0 &&
      (config->optimizer == NULL || config->optimizer[0] == '\0'))
    config->learning_rate = o->model->type->learning_rate;
  config->replicas = ls_strategy_num_replicas(o->strategy);
  config->threads = ls_runtime_threads(runtime);
  config->math = ls_math_name(ls_runtime_math(runtime));
  config->batch_size = o->batch_size;
  config->epochs = o->epochs;
  config->steps = o->steps;
  config->seed = o->seed;
  if (o->warm_start != NULL && config->warm_start == NULL)
    config->warm_start = o->warm_start->path;
  config->keep = o->keep.value;
  config->keep_best = o->keep_best;
  config->keep_every_hours = o->keep_every_hours;
  config->stop_early = o->stop_early;
  config->gradient_norm = o->gradient_norm;
  config->attest = o->attest;
  config->events = o->events != NULL && o->events[0] == '\0';
  config->patience = o->patience;
  config->min_delta = o->min_delta;
  config->save_every = o->save_seconds;
  config->save_every_steps = o->save_steps;
  config->checksum = o->checksum;
  config->check_ranks = o->check_ranks;
}

// Warns about replicas that have no example in any step.
static void warn_of_replicas(ls_runtime *runtime, const ls_run_plan *plan) {
  const ls_train_options *o = &plan->options;
  const int64_t replicas = ls_strategy_num_replicas(o->strategy);
  const int64_t rows =
      o->batch_size < plan->examples ? o->batch_size : plan->examples;
  if (rows >= replicas) return;
  ls_runtime_log(runtime, LS_LOG_WARNING, "train",
                 "%lld replicas for batches of %lld examples: %lld replicas "
                 "have none; use fewer, or larger batches",
                 (long long)replicas, (long long)rows,
                 (long long)(replicas - rows));
}

ls_status ls_run_plan_make(const ls_train_options *options, ls_runtime *runtime,
                           ls_run_plan *out) {
  *out = (ls_run_plan){.options = *options};
  ls_train_options *o = &out->options;
  const ls_model_type *type = o->model->type;
  if (o->batch_size == 0) o->batch_size = type->batch_size;
  if (o->log_every == 0) o->log_every = 100;
  if (o->iterations_per_loop == 0) o->iterations_per_loop = 1;
  if (!o->keep.set) o->keep = LS_SOME(DEFAULT_KEEP);
  if (o->keep_best != NULL && o->keep_best[0] == '\0') o->keep_best = NULL;
  LS_RETURN_IF_ERROR(plan_stop(out));
  LS_RETURN_IF_ERROR(run_plan_check_options(o));
  out->examples = o->num_examples;
  if (out->examples == 0)
    LS_RETURN_IF_ERROR(ls_train_count_examples(o->train, &out->examples));
  out->steps_per_epoch = (out->examples - 1) / o->batch_size + 1;
  out->num_steps = ls_train_count_steps(type, out->examples, o->batch_size,
                                        o->epochs, o->steps);
  o->epochs = (out->num_steps - 1) / out->steps_per_epoch + 1;
  if (o->only_saves) out->num_steps = 0;
  fill_config(runtime, out);
  warn_of_replicas(runtime, out);
  return ls_ok();
}
