// SPDX-License-Identifier: Apache-2.0
//
// A runtime whose files are bytes in memory: what a parser of files is to read.
// It computes everything on the thread that asks.
#ifndef LS_FUZZ_BYTES_FILES_H_
#define LS_FUZZ_BYTES_FILES_H_

#include <stdlib.h>
#include <string.h>

#include "base/runtime_internal.h"

typedef struct bytes_file {
  const char *path;  // NULL: none.
  const void *data;
  size_t size;
} bytes_file;

enum { BYTES_FILES = 4 };
static bytes_file bytes_files[BYTES_FILES];

static const bytes_file *bytes_files_find(const char *path) {
  for (size_t i = 0; i < BYTES_FILES; ++i)
    if (bytes_files[i].path != NULL && strcmp(bytes_files[i].path, path) == 0)
      return &bytes_files[i];
  return NULL;
}

static ls_status bytes_files_open(void *user, const char *path, void **out_file,
                                  ls_file_info *out_info) {
  (void)user;
  const bytes_file *file = bytes_files_find(path);
  if (file == NULL) return ls_not_found("'%s': no such file", path);
  *out_info = (ls_file_info){.size = (int64_t)file->size};
  *out_file = (void *)(uintptr_t)file;
  return ls_ok();
}

static ls_status bytes_files_read_at(void *user, void *handle, int64_t offset,
                                     void *data, size_t size,
                                     size_t *out_size) {
  (void)user;
  const bytes_file *file = handle;
  const size_t at = (size_t)offset;
  *out_size = 0;
  if (at >= file->size) return ls_ok();
  *out_size = size < file->size - at ? size : file->size - at;
  memcpy(data, (const char *)file->data + at, *out_size);
  return ls_ok();
}

static void bytes_files_close(void *user, void *handle) {
  (void)user;
  (void)handle;
}

static ls_status bytes_files_read(void *user, const char *path, size_t most,
                                  ls_allocator *allocator, char **out_data,
                                  size_t *out_size) {
  (void)user;
  const bytes_file *file = bytes_files_find(path);
  if (file == NULL) return ls_not_found("'%s': no such file", path);
  if (file->size > most) return ls_invalid_argument("'%s' is too long", path);
  *out_size = file->size;
  *out_data = ls_copy_text(allocator, file->data, file->size);
  return *out_data == NULL ? ls_out_of_memory() : ls_ok();
}

static ls_status bytes_files_exists(void *user, const char *path,
                                    bool *out_exists) {
  (void)user;
  *out_exists = bytes_files_find(path) != NULL;
  return ls_ok();
}

// Made once, and current from then on.
static ls_runtime *bytes_files_runtime(void) {
  static ls_runtime *runtime;
  static const ls_file_system files = {.read = bytes_files_read,
                                       .exists = bytes_files_exists,
                                       .open = bytes_files_open,
                                       .read_at = bytes_files_read_at,
                                       .close = bytes_files_close};
  if (runtime != NULL) return runtime;
  if (!ls_status_is_ok(ls_runtime_create(
          &(ls_runtime_options){
              .threads = 1, .input_threads = LS_SOME(0), .file_system = &files},
          &runtime)))
    abort();
  ls_runtime_make_current(runtime);
  return runtime;
}

#endif  // LS_FUZZ_BYTES_FILES_H_
