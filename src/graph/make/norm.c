// SPDX-License-Identifier: Apache-2.0
//
// Op makers: normalizations and attention.
#include "graph/make/make.h"

// ---- Normalization ---------------------------------------------------------
// Writes the attribute epsilon and, if there is an activation, that attribute;
// returns their number. An unknown activation becomes a word that the shape
// rule refuses.
static size_t norm_attrs(ls_attr attrs[2], double epsilon,
                         ls_activation activation) {
  attrs[0] = LS_OWN_F(EPSILON, epsilon);
  attrs[1] = LS_OWN_S(ACTIVATION,
                      activation == LS_ACTIVATION_RELU ? "relu" : "unknown");
  return activation == LS_ACTIVATION_NONE ? 1 : 2;
}

ls_op ls_batch_norm(ls_tensor x, ls_tensor scale, ls_tensor offset,
                    double epsilon, ls_activation activation) {
  ls_attr attrs[2];
  const size_t count = norm_attrs(attrs, epsilon, activation);
  return ls_make_op(LS_OP_BATCH_NORM, NULL,
                    (const ls_tensor[]){x, scale, offset}, 3, attrs, count);
}

ls_tensor ls_batch_norm_inference(ls_tensor x, ls_tensor scale,
                                  ls_tensor offset, ls_tensor mean,
                                  ls_tensor variance, double epsilon,
                                  ls_activation activation) {
  ls_attr attrs[2];
  const size_t count = norm_attrs(attrs, epsilon, activation);
  return ls_make(LS_OP_BATCH_NORM_INFERENCE,
                 (const ls_tensor[]){x, scale, offset, mean, variance}, 5,
                 attrs, count);
}

ls_op ls_batch_norm_grad(ls_tensor dy, ls_tensor x, ls_tensor scale,
                         ls_tensor offset, ls_tensor mean, ls_tensor variance,
                         double epsilon, ls_activation activation) {
  ls_attr attrs[2];
  const size_t count = norm_attrs(attrs, epsilon, activation);
  return ls_make_op(LS_OP_BATCH_NORM_GRAD, NULL,
                    (const ls_tensor[]){dy, x, scale, offset, mean, variance},
                    6, attrs, count);
}

ls_tensor ls_layer_norm(ls_tensor x, ls_tensor scale, ls_tensor offset,
                        double epsilon) {
  const ls_attr attr = LS_OWN_F(EPSILON, epsilon);
  return ls_make(LS_OP_LAYER_NORM, (const ls_tensor[]){x, scale, offset}, 3,
                 &attr, 1);
}

ls_op ls_layer_norm_grad(ls_tensor dy, ls_tensor x, ls_tensor scale,
                         double epsilon) {
  const ls_attr attr = LS_OWN_F(EPSILON, epsilon);
  return ls_make_op(LS_OP_LAYER_NORM_GRAD, NULL,
                    (const ls_tensor[]){dy, x, scale}, 3, &attr, 1);
}

ls_tensor ls_rms_norm(ls_tensor x, ls_tensor scale, double epsilon) {
  const ls_attr attr = LS_OWN_F(EPSILON, epsilon);
  return ls_make(LS_OP_RMS_NORM, (const ls_tensor[]){x, scale}, 2, &attr, 1);
}

ls_op ls_rms_norm_grad(ls_tensor dy, ls_tensor x, ls_tensor scale,
                       double epsilon) {
  const ls_attr attr = LS_OWN_F(EPSILON, epsilon);
  return ls_make_op(LS_OP_RMS_NORM_GRAD, NULL,
                    (const ls_tensor[]){dy, x, scale}, 3, &attr, 1);
}

// ---- Group norm ------------------------------------------------------------
// Reshapes [n, ..., channels] to [n, positions, groups, channels of a group].
static ls_tensor in_groups(ls_tensor x, int64_t groups) {
  const ls_shape shape = ls_tensor_shape(x);
  const int64_t channels = shape.dim[shape.rank - 1];
  // Computes the number of positions if the sizes are known, because a reshape
  // could not infer it from 0 examples.
  int64_t positions = 1;
  for (int32_t i = 1; i < shape.rank - 1 && positions >= 0; ++i)
    positions = shape.dim[i] < 0 ? -1 : positions * shape.dim[i];
  const ls_size sizes[] = {{0, 0},
                           {LS_SIZE_CONSTANT, positions},
                           {LS_SIZE_CONSTANT, groups},
                           {LS_SIZE_CONSTANT, channels / groups}};
  const ls_attr attr = LS_OWN_SZ(SIZES, sizes, 4);
  return ls_make(LS_OP_RESHAPE, &x, 1, &attr, 1);
}

static ls_tensor mean_of_groups(ls_tensor x) {
  const int64_t axes[] = {1, 3};
  const ls_attr attrs[] = {LS_OWN_IS(AXES, axes, 2), LS_OWN_B(KEEP_DIMS, true)};
  return ls_make(LS_OP_REDUCE_MEAN, &x, 1, attrs, 2);
}

ls_tensor ls_group_norm(ls_tensor x, ls_tensor scale, ls_tensor offset,
                        int64_t groups, double epsilon) {
  if (ls_tensor_is_failed(x)) return ls_identity(x);
  const ls_shape shape = ls_tensor_shape(x);
  const ls_dtype dtype = ls_tensor_dtype(x);
  const int64_t channels = shape.rank > 0 ? shape.dim[shape.rank - 1] : -1;
  if (shape.rank < 2 || channels < 0 || groups < 1 || channels % groups != 0 ||
      !ls_dtype_is_float(dtype) || !(epsilon >= 0))
    return ls_make_failed(
        "group_norm",
        ls_invalid_argument(
            "group_norm of %s in %lld groups: x is [n, ..., channels] of "
            "floats, groups must divide the channels and epsilon be 0 or more",
            LS_SHAPE_TEXT(dtype, shape), (long long)groups));
  const ls_dtype wide = ls_tensor_dtype(scale);
  const ls_tensor grouped = in_groups(ls_convert(x, wide), groups);
  const ls_tensor rest = ls_sub(grouped, mean_of_groups(grouped));
  const ls_tensor variance = mean_of_groups(ls_square(rest));
  const ls_tensor inverse = ls_rsqrt(ls_add_scalar(variance, epsilon));
  const ls_tensor r = ls_reshape_like(ls_mul(rest, inverse), x);
  const ls_tensor y = ls_add(ls_mul(r, scale), offset);
  return ls_convert(y, dtype);
}

// ---- Attention -------------------------------------------------------------
static size_t attention_attrs(ls_attr attrs[3],
                              const ls_attention_options *options) {
  const ls_attention_options o =
      options != NULL ? *options : (ls_attention_options){0};
  attrs[0] = LS_OWN_I(NUM_HEADS, o.num_heads == 0 ? 1 : o.num_heads);
  attrs[1] = LS_OWN_B(CAUSAL, o.causal);
  attrs[2] = LS_OWN_F(SCALE, o.scale);
  return o.scale == 0 ? 2 : 3;
}

ls_tensor ls_attention(ls_tensor q, ls_tensor k, ls_tensor v,
                       const ls_attention_options *options) {
  ls_attr attrs[3];
  const size_t count = attention_attrs(attrs, options);
  return ls_make(LS_OP_ATTENTION, (const ls_tensor[]){q, k, v}, 3, attrs,
                 count);
}

ls_tensor ls_attention_packed(ls_tensor qkv,
                              const ls_attention_options *options) {
  ls_attr attrs[3];
  const size_t count = attention_attrs(attrs, options);
  return ls_make(LS_OP_ATTENTION, &qkv, 1, attrs, count);
}

ls_op ls_attention_grad(ls_tensor gradient, ls_tensor q, ls_tensor k,
                        ls_tensor v, const ls_attention_options *options) {
  ls_attr attrs[3];
  const size_t count = attention_attrs(attrs, options);
  const bool packed = k.ref == 0 && k.graph == NULL;
  return ls_make_op(LS_OP_ATTENTION_GRAD, NULL,
                    (const ls_tensor[]){gradient, q, k, v}, packed ? 2 : 4,
                    attrs, count);
}
