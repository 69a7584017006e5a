// SPDX-License-Identifier: Apache-2.0
// Hooks that look at values: a NaN guard of the loss, and a logger.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/require.h"
#include "base/status_cause.h"
#include "base/text.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "train/hooks/hook.h"

// ---- NaN guard -------------------------------------------------------------
typedef struct nan_guard {
  ls_tensor loss;  // The loss in a graph, or
  char *name;      // the name of the caller's result.
  ls_named_result result;
  bool fails;
} nan_guard;

static ls_status nan_before_run(void *state, ls_run_context *context,
                                ls_run_wish *wish) {
  const nan_guard *self = state;
  // Forgets what was found before this run.
  char source[LS_NAN_TEXT];
  (void)ls_runtime_take_nan(context->runtime, source, sizeof(source));
  if (self->name == NULL) wish->fetches = ls_leaf(self->loss);
  return ls_ok();
}

static ls_status find_loss(nan_guard *self, const ls_run_context *context,
                           ls_nest results, double *out_loss) {
  if (self->name != NULL)
    return ls_named_result_number(&self->result, context, out_loss);
  *out_loss = ls_array_f64(ls_nest_as_array(results), 0);
  return ls_ok();
}

// Adds the source of the first NaN, if the runtime looks for it.
static ls_status name_source(ls_runtime *runtime, ls_status status) {
  char source[LS_NAN_TEXT];
  return ls_runtime_take_nan(runtime, source, sizeof(source))
             ? ls_status_annotate(status, "%s", source)
             : status;
}

static ls_status nan_run_failed(void *state, ls_status status) {
  (void)state;
  return ls_status_cause(status) == LS_CAUSE_NUMBERS
             ? name_source(ls_runtime_current(), status)
             : status;
}

static ls_status nan_after_run(void *state, ls_run_context *context,
                               ls_nest results) {
  nan_guard *self = state;
  double loss = 0;
  LS_RETURN_IF_ERROR(find_loss(self, context, results, &loss));
  if (!isnan(loss)) return ls_ok();
  const char *name =
      self->name != NULL ? self->name : ls_tensor_name(self->loss);
  ls_status status =
      name_source(context->runtime,
                  ls_failed_precondition(
                      "NaN loss during training: '%s' is no number", name));
  if (self->fails) return status;
  ls_runtime_log(context->runtime, LS_LOG_WARNING, "train", "%s; stopping",
                 ls_status_message(status));
  ls_status_free(status);
  ls_run_context_request_stop(context);
  return ls_ok();
}

static void nan_destroy(void *state) {
  ls_release(ls_current_allocator(), ((nan_guard *)state)->name);
}

static const ls_hook_type nan_type = {.name = "NaN guard",
                                      .size = sizeof(nan_guard),
                                      .before_run = nan_before_run,
                                      .after_run = nan_after_run,
                                      .run_failed = nan_run_failed,
                                      .destroy = nan_destroy};

ls_status ls_nan_hook(ls_tensor loss, ls_flag fails, ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook);
  LS_RETURN_IF_ERROR(ls_hook_make(
      &nan_type, &(nan_guard){.loss = loss, .fails = fails != LS_FLAG_OFF},
      out_hook));
  (*out_hook)->needs_session = true;
  return ls_ok();
}

ls_status ls_nan_hook_named(const char *name, ls_flag fails,
                            ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook, name);
  nan_guard self = {.fails = fails != LS_FLAG_OFF};
  LS_RETURN_IF_ERROR(ls_keep_text(ls_current_allocator(), name, &self.name));
  self.result.name = self.name;
  return ls_hook_make(&nan_type, &self, out_hook);
}

bool ls_hook_guards_loss(const ls_hook *hook) {
  return hook->type == &nan_type;
}

// ---- Logger ----------------------------------------------------------------
typedef struct logger {
  ls_log_hook_options options;
  const char **names;  // Copies.
  ls_nest fetches;     // The list of values; empty: the caller's, by name.
  ls_named_result *found;
  ls_nest *results;
  ls_step_timer timer;
  int64_t num_runs;
  bool is_due;  // Logs after the current run.
} logger;

static void log_destroy(void *state) {
  logger *self = state;
  ls_allocator *allocator = ls_current_allocator();
  for (size_t i = 0; self->names != NULL && i < self->options.num_values; ++i)
    ls_release(allocator, self->names[i]);
  ls_release(allocator, self->names);
  ls_release(allocator, self->results);
  ls_release(allocator, self->found);
  ls_nest_release(self->fetches);
}

static ls_status log_begin(void *state) {
  logger *self = state;
  self->num_runs = 0;
  return ls_step_timer_begin(&self->timer, self->options.every_steps,
                             self->options.every_seconds);
}

static ls_status log_before_run(void *state, ls_run_context *context,
                                ls_run_wish *wish) {
  logger *self = state;
  (void)context;
  self->is_due = ls_step_timer_is_due(&self->timer, self->num_runs);
  if (self->is_due) wish->fetches = self->fetches;
  return ls_ok();
}

static void write_line(logger *self, const ls_run_context *context,
                       double seconds, bool is_timed) {
  char line[1000];
  if (self->options.format != NULL) {
    self->options.format(self->options.user, self->names, self->results,
                         self->options.num_values, line, sizeof(line));
    ls_runtime_log(context->runtime, LS_LOG_INFO, "train", "%s", line);
    return;
  }
  LS_OWN(ls_text, text) = {.allocator = ls_current_allocator()};
  for (size_t i = 0; i < self->options.num_values; ++i) {
    ls_text_append_format(&text, "%s%s = ", i > 0 ? ", " : "", self->names[i]);
    double number = 0;
    const ls_status status =
        ls_result_number(self->results[i], context, &number);
    if (ls_status_is_ok(status))
      ls_text_append_format(&text, "%g", number);
    else
      ls_text_append(&text, LS_NEST_TEXT(self->results[i]));
    ls_status_free(status);
  }
  if (is_timed) ls_text_append_format(&text, " (%.3f sec)", seconds);
  if (text.data != NULL)
    ls_runtime_log(context->runtime, LS_LOG_INFO, "train", "%s", text.data);
}

static ls_status log_results(logger *self, const ls_run_context *context,
                             ls_nest results) {
  double seconds = 0;
  for (size_t i = 0; i < self->options.num_values; ++i) {
    self->results[i] = ls_nest_item(results, i);
    if (self->found != NULL)
      LS_RETURN_IF_ERROR(ls_named_result_find(&self->found[i], context->results,
                                              &self->results[i]));
  }
  const bool timed =
      ls_step_timer_done(&self->timer, self->num_runs, &seconds, NULL);
  write_line(self, context, seconds, timed);
  return ls_ok();
}

static ls_status log_after_run(void *state, ls_run_context *context,
                               ls_nest results) {
  logger *self = state;
  if (self->is_due) LS_RETURN_IF_ERROR(log_results(self, context, results));
  ++self->num_runs;
  return ls_ok();
}

static ls_status log_end(void *state, ls_run_context *context) {
  logger *self = state;
  LS_OWN(ls_nest, results) = ls_none();
  if (!self->options.at_end || (self->found != NULL && self->num_runs == 0))
    return ls_ok();
  if (self->found == NULL)
    LS_RETURN_IF_ERROR(
        ls_session_run(context->session, self->fetches, NULL, 0, &results));
  return log_results(self, context, results);
}

typedef struct named {
  const char *name;
  ls_tensor value;
} named;

static int compare_names(const void *a, const void *b) {
  return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

// Keeps the names in order, as copies.
static ls_status keep_sorted(logger *self, const named *all) {
  ls_allocator *allocator = ls_current_allocator();
  const size_t count = self->options.num_values;
  LS_OWN(ls_nest_builder, list) = {0};
  for (size_t i = 0; i < count; ++i) {
    self->names[i] = ls_copy_text(allocator, all[i].name, strlen(all[i].name));
    LS_RETURN_IF_NO_MEMORY(self->names[i]);
    if (self->found != NULL)
      self->found[i].name = self->names[i];
    else
      ls_nest_builder_append(&list, ls_leaf(all[i].value));
  }
  if (self->found != NULL) return ls_ok();
  return ls_take_nest(ls_nest_builder_finish(&list, LS_KIND_LIST),
                      &self->fetches);
}

static ls_status keep_values(logger *self, const ls_log_hook_options *options) {
  ls_allocator *allocator = ls_current_allocator();
  const size_t count = options->num_values;
  const bool is_by_name = options->values == NULL;
  LS_OWN_ARRAY_OR_RETURN(allocator, named, all, count + 1);
  self->options = *options;
  LS_SET_ARRAY_OR_RETURN(allocator, const char *, self->names, count + 1);
  LS_SET_ARRAY_OR_RETURN(allocator, ls_nest, self->results, count + 1);
  if (is_by_name) {
    LS_SET_ARRAY_OR_RETURN(allocator, ls_named_result, self->found, count + 1);
  }
  for (size_t i = 0; i < count; ++i)
    all[i] = (named){options->names[i],
                     is_by_name ? ls_failed_tensor() : options->values[i]};
  qsort(all, count, sizeof(*all), compare_names);
  return keep_sorted(self, all);
}

static const ls_hook_type log_type = {.name = "logger",
                                      .size = sizeof(logger),
                                      .begin = log_begin,
                                      .before_run = log_before_run,
                                      .after_run = log_after_run,
                                      .end = log_end,
                                      .destroy = log_destroy};

ls_status ls_log_hook(const ls_log_hook_options *options, ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook, options);
  LS_REQUIRE_EACH(options->names, options->num_values);
  const bool is_timed = options->every_steps.set || options->every_seconds.set;
  if (!is_timed && !options->at_end)
    return ls_invalid_argument("a hook that logs %zu values: set an interval "
                               "in steps or seconds, or the end",
                               options->num_values);
  ls_step_timer timer;
  LS_RETURN_IF_ERROR(ls_step_timer_begin(&timer, options->every_steps,
                                         options->every_seconds));
  LS_OWN(ls_hook, hook) = NULL;
  LS_RETURN_IF_ERROR(ls_hook_make(&log_type, NULL, &hook));
  LS_RETURN_IF_ERROR(keep_values(hook->state, options));
  hook->needs_session = options->values != NULL;
  return ls_hand_over(&hook, out_hook);
}
