// SPDX-License-Identifier: Apache-2.0
#include "train/folder/run_folder.h"

#include <math.h>
#include <stdio.h>

#include <stdlib.h>
#include <string.h>

#include "base/memory/own.h"
#include "base/plain.h"
#include "base/require.h"
#include "io/json.h"
#include "state/saved.h"
#include "train/chain/chain.h"
#include "train/events/run_events.h"
#include "train/folder/saves.h"
#include "train/input.h"
#include "train/run_plan.h"

static const char config_name[] = LS_CONFIG_FILE;
static const char metrics_name[] = "metrics.jsonl";
static const char model_name[] = "model.safetensors";
static const char estimator_name[] = "estimator.json";

void ls_run_folder_init(ls_run_folder *folder, ls_runtime *runtime,
                        const char *path) {
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  *folder = (ls_run_folder){.runtime = runtime, .path = path};
  ls_sha256_init(&folder->metrics);
  ls_text_init(&folder->file, allocator);
  ls_text_init(&folder->text, allocator);
}

// ---- Locking ---------------------------------------------------------------
// Sets `folder->file` to the path of a file in the folder.
static ls_status run_folder_name_file(ls_run_folder *folder, const char *name) {
  ls_text_clear(&folder->file);
  ls_text_append_format(&folder->file, "%s/%s", folder->path, name);
  return ls_text_status(&folder->file);
}

static ls_status run_folder_take(ls_run_folder *folder) {
  const ls_file_system *files = ls_runtime_files(folder->runtime);
  LS_RETURN_IF_ERROR(run_folder_name_file(folder, "lock"));
  if (files->lock != NULL)
    LS_RETURN_IF_ERROR(ls_status_annotate(
        files->lock(files->user, ls_text_data(&folder->file), &folder->lock),
        "a run folder has one writer at a time"));
  folder->held = true;
  return ls_ok();
}

static void give_back(ls_run_folder *folder) {
  const ls_file_system *files = ls_runtime_files(folder->runtime);
  if (folder->held && files->lock != NULL)
    files->unlock(files->user, folder->lock);
  folder->held = false;
}

void ls_run_folder_deinit(ls_run_folder *folder) {
  if (folder->runtime != NULL) {
    give_back(folder);
    ls_text_deinit(&folder->file);
    ls_text_deinit(&folder->text);
  }
  *folder = (ls_run_folder){0};
}

// ---- Files of the folder ---------------------------------------------------
static ls_status has_file(ls_run_folder *folder, const char *name,
                          bool *out_exists) {
  const ls_file_system *files = ls_runtime_files(folder->runtime);
  LS_RETURN_IF_ERROR(run_folder_name_file(folder, name));
  return files->exists(files->user, ls_text_data(&folder->file), out_exists);
}

// Writes `folder->text` to a file in the folder.
static ls_status run_folder_write_text(ls_run_folder *folder,
                                       const char *name) {
  const ls_file_system *files = ls_runtime_files(folder->runtime);
  LS_RETURN_IF_ERROR(ls_text_status(&folder->text));
  LS_RETURN_IF_ERROR(run_folder_name_file(folder, name));
  return files->write(files->user, ls_text_data(&folder->file),
                      ls_text_data(&folder->text), folder->text.size);
}

static ls_status write_config(ls_run_folder *folder,
                              const ls_train_config *config) {
  ls_text_clear(&folder->text);
  ls_train_config_print(config, &folder->text);
  return run_folder_write_text(folder, config_name);
}

bool ls_run_folder_owns(const char *name) {
  static const char *const names[] = {config_name, metrics_name,
                                      model_name,  estimator_name,
                                      "graph.ls",  LS_CHAIN_FILE};
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i) {
    const size_t size = strlen(names[i]);
    if (strncmp(name, names[i], size) != 0) continue;
    if (name[size] == '\0' || strcmp(name + size, ".tmp") == 0) return true;
  }
  return ls_saves_owns(name) || ls_run_events_owns(name);
}

// ---- A former run ----------------------------------------------------------
// Settles a former run; the folder is locked.
static ls_status run_folder_settle(ls_run_folder *folder, bool *out_is_back) {
  LS_RETURN_IF_ERROR(
      ls_former_run_settle(folder->runtime, folder->path, out_is_back));
  folder->keeps = false;
  return ls_ok();
}

// Settles what a killed process left, and logs it.
static ls_status settle_killed(ls_run_folder *folder) {
  bool is_back = false;
  LS_RETURN_IF_ERROR(run_folder_settle(folder, &is_back));
  if (is_back)
    ls_runtime_log(folder->runtime, LS_LOG_WARNING, "train",
                   "the run in '%s' is the one that was being overwritten: the "
                   "new one was killed before its first checkpoint",
                   folder->path);
  return ls_ok();
}

ls_status ls_run_folder_drop_former(ls_run_folder *folder) {
  LS_RETURN_IF_ERROR(ls_former_run_remove(folder->runtime, folder->path));
  folder->keeps = false;
  return ls_ok();
}

ls_status ls_run_folder_settle(ls_run_folder *folder, ls_status status) {
  bool is_back = false;
  if (!folder->keeps) return status;
  const ls_status settled = run_folder_settle(folder, &is_back);
  if (is_back)
    status = ls_status_annotate(
        status, "'%s' has the run again that was to be overwritten",
        folder->path);
  if (!ls_status_is_ok(settled))
    ls_runtime_log(
        folder->runtime, LS_LOG_WARNING, "train",
        "the run that was being overwritten is in '%s/.overwritten'; the next "
        "program that opens '%s' restores it, or removes it if the new one has "
        "a checkpoint: %s",
        folder->path, folder->path, ls_status_message(settled));
  ls_status_free(settled);
  return status;
}

static ls_status recover(ls_run_folder *folder) {
  const ls_file_system *files = ls_runtime_files(folder->runtime);
  bool exists = false;
  LS_RETURN_IF_ERROR(
      ls_former_run_exists(folder->runtime, folder->path, &exists));
  if (!exists || files->lock == NULL) return ls_ok();
  ls_status status = run_folder_take(folder);
  if (ls_status_code(status) == LS_FAILED_PRECONDITION) {
    ls_status_free(status);
    return ls_ok();
  }
  if (ls_status_is_ok(status)) status = settle_killed(folder);
  give_back(folder);
  return ls_status_annotate(
      status,
      "the run in '%s' was being overwritten when its process was killed; its "
      "files are in '%s/.overwritten' and will be restored when a process with "
      "write access opens it",
      folder->path, folder->path);
}

ls_status ls_run_folder_recover(ls_runtime *runtime, const char *path) {
  LS_OWN(ls_run_folder, folder) = {0};
  ls_run_folder_init(&folder, runtime, path);
  return recover(&folder);
}

// ---- Starting --------------------------------------------------------------
static ls_status remove_file(ls_run_folder *folder, const char *name) {
  const ls_file_system *files = ls_runtime_files(folder->runtime);
  bool exists = false;
  LS_RETURN_IF_ERROR(has_file(folder, name, &exists));
  return exists ? files->remove(files->user, ls_text_data(&folder->file))
                : ls_ok();
}

// Unlocks the folder, and removes it if it is empty.
static void run_folder_leave(ls_run_folder *folder) {
  const ls_file_system *files = ls_runtime_files(folder->runtime);
  give_back(folder);
  ls_status_free(files->remove(files->user, folder->path));
}

static ls_status find_run(ls_run_folder *folder, bool overwrite) {
  LS_RETURN_IF_ERROR(has_file(folder, config_name, &folder->replaces));
  if (!folder->replaces)
    LS_RETURN_IF_ERROR(has_file(folder, estimator_name, &folder->replaces));
  if (!folder->replaces || overwrite) return ls_ok();
  return LS_STATUS(LS_ALREADY_EXISTS,
                   "the run folder '%s' already holds a run; choose another "
                   "one, or allow overwriting it",
                   folder->path);
}

static ls_status take_over(ls_run_folder *folder, bool overwrite) {
  LS_RETURN_IF_ERROR(run_folder_take(folder));
  LS_RETURN_IF_ERROR(settle_killed(folder));
  return find_run(folder, overwrite);
}

ls_status ls_run_folder_start(ls_run_folder *folder,
                              const ls_train_config *config, bool overwrite) {
  if (folder->path == NULL) return ls_ok();
  const ls_file_system *files = ls_runtime_files(folder->runtime);
  // Checks again under the lock, where nobody can begin another run.
  LS_RETURN_IF_ERROR(find_run(folder, overwrite));
  LS_RETURN_IF_ERROR(files->make_directories(files->user, folder->path));
  ls_status status = take_over(folder, overwrite);
  if (!ls_status_is_ok(status)) {
    run_folder_leave(folder);
    return status;
  }
  if (folder->replaces) return ls_ok();
  status = write_config(folder, config);
  if (!ls_status_is_ok(status)) ls_run_folder_abandon(folder);
  return status;
}

ls_status ls_run_folder_claim(ls_run_folder *folder, bool overwrite) {
  const ls_file_system *files = ls_runtime_files(folder->runtime);
  bool exists = false;
  LS_RETURN_IF_ERROR(files->make_directories(files->user, folder->path));
  LS_RETURN_IF_ERROR(run_folder_take(folder));
  LS_RETURN_IF_ERROR(
      ls_former_run_exists(folder->runtime, folder->path, &exists));
  if (exists) LS_RETURN_IF_ERROR(settle_killed(folder));
  if (!overwrite) return ls_ok();
  folder->keeps = true;
  return ls_former_run_keep(folder->runtime, folder->path);
}

ls_status ls_run_folder_commit(ls_run_folder *folder,
                               const ls_train_config *config) {
  if (!folder->replaces) return ls_ok();
  folder->keeps = true;
  LS_RETURN_IF_ERROR(ls_former_run_keep(folder->runtime, folder->path));
  LS_RETURN_IF_ERROR(write_config(folder, config));
  folder->replaces = false;
  return ls_ok();
}

void ls_run_folder_abandon(ls_run_folder *folder) {
  if (!folder->held) return;
  if (!folder->replaces) {
    ls_status_free(remove_file(folder, config_name));
    ls_status_free(remove_file(folder, LS_CHAIN_FILE));
  }
  run_folder_leave(folder);
}

// ---- Resuming --------------------------------------------------------------
// Returns the bytes of the lines of metrics.jsonl that a run resumed at `step`
// keeps: those before `step`, and those of `step` except an evaluation, if that
// is repeated. Stops at a malformed or truncated line.
static size_t lines_until(const char *text, int64_t step, bool tests_again) {
  static const char head[] = "{\"step\":", key[] = "\"test_loss\"";
  const char *at = text, *test = text;  // The next evaluation; NULL: none.
  for (;;) {
    const size_t size = strcspn(at, "\n");
    if (at[size] == '\0' || strncmp(at, head, sizeof(head) - 1) != 0) break;
    const long long line_step = strtoll(at + sizeof(head) - 1, NULL, 10);
    if (test != NULL && test <= at) test = strstr(at, key);
    const bool tested = test != NULL && test < at + size;
    if (line_step > step || (line_step == step && tested && tests_again)) break;
    at += size + 1;
  }
  return (size_t)(at - text);
}

// Returns the time up to the last of some lines, which may be cut off.
static double seconds_of(const char *text, size_t size) {
  static const char key[] = "\"seconds\":";
  const size_t length = sizeof(key) - 1;
  for (size_t at = size; at-- > 0;)
    if (size - at > length && memcmp(text + at, key, length) == 0)
      return ls_read_f64(text + at + length, NULL);
  return 0;
}

ls_status ls_run_folder_look_back(ls_run_folder *folder, int64_t step,
                                  bool cuts, bool tests_again,
                                  double *out_seconds) {
  const ls_file_system *files = ls_runtime_files(folder->runtime);
  ls_allocator *allocator = ls_runtime_allocator(folder->runtime);
  bool exists = false;
  *out_seconds = 0;
  LS_RETURN_IF_ERROR(has_file(folder, metrics_name, &exists));
  if (!exists) return ls_ok();
  LS_OWN_MEMORY(allocator, char, text) = NULL;
  size_t size = 0;
  LS_RETURN_IF_ERROR(files->read(files->user, ls_text_data(&folder->file),
                                 SIZE_MAX, allocator, &text, &size));
  const size_t kept = lines_until(text, step, tests_again);
  *out_seconds = seconds_of(text, kept);
  ls_sha256_init(&folder->metrics);
  ls_sha256_add(&folder->metrics, text, kept);
  if (kept < size && cuts) {
    ls_text_clear(&folder->text);
    ls_text_append_bytes(&folder->text, text, kept);
    LS_RETURN_IF_ERROR(run_folder_write_text(folder, metrics_name));
  }
  return ls_ok();
}

// Accepts a folder that has lost config.json: checkpoints have copies.
static ls_status run_folder_check_run(ls_run_folder *folder) {
  ls_allocator *allocator = ls_runtime_allocator(folder->runtime);
  LS_OWN_MEMORY(allocator, int64_t, steps) = NULL;
  size_t count = 0;
  bool run = false, former = false;
  LS_RETURN_IF_ERROR(has_file(folder, config_name, &run));
  if (run) return ls_ok();
  LS_RETURN_IF_ERROR(
      ls_former_run_exists(folder->runtime, folder->path, &former));
  if (former) return ls_ok();
  ls_status_free(
      ls_saved_find_steps(folder->runtime, folder->path, &steps, &count));
  return count > 0
             ? ls_ok()
             : ls_not_found("'%s' is no run folder: it has no config.json",
                            folder->path);
}

ls_status ls_run_folder_enter(ls_run_folder *folder) {
  if (folder->path == NULL)
    return ls_invalid_argument("there is no run folder to resume from");
  LS_RETURN_IF_ERROR(run_folder_check_run(folder));
  LS_RETURN_IF_ERROR(run_folder_take(folder));
  // Under the lock, so that nobody else can begin to overwrite the run.
  LS_RETURN_IF_ERROR(settle_killed(folder));
  return run_folder_check_run(folder);
}

ls_status ls_run_folder_continue(ls_run_folder *folder,
                                 const ls_train_config *config, int64_t step) {
  double seconds = 0;
  LS_RETURN_IF_ERROR(
      ls_run_folder_look_back(folder, step, true, true, &seconds));
  return write_config(folder, config);
}

// ---- Budget ----------------------------------------------------------------
static void write_seconds(ls_json_writer *json, const char *key,
                          double seconds) {
  ls_json_key(json, key);
  ls_json_f64(json, round(seconds * 1e6) / 1e6);
}

// Writes the parts in seconds; their sum is the total.
static void write_budget(ls_json_writer *json, const ls_train_budget *budget) {
  ls_json_key(json, "budget");
  ls_json_begin(json, '{');
  write_seconds(json, "whole", budget->whole);
  write_seconds(json, "compute", budget->compute);
  write_seconds(json, "input", budget->input);
  ls_json_key(json, "input_stage");
  ls_json_string(json, budget->input_stage);
  write_seconds(json, "collective", budget->collective);
  write_seconds(json, "host", budget->host);
  write_seconds(json, "save", budget->save);
  write_seconds(json, "rest", budget->rest);
  ls_json_end(json, '}');
}

// ---- Metrics ---------------------------------------------------------------
static void write_rule(ls_json_writer *json, int64_t best_step, int64_t waited,
                       bool stops) {
  if (best_step > 0) {
    ls_json_key(json, "best_step");
    ls_json_i64(json, best_step);
    ls_json_key(json, "waited");
    ls_json_i64(json, waited);
  }
  if (!stops) return;
  ls_json_key(json, "stopped_early");
  ls_json_bool(json, true);
}

// Prints a line. Without an epoch it is an estimator's.
static void print_metrics(const ls_train_report *report,
                          const ls_last_step *last, ls_text *text) {
  char metric[64];
  ls_text_clear(text);
  ls_json_writer json = {.text = text};
  ls_json_begin(&json, '{');
  ls_json_key(&json, "step");
  ls_json_i64(&json, report->step);
  if (report->epoch > 0) {
    ls_json_key(&json, "epoch");
    ls_json_i64(&json, report->epoch);
  }
  ls_json_key(&json, report->tested ? "test_loss" : "loss");
  ls_json_f64(&json, report->tested ? report->test.loss : report->loss);
  if (report->epoch > 0) {
    snprintf(metric, sizeof(metric), "%s%s", report->tested ? "test_" : "",
             ls_train_metric_of(report));
    ls_json_key(&json, metric);
    ls_json_f64(&json,
                report->tested ? report->test.accuracy : report->accuracy);
  }
  if (report->tested && !isnan(report->test.mean_iou)) {
    ls_json_key(&json, "test_mean_iou");
    ls_json_f64(&json, report->test.mean_iou);
  }
  if (!isnan(last->rate)) {
    ls_json_key(&json, "learning_rate");
    ls_json_f64(&json, last->rate);
  }
  if (!isnan(last->gradient_norm)) {
    ls_json_key(&json, "gradient_norm");
    ls_json_f64(&json, last->gradient_norm);
  }
  write_rule(&json, report->tested ? report->best_step : 0, report->waited,
             report->stops_early);
  if (!report->tested) {
    ls_json_key(&json, "steps");
    ls_json_i64(&json, report->steps);
    ls_json_key(&json, "examples_per_second");
    ls_json_f64(&json, report->examples_per_second);
    if (report->epoch > 0) write_budget(&json, &report->budget);
  }
  ls_json_key(&json, "seconds");
  ls_json_f64(&json, report->seconds);
  ls_json_end(&json, '}');
  ls_text_append_char(text, '\n');
}

// Passes the line in `text` to the log, and appends it to metrics.jsonl.
static ls_status add_line(ls_run_folder *folder) {
  LS_RETURN_IF_ERROR(ls_text_status(&folder->text));
  if (folder->log.line != NULL)
    folder->log.line(folder->log.user, ls_text_data(&folder->text));
  if (folder->path == NULL || folder->replaces) return ls_ok();
  LS_RETURN_IF_ERROR(run_folder_name_file(folder, metrics_name));
  const ls_file_system *files = ls_runtime_files(folder->runtime);
  ls_sha256_add(&folder->metrics, ls_text_data(&folder->text),
                folder->text.size);
  folder->has_unsynced = true;
  return files->append(files->user, ls_text_data(&folder->file),
                       ls_text_data(&folder->text), folder->text.size);
}

ls_status ls_run_folder_sync_lines(ls_run_folder *folder) {
  const ls_file_system *files = ls_runtime_files(folder->runtime);
  if (!folder->has_unsynced || files->sync_appended == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(run_folder_name_file(folder, metrics_name));
  folder->has_unsynced = false;
  return files->sync_appended(files->user, ls_text_data(&folder->file));
}

bool ls_run_folder_has_lines(const ls_run_folder *folder) {
  return folder->log.line != NULL ||
         (folder->path != NULL && !folder->replaces);
}

ls_status ls_run_folder_log(ls_run_folder *folder,
                            const ls_train_report *report,
                            const ls_last_step *last) {
  if (!ls_run_folder_has_lines(folder)) return ls_ok();
  print_metrics(report, last, &folder->text);
  return add_line(folder);
}

ls_status ls_run_folder_log_metrics(ls_run_folder *folder, int64_t step,
                                    ls_nest metrics,
                                    const ls_early_stop *early) {
  LS_OWN(ls_text, key) = {.allocator = folder->text.allocator};
  ls_json_writer json = {.text = &folder->text};
  ls_text_clear(&folder->text);
  ls_json_begin(&json, '{');
  ls_json_key(&json, "step");
  ls_json_i64(&json, step);
  for (size_t i = 0; i < ls_nest_count(metrics); ++i) {
    double value = 0;
    ls_text_clear(&key);
    ls_text_append_format(&key, "test_%s", ls_nest_key(metrics, i));
    LS_RETURN_IF_ERROR(ls_text_status(&key));
    // Event files have metrics that are no number.
    LS_OWN(ls_status, status) =
        ls_nest_to_number(ls_nest_item(metrics, i), &value);
    if (!ls_status_is_ok(status) ||
        strcmp(ls_nest_key(metrics, i), "global_step") == 0)
      continue;
    ls_json_key(&json, ls_text_data(&key));
    ls_json_f64(&json, value);
  }
  if (early != NULL)
    write_rule(&json, early->best_step, early->waited, early->is_over);
  ls_json_end(&json, '}');
  ls_text_append_char(&folder->text, '\n');
  LS_RETURN_IF_ERROR(add_line(folder));
  return ls_run_folder_sync_lines(folder);
}

ls_status ls_run_folder_log_sum(ls_run_folder *folder, int64_t step,
                                uint64_t sum) {
  ls_text_clear(&folder->text);
  ls_text_append_format(&folder->text,
                        "{\"step\":%lld,\"checksum\":\"%016llx\"}\n",
                        (long long)step, (unsigned long long)sum);
  return add_line(folder);
}

// ---- Model -----------------------------------------------------------------
ls_status ls_run_folder_save_model(ls_run_folder *folder, const ls_model *model,
                                   int64_t step) {
  if (folder->path == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(run_folder_name_file(folder, model_name));
  return ls_model_file_write(folder->runtime, ls_text_data(&folder->file),
                             model, step);
}

// Loads the newest checkpoint if it is newer than the model, as in a run that
// was killed.
static ls_status run_folder_load(ls_run_folder *folder, const ls_model *model) {
  bool saved = false;
  LS_RETURN_IF_ERROR(ls_run_folder_recover(folder->runtime, folder->path));
  const ls_status newest =
      ls_model_checkpoint_read(folder->runtime, folder->path, model);
  if (ls_status_is_ok(newest)) return newest;
  if (ls_status_code(newest) == LS_NOT_FOUND)
    LS_RETURN_IF_ERROR(has_file(folder, model_name, &saved));
  if (saved) {
    ls_status_free(newest);
    return ls_model_file_read(folder->runtime, ls_text_data(&folder->file),
                              model);
  }
  if (ls_status_code(newest) != LS_NOT_FOUND) return newest;
  ls_status_free(newest);
  return ls_not_found("the run in '%s' has saved no model: there is no %s",
                      folder->path, model_name);
}

ls_status ls_train_load(const char *run_folder, const ls_model *model) {
  LS_REQUIRE(run_folder, model, model->type);
  LS_REQUIRE(model->type->name, model->type->variables);
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  LS_OWN(ls_run_folder, folder) = {0};
  ls_run_folder_init(&folder, runtime, run_folder);
  return run_folder_load(&folder, model);
}
