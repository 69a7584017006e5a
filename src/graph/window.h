// SPDX-License-Identifier: Apache-2.0
//
// Positions of the windows of convolutions and window reductions.
//
// Along each spatial dimension a window of `taps` elements, `dilation` apart,
// moves by `stride` over the input. The input may have `input_dilation` - 1
// zeros between its elements, and has `low` elements of padding before it and
// `high` after. For output o, tap k reads position o * stride + k * dilation -
// low of the dilated input. Shape rules and kernels both use these functions,
// so that they agree.
#ifndef LS_GRAPH_WINDOW_H_
#define LS_GRAPH_WINDOW_H_

#include "graph/graph.h"

typedef struct ls_window {
  const char *op_name;  // For messages.
  int32_t rank;         // Spatial dimensions: 1 to LS_WINDOW_DIMS.
  bool same;            // True: `low` and `high` depend on the input's size.
  int64_t taps[LS_WINDOW_DIMS];  // -1: not known.
  int64_t strides[LS_WINDOW_DIMS];
  int64_t dilations[LS_WINDOW_DIMS];
  int64_t input_dilations[LS_WINDOW_DIMS];
  int64_t low[LS_WINDOW_DIMS], high[LS_WINDOW_DIMS];
} ls_window;

// Reads `strides`, `dilations` and `input_dilations` (one number for each of
// `rank` dimensions, 1 if absent), `padding` (low and high for each dimension,
// 0 if absent) or `same`, and `window`, the taps, if present.
//   LS_INVALID_ARGUMENT  names the attribute, its value and what is accepted
ls_status ls_window_read(const char *op_name, const ls_attr *attrs,
                         size_t num_attrs, int32_t rank, ls_window *out_window);

// Computes the output's size along `axis` for an input of `size` elements, -1
// if not known. With `same`, also sets low and high if they are known.
//   LS_INVALID_ARGUMENT  the window is larger than the padded input
ls_status ls_window_slide(ls_window *window, int32_t axis, int64_t size,
                          int64_t *out_size);

// ---- Convolutions with maxima ----------------------------------------------
// Sizes of operands of the ops that join a convolution with the maxima of its
// windows (ops.def, from pool_max on), shared by shape rules and the pass that
// makes these ops.
enum { LS_POOL_RANK = 4, LS_POOL_SIDE = 2, LS_POOL_TAPS = 3 };

// Returns true if maxima of 2 by 2 windows can be taken of a value of this
// type.
bool ls_can_pool(ls_type y);

// Returns true if a convolution with these attributes and weights of this shape
// can be joined with such maxima.
bool ls_can_join_pool(const ls_attr *attrs, size_t num_attrs, ls_shape w);

// Returns true if the windows have `side` adjacent taps along each dimension
// and are `stride` apart.
bool ls_window_is(const ls_window *window, int64_t side, int64_t stride);

#endif  // LS_GRAPH_WINDOW_H_
