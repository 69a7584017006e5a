// SPDX-License-Identifier: Apache-2.0
//
// The table of ops, and the elementwise ones.
#include "io/protobuf/onnx.h"
#include "lockstep/layers.h"
#include "onnx/hlo.h"

static ls_tensor onnx_reciprocal(ls_tensor x) {
  return ls_div(ls_scalar(ls_tensor_dtype(x), 1), x);
}
static ls_tensor onnx_softsign(ls_tensor x) {
  return ls_div(x, ls_add_scalar(ls_abs(x), 1));
}
static ls_tensor onnx_is_nan(ls_tensor x) { return ls_not_equal(x, x); }
static ls_tensor onnx_mish(ls_tensor x) {
  return ls_mul(x, ls_tanh(ls_softplus(x)));
}

enum { ANY = 255 };
#define UNARY(type, maker)                                                     \
  { type, maker, NULL, NULL, 1, 1 }
#define BINARY(type, maker)                                                    \
  { type, NULL, maker, NULL, 2, 2 }
#define MAKE(type, noun, least, most)                                          \
  { type, NULL, NULL, ls_onnx_make_##noun, least, most }
static const ls_onnx_op ops[] = {
    UNARY("Identity", ls_identity),
    UNARY("Neg", ls_neg),
    UNARY("Abs", ls_abs),
    UNARY("Sign", ls_sign),
    UNARY("Exp", ls_exp),
    UNARY("Log", ls_log),
    UNARY("Sqrt", ls_sqrt),
    UNARY("Reciprocal", onnx_reciprocal),
    UNARY("Erf", ls_erf),
    UNARY("Tanh", ls_tanh),
    UNARY("Sigmoid", ls_sigmoid),
    UNARY("Relu", ls_relu),
    UNARY("Softplus", ls_softplus),
    UNARY("Softsign", onnx_softsign),
    UNARY("Mish", onnx_mish),
    UNARY("Ceil", ls_ceil),
    UNARY("Floor", ls_floor),
    UNARY("Round", ls_round),
    UNARY("Cos", ls_cos),
    UNARY("Sin", ls_sin),
    UNARY("Tan", ls_tan),
    UNARY("Not", ls_not),
    UNARY("IsNaN", onnx_is_nan),
    MAKE("IsInf", is_inf, 1, 1),
    BINARY("Add", ls_add),
    BINARY("Sub", ls_sub),
    BINARY("Mul", ls_mul),
    BINARY("Div", ls_div),
    BINARY("And", ls_and),
    BINARY("Or", ls_or),
    BINARY("Xor", ls_xor),
    BINARY("Equal", ls_equal),
    BINARY("Less", ls_less),
    BINARY("LessOrEqual", ls_less_equal),
    BINARY("Greater", ls_greater),
    BINARY("GreaterOrEqual", ls_greater_equal),
    {"Max", NULL, ls_maximum, NULL, 1, ANY},
    {"Min", NULL, ls_minimum, NULL, 1, ANY},
    {"Sum", NULL, ls_add, NULL, 1, ANY},
    MAKE("Mean", mean, 1, ANY),
    MAKE("Pow", pow, 2, 2),
    MAKE("Mod", mod, 2, 2),
    MAKE("LeakyRelu", leaky_relu, 1, 1),
    MAKE("Elu", elu, 1, 1),
    MAKE("Selu", selu, 1, 1),
    MAKE("Gelu", gelu, 1, 1),
    MAKE("HardSigmoid", hard_sigmoid, 1, 1),
    MAKE("HardSwish", hard_swish, 1, 1),
    MAKE("PRelu", prelu, 2, 2),
    MAKE("Clip", clip, 1, 3),
    MAKE("Cast", cast, 1, 1),
    MAKE("Where", where, 3, 3),
    MAKE("Dropout", dropout, 1, 3),
    MAKE("Constant", constant, 0, 0),
    MAKE("Reshape", reshape, 2, 2),
    MAKE("Flatten", flatten, 1, 1),
    MAKE("Transpose", transpose, 1, 1),
    MAKE("Squeeze", squeeze, 1, 2),
    MAKE("Unsqueeze", unsqueeze, 1, 2),
    MAKE("Concat", concat, 1, ANY),
    MAKE("Split", split, 1, 2),
    MAKE("Slice", slice, 1, 5),
    MAKE("Gather", gather, 2, 2),
    MAKE("GatherElements", gather_elements, 2, 2),
    MAKE("Expand", expand, 2, 2),
    MAKE("Tile", tile, 2, 2),
    MAKE("Pad", pad, 1, 4),
    MAKE("Shape", shape, 1, 1),
    MAKE("Size", shape, 1, 1),
    MAKE("ConstantOfShape", constant_of_shape, 1, 1),
    MAKE("Range", range, 3, 3),
    MAKE("Trilu", trilu, 1, 2),
    MAKE("Resize", resize, 1, 4),
    MAKE("Upsample", resize, 1, 2),
    MAKE("OneHot", one_hot, 3, 3),
    MAKE("CumSum", cumsum, 2, 2),
    MAKE("ReduceSum", reduce, 1, 2),
    MAKE("ReduceMean", reduce, 1, 2),
    MAKE("ReduceMax", reduce, 1, 2),
    MAKE("ReduceMin", reduce, 1, 2),
    MAKE("ReduceProd", reduce, 1, 2),
    MAKE("ReduceL1", reduce, 1, 2),
    MAKE("ReduceL2", reduce, 1, 2),
    MAKE("ReduceSumSquare", reduce, 1, 2),
    MAKE("ArgMax", arg, 1, 1),
    MAKE("ArgMin", arg, 1, 1),
    MAKE("TopK", top_k, 1, 2),
    MAKE("MatMul", matmul, 2, 2),
    MAKE("Gemm", gemm, 2, 3),
    MAKE("Softmax", softmax, 1, 1),
    MAKE("LogSoftmax", softmax, 1, 1),
    MAKE("Conv", conv, 2, 3),
    MAKE("ConvTranspose", conv_transpose, 2, 3),
    MAKE("MaxPool", pool, 1, 1),
    MAKE("AveragePool", pool, 1, 1),
    MAKE("GlobalAveragePool", global_pool, 1, 1),
    MAKE("GlobalMaxPool", global_pool, 1, 1),
    MAKE("BatchNormalization", batch_norm, 5, 5),
    MAKE("LayerNormalization", layer_norm, 2, 3),
    MAKE("InstanceNormalization", instance_norm, 3, 3),
    MAKE("GroupNormalization", instance_norm, 3, 3),
    MAKE("LSTM", recurrent, 3, 8),
    MAKE("GRU", recurrent, 3, 6),
};

const ls_onnx_op *ls_onnx_op_find(const ls_onnx_file *file,
                                  const ls_onnx_node *node) {
  if (file->types != NULL) return ls_hlo_op_find(node->domain, node->type);
  if (node->domain[0] != '\0') return NULL;
  for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); ++i)
    if (strcmp(ops[i].type, node->type) == 0) return &ops[i];
  return NULL;
}

// ---- Nodes -----------------------------------------------------------------
static void make_by_op(ls_onnx_build *b, const ls_onnx_op *op) {
  if (op->make != NULL) {
    op->make(b);
    return;
  }
  ls_tensor y = ls_onnx_element(b);
  if (op->unary != NULL) y = op->unary(y);
  for (size_t i = 1; i < b->node->num_inputs; ++i)
    y = op->binary(y, b->is_last ? ls_onnx_in_last(b, i) : ls_onnx_in(b, i));
  ls_onnx_give_element(b, y);
}

// Returns true if a known result has a number that is no dimension's size.
static bool has_lost(const ls_onnx_build *b) {
  const ls_onnx_known *known = b->values[b->node->outputs[0]].known;
  for (int64_t i = 0; known != NULL && i < known->count; ++i)
    if (known->items[i].is_unknown && known->items[i].of.ref == 0) return true;
  return false;
}

void ls_onnx_make_node(ls_onnx_build *b, const ls_onnx_node *node) {
  const ls_onnx_op *op = ls_onnx_op_find(b->file, node);
  b->node = node;
  if (b->file->types != NULL) {
    ls_hlo_make_node(b, op);
  } else {
    const bool folds = ls_onnx_fold(b);
    if (ls_status_is_ok(b->status) && (!folds || has_lost(b)))
      make_by_op(b, op);
    // The folded result may still serve, as the one unknown size of a shape.
    if (folds) ls_status_free(ls_give(&b->status));
    const ls_onnx_value *first = &b->values[node->outputs[0]];
    if (first->tensor.ref == 0 && first->last.ref == 0 &&
        first->known == NULL && first->array == NULL)
      ls_onnx_fail(b, ls_graph_take_error(ls_graph_current()));
  }
  b->values[0] = (ls_onnx_value){0};  // Outputs that are not given.
}

// ---- Elementwise -----------------------------------------------------------
static ls_tensor scalar_like(ls_tensor x, double value) {
  return ls_scalar(ls_tensor_dtype(x), value);
}

void ls_onnx_make_is_inf(ls_onnx_build *b) {
  const ls_tensor x = ls_onnx_element(b), zero = scalar_like(x, 0);
  const ls_tensor is_nan = onnx_is_nan(x);
  ls_tensor y = ls_not(ls_or(ls_is_finite(x), is_nan));
  if (ls_onnx_attr_int(b, "detect_positive", 1) == 0)
    y = ls_and(y, ls_less(x, zero));
  if (ls_onnx_attr_int(b, "detect_negative", 1) == 0)
    y = ls_and(y, ls_greater(x, zero));
  ls_onnx_give_element(b, y);
}

void ls_onnx_make_leaky_relu(ls_onnx_build *b) {
  const ls_tensor x = ls_onnx_element(b);
  ls_onnx_give_element(b,
                       ls_leaky_relu(x, ls_onnx_attr_real(b, "alpha", 0.01)));
}

void ls_onnx_make_elu(ls_onnx_build *b) {
  const ls_tensor x = ls_onnx_element(b);
  ls_onnx_give_element(b, ls_elu(x, ls_onnx_attr_real(b, "alpha", 1)));
}

void ls_onnx_make_selu(ls_onnx_build *b) {
  const ls_tensor x = ls_onnx_element(b);
  const double alpha = ls_onnx_attr_real(b, "alpha", 1.67326319217681884765625);
  const double gamma = ls_onnx_attr_real(b, "gamma", 1.05070102214813232421875);
  ls_onnx_give_element(b, ls_mul_scalar(ls_elu(x, alpha), gamma));
}

void ls_onnx_make_gelu(ls_onnx_build *b) {
  const ls_tensor x = ls_onnx_element(b);
  const char *way = ls_onnx_attr_text(b, "approximate", "none");
  const ls_tensor half = ls_mul_scalar(x, 0.5);
  const ls_tensor grown =
      ls_add_scalar(ls_erf(ls_mul_scalar(x, 0.70710678118654752)), 1);
  ls_onnx_give_element(b, strcmp(way, "tanh") == 0 ? ls_gelu(x)
                                                   : ls_mul(half, grown));
}

static ls_tensor hard_sigmoid(ls_tensor x, double alpha, double beta) {
  const ls_tensor one = scalar_like(x, 1);
  const ls_tensor line = ls_add_scalar(ls_mul_scalar(x, alpha), beta);
  return ls_clamp(scalar_like(x, 0), line, one);
}

void ls_onnx_make_hard_sigmoid(ls_onnx_build *b) {
  const ls_tensor x = ls_onnx_element(b);
  ls_onnx_give_element(b, hard_sigmoid(x, ls_onnx_attr_real(b, "alpha", 0.2),
                                       ls_onnx_attr_real(b, "beta", 0.5)));
}

void ls_onnx_make_hard_swish(ls_onnx_build *b) {
  const ls_tensor x = ls_onnx_element(b);
  ls_onnx_give_element(b, ls_mul(x, hard_sigmoid(x, 1 / 6.0, 0.5)));
}

void ls_onnx_make_prelu(ls_onnx_build *b) {
  const ls_tensor x = ls_onnx_in(b, 0);
  const ls_tensor below = ls_mul(x, ls_onnx_in(b, 1));
  ls_onnx_give(b, 0, ls_select(ls_less(x, scalar_like(x, 0)), below, x));
}

void ls_onnx_make_clip(ls_onnx_build *b) {
  const bool has_low = ls_onnx_has(b, 1), has_high = ls_onnx_has(b, 2);
  const ls_onnx_attr *low = ls_onnx_attr_find(b->node, "min"),
                     *high = ls_onnx_attr_find(b->node, "max");
  ls_tensor y = ls_onnx_element(b);
  if (has_low || low != NULL)
    y = ls_maximum(y, has_low ? ls_onnx_in(b, 1) : scalar_like(y, low->real));
  if (has_high || high != NULL)
    y = ls_minimum(y, has_high ? ls_onnx_in(b, 2) : scalar_like(y, high->real));
  ls_onnx_give_element(b, y);
}

void ls_onnx_make_cast(ls_onnx_build *b) {
  const ls_dtype dtype = ls_onnx_dtype_of(ls_onnx_attr_int(b, "to", 0));
  const ls_tensor x = ls_onnx_element(b);
  if (dtype == LS_DTYPE_NONE)
    LS_ONNX_REFUSE(b, "a cast to ONNX's type %lld",
                   (long long)ls_onnx_attr_int(b, "to", 0));
  else
    ls_onnx_give_element(b, dtype == LS_DTYPE_BOOL
                                ? ls_not_equal(x, scalar_like(x, 0))
                                : ls_convert(x, dtype));
}

// Uses a square or a root where that is what the exponent means: they are exact
// and have a gradient at 0.
void ls_onnx_make_pow(ls_onnx_build *b) {
  const ls_array *exponent = ls_onnx_array_in(b, 1);
  const ls_tensor given = ls_onnx_element(b);
  const ls_tensor y = b->is_last ? ls_onnx_in_last(b, 1) : ls_onnx_in(b, 1);
  const ls_dtype dtype = ls_tensor_dtype(given);
  const bool is_real =
      ls_dtype_is_float(ls_tensor_dtype(y)) && !ls_dtype_is_float(dtype);
  const ls_tensor x = is_real ? ls_convert(given, LS_DTYPE_F64) : given;
  const double constant = exponent != NULL && ls_array_shape(exponent).rank == 0
                              ? ls_array_f64(exponent, 0)
                              : 0;
  const ls_tensor power = constant == 2 ? ls_square(x)
                          : constant == 0.5
                              ? ls_sqrt(x)
                              : ls_pow(x, ls_convert(y, ls_tensor_dtype(x)));
  ls_onnx_give_element(b, is_real ? ls_convert(power, dtype) : power);
}

void ls_onnx_make_where(ls_onnx_build *b) {
  const ls_tensor y = ls_onnx_in(b, 2), x = ls_onnx_in(b, 1);
  ls_onnx_give(b, 0, ls_select(ls_onnx_in(b, 0), x, y));
}

void ls_onnx_make_mean(ls_onnx_build *b) {
  ls_tensor sum = ls_onnx_in(b, 0);
  for (size_t i = 1; i < b->node->num_inputs; ++i)
    sum = ls_add(sum, ls_onnx_in(b, i));
  ls_onnx_give(b, 0, ls_mul_scalar(sum, 1 / (double)b->node->num_inputs));
}

// Makes the remainder that has the sign of the divisor from the one that has
// the dividend's, without a sum that a narrow type cannot hold.
void ls_onnx_make_mod(ls_onnx_build *b) {
  const ls_tensor x = ls_onnx_in(b, 0), y = ls_onnx_in(b, 1);
  const ls_tensor r = ls_remainder(x, y);
  const ls_tensor zero = ls_fill(ls_tensor_dtype(r), LS_SCALAR, 0);
  if (ls_onnx_attr_int(b, "fmod", 0) != 0) {
    ls_onnx_give(b, 0, r);
    return;
  }
  const ls_tensor is_below = ls_less(y, zero);
  const ls_tensor differs = ls_not_equal(ls_less(r, zero), is_below);
  const ls_tensor moved = ls_add(r, ls_select(differs, y, zero));
  ls_onnx_give(b, 0, ls_select(ls_equal(r, zero), r, moved));
}

void ls_onnx_make_dropout(ls_onnx_build *b) {
  const ls_array *given = ls_onnx_array_in(b, 1);
  const double rate = given != NULL ? ls_array_f64(given, 0)
                                    : ls_onnx_attr_real(b, "ratio", 0.5);
  const ls_tensor x = ls_onnx_element(b);
  ls_onnx_give_element(b, ls_dropout(x, rate, b->is_training, NULL));
}
