// SPDX-License-Identifier: Apache-2.0
// Sparse and ragged leaves, for data sets.
#ifndef LS_DATA_COMPOSITE_H_
#define LS_DATA_COMPOSITE_H_

#include "data/dataset.h"
#include "lockstep/sparse.h"

typedef struct ls_composite {
  ls_object object;
  ls_allocator *allocator;
  ls_leaf_spec spec;  // The leaf's spec; of a sparse leaf with the dense shape.
  size_t count;
  ls_array *parts[];  // Sparse: indices, values. Ragged: values, splits.
} ls_composite;

// Returns the composite in a leaf; NULL if the leaf is not one.
const ls_composite *ls_nest_as_composite(ls_nest leaf);

// Parts of a ragged leaf under construction: values, then splits.
typedef struct ls_composite_parts {
  ls_array *arrays[LS_MAX_RANK + 1];
} ls_composite_parts;
static inline void ls_composite_parts_release(const ls_composite_parts *parts) {
  for (size_t i = 0; i <= LS_MAX_RANK; ++i)
    ls_array_release(parts->arrays[i]);
}
LS_OWNED_STRUCT(ls_composite_parts, ls_composite_parts_release)
// Makes a ragged leaf of the values and `num_splits` splits, which it takes
// over.
static inline ls_nest ls_composite_ragged(ls_composite_parts *parts,
                                          size_t num_splits) {
  const ls_composite_parts given = ls_give(parts);
  return ls_nest_ragged(given.arrays[0], given.arrays + 1, num_splits);
}

// Makes a leaf of `rows` rows from row `first` on.
LS_MUST_USE ls_status ls_composite_rows(const ls_composite *leaf, int64_t first,
                                        int64_t rows, ls_nest *out);
// Makes a leaf without rows of this spec; unknown dimensions of a sparse one
// become 0.
LS_MUST_USE ls_status ls_composite_empty(const ls_leaf_spec *spec,
                                         ls_nest *out);

#endif  // LS_DATA_COMPOSITE_H_
