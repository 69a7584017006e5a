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
static bool fails(memory_files *files) { return --files->fail_at == 0; }

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
  char path[64];
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

ls_file_system memory_files_system(memory_files *files) {
  return (ls_file_system){.read = read,
                          .exists = exists,
                          .write = write,
                          .append = append,
                          .make_directories = make_directories,
                          .remove = remove_one,
                          .lock = lock,
                          .unlock = unlock,
                          .user = files};
}
