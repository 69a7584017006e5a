// SPDX-License-Identifier: Apache-2.0
//
// Sums, maxima and minima over any axes.
//
// The order of a sum depends on the shape and the axes alone. Dimensions of
// size 1 are left out, and adjacent dimensions that are both reduced, or both
// kept, are joined. Then
//   - if the innermost dimension is reduced, the reduced elements of an output
//     go in row order to 16 partial sums from 0, element i to sum i mod 16; sum
//     j then takes in sum j + 8, j + 4, j + 2, j + 1;
//   - otherwise they are rows of columns: along the innermost reduced dimension
//     each CHAIN rows are added one by one, from 0, and these chains' sums are
//     added in row order. If outputs are few, chains are summed in parallel, in
//     a step of their own.
// Runs of at most 16 elements are reduced side by side: by the table, or
// transposed, so that each partial sum is a row. Products go in the same order.
// Integers wrap around. 16-bit floats are summed in f32 and rounded once.
// Maxima and minima are NaN if an element is. Without elements a sum is 0, a
// product 1, a maximum the least number.
#include <math.h>

#include "engine/cpu/kernels/dims.h"
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"
#include "engine/cpu/kernels/reduce/short_rows.h"

enum { LANES = 16, CHAIN = 512, COLUMNS = 128 };
// A reduction with fewer blocks than FEW_BLOCKS and at least MANY_CHAINS chains
// takes two steps.
enum { FEW_BLOCKS = 8, MANY_CHAINS = 8 };

// Declares room for `count` accumulators of any type.
#define ACCUMULATORS(name, count)                                              \
  _Alignas(LS_CACHE_LINE) unsigned char name[(count) * sizeof(uint64_t)]

// Keeps sixteen columns in registers. The loop over them must not be unrolled
// before it is vectorized.
#define ROLLED _Pragma("GCC unroll 1")
#define REDUCER(name, NOTHING, E, D, T, W)                                     \
  static void name##_fill_##D(void *sums, int64_t count) {                     \
    T *s = sums;                                                               \
    for (int64_t i = 0; i < count; ++i)                                        \
      s[i] = NOTHING(T, D);                                                    \
  }                                                                            \
  static void name##_lanes_##D(T *sums, const T *a, int64_t rows,              \
                               int64_t pitch) {                                \
    T s[LANES];                                                                \
    memcpy(s, sums, sizeof(s));                                                \
    for (int64_t i = 0; i < rows; ++i, a += pitch) {                           \
      ROLLED                                                                   \
      for (int64_t j = 0; j < LANES; ++j)                                      \
        s[j] = E(T, W, s[j], a[j]);                                            \
    }                                                                          \
    memcpy(sums, s, sizeof(s));                                                \
  }                                                                            \
  static void name##_rows_##D(void *sums, const void *in, int64_t rows,        \
                              int64_t pitch, int64_t columns) {                \
    T *s = sums;                                                               \
    const T *a = in;                                                           \
    if (columns == LANES) {                                                    \
      name##_lanes_##D(s, a, rows, pitch);                                     \
      return;                                                                  \
    }                                                                          \
    for (int64_t i = 0; i < rows; ++i, a += pitch) {                           \
      LS_INDEPENDENT                                                           \
      for (int64_t j = 0; j < columns; ++j)                                    \
        s[j] = E(T, W, s[j], a[j]);                                            \
    }                                                                          \
  }

#define SUM(T, W, s, x) ((T)((W)(s) + (W)(x)))
#define MAX_INTEGER(T, W, s, x) ((x) > (s) ? (x) : (s))
#define MIN_INTEGER(T, W, s, x) ((x) < (s) ? (x) : (s))
#define MAX_FLOAT(T, W, s, x) ((((x) > (s)) | ((x) != (x))) ? (x) : (s))
#define MIN_FLOAT(T, W, s, x) ((((x) < (s)) | ((x) != (x))) ? (x) : (s))

#define PRODUCT(T, W, s, x) ((T)((W)(s) * (W)(x)))
#define BOTH(T, W, s, x) ((T)((s) & ((x) != 0)))
#define EITHER(T, W, s, x) ((T)((s) | ((x) != 0)))

#define ZERO(T, D) ((T)0)
#define ONE(T, D) ((T)1)
#define LEAST(T, D) LEAST_##D
#define GREATEST(T, D) GREATEST_##D
#define LEAST_F32 (-INFINITY)
#define LEAST_F64 (-(double)INFINITY)
#define LEAST_I8 INT8_MIN
#define LEAST_I16 INT16_MIN
#define LEAST_I32 INT32_MIN
#define LEAST_I64 INT64_MIN
#define LEAST_U8 0
#define LEAST_U16 0
#define LEAST_U32 0
#define LEAST_U64 0
#define GREATEST_F32 INFINITY
#define GREATEST_F64 ((double)INFINITY)
#define GREATEST_I8 INT8_MAX
#define GREATEST_I16 INT16_MAX
#define GREATEST_I32 INT32_MAX
#define GREATEST_I64 INT64_MAX
#define GREATEST_U8 UINT8_MAX
#define GREATEST_U16 UINT16_MAX
#define GREATEST_U32 UINT32_MAX
#define GREATEST_U64 UINT64_MAX

LS_EACH_INTEGER(REDUCER, sum, ZERO, SUM)
LS_EACH_FLOAT(REDUCER, sum, ZERO, SUM)
LS_EACH_INTEGER(REDUCER, product, ONE, PRODUCT)
LS_EACH_FLOAT(REDUCER, product, ONE, PRODUCT)
REDUCER(all, ONE, BOTH, BOOL, uint8_t, uint8_t)
REDUCER(any, ZERO, EITHER, BOOL, uint8_t, uint8_t)
LS_EACH_INTEGER(REDUCER, max, LEAST, MAX_INTEGER)
LS_EACH_FLOAT(REDUCER, max, LEAST, MAX_FLOAT)
LS_EACH_INTEGER(REDUCER, min, GREATEST, MIN_INTEGER)
LS_EACH_FLOAT(REDUCER, min, GREATEST, MIN_FLOAT)

#define ENTRY(name, D, T, W)                                                   \
  [LS_DTYPE_##D] = {sizeof(T), name##_fill_##D, name##_rows_##D},
#define NUMBERS(name) LS_EACH_INTEGER(ENTRY, name) LS_EACH_FLOAT(ENTRY, name)

static const ls_reducer sums_of[LS_DTYPE_COUNT] = {NUMBERS(sum)};
static const ls_reducer products_of[LS_DTYPE_COUNT] = {NUMBERS(product)};
static const ls_reducer all_of[LS_DTYPE_COUNT] = {ENTRY(all, BOOL, uint8_t, )};
static const ls_reducer any_of[LS_DTYPE_COUNT] = {ENTRY(any, BOOL, uint8_t, )};
static const ls_reducer maxima_of[LS_DTYPE_COUNT] = {NUMBERS(max)};
static const ls_reducer minima_of[LS_DTYPE_COUNT] = {NUMBERS(min)};

// ---- Loops -----------------------------------------------------------------
typedef struct reduce_params {
  ls_reducer reduce;
  size_t element;  // Bytes of an element of the arrays.
  ls_dtype half;   // f16 or bf16 (reduced in f32), or NONE.
  // Outputs; for columns without the innermost dimension.
  ls_strided_dims kept;
  ls_strided_dims reduced;  // Reduced dimensions, except the innermost one.
  int64_t run;  // The innermost reduced dimension; for columns, its stride.
  int64_t pitch;
  int64_t columns, column_tiles;
  int64_t units, units_per_block;
  int64_t steps;   // Number of elements of `reduced`.
  int64_t chains;  // Chains per column.
  // The table's functions for f32: sums and maxima of consecutive elements, and
  // sums of columns.
  float (*row)(const float *src, size_t n);
  void (*column_sums)(float *dst, const float *src, size_t rows, size_t columns,
                      size_t stride, bool accumulate);
} reduce_params;

static inline const char *element_at(const reduce_params *self, const void *in,
                                     int64_t index) {
  return (const char *)in + index * (int64_t)self->element;
}

// Adds elements in order, the first to partial sum `lane`, the next to the one
// after, and so on in a circle.
static void add_lanes(const ls_reducer *reduce, unsigned char *sums,
                      int64_t lane, const char *in, int64_t count) {
  const int64_t size = (int64_t)reduce->size;
  const int64_t first = ls_min_i64(count, (LANES - lane % LANES) % LANES);
  reduce->rows(sums + lane % LANES * size, in, 1, 0, first);
  in += first * size;
  count -= first;
  reduce->rows(sums, in, count / LANES, LANES, LANES);
  reduce->rows(sums, in + count / LANES * LANES * size, 1, 0, count % LANES);
}

static void add_run(const reduce_params *self, unsigned char *sums,
                    int64_t lane, const char *in) {
  if (self->half == LS_DTYPE_NONE) {
    add_lanes(&self->reduce, sums, lane, in, self->run);
    return;
  }
  float chunk[LS_CHUNK];
  for (int64_t k = 0; k < self->run; k += LS_CHUNK) {
    const int64_t count = ls_min_i64(LS_CHUNK, self->run - k);
    ls_widen(self->half, chunk, (const uint16_t *)(const void *)in + k, count);
    add_lanes(&self->reduce, sums, lane + k, (const char *)chunk, count);
  }
}

static void store_results(const reduce_params *self, void *out, int64_t at,
                          const void *sums, int64_t count) {
  char *target = (char *)out + (size_t)at * self->element;
  if (self->half != LS_DTYPE_NONE)
    ls_narrow(self->half, (uint16_t *)(void *)target, sums, count);
  else
    memcpy(target, sums, (size_t)count * self->element);
}

static void run_loop(const ls_kernel_call *call, int64_t begin_block,
                     int64_t end_block) {
  const reduce_params *self = call->params;
  const int64_t begin = begin_block * self->units_per_block;
  const int64_t end =
      ls_min_i64(end_block * self->units_per_block, self->units);
  if (begin >= end) return;
  ls_walk output = ls_walk_at(&self->kept, begin);
  for (int64_t u = begin; u < end; ++u, ls_walk_next(&output, &self->kept)) {
    if (self->row != NULL) {
      ((float *)call->out[0])[u] = self->row(
          (const float *)call->in[0] + output.offset, (size_t)self->run);
      continue;
    }
    ACCUMULATORS(sums, LANES);
    self->reduce.fill(sums, LANES);
    ls_walk step = {.offset = 0};
    for (int64_t i = 0; i < self->steps; ++i) {
      add_run(self, sums, i * self->run,
              element_at(self, call->in[0], output.offset + step.offset));
      ls_walk_next(&step, &self->reduced);
    }
    for (int64_t half = LANES / 2; half > 0; half /= 2)
      self->reduce.rows(sums, sums + (size_t)half * self->reduce.size, 1, 0,
                        half);
    store_results(self, call->out[0], u, sums, 1);
  }
}

// ---- Columns ---------------------------------------------------------------
static void add_rows(const reduce_params *self, void *sums, const void *in,
                     int64_t rows, int64_t columns) {
  if (self->half == LS_DTYPE_NONE) {
    self->reduce.rows(sums, in, rows, self->pitch, columns);
    return;
  }
  float row[COLUMNS];
  for (int64_t i = 0; i < rows; ++i) {
    ls_widen(self->half, row, (const uint16_t *)in + i * self->pitch, columns);
    self->reduce.rows(sums, row, 1, 0, columns);
  }
}

// Columns that are reduced together, and their start.
typedef struct tile {
  int64_t output, columns, from;
} tile;

static tile tile_at(const reduce_params *self, int64_t unit) {
  const int64_t outer = unit / self->column_tiles;
  const int64_t column = unit % self->column_tiles * COLUMNS;
  return (tile){.output = outer * self->columns + column,
                .columns = ls_min_i64(COLUMNS, self->columns - column),
                .from = ls_walk_at(&self->kept, outer).offset + column};
}

// Computes the sums of a tile's chain `c`.
static void sum_chain(const reduce_params *self, void *sums, const void *in,
                      const tile *t, int64_t c) {
  const int64_t of_run = ls_blocks_of(self->run, CHAIN);
  const int64_t row = c % of_run * CHAIN;
  const int64_t rows = ls_min_i64(CHAIN, self->run - row);
  const int64_t step = ls_walk_at(&self->reduced, c / of_run).offset;
  const char *from = element_at(self, in, t->from + step + row * self->pitch);
  if (self->column_sums != NULL) {
    self->column_sums(sums, (const float *)(const void *)from, (size_t)rows,
                      (size_t)t->columns, (size_t)self->pitch, false);
    return;
  }
  self->reduce.fill(sums, t->columns);
  add_rows(self, sums, from, rows, t->columns);
}

static void column_loop(const ls_kernel_call *call, int64_t begin_block,
                        int64_t end_block) {
  const reduce_params *self = call->params;
  const int64_t end =
      ls_min_i64(end_block * self->units_per_block, self->units);
  for (int64_t u = begin_block * self->units_per_block; u < end; ++u) {
    const tile t = tile_at(self, u);
    ACCUMULATORS(sums, COLUMNS);
    ACCUMULATORS(chain, COLUMNS);
    if (self->chains == 0) self->reduce.fill(sums, t.columns);
    for (int64_t c = 0; c < self->chains; ++c) {
      sum_chain(self, c == 0 ? sums : chain, call->in[0], &t, c);
      if (c > 0) self->reduce.rows(sums, chain, 1, 0, t.columns);
    }
    store_results(self, call->out[0], t.output, sums, t.columns);
  }
}

// ---- In two steps ----------------------------------------------------------
// First step: a block is a chain of a tile.
static void chain_loop(const ls_kernel_call *call, int64_t begin_block,
                       int64_t end_block) {
  const reduce_params *self = call->params;
  const size_t stride = COLUMNS * self->reduce.size;
  for (int64_t b = begin_block; b < end_block; ++b) {
    const tile t = tile_at(self, b / self->chains);
    sum_chain(self, (char *)call->out[0] + (size_t)b * stride, call->in[0], &t,
              b % self->chains);
  }
}

// Second step: a block is a tile.
static void add_chains_loop(const ls_kernel_call *call, int64_t begin_block,
                            int64_t end_block) {
  const reduce_params *self = call->params;
  const size_t stride = COLUMNS * self->reduce.size;
  for (int64_t u = begin_block; u < end_block; ++u) {
    const tile t = tile_at(self, u);
    const char *chain =
        (const char *)call->in[0] + (size_t)(u * self->chains) * stride;
    ACCUMULATORS(sums, COLUMNS);
    memcpy(sums, chain, (size_t)t.columns * self->reduce.size);
    for (int64_t c = 1; c < self->chains; ++c)
      self->reduce.rows(sums, chain + (size_t)c * stride, 1, 0, t.columns);
    store_results(self, call->out[0], t.output, sums, t.columns);
  }
}

static void plan_two_steps(ls_kernel_plan *plan, const reduce_params *self) {
  plan->first = chain_loop;
  plan->first_blocks = self->units * self->chains;
  plan->shared =
      (size_t)(self->units * self->chains * COLUMNS) * self->reduce.size;
  plan->only_shared = true;
  plan->loop = add_chains_loop;
  plan->blocks = self->units;
}

// ---- Plan ------------------------------------------------------------------
static const ls_reducer *reducers_of(uint16_t op) {
  if (op == LS_OP_REDUCE_MAX) return maxima_of;
  if (op == LS_OP_REDUCE_MIN) return minima_of;
  if (op == LS_OP_REDUCE_PRODUCT) return products_of;
  if (op == LS_OP_REDUCE_AND) return all_of;
  if (op == LS_OP_REDUCE_OR) return any_of;
  return sums_of;
}

// Sorts the operand's dimensions into kept and reduced ones; returns true if
// the innermost one is reduced.
static bool sort_dims(const ls_kernel_plan *plan, reduce_params *self) {
  const ls_shape shape = plan->in[0].shape;
  const ls_attr *axes = ls_node_attr(plan->node, LS_ATTR_ID_AXES);
  bool is_reduced[LS_MAX_RANK] = {false};
  for (size_t i = 0; axes != NULL && i < axes->as.ints.count; ++i)
    is_reduced[axes->as.ints.items[i]] = true;
  int64_t steps[LS_MAX_RANK];
  int64_t step = 1;
  bool innermost_is_reduced = false, found = false;
  for (int32_t i = shape.rank; i-- > 0;) {
    steps[i] = step;
    step *= shape.dim[i];
    if (!found) innermost_is_reduced = is_reduced[i];
    found = found || shape.dim[i] != 1;
  }
  for (int32_t i = 0; i < shape.rank; ++i)
    ls_strided_dims_add(is_reduced[i] ? &self->reduced : &self->kept,
                        shape.dim[i], steps[i]);
  return found ? innermost_is_reduced : true;
}

// Removes the innermost dimension and returns its size, 1 if there is none.
static int64_t take_last(ls_strided_dims *dims, int64_t *out_step) {
  if (dims->rank == 0) return 1;
  const int32_t last = dims->rank - 1;
  const int64_t size = dims->size[last];
  if (out_step != NULL) *out_step = dims->step[last];
  ls_strided_dims_remove(dims, last);
  return size;
}

ls_status kernel_reduce(ls_kernel_plan *plan) {
  const ls_dtype dtype = plan->in[0].dtype;
  const bool half = ls_is_half(dtype);
  const ls_reducer *reduce =
      &reducers_of(plan->node->type)[half ? LS_DTYPE_F32 : dtype];
  if (reduce->fill == NULL) return ls_kernel_unsupported(plan, dtype);
  LS_ARENA_NEW_OR_RETURN(plan->arena, reduce_params, self);
  self->reduce = *reduce;
  self->element = ls_dtype_size(dtype);
  self->half = half ? dtype : LS_DTYPE_NONE;
  const bool runs = sort_dims(plan, self);
  self->run = take_last(&self->reduced, &self->pitch);
  self->steps = ls_strided_dims_count(&self->reduced);
  self->columns = 1;
  self->column_tiles = 1;
  if (!runs) {
    self->columns = take_last(&self->kept, NULL);
    self->column_tiles = (self->columns + COLUMNS - 1) / COLUMNS;
  }
  if (dtype == LS_DTYPE_F32 && plan->node->type == LS_OP_REDUCE_SUM) {
    if (!runs) self->column_sums = plan->kernels->column_sums;
    if (runs && self->steps == 1) self->row = plan->kernels->sum;
  }
  if (dtype == LS_DTYPE_F32 && plan->node->type == LS_OP_REDUCE_MAX && runs &&
      self->steps == 1)
    self->row = plan->kernels->max;
  self->units = ls_strided_dims_count(&self->kept) * self->column_tiles;
  const int64_t unit =
      self->steps * self->run * ls_min_i64(self->columns, COLUMNS);
  self->units_per_block = ls_max_i64(1, LS_BLOCK / ls_max_i64(1, unit));
  plan->loop = runs ? run_loop : column_loop;
  plan->params = self;
  plan->blocks = ls_blocks_of(self->units, self->units_per_block);
  if (runs && self->steps == 1 && self->run > 0 && self->run <= LS_SHORT_ROW)
    return ls_short_rows_plan(plan, reduce, self->run);
  if (runs) return ls_ok();
  self->chains = self->steps * ls_blocks_of(self->run, CHAIN);
  if (plan->blocks < FEW_BLOCKS && self->chains >= MANY_CHAINS &&
      self->run >= CHAIN)
    plan_two_steps(plan, self);
  return ls_ok();
}
