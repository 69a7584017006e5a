// SPDX-License-Identifier: Apache-2.0
//
// Values of an operand at positions of a result.
#include "engine/cpu/kernels/index.h"

// Uses the best table, whatever table the engine uses: moves have no bits of
// their own.
ls_placement ls_placement_of(size_t element) {
  return (ls_placement){
      .rows = 1,
      .row = {.columns = 1, .out_column = 1, .in_column = 1},
      .element = element,
      .move = ls_cpu_kernels_best()->moves->of_size[element],
  };
}

// As ls_strided_dims_add, for both arrays at once.
void ls_placement_add(ls_placement *self, int64_t size, int64_t out_step,
                      int64_t in_step) {
  ls_strided_dims *out = &self->out, *in = &self->in;
  const int32_t last = out->rank - 1;
  if (size == 1) return;
  if (last >= 0 && out->step[last] == out_step * size &&
      in->step[last] == in_step * size) {
    out->size[last] *= size;
    in->size[last] *= size;
    out->step[last] = out_step;
    in->step[last] = in_step;
    return;
  }
  out->size[out->rank] = in->size[in->rank] = size;
  out->step[out->rank++] = out_step;
  in->step[in->rank++] = in_step;
}

void ls_placement_finish(ls_placement *self) {
  const int32_t last = self->out.rank - 1;
  if (last >= 0) {
    self->row.columns = self->out.size[last];
    self->row.out_column = self->out.step[last];
    self->row.in_column = self->in.step[last];
    --self->out.rank;
    --self->in.rank;
  }
  if (last >= 1) {
    self->row.out_row = self->out.step[last - 1];
    self->row.in_row = self->in.step[last - 1];
  }
  self->rows = self->row.columns == 0 ? 0 : ls_strided_dims_count(&self->out);
}

// Finds the last row that begins at or before element `begin`, or row 0,
// counted from the first row; returns its number.
static int64_t find_row(const ls_placement *self, int64_t begin, ls_walk *out,
                        ls_walk *in) {
  int64_t row = 0;
  *out = *in = (ls_walk){.offset = 0};
  for (int32_t i = 0; i < self->out.rank; ++i) {
    const int64_t size = self->out.size[i], step = self->out.step[i];
    const int64_t index =
        ls_max_i64(0, ls_min_i64(size - 1, (begin - out->offset) / step));
    out->index[i] = in->index[i] = index;
    out->offset += index * step;
    in->offset += index * self->in.step[i];
    row = row * size + index;
  }
  return row;
}

// Moves to the row that is `count` rows further on, at most in the next line.
static void skip_rows(ls_walk *walk, const ls_strided_dims *dims,
                      int64_t count) {
  const int32_t last = dims->rank - 1;
  if (last < 0) return;
  walk->index[last] += count - 1;
  walk->offset += (count - 1) * dims->step[last];
  ls_walk_next(walk, dims);
}

void ls_place(const ls_placement *self, void *out, const void *in,
              int64_t begin, int64_t end) {
  if (self->rows == 0) return;
  const int32_t last = self->out.rank - 1;
  const int64_t step = self->row.out_column, element = (int64_t)self->element;
  const int64_t extent = (self->row.columns - 1) * step + 1;
  ls_walk to, from;
  int64_t row = find_row(self, begin, &to, &from);
  while (row < self->rows && to.offset < end) {
    ls_cpu_move move = self->row;
    int64_t first = 0;
    move.rows = 1;
    if (to.offset < begin || to.offset + extent > end) {
      // A part of a row.
      const int64_t before = ls_max_i64(0, begin - to.offset);
      first = (before + step - 1) / step;
      move.columns =
          ls_min_i64(move.columns, (end - to.offset + step - 1) / step) - first;
    } else if (last >= 0) {
      move.rows = ls_min_i64(self->out.size[last] - to.index[last],
                             (end - to.offset - extent) / move.out_row + 1);
    }
    if (move.columns > 0)
      self->move((char *)out + (to.offset + first * step - begin) * element,
                 (const char *)in +
                     (from.offset + first * move.in_column) * element,
                 &move);
    row += move.rows;
    skip_rows(&to, &self->out, move.rows);
    skip_rows(&from, &self->in, move.rows);
  }
}
