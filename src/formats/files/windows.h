// SPDX-License-Identifier: Apache-2.0
// Windows: ranges of files in memory, for elements that will all be read soon,
// in any order, as by a shuffle by blocks. Threads that need the same window
// read its parts in parallel; a thread that finds no window, or not yet the
// bytes it needs, reads for itself. So no thread waits for another.
#ifndef LS_FORMATS_FILES_WINDOWS_H_
#define LS_FORMATS_FILES_WINDOWS_H_

#include "base/threads/threads.h"
#include "formats/files/source.h"

enum {
  LS_WINDOWS = 4,                  // Number of windows per data set.
  LS_FILE_WINDOW_MOST = 16 << 20,  // Largest size of a window.
  LS_FILE_WINDOW_PART = 256 << 10  // Size of a part; at most 64 parts.
};

typedef enum ls_file_window_state {
  LS_FILE_WINDOW_EMPTY,
  LS_FILE_WINDOW_BEING_READ,
  LS_FILE_WINDOW_READ
} ls_file_window_state;

typedef struct ls_file_window {
  ls_file_window_state state;
  const ls_source_file *file;
  int64_t first, count;  // Range of records of the file.
  char *bytes;           // Bytes from record `first` on.
  size_t size;           // Size in bytes of the window's records.
  size_t capacity;       // Capacity of `bytes`, which is reused.
  int parts_begun, parts_done;
  uint64_t there;  // A bit for each part that was read. Atomic.
  int64_t taken;   // Number of records read from the window.
  int users;
} ls_file_window;

typedef struct ls_windows {
  ls_allocator *allocator;
  ls_mutex lock;
  ls_file_window all[LS_WINDOWS];
} ls_windows;

LS_MUST_USE ls_status ls_windows_init(ls_windows *windows,
                                      ls_allocator *allocator);
void ls_windows_deinit(ls_windows *windows);

// Returns the window of these records, to read about `wanted` of them; call
// ls_windows_leave afterwards. Reads the parts that no thread has begun. A new
// window replaces one whose records have mostly been read. NULL: none is free,
// or there is no memory.
ls_file_window *ls_windows_enter(ls_windows *windows,
                                 const ls_source_file *file, int64_t first,
                                 int64_t count, int64_t wanted);
// Returns bytes of the file in a window; NULL if they are not there (yet).
char *ls_file_window_find(const ls_file_window *window, int64_t offset,
                          size_t size);
void ls_windows_leave(ls_windows *windows,
                      ls_file_window *window);  // Accepts NULL.

#endif  // LS_FORMATS_FILES_WINDOWS_H_
