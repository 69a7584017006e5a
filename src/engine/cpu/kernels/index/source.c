// SPDX-License-Identifier: Apache-2.0
//
// Generated values: iota, one_hot, replica_id.
#include "engine/cpu/kernels/index.h"
#include "engine/cpu/kernels/kernel.h"
#include "lockstep/half.h"

// ---- Iota ------------------------------------------------------------------
// Numbers repeat with a period of size * inner elements: some periods are
// computed, and copied from then on.
typedef struct iota_params {
  int64_t count;
  // Size of the axis, and elements for each index along it.
  int64_t size, inner;
  size_t element;
  // Fills elements, which begin with number `value`, element `column` of its
  // run; numbers stay below `size`.
  void (*fill)(void *out, int64_t value, int64_t column, int64_t inner,
               int64_t count);
} iota_params;

enum {
  SHORT_RUN = 32,  // Most elements of a run that are computed by quotients.
  SHIFT = 16,      // Quotients are exact up to FEW + SHORT_RUN.
  FEW = 1024,
  COPIED = 4096,  // Elements copied at a time, and some more.
};

#define AS_NUMBER(T, value) ((T)(value))
#define AS_F16(T, value) ls_f16_from_f32(ls_odd_f32_of_i64(value))
#define AS_BF16(T, value) ls_bf16_from_f32(ls_odd_f32_of_i64(value))
#define FILL(name, I, E, D, T, W)                                              \
  static void name##_##D(void *out, int64_t value, int64_t column,             \
                         int64_t inner, int64_t count) {                       \
    const uint32_t inverse =                                                   \
        inner > SHORT_RUN ? 0                                                  \
                          : (uint32_t)(((1 << SHIFT) + inner - 1) / inner);    \
    const I first = (I)value;                                                  \
    const T same = E(T, first);                                                \
    const uint32_t skip = (uint32_t)column;                                    \
    T *o = out;                                                                \
    for (int64_t i = 0; inverse == 0 && i < count; ++i)                        \
      o[i] = same;                                                             \
    for (uint32_t i = 0; inner == 1 && i < (uint32_t)count; ++i)               \
      o[i] = E(T, first + (I)(int32_t)i);                                      \
    if (inverse == 0 || inner == 1) return;                                    \
    for (uint32_t i = 0; i < (uint32_t)count; ++i)                             \
      o[i] = E(T, first + (I)(int32_t)((i + skip) * inverse >> SHIFT));        \
  }
#define ENTRY(name, I, E, D, T, W) [LS_DTYPE_##D] = name##_##D,
#define ALL(X, name, I)                                                        \
  LS_EACH_INTEGER(X, name, I, AS_NUMBER)                                       \
  LS_EACH_FLOAT(X, name, I, AS_NUMBER)                                         \
  X(name, I, AS_F16, F16, uint16_t, ) X(name, I, AS_BF16, BF16, uint16_t, )
ALL(FILL, fill, int32_t)
ALL(FILL, fill_large, int64_t)
// Numbers that fit i32 are converted faster.
static void (*const fills[2][LS_DTYPE_COUNT])(void *, int64_t, int64_t, int64_t,
                                              int64_t) = {
    {ALL(ENTRY, fill, )}, {ALL(ENTRY, fill_large, )}};

static void iota_loop(const ls_kernel_call *call, int64_t begin_block,
                      int64_t end_block) {
  const iota_params *self = call->params;
  const int64_t begin = begin_block * LS_BLOCK;
  const int64_t end = ls_min_i64(end_block * LS_BLOCK, self->count);
  const int64_t period = self->size * self->inner;
  char *out = (char *)call->out[0] + (size_t)begin * self->element;
  int64_t done = 0, count = 0;
  const int64_t first = ls_min_i64(period, end - begin);
  for (; done < first; done += count) {
    const int64_t at = begin + done, column = at % self->inner;
    const int64_t value = at / self->inner % self->size;
    const int64_t rest = self->inner <= SHORT_RUN
                             ? (self->size - value) * self->inner
                             : self->inner;
    count = ls_min_i64(ls_min_i64(FEW, rest - column), first - done);
    self->fill(out + (size_t)done * self->element, value, column, self->inner,
               count);
  }
  for (; done < end - begin; done += count) {
    const int64_t most = (COPIED / period + 1) * period;
    count = ls_min_i64(ls_min_i64(done, most), end - begin - done);
    ls_copy(out + (size_t)done * self->element, out,
            (size_t)count * self->element);
  }
}

ls_status kernel_iota(ls_kernel_plan *plan) {
  const ls_type type = plan->out[0];
  if (fills[0][type.dtype] == NULL)
    return ls_kernel_unsupported(plan, type.dtype);
  LS_ARENA_NEW_OR_RETURN(plan->arena, iota_params, self);
  const int32_t axis = (int32_t)ls_node_int(plan->node, LS_ATTR_ID_AXIS);
  self->count = ls_shape_num_elements(type.shape);
  self->size = type.shape.dim[axis];
  self->inner = 1;
  for (int32_t i = axis + 1; i < type.shape.rank; ++i)
    self->inner *= type.shape.dim[i];
  self->element = ls_dtype_size(type.dtype);
  self->fill = fills[self->size > INT32_MAX][type.dtype];
  return ls_kernel_runs(plan, iota_loop, self,
                        ls_blocks_of(self->count, LS_BLOCK));
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
  int64_t end = begin_block * self->rows_per_block;
  for (int64_t b = begin_block, i = end; b < end_block; ++b) {
    end = ls_min_i64(i + self->rows_per_block, self->rows);
    memset((char *)call->out[0] + (size_t)(i * self->depth) * self->element, 0,
           (size_t)((end - i) * self->depth) * self->element);
    for (; i < end; ++i) {
      const int64_t index = ls_index_read(call->in[0], self->index, i);
      if (index < 0 || index >= self->depth) continue;
      switch (self->element) {
#define CASE(unused, size, T)                                                  \
  case size:                                                                   \
    ((T *)call->out[0])[i * self->depth + index] = (T)self->one_bits;          \
    break;
        LS_EACH_SIZE(CASE, )
#undef CASE
      default:
        break;
      }
    }
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
  // Little-endian: the low bytes are the number's.
  ls_values_from_f64(dtype, &(double){1}, 1, &self->one_bits);
  self->index = index;
  return ls_kernel_runs(plan, one_hot_loop, self,
                        ls_blocks_of(self->rows, self->rows_per_block));
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
