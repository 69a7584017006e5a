// SPDX-License-Identifier: Apache-2.0
//
// Ops that only move elements: copy, broadcast, transpose. The result is
// written in row order; the operand has a stride along each of its dimensions.
//
// If the innermost stride is above 1 and some other dimension has stride 1,
// those two dimensions are cut into tiles, so that both arrays are used by
// whole cache lines. All else is a placement (place.c).
#include "engine/cpu/kernels/index.h"
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

// A tile has up to TILE_ROWS rows of the result and TILE_COLUMNS columns.
enum { TILE_ROWS = 32, TILE_COLUMNS = 512, STRIP = 16, FEW_COLUMNS = 9 };

typedef struct move_params {
  ls_elementwise work;  // Describes moves of rows to fused instructions.
  int64_t count;
  int64_t base;  // Offset of the first element of the operand.
  size_t element;
  ls_placement placement;
  // The result has the same `period` elements again and again, for `repeated`
  // elements at a time.
  int64_t period, repeated;
  int64_t units_per_block, units;
  // Tiles only.
  int64_t columns, column_step;  // The innermost dimension.
  ls_strided_dims outer;         // The other dimensions, without the rows.
  // The dimension of stride 1; its stride in the result.
  int64_t rows, row_pitch;
  int64_t row_tiles, column_tiles;
  ls_strided_dims result;  // Like `outer`, with the strides of the result.
  void (*tile)(const struct move_params *self, void *out, const void *in,
               int64_t rows, int64_t columns);
} move_params;

typedef uint32_t quad __attribute__((vector_size(16), aligned(4), may_alias));

// Transposes four rows by four columns of 4 bytes.
static inline void turn_quads(uint32_t *o, int64_t pitch, const uint32_t *a,
                              int64_t step) {
  const quad a0 = *(const quad *)a, a1 = *(const quad *)(a + step);
  const quad a2 = *(const quad *)(a + 2 * step);
  const quad a3 = *(const quad *)(a + 3 * step);
  const quad b0 = __builtin_shufflevector(a0, a1, 0, 4, 1, 5);
  const quad b1 = __builtin_shufflevector(a2, a3, 0, 4, 1, 5);
  const quad b2 = __builtin_shufflevector(a0, a1, 2, 6, 3, 7);
  const quad b3 = __builtin_shufflevector(a2, a3, 2, 6, 3, 7);
  *(quad *)o = __builtin_shufflevector(b0, b1, 0, 1, 4, 5);
  *(quad *)(o + pitch) = __builtin_shufflevector(b0, b1, 2, 3, 6, 7);
  *(quad *)(o + 2 * pitch) = __builtin_shufflevector(b2, b3, 0, 1, 4, 5);
  *(quad *)(o + 3 * pitch) = __builtin_shufflevector(b2, b3, 2, 3, 6, 7);
}

// Transposes a full strip in squares. Returns the number of finished rows.
static int64_t turn_strip(uint32_t *o, int64_t pitch, const uint32_t *a,
                          int64_t step, int64_t rows, int64_t width) {
  if (width != STRIP) return 0;
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4)
    for (int64_t j = 0; j < STRIP; j += 4)
      turn_quads(o + i * pitch + j, pitch, a + j * step + i, step);
  return i;
}

// Transposes a strip of columns at a time, down all rows: each cache line of
// operand and result is used up before the next. DONE: rows that are finished
// already.
#define TILE(name, size, T, DONE)                                              \
  static void name##_##size(const move_params *self, void *out,                \
                            const void *in, int64_t rows, int64_t columns) {   \
    const int64_t pitch = self->row_pitch, step = self->column_step;           \
    for (int64_t c = 0; c < columns; c += STRIP) {                             \
      const int64_t width = ls_min_i64(STRIP, columns - c);                    \
      T *o = (T *)out + c;                                                     \
      const T *a = (const T *)in + c * step;                                   \
      for (int64_t i = DONE; i < rows; ++i)                                    \
        for (int64_t j = 0; j < width; ++j)                                    \
          o[i * pitch + j] = a[j * step + i];                                  \
    }                                                                          \
  }
TILE(tile, 1, uint8_t, 0)
TILE(tile, 2, uint16_t, 0)
TILE(tile, 4, uint32_t, turn_strip(o, pitch, a, step, rows, width))
TILE(tile, 8, uint64_t, 0)

static void choose_tile(move_params *self) {
  switch (self->element) {
#define CASE(unused, size, T)                                                  \
  case size:                                                                   \
    self->tile = tile_##size;                                                  \
    break;
    LS_EACH_SIZE(CASE, )
#undef CASE
  default:
    break;
  }
}

void ls_move(const ls_elementwise *work, void *out, const void *in, int64_t at,
             int64_t count) {
  const move_params *self = (const move_params *)(const void *)work;
  const char *first = (const char *)in + self->base * (int64_t)self->element;
  char *target = out;
  for (const int64_t end = at + count; at < end; at += count) {
    count = ls_min_i64(end - at, self->repeated - at % self->repeated);
    int64_t done = ls_min_i64(count, self->period);
    ls_place(&self->placement, target, first, at, at + done);
    for (int64_t more = 0; done < count; done += more) {
      more = ls_min_i64(done, count - done);
      memcpy(target + (size_t)done * self->element, target,
             (size_t)more * self->element);
    }
    target += (size_t)count * self->element;
  }
}

ls_move_view ls_move_view_of(const ls_elementwise *work, int64_t *out_columns) {
  const move_params *self = (const move_params *)(const void *)work;
  const ls_cpu_move *row = &self->placement.row;
  *out_columns = row->columns;
  return row->in_column == 1   ? LS_VIEW_ARRAY
         : row->in_column == 0 ? LS_VIEW_NUMBER
                               : LS_VIEW_NONE;
}

int64_t ls_move_period(const ls_elementwise *work) {
  const move_params *self = (const move_params *)(const void *)work;
  const bool repeats = self->placement.row.in_column != 0 &&
                       self->period < self->count &&
                       self->repeated == self->count;
  return repeats && self->period <= LS_PERIOD ? self->period : 0;
}

char *ls_move_view_at(const ls_elementwise *work, char *in, int64_t at,
                      int64_t *count) {
  const move_params *self = (const move_params *)(const void *)work;
  const ls_cpu_move *row = &self->placement.row;
  const int64_t column = at % row->columns;
  *count = ls_min_i64(*count, row->columns - column);
  const int64_t line =
      ls_walk_at(&self->placement.in, at / row->columns).offset;
  return in +
         (self->base + line + column * row->in_column) * (int64_t)self->element;
}

void ls_move_loop(const ls_kernel_call *call, int64_t begin_block,
                  int64_t end_block) {
  const move_params *self = call->params;
  const int64_t at = begin_block * LS_BLOCK;
  ls_move(&self->work, (char *)call->out[0] + (size_t)at * self->element,
          call->in[0], at, ls_min_i64(end_block * LS_BLOCK, self->count) - at);
}

static void tile_loop(const ls_kernel_call *call, int64_t begin_block,
                      int64_t end_block) {
  const move_params *self = call->params;
  const int64_t end =
      ls_min_i64(end_block * self->units_per_block, self->units);
  for (int64_t u = begin_block * self->units_per_block; u < end; ++u) {
    const int64_t c = u % self->column_tiles * TILE_COLUMNS;
    const int64_t row_tile = u / self->column_tiles;
    const int64_t r = row_tile % self->row_tiles * TILE_ROWS;
    const int64_t outer = row_tile / self->row_tiles;
    const int64_t from = self->base + ls_walk_at(&self->outer, outer).offset +
                         r + c * self->column_step;
    const int64_t target =
        ls_walk_at(&self->result, outer).offset + r * self->row_pitch + c;
    self->tile(self, (char *)call->out[0] + (size_t)target * self->element,
               (const char *)call->in[0] + (size_t)from * self->element,
               ls_min_i64(TILE_ROWS, self->rows - r),
               ls_min_i64(TILE_COLUMNS, self->columns - c));
  }
}

// Returns the outer dimension of stride 1, or -1.
static int32_t find_rows(const ls_strided_dims *outer) {
  for (int32_t i = 0; i < outer->rank; ++i)
    if (outer->step[i] == 1) return i;
  return -1;
}

static void plan_tiles(move_params *self, int32_t rows_at) {
  self->result = self->outer;
  int64_t pitch = self->columns;
  for (int32_t i = self->outer.rank; i-- > 0;) {
    self->result.step[i] = pitch;
    pitch *= self->outer.size[i];
  }
  self->rows = self->outer.size[rows_at];
  self->row_pitch = self->result.step[rows_at];
  ls_strided_dims_remove(&self->outer, rows_at);
  ls_strided_dims_remove(&self->result, rows_at);
  self->row_tiles = ls_blocks_of(self->rows, TILE_ROWS);
  self->column_tiles = ls_blocks_of(self->columns, TILE_COLUMNS);
  self->units = ls_strided_dims_count(&self->outer) * self->row_tiles *
                self->column_tiles;
  const int64_t unit = ls_min_i64(self->rows, TILE_ROWS) *
                       ls_min_i64(self->columns, TILE_COLUMNS);
  self->units_per_block = ls_max_i64(1, LS_BLOCK / unit);
}

// Finds the innermost dimension of stride 0 that has others inside.
static void find_period(move_params *self) {
  self->period = self->repeated = ls_max_i64(1, self->count);
  const ls_strided_dims *outer = &self->placement.in;
  int64_t inside = self->placement.row.columns;
  for (int32_t i = outer->rank; i-- > 0; inside *= outer->size[i])
    if (outer->step[i] == 0) {
      self->period = inside;
      self->repeated = inside * outer->size[i];
      return;
    }
}

// Makes a move of rows of `count` elements.
static move_params *make_move(ls_arena *arena, ls_strided_dims dims,
                              size_t element) {
  move_params *self = ls_arena_new(arena, move_params);
  if (self == NULL) return NULL;
  self->count = ls_strided_dims_count(&dims);
  self->element = element;
  self->placement = ls_placement_of(element);
  int64_t pitch = self->count;
  for (int32_t i = 0; i < dims.rank; ++i) {
    pitch /= ls_max_i64(1, dims.size[i]);
    ls_placement_add(&self->placement, dims.size[i], pitch, dims.step[i]);
  }
  ls_placement_finish(&self->placement);
  find_period(self);
  self->work = (ls_elementwise){.count = self->count,
                                .num_in = 1,
                                .in_size = {(uint32_t)element},
                                .out_size = (uint32_t)element,
                                .moves = true};
  return self;
}

const ls_elementwise *ls_move_make(ls_arena *arena, ls_strided_dims dims,
                                   size_t element) {
  const move_params *self = make_move(arena, dims, element);
  return self == NULL ? NULL : &self->work;
}

ls_status ls_move_plan(ls_kernel_plan *plan, ls_strided_dims dims,
                       int64_t base) {
  const ls_dtype dtype = plan->out[0].dtype;
  if (!ls_is_plain(dtype)) return ls_kernel_unsupported(plan, dtype);
  move_params *self = make_move(plan->arena, dims, ls_dtype_size(dtype));
  if (self == NULL) return ls_out_of_memory();
  self->base = base;
  plan->params = self;
  const int32_t last = dims.rank - 1, rows_at = find_rows(&dims);
  if (self->count > 0 && rows_at >= 0 && rows_at < last &&
      dims.step[last] > 2 &&  // Every other element is read by vectors.
      (rows_at < last - 1 || dims.size[last] >= FEW_COLUMNS)) {
    self->columns = dims.size[last];
    self->column_step = dims.step[last];
    ls_strided_dims_remove(&dims, last);
    self->outer = dims;
    choose_tile(self);
    plan_tiles(self, rows_at);
    plan->loop = tile_loop;
    plan->blocks = ls_blocks_of(self->units, self->units_per_block);
  } else {
    plan->loop = ls_move_loop;
    plan->blocks = ls_blocks_of(self->count, LS_BLOCK);
    self->work.scalars =
        ls_shape_num_elements(plan->in[0].shape) != self->count ? 1 : 0;
  }
  return ls_ok();
}

ls_status kernel_copy(ls_kernel_plan *plan) {
  ls_strided_dims dims = {0};
  ls_strided_dims_add(&dims, ls_shape_num_elements(plan->out[0].shape), 1);
  plan->alias = true;
  plan->in_place = 1;
  return ls_move_plan(plan, dims, 0);
}

ls_status kernel_broadcast(ls_kernel_plan *plan) {
  const ls_shape from = plan->in[0].shape, target = plan->out[0].shape;
  if (ls_shape_num_elements(from) == ls_shape_num_elements(target))
    return kernel_copy(plan);  // Adds dimensions of size 1.
  ls_strided_dims dims = {0};
  for (int32_t i = 0; i < target.rank; ++i) {
    const int32_t axis = i - (target.rank - from.rank);
    const bool repeated = axis < 0 || from.dim[axis] == 1;
    ls_strided_dims_add(&dims, target.dim[i],
                        repeated ? 0 : ls_step_of(from, axis));
  }
  return ls_move_plan(plan, dims, 0);
}

ls_status kernel_transpose(ls_kernel_plan *plan) {
  const ls_shape from = plan->in[0].shape, target = plan->out[0].shape;
  const ls_attr *permutation = ls_node_attr(plan->node, LS_ATTR_ID_PERMUTATION);
  if (permutation == NULL || permutation->kind != LS_ATTR_INTS ||
      permutation->as.ints.count != (size_t)target.rank)
    return ls_internal("lowered transpose without a permutation of rank %d",
                       target.rank);
  ls_strided_dims dims = {0};
  for (int32_t i = 0; i < target.rank; ++i) {
    const int32_t axis = (int32_t)permutation->as.ints.items[i];
    ls_strided_dims_add(&dims, target.dim[i], ls_step_of(from, axis));
  }
  return ls_move_plan(plan, dims, 0);
}
