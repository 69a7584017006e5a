// SPDX-License-Identifier: Apache-2.0
// Saved values, or some of them, as a file of another kind or with other names.
#include "base/memory/map.h"
#include "base/memory/own.h"
#include "base/require.h"
#include "base/values/array_internal.h"
#include "io/npy.h"
#include "state/names.h"
#include "state/saved.h"

typedef struct writing {
  const ls_saved_file *from;
  ls_arena arena;
  ls_safetensors_entry *entries;  // As they will be,
  size_t *numbers, count;         // and which they are.
} writing;

// ---- What is written -------------------------------------------------------
// Files have as many arrays as they like: names are found, not compared.
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
  const ls_value_source *source = &w->from->source;
  const size_t count = source->num_entries;
  const ls_name_choice choice = {.only = options->only,
                                 .num_only = options->num_only,
                                 .except = options->except,
                                 .num_except = options->num_except,
                                 .maps = options->names,
                                 .num_maps = options->num_names,
                                 .what = "array"};
  const char **names = ls_arena_new_array(&w->arena, const char *, count);
  w->entries = ls_arena_new_array(&w->arena, ls_safetensors_entry, count);
  w->numbers = ls_arena_new_array(&w->arena, size_t, count);
  if (names == NULL || w->entries == NULL || w->numbers == NULL)
    return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    names[i] = source->entries[i].name;
  LS_RETURN_IF_ERROR(ls_name_choice_check(&choice, names, count));
  for (size_t i = 0; i < count; ++i) {
    if (!ls_name_is_chosen(&choice, names[i])) continue;
    if (options->parts != LS_FLAG_ON &&
        ls_value_source_is_part(source, names[i]))
      continue;
    ls_safetensors_entry *entry = &w->entries[w->count];
    *entry = source->entries[i];
    entry->name = ls_name_map_to(&choice, &w->arena, names[i]);
    if (entry->name == NULL) return ls_out_of_memory();
    w->numbers[w->count++] = i;
  }
  return check_unique(w, path);
}

// ---- Writing ---------------------------------------------------------------
static ls_status write_safetensors(const writing *w, const char *path) {
  ls_safetensors_writer *writer = NULL;
  LS_RETURN_IF_ERROR(ls_safetensors_create(w->from->runtime, path, w->entries,
                                           w->count, NULL, 0, &writer));
  ls_status status = ls_ok();
  for (size_t i = 0; i < w->count && ls_status_is_ok(status); ++i) {
    ls_array *array = NULL;
    status = ls_saved_file_read(w->from, w->numbers[i], &array);
    if (ls_status_is_ok(status))
      status = ls_safetensors_put(writer, &w->entries[i], ls_array_data(array),
                                  NULL);
    ls_array_release(array);
  }
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
      "array '%s' cannot be written as .npz; a .safetensors file takes it",
      entry->name));
  LS_RETURN_IF_ERROR(ls_text_status(head));
  LS_RETURN_IF_ERROR(ls_saved_file_read(w->from, w->numbers[index], &array));
  LS_OWN(ls_text, name) = {0};
  ls_text_init(&name, ls_runtime_allocator(w->from->runtime));
  ls_text_append_format(&name, "%s.npy", entry->name);
  LS_RETURN_IF_ERROR(ls_text_status(&name));
  return ls_zip_add(zip, ls_text_data(&name), false, ls_text_data(head),
                    head->size, ls_array_data(array), entry->size);
}

static ls_status write_npz(const writing *w, const char *path) {
  ls_zip_writer *zip = NULL;
  ls_text head;
  LS_RETURN_IF_ERROR(ls_zip_writer_open(w->from->runtime, path, &zip));
  ls_text_init(&head, ls_runtime_allocator(w->from->runtime));
  ls_status status = ls_ok();
  for (size_t i = 0; i < w->count && ls_status_is_ok(status); ++i)
    status = add_npy(w, zip, i, &head);
  ls_text_deinit(&head);
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
  LS_REQUIRE(file);
  LS_REQUIRE(path);
  writing w = {.from = file};
  ls_arena_init(&w.arena, ls_runtime_allocator(file->runtime));
  ls_status status =
      saved_write_choose(&w, path, options != NULL ? options : &all);
  if (ls_status_is_ok(status))
    status = is_npz(path) ? write_npz(&w, path) : write_safetensors(&w, path);
  if (out_count != NULL) *out_count = ls_status_is_ok(status) ? w.count : 0;
  ls_arena_deinit(&w.arena);
  return status;
}
