// SPDX-License-Identifier: Apache-2.0
// Any bytes are an npy file or give a status; an array that has been read is
// written and read again as it was.
#include <stdlib.h>

#include "io/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ls_array *read_bytes(const void *data, size_t size) {
  ls_file *file = NULL;
  ls_array *array = NULL;
  if (!ls_status_is_ok(
          ls_file_open_bytes(ls_allocator_system(), "fuzz", data, size, &file)))
    abort();
  ls_status status = ls_npy_read(file, "fuzz", 0, file->size, &array);
  if (ls_status_is_ok(status) != (array != NULL)) abort();
  ls_status_free(status);
  ls_file_close(file);
  return array;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ls_array *array = read_bytes(data, size);
  if (array == NULL) return 0;
  const ls_dtype dtype = ls_array_dtype(array);
  if (dtype != LS_DTYPE_STRING) {
    ls_text text;
    ls_text_init(&text, ls_allocator_system());
    if (!ls_status_is_ok(
            ls_npy_print_header(dtype, ls_array_shape(array), &text)))
      abort();
    ls_text_append_bytes(&text, ls_array_data(array), ls_array_size(array));
    ls_array *again = read_bytes(text.data, text.size);
    if (again == NULL || ls_array_dtype(again) != dtype ||
        !ls_shape_equal(ls_array_shape(again), ls_array_shape(array)) ||
        memcmp(ls_array_data(again), ls_array_data(array),
               ls_array_size(array)) != 0)
      abort();
    ls_array_release(again);
    ls_text_deinit(&text);
  }
  ls_array_release(array);
  return 0;
}
