// SPDX-License-Identifier: Apache-2.0
//
// Reductions of rows of a few elements that lie behind each other, in the order
// of reduce.c.
#ifndef LS_ENGINE_CPU_KERNELS_REDUCE_SHORT_ROWS_H_
#define LS_ENGINE_CPU_KERNELS_REDUCE_SHORT_ROWS_H_

#include "engine/cpu/kernels/loops.h"

// How one op reduces one type.
typedef struct ls_reducer {
  size_t size;  // Of an element, and of an accumulator.
  // Sets `count` accumulators to the value of nothing.
  void (*fill)(void *sums, int64_t count);
  // Adds rows, one after the other, column by column.
  void (*rows)(void *sums, const void *in, int64_t rows, int64_t pitch,
               int64_t columns);
} ls_reducer;

// Reduces `count` rows of so many elements, which lie behind each other.
typedef void ls_cpu_rows_of_fn(void *out, const void *rows, int64_t count);
enum { LS_SHORT_ROW = 16 };
// Those of 2 to LS_SHORT_ROW elements, in the order of reduce.c; NULL
// for other types and lengths.
struct ls_cpu_short_rows {
  ls_cpu_rows_of_fn *max[LS_DTYPE_COUNT][LS_SHORT_ROW + 1];
  ls_cpu_rows_of_fn *min[LS_DTYPE_COUNT][LS_SHORT_ROW + 1];
  ls_cpu_rows_of_fn *sum[LS_DTYPE_COUNT][LS_SHORT_ROW + 1];
};

// Plans the reduction of rows of `run` elements, 1 to LS_SHORT_ROW. `reduce` is
// that of f32 for 16-bit floats, and lives as long as the plan.
ls_status ls_short_rows_plan(ls_kernel_plan *plan, const ls_reducer *reduce,
                             int64_t run);

#endif  // LS_ENGINE_CPU_KERNELS_REDUCE_SHORT_ROWS_H_
