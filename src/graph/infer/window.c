// SPDX-License-Identifier: Apache-2.0
//
// Shape rules of convolutions and of reductions over windows. Values are
// [batch, spatial..., channels], weights [spatial..., channels of a group,
// output channels].
#include "graph/window.h"
#include "graph/infer/infer.h"
#include "lockstep/shape_rules.h"

static ls_status read_window(const ls_infer *infer, int32_t rank,
                             ls_window *out_window) {
  return ls_window_read(infer->op_name, infer->spec->attrs,
                        infer->spec->num_attrs, rank - 2, out_window);
}

// ---- Convolutions ----------------------------------------------------------
// Returns true if x input channels, c weight channels and o output channels are
// possible in `groups` groups.
static bool channels_fit(int64_t x, int64_t c, int64_t o, int64_t groups) {
  if ((x >= 0 && x % groups != 0) || (o >= 0 && o % groups != 0)) return false;
  return x < 0 || c < 0 || x / groups == c;
}

// Infers the result of convolving x by w, both of which may have unknown sizes.
static ls_status convolved(const ls_infer *infer, ls_type x, ls_type w,
                           ls_shape *out_shape) {
  *out_shape = LS_SHAPE_UNKNOWN;
  const int32_t rank =
      x.shape.rank != LS_UNKNOWN_RANK ? x.shape.rank : w.shape.rank;
  const int64_t groups = ls_infer_int(infer, LS_ATTR_ID_CHANNEL_GROUPS);
  if (rank == LS_UNKNOWN_RANK) return ls_ok();
  if (x.shape.rank == LS_UNKNOWN_RANK) x.shape = ls_infer_unknown(rank);
  if (w.shape.rank == LS_UNKNOWN_RANK) w.shape = ls_infer_unknown(rank);
  ls_window window;
  LS_RETURN_IF_ERROR(read_window(infer, rank, &window));
  if (w.shape.rank != rank ||
      !channels_fit(x.shape.dim[rank - 1], w.shape.dim[rank - 2],
                    w.shape.dim[rank - 1], groups))
    return ls_invalid_argument(
        "%s of %s by weights %s in %lld groups: weights must be [spatial..., "
        "channels / groups, output channels], and both channels multiples of "
        "the groups",
        infer->op_name, LS_SHAPE_TEXT(x.dtype, x.shape),
        LS_SHAPE_TEXT(w.dtype, w.shape), (long long)groups);
  ls_shape y = ls_infer_unknown(rank);
  y.dim[0] = x.shape.dim[0];
  y.dim[rank - 1] = w.shape.dim[rank - 1];
  for (int32_t i = 0; i < window.rank; ++i) {
    window.taps[i] = w.shape.dim[i];
    LS_RETURN_IF_ERROR(
        ls_window_slide(&window, i, x.shape.dim[i + 1], &y.dim[i + 1]));
  }
  *out_shape = y;
  return ls_shape_check(y);
}

static ls_status check_dtypes(const ls_infer *infer, size_t operands) {
  bool fits = ls_infer_is_number(infer->in[0].dtype);
  for (size_t i = 1; i < operands; ++i)
    fits = fits && infer->in[i].dtype == infer->in[0].dtype;
  if (fits) return ls_ok();
  return ls_invalid_argument(
      "%s of %s and %s: its operands are numbers of one dtype", infer->op_name,
      LS_OPERAND_TEXT(infer, 0), LS_OPERAND_TEXT(infer, 1));
}

ls_status infer_convolution(ls_infer *infer) {
  infer->out[0].dtype = infer->in[0].dtype;
  LS_RETURN_IF_ERROR(check_dtypes(infer, 2));
  return convolved(infer, infer->in[0], infer->in[1], &infer->out[0].shape);
}

ls_status infer_conv_bias_act(ls_infer *infer) {
  LS_RETURN_IF_ERROR(check_dtypes(infer, 3));
  LS_RETURN_IF_ERROR(infer_convolution(infer));
  const ls_shape y = infer->out[0].shape;
  const int64_t channels =
      y.rank == LS_UNKNOWN_RANK ? LS_UNKNOWN_DIM : y.dim[y.rank - 1];
  if (ls_shape_compatible(infer->in[2].shape, LS_SHAPE(channels)))
    return ls_ok();
  return ls_invalid_argument("%s by %s: the bias is %s", infer->op_name,
                             LS_OPERAND_TEXT(infer, 1),
                             LS_OPERAND_TEXT(infer, 2));
}

// Checks dy against the convolution of x by w. The gradient computes x or w,
// whose type comes from `sizes`.
static ls_status check_result(const ls_infer *infer, ls_type x, ls_type w,
                              size_t dy) {
  ls_shape y;
  LS_RETURN_IF_ERROR(convolved(infer, x, w, &y));
  if (ls_shape_compatible(y, infer->in[dy].shape)) return ls_ok();
  return ls_invalid_argument(
      "%s: %s by %s gives %s, operand %zu is %s", infer->op_name,
      LS_SHAPE_TEXT(x.dtype, x.shape), LS_SHAPE_TEXT(w.dtype, w.shape),
      LS_SHAPE_TEXT(x.dtype, y), dy, LS_OPERAND_TEXT(infer, dy));
}

static ls_status infer_conv_grad(ls_infer *infer, const ls_type *x,
                                 const ls_type *w, size_t dy) {
  infer->out[0].dtype = infer->in[0].dtype;
  LS_RETURN_IF_ERROR(check_dtypes(infer, 2));
  LS_RETURN_IF_ERROR(ls_infer_sizes(infer, &infer->out[0].shape));
  LS_RETURN_IF_ERROR(check_result(infer, *x, *w, dy));
  return ls_shape_check(infer->out[0].shape);
}

ls_status infer_conv_grad_input(ls_infer *infer) {
  return infer_conv_grad(infer, &infer->out[0], &infer->in[1], 0);
}

ls_status infer_conv_grad_weights(ls_infer *infer) {
  return infer_conv_grad(infer, &infer->in[0], &infer->out[0], 1);
}

// ---- Reductions over windows -----------------------------------------------
// Computes the shape of a reduction over x's windows.
static ls_status reduced(const ls_infer *infer, ls_shape x,
                         ls_shape *out_shape) {
  const ls_attr *taps = ls_infer_attr(infer, LS_ATTR_ID_WINDOW);
  const int32_t rank = (int32_t)taps->as.ints.count + 2;
  ls_window window;
  LS_RETURN_IF_ERROR(read_window(infer, rank, &window));
  if (x.rank == LS_UNKNOWN_RANK) x = ls_infer_unknown(rank);
  if (x.rank != rank)
    return ls_invalid_argument(
        "%s of %s by a window of %d dimensions: it goes over [batch, "
        "spatial..., channels]",
        infer->op_name, LS_SHAPE_TEXT(infer->in[0].dtype, x), window.rank);
  *out_shape = x;
  for (int32_t i = 0; i < window.rank; ++i)
    LS_RETURN_IF_ERROR(
        ls_window_slide(&window, i, x.dim[i + 1], &out_shape->dim[i + 1]));
  return ls_shape_check(*out_shape);
}

// Checks the reduction; only a mean may have `count_padding`.
static ls_status window_check_reduce(const ls_infer *infer) {
  const char *name = ls_infer_attr(infer, LS_ATTR_ID_WINDOW_REDUCE)->as.string;
  const bool is_mean = strcmp(name, "mean") == 0;
  if (infer->spec->type == LS_OP_WINDOW_SUM_GRAD && strcmp(name, "max") == 0)
    return ls_invalid_argument("%s: 'reduce' is 'max', expected sum or mean",
                               infer->op_name);
  if (!is_mean && ls_infer_int(infer, LS_ATTR_ID_COUNT_PADDING) != 0)
    return ls_invalid_argument("%s: only a mean can count padding, not a %s",
                               infer->op_name, name);
  const ls_dtype dtype = infer->in[0].dtype;
  if (is_mean ? ls_dtype_is_float(dtype) : ls_infer_is_number(dtype))
    return ls_ok();
  return ls_invalid_argument("%s: a %s is of %s, got %s", infer->op_name, name,
                             is_mean ? "floats" : "numbers",
                             LS_OPERAND_TEXT(infer, 0));
}

ls_status infer_reduce_window(ls_infer *infer) {
  infer->out[0].dtype = infer->in[0].dtype;
  LS_RETURN_IF_ERROR(window_check_reduce(infer));
  return reduced(infer, infer->in[0].shape, &infer->out[0].shape);
}

static ls_status check_windows(const ls_infer *infer, ls_shape x, size_t dy) {
  ls_shape y;
  LS_RETURN_IF_ERROR(reduced(infer, x, &y));
  if (ls_shape_compatible(y, infer->in[dy].shape)) return ls_ok();
  return ls_invalid_argument(
      "%s: the windows of %s give %s, operand %zu is %s", infer->op_name,
      LS_SHAPE_TEXT(infer->in[0].dtype, x),
      LS_SHAPE_TEXT(infer->in[0].dtype, y), dy, LS_OPERAND_TEXT(infer, dy));
}

ls_status infer_window_sum_grad(ls_infer *infer) {
  infer->out[0].dtype = infer->in[0].dtype;
  LS_RETURN_IF_ERROR(window_check_reduce(infer));
  LS_RETURN_IF_ERROR(ls_infer_sizes(infer, &infer->out[0].shape));
  LS_RETURN_IF_ERROR(check_windows(infer, infer->out[0].shape, 0));
  return ls_shape_check(infer->out[0].shape);
}

ls_status infer_window_max_grad(ls_infer *infer) {
  infer->out[0] = infer->in[0];
  LS_RETURN_IF_ERROR(check_dtypes(infer, 2));
  return check_windows(infer, infer->in[0].shape, 1);
}

ls_status infer_window_max_pick(ls_infer *infer) {
  ls_shape x;
  LS_RETURN_IF_ERROR(check_dtypes(infer, 2));
  ls_status status = ls_shape_merge(infer->in[0].shape, infer->in[1].shape, &x);
  if (!ls_status_is_ok(status)) {
    ls_status_free(status);
    return ls_invalid_argument("%s: operand 0 is %s, operand 1 %s",
                               infer->op_name, LS_OPERAND_TEXT(infer, 0),
                               LS_OPERAND_TEXT(infer, 1));
  }
  infer->out[0].dtype = infer->in[0].dtype;
  return reduced(infer, x, &infer->out[0].shape);
}

// ---- Maxima of 2 by 2 windows ----------------------------------------------
// Infers the type of the maxima of y's windows.
static ls_status pooled(const ls_infer *infer, ls_type y, ls_type *out_type) {
  if (!ls_can_pool(y))
    return ls_invalid_argument("%s of %s: it is of f32[batch, height, width, "
                               "channels], with a window or more and channels",
                               infer->op_name, LS_SHAPE_TEXT(y.dtype, y.shape));
  *out_type = y;
  out_type->shape.dim[1] /= LS_POOL_SIDE;
  out_type->shape.dim[2] /= LS_POOL_SIDE;
  return ls_ok();
}

static ls_status maxima_and_places(ls_infer *infer, ls_type y) {
  LS_RETURN_IF_ERROR(ls_infer_outputs(infer, 2));
  LS_RETURN_IF_ERROR(pooled(infer, y, &infer->out[0]));
  infer->out[1] = infer->out[0];
  infer->out[1].dtype = LS_DTYPE_U8;
  return ls_ok();
}

ls_status infer_pool_max(ls_infer *infer) {
  return maxima_and_places(infer, infer->in[0]);
}

// Infers y, the convolution of x by w, whose windows' maxima can be taken.
static ls_status convolved_to_pool(const ls_infer *infer, ls_type x, ls_type w,
                                   ls_type *out_y) {
  out_y->dtype = x.dtype;
  LS_RETURN_IF_ERROR(convolved(infer, x, w, &out_y->shape));
  if (ls_can_join_pool(infer->spec->attrs, infer->spec->num_attrs, w.shape))
    return ls_ok();
  return ls_invalid_argument(
      "%s by %s: it takes 3 by 3 taps, side by side, of one group",
      infer->op_name, LS_SHAPE_TEXT(w.dtype, w.shape));
}

ls_status infer_conv_pool_max(ls_infer *infer) {
  if (infer->num_in < 2 || infer->num_in > 3)
    return ls_invalid_argument("%s takes x, weights and maybe a bias, got %zu",
                               infer->op_name, infer->num_in);
  ls_type y;
  LS_RETURN_IF_ERROR(infer->num_in == 3 ? infer_conv_bias_act(infer)
                                        : infer_convolution(infer));
  LS_RETURN_IF_ERROR(convolved_to_pool(infer, infer->in[0], infer->in[1], &y));
  return maxima_and_places(infer, y);
}

// Checks the gradient of the maxima, operand number `dy`, and the next operand,
// the positions of the maxima.
static ls_status check_pooled(const ls_infer *infer, ls_type x, ls_type w,
                              size_t dy) {
  ls_type y, maxima;
  LS_RETURN_IF_ERROR(convolved_to_pool(infer, x, w, &y));
  LS_RETURN_IF_ERROR(pooled(infer, y, &maxima));
  const ls_type d = infer->in[dy], places = infer->in[dy + 1];
  if (d.dtype == LS_DTYPE_F32 && places.dtype == LS_DTYPE_U8 &&
      ls_shape_compatible(maxima.shape, d.shape) &&
      ls_shape_compatible(maxima.shape, places.shape))
    return ls_ok();
  return ls_invalid_argument(
      "%s: the maxima are %s, operand %zu is %s and operand %zu %s",
      infer->op_name, LS_SHAPE_TEXT(maxima.dtype, maxima.shape), dy,
      LS_OPERAND_TEXT(infer, dy), dy + 1, LS_OPERAND_TEXT(infer, dy + 1));
}

ls_status infer_conv_pool_grad_input(ls_infer *infer) {
  if (infer->num_in < 3 || infer->num_in > 4)
    return ls_invalid_argument("%s takes a gradient, places, maybe a relu's "
                               "result, and weights, got %zu",
                               infer->op_name, infer->num_in);
  const ls_type w = infer->in[infer->num_in - 1];
  ls_type *x = &infer->out[0];
  x->dtype = LS_DTYPE_F32;
  LS_RETURN_IF_ERROR(ls_infer_sizes(infer, &x->shape));
  LS_RETURN_IF_ERROR(check_pooled(infer, *x, w, 0));
  if (infer->num_in == 4 &&
      (infer->in[2].dtype != x->dtype ||
       !ls_shape_compatible(infer->in[2].shape, x->shape)))
    return ls_invalid_argument(
        "%s: x is %s, the relu's result %s", infer->op_name,
        LS_SHAPE_TEXT(x->dtype, x->shape), LS_OPERAND_TEXT(infer, 2));
  return ls_shape_check(x->shape);
}

ls_status infer_conv_pool_grad_weights(ls_infer *infer) {
  infer->out[0].dtype = LS_DTYPE_F32;
  LS_RETURN_IF_ERROR(ls_infer_sizes(infer, &infer->out[0].shape));
  LS_RETURN_IF_ERROR(check_pooled(infer, infer->in[0], infer->out[0], 1));
  return ls_shape_check(infer->out[0].shape);
}
