// SPDX-License-Identifier: Apache-2.0
// Files in memory, for tests that write the same ones thousands of times: the
// system's are synced to the disk. Their memory is none of a runtime's. Any
// call can be made to fail.
#ifndef LS_TESTS_SUPPORT_MEMORY_FILES_H_
#define LS_TESTS_SUPPORT_MEMORY_FILES_H_

#include "lockstep/runtime.h"

enum { MEMORY_FILES_MOST = 64 };

typedef struct memory_file {
  char path[160];
  bool folder;
  char *data;  // A zero follows.
  size_t size;
} memory_file;

// Zeroed: no files. For one thread.
typedef struct memory_files {
  memory_file items[MEMORY_FILES_MOST];
  size_t count;
  // From now on the nth call fails, once, with UNAVAILABLE; a line that it was
  // to append is written by half. 0 and below: none.
  int fail_at;
  bool is_killed;  // All calls after that one fail too, for good.
} memory_files;

// The functions, to be put into a runtime's options; lends `files`.
ls_file_system memory_files_system(memory_files *files);
// NULL: it is not there.
const memory_file *memory_files_find(const memory_files *files,
                                     const char *path);
void memory_files_clear(memory_files *files);

#endif  // LS_TESTS_SUPPORT_MEMORY_FILES_H_
