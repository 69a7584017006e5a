// SPDX-License-Identifier: Apache-2.0
// Data sets, as those who make them see them.
//
// A data set is a node: a class, inputs and what elements are. Indexed ones
// give any element at any time, by `get`; if all leaves are dense, of known
// shapes and of plain numbers, their elements are *rows*, and `read` writes
// many at once to where they are wanted, so that a batch is made in place.
// Streams are opened: see data/stage.h.
#ifndef LS_DATA_DATASET_H_
#define LS_DATA_DATASET_H_

#include "base/export.h"
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "data/fetch.h"
#include "lockstep/dataset.h"

struct ls_stage_class;

typedef struct ls_dataset_class {
  const char *name;
  // Works in memory alone and calls no function of a user's, so that who reads
  // may share the work among compute threads.
  bool is_quick;
  bool is_last;  // No other data set is made of it.
  // Releases what is the class's own; inputs and spec go by themselves.
  void (*destroy)(ls_dataset *dataset);  // NULL: nothing.
  // Appends the options, as in "shuffle(seed=1)": "seed=1". Two data sets with
  // equal texts are taken for the same when a position is restored, so sources
  // say what they read. NULL: nothing.
  void (*describe)(const ls_dataset *dataset, ls_text *text);
  // The same with other inputs, which are taken over, as many as it has. Of
  // sources NULL.
  ls_dataset *(*remake)(const ls_dataset *dataset, ls_dataset **inputs);

  // ---- Indexed ones, from any thread ----
  // Element `index`, in-out: see ls_element_reuse. NULL: by `read` or `locate`.
  ls_status (*get)(const ls_dataset *dataset, ls_fetch *fetch, int64_t index,
                   ls_nest *element);
  // Writes element indices[k] of each leaf to rows[leaf] + k * its size. Only
  // of rows. NULL: by `locate`, else by `get`.
  ls_status (*read)(const ls_dataset *dataset, ls_fetch *fetch,
                    const int64_t *indices, size_t count, void *const *rows);
  // The types of element `index`, and the element written to `rows`, one a
  // leaf: of those that know the types before, such as batches of rows. Then
  // `get` is not needed.
  void (*measure)(const ls_dataset *dataset, int64_t index, ls_type *types);
  ls_status (*fill)(const ls_dataset *dataset, ls_fetch *fetch, int64_t index,
                    void *const *rows);
  // Those of one input's elements that it has, in another order: where they
  // are in it; `out` may be `indices`. Neither `get` nor `read` nor `id` is
  // needed then.
  void (*locate)(const ls_dataset *dataset, const ls_fetch *fetch,
                 const int64_t *indices, size_t count, int64_t *out);
  // The number in the source, of one or of many (`out` may be `indices`). NULL:
  // by `locate`, of sources the index itself, else that of the first input's.
  int64_t (*id)(const ls_dataset *dataset, const ls_fetch *fetch,
                int64_t index);
  void (*find_ids)(const ls_dataset *dataset, const ls_fetch *fetch,
                   const int64_t *indices, size_t count, int64_t *out);

  // The least and the largest number in a leaf of integers, where that is known
  // without reading. NULL: that of the input by `locate`, else it is not.
  bool (*bounds)(const ls_dataset *dataset, size_t leaf, int64_t *out_least,
                 int64_t *out_most);

  // ---- Streams ----
  // Reads it where it is not indexed, from the start of epoch 0.
  const struct ls_stage_class *stage;

  // ---- Sources that read files ----
  // Of those that have a file for each element: appends its path. NULL: others.
  void (*file_of)(const ls_dataset *dataset, int64_t index, ls_text *path);
  // How many, and file number `i`; NULL: it reads none.
  size_t (*num_files)(const ls_dataset *dataset);
  const char *(*file)(const ls_dataset *dataset, size_t i);
  // The same of files `index`, `index` + `count`, ... alone.
  ls_dataset *(*shard_files)(const ls_dataset *dataset, int64_t count,
                             int64_t index);
} ls_dataset_class;

// In a pipeline, counted wherever they are used, with those that its functions
// give: what is read goes down the tree on one stack.
enum { LS_MOST_DATASETS = 1000 };

// Every data set's first member.
struct ls_dataset {
  ls_object object;
  const ls_dataset_class *kind;
  ls_allocator *allocator;
  ls_status failure;  // Owned; OK.
  ls_dataset **inputs;
  size_t num_inputs;
  ls_nest structure;  // Leaves are their numbers.
  ls_leaf_spec *leaves;
  size_t num_leaves;
  size_t *row_sizes;  // Bytes of each leaf, if elements are rows.
  int64_t size;       // Elements, LS_INFINITE or LS_UNKNOWN_SIZE.
  int64_t most;       // Of endless ones: how many elements have a number.
  uint32_t nodes;     // Of the tree that it is the root of.
  bool indexed;
  bool rows;          // Elements are rows.
  int64_t prefetch;   // What is computed ahead; -1: not said.
  const char *title;  // The user's name for it; NULL: it has none.
};

// ---- Making ----------------------------------------------------------------
// A data set of `bytes` with these inputs, taken over also on failure. It has
// the first input's spec, size and kind, which the maker then changes. Where an
// input is a failed one, or NULL, or `status` (taken over) is a failure, that
// is what it is: the caller returns it as it is if `failure` is not OK.
LS_PRIVATE_API ls_dataset *ls_dataset_new(const ls_dataset_class *kind,
                                          size_t bytes,
                                          ls_dataset *const *inputs,
                                          size_t num_inputs, ls_status status);
#define LS_DATASET_NEW(Type, kind, inputs, num_inputs, status)                 \
  ((Type *)ls_dataset_new((kind), sizeof(Type), (inputs), (num_inputs),        \
                          (status)))
// Makes it a failed one, unless it is; takes the status over. NULL is fine.
LS_PRIVATE_API ls_dataset *ls_dataset_fail(ls_dataset *dataset,
                                           ls_status status);
// Gives it a spec: a nest of ls_nest_spec leaves, taken over.
LS_PRIVATE_API LS_MUST_USE ls_status ls_dataset_set_spec(ls_dataset *dataset,
                                                         ls_nest spec);
// The same from what there is: `structure` (taken over) with leaves to copy.
LS_PRIVATE_API LS_MUST_USE ls_status
ls_dataset_set_leaves(ls_dataset *dataset, ls_nest structure,
                      const ls_leaf_spec *leaves, size_t count);
// The same from what all inputs' elements have in common.
//   LS_INVALID_ARGUMENT  other structures, dtypes or ranks
LS_MUST_USE ls_status ls_dataset_merge_leaves(ls_dataset *dataset);
// A nest of ls_nest_spec leaves, as the data set's elements are.
ls_nest ls_dataset_spec_nest(const ls_dataset *dataset);
// What an element is: its arrays' types, in a nest of ls_nest_spec leaves.
ls_nest ls_spec_of_element(ls_nest element);
// The spec in a leaf of ls_nest_spec; NULL: it is none.
const ls_leaf_spec *ls_nest_as_spec(ls_nest leaf);
// Whether an element is what the spec says.
//   LS_INVALID_ARGUMENT  names data set, leaf and both.
LS_MUST_USE ls_status ls_dataset_check_element(const ls_dataset *dataset,
                                               ls_nest element);

// Appends a structure whose leaves are numbers: "(f32[3], i32[])"; without
// leaves to look up, "(0, 1)".
void ls_structure_print(ls_nest structure, const ls_leaf_spec *leaves,
                        ls_text *text);
// Appends what it is made of, as ls_dataset_print.
void ls_dataset_describe(const ls_dataset *dataset, ls_text *text);

// What the caller gave, shared by a data set and those remade of it.
typedef struct ls_user {
  ls_object object;
  ls_allocator *allocator;
  void *user;
  void (*release)(void *user);
} ls_user;
// Takes `user` over: it is released by the last reference, or at once without
// memory (NULL).
ls_user *ls_user_create(void *user, void (*release)(void *user));

// A `locate` for those whose elements are the input's, in its order, and an
// `id` for those whose elements are numbered anew.
void ls_dataset_locate_same(const ls_dataset *dataset, const ls_fetch *fetch,
                            const int64_t *indices, size_t count, int64_t *out);
int64_t ls_dataset_id_own(const ls_dataset *dataset, const ls_fetch *fetch,
                          int64_t index);

// ---- Reading ---------------------------------------------------------------
// As the class's, with what is missing there, statistics, and the data set's
// name in front of what goes wrong.
LS_MUST_USE ls_status ls_dataset_get(const ls_dataset *dataset, ls_fetch *fetch,
                                     int64_t index, ls_nest *element);
LS_MUST_USE ls_status ls_dataset_read(const ls_dataset *dataset,
                                      ls_fetch *fetch, const int64_t *indices,
                                      size_t count, void *const *rows);
int64_t ls_dataset_id(const ls_dataset *dataset, const ls_fetch *fetch,
                      int64_t index);
// Whether all that it is made of is quick.
bool ls_dataset_is_quick(const ls_dataset *dataset);
// Of a class with `fill`.
LS_MUST_USE ls_status ls_dataset_fill(const ls_dataset *dataset,
                                      ls_fetch *fetch, int64_t index,
                                      void *const *rows);
// Of many at once; `out` may be `indices`.
void ls_dataset_find_ids(const ls_dataset *dataset, const ls_fetch *fetch,
                         const int64_t *indices, size_t count, int64_t *out);

// Makes `*element` a nest of the structure of these leaves whose arrays may be
// written: the one that is there, if nobody else holds it and its arrays are of
// these types, else a new one. Numbers are undefined.
LS_PRIVATE_API LS_MUST_USE ls_status ls_element_reuse(ls_nest structure,
                                                      const ls_type *types,
                                                      size_t count,
                                                      ls_nest *element);
// The same for an element of a data set whose shapes are known.
LS_MUST_USE ls_status ls_element_reuse_row(const ls_dataset *dataset,
                                           ls_nest *element);
// A list of nests, none at first, that are released together.
typedef struct ls_nests {
  ls_allocator *allocator;
  ls_nest *items;
  size_t count;
} ls_nests;
LS_PRIVATE_API LS_MUST_USE ls_status ls_nests_init(ls_nests *nests,
                                                   ls_allocator *allocator,
                                                   size_t count);
LS_PRIVATE_API void ls_nests_deinit(ls_nests *nests);
LS_OWNED_STRUCT(ls_nests, ls_nests_deinit)

// Replaces what is there by `made`, taken over.
LS_PRIVATE_API LS_MUST_USE ls_status ls_element_replace(ls_nest made,
                                                        ls_nest *element);
// The bytes of all arrays in it.
int64_t ls_element_bytes(ls_nest element);
// Points `at[leaf]` to row `row` of each leaf's rows.
static inline void ls_rows_at(const ls_dataset *dataset, void *const *rows,
                              size_t row, void **at) {
  for (size_t i = 0; i < dataset->num_leaves; ++i)
    at[i] = (char *)rows[i] + row * dataset->row_sizes[i];
}
// The shape of a row of an array of this shape.
static inline ls_shape ls_row_shape(ls_shape shape) {
  for (int k = 1; k < shape.rank; ++k)
    shape.dim[k - 1] = shape.dim[k];
  shape.dim[--shape.rank] = 0;
  return shape;
}
// Copies row `*(const int64_t *)row` of an array, for ls_nest_map.
ls_nest ls_copy_row(ls_nest array, void *row);

#endif  // LS_DATA_DATASET_H_
