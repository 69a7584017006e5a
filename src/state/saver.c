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
const char *ls_saver_name(const ls_saver *saver, size_t index) {
  return saver->names != NULL ? saver->names[index]
                              : ls_variable_name(saver->variables[index]);
}

static ls_status check_variable(const ls_saver *saver, size_t index) {
  const ls_variable *variable = saver->variables[index];
  if (variable == NULL || ls_saver_name(saver, index) == NULL)
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
ls_status ls_saver_open(const ls_saver *saver, ls_store **out_store) {
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
const char *ls_saver_part_name(ls_arena *arena, const char *name, size_t part) {
  return ls_arena_format(arena, "%s:%zu", name, part);
}

// ---- Values ----------------------------------------------------------------
// Takes over the array.
static ls_status add_value(ls_saver_values *v, const char *name,
                           ls_array *array) {
  if (!ls_grow(v->names.allocator, &v->items, &v->capacity, v->count + 1,
               sizeof(*v->items))) {
    ls_array_release(array);
    return ls_out_of_memory();
  }
  v->items[v->count++] = (ls_safetensor){name, array};
  return ls_ok();
}

static ls_status add_part(ls_saver_values *v, ls_store *store, const char *name,
                          ls_variable *component, size_t index) {
  ls_array *value = NULL;
  const char *entry = ls_saver_part_name(&v->names, name, index);
  if (entry == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_store_read(store, component, &value));
  return add_value(v, entry, value);
}

static ls_status add_variable(ls_saver_values *v, const ls_saver *saver,
                              ls_store *store, size_t index) {
  ls_variable *variable = saver->variables[index];
  const char *name = ls_saver_name(saver, index);
  ls_array *value = NULL;
  LS_RETURN_IF_ERROR(ls_state_read(store, variable, &value));
  if (value == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(add_value(v, name, value));
  const size_t parts = saver->exact ? ls_state_parts(store, variable) : 0;
  for (size_t i = 0; i < parts; ++i)
    LS_RETURN_IF_ERROR(add_part(v, store, name, variable->components[i], i));
  return ls_ok();
}

ls_status ls_saver_read_values(const ls_saver *saver,
                               ls_saver_values *out_values) {
  ls_runtime *runtime = ls_runtime_current();
  *out_values = (ls_saver_values){0};
  if (runtime == NULL) return ls_out_of_memory();
  ls_arena_init(&out_values->names, ls_runtime_allocator(runtime));
  ls_store *store = NULL;
  ls_status status = ls_saver_open(saver, &store);
  for (size_t i = 0; i < saver->num_variables && ls_status_is_ok(status); ++i)
    status = add_variable(out_values, saver, store, i);
  if (!ls_status_is_ok(status)) ls_saver_values_deinit(out_values);
  return status;
}

void ls_saver_values_deinit(ls_saver_values *values) {
  for (size_t i = 0; i < values->count; ++i)
    ls_array_release(values->items[i].array);
  if (values->names.allocator != NULL) {
    ls_release(values->names.allocator, values->items);
    ls_arena_deinit(&values->names);
  }
  *values = (ls_saver_values){0};
}

// ---- Saving ----------------------------------------------------------------
static ls_status save(ls_runtime *runtime, const ls_saver *saver,
                      const char *path, const ls_safetensors_note *notes,
                      size_t num_notes) {
  ls_saver_values values;
  LS_RETURN_IF_ERROR(ls_status_annotate(ls_saver_read_values(saver, &values),
                                        "while saving '%s'", path));
  const ls_status status = ls_safetensors_write(runtime, path, values.items,
                                                values.count, notes, num_notes);
  ls_saver_values_deinit(&values);
  return status;
}

ls_status ls_saver_save_with(const ls_saver *saver, const char *path,
                             const ls_safetensors_note *notes,
                             size_t num_notes) {
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  const int64_t began = ls_span_begin(runtime);
  const ls_status status = save(runtime, saver, path, notes, num_notes);
  if (began != LS_NO_SPAN)
    ls_span_end(runtime,
                &(ls_span){.kind = "save", .name = path, .began = began});
  return status;
}

ls_status ls_saver_save(const ls_saver *saver, const char *path) {
  LS_REQUIRE(saver);
  LS_REQUIRE(path);
  return ls_saver_save_with(saver, path, NULL, 0);
}
