// SPDX-License-Identifier: Apache-2.0
#include "train/events/run_events.h"

#include <math.h>
#include <string.h>

#include "base/files.h"
#include "base/memory/own.h"
#include "lockstep/eager.h"
#include "nn/optimizer.h"
#include "train/input.h"

static const char train_name[] = "train";
static const char test_name[] = "test";

// ---- Files -----------------------------------------------------------------
static bool is_in_run_folder(const ls_train_options *options) {
  return options->events == NULL || options->events[0] == '\0';
}

// Prints the path of a folder of event files.
static ls_status run_events_print_path(const ls_train_options *options,
                                       const char *name, ls_text *path) {
  ls_text_clear(path);
  if (is_in_run_folder(options))
    ls_text_append_format(path, "%s/events/%s", options->run_folder, name);
  else
    ls_text_append_format(path, "%s/%s", options->events, name);
  return ls_text_status(path);
}

// Sets `path` to a folder of event files. In a run folder neither that folder
// nor its parent may be a link.
static ls_status name_folder(ls_runtime *runtime,
                             const ls_train_options *options, const char *name,
                             ls_text *path) {
  if (is_in_run_folder(options)) {
    LS_RETURN_IF_ERROR(run_events_print_path(options, "", path));
    path->data[--path->size] = '\0';  // A trailing slash would follow a link.
    LS_RETURN_IF_ERROR(ls_folder_check_own(runtime, ls_text_data(path)));
    LS_RETURN_IF_ERROR(run_events_print_path(options, name, path));
    return ls_folder_check_own(runtime, ls_text_data(path));
  }
  return run_events_print_path(options, name, path);
}

static ls_status open_writers(ls_run_events *events,
                              const ls_train_options *options, int64_t steps,
                              bool tests_again, ls_text *path) {
  // Keeps the last step's value.
  const int64_t first = steps == 0 ? 0 : steps + 1;
  LS_RETURN_IF_ERROR(name_folder(events->runtime, options, train_name, path));
  // Writes the graph unless there are events of the resumed run, which has
  // written it.
  const ls_file_system *files = ls_runtime_files(events->runtime);
  if (steps > 0)
    LS_RETURN_IF_ERROR(
        files->exists(files->user, ls_text_data(path), &events->has_graph));
  LS_RETURN_IF_ERROR(ls_event_writer_open(
      &(ls_event_writer_options){.folder = ls_text_data(path),
                                 .first_step = first},
      &events->train));
  LS_RETURN_IF_ERROR(name_folder(events->runtime, options, test_name, path));
  return ls_event_writer_open(
      &(ls_event_writer_options){.folder = ls_text_data(path),
                                 .first_step = tests_again ? steps : first},
      &events->test);
}

ls_status ls_run_events_open(ls_run_events *events, ls_runtime *runtime,
                             const ls_train_options *options, int64_t steps,
                             bool tests_again) {
  *events = (ls_run_events){.runtime = runtime};
  if (options->events == NULL) return ls_ok();
  if (options->events[0] == '\0' && options->run_folder == NULL)
    return ls_invalid_argument(
        "events should be in the run folder, but there is none: name a folder");
  LS_OWN(ls_text, path) = {.allocator = ls_runtime_allocator(runtime)};
  return open_writers(events, options, steps, tests_again, &path);
}

ls_status ls_run_events_close(ls_run_events *events) {
  const ls_status status = ls_status_join(ls_event_writer_close(events->train),
                                          ls_event_writer_close(events->test));
  *events = (ls_run_events){0};
  return status;
}

bool ls_run_events_owns(const char *name) {
  static const char prefix[] = "events.out.tfevents.";
  return strncmp(name, prefix, sizeof(prefix) - 1) == 0;
}

// ---- Numbers ---------------------------------------------------------------
typedef struct number {
  const char *tag;
  double value;
} number;

static ls_status run_events_add_numbers(ls_event_writer *writer, int64_t step,
                                        const number *numbers, size_t count) {
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        ls_event_writer_scalar(writer, numbers[i].tag, step, numbers[i].value));
  return ls_ok();
}

// Adds the budget's parts as shares of the whole.
static ls_status add_budget(ls_event_writer *writer, int64_t step,
                            const ls_train_budget *budget) {
  const number parts[] = {
      {"budget/compute", budget->compute / budget->whole},
      {"budget/input", budget->input / budget->whole},
      {"budget/collective", budget->collective / budget->whole},
      {"budget/host", budget->host / budget->whole},
      {"budget/save", budget->save / budget->whole},
      {"budget/rest", budget->rest / budget->whole}};
  return budget->whole > 0
             ? run_events_add_numbers(writer, step, parts, LS_COUNT_OF(parts))
             : ls_ok();
}

static ls_status log_steps(ls_run_events *events, const ls_train_report *report,
                           const ls_last_step *last, const ls_graph *graph) {
  const bool has_epochs = report->epoch > 0;  // An estimator's has no metric.
  const number numbers[] = {
      {"loss", report->loss},
      {"examples_per_second", report->examples_per_second},
      {ls_train_metric_of(report), report->accuracy}};
  LS_RETURN_IF_ERROR(
      run_events_add_numbers(events->train, report->step, numbers,
                             LS_COUNT_OF(numbers) - !has_epochs));
  LS_RETURN_IF_ERROR(add_budget(events->train, report->step, &report->budget));
  const number lasts[] = {{"learning_rate", last->rate},
                          {"gradient_norm", last->gradient_norm}};
  for (size_t i = 0; i < LS_COUNT_OF(lasts); ++i)
    if (!isnan(lasts[i].value))
      LS_RETURN_IF_ERROR(
          run_events_add_numbers(events->train, report->step, &lasts[i], 1));
  if (!events->has_graph && graph != NULL)
    LS_RETURN_IF_ERROR(ls_event_writer_graph(events->train, graph));
  events->has_graph = true;
  return ls_event_writer_flush(events->train);
}

static ls_status log_test(ls_run_events *events,
                          const ls_train_report *report) {
  const number numbers[] = {
      {"loss", report->test.loss},
      {ls_train_metric_of(report), report->test.accuracy}};
  LS_RETURN_IF_ERROR(run_events_add_numbers(events->test, report->step, numbers,
                                            LS_COUNT_OF(numbers)));
  const number iou = {"mean_iou", report->test.mean_iou};
  if (!isnan(iou.value))
    LS_RETURN_IF_ERROR(
        run_events_add_numbers(events->test, report->step, &iou, 1));
  return ls_event_writer_flush(events->test);
}

ls_status ls_run_events_log(ls_run_events *events,
                            const ls_train_report *report,
                            const ls_last_step *last, const ls_graph *graph) {
  if (events->train == NULL) return ls_ok();
  return report->tested ? log_test(events, report)
                        : log_steps(events, report, last, graph);
}

ls_status ls_run_events_log_metrics(ls_run_events *events, int64_t step,
                                    ls_nest metrics) {
  for (size_t i = 0; i < ls_nest_count(metrics); ++i) {
    number metric = {.tag = ls_nest_key(metrics, i)};
    LS_OWN(ls_status, status) =
        ls_nest_to_number(ls_nest_item(metrics, i), &metric.value);
    if (ls_status_is_ok(status) && strcmp(metric.tag, "global_step") != 0)
      LS_RETURN_IF_ERROR(
          run_events_add_numbers(events->test, step, &metric, 1));
  }
  return ls_event_writer_flush(events->test);
}

// ---- Weights ---------------------------------------------------------------
static ls_status log_variable(ls_event_writer *writer, ls_session *session,
                              ls_variable *variable, int64_t step) {
  const ls_dtype dtype = ls_variable_dtype(variable);
  if (!ls_variable_is_trainable(variable) || !ls_dtype_is_float(dtype))
    return ls_ok();
  LS_OWN(ls_array, value) = NULL;
  LS_RETURN_IF_ERROR(session != NULL
                         ? ls_session_variable_value(session, variable, &value)
                         : ls_variable_value(variable, &value));
  return ls_event_writer_histogram(writer, ls_variable_name(variable), step,
                                   value);
}

ls_status ls_run_events_log_weights(ls_run_events *events, ls_session *session,
                                    ls_variable *const *variables, size_t count,
                                    int64_t step) {
  for (size_t i = 0; i < count && events->train != NULL; ++i)
    LS_RETURN_IF_ERROR(
        log_variable(events->train, session, variables[i], step));
  return ls_ok();
}
