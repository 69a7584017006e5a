// SPDX-License-Identifier: Apache-2.0
// Any bytes give named arrays or a status; arrays that were read and laid out
// again read back the same.
#include "bytes_files.h"
#include "io/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *elements_of(const ls_safetensors_file *file,
                         const ls_safetensors_entry *entry) {
  char *elements = malloc(entry->size + 1);
  ls_status status = elements == NULL
                         ? ls_out_of_memory()
                         : ls_safetensors_get(file, entry, elements, NULL);
  if (ls_status_is_ok(status)) return elements;
  ls_status_free(status);
  free(elements);
  return NULL;
}

// Makes the bytes of a file with these arrays; NULL: one has another checksum,
// or a name that is not written.
static char *encode(const ls_safetensors_file *file, size_t *out_size) {
  ls_text header;
  char *bytes = NULL;
  ls_text_init(&header, ls_allocator_system());
  ls_safetensors_entry *entries =
      calloc(file->num_entries + 1, sizeof(*entries));
  for (size_t i = 0; i < file->num_entries; ++i)
    entries[i] = file->entries[i];
  ls_status status = ls_safetensors_lay_out(&header, entries, file->num_entries,
                                            NULL, 0, false, out_size);
  if (ls_status_is_ok(status)) bytes = calloc(*out_size, 1);
  if (bytes != NULL) memcpy(bytes, header.data, header.size);
  for (size_t i = 0; bytes != NULL && i < file->num_entries; ++i) {
    char *elements = elements_of(file, &file->entries[i]);
    if (elements != NULL)
      memcpy(bytes + entries[i].offset, elements, entries[i].size);
    if (elements == NULL) free(bytes);
    if (elements == NULL) bytes = NULL;
    free(elements);
  }
  ls_status_free(status);
  ls_text_deinit(&header);
  free(entries);
  return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ls_runtime *runtime = bytes_files_runtime();
  ls_safetensors_file file, again = {0};
  bytes_files[0] = (bytes_file){"fuzz", data, size};
  ls_status status = ls_safetensors_open(runtime, "fuzz", &file);
  char *bytes = ls_status_is_ok(status) ? encode(&file, &size) : NULL;
  if (bytes != NULL) {
    bytes_files[1] = (bytes_file){"again", bytes, size};
    status = ls_safetensors_open(runtime, "again", &again);
    if (!ls_status_is_ok(status) || again.num_entries != file.num_entries)
      abort();
    for (size_t i = 0; i < file.num_entries; ++i) {
      const ls_safetensors_entry *a = &file.entries[i];
      const ls_safetensors_entry *b = ls_safetensors_entry_of(&again, a->name);
      if (b == NULL || !ls_shape_equal(a->shape, b->shape) ||
          a->dtype != b->dtype)
        abort();
      char *x = elements_of(&file, a), *y = elements_of(&again, b);
      if (memcmp(x, y, a->size) != 0) abort();
      free(x);
      free(y);
    }
  }
  ls_status_free(status);
  free(bytes);
  ls_safetensors_close(&again);
  ls_safetensors_close(&file);
  return 0;
}
