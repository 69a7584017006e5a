// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// The runtime: the root of everything, with all state that other libraries keep
// per process.
//
// It owns the log function, clock, environment, file system, allocator and the
// worker threads, all replaceable, and outlives everything created under it. A
// thread works under one runtime at a time: the one it made current, else the
// default one, which is created at first use.
//
// Threads: any number of threads may work under a runtime at the same time; one
// creates it, and one destroys it when no thread works under it.
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

// One log line. `source` is the part of the library that wrote it.
typedef struct ls_log_line {
  ls_log_level level;
  const char *source;
  const char *text;  // No newline at its end.
} ls_log_line;

// Time, in nanoseconds. Replaceable, so that tests need not wait. Any thread
// may call it.
typedef struct ls_clock {
  int64_t (*now)(void *user);   // Monotonic.
  int64_t (*wall)(void *user);  // Since 1970.
  void (*sleep)(void *user, int64_t nanos);
  void *user;
} ls_clock;

// State of a file when it was opened.
typedef struct ls_file_info {
  int64_t size;      // In bytes.
  int64_t modified;  // Nanoseconds since 1970.
} ls_file_info;

// An entry of a folder.
typedef struct ls_file_entry {
  const char *name;
  bool is_folder;  // Else a regular file.
} ls_file_entry;

// File operations. Paths are the system's. Except for the first two, calls
// replace or create, as their name says; all return NOT_FOUND,
// PERMISSION_DENIED or UNAVAILABLE with the path and the system's error text.
// The system's read and write are for regular files only: INVALID_ARGUMENT for
// a fifo or a device. They read through links, but neither write nor append
// through one: a link in a folder from elsewhere may name any file.
typedef struct ls_file_system {
  // Reads the whole file; the caller owns `*out_data` and releases it with the
  // given allocator. The byte after the end is 0. A file of more than `most`
  // bytes (SIZE_MAX: any) is INVALID_ARGUMENT.
  ls_status (*read)(void *user, const char *path, size_t most,
                    ls_allocator *allocator, char **out_data, size_t *out_size);
  ls_status (*exists)(void *user, const char *path, bool *out_exists);
  // Replaces the file atomically: written under a temporary name, synced,
  // renamed. It keeps its mode.
  ls_status (*write)(void *user, const char *path, const void *data,
                     size_t size);
  ls_status (*append)(void *user, const char *path, const void *data,
                      size_t size);
  ls_status (*make_directories)(void *user, const char *path);
  ls_status (*remove)(void *user, const char *path);
  // Creates the file and locks it until `unlock` removes it; both NULL: no
  // locking. The lock of a process that has ended is free.
  //   FAILED_PRECONDITION  locked already: names the holder.
  ls_status (*lock)(void *user, const char *path, void **out_lock);
  void (*unlock)(void *user, void *lock);  // NULL is fine.
  void *user;

  // The following access files in parts; a file system without them leaves them
  // NULL, and calls that need one fail with UNIMPLEMENTED.
  //
  // Opens a file to be read in parts, by any threads at the same time.
  ls_status (*open)(void *user, const char *path, void **out_file,
                    ls_file_info *out_info);
  // Reads up to `size` bytes from `offset` on: fewer only at the file's current
  // end.
  ls_status (*read_at)(void *user, void *file, int64_t offset, void *data,
                       size_t size, size_t *out_size);
  void (*close)(void *user, void *file);  // NULL is fine.
  // Lists the folders and regular files in a folder, following links, sorted by
  // the bytes of their names: one block that the caller owns, names included.
  // An empty folder returns a block too; a file is NOT_FOUND.
  ls_status (*list)(void *user, const char *path, ls_allocator *allocator,
                    ls_file_entry **out_entries, size_t *out_count);
  // Moves a file or folder; an existing file is replaced durably.
  ls_status (*rename)(void *user, const char *old_path, const char *new_path);
  // Creates a file under a temporary name, empty, invisible until `finish`.
  // FAILED_PRECONDITION if the same file is being written already. `join`:
  // opens a file that another writer, also in another process, has created and
  // not yet finished, to write a part of it; NOT_FOUND if there is none.
  ls_status (*create)(void *user, const char *path, bool join, void **out_file);
  // Writes at an offset. Bytes never written are 0.
  ls_status (*write_at)(void *user, void *file, int64_t offset,
                        const void *data, size_t size);
  // Waits until everything written through this file is on the disk.
  ls_status (*sync)(void *user, void *file);
  // Ends the writing, and takes over the file in any case. `keep`: syncs it and
  // moves it to its path, with the mode of the file it replaces; otherwise
  // removes it. A writer that has joined neither moves nor removes it. NULL is
  // fine.
  ls_status (*finish)(void *user, void *file, bool keep);

  // Finds out if the path itself is a link, to distinguish a folder in a run
  // folder from a link to a foreign one. NULL: there are no links.
  ls_status (*is_link)(void *user, const char *path, bool *out_is_link);
  // Waits until everything appended to the file is on the disk; its name is
  // once a later call has synced the folder. NULL: appends need no sync.
  ls_status (*sync_appended)(void *user, const char *path);
} ls_file_system;

// Arithmetic that an engine may choose where an op leaves it open. The devices
// of a plug-in compute products and convolutions of f32 in f32 with
// LS_MATH_DIRECT or with exact_bits, else in the device's usual way (TF32, or
// bf16 with sums in f32); the rest below is about the CPU engine.
typedef enum ls_math {
  // Convolutions of 3 by 3 taps may use Winograd's algorithm, F(4x4, 3x3), in
  // f32: about half the time. Against the sum over the taps the rounding error
  // of results and inputs' gradients is some 3 times as large (about 1e-6 of
  // the results' size), that of weights' gradients smaller. It is relative to
  // the largest of 6 by 6 inputs, and an infinity, NaN or sum beyond the type
  // among them can make NaN of all 4 by 4 results. The default.
  LS_MATH_FAST,
  LS_MATH_DIRECT,  // Always sums over the taps.
  // Products of f32 round their operands to bf16 and accumulate in f32: twice
  // as fast where the processor has an instruction for it, slower elsewhere,
  // with the same bits. So do convolutions; with Winograd's algorithm, as in
  // LS_MATH_FAST, the factors of its products are rounded, and the error is
  // some 4 times that of rounded operands (about 1% of the results' size;
  // weights' gradients computed with it stay f32). Everything else, including
  // variables and optimizer updates, stays f32.
  LS_MATH_BF16,
  LS_MATH_BF16_DIRECT,  // LS_MATH_BF16 with sums over the taps only.
} ls_math;

// Options of a runtime. Zero in a field means its default.
typedef struct ls_runtime_options {
  ls_allocator *allocator;  // Outlives the runtime. Default: the system's.
  // Called with each log line, by any thread. Default: writes to standard
  // error, a warning or error once per source and text, information each time,
  // and debug lines if LS_DEBUG enables them; the environment's LS_LOG=off (or
  // error, warning, info, debug) sets the level.
  void (*log)(void *user, const ls_log_line *line);
  void *log_user;
  const ls_clock *clock;              // Copied. Default: the system's.
  const ls_file_system *file_system;  // Copied. Default: the system's.
  const char *(*environment)(void *user, const char *name);  // Default: getenv.
  void *environment_user;
  // Compute threads, including the caller's. Default: physical cores.
  int threads;
  ls_math math;
  // Longest time, in milliseconds, that a run may stall: all its replicas wait,
  // for each other or for a host call, and no other run, which it may be
  // waiting for, makes progress; waiting for an iterator is no stall while its
  // stages produce elements. The run then fails with LS_DEADLINE_EXCEEDED and a
  // table of the runs. Default: 30 seconds; below 0: no limit.
  int64_t stall_ms;
  // Devices that programs see: logical CPUs, at least one, and GPUs. A strategy
  // without given devices uses the GPUs, else the devices of a plug-in, else
  // the CPUs. GPUs that no plug-in has are names for build graphs. Defaults 1
  // and 0.
  int cpus, gpus;
  // Threads that prefetch elements of data sets, besides the compute threads;
  // 0: the reading thread computes all. Default: as many as compute threads.
  ls_opt input_threads;
  // Bytes of prefetched elements that all iterators together may hold; a single
  // element is always allowed. Default: 256 MiB.
  int64_t input_bytes;
  // Communicator of the processes that train in step with this one; lent, and
  // must outlive the runtime. See communicator.h. Default: none.
  struct ls_communicator *communicator;
  // Device that computes functions and what sessions run: "cpu", the library's
  // own engine; "gpu" and "tpu", by the PJRT plug-in that the environment's
  // LS_PJRT_PLUGIN names, else by xla_cuda_plugin.so or libtpu.so where the
  // system's loader finds them, or in an installed Python package; "pjrt", by
  // that plug-in, whatever its devices are; "pjrt:PATH", by this plug-in. Eager
  // ops, initial values, functions of data sets, and what has strings or
  // replicas with values of different shapes are computed by the CPU engine in
  // any case. Copied. The plug-in is loaded at
  // first use, which reports what is wrong with it. Default: "cpu".
  const char *device;
  // Number of the plug-in's devices to use. A plug-in for CPUs makes so many
  // virtual ones. Default: all that it has.
  int num_devices;
  // Results have the same bits on any number of devices of one kind, at some
  // cost: each replica is computed apart, and what differs from run to run is
  // not used. The CPU engine always does so.
  bool exact_bits;
  // Looks for the op that makes the first NaN: see ls_runtime_take_nan.
  // Programs run op by op, some times slower, with the same bits. For the CPU
  // engine.
  bool find_nan;
  // Devices that programs are compiled for while there need be none, as the
  // plug-in names them: "v5e:2x2", four TPUs. A run of a program is then
  // UNAVAILABLE, after it has been compiled (ls_function_describe_program).
  // Copied. Default: programs are compiled for devices that run them.
  const char *topology;
} ls_runtime_options;

// Creates a runtime. `options` may be NULL. The caller owns it.
LS_API LS_MUST_USE ls_status
ls_runtime_create(const ls_runtime_options *options, ls_runtime **out_runtime);

// Destroys a runtime; everything created under it must have been released. NULL
// destroys the default runtime, if there is one.
//   LS_FAILED_PRECONDITION  something in it still runs: a callback, also the
//                           one that makes this call, or a host call, also one
//                           that its run has abandoned; or an object that uses
//                           it exists: a function, session, graph, variable,
//                           iterator, estimator, hook, checkpoint folder, saved
//                           file, event writer or cancel. The runtime stays as
//                           it is.
LS_API LS_MUST_USE ls_status ls_runtime_destroy(ls_runtime *runtime);

// Returns the runtime this thread works under. Creates the default one at first
// use; NULL only if that ran out of memory.
LS_API ls_runtime *ls_runtime_current(void);

// Makes this thread work under `runtime` from now on (NULL: the default one).
// Returns the previous one, NULL for the default: a runtime, not a status.
LS_API ls_runtime *ls_runtime_make_current(ls_runtime *runtime);
LS_API ls_allocator *ls_runtime_allocator(ls_runtime *runtime);

// Writes one line to the log function, or to standard error; see
// ls_runtime_options.
LS_API void ls_runtime_log(ls_runtime *runtime, ls_log_level level,
                           const char *source, const char *format, ...)
    LS_PRINTF(4, 5);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_RUNTIME_H_
