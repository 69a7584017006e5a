// SPDX-License-Identifier: Apache-2.0
// The system's files.
//
// A file is replaced by writing a new one beside it, syncing and renaming: a
// reader sees the old content or the new, also after a crash. The file beside
// it has a fixed name per file and is locked while it is written, so that the
// next writer reuses what a killed writer left.
//
// Only regular files are read and written: a fifo could block a program where
// no signal ends it, a device has no end, and either would be replaced. Links
// are followed for reading but not for writing: in another user's folder a link
// may name any file of this user.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/files.h"
#include "base/status_cause.h"
#include "base/system_files.h"
#include "base/threads/threads.h"

ls_status ls_system_status(const char *verb, const char *path, int error) {
  ls_code code = LS_UNAVAILABLE;
  if (error == ENOENT || error == ENOTDIR) code = LS_NOT_FOUND;
  if (error == EACCES || error == EPERM || error == EROFS)
    code = LS_PERMISSION_DENIED;
  return LS_STATUS(code, "cannot %s '%s': %s", verb, path, strerror(error));
}

int ls_system_open_any(const char *path, int flags) {
  int file = -1;
  do {
    file = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
  } while (file < 0 && errno == EINTR);
  return file;
}

ls_status ls_system_check_regular(const char *verb, const char *path,
                                  mode_t mode) {
  if (S_ISREG(mode) || S_ISDIR(mode)) return ls_ok();
  if (S_ISLNK(mode))
    return ls_invalid_argument(
        "cannot %s '%s': it is a link, which may lead to anybody's file; name "
        "the file itself, or remove the link",
        verb, path);
  const char *kind = "something else";
  if (S_ISFIFO(mode)) kind = "a fifo";
  if (S_ISSOCK(mode)) kind = "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) kind = "a device";
  return ls_invalid_argument("cannot %s '%s': it is %s, not a regular file",
                             verb, path, kind);
}

ls_status ls_system_open(const char *verb, const char *path, int flags,
                         int *out_file) {
  struct stat info;
  *out_file = -1;
  const bool follows = (flags & O_NOFOLLOW) == 0;
  // Checks before opening, too: opening a device may have effects, and opening
  // a fifo may fail.
  if ((follows ? stat(path, &info) : lstat(path, &info)) == 0)
    LS_RETURN_IF_ERROR(ls_system_check_regular(verb, path, info.st_mode));
  const int file = ls_system_open_any(path, flags);
  if (file < 0) return ls_system_status("open", path, errno);
  ls_status status = fstat(file, &info) == 0
                         ? ls_system_check_regular(verb, path, info.st_mode)
                         : ls_system_status(verb, path, errno);
  if (ls_status_is_ok(status))
    *out_file = file;
  else
    close(file);
  return status;
}

// ---- Reading ---------------------------------------------------------------
static ls_status too_long(const char *path, size_t most) {
  return ls_invalid_argument("'%s' has more than %zu bytes", path, most);
}

// Reads `file` to its end. The size that the system reports is a hint: files
// grow, and some have no size.
static ls_status file_system_read_all(int file, const char *path, size_t most,
                                      ls_allocator *allocator, char **out_data,
                                      size_t *out_size) {
  struct stat info = {0};
  if (fstat(file, &info) != 0) return ls_system_status("read", path, errno);
  const size_t hint = info.st_size > 0 ? (size_t)info.st_size : 0;
  if (hint > most && S_ISREG(info.st_mode)) return too_long(path, most);
  size_t needed = hint + 2;
  char *data = NULL;
  size_t capacity = 0;
  size_t size = 0;
  ls_status status = ls_ok();
  for (;;) {
    if (capacity - size < 2) {
      char *grown = needed > capacity ? ls_allocate(allocator, needed) : NULL;
      if (grown == NULL) {
        status = LS_NO_MEMORY("no memory for %zu bytes of '%s'", needed, path);
        break;
      }
      if (size > 0) memcpy(grown, data, size);
      ls_release(allocator, data);
      data = grown;
      capacity = needed;
      needed *= 2;
    }
    const ssize_t got = read(file, data + size, capacity - size - 1);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status = ls_system_status("read", path, errno);
    if (got <= 0) break;
    size += (size_t)got;
    if (size > most) {
      status = too_long(path, most);
      break;
    }
  }
  if (!ls_status_is_ok(status)) {
    ls_release(allocator, data);
    return status;
  }
  data[size] = '\0';
  *out_data = data;
  *out_size = size;
  return ls_ok();
}

static ls_status system_read(void *user, const char *path, size_t most,
                             ls_allocator *allocator, char **out_data,
                             size_t *out_size) {
  (void)user;
  *out_data = NULL;
  *out_size = 0;
  int file = -1;
  LS_RETURN_IF_ERROR(ls_system_open("read", path, O_RDONLY, &file));
  ls_status status =
      file_system_read_all(file, path, most, allocator, out_data, out_size);
  close(file);
  return status;
}

static ls_status system_exists(void *user, const char *path, bool *out_exists) {
  (void)user;
  struct stat info;
  *out_exists = stat(path, &info) == 0;
  if (*out_exists || errno == ENOENT || errno == ENOTDIR) return ls_ok();
  return ls_system_status("look for", path, errno);
}

static ls_status system_is_link(void *user, const char *path,
                                bool *out_is_link) {
  (void)user;
  struct stat info;
  const bool is_there = lstat(path, &info) == 0;
  *out_is_link = is_there && S_ISLNK(info.st_mode);
  if (is_there || errno == ENOENT || errno == ENOTDIR) return ls_ok();
  return ls_system_status("look for", path, errno);
}

// ---- Writing ---------------------------------------------------------------
// Writes all bytes. Returns 0 or an errno value.
static int file_system_write_all(int file, const char *data, size_t size) {
  while (size > 0) {
    const ssize_t written = write(file, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    data += written;
    size -= (size_t)written;
  }
  return 0;
}

int ls_system_sync_file(int file) {
  int error = 0;
  do {
    error = fsync(file) == 0 ? 0 : errno;
  } while (error == EINTR);
  return error;
}

// Writes the folder of a file into `buffer`; returns the file's name in it.
static const char *split_path(const char *path, char *buffer, size_t size) {
  const char *slash = strrchr(path, '/');
  const size_t length = slash == NULL ? 0 : (size_t)(slash - path);
  snprintf(buffer, size, "%.*s%s", (int)length, path,
           slash == NULL ? "." : (length == 0 ? "/" : ""));
  return slash == NULL ? path : slash + 1;
}

bool ls_files_are_same(const char *one, const char *other) {
  char folder[PATH_MAX];
  struct stat of_one, of_other;
  if (strcmp(one, other) == 0) return true;
  const char *name = split_path(one, folder, sizeof(folder));
  if (stat(folder, &of_one) != 0) return false;
  return strcmp(name, split_path(other, folder, sizeof(folder))) == 0 &&
         stat(folder, &of_other) == 0 && of_one.st_dev == of_other.st_dev &&
         of_one.st_ino == of_other.st_ino;
}

int ls_system_sync_folder_of(const char *path, char *buffer, size_t size) {
  (void)split_path(path, buffer, size);
  const int folder = ls_system_open_any(buffer, O_RDONLY | O_DIRECTORY);
  if (folder < 0) return errno;
  // Some file systems cannot sync a folder (EINVAL) and need not.
  const int error = ls_system_sync_file(folder);
  close(folder);
  return error == EINVAL ? 0 : error;
}

// Locks the file: waits for another writer, or returns EWOULDBLOCK if `wait` is
// false. A file system without locks counts as locked. Returns 0 or an errno
// value.
static int lock_file(int file, bool wait) {
  while (flock(file, LOCK_EX | (wait ? 0 : LOCK_NB)) != 0) {
    if (errno == EINTR) continue;
    return errno == ENOLCK || errno == ENOSYS || errno == EOPNOTSUPP ? 0
                                                                     : errno;
  }
  return 0;
}

bool ls_system_is_named(int file, const char *path) {
  struct stat open_one, named_one;
  return fstat(file, &open_one) == 0 && lstat(path, &named_one) == 0 &&
         open_one.st_dev == named_one.st_dev &&
         open_one.st_ino == named_one.st_ino;
}

// Opens `aside`; creates it if it does not exist.
static int open_or_make(const char *aside, bool *out_made) {
  for (;;) {
    int file =
        ls_system_open_any(aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    *out_made = file >= 0;
    if (file >= 0 || errno != EEXIST) return file;
    file = ls_system_open_any(aside, O_WRONLY | O_NOFOLLOW);
    struct stat info;
    if (file >= 0 && (fstat(file, &info) != 0 || !S_ISREG(info.st_mode))) {
      close(file);
      errno = EEXIST;
      return -1;
    }
    if (file >= 0 || errno != ENOENT) return file;  // Just renamed: retry.
  }
}

int ls_system_open_aside(const char *aside, bool wait, int *out_file) {
  for (;;) {
    bool made = false;
    const int file = open_or_make(aside, &made);
    if (file < 0) return errno;
    const int error = lock_file(file, wait);
    if (error == 0 && ls_system_is_named(file, aside)) {
      *out_file = file;
      return ftruncate(file, 0) == 0 ? 0 : errno;
    }
    if (error != 0 && error != EWOULDBLOCK && made) unlink(aside);
    close(file);
    if (error != 0) return error;
  }
}

int ls_system_take_after(int file, const struct stat *old) {
  if (!S_ISREG(old->st_mode)) return 0;
  struct stat now;
  if (fstat(file, &now) != 0) return errno;
  if (now.st_uid != old->st_uid || now.st_gid != old->st_gid)
    (void)!fchown(file, old->st_uid, old->st_gid);
  return fchmod(file, old->st_mode & 07777) == 0 ? 0 : errno;
}

// Writes a new file at `aside` and renames it to `path`, replacing `old`
// (zeroed if there is no old file).
static int write_aside(const char *aside, const char *path,
                       const struct stat *old, const void *data, size_t size) {
  int file = -1;
  int error = ls_system_open_aside(aside, true, &file);
  if (file < 0) return error;
  if (error == 0) error = ls_system_take_after(file, old);
  if (error == 0) error = file_system_write_all(file, data, size);
  if (error == 0) error = ls_system_sync_file(file);
  if (error == 0 && rename(aside, path) != 0) error = errno;
  if (error != 0) unlink(aside);
  close(file);  // Releases the lock.
  return error;
}

ls_status ls_system_find_old(const char *path, struct stat *out_old) {
  *out_old = (struct stat){0};
  struct stat info;
  if (lstat(path, &info) != 0) return ls_ok();  // The write reports the error.
  *out_old = info;
  return ls_system_check_regular("write", path, info.st_mode);
}

static ls_status system_write(void *user, const char *path, const void *data,
                              size_t size) {
  (void)user;
  struct stat old;
  LS_RETURN_IF_ERROR(ls_system_find_old(path, &old));
  const size_t room = strlen(path) + 8;
  char *aside = ls_allocate(ls_allocator_system(), room);
  if (aside == NULL) return ls_out_of_memory();
  snprintf(aside, room, "%s.tmp", path);
  int error = write_aside(aside, path, &old, data, size);
  if (error == 0) error = ls_system_sync_folder_of(path, aside, room);
  ls_release(ls_allocator_system(), aside);
  return error == 0 ? ls_ok() : ls_system_status("write", path, error);
}

static ls_status system_append(void *user, const char *path, const void *data,
                               size_t size) {
  (void)user;
  int file = -1;
  LS_RETURN_IF_ERROR(ls_system_open(
      "append to", path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, &file));
  int error = file_system_write_all(file, data, size);
  if (close(file) != 0 && error == 0) error = errno;
  return error == 0 ? ls_ok() : ls_system_status("append to", path, error);
}

static ls_status system_sync_appended(void *user, const char *path) {
  (void)user;
  int file = -1;
  LS_RETURN_IF_ERROR(
      ls_system_open("sync", path, O_WRONLY | O_NOFOLLOW, &file));
  const int error = ls_system_sync_file(file);
  close(file);
  return error == 0 ? ls_ok() : ls_system_status("sync", path, error);
}

// ---- Folders ---------------------------------------------------------------
// Makes one folder; an existing one is fine. Returns 0 or an errno value.
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
  return error == 0 ? ls_ok() : ls_system_status("make folder", path, error);
}

static ls_status system_remove(void *user, const char *path) {
  (void)user;
  return remove(path) == 0 ? ls_ok() : ls_system_status("remove", path, errno);
}

// ---- Locks -----------------------------------------------------------------
// A lock file: it exists while the lock is held and names the holder.
typedef struct file_lock {
  int file;
  char path[];
} file_lock;

static ls_status locked_by(int file, const char *path) {
  char holder[128];
  const ssize_t size = pread(file, holder, sizeof(holder) - 1, 0);
  holder[size > 0 ? size : 0] = '\0';
  holder[strcspn(holder, "\n")] = '\0';
  return ls_failed_precondition("'%s' is locked by %s", path,
                                holder[0] != '\0' ? holder : "another process");
}

static void write_holder(int file) {
  char host[65] = "", text[128];
  (void)!gethostname(host, sizeof(host) - 1);
  const int size =
      snprintf(text, sizeof(text), "process %ld on %s\n", (long)getpid(), host);
  // A failed write is ignored: the lock holds without the holder's name.
  if (ftruncate(file, 0) == 0) (void)!write(file, text, (size_t)size);
}

// Opens the file and locks it, or names the process that holds the lock. A
// process that only looks whether there is a lock has it for a moment.
static ls_status take_lock(const char *path, int *out_file) {
  enum { TRIES = 6, PAUSE_NANOS = 10000000 };
  for (int tries = 1;; ++tries) {
    int file = -1;
    LS_RETURN_IF_ERROR(
        ls_system_open("lock", path, O_RDWR | O_CREAT | O_NOFOLLOW, &file));
    int error = 0;
    while (flock(file, LOCK_EX | LOCK_NB) != 0 && (error = errno) == EINTR)
      error = 0;
    if (error == EWOULDBLOCK && tries < TRIES) {
      close(file);
      ls_thread_sleep(PAUSE_NANOS);
      continue;
    }
    if (error == EWOULDBLOCK) {
      const ls_status status = locked_by(file, path);
      close(file);
      return status;
    }
    // A file system without locks keeps no process out.
    if (error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP) error = 0;
    if (error == 0 && ls_system_is_named(file, path)) {
      *out_file = file;
      return ls_ok();
    }
    // Either the previous holder has just removed the file, or this file system
    // cannot lock.
    if (error != 0) unlink(path);
    close(file);
    if (error != 0) return ls_system_status("lock", path, error);
  }
}

static ls_status system_lock(void *user, const char *path, void **out_lock) {
  (void)user;
  *out_lock = NULL;
  const size_t size = strlen(path) + 1;
  file_lock *lock = ls_allocate(ls_allocator_system(), sizeof(*lock) + size);
  if (lock == NULL) return ls_out_of_memory();
  memcpy(lock->path, path, size);
  const ls_status status = take_lock(path, &lock->file);
  if (ls_status_is_ok(status)) {
    write_holder(lock->file);
    *out_lock = lock;
  } else {
    ls_release(ls_allocator_system(), lock);
  }
  return status;
}

static void system_unlock(void *user, void *held) {
  (void)user;
  file_lock *lock = held;
  if (lock == NULL) return;
  if (ls_system_is_named(lock->file, lock->path)) unlink(lock->path);
  close(lock->file);
  ls_release(ls_allocator_system(), lock);
}

const ls_file_system *ls_file_system_system(void) {
  static const ls_file_system files = {
      .read = system_read,
      .exists = system_exists,
      .write = system_write,
      .append = system_append,
      .make_directories = system_make_directories,
      .remove = system_remove,
      .lock = system_lock,
      .unlock = system_unlock,
      .open = ls_system_open_parts,
      .read_at = ls_system_read_at,
      .close = ls_system_close,
      .list = ls_system_list,
      .rename = ls_system_rename,
      .create = ls_system_create,
      .write_at = ls_system_write_at,
      .sync = ls_system_sync,
      .finish = ls_system_finish,
      .is_link = system_is_link,
      .sync_appended = system_sync_appended,
  };
  return &files;
}
