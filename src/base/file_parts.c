// SPDX-License-Identifier: Apache-2.0
// The system's files in parts: reads ranges from any thread, lists folders, and
// writes new files piece by piece beside their final path.
//
// No file is mapped: a file that another process truncates is a short read
// here, not a signal.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/system_files.h"
#include "base/text.h"

// ---- Reading ---------------------------------------------------------------
typedef struct open_file {
  int file;
  char path[];  // For error messages.
} open_file;

static int64_t nanos_of(struct timespec time) {
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

ls_status ls_system_open_parts(void *user, const char *path, void **out_file,
                               ls_file_info *out_info) {
  (void)user;
  *out_file = NULL;
  *out_info = (ls_file_info){0};
  const size_t size = strlen(path) + 1;
  open_file *opened =
      ls_allocate(ls_allocator_system(), sizeof(*opened) + size);
  if (opened == NULL) return ls_out_of_memory();
  memcpy(opened->path, path, size);
  ls_status status = ls_system_open("read", path, O_RDONLY, &opened->file);
  struct stat info = {0};
  if (ls_status_is_ok(status) && fstat(opened->file, &info) != 0)
    status = ls_system_status("read", path, errno);
  if (ls_status_is_ok(status) && S_ISDIR(info.st_mode))
    status = ls_system_status("read", path, EISDIR);
  if (!ls_status_is_ok(status)) {
    if (opened->file >= 0) close(opened->file);
    ls_release(ls_allocator_system(), opened);
    return status;
  }
  *out_info =
      (ls_file_info){.size = info.st_size, .modified = nanos_of(info.st_mtim)};
  *out_file = opened;
  return ls_ok();
}

ls_status ls_system_read_at(void *user, void *file, int64_t offset, void *data,
                            size_t size, size_t *out_size) {
  (void)user;
  const open_file *opened = file;
  size_t got = 0;
  *out_size = 0;
  while (got < size) {
    const ssize_t count = pread(opened->file, (char *)data + got, size - got,
                                offset + (int64_t)got);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ls_system_status("read", opened->path, errno);
    if (count == 0) break;
    got += (size_t)count;
  }
  *out_size = got;
  return ls_ok();
}

void ls_system_close(void *user, void *file) {
  (void)user;
  open_file *opened = file;
  if (opened == NULL) return;
  close(opened->file);
  ls_release(ls_allocator_system(), opened);
}

// ---- Folders ---------------------------------------------------------------
// Tells folders and regular files apart; any other entry, or a link to nothing,
// is neither. Returns 0 or an errno value.
static int kind_of(int folder, const struct dirent *found, bool *out_is_folder,
                   bool *out_is_file) {
  *out_is_folder = found->d_type == DT_DIR;
  *out_is_file = found->d_type == DT_REG;
  if (found->d_type != DT_UNKNOWN && found->d_type != DT_LNK) return 0;
  struct stat info;
  if (fstatat(folder, found->d_name, &info, 0) != 0) {
    // The entry has just been removed, or its link leads nowhere.
    return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : errno;
  }
  *out_is_folder = S_ISDIR(info.st_mode);
  *out_is_file = S_ISREG(info.st_mode);
  return 0;
}

// Appends each entry to `names`: a byte for its kind, the name, a zero byte.
// Returns 0 or an errno value.
static int read_names(DIR *folder, ls_text *names, size_t *count) {
  for (;;) {
    errno = 0;
    const struct dirent *found = readdir(folder);
    if (found == NULL) return errno;
    if (strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0)
      continue;
    bool is_folder = false, is_file = false;
    const int error = kind_of(dirfd(folder), found, &is_folder, &is_file);
    if (error != 0) return error;
    if (!is_folder && !is_file) continue;
    ls_text_append_char(names, is_folder ? 'd' : 'f');
    ls_text_append_bytes(names, found->d_name, strlen(found->d_name) + 1);
    ++*count;
  }
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const ls_file_entry *)a)->name,
                ((const ls_file_entry *)b)->name);
}

static ls_status sorted_entries(const ls_text *names, size_t count,
                                ls_allocator *allocator,
                                ls_file_entry **out_entries) {
  const size_t table = count * sizeof(ls_file_entry);
  LS_RETURN_IF_ERROR(ls_text_status(names));
  ls_file_entry *entries = ls_allocate(allocator, table + names->size);
  if (entries == NULL) return ls_out_of_memory();
  char *at = (char *)entries + table;
  if (names->size > 0) memcpy(at, names->data, names->size);
  for (size_t i = 0; i < count; ++i) {
    entries[i] = (ls_file_entry){.name = at + 1, .is_folder = *at == 'd'};
    at += strlen(at + 1) + 2;
  }
  qsort(entries, count, sizeof(*entries), by_name);
  *out_entries = entries;
  return ls_ok();
}

ls_status ls_system_list(void *user, const char *path, ls_allocator *allocator,
                         ls_file_entry **out_entries, size_t *out_count) {
  (void)user;
  *out_entries = NULL;
  *out_count = 0;
  DIR *folder = opendir(path);
  if (folder == NULL) return ls_system_status("list", path, errno);
  ls_text names = {.allocator = ls_allocator_system()};
  size_t count = 0;
  const int error = read_names(folder, &names, &count);
  closedir(folder);
  ls_status status =
      error != 0 ? ls_system_status("list", path, error)
                 : sorted_entries(&names, count, allocator, out_entries);
  if (ls_status_is_ok(status)) *out_count = count;
  ls_text_deinit(&names);
  return status;
}

// Syncs the folder of `path`, so that the entry survives a crash.
static ls_status sync_place(const char *path) {
  const size_t room = strlen(path) + 8;
  char *buffer = ls_allocate(ls_allocator_system(), room);
  if (buffer == NULL) return ls_out_of_memory();
  const int error = ls_system_sync_folder_of(path, buffer, room);
  ls_release(ls_allocator_system(), buffer);
  return error == 0 ? ls_ok() : ls_system_status("write", path, error);
}

ls_status ls_system_rename(void *user, const char *from, const char *to) {
  (void)user;
  struct stat info;
  if (lstat(from, &info) != 0) return ls_system_status("move", from, errno);
  if (!S_ISLNK(info.st_mode))
    LS_RETURN_IF_ERROR(ls_system_check_regular("move", from, info.st_mode));
  if (lstat(to, &info) == 0 && !S_ISLNK(info.st_mode))
    LS_RETURN_IF_ERROR(ls_system_check_regular("replace", to, info.st_mode));
  if (rename(from, to) == 0) return sync_place(to);
  const int error = errno;
  return ls_status_annotate(ls_system_status("move", from, error),
                            "it was to become '%s'", to);
}

// ---- Writing ---------------------------------------------------------------
// A file that is written at `aside`, a path made from `path`, until it is
// whole.
//
// Large page-aligned pieces bypass the system's cache where possible: that
// takes half the processor time and leaves memory to others.
typedef struct new_file {
  int file;
  int direct;  // The file opened with O_DIRECT; -1: unsupported.
  bool joined;
  struct stat old;  // The file to be replaced.
  char *aside;
  char path[];
} new_file;

static ls_status file_parts_begin(new_file *made) {
  int error = 0;
  if (made->joined) {
    made->file = ls_system_open_any(made->aside, O_WRONLY | O_NOFOLLOW);
    if (made->file < 0) error = errno;
    struct stat info;
    if (error == 0 && fstat(made->file, &info) != 0) error = errno;
    if (error == 0)
      return ls_system_check_regular("write", made->aside, info.st_mode);
  } else {
    error = ls_system_open_aside(made->aside, false, &made->file);
  }
  if (error == 0) return ls_ok();
  if (error == EWOULDBLOCK)
    return ls_failed_precondition("'%s' is already being written", made->path);
  return ls_system_status(made->joined ? "join in writing" : "write",
                          made->path, error);
}

static void open_directly(new_file *made) {
#if defined(O_DIRECT)
  const int file =
      ls_system_open_any(made->aside, O_WRONLY | O_NOFOLLOW | O_DIRECT);
  if (file < 0) return;
  if (ls_system_is_named(made->file, made->aside))
    made->direct = file;
  else
    close(file);
#else
  (void)made;
#endif
}

ls_status ls_system_create(void *user, const char *path, bool join,
                           void **out_file) {
  (void)user;
  *out_file = NULL;
  struct stat old;
  LS_RETURN_IF_ERROR(ls_system_find_old(path, &old));
  const size_t size = strlen(path) + 1;
  new_file *made =
      ls_allocate(ls_allocator_system(), sizeof(*made) + 2 * size + 4);
  if (made == NULL) return ls_out_of_memory();
  *made = (new_file){.file = -1, .direct = -1, .joined = join, .old = old};
  memcpy(made->path, path, size);
  made->aside = made->path + size;
  snprintf(made->aside, size + 4, "%s.tmp", path);
  const ls_status status = file_parts_begin(made);
  if (ls_status_is_ok(status)) {
    open_directly(made);
    *out_file = made;
    return status;
  }
  if (made->file >= 0) close(made->file);
  ls_release(ls_allocator_system(), made);
  return status;
}

// Writes all bytes at `offset`. Returns 0 or an errno value.
static int write_range(int file, int64_t offset, const char *data,
                       size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t count =
        pwrite(file, data + done, size - done, offset + (int64_t)done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    done += (size_t)count;
  }
  return 0;
}

// Returns how many bytes of a piece can bypass the cache.
static size_t direct_part(const new_file *made, int64_t offset,
                          const void *data, size_t size) {
  enum { PAGE = 4096, LEAST = 1 << 20 };
  const bool can = made->direct >= 0 && size >= LEAST &&
                   (uintptr_t)data % PAGE == 0 && offset % PAGE == 0;
  return can ? size / PAGE * PAGE : 0;
}

ls_status ls_system_write_at(void *user, void *file, int64_t offset,
                             const void *data, size_t size) {
  (void)user;
  const new_file *made = file;
  size_t done = direct_part(made, offset, data, size);
  // If the direct write fails, writes through the cache, which reports a real
  // error.
  if (done > 0 && write_range(made->direct, offset, data, done) != 0) done = 0;
  const int error = write_range(made->file, offset + (int64_t)done,
                                (const char *)data + done, size - done);
  return error == 0 ? ls_ok() : ls_system_status("write", made->path, error);
}

ls_status ls_system_sync(void *user, void *file) {
  (void)user;
  const new_file *made = file;
  const int error = ls_system_sync_file(made->file);
  return error == 0 ? ls_ok() : ls_system_status("write", made->path, error);
}

// Renames `aside` to `path`. Returns 0 or an errno value.
static int move_to_place(const new_file *made) {
  int error = ls_system_take_after(made->file, &made->old);
  if (error == 0) error = ls_system_sync_file(made->file);
  if (error != 0) return error;
  return rename(made->aside, made->path) == 0 ? 0 : errno;
}

ls_status ls_system_finish(void *user, void *file, bool keep) {
  (void)user;
  new_file *made = file;
  if (made == NULL) return ls_ok();
  ls_status status = ls_ok();
  if (!made->joined) {
    const int error = keep ? move_to_place(made) : 0;
    if (error != 0) status = ls_system_status("write", made->path, error);
    if ((!keep || error != 0) && ls_system_is_named(made->file, made->aside))
      unlink(made->aside);
    if (keep && error == 0) status = sync_place(made->path);
  } else if (keep) {
    status = ls_system_sync(user, file);
  }
  if (made->direct >= 0) close(made->direct);
  close(made->file);  // Releases the lock.
  ls_release(ls_allocator_system(), made);
  return status;
}
