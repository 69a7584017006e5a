// SPDX-License-Identifier: Apache-2.0
//
// Where the windows of a convolution or a window reduction lie.
//
// Along each spatial dimension a window of `taps` elements, `dilation` apart,
// moves by `stride` over the input, between whose elements there may be
// `input_dilation` - 1 zeros, and which has `low` elements of padding before
// it and `high` behind. Output o sees with its tap k the place
//   o * stride + k * dilation - low
// of the spread-out input. Shape rules and kernels ask here, so that they
// agree.
#ifndef LS_GRAPH_WINDOW_H_
#define LS_GRAPH_WINDOW_H_

#include "graph/graph.h"

typedef struct ls_window {
  const char *op_name;  // For messages.
  int32_t rank;         // Spatial dimensions: 1 to LS_WINDOW_DIMS.
  bool same;            // `low` and `high` follow from the input's size.
  int64_t taps[LS_WINDOW_DIMS];  // -1: not known.
  int64_t strides[LS_WINDOW_DIMS];
  int64_t dilations[LS_WINDOW_DIMS];
  int64_t input_dilations[LS_WINDOW_DIMS];
  int64_t low[LS_WINDOW_DIMS], high[LS_WINDOW_DIMS];
} ls_window;

// Reads `strides`, `dilations`, `input_dilations` (a number for each of `rank`
// dimensions, each 1 if absent), `padding` (low and high for each dimension; 0
// if absent) or `same`, and `window`, the taps, if it is there.
//   LS_INVALID_ARGUMENT  naming the attribute, what it is and what it may be.
ls_status ls_window_read(const char *op_name, const ls_attr *attrs,
                         size_t num_attrs, int32_t rank, ls_window *out_window);

// The output's size along `axis` for an input of `size` elements, -1 where it
// is not known. With `same`, also sets low and high, where they are known.
//   LS_INVALID_ARGUMENT  the window is larger than the padded input.
ls_status ls_window_slide(ls_window *window, int32_t axis, int64_t size,
                          int64_t *out_size);

// ---- Convolutions and the maxima of their results --------------------------
// Operands of the ops that join them (ops.def, from pool_max on): shape rules
// and the pass that makes these ops ask here.
enum { LS_POOL_RANK = 4, LS_POOL_SIDE = 2, LS_POOL_TAPS = 3 };

// Returns true if maxima of 2 by 2 windows can be taken of this.
bool ls_can_pool(ls_type y);

// Returns true if the result of a convolution with these attributes, by weights
// of this shape, can go into them.
bool ls_can_join_pool(const ls_attr *attrs, size_t num_attrs, ls_shape w);

// Returns true if the windows have `side` taps, side by side, along each
// dimension, and lie `stride` apart.
bool ls_window_is(const ls_window *window, int64_t side, int64_t stride);

#endif  // LS_GRAPH_WINDOW_H_
