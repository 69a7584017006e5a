// SPDX-License-Identifier: Apache-2.0
//
// Lookup and update of elements by index along an axis, for each line
// separately.
//
// Take_along clamps indices; add_along skips those out of range and adds in the
// order of the indices.
#include "engine/cpu/kernels/index.h"
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

// Bytes of a line that near caches do not hold.
enum { FAR_BYTES = 1 << 21 };

typedef struct along_params {
  ls_lines lines;  // Lines of x.
  ls_index_lines places;
  ls_index_range range;
  const ls_cpu_indices *kernels;
  ls_dtype index;
  size_t element;
  ls_apply_fn *apply;  // NULL: take_along.
  bool is_far;         // Elements are fetched before they are updated.
} along_params;

// Handles indices `from` to `end`.
static void handle_indices(const along_params *self, const ls_kernel_call *call,
                           int64_t from, int64_t end) {
  for (int64_t count = 0; from < end; from += count) {
    int64_t at[LS_INDEX_CHUNK];
    count = ls_min_i64(LS_INDEX_CHUNK, end - from);
    self->kernels->read[self->index](at, call->in[1], from, count,
                                     &self->range);
    self->kernels->of_lines(at, from, count, &self->places);
    const size_t skip = (size_t)from * self->element;
    for (int64_t i = 0; self->is_far && i < count; ++i)
      __builtin_prefetch((char *)call->out[0] + at[i] * (int64_t)self->element,
                         1);
    if (self->apply != NULL)
      self->apply(call->out[0], (const char *)call->in[2] + skip, at, count, 1);
    else
      self->kernels->pick[self->element]((char *)call->out[0] + skip,
                                         call->in[0], at, count);
  }
}

// Copies `columns` columns of x from element `from` on to the result.
static void copy_columns(const along_params *self, const ls_kernel_call *call,
                         int64_t from, int64_t columns) {
  const ls_lines *lines = &self->lines;
  for (int64_t i = 0; i < lines->size; ++i, from += lines->inner)
    ls_copy_operand(call, (size_t)from * self->element,
                    (size_t)columns * self->element);
}

static void along_loop(const ls_kernel_call *call, int64_t begin_block,
                       int64_t end_block) {
  const along_params *self = call->params;
  const ls_lines *lines = &self->lines;
  int64_t u = begin_block * lines->units_per_block;
  const int64_t end =
      ls_min_i64(end_block * lines->units_per_block, lines->units);
  if (lines->units_across == 1) {
    // Units are all lines of an outer index: what they own is contiguous.
    const int64_t each = lines->size * lines->inner;
    if (self->apply != NULL && u < end)
      ls_copy_operand(call, (size_t)(u * each) * self->element,
                      (size_t)((end - u) * each) * self->element);
    handle_indices(self, call, u * self->places.picks * lines->inner,
                   end * self->places.picks * lines->inner);
    return;
  }
  for (; u < end; ++u) {
    const ls_lines_unit unit = ls_lines_at(lines, u);
    if (self->apply != NULL)
      copy_columns(self, call,
                   unit.outer * lines->size * lines->inner + unit.column,
                   unit.columns);
    for (int64_t j = 0; j < self->places.picks; ++j) {
      const int64_t from =
          (unit.outer * self->places.picks + j) * lines->inner + unit.column;
      handle_indices(self, call, from, from + unit.columns);
    }
  }
}

static ls_status plan_along(ls_kernel_plan *plan, ls_apply_fn *apply) {
  LS_ARENA_NEW_OR_RETURN(plan->arena, along_params, self);
  const int32_t axis = (int32_t)ls_node_int(plan->node, LS_ATTR_ID_AXIS);
  const ls_shape shape = plan->in[0].shape;
  const int64_t size = shape.dim[axis], picks = plan->in[1].shape.dim[axis];
  self->lines = ls_lines_of(shape, axis, ls_max_i64(picks, size));
  self->places = (ls_index_lines){size, picks, self->lines.inner};
  self->range = (ls_index_range){0, size - 1, .skips = apply != NULL};
  self->kernels = plan->kernels->indices;
  self->index = plan->in[1].dtype;
  self->element = ls_dtype_size(plan->in[0].dtype);
  self->apply = apply;
  self->is_far = apply != NULL && (size_t)size * self->element > FAR_BYTES;
  return ls_kernel_runs(plan, along_loop, self, ls_lines_blocks(&self->lines));
}

ls_status kernel_take_along(ls_kernel_plan *plan) {
  const ls_dtype dtype = plan->in[0].dtype;
  if (!ls_is_plain(dtype)) return ls_kernel_unsupported(plan, dtype);
  LS_RETURN_IF_ERROR(ls_check_indexed(
      plan, (int32_t)ls_node_int(plan->node, LS_ATTR_ID_AXIS)));
  return plan_along(plan, NULL);
}

ls_status kernel_add_along(ls_kernel_plan *plan) {
  const ls_dtype dtype = plan->in[0].dtype;
  ls_apply_fn *apply = ls_apply_of(LS_OP_ADD, dtype);
  if (apply == NULL) return ls_kernel_unsupported(plan, dtype);
  plan->in_place = 1;
  return plan_along(plan, apply);
}
