// SPDX-License-Identifier: Apache-2.0
//
// Reductions of contiguous rows of a few elements, in the order of reduce.c.
#ifndef LS_ENGINE_CPU_KERNELS_REDUCE_SHORT_ROWS_H_
#define LS_ENGINE_CPU_KERNELS_REDUCE_SHORT_ROWS_H_

#include "engine/cpu/kernels/loops.h"

enum { LS_REDUCE_LANES = 16, LS_REDUCE_STREAMS = 4 };

// A reduction for one type, compiled once per instruction set.
typedef struct ls_reducer {
  size_t size;  // Bytes of an element, and of an accumulator.
  // Sets `count` accumulators to the neutral element.
  void (*fill)(void *sums, int64_t count);
  // Adds rows of LS_REDUCE_LANES elements, `pitch` apart, of up to
  // LS_REDUCE_STREAMS streams, each to accumulators of its own; then `rest`
  // elements that follow.
  void (*lanes)(void *sums, const void *const *in, int64_t streams,
                int64_t rows, int64_t pitch, int64_t rest);
  // Computes the result of each stream: its accumulator j takes in j + 8, j +
  // 4, j + 2, j + 1.
  void (*fold)(void *out, const void *sums, int64_t streams);
  // Reduces adjacent runs of `count` elements in these three steps.
  void (*runs)(void *out, const void *in, int64_t runs, int64_t count);
  // Computes the results of runs of one element, element by element.
  ls_span single;
  // Adds rows, one after the other, column by column.
  void (*rows)(void *sums, const void *in, int64_t rows, int64_t pitch,
               int64_t columns);
} ls_reducer;

// Multiplies rows of `k` integers with a vector; sums wrap around.
typedef void ls_cpu_dots_fn(void *out, const void *rows, const void *vector,
                            size_t count, size_t k);

struct ls_cpu_reducers {
  ls_reducer sum[LS_DTYPE_COUNT], product[LS_DTYPE_COUNT];
  ls_reducer max[LS_DTYPE_COUNT], min[LS_DTYPE_COUNT];
  ls_reducer all[LS_DTYPE_COUNT], any[LS_DTYPE_COUNT];  // For bools only.
  ls_cpu_dots_fn *dots[9];  // By the size of an element.
};

// Reduces `count` contiguous rows of a fixed number of elements.
typedef void ls_cpu_rows_of_fn(void *out, const void *rows, int64_t count);
enum { LS_SHORT_ROW = 16 };
// Functions for rows of 2 to LS_SHORT_ROW elements, in the order of reduce.c;
// NULL for other types and lengths.
struct ls_cpu_short_rows {
  ls_cpu_rows_of_fn *max[LS_DTYPE_COUNT][LS_SHORT_ROW + 1];
  ls_cpu_rows_of_fn *min[LS_DTYPE_COUNT][LS_SHORT_ROW + 1];
  ls_cpu_rows_of_fn *sum[LS_DTYPE_COUNT][LS_SHORT_ROW + 1];
  ls_cpu_rows_of_fn *product[LS_DTYPE_COUNT][LS_SHORT_ROW + 1];
};

// Plans the reduction of rows of `run` elements, 2 to LS_SHORT_ROW. For 16-bit
// floats `reduce` is that of f32. It lives as long as the plan.
ls_status ls_short_rows_plan(ls_kernel_plan *plan, const ls_reducer *reduce,
                             int64_t run);

#endif  // LS_ENGINE_CPU_KERNELS_REDUCE_SHORT_ROWS_H_
