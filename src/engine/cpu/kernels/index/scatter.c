// SPDX-License-Identifier: Apache-2.0
//
// Scatter: slices updated by index. Indices out of range are skipped.
//
// Each block owns a part of the result and applies all updates to it in the
// order of the indices; consecutive blocks of a thread are handled as one.
// Slices of a few elements are updated in a loop of their type, others by a
// call each.
#include "engine/cpu/kernels/index.h"
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

// The result is [outer, size, inner]; a block owns some rows of one outer, or
// some outers.
typedef struct scatter_params {
  int64_t outer, size, inner, picks;
  int64_t rows;         // Rows of a block, of one outer.
  int64_t blocks_each;  // Blocks per outer.
  int64_t outers;       // Outer indices per block, if a block owns whole ones.
  size_t element;
  ls_dtype index;
  ls_dtype half;  // Not NONE: 16-bit floats, combined in f32.
  const ls_cpu_indices *kernels;
  ls_elementwise combine;  // Without a span the update is copied.
  ls_apply_fn *apply;      // NULL: whole rows are combined.
} scatter_params;

enum {
  MAX_SCATTER_BLOCKS = 64,  // Limit, since each block reads all indices.
  FEW_BYTES = 64,  // Most bytes of a row for which a call is too long.
};

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
  float x[LS_CHUNK], y[LS_CHUNK];
  uint16_t *target = row;
  for (int64_t i = 0; i < count; i += LS_CHUNK) {
    const int64_t n = ls_min_i64(LS_CHUNK, count - i);
    ls_widen(self->half, x, target + i, n);
    ls_widen(self->half, y, (const uint16_t *)update + i, n);
    self->combine.span(&self->combine, x, (const void *[]){x, y}, n);
    ls_narrow(self->half, target + i, x, n);
  }
}

static void combine_rows(const scatter_params *self, char *out,
                         const char *updates, const int64_t *at,
                         int64_t count) {
  const size_t bytes = (size_t)self->inner * self->element;
  for (int64_t i = 0; i < count; ++i)
    if (at[i] >= 0)
      combine_row(self, out + (size_t)at[i] * bytes,
                  updates + (size_t)i * bytes);
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
  ls_copy_operand(call, base + (size_t)begin * bytes,
                  (size_t)(end - begin) * bytes);
  const ls_index_range range = {begin, end - 1, .skips = true};
  int64_t count = 0;
  for (int64_t from = 0; from < self->picks; from += count) {
    int64_t at[LS_INDEX_CHUNK];
    count = ls_min_i64(LS_INDEX_CHUNK, self->picks - from);
    self->kernels->read[self->index](at, call->in[1], from, count, &range);
    if (self->apply == NULL)
      combine_rows(self, out, updates + (size_t)from * bytes, at, count);
    else
      self->apply(out, updates + (size_t)from * bytes, at, count, self->inner);
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
    self->combine.span = ls_span_of(rows[i].op, dtype, plan->kernels);
    if (self->combine.span == NULL && ls_is_half(dtype)) {
      self->combine.span = ls_span_of(rows[i].op, LS_DTYPE_F32, plan->kernels);
      self->half = dtype;
    }
    self->apply = ls_apply_of(rows[i].op, dtype);
    return self->combine.span != NULL;
  }
  self->apply = ls_apply_copy_of(ls_dtype_size(dtype));
  return ls_is_plain(dtype);
}

ls_status kernel_scatter(ls_kernel_plan *plan) {
  const ls_type x = plan->in[0];
  LS_ARENA_NEW_OR_RETURN(plan->arena, scatter_params, self);
  const int32_t axis = (int32_t)ls_node_int(plan->node, LS_ATTR_ID_AXIS);
  self->size = x.shape.dim[axis];
  self->inner = ls_step_of(x.shape, axis);
  if (!choose_combine(self, plan)) return ls_kernel_unsupported(plan, x.dtype);
  self->kernels = plan->kernels->indices;
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
  if ((size_t)self->inner * self->element > FEW_BYTES) self->apply = NULL;
  self->index = plan->in[1].dtype;
  plan->in_place = 1;
  return ls_kernel_runs(plan, scatter_loop, self,
                        self->blocks_each *
                            ls_blocks_of(self->outer, self->outers));
}
