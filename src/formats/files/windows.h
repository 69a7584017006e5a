// SPDX-License-Identifier: Apache-2.0
// Windows: parts of files in memory, for elements that will all be read soon,
// in any order, as by a shuffle by blocks. Who comes while one is being read
// helps to read it, part by part; who finds no window, or not yet what he wants
// of it, reads for himself. So nobody waits for anybody.
#ifndef LS_FORMATS_FILES_WINDOWS_H_
#define LS_FORMATS_FILES_WINDOWS_H_

#include "base/threads/threads.h"
#include "formats/files/source.h"

enum {
  LS_WINDOWS = 4,                  // That a data set has at most,
  LS_FILE_WINDOW_MOST = 16 << 20,  // of so many bytes each,
  LS_FILE_WINDOW_PART = 256 << 10  // read in such parts: at most 64.
};

typedef enum ls_file_window_state {
  LS_FILE_WINDOW_EMPTY,
  LS_FILE_WINDOW_BEING_READ,
  LS_FILE_WINDOW_READ
} ls_file_window_state;

typedef struct ls_file_window {
  ls_file_window_state state;
  const ls_source_file *file;
  int64_t first, count;  // Records of the file.
  char *bytes;           // From where record `first` begins.
  size_t size;           // Of these records.
  size_t capacity;       // Of `bytes`, which is kept for the next records.
  int parts_begun, parts_done;
  uint64_t there;  // Parts that were read, a bit each. Atomic.
  int64_t taken;   // Records that were read from it.
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

// The window of these records, to read some from it, `wanted` about; it stays
// until it is left. What nobody has begun to read of it is read now. A new one
// needs room: that of one most of whose records have been read. NULL: there is
// none, for whatever reason.
ls_file_window *ls_windows_enter(ls_windows *windows,
                                 const ls_source_file *file, int64_t first,
                                 int64_t count, int64_t wanted);
// Where bytes of the file are in a window; NULL: they are not there, or not
// yet.
char *ls_file_window_find(const ls_file_window *window, int64_t offset,
                          size_t size);
void ls_windows_leave(ls_windows *windows,
                      ls_file_window *window);  // NULL is fine.

#endif  // LS_FORMATS_FILES_WINDOWS_H_
