// SPDX-License-Identifier: Apache-2.0
// The system's files: helpers shared by file_system.c (whole files) and
// file_parts.c (files in parts).
#ifndef LS_BASE_SYSTEM_FILES_H_
#define LS_BASE_SYSTEM_FILES_H_

#include <sys/stat.h>

#include "base/runtime_internal.h"

// Returns the status for errno value `error` of an attempt to `verb` `path`.
ls_status ls_system_status(const char *verb, const char *path, int error);
// Opens or, if the flags say so, creates a regular file. Never blocks on a
// fifo. With O_NOFOLLOW a link is refused.
ls_status ls_system_open(const char *verb, const char *path, int flags,
                         int *out_file);
// Opens anything. Returns the file, or -1 with errno.
int ls_system_open_any(const char *path, int flags);

// Returns OK for a regular file, and for a folder, which the system's own error
// explains.
ls_status ls_system_check_regular(const char *verb, const char *path,
                                  mode_t mode);
// Looks up the file to be replaced: nothing, a regular file, or a folder, which
// the system's own error explains. Refuses a link.
ls_status ls_system_find_old(const char *path, struct stat *out_old);
// Opens the file beside, empty and locked. If another writer has locked it,
// waits or gives EWOULDBLOCK. Returns 0 or an errno value; the file may be open
// after an error, too.
int ls_system_open_aside(const char *aside, bool wait, int *out_file);
// Gives the new file the mode and, if permitted, the owner of the file it
// replaces. Returns 0 or an errno value.
int ls_system_take_after(int file, const struct stat *old);
// Writes an open file's bytes to the disk. Returns 0 or an errno value.
int ls_system_sync_file(int file);
// Syncs the folder of `path`, so that a rename survives a crash. `buffer` must
// be longer than the path. Returns 0 or an errno value.
int ls_system_sync_folder_of(const char *path, char *buffer, size_t size);
// Returns true if `path` still names the open file: its previous writer may
// have renamed it.
bool ls_system_is_named(int file, const char *path);

// The functions of ls_file_system for files in parts, from `open` on.
ls_status ls_system_open_parts(void *user, const char *path, void **out_file,
                               ls_file_info *out_info);
ls_status ls_system_read_at(void *user, void *file, int64_t offset, void *data,
                            size_t size, size_t *out_size);
void ls_system_close(void *user, void *file);
ls_status ls_system_list(void *user, const char *path, ls_allocator *allocator,
                         ls_file_entry **out_entries, size_t *out_count);
ls_status ls_system_rename(void *user, const char *from, const char *to);
ls_status ls_system_create(void *user, const char *path, bool join,
                           void **out_file);
ls_status ls_system_write_at(void *user, void *file, int64_t offset,
                             const void *data, size_t size);
ls_status ls_system_sync(void *user, void *file);
ls_status ls_system_finish(void *user, void *file, bool keep);

#endif  // LS_BASE_SYSTEM_FILES_H_
