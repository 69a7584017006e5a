// SPDX-License-Identifier: Apache-2.0
// Layer: data
//
// Data sets: where elements come from and what becomes of them on the way.
//
//   ls_dataset *d = ls_dataset_from_arrays(LS_TUPLE(images, labels));
//   d = ls_dataset_shuffle(d, &(ls_shuffle_options){.seed = 1});
//   d = ls_dataset_convert(d, 0, &(ls_convert_options){.dtype = LS_DTYPE_F32,
//                                                      .scale = 1.0 / 255});
//   d = ls_dataset_batch(d, &(ls_batch_options){.size = 128});
//   ls_status status = ls_iterator_create(d, NULL, &iterator);
//
// Each maker takes over its input's reference and gives one to the caller. What
// goes wrong in a maker stays in the data set that it gives, which later makers
// hand on, so that a pipeline reads without a check a line: it is the status of
// ls_dataset_status and of ls_iterator_create. A maker gives NULL only without
// memory, and takes it as such.
//
// Most data sets are indexed: element i is a function of i, computed on any
// thread and in any order. Their position is one number, and nothing of what
// comes out depends on threads. The others are streams, read from the start to
// the end.
//
// Elements are nests of arrays. Files: files.h. Reading: iterator.h.
//
// Threads: a data set never changes and is used by any number of threads at the
// same time; so are the functions that it is given, unless their comment says
// otherwise.
#ifndef LOCKSTEP_DATASET_H_
#define LOCKSTEP_DATASET_H_

#include "lockstep/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_dataset ls_dataset;

LS_API ls_dataset *ls_dataset_retain(ls_dataset *dataset);
LS_API void ls_dataset_release(ls_dataset *dataset);  // NULL is fine.
// What went wrong in its making, or OK. The caller's.
LS_API LS_MUST_USE ls_status ls_dataset_status(const ls_dataset *dataset);
// As an object leaf, taken over; and back, lent, NULL if it is none.
LS_API ls_nest ls_nest_dataset(ls_dataset *dataset);

// ---- What elements are -----------------------------------------------------
typedef enum ls_leaf_kind {
  LS_LEAF_DENSE,   // An array of the leaf's type.
  LS_LEAF_SPARSE,  // See sparse.h.
  LS_LEAF_RAGGED,  // The same.
} ls_leaf_kind;

typedef struct ls_leaf_spec {
  ls_leaf_kind kind;
  ls_type type;  // Dimensions that differ between elements are -1.
} ls_leaf_spec;

// What all elements have in common. Leaves are numbered in the order of
// flattening.
typedef struct ls_element_spec {
  ls_nest structure;  // Its leaves are their numbers.
  const ls_leaf_spec *leaves;
  size_t count;
} ls_element_spec;

enum { LS_INFINITE = -1, LS_UNKNOWN_SIZE = -2 };
// The number of elements, LS_INFINITE, or LS_UNKNOWN_SIZE; of a failed one 0.
LS_API int64_t ls_dataset_cardinality(const ls_dataset *dataset);
// Whether element i is a function of i; if not, it is a stream.
LS_API bool ls_dataset_is_indexed(const ls_dataset *dataset);
// What it is made of, source first: "range(0, 10).shuffle(seed=1).batch(2)".
// Printed into `buffer`, cut to `size`; returns `buffer`.
LS_API const char *ls_dataset_print(const ls_dataset *dataset, char *buffer,
                                    size_t size);

// ---- Sources ---------------------------------------------------------------
// The rows of dimension 0 of every leaf: arrays, which must not change. A leaf
// that is the same for all is not possible; give a function.
//   LS_INVALID_ARGUMENT  no leaf, one that is no array or a scalar, or numbers
//                        of rows that differ: names the leaves.
LS_API ls_dataset *ls_dataset_from_arrays(ls_nest arrays);
// i64 scalars: start, start + step, ... before stop.
//   LS_INVALID_ARGUMENT  a step of 0.
LS_API ls_dataset *ls_dataset_range(int64_t start, int64_t stop, int64_t step);

// A source of the caller's: element `index` is what `get` says.
typedef struct ls_index_options {
  const char *name;  // For messages and ls_dataset_print. Default "function".
  int64_t size;      // Elements, or LS_INFINITE.
  ls_nest element;   // What they are: leaves of ls_nest_spec. Taken over.
  // Writes element `index` into the arrays of `out`, of the types that
  // `element` says; where those are not known, `make` gives it. One of both.
  ls_status (*get)(void *user, int64_t index, ls_nest out);
  ls_nest (*make)(void *user, int64_t index);
  void *user;
  void (*release)(void *user);  // Of `user`, with the data set. May be NULL.
} ls_index_options;
LS_API ls_dataset *ls_dataset_from_function(const ls_index_options *options);

// ---- One to one ------------------------------------------------------------
// What a map's function may want to know of an element.
typedef struct ls_map_call {
  int64_t id;     // Its number in the source, in whatever order it came.
  int64_t epoch;  // Of repeat and of the iterator.
  uint64_t key;   // Random bits, of the iterator's seed, this map, epoch, id:
                  // the same whatever the threads.
} ls_map_call;
// The nest is lent; gives a new one, or a failed one.
typedef ls_nest (*ls_map_function)(ls_nest element, const ls_map_call *call,
                                   void *user);
// The same, writing into the arrays of `out`.
typedef ls_status (*ls_fill_function)(ls_nest element, ls_nest out,
                                      const ls_map_call *call, void *user);
typedef struct ls_map_options {
  const char *name;  // Default "map".
  // One of both. With `fill` no memory is taken for an element.
  ls_map_function call;
  ls_fill_function fill;
  void *user;
  void (*release)(void *user);  // May be NULL.
  // What the results are: leaves of ls_nest_spec. Taken over. Required with
  // `fill`. Default: what the first element becomes; one that becomes something
  // else is refused when it is read.
  ls_nest result;
  uint64_t stream;  // Another one draws other keys. Default 0.
} ls_map_options;
LS_API ls_dataset *ls_dataset_map(ls_dataset *dataset,
                                  const ls_map_options *options);

// Another type for a leaf. Zero in a field means its default.
typedef struct ls_convert_options {
  ls_dtype dtype;         // Default: as it is.
  double scale;           // What numbers are multiplied by. Default 1.
  double offset;          // And then added.
  const ls_shape *shape;  // Of as many elements. Default: as it is.
} ls_convert_options;
// Converts leaf number `leaf`, computed in f32, or in f64 if one of both types
// is f64 or an integer of 32 bits and more: rounded to nearest for floats, for
// integers towards zero and to the nearest that there is, NaN to 0. Integers
// that become integers, without scale and offset, keep their low bits.
//   LS_INVALID_ARGUMENT  no such leaf, no numbers, another number of elements.
LS_API ls_dataset *ls_dataset_convert(ls_dataset *dataset, int leaf,
                                      const ls_convert_options *options);

// ---- Other elements of it --------------------------------------------------
typedef struct ls_shuffle_options {
  uint64_t seed;  // Beside the iterator's.
  // Blocks of so many elements are dealt in any order, one after another; 0:
  // all of an indexed one. A stream needs a buffer, in which it holds them; an
  // indexed one takes no memory for it: orders are computed.
  int64_t buffer;
  ls_flag each_epoch;  // Another order each epoch. Default on.
  // One order of `seed` alone, whatever the iterator's seed and the epoch: what
  // is taken of it and what is skipped are parts that have no element in
  // common.
  bool fixed;
} ls_shuffle_options;
LS_API ls_dataset *ls_dataset_shuffle(ls_dataset *dataset,
                                      const ls_shuffle_options *options);
// The whole, `times` times; less than 0: for ever.
LS_API ls_dataset *ls_dataset_repeat(ls_dataset *dataset, int64_t times);
// The first `count` elements, or all if there are less; what is behind them.
// Less than 0: all of them are taken, all skipped.
LS_API ls_dataset *ls_dataset_take(ls_dataset *dataset, int64_t count);
LS_API ls_dataset *ls_dataset_skip(ls_dataset *dataset, int64_t count);
// Elements `index`, `index` + `count`, ...
LS_API ls_dataset *ls_dataset_shard(ls_dataset *dataset, int64_t count,
                                    int64_t index);

// ---- Several ---------------------------------------------------------------
// `first`, then `second`; elements of one structure and dtypes. Takes over
// both.
LS_API ls_dataset *ls_dataset_concatenate(ls_dataset *first,
                                          ls_dataset *second);
// Elements whose leaves are elements of data sets: a nest of ls_nest_dataset
// leaves, taken over. As many as the smallest has.
LS_API ls_dataset *ls_dataset_zip(ls_nest datasets);

// ---- Batches ---------------------------------------------------------------
typedef enum ls_batch_remainder {
  LS_REMAINDER_KEEP,  // A last batch that is not full is smaller.
  LS_REMAINDER_DROP,  // It is left out.
  LS_REMAINDER_PAD,   // It is filled with zeros; elements become (element,
                      // mask), where the mask f32[size] is 1 for what is real.
} ls_batch_remainder;
typedef struct ls_batch_options {
  int64_t size;  // At least 1.
  ls_batch_remainder remainder;
  // Elements become (element, ids), or (element, mask, ids): the i64 number in
  // the source of each, -1 for padding.
  bool ids;
  // Pads each element of a leaf to the longest of its batch, or to a size that
  // is given: one shape a leaf, of its rank, -1 for the longest. NULL: all must
  // have one shape.
  const ls_shape *padded_shapes;
  size_t num_padded_shapes;
  const double *padding;  // One number a leaf. Default 0.
} ls_batch_options;
// Stacks elements along a new dimension 0.
LS_API ls_dataset *ls_dataset_batch(ls_dataset *dataset,
                                    const ls_batch_options *options);

// Elements, which are batches, as what replicas take: each leaf a PerReplica of
// `count` parts of its first dimension, views of one array, in the order of
// replicas. Their sizes differ by at most one, larger ones first.
//   LS_INVALID_ARGUMENT  elements without a first dimension
LS_API ls_dataset *ls_dataset_parts(ls_dataset *dataset, int64_t count);

// ---- Ahead -----------------------------------------------------------------
// How many elements are computed ahead of who reads, by the runtime's input
// threads. Where nobody says, iterators do as their options say.
LS_API ls_dataset *ls_dataset_prefetch(ls_dataset *dataset, int64_t count);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_DATASET_H_
