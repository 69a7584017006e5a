// SPDX-License-Identifier: Apache-2.0
// File pool: keeps open the files that are being read, and the most recently
// read ones. A file that is reopened must be unchanged.
#include "base/files.h"
#include "base/threads/locked.h"

struct ls_file_pool {
  ls_object object;
  ls_allocator *allocator;
  int most;
  ls_mutex lock;  // Guards the fields below and the files' list fields.
  ls_file *newest, *oldest;
  int open;
};

static void destroy_pool(ls_object *object) {
  ls_file_pool *pool = (ls_file_pool *)object;
  ls_mutex_deinit(&pool->lock);
  ls_release(pool->allocator, pool);
}

static const ls_object_type pool_type = {.name = "file pool",
                                         .destroy = destroy_pool};

ls_status ls_file_pool_create(ls_allocator *allocator, int most,
                              ls_file_pool **out_pool) {
  *out_pool = NULL;
  LS_NEW_OR_RETURN(allocator, ls_file_pool, pool);
  const ls_status status = ls_mutex_init(&pool->lock);
  if (!ls_status_is_ok(status)) {
    ls_release(allocator, pool);
    return status;
  }
  ls_object_init(&pool->object, &pool_type);
  pool->allocator = allocator;
  pool->most = most;
  *out_pool = pool;
  return ls_ok();
}

void ls_file_pool_release(ls_file_pool *pool) { ls_object_release(pool); }

int ls_file_pool_open(ls_file_pool *pool) {
  return LS_LOCKED(&pool->lock, pool->open);
}

// ---- The list of open files; the pool's lock is held -----------------------
static void put_first(ls_file_pool *pool, ls_file *file) {
  file->newer = NULL;
  file->older = pool->newest;
  if (pool->newest != NULL) pool->newest->newer = file;
  pool->newest = file;
  if (pool->oldest == NULL) pool->oldest = file;
}

static void file_pool_take_out(ls_file_pool *pool, ls_file *file) {
  if (file->newer != NULL)
    file->newer->older = file->older;
  else
    pool->newest = file->older;
  if (file->older != NULL)
    file->older->newer = file->newer;
  else
    pool->oldest = file->newer;
}

static void close_file(ls_file_pool *pool, ls_file *file) {
  file_pool_take_out(pool, file);
  file->files.close(file->files.user, file->handle);
  file->handle = NULL;
  --pool->open;
}

// Closes unused files, the least recently used first, until one more fits.
static void file_pool_make_room(ls_file_pool *pool) {
  for (ls_file *file = pool->oldest;
       file != NULL && pool->open >= pool->most;) {
    ls_file *newer = file->newer;
    if (file->readers == 0) close_file(pool, file);
    file = newer;
  }
}

// ---- Files -----------------------------------------------------------------
void ls_file_pool_add(ls_file_pool *pool, ls_file *file) {
  file->pool = ls_object_retain(pool);
  ls_mutex_lock(&pool->lock);
  file_pool_make_room(pool);
  put_first(pool, file);
  ++pool->open;
  ls_mutex_unlock(&pool->lock);
}

void ls_file_pool_forget(ls_file *file) {
  ls_file_pool *pool = file->pool;
  ls_mutex_lock(&pool->lock);
  if (file->handle != NULL) close_file(pool, file);
  ls_mutex_unlock(&pool->lock);
  ls_object_release(pool);
}

static ls_status open_again(ls_file *file) {
  ls_file_info info = {0};
  LS_RETURN_IF_ERROR(
      file->files.open(file->files.user, file->path, &file->handle, &info));
  if (info.size == file->size && info.modified == file->modified)
    return ls_ok();
  file->files.close(file->files.user, file->handle);
  file->handle = NULL;
  return LS_STATUS(LS_DATA_LOSS,
                   "'%s' has changed since it was opened first: it had %lld "
                   "bytes then, and has %lld now",
                   file->path, (long long)file->size, (long long)info.size);
}

ls_status ls_file_pool_hold(ls_file *file) {
  ls_file_pool *pool = file->pool;
  ls_status status = ls_ok();
  ls_mutex_lock(&pool->lock);
  if (file->handle == NULL) {
    file_pool_make_room(pool);
    status = open_again(file);
    pool->open += ls_status_is_ok(status);
  } else {
    file_pool_take_out(pool, file);
  }
  if (ls_status_is_ok(status)) {
    put_first(pool, file);
    ++file->readers;
  }
  ls_mutex_unlock(&pool->lock);
  return status;
}

void ls_file_pool_drop(ls_file *file) {
  ls_mutex_lock(&file->pool->lock);
  --file->readers;
  ls_mutex_unlock(&file->pool->lock);
}
