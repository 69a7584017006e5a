// SPDX-License-Identifier: Apache-2.0
#include "formats/files/source.h"

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
static ls_file_window *windows_find(ls_windows *self,
                                    const ls_source_file *file, int64_t first,
                                    int64_t count) {
  for (size_t i = 0; i < LS_WINDOWS; ++i) {
    ls_file_window *window = &self->all[i];
    if (window->state != LS_FILE_WINDOW_EMPTY && window->file == file &&
        window->first == first && window->count == count)
      return window;
  }
  return NULL;
}

// Chooses a window to reuse: an empty one, or the one from which most records
// were read. A window that is less than half read is kept, as it would soon be
// needed again, but not forever, as its readers may have moved on.
static ls_file_window *windows_make_room(ls_windows *self, int64_t wanted) {
  ls_file_window *best = NULL;
  double most = 0;
  for (size_t i = 0; i < LS_WINDOWS; ++i) {
    ls_file_window *window = &self->all[i];
    if (window->users > 0 || window->state == LS_FILE_WINDOW_BEING_READ)
      continue;
    if (window->state == LS_FILE_WINDOW_EMPTY) return window;
    const double share = (double)window->taken / (double)window->count;
    if (best != NULL && share <= most) continue;
    best = window;
    most = share;
  }
  if (best == NULL || most >= 0.5) return best;
  best->taken += wanted;
  return NULL;
}

// ---- Reading ---------------------------------------------------------------
static int64_t bytes_of(const ls_source_file *file, int64_t first,
                        int64_t count) {
  return ls_offsets_at(&file->offsets, first + count) -
         ls_offsets_at(&file->offsets, first);
}

// Reassigns the window to these records; returns false without memory.
static bool windows_begin(ls_windows *self, ls_file_window *window,
                          const ls_source_file *file, int64_t first,
                          int64_t count) {
  ls_file_window fresh = {.state = LS_FILE_WINDOW_BEING_READ,
                          .file = file,
                          .first = first,
                          .count = count,
                          .bytes = window->bytes,
                          .size = (size_t)bytes_of(file, first, count),
                          .capacity = window->capacity};
  if (fresh.size > fresh.capacity) {
    ls_release(self->allocator, fresh.bytes);
    fresh.bytes = ls_allocate(self->allocator, fresh.size);
    fresh.capacity = fresh.bytes == NULL ? 0 : fresh.size;
  }
  if (fresh.bytes == NULL) fresh.state = LS_FILE_WINDOW_EMPTY;
  *window = fresh;
  return fresh.bytes != NULL;
}

// Reads a part; the lock is held before and after. A part that fails counts as
// missing: the reader of its records reports the error.
static void windows_read_part(ls_windows *self, ls_file_window *window) {
  const int part = window->parts_begun++;
  const size_t begin = (size_t)part * LS_FILE_WINDOW_PART;
  const size_t left = window->size - begin;
  const size_t size = left < LS_FILE_WINDOW_PART ? left : LS_FILE_WINDOW_PART;
  const int64_t at =
      ls_offsets_at(&window->file->offsets, window->first) + (int64_t)begin;
  ls_mutex_unlock(&self->lock);
  const ls_status status =
      ls_file_read(window->file->file, at, window->bytes + begin, size);
  if (ls_status_is_ok(status))
    __atomic_fetch_or(&window->there, (uint64_t)1 << part, __ATOMIC_RELEASE);
  ls_status_free(status);
  ls_mutex_lock(&self->lock);
  ++window->parts_done;
}

ls_file_window *ls_windows_enter(ls_windows *self, const ls_source_file *file,
                                 int64_t first, int64_t count, int64_t wanted) {
  enum { LEAST = 128 };  // For fewer records a window is not worthwhile.
  if (count < LEAST || bytes_of(file, first, count) > LS_FILE_WINDOW_MOST)
    return NULL;
  ls_mutex_lock(&self->lock);
  ls_file_window *window = windows_find(self, file, first, count);
  if (window == NULL && (window = windows_make_room(self, wanted)) != NULL &&
      !windows_begin(self, window, file, first, count))
    window = NULL;
  if (window != NULL) {
    const int parts =
        (int)((window->size + LS_FILE_WINDOW_PART - 1) / LS_FILE_WINDOW_PART);
    ++window->users;
    window->taken += wanted;
    while (window->parts_begun < parts)
      windows_read_part(self, window);
    // If a part is missing, later readers try again in another window.
    const uint64_t there = __atomic_load_n(&window->there, __ATOMIC_RELAXED);
    if (window->parts_done == parts)
      window->state = __builtin_popcountll(there) == parts
                          ? LS_FILE_WINDOW_READ
                          : LS_FILE_WINDOW_EMPTY;
  }
  ls_mutex_unlock(&self->lock);
  return window;
}

char *ls_file_window_find(const ls_file_window *window, int64_t offset,
                          size_t size) {
  if (window == NULL || size == 0) return NULL;
  const size_t begin =
      (size_t)(offset - ls_offsets_at(&window->file->offsets, window->first));
  const size_t first = begin / LS_FILE_WINDOW_PART;
  const size_t last = (begin + size - 1) / LS_FILE_WINDOW_PART;
  const uint64_t parts = (~(uint64_t)0 >> (63 - (last - first))) << first;
  const uint64_t there = __atomic_load_n(&window->there, __ATOMIC_ACQUIRE);
  return (there & parts) == parts ? window->bytes + begin : NULL;
}

void ls_windows_leave(ls_windows *self, ls_file_window *window) {
  if (window == NULL) return;
  ls_mutex_lock(&self->lock);
  --window->users;
  ls_mutex_unlock(&self->lock);
}
