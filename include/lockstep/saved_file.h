// SPDX-License-Identifier: Apache-2.0
// Layer: state
//
// Saved values, open to be looked at, restored or written elsewhere, and
// variables that start with them.
//
// What can be opened, by its path:
//
//   a .safetensors file     whoever has written it
//   an .npz file            NumPy's
//   DIR/model.ckpt-30       a checkpoint; .json or .safetensors may be behind
//                           it
//   a folder, such as that  its newest checkpoint that is whole; without any,
//   of a run                its model.safetensors, or the variables.safetensors
//                           of an export
//
// Threads: an open file may be read by any threads at the same time.
#ifndef LOCKSTEP_SAVED_FILE_H_
#define LOCKSTEP_SAVED_FILE_H_

#include "lockstep/record.h"
#include "lockstep/saver.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_saved_file ls_saved_file;

// ---- Opening ---------------------------------------------------------------
// The caller closes it. A checkpoint's values have all been read once, and have
// the checksums they should have.
//   LS_NOT_FOUND         no such file, or a folder without any.
//   LS_DATA_LOSS         damaged: names the file and the entry.
//   LS_INVALID_ARGUMENT  none of these.
LS_API LS_MUST_USE ls_status ls_saved_file_open(const char *path,
                                                ls_saved_file **out_file);
// The same, but values are not read: what is damaged is said by who reads it,
// or by ls_saved_file_check. Of a folder it is the newest whose header is
// whole.
LS_API LS_MUST_USE ls_status
ls_saved_file_open_unread(const char *path, ls_saved_file **out_file);
LS_API void ls_saved_file_close(ls_saved_file *file);  // NULL is fine.

// ---- What it is ------------------------------------------------------------
typedef struct ls_checkpoint_metric {
  const char *name;
  double value;
} ls_checkpoint_metric;

// All is lent.
typedef struct ls_saved_info {
  const char *path;    // Of the file with the values.
  const char *format;  // "checkpoint", "safetensors" or "npz".
  int64_t bytes;       // Of the elements.
  size_t num_entries;
  bool checked;  // It has checksums of values.
  // Of a checkpoint.
  int64_t step;  // -1: it is none.
  int64_t wall;  // When it was saved: nanoseconds since 1970.
  const ls_checkpoint_metric *metrics;  // A value that is no number is NaN.
  size_t num_metrics;
} ls_saved_info;
LS_API void ls_saved_file_describe(const ls_saved_file *file,
                                   ls_saved_info *out_info);

typedef struct ls_saved_entry {
  const char *name;  // Lent.
  ls_type type;
  size_t bytes;
  // "w:1" is what the second replica has of 'w': see ls_saver.exact.
  bool is_part;
} ls_saved_entry;
// Entry number `index`, in the order of the file.
//   LS_OUT_OF_RANGE  there are not so many.
LS_API LS_MUST_USE ls_status ls_saved_file_entry(const ls_saved_file *file,
                                                 size_t index,
                                                 ls_saved_entry *out_entry);
// Reads its elements, and looks at their checksum if it has one. The caller
// owns the array.
//   LS_DATA_LOSS  damaged: names the file and the entry.
LS_API LS_MUST_USE ls_status ls_saved_file_read(const ls_saved_file *file,
                                                size_t index,
                                                ls_array **out_array);
// Only the look. OK where there is no checksum.
LS_API LS_MUST_USE ls_status ls_saved_file_check(const ls_saved_file *file,
                                                 size_t index);
// What a checkpoint says of its run, and the states in it: the caller's
// records, empty where there is nothing. Either may be NULL.
LS_API LS_MUST_USE ls_status ls_saved_file_records(const ls_saved_file *file,
                                                   ls_record **out_identity,
                                                   ls_record **out_states);

// The steps of the checkpoints in a folder, in ascending order, whole or not;
// writes up to `capacity` and sets their number. Nothing is cleared away, so
// that another process may be writing there.
//   LS_NOT_FOUND  no such folder.
LS_API LS_MUST_USE ls_status ls_saved_steps(const char *folder, int64_t *steps,
                                            size_t capacity, size_t *out_count);

// ---- Writing it elsewhere --------------------------------------------------
// Zero in a field means its default.
typedef struct ls_saved_write_options {
  const char *const *only;  // Entries by name or pattern. NULL: all.
  size_t num_only;
  const char *const *except;
  size_t num_except;
  const ls_name_map *names;  // Their new names: the first that fits counts.
  size_t num_names;
  ls_flag parts;  // On: also what replicas have each. Default off.
} ls_saved_write_options;
// Writes values to a file that is replaced as a whole: .npz if its name ends
// so, else .safetensors. `options` and `out_count`, the number of arrays
// written, may be NULL.
//   LS_DATA_LOSS         an entry that is damaged.
//   LS_INVALID_ARGUMENT  a name or pattern that fits no entry, or two of one
//                        new name.
//   LS_UNIMPLEMENTED     a dtype that the format does not have.
LS_API LS_MUST_USE ls_status
ls_saved_file_write(const ls_saved_file *file, const char *path,
                    const ls_saved_write_options *options, size_t *out_count);

// ---- Restoring -------------------------------------------------------------
// ls_saver_restore_part from this file, which does not load a variable again
// that started with it, whatever was written into it since. The next restore
// does.
LS_API LS_MUST_USE ls_status ls_saved_file_restore_part(
    const ls_saved_file *file, const ls_saver *saver,
    const ls_value_choice *choice, ls_value_report *report);
// The same of all variables.
LS_API LS_MUST_USE ls_status ls_saved_file_restore(const ls_saved_file *file,
                                                   const ls_saver *saver);

// ---- Variables that start with what a file holds ---------------------------
// Variables are made one by one, and what was there before is restored at the
// end.
//
// Creates a variable as ls_variable_create does, whose initial value is that of
// the entry `name`; of one in a strategy each component starts with what a
// restore would give it. Of `options`, which may be NULL, a dtype is what the
// entry is to have, with the shape.
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
