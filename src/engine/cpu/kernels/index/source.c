// SPDX-License-Identifier: Apache-2.0
//
// Generated values: iota, one_hot, replica_id.
#include "engine/cpu/kernels/index.h"
#include "engine/cpu/kernels/kernel.h"
#include "lockstep/half.h"

// ---- Iota ------------------------------------------------------------------
typedef struct iota_params {
  int64_t count;
  // Size of the axis, and elements for each index along it.
  int64_t size, inner;
  void (*fill)(void *out, int64_t at, int64_t value, int64_t step,
               int64_t count);
} iota_params;

#define AS_NUMBER(T, value) ((T)(value))
#define AS_F16(T, value) ls_f16_from_f32(ls_odd_f32_of_i64(value))
#define AS_BF16(T, value) ls_bf16_from_f32(ls_odd_f32_of_i64(value))
#define FILL(name, E, D, T, W)                                                 \
  static void name##_##D(void *out, int64_t at, int64_t value, int64_t step,   \
                         int64_t count) {                                      \
    T *o = (T *)out + at;                                                      \
    for (int64_t i = 0; i < count; ++i)                                        \
      o[i] = E(T, value + i * step);                                           \
  }
LS_EACH_INTEGER(FILL, fill, AS_NUMBER)
LS_EACH_FLOAT(FILL, fill, AS_NUMBER)
FILL(fill, AS_F16, F16, uint16_t, )
FILL(fill, AS_BF16, BF16, uint16_t, )

#define ENTRY(name, D, T, W) [LS_DTYPE_##D] = name##_##D,
static void (*const fills[LS_DTYPE_COUNT])(void *, int64_t, int64_t, int64_t,
                                           int64_t) = {
    LS_EACH_INTEGER(ENTRY, fill) LS_EACH_FLOAT(ENTRY, fill) ENTRY(fill, F16, , )
        ENTRY(fill, BF16, , )};

static void iota_loop(const ls_kernel_call *call, int64_t begin_block,
                      int64_t end_block) {
  const iota_params *self = call->params;
  int64_t at = begin_block * LS_BLOCK;
  const int64_t end = ls_min_i64(end_block * LS_BLOCK, self->count);
  // Rows are runs of 0, 1, ...; otherwise of equal numbers.
  const bool counts = self->inner == 1;
  const int64_t run = counts ? self->size : self->inner;
  while (at < end) {
    const int64_t count = ls_min_i64(run - at % run, end - at);
    self->fill(call->out[0], at, at / self->inner % self->size, counts, count);
    at += count;
  }
}

ls_status kernel_iota(ls_kernel_plan *plan) {
  const ls_type type = plan->out[0];
  if (fills[type.dtype] == NULL) return ls_kernel_unsupported(plan, type.dtype);
  LS_ARENA_NEW_OR_RETURN(plan->arena, iota_params, self);
  const int32_t axis = (int32_t)ls_node_int(plan->node, LS_ATTR_ID_AXIS);
  self->count = ls_shape_num_elements(type.shape);
  self->size = type.shape.dim[axis];
  self->inner = 1;
  for (int32_t i = axis + 1; i < type.shape.rank; ++i)
    self->inner *= type.shape.dim[i];
  self->fill = fills[type.dtype];
  plan->loop = iota_loop;
  plan->params = self;
  plan->blocks = ls_blocks_of(self->count, LS_BLOCK);
  return ls_ok();
}

// ---- One-hot ---------------------------------------------------------------
typedef struct one_hot_params {
  int64_t rows, depth, rows_per_block;
  size_t element;
  uint64_t one_bits;  // Bits of the number one.
  ls_dtype index;
} one_hot_params;

static void one_hot_loop(const ls_kernel_call *call, int64_t begin_block,
                         int64_t end_block) {
  const one_hot_params *self = call->params;
  const int64_t end = ls_min_i64(end_block * self->rows_per_block, self->rows);
  const size_t row_bytes = (size_t)self->depth * self->element;
  for (int64_t i = begin_block * self->rows_per_block; i < end; ++i) {
    char *row = (char *)call->out[0] + (size_t)i * row_bytes;
    memset(row, 0, row_bytes);
    const int64_t index = ls_index_read(call->in[0], self->index, i);
    if (index < 0 || index >= self->depth) continue;
    // Stores the low bytes of `one_bits`, in the machine's order.
    char *target = row + (size_t)index * self->element;
    switch (self->element) {
#define CASE(unused, size, T)                                                  \
  case size: {                                                                 \
    const T one_bits = (T)self->one_bits;                                      \
    memcpy(target, &one_bits, sizeof(one_bits));                               \
    break;                                                                     \
  }
      LS_EACH_SIZE(CASE, )
#undef CASE
    default:
      break;
    }
  }
}

static uint64_t bits_of_one(ls_dtype dtype) {
  switch (dtype) {
  case LS_DTYPE_F64:
    return UINT64_C(0x3FF0000000000000);
  case LS_DTYPE_F32:
    return 0x3F800000U;
  case LS_DTYPE_F16:
    return 0x3C00U;
  case LS_DTYPE_BF16:
    return 0x3F80U;
  default:
    return 1;
  }
}

ls_status kernel_one_hot(ls_kernel_plan *plan) {
  const ls_dtype index = plan->in[0].dtype, dtype = plan->out[0].dtype;
  if (!ls_dtype_is_integer(index)) return ls_kernel_unsupported(plan, index);
  if (!ls_is_plain(dtype)) return ls_kernel_unsupported(plan, dtype);
  LS_ARENA_NEW_OR_RETURN(plan->arena, one_hot_params, self);
  self->rows = ls_shape_num_elements(plan->in[0].shape);
  self->depth = plan->out[0].shape.dim[plan->out[0].shape.rank - 1];
  self->rows_per_block = ls_max_i64(1, LS_BLOCK / ls_max_i64(1, self->depth));
  self->element = ls_dtype_size(dtype);
  self->one_bits = bits_of_one(dtype);
  self->index = index;
  plan->loop = one_hot_loop;
  plan->params = self;
  plan->blocks = ls_blocks_of(self->rows, self->rows_per_block);
  return ls_ok();
}

// ---- Replica id ------------------------------------------------------------
static void replica_id_loop(const ls_kernel_call *call, int64_t begin_block,
                            int64_t end_block) {
  if (begin_block < end_block) *(int32_t *)call->out[0] = call->replica;
}

ls_status kernel_replica_id(ls_kernel_plan *plan) {
  plan->loop = replica_id_loop;
  plan->blocks = 1;
  return ls_ok();
}
