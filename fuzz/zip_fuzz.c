// SPDX-License-Identifier: Apache-2.0
// Any bytes are a zip file or give a status; members have the sizes that the
// directory says.
#include <stdlib.h>

#include "io/inflate.h"
#include "io/zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ls_file *file = NULL;
  ls_zip zip;
  if (!ls_status_is_ok(
          ls_file_open_bytes(ls_allocator_system(), "fuzz", data, size, &file)))
    abort();
  ls_status status = ls_zip_open(file, ls_allocator_system(), &zip);
  for (size_t i = 0; i < zip.count; ++i) {
    const ls_zip_entry *entry = &zip.entries[i];
    char *bytes = NULL;
    ls_status read = ls_zip_read(&zip, entry, ls_allocator_system(), &bytes);
    if (ls_status_is_ok(read) != (bytes != NULL)) abort();
    // All of them are there.
    if (bytes != NULL && ls_crc32(0, bytes, (size_t)entry->size) != entry->crc)
      abort();
    ls_release(ls_allocator_system(), bytes);
    ls_status_free(read);
  }
  ls_status_free(status);
  ls_zip_close(&zip);
  ls_file_close(file);
  return 0;
}
