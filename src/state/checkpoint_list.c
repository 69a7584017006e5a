// SPDX-License-Identifier: Apache-2.0
// The list of a folder's checkpoints, and the choice of those to keep.
#include <math.h>

#include "base/memory/own.h"
#include "state/checkpoints.h"

// ---- Files -----------------------------------------------------------------
static ls_status remove_file(ls_checkpoints *self, const char *name) {
  const ls_file_system *files = ls_runtime_files(self->runtime);
  LS_OWN(ls_text, path) = {.allocator = self->allocator};
  ls_text_append_format(&path, "%s/%s", self->folder, name);
  LS_RETURN_IF_ERROR(ls_text_status(&path));
  return files->remove(files->user, ls_text_data(&path));
}

// Removes the .json first: values without it are no checkpoint.
static ls_status remove_files(ls_checkpoints *self, int64_t step) {
  static const char *const extensions[] = {"json", "safetensors"};
  const ls_file_system *files = ls_runtime_files(self->runtime);
  LS_OWN(ls_text, path) = {.allocator = self->allocator};
  for (size_t i = 0; i < LS_COUNT_OF(extensions); ++i) {
    ls_checkpoint_path(&path, self->folder, step, extensions[i]);
    LS_RETURN_IF_ERROR(ls_text_status(&path));
    const ls_status status = files->remove(files->user, ls_text_data(&path));
    if (ls_status_code(status) != LS_NOT_FOUND) LS_RETURN_IF_ERROR(status);
    ls_status_free(status);
  }
  return ls_ok();
}

// ---- The list --------------------------------------------------------------
static bool checkpoint_list_add(ls_checkpoints *self, ls_checkpoint_info info) {
  ls_checkpoint_list *list = &self->list;
  size_t at = 0;
  while (at < list->count && list->items[at].step < info.step)
    ++at;
  if (at < list->count && list->items[at].step == info.step) {
    list->items[at] = info;
    return true;
  }
  if (!LS_GROW(self->allocator, list->items, list->capacity, list->count + 1))
    return false;
  memmove(&list->items[at + 1], &list->items[at],
          (list->count - at) * sizeof(*list->items));
  list->items[at] = info;
  ++list->count;
  return true;
}

const ls_checkpoint_info *
ls_checkpoint_list_find(const ls_checkpoint_list *list, int64_t step) {
  for (size_t i = 0; i < list->count; ++i)
    if (list->items[i].step == step) return &list->items[i];
  return NULL;
}

static ls_status write_list(ls_checkpoints *self) {
  const ls_file_system *files = ls_runtime_files(self->runtime);
  const ls_checkpoint_list *list = &self->list;
  LS_OWN(ls_text, text) = {.allocator = self->allocator};
  LS_OWN(ls_text, path) = {.allocator = self->allocator};
  size_t newest = list->count;  // The newest one not known to be damaged.
  while (newest > 1 && list->items[newest - 1].is_damaged)
    --newest;
  if (newest > 0)
    ls_text_append_format(&text, "model_checkpoint_path: \"model.ckpt-%lld\"\n",
                          (long long)list->items[newest - 1].step);
  for (size_t i = 0; i < list->count; ++i)
    ls_text_append_format(&text,
                          "all_model_checkpoint_paths: \"model.ckpt-%lld\"\n",
                          (long long)list->items[i].step);
  ls_text_append_format(&path, "%s/checkpoint", self->folder);
  LS_RETURN_IF_ERROR(ls_text_status(&text));
  LS_RETURN_IF_ERROR(ls_text_status(&path));
  return files->write(files->user, ls_text_data(&path), ls_text_data(&text),
                      text.size);
}

// ---- Opening ---------------------------------------------------------------
static double find_metric(const ls_json *root, const char *name) {
  const ls_json *metrics = ls_json_find(root, "metrics");
  const ls_json *value =
      metrics == NULL || name == NULL ? NULL : ls_json_find(metrics, name);
  return value != NULL && value->kind == LS_JSON_NUMBER ? value->number
                                                        : (double)NAN;
}

// Reads a checkpoint's .json; of a damaged one only the step is known.
static ls_status read_info(ls_checkpoints *self, int64_t step,
                           ls_checkpoint_info *out) {
  *out = (ls_checkpoint_info){.step = step, .metric = (double)NAN};
  LS_OWN(ls_checkpoint_file, file) = {0};
  const ls_status status =
      ls_checkpoint_file_read_notes(self->runtime, self->folder, step, &file);
  if (ls_status_code(status) == LS_RESOURCE_EXHAUSTED) return status;
  out->is_damaged = ls_status_code(status) == LS_DATA_LOSS;
  ls_status_free(status);
  if (file.root == NULL) return ls_ok();
  const ls_json *wall = ls_json_find(file.root, "wall");
  if (wall != NULL && wall->is_integer) out->wall = wall->integer;
  out->metric = find_metric(file.root, self->options.best_metric);
  return ls_ok();
}

static bool has_name(const ls_file_entry *entries, size_t count, int64_t step,
                     const char *extension) {
  for (size_t i = 0; i < count; ++i)
    if (ls_checkpoint_step_of(entries[i].name, extension) == step) return true;
  return false;
}

// Returns true for a file left by a killed writer: a temporary file, or values
// without a .json.
static bool is_left_over(const ls_file_entry *entries, size_t count,
                         const char *name) {
  const int64_t step = ls_checkpoint_step_of(name, "safetensors");
  return ls_checkpoint_step_of(name, "safetensors.tmp") >= 0 ||
         ls_checkpoint_step_of(name, "json.tmp") >= 0 ||
         strcmp(name, "checkpoint.tmp") == 0 ||
         strcmp(name, LS_CHECKPOINT_NONCE) == 0 ||
         strcmp(name, LS_CHECKPOINT_NONCE ".tmp") == 0 ||
         (step >= 0 && !has_name(entries, count, step, "json"));
}

static ls_status take_entries(ls_checkpoints *self,
                              const ls_file_entry *entries, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (entries[i].is_folder) continue;
    const int64_t step = ls_checkpoint_step_of(entries[i].name, "json");
    if (step >= 0) {
      ls_checkpoint_info info;
      LS_RETURN_IF_ERROR(read_info(self, step, &info));
      if (!checkpoint_list_add(self, info)) return ls_out_of_memory();
    }
    if (!self->only_reads && is_left_over(entries, count, entries[i].name))
      LS_RETURN_IF_ERROR(remove_file(self, entries[i].name));
  }
  return ls_ok();
}

ls_status ls_checkpoint_list_open(ls_checkpoints *self) {
  const ls_file_system *files = ls_runtime_files(self->runtime);
  LS_OWN_MEMORY(self->allocator, ls_file_entry, entries) = NULL;
  size_t count = 0;
  if (files->list == NULL)
    return ls_unimplemented(
        "checkpoints in '%s': the file system cannot list folders",
        self->folder);
  if (!self->only_reads)
    LS_RETURN_IF_ERROR(files->make_directories(files->user, self->folder));
  LS_RETURN_IF_ERROR(files->list(files->user, self->folder, self->allocator,
                                 &entries, &count));
  return take_entries(self, entries, count);
}

// ---- Keeping ---------------------------------------------------------------
// Returns true if checkpoint `i` is among the best.
static bool is_best(const ls_checkpoints *self, size_t i) {
  const ls_checkpoint_list *list = &self->list;
  const bool high = self->options.best_is_high == LS_FLAG_ON;
  const double own = list->items[i].metric;
  int64_t better = 0;
  if (self->options.best_metric == NULL || isnan(own)) return false;
  if (list->items[i].is_damaged) return false;
  for (size_t k = 0; k < list->count; ++k) {
    const double other = list->items[k].metric;
    if (list->items[k].is_damaged) continue;
    // Among equal metrics the older checkpoint is better.
    better += !isnan(other) && (high ? other > own : other < own);
    better += k < i && other == own;
  }
  return better < self->options.keep_best.value;
}

// Returns true if checkpoint `i` is the first of its period of hours.
static bool is_of_its_hours(const ls_checkpoints *self, size_t i) {
  const double hours = self->options.keep_every_hours;
  if (!(hours > 0)) return false;
  const double nanos = hours * 3600e9;
  const double own = floor((double)self->list.items[i].wall / nanos);
  return i == 0 || floor((double)self->list.items[i - 1].wall / nanos) != own;
}

static bool is_kept(const ls_checkpoints *self, size_t i) {
  const int64_t keep = self->options.keep.value;
  size_t newer = 0;  // Damaged checkpoints do not count.
  for (size_t k = i + 1; k < self->list.count; ++k)
    newer += !self->list.items[k].is_damaged;
  const int64_t *step = self->options.kept_step;
  return keep == 0 || newer < (size_t)keep || is_best(self, i) ||
         is_of_its_hours(self, i) ||
         (step != NULL && *step > 0 && *step == self->list.items[i].step);
}

static ls_status drop_others(ls_checkpoints *self) {
  ls_checkpoint_list *list = &self->list;
  for (size_t i = list->count; i > 0; --i) {
    if (is_kept(self, i - 1)) continue;
    LS_RETURN_IF_ERROR(remove_files(self, list->items[i - 1].step));
    memmove(&list->items[i - 1], &list->items[i],
            (list->count - i) * sizeof(*list->items));
    --list->count;
  }
  return ls_ok();
}

ls_status ls_checkpoint_list_tidy(ls_checkpoints *self) {
  const size_t before = self->list.count;
  LS_RETURN_IF_ERROR(drop_others(self));
  return self->list.count == before ? ls_ok() : write_list(self);
}

ls_status ls_checkpoint_list_add(ls_checkpoints *self,
                                 const ls_checkpoint_content *content) {
  ls_checkpoint_info info = {
      .step = content->step, .wall = content->wall, .metric = (double)NAN};
  const char *best = self->options.best_metric;
  for (size_t i = 0; i < content->num_metrics && best != NULL; ++i)
    if (strcmp(content->metrics[i].name, best) == 0)
      info.metric = content->metrics[i].value;
  if (!checkpoint_list_add(self, info)) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(write_list(self));
  return ls_checkpoint_list_tidy(self);
}
