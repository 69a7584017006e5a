// SPDX-License-Identifier: Apache-2.0
// Layer: data
//
// Data sets: sources of elements and their transformations.
//
//   ls_dataset *d = ls_dataset_from_arrays(LS_TUPLE(images, labels));
//   d = ls_dataset_shuffle(d, &(ls_shuffle_options){.seed = 1});
//   d = ls_dataset_convert(d, 0, &(ls_convert_options){.dtype = LS_DTYPE_F32,
//                                                      .scale = 1.0 / 255});
//   d = ls_dataset_batch(d, &(ls_batch_options){.size = 128});
//   ls_status status = ls_iterator_create(d, NULL, &iterator);
//
// Each maker takes over its input's reference and returns one to the caller. A
// maker that fails returns a data set that holds the failure, and later makers
// pass it on, so that a pipeline reads without a check per line:
// ls_dataset_status and ls_iterator_create return it. A maker returns NULL only
// when memory runs out, and accepts NULL as that failure.
//
// Most data sets are indexed: element i is a function of i, computed on any
// thread and in any order. Their position is one number, and no result depends
// on threads. The others are streams, read from the start to the end.
//
// Elements are nests of arrays. Files: files.h. Reading: iterator.h.
//
// Threads: a data set never changes, and any number of threads may use it at
// the same time; so they may call the functions it is given, unless their
// comment says otherwise.
#ifndef LOCKSTEP_DATASET_H_
#define LOCKSTEP_DATASET_H_

#include "lockstep/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_dataset ls_dataset;

LS_API ls_dataset *ls_dataset_retain(ls_dataset *dataset);
LS_API void ls_dataset_release(ls_dataset *dataset);  // NULL is fine.
// Returns the failure of its maker, or OK. The caller owns the status.
LS_API LS_MUST_USE ls_status ls_dataset_status(const ls_dataset *dataset);
// Wraps a data set, taken over, in an object leaf.
LS_API ls_nest ls_nest_dataset(ls_dataset *dataset);

// ---- Element types ---------------------------------------------------------
typedef enum ls_leaf_kind {
  LS_LEAF_DENSE,   // An array of the leaf's type.
  LS_LEAF_SPARSE,  // See sparse.h.
  LS_LEAF_RAGGED,  // See sparse.h.
} ls_leaf_kind;

typedef struct ls_leaf_spec {
  ls_leaf_kind kind;
  ls_type type;  // Dimensions that differ between elements are -1.
} ls_leaf_spec;

// Structure and types common to all elements. Leaves are numbered in the order
// of flattening.
typedef struct ls_element_spec {
  ls_nest structure;  // Has the numbers of leaves as leaves.
  const ls_leaf_spec *leaves;
  size_t count;
} ls_element_spec;

enum { LS_INFINITE = -1, LS_UNKNOWN_SIZE = -2 };
// Returns the number of elements, LS_INFINITE, or LS_UNKNOWN_SIZE; 0 for a
// failed data set.
LS_API int64_t ls_dataset_cardinality(const ls_dataset *dataset);
// Returns true if element i is a function of i; false for a stream.
LS_API bool ls_dataset_is_indexed(const ls_dataset *dataset);
// Prints the makers, source first, such as "range(0,
// 10).shuffle(seed=1).batch(2)", into `buffer`, cut to `size`; returns
// `buffer`.
LS_API const char *ls_dataset_print(const ls_dataset *dataset, char *buffer,
                                    size_t size);

// ---- Sources ---------------------------------------------------------------
// Makes a data set of the rows along dimension 0 of every leaf: arrays, which
// must not change. A leaf that is the same for all elements is not possible;
// use a function.
//   LS_INVALID_ARGUMENT  there is no leaf, a leaf is no array or a scalar, or
//                        numbers of rows differ: names the leaves.
LS_API ls_dataset *ls_dataset_from_arrays(ls_nest arrays);
// Makes i64 scalars: start, start + step, ... below stop.
//   LS_INVALID_ARGUMENT  the step is 0.
LS_API ls_dataset *ls_dataset_range(int64_t start, int64_t stop, int64_t step);

// A source by the caller's function: `get` computes element `index`.
typedef struct ls_index_options {
  const char *name;  // For messages and ls_dataset_print. Default "function".
  int64_t size;      // Number of elements, or LS_INFINITE.
  ls_nest element;   // Their types: leaves of ls_nest_spec. Taken over.
  // `get` writes element `index` into the arrays of `out`, which have the types
  // of `element`; `make` returns it instead where types are not fully known.
  // Set exactly one.
  ls_status (*get)(void *user, int64_t index, ls_nest out);
  ls_nest (*make)(void *user, int64_t index);
  void *user;
  // Called with `user` when the data set is destroyed. May be NULL.
  void (*release)(void *user);
} ls_index_options;
LS_API ls_dataset *ls_dataset_from_function(const ls_index_options *options);

// ---- Maps ------------------------------------------------------------------
// Facts about an element for a map's function.
typedef struct ls_map_call {
  int64_t id;     // Number in the source, whatever the order of reading.
  int64_t epoch;  // Epoch of repeat and of the iterator.
  // Random bits by the iterator's seed, this map, epoch and id: the same
  // whatever the threads.
  uint64_t key;
} ls_map_call;
// Returns a new nest, or a failed one. The element is lent.
typedef ls_nest (*ls_map_function)(ls_nest element, const ls_map_call *call,
                                   void *user);
// Computes an element into the arrays of `out`.
typedef ls_status (*ls_fill_function)(ls_nest element, ls_nest out,
                                      const ls_map_call *call, void *user);
typedef struct ls_map_options {
  const char *name;  // Default "map".
  // Set exactly one. With `fill` no memory is allocated per element.
  ls_map_function call;
  ls_fill_function fill;
  void *user;
  void (*release)(void *user);  // May be NULL.
  // Types of the results: leaves of ls_nest_spec. Taken over. Required with
  // `fill`. Default: the types of the first result; a later result of another
  // type is refused when it is read.
  ls_nest result;
  uint64_t stream;  // Selects another stream of keys. Default 0.
} ls_map_options;
LS_API ls_dataset *ls_dataset_map(ls_dataset *dataset,
                                  const ls_map_options *options);

// Conversion of a leaf to another type. Zero in a field means its default.
typedef struct ls_convert_options {
  ls_dtype dtype;         // Default: unchanged.
  double scale;           // Factor that numbers are multiplied by. Default 1.
  double offset;          // Added after that.
  const ls_shape *shape;  // A shape of as many elements. Default: unchanged.
} ls_convert_options;
// Converts leaf number `leaf`, computed in f32, or in f64 if one of both types
// is f64 or an integer of 32 bits and more. Floats are rounded to nearest,
// integers towards zero and clamped to the type's range, NaN becomes 0.
// Integers that become integers, without scale and offset, keep their low bits.
//   LS_INVALID_ARGUMENT  there is no such leaf, it has no numbers, or the
//                        number of elements differs.
LS_API ls_dataset *ls_dataset_convert(ls_dataset *dataset, int leaf,
                                      const ls_convert_options *options);

// ---- Selection and order ---------------------------------------------------
typedef struct ls_shuffle_options {
  uint64_t seed;  // Combined with the iterator's seed.
  // Shuffles within blocks of this many elements, one block after another; 0:
  // all of an indexed data set. A stream needs a buffer, in which it keeps
  // them; an indexed data set takes no memory for it: orders are computed.
  int64_t buffer;
  ls_flag each_epoch;  // On: a different order each epoch. Default on.
  // Uses one order by `seed` alone, whatever the iterator's seed and the epoch,
  // so that the taken and the skipped part never share an element.
  bool fixed;
} ls_shuffle_options;
LS_API ls_dataset *ls_dataset_shuffle(ls_dataset *dataset,
                                      const ls_shuffle_options *options);
// Repeats the data set `times` times; below 0: for ever, until a repetition has
// no elements. 1000 in a row without elements end any repeat of a stream.
LS_API ls_dataset *ls_dataset_repeat(ls_dataset *dataset, int64_t times);
// Take the first `count` elements, or all if there are fewer; skip them. Below
// 0: takes or skips all.
LS_API ls_dataset *ls_dataset_take(ls_dataset *dataset, int64_t count);
LS_API ls_dataset *ls_dataset_skip(ls_dataset *dataset, int64_t count);
// Selects elements `index`, `index` + `count`, ...
LS_API ls_dataset *ls_dataset_shard(ls_dataset *dataset, int64_t count,
                                    int64_t index);

// ---- Several ---------------------------------------------------------------
// Concatenates `first` and `second`, whose elements have one structure and the
// same dtypes. Takes over both.
LS_API ls_dataset *ls_dataset_concatenate(ls_dataset *first,
                                          ls_dataset *second);
// Combines data sets: a nest of ls_nest_dataset leaves, taken over, becomes
// elements of that structure, as many as the smallest has.
LS_API ls_dataset *ls_dataset_zip(ls_nest datasets);

// ---- Batches ---------------------------------------------------------------
typedef enum ls_batch_remainder {
  LS_REMAINDER_KEEP,  // A last partial batch is smaller.
  LS_REMAINDER_DROP,  // A last partial batch is dropped.
  // A last partial batch is padded with zeros; elements become (element, mask),
  // where the mask f32[size] is 1 for real rows.
  LS_REMAINDER_PAD,
} ls_batch_remainder;
typedef struct ls_batch_options {
  int64_t size;  // At least 1.
  ls_batch_remainder remainder;
  // Adds ids: elements become (element, ids), or (element, mask, ids), with the
  // i64 number of each element in the source, -1 for padding.
  bool ids;
  // Pads each element of a leaf to the longest of its batch, or to a given
  // size: one shape per leaf, of its rank, -1 for the longest. NULL: all
  // elements must have one shape.
  const ls_shape *padded_shapes;
  size_t num_padded_shapes;
  const double *padding;  // One number per leaf. Default 0.
} ls_batch_options;
// Stacks elements along a new dimension 0.
LS_API ls_dataset *ls_dataset_batch(ls_dataset *dataset,
                                    const ls_batch_options *options);

// Splits elements, which are batches, into values for replicas: each leaf
// becomes a PerReplica of `count` parts of its first dimension, views of one
// array, in replica order. Their sizes differ by at most one, larger ones
// first.
//   LS_INVALID_ARGUMENT  elements have no first dimension
LS_API ls_dataset *ls_dataset_parts(ls_dataset *dataset, int64_t count);

// ---- Prefetching -----------------------------------------------------------
// Sets the number of elements that the runtime's input threads compute ahead of
// the reader. Without it the iterator's options decide.
LS_API ls_dataset *ls_dataset_prefetch(ls_dataset *dataset, int64_t count);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_DATASET_H_
