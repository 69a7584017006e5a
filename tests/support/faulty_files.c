// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "support/faulty_files.h"

#include <unistd.h>

#include "base/runtime_internal.h"

const char *const faulty_call_names[FAULTY_CALLS] = {
    "read",   "exists", "write",  "append",   "make_directories",
    "remove", "lock",   "open",   "read_at",  "short read_at",
    "list",   "rename", "create", "write_at", "sync",
    "finish"};

static const ls_file_system *real(void) { return ls_file_system_system(); }

static bool is_next(faulty_files *self, faulty_call call) {
  if (!self->fails || self->call != call) return false;
  const int met = __atomic_add_fetch(&self->met, 1, __ATOMIC_RELAXED);
  if (met < self->at || (self->count > 0 && met >= self->at + self->count))
    return false;
  __atomic_add_fetch(&self->failed, 1, __ATOMIC_RELAXED);
  return true;
}

static ls_status refuse(void *user, faulty_call call, const char *path) {
  return is_next(user, call)
             ? LS_STATUS(LS_UNAVAILABLE, "cannot %s '%s': No space left",
                         faulty_call_names[call], path)
             : ls_ok();
}

// ---- Whole files -----------------------------------------------------------
static ls_status read_all(void *user, const char *path, size_t most,
                          ls_allocator *allocator, char **out_data,
                          size_t *out_size) {
  LS_RETURN_IF_ERROR(refuse(user, FAULTY_READ, path));
  return real()->read(real()->user, path, most, allocator, out_data, out_size);
}
static ls_status exists(void *user, const char *path, bool *out_exists) {
  LS_RETURN_IF_ERROR(refuse(user, FAULTY_EXISTS, path));
  return real()->exists(real()->user, path, out_exists);
}
static ls_status write_all(void *user, const char *path, const void *data,
                           size_t size) {
  LS_RETURN_IF_ERROR(refuse(user, FAULTY_WRITE, path));
  return real()->write(real()->user, path, data, size);
}
static ls_status append(void *user, const char *path, const void *data,
                        size_t size) {
  LS_RETURN_IF_ERROR(refuse(user, FAULTY_APPEND, path));
  return real()->append(real()->user, path, data, size);
}
static ls_status make(void *user, const char *path) {
  LS_RETURN_IF_ERROR(refuse(user, FAULTY_MAKE, path));
  return real()->make_directories(real()->user, path);
}
static ls_status remove_one(void *user, const char *path) {
  LS_RETURN_IF_ERROR(refuse(user, FAULTY_REMOVE, path));
  return real()->remove(real()->user, path);
}
static ls_status lock(void *user, const char *path, void **out_lock) {
  LS_RETURN_IF_ERROR(refuse(user, FAULTY_LOCK, path));
  return real()->lock(real()->user, path, out_lock);
}
static ls_status list(void *user, const char *path, ls_allocator *allocator,
                      ls_file_entry **out_entries, size_t *out_count) {
  LS_RETURN_IF_ERROR(refuse(user, FAULTY_LIST, path));
  return real()->list(real()->user, path, allocator, out_entries, out_count);
}
static ls_status rename_one(void *user, const char *from, const char *to) {
  LS_RETURN_IF_ERROR(refuse(user, FAULTY_RENAME, from));
  return real()->rename(real()->user, from, to);
}

// ---- Parts -----------------------------------------------------------------
static ls_status open_one(void *user, const char *path, void **out_file,
                          ls_file_info *out_info) {
  LS_RETURN_IF_ERROR(refuse(user, FAULTY_OPEN, path));
  return real()->open(real()->user, path, out_file, out_info);
}
static ls_status read_at(void *user, void *file, int64_t offset, void *data,
                         size_t size, size_t *out_size) {
  LS_RETURN_IF_ERROR(refuse(user, FAULTY_READ_AT, "a part"));
  LS_RETURN_IF_ERROR(
      real()->read_at(real()->user, file, offset, data, size, out_size));
  if (*out_size > 0 && is_next(user, FAULTY_SHORT)) *out_size /= 2;
  return ls_ok();
}
static ls_status create(void *user, const char *path, bool join,
                        void **out_file) {
  LS_RETURN_IF_ERROR(refuse(user, FAULTY_CREATE, path));
  return real()->create(real()->user, path, join, out_file);
}
static ls_status write_at(void *user, void *file, int64_t offset,
                          const void *data, size_t size) {
  LS_RETURN_IF_ERROR(refuse(user, FAULTY_WRITE_AT, "a part"));
  return real()->write_at(real()->user, file, offset, data, size);
}
static ls_status sync_one(void *user, void *file) {
  faulty_files *self = user;
  const int synced = __atomic_add_fetch(&self->synced, 1, __ATOMIC_RELAXED);
  if (self->asks != NULL && synced == self->asks_at)
    ls_train_stop_request(self->asks);
  if (self->sync_micros > 0) usleep((useconds_t)self->sync_micros);
  LS_RETURN_IF_ERROR(refuse(user, FAULTY_SYNC, "a file"));
  return real()->sync(real()->user, file);
}
// It is over in any case.
static ls_status finish(void *user, void *file, bool keep) {
  const ls_status status =
      keep ? refuse(user, FAULTY_FINISH, "a file") : ls_ok();
  return ls_status_join(
      status,
      real()->finish(real()->user, file, keep && ls_status_is_ok(status)));
}

ls_file_system faulty_files_system(faulty_files *self) {
  ls_file_system made = *ls_file_system_system();
  made.user = self;
  made.read = read_all;
  made.exists = exists;
  made.write = write_all;
  made.append = append;
  made.make_directories = make;
  made.remove = remove_one;
  made.lock = lock;
  made.list = list;
  made.rename = rename_one;
  made.open = open_one;
  made.read_at = read_at;
  made.create = create;
  made.write_at = write_at;
  made.sync = sync_one;
  made.finish = finish;
  return made;
}
