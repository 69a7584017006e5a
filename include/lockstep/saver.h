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

// ---- Variables that start with what a file holds ---------------------------
// A file of saved values, open: its variables are made one by one, and what was
// there before is restored at the end.
typedef struct ls_saved_file ls_saved_file;
// The caller closes it.
//   LS_NOT_FOUND  no such file.
//   LS_DATA_LOSS  the file is damaged.
LS_API LS_MUST_USE ls_status ls_saved_file_open(const char *path,
                                                ls_saved_file **out_file);
LS_API void ls_saved_file_close(ls_saved_file *file);  // NULL is fine.
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
// ls_saver_restore from this file, which does not load a variable again that
// started with it, whatever was written into it since. The next restore does.
LS_API LS_MUST_USE ls_status ls_saved_file_restore(const ls_saved_file *file,
                                                   const ls_saver *saver);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SAVER_H_
