// SPDX-License-Identifier: Apache-2.0
//
// The index of the first maximum or minimum along an axis (isa/argmax.c).
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

typedef struct argmax_params {
  int64_t count;  // Number of outputs.
  // Size of the axis, and elements from one index to the next.
  int64_t size, inner;
  int64_t outputs_per_block;
  size_t element;
  ls_cpu_find_fn *find;
} argmax_params;

static void argmax_loop(const ls_kernel_call *call, int64_t begin_block,
                        int64_t end_block) {
  const argmax_params *self = call->params;
  const int64_t end =
      ls_min_i64(end_block * self->outputs_per_block, self->count);
  int64_t *out = call->out[0];
  int64_t i = begin_block * self->outputs_per_block;
  if (i >= end) return;
  if (self->size == 1) {
    memset(out + i, 0, (size_t)(end - i) * sizeof(*out));
    return;
  }
  while (i < end) {
    const int64_t outer = i / self->inner, column = i % self->inner;
    const int64_t columns = ls_min_i64(self->inner - column, end - i);
    const int64_t outers = columns == self->inner ? (end - i) / self->inner : 1;
    const int64_t from = outer * self->size * self->inner + column;
    self->find(out + i,
               (const char *)call->in[0] + (size_t)from * self->element, outers,
               self->size, self->inner, columns);
    i += outers * columns;
  }
}

ls_status kernel_argmax(ls_kernel_plan *plan) {
  // Columns of a block, at least, or all; some cache lines of each row.
  enum { LEAST = 64 };
  const ls_type type = plan->in[0];
  const bool is_max = plan->node->type == LS_OP_ARGMAX;
  const ls_cpu_extremes *extremes = plan->kernels->extremes;
  ls_cpu_find_fn *find =
      (is_max ? extremes->largest : extremes->smallest)[type.dtype];
  if (find == NULL) return ls_kernel_unsupported(plan, type.dtype);
  LS_ARENA_NEW_OR_RETURN(plan->arena, argmax_params, self);
  const int32_t axis = (int32_t)ls_node_int(plan->node, LS_ATTR_ID_AXIS);
  self->count = ls_shape_num_elements(plan->out[0].shape);
  self->size = type.shape.dim[axis];
  self->inner = 1;
  for (int32_t i = axis + 1; i < type.shape.rank; ++i)
    self->inner *= type.shape.dim[i];
  if (self->size == 0 && self->count > 0)
    return ls_invalid_argument("%s along axis %d of %s, which is empty",
                               ls_node_info(plan->node)->name, axis,
                               LS_SHAPE_TEXT(type.dtype, type.shape));
  if (self->size > UINT32_MAX && self->count > 0)
    return ls_unimplemented("%s of %lld elements",
                            ls_node_info(plan->node)->name,
                            (long long)self->size);
  self->element = ls_dtype_size(type.dtype);
  self->outputs_per_block = ls_max_i64(1, LS_BLOCK / ls_max_i64(1, self->size));
  if (self->inner <= LEAST && self->count > 0)
    self->outputs_per_block =
        ls_blocks_of(self->outputs_per_block, self->inner) * self->inner;
  else
    self->outputs_per_block = ls_max_i64(LEAST, self->outputs_per_block);
  self->find = find;
  return ls_kernel_runs(plan, argmax_loop, self,
                        ls_blocks_of(self->count, self->outputs_per_block));
}
