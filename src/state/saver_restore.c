// SPDX-License-Identifier: Apache-2.0
// Restoring: first everything in the file is found to fit, then each value is
// read and set.
#include <stdio.h>

#include "base/require.h"
#include "base/trace.h"
#include "base/values/array_internal.h"
#include "runtime/many.h"
#include "state/saver_file.h"
#include "state/value.h"

// ---- Restoring -------------------------------------------------------------
static ls_status missing(const ls_safetensors_file *file,
                         const ls_variable *variable, const char *name) {
  enum { MOST_SHOWN = 3 };
  char held[200] = "";
  for (size_t i = 0; i < file->num_entries && i < MOST_SHOWN; ++i) {
    const size_t at = strlen(held);
    snprintf(held + at, sizeof(held) - at, "%s'%s'", i == 0 ? ": " : ", ",
             file->entries[i].name);
  }
  return ls_not_found(
      "'%s' holds no array '%s', which variable '%s' of %s needs; it holds "
      "%zu%s%s",
      file->path, name, variable->name,
      LS_SHAPE_TEXT(variable->type.dtype, variable->type.shape),
      file->num_entries, held, file->num_entries > MOST_SHOWN ? ", ..." : "");
}

static bool fits(const ls_variable *variable,
                 const ls_safetensors_entry *entry) {
  return entry->dtype == variable->type.dtype &&
         ls_shape_equal(entry->shape, variable->type.shape);
}

static ls_status check_entry(const ls_saver *saver,
                             const ls_safetensors_file *file, size_t index) {
  const ls_variable *variable = saver->variables[index];
  const char *name = ls_saver_name(saver, index);
  const ls_safetensors_entry *entry = ls_safetensors_entry_of(file, name);
  if (entry == NULL) return missing(file, variable, name);
  return fits(variable, entry)
             ? ls_ok()
             : ls_invalid_argument(
                   "'%s' holds array '%s' of %s; variable '%s' needs %s",
                   file->path, name, LS_SHAPE_TEXT(entry->dtype, entry->shape),
                   variable->name,
                   LS_SHAPE_TEXT(variable->type.dtype, variable->type.shape));
}

// The first fault, and how many there are.
static ls_status check_entries(const ls_saver *saver,
                               const ls_safetensors_file *file) {
  ls_status first = ls_ok();
  size_t faults = 0;
  for (size_t i = 0; i < saver->num_variables; ++i) {
    const ls_status status = check_entry(saver, file, i);
    if (ls_status_is_ok(status)) continue;
    if (faults++ == 0)
      first = status;
    else
      ls_status_free(status);
  }
  return faults < 2 ? first
                    : ls_status_annotate(first,
                                         "%zu of %zu variables cannot "
                                         "be restored, this is the first",
                                         faults, saver->num_variables);
}

// The entries of all components, in `parts`, which has room for one more; false
// where the file has another number of them, or of another type.
static ls_status find_parts(const ls_safetensors_file *file, ls_arena *arena,
                            const ls_variable *variable, const char *name,
                            const ls_safetensors_entry **parts,
                            bool *out_found) {
  const size_t count = variable->num_components;
  *out_found = count > 0;
  for (size_t i = 0; i <= count; ++i) {
    const char *entry = ls_saver_part_name(arena, name, i);
    if (entry == NULL) return ls_out_of_memory();
    parts[i] = ls_safetensors_entry_of(file, entry);
    const bool good = parts[i] != NULL && fits(variable, parts[i]);
    if (good != (i < count)) *out_found = false;
  }
  return ls_ok();
}

// ---- Setting ---------------------------------------------------------------
// Values that are read to where they lie, all at once.
typedef struct stored {
  ls_allocator *allocator;
  ls_variable **variables;
  ls_safetensors_wish *wishes;
  size_t count, variables_capacity, wishes_capacity;
} stored;

static ls_status add_stored(stored *all, ls_variable *variable,
                            const ls_safetensors_entry *entry) {
  const size_t needed = all->count + 1;
  if (!ls_grow(all->allocator, &all->variables, &all->variables_capacity,
               needed, sizeof(ls_variable *)) ||
      !ls_grow(all->allocator, &all->wishes, &all->wishes_capacity, needed,
               sizeof(*all->wishes)))
    return ls_out_of_memory();
  all->variables[all->count] = variable;
  all->wishes[all->count++] = (ls_safetensors_wish){.entry = entry};
  return ls_ok();
}

static ls_status read_stored(ls_store *store, const ls_safetensors_file *file,
                             const stored *all) {
  ls_workers *workers = NULL;
  ls_many many;
  LS_RETURN_IF_ERROR(ls_runtime_workers(file->runtime, &workers));
  LS_RETURN_IF_ERROR(
      ls_many_enter(store, all->variables, all->count, true, &many));
  for (size_t i = 0; i < all->count; ++i)
    all->wishes[i].data = many.data[i];
  const ls_status status =
      ls_safetensors_get_many(file, workers, all->wishes, all->count, false);
  ls_many_leave(&many, ls_status_is_ok(status));
  return status;
}

// Of one that stands for others or keeps shares: through an array.
static ls_status set_from(ls_store *store, const ls_safetensors_file *file,
                          const ls_safetensors_entry *entry,
                          ls_variable *variable) {
  ls_array *value = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create_unwritten(entry->dtype, entry->shape, &value));
  ls_status status =
      ls_safetensors_get(file, entry, ls_array_mutable_data(value), NULL);
  if (ls_status_is_ok(status)) status = ls_state_write(store, variable, value);
  ls_array_release(value);
  return status;
}

static ls_status add_parts(stored *all, const ls_safetensors_file *file,
                           ls_arena *arena, const ls_variable *variable,
                           const char *name, bool *out_done) {
  const ls_safetensors_entry **parts = ls_arena_new_array(
      arena, const ls_safetensors_entry *, variable->num_components + 1);
  if (parts == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(find_parts(file, arena, variable, name, parts, out_done));
  for (size_t i = 0; *out_done && i < variable->num_components; ++i)
    LS_RETURN_IF_ERROR(add_stored(all, variable->components[i], parts[i]));
  return ls_ok();
}

// Whether it has its value already: it started with that of this file.
static bool has_started_with(const ls_variable *variable, const ls_store *store,
                             uint64_t started) {
  return started != 0 && variable->restored_from == started &&
         ls_store_has_value(store, variable);
}

static ls_status restore_one(const ls_saver *saver, ls_store *store,
                             const ls_safetensors_file *file, ls_arena *arena,
                             size_t index, stored *all) {
  ls_variable *variable = saver->variables[index];
  const char *name = ls_saver_name(saver, index);
  bool done = false;
  if (saver->exact)
    LS_RETURN_IF_ERROR(add_parts(all, file, arena, variable, name, &done));
  if (done) return ls_ok();
  const ls_safetensors_entry *entry = ls_safetensors_entry_of(file, name);
  return ls_state_is_stored(variable) ? add_stored(all, variable, entry)
                                      : set_from(store, file, entry, variable);
}

static ls_status restore_all(const ls_saver *saver, ls_store *store,
                             const ls_safetensors_file *file, uint64_t started,
                             ls_arena *arena) {
  stored all = {.allocator = ls_runtime_allocator(file->runtime)};
  ls_status status = ls_ok();
  for (size_t i = 0; i < saver->num_variables && ls_status_is_ok(status); ++i) {
    if (!has_started_with(saver->variables[i], store, started))
      status = restore_one(saver, store, file, arena, i, &all);
  }
  if (ls_status_is_ok(status)) status = read_stored(store, file, &all);
  for (size_t i = 0; i < saver->num_variables && ls_status_is_ok(status); ++i)
    saver->variables[i]->restored_from = 0;
  ls_release(all.allocator, all.variables);
  ls_release(all.allocator, all.wishes);
  return status;
}

static ls_status restore(const ls_saver *saver, const ls_safetensors_file *file,
                         uint64_t started) {
  ls_store *store = NULL;
  LS_RETURN_IF_ERROR(ls_saver_open(saver, &store));
  LS_RETURN_IF_ERROR(check_entries(saver, file));
  ls_arena names;
  ls_arena_init(&names, ls_runtime_allocator(file->runtime));
  const ls_status status = restore_all(saver, store, file, started, &names);
  ls_arena_deinit(&names);
  return ls_status_annotate(status, "while restoring '%s'", file->path);
}

ls_status ls_saver_restore_but(const ls_saver *saver,
                               const ls_safetensors_file *file,
                               uint64_t started) {
  ls_runtime *runtime = file->runtime;
  const int64_t began = ls_span_begin(runtime);
  const ls_status status = restore(saver, file, started);
  if (began != LS_NO_SPAN)
    ls_span_end(
        runtime,
        &(ls_span){.kind = "restore", .name = file->path, .began = began});
  return status;
}

ls_status ls_saver_restore_from(const ls_saver *saver,
                                const ls_safetensors_file *file) {
  return ls_saver_restore_but(saver, file, 0);
}

ls_status ls_saver_check(const ls_saver *saver,
                         const ls_safetensors_file *file) {
  ls_store *store = NULL;
  LS_RETURN_IF_ERROR(ls_saver_open(saver, &store));
  return check_entries(saver, file);
}

ls_status ls_saver_restore(const ls_saver *saver, const char *path) {
  LS_REQUIRE(saver);
  LS_REQUIRE(path);
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  ls_safetensors_file file;
  LS_RETURN_IF_ERROR(ls_safetensors_open(runtime, path, &file));
  const ls_status status = ls_saver_restore_from(saver, &file);
  ls_safetensors_close(&file);
  return status;
}
