// SPDX-License-Identifier: Apache-2.0
// Layer: data
//
// Data sets whose elements come one after another: generators.
// Makers are as those of dataset.h. A stream's state is small: where its source
// is and counters, never elements.
//
// Threads: a data set never changes and is used by any number of threads at the
// same time. Functions that it is given are called by one thread at a time for
// an iterator, not always the same, and by several for several iterators.
#ifndef LOCKSTEP_STREAMS_H_
#define LOCKSTEP_STREAMS_H_

#include "lockstep/dataset.h"
#include "lockstep/record.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Generators ------------------------------------------------------------
// A source of the caller's that is read from the start to the end. Each epoch
// of each iterator opens it anew.
typedef struct ls_generator_options {
  const char *name;  // For messages and ls_dataset_print. Default "generator".
  ls_nest element;   // What they are: leaves of ls_nest_spec. Taken over.
  ls_opt size;       // How many, or LS_INFINITE. Default: nobody knows.
  ls_status (*open)(void *user, int64_t epoch, void **out_state);
  // Sets `*out_element`, none so far, to a new nest. OUT_OF_RANGE is the end;
  // another failure is that element's, and the next call gives what is behind.
  ls_status (*next)(void *state, ls_nest *out_element);
  // Where it is, into an empty record, and back, from just opened. Both or
  // none: then elements are read again up to there.
  ls_status (*save)(void *state, ls_record *record);
  ls_status (*restore)(void *state, const ls_record *record);
  void (*close)(void *state);  // May be NULL.
  void *user;
  void (*release)(void *user);  // Of `user`, with the data set. May be NULL.
} ls_generator_options;
//   LS_INVALID_ARGUMENT  no element spec, `open` or `next`; one of `save` and
//                        `restore` without the other.
LS_API ls_dataset *
ls_dataset_from_generator(const ls_generator_options *options);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_STREAMS_H_
