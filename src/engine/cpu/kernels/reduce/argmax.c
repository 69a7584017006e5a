// SPDX-License-Identifier: Apache-2.0
//
// The index of the first maximum or minimum along an axis. A NaN wins in both
// cases.
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"
#include "lockstep/half.h"

typedef struct argmax_params {
  int64_t count;  // Number of outputs.
  // Size of the axis, and elements from one index to the next.
  int64_t size, inner;
  int64_t outputs_per_block;
  size_t element;
  int64_t (*find)(const void *in, int64_t size, int64_t step);
} argmax_params;

#define SAME(x) (x)
#define MORE(x, y) ((x) > (y))
#define LESS(x, y) ((x) < (y))
#define FIND(name, BEATS, LOAD, V, D, T, W)                                    \
  static int64_t name##_##D(const void *in, int64_t size, int64_t step) {      \
    const T *a = in;                                                           \
    int64_t best = 0;                                                          \
    V top = LOAD(a[0]);                                                        \
    for (int64_t i = 1; i < size; ++i) {                                       \
      const V x = LOAD(a[i * step]);                                           \
      if (BEATS(x, top) || (x != x && top == top)) {                           \
        top = x;                                                               \
        best = i;                                                              \
      }                                                                        \
    }                                                                          \
    return best;                                                               \
  }
#define FIND_NUMBER(name, BEATS, D, T, W) FIND(name, BEATS, SAME, T, D, T, W)
#define FIND_ALL(name, BEATS)                                                  \
  LS_EACH_INTEGER(FIND_NUMBER, name, BEATS)                                    \
  LS_EACH_FLOAT(FIND_NUMBER, name, BEATS)                                      \
  FIND(name, BEATS, ls_f16_to_f32, float, F16, uint16_t, )                     \
  FIND(name, BEATS, ls_bf16_to_f32, float, BF16, uint16_t, )
FIND_ALL(largest, MORE)
FIND_ALL(smallest, LESS)

typedef int64_t (*find_function)(const void *in, int64_t size, int64_t step);
#define ENTRY(name, D, T, W) [LS_DTYPE_##D] = name##_##D,
#define ROW(name)                                                              \
  {                                                                            \
    LS_EACH_INTEGER(ENTRY, name)                                               \
    LS_EACH_FLOAT(ENTRY, name) ENTRY(name, F16, , ) ENTRY(name, BF16, , )      \
  }
static const find_function largest[LS_DTYPE_COUNT] = ROW(largest);
static const find_function smallest[LS_DTYPE_COUNT] = ROW(smallest);

static void argmax_loop(const ls_kernel_call *call, int64_t begin_block,
                        int64_t end_block) {
  const argmax_params *self = call->params;
  const int64_t end =
      ls_min_i64(end_block * self->outputs_per_block, self->count);
  int64_t *out = call->out[0];
  for (int64_t i = begin_block * self->outputs_per_block; i < end; ++i) {
    const int64_t from =
        i / self->inner * self->size * self->inner + i % self->inner;
    out[i] =
        self->find((const char *)call->in[0] + (size_t)from * self->element,
                   self->size, self->inner);
  }
}

ls_status kernel_argmax(ls_kernel_plan *plan) {
  const ls_type type = plan->in[0];
  const bool is_max = plan->node->type == LS_OP_ARGMAX;
  const find_function find = (is_max ? largest : smallest)[type.dtype];
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
  self->element = ls_dtype_size(type.dtype);
  self->outputs_per_block = ls_max_i64(1, LS_BLOCK / ls_max_i64(1, self->size));
  self->find = find;
  plan->loop = argmax_loop;
  plan->params = self;
  plan->blocks = ls_blocks_of(self->count, self->outputs_per_block);
  return ls_ok();
}
