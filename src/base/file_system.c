// SPDX-License-Identifier: Apache-2.0
// The system's files.
//
// A file is replaced by writing another one beside it, syncing and renaming:
// whoever reads sees the old content or the new, also after a crash. The one
// beside has one name for each file and is locked while it is written, so what
// a killed writer left is what the next one takes.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/runtime_internal.h"

// The status for `error`, which befell what was `verb` to `path`.
static ls_status file_status(const char *verb, const char *path, int error) {
  ls_code code = LS_UNAVAILABLE;
  if (error == ENOENT || error == ENOTDIR) code = LS_NOT_FOUND;
  if (error == EACCES || error == EPERM || error == EROFS) {
    code = LS_PERMISSION_DENIED;
  }
  char text[128] = "";
  return LS_STATUS(code, "cannot %s '%s': %s", verb, path,
                   strerror_r(error, text, sizeof(text)));
}

static int open_file(const char *path, int flags) {
  int file = -1;
  do {
    file = open(path, flags | O_CLOEXEC, 0666);
  } while (file < 0 && errno == EINTR);
  return file;
}

// ---- Reading ---------------------------------------------------------------
// Reads from `file` to its end. The size that the system tells is a hint: files
// grow, and some have none.
static ls_status read_all(int file, const char *path, ls_allocator *allocator,
                          char **out_data, size_t *out_size) {
  struct stat info = {0};
  if (fstat(file, &info) != 0) return file_status("read", path, errno);
  size_t needed = (info.st_size > 0 ? (size_t)info.st_size : 0) + 2;
  char *data = NULL;
  size_t capacity = 0;
  size_t size = 0;
  for (;;) {
    if (capacity - size < 2) {
      char *grown = needed > capacity ? ls_allocate(allocator, needed) : NULL;
      if (grown == NULL) {
        ls_release(allocator, data);
        return LS_STATUS(LS_RESOURCE_EXHAUSTED,
                         "no memory for %zu bytes of '%s'", needed, path);
      }
      if (size > 0) memcpy(grown, data, size);
      ls_release(allocator, data);
      data = grown;
      capacity = needed;
      needed *= 2;
    }
    const ssize_t got = read(file, data + size, capacity - size - 1);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int error = errno;
      ls_release(allocator, data);
      return file_status("read", path, error);
    }
    if (got == 0) break;
    size += (size_t)got;
  }
  data[size] = '\0';
  *out_data = data;
  *out_size = size;
  return ls_ok();
}

static ls_status system_read(void *user, const char *path,
                             ls_allocator *allocator, char **out_data,
                             size_t *out_size) {
  (void)user;
  *out_data = NULL;
  *out_size = 0;
  const int file = open_file(path, O_RDONLY);
  if (file < 0) return file_status("open", path, errno);
  ls_status status = read_all(file, path, allocator, out_data, out_size);
  close(file);
  return status;
}

static ls_status system_exists(void *user, const char *path, bool *out_exists) {
  (void)user;
  struct stat info;
  *out_exists = stat(path, &info) == 0;
  if (*out_exists || errno == ENOENT || errno == ENOTDIR) return ls_ok();
  return file_status("look for", path, errno);
}

// ---- Writing ---------------------------------------------------------------
// 0 or the system's error number.
static int write_all(int file, const char *data, size_t size) {
  while (size > 0) {
    const ssize_t written = write(file, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    data += written;
    size -= (size_t)written;
  }
  return 0;
}

// Makes the renaming of `path` last: it is an entry of its folder.
static int sync_folder_of(const char *path, char *buffer, size_t size) {
  const char *slash = strrchr(path, '/');
  const size_t length = slash == NULL ? 0 : (size_t)(slash - path);
  snprintf(buffer, size, "%.*s%s", (int)length, path,
           slash == NULL ? "." : (length == 0 ? "/" : ""));
  const int folder = open_file(buffer, O_RDONLY | O_DIRECTORY);
  if (folder < 0) return errno;
  // Some file systems cannot sync a folder and need not.
  const int error = fsync(folder) != 0 && errno != EINVAL ? errno : 0;
  close(folder);
  return error;
}

// Waits until no other writer has the file. A file system without locks has no
// writers that wait for each other. 0 or the system's error number.
static int lock_file(int file) {
  while (flock(file, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    return errno == ENOLCK || errno == ENOSYS || errno == EOPNOTSUPP ? 0
                                                                     : errno;
  }
  return 0;
}

// Whether `path` still names the open file: its former writer has moved it.
static bool is_named(int file, const char *path) {
  struct stat open_one, named_one;
  return fstat(file, &open_one) == 0 && stat(path, &named_one) == 0 &&
         open_one.st_dev == named_one.st_dev &&
         open_one.st_ino == named_one.st_ino;
}

// Opens `aside`, empty and locked. 0 or the system's error number.
static int open_aside(const char *aside, int *out_file) {
  for (;;) {
    const int file = open_file(aside, O_WRONLY | O_CREAT | O_NOFOLLOW);
    if (file < 0) return errno;
    int error = lock_file(file);
    if (error == 0 && is_named(file, aside)) {
      *out_file = file;
      return ftruncate(file, 0) == 0 ? 0 : errno;
    }
    close(file);
    if (error != 0) return error;
  }
}

// Writes a new file at `aside` and moves it to `path`.
static int write_aside(const char *aside, const char *path, const void *data,
                       size_t size) {
  int file = -1;
  int error = open_aside(aside, &file);
  if (file < 0) return error;
  if (error == 0) error = write_all(file, data, size);
  if (error == 0 && fsync(file) != 0) error = errno;
  if (error == 0 && rename(aside, path) != 0) error = errno;
  if (error != 0) unlink(aside);
  close(file);  // Ends the lock.
  return error;
}

static ls_status system_write(void *user, const char *path, const void *data,
                              size_t size) {
  (void)user;
  const size_t room = strlen(path) + 8;
  char *aside = ls_allocate(ls_allocator_system(), room);
  if (aside == NULL) return ls_out_of_memory();
  snprintf(aside, room, "%s.tmp", path);
  int error = write_aside(aside, path, data, size);
  if (error == 0) error = sync_folder_of(path, aside, room);
  ls_release(ls_allocator_system(), aside);
  return error == 0 ? ls_ok() : file_status("write", path, error);
}

static ls_status system_append(void *user, const char *path, const void *data,
                               size_t size) {
  (void)user;
  const int file = open_file(path, O_WRONLY | O_CREAT | O_APPEND);
  if (file < 0) return file_status("open", path, errno);
  int error = write_all(file, data, size);
  if (close(file) != 0 && error == 0) error = errno;
  return error == 0 ? ls_ok() : file_status("append to", path, error);
}

// ---- Folders ---------------------------------------------------------------
// 0 or the system's error number; a folder that is there is fine.
static int make_directory(const char *path) {
  if (mkdir(path, 0777) == 0) return 0;
  if (errno != EEXIST && errno != EISDIR) return errno;
  struct stat info;
  if (stat(path, &info) != 0) return errno;
  return S_ISDIR(info.st_mode) ? 0 : ENOTDIR;
}

static ls_status system_make_directories(void *user, const char *path) {
  (void)user;
  char *prefix = ls_copy_text(ls_allocator_system(), path, strlen(path));
  if (prefix == NULL) return ls_out_of_memory();
  int error = 0;
  for (char *end = prefix; error == 0;) {
    while (*end == '/')
      ++end;
    end += strcspn(end, "/");
    const char cut = *end;
    *end = '\0';
    error = make_directory(prefix);
    *end = cut;
    if (cut == '\0' || end[strspn(end, "/")] == '\0') break;
  }
  ls_release(ls_allocator_system(), prefix);
  return error == 0 ? ls_ok() : file_status("make folder", path, error);
}

static ls_status system_remove(void *user, const char *path) {
  (void)user;
  return remove(path) == 0 ? ls_ok() : file_status("remove", path, errno);
}

const ls_file_system *ls_file_system_system(void) {
  static const ls_file_system files = {
      .read = system_read,
      .exists = system_exists,
      .write = system_write,
      .append = system_append,
      .make_directories = system_make_directories,
      .remove = system_remove,
  };
  return &files;
}
