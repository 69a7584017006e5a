// SPDX-License-Identifier: Apache-2.0
//
// Reading indices of any integer type.
#ifndef LS_ENGINE_CPU_KERNELS_INDEX_H_
#define LS_ENGINE_CPU_KERNELS_INDEX_H_

#include "engine/cpu/kernels/dims.h"
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

// Indices read at a time.
enum { LS_INDEX_CHUNK = 256 };

// Reads element `at` of an array of integers. A number beyond i64 becomes its
// largest number.
static inline int64_t ls_index_read(const void *indices, ls_dtype dtype,
                                    int64_t at) {
  switch (dtype) {
#define LS_CASE(unused, D, T, W)                                               \
  case LS_DTYPE_##D:                                                           \
    return (int64_t)((const T *)indices)[at];
    LS_EACH_SIGNED(LS_CASE, )
    LS_CASE(, U8, uint8_t, )
    LS_CASE(, U16, uint16_t, )
    LS_CASE(, U32, uint32_t, )
#undef LS_CASE
  case LS_DTYPE_U64: {
    const uint64_t index = ((const uint64_t *)indices)[at];
    return index > INT64_MAX ? INT64_MAX : (int64_t)index;
  }
  default:
    return -1;
  }
}

// Clamps an index to 0 to `last`.
static inline int64_t ls_index_clamp(int64_t index, int64_t last) {
  return ls_max_i64(0, ls_min_i64(index, last));
}

// Returns INVALID_ARGUMENT if elements are wanted of an axis of x that has
// none.
ls_status ls_check_indexed(const ls_kernel_plan *plan, int32_t axis);

// ---- Elements at offsets ---------------------------------------------------
// Computes x[at[i]] = x[at[i]] op updates[i] one after the other, except where
// at[i] < 0, for rows of `inner` elements. 16-bit floats are computed in f32.
typedef void ls_apply_fn(void *x, const void *updates, const int64_t *at,
                         int64_t count, int64_t inner);
// Returns that of a binary op; NULL: there is none for the dtype. The second
// one copies updates.
ls_apply_fn *ls_apply_of(uint16_t op, ls_dtype dtype);
ls_apply_fn *ls_apply_copy_of(size_t element);

// ---- Moves -----------------------------------------------------------------
// Moving of elements: a result written in row order from an operand that has a
// stride along each of the result's dimensions.

// Returns the number of elements from one index of a dense array's dimension to
// the next.
static inline int64_t ls_step_of(ls_shape shape, int32_t axis) {
  int64_t step = 1;
  for (int32_t i = axis + 1; i < shape.rank; ++i)
    step *= shape.dim[i];
  return step;
}

// Returns the number of elements that a move repeats all over its result, at
// most LS_PERIOD; 0: none.
enum { LS_PERIOD = 1024 };
int64_t ls_move_period(const ls_elementwise *work);

// Makes a move by ls_move (kernels/loops.h). NULL: no memory.
const ls_elementwise *ls_move_make(ls_arena *arena, ls_strided_dims dims,
                                   size_t element);
// Values of an operand at positions of a result that ascend in row order: rows
// of columns, both arrays with a stride along each dimension, counted from the
// first value's element.
typedef struct ls_placement {
  int64_t rows;
  ls_cpu_move row;          // The columns of one row, and all steps.
  ls_strided_dims out, in;  // Dimensions of the rows, of the same sizes.
  size_t element;
  ls_cpu_move_fn *move;
} ls_placement;

// Makes a placement of one element; dimensions are added to it from outer to
// inner, and then it is finished.
ls_placement ls_placement_of(size_t element);
void ls_placement_add(ls_placement *self, int64_t size, int64_t out_step,
                      int64_t in_step);
void ls_placement_finish(ls_placement *self);
// Copies the values whose positions are from `begin` to `end`, counted from
// that of the first value, which is at `in`; position `begin` is at `out`.
void ls_place(const ls_placement *self, void *out, const void *in,
              int64_t begin, int64_t end);

// Fills the plan. `dims` are those of the result, with the strides of operand
// 0; `base` is the operand's first element. The loop uses operand 0 and result
// 0 only.
ls_status ls_move_plan(ls_kernel_plan *plan, ls_strided_dims dims,
                       int64_t base);

#endif  // LS_ENGINE_CPU_KERNELS_INDEX_H_
