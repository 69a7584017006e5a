// SPDX-License-Identifier: Apache-2.0
// Layer: data
//
// Data sets whose elements come one after another: generators, filters, data
// sets made of elements, choices among data sets, rows of batches, windows,
// buckets, caches.
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

// ---- Fewer and more --------------------------------------------------------
// Whether an element is kept. The nest is lent.
typedef ls_status (*ls_filter_function)(ls_nest element,
                                        const ls_map_call *call, void *user,
                                        bool *out_keep);
typedef struct ls_filter_options {
  const char *name;  // Default "filter".
  ls_filter_function call;
  void *user;
  void (*release)(void *user);  // May be NULL.
  uint64_t stream;              // Another one draws other keys. Default 0.
} ls_filter_options;
LS_API ls_dataset *ls_dataset_filter(ls_dataset *dataset,
                                     const ls_filter_options *options);

// The data set that an element becomes, a reference of the caller's; what went
// wrong in its making is that element's failure. The nest is lent.
typedef ls_dataset *(*ls_flat_function)(ls_nest element,
                                        const ls_map_call *call, void *user);
typedef struct ls_flat_options {
  const char *name;  // Default "flat_map" or "interleave".
  ls_flat_function call;
  void *user;
  void (*release)(void *user);  // May be NULL.
  // What elements of those data sets are: leaves of ls_nest_spec. Taken over.
  ls_nest result;
  uint64_t stream;  // Another one draws other keys. Default 0.
  // Of interleave: how many are read in turn, default 8, and how many elements
  // of each at a turn, default 1.
  int64_t cycle, block;
} ls_flat_options;
// The elements of the first, then those of the second, and so on.
//   LS_INVALID_ARGUMENT  no function or result, or `cycle` or `block` given.
LS_API ls_dataset *ls_dataset_flat_map(ls_dataset *dataset,
                                       const ls_flat_options *options);
// `block` elements of each of `cycle` of them in turn; where one ends, the turn
// goes on, and the next one takes its place.
LS_API ls_dataset *ls_dataset_interleave(ls_dataset *dataset,
                                         const ls_flat_options *options);

typedef struct ls_sample_options {
  const double *weights;  // One a data set, at least 0. NULL: all the same.
  uint64_t seed;          // Beside the iterator's.
  // Ends with the first data set that ends. Default off: others go on.
  ls_flag stop_at_first;
} ls_sample_options;
// Each element from one of `count` data sets, drawn by their weights. Elements
// are of one structure and dtypes. Takes over the data sets.
LS_API ls_dataset *ls_dataset_sample(ls_dataset *const *datasets, size_t count,
                                     const ls_sample_options *options);

// The rows of dimension 0 of all leaves, each an element. Indexed if the input
// is and all its elements are known to have as many rows.
LS_API ls_dataset *ls_dataset_unbatch(ls_dataset *dataset);

// ---- Stacked ---------------------------------------------------------------
typedef struct ls_dataset_window_options {
  int64_t size;    // Elements in a window, at least 1.
  int64_t shift;   // From a window's first element to the next's. Default size.
  int64_t stride;  // From an element of a window to the next. Default 1.
  bool drop;       // Windows at the end that are not full are left out.
} ls_dataset_window_options;
// Windows over elements, stacked along a new dimension 0. Indexed if the input
// is and its number of elements is known.
LS_API ls_dataset *ls_dataset_window(ls_dataset *dataset,
                                     const ls_dataset_window_options *options);

typedef struct ls_bucket_options {
  // What an element's length is: dimension 0 of this leaf, or what the function
  // says of the nest, which is lent.
  int leaf;
  int64_t (*length)(ls_nest element, void *user);
  void *user;
  void (*release)(void *user);  // May be NULL.
  // Bucket i is for lengths below boundaries[i], the last one for all others:
  // rising numbers, and one size of batches more than of them.
  const int64_t *boundaries;
  size_t num_boundaries;
  const int64_t *sizes;
  // Of batches, as of ls_batch_options, but that padding is to the longest of
  // the batch where no padded shapes are given.
  ls_batch_remainder remainder;
  bool ids;
  const ls_shape *padded_shapes;
  size_t num_padded_shapes;
  const double *padding;
} ls_bucket_options;
// Batches of elements that are about as long: each goes into the bucket of its
// length, and a bucket that is full is a batch. At the end the rest of each.
LS_API ls_dataset *ls_dataset_bucket(ls_dataset *dataset,
                                     const ls_bucket_options *options);

// ---- Kept ------------------------------------------------------------------
// Elements are made once and kept: in memory, as long as the data set, or in a
// file, which who reads first makes whole. They are those of epoch 0 with seed
// 0, so that all who read find the same. A file is used again by the same
// pipeline; functions have no text to be compared, so who changes one removes
// the file. Indexed if the input is.
//   LS_INVALID_ARGUMENT  an input without an end; of a read: a file that is
//                        something else or another pipeline's.
//   LS_DATA_LOSS         of a read: a file that is damaged.
LS_API ls_dataset *ls_dataset_cache(ls_dataset *dataset, const char *file);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_STREAMS_H_
