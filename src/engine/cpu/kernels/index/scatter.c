// SPDX-License-Identifier: Apache-2.0
//
// Scatter: slices updated by index. Indices out of range are skipped.
//
// Each block owns a part of the result and applies all updates to it in the
// order of the indices; consecutive blocks of a thread are handled as one.
// Slices of one element are updated in a loop of their type.
#include "engine/cpu/kernels/index.h"
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

// The result is [outer, size, inner]; a block owns some rows of one outer, or
// some outers.
typedef struct scatter_params scatter_params;

// Applies updates to the rows from `begin` to `end`.
typedef void (*apply)(const scatter_params *self, void *out,
                      const void *updates, const int64_t *at, int64_t count,
                      int64_t begin, int64_t end);

struct scatter_params {
  int64_t outer, size, inner, picks;
  int64_t rows;         // Rows of a block, of one outer.
  int64_t blocks_each;  // Blocks per outer.
  int64_t outers;       // Outer indices per block, if a block owns whole ones.
  size_t element;
  ls_dtype index, half;
  ls_elementwise combine;  // Without a span the update is copied.
  apply apply;
};

// Limit, since each block reads all indices.
enum { MAX_SCATTER_BLOCKS = 64 };

// Computes row = row op update, 16-bit floats in f32.
static void combine_row(const scatter_params *self, void *row,
                        const void *update) {
  const int64_t count = self->inner;
  if (self->combine.span == NULL) {
    memcpy(row, update, (size_t)count * self->element);
    return;
  }
  if (self->half == LS_DTYPE_NONE) {
    self->combine.span(&self->combine, row, (const void *[]){row, update},
                       count);
    return;
  }
  float x[64], y[64];
  uint16_t *target = row;
  for (int64_t i = 0; i < count; i += 64) {
    const int64_t n = ls_min_i64(64, count - i);
    ls_widen(self->half, x, target + i, n);
    ls_widen(self->half, y, (const uint16_t *)update + i, n);
    self->combine.span(&self->combine, x, (const void *[]){x, y}, n);
    ls_narrow(self->half, target + i, x, n);
  }
}

static void apply_rows(const scatter_params *self, void *out,
                       const void *updates, const int64_t *at, int64_t count,
                       int64_t begin, int64_t end) {
  const size_t bytes = (size_t)self->inner * self->element;
  for (int64_t i = 0; i < count; ++i)
    if (at[i] >= begin && at[i] < end)
      combine_row(self, (char *)out + (size_t)at[i] * bytes,
                  (const char *)updates + (size_t)i * bytes);
}

// ---- Slices of one element -------------------------------------------------
#define APPLY(name, E, D, T, W)                                                \
  static void name##_##D(const scatter_params *self, void *out,                \
                         const void *updates, const int64_t *at,               \
                         int64_t count, int64_t begin, int64_t end) {          \
    (void)self;                                                                \
    T *o = out;                                                                \
    const T *y = updates;                                                      \
    for (int64_t i = 0; i < count; ++i)                                        \
      if (at[i] >= begin && at[i] < end) o[at[i]] = E(T, W, o[at[i]], y[i]);   \
  }
#define APPLY_COPY(name, bytes, T) APPLY(name, SECOND, bytes, T, T)
#define SECOND(T, W, x, y) (y)
LS_EACH_SIZE(APPLY_COPY, copy)

#define ALL(name, OF_FLOATS, OF_SIGNED, OF_UNSIGNED)                           \
  LS_EACH_FLOAT(APPLY, name, OF_FLOATS)                                        \
  LS_EACH_SIGNED(APPLY, name, OF_SIGNED)                                       \
  LS_EACH_UNSIGNED(APPLY, name, OF_UNSIGNED)
ALL(add, LS_ADD_FLOAT, LS_ADD_INTEGER, LS_ADD_INTEGER)
ALL(sub, LS_SUB_FLOAT, LS_SUB_INTEGER, LS_SUB_INTEGER)
ALL(mul, LS_MUL_FLOAT, LS_MUL_INTEGER, LS_MUL_INTEGER)
ALL(div, LS_DIV_FLOAT, LS_DIV_SIGNED, LS_DIV_UNSIGNED)
ALL(maximum, LS_MAX_FLOAT, LS_MAX_INTEGER, LS_MAX_INTEGER)
ALL(minimum, LS_MIN_FLOAT, LS_MIN_INTEGER, LS_MIN_INTEGER)

#define ENTRY(name, D, T, W) [LS_DTYPE_##D] = name##_##D,
#define NUMBERS(name)                                                          \
  { LS_EACH_INTEGER(ENTRY, name) LS_EACH_FLOAT(ENTRY, name) }
static const apply apply_of[LS_OP_COUNT][LS_DTYPE_COUNT] = {
    [LS_OP_ADD] = NUMBERS(add),         [LS_OP_SUB] = NUMBERS(sub),
    [LS_OP_MUL] = NUMBERS(mul),         [LS_OP_DIV] = NUMBERS(div),
    [LS_OP_MAXIMUM] = NUMBERS(maximum), [LS_OP_MINIMUM] = NUMBERS(minimum),
};

static apply copy_of(size_t element) {
  switch (element) {
#define CASE(unused, size, T)                                                  \
  case size:                                                                   \
    return copy_##size;
    LS_EACH_SIZE(CASE, )
#undef CASE
  default:
    return apply_rows;
  }
}

// ---- Loop ------------------------------------------------------------------
// Applies the updates to rows `begin` to `end` of outer `o`.
static void scatter_rows(const ls_kernel_call *call, int64_t o, int64_t begin,
                         int64_t end) {
  const scatter_params *self = call->params;
  const size_t bytes = (size_t)self->inner * self->element;
  const size_t base = (size_t)(o * self->size) * bytes;
  char *out = (char *)call->out[0] + base;
  const char *updates =
      (const char *)call->in[2] + (size_t)(o * self->picks) * bytes;
  if (call->out[0] != call->in[0])
    memcpy(out + (size_t)begin * bytes,
           (const char *)call->in[0] + base + (size_t)begin * bytes,
           (size_t)(end - begin) * bytes);
  for (int64_t from = 0; from < self->picks; from += LS_INDEX_CHUNK) {
    const int64_t count = ls_min_i64(LS_INDEX_CHUNK, self->picks - from);
    int64_t at[LS_INDEX_CHUNK];
    ls_indices_read(at, call->in[1], self->index, from, count);
    self->apply(self, out, updates + (size_t)from * bytes, at, count, begin,
                end);
  }
}

static void scatter_loop(const ls_kernel_call *call, int64_t begin_block,
                         int64_t end_block) {
  const scatter_params *self = call->params;
  for (int64_t block = begin_block; block < end_block;) {
    const int64_t part = block % self->blocks_each;
    const int64_t parts =
        ls_min_i64(self->blocks_each - part, end_block - block);
    const int64_t begin = part * self->rows;
    const int64_t end = ls_min_i64(begin + parts * self->rows, self->size);
    const int64_t first = block / self->blocks_each * self->outers;
    const int64_t last = ls_min_i64(first + self->outers, self->outer);
    for (int64_t o = first; o < last && begin < end; ++o)
      scatter_rows(call, o, begin, end);
    block += parts;
  }
}

static bool choose_combine(scatter_params *self, const ls_kernel_plan *plan) {
  static const struct {
    const char *name;
    uint16_t op;
  } rows[] = {{"add", LS_OP_ADD},     {"sub", LS_OP_SUB},
              {"mul", LS_OP_MUL},     {"div", LS_OP_DIV},
              {"min", LS_OP_MINIMUM}, {"max", LS_OP_MAXIMUM}};
  const char *name = ls_node_attr(plan->node, LS_ATTR_ID_COMBINE)->as.string;
  const ls_dtype dtype = plan->out[0].dtype;
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    if (strcmp(name, rows[i].name) != 0) continue;
    self->combine.span = ls_span_of(
        rows[i].op, ls_is_half(dtype) ? LS_DTYPE_F32 : dtype, plan->kernels);
    if (self->inner == 1 && apply_of[rows[i].op][dtype] != NULL)
      self->apply = apply_of[rows[i].op][dtype];
    return self->combine.span != NULL;
  }
  if (self->inner == 1) self->apply = copy_of(ls_dtype_size(dtype));
  return ls_is_plain(dtype);
}

ls_status kernel_scatter(ls_kernel_plan *plan) {
  const ls_type x = plan->in[0];
  LS_ARENA_NEW_OR_RETURN(plan->arena, scatter_params, self);
  const int32_t axis = (int32_t)ls_node_int(plan->node, LS_ATTR_ID_AXIS);
  self->size = x.shape.dim[axis];
  self->inner = ls_step_of(x.shape, axis);
  self->apply = apply_rows;
  if (!choose_combine(self, plan)) return ls_kernel_unsupported(plan, x.dtype);
  self->outer = 1;
  for (int32_t i = 0; i < axis; ++i)
    self->outer *= x.shape.dim[i];
  self->picks = ls_shape_num_elements(plan->in[1].shape);
  const int64_t row = ls_max_i64(1, self->inner);
  self->rows = ls_max_i64(
      1, ls_max_i64(LS_BLOCK / row, (self->size + MAX_SCATTER_BLOCKS - 1) /
                                        MAX_SCATTER_BLOCKS));
  self->blocks_each = ls_blocks_of(self->size, self->rows);
  const int64_t work = ls_max_i64(self->size, self->picks) * row;
  self->outers =
      self->blocks_each > 1 ? 1 : ls_max_i64(1, LS_BLOCK / ls_max_i64(1, work));
  self->element = ls_dtype_size(x.dtype);
  self->index = plan->in[1].dtype;
  self->half = ls_is_half(x.dtype) ? x.dtype : LS_DTYPE_NONE;
  plan->loop = scatter_loop;
  plan->params = self;
  plan->blocks = self->blocks_each * ls_blocks_of(self->outer, self->outers);
  plan->in_place = 1;
  return ls_ok();
}
