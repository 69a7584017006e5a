// SPDX-License-Identifier: Apache-2.0
// Any bytes give named arrays or a status; arrays that were read and written
// read back the same.
#include <stdlib.h>

#include "io/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ls_allocator *allocator = ls_allocator_system();
  ls_safetensors file, again = {0};
  ls_status status =
      ls_safetensors_decode(allocator, "fuzz", data, size, &file);
  char *bytes = NULL;
  size_t num_bytes = 0;
  if (ls_status_is_ok(status))
    status = ls_safetensors_encode(allocator, file.tensors, file.num_tensors,
                                   NULL, 0, &bytes, &num_bytes);
  if (bytes != NULL) {
    status =
        ls_safetensors_decode(allocator, "again", bytes, num_bytes, &again);
    if (!ls_status_is_ok(status) || again.num_tensors != file.num_tensors)
      abort();
    for (size_t i = 0; i < file.num_tensors; ++i) {
      const ls_array *a = file.tensors[i].array;
      const ls_array *b = ls_safetensors_find(&again, file.tensors[i].name);
      if (b == NULL || !ls_shape_equal(ls_array_shape(a), ls_array_shape(b)) ||
          (ls_array_size(a) > 0 &&
           memcmp(ls_array_data(a), ls_array_data(b), ls_array_size(a)) != 0))
        abort();
    }
  }
  ls_status_free(status);
  ls_release(allocator, bytes);
  ls_safetensors_deinit(&again);
  ls_safetensors_deinit(&file);
  return 0;
}
