// SPDX-License-Identifier: Apache-2.0
// Arrays from and to the bytes of npy and npz files in memory.
#include "base/memory/own.h"
#include "base/require.h"
#include "base/values/nest_builder.h"
#include "io/npy.h"
#include "io/zip.h"
#include "lockstep/files.h"

static ls_status read_npy(const char *name, const void *data, size_t size,
                          ls_array **out_array) {
  LS_OWN(ls_file, file) = NULL;
  LS_RETURN_IF_ERROR(
      ls_file_open_bytes(ls_current_allocator(), name, data, size, &file));
  return ls_npy_read(file, name, 0, file->size, out_array);
}

ls_status ls_npy_parse(const void *data, size_t size, ls_array **out_array) {
  LS_REQUIRE_OUT(out_array);
  LS_REQUIRE_ITEMS(data, size);
  return read_npy("npy", data, size, out_array);
}

ls_status ls_npy_print(const ls_array *array, ls_array **out_bytes) {
  LS_REQUIRE_OUT(out_bytes);
  LS_REQUIRE(array);
  LS_OWN(ls_text, head) = {.allocator = ls_current_allocator()};
  LS_RETURN_IF_ERROR(
      ls_npy_print_header(ls_array_dtype(array), ls_array_shape(array), &head));
  LS_RETURN_IF_ERROR(ls_text_status(&head));
  const size_t size = ls_array_size(array);
  LS_RETURN_IF_ERROR(ls_array_create(
      LS_DTYPE_U8, LS_SHAPE((int64_t)(head.size + size)), out_bytes));
  char *bytes = ls_array_mutable_data(*out_bytes);
  memcpy(bytes, head.data, head.size);
  if (size > 0) memcpy(bytes + head.size, ls_array_data(array), size);
  return ls_ok();
}

// ---- npz -------------------------------------------------------------------
// Reads a member as an array; cuts ".npy" off its name, which becomes its key.
static ls_status read_member(ls_zip *zip, const ls_zip_entry *entry,
                             ls_nest *out_array, const char **out_key) {
  LS_OWN_MEMORY(zip->allocator, char, data) = NULL;
  ls_array *array = NULL;
  const size_t size = strlen(entry->name);
  LS_RETURN_IF_ERROR(ls_zip_read(zip, entry, zip->allocator, &data));
  LS_RETURN_IF_ERROR(read_npy(entry->name, data, (size_t)entry->size, &array));
  *out_array = ls_nest_array(array);
  if (size > 4 && strcmp(entry->name + size - 4, ".npy") == 0)
    zip->names[entry->name + size - 4 - zip->names] = '\0';
  *out_key = entry->name;
  return ls_ok();
}

static ls_status read_members(ls_zip *zip, size_t most_bytes,
                              ls_nest *out_arrays) {
  LS_OWN(ls_nests, arrays) = {0};
  LS_OWN_ARRAY_OR_RETURN(zip->allocator, const char *, keys, zip->count + 1);
  LS_RETURN_IF_ERROR(ls_nests_init(&arrays, zip->allocator, zip->count + 1));
  for (size_t i = 0; i < zip->count; ++i) {
    const uint64_t bytes = (uint64_t)zip->entries[i].size;
    if (bytes > most_bytes)
      return ls_invalid_argument("the arrays up to '%s' have more bytes than "
                                 "the caller allows",
                                 zip->entries[i].name);
    most_bytes -= (size_t)bytes;
    LS_RETURN_IF_ERROR(
        read_member(zip, &zip->entries[i], &arrays.items[i], &keys[i]));
  }
  *out_arrays = ls_nest_dict("", keys, arrays.items, zip->count);
  arrays.count = 0;  // The dict has taken them.
  const ls_status status = ls_nest_status(*out_arrays);
  if (ls_status_is_ok(status)) return status;
  ls_nest_release(*out_arrays);
  *out_arrays = ls_none();
  return status;
}

ls_status ls_npz_parse(const void *data, size_t size, size_t most_bytes,
                       ls_nest *out_arrays) {
  LS_REQUIRE_OUT(out_arrays);
  LS_REQUIRE_ITEMS(data, size);
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN(ls_file, file) = NULL;
  LS_OWN(ls_zip, zip) = {0};
  LS_RETURN_IF_ERROR(ls_file_open_bytes(allocator, "npz", data, size, &file));
  LS_RETURN_IF_ERROR(ls_zip_open(file, allocator, &zip));
  return read_members(&zip, most_bytes, out_arrays);
}
