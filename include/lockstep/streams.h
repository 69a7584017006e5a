// SPDX-License-Identifier: Apache-2.0
// Layer: data
//
// Data sets whose elements come one after another: generators, filters, data
// sets made of elements, sampling from data sets, rows of batches, windows,
// buckets, caches. Makers follow the conventions of dataset.h. A stream's state
// is small: its source's position and counters, never elements.
//
// Threads: a data set never changes and any number of threads may use it at the
// same time. Its functions are called by one thread at a time for an iterator,
// not always the same, and by several for several iterators.
#ifndef LOCKSTEP_STREAMS_H_
#define LOCKSTEP_STREAMS_H_

#include "lockstep/dataset.h"
#include "lockstep/record.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Generators ------------------------------------------------------------
// A source by the caller's functions that is read from the start to the end.
// Each epoch of each iterator opens it again.
typedef struct ls_generator_options {
  const char *name;  // For messages and ls_dataset_print. Default "generator".
  // Types of the elements: leaves of ls_nest_spec. Taken over.
  ls_nest element;
  ls_opt size;  // Number of elements, or LS_INFINITE. Default: unknown.
  ls_status (*open)(void *user, int64_t epoch, void **out_state);
  // Sets `*out_element`, initially none, to a new nest. OUT_OF_RANGE is the
  // end; another failure belongs to that element, and the next call returns the
  // following one.
  ls_status (*next)(void *state, ls_nest *out_element);
  // Write the position into an empty record, and restore it after opening. Set
  // both or none: without them elements are read again up to the position.
  ls_status (*save)(void *state, ls_record *record);
  ls_status (*restore)(void *state, const ls_record *record);
  void (*close)(void *state);  // May be NULL.
  void *user;
  // Called with `user` when the data set is destroyed. May be NULL.
  void (*release)(void *user);
} ls_generator_options;
// Makes a data set of a generator.
//   LS_INVALID_ARGUMENT  no element spec, `open` or `next`; one of `save` and
//                        `restore` without the other.
LS_API ls_dataset *
ls_dataset_from_generator(const ls_generator_options *options);

// ---- Filters and expansion -------------------------------------------------
// Decides about keeping an element. The nest is lent.
typedef ls_status (*ls_filter_function)(ls_nest element,
                                        const ls_map_call *call, void *user,
                                        bool *out_keep);
typedef struct ls_filter_options {
  const char *name;  // Default "filter".
  ls_filter_function call;
  void *user;
  void (*release)(void *user);  // May be NULL.
  uint64_t stream;              // Selects another stream of keys. Default 0.
} ls_filter_options;
LS_API ls_dataset *ls_dataset_filter(ls_dataset *dataset,
                                     const ls_filter_options *options);

// Returns the data set that an element expands to, a reference that the caller
// takes over; a failed data set is that element's failure. The nest is lent.
typedef ls_dataset *(*ls_flat_function)(ls_nest element,
                                        const ls_map_call *call, void *user);
typedef struct ls_flat_options {
  const char *name;  // Default "flat_map" or "interleave".
  ls_flat_function call;
  void *user;
  void (*release)(void *user);  // May be NULL.
  // Types of the elements of those data sets: leaves of ls_nest_spec. Taken
  // over.
  ls_nest result;
  uint64_t stream;  // Selects another stream of keys. Default 0.
  // For interleave: number of data sets read round-robin, default 8, and
  // elements taken from each in a round, default 1.
  int64_t cycle, block;
} ls_flat_options;
// Concatenates the elements of all those data sets, in order.
//   LS_INVALID_ARGUMENT  no function or result, or `cycle` or `block` given.
LS_API ls_dataset *ls_dataset_flat_map(ls_dataset *dataset,
                                       const ls_flat_options *options);
// Takes `block` elements of each of `cycle` data sets, round-robin; one that
// ends is replaced by the next one.
LS_API ls_dataset *ls_dataset_interleave(ls_dataset *dataset,
                                         const ls_flat_options *options);

typedef struct ls_sample_options {
  const double *weights;  // One per data set, at least 0. NULL: all equal.
  uint64_t seed;          // Combined with the iterator's seed.
  // Ends with the first data set that ends. Default off: others continue.
  ls_flag stop_at_first;
} ls_sample_options;
// Draws each element from one of `count` data sets, by their weights. Elements
// have one structure and the same dtypes. Takes over the data sets.
LS_API ls_dataset *ls_dataset_sample(ls_dataset *const *datasets, size_t count,
                                     const ls_sample_options *options);

// Splits elements into the rows along dimension 0 of all leaves. Indexed if the
// input is and all its elements are known to have as many rows.
LS_API ls_dataset *ls_dataset_unbatch(ls_dataset *dataset);

// ---- Stacked ---------------------------------------------------------------
typedef struct ls_dataset_window_options {
  int64_t size;  // Elements per window, at least 1.
  // Distance of the first elements of successive windows. Default size.
  int64_t shift;
  int64_t stride;  // Distance of successive elements of a window. Default 1.
  bool drop;       // Drops partial windows at the end.
} ls_dataset_window_options;
// Makes windows of elements, stacked along a new dimension 0. Indexed if the
// input is and its number of elements is known.
LS_API ls_dataset *ls_dataset_window(ls_dataset *dataset,
                                     const ls_dataset_window_options *options);

typedef struct ls_bucket_options {
  // Length of an element: dimension 0 of this leaf, or the function's result
  // for the nest, which is lent.
  int leaf;
  int64_t (*length)(ls_nest element, void *user);
  void *user;
  void (*release)(void *user);  // May be NULL.
  // Bucket i is for lengths below boundaries[i], the last one for all others:
  // increasing numbers, and one more batch size than boundaries.
  const int64_t *boundaries;
  size_t num_boundaries;
  const int64_t *sizes;
  // Options of batches, as in ls_batch_options, except that padding is to the
  // longest of the batch if no padded shapes are given.
  ls_batch_remainder remainder;
  bool ids;
  const ls_shape *padded_shapes;
  size_t num_padded_shapes;
  const double *padding;
} ls_bucket_options;
// Batches elements of similar length: each goes into the bucket of its length,
// and a full bucket is a batch. At the end the rest of each.
LS_API ls_dataset *ls_dataset_bucket(ls_dataset *dataset,
                                     const ls_bucket_options *options);

// ---- Caches ----------------------------------------------------------------
// Keeps elements after computing them once: in memory, as long as the data set,
// or in a file, which the first reader completes while others, of any process,
// wait. A wait ends, too, once the writer has failed or its process has ended,
// with LS_CANCELLED when the iterator is released, and when the cancel of the
// thread that reads is requested, unless the iterator reads ahead (prefetch).
// Elements are those of epoch 0 with seed 0, so that all readers get the same;
// so are their numbers in the source, if the input is indexed. In memory,
// an element that failed is made again when it is next read. The same pipeline
// reuses a file; functions cannot be compared, so remove the file after
// changing one. Indexed if the input is.
//   LS_INVALID_ARGUMENT  an infinite input, or one with a cache in the file; at
//                        a read: a file of another kind or another pipeline.
//   LS_DATA_LOSS         at a read: a damaged file.
LS_API ls_dataset *ls_dataset_cache(ls_dataset *dataset, const char *file);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_STREAMS_H_
