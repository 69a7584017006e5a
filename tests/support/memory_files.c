// SPDX-License-Identifier: Apache-2.0
#include "support/memory_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"

const memory_file *memory_files_find(const memory_files *files,
                                     const char *path) {
  for (size_t i = 0; i < files->count; ++i)
    if (strcmp(files->items[i].path, path) == 0) return &files->items[i];
  return NULL;
}

void memory_files_clear(memory_files *files) {
  for (size_t i = 0; i < files->count; ++i)
    free(files->items[i].data);
  *files = (memory_files){0};
}

static memory_file *find_or_add(memory_files *files, const char *path) {
  const memory_file *found = memory_files_find(files, path);
  if (found != NULL) return &files->items[found - files->items];
  if (files->count == MEMORY_FILES_MOST) return NULL;
  memory_file *added = &files->items[files->count++];
  *added = (memory_file){0};
  snprintf(added->path, sizeof(added->path), "%s", path);
  return added;
}

static ls_status refuse(const char *verb, const char *path) {
  return LS_STATUS(LS_UNAVAILABLE, "cannot %s '%s'", verb, path);
}

// Whether the call that has just begun is the one to fail.
static bool fails(memory_files *files) {
  // Threads of a run save and log at the same time.
  const int at = __atomic_sub_fetch(&files->fail_at, 1, __ATOMIC_RELAXED);
  return at == 0 || (files->is_killed && at < 0);
}

// ---- Files -----------------------------------------------------------------
static ls_status read(void *user, const char *path, size_t most,
                      ls_allocator *allocator, char **out_data,
                      size_t *out_size) {
  const memory_file *file = memory_files_find(user, path);
  *out_data = NULL;
  if (fails(user)) return refuse("read", path);
  if (file == NULL) return ls_not_found("there is no '%s'", path);
  if (file->folder || file->size > most) return refuse("read", path);
  char *data = ls_allocate(allocator, file->size + 1);
  if (data == NULL) return ls_out_of_memory();
  if (file->size > 0) memcpy(data, file->data, file->size);
  data[file->size] = '\0';
  *out_data = data;
  *out_size = file->size;
  return ls_ok();
}

static ls_status exists(void *user, const char *path, bool *out_exists) {
  *out_exists = false;
  if (fails(user)) return refuse("look for", path);
  *out_exists = memory_files_find(user, path) != NULL;
  return ls_ok();
}

static ls_status add(memory_files *files, const char *path, const void *data,
                     size_t size) {
  memory_file *file = find_or_add(files, path);
  if (file == NULL || file->folder) return refuse("write", path);
  char *grown = realloc(file->data, file->size + size + 1);
  if (grown == NULL) return refuse("write", path);
  file->data = grown;
  if (size > 0) memcpy(file->data + file->size, data, size);
  file->size += size;
  file->data[file->size] = '\0';
  return ls_ok();
}

static ls_status append(void *user, const char *path, const void *data,
                        size_t size) {
  if (!fails(user)) return add(user, path, data, size);
  ls_status_free(add(user, path, data, size / 2));
  return refuse("append to", path);
}

static ls_status write(void *user, const char *path, const void *data,
                       size_t size) {
  if (fails(user)) return refuse("write", path);
  memory_file *file = find_or_add(user, path);
  if (file != NULL) file->size = 0;
  return add(user, path, data, size);
}

// ---- Folders ---------------------------------------------------------------
static ls_status make_directories(void *user, const char *path) {
  if (fails(user)) return refuse("make", path);
  memory_file *folder = find_or_add(user, path);
  if (folder == NULL || folder->data != NULL) return refuse("make", path);
  folder->folder = true;
  return ls_ok();
}

static bool is_inside(const memory_file *file, const char *folder) {
  const size_t size = strlen(folder);
  return strncmp(file->path, folder, size) == 0 && file->path[size] == '/';
}

// A folder only when there is nothing in it.
static ls_status take_away(memory_files *files, const char *path) {
  const memory_file *file = memory_files_find(files, path);
  if (file == NULL) return ls_not_found("there is no '%s'", path);
  for (size_t i = 0; i < files->count; ++i)
    if (is_inside(&files->items[i], path)) return refuse("remove", path);
  free(file->data);
  files->items[file - files->items] = files->items[--files->count];
  return ls_ok();
}

static ls_status remove_one(void *user, const char *path) {
  return fails(user) ? refuse("remove", path) : take_away(user, path);
}

// ---- Locks -----------------------------------------------------------------
typedef struct held {
  char path[160];
} held;

static ls_status lock(void *user, const char *path, void **out_lock) {
  *out_lock = NULL;
  if (fails(user)) return refuse("lock", path);
  if (memory_files_find(user, path) != NULL)
    return ls_failed_precondition("'%s' is locked", path);
  held *lock = malloc(sizeof(*lock));
  if (lock == NULL) return ls_out_of_memory();
  snprintf(lock->path, sizeof(lock->path), "%s", path);
  *out_lock = lock;
  return add(user, path, "test", 4);
}

static void unlock(void *user, void *lock) {
  if (lock != NULL) ls_status_free(take_away(user, ((held *)lock)->path));
  free(lock);
}

// ---- In parts --------------------------------------------------------------
typedef struct opened {
  char path[160];  // What is written: with ".tmp".
  bool joined;
} opened;

static ls_status open_path(const char *path, const char *more, bool joined,
                           void **out_file) {
  opened *file = malloc(sizeof(*file));
  if (file == NULL) return ls_out_of_memory();
  snprintf(file->path, sizeof(file->path), "%s%s", path, more);
  file->joined = joined;
  *out_file = file;
  return ls_ok();
}

static ls_status open_parts(void *user, const char *path, void **out_file,
                            ls_file_info *out_info) {
  *out_file = NULL;
  if (fails(user)) return refuse("open", path);
  const memory_file *file = memory_files_find(user, path);
  if (file == NULL) return ls_not_found("there is no '%s'", path);
  if (file->folder) return refuse("open", path);
  *out_info = (ls_file_info){.size = (int64_t)file->size, .modified = 1};
  return open_path(path, "", false, out_file);
}

static ls_status read_at(void *user, void *handle, int64_t offset, void *data,
                         size_t size, size_t *out_size) {
  const opened *self = handle;
  *out_size = 0;
  if (fails(user)) return refuse("read", self->path);
  const memory_file *file = memory_files_find(user, self->path);
  if (file == NULL || (size_t)offset >= file->size) return ls_ok();
  const size_t left = file->size - (size_t)offset;
  *out_size = size < left ? size : left;
  memcpy(data, file->data + offset, *out_size);
  return ls_ok();
}

static void close_file(void *user, void *handle) {
  (void)user;
  free(handle);
}

static bool is_right_inside(const memory_file *file, const char *folder) {
  return is_inside(file, folder) &&
         strchr(file->path + strlen(folder) + 1, '/') == NULL;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const ls_file_entry *)a)->name,
                ((const ls_file_entry *)b)->name);
}

static ls_status list(void *user, const char *path, ls_allocator *allocator,
                      ls_file_entry **out_entries, size_t *out_count) {
  const memory_files *files = user;
  *out_entries = NULL;
  *out_count = 0;
  if (fails(user)) return refuse("list", path);
  const memory_file *named = memory_files_find(files, path);
  if (named != NULL && !named->folder)
    return ls_not_found("'%s' is no folder", path);
  ls_file_entry *entries = ls_allocate(
      allocator, MEMORY_FILES_MOST * (sizeof(*entries) + sizeof(opened)));
  if (entries == NULL) return ls_out_of_memory();
  char *at = (char *)(entries + MEMORY_FILES_MOST);
  for (size_t i = 0; i < files->count; ++i) {
    const memory_file *file = &files->items[i];
    if (!is_right_inside(file, path)) continue;
    strcpy(at, file->path + strlen(path) + 1);
    entries[(*out_count)++] = (ls_file_entry){at, file->folder};
    at += strlen(at) + 1;
  }
  qsort(entries, *out_count, sizeof(*entries), by_name);
  *out_entries = entries;
  return ls_ok();
}

static ls_status move(memory_files *files, const char *from, const char *to) {
  if (memory_files_find(files, from) == NULL)
    return ls_not_found("there is no '%s'", from);
  if (memory_files_find(files, to) != NULL)
    LS_RETURN_IF_ERROR(take_away(files, to));
  memory_file *file = find_or_add(files, from);
  snprintf(file->path, sizeof(file->path), "%s", to);
  return ls_ok();
}

static ls_status rename_one(void *user, const char *from, const char *to) {
  return fails(user) ? refuse("move", from) : move(user, from, to);
}

static ls_status create(void *user, const char *path, bool join,
                        void **out_file) {
  *out_file = NULL;
  if (fails(user)) return refuse("write", path);
  LS_RETURN_IF_ERROR(open_path(path, ".tmp", join, out_file));
  const char *aside = ((const opened *)*out_file)->path;
  const bool is_there = memory_files_find(user, aside) != NULL;
  ls_status status = ls_ok();
  if (join && !is_there) status = ls_not_found("nobody writes '%s'", path);
  if (!join && is_there)
    status = ls_failed_precondition("'%s' is being written", path);
  if (ls_status_is_ok(status) && !join) status = add(user, aside, "", 0);
  if (ls_status_is_ok(status)) return status;
  free(*out_file);
  *out_file = NULL;
  return status;
}

static ls_status write_at(void *user, void *handle, int64_t offset,
                          const void *data, size_t size) {
  const opened *self = handle;
  const bool refused = fails(user);
  if (refused) size /= 2;
  memory_file *file = find_or_add(user, self->path);
  if (file == NULL) return refuse("write", self->path);
  const size_t end = (size_t)offset + size;
  if (end > file->size) {
    char *grown = realloc(file->data, end + 1);
    if (grown == NULL) return refuse("write", self->path);
    memset(grown + file->size, 0, end + 1 - file->size);
    file->data = grown;
    file->size = end;
  }
  if (size > 0) memcpy(file->data + offset, data, size);
  return refused ? refuse("write", self->path) : ls_ok();
}

static ls_status sync_file(void *user, void *handle) {
  return fails(user) ? refuse("sync", ((opened *)handle)->path) : ls_ok();
}

static ls_status finish(void *user, void *handle, bool keep) {
  opened *self = handle;
  if (self == NULL) return ls_ok();
  const bool refused = keep && fails(user);
  char path[160];
  snprintf(path, sizeof(path), "%s", self->path);
  path[strlen(path) - strlen(".tmp")] = '\0';
  ls_status status = refused ? refuse("write", path) : ls_ok();
  if (!self->joined && keep && !refused) {
    status = move(user, self->path, path);
  } else if (!self->joined) {
    status = ls_status_join(status, take_away(user, self->path));
  }
  free(self);
  return status;
}

ls_file_system memory_files_system(memory_files *files) {
  return (ls_file_system){.read = read,
                          .exists = exists,
                          .write = write,
                          .append = append,
                          .make_directories = make_directories,
                          .remove = remove_one,
                          .lock = lock,
                          .unlock = unlock,
                          .user = files,
                          .open = open_parts,
                          .read_at = read_at,
                          .close = close_file,
                          .list = list,
                          .rename = rename_one,
                          .create = create,
                          .write_at = write_at,
                          .sync = sync_file,
                          .finish = finish};
}
