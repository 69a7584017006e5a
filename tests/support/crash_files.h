// SPDX-License-Identifier: Apache-2.0
// A simulated disk (base/disk.h) whose power is cut after any step, or which
// fails or is full from any step on.
#ifndef LS_TESTS_SUPPORT_CRASH_FILES_H_
#define LS_TESTS_SUPPORT_CRASH_FILES_H_

#include "base/disk.h"

// Zeroed: no files. For one thread at a time.
typedef struct crash_files {
  ls_disk disk;
  ls_disk_user user;
  int steps;    // So far.
  int cut_at;   // After so many the power is cut; 0: never.
  int fail_at;  // This one fails, once; 0: none.
  int full_at;  // From this one on nothing more can be written; 0: never.
} crash_files;

ls_file_system crash_files_system(crash_files *files);
// The power comes back.
void crash_files_restart(crash_files *files, ls_disk_kept kept, uint64_t seed);
void crash_files_clear(crash_files *files);

// The files that are there, by number, and one by its path; NULL: there is
// none.
size_t crash_files_count(const crash_files *files);
const char *crash_files_path(const crash_files *files, size_t i);
const ls_text *crash_files_find(const crash_files *files, const char *path);
// Makes or replaces one, which is on the disk at once.
void crash_files_put(crash_files *files, const char *path, const void *data,
                     size_t size);

#endif  // LS_TESTS_SUPPORT_CRASH_FILES_H_
