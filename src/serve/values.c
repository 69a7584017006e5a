// SPDX-License-Identifier: Apache-2.0
#include "serve/serving.h"

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "graph/variables/variable.h"
#include "lockstep/saved_file.h"
#include "state/saver_file.h"

// Returns the variable by which files name it: a distributed variable with all
// components is one entry.
static ls_variable *whole(ls_variable *variable) {
  return variable->container != NULL ? variable->container : variable;
}

static ls_status values_check_names(ls_variable *const *variables,
                                    size_t count) {
  for (size_t i = 0; i < count; ++i)
    for (size_t k = 0; k < i; ++k)
      if (strcmp(variables[i]->name, variables[k]->name) == 0)
        return ls_invalid_argument("an export of two variables '%s'",
                                   variables[i]->name);
  return ls_ok();
}

// ---- From a checkpoint -----------------------------------------------------
typedef struct copying {
  const ls_serving_options *options;
  ls_saved_file *file;
  ls_variable *const *variables;
  size_t count;
  size_t *places;  // Index of each variable's entry in the file.
} copying;

static ls_status values_find_entry(const copying *c, size_t number) {
  ls_variable *variable = whole(c->variables[number]);
  const char *mode = c->options->mode != NULL ? c->options->mode : "predict";
  ls_saved_info info;
  ls_saved_file_describe(c->file, &info);
  for (size_t i = 0; i < info.num_entries; ++i) {
    ls_saved_entry entry;
    LS_RETURN_IF_ERROR(ls_saved_file_entry(c->file, i, &entry));
    if (strcmp(entry.name, variable->name) != 0) continue;
    if (entry.type.dtype != variable->type.dtype ||
        !ls_shape_equal(entry.type.shape, variable->type.shape))
      return ls_invalid_argument(
          "variable '%s' of mode '%s' is %s, in '%s' it is %s", variable->name,
          mode, LS_SHAPE_TEXT(variable->type.dtype, variable->type.shape),
          c->options->checkpoint,
          LS_SHAPE_TEXT(entry.type.dtype, entry.type.shape));
    c->places[number] = i;
    return ls_ok();
  }
  return LS_STATUS(LS_FAILED_PRECONDITION,
                   "an export of mode '%s' needs variable '%s', which '%s' has "
                   "not",
                   mode, variable->name, c->options->checkpoint);
}

static ls_status copy_entry(const copying *c, ls_safetensors_writer *writer,
                            const ls_safetensors_entry *entry, size_t number) {
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(ls_saved_file_read(c->file, c->places[number], &array));
  return ls_safetensors_put(writer, entry, ls_array_data(array), NULL);
}

static ls_status copy_entries(const copying *c, ls_arena *memory,
                              const char *path) {
  LS_ARENA_ARRAY_OR_RETURN(memory, ls_safetensors_entry, entries, c->count + 1);
  for (size_t i = 0; i < c->count; ++i) {
    LS_RETURN_IF_ERROR(values_find_entry(c, i));
    entries[i] = (ls_safetensors_entry){.name = c->variables[i]->name,
                                        .dtype = c->variables[i]->type.dtype,
                                        .shape = c->variables[i]->type.shape};
  }
  ls_safetensors_writer *writer = NULL;
  LS_RETURN_IF_ERROR(ls_safetensors_create(ls_runtime_current(), path, entries,
                                           c->count, NULL, 0, &writer));
  ls_status status = ls_ok();
  for (size_t i = 0; i < c->count && ls_status_is_ok(status); ++i)
    status = copy_entry(c, writer, &entries[i], i);
  const bool keep = ls_status_is_ok(status);
  return ls_status_join(status, ls_safetensors_finish(writer, keep));
}

static ls_status from_checkpoint(const ls_serving_options *options,
                                 ls_variable *const *variables, size_t count,
                                 ls_arena *memory, const char *path) {
  copying c = {.options = options,
               .variables = variables,
               .count = count,
               .places = ls_arena_new_array(memory, size_t, count + 1)};
  if (c.places == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_saved_file_open(options->checkpoint, &c.file));
  const ls_status status = copy_entries(&c, memory, path);
  ls_saved_file_close(c.file);
  return status;
}

// ---- From a session --------------------------------------------------------
static ls_status from_session(ls_session *session,
                              ls_variable *const *variables, size_t count,
                              ls_arena *memory, const char *path) {
  ls_variable **saved = ls_arena_new_array(memory, ls_variable *, count + 1);
  const char **names = ls_arena_new_array(memory, const char *, count + 1);
  if (saved == NULL || names == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i) {
    saved[i] = whole(variables[i]);
    names[i] = variables[i]->name;
  }
  return ls_saver_save(&(ls_saver){.variables = saved,
                                   .num_variables = count,
                                   .names = names,
                                   .session = session},
                       path);
}

ls_status ls_serve_write_values(const ls_serving_options *options,
                                ls_variable *const *variables, size_t count,
                                ls_arena *memory, const char *path) {
  LS_RETURN_IF_ERROR(values_check_names(variables, count));
  if (options->checkpoint != NULL && options->session != NULL)
    return ls_invalid_argument("values of an export come from checkpoint '%s' "
                               "or from a session: give one",
                               options->checkpoint);
  if (options->checkpoint != NULL)
    return from_checkpoint(options, variables, count, memory, path);
  if (options->session != NULL)
    return from_session(options->session, variables, count, memory, path);
  if (count > 0)
    return ls_invalid_argument("an export of variable '%s' needs its value: "
                               "give a checkpoint or a session",
                               variables[0]->name);
  return copy_entries(&(copying){0}, memory, path);
}
