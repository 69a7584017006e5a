// SPDX-License-Identifier: Apache-2.0
//
// Iteration over a dense array in row order beside another array that has a
// stride along each dimension.
#ifndef LS_ENGINE_CPU_KERNELS_DIMS_H_
#define LS_ENGINE_CPU_KERNELS_DIMS_H_

#include "lockstep/shape.h"

// Dimensions from outer to inner. Rank 0: one element.
typedef struct ls_strided_dims {
  int32_t rank;
  int64_t size[LS_MAX_RANK];
  int64_t step[LS_MAX_RANK];  // Elements of the other array.
} ls_strided_dims;

// An iterator: an index along each dimension, and the offset in the other
// array.
typedef struct ls_walk {
  int64_t index[LS_MAX_RANK];
  int64_t offset;
} ls_walk;

// Adds an inner dimension: drops size 1, and joins it with the previous one if
// they have one stride.
static inline void ls_strided_dims_add(ls_strided_dims *dims, int64_t size,
                                       int64_t step) {
  if (size == 1) return;
  const int32_t last = dims->rank - 1;
  if (last >= 0 && dims->step[last] == step * size) {
    dims->size[last] *= size;
    dims->step[last] = step;
    return;
  }
  dims->size[dims->rank] = size;
  dims->step[dims->rank] = step;
  ++dims->rank;
}

// Removes dimension `at`.
static inline void ls_strided_dims_remove(ls_strided_dims *dims, int32_t at) {
  --dims->rank;
  for (int32_t i = at; i < dims->rank; ++i) {
    dims->size[i] = dims->size[i + 1];
    dims->step[i] = dims->step[i + 1];
  }
}

static inline int64_t ls_strided_dims_count(const ls_strided_dims *dims) {
  int64_t count = 1;
  for (int32_t i = 0; i < dims->rank; ++i)
    count *= dims->size[i];
  return count;
}

// Returns the iterator at element `index` in row order.
static inline ls_walk ls_walk_at(const ls_strided_dims *dims, int64_t index) {
  ls_walk walk;
  walk.offset = 0;
  for (int32_t i = dims->rank; i-- > 0;) {
    walk.index[i] = index % dims->size[i];
    walk.offset += walk.index[i] * dims->step[i];
    index /= dims->size[i];
  }
  return walk;
}

// Moves to the next element; from the last one to the first.
static inline void ls_walk_next(ls_walk *walk, const ls_strided_dims *dims) {
  for (int32_t i = dims->rank; i-- > 0;) {
    walk->offset += dims->step[i];
    if (++walk->index[i] < dims->size[i]) return;
    walk->offset -= dims->size[i] * dims->step[i];
    walk->index[i] = 0;
  }
}

#endif  // LS_ENGINE_CPU_KERNELS_DIMS_H_
