// SPDX-License-Identifier: Apache-2.0
// Files in memory that lose what was not synced when the power is cut.
//
// The steps of a call are those of file_system.c and file_parts.c: a file is
// written aside, synced, renamed, its folder synced. Names come to the disk in
// the order in which they were changed, blocks of a file in any.
//
// Threads: one at a time uses a disk; between steps another one may.
#ifndef LS_BASE_DISK_H_
#define LS_BASE_DISK_H_

#include "base/text.h"
#include "lockstep/runtime.h"

enum { LS_DISK_PATH = 160 };  // Most bytes of a path, with its zero.

typedef struct ls_disk_user ls_disk_user;
typedef struct ls_disk_node ls_disk_node;

typedef struct ls_disk_name {
  char path[LS_DISK_PATH];
  int64_t node;  // Below 0, among changes: the name was removed.
} ls_disk_name;

typedef struct ls_disk_names {
  ls_disk_name *items;
  size_t count, capacity;
} ls_disk_names;

typedef struct ls_disk {
  ls_allocator *allocator;
  ls_disk_node *nodes;  // Files and folders.
  size_t num_nodes, capacity;
  ls_disk_names now, synced;
  ls_disk_names changes;  // From `synced` to `now`.
} ls_disk;

typedef enum ls_disk_fate {
  LS_DISK_DONE,
  LS_DISK_FAILS,
  LS_DISK_IS_FULL,
} ls_disk_fate;

// A process that uses a disk. It outlives its open files and locks.
struct ls_disk_user {
  ls_disk *disk;
  // Called before each step; may let other processes use the disk, and may set
  // `is_off`. `writes`: the step needs room. A write of data that fails has
  // written the first half. NULL: all steps are done.
  ls_disk_fate (*step)(void *user, bool writes, const char *verb,
                       const char *path);
  void *user;
  bool is_off;  // It has ended: its calls fail and change nothing.
};

void ls_disk_init(ls_disk *self, ls_allocator *allocator);
void ls_disk_deinit(ls_disk *self);
// Returns the functions for a runtime's options; `user` is lent.
ls_file_system ls_disk_files(ls_disk_user *user);

// Data that survives a power cut besides what was synced.
typedef enum ls_disk_kept {
  LS_DISK_NOTHING,
  LS_DISK_ALL,
  LS_DISK_SOME,
} ls_disk_kept;
// Cuts the power, and restores it; `seed` draws what survives of the rest,
// where some does.
LS_MUST_USE ls_status ls_disk_cut(ls_disk *self, ls_disk_kept kept,
                                  uint64_t seed);
// Creates or replaces a file, which is on the disk at once.
LS_MUST_USE ls_status ls_disk_put(ls_disk *self, const char *path,
                                  const void *data, size_t size);
// Returns a file's contents, valid until they change; NULL: there is none.
const ls_text *ls_disk_find(const ls_disk *self, const char *path);

#endif  // LS_BASE_DISK_H_
