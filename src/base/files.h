// SPDX-License-Identifier: Apache-2.0
// Open files, as readers of data in parts see them.
//
// A file is read in ranges, by any threads at the same time, and never mapped:
// one that another process cuts off while it is read is DATA_LOSS, not a
// signal. Bytes in memory are a file, too, so that whatever reads a file can be
// tried on any bytes.
//
// Threads: any number may read an open file at the same time.
#ifndef LS_BASE_FILES_H_
#define LS_BASE_FILES_H_

#include "base/export.h"
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "lockstep/object.h"

typedef struct ls_file_pool ls_file_pool;

typedef struct ls_file {
  const char *path;  // Or what messages call the bytes. The file's own.
  int64_t size;      // When it was opened.
  int64_t modified;  // Nanoseconds since 1970; 0 for bytes in memory.
  // Private from here on.
  ls_allocator *allocator;
  ls_file_system files;  // As of the runtime it was opened under.
  void *handle;          // NULL: not open now, its pool's affair.
  const char *bytes;     // Not NULL: a file in memory.
  ls_file_pool *pool;
  struct ls_file *newer, *older;  // By its last use, of the pool's that are
  int readers;                    // open. How many read it now.
} ls_file;

// Opens a file through the runtime's file system. The caller closes it.
//   LS_NOT_FOUND         no such file.
//   LS_INVALID_ARGUMENT  no regular file.
//   LS_UNIMPLEMENTED     the runtime's file system does not read in parts.
LS_MUST_USE ls_status ls_file_open(ls_runtime *runtime, const char *path,
                                   ls_file **out_file);
// The same of one of many: it is open while it is read and as long as the pool
// has room for it. `pool` may be NULL.
//   LS_DATA_LOSS  from reading: the file has another size or time now.
LS_PRIVATE_API LS_MUST_USE ls_status ls_file_open_in(ls_file_pool *pool,
                                                     ls_runtime *runtime,
                                                     const char *path,
                                                     ls_file **out_file);
// Bytes of the caller's, lent, as a file. `data` may be NULL if there are none.
LS_PRIVATE_API LS_MUST_USE ls_status ls_file_open_bytes(ls_allocator *allocator,
                                                        const char *name,
                                                        const void *data,
                                                        size_t size,
                                                        ls_file **out_file);
LS_PRIVATE_API void ls_file_close(ls_file *file);  // NULL is fine.
LS_OWNED_POINTER(ls_file, ls_file_close)

// All `size` bytes from `offset` on.
//   LS_DATA_LOSS  the file ends before: names file and offset.
LS_PRIVATE_API LS_MUST_USE ls_status ls_file_read(const ls_file *file,
                                                  int64_t offset, void *data,
                                                  size_t size);

// A folder in a run folder.
//   LS_INVALID_ARGUMENT  it is a link, which may lead to anybody's folder.
LS_MUST_USE ls_status ls_folder_check_own(ls_runtime *runtime,
                                          const char *path);
// Makes it, too, and those above it. OK if it is there.
LS_MUST_USE ls_status ls_folder_make_own(ls_runtime *runtime, const char *path);

// ---- Many files ------------------------------------------------------------
// A system lets a program have some hundreds of files open at once; data sets
// may have thousands.
enum { LS_FILES_OPEN = 64 };
// Keeps up to `most` of its files open. The caller owns a reference, each of
// its files another one.
LS_PRIVATE_API LS_MUST_USE ls_status
ls_file_pool_create(ls_allocator *allocator, int most, ls_file_pool **out_pool);
LS_PRIVATE_API void ls_file_pool_release(ls_file_pool *pool);  // NULL is fine.
LS_OWNED_POINTER(ls_file_pool, ls_file_pool_release)
int ls_file_pool_open(ls_file_pool *pool);  // How many are open now.

// Between hold and drop a file is open.
LS_MUST_USE ls_status ls_file_pool_hold(ls_file *file);
void ls_file_pool_drop(ls_file *file);
// Takes a file out that is closed for good.
void ls_file_pool_forget(ls_file *file);
// Adds one that has just been opened, and retains the pool for it.
void ls_file_pool_add(ls_file_pool *pool, ls_file *file);

// ---- Patterns --------------------------------------------------------------
// Returns true if a name fits a pattern: `*` any characters, `?` one, `[a-z]`
// and
// `[!a-z]` one of a set (`[*]` is a star). A `*` or `?` at the start takes no
// point, so that hidden files must be named.
bool ls_pattern_fits(const char *pattern, const char *name);
// Returns true if a text has characters other than plain ones.
bool ls_pattern_is(const char *text);

// The regular files that a path with a pattern as its last component names,
// sorted: one block of the caller's, texts included. A path without a pattern
// names itself, whether it is there or not.
//   LS_NOT_FOUND         none fits; the message has pattern and folder.
//   LS_INVALID_ARGUMENT  a pattern in another component.
LS_PRIVATE_API LS_MUST_USE ls_status ls_files_match(ls_runtime *runtime,
                                                    const char *pattern,
                                                    ls_allocator *allocator,
                                                    const char ***out_paths,
                                                    size_t *out_count);

// ---- Names -----------------------------------------------------------------
// Users' names that become parts of paths: one that has a '/' or is ".." would
// lead out of the folder that it is to stand in.

// Checks a name; `noun` is how a message calls it: "the name of an exporter".
//   LS_INVALID_ARGUMENT  it is no name of one file or folder: NULL, empty, ".",
//                        "..", or with a '/'.
LS_MUST_USE ls_status ls_file_name_check(const char *noun, const char *name);
// Checks a path inside of `folder`, whose parts all are such names.
LS_MUST_USE ls_status ls_inner_path_check(const char *noun, const char *folder,
                                          const char *path);

#endif  // LS_BASE_FILES_H_
