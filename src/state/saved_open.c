// SPDX-License-Identifier: Apache-2.0
// Opens saved values: finds out what a path names.
#include <stdlib.h>
#include <string.h>

#include "base/memory/map.h"
#include "base/memory/own.h"
#include "base/require.h"
#include "base/text.h"
#include "io/inflate.h"
#include "state/checkpoint_file.h"
#include "state/own.h"
#include "state/saved.h"

// ---- npz files -------------------------------------------------------------
// Finds out if a file begins like an npz file.
static ls_status saved_npz_is(const ls_file *file, bool *out_is) {
  char head[4] = "";
  *out_is = false;
  if (file->size < (int64_t)sizeof(head)) return ls_ok();
  LS_RETURN_IF_ERROR(ls_file_read(file, 0, head, sizeof(head)));
  // A zip file starts with a member's header, or if empty with the directory's
  // end.
  *out_is = memcmp(head, "PK\3\4", 4) == 0 || memcmp(head, "PK\5\6", 4) == 0;
  return ls_ok();
}

// ---- Members ---------------------------------------------------------------
// The bytes of a packed member as a file.
typedef struct member {
  ls_allocator *allocator;
  char *data;
  ls_file *file;
  ls_npy_header header;
} member;

static void member_deinit(member *self) {
  ls_file_close(self->file);
  ls_release(self->allocator, self->data);
}
LS_OWNED_STRUCT(member, member_deinit)

static ls_status open_member(const ls_saved_npz *npz, size_t index,
                             member *out) {
  const ls_zip_entry *entry = &npz->zip.entries[index];
  out->allocator = npz->zip.allocator;
  LS_RETURN_IF_ERROR(ls_zip_read(&npz->zip, entry, out->allocator, &out->data));
  LS_RETURN_IF_ERROR(ls_file_open_bytes(out->allocator, entry->name, out->data,
                                        (size_t)entry->size, &out->file));
  return ls_npy_open(out->file, entry->name, 0, out->file->size, &out->header);
}

static ls_status read_header(const ls_saved_npz *npz, size_t index,
                             ls_npy_header *out) {
  const ls_zip_entry *entry = &npz->zip.entries[index];
  int64_t begin = 0;
  if (entry->deflated) {
    LS_OWN(member, packed) = {0};
    LS_RETURN_IF_ERROR(open_member(npz, index, &packed));
    *out = packed.header;
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(ls_zip_locate(&npz->zip, entry, &begin));
  return ls_npy_open(npz->file, entry->name, begin, entry->size, out);
}

// Reads a member's header; `known` has the earlier arrays by name.
static ls_status read_member(ls_saved_npz *npz, size_t index, ls_map *known) {
  const char *name = npz->zip.entries[index].name;
  const size_t length = strlen(name);
  if (strcmp(name, "data.pkl") == 0 ||
      (length > 9 && strcmp(name + length - 9, "/data.pkl") == 0))
    return ls_unimplemented(
        "'%s' is a file of torch.save, which is not read: save the state_dict "
        "with safetensors.torch.save_file as .safetensors "
        "(docs/from-pytorch.md)",
        npz->file->path);
  const bool ends = length >= 4 && strcmp(name + length - 4, ".npy") == 0;
  ls_npy_header *header = &npz->headers[npz->num_entries];
  LS_RETURN_IF_ERROR(ls_status_annotate(read_header(npz, index, header),
                                        "while reading '%s'", npz->file->path));
  ls_safetensors_entry *entry = &npz->entries[npz->num_entries];
  *entry = (ls_safetensors_entry){
      .name = ls_arena_format(&npz->names, "%.*s",
                              (int)(ends ? length - 4 : length), name),
      .dtype = header->dtype,
      .shape = header->shape,
      .offset = (int64_t)index};
  if (entry->name == NULL) return ls_out_of_memory();
  if (entry->dtype == LS_DTYPE_STRING)
    return ls_invalid_argument(
        "'%s' has array '%s' of texts, which is no value of a variable",
        npz->file->path, entry->name);
  entry->size = ls_type_bytes((ls_type){entry->dtype, entry->shape});
  if (ls_map_find_text(known, entry->name) != NULL)
    return ls_invalid_argument("'%s' has two arrays called '%s'",
                               npz->file->path, entry->name);
  ++npz->num_entries;
  return ls_map_insert_text(known, entry->name, entry) ? ls_ok()
                                                       : ls_out_of_memory();
}

// ---- The file --------------------------------------------------------------
static ls_status read_members(ls_saved_npz *self) {
  ls_allocator *allocator = self->file->allocator;
  LS_RETURN_IF_ERROR(ls_zip_open(self->file, allocator, &self->zip));
  const size_t count = self->zip.count + 1;
  self->entries = ls_new_array(allocator, ls_safetensors_entry, count);
  self->headers = ls_new_array(allocator, ls_npy_header, count);
  LS_RETURN_IF_NO_MEMORY(self->entries != NULL && self->headers != NULL);
  LS_OWN(ls_map, known) = {0};
  ls_map_init(&known, allocator);
  for (size_t i = 0; i < self->zip.count; ++i)
    LS_RETURN_IF_ERROR(read_member(self, i, &known));
  return ls_ok();
}

// Accepts a zeroed file.
static void saved_npz_close(ls_saved_npz *npz) {
  if (npz->file == NULL) return;
  ls_release(npz->file->allocator, npz->entries);
  ls_release(npz->file->allocator, npz->headers);
  ls_arena_deinit(&npz->names);
  ls_zip_close(&npz->zip);
  ls_file_close(npz->file);
  *npz = (ls_saved_npz){0};
}

// Opens an npz file; takes `file` over, also on failure, which leaves `out`
// zeroed.
//   LS_INVALID_ARGUMENT  a member that is no array of numbers, or two of one
//                        name.
static ls_status saved_npz_open(ls_file *file, ls_saved_npz *out) {
  *out = (ls_saved_npz){.file = file};
  ls_arena_init(&out->names, file->allocator);
  const ls_status status = read_members(out);
  if (!ls_status_is_ok(status)) saved_npz_close(out);
  return status;
}

// ---- Elements --------------------------------------------------------------
// Reads directly from the file; the checksum also covers the bytes before the
// elements.
static ls_status read_stored(const ls_saved_npz *npz,
                             const ls_safetensors_entry *entry, void *data) {
  const ls_zip_entry *stored = &npz->zip.entries[entry->offset];
  const ls_npy_header *header = &npz->headers[entry - npz->entries];
  int64_t from = 0;
  LS_RETURN_IF_ERROR(ls_zip_locate(&npz->zip, stored, &from));
  const size_t before = (size_t)(header->data_offset - from);
  LS_OWN_MEMORY(npz->zip.allocator, char, head) =
      ls_allocate(npz->zip.allocator, before);
  LS_RETURN_IF_NO_MEMORY(head);
  LS_RETURN_IF_ERROR(ls_file_read(npz->file, from, head, before));
  LS_RETURN_IF_ERROR(
      ls_file_read(npz->file, header->data_offset, data, entry->size));
  if (ls_crc32(ls_crc32(0, head, before), data, entry->size) != stored->crc)
    return LS_STATUS(
        LS_DATA_LOSS,
        "'%s' is damaged: the checksum of array '%s' does not match",
        npz->file->path, entry->name);
  ls_npy_convert(header, data, (size_t)ls_shape_num_elements(entry->shape));
  return ls_ok();
}

static ls_status read_packed(const ls_saved_npz *npz,
                             const ls_safetensors_entry *entry, void *data) {
  LS_OWN(member, packed) = {0};
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(open_member(npz, (size_t)entry->offset, &packed));
  const ls_npy_header *header = &packed.header;
  if (header->dtype != entry->dtype ||
      !ls_shape_equal(header->shape, entry->shape))
    return LS_STATUS(LS_DATA_LOSS, "'%s' has another array '%s' now",
                     npz->file->path, entry->name);
  if (header->fortran) {
    LS_RETURN_IF_ERROR(ls_npy_read_elements(packed.file, header, &array));
    memcpy(data, ls_array_data(array), entry->size);
    return ls_ok();
  }
  if (entry->size > 0)
    memcpy(data, packed.data + header->data_offset, entry->size);
  ls_npy_convert(header, data, (size_t)ls_shape_num_elements(entry->shape));
  return ls_ok();
}

// Reads an entry's elements and verifies its checksum.
static ls_status saved_npz_get(const ls_saved_npz *npz,
                               const ls_safetensors_entry *entry, void *data) {
  const bool whole = npz->zip.entries[entry->offset].deflated ||
                     npz->headers[entry - npz->entries].fortran;
  return ls_status_annotate(
      whole ? read_packed(npz, entry, data) : read_stored(npz, entry, data),
      "while reading array '%s' of '%s'", entry->name, npz->file->path);
}

// ---- Folders ---------------------------------------------------------------
static int saved_open_compare(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

ls_status ls_saved_find_steps(ls_runtime *runtime, const char *folder,
                              int64_t **out_steps, size_t *out_count) {
  const ls_file_system *files = ls_runtime_files(runtime);
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_OWN_MEMORY(allocator, ls_file_entry, entries) = NULL;
  size_t count = 0;
  *out_steps = NULL;
  *out_count = 0;
  if (files->list == NULL)
    return ls_unimplemented(
        "checkpoints in '%s': the file system cannot list folders", folder);
  LS_RETURN_IF_ERROR(
      files->list(files->user, folder, allocator, &entries, &count));
  int64_t *steps = ls_new_array(allocator, int64_t, count + 1);
  for (size_t i = 0; steps != NULL && i < count; ++i) {
    const int64_t step = ls_checkpoint_step_of(entries[i].name, "json");
    if (step >= 0 && !entries[i].is_folder) steps[(*out_count)++] = step;
  }
  if (steps == NULL) return ls_out_of_memory();
  qsort(steps, *out_count, sizeof(*steps), saved_open_compare);
  *out_steps = steps;
  return ls_ok();
}

ls_status ls_saved_steps(const char *folder, int64_t *steps, size_t capacity,
                         size_t *out_count) {
  LS_REQUIRE_OUT(out_count, folder);
  LS_REQUIRE_ITEMS(steps, capacity);
  ls_runtime *runtime = ls_runtime_current();
  LS_OWN_MEMORY(ls_runtime_allocator(runtime), int64_t, found) = NULL;
  if (runtime == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_saved_find_steps(runtime, folder, &found, out_count));
  for (size_t i = 0; i < *out_count && i < capacity; ++i)
    steps[i] = found[i];
  return ls_ok();
}

// ---- Checkpoints -----------------------------------------------------------
// Copies the fields of the checkpoint's .json.
static ls_status take_notes(ls_saved_file *self) {
  const ls_json *root = self->checkpoint.root;
  const ls_json *wall = ls_json_find(root, "wall");
  const ls_json *metrics = ls_json_find(root, "metrics");
  if (wall != NULL && wall->is_integer) self->wall = wall->integer;
  size_t count = 0;
  for (const ls_json *metric = metrics == NULL ? NULL : metrics->first;
       metric != NULL; metric = metric->next)
    ++count;
  LS_ARENA_SET_OR_RETURN(&self->checkpoint.arena, ls_checkpoint_metric,
                         self->metrics, count);
  for (const ls_json *metric = metrics == NULL ? NULL : metrics->first;
       metric != NULL; metric = metric->next)
    self->metrics[self->num_metrics++] =
        (ls_checkpoint_metric){metric->key != NULL ? metric->key : "",
                               ls_checkpoint_metric_of(metric)};
  return ls_ok();
}

static ls_status get_entries(const void *self, ls_workers *workers,
                             ls_safetensors_wish *wishes, size_t count,
                             ls_sums sums) {
  const ls_checkpoint_file *file = self;
  return sums == LS_SUMS_NONE
             ? ls_safetensors_get_many(&file->values, workers, wishes, count,
                                       sums)
             : ls_checkpoint_file_get(file, workers, wishes, count);
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
  self->source.get = get_entries;
  self->source.is_checked = read;
  return take_notes(self);
}

// Opens the newest undamaged one of the listed checkpoints.
static ls_status open_listed(ls_saved_file *self, const char *folder,
                             const int64_t *steps, size_t count, bool read,
                             bool tells) {
  ls_passed_over passed = {0};
  for (size_t i = count; i > 0; --i) {
    const ls_status status = open_checkpoint(self, folder, steps[i - 1], read);
    if (ls_status_is_ok(status) && tells)
      ls_passed_over_log(&passed, self->runtime, folder, steps[i - 1]);
    if (ls_status_is_ok(status) ||
        ls_status_code(status) == LS_RESOURCE_EXHAUSTED) {
      ls_passed_over_deinit(&passed);
      return status;
    }
    ls_passed_over_add(&passed, steps[i - 1], status);
  }
  return ls_passed_over_end(&passed, folder);
}

// Opens the newest undamaged checkpoint of a folder; with `tells` logs which
// damaged ones it skips. Lists once more if the listed ones are gone, which a
// writer may have replaced by newer ones meanwhile.
static ls_status open_newest(ls_saved_file *self, const char *folder,
                             const int64_t *steps, size_t count, bool read,
                             bool tells) {
  const ls_status status = open_listed(self, folder, steps, count, read, tells);
  if (ls_status_code(status) != LS_NOT_FOUND) return status;
  LS_OWN_MEMORY(ls_runtime_allocator(self->runtime), int64_t, again) = NULL;
  const ls_status listed =
      ls_saved_find_steps(self->runtime, folder, &again, &count);
  if (!ls_status_is_ok(listed) || count == 0)
    return ls_status_join(status, listed);
  ls_status_free(status);
  return open_listed(self, folder, again, count, read, tells);
}

// ---- Files -----------------------------------------------------------------
static ls_status check_npz_entry(const ls_saved_npz *npz,
                                 const ls_safetensors_entry *entry) {
  LS_OWN_MEMORY(npz->zip.allocator, void, data) =
      ls_allocate(npz->zip.allocator, entry->size);
  LS_RETURN_IF_NO_MEMORY(data);
  return saved_npz_get(npz, entry, data);
}

static ls_status get_npz(const void *self, ls_workers *workers,
                         ls_safetensors_wish *wishes, size_t count,
                         ls_sums sums) {
  (void)workers, (void)sums;
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        wishes[i].data == NULL
            ? check_npz_entry(self, wishes[i].entry)
            : saved_npz_get(self, wishes[i].entry, wishes[i].data));
  return ls_ok();
}

// Opens an npz file; takes `file` over.
static ls_status open_npz(ls_saved_file *self, ls_file *file) {
  LS_RETURN_IF_ERROR(saved_npz_open(file, &self->npz));
  self->source = (ls_value_source){.runtime = self->runtime,
                                   .path = file->path,
                                   .entries = self->npz.entries,
                                   .num_entries = self->npz.num_entries,
                                   .self = &self->npz,
                                   .get = get_npz};
  return ls_ok();
}

static ls_status open_file(ls_saved_file *self, const char *path) {
  LS_OWN(ls_file, file) = NULL;
  bool is_npz = false;
  LS_RETURN_IF_ERROR(ls_file_open(self->runtime, path, &file));
  LS_RETURN_IF_ERROR(saved_npz_is(file, &is_npz));
  if (is_npz) return open_npz(self, ls_give(&file));
  const char *dot = strrchr(path, '.');
  if (dot != NULL && (strcmp(dot, ".npz") == 0 || strcmp(dot, ".npy") == 0))
    return ls_invalid_argument(
        "'%s' is no npz file, which is a zip of named arrays", path);
  LS_RETURN_IF_ERROR(
      ls_safetensors_open(self->runtime, path, &self->checkpoint.values));
  self->source = ls_value_source_of(&self->checkpoint.values);
  return ls_ok();
}

// ---- Paths -----------------------------------------------------------------
static bool saved_open_is_there(const ls_saved_file *self, const char *path) {
  const ls_file_system *files = ls_runtime_files(self->runtime);
  bool there = false;
  const ls_status status = files->exists(files->user, path, &there);
  there &= ls_status_is_ok(status);
  ls_status_free(status);
  return there;
}

// Finds the folder and step of the checkpoint that a path names; step -1 if
// none.
static ls_status saved_open_find_name(const ls_saved_file *self,
                                      const char *path, ls_text *folder,
                                      int64_t *out_step) {
  const char *slash = strrchr(path, '/');
  const char *last = slash != NULL ? slash + 1 : path;
  ls_text_append_format(folder, "%.*s", slash == NULL ? 1 : (int)(slash - path),
                        slash == NULL ? "." : path);
  LS_OWN(ls_text, name) = {.allocator = ls_runtime_allocator(self->runtime)};
  ls_text_append_format(&name, "%s.json", last);
  LS_RETURN_IF_ERROR(ls_text_status(folder));
  LS_RETURN_IF_ERROR(ls_text_status(&name));
  *out_step = ls_checkpoint_step_of(ls_text_data(&name), "json");
  if (*out_step < 0) *out_step = ls_checkpoint_step_of(last, "json");
  if (*out_step >= 0) return ls_ok();
  // Values without a .json are an ordinary safetensors file.
  *out_step = ls_checkpoint_step_of(last, "safetensors");
  if (*out_step < 0) return ls_ok();
  LS_OWN(ls_text, json) = {.allocator = ls_runtime_allocator(self->runtime)};
  ls_checkpoint_path(&json, ls_text_data(folder), *out_step, "json");
  LS_RETURN_IF_ERROR(ls_text_status(&json));
  if (!saved_open_is_there(self, ls_text_data(&json))) *out_step = -1;
  return ls_ok();
}

static ls_status open_values(ls_saved_file *self, const char *path) {
  // Names used by runs and by exports.
  static const char *const names[] = {"model", "variables"};
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i) {
    LS_OWN(ls_text, file) = {.allocator = ls_runtime_allocator(self->runtime)};
    ls_text_append_format(&file, "%s/%s.safetensors", path, names[i]);
    LS_RETURN_IF_ERROR(ls_text_status(&file));
    if (saved_open_is_there(self, ls_text_data(&file)))
      return open_file(self, ls_text_data(&file));
  }
  return ls_not_found("'%s' has no checkpoint and no model.safetensors", path);
}

// Opens the final values of a folder whose checkpoints are all damaged;
// `damage` tells of the newest one.
static ls_status replace_damaged(ls_saved_file *self, const char *path,
                                 ls_status damage) {
  const ls_status status = open_values(self, path);
  if (!ls_status_is_ok(status)) {
    ls_status_free(status);
    return damage;
  }
  const char *why = ls_status_message(damage);
  ls_runtime_log(self->runtime, LS_LOG_WARNING, "checkpoint",
                 "'%s' is used instead of a checkpoint: %.*s",
                 self->source.path, (int)strcspn(why, "\n"), why);
  ls_status_free(damage);
  return ls_ok();
}

static ls_status open_path(ls_saved_file *self, const char *path, bool read) {
  ls_allocator *allocator = ls_runtime_allocator(self->runtime);
  int64_t step = -1;
  size_t count = 0;
  LS_OWN_MEMORY(allocator, int64_t, steps) = NULL;
  LS_OWN(ls_text, folder) = {.allocator = allocator};
  LS_RETURN_IF_ERROR(saved_open_find_name(self, path, &folder, &step));
  if (step >= 0)
    return open_checkpoint(self, ls_text_data(&folder), step, read);
  const ls_status status =
      ls_saved_find_steps(self->runtime, path, &steps, &count);
  const ls_code code = ls_status_code(status);
  if (code == LS_NOT_FOUND || code == LS_UNIMPLEMENTED) {
    ls_status_free(status);  // The path is not a folder.
    return open_file(self, path);
  }
  LS_RETURN_IF_ERROR(status);
  if (count == 0) return open_values(self, path);
  const ls_status newest = open_newest(self, path, steps, count, read, true);
  return ls_status_code(newest) == LS_DATA_LOSS
             ? replace_damaged(self, path, newest)
             : newest;
}

// ---- Opening ---------------------------------------------------------------
static ls_status saved_open_begin(ls_saved_file **out_file) {
  ls_runtime *runtime = ls_runtime_current();
  *out_file = NULL;
  LS_RETURN_IF_NO_MEMORY(runtime);
  LS_NEW_OR_RETURN(ls_runtime_allocator(runtime), ls_saved_file, file);
  file->runtime = runtime;
  ls_runtime_note_made(runtime, LS_MADE_SAVED_FILE);
  file->step = -1;
  *out_file = file;
  return ls_ok();
}

// Returns a number for an opened file, never the same twice.
static uint64_t next_number(void) {
  static uint64_t last;
  return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

static ls_status open_with(const char *path, bool read,
                           ls_saved_file **out_file) {
  LS_OWN(ls_saved_file, file) = NULL;
  LS_RETURN_IF_ERROR(saved_open_begin(&file));
  LS_RETURN_IF_ERROR(open_path(file, path, read));
  file->number = next_number();
  return ls_hand_over(&file, out_file);
}

// Lists steps; a path that is no folder may be a file, and has none.
static ls_status find_steps(ls_runtime *runtime, const char *folder,
                            int64_t **out_steps, size_t *out_count) {
  const ls_file_system *files = ls_runtime_files(runtime);
  bool is_file = false;
  const ls_status status =
      ls_saved_find_steps(runtime, folder, out_steps, out_count);
  if (ls_status_code(status) != LS_NOT_FOUND) return status;
  ls_status_free(status);
  LS_RETURN_IF_ERROR(files->exists(files->user, folder, &is_file));
  return is_file ? ls_invalid_argument(
                       "'%s' is a file, and is to be a folder of checkpoints",
                       folder)
                 : ls_ok();
}

ls_status ls_saved_newest_open(const char *folder, bool logs,
                               ls_saved_file **out_file) {
  size_t count = 0;
  *out_file = NULL;
  LS_OWN(ls_saved_file, file) = NULL;
  LS_RETURN_IF_ERROR(saved_open_begin(&file));
  LS_OWN_MEMORY(ls_runtime_allocator(file->runtime), int64_t, steps) = NULL;
  LS_RETURN_IF_ERROR(find_steps(file->runtime, folder, &steps, &count));
  if (count == 0) return ls_ok();
  LS_RETURN_IF_ERROR(open_newest(file, folder, steps, count, true, logs));
  file->number = next_number();
  return ls_hand_over(&file, out_file);
}

ls_status ls_saved_file_open(const char *path, ls_saved_file **out_file) {
  LS_REQUIRE_OUT(out_file, path);
  return open_with(path, true, out_file);
}

ls_status ls_saved_file_open_unread(const char *path,
                                    ls_saved_file **out_file) {
  LS_REQUIRE_OUT(out_file, path);
  return open_with(path, false, out_file);
}

void ls_saved_file_close(ls_saved_file *file) {
  if (file == NULL) return;
  saved_npz_close(&file->npz);
  ls_checkpoint_file_deinit(&file->checkpoint);
  ls_runtime_release(file->runtime, LS_MADE_SAVED_FILE, file);
}
