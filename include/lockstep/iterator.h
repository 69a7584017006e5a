// SPDX-License-Identifier: Apache-2.0
// Layer: data
//
// Iterators: a position in a data set, and the prefetching of its elements.
//
// The runtime's input threads compute elements ahead of the reader, and the
// reader itself computes those they have not reached. Neither affects the
// results: these are a function of data set, seed and position.
//
// Threads: an iterator belongs to one thread at a time; different ones, also of
// one data set, may be used at the same time.
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
  uint64_t seed;     // Seed of all random choices of the data set.
  // Number of elements to prefetch if the data set does not set it. Default: 2;
  // 0 without input threads.
  ls_opt prefetch;
} ls_iterator_options;

// Creates an iterator at the start of epoch 0. It retains the data set.
// `options` may be NULL. The caller owns a reference.
//   the data set's own status, if its maker failed
LS_API LS_MUST_USE ls_status
ls_iterator_create(ls_dataset *dataset, const ls_iterator_options *options,
                   ls_iterator **out_iterator);
LS_API ls_iterator *ls_iterator_retain(ls_iterator *iterator);
LS_API void ls_iterator_release(ls_iterator *iterator);  // NULL is fine.
LS_API ls_dataset *ls_iterator_dataset(const ls_iterator *iterator);  // Lent.

// Reads the next element. `*element` is in-out: its old value is released, or
// overwritten if it has no other owner (start with a zeroed nest).
//   LS_OUT_OF_RANGE  the end, at every further call too. `*element` stays.
// A failure belongs to that element: the next call reads the one after it.
LS_API LS_MUST_USE ls_status ls_iterator_next(ls_iterator *iterator,
                                              ls_nest *element);
// Go to the start of the next epoch (after the last epoch number, of epoch 0),
// or of any.
LS_API LS_MUST_USE ls_status ls_iterator_restart(ls_iterator *iterator);
LS_API LS_MUST_USE ls_status ls_iterator_seek_epoch(ls_iterator *iterator,
                                                    int64_t epoch);
LS_API int64_t ls_iterator_epoch(const ls_iterator *iterator);
// Returns the number of elements read in this epoch.
LS_API int64_t ls_iterator_position(const ls_iterator *iterator);
// Goes to the position after this many elements of the epoch: at once in an
// indexed data set; a stream is read up to it.
LS_API LS_MUST_USE ls_status ls_iterator_seek(ls_iterator *iterator,
                                              int64_t position);

// Writes the position, after the last element read, into an empty record.
LS_API LS_MUST_USE ls_status ls_iterator_save(ls_iterator *iterator,
                                              ls_record *record);
// Goes to a saved position. If it turns out later that there is no such
// position, the iterator is at the start of the epoch it was in.
//   LS_INVALID_ARGUMENT  it belongs to another data set or seed: names both; no
//                        such position.
//   LS_NOT_FOUND         an entry is missing in the record.
LS_API LS_MUST_USE ls_status ls_iterator_restore(ls_iterator *iterator,
                                                 const ls_record *record);

// ---- Statistics ------------------------------------------------------------
// Statistics of a stage of a pipeline: its own work, without that of its
// inputs.
typedef struct ls_stage_stats {
  const char *name;  // Name of the maker; lent.
  int64_t elements;
  int64_t nanos;
  int64_t buffered;  // Elements buffered now, and their bytes.
  int64_t buffered_bytes;
} ls_stage_stats;
typedef struct ls_iterator_stats {
  int64_t elements;  // Elements read so far.
  // Waiting time of the reader, including its own computing.
  int64_t waited_nanos;
  size_t num_stages;             // Source first.
  const ls_stage_stats *stages;  // Lent until the next call of the iterator.
  const char *slowest;           // The stage with the most time; "" at first.
} ls_iterator_stats;
LS_API LS_MUST_USE ls_status ls_iterator_get_stats(ls_iterator *iterator,
                                                   ls_iterator_stats *out);

// ---- In graphs -------------------------------------------------------------
// Returns the next element, as an op of the current graph: each run of it reads
// one.
//   LS_INVALID_ARGUMENT  a leaf has no known shape: names it.
// A run that reaches the end fails with OUT_OF_RANGE.
LS_PLACED ls_nest ls_iterator_get_next(ls_iterator *iterator);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ITERATOR_H_
