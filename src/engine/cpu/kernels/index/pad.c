// SPDX-License-Identifier: Apache-2.0
//
// Ops that put values side by side in one array: pad and concatenate.
#include "engine/cpu/kernels/index.h"
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

// ---- Pad -------------------------------------------------------------------
// Elements written at a time.
enum { PAD_CHUNK = 2048 };

typedef struct pad_params {
  int64_t count;
  int64_t first_out, first_in;  // Positions of the first value that is kept.
  ls_placement kept;
} pad_params;

static void fill(const pad_params *self, char *out, const void *value,
                 int64_t count) {
  const ls_cpu_move all = {.rows = 1, .columns = count, .out_column = 1};
  self->kept.move(out, value, &all);
}

// Fills what is before and after a single run of values; else a whole chunk,
// which is then in the first cache, before the values are written over it.
static void pad_loop(const ls_kernel_call *call, int64_t begin_block,
                     int64_t end_block) {
  const pad_params *self = call->params;
  const int64_t element = (int64_t)self->kept.element;
  const int64_t end = ls_min_i64(end_block * LS_BLOCK, self->count);
  char *out = call->out[0];
  for (int64_t at = begin_block * LS_BLOCK; at < end; at += PAD_CHUNK) {
    const int64_t stop = ls_min_i64(at + PAD_CHUNK, end);
    const bool is_run =
        self->kept.out.rank == 0 && self->kept.row.out_column == 1;
    const int64_t run = is_run ? self->kept.rows * self->kept.row.columns : 0;
    const int64_t low = ls_max_i64(at, ls_min_i64(stop, self->first_out));
    const int64_t high =
        ls_max_i64(low, ls_min_i64(stop, self->first_out + run));
    fill(self, out + at * element, call->in[1], low - at);
    fill(self, out + high * element, call->in[1], stop - high);
    ls_place(&self->kept, out + at * element,
             (const char *)call->in[0] + self->first_in * element,
             at - self->first_out, stop - self->first_out);
  }
}

// Adds a dimension, in which operand index i becomes low + i * stride.
static void pad_dimension(pad_params *self, int64_t operand, int64_t result,
                          int64_t low, int64_t stride, int64_t out_step,
                          int64_t in_step) {
  const int64_t first = low < 0 ? (stride - 1 - low) / stride : 0;
  const int64_t above = result - 1 - low;  // Room for indices above 0.
  const int64_t last = above < 0 ? -1 : ls_min_i64(operand - 1, above / stride);
  self->first_in += first * in_step;
  self->first_out += (low + first * stride) * out_step;
  ls_placement_add(&self->kept, ls_max_i64(0, last - first + 1),
                   stride * out_step, in_step);
}

ls_status kernel_pad(ls_kernel_plan *plan) {
  const ls_dtype dtype = plan->out[0].dtype;
  if (!ls_is_plain(dtype)) return ls_kernel_unsupported(plan, dtype);
  LS_ARENA_NEW_OR_RETURN(plan->arena, pad_params, self);
  const ls_shape operand = plan->in[0].shape, result = plan->out[0].shape;
  const int64_t *low =
      ls_node_attr(plan->node, LS_ATTR_ID_PAD_LOW)->as.ints.items;
  const int64_t *interior =
      ls_node_attr(plan->node, LS_ATTR_ID_INTERIOR)->as.ints.items;
  self->count = ls_shape_num_elements(result);
  self->kept = ls_placement_of(ls_dtype_size(plan->out[0].dtype));
  // A dimension of one element has no gaps, however large they might be.
  for (int32_t i = 0; i < result.rank && self->count > 0; ++i)
    pad_dimension(self, operand.dim[i], result.dim[i], low[i],
                  operand.dim[i] > 1 ? interior[i] + 1 : 1,
                  ls_step_of(result, i), ls_step_of(operand, i));
  ls_placement_finish(&self->kept);
  if (self->kept.rows == 0) self->first_out = self->first_in = 0;
  return ls_kernel_runs(plan, pad_loop, self,
                        ls_blocks_of(self->count, LS_BLOCK));
}

// ---- Concatenate -----------------------------------------------------------
// A row of the result is a row of each operand, one after the other.
typedef struct concatenate_params {
  int64_t count, row;
  size_t num_parts;
  const int64_t *begins;  // Start of each operand in a row.
  const ls_placement *parts;
} concatenate_params;

// Returns the last operand that begins at or before a column.
static size_t find_part(const concatenate_params *self, int64_t column) {
  size_t low = 0, high = self->num_parts;
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    if (self->begins[middle] <= column)
      low = middle;
    else
      high = middle;
  }
  return low;
}

static void concatenate_loop(const ls_kernel_call *call, int64_t begin_block,
                             int64_t end_block) {
  const concatenate_params *self = call->params;
  const int64_t end = ls_min_i64(end_block * LS_BLOCK, self->count);
  for (int64_t at = begin_block * LS_BLOCK; at < end; at += LS_BLOCK) {
    const int64_t stop = ls_min_i64(at + LS_BLOCK, end);
    // In one row, only the operands from the first column to the last count.
    const int64_t column = at % self->row, last = column + (stop - at);
    const bool is_in_row = last <= self->row;
    for (size_t i = is_in_row ? find_part(self, column) : 0;
         i < self->num_parts && (!is_in_row || self->begins[i] < last); ++i)
      ls_place(&self->parts[i],
               (char *)call->out[0] + (size_t)at * self->parts[i].element,
               call->in[i], at - self->begins[i], stop - self->begins[i]);
  }
}

ls_status kernel_concatenate(ls_kernel_plan *plan) {
  const ls_type type = plan->out[0];
  if (!ls_is_plain(type.dtype) && type.dtype != LS_DTYPE_C64)
    return ls_kernel_unsupported(plan, type.dtype);
  LS_ARENA_NEW_OR_RETURN(plan->arena, concatenate_params, self);
  LS_ARENA_ARRAY_OR_RETURN(plan->arena, int64_t, begins, plan->num_in);
  LS_ARENA_ARRAY_OR_RETURN(plan->arena, ls_placement, parts, plan->num_in);
  const int32_t axis = (int32_t)ls_node_int(plan->node, LS_ATTR_ID_AXIS);
  const int64_t inner = ls_step_of(type.shape, axis);
  const int64_t row = type.shape.dim[axis] * inner;
  self->row = row;
  self->count = ls_shape_num_elements(type.shape);
  int64_t begin = 0;
  for (size_t i = 0; i < plan->num_in; ++i) {
    const int64_t size = plan->in[i].shape.dim[axis] * inner;
    begins[i] = begin;
    begin += size;
    parts[i] = ls_placement_of(ls_dtype_size(plan->out[0].dtype));
    ls_placement_add(&parts[i], self->count == 0 ? 0 : self->count / row, row,
                     size);
    ls_placement_add(&parts[i], size, 1, 1);
    ls_placement_finish(&parts[i]);
  }
  self->num_parts = plan->num_in;
  self->begins = begins;
  self->parts = parts;
  return ls_kernel_runs(plan, concatenate_loop, self,
                        ls_blocks_of(self->count, LS_BLOCK));
}
