// SPDX-License-Identifier: Apache-2.0
// Open files of saved values: their contents, variables initialized from them,
// and copies of them.
#include "base/memory/map.h"
#include "base/require.h"
#include "base/values/array_internal.h"
#include "io/npy.h"
#include "state/own.h"
#include "state/record.h"
#include "state/saved.h"
#include "state/saver_file.h"

// ---- Contents --------------------------------------------------------------
void ls_saved_file_describe(const ls_saved_file *file,
                            ls_saved_info *out_info) {
  const bool is_checkpoint = file->checkpoint.root != NULL;
  const bool is_npz = file->npz.file != NULL;
  const bool has_sums =
      file->source.num_entries > 0 && file->source.entries[0].has_crc;
  *out_info = (ls_saved_info){
      .path = file->source.path,
      .format = is_checkpoint ? "checkpoint" : (is_npz ? "npz" : "safetensors"),
      .num_entries = file->source.num_entries,
      .checked = is_checkpoint || is_npz || has_sums,
      .step = file->step,
      .wall = file->wall,
      .metrics = file->metrics,
      .num_metrics = file->num_metrics};
  for (size_t i = 0; i < file->source.num_entries; ++i)
    out_info->bytes += (int64_t)file->source.entries[i].size;
}

static ls_status check_index(const ls_saved_file *file, size_t index) {
  return index < file->source.num_entries
             ? ls_ok()
             : ls_out_of_range("'%s' has %zu arrays, and no number %zu",
                               file->source.path, file->source.num_entries,
                               index);
}

ls_status ls_saved_file_entry(const ls_saved_file *file, size_t index,
                              ls_saved_entry *out_entry) {
  LS_REQUIRE_OUT(out_entry, file);
  LS_RETURN_IF_ERROR(check_index(file, index));
  const ls_safetensors_entry *entry = &file->source.entries[index];
  *out_entry = (ls_saved_entry){
      .name = entry->name,
      .type = {entry->dtype, entry->shape},
      .bytes = entry->size,
      .is_part = ls_value_source_whole(&file->source, entry->name) != NULL};
  return ls_ok();
}

ls_status ls_saved_file_read(const ls_saved_file *file, size_t index,
                             ls_array **out_array) {
  LS_REQUIRE_OUT(out_array, file);
  LS_RETURN_IF_ERROR(check_index(file, index));
  const ls_safetensors_entry *entry = &file->source.entries[index];
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create_unwritten(entry->dtype, entry->shape, &array));
  LS_RETURN_IF_ERROR(
      ls_value_source_get(&file->source, entry, ls_array_mutable_data(array)));
  return ls_hand_over(&array, out_array);
}

ls_status ls_saved_file_check(const ls_saved_file *file, size_t index) {
  LS_REQUIRE(file);
  LS_RETURN_IF_ERROR(check_index(file, index));
  if (file->checkpoint.root != NULL)
    return ls_checkpoint_file_check(&file->checkpoint, index, 1);
  const ls_safetensors_entry *entry = &file->source.entries[index];
  if (file->npz.file == NULL)
    return entry->has_crc
               ? file->source.get(file->source.self, NULL,
                                  &(ls_safetensors_wish){.entry = entry}, 1,
                                  LS_SUMS_HELD)
               : ls_ok();
  LS_OWN(ls_array, array) = NULL;
  return ls_saved_file_read(file, index, &array);
}

ls_status ls_saved_file_records(const ls_saved_file *file,
                                ls_record **out_identity,
                                ls_record **out_states) {
  LS_CLEAR_OUT(out_identity);
  LS_CLEAR_OUT(out_states);
  LS_REQUIRE(file);
  LS_OWN(ls_record, identity) = NULL;
  if (out_identity != NULL)
    LS_RETURN_IF_ERROR(
        ls_checkpoint_file_record(&file->checkpoint, "identity", &identity));
  if (out_states != NULL)
    LS_RETURN_IF_ERROR(
        ls_checkpoint_file_record(&file->checkpoint, "state", out_states));
  if (out_identity != NULL) *out_identity = ls_give(&identity);
  return ls_ok();
}

// ---- Variables initialized from the file -----------------------------------
static ls_status saved_file_check_options(const ls_saved_file *file,
                                          const ls_safetensors_entry *entry,
                                          const ls_variable_options *options) {
  if (options->initial_array != NULL || options->initial_value.ref != 0 ||
      options->initializer != NULL || options->initial_of != NULL ||
      options->no_value)
    return ls_invalid_argument("a variable that starts with array '%s' of '%s' "
                               "is given an initial value, or no_value, too",
                               entry->name, file->source.path);
  if (options->dtype == LS_DTYPE_NONE ||
      (options->dtype == entry->dtype &&
       ls_shape_equal(options->shape, entry->shape)))
    return ls_ok();
  return ls_invalid_argument(
      "'%s' has array '%s' of %s; the variable must be %s", file->source.path,
      entry->name, LS_SHAPE_TEXT(entry->dtype, entry->shape),
      LS_SHAPE_TEXT(options->dtype, options->shape));
}

ls_status ls_saved_file_create_variable(const ls_saved_file *file,
                                        const char *name,
                                        const ls_variable_options *options,
                                        ls_variable **out_variable) {
  LS_REQUIRE_OUT(out_variable, file, name);
  ls_variable_options whole = {0};
  if (options != NULL) whole = *options;
  const ls_safetensors_entry *entry = ls_value_source_find(&file->source, name);
  if (entry == NULL)
    return ls_not_found(
        "'%s' has no array '%s' for the initial value of a variable",
        file->source.path, name);
  LS_RETURN_IF_ERROR(saved_file_check_options(file, entry, &whole));
  LS_OWN(ls_array, value) = NULL;
  LS_RETURN_IF_ERROR(
      ls_saved_file_read(file, (size_t)(entry - file->source.entries), &value));
  whole.initial_array = value;
  whole.restored_from = file->number;
  return ls_variable_create(&whole, out_variable);
}

// ---- Restoring -------------------------------------------------------------
ls_status ls_saved_file_restore_part(const ls_saved_file *file,
                                     const ls_saver *saver,
                                     const ls_value_choice *choice,
                                     ls_value_report *report) {
  LS_REQUIRE(file, saver);
  return ls_saver_restore_source(saver, &file->source, choice, file->number,
                                 report);
}

ls_status ls_saved_file_restore(const ls_saved_file *file,
                                const ls_saver *saver) {
  LS_REQUIRE(file, saver);
  return ls_saver_restore_source(saver, &file->source, NULL, file->number,
                                 NULL);
}

typedef struct writing {
  const ls_saved_file *from;
  ls_arena *arena;
  ls_safetensors_entry *entries;  // Entries of the new file,
  size_t *numbers, count;         // and their numbers in `from`.
} writing;

// ---- Entries to write ------------------------------------------------------
// Checks names in a map, since a file may have any number of arrays.
static ls_status check_unique(const writing *w, const char *path) {
  LS_OWN(ls_map, names) = {0};
  ls_map_init(&names, ls_runtime_allocator(w->from->runtime));
  for (size_t i = 0; i < w->count; ++i) {
    ls_safetensors_entry *entry = &w->entries[i];
    if (ls_map_find_text(&names, entry->name) != NULL)
      return ls_invalid_argument("'%s' would have two arrays called '%s'", path,
                                 entry->name);
    else if (!ls_map_insert_text(&names, entry->name, entry))
      return ls_out_of_memory();
  }
  return ls_ok();
}

static ls_status saved_write_choose(writing *w, const char *path,
                                    const ls_saved_write_options *options) {
  ls_value_source sorted = w->from->source;
  const ls_value_source *source = &sorted;
  const size_t count = source->num_entries;
  const ls_name_choice choice = {.only = options->only,
                                 .num_only = options->num_only,
                                 .except = options->except,
                                 .num_except = options->num_except,
                                 .maps = options->names,
                                 .num_maps = options->num_names,
                                 .noun = "array"};
  const char **names = ls_arena_new_array(w->arena, const char *, count);
  w->entries = ls_arena_new_array(w->arena, ls_safetensors_entry, count);
  w->numbers = ls_arena_new_array(w->arena, size_t, count);
  if (names == NULL || w->entries == NULL || w->numbers == NULL)
    return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    names[i] = source->entries[i].name;
  LS_RETURN_IF_ERROR(ls_name_choice_check(&choice, names, count));
  LS_RETURN_IF_ERROR(ls_value_source_sort(&sorted, w->arena));
  for (size_t i = 0; i < count; ++i) {
    if (!ls_name_is_chosen(&choice, names[i])) continue;
    if (options->parts != LS_FLAG_ON &&
        ls_value_source_whole(source, names[i]) != NULL)
      continue;
    ls_safetensors_entry *entry = &w->entries[w->count];
    *entry = source->entries[i];
    entry->name = ls_name_map_to(&choice, w->arena, names[i]);
    if (entry->name == NULL) return ls_out_of_memory();
    w->numbers[w->count++] = i;
  }
  return check_unique(w, path);
}

// ---- Writing ---------------------------------------------------------------
static ls_status write_entries(const writing *w,
                               ls_safetensors_writer *writer) {
  for (size_t i = 0; i < w->count; ++i) {
    LS_OWN(ls_array, array) = NULL;
    LS_RETURN_IF_ERROR(ls_saved_file_read(w->from, w->numbers[i], &array));
    LS_RETURN_IF_ERROR(
        ls_safetensors_put(writer, &w->entries[i], ls_array_data(array), NULL));
  }
  return ls_ok();
}

static ls_status write_safetensors(const writing *w, const char *path) {
  ls_safetensors_writer *writer = NULL;
  LS_RETURN_IF_ERROR(ls_safetensors_create(w->from->runtime, path, w->entries,
                                           w->count, NULL, 0, &writer));
  const ls_status status = write_entries(w, writer);
  const bool keep = ls_status_is_ok(status);
  return ls_status_join(status, ls_safetensors_finish(writer, keep));
}

static ls_status add_npy(const writing *w, ls_zip_writer *zip, size_t index,
                         ls_text *head) {
  const ls_safetensors_entry *entry = &w->entries[index];
  LS_OWN(ls_array, array) = NULL;
  ls_text_clear(head);
  LS_RETURN_IF_ERROR(ls_status_annotate(
      ls_npy_print_header(entry->dtype, entry->shape, head),
      "array '%s' cannot be written as .npz; use a .safetensors file",
      entry->name));
  LS_RETURN_IF_ERROR(ls_text_status(head));
  LS_RETURN_IF_ERROR(ls_saved_file_read(w->from, w->numbers[index], &array));
  LS_OWN(ls_text, name) = {.allocator = ls_runtime_allocator(w->from->runtime)};
  ls_text_append_format(&name, "%s.npy", entry->name);
  LS_RETURN_IF_ERROR(ls_text_status(&name));
  return ls_zip_add(zip, ls_text_data(&name), false, ls_text_data(head),
                    head->size, ls_array_data(array), entry->size);
}

static ls_status write_npz(const writing *w, const char *path) {
  ls_zip_writer *zip = NULL;
  LS_RETURN_IF_ERROR(ls_zip_writer_open(w->from->runtime, path, &zip));
  LS_OWN(ls_text, head) = {.allocator = ls_runtime_allocator(w->from->runtime)};
  ls_status status = ls_ok();
  for (size_t i = 0; i < w->count && ls_status_is_ok(status); ++i)
    status = add_npy(w, zip, i, &head);
  const bool keep = ls_status_is_ok(status);
  return ls_status_join(status, ls_zip_writer_close(zip, keep));
}

static bool is_npz(const char *path) {
  const size_t length = strlen(path);
  return length > 4 && strcmp(path + length - 4, ".npz") == 0;
}

ls_status ls_saved_file_write(const ls_saved_file *file, const char *path,
                              const ls_saved_write_options *options,
                              size_t *out_count) {
  LS_CLEAR_OUT(out_count);
  static const ls_saved_write_options all;
  LS_REQUIRE(file, path);
  writing w = {.from = file};
  LS_OWN(ls_arena, arena) = {.allocator = ls_runtime_allocator(file->runtime)};
  w.arena = &arena;
  LS_RETURN_IF_ERROR(
      saved_write_choose(&w, path, options != NULL ? options : &all));
  LS_RETURN_IF_ERROR(is_npz(path) ? write_npz(&w, path)
                                  : write_safetensors(&w, path));
  if (out_count != NULL) *out_count = w.count;
  return ls_ok();
}
