// SPDX-License-Identifier: Apache-2.0
// Open files, for readers of data in parts.
//
// A file is read in ranges, by any thread, and never mapped: truncation by
// another process is DATA_LOSS, not a signal. Bytes in memory are a file, too,
// so that readers of files can be tested on any bytes.
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
  const char *path;  // The path, or a name for bytes in memory. Owned.
  int64_t size;      // Size when the file was opened.
  int64_t modified;  // Nanoseconds since 1970; 0 for bytes in memory.
  // The fields below are private.
  ls_allocator *allocator;
  ls_file_system files;  // The file system of the runtime.
  void *handle;          // NULL: closed now by its pool.
  const char *bytes;     // The file is these bytes in memory; NULL: on disk.
  ls_file_pool *pool;
  struct ls_file *newer, *older;  // Neighbours in the pool's list, by last use.
  int readers;                    // Number of reads under way.
} ls_file;

// Opens a file through the runtime's file system. The caller closes it.
//   LS_NOT_FOUND         no such file.
//   LS_INVALID_ARGUMENT  no regular file.
//   LS_UNIMPLEMENTED     the runtime's file system does not read in parts.
LS_MUST_USE ls_status ls_file_open(ls_runtime *runtime, const char *path,
                                   ls_file **out_file);
// Returns true if two paths name one file of the system: a name in one folder,
// however the folder is written. The file need not exist.
bool ls_files_are_same(const char *one, const char *other);
// Opens a file that its pool opens and closes as needed; `pool` may be NULL.
//   LS_DATA_LOSS  when reading: the file's size or time has changed.
LS_PRIVATE_API LS_MUST_USE ls_status ls_file_open_in(ls_file_pool *pool,
                                                     ls_runtime *runtime,
                                                     const char *path,
                                                     ls_file **out_file);
// Makes a file of bytes that the caller lends. `data` may be NULL if `size` is
// 0.
LS_PRIVATE_API LS_MUST_USE ls_status ls_file_open_bytes(ls_allocator *allocator,
                                                        const char *name,
                                                        const void *data,
                                                        size_t size,
                                                        ls_file **out_file);
LS_PRIVATE_API void ls_file_close(ls_file *file);  // Accepts NULL.
LS_OWNED_POINTER(ls_file, ls_file_close)

// Reads all `size` bytes from `offset` on.
//   LS_DATA_LOSS  the file ends earlier: names file and offset.
LS_PRIVATE_API LS_MUST_USE ls_status ls_file_read(const ls_file *file,
                                                  int64_t offset, void *data,
                                                  size_t size);

// Checks that a folder in a run folder is no link.
//   LS_INVALID_ARGUMENT  it is a link, which may lead to another user's folder.
LS_MUST_USE ls_status ls_folder_check_own(ls_runtime *runtime,
                                          const char *path);
// Makes the folder and its parents; OK if the folder exists.
LS_MUST_USE ls_status ls_folder_make_own(ls_runtime *runtime, const char *path);

// Removes an entry of a folder, with its contents. Removes a link to a folder,
// not its target.
LS_MUST_USE ls_status ls_folder_remove_entry(const ls_file_system *files,
                                             const char *folder,
                                             const ls_file_entry *entry);

// ---- Many files ------------------------------------------------------------
// Files that a pool keeps open by default: systems let a program have some
// hundreds open at once, while data sets may have thousands.
enum { LS_FILES_OPEN = 64 };
// Creates a pool that keeps up to `most` files open. The caller owns a
// reference, and each file of the pool another.
LS_PRIVATE_API LS_MUST_USE ls_status
ls_file_pool_create(ls_allocator *allocator, int most, ls_file_pool **out_pool);
LS_PRIVATE_API void ls_file_pool_release(ls_file_pool *pool);  // Accepts NULL.
LS_OWNED_POINTER(ls_file_pool, ls_file_pool_release)
int ls_file_pool_open(ls_file_pool *pool);  // Number of open files.

// Opens a file of a pool for reading; it stays open until the matching
// ls_file_pool_drop.
LS_MUST_USE ls_status ls_file_pool_hold(ls_file *file);
void ls_file_pool_drop(ls_file *file);
// Removes a file that is being destroyed.
void ls_file_pool_forget(ls_file *file);
// Adds a file that has just been opened; it retains the pool.
void ls_file_pool_add(ls_file_pool *pool, ls_file *file);

// ---- Patterns --------------------------------------------------------------
// Returns true if a name matches a pattern: `*` any characters, `?` one,
// `[a-z]` and `[!a-z]` one of a set (`[*]` is a star). A `*` or `?` at the
// start does not match a dot, so that hidden files must be named.
bool ls_pattern_fits(const char *pattern, const char *name);

// Lists the regular files that match a path whose last component is a pattern,
// sorted: one block that the caller owns, texts included. A path without a
// pattern gives itself, existing or not, and so does the path of a file whose
// name only looks like a pattern.
//   LS_NOT_FOUND         no match; the message has pattern and folder.
//   LS_INVALID_ARGUMENT  a pattern in another component, of which there is no
//                        folder.
LS_PRIVATE_API LS_MUST_USE ls_status ls_files_match(ls_runtime *runtime,
                                                    const char *pattern,
                                                    ls_allocator *allocator,
                                                    const char ***out_paths,
                                                    size_t *out_count);

// ---- Names -----------------------------------------------------------------
// Checks names of users that become parts of paths: a name with a '/' or ".."
// would lead out of the folder.

// Checks a name; messages call it `noun`, such as "the name of an exporter".
//   LS_INVALID_ARGUMENT  not the name of a file or folder: NULL, empty, ".",
//                        "..", or with a '/'.
LS_MUST_USE ls_status ls_file_name_check(const char *noun, const char *name);
// Checks a path relative to `folder`: each of its parts must be a plain name.
LS_MUST_USE ls_status ls_inner_path_check(const char *noun, const char *folder,
                                          const char *path);

// ---- Writing ---------------------------------------------------------------
// A file that is written from its start to its end, and becomes visible when it
// is whole. Thread-compatible.
typedef struct ls_file_writer {
  ls_file_system files;
  void *handle;
  int64_t written;  // Bytes written so far.
  bool failed;      // A write has failed; the file will not be kept.
} ls_file_writer;

// Begins a file, which the caller ends.
//   LS_UNIMPLEMENTED  the runtime's file system does not write in parts.
LS_PRIVATE_API LS_MUST_USE ls_status ls_file_writer_begin(
    ls_file_writer *writer, ls_runtime *runtime, const char *path);
// Appends bytes.
LS_PRIVATE_API LS_MUST_USE ls_status ls_file_writer_add(ls_file_writer *writer,
                                                        const void *data,
                                                        size_t size);
// Ends the file; it becomes visible if `keep`, `status` is OK and no write has
// failed. Returns the first failure; takes over `status`.
LS_PRIVATE_API LS_MUST_USE ls_status ls_file_writer_end(ls_file_writer *writer,
                                                        bool keep,
                                                        ls_status status);

#endif  // LS_BASE_FILES_H_
