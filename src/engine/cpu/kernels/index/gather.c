// SPDX-License-Identifier: Apache-2.0
//
// Gather: slices looked up by index. Indices out of range are clamped.
#include "engine/cpu/kernels/index.h"
#include "engine/cpu/kernels/kernel.h"

typedef struct gather_params {
  int64_t rows, rows_per_block;  // Rows of the result, which is [outer, picks].
  int64_t size, inner, picks;    // x is [outer, size, inner].
  size_t element;
  ls_dtype index;
  bool once;  // Indices are read before all rows, not again for each outer one.
  const ls_cpu_indices *kernels;
} gather_params;

enum { MOST_ONCE = 4096 };  // Most indices read once.

// Copies rows of `part` to twice `part` bytes as their first and last `part`:
// no calls, where that is a constant.
static inline __attribute__((always_inline)) void
copy_ends(char *out, const char *x, const int64_t *at, int64_t count,
          size_t bytes, const size_t part) {
  for (int64_t i = 0; i < count; ++i, out += bytes) {
    const char *row = x + (size_t)at[i] * bytes;
    memcpy(out, row, part);
    memcpy(out + bytes - part, row + bytes - part, part);
  }
}

static void copy_rows(const gather_params *self, char *out, const char *x,
                      const int64_t *at, int64_t count) {
  const size_t bytes = (size_t)self->inner * self->element;
  if (bytes <= 4)
    copy_ends(out, x, at, count, bytes, 2);
  else if (bytes <= 8)
    copy_ends(out, x, at, count, bytes, 4);
  else if (bytes <= 16)
    copy_ends(out, x, at, count, bytes, 8);
  else if (bytes <= 32)
    copy_ends(out, x, at, count, bytes, 16);
  else if (bytes <= 64)
    copy_ends(out, x, at, count, bytes, 32);
  else
    for (int64_t i = 0; i < count; ++i)
      memcpy(out + (size_t)i * bytes, x + (size_t)at[i] * bytes, bytes);
}

static void gather_loop(const ls_kernel_call *call, int64_t begin_block,
                        int64_t end_block) {
  const gather_params *self = call->params;
  const size_t bytes = (size_t)self->inner * self->element;
  const int64_t end = ls_min_i64(end_block * self->rows_per_block, self->rows);
  const ls_index_range range = {0, self->size - 1, .skips = false};
  int64_t row = begin_block * self->rows_per_block;
  if (self->once)
    self->kernels->read[self->index](call->scratch, call->in[1], 0, self->picks,
                                     &range);
  while (row < end) {
    const int64_t from = row % self->picks;
    const int64_t count =
        ls_min_i64(self->once ? MOST_ONCE : LS_INDEX_CHUNK,
                   ls_min_i64(self->picks - from, end - row));
    const int64_t outer = row / self->picks;
    char *out = (char *)call->out[0] + (size_t)row * bytes;
    const char *x =
        (const char *)call->in[0] + (size_t)(outer * self->size) * bytes;
    int64_t chunk[LS_INDEX_CHUNK];
    const int64_t *at = chunk;
    if (self->once)
      at = (const int64_t *)call->scratch + from;
    else
      self->kernels->read[self->index](chunk, call->in[1], from, count, &range);
    if (self->inner == 1)
      self->kernels->pick[self->element](out, x, at, count);
    else
      copy_rows(self, out, x, at, count);
    row += count;
  }
}

ls_status ls_check_indexed(const ls_kernel_plan *plan, int32_t axis) {
  if (plan->in[0].shape.dim[axis] > 0 ||
      ls_shape_num_elements(plan->out[0].shape) == 0)
    return ls_ok();
  return ls_invalid_argument(
      "%s along axis %d of %s, which is empty", ls_node_info(plan->node)->name,
      axis, LS_SHAPE_TEXT(plan->in[0].dtype, plan->in[0].shape));
}

ls_status kernel_gather(ls_kernel_plan *plan) {
  const ls_type x = plan->in[0];
  if (!ls_is_plain(x.dtype)) return ls_kernel_unsupported(plan, x.dtype);
  LS_ARENA_NEW_OR_RETURN(plan->arena, gather_params, self);
  const int32_t axis = (int32_t)ls_node_int(plan->node, LS_ATTR_ID_AXIS);
  LS_RETURN_IF_ERROR(ls_check_indexed(plan, axis));
  self->size = x.shape.dim[axis];
  self->inner = ls_step_of(x.shape, axis);
  self->picks = ls_shape_num_elements(plan->in[1].shape);
  const int64_t count = ls_shape_num_elements(plan->out[0].shape);
  self->rows = count == 0 ? 0 : count / self->inner;
  self->rows_per_block = ls_max_i64(1, LS_BLOCK / ls_max_i64(1, self->inner));
  self->element = ls_dtype_size(x.dtype);
  self->index = plan->in[1].dtype;
  self->kernels = plan->kernels->indices;
  self->once = self->picks <= MOST_ONCE && self->picks < self->rows;
  if (self->once) plan->scratch = (size_t)self->picks * sizeof(int64_t);
  return ls_kernel_runs(plan, gather_loop, self,
                        ls_blocks_of(self->rows, self->rows_per_block));
}
