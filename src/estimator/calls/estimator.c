// SPDX-License-Identifier: Apache-2.0
// Estimators: their options, and the checkpoints in their folder.
#include "estimator/calls/estimator.h"

#include <stdlib.h>
#include <string.h>

#include "base/require.h"
#include "base/status_cause.h"
#include "base/text.h"
#include "estimator/config/config.h"
#include "graph/text/text.h"
#include "lockstep/estimator_table.h"
#include "models/library.h"
#include "state/own.h"
#include "state/saved.h"

// ---- Checks ----------------------------------------------------------------
static ls_status check_params(ls_nest params) {
  static const char *const reserved[] = {LS_PARAM_BATCH_SIZE, LS_PARAM_CONTEXT};
  if (params.kind == LS_KIND_NONE) return ls_ok();
  if (params.kind != LS_KIND_DICT)
    return ls_invalid_argument("params must be a dict");
  for (size_t i = 0; i < ls_nest_count(params); ++i)
    for (size_t r = 0; r < 2; ++r)
      if (strcmp(ls_nest_key(params, i), reserved[r]) == 0)
        return ls_invalid_argument("params has '%s': batch_size and context "
                                   "are reserved, the estimator sets them",
                                   reserved[r]);
  return ls_ok();
}

static ls_status estimator_check_size(ls_opt size, const char *name) {
  return size.set ? ls_check_positive(name, size.value) : ls_ok();
}

static ls_status check_batches(const ls_estimator_options *o,
                               const ls_run_values *config) {
  const ls_tpu_config *tpu = config->tpu;
  if (!o->train_batch_size.set)
    return ls_invalid_argument("`train_batch_size` cannot be unset where the "
                               "model is trained on TPUs");
  LS_RETURN_IF_ERROR(
      estimator_check_size(o->train_batch_size, "train_batch_size"));
  if (tpu->per_host_input == LS_INPUT_PER_SHARD_V1 &&
      tpu->num_cores_per_replica.set)
    return ls_invalid_argument("Model parallelism only supports per host input "
                               "for training: set per_host_input");
  LS_RETURN_IF_ERROR(
      estimator_check_size(o->eval_batch_size, "eval_batch_size"));
  return estimator_check_size(o->predict_batch_size, "predict_batch_size");
}

static ls_status check_strategies(const ls_run_values *config) {
  return config->train_distribute != NULL || config->eval_distribute != NULL
             ? ls_invalid_argument(
                   "use_tpu, which is on by default, together with "
                   "train_distribute or eval_distribute: use one of them")
             : ls_ok();
}

static ls_status estimator_check(const ls_estimator_options *o) {
  const ls_run_values *config =
      o->config != NULL ? ls_run_config_values(o->config) : NULL;
  if (config == NULL || config->tpu == NULL)
    return ls_invalid_argument(
        "config must be a TPU run configuration (ls_tpu_run_config_create)");
  LS_RETURN_IF_ERROR(check_params(o->params));
  if (o->warm_start != NULL &&
      (o->warm_start->path == NULL || o->warm_start->path[0] == 0))
    return ls_invalid_argument("a warm start needs a checkpoint's path");
  if (o->use_tpu != LS_FLAG_OFF) {
    LS_RETURN_IF_ERROR(check_strategies(config));
    LS_RETURN_IF_ERROR(check_batches(o, config));
  }
  return ls_check_model_function(&o->model_fn, o->params.kind == LS_KIND_DICT);
}

// ---- The folder ------------------------------------------------------------
static ls_status new_folder(ls_estimator *self) {
  const char *base =
      self->runtime->environment(self->runtime->environment_user, "TMPDIR");
  if (base == NULL || base[0] == 0) base = "/tmp";
  LS_OWN(ls_text, path) = {.allocator = ls_current_allocator()};
  ls_text_append_format(&path, "%s/lockstep-XXXXXX", base);
  LS_RETURN_IF_ERROR(ls_text_status(&path));
  self->model_dir =
      ls_copy_text(ls_current_allocator(), ls_text_data(&path), path.size);
  LS_RETURN_IF_NO_MEMORY(self->model_dir);
  if (mkdtemp(self->model_dir) == NULL)
    return LS_STATUS(LS_UNAVAILABLE, "no temporary folder for a model in '%s'",
                     base);
  ls_runtime_log(self->runtime, LS_LOG_WARNING, "estimator",
                 "the model goes to the temporary folder %s", self->model_dir);
  return ls_ok();
}

static ls_status set_folder(ls_estimator *self, const char *given,
                            const char *configured) {
  if (given != NULL && configured != NULL && strcmp(given, configured) != 0)
    return ls_invalid_argument(
        "model_dir is '%s', that of the configuration '%s'", given, configured);
  if (given == NULL) given = configured;
  if (given == NULL) return new_folder(self);
  if (given[0] == 0) return ls_invalid_argument("model_dir is empty");
  return ls_keep_text(ls_current_allocator(), given, &self->model_dir);
}

// ---- Making ----------------------------------------------------------------
// Keeps a copy of the configuration without log_step_count_steps, because with
// it a training loop would add a counter and a logger of its own.
static ls_status set_config(ls_estimator *self, ls_run_config *config) {
  static const char *const fields[] = {"log_step_count_steps"};
  self->log_steps = ls_run_config_values(config)->log_step_count_steps;
  return ls_run_config_replace(config, fields, 1, &(ls_run_config_options){0},
                               &self->config);
}

static ls_status set_plans(ls_estimator *self, const ls_estimator_options *o) {
  return ls_plans_create(
      &(ls_estimator_facts){
          .config = self->config,
          .batch_sizes = {[LS_MODE_TRAIN] = o->train_batch_size,
                          [LS_MODE_EVAL] = o->eval_batch_size,
                          [LS_MODE_PREDICT] = o->predict_batch_size},
          .use_tpu = o->use_tpu,
          .eval_on_tpu = o->eval_on_tpu,
          .any_batch = o->any_batch,
          .any_use_batch = o->any_use_batch},
      &self->plans);
}

static ls_status estimator_fill(ls_estimator *self,
                                const ls_estimator_options *o) {
  self->runtime = ls_runtime_current();
  ls_runtime_note_made(self->runtime, LS_MADE_ESTIMATOR);
  self->model_fn = o->model_fn;
  self->caches[LS_MODE_TRAIN] = o->train_cache;
  self->caches[LS_MODE_EVAL] = o->eval_cache;
  self->exports_to_tpu =
      o->use_tpu != LS_FLAG_OFF && o->export_to_tpu != LS_FLAG_OFF;
  self->replica_0_loss = o->replica_0_loss;
  self->input_end_fails = o->input_end_fails;
  if (o->warm_start != NULL) self->warm_start = *o->warm_start;
  LS_RETURN_IF_ERROR(set_config(self, o->config));
  self->has_params = o->params.kind == LS_KIND_DICT;
  self->params = ls_params_copy(o->params);
  LS_RETURN_IF_ERROR(ls_nest_status(self->params));
  LS_SET_ARRAY_OR_RETURN(ls_current_allocator(), int64_t, self->batch_axis,
                         o->num_batch_axes + 1);
  for (size_t i = 0; i < o->num_batch_axes; ++i)
    self->batch_axis[self->num_batch_axes++] = o->batch_axis[i];
  LS_RETURN_IF_ERROR(set_plans(self, o));
  return set_folder(self, o->model_dir,
                    ls_run_config_values(o->config)->model_dir);
}

ls_status ls_estimator_create(const ls_estimator_options *options,
                              ls_estimator **out_estimator) {
  LS_REQUIRE_OUT(out_estimator, options);
  LS_REQUIRE_ITEMS(options->batch_axis, options->num_batch_axes);
  LS_RETURN_IF_ERROR(estimator_check(options));
  LS_OWN_NEW_OR_RETURN(ls_current_allocator(), ls_estimator, self);
  LS_RETURN_IF_ERROR(estimator_fill(self, options));
  return ls_hand_over(&self, out_estimator);
}

void ls_estimator_destroy(ls_estimator *self) {
  if (self == NULL) return;
  ls_allocator *allocator = ls_runtime_allocator(self->runtime);
  ls_plans_destroy(self->plans);
  ls_run_config_release(self->config);
  ls_nest_release(self->params);
  ls_release(allocator, self->batch_axis);
  ls_release(allocator, self->model_dir);
  ls_release(allocator, self->compile_error);
  ls_runtime_release(self->runtime, LS_MADE_ESTIMATOR, self);
}

// ---- Properties ------------------------------------------------------------
const char *ls_estimator_model_dir(const ls_estimator *self) {
  return self->model_dir;
}

const ls_run_config *ls_estimator_run_config(const ls_estimator *self) {
  return self->config;
}

ls_nest ls_estimator_params(const ls_estimator *self) {
  return ls_params_copy(self->params);
}

const char *ls_estimator_last_compile_error(const ls_estimator *estimator) {
  return estimator != NULL ? estimator->compile_error : NULL;
}

// ---- Checkpoints -----------------------------------------------------------
ls_status ls_estimator_newest_step(const ls_estimator *self,
                                   int64_t *out_step) {
  LS_OWN_MEMORY(ls_runtime_allocator(self->runtime), int64_t, steps) = NULL;
  size_t count = 0;
  *out_step = -1;
  const ls_status status =
      ls_saved_find_steps(self->runtime, self->model_dir, &steps, &count);
  if (ls_status_is_ok(status) && count > 0) *out_step = steps[count - 1];
  return ls_status_unless(status, LS_NOT_FOUND);
}

static ls_status find_whole(const ls_estimator *self, bool tells,
                            ls_saved_file **out_file) {
  return ls_status_annotate(
      ls_saved_newest_open(self->model_dir, tells, out_file), "model_dir");
}

ls_status ls_estimator_whole_step(const ls_estimator *self, bool tells,
                                  int64_t *out_step) {
  LS_OWN(ls_saved_file, file) = NULL;
  ls_saved_info info = {.step = -1};
  *out_step = -1;
  LS_RETURN_IF_ERROR(find_whole(self, tells, &file));
  if (file != NULL) ls_saved_file_describe(file, &info);
  *out_step = info.step;
  return ls_ok();
}

ls_status ls_estimator_checkpoint_path(const ls_estimator *self, int64_t step,
                                       char **out_path) {
  ls_text path;
  ls_print_begin(&path, ls_runtime_allocator(self->runtime));
  ls_text_append_format(&path, "%s/model.ckpt-%lld", self->model_dir,
                        (long long)step);
  return ls_print_end(&path, out_path);
}

ls_status ls_estimator_latest_checkpoint(const ls_estimator *estimator,
                                         char **out_path) {
  LS_REQUIRE_OUT(out_path, estimator);
  int64_t step = -1;
  LS_RETURN_IF_ERROR(ls_estimator_whole_step(estimator, true, &step));
  return step < 0 ? ls_ok()
                  : ls_estimator_checkpoint_path(estimator, step, out_path);
}

// ---- The checkpoint a call starts from -------------------------------------
// Adds the newest intact checkpoint to the error about a damaged checkpoint
// that the caller named. The intact one is another model, so that it is only
// suggested.
static ls_status name_whole(const ls_estimator *self, const char *named,
                            ls_status status) {
  int64_t step = -1;
  const size_t size = strlen(self->model_dir);
  if (ls_status_code(status) != LS_DATA_LOSS ||
      strncmp(named, self->model_dir, size) != 0 || named[size] != '/')
    return status;
  const ls_status found = ls_estimator_whole_step(self, false, &step);
  const bool is_found = ls_status_is_ok(found) && step >= 0;
  ls_status_free(found);
  return is_found
             ? ls_status_annotate(status,
                                  "'%s/model.ckpt-%lld' is intact: name it, or "
                                  "name none to use the newest intact one",
                                  self->model_dir, (long long)step)
             : ls_status_annotate(status, "no checkpoint in '%s' is intact",
                                  self->model_dir);
}

static ls_status open_named(const ls_estimator *self, const char *named,
                            ls_estimator_checkpoint *out) {
  LS_RETURN_IF_ERROR(
      ls_print_copy(ls_runtime_allocator(self->runtime), named, &out->path));
  return name_whole(self, named, ls_saved_file_open(named, &out->file));
}

static ls_status open_whole(const ls_estimator *self,
                            ls_estimator_checkpoint *out) {
  ls_saved_info info;
  LS_RETURN_IF_ERROR(find_whole(self, true, &out->file));
  if (out->file == NULL) return ls_ok();
  ls_saved_file_describe(out->file, &info);
  return ls_estimator_checkpoint_path(self, info.step, &out->path);
}

ls_status ls_estimator_checkpoint_open(const ls_estimator *self,
                                       const char *given,
                                       ls_estimator_checkpoint *out) {
  *out = (ls_estimator_checkpoint){0};
  const ls_status status =
      given != NULL ? open_named(self, given, out) : open_whole(self, out);
  if (!ls_status_is_ok(status)) ls_estimator_checkpoint_close(out);
  return status;
}

void ls_estimator_checkpoint_close(ls_estimator_checkpoint *checkpoint) {
  ls_saved_file_close(checkpoint->file);
  ls_text_release(checkpoint->path);
  *checkpoint = (ls_estimator_checkpoint){0};
}

// ---- Variables -------------------------------------------------------------
static ls_status open_newest(const ls_estimator *self,
                             ls_saved_file **out_file) {
  LS_RETURN_IF_ERROR(find_whole(self, true, out_file));
  return *out_file != NULL
             ? ls_ok()
             : ls_failed_precondition(
                   "Could not find trained model in model_dir: %s",
                   self->model_dir);
}

void ls_estimator_free_names(char **names, size_t count) {
  for (size_t i = 0; names != NULL && i < count; ++i)
    ls_text_release(names[i]);
  ls_print_array_release(names);
}

static ls_status add_names(const ls_saved_file *file, size_t count,
                           char **names, size_t *out_count) {
  for (size_t i = 0; i < count; ++i) {
    ls_saved_entry entry;
    LS_RETURN_IF_ERROR(ls_saved_file_entry(file, i, &entry));
    if (entry.is_part) continue;
    LS_RETURN_IF_ERROR(
        ls_print_copy(ls_current_allocator(), entry.name, &names[*out_count]));
    ++*out_count;
  }
  return ls_ok();
}

ls_status ls_estimator_variable_names(const ls_estimator *estimator,
                                      char ***out_names, size_t *out_count) {
  LS_REQUIRE_OUT(out_names);
  LS_REQUIRE_OUT(out_count, estimator);
  LS_OWN(ls_saved_file, file) = NULL;
  ls_saved_info info;
  LS_RETURN_IF_ERROR(open_newest(estimator, &file));
  ls_saved_file_describe(file, &info);
  char **names = ls_print_array(ls_current_allocator(), info.num_entries + 1,
                                sizeof(*names));
  LS_RETURN_IF_NO_MEMORY(names);
  const ls_status status = add_names(file, info.num_entries, names, out_count);
  if (ls_status_is_ok(status)) {
    *out_names = names;
    return status;
  }
  ls_estimator_free_names(names, *out_count);
  *out_count = 0;
  return status;
}

ls_status ls_estimator_variable_value(const ls_estimator *estimator,
                                      const char *name, ls_array **out_array) {
  LS_REQUIRE_OUT(out_array, estimator, name);
  LS_OWN(ls_saved_file, file) = NULL;
  LS_RETURN_IF_ERROR(open_newest(estimator, &file));
  ls_saved_info info;
  ls_saved_file_describe(file, &info);
  for (size_t i = 0; i < info.num_entries; ++i) {
    ls_saved_entry entry;
    LS_RETURN_IF_ERROR(ls_saved_file_entry(file, i, &entry));
    if (!entry.is_part && strcmp(entry.name, name) == 0)
      return ls_saved_file_read(file, i, out_array);
  }
  return LS_STATUS(LS_NOT_FOUND, "'%s' has no variable '%s'", info.path, name);
}

// ---- Estimators of users' libraries -----------------------------------------
static const char *estimator_lacks(const void *row) {
  const ls_estimator_type *type = row;
  return type->options.model_fn.call == NULL ? "options.model_fn" : NULL;
}

// Returns the name of a field that the row sets, though only the command may;
// or NULL.
static const char *estimator_oversteps(const void *row) {
  const ls_estimator_options *options =
      &((const ls_estimator_type *)row)->options;
  if (options->config != NULL) return "options.config";
  if (options->model_dir != NULL) return "options.model_dir";
  if (options->params.kind != LS_KIND_NONE) return "options.params";
  if (options->use_tpu != LS_FLAG_DEFAULT) return "options.use_tpu";
  return options->warm_start != NULL ? "options.warm_start" : NULL;
}

static const ls_table_kind estimators = {
    .noun = "estimator",
    .symbol = "ls_exported_estimators",
    .version = LS_ESTIMATOR_TABLE_VERSION,
    .type_size = sizeof(ls_estimator_type),
    .lacks = estimator_lacks,
    .oversteps = estimator_oversteps,
};
_Static_assert(sizeof(ls_estimator_table) == sizeof(ls_model_table),
               "they begin alike");

ls_status
ls_model_library_estimators(const ls_model_library *library,
                            const ls_estimator_type *const **out_types,
                            size_t *out_count) {
  LS_REQUIRE_OUT(out_types);
  LS_REQUIRE_OUT(out_count, library);
  const void *const *types = NULL;
  LS_RETURN_IF_ERROR(ls_library_table(library, &estimators, &types, out_count));
  *out_types = (const ls_estimator_type *const *)types;
  return ls_ok();
}
