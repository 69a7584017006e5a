// SPDX-License-Identifier: Apache-2.0
//
// Gather and scatter: slices looked up or updated by index.
//
// Gather clamps indices; scatter skips those out of range. Each block of a
// scatter owns a part of the result and applies all updates that fall into it
// in the order of the indices.
#include "engine/cpu/index.h"
#include "engine/cpu/kernel_list.h"
#include "engine/cpu/move.h"

// ---- Gather ----------------------------------------------------------------
typedef struct gather_params {
  int64_t rows, rows_per_block;  // Of the result: [outer, picks].
  int64_t size, inner, picks;    // x is [outer, size, inner].
  size_t element;
  ls_dtype index;
  void (*pick)(const struct gather_params *self, char *out, const char *x,
               const int64_t *at, int64_t count);
} gather_params;

static void pick_rows(const gather_params *self, char *out, const char *x,
                      const int64_t *at, int64_t count) {
  const size_t bytes = (size_t)self->inner * self->element;
  for (int64_t i = 0; i < count; ++i)
    memcpy(out + (size_t)i * bytes,
           x + (size_t)ls_index_clamp(at[i], self->size - 1) * bytes, bytes);
}

#define PICK(name, bytes, T)                                                   \
  static void name##_##bytes(const gather_params *self, char *out,             \
                             const char *x, const int64_t *at,                 \
                             int64_t count) {                                  \
    T *o = (T *)(void *)out;                                                   \
    const T *a = (const T *)(const void *)x;                                   \
    const int64_t last = self->size - 1;                                       \
    for (int64_t i = 0; i < count; ++i)                                        \
      o[i] = a[ls_index_clamp(at[i], last)];                                   \
  }
LS_EACH_SIZE(PICK, pick)

static void gather_loop(const ls_kernel_call *call, int64_t begin_block,
                        int64_t end_block) {
  const gather_params *self = call->params;
  const size_t bytes = (size_t)self->inner * self->element;
  const int64_t end = ls_min_i64(end_block * self->rows_per_block, self->rows);
  int64_t row = begin_block * self->rows_per_block;
  while (row < end) {
    const int64_t from = row % self->picks;
    const int64_t count =
        ls_min_i64(LS_INDEX_CHUNK, ls_min_i64(self->picks - from, end - row));
    int64_t at[LS_INDEX_CHUNK];
    ls_indices_read(at, call->in[1], self->index, from, count);
    const int64_t outer = row / self->picks;
    self->pick(self, (char *)call->out[0] + (size_t)row * bytes,
               (const char *)call->in[0] + (size_t)(outer * self->size) * bytes,
               at, count);
    row += count;
  }
}

static void choose_pick(gather_params *self) {
  self->pick = pick_rows;
  if (self->inner != 1) return;
  switch (self->element) {
#define CASE(unused, size, T)                                                  \
  case size:                                                                   \
    self->pick = pick_##size;                                                  \
    break;
    LS_EACH_SIZE(CASE, )
#undef CASE
  default:
    break;
  }
}

ls_status ls_check_indexed(const ls_kernel_plan *plan, int32_t axis) {
  if (plan->in[0].shape.dim[axis] > 0 ||
      ls_shape_num_elements(plan->out[0].shape) == 0)
    return ls_ok();
  return ls_invalid_argument(
      "%s along axis %d of %s: there is nothing",
      ls_node_info(plan->node)->name, axis,
      LS_SHAPE_TEXT(plan->in[0].dtype, plan->in[0].shape));
}

ls_status kernel_gather(ls_kernel_plan *plan) {
  const ls_type x = plan->in[0];
  if (!ls_is_plain(x.dtype)) return ls_kernel_unsupported(plan, x.dtype);
  gather_params *self = ls_arena_new(plan->arena, gather_params);
  if (self == NULL) return ls_out_of_memory();
  const int32_t axis = (int32_t)ls_node_int(plan->node, "axis", 0);
  LS_RETURN_IF_ERROR(ls_check_indexed(plan, axis));
  self->size = x.shape.dim[axis];
  self->inner = ls_step_of(x.shape, axis);
  self->picks = ls_shape_num_elements(plan->in[1].shape);
  const int64_t count = ls_shape_num_elements(plan->out[0].shape);
  self->rows = count == 0 ? 0 : count / self->inner;
  self->rows_per_block = ls_max_i64(1, LS_BLOCK / ls_max_i64(1, self->inner));
  self->element = ls_dtype_size(x.dtype);
  self->index = plan->in[1].dtype;
  choose_pick(self);
  plan->loop = gather_loop;
  plan->params = self;
  plan->blocks = ls_blocks_of(self->rows, self->rows_per_block);
  return ls_ok();
}

// ---- Scatter ---------------------------------------------------------------
// The result is [outer, size, inner]; a block owns some rows of one outer, or
// some outers.
typedef struct scatter_params {
  int64_t outer, size, inner, picks;
  int64_t rows;         // A block's, of one outer.
  int64_t blocks_each;  // For one outer.
  int64_t outers;       // A block's, if it owns whole ones.
  size_t element;
  ls_dtype index, half;
  ls_elementwise combine;  // Without a span: the update is copied.
} scatter_params;

// No block needs to look at the indices of more than this many.
enum { MAX_SCATTER_BLOCKS = 64 };

// row = row op update, 16-bit floats by f32.
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
  uint16_t *to = row;
  for (int64_t i = 0; i < count; i += 64) {
    const int64_t n = ls_min_i64(64, count - i);
    ls_widen(self->half, x, to + i, n);
    ls_widen(self->half, y, (const uint16_t *)update + i, n);
    self->combine.span(&self->combine, x, (const void *[]){x, y}, n);
    ls_narrow(self->half, to + i, x, n);
  }
}

// Rows `begin` to `end` of outer `o`.
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
    for (int64_t i = 0; i < count; ++i)
      if (at[i] >= begin && at[i] < end)
        combine_row(self, out + (size_t)at[i] * bytes,
                    updates + (size_t)(from + i) * bytes);
  }
}

static void scatter_loop(const ls_kernel_call *call, int64_t begin_block,
                         int64_t end_block) {
  const scatter_params *self = call->params;
  for (int64_t block = begin_block; block < end_block; ++block) {
    const int64_t begin = block % self->blocks_each * self->rows;
    const int64_t end = ls_min_i64(begin + self->rows, self->size);
    const int64_t first = block / self->blocks_each * self->outers;
    const int64_t last = ls_min_i64(first + self->outers, self->outer);
    for (int64_t o = first; o < last && begin < end; ++o)
      scatter_rows(call, o, begin, end);
  }
}

static bool choose_combine(scatter_params *self, const ls_kernel_plan *plan) {
  static const struct {
    const char *name;
    uint16_t op;
  } rows[] = {{"add", LS_OP_ADD},     {"sub", LS_OP_SUB},
              {"mul", LS_OP_MUL},     {"div", LS_OP_DIV},
              {"min", LS_OP_MINIMUM}, {"max", LS_OP_MAXIMUM}};
  const char *name = ls_node_attr(plan->node, "combine")->as.string;
  const ls_dtype dtype = plan->out[0].dtype;
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    if (strcmp(name, rows[i].name) != 0) continue;
    self->combine.span = ls_binary_span(rows[i].op, dtype, plan->kernels);
    return self->combine.span != NULL;
  }
  return ls_is_plain(dtype);
}

ls_status kernel_scatter(ls_kernel_plan *plan) {
  const ls_type x = plan->in[0];
  scatter_params *self = ls_arena_new(plan->arena, scatter_params);
  if (self == NULL) return ls_out_of_memory();
  const int32_t axis = (int32_t)ls_node_int(plan->node, "axis", 0);
  self->size = x.shape.dim[axis];
  self->inner = ls_step_of(x.shape, axis);
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
