// SPDX-License-Identifier: Apache-2.0
//
// Parts of arrays: slice and reverse, and dynamic_slice and dynamic_update,
// whose starts are values.
#include "engine/cpu/kernels/index.h"
#include "engine/cpu/kernels/kernel.h"

// ---- Slice and reverse -----------------------------------------------------
ls_status kernel_slice(ls_kernel_plan *plan) {
  const ls_shape from = plan->in[0].shape, target = plan->out[0].shape;
  const int64_t *starts =
      ls_node_attr(plan->node, LS_ATTR_ID_STARTS)->as.ints.items;
  const int64_t *strides =
      ls_node_attr(plan->node, LS_ATTR_ID_STRIDES)->as.ints.items;
  ls_strided_dims dims = {0};
  int64_t base = 0;
  for (int32_t i = 0; i < target.rank; ++i) {
    const int64_t step = ls_step_of(from, i);
    base += starts[i] * step;
    // With one element or none the stride does not matter.
    ls_strided_dims_add(&dims, target.dim[i],
                        target.dim[i] > 1 ? step * strides[i] : step);
  }
  return ls_move_plan(plan, dims, base);
}

ls_status kernel_reverse(ls_kernel_plan *plan) {
  const ls_shape shape = plan->out[0].shape;
  const ls_attr *axes = ls_node_attr(plan->node, LS_ATTR_ID_AXES);
  unsigned reversed = 0;
  for (size_t i = 0; i < axes->as.ints.count; ++i)
    reversed |= 1U << axes->as.ints.items[i];
  ls_strided_dims dims = {0};
  int64_t base = 0;
  for (int32_t i = 0; i < shape.rank; ++i) {
    const int64_t step = ls_step_of(shape, i);
    const bool backwards = (reversed >> i & 1U) != 0;
    if (backwards) base += (shape.dim[i] - 1) * step;
    ls_strided_dims_add(&dims, shape.dim[i], backwards ? -step : step);
  }
  return ls_move_plan(plan, dims, base);
}

// ---- Starts that are values ------------------------------------------------
// Start of a part in an array.
typedef struct place {
  int32_t rank;
  int64_t last[LS_MAX_RANK];  // Largest start at which the part fits.
  int64_t step[LS_MAX_RANK];
  ls_dtype dtype[LS_MAX_RANK];
} place;

static place find_place(ls_shape full, ls_shape part, const ls_type *starts) {
  place at = {.rank = full.rank};
  for (int32_t i = 0; i < full.rank; ++i) {
    at.last[i] = full.dim[i] - part.dim[i];
    at.step[i] = ls_step_of(full, i);
    at.dtype[i] = starts[i].dtype;
  }
  return at;
}

static int64_t offset_at(const place *at, const void *const *starts) {
  int64_t offset = 0;
  for (int32_t i = 0; i < at->rank; ++i) {
    const int64_t start = ls_index_read(starts[i], at->dtype[i], 0);
    offset += ls_index_clamp(start, at->last[i]) * at->step[i];
  }
  return offset;
}

// ---- Dynamic slice ---------------------------------------------------------
typedef struct dynamic_slice_params {
  place at;
  size_t element;
  ls_kernel_loop move;
  const void *move_params;
} dynamic_slice_params;

static void dynamic_slice_loop(const ls_kernel_call *call, int64_t begin_block,
                               int64_t end_block) {
  const dynamic_slice_params *self = call->params;
  const int64_t offset = offset_at(&self->at, call->in + 1);
  const void *const in[1] = {(const char *)call->in[0] +
                             (size_t)offset * self->element};
  ls_kernel_call moved = *call;
  moved.in = in;
  moved.params = self->move_params;
  self->move(&moved, begin_block, end_block);
}

ls_status kernel_dynamic_slice(ls_kernel_plan *plan) {
  const ls_shape from = plan->in[0].shape, target = plan->out[0].shape;
  ls_strided_dims dims = {0};
  for (int32_t i = 0; i < target.rank; ++i)
    ls_strided_dims_add(&dims, target.dim[i], ls_step_of(from, i));
  LS_RETURN_IF_ERROR(ls_move_plan(plan, dims, 0));
  LS_ARENA_NEW_OR_RETURN(plan->arena, dynamic_slice_params, self);
  self->at = find_place(from, target, plan->in + 1);
  self->element = ls_dtype_size(plan->out[0].dtype);
  self->move = plan->loop;
  self->move_params = plan->params;
  plan->loop = dynamic_slice_loop;
  plan->params = self;
  return ls_ok();
}

// ---- Dynamic update slice --------------------------------------------------
typedef struct update_params {
  place at;
  int64_t count;  // Elements of the result.
  ls_placement update;
} update_params;

// A block is a range of the result: it copies x, then the rows of the update in
// it.
static void update_loop(const ls_kernel_call *call, int64_t begin_block,
                        int64_t end_block) {
  const update_params *self = call->params;
  const int64_t begin = begin_block * LS_BLOCK;
  const int64_t end = ls_min_i64(end_block * LS_BLOCK, self->count);
  const size_t element = self->update.element;
  char *out = call->out[0];
  if (begin >= end) return;
  ls_copy_operand(call, (size_t)begin * element,
                  (size_t)(end - begin) * element);
  const int64_t offset = offset_at(&self->at, call->in + 2);
  ls_place(&self->update, out + (size_t)begin * element, call->in[1],
           begin - offset, end - offset);
}

ls_status kernel_dynamic_update_slice(ls_kernel_plan *plan) {
  const ls_dtype dtype = plan->out[0].dtype;
  if (!ls_is_plain(dtype)) return ls_kernel_unsupported(plan, dtype);
  const ls_shape full = plan->out[0].shape, part = plan->in[1].shape;
  LS_ARENA_NEW_OR_RETURN(plan->arena, update_params, self);
  self->at = find_place(full, part, plan->in + 2);
  self->count = ls_shape_num_elements(full);
  self->update = ls_placement_of(ls_dtype_size(plan->out[0].dtype));
  for (int32_t i = 0; i < part.rank; ++i)
    ls_placement_add(&self->update, part.dim[i], ls_step_of(full, i),
                     ls_step_of(part, i));
  ls_placement_finish(&self->update);
  plan->in_place = 1;
  return ls_kernel_runs(plan, update_loop, self,
                        ls_blocks_of(self->count, LS_BLOCK));
}
