// SPDX-License-Identifier: Apache-2.0
//
// Emits convolutions, windows, and their gradients.
//
// The gradient of a convolution is a convolution: for the input by reversed
// weights, with strides and dilations of the input exchanged; for the weights
// of images by gradients, with strides and dilations exchanged. The first
// maximum of a window is found one dimension at a time, from the last one on:
// the first row that holds the largest element, and the first such element in
// this row.
#include <math.h>

#include "emit/emit.h"

// Reads the windows of the current op over an input with these sizes, with
// these taps.
static bool compose_window_read(ls_emitter *e, ls_batch_dims dims,
                                const ls_dim *taps, ls_window *out) {
  const ls_node *node = e->node;
  const ls_status status = ls_window_read(ls_node_info(node)->name, node->attrs,
                                          node->num_attrs, dims.rank - 2, out);
  if (!ls_status_is_ok(status)) {
    ls_emit_fail(e, status);
    return false;
  }
  for (int32_t i = 0; i < out->rank; ++i) {
    int64_t size = 0;
    if (taps != NULL) out->taps[i] = ls_emit_size(e, taps[i]);
    ls_emit_fail(
        e, ls_window_slide(out, i, ls_emit_size(e, dims.dim[i + 1]), &size));
  }
  return ls_emit_is_ok(e);
}

// Returns the distance from the first to the last element that a window sees.
static int64_t span_of(const ls_window *window, int32_t i) {
  return (window->taps[i] - 1) * window->dilations[i];
}

// Returns the size of `count` elements that are `step` apart.
static int64_t spread_size(int64_t count, int64_t step) {
  return count > 0 ? (count - 1) * step + 1 : 0;
}

// ---- Convolutions ----------------------------------------------------------
static ls_emitted convolution(ls_emitter *e) {
  const ls_emitted x = ls_operand(e, 0), w = ls_operand(e, 1);
  const ls_batch_dims weights = ls_batch_dims_at(e, w);
  ls_window window;
  if (!compose_window_read(e, ls_batch_dims_at(e, x), weights.dim, &window))
    return 0;
  return ls_emit_convolve(e, x, w, &window,
                          ls_node_int(e->node, LS_ATTR_ID_CHANNEL_GROUPS),
                          ls_result_dims(e));
}

static ls_emitted conv_bias_act(ls_emitter *e) {
  return ls_emit_activation(e,
                            ls_emit_add(e, convolution(e), ls_operand(e, 2)));
}

// Splits dimension `axis` into groups, which become the first part of dimension
// `to`, after which its elements stay in place: [..., groups * a, ..., b, ...]
// to [..., a, ..., groups * b, ...].
static ls_emitted move_groups(ls_emitter *e, ls_emitted x, int64_t groups,
                              int32_t axis, int32_t to) {
  if (groups == 1) return x;
  const ls_batch_dims dims = ls_batch_dims_at(e, x);
  ls_batch_dims split = {.rank = dims.rank + 1}, joined = dims;
  int64_t permutation[LS_MAX_RANK];
  for (int32_t i = 0, k = 0; i < dims.rank; ++i) {
    if (i == axis) split.dim[k++] = ls_dim_of(groups);
    split.dim[k++] = dims.dim[i];
  }
  const ls_dim some = {dims.dim[axis].scale / groups,
                       dims.dim[axis].offset / groups};
  split.dim[axis + 1] = joined.dim[axis] = some;
  joined.dim[to].scale *= groups;
  joined.dim[to].offset *= groups;
  for (int32_t i = 0, k = 0; i < dims.rank; ++i) {
    if (i == to) permutation[k++] = axis;
    permutation[k++] = i < axis ? i : i + 1;
  }
  return ls_emit_reshape(
      e, ls_emit_transpose(e, ls_emit_reshape(e, x, split), permutation),
      joined);
}

static ls_emitted swapped(ls_emitter *e, ls_emitted x, int32_t a, int32_t b) {
  int64_t permutation[LS_MAX_RANK];
  const int32_t rank = ls_batch_dims_at(e, x).rank;
  for (int32_t i = 0; i < rank; ++i)
    permutation[i] = i == a ? b : i == b ? a : i;
  return ls_emit_transpose(e, x, permutation);
}

// Cuts off what negative padding in front of x would: XLA's CPU client computes
// such convolutions wrongly.
static ls_emitted cut_padding(ls_emitter *e, ls_emitted x, ls_window *window) {
  const ls_batch_dims given = ls_batch_dims_at(e, x);
  int64_t starts[LS_MAX_RANK] = {0};
  ls_batch_dims dims = given;
  for (int32_t i = 0; i < window->rank; ++i) {
    const int64_t size = ls_emit_size(e, dims.dim[i + 1]);
    const int64_t step = window->input_dilations[i];
    const int64_t total =
        window->low[i] + window->high[i] + spread_size(size, step);
    if (window->low[i] >= 0) continue;
    int64_t cut = (step - 1 - window->low[i]) / step;
    if (cut > size) cut = size;
    starts[i + 1] = cut;
    dims.dim[i + 1] = ls_dim_of(size - cut);
    window->low[i] = cut == size ? 0 : window->low[i] + cut * step;
    window->high[i] = total - window->low[i] - spread_size(size - cut, step);
  }
  for (int32_t i = 0; i < dims.rank; ++i)
    if (!ls_dim_equal(dims.dim[i], given.dim[i]))
      return ls_emit_slice(e, x, starts, NULL, dims);
  return x;
}

static ls_emitted conv_grad_input(ls_emitter *e) {
  static const int64_t axes[LS_WINDOW_DIMS] = {0, 1, 2};
  const ls_emitted dy = ls_operand(e, 0);
  const ls_batch_dims dims = ls_result_dims(e), from = ls_batch_dims_at(e, dy);
  const int64_t groups = ls_node_int(e->node, LS_ATTR_ID_CHANNEL_GROUPS);
  const int32_t rank = dims.rank;
  ls_emitted w = ls_operand(e, 1);
  ls_window window;
  if (!compose_window_read(e, dims, ls_batch_dims_at(e, w).dim, &window))
    return 0;
  for (int32_t i = 0; i < window.rank; ++i) {
    const int64_t size = ls_emit_size(e, dims.dim[i + 1]);
    const int64_t outputs = ls_emit_size(e, from.dim[i + 1]);
    const int64_t stride = window.strides[i];
    window.strides[i] = window.input_dilations[i];
    window.input_dilations[i] = stride;
    window.low[i] = span_of(&window, i) - window.low[i];
    window.high[i] = spread_size(size, window.strides[i]) +
                     span_of(&window, i) - window.low[i] -
                     spread_size(outputs, stride);
  }
  w = swapped(e, move_groups(e, w, groups, rank - 1, rank - 2), rank - 1,
              rank - 2);
  w = ls_emit_reverse(e, w, axes, (size_t)window.rank);
  return ls_emit_convolve(e, cut_padding(e, dy, &window), w, &window, groups,
                          dims);
}

static ls_emitted conv_grad_weights(ls_emitter *e) {
  ls_emitted x = ls_operand(e, 0), dy = ls_operand(e, 1);
  const ls_batch_dims dims = ls_result_dims(e);
  const ls_batch_dims given = ls_batch_dims_at(e, x),
                      from = ls_batch_dims_at(e, dy);
  const int64_t groups = ls_node_int(e->node, LS_ATTR_ID_CHANNEL_GROUPS);
  const int32_t rank = dims.rank;
  int64_t permutation[LS_MAX_RANK];
  ls_batch_dims made = {.rank = rank};
  ls_window window;
  if (!compose_window_read(e, given, dims.dim, &window)) return 0;
  for (int32_t i = 0; i < window.rank; ++i) {
    const int64_t size = ls_emit_size(e, given.dim[i + 1]);
    const int64_t outputs = ls_emit_size(e, from.dim[i + 1]);
    const int64_t stride = window.strides[i], span = span_of(&window, i);
    window.strides[i] = window.dilations[i];
    window.dilations[i] = stride;
    window.taps[i] = outputs;
    window.high[i] = span + spread_size(outputs, stride) - window.low[i] -
                     spread_size(size, window.input_dilations[i]);
    made.dim[i + 1] = dims.dim[i];
  }
  // From [images, spatial..., channels] to [spatial..., images, channels], and
  // from [channels, spatial..., outputs] to [spatial..., channels, outputs].
  for (int32_t i = 0; i < rank; ++i)
    permutation[i] = i == rank - 1 ? i : i == rank - 2 ? 0 : i + 1;
  made.dim[0] = dims.dim[rank - 2];
  made.dim[rank - 1] = dims.dim[rank - 1];
  x = swapped(e, move_groups(e, x, groups, rank - 1, 0), 0, rank - 1);
  dy = ls_emit_transpose(e, dy, permutation);
  return ls_emit_transpose(e, ls_emit_convolve(e, x, dy, &window, groups, made),
                           permutation);
}

// ---- Sums and means --------------------------------------------------------
// Counts the elements of each window: [1, spatial..., 1].
static ls_emitted count_windows(ls_emitter *e, ls_emitted like,
                                const ls_window *window, ls_batch_dims dims,
                                ls_batch_dims result) {
  dims.dim[0] = dims.dim[dims.rank - 1] = ls_dim_of(1);
  result.dim[0] = result.dim[dims.rank - 1] = ls_dim_of(1);
  const ls_emitted ones =
      ls_emit_broadcast(e, ls_emit_number(e, like, 1), dims);
  return ls_emit_slide(e, LS_OP_REDUCE_SUM, ones, window, result);
}

// Returns 1 / count, rounded like the type of the computation.
static double reciprocal_of(const ls_emitter *e, ls_emitted like,
                            double count) {
  return ls_dtype_at(e, like) == LS_DTYPE_F64 ? 1 / count
                                              : (double)(1.0F / (float)count);
}

// Divides y, one number a window of an input of these sizes, if the current op
// is a mean.
static ls_emitted divided(ls_emitter *e, ls_emitted y, const ls_window *window,
                          ls_batch_dims dims) {
  const char *reduce =
      ls_node_attr(e->node, LS_ATTR_ID_WINDOW_REDUCE)->as.string;
  if (strcmp(reduce, "mean") != 0) return y;
  double taps = 1;
  for (int32_t i = 0; i < window->rank; ++i)
    taps *= (double)window->taps[i];
  if (ls_node_int(e->node, LS_ATTR_ID_COUNT_PADDING) != 0)
    return ls_emit_mul(e, y, ls_emit_number(e, y, reciprocal_of(e, y, taps)));
  const ls_emitted counts =
      count_windows(e, y, window, dims, ls_batch_dims_at(e, y));
  return ls_emit_mul(e, y, ls_emit_reciprocal(e, counts));
}

static ls_emitted reduce_window(ls_emitter *e) {
  const char *reduce =
      ls_node_attr(e->node, LS_ATTR_ID_WINDOW_REDUCE)->as.string;
  const ls_emitted x = ls_emit_wide(e, ls_operand(e, 0));
  const ls_batch_dims dims = ls_batch_dims_at(e, x);
  ls_window window;
  if (!compose_window_read(e, dims, NULL, &window)) return 0;
  const ls_batch_dims result = ls_result_dims(e);
  if (strcmp(reduce, "max") != 0)
    return divided(e, ls_emit_slide(e, LS_OP_REDUCE_SUM, x, &window, result),
                   &window, dims);
  const ls_emitted y = ls_emit_slide(e, LS_OP_REDUCE_MAX, x, &window, result);
  const ls_emitted marks = ls_emit_slide(
      e, LS_OP_REDUCE_MAX, ls_emit_mark_nan(e, x), &window, result);
  return ls_emit_keep_nan(e, marks, y);
}

// Adds to each element the gradients of the windows that see it: sums over
// windows of the gradients, spread by the stride.
static ls_emitted window_sum_grad(ls_emitter *e) {
  const ls_batch_dims dims = ls_result_dims(e);
  ls_emitted dy = ls_emit_wide(e, ls_operand(e, 0));
  ls_batch_dims spread = dims;
  int64_t low[LS_MAX_RANK] = {0}, high[LS_MAX_RANK] = {0};
  int64_t interior[LS_MAX_RANK] = {0};
  ls_window window;
  if (!compose_window_read(e, dims, NULL, &window)) return 0;
  dy = divided(e, dy, &window, dims);
  for (int32_t i = 0; i < window.rank; ++i) {
    const int64_t outputs = ls_emit_size(e, ls_batch_dims_at(e, dy).dim[i + 1]);
    const int64_t span = span_of(&window, i);
    const int64_t size = ls_emit_size(e, dims.dim[i + 1]) + span;
    spread.dim[i + 1] = ls_dim_of(size);
    low[i + 1] = span - window.low[i];
    high[i + 1] = size - low[i + 1] - spread_size(outputs, window.strides[i]);
    interior[i + 1] = window.strides[i] - 1;
    window.strides[i] = 1;
    window.low[i] = window.high[i] = 0;
  }
  dy =
      ls_emit_pad(e, dy, ls_emit_number(e, dy, 0), low, high, interior, spread);
  return ls_emit_slide(e, LS_OP_REDUCE_SUM, dy, &window, dims);
}

// ---- Maxima ----------------------------------------------------------------
// Windows along one dimension.
typedef struct window_line {
  int32_t axis;
  int64_t taps, stride, dilation, low, size, windows;
} window_line;

static window_line line_of(ls_emitter *e, const ls_window *window, int32_t i,
                           ls_dim size) {
  ls_window copy = *window;
  window_line line = {.axis = i + 1,
                      .taps = window->taps[i],
                      .stride = window->strides[i],
                      .dilation = window->dilations[i],
                      .low = window->low[i],
                      .size = ls_emit_size(e, size)};
  ls_emit_fail(e, ls_window_slide(&copy, i, line.size, &line.windows));
  return line;
}

// Returns which windows see an element with a tap, as [windows, 1, ...]; 0: all
// of them.
static ls_emitted seen_with(ls_emitter *e, const window_line *line, int64_t tap,
                            int32_t rank) {
  LS_OWN(ls_array, seen) = NULL;
  bool all = true;
  ls_emit_fail(e,
               ls_array_create(LS_DTYPE_BOOL, LS_SHAPE(line->windows), &seen));
  if (!ls_emit_is_ok(e)) return 0;
  for (int64_t o = 0; o < line->windows; ++o) {
    const int64_t at = o * line->stride + tap * line->dilation - line->low;
    ls_array_set_i64(seen, o, at >= 0 && at < line->size);
    all = all && at >= 0 && at < line->size;
  }
  ls_batch_dims dims = {.rank = rank - line->axis,
                        .dim = {ls_dim_of(line->windows)}};
  for (int32_t i = 1; i < dims.rank; ++i)
    dims.dim[i] = ls_dim_of(1);
  return all ? 0 : ls_emit_reshape(e, ls_emit_constant(e, seen), dims);
}

// Pads x along the line so that each tap of each window sees something.
static ls_emitted padded_line(ls_emitter *e, const window_line *line,
                              ls_emitted x, double value) {
  int64_t low[LS_MAX_RANK] = {0}, high[LS_MAX_RANK] = {0};
  static const int64_t interior[LS_MAX_RANK] = {0};
  const int64_t size = spread_size(line->windows, line->stride) +
                       (line->taps - 1) * line->dilation;
  ls_batch_dims dims = ls_batch_dims_at(e, x);
  low[line->axis] = line->low;
  high[line->axis] = size - line->low - line->size;
  dims.dim[line->axis] = ls_dim_of(size);
  if (line->low == 0 && size == line->size) return x;
  return ls_emit_pad(e, x, ls_emit_number(e, x, value), low, high, interior,
                     dims);
}

// Returns what each window sees with a tap.
static ls_emitted tap_of(ls_emitter *e, const window_line *line, ls_emitted x,
                         int64_t tap) {
  int64_t starts[LS_MAX_RANK] = {0}, strides[LS_MAX_RANK] = {LS_EMIT_ONES};
  ls_batch_dims dims = ls_batch_dims_at(e, x);
  starts[line->axis] = tap * line->dilation;
  strides[line->axis] = line->stride;
  dims.dim[line->axis] = ls_dim_of(line->windows);
  return ls_emit_slice(e, x, starts, strides, dims);
}

// Replaces x by the maxima along a line, and y, if any, by its elements at
// them. Returns the tap of each first maximum, or of the first NaN; -1 in
// windows of padding alone.
static ls_emitted find_maxima(ls_emitter *e, const window_line *line,
                              ls_emitted *x, ls_emitted *y) {
  const int32_t rank = ls_batch_dims_at(e, *x).rank;
  const ls_emitted xs = padded_line(e, line, *x, -INFINITY);
  const ls_emitted ys = *y == 0 ? 0 : padded_line(e, line, *y, 0);
  const ls_emitted none = ls_emit_scalar(e, LS_DTYPE_I32, -1);
  const ls_emitted first = seen_with(e, line, 0, rank);
  *x = tap_of(e, line, xs, 0);
  if (ys != 0) *y = tap_of(e, line, ys, 0);
  ls_emitted at = ls_emit_scalar(e, LS_DTYPE_I32, 0);
  if (first != 0) at = ls_emit_select(e, first, at, none);
  for (int64_t tap = 1; tap < line->taps; ++tap) {
    const ls_emitted seen = seen_with(e, line, tap, rank);
    const ls_emitted other = tap_of(e, line, xs, tap);
    ls_emitted larger = ls_emit_2(
        e, LS_OP_AND,
        ls_emit_1(e, LS_OP_NOT, ls_emit_2(e, LS_OP_LESS_EQUAL, other, *x)),
        ls_emit_2(e, LS_OP_EQUAL, *x, *x));
    if (first != 0)
      larger =
          ls_emit_2(e, LS_OP_OR, larger, ls_emit_2(e, LS_OP_EQUAL, at, none));
    if (seen != 0) larger = ls_emit_2(e, LS_OP_AND, larger, seen);
    *x = ls_emit_select(e, larger, other, *x);
    if (ys != 0) *y = ls_emit_select(e, larger, tap_of(e, line, ys, tap), *y);
    at = ls_emit_select(e, larger, ls_emit_scalar(e, LS_DTYPE_I32, (double)tap),
                        at);
  }
  return at;
}

// Adds each window's gradient to the element at its maximum.
static ls_emitted give_to_maxima(ls_emitter *e, const window_line *line,
                                 ls_emitted at, ls_emitted dy) {
  ls_batch_dims dims = ls_batch_dims_at(e, dy);
  const ls_emitted zero = ls_emit_number(e, dy, 0);
  ls_emitted sum = 0;
  dims.dim[line->axis] = ls_dim_of(line->size);
  for (int64_t tap = 0; tap < line->taps; ++tap) {
    int64_t low[LS_MAX_RANK] = {0}, high[LS_MAX_RANK] = {0};
    int64_t interior[LS_MAX_RANK] = {0};
    low[line->axis] = tap * line->dilation - line->low;
    high[line->axis] =
        line->size - low[line->axis] - spread_size(line->windows, line->stride);
    interior[line->axis] = line->stride - 1;
    const ls_emitted is_here = ls_emit_2(
        e, LS_OP_EQUAL, at, ls_emit_scalar(e, LS_DTYPE_I32, (double)tap));
    const ls_emitted part = ls_emit_pad(e, ls_emit_select(e, is_here, dy, zero),
                                        zero, low, high, interior, dims);
    sum = sum == 0 ? part : ls_emit_add(e, sum, part);
  }
  return sum;
}

// Emits the gradient of maxima, or what another value holds at them.
static ls_emitted window_max(ls_emitter *e) {
  const bool picks = e->node->type == LS_OP_WINDOW_MAX_PICK;
  ls_emitted x = ls_emit_wide(e, ls_operand(e, 0));
  ls_emitted y = picks ? ls_emit_wide(e, ls_operand(e, 1)) : 0;
  const ls_batch_dims dims = ls_batch_dims_at(e, x);
  window_line lines[LS_WINDOW_DIMS];
  ls_emitted at[LS_WINDOW_DIMS] = {0};
  ls_window window;
  if (!compose_window_read(e, dims, NULL, &window)) return 0;
  for (int32_t i = window.rank; i-- > 0;) {
    lines[i] = line_of(e, &window, i, dims.dim[i + 1]);
    at[i] = find_maxima(e, &lines[i], &x, &y);
  }
  if (!picks) y = ls_emit_wide(e, ls_operand(e, 1));
  for (int32_t i = 0; i < window.rank && !picks; ++i)
    y = give_to_maxima(e, &lines[i], at[i], y);
  return y;
}

static const ls_emit_rule rules[] = {
    {LS_OP_CONVOLUTION, convolution, true},
    {LS_OP_CONV_BIAS_ACT, conv_bias_act, true},
    {LS_OP_CONV_GRAD_INPUT, conv_grad_input, true},
    {LS_OP_CONV_GRAD_WEIGHTS, conv_grad_weights, true},
    {LS_OP_REDUCE_WINDOW, reduce_window, true},
    {LS_OP_WINDOW_SUM_GRAD, window_sum_grad, true},
    {LS_OP_WINDOW_MAX_GRAD, window_max, true},
    {LS_OP_WINDOW_MAX_PICK, window_max, true}};
const ls_emit_rules ls_emit_window_rules = {rules, LS_COUNT_OF(rules)};
