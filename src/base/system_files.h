// SPDX-License-Identifier: Apache-2.0
// The system's files: what whole files (file_system.c) and files in parts
// (file_parts.c) have in common.
#ifndef LS_BASE_SYSTEM_FILES_H_
#define LS_BASE_SYSTEM_FILES_H_

#include <sys/stat.h>

#include "base/runtime_internal.h"

// The status for `error`, which befell what was `verb` to `path`.
ls_status ls_system_status(const char *verb, const char *path, int error);
// Opens a regular file or, if the flags say so, makes one. Never
// waits for the other end of a fifo. With O_NOFOLLOW a link is refused.
ls_status ls_system_open(const char *verb, const char *path, int flags,
                         int *out_file);
// The same for anything. The file, or -1 with errno.
int ls_system_open_any(const char *path, int flags);

// OK for a regular file, and for a folder, of which the system has words.
ls_status ls_system_check_regular(const char *verb, const char *path,
                                  mode_t mode);
// Looks at the file to be replaced: nothing, a regular file, or a folder, of
// which the system has words. A link is refused.
ls_status ls_system_find_old(const char *path, struct stat *out_old);
// Opens the file beside, empty and locked; where another writes it, waits or
// gives EWOULDBLOCK. 0 or the system's error number; the file may be open all
// the same.
int ls_system_open_aside(const char *aside, bool wait, int *out_file);
// Gives the new file the mode and, if it may be given away, the owner of the
// one that it replaces. 0 or the system's error number.
int ls_system_take_after(int file, const struct stat *old);
// Makes the renaming of `path` last: it is an entry of its folder, whose name
// is put into `buffer`, of more than the path's length. 0 or the system's
// error number.
int ls_system_sync_folder_of(const char *path, char *buffer, size_t size);
// Returns true if `path` still names the open file: its former writer may have
// moved it.
bool ls_system_is_named(int file, const char *path);

// Files in parts: the calls of ls_file_system from `open` on.
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
