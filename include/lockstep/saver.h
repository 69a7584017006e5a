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

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SAVER_H_
