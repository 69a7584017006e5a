// SPDX-License-Identifier: Apache-2.0
// Layer: state
//
// Savers: write values of variables to one safetensors file, and restore them,
// by name.
//
// A distributed variable is one entry under its common name, as a plain
// variable of that name would be, so that files do not depend on the number of
// replicas. For a mirrored variable the value of its first component is saved,
// and restored to all. For a variable synchronized on read the aggregate of its
// components is saved; each component is restored to that value, for SUM to the
// value / the number of components (integers towards zero). A handle is saved
// as its variable.
//
// A file is replaced atomically: a save that is killed leaves the previous
// file. A refused save has written nothing, a refused restore has changed no
// variable.
//
// Threads: a save reads, and a restore writes, one variable after another, each
// completely; for a consistent state no run may write them meanwhile.
#ifndef LOCKSTEP_SAVER_H_
#define LOCKSTEP_SAVER_H_

#include "lockstep/session.h"

#ifdef __cplusplus
extern "C" {
#endif

// Selects what to save: a plain value that lends everything. Zero in a field
// means its default.
typedef struct ls_saver {
  ls_variable *const *variables;
  size_t num_variables;
  const char *const *names;  // Names in the file. Default: the variables' own.
  ls_session *session;       // Session of the values. Default: the eager ones.
  // Also saves each component of variables that replicas have written one by
  // one ("w:0", "w:1", next to the entry of the whole), and restores them bit
  // for bit if there are as many components, so that the same program can
  // resume. Otherwise as without it.
  bool exact;
} ls_saver;

// Writes the current values. In eager a mirrored variable without a value is
// left out.
//   LS_INVALID_ARGUMENT     a component of a distributed variable; one whose
//                           components make no value (aggregation NONE); two of
//                           one name, with `exact` also if that is a
//                           component's ("w:0"); a variable with values
//                           elsewhere.
//   LS_FAILED_PRECONDITION  a variable has no value; one that is synchronized
//                           on read is saved inside a replica.
LS_API LS_MUST_USE ls_status ls_saver_save(const ls_saver *saver,
                                           const char *path);

// Sets all variables to the values of the file, or of another that
// ls_saved_file_open opens; ignores its other entries.
//   LS_NOT_FOUND         no such file, or it lacks a variable.
//   LS_INVALID_ARGUMENT  an entry of another dtype or shape: names the file,
//                        the variable, and both types.
//   LS_DATA_LOSS         the file is damaged.
LS_API LS_MUST_USE ls_status ls_saver_restore(const ls_saver *saver,
                                              const char *path);

// ---- Restoring a part ------------------------------------------------------
// Maps names in the file to variables: a complete name, or, if both end in '/',
// all names below; "/" alone is the root. {"old/", "/"} restores 'dense' from
// 'old/dense'.
typedef struct ls_name_map {
  const char *from;  // Name in the file.
  const char *to;    // Name of the variable.
} ls_name_map;

// Result for a variable, or for an entry that no variable uses.
typedef enum ls_value_fate {
  LS_VALUE_RESTORED,
  LS_VALUE_RENAMED,     // Restored from an entry of another name.
  LS_VALUE_MISSING,     // The file has no entry for it.
  LS_VALUE_OTHER_TYPE,  // The entry has another dtype or shape.
  LS_VALUE_LEFT_OUT,    // Not selected.
  LS_VALUE_EXTRA,       // An entry that no variable uses.
  LS_VALUE_FATES,
} ls_value_fate;
// Returns "restored", "renamed", "missing", "other type", "left out" or
// "extra".
LS_API const char *ls_value_fate_name(ls_value_fate fate);

typedef struct ls_value_note {
  ls_value_fate fate;
  const char *variable;  // NULL for an extra entry.
  // Name of the entry in the file, or the one it would have.
  const char *entry;
  ls_type type;        // Type of the variable.
  ls_type entry_type;  // Type of the entry; zero if there is none.
} ls_value_note;

// Layout of kernels in a file. A kernel is a variable whose name, or the part
// of it after '/' or '_', is "kernel".
typedef enum ls_layout {
  LS_LAYOUT_DEFAULT,  // Ours; refuses a square kernel from "NAME.weight".
  LS_LAYOUT_OWN,      // [inputs, outputs], [height, width, inputs, outputs].
  LS_LAYOUT_TORCH,    // [outputs, inputs], [outputs, inputs, height, width].
} ls_layout;
// A dense kernel whose inputs are flattened images: PyTorch has these channels
// first.
typedef struct ls_flat_kernel {
  const char *variable;
  int64_t channels, height, width;
} ls_flat_kernel;

// Zero in a field means its default. Everything is lent.
typedef struct ls_value_choice {
  // Variables to restore, by name or pattern: `*` matches any characters, `?`
  // one, `[a-z]` one of these. NULL: all. Others keep their values.
  const char *const *only;
  size_t num_only;
  const char *const *except;  // Exceptions from these.
  size_t num_except;
  const ls_name_map *names;  // The first match applies.
  size_t num_names;
  // On: a variable missing in the file keeps its value. Default off: refused.
  ls_flag missing;
  ls_flag other_types;  // On: the same for another dtype or shape. Default off.
  // Off: entries that no variable uses, selected or not, are refused. Default
  // on.
  ls_flag extra;
  // Kernels in another layout are permuted. A dense kernel after that of a
  // convolution is refused unless it is in `flat`, or has as many inputs as
  // that has outputs. Each in `flat` must be a dense kernel that is restored.
  ls_layout layout;
  const ls_flat_kernel *flat;
  size_t num_flat;
  // On: floats of another dtype are converted to the variable's. Default off:
  // refused, or as `other_types`.
  ls_flag convert;
  // Called with each variable, then with each extra entry, before anything is
  // set or refused.
  void (*tell)(void *user, const ls_value_note *note);
  void *user;
} ls_value_choice;

// Number of notes of each kind.
typedef struct ls_value_report {
  size_t count[LS_VALUE_FATES];
} ls_value_report;

// Restores as ls_saver_restore, but a selection. The path is as in
// ls_saved_file_open. Nothing is set before everything has been found to fit;
// `choice` and `report` may be NULL.
//   as ls_saver_restore and ls_saved_file_open, and
//   LS_INVALID_ARGUMENT  a name or pattern that matches no variable, or an
//                        extra entry that is not allowed.
LS_API LS_MUST_USE ls_status
ls_saver_restore_part(const ls_saver *saver, const char *path,
                      const ls_value_choice *choice, ls_value_report *report);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SAVER_H_
