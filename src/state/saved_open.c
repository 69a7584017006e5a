// SPDX-License-Identifier: Apache-2.0
// Finding out what a path names, and opening it.
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "base/plain.h"
#include "base/require.h"
#include "state/saved.h"

// ---- Folders ---------------------------------------------------------------
static int compare(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

ls_status ls_saved_find_steps(ls_runtime *runtime, const char *folder,
                              int64_t **out_steps, size_t *out_count) {
  const ls_file_system *files = ls_runtime_files(runtime);
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  ls_file_entry *entries = NULL;
  size_t count = 0;
  *out_steps = NULL;
  *out_count = 0;
  if (files->list == NULL)
    return ls_unimplemented("checkpoints in '%s': the file system cannot list "
                            "folders",
                            folder);
  LS_RETURN_IF_ERROR(
      files->list(files->user, folder, allocator, &entries, &count));
  int64_t *steps = ls_new_array(allocator, int64_t, count + 1);
  for (size_t i = 0; steps != NULL && i < count; ++i) {
    const int64_t step = ls_checkpoint_step_of(entries[i].name, "json");
    if (step >= 0 && !entries[i].is_folder) steps[(*out_count)++] = step;
  }
  ls_release(allocator, entries);
  if (steps == NULL) return ls_out_of_memory();
  qsort(steps, *out_count, sizeof(*steps), compare);
  *out_steps = steps;
  return ls_ok();
}

ls_status ls_saved_steps(const char *folder, int64_t *steps, size_t capacity,
                         size_t *out_count) {
  LS_REQUIRE_OUT(out_count);
  LS_REQUIRE(folder);
  LS_REQUIRE_ITEMS(steps, capacity);
  ls_runtime *runtime = ls_runtime_current();
  int64_t *found = NULL;
  if (runtime == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_saved_find_steps(runtime, folder, &found, out_count));
  for (size_t i = 0; i < *out_count && i < capacity; ++i)
    steps[i] = found[i];
  ls_release(ls_runtime_allocator(runtime), found);
  return ls_ok();
}

// ---- Checkpoints -----------------------------------------------------------
// What its .json says of it.
static ls_status take_notes(ls_saved_file *self) {
  const ls_json *root = self->checkpoint.root;
  const ls_json *wall = ls_json_find(root, "wall");
  const ls_json *metrics = ls_json_find(root, "metrics");
  if (wall != NULL && wall->is_integer) self->wall = wall->integer;
  size_t count = 0;
  for (const ls_json *it = metrics == NULL ? NULL : metrics->first; it != NULL;
       it = it->next)
    ++count;
  self->metrics =
      ls_arena_new_array(&self->checkpoint.arena, ls_checkpoint_metric, count);
  if (self->metrics == NULL) return ls_out_of_memory();
  for (const ls_json *it = metrics == NULL ? NULL : metrics->first; it != NULL;
       it = it->next)
    self->metrics[self->num_metrics++] = (ls_checkpoint_metric){
        it->key != NULL ? it->key : "",
        it->kind == LS_JSON_NUMBER ? it->number : (double)NAN};
  return ls_ok();
}

static ls_status get_checked(const void *self, ls_workers *workers,
                             ls_safetensors_wish *wishes, size_t count) {
  return ls_checkpoint_file_get(self, workers, wishes, count);
}

static ls_status check_entries(const void *self, ls_workers *workers,
                               ls_safetensors_wish *wishes, size_t count) {
  for (size_t i = 0; i < count; ++i)
    wishes[i].data = NULL;
  return ls_checkpoint_file_get(self, workers, wishes, count);
}

static ls_status open_checkpoint(ls_saved_file *self, const char *folder,
                                 int64_t step, bool read) {
  LS_RETURN_IF_ERROR(read ? ls_checkpoint_file_read(self->runtime, folder, step,
                                                    &self->checkpoint)
                          : ls_checkpoint_file_open(self->runtime, folder, step,
                                                    &self->checkpoint));
  self->step = step;
  self->source = ls_value_source_of(&self->checkpoint.values);
  self->source.self = &self->checkpoint;
  self->source.get = get_checked;
  self->source.check = read ? NULL : check_entries;
  return take_notes(self);
}

// The newest of a folder that can be opened.
static ls_status open_newest(ls_saved_file *self, const char *folder,
                             const int64_t *steps, size_t count, bool read) {
  ls_status first = ls_ok();
  for (size_t i = count; i > 0; --i) {
    const ls_status status = open_checkpoint(self, folder, steps[i - 1], read);
    if (ls_status_is_ok(status) ||
        ls_status_code(status) == LS_RESOURCE_EXHAUSTED) {
      ls_status_free(first);
      return status;
    }
    ls_runtime_log(self->runtime, LS_LOG_WARNING, "checkpoint",
                   "the checkpoint of step %lld is passed over: %s",
                   (long long)steps[i - 1], ls_status_message(status));
    first = ls_status_join(first, status);
  }
  return first;
}

// ---- Files -----------------------------------------------------------------
static ls_status get_npz(const void *self, ls_workers *workers,
                         ls_safetensors_wish *wishes, size_t count) {
  (void)workers;
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(ls_saved_npz_get(self, wishes[i].entry, wishes[i].data));
  return ls_ok();
}

static ls_status check_npz(const void *self, ls_workers *workers,
                           ls_safetensors_wish *wishes, size_t count) {
  const ls_saved_npz *npz = self;
  (void)workers;
  for (size_t i = 0; i < count; ++i) {
    void *data = ls_allocate(npz->zip.allocator, wishes[i].entry->size);
    if (data == NULL) return ls_out_of_memory();
    const ls_status status = ls_saved_npz_get(npz, wishes[i].entry, data);
    ls_release(npz->zip.allocator, data);
    LS_RETURN_IF_ERROR(status);
  }
  return ls_ok();
}

// `file` is taken over.
static ls_status open_npz(ls_saved_file *self, ls_file *file) {
  LS_RETURN_IF_ERROR(ls_saved_npz_open(file, &self->npz));
  self->source = (ls_value_source){.runtime = self->runtime,
                                   .path = file->path,
                                   .entries = self->npz.entries,
                                   .num_entries = self->npz.num_entries,
                                   .self = &self->npz,
                                   .get = get_npz,
                                   .check = check_npz};
  return ls_ok();
}

static ls_status open_file(ls_saved_file *self, const char *path) {
  ls_file *file = NULL;
  bool is_npz = false;
  LS_RETURN_IF_ERROR(ls_file_open(self->runtime, path, &file));
  ls_status status = ls_saved_npz_is(file, &is_npz);
  if (ls_status_is_ok(status) && is_npz) return open_npz(self, file);
  ls_file_close(file);
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(
      ls_safetensors_open(self->runtime, path, &self->checkpoint.values));
  self->source = ls_value_source_of(&self->checkpoint.values);
  return ls_ok();
}

// ---- Paths -----------------------------------------------------------------
static bool is_there(const ls_saved_file *self, const char *path) {
  const ls_file_system *files = ls_runtime_files(self->runtime);
  bool there = false;
  const ls_status status = files->exists(files->user, path, &there);
  there &= ls_status_is_ok(status);
  ls_status_free(status);
  return there;
}

// Whether a path names a checkpoint, and which: its folder is in `folder`.
static bool names_checkpoint(const ls_saved_file *self, const char *path,
                             char *folder, int64_t *out_step) {
  char name[64];
  const char *slash = strrchr(path, '/');
  const char *last = slash != NULL ? slash + 1 : path;
  const size_t size = slash != NULL ? (size_t)(slash - path) : 0;
  if (strlen(path) >= PATH_MAX - sizeof(name) ||
      strlen(last) + sizeof(".json") > sizeof(name))
    return false;
  ls_format(folder, PATH_MAX, "%.*s", slash == NULL ? 1 : (int)size,
            slash == NULL ? "." : path);
  ls_format(name, sizeof(name), "%s.json", last);
  *out_step = ls_checkpoint_step_of(name, "json");
  if (*out_step < 0) *out_step = ls_checkpoint_step_of(last, "json");
  if (*out_step >= 0) return true;
  // Values that are all there is are a file like others.
  *out_step = ls_checkpoint_step_of(last, "safetensors");
  if (*out_step < 0) return false;
  char json[PATH_MAX + sizeof(name)];
  ls_format(json, sizeof(json), "%s/model.ckpt-%lld.json", folder,
            (long long)*out_step);
  return is_there(self, json);
}

static ls_status open_folder(ls_saved_file *self, const char *path, bool read,
                             const int64_t *steps, size_t count) {
  // A run's, and those of an export.
  static const char *const names[] = {"model", "variables"};
  char model[PATH_MAX];
  if (count > 0) return open_newest(self, path, steps, count, read);
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i)
    if (ls_format(model, sizeof(model), "%s/%s.safetensors", path, names[i]) <
            (int)sizeof(model) &&
        is_there(self, model))
      return open_file(self, model);
  return ls_not_found("'%s' holds no checkpoint and no model.safetensors",
                      path);
}

static ls_status open_path(ls_saved_file *self, const char *path, bool read) {
  char folder[PATH_MAX];
  int64_t step = -1, *steps = NULL;
  size_t count = 0;
  if (names_checkpoint(self, path, folder, &step))
    return open_checkpoint(self, folder, step, read);
  ls_status status = ls_saved_find_steps(self->runtime, path, &steps, &count);
  if (ls_status_is_ok(status)) {
    status = open_folder(self, path, read, steps, count);
    ls_release(ls_runtime_allocator(self->runtime), steps);
    return status;
  }
  const ls_code code = ls_status_code(status);
  if (code != LS_NOT_FOUND && code != LS_UNIMPLEMENTED) return status;
  ls_status_free(status);  // It is no folder.
  return open_file(self, path);
}

static ls_status open_with(const char *path, bool read,
                           ls_saved_file **out_file) {
  static uint64_t last;
  *out_file = NULL;
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  ls_saved_file *self = ls_new(ls_runtime_allocator(runtime), ls_saved_file);
  if (self == NULL) return ls_out_of_memory();
  self->runtime = runtime;
  self->step = -1;
  const ls_status status = open_path(self, path, read);
  if (!ls_status_is_ok(status)) {
    ls_saved_file_close(self);
    return status;
  }
  self->number = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
  *out_file = self;
  return ls_ok();
}

ls_status ls_saved_file_open(const char *path, ls_saved_file **out_file) {
  LS_REQUIRE_OUT(out_file);
  LS_REQUIRE(path);
  return open_with(path, true, out_file);
}

ls_status ls_saved_file_open_unread(const char *path,
                                    ls_saved_file **out_file) {
  LS_REQUIRE_OUT(out_file);
  LS_REQUIRE(path);
  return open_with(path, false, out_file);
}

void ls_saved_file_close(ls_saved_file *file) {
  if (file == NULL) return;
  ls_saved_npz_close(&file->npz);
  ls_checkpoint_file_deinit(&file->checkpoint);
  ls_release(ls_runtime_allocator(file->runtime), file);
}
