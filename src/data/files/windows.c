// SPDX-License-Identifier: Apache-2.0
#include "data/files/windows.h"

ls_status ls_windows_init(ls_windows *windows, ls_allocator *allocator) {
  windows->allocator = allocator;
  return ls_mutex_init(&windows->lock);
}

void ls_windows_deinit(ls_windows *windows) {
  for (size_t i = 0; i < LS_WINDOWS; ++i)
    ls_release(windows->allocator, windows->all[i].bytes);
  ls_mutex_deinit(&windows->lock);
}

// ---- With the lock held ----------------------------------------------------
static ls_window *find(ls_windows *self, const ls_source_file *file,
                       int64_t first, int64_t count) {
  for (size_t i = 0; i < LS_WINDOWS; ++i) {
    ls_window *it = &self->all[i];
    if (it->state != LS_WINDOW_EMPTY && it->file == file &&
        it->first == first && it->count == count)
      return it;
  }
  return NULL;
}

// A window for others: an empty one, or the one of which most has been read.
// One that is half unread stays, as it would soon be read again; but not
// forever, as who began it may have gone elsewhere.
static ls_window *make_room(ls_windows *self, int64_t wanted) {
  ls_window *best = NULL;
  double most = 0;
  for (size_t i = 0; i < LS_WINDOWS; ++i) {
    ls_window *it = &self->all[i];
    if (it->state == LS_WINDOW_EMPTY) return it;
    if (it->state != LS_WINDOW_READ || it->users > 0) continue;
    const double share = (double)it->taken / (double)it->count;
    if (best != NULL && share <= most) continue;
    best = it;
    most = share;
  }
  if (best == NULL || most >= 0.5) return best;
  best->taken += wanted;
  return NULL;
}

// ---- Reading ---------------------------------------------------------------
// Without the lock: the window is this thread's until it is read.
static bool read_bytes(ls_windows *self, ls_window *it) {
  const int64_t *at = it->file->offsets.items + it->first;
  const size_t size = (size_t)(at[it->count] - at[0]);
  if (size > it->capacity) {
    ls_release(self->allocator, it->bytes);
    it->bytes = ls_allocate(self->allocator, size);
    it->capacity = it->bytes == NULL ? 0 : size;
  }
  if (it->bytes == NULL) return false;
  const ls_status status = ls_file_read(it->file->file, at[0], it->bytes, size);
  const bool done = ls_status_is_ok(status);
  // Who reads the record that is not there says so.
  ls_status_free(status);
  return done;
}

ls_window *ls_windows_enter(ls_windows *self, const ls_source_file *file,
                            int64_t first, int64_t count, int64_t wanted) {
  enum { LEAST = 128 };  // Below, a window is more work than it saves.
  const int64_t *at = file->offsets.items + first;
  if (count < LEAST || at[count] - at[0] > LS_WINDOW_MOST) return NULL;
  ls_mutex_lock(&self->lock);
  ls_window *it = find(self, file, first, count);
  if (it == NULL && (it = make_room(self, wanted)) != NULL) {
    *it = (ls_window){.state = LS_WINDOW_BEING_READ,
                      .file = file,
                      .first = first,
                      .count = count,
                      .bytes = it->bytes,
                      .capacity = it->capacity};
    ls_mutex_unlock(&self->lock);
    const bool done = read_bytes(self, it);
    ls_mutex_lock(&self->lock);
    it->state = done ? LS_WINDOW_READ : LS_WINDOW_EMPTY;
  }
  if (it != NULL && it->state != LS_WINDOW_READ) it = NULL;
  if (it != NULL) {
    ++it->users;
    it->taken += wanted;
  }
  ls_mutex_unlock(&self->lock);
  return it;
}

void ls_windows_leave(ls_windows *self, ls_window *window) {
  if (window == NULL) return;
  ls_mutex_lock(&self->lock);
  --window->users;
  ls_mutex_unlock(&self->lock);
}
