// SPDX-License-Identifier: Apache-2.0
//
// Ops that put values side by side in one array: pad and concatenate.
#include "engine/cpu/kernels/index.h"
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

// ---- Pad -------------------------------------------------------------------
// Padding of one dimension: operand index i becomes low + i * stride.
typedef struct padding {
  int64_t operand, result;  // Sizes of operand and result.
  int64_t low, stride;
  int64_t step;  // Stride in elements of the operand.
} padding;

// The innermost padded dimension is the row; the dimensions within it form one
// run of elements.
typedef struct pad_params {
  int64_t count;
  size_t element;
  int64_t run, row_size;  // Sizes in elements.
  padding row;
  int32_t num_outer;
  padding outer[LS_MAX_RANK];
  void (*fill)(void *out, const void *value, int64_t count);
} pad_params;

#define FILL(name, size, T)                                                    \
  static void name##_##size(void *out, const void *value, int64_t count) {     \
    T *o = out;                                                                \
    const T x = *(const T *)value;                                             \
    for (int64_t i = 0; i < count; ++i)                                        \
      o[i] = x;                                                                \
  }
LS_EACH_SIZE(FILL, fill)

// Returns the offset of row `row` of the result in the operand; -1: it is all
// padding.
static int64_t find_source_row(const pad_params *self, int64_t row) {
  int64_t offset = 0;
  for (int32_t i = self->num_outer; i-- > 0;) {
    const padding *p = &self->outer[i];
    int64_t index = row % p->result - p->low;
    row /= p->result;
    if (index < 0) return -1;
    if (p->stride > 1) {
      if (index % p->stride != 0) return -1;
      index /= p->stride;
    }
    if (index >= p->operand) return -1;
    offset += index * p->step;
  }
  return offset;
}

// Copies elements `begin` to `end` of the row that begins at `out` from the
// operand's row at `in`.
static void copy_row(const pad_params *self, char *out, const char *in,
                     int64_t begin, int64_t end) {
  const padding *p = &self->row;
  const int64_t step = p->stride * self->run, low = p->low * self->run;
  // Without gaps the row is one run.
  const bool dense = p->stride == 1;
  const int64_t run = dense ? p->operand * self->run : self->run;
  const int64_t runs = dense ? 1 : p->operand;
  int64_t i = dense || begin <= low ? 0 : (begin - low) / step;
  for (; i < runs && low + i * step < end; ++i) {
    const int64_t run_begin = low + i * step;
    const int64_t first = ls_max_i64(run_begin, begin);
    const int64_t last = ls_min_i64(run_begin + run, end);
    if (first < last)
      memcpy(out + (size_t)first * self->element,
             in + (size_t)(i * run + first - run_begin) * self->element,
             (size_t)(last - first) * self->element);
  }
}

// Fills the part of the range that no dense run covers.
static void fill_around(const pad_params *self, char *out, const void *value,
                        int64_t begin, int64_t end, int64_t run_begin,
                        int64_t run_end) {
  const int64_t below = ls_min_i64(run_begin, end) - begin;
  const int64_t above = ls_max_i64(run_end, begin);
  if (below > 0) self->fill(out + (size_t)begin * self->element, value, below);
  if (above < end)
    self->fill(out + (size_t)above * self->element, value, end - above);
}

static void pad_loop(const ls_kernel_call *call, int64_t begin_block,
                     int64_t end_block) {
  const pad_params *self = call->params;
  int64_t at = begin_block * LS_BLOCK;
  const int64_t end = ls_min_i64(end_block * LS_BLOCK, self->count);
  if (at >= end) return;
  const bool dense = self->row.stride == 1;
  const int64_t low = self->row.low * self->run;
  const int64_t high = dense ? low + self->row.operand * self->run : low;
  while (at < end) {
    const int64_t row = at / self->row_size, begin = at % self->row_size;
    const int64_t stop = ls_min_i64(self->row_size, begin + (end - at));
    char *out =
        (char *)call->out[0] + (size_t)(row * self->row_size) * self->element;
    const int64_t source = find_source_row(self, row);
    if (source >= 0 && high > low)
      fill_around(self, out, call->in[1], begin, stop, low, high);
    else
      self->fill(out + (size_t)begin * self->element, call->in[1],
                 stop - begin);
    if (source >= 0)
      copy_row(self, out,
               (const char *)call->in[0] + (size_t)source * self->element,
               begin, stop);
    at += stop - begin;
  }
}

static padding padding_of(int64_t operand, int64_t result, int64_t low,
                          int64_t interior, int64_t step) {
  // A dimension of fewer than two elements has no gaps.
  const int64_t stride = operand > 1 ? interior + 1 : 1;
  const int64_t span = operand == 0 ? 0 : (operand - 1) * stride + 1;
  if (low <= -span || low >= result) return (padding){0, result, 0, 1, step};
  return (padding){operand, result, low, stride, step};
}

static void choose_fill(pad_params *self) {
  switch (self->element) {
#define CASE(unused, size, T)                                                  \
  case size:                                                                   \
    self->fill = fill_##size;                                                  \
    break;
    LS_EACH_SIZE(CASE, )
#undef CASE
  default:
    break;
  }
}

ls_status kernel_pad(ls_kernel_plan *plan) {
  const ls_dtype dtype = plan->out[0].dtype;
  if (!ls_is_plain(dtype)) return ls_kernel_unsupported(plan, dtype);
  LS_ARENA_NEW_OR_RETURN(plan->arena, pad_params, self);
  const ls_shape operand = plan->in[0].shape, result = plan->out[0].shape;
  const int64_t *low =
      ls_node_attr(plan->node, LS_ATTR_ID_PAD_LOW)->as.ints.items;
  const int64_t *high =
      ls_node_attr(plan->node, LS_ATTR_ID_PAD_HIGH)->as.ints.items;
  const int64_t *interior =
      ls_node_attr(plan->node, LS_ATTR_ID_INTERIOR)->as.ints.items;
  self->count = ls_shape_num_elements(result);
  self->element = ls_dtype_size(dtype);
  self->run = 1;
  self->row = (padding){.operand = 1, .result = 1, .stride = 1};
  int32_t axis = result.rank - 1;
  for (; axis >= 0 && low[axis] == 0 && high[axis] == 0 && interior[axis] == 0;
       --axis)
    self->run *= result.dim[axis];
  for (int32_t i = 0; i <= axis; ++i)
    self->outer[i] = padding_of(operand.dim[i], result.dim[i], low[i],
                                interior[i], ls_step_of(operand, i));
  if (axis >= 0) self->row = self->outer[axis];
  self->num_outer = axis < 0 ? 0 : axis;
  self->row_size = self->row.result * self->run;
  choose_fill(self);
  plan->loop = pad_loop;
  plan->params = self;
  plan->blocks = ls_blocks_of(self->count, LS_BLOCK);
  return ls_ok();
}

// ---- Concatenate -----------------------------------------------------------
// A row of the result is a row of each operand, one after the other.
typedef struct concatenate_params {
  int64_t count;
  size_t element, num_parts;
  int64_t row_size;
  const int64_t *begins;  // Start of each operand in a row, and the row's end.
} concatenate_params;

// Returns the last operand that begins at or before `column`.
static size_t part_at(const concatenate_params *self, int64_t column) {
  size_t low = 0, high = self->num_parts - 1;
  while (low < high) {
    const size_t middle = high - (high - low) / 2;
    if (self->begins[middle] <= column)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

static void concatenate_loop(const ls_kernel_call *call, int64_t begin_block,
                             int64_t end_block) {
  const concatenate_params *self = call->params;
  int64_t at = begin_block * LS_BLOCK;
  const int64_t end = ls_min_i64(end_block * LS_BLOCK, self->count);
  if (at >= end) return;
  int64_t row = at / self->row_size, column = at % self->row_size;
  size_t part = part_at(self, column);
  while (at < end) {
    const int64_t begin = self->begins[part];
    const int64_t size = self->begins[part + 1] - begin;
    const int64_t count = ls_min_i64(begin + size - column, end - at);
    const int64_t source = row * size + column - begin;
    if (count > 0)
      memcpy((char *)call->out[0] + (size_t)at * self->element,
             (const char *)call->in[part] + (size_t)source * self->element,
             (size_t)count * self->element);
    at += count;
    column += count;
    if (++part < self->num_parts) continue;
    part = 0;
    column = 0;
    ++row;
  }
}

ls_status kernel_concatenate(ls_kernel_plan *plan) {
  const ls_type type = plan->out[0];
  if (!ls_is_plain(type.dtype)) return ls_kernel_unsupported(plan, type.dtype);
  LS_ARENA_NEW_OR_RETURN(plan->arena, concatenate_params, self);
  LS_ARENA_ARRAY_OR_RETURN(plan->arena, int64_t, begins, plan->num_in + 1);
  const int32_t axis = (int32_t)ls_node_int(plan->node, LS_ATTR_ID_AXIS);
  const int64_t inner = ls_step_of(type.shape, axis);
  for (size_t i = 0; i < plan->num_in; ++i)
    begins[i + 1] = begins[i] + plan->in[i].shape.dim[axis] * inner;
  self->count = ls_shape_num_elements(type.shape);
  self->element = ls_dtype_size(type.dtype);
  self->num_parts = plan->num_in;
  self->row_size = begins[plan->num_in];
  self->begins = begins;
  plan->loop = concatenate_loop;
  plan->params = self;
  plan->blocks = ls_blocks_of(self->count, LS_BLOCK);
  return ls_ok();
}
