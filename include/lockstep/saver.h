// SPDX-License-Identifier: Apache-2.0
// Layer: state
//
// Savers: values of variables to and from one safetensors file, by name.
//
// A distributed variable is one entry under its common name, as a plain
// variable of that name would be, so files go from one number of replicas to
// another. A mirrored one is the value of its first component, and restored to
// all. One that is synchronized on read is what its components make; restored,
// each component gets the value, of a SUM the value / the number of components
// (integers towards zero). A handle is what it stands for.
//
// A file is replaced as a whole, so that a save which is killed leaves the file
// of the one before. A refused save has written nothing, a refused restore has
// changed no variable.
//
// Threads: a save reads, and a restore writes, one variable after another, each
// whole; for a state of one moment no run writes them meanwhile.
#ifndef LOCKSTEP_SAVER_H_
#define LOCKSTEP_SAVER_H_

#include "lockstep/session.h"

#ifdef __cplusplus
extern "C" {
#endif

// What is saved: a plain value that lends everything. Zero in a field means its
// default.
typedef struct ls_saver {
  ls_variable *const *variables;
  size_t num_variables;
  const char *const *names;  // In the file. Default: the variables' own.
  ls_session *session;       // Whose values. Default: the eager ones.
  // For the same program to go on from: components that were written one by one
  // are saved each, beside the entry of the whole ("w:0", "w:1"), and restored
  // bit for bit where as many are there. Else as without.
  bool exact;
} ls_saver;

// Writes the values as they are now. In eager a mirrored variable without a
// value is left out.
//   LS_INVALID_ARGUMENT     a component of a distributed variable; one whose
//                           components make no value (aggregation NONE); two of
//                           one name; a variable with values elsewhere.
//   LS_FAILED_PRECONDITION  a variable has no value; one that is synchronized
//                           on read is saved inside of a replica.
LS_API LS_MUST_USE ls_status ls_saver_save(const ls_saver *saver,
                                           const char *path);

// Sets all variables to what the file holds; what else it holds is let be.
//   LS_NOT_FOUND         no such file, or it lacks a variable.
//   LS_INVALID_ARGUMENT  an entry of another dtype or shape: names the file,
//                        the variable, and both types.
//   LS_DATA_LOSS         the file is damaged.
LS_API LS_MUST_USE ls_status ls_saver_restore(const ls_saver *saver,
                                              const char *path);

// ---- Restoring a part ------------------------------------------------------
// What a file calls what we call otherwise: a whole name, or, where both end in
// '/', all names below; "/" alone is the root. {"old/", "/"} gives 'dense' what
// the file has as 'old/dense'.
typedef struct ls_name_map {
  const char *from;  // In the file.
  const char *to;    // Of the variable.
} ls_name_map;

// What becomes of a variable, or of an entry that none takes.
typedef enum ls_value_fate {
  LS_VALUE_RESTORED,
  LS_VALUE_RENAMED,     // Restored from an entry of another name.
  LS_VALUE_MISSING,     // The file has no entry for it.
  LS_VALUE_OTHER_TYPE,  // It has one of another dtype or shape.
  LS_VALUE_LEFT_OUT,    // Not among those that are wanted.
  LS_VALUE_EXTRA,       // An entry that no variable takes.
  LS_VALUE_FATES,
} ls_value_fate;
// "restored", "renamed", "missing", "other type", "left out", "extra".
LS_API const char *ls_value_fate_name(ls_value_fate fate);

typedef struct ls_value_note {
  ls_value_fate fate;
  const char *variable;  // NULL: an extra entry.
  const char *entry;     // In the file, or what it would be called there.
  ls_type type;          // Of the variable.
  ls_type entry_type;    // Of the entry; zero: there is none.
} ls_value_note;

// Zero in a field means its default. Everything is lent.
typedef struct ls_value_choice {
  // The variables that are wanted, by name or pattern: `*` stands for any
  // characters, `?` for one, `[a-z]` for one of these. NULL: all. Others keep
  // their values.
  const char *const *only;
  size_t num_only;
  const char *const *except;  // And of these none.
  size_t num_except;
  const ls_name_map *names;  // The first that fits a variable counts.
  size_t num_names;
  ls_flag missing;      // On: what the file lacks keeps its value. Default off:
                        // refused.
  ls_flag other_types;  // On: the same for another dtype or shape. Default off.
  ls_flag extra;        // Off: entries that no variable takes, wanted or not,
                        // are refused. Default on.
  // Told of each variable, then of each extra entry, before anything is set or
  // refused.
  void (*tell)(void *user, const ls_value_note *note);
  void *user;
} ls_value_choice;

// How many there were of each fate.
typedef struct ls_value_report {
  size_t count[LS_VALUE_FATES];
} ls_value_report;

// As ls_saver_restore, of a part. The path is as in ls_saved_file_open. Nothing
// is set before everything has been found to fit; `choice` and `report` may be
// NULL.
//   as of ls_saver_restore and ls_saved_file_open, and
//   LS_INVALID_ARGUMENT  a name or pattern that fits no variable, or an extra
//                        entry that may not be.
LS_API LS_MUST_USE ls_status
ls_saver_restore_part(const ls_saver *saver, const char *path,
                      const ls_value_choice *choice, ls_value_report *report);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SAVER_H_
