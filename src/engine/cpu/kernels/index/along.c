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
#include "lockstep/half.h"

typedef struct along_params {
  ls_lines lines;  // Lines of x.
  int64_t picks;   // Size of the indices along the axis.
  int64_t across;  // 1; or 0 if lines are not adjacent columns.
  ls_dtype index;
  size_t element;
  void (*row)(const struct along_params *self, void *out, const void *in,
              const int64_t *at, int64_t column, int64_t count);
} along_params;

// Looks up consecutive indices: those of one row, one per column, or those of
// one line. `out` is a row of the result, `in` the first row of x.
#define TAKE(name, bytes, T)                                                   \
  static void name##_##bytes(const along_params *self, void *out,              \
                             const void *in, const int64_t *at,                \
                             int64_t column, int64_t count) {                  \
    T *o = out;                                                                \
    const T *a = in;                                                           \
    const int64_t last = self->lines.size - 1, inner = self->lines.inner;      \
    const int64_t across = self->across;                                       \
    for (int64_t i = 0; i < count; ++i)                                        \
      o[column + i] =                                                          \
          a[ls_index_clamp(at[i], last) * inner + across * (column + i)];      \
  }
LS_EACH_SIZE(TAKE, take)

// Adds updates: `out` is the first row of the result, `in` a row of updates.
#define ADD_NUMBER(D, T, W, x, y) ((T)((W)(x) + (W)(y)))
#define ADD_F16(D, T, W, x, y)                                                 \
  ls_f16_from_f32(ls_f16_to_f32(x) + ls_f16_to_f32(y))
#define ADD_BF16(D, T, W, x, y)                                                \
  ls_bf16_from_f32(ls_bf16_to_f32(x) + ls_bf16_to_f32(y))
#define ADD(name, E, D, T, W)                                                  \
  static void name##_##D(const along_params *self, void *out, const void *in,  \
                         const int64_t *at, int64_t column, int64_t count) {   \
    T *o = out;                                                                \
    const T *u = in;                                                           \
    const int64_t size = self->lines.size, inner = self->lines.inner;          \
    const int64_t across = self->across;                                       \
    for (int64_t i = 0; i < count; ++i) {                                      \
      if (at[i] < 0 || at[i] >= size) continue;                                \
      T *target = &o[at[i] * inner + across * (column + i)];                   \
      *target = E(D, T, W, *target, u[column + i]);                            \
    }                                                                          \
  }
LS_EACH_INTEGER(ADD, add, ADD_NUMBER)
LS_EACH_FLOAT(ADD, add, ADD_NUMBER)
ADD(add, ADD_F16, F16, uint16_t, )
ADD(add, ADD_BF16, BF16, uint16_t, )

#define ENTRY(name, D, T, W) [LS_DTYPE_##D] = name##_##D,
static void (*const adds[LS_DTYPE_COUNT])(const along_params *, void *,
                                          const void *, const int64_t *,
                                          int64_t, int64_t) = {
    LS_EACH_INTEGER(ENTRY, add) LS_EACH_FLOAT(ENTRY, add) ENTRY(add, F16, , )
        ENTRY(add, BF16, , )};

// Calls the row function for the indices of a unit, row by row; a single line
// counts as a row. `out_step` and `in_step`: distance from the row of one index
// to the next.
static void walk_indices(const along_params *self, const void *indices,
                         ls_lines_unit unit, char *out, size_t out_step,
                         const char *in, size_t in_step) {
  const int64_t inner = self->lines.inner;
  const bool is_line = self->across == 0;
  const int64_t rows = is_line ? 1 : self->picks;
  const int64_t columns = is_line ? self->picks : unit.columns;
  for (int64_t j = 0; j < rows; ++j) {
    const int64_t row = (unit.outer * self->picks + j) * inner;
    for (int64_t c = 0; c < columns; c += LS_INDEX_CHUNK) {
      const int64_t column = unit.column + c;
      const int64_t count = ls_min_i64(LS_INDEX_CHUNK, columns - c);
      int64_t at[LS_INDEX_CHUNK];
      ls_indices_read(at, indices, self->index, row + column, count);
      self->row(self, out + (size_t)j * out_step, in + (size_t)j * in_step, at,
                column, count);
    }
  }
}

static void take_loop(const ls_kernel_call *call, int64_t begin_block,
                      int64_t end_block) {
  const along_params *self = call->params;
  const ls_lines *lines = &self->lines;
  const size_t row = (size_t)lines->inner * self->element;
  const int64_t end =
      ls_min_i64(end_block * lines->units_per_block, lines->units);
  for (int64_t u = begin_block * lines->units_per_block; u < end; ++u) {
    const ls_lines_unit unit = ls_lines_at(lines, u);
    walk_indices(
        self, call->in[1], unit,
        (char *)call->out[0] + (size_t)(unit.outer * self->picks) * row, row,
        (const char *)call->in[0] + (size_t)(unit.outer * lines->size) * row,
        0);
  }
}

// Copies the columns of a unit from x.
static void copy_unit(const along_params *self, ls_lines_unit unit, char *out,
                      const char *x) {
  const size_t row = (size_t)self->lines.inner * self->element;
  const size_t skip = (size_t)unit.column * self->element;
  if (out == x) return;
  if (unit.columns == self->lines.inner) {
    memcpy(out, x, (size_t)self->lines.size * row);
    return;
  }
  for (int64_t i = 0; i < self->lines.size; ++i)
    memcpy(out + (size_t)i * row + skip, x + (size_t)i * row + skip,
           (size_t)unit.columns * self->element);
}

static void add_loop(const ls_kernel_call *call, int64_t begin_block,
                     int64_t end_block) {
  const along_params *self = call->params;
  const ls_lines *lines = &self->lines;
  const size_t row = (size_t)lines->inner * self->element;
  const int64_t end =
      ls_min_i64(end_block * lines->units_per_block, lines->units);
  for (int64_t u = begin_block * lines->units_per_block; u < end; ++u) {
    const ls_lines_unit unit = ls_lines_at(lines, u);
    const size_t base = (size_t)(unit.outer * lines->size) * row;
    char *out = (char *)call->out[0] + base;
    copy_unit(self, unit, out, (const char *)call->in[0] + base);
    walk_indices(self, call->in[1], unit, out, 0,
                 (const char *)call->in[2] +
                     (size_t)(unit.outer * self->picks) * row,
                 row);
  }
}

static ls_status plan_along(ls_kernel_plan *plan, along_params **out_self) {
  LS_ARENA_NEW_OR_RETURN(plan->arena, along_params, self);
  const int32_t axis = (int32_t)ls_node_int(plan->node, LS_ATTR_ID_AXIS);
  const ls_shape shape = plan->in[0].shape;
  self->picks = plan->in[1].shape.dim[axis];
  self->lines =
      ls_lines_of(shape, axis, ls_max_i64(self->picks, shape.dim[axis]));
  self->across = self->lines.inner == 1 ? 0 : 1;
  self->index = plan->in[1].dtype;
  self->element = ls_dtype_size(plan->in[0].dtype);
  plan->params = self;
  plan->blocks = ls_lines_blocks(&self->lines);
  *out_self = self;
  return ls_ok();
}

ls_status kernel_take_along(ls_kernel_plan *plan) {
  const ls_dtype dtype = plan->in[0].dtype;
  if (!ls_is_plain(dtype)) return ls_kernel_unsupported(plan, dtype);
  along_params *self = NULL;
  LS_RETURN_IF_ERROR(ls_check_indexed(
      plan, (int32_t)ls_node_int(plan->node, LS_ATTR_ID_AXIS)));
  LS_RETURN_IF_ERROR(plan_along(plan, &self));
  switch (self->element) {
#define CASE(unused, size, T)                                                  \
  case size:                                                                   \
    self->row = take_##size;                                                   \
    break;
    LS_EACH_SIZE(CASE, )
#undef CASE
  default:
    break;
  }
  plan->loop = take_loop;
  return ls_ok();
}

ls_status kernel_add_along(ls_kernel_plan *plan) {
  const ls_dtype dtype = plan->in[0].dtype;
  if (adds[dtype] == NULL) return ls_kernel_unsupported(plan, dtype);
  along_params *self = NULL;
  LS_RETURN_IF_ERROR(plan_along(plan, &self));
  self->row = adds[dtype];
  plan->loop = add_loop;
  plan->in_place = 1;
  return ls_ok();
}
