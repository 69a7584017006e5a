// SPDX-License-Identifier: Apache-2.0
#include "train/run_folder.h"

#include <stdio.h>

#include "io/json.h"
#include "io/safetensors.h"
#include "lockstep/eager.h"

static const char config_name[] = "config.json";
static const char metrics_name[] = "metrics.jsonl";
static const char model_name[] = "model.safetensors";

// Sets `folder->file` to a file of the folder.
static ls_status name_file(ls_run_folder *folder, const char *name) {
  ls_text_clear(&folder->file);
  ls_text_append_format(&folder->file, "%s/%s", folder->path, name);
  return ls_text_status(&folder->file);
}

// ---- Opening ---------------------------------------------------------------
static void print_config(const ls_train_options *options, ls_text *text) {
  ls_json_writer json = {.text = text};
  ls_json_begin(&json, '{');
  ls_json_key(&json, "model");
  ls_json_string(&json, options->model->type->name);
  ls_json_key(&json, "data");
  ls_json_string(&json, options->data_name != NULL ? options->data_name : "");
  ls_json_key(&json, "replicas");
  ls_json_i64(&json, ls_strategy_num_replicas(options->strategy));
  ls_json_key(&json, "threads");
  ls_json_i64(&json, ls_runtime_threads(ls_runtime_current()));
  ls_json_key(&json, "precision");
  ls_json_string(&json, "f32");
  ls_json_key(&json, "batch_size");
  ls_json_i64(&json, options->batch_size);
  ls_json_key(&json, "epochs");
  ls_json_i64(&json, options->epochs);
  ls_json_key(&json, "steps");
  ls_json_i64(&json, options->steps);
  ls_json_key(&json, "learning_rate");
  ls_json_f64(&json, options->learning_rate);
  ls_json_key(&json, "schedule");
  ls_json_string(&json, options->schedule);
  ls_json_key(&json, "seed");
  ls_json_i64(&json, options->seed);
  ls_json_end(&json, '}');
  ls_text_append_char(text, '\n');
}

// Takes away what a former run left.
static ls_status clear(ls_run_folder *folder) {
  static const char *const names[] = {model_name, metrics_name, config_name};
  const ls_file_system *files = ls_runtime_files(folder->runtime);
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i) {
    bool exists = false;
    LS_RETURN_IF_ERROR(name_file(folder, names[i]));
    const char *path = ls_text_data(&folder->file);
    LS_RETURN_IF_ERROR(files->exists(files->user, path, &exists));
    if (exists) LS_RETURN_IF_ERROR(files->remove(files->user, path));
  }
  return ls_ok();
}

static ls_status start(ls_run_folder *folder, const ls_train_options *options) {
  const ls_file_system *files = ls_runtime_files(folder->runtime);
  bool exists = false;
  LS_RETURN_IF_ERROR(name_file(folder, config_name));
  LS_RETURN_IF_ERROR(
      files->exists(files->user, ls_text_data(&folder->file), &exists));
  if (exists && !options->overwrite)
    return LS_STATUS(LS_ALREADY_EXISTS,
                     "the run folder '%s' holds a run already; choose another "
                     "one, or allow to overwrite it",
                     folder->path);
  if (exists) LS_RETURN_IF_ERROR(clear(folder));
  LS_RETURN_IF_ERROR(files->make_directories(files->user, folder->path));
  print_config(options, &folder->text);
  LS_RETURN_IF_ERROR(ls_text_status(&folder->text));
  LS_RETURN_IF_ERROR(name_file(folder, config_name));
  return files->write(files->user, ls_text_data(&folder->file),
                      ls_text_data(&folder->text), folder->text.size);
}

ls_status ls_run_folder_open(ls_run_folder *folder, ls_runtime *runtime,
                             const ls_train_options *options) {
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  *folder = (ls_run_folder){.runtime = runtime, .path = options->run_folder};
  ls_text_init(&folder->file, allocator);
  ls_text_init(&folder->text, allocator);
  if (folder->path == NULL) return ls_ok();
  const ls_status status = start(folder, options);
  if (!ls_status_is_ok(status)) ls_run_folder_close(folder);
  return status;
}

void ls_run_folder_close(ls_run_folder *folder) {
  if (folder->runtime != NULL) {
    ls_text_deinit(&folder->file);
    ls_text_deinit(&folder->text);
  }
  *folder = (ls_run_folder){0};
}

// ---- Metrics ---------------------------------------------------------------
ls_status ls_run_folder_log(ls_run_folder *folder,
                            const ls_train_report *report) {
  if (folder->path == NULL) return ls_ok();
  ls_text_clear(&folder->text);
  ls_json_writer json = {.text = &folder->text};
  ls_json_begin(&json, '{');
  ls_json_key(&json, "step");
  ls_json_i64(&json, report->step);
  ls_json_key(&json, "epoch");
  ls_json_i64(&json, report->epoch);
  ls_json_key(&json, report->tested ? "test_loss" : "loss");
  ls_json_f64(&json, report->tested ? report->test.loss : report->loss);
  ls_json_key(&json, report->tested ? "test_accuracy" : "accuracy");
  ls_json_f64(&json, report->tested ? report->test.accuracy : report->accuracy);
  if (!report->tested) {
    ls_json_key(&json, "examples_per_second");
    ls_json_f64(&json, report->examples_per_second);
  }
  ls_json_key(&json, "seconds");
  ls_json_f64(&json, report->seconds);
  ls_json_end(&json, '}');
  ls_text_append_char(&folder->text, '\n');
  LS_RETURN_IF_ERROR(ls_text_status(&folder->text));
  LS_RETURN_IF_ERROR(name_file(folder, metrics_name));
  const ls_file_system *files = ls_runtime_files(folder->runtime);
  return files->append(files->user, ls_text_data(&folder->file),
                       ls_text_data(&folder->text), folder->text.size);
}

// ---- Model -----------------------------------------------------------------
static ls_status save_variables(ls_run_folder *folder, const ls_model *model,
                                ls_variable **variables, ls_safetensor *tensors,
                                size_t count, int64_t step) {
  model->type->variables(model->self, variables, count);
  for (size_t i = 0; i < count; ++i) {
    tensors[i].name = ls_variable_name(variables[i]);
    LS_RETURN_IF_ERROR(ls_variable_value(variables[i], &tensors[i].array));
  }
  char step_text[24];
  snprintf(step_text, sizeof(step_text), "%lld", (long long)step);
  const ls_safetensors_note notes[] = {{"model", model->type->name},
                                       {"step", step_text}};
  LS_RETURN_IF_ERROR(name_file(folder, model_name));
  return ls_safetensors_write(folder->runtime, ls_text_data(&folder->file),
                              tensors, count, notes, LS_COUNT_OF(notes));
}

ls_status ls_run_folder_save(ls_run_folder *folder, const ls_model *model,
                             int64_t step) {
  if (folder->path == NULL) return ls_ok();
  ls_allocator *allocator = ls_runtime_allocator(folder->runtime);
  const size_t count = model->type->variables(model->self, NULL, 0);
  ls_variable **variables = ls_new_array(allocator, ls_variable *, count);
  ls_safetensor *tensors = ls_new_array(allocator, ls_safetensor, count);
  const ls_status status =
      variables != NULL && tensors != NULL
          ? save_variables(folder, model, variables, tensors, count, step)
          : ls_out_of_memory();
  for (size_t i = 0; tensors != NULL && i < count; ++i)
    ls_array_release(tensors[i].array);
  ls_release(allocator, tensors);
  ls_release(allocator, variables);
  return status;
}
