// SPDX-License-Identifier: Apache-2.0
// Layer: state
//
// Saved values: opens files to inspect, restore or convert them, and creates
// variables that start with their values.
//
// Paths that can be opened:
//
//   a .safetensors file     written by any program
//   an .npz file            NumPy's
//   DIR/model.ckpt-30       a checkpoint; with or without .json or .safetensors
//   a folder, such as that  its newest intact checkpoint; without any, its
//   of a run                model.safetensors, or the variables.safetensors
//                           of an export, with step -1; a warning says if it
//                           has damaged checkpoints
//
// Threads: any threads may read an open file at the same time.
#ifndef LOCKSTEP_SAVED_FILE_H_
#define LOCKSTEP_SAVED_FILE_H_

#include "lockstep/record.h"
#include "lockstep/saver.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_saved_file ls_saved_file;

// ---- Opening ---------------------------------------------------------------
// Opens a file; the caller closes it. For a checkpoint, reads all values once
// and verifies their checksums.
//   LS_NOT_FOUND         no such file, or a folder without any.
//   LS_DATA_LOSS         damaged: names the file and the entry; of a folder
//                        only if nothing in it can be opened instead.
//   LS_INVALID_ARGUMENT  none of these formats.
LS_API LS_MUST_USE ls_status ls_saved_file_open(const char *path,
                                                ls_saved_file **out_file);
// Opens a file without reading its values: damage is reported by later reads,
// or by ls_saved_file_check. Of a folder it opens the newest file with an
// intact header.
LS_API LS_MUST_USE ls_status
ls_saved_file_open_unread(const char *path, ls_saved_file **out_file);
LS_API void ls_saved_file_close(ls_saved_file *file);  // NULL is fine.

// ---- Contents --------------------------------------------------------------
typedef struct ls_checkpoint_metric {
  const char *name;
  double value;
} ls_checkpoint_metric;

// Description of an open file; everything is lent.
typedef struct ls_saved_info {
  const char *path;    // Path of the file with the values.
  const char *format;  // "checkpoint", "safetensors" or "npz".
  int64_t bytes;       // Total size of the elements.
  size_t num_entries;
  bool checked;  // It has checksums of values.
  // For a checkpoint.
  int64_t step;  // -1 if it is no checkpoint.
  int64_t wall;  // Time of the save: nanoseconds since 1970.
  const ls_checkpoint_metric *metrics;  // A value that is not a number is NaN.
  size_t num_metrics;
} ls_saved_info;
LS_API void ls_saved_file_describe(const ls_saved_file *file,
                                   ls_saved_info *out_info);

typedef struct ls_saved_entry {
  const char *name;  // Lent.
  ls_type type;
  size_t bytes;
  // The entry is one replica's part: "w:1" is the second replica's part of 'w':
  // see ls_saver.exact.
  bool is_part;
} ls_saved_entry;
// Describes entry number `index`, in the order of the file.
//   LS_OUT_OF_RANGE  there are fewer entries.
LS_API LS_MUST_USE ls_status ls_saved_file_entry(const ls_saved_file *file,
                                                 size_t index,
                                                 ls_saved_entry *out_entry);
// Reads the elements of an entry, and verifies their checksum if it has one.
// The caller owns the array.
//   LS_DATA_LOSS  damaged: names the file and the entry.
LS_API LS_MUST_USE ls_status ls_saved_file_read(const ls_saved_file *file,
                                                size_t index,
                                                ls_array **out_array);
// Verifies the checksum only. OK if there is none.
LS_API LS_MUST_USE ls_status ls_saved_file_check(const ls_saved_file *file,
                                                 size_t index);
// Gets a checkpoint's identity and states: records that the caller owns, empty
// if the file has none. Either may be NULL.
LS_API LS_MUST_USE ls_status ls_saved_file_records(const ls_saved_file *file,
                                                   ls_record **out_identity,
                                                   ls_record **out_states);

// Lists the steps of the checkpoints in a folder, in ascending order, intact or
// not; writes up to `capacity` and sets their number. Nothing is removed, so
// another process may be writing there.
//   LS_NOT_FOUND  no such folder.
LS_API LS_MUST_USE ls_status ls_saved_steps(const char *folder, int64_t *steps,
                                            size_t capacity, size_t *out_count);

// ---- Conversion ------------------------------------------------------------
// Zero in a field means its default.
typedef struct ls_saved_write_options {
  const char *const *only;  // Entries to write, by name or pattern. NULL: all.
  size_t num_only;
  const char *const *except;
  size_t num_except;
  const ls_name_map *names;  // New names of entries: the first match applies.
  size_t num_names;
  ls_flag parts;  // On: also writes replicas' parts. Default off.
} ls_saved_write_options;
// Writes values to a file that is replaced atomically: .npz if its name ends
// so, else .safetensors. `options` and `out_count`, the number of arrays
// written, may be NULL.
//   LS_DATA_LOSS         an entry that is damaged.
//   LS_INVALID_ARGUMENT  a name or pattern that matches no entry, or two
//                        entries with one new name.
//   LS_UNIMPLEMENTED     a dtype that the format does not have.
LS_API LS_MUST_USE ls_status
ls_saved_file_write(const ls_saved_file *file, const char *path,
                    const ls_saved_write_options *options, size_t *out_count);

// ---- Restoring -------------------------------------------------------------
// Does what ls_saver_restore_part does from this file, except that it does not
// load a variable that started with it, whatever was written into it since. The
// next restore does.
LS_API LS_MUST_USE ls_status ls_saved_file_restore_part(
    const ls_saved_file *file, const ls_saver *saver,
    const ls_value_choice *choice, ls_value_report *report);
// Restores all variables that way.
LS_API LS_MUST_USE ls_status ls_saved_file_restore(const ls_saved_file *file,
                                                   const ls_saver *saver);

// ---- Variables that start with what a file holds ---------------------------
// Variables can be created one by one with their saved values, and the rest of
// a checkpoint restored at the end.
//
// Creates a variable as ls_variable_create does, with the entry `name` as
// initial value; in a strategy each component starts with the value that a
// restore would give it. A dtype in `options`, which may be NULL, is the one
// that the entry must have, and so is its shape.
//   LS_NOT_FOUND         there is no such entry.
//   LS_INVALID_ARGUMENT  an entry of another dtype or shape; options with an
//                        initial value.
LS_API LS_MUST_USE ls_status ls_saved_file_create_variable(
    const ls_saved_file *file, const char *name,
    const ls_variable_options *options, ls_variable **out_variable);
#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SAVED_FILE_H_
