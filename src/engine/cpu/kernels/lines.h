// SPDX-License-Identifier: Apache-2.0
//
// Work on whole lines along an axis, each line separately.
//
// An array is [outer, size, inner]; a line is [o, all, i]. Adjacent lines are
// handled together, as columns, so that memory is used row by row. A unit is
// some columns of one o; units are grouped into blocks.
#ifndef LS_ENGINE_CPU_KERNELS_LINES_H_
#define LS_ENGINE_CPU_KERNELS_LINES_H_

#include "engine/cpu/kernels/loops.h"

typedef struct ls_lines {
  int64_t outer, size, inner;
  int64_t columns;  // Columns per unit; the last unit of each o may have fewer.
  int64_t units_across, units, units_per_block;
} ls_lines;

// The lines of a unit.
typedef struct ls_lines_unit {
  int64_t outer, column, columns;
} ls_lines_unit;

// Divides `shape` into lines along `axis`, each of as much work as `work`
// elements.
static inline ls_lines ls_lines_of(ls_shape shape, int32_t axis, int64_t work) {
  ls_lines lines = {.outer = 1, .size = shape.dim[axis], .inner = 1};
  for (int32_t i = 0; i < axis; ++i)
    lines.outer *= shape.dim[i];
  for (int32_t i = axis + 1; i < shape.rank; ++i)
    lines.inner *= shape.dim[i];
  work = ls_max_i64(work, 1);
  // A unit has at least 64 columns, which is some cache lines of each row.
  lines.columns = ls_min_i64(lines.inner, ls_max_i64(64, LS_BLOCK / work));
  lines.columns = ls_max_i64(lines.columns, 1);
  lines.units_across = (lines.inner + lines.columns - 1) / lines.columns;
  lines.units = lines.outer * lines.units_across;
  lines.units_per_block = ls_max_i64(1, LS_BLOCK / (work * lines.columns));
  return lines;
}

static inline int64_t ls_lines_blocks(const ls_lines *lines) {
  return ls_blocks_of(lines->units, lines->units_per_block);
}

static inline ls_lines_unit ls_lines_at(const ls_lines *lines, int64_t unit) {
  const int64_t column = unit % lines->units_across * lines->columns;
  return (ls_lines_unit){unit / lines->units_across, column,
                         ls_min_i64(lines->columns, lines->inner - column)};
}

#endif  // LS_ENGINE_CPU_KERNELS_LINES_H_
