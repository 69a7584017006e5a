// SPDX-License-Identifier: Apache-2.0
// Layer: data
//
// Iterators: a place in a data set, and the work ahead of it.
//
// Elements are computed by the runtime's input threads ahead of who reads, and
// by the reader itself where they have not come to it. Neither decides what
// comes out: that is a function of data set, seed and position.
//
// Threads: an iterator belongs to one thread at a time; different ones, also of
// one data set, are used at the same time.
#ifndef LOCKSTEP_ITERATOR_H_
#define LOCKSTEP_ITERATOR_H_

#include "lockstep/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_record ls_record;  // lockstep/record.h

typedef struct ls_iterator ls_iterator;

// Zero in a field means its default.
typedef struct ls_iterator_options {
  const char *name;  // For messages and tables. Copied. Default "iterator".
  uint64_t seed;     // Of all that the data set draws.
  // Elements computed ahead where the data set does not say. Default: 2; 0
  // without input threads.
  ls_opt prefetch;
} ls_iterator_options;

// Creates an iterator at the start of epoch 0. It retains the data set.
// `options` may be NULL. The caller owns a reference.
//   the data set's own status, if its making failed
LS_API LS_MUST_USE ls_status
ls_iterator_create(ls_dataset *dataset, const ls_iterator_options *options,
                   ls_iterator **out_iterator);
LS_API ls_iterator *ls_iterator_retain(ls_iterator *iterator);
LS_API void ls_iterator_release(ls_iterator *iterator);  // NULL is fine.
LS_API ls_dataset *ls_iterator_dataset(const ls_iterator *iterator);  // Lent.

// The next element. `*element` is in-out: what it held is released, or written
// anew where nobody else holds it (start with a zeroed nest).
//   LS_OUT_OF_RANGE  the end, again and again. `*element` stays.
// A failure is that element's: the next call gives the one behind it.
LS_API LS_MUST_USE ls_status ls_iterator_next(ls_iterator *iterator,
                                              ls_nest *element);
// Goes to the start of the next epoch (behind the last number, of epoch 0);
// with `ls_iterator_seek_epoch` of any.
LS_API LS_MUST_USE ls_status ls_iterator_restart(ls_iterator *iterator);
LS_API LS_MUST_USE ls_status ls_iterator_seek_epoch(ls_iterator *iterator,
                                                    int64_t epoch);
LS_API int64_t ls_iterator_epoch(const ls_iterator *iterator);
// How many elements of this epoch it has given.
LS_API int64_t ls_iterator_position(const ls_iterator *iterator);
// Goes behind so many elements of this epoch: at once in an indexed data set, a
// stream is read.
LS_API LS_MUST_USE ls_status ls_iterator_seek(ls_iterator *iterator,
                                              int64_t position);

// Where it is, behind what `next` has given, into an empty record.
LS_API LS_MUST_USE ls_status ls_iterator_save(ls_iterator *iterator,
                                              ls_record *record);
// Goes there. Where it turns out on the way that there is no such place, the
// iterator stands at the start of the epoch that it was in.
//   LS_INVALID_ARGUMENT  another data set's or seed's: names both; no place.
//   LS_NOT_FOUND         something is missing in the record.
LS_API LS_MUST_USE ls_status ls_iterator_restore(ls_iterator *iterator,
                                                 const ls_record *record);

// ---- Statistics ------------------------------------------------------------
// What a stage of a pipeline has done: its own work, without its inputs'.
typedef struct ls_stage_stats {
  const char *name;  // Of the maker; lent.
  int64_t elements;
  int64_t nanos;
  int64_t buffered;  // Elements it holds now, and their bytes.
  int64_t buffered_bytes;
} ls_stage_stats;
typedef struct ls_iterator_stats {
  int64_t elements;              // Given so far.
  int64_t waited_nanos;          // By who reads, computing included.
  size_t num_stages;             // Source first.
  const ls_stage_stats *stages;  // Lent until the next call of the iterator.
  const char *slowest;           // The stage with the most time; "" at first.
} ls_iterator_stats;
LS_API LS_MUST_USE ls_status ls_iterator_get_stats(ls_iterator *iterator,
                                                   ls_iterator_stats *out);

// ---- In graphs -------------------------------------------------------------
// The next element, as an op of the current graph: each run of it reads one.
//   LS_INVALID_ARGUMENT  a leaf without a known shape: names it.
// A run that comes to the end fails with OUT_OF_RANGE.
LS_PLACED ls_nest ls_iterator_get_next(ls_iterator *iterator);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ITERATOR_H_
