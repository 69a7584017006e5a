// SPDX-License-Identifier: Apache-2.0
// Any bytes, plain or gzip, give an IDX array or a status; an array is what the
// header says.
#include <stdlib.h>

#include "formats/bytes/idx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ls_array *array = NULL;
  ls_status status =
      ls_idx_decode(ls_allocator_system(), "fuzz", data, size, &array);
  if (ls_status_is_ok(status) != (array != NULL)) abort();
  ls_idx_header header;
  ls_status parsed = ls_idx_parse("fuzz", data, size, &header);
  if (ls_status_is_ok(parsed) &&
      (array == NULL || !ls_shape_equal(ls_array_shape(array), header.shape) ||
       ls_array_size(array) != size - header.data_offset))
    abort();
  ls_status_free(parsed);
  ls_status_free(status);
  ls_array_release(array);
  return 0;
}
