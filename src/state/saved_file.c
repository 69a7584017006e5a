// SPDX-License-Identifier: Apache-2.0
//
// Open files of saved values. A variable that has started with one keeps its
// number until it is restored, by which that restore passes it.
#include "base/require.h"
#include "base/values/array_internal.h"
#include "state/saver_file.h"

struct ls_saved_file {
  ls_safetensors_file file;
  uint64_t number;  // Of the open file: opened again it has another one.
};

ls_status ls_saved_file_open(const char *path, ls_saved_file **out_file) {
  static uint64_t last;
  LS_REQUIRE(path);
  LS_REQUIRE(out_file);
  *out_file = NULL;
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  ls_saved_file *file = ls_new(allocator, ls_saved_file);
  if (file == NULL) return ls_out_of_memory();
  const ls_status status = ls_safetensors_open(runtime, path, &file->file);
  if (!ls_status_is_ok(status)) {
    ls_release(allocator, file);
    return status;
  }
  file->number = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
  *out_file = file;
  return ls_ok();
}

void ls_saved_file_close(ls_saved_file *file) {
  if (file == NULL) return;
  ls_allocator *allocator = ls_runtime_allocator(file->file.runtime);
  ls_safetensors_close(&file->file);
  ls_release(allocator, file);
}

static ls_status check_options(const ls_saved_file *file,
                               const ls_safetensors_entry *entry,
                               const ls_variable_options *options) {
  if (options->initial_array != NULL || options->initial_value.ref != 0 ||
      options->initializer != NULL || options->initial_of != NULL ||
      options->no_value)
    return ls_invalid_argument("a variable that starts with array '%s' of '%s' "
                               "is given an initial value, or no_value, too",
                               entry->name, file->file.path);
  if (options->dtype == LS_DTYPE_NONE ||
      (options->dtype == entry->dtype &&
       ls_shape_equal(options->shape, entry->shape)))
    return ls_ok();
  return ls_invalid_argument("'%s' holds array '%s' of %s; the variable is to "
                             "be %s",
                             file->file.path, entry->name,
                             LS_SHAPE_TEXT(entry->dtype, entry->shape),
                             LS_SHAPE_TEXT(options->dtype, options->shape));
}

ls_status ls_saved_file_create_variable(const ls_saved_file *file,
                                        const char *name,
                                        const ls_variable_options *options,
                                        ls_variable **out_variable) {
  LS_REQUIRE(file);
  LS_REQUIRE(name);
  LS_REQUIRE(out_variable);
  *out_variable = NULL;
  ls_variable_options whole = {0};
  if (options != NULL) whole = *options;
  const ls_safetensors_entry *entry =
      ls_safetensors_entry_of(&file->file, name);
  if (entry == NULL)
    return ls_not_found("'%s' holds no array '%s', with which a variable is to "
                        "start",
                        file->file.path, name);
  LS_RETURN_IF_ERROR(check_options(file, entry, &whole));
  ls_array *value = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create_unwritten(entry->dtype, entry->shape, &value));
  ls_status status = ls_safetensors_get(&file->file, entry,
                                        ls_array_mutable_data(value), NULL);
  whole.initial_array = value;
  whole.restored_from = file->number;
  if (ls_status_is_ok(status))
    status = ls_variable_create(&whole, out_variable);
  ls_array_release(value);
  return status;
}

ls_status ls_saved_file_restore(const ls_saved_file *file,
                                const ls_saver *saver) {
  LS_REQUIRE(file);
  LS_REQUIRE(saver);
  return ls_saver_restore_but(saver, &file->file, file->number);
}
