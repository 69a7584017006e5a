// SPDX-License-Identifier: Apache-2.0
#include "lockstep/saver.h"
#include "base/memory/arena.h"
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/trace.h"
#include "runtime/program.h"
#include "state/saver_file.h"
#include "state/snapshot.h"

// ---- Common to saving and restoring ----------------------------------------
const char *ls_saver_name(const ls_saver *saver, size_t index) {
  return saver->names != NULL ? saver->names[index]
                              : ls_variable_name(saver->variables[index]);
}

static ls_status saver_check_variable(const ls_saver *saver, size_t index) {
  const ls_variable *variable = saver->variables[index];
  if (variable == NULL || ls_saver_name(saver, index) == NULL)
    return ls_invalid_argument("variable %zu of a saver or its name is NULL",
                               index);
  if (variable->container != NULL)
    return ls_invalid_argument("'%s' is component %zu of variable '%s' and has "
                               "no entry of its own; save that variable",
                               variable->name, variable->index,
                               variable->container->name);
  if (variable->graph != NULL && saver->session == NULL)
    return ls_invalid_argument("variable '%s' is of graph '%s': its values are "
                               "in a session, which the saver has not",
                               variable->name, variable->graph->name);
  if (variable->graph == NULL && saver->session != NULL)
    return ls_invalid_argument(
        "variable '%s' is an eager one, and the saver has a session",
        variable->name);
  return ls_ok();
}

// Checks that no variable has the name of another one's component in an exact
// file.
static ls_status check_part_names(const ls_saver *saver) {
  for (size_t i = 0; i < saver->num_variables; ++i) {
    const char *name = ls_saver_name(saver, i);
    const size_t whole = ls_saver_part_of(name);
    for (size_t k = 0; whole > 0 && k < saver->num_variables; ++k) {
      const char *other = ls_saver_name(saver, k);
      if (saver->variables[k]->num_components > 1 &&
          strncmp(other, name, whole) == 0 && other[whole] == '\0')
        return ls_invalid_argument(
            "the name '%s' in a saver is that of a component of '%s', which "
            "the saver has, too",
            name, other);
    }
  }
  return ls_ok();
}

ls_status ls_saver_open(const ls_saver *saver, ls_store **out_store) {
  if (saver->variables == NULL && saver->num_variables > 0)
    return ls_invalid_argument("a saver of %zu variables at NULL",
                               saver->num_variables);
  for (size_t i = 0; i < saver->num_variables; ++i) {
    LS_RETURN_IF_ERROR(saver_check_variable(saver, i));
    LS_RETURN_IF_ERROR(ls_variable_settle(ls_state_of(saver->variables[i])));
  }
  if (saver->exact) LS_RETURN_IF_ERROR(check_part_names(saver));
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

const char *ls_saver_part_name(ls_arena *arena, const char *name, size_t part) {
  return ls_arena_format(arena, "%s:%zu", name, part);
}

size_t ls_saver_part_of(const char *name) {
  const char *colon = strrchr(name, ':');
  if (colon == NULL || colon[1] == '\0') return 0;
  return colon[1 + strspn(colon + 1, "0123456789")] == '\0'
             ? (size_t)(colon - name)
             : 0;
}

// ---- Saving ----------------------------------------------------------------
static ls_status write_snapshot(const ls_snapshot *snapshot,
                                ls_runtime *runtime, const char *path) {
  const ls_file_system *files = ls_runtime_files(runtime);
  void *file = NULL;
  if (files->create == NULL)
    return ls_unimplemented("the file system has no writing in parts");
  LS_RETURN_IF_ERROR(files->create(files->user, path, false, &file));
  ls_status status = ls_snapshot_write(snapshot, files, file, (ls_pause){0});
  const bool keep = ls_status_is_ok(status);
  return ls_status_join(status, files->finish(files->user, file, keep));
}

static ls_status saver_save(ls_runtime *runtime, const ls_saver *saver,
                            const char *path, const ls_safetensors_note *notes,
                            size_t num_notes) {
  LS_OWN(ls_snapshot, snapshot) = {.sums = true};
  LS_RETURN_IF_ERROR(
      ls_snapshot_take(&snapshot, runtime, saver, notes, num_notes, 0, 1));
  LS_RETURN_IF_ERROR(ls_snapshot_seal(&snapshot));
  return write_snapshot(&snapshot, runtime, path);
}

ls_status ls_saver_save_with(const ls_saver *saver, const char *path,
                             const ls_safetensors_note *notes,
                             size_t num_notes) {
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  const int64_t began = ls_span_begin(runtime);
  const ls_status status = saver_save(runtime, saver, path, notes, num_notes);
  if (began != LS_NO_SPAN)
    ls_span_end(runtime,
                &(ls_span){.kind = "save", .name = path, .began = began});
  return ls_status_annotate(status, "while saving '%s'", path);
}

ls_status ls_saver_save(const ls_saver *saver, const char *path) {
  LS_REQUIRE(saver, path);
  return ls_saver_save_with(saver, path, NULL, 0);
}

// ---- Reading ---------------------------------------------------------------
ls_variable *ls_state_of(ls_variable *variable) {
  while (variable->num_targets > 0)
    variable = variable->targets[0];
  return variable;
}

bool ls_state_is_saved(const ls_store *store, const ls_variable *variable) {
  return variable->num_components == 0 || ls_store_makes_value(variable) ||
         variable->graph != NULL || ls_store_has_value(store, variable);
}

// Reads a container's first component, whatever device is current.
ls_status ls_state_read(ls_store *store, ls_variable *variable,
                        ls_array **out_value) {
  *out_value = NULL;
  variable = ls_state_of(variable);
  return ls_state_is_saved(store, variable)
             ? ls_store_get(store, variable, out_value)
             : ls_ok();
}

size_t ls_state_parts(const ls_store *store, const ls_variable *variable) {
  return variable->num_components > 1 && !ls_store_is_shared(store, variable)
             ? variable->num_components
             : 0;
}

// ---- Writing ---------------------------------------------------------------
ls_status ls_state_write(ls_store *store, ls_variable *variable,
                         const ls_array *value) {
  for (size_t i = 0; i < variable->num_targets; ++i)
    LS_RETURN_IF_ERROR(ls_state_write(store, variable->targets[i], value));
  return variable->num_targets > 0 ? ls_ok()
                                   : ls_store_set(store, variable, value);
}
