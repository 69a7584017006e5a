// SPDX-License-Identifier: Apache-2.0
#include "lockstep/saver.h"

#include <stdio.h>

#include "base/memory/arena.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/trace.h"
#include "runtime/state.h"
#include "state/saver_file.h"
#include "state/value.h"

// ---- What both do ----------------------------------------------------------
static const char *name_of(const ls_saver *saver, size_t index) {
  return saver->names != NULL ? saver->names[index]
                              : ls_variable_name(saver->variables[index]);
}

static ls_status check_variable(const ls_saver *saver, size_t index) {
  const ls_variable *variable = saver->variables[index];
  if (variable == NULL || name_of(saver, index) == NULL)
    return ls_invalid_argument("variable %zu of a saver or its name is NULL",
                               index);
  if (variable->container != NULL)
    return ls_invalid_argument(
        "'%s' is component %zu of variable '%s' and has no entry of its own; "
        "save that variable",
        variable->name, variable->index, variable->container->name);
  if (variable->graph != NULL && saver->session == NULL)
    return ls_invalid_argument("variable '%s' is of graph '%s': its values are "
                               "in a session, which the saver has not",
                               variable->name, variable->graph->name);
  if (variable->graph == NULL && saver->session != NULL)
    return ls_invalid_argument("variable '%s' is an eager one, and the saver "
                               "has a session",
                               variable->name);
  return ls_ok();
}

// Checks the saver and finds whose values are meant.
static ls_status open_store(const ls_saver *saver, ls_store **out_store) {
  for (size_t i = 0; i < saver->num_variables; ++i)
    LS_RETURN_IF_ERROR(check_variable(saver, i));
  if (saver->session != NULL) {
    *out_store = ls_session_store(saver->session);
    return ls_ok();
  }
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  ls_runtime_state *state = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(runtime, &state));
  *out_store = state->store;
  return ls_ok();
}

// The entry of one component: a name that no variable has. NULL: no memory.
static const char *part_name(ls_arena *arena, const char *name, size_t part) {
  return ls_arena_format(arena, "%s:%zu", name, part);
}

// ---- Saving ----------------------------------------------------------------
// The file's entries, as they come.
typedef struct entries {
  ls_arena names;
  ls_safetensor *items;
  size_t count, capacity;
} entries;

// Takes over the array.
static ls_status add_entry(entries *e, const char *name, ls_array *array) {
  if (!ls_grow(e->names.allocator, &e->items, &e->capacity, e->count + 1,
               sizeof(*e->items))) {
    ls_array_release(array);
    return ls_out_of_memory();
  }
  e->items[e->count++] = (ls_safetensor){name, array};
  return ls_ok();
}

static ls_status add_part(entries *e, ls_store *store, const char *name,
                          ls_variable *component, size_t index) {
  ls_array *value = NULL;
  const char *entry = part_name(&e->names, name, index);
  if (entry == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_store_read(store, component, &value));
  return add_entry(e, entry, value);
}

static ls_status add_variable(entries *e, const ls_saver *saver,
                              ls_store *store, size_t index) {
  ls_variable *variable = saver->variables[index];
  const char *name = name_of(saver, index);
  ls_array *value = NULL;
  LS_RETURN_IF_ERROR(ls_state_read(store, variable, &value));
  if (value == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(add_entry(e, name, value));
  const size_t parts = saver->exact ? ls_state_parts(store, variable) : 0;
  for (size_t i = 0; i < parts; ++i)
    LS_RETURN_IF_ERROR(add_part(e, store, name, variable->components[i], i));
  return ls_ok();
}

static void end_span(ls_runtime *runtime, const char *kind, const char *path,
                     int64_t began) {
  if (began != LS_NO_SPAN)
    ls_span_end(runtime,
                &(ls_span){.kind = kind, .name = path, .began = began});
}

static ls_status save(ls_runtime *runtime, const ls_saver *saver,
                      const char *path, const ls_safetensors_note *notes,
                      size_t num_notes) {
  ls_store *store = NULL;
  LS_RETURN_IF_ERROR(open_store(saver, &store));
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  entries e = {0};
  ls_arena_init(&e.names, allocator);
  ls_status status = ls_ok();
  for (size_t i = 0; i < saver->num_variables && ls_status_is_ok(status); ++i)
    status = add_variable(&e, saver, store, i);
  status = ls_status_is_ok(status)
               ? ls_safetensors_write(runtime, path, e.items, e.count, notes,
                                      num_notes)
               : ls_status_annotate(status, "while saving '%s'", path);
  for (size_t i = 0; i < e.count; ++i)
    ls_array_release(e.items[i].array);
  ls_release(allocator, e.items);
  ls_arena_deinit(&e.names);
  return status;
}

ls_status ls_saver_save_with(const ls_saver *saver, const char *path,
                             const ls_safetensors_note *notes,
                             size_t num_notes) {
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  const int64_t began = ls_span_begin(runtime);
  const ls_status status = save(runtime, saver, path, notes, num_notes);
  end_span(runtime, "save", path, began);
  return status;
}

ls_status ls_saver_save(const ls_saver *saver, const char *path) {
  LS_REQUIRE(saver);
  LS_REQUIRE(path);
  return ls_saver_save_with(saver, path, NULL, 0);
}

// ---- Restoring -------------------------------------------------------------
static ls_status missing(const ls_safetensors *file, const char *path,
                         const ls_variable *variable, const char *name) {
  enum { MOST_SHOWN = 3 };
  char held[200] = "";
  for (size_t i = 0; i < file->num_tensors && i < MOST_SHOWN; ++i) {
    const size_t at = strlen(held);
    snprintf(held + at, sizeof(held) - at, "%s'%s'", i == 0 ? ": " : ", ",
             file->tensors[i].name);
  }
  return ls_not_found(
      "'%s' holds no array '%s', which variable '%s' of %s needs; it holds "
      "%zu%s%s",
      path, name, variable->name,
      LS_SHAPE_TEXT(variable->type.dtype, variable->type.shape),
      file->num_tensors, held, file->num_tensors > MOST_SHOWN ? ", ..." : "");
}

static bool fits(const ls_variable *variable, const ls_array *array) {
  return ls_array_dtype(array) == variable->type.dtype &&
         ls_shape_equal(ls_array_shape(array), variable->type.shape);
}

static ls_status check_entry(const ls_saver *saver, const ls_safetensors *file,
                             const char *path, size_t index) {
  const ls_variable *variable = saver->variables[index];
  const char *name = name_of(saver, index);
  const ls_array *array = ls_safetensors_find(file, name);
  if (array == NULL) return missing(file, path, variable, name);
  return fits(variable, array)
             ? ls_ok()
             : ls_invalid_argument(
                   "'%s' holds array '%s' of %s; variable '%s' needs %s", path,
                   name,
                   LS_SHAPE_TEXT(ls_array_dtype(array), ls_array_shape(array)),
                   variable->name,
                   LS_SHAPE_TEXT(variable->type.dtype, variable->type.shape));
}

// The first fault, and how many there are.
static ls_status check_entries(const ls_saver *saver,
                               const ls_safetensors *file, const char *path) {
  ls_status first = ls_ok();
  size_t faults = 0;
  for (size_t i = 0; i < saver->num_variables; ++i) {
    const ls_status status = check_entry(saver, file, path, i);
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
static ls_status find_parts(const ls_safetensors *file, ls_arena *arena,
                            const ls_variable *variable, const char *name,
                            const ls_array **parts, bool *out_found) {
  const size_t count = variable->num_components;
  *out_found = count > 0;
  for (size_t i = 0; i <= count; ++i) {
    const char *entry = part_name(arena, name, i);
    if (entry == NULL) return ls_out_of_memory();
    parts[i] = ls_safetensors_find(file, entry);
    const bool good = parts[i] != NULL && fits(variable, parts[i]);
    if (good != (i < count)) *out_found = false;
  }
  return ls_ok();
}

static ls_status restore_parts(ls_store *store, const ls_safetensors *file,
                               ls_arena *arena, ls_variable *variable,
                               const char *name, bool *out_done) {
  const ls_array **parts =
      ls_arena_new_array(arena, const ls_array *, variable->num_components + 1);
  if (parts == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(find_parts(file, arena, variable, name, parts, out_done));
  for (size_t i = 0; *out_done && i < variable->num_components; ++i)
    LS_RETURN_IF_ERROR(
        ls_store_write(store, variable->components[i], parts[i]));
  return ls_ok();
}

static ls_status restore_all(const ls_saver *saver, ls_store *store,
                             const ls_safetensors *file, ls_arena *arena) {
  for (size_t i = 0; i < saver->num_variables; ++i) {
    ls_variable *variable = saver->variables[i];
    const char *name = name_of(saver, i);
    bool done = false;
    if (saver->exact)
      LS_RETURN_IF_ERROR(
          restore_parts(store, file, arena, variable, name, &done));
    if (!done)
      LS_RETURN_IF_ERROR(
          ls_state_write(store, variable, ls_safetensors_find(file, name)));
  }
  return ls_ok();
}

static ls_status restore(const ls_saver *saver, const ls_safetensors *file,
                         const char *path) {
  ls_store *store = NULL;
  LS_RETURN_IF_ERROR(open_store(saver, &store));
  LS_RETURN_IF_ERROR(check_entries(saver, file, path));
  ls_arena names;
  ls_arena_init(&names, file->allocator);
  const ls_status status = restore_all(saver, store, file, &names);
  ls_arena_deinit(&names);
  return ls_status_annotate(status, "while restoring '%s'", path);
}

ls_status ls_saver_restore_from(const ls_saver *saver,
                                const ls_safetensors *file, const char *path) {
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  const int64_t began = ls_span_begin(runtime);
  const ls_status status = restore(saver, file, path);
  end_span(runtime, "restore", path, began);
  return status;
}

ls_status ls_saver_restore(const ls_saver *saver, const char *path) {
  LS_REQUIRE(saver);
  LS_REQUIRE(path);
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  ls_safetensors file;
  LS_RETURN_IF_ERROR(ls_safetensors_read(runtime, path, &file));
  const ls_status status = ls_saver_restore_from(saver, &file, path);
  ls_safetensors_deinit(&file);
  return status;
}
