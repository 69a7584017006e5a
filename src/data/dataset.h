// SPDX-License-Identifier: Apache-2.0
// Data sets, for their makers.
//
// A data set is a node: a class, inputs and an element spec. An indexed data
// set gives any element at any time, by `get`; if all leaves are dense, of
// known shapes and plain numbers, its elements are *rows*, and `read` writes
// many of them at once to given addresses, so that a batch is made in place.
// Streams are opened: see data/stage.h.
#ifndef LS_DATA_DATASET_H_
#define LS_DATA_DATASET_H_

#include <stdint.h>

#include "base/export.h"
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "base/values/nest_builder.h"
#include "data/fetch.h"
#include "lockstep/array.h"
#include "lockstep/dataset.h"

struct ls_stage_class;

typedef struct ls_dataset_class {
  const char *name;
  // Works in memory only and calls no user function, so that compute threads
  // may share the work.
  bool is_quick;
  bool is_last;  // Cannot be the input of another data set.
  // Releases the class's own fields; inputs and spec are released by the
  // caller.
  void (*destroy)(ls_dataset *dataset);  // NULL: nothing to release.
  // Appends the options, as in "shuffle(seed=1)": "seed=1". Restoring a
  // position compares these texts, so sources describe their data. NULL: no
  // options.
  void (*describe)(const ls_dataset *dataset, ls_text *text);
  // Makes the same data set with other inputs, which it takes over. NULL for
  // sources.
  ls_dataset *(*remake)(const ls_dataset *dataset, ls_dataset **inputs);

  // ---- Indexed data sets; called by any thread ----
  // Gets element `index`, in-out: see ls_element_reuse. NULL: done by `read` or
  // `locate`.
  ls_status (*get)(const ls_dataset *dataset, ls_fetch *fetch, int64_t index,
                   ls_nest *element);
  // Does so for data sets of no rows, whose `read` reads those of rows.
  ls_status (*get_other)(const ls_dataset *dataset, ls_fetch *fetch,
                         int64_t index, ls_nest *element);
  // Writes element indices[k] of each leaf to rows[leaf] + k * its size. Only
  // for rows. NULL: done by `locate`, else by `get`.
  ls_status (*read)(const ls_dataset *dataset, ls_fetch *fetch,
                    const int64_t *indices, size_t count, void *const *rows);
  // Measure the types of element `index`, and write the element to `rows`, one
  // pointer per leaf. For data sets that know the types in advance, such as
  // batches of rows, in place of `get`.
  void (*measure)(const ls_dataset *dataset, int64_t index, ls_type *types);
  ls_status (*fill)(const ls_dataset *dataset, ls_fetch *fetch, int64_t index,
                    void *const *rows);
  // Maps indices to indices of the only input, for data sets whose elements are
  // a selection of the input's; `out` may be `indices`. Replaces `get`, `read`
  // and `id`.
  void (*locate)(const ls_dataset *dataset, const ls_fetch *fetch,
                 const int64_t *indices, size_t count, int64_t *out);
  // Returns the number in the source of one element or of many (`out` may be
  // `indices`). NULL: by `locate`; in sources the index itself, else the first
  // input's number.
  int64_t (*id)(const ls_dataset *dataset, const ls_fetch *fetch,
                int64_t index);
  void (*find_ids)(const ls_dataset *dataset, const ls_fetch *fetch,
                   const int64_t *indices, size_t count, int64_t *out);

  // Finds the least and largest number in a leaf of integers without reading,
  // if known. NULL: the input's bounds if there is `locate`, else unknown.
  bool (*bounds)(const ls_dataset *dataset, size_t leaf, int64_t *out_least,
                 int64_t *out_most);

  // ---- Streams ----
  // Reads the data set if it is not indexed, from the start of epoch 0.
  const struct ls_stage_class *stage;

  // ---- Sources that read files ----
  // Appends the path of an element's file, for sources with one file per
  // element; else NULL.
  void (*file_of)(const ls_dataset *dataset, int64_t index, ls_text *path);
  // Returns the number of files, and file `i`; NULL: the data set reads no
  // files.
  size_t (*num_files)(const ls_dataset *dataset);
  const char *(*file)(const ls_dataset *dataset, size_t i);
  // Makes a data set of files `index`, `index` + `count`, ... only.
  ls_dataset *(*shard_files)(const ls_dataset *dataset, int64_t count,
                             int64_t index);
} ls_dataset_class;

// Limit of data sets in a pipeline, each use counted, including those that its
// functions return: reading recurses down the tree on one stack.
enum { LS_MOST_DATASETS = 1000 };

// First member of every data set.
struct ls_dataset {
  ls_object object;
  const ls_dataset_class *kind;
  ls_allocator *allocator;
  ls_status failure;  // OK, or the failure. Owned.
  ls_dataset **inputs;
  size_t num_inputs;
  ls_nest structure;  // Each leaf is the number of the leaf.
  ls_leaf_spec *leaves;
  size_t num_leaves;
  size_t *row_sizes;  // Bytes of each leaf, if elements are rows.
  int64_t size;       // Elements, LS_INFINITE or LS_UNKNOWN_SIZE.
  int64_t most;       // Number of elements with an index, also if endless.
  uint32_t nodes;     // Number of nodes of its tree.
  bool indexed;
  bool rows;             // Elements are rows.
  int64_t prefetch;      // Elements to make ahead; -1: not set.
  const char *title;     // The user's name, or NULL.
  struct ls_user *user;  // For the class's functions; NULL: none.
};

// ---- Making ----------------------------------------------------------------
// Makes a data set of `bytes` bytes with these inputs, taken over also on
// failure. It starts with the first input's spec, size and kind, which the
// maker then changes. If an input is failed or NULL, or `status` (taken over)
// is a failure, returns a failed data set, which the maker returns as it is.
LS_PRIVATE_API ls_dataset *ls_dataset_new(const ls_dataset_class *kind,
                                          size_t bytes,
                                          ls_dataset *const *inputs,
                                          size_t num_inputs, ls_status status);
// Makes a data set with user data, which it takes over also on failure; NULL:
// there was no memory for it.
ls_dataset *ls_dataset_new_with(const ls_dataset_class *kind, size_t bytes,
                                ls_dataset *const *inputs, size_t num_inputs,
                                struct ls_user *user, ls_status status);
// In a public maker: returns a failed data set if its options are NULL.
#define LS_DATASET_REQUIRE(options, Type, kind, inputs, num_inputs)            \
  do {                                                                         \
    if ((options) == NULL)                                                     \
      return ls_dataset_new((kind), sizeof(Type), (inputs), (num_inputs),      \
                            ls_null_argument(__func__, #options));             \
  } while (0)
#define LS_DATASET_NEW(Type, kind, inputs, num_inputs, status)                 \
  ((Type *)ls_dataset_new((kind), sizeof(Type), (inputs), (num_inputs),        \
                          (status)))
// Makes the data set a failed one, unless it is already; takes the status over.
// Accepts NULL.
LS_PRIVATE_API ls_dataset *ls_dataset_fail(ls_dataset *dataset,
                                           ls_status status);
// Converts labels or tokens like ls_dataset_convert, except that integers are
// clamped to those of i32: a class that there is not becomes none that there
// is.
ls_dataset *ls_dataset_convert_labels(ls_dataset *dataset, int leaf,
                                      const ls_convert_options *options);
// Sets the spec: a nest of ls_nest_spec leaves, which it takes over.
LS_PRIVATE_API LS_MUST_USE ls_status ls_dataset_set_spec(ls_dataset *dataset,
                                                         ls_nest spec);
// Sets the spec from `structure` (taken over) and leaves to copy.
LS_PRIVATE_API LS_MUST_USE ls_status
ls_dataset_set_leaves(ls_dataset *dataset, ls_nest structure,
                      const ls_leaf_spec *leaves, size_t count);
// Sets the spec to what the elements of all inputs have in common.
//   LS_INVALID_ARGUMENT  other structures, dtypes or ranks
LS_MUST_USE ls_status ls_dataset_merge_leaves(ls_dataset *dataset);
// Returns the data set's spec as a nest of ls_nest_spec leaves.
ls_nest ls_dataset_spec_nest(const ls_dataset *dataset);
// Returns the types of an element's arrays as a nest of ls_nest_spec leaves.
ls_nest ls_spec_of_element(ls_nest element);
// Returns the spec in a leaf of ls_nest_spec, NULL for another leaf.
const ls_leaf_spec *ls_nest_as_spec(ls_nest leaf);
// Checks that an element fits a spec, and the spec of a data set.
//   LS_INVALID_ARGUMENT  names leaf and both types, and the data set.
LS_MUST_USE ls_status ls_element_check(const ls_element_spec *spec,
                                       ls_allocator *allocator,
                                       ls_nest element);
LS_MUST_USE ls_status ls_dataset_check_element(const ls_dataset *dataset,
                                               ls_nest element);

// Prints a structure whose leaves are numbers: "(f32[3], i32[])"; without
// `leaves`, "(0, 1)".
void ls_structure_print(ls_nest structure, const ls_leaf_spec *leaves,
                        ls_text *text);
// Appends the pipeline as ls_dataset_print does.
void ls_dataset_describe(const ls_dataset *dataset, ls_text *text);

// User data shared by a data set and its remade copies.
typedef struct ls_user {
  ls_object object;
  ls_allocator *allocator;
  void *user;
  void (*release)(void *user);
} ls_user;
// Takes `user` over: the last reference releases it; without memory it is
// released at once (NULL).
ls_user *ls_user_create(void *user, void (*release)(void *user));

// `locate` for data sets whose elements are the input's in its order, and `id`
// for those that number their elements themselves.
void ls_dataset_locate_same(const ls_dataset *dataset, const ls_fetch *fetch,
                            const int64_t *indices, size_t count, int64_t *out);
int64_t ls_dataset_id_own(const ls_dataset *dataset, const ls_fetch *fetch,
                          int64_t index);

// ---- Reading ---------------------------------------------------------------
// Call the class's functions or their defaults, keep statistics, and put the
// data set's name in front of errors.
LS_MUST_USE ls_status ls_dataset_get(const ls_dataset *dataset, ls_fetch *fetch,
                                     int64_t index, ls_nest *element);
LS_MUST_USE ls_status ls_dataset_read(const ls_dataset *dataset,
                                      ls_fetch *fetch, const int64_t *indices,
                                      size_t count, void *const *rows);
int64_t ls_dataset_id(const ls_dataset *dataset, const ls_fetch *fetch,
                      int64_t index);
// Returns true if the whole pipeline is quick.
bool ls_dataset_is_quick(const ls_dataset *dataset);
// Calls `fill`, which the class must have.
LS_MUST_USE ls_status ls_dataset_fill(const ls_dataset *dataset,
                                      ls_fetch *fetch, int64_t index,
                                      void *const *rows);
// Finds the numbers in the source of many elements; `out` may be `indices`.
void ls_dataset_find_ids(const ls_dataset *dataset, const ls_fetch *fetch,
                         const int64_t *indices, size_t count, int64_t *out);

// Makes `*element` a nest of this structure whose arrays may be written: the
// nest that is there, if nobody else holds it and its arrays have these types,
// else a new one. Contents are undefined.
LS_PRIVATE_API LS_MUST_USE ls_status ls_element_reuse(ls_nest structure,
                                                      const ls_type *types,
                                                      size_t count,
                                                      ls_nest *element);
// Makes `*element` writable for a data set whose shapes are known.
LS_MUST_USE ls_status ls_element_reuse_row(const ls_dataset *dataset,
                                           ls_nest *element);
// Replaces `*element` by `made`, which it takes over.
LS_PRIVATE_API LS_MUST_USE ls_status ls_element_replace(ls_nest made,
                                                        ls_nest *element);
// Returns the bytes of all arrays in an element.
int64_t ls_element_bytes(ls_nest element);
// Points `at[leaf]` to row `row` of each leaf's rows.
static inline void ls_rows_at(const ls_dataset *dataset, void *const *rows,
                              size_t row, void **at) {
  for (size_t i = 0; i < dataset->num_leaves; ++i)
    at[i] = (char *)rows[i] + row * dataset->row_sizes[i];
}
// Returns the shape of one row of an array of this shape.
static inline ls_shape ls_row_shape(ls_shape shape) {
  for (int k = 1; k < shape.rank; ++k)
    shape.dim[k - 1] = shape.dim[k];
  shape.dim[--shape.rank] = 0;
  return shape;
}
// Copies row `*(const int64_t *)row` of an array; for ls_nest_map.
ls_nest ls_copy_row(ls_nest array, void *row);

// ---- Hashes ----------------------------------------------------------------
// Hashes of arrays are equal on all machines of the same byte order, and not
// safe against forged collisions.
//
// Hashes type, shape and elements; `before` chains a hash.
uint64_t ls_hash_array(const ls_array *array, uint64_t before);

#endif  // LS_DATA_DATASET_H_
