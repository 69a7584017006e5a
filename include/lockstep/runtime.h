// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// The runtime: the root of everything, and what "per process" means here.
//
// It owns the log sink, clock, environment, file system, allocator and the
// worker threads, all replaceable, and outlives whatever is made under it. A
// thread works under one runtime at a time: the one it made current, else the
// default one, which is made at first use.
//
// Threads: any number of threads may work under a runtime at the same time; one
// creates it, and one destroys it when nobody works under it.
#ifndef LOCKSTEP_RUNTIME_H_
#define LOCKSTEP_RUNTIME_H_

#include <stdint.h>

#include "lockstep/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_runtime ls_runtime;
typedef struct ls_allocator ls_allocator;  // lockstep/allocator.h

typedef enum ls_log_level {
  LS_LOG_ERROR = 0,
  LS_LOG_WARNING = 1,
  LS_LOG_INFO = 2,
  LS_LOG_DEBUG = 3,
} ls_log_level;

// One log line. `source` is the part of the library that speaks.
typedef struct ls_log_line {
  ls_log_level level;
  const char *source;
  const char *text;  // No newline at its end.
} ls_log_line;

// Time, in nanoseconds. Replaceable, so that a test waits for nothing. Any
// thread looks at it.
typedef struct ls_clock {
  int64_t (*now)(void *user);   // Monotonic.
  int64_t (*wall)(void *user);  // Since 1970.
  void (*sleep)(void *user, int64_t nanos);
  void *user;
} ls_clock;

// What a file was when it was opened.
typedef struct ls_file_info {
  int64_t size;      // In bytes.
  int64_t modified;  // Nanoseconds since 1970.
} ls_file_info;

// What stands in a folder.
typedef struct ls_file_entry {
  const char *name;
  bool is_folder;  // Else a regular file.
} ls_file_entry;

// Files. Paths are the system's. Each call but the first two replaces or
// makes, as its name says; all give NOT_FOUND, PERMISSION_DENIED or
// UNAVAILABLE with the path and the system's words. The system's read and write
// regular files only: INVALID_ARGUMENT for a fifo or a device. They read what a
// link names, and write and append through none: a link in a folder that comes
// from elsewhere may name any file.
typedef struct ls_file_system {
  // The whole file; the caller owns `*out_data` and releases it with the
  // allocator it gave. One byte beyond the end is 0. A file of more than `most`
  // bytes (SIZE_MAX: any) is INVALID_ARGUMENT.
  ls_status (*read)(void *user, const char *path, size_t most,
                    ls_allocator *allocator, char **out_data, size_t *out_size);
  ls_status (*exists)(void *user, const char *path, bool *out_exists);
  // Replaces the file: written aside, synced, renamed. It keeps its mode.
  ls_status (*write)(void *user, const char *path, const void *data,
                     size_t size);
  ls_status (*append)(void *user, const char *path, const void *data,
                      size_t size);
  ls_status (*make_directories)(void *user, const char *path);
  ls_status (*remove)(void *user, const char *path);
  // Makes the file and holds it until `unlock` takes it away; both NULL: nobody
  // is kept out. The lock of a process that has ended is free.
  //   FAILED_PRECONDITION  held already: names the holder.
  ls_status (*lock)(void *user, const char *path, void **out_lock);
  void (*unlock)(void *user, void *lock);  // NULL is fine.
  void *user;

  // Files in parts; a file system that has none of these leaves them NULL, and
  // who needs one is told UNIMPLEMENTED.
  //
  // Opens a file to be read in parts, by any threads at the same time.
  ls_status (*open)(void *user, const char *path, void **out_file,
                    ls_file_info *out_info);
  // Up to `size` bytes from `offset` on: fewer only where the file ends now.
  ls_status (*read_at)(void *user, void *file, int64_t offset, void *data,
                       size_t size, size_t *out_size);
  void (*close)(void *user, void *file);  // NULL is fine.
  // The folders and regular files in a folder, links as what they name, sorted
  // by the bytes of their names: one block of the caller's, names included. An
  // empty folder is a block too.
  ls_status (*list)(void *user, const char *path, ls_allocator *allocator,
                    ls_file_entry **out_entries, size_t *out_count);
  // Moves a file or folder; a file that is there is replaced, for good.
  ls_status (*rename)(void *user, const char *from, const char *to);
  // Begins to write a file aside, empty; nobody sees it until `finish`.
  // FAILED_PRECONDITION if another has begun to write the same one. `join`:
  // opens what another, even another process, has created and not yet finished,
  // to write a part of it; NOT_FOUND if there is none.
  ls_status (*create)(void *user, const char *path, bool join, void **out_file);
  // Bytes that nobody writes are 0.
  ls_status (*write_at)(void *user, void *file, int64_t offset,
                        const void *data, size_t size);
  // What was written through this file is on the disk.
  ls_status (*sync)(void *user, void *file);
  // Ends the writing, and takes over the file whatever happens. `keep`: synced
  // and moved to its path, where it takes the mode of what it replaces; else it
  // is taken away. Who has joined moves and takes away nothing. NULL is fine.
  ls_status (*finish)(void *user, void *file, bool keep);

  // Tells if the path itself is a link, to tell a folder in a run folder from a
  // link to somebody else's. NULL: there are no links.
  ls_status (*is_link)(void *user, const char *path, bool *out_is_link);
} ls_file_system;

// What arithmetic an engine may choose where an op leaves it open.
typedef enum ls_math {
  // Convolutions of 3 by 3 taps also by Winograd's algorithm, F(4x4, 3x3), in
  // f32: about half the time. Against the sum over the taps the rounding error
  // of results and inputs' gradients is some 3 times as large (about 1e-6 of
  // the results' size), that of weights' gradients smaller. The default.
  LS_MATH_FAST,
  LS_MATH_DIRECT,  // Sums over the taps, always.
  // Products of f32 round their operands to bf16 and add up in f32: twice as
  // fast where the processor has an instruction for it, slower elsewhere, with
  // the same bits. So do convolutions; by Winograd's algorithm, as in
  // LS_MATH_FAST, what it multiplies is rounded, and the error is some 4 times
  // that of rounded operands (about 1% of the results' size; weights' gradients
  // by it stay f32). Everything else, variables and what an optimizer does to
  // them stay f32.
  LS_MATH_BF16,
  LS_MATH_BF16_DIRECT,  // The same, by sums over the taps, always.
} ls_math;

// How to make a runtime. Zero in a field means its default.
typedef struct ls_runtime_options {
  ls_allocator *allocator;  // Outlives the runtime. Default: the system's.
  // Called with each log line, by any thread. Default: standard error, where a
  // warning or error comes once for each source and text, information each
  // time, and debug lines if LS_DEBUG asks for them; the environment's
  // LS_LOG=off (or error, warning, info, debug) says up to which level.
  void (*log)(void *user, const ls_log_line *line);
  void *log_user;
  const ls_clock *clock;              // Copied. Default: the system's.
  const ls_file_system *file_system;  // Copied. Default: the system's.
  const char *(*environment)(void *user, const char *name);  // Default: getenv.
  void *environment_user;
  int threads;  // Compute threads, the caller's included. Default: real cores.
  ls_math math;
  // How long a run may stand still, in milliseconds: every replica waits, for
  // another one or for a host call, and none goes on, nor does any other run,
  // which it may be waiting for; waiting for an iterator is no standing still
  // as long as its stages make elements. Then it fails with
  // LS_DEADLINE_EXCEEDED and a table of who is where. Default: 30 seconds;
  // below 0: for ever.
  int64_t stall_ms;
  // Devices that programs see: logical CPUs, at least one, and GPUs. A strategy
  // that is not told where to be takes the GPUs, else the CPUs. GPUs are names
  // for build graphs; only CPUs compute. Defaults 1 and 0.
  int cpus, gpus;
  // Threads that compute elements of data sets ahead of who reads them, beside
  // the compute threads; 0: all on the thread that reads. Default: as many.
  ls_opt input_threads;
  // Bytes of elements that all iterators may hold that are not asked for yet;
  // a single element is always possible. Default: 256 MiB.
  int64_t input_bytes;
  // Other processes that train in step with this one; lent, and outlives the
  // runtime. See trunk.h. Default: none.
  struct ls_trunk *trunk;
} ls_runtime_options;

// Creates a runtime. `options` may be NULL. The caller owns it.
LS_API LS_MUST_USE ls_status
ls_runtime_create(const ls_runtime_options *options, ls_runtime **out_runtime);

// Destroys a runtime; everything made under it must be gone but what it owns
// itself. NULL destroys the default runtime, if there is one.
//   LS_FAILED_PRECONDITION  something of it still runs: a callback, also that
//                           which calls this, or a host call, also one that a
//                           run has abandoned; or a function, session or graph
//                           that was made under it lives. The runtime stays.
LS_API LS_MUST_USE ls_status ls_runtime_destroy(ls_runtime *runtime);

// The runtime this thread works under. Makes the default one at first use;
// NULL only when that found no memory.
LS_API ls_runtime *ls_runtime_current(void);

// From now on this thread works under `runtime` (NULL: the default one).
// Returns what it worked under before, NULL for the default.
LS_API ls_runtime *ls_runtime_make_current(ls_runtime *runtime);
LS_API ls_allocator *ls_runtime_allocator(ls_runtime *runtime);

// Writes one line to the sink, or to standard error; see ls_runtime_options.
LS_API void ls_runtime_log(ls_runtime *runtime, ls_log_level level,
                           const char *source, const char *format, ...)
    LS_PRINTF(4, 5);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_RUNTIME_H_
