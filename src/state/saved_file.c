// SPDX-License-Identifier: Apache-2.0
// What an open file of saved values holds, and what is done with it.
#include "base/memory/own.h"
#include "base/require.h"
#include "base/values/array_internal.h"
#include "runtime/program.h"
#include "state/record.h"
#include "state/saved.h"

// ---- What it is ------------------------------------------------------------
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
  LS_REQUIRE_OUT(out_entry);
  LS_REQUIRE(file);
  LS_RETURN_IF_ERROR(check_index(file, index));
  const ls_safetensors_entry *it = &file->source.entries[index];
  *out_entry = (ls_saved_entry){
      .name = it->name,
      .type = {it->dtype, it->shape},
      .bytes = it->size,
      .is_part = ls_value_source_is_part(&file->source, it->name)};
  return ls_ok();
}

ls_status ls_saved_file_read(const ls_saved_file *file, size_t index,
                             ls_array **out_array) {
  LS_REQUIRE_OUT(out_array);
  LS_REQUIRE(file);
  LS_RETURN_IF_ERROR(check_index(file, index));
  const ls_safetensors_entry *it = &file->source.entries[index];
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create_unwritten(it->dtype, it->shape, &array));
  LS_RETURN_IF_ERROR(
      ls_value_source_get(&file->source, it, ls_array_mutable_data(array)));
  *out_array = ls_give(&array);
  return ls_ok();
}

ls_status ls_saved_file_check(const ls_saved_file *file, size_t index) {
  LS_REQUIRE(file);
  LS_RETURN_IF_ERROR(check_index(file, index));
  if (file->checkpoint.root != NULL)
    return ls_checkpoint_file_check(&file->checkpoint, index, 1);
  const ls_safetensors_entry *entry = &file->source.entries[index];
  if (file->npz.file == NULL)
    return entry->has_crc
               ? file->source.check(file->source.self, NULL,
                                    &(ls_safetensors_wish){.entry = entry}, 1)
               : ls_ok();
  LS_OWN(ls_array, array) = NULL;
  return ls_saved_file_read(file, index, &array);
}

static ls_status read_record(const ls_saved_file *file, const char *key,
                             ls_record **out_record) {
  const ls_json *member = ls_json_find(file->checkpoint.root, key);
  if (out_record == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(ls_record_create(out_record));
  if (member == NULL) return ls_ok();
  const ls_status status =
      ls_record_read(*out_record, file->checkpoint.path, member);
  if (ls_status_is_ok(status)) return status;
  ls_record_destroy(*out_record);
  *out_record = NULL;
  return status;
}

ls_status ls_saved_file_records(const ls_saved_file *file,
                                ls_record **out_identity,
                                ls_record **out_states) {
  LS_CLEAR_OUT(out_identity);
  LS_CLEAR_OUT(out_states);
  LS_REQUIRE(file);
  LS_RETURN_IF_ERROR(read_record(file, "identity", out_identity));
  const ls_status status = read_record(file, "state", out_states);
  if (!ls_status_is_ok(status) && out_identity != NULL) {
    ls_record_destroy(*out_identity);
    *out_identity = NULL;
  }
  return status;
}

// ---- Variables that start with it ------------------------------------------
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
  return ls_invalid_argument("'%s' holds array '%s' of %s; the variable is to "
                             "be %s",
                             file->source.path, entry->name,
                             LS_SHAPE_TEXT(entry->dtype, entry->shape),
                             LS_SHAPE_TEXT(options->dtype, options->shape));
}

ls_status ls_saved_file_create_variable(const ls_saved_file *file,
                                        const char *name,
                                        const ls_variable_options *options,
                                        ls_variable **out_variable) {
  LS_REQUIRE_OUT(out_variable);
  LS_REQUIRE(file);
  LS_REQUIRE(name);
  ls_variable_options whole = {0};
  if (options != NULL) whole = *options;
  const ls_safetensors_entry *entry = ls_value_source_find(&file->source, name);
  if (entry == NULL)
    return ls_not_found("'%s' holds no array '%s', with which a variable is to "
                        "start",
                        file->source.path, name);
  LS_RETURN_IF_ERROR(saved_file_check_options(file, entry, &whole));
  LS_OWN(ls_array, value) = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create_unwritten(entry->dtype, entry->shape, &value));
  ls_status status =
      ls_value_source_get(&file->source, entry, ls_array_mutable_data(value));
  whole.initial_array = value;
  whole.restored_from = file->number;
  if (ls_status_is_ok(status))
    status = ls_variable_create(&whole, out_variable);
  return status;
}

// ---- Restoring -------------------------------------------------------------
ls_status ls_saved_file_restore_part(const ls_saved_file *file,
                                     const ls_saver *saver,
                                     const ls_value_choice *choice,
                                     ls_value_report *report) {
  LS_REQUIRE(file);
  LS_REQUIRE(saver);
  return ls_saver_restore_source(saver, &file->source, choice, file->number,
                                 report);
}

ls_status ls_saved_file_restore(const ls_saved_file *file,
                                const ls_saver *saver) {
  LS_REQUIRE(file);
  LS_REQUIRE(saver);
  return ls_saver_restore_source(saver, &file->source, NULL, file->number,
                                 NULL);
}
