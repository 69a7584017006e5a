// SPDX-License-Identifier: Apache-2.0
#include "train/folder/saves.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plain.h"
#include "base/require.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/training_parts.h"
#include "state/own.h"
#include "state/saved.h"
#include "train/folder/run_folder.h"

// ---- Variables -------------------------------------------------------------
ls_status ls_train_variables(ls_runtime *runtime, const ls_model *model,
                             bool all, ls_variable ***out_variables,
                             size_t *out_count) {
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  const ls_model_type *type = model->type;
  const ls_optimizer *optimizer =
      all && type->optimizer != NULL ? type->optimizer(model->self) : NULL;
  const size_t own = type->variables(model->self, NULL, 0);
  const size_t more =
      optimizer != NULL ? ls_optimizer_variables(optimizer, NULL, 0) : 0;
  *out_count = own + more;
  LS_SET_ARRAY_OR_RETURN(allocator, ls_variable *, *out_variables,
                         own + more + 1);
  type->variables(model->self, *out_variables, own);
  if (optimizer != NULL)
    ls_optimizer_variables(optimizer, *out_variables + own, more);
  return ls_ok();
}

ls_status ls_train_prepare_optimizer(ls_runtime *runtime,
                                     const ls_model *model) {
  if (model->type->optimizer == NULL) return ls_ok();
  size_t all = 0, count = 0;
  LS_OWN_MEMORY(ls_runtime_allocator(runtime), ls_variable *, variables) = NULL;
  LS_RETURN_IF_ERROR(
      ls_train_variables(runtime, model, false, &variables, &all));
  for (size_t i = 0; i < all; ++i) {
    if (ls_variable_is_trainable(variables[i]))
      variables[count++] = variables[i];
  }
  return ls_optimizer_prepare(model->type->optimizer(model->self), variables,
                              count);
}

static ls_status saved_values_restore(ls_runtime *runtime,
                                      const ls_model *model, bool all,
                                      const ls_safetensors_file *file) {
  ls_saver saver = {.exact = all};
  LS_OWN_MEMORY(ls_runtime_allocator(runtime), ls_variable *, variables) = NULL;
  LS_RETURN_IF_ERROR(ls_train_variables(runtime, model, all, &variables,
                                        &saver.num_variables));
  saver.variables = variables;
  return ls_saver_restore_from(&saver, file);
}

static ls_status check_model(const char *path, const char *has,
                             const ls_model *model) {
  if (has != NULL && strcmp(has, model->type->name) == 0) return ls_ok();
  return ls_invalid_argument("'%s' is of model '%s', not of '%s'", path,
                             has != NULL ? has : "", model->type->name);
}

// ---- The model's variables -------------------------------------------------
ls_status ls_model_file_write(ls_runtime *runtime, const char *path,
                              const ls_model *model, int64_t steps) {
  char step[32];
  snprintf(step, sizeof(step), "%lld", (long long)steps);
  const ls_safetensors_note notes[] = {{"model", model->type->name},
                                       {"step", step}};
  ls_saver saver = {0};
  LS_OWN_MEMORY(ls_runtime_allocator(runtime), ls_variable *, variables) = NULL;
  LS_RETURN_IF_ERROR(ls_train_variables(runtime, model, false, &variables,
                                        &saver.num_variables));
  saver.variables = variables;
  return ls_saver_save_with(&saver, path, notes, LS_COUNT_OF(notes));
}

static const char *find_note(const ls_safetensors_file *file, const char *key) {
  for (size_t i = 0; i < file->num_notes; ++i) {
    if (strcmp(file->notes[i].key, key) == 0) return file->notes[i].value;
  }
  return NULL;
}

ls_status ls_model_file_read(ls_runtime *runtime, const char *path,
                             const ls_model *model) {
  LS_OWN(ls_safetensors_file, file) = {0};
  LS_RETURN_IF_ERROR(ls_safetensors_open(runtime, path, &file));
  LS_RETURN_IF_ERROR(check_model(path, find_note(&file, "model"), model));
  return saved_values_restore(runtime, model, false, &file);
}

// ---- The newest checkpoint -------------------------------------------------
static ls_status restore_checkpoint(ls_runtime *runtime,
                                    const ls_saved_file *file,
                                    const ls_model *model) {
  const ls_json *identity = ls_json_find(file->checkpoint.root, "identity");
  const ls_json *name = ls_json_find(identity, "model");
  const bool named = name != NULL && name->kind == LS_JSON_STRING;
  LS_RETURN_IF_ERROR(
      check_model(file->checkpoint.path, named ? name->string : NULL, model));
  return saved_values_restore(runtime, model, false, &file->checkpoint.values);
}

ls_status ls_model_checkpoint_read(ls_runtime *runtime, const char *folder,
                                   const ls_model *model) {
  LS_OWN(ls_saved_file, file) = NULL;
  if (ls_runtime_files(runtime)->list != NULL)
    LS_RETURN_IF_ERROR(ls_saved_file_open(folder, &file));
  return file == NULL || file->checkpoint.root == NULL
             ? ls_not_found("'%s' has no checkpoint", folder)
             : restore_checkpoint(runtime, file, model);
}

// ---- Checkpoints of earlier versions ---------------------------------------
enum { MOST_SECONDS = 1000000000 };

// Notes that are integers.
static const struct {
  const char *key;
  const char *text;  // For messages; NULL: need not agree.
  size_t offset;
} counts[] = {
    {"replicas", "replicas", offsetof(ls_former_notes, replicas)},
    {"batch_size", "examples a batch", offsetof(ls_former_notes, batch_size)},
    {"seed", "as seed", offsetof(ls_former_notes, seed)},
    {"examples", "examples to train on", offsetof(ls_former_notes, examples)},
    {"step", NULL, offsetof(ls_former_notes, steps)},
};

static ls_status damaged_note(const char *path, const char *key,
                              const char *text) {
  return LS_STATUS(LS_DATA_LOSS, "'%s' is damaged: its note \"%s\" is '%s'",
                   path, key, text != NULL ? text : "missing");
}

static ls_status read_count(const ls_safetensors_file *file, const char *path,
                            const char *key, int64_t *out_count) {
  const char *text = find_note(file, key);
  char *end = NULL;
  errno = 0;
  *out_count = text != NULL ? strtoll(text, &end, 10) : -1;
  if (text != NULL && end != text && *end == '\0' && errno == 0) return ls_ok();
  return damaged_note(path, key, text);
}

// Reads the run's time, bounded so that nanoseconds do not overflow.
static ls_status read_seconds(const ls_safetensors_file *file, const char *path,
                              double *out_seconds) {
  const char *text = find_note(file, "seconds");
  char *end = NULL;
  *out_seconds = text != NULL ? ls_read_f64(text, &end) : -1;
  if (text != NULL && end != text && *end == '\0' && *out_seconds >= 0 &&
      *out_seconds < MOST_SECONDS)
    return ls_ok();
  return damaged_note(path, "seconds", text);
}

static ls_status read_notes(const ls_safetensors_file *file, const char *path,
                            ls_former_notes *notes) {
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i) {
    int64_t *at = (int64_t *)(void *)((char *)notes + counts[i].offset);
    int64_t value = 0;
    LS_RETURN_IF_ERROR(read_count(file, path, counts[i].key, &value));
    if (counts[i].text != NULL && value != *at && !notes->inexact)
      return ls_invalid_argument(
          "the run of '%s' has %lld %s, this one has %lld", path,
          (long long)value, counts[i].text, (long long)*at);
    *at = value;
  }
  if (notes->steps < 0)
    return LS_STATUS(LS_DATA_LOSS, "'%s' is damaged: it is of step %lld", path,
                     (long long)notes->steps);
  return read_seconds(file, path, &notes->seconds);
}

ls_status ls_former_checkpoint_read(ls_runtime *runtime, const char *path,
                                    const ls_model *model,
                                    ls_former_notes *notes) {
  LS_OWN(ls_safetensors_file, file) = {0};
  LS_RETURN_IF_ERROR(ls_safetensors_open(runtime, path, &file));
  LS_RETURN_IF_ERROR(check_model(path, find_note(&file, "model"), model));
  LS_RETURN_IF_ERROR(read_notes(&file, path, notes));
  return saved_values_restore(runtime, model, true, &file);
}

// ---- Warm starts -----------------------------------------------------------
static ls_status warm_start_restore(ls_runtime *runtime, const ls_model *model,
                                    const ls_saved_file *file,
                                    const ls_value_choice *values) {
  LS_OWN_MEMORY(ls_runtime_allocator(runtime), ls_variable *, variables) = NULL;
  ls_saver saver = {0};
  ls_value_report report;
  LS_RETURN_IF_ERROR(ls_train_variables(runtime, model, false, &variables,
                                        &saver.num_variables));
  saver.variables = variables;
  LS_RETURN_IF_ERROR(ls_saved_file_restore_part(file, &saver, values, &report));
  ls_saved_info info;
  size_t all = 0;
  ls_saved_file_describe(file, &info);
  for (int fate = 0; fate < LS_VALUE_FATES; ++fate)
    all += fate != LS_VALUE_EXTRA ? report.count[fate] : 0;
  ls_runtime_log(
      runtime, LS_LOG_INFO, "train", "%zu of %zu variables start with '%s'",
      report.count[LS_VALUE_RESTORED] + report.count[LS_VALUE_RENAMED], all,
      info.path);
  return ls_ok();
}

ls_status ls_warm_start_apply(ls_runtime *runtime, const ls_model *model,
                              const ls_warm_start *warm_start) {
  if (warm_start == NULL) return ls_ok();
  LS_REQUIRE(warm_start->path);
  LS_OWN(ls_saved_file, file) = NULL;
  ls_status status = ls_run_folder_recover(runtime, warm_start->path);
  if (ls_status_is_ok(status))
    status = ls_saved_file_open(warm_start->path, &file);
  if (ls_status_is_ok(status))
    status = warm_start_restore(runtime, model, file, &warm_start->values);
  return ls_status_annotate(status, "model '%s' was to start with that",
                            model->type->name);
}
