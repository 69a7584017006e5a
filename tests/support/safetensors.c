// SPDX-License-Identifier: Apache-2.0
#include "support/safetensors.h"

#include "base/memory/own.h"
#include "support/expect.h"

enum { MOST = 100 };

ls_status safetensors_write(const char *path, const named_array *arrays,
                            size_t count, const ls_safetensors_note *notes,
                            size_t num_notes) {
  ls_safetensors_entry entries[MOST];
  for (size_t i = 0; i < count; ++i)
    entries[i] =
        (ls_safetensors_entry){.name = arrays[i].name,
                               .dtype = ls_array_dtype(arrays[i].array),
                               .shape = ls_array_shape(arrays[i].array)};
  ls_safetensors_writer *writer = NULL;
  LS_RETURN_IF_ERROR(ls_safetensors_create(ls_runtime_current(), path, entries,
                                           count, notes, num_notes, &writer));
  ls_status status = ls_ok();
  for (size_t i = 0; i < count && ls_status_is_ok(status); ++i)
    status = ls_safetensors_put(writer, &entries[i],
                                ls_array_data(arrays[i].array), NULL);
  const bool keep = ls_status_is_ok(status);
  return ls_status_join(status, ls_safetensors_finish(writer, keep));
}

static ls_status read_entry(const ls_safetensors_file *file,
                            const ls_safetensors_entry *entry,
                            ls_array **out_array) {
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(entry->dtype, entry->shape, &array));
  LS_RETURN_IF_ERROR(
      ls_safetensors_get(file, entry, ls_array_mutable_data(array), NULL));
  *out_array = ls_give(&array);
  return ls_ok();
}

ls_status safetensors_open_whole(const char *path, ls_safetensors_file *file) {
  LS_OWN(ls_safetensors_file, opened) = {0};
  LS_RETURN_IF_ERROR(ls_safetensors_open(ls_runtime_current(), path, &opened));
  for (size_t i = 0; i < opened.num_entries; ++i) {
    LS_OWN(ls_array, array) = NULL;
    LS_RETURN_IF_ERROR(read_entry(&opened, &opened.entries[i], &array));
  }
  *file = ls_give(&opened);
  return ls_ok();
}

ls_array *safetensors_array(const ls_safetensors_file *file, const char *name) {
  const ls_safetensors_entry *entry = ls_safetensors_entry_of(file, name);
  ls_array *array = NULL;
  if (entry != NULL) expect_ok(read_entry(file, entry, &array));
  return array;
}
