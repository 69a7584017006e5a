// SPDX-License-Identifier: Apache-2.0
//
// Rows of a batch: how many rows each part gets, where they are, and padding
// for missing rows. All arithmetic with such rows is here.
#ifndef LS_DISTRIBUTE_INPUT_ROWS_H_
#define LS_DISTRIBUTE_INPUT_ROWS_H_

#include "base/values/nest_internal.h"

// How the rows of a batch are shared among parts. A zero field has its default.
typedef struct ls_row_shares {
  int64_t parts;
  // True: parts have ceil(rows / parts) rows, the last ones fewer or none.
  // False: parts differ by at most one row, larger ones first.
  bool round_up;
  // In padded batches: size of each part, with the padding at the part's end.
  int64_t room;
  // Axis of the rows in each leaf, borrowed; 0 for further leaves.
  const int64_t *axes;
  size_t num_axes;
} ls_row_shares;

// Returns the first row of a part; for `part` = `parts` the number of rows.
static inline int64_t ls_shares_begin(const ls_row_shares *shares, int64_t rows,
                                      int64_t part) {
  const int64_t least = rows / shares->parts, rest = rows % shares->parts;
  const int64_t begin = part * (least + (shares->round_up && rest > 0));
  if (!shares->round_up) return begin + (part < rest ? part : rest);
  return begin < rows ? begin : rows;
}
static inline int64_t ls_shares_rows(const ls_row_shares *shares, int64_t rows,
                                     int64_t part) {
  return ls_shares_begin(shares, rows, part + 1) -
         ls_shares_begin(shares, rows, part);
}

// Returns the number of rows of piece `index` of a host that reads its own
// rows. Pieces are the shares of a batch of `rows`, from part `first` on,
// repeated, so that all hosts together use `rows` in each step.
static inline int64_t ls_cyclic_rows(const ls_row_shares *shares, int64_t rows,
                                     int64_t first, int64_t index) {
  return ls_shares_rows(shares, rows, (first + index) % shares->parts);
}

// Returns the part of a batch that value `index` of host `host` gets, where
// hosts take parts in turn.
static inline size_t ls_sharded_part(size_t hosts, size_t host, size_t index) {
  return host + index * hosts;
}

// Returns the number of rows of a slice of at least `bytes` bytes.
static inline int64_t ls_slice_rows(int64_t bytes, int64_t bytes_of_row) {
  return bytes_of_row > 0 ? bytes / bytes_of_row + (bytes % bytes_of_row > 0)
                          : bytes;
}

// ---- Axes -------------------------------------------------------------------
static inline int ls_shares_axis(const ls_row_shares *shares, size_t leaf) {
  return leaf < shares->num_axes ? (int)shares->axes[leaf] : 0;
}
static inline bool ls_has_axis(ls_shape shape, int axis) {
  return axis >= 0 && axis < shape.rank;
}

// ---- Parts ------------------------------------------------------------------
// Takes rows of a leaf along an axis: a view, or a copy if they are not
// contiguous.
//   LS_INVALID_ARGUMENT  strings along an axis other than 0
LS_MUST_USE ls_status ls_rows_take(ls_nest leaf, int axis, int64_t first,
                                   int64_t rows, ls_nest *out_part);

// ---- Padded batches ---------------------------------------------------------
static inline int64_t ls_shares_room(const ls_row_shares *shares) {
  return shares->parts * shares->room;
}

// Counts the examples of a batch: the rows of the first leaf of its features,
// arrays or tensors.
//   LS_INVALID_ARGUMENT  no leaf, no such dimension, or more rows than fit
LS_MUST_USE ls_status ls_shares_count(const ls_row_shares *shares,
                                      ls_nest features, int64_t *out_count);

// Pads a nest with `count` rows per leaf: arrays, tensors (in the current
// graph), or specs of batches of any size. The axes are those of leaves
// `first_leaf` and later. Failed if a leaf does not have `count` rows.
ls_nest ls_shares_pad(const ls_row_shares *shares, size_t first_leaf,
                      ls_nest values, int64_t count);

// Makes a mask with 1 for rows of data (`marks_real`) or else for rows of
// padding.
ls_nest ls_shares_mask(const ls_row_shares *shares, int64_t count,
                       ls_dtype dtype, bool marks_real);

#endif  // LS_DISTRIBUTE_INPUT_ROWS_H_
