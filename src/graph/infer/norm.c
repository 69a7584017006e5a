// SPDX-License-Identifier: Apache-2.0
//
// Shape rules of normalizations and attention.
#include "base/values/numbers.h"
#include "graph/infer/infer.h"
#include "lockstep/shape_rules.h"

// ---- Normalization ---------------------------------------------------------
// Returns the type of a vector with one number per channel.
static ls_type channel_type(ls_type x) {
  ls_type type = {ls_wide_dtype(x.dtype), LS_SHAPE(LS_UNKNOWN_DIM)};
  if (x.shape.rank > 0) type.shape.dim[0] = x.shape.dim[x.shape.rank - 1];
  return type;
}

// Checks that operand `x` has floats, and operands `first` to `end` have one
// number per channel. Returns their type.
static ls_status check_channels(ls_infer *infer, size_t x, size_t first,
                                size_t end, ls_type *out_type) {
  if (!ls_dtype_is_float(infer->in[x].dtype) || infer->in[x].shape.rank == 0)
    return ls_invalid_argument("%s takes floats with a last axis, got %s",
                               infer->op_name, LS_OPERAND_TEXT(infer, x));
  ls_type type = channel_type(infer->in[x]);
  for (size_t i = first; i < end; ++i) {
    ls_shape merged = type.shape;
    ls_status status = ls_shape_merge(type.shape, infer->in[i].shape, &merged);
    const bool fits =
        ls_status_is_ok(status) && infer->in[i].dtype == type.dtype;
    ls_status_free(status);
    if (!fits)
      return ls_invalid_argument("%s of %s: operand %zu must be %s, one for "
                                 "each of the last axis, is %s",
                                 infer->op_name, LS_OPERAND_TEXT(infer, x), i,
                                 LS_SHAPE_TEXT(type.dtype, type.shape),
                                 LS_OPERAND_TEXT(infer, i));
    type.shape = merged;
  }
  *out_type = type;
  return ls_ok();
}

// Sets the output types: one like x, whose last dimension may become known from
// the channels, and `count` with one number per channel.
static ls_status norm_give(ls_infer *infer, ls_type x, ls_type channels,
                           size_t count) {
  LS_RETURN_IF_ERROR(ls_infer_outputs(infer, count + 1));
  if (x.shape.rank > 0) x.shape.dim[x.shape.rank - 1] = channels.shape.dim[0];
  infer->out[0] = x;
  for (size_t i = 1; i <= count; ++i)
    infer->out[i] = channels;
  return ls_ok();
}

// Infers the outputs for x and operands up to `end` with one number per
// channel.
static ls_status infer_norm(ls_infer *infer, size_t end, size_t count) {
  ls_type channels;
  LS_RETURN_IF_ERROR(check_channels(infer, 0, 1, end, &channels));
  return norm_give(infer, infer->in[0], channels, count);
}

ls_status infer_batch_norm(ls_infer *infer) { return infer_norm(infer, 3, 2); }

ls_status infer_batch_norm_inference(ls_infer *infer) {
  return infer_norm(infer, 5, 0);
}

ls_status infer_layer_norm(ls_infer *infer) { return infer_norm(infer, 3, 0); }

ls_status infer_rms_norm(ls_infer *infer) { return infer_norm(infer, 2, 0); }

// Infers a gradient's outputs. Operands: dy, x, and `first` to `end` with one
// number per channel.
static ls_status infer_gradient(ls_infer *infer, size_t end, size_t count) {
  ls_type channels;
  LS_RETURN_IF_ERROR(check_channels(infer, 1, 2, end, &channels));
  ls_type x = infer->in[1];
  ls_status status = ls_shape_merge(x.shape, infer->in[0].shape, &x.shape);
  if (ls_status_is_ok(status) && infer->in[0].dtype == x.dtype)
    return norm_give(infer, x, channels, count);
  ls_status_free(status);
  return ls_invalid_argument("%s of %s: the result's gradient is %s",
                             infer->op_name, LS_OPERAND_TEXT(infer, 1),
                             LS_OPERAND_TEXT(infer, 0));
}

ls_status infer_batch_norm_grad(ls_infer *infer) {
  return infer_gradient(infer, 6, 2);
}

ls_status infer_layer_norm_grad(ls_infer *infer) {
  return infer_gradient(infer, 3, 2);
}

ls_status infer_layer_norm_again(ls_infer *infer) {
  LS_RETURN_IF_ERROR(infer_gradient(infer, 4, 3));
  infer->out[1] = infer->out[0];
  return ls_ok();
}

ls_status infer_rms_norm_grad(ls_infer *infer) {
  return infer_gradient(infer, 3, 1);
}

// ---- Attention -------------------------------------------------------------
static bool sizes_agree(int64_t a, int64_t b) {
  return a < 0 || b < 0 || a == b;
}

static int64_t known_size(int64_t a, int64_t b) { return a < 0 ? b : a; }

// Checks that `count` operands from `first` on have rank 3, and writes their
// `shapes`; an unknown rank becomes 3 with unknown sizes.
static bool take_shapes(const ls_infer *infer, size_t first, size_t count,
                        ls_shape *shapes) {
  for (size_t i = 0; i < count; ++i) {
    shapes[i] = infer->in[first + i].shape;
    if (shapes[i].rank == LS_UNKNOWN_RANK)
      shapes[i] = LS_SHAPE(LS_UNKNOWN_DIM, LS_UNKNOWN_DIM, LS_UNKNOWN_DIM);
    if (shapes[i].rank != 3 ||
        infer->in[first + i].dtype != infer->in[first].dtype)
      return false;
  }
  return ls_dtype_is_float(infer->in[first].dtype);
}

// Infers the result's shape from the operands from `first` on: one, or three
// with query, key and value.
static ls_status attention_shape(const ls_infer *infer, size_t first,
                                 ls_shape *out_shape) {
  const int64_t heads = ls_infer_int(infer, LS_ATTR_ID_NUM_HEADS);
  const bool causal = ls_infer_int(infer, LS_ATTR_ID_CAUSAL) != 0;
  const ls_attr *scale = ls_infer_attr(infer, LS_ATTR_ID_SCALE);
  const size_t count = infer->num_in - first;
  if (scale != NULL && scale->as.f == 0)
    return ls_invalid_argument(
        "%s has a scale of 0, with which all tokens weigh the same: without it "
        "the scale is 1 / sqrt(depth of a head)",
        infer->op_name);
  if (infer->num_in < first || (count != 1 && count != 3))
    return ls_invalid_argument(
        "%s takes q, k and v, or one operand with all three, got %zu operands",
        infer->op_name, infer->num_in);
  ls_shape s[3];
  bool fits = take_shapes(infer, first, count, s);
  if (fits && count == 1) {
    const int64_t width = s[0].dim[2];
    fits = width < 0 || (width % 3 == 0 && width / 3 % heads == 0);
    *out_shape = s[0];
    out_shape->dim[2] = width < 0 ? width : width / 3;
  } else if (fits) {
    const int64_t tokens = known_size(s[1].dim[1], s[2].dim[1]);
    for (int i = 0; i < 3; ++i)
      fits = fits && sizes_agree(s[i].dim[0], s[(i + 1) % 3].dim[0]) &&
             (s[i].dim[2] < 0 || s[i].dim[2] % heads == 0);
    fits = fits && sizes_agree(s[0].dim[2], s[1].dim[2]) &&
           sizes_agree(s[1].dim[1], s[2].dim[1]) &&
           (!causal || sizes_agree(s[0].dim[1], tokens));
    const int64_t batch =
        known_size(known_size(s[0].dim[0], s[1].dim[0]), s[2].dim[0]);
    *out_shape =
        LS_SHAPE(batch, causal ? known_size(s[0].dim[1], tokens) : s[0].dim[1],
                 s[2].dim[2]);
  }
  if (fits) return ls_ok();
  return ls_invalid_argument(
      "%s by %lld heads of %s%s%s: operands must be [batch, tokens, width] of "
      "one float dtype, heads must divide the widths, q be as wide as k, k as "
      "long as v%s",
      infer->op_name, (long long)heads, LS_OPERAND_TEXT(infer, first),
      count == 3 ? ", " : "",
      count == 3 ? LS_OPERAND_TEXT(infer, first + 1) : "",
      causal ? ", and causal q as long as k" : "");
}

ls_status infer_attention(ls_infer *infer) {
  ls_shape shape;
  LS_RETURN_IF_ERROR(attention_shape(infer, 0, &shape));
  infer->out[0] = (ls_type){infer->in[0].dtype, shape};
  return ls_ok();
}

ls_status infer_attention_grad(ls_infer *infer) {
  ls_shape shape, merged;
  LS_RETURN_IF_ERROR(attention_shape(infer, 1, &shape));
  ls_status status = ls_shape_merge(shape, infer->in[0].shape, &merged);
  const bool fits =
      ls_status_is_ok(status) && infer->in[0].dtype == infer->in[1].dtype;
  ls_status_free(status);
  if (!fits)
    return ls_invalid_argument("%s: the result's gradient is %s, the result %s",
                               infer->op_name, LS_OPERAND_TEXT(infer, 0),
                               LS_SHAPE_TEXT(infer->in[1].dtype, shape));
  LS_RETURN_IF_ERROR(ls_infer_outputs(infer, infer->num_in - 1));
  for (size_t i = 0; i + 1 < infer->num_in; ++i)
    infer->out[i] = infer->in[i + 1];
  return ls_ok();
}
