// SPDX-License-Identifier: Apache-2.0
// Files in memory that lose what was not synced when the power is cut, which it
// is after any step of any call, and whose calls fail as those of a disk that
// is full or broken.
//
// The steps are those of base/file_system.c and file_parts.c: a file is written
// aside, synced, renamed, its folder synced. Names come to the disk in the
// order in which they were changed, elements of a file in any.
#ifndef LS_TESTS_SUPPORT_CRASH_FILES_H_
#define LS_TESTS_SUPPORT_CRASH_FILES_H_

#include "lockstep/runtime.h"

enum { CRASH_NAMES_MOST = 24, CRASH_HISTORY_MOST = 32 };

typedef struct crash_bytes {
  char *data;
  size_t size;
} crash_bytes;

typedef struct crash_inode {
  crash_bytes now, synced;
} crash_inode;

typedef struct crash_names {
  struct crash_name {
    char path[120];
    int inode;
  } items[CRASH_NAMES_MOST];
  size_t count;
} crash_names;

// Zeroed: no files. For one thread at a time.
typedef struct crash_files {
  crash_inode *inodes;
  size_t num_inodes;
  // As the names were, from the state that is on the disk to what is now.
  crash_names history[CRASH_HISTORY_MOST];
  size_t newest;
  int steps;    // So far.
  int cut_at;   // After so many the power is cut; 0: never.
  int fail_at;  // This one fails, once; 0: none.
  int full_at;  // From this one on nothing more can be written; 0: never.
} crash_files;

// What survives of what was not synced.
typedef enum crash_kept { CRASH_NOTHING, CRASH_ALL, CRASH_SOME } crash_kept;

ls_file_system crash_files_system(crash_files *files);
// The power comes back. `seed` says what survives, where only some does.
void crash_files_restart(crash_files *files, crash_kept kept, uint64_t seed);
void crash_files_clear(crash_files *files);

// The files that are there, by number, and one by its path; NULL: there is
// none.
size_t crash_files_count(const crash_files *files);
const char *crash_files_path(const crash_files *files, size_t i);
const crash_bytes *crash_files_find(const crash_files *files, const char *path);
// Makes or replaces one, which is on the disk at once.
void crash_files_put(crash_files *files, const char *path, const void *data,
                     size_t size);

#endif  // LS_TESTS_SUPPORT_CRASH_FILES_H_
