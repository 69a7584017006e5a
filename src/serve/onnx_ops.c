// SPDX-License-Identifier: Apache-2.0
//
// Emits ONNX's ops.
#include "base/runtime_internal.h"
#include "io/protobuf/onnx.h"
#include "serve/onnx.h"

static ls_onnx_writer *onnx_of(ls_emitter *e) { return e->self; }

// ---- Elementwise -----------------------------------------------------------
static const struct {
  uint16_t op;
  bool of_bools;  // For bools only.
  const char *name;
} names[] = {
    {LS_OP_NEG, false, "Neg"},
    {LS_OP_ABS, false, "Abs"},
    {LS_OP_SIGN, false, "Sign"},
    {LS_OP_EXP, false, "Exp"},
    {LS_OP_LOG, false, "Log"},
    {LS_OP_SQRT, false, "Sqrt"},
    {LS_OP_TANH, false, "Tanh"},
    {LS_OP_SIGMOID, false, "Sigmoid"},
    {LS_OP_ERF, false, "Erf"},
    {LS_OP_NOT, true, "Not"},
    {LS_OP_ADD, false, "Add"},
    {LS_OP_SUB, false, "Sub"},
    {LS_OP_MUL, false, "Mul"},
    {LS_OP_DIV, false, "Div"},
    {LS_OP_MAXIMUM, false, "Max"},
    {LS_OP_MINIMUM, false, "Min"},
    {LS_OP_POW, false, "Pow"},
    {LS_OP_AND, true, "And"},
    {LS_OP_OR, true, "Or"},
    {LS_OP_XOR, true, "Xor"},
    {LS_OP_EQUAL, false, "Equal"},
    {LS_OP_LESS, false, "Less"},
    {LS_OP_LESS_EQUAL, false, "LessOrEqual"},
    {LS_OP_GREATER, false, "Greater"},
    {LS_OP_GREATER_EQUAL, false, "GreaterOrEqual"},
    {LS_OP_SELECT, false, "Where"},
    {LS_OP_CEIL, false, "Ceil"},
    {LS_OP_FLOOR, false, "Floor"},
    {LS_OP_ROUND, false, "Round"},
    {LS_OP_COS, false, "Cos"},
    {LS_OP_SIN, false, "Sin"},
    {LS_OP_TAN, false, "Tan"},
};

// Emits ops that need an attribute, or two nodes.
static bool special(ls_emitter *e, uint16_t op, const ls_emitted *in,
                    ls_emitted out) {
  ls_onnx_writer *o = onnx_of(e);
  const ls_emitted_value x = *ls_emit_look(e, in[0]);
  if (op == LS_OP_CONVERT) {
    const int64_t to = ls_onnx_dtype(ls_emit_look(e, out)->dtype);
    if (to == 0) return false;
    ls_onnx_begin(o, "Cast");
    ls_onnx_input(o, in[0]);
    ls_onnx_output(o, out);
    ls_onnx_int(o, "to", to);
    ls_onnx_end(o);
    return true;
  }
  if (op == LS_OP_REMAINDER) {
    ls_onnx_begin(o, "Mod");
    ls_onnx_input(o, in[0]);
    ls_onnx_input(o, in[1]);
    ls_onnx_output(o, out);
    ls_onnx_int(o, "fmod", 1);
    ls_onnx_end(o);
    return true;
  }
  if (op == LS_OP_NOT_EQUAL) {
    const ls_emitted equal =
        ls_emit_value(e, LS_DTYPE_BOOL, ls_emit_look(e, out)->dims, NULL);
    ls_onnx_write_node(o, "Equal", in, 2, equal);
    ls_onnx_write_node(o, "Not", &equal, 1, out);
    return true;
  }
  if (op != LS_OP_EXPM1 && op != LS_OP_LOG1P) return false;
  const ls_emitted one = ls_emit_scalar(e, x.dtype, 1);
  const ls_emitted between = ls_emit_value(e, x.dtype, x.dims, NULL);
  if (op == LS_OP_EXPM1) {
    ls_onnx_write_node(o, "Exp", in, 1, between);
    ls_onnx_write_node(o, "Sub", (const ls_emitted[]){between, one}, 2, out);
  } else {
    ls_onnx_write_node(o, "Add", (const ls_emitted[]){in[0], one}, 2, between);
    ls_onnx_write_node(o, "Log", &between, 1, out);
  }
  return true;
}

static bool onnx_ops_element(ls_emitter *e, uint16_t op, const ls_emitted *in,
                             size_t count, ls_emitted out) {
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
    if (names[i].op != op) continue;
    if (names[i].of_bools && ls_emit_look(e, in[0])->dtype != LS_DTYPE_BOOL)
      return false;
    ls_onnx_write_node(onnx_of(e), names[i].name, in, count, out);
    return true;
  }
  return special(e, op, in, out);
}

static void constant(ls_emitter *e, const ls_array *array, ls_emitted out) {
  ls_onnx_writer *o = onnx_of(e);
  ls_text_clear(&o->name);
  ls_emit_name(e, out, &o->name);
  const char *name = ls_text_data(&o->name);
  ls_onnx_write_initializer(o, name, array);
}

// ---- Shapes ----------------------------------------------------------------
// Reshapes; at most one size, the one that depends on the batch, is -1
// (inferred).
static void onnx_ops_reshape(ls_emitter *e, ls_emitted x, ls_emitted out) {
  ls_onnx_writer *o = onnx_of(e);
  const ls_batch_dims dims = ls_emit_look(e, out)->dims;
  int64_t sizes[LS_MAX_RANK];
  int unknown = 0;
  bool empty = false;
  for (int32_t i = 0; i < dims.rank; ++i) {
    sizes[i] = dims.dim[i].scale == 0 ? dims.dim[i].offset : -1;
    unknown += dims.dim[i].scale != 0;
    empty |= sizes[i] == 0;
  }
  const bool plain = unknown <= 1 && !(unknown == 1 && empty);
  const ls_emitted shape = plain ? ls_onnx_i64s(o, sizes, (size_t)dims.rank)
                                 : ls_onnx_sizes(o, dims.dim, dims.rank);
  ls_onnx_begin(o, "Reshape");
  ls_onnx_input(o, x);
  ls_onnx_input(o, shape);
  ls_onnx_output(o, out);
  if (empty) ls_onnx_int(o, "allowzero", 1);
  ls_onnx_end(o);
}

static void broadcast(ls_emitter *e, ls_emitted x, ls_emitted out) {
  ls_onnx_writer *o = onnx_of(e);
  const ls_batch_dims dims = ls_emit_look(e, out)->dims;
  const ls_emitted in[] = {x, ls_onnx_sizes(o, dims.dim, dims.rank)};
  ls_onnx_write_node(o, "Expand", in, 2, out);
}

static void transpose(ls_emitter *e, ls_emitted x, const int64_t *permutation,
                      ls_emitted out) {
  ls_onnx_writer *o = onnx_of(e);
  ls_onnx_begin(o, "Transpose");
  ls_onnx_input(o, x);
  ls_onnx_output(o, out);
  ls_onnx_ints(o, "perm", permutation, (size_t)ls_emit_look(e, x)->dims.rank);
  ls_onnx_end(o);
}

static void slice(ls_emitter *e, ls_emitted x, const int64_t *starts,
                  const int64_t *strides, ls_emitted out) {
  ls_onnx_writer *o = onnx_of(e);
  const ls_batch_dims dims = ls_emit_look(e, out)->dims;
  int64_t axes[LS_MAX_RANK];
  // The slice ends at start + size * stride: where the next element would be,
  // possibly past the array.
  ls_dim ends[LS_MAX_RANK];
  for (int32_t i = 0; i < dims.rank; ++i) {
    const ls_dim size = dims.dim[i];
    axes[i] = i;
    ends[i] = (ls_dim){.scale = size.scale * strides[i],
                       .offset = size.offset * strides[i] + starts[i]};
  }
  const size_t count = (size_t)dims.rank;
  const ls_emitted in[] = {
      x, ls_onnx_i64s(o, starts, count), ls_onnx_sizes(o, ends, dims.rank),
      ls_onnx_i64s(o, axes, count), ls_onnx_i64s(o, strides, count)};
  ls_onnx_write_node(o, "Slice", in, 5, out);
}

static void onnx_ops_reverse(ls_emitter *e, ls_emitted x, const int64_t *axes,
                             size_t count, ls_emitted out) {
  ls_onnx_writer *o = onnx_of(e);
  int64_t starts[LS_MAX_RANK], ends[LS_MAX_RANK];
  for (size_t i = 0; i < count; ++i) {
    starts[i] = -1;
    ends[i] = INT64_MIN;
  }
  const ls_emitted in[] = {
      x, ls_onnx_i64s(o, starts, count), ls_onnx_i64s(o, ends, count),
      ls_onnx_i64s(o, axes, count), ls_onnx_i64s(o, starts, count)};
  ls_onnx_write_node(o, "Slice", in, 5, out);
}

static bool onnx_ops_pad(ls_emitter *e, ls_emitted x, ls_emitted value,
                         const int64_t *low, const int64_t *high,
                         const int64_t *interior, ls_emitted out) {
  int64_t sizes[2 * LS_MAX_RANK];
  const int32_t rank = ls_emit_look(e, x)->dims.rank;
  for (int32_t i = 0; i < rank; ++i) {
    if (interior[i] != 0) return false;
    sizes[i] = low[i];
    sizes[rank + i] = high[i];
  }
  const ls_emitted in[] = {x, ls_onnx_i64s(onnx_of(e), sizes, 2 * (size_t)rank),
                           value};
  ls_onnx_write_node(onnx_of(e), "Pad", in, 3, out);
  return true;
}

static void onnx_ops_concatenate(ls_emitter *e, const ls_emitted *in,
                                 size_t count, int64_t axis, ls_emitted out) {
  ls_onnx_writer *o = onnx_of(e);
  ls_onnx_begin(o, "Concat");
  for (size_t i = 0; i < count; ++i)
    ls_onnx_input(o, in[i]);
  ls_onnx_output(o, out);
  ls_onnx_int(o, "axis", axis);
  ls_onnx_end(o);
}

static void onnx_ops_gather(ls_emitter *e, ls_emitted x, ls_emitted indices,
                            int64_t axis, ls_emitted out) {
  ls_onnx_writer *o = onnx_of(e);
  ls_onnx_begin(o, "Gather");
  ls_onnx_input(o, x);
  ls_onnx_input(o, indices);
  ls_onnx_output(o, out);
  ls_onnx_int(o, "axis", axis);
  ls_onnx_end(o);
}

// Makes a line of numbers and repeats it along the other axes.
static void iota(ls_emitter *e, int64_t axis, ls_emitted out) {
  ls_onnx_writer *o = onnx_of(e);
  const ls_emitted_value value = *ls_emit_look(e, out);
  const ls_batch_dims scalar = {0},
                      line = {.rank = 1, .dim = {value.dims.dim[axis]}};
  ls_batch_dims aligned = value.dims;
  for (int32_t i = 0; i < aligned.rank; ++i)
    if (i != axis) aligned.dim[i] = ls_dim_of(1);
  const ls_emitted in[] = {
      ls_emit_scalar(e, LS_DTYPE_I64, 0),
      ls_emit_reshape(e, ls_onnx_sizes(o, line.dim, 1), scalar),
      ls_emit_scalar(e, LS_DTYPE_I64, 1)};
  const ls_emitted counted = ls_emit_value(e, LS_DTYPE_I64, line, NULL);
  ls_onnx_write_node(o, "Range", in, 3, counted);
  broadcast(
      e, ls_emit_reshape(e, ls_emit_convert(e, counted, value.dtype), aligned),
      out);
}

static void top_k(ls_emitter *e, ls_emitted x, int64_t k, ls_emitted values,
                  ls_emitted indices) {
  ls_onnx_writer *o = onnx_of(e);
  const ls_emitted count = ls_onnx_i64s(o, &k, 1);
  const ls_emitted places =
      ls_emit_value(e, LS_DTYPE_I64, ls_emit_look(e, indices)->dims, NULL);
  ls_onnx_begin(o, "TopK");
  ls_onnx_input(o, x);
  ls_onnx_input(o, count);
  ls_onnx_output(o, values);
  ls_onnx_output(o, places);
  ls_onnx_end(o);
  special(e, LS_OP_CONVERT, &places, indices);
}

// ---- Sums and products -----------------------------------------------------
static void reduce_by(ls_onnx_writer *o, const char *op, ls_emitted x,
                      const int64_t *axes, size_t count, ls_emitted out) {
  const bool is_sum = strcmp(op, "ReduceSum") == 0;  // Takes axes as operand.
  const ls_emitted list = is_sum ? ls_onnx_i64s(o, axes, count) : 0;
  ls_onnx_begin(o, op);
  ls_onnx_input(o, x);
  if (is_sum) ls_onnx_input(o, list);
  ls_onnx_output(o, out);
  if (!is_sum) ls_onnx_ints(o, "axes", axes, count);
  ls_onnx_int(o, "keepdims", 0);
  ls_onnx_end(o);
}

static bool onnx_ops_reduce(ls_emitter *e, uint16_t op, ls_emitted x,
                            const int64_t *axes, size_t count, ls_emitted out) {
  const char *name = op == LS_OP_REDUCE_SUM       ? "ReduceSum"
                     : op == LS_OP_REDUCE_MAX     ? "ReduceMax"
                     : op == LS_OP_REDUCE_MIN     ? "ReduceMin"
                     : op == LS_OP_REDUCE_PRODUCT ? "ReduceProd"
                     : op == LS_OP_REDUCE_AND     ? "ReduceMin"
                     : op == LS_OP_REDUCE_OR      ? "ReduceMax"
                                                  : NULL;
  if (name == NULL) return false;
  if (op != LS_OP_REDUCE_AND && op != LS_OP_REDUCE_OR) {
    reduce_by(onnx_of(e), name, x, axes, count, out);
    return true;
  }
  const ls_batch_dims dims = ls_emit_look(e, out)->dims;
  const ls_emitted numbers = ls_emit_convert(e, x, LS_DTYPE_I32);
  const ls_emitted made = ls_emit_value(e, LS_DTYPE_I32, dims, NULL);
  reduce_by(onnx_of(e), name, numbers, axes, count, made);
  return special(e, LS_OP_CONVERT, &made, out);
}

static void dot(ls_emitter *e, ls_emitted a, ls_emitted b, ls_emitted out) {
  ls_onnx_write_node(onnx_of(e), "MatMul", (const ls_emitted[]){a, b}, 2, out);
}

// ---- Windows; ONNX puts channels first -------------------------------------
static ls_emitted channels_first(ls_emitter *e, ls_emitted x) {
  int64_t permutation[LS_MAX_RANK] = {0};
  const int32_t rank = ls_emit_look(e, x)->dims.rank;
  permutation[1] = rank - 1;
  for (int32_t i = 2; i < rank; ++i)
    permutation[i] = i - 1;
  return ls_emit_transpose(e, x, permutation);
}

static void channels_last(ls_emitter *e, ls_emitted y, ls_emitted out) {
  int64_t permutation[LS_MAX_RANK] = {0};
  const int32_t rank = ls_emit_look(e, out)->dims.rank;
  permutation[rank - 1] = 1;
  for (int32_t i = 1; i + 1 < rank; ++i)
    permutation[i] = i + 1;
  transpose(e, y, permutation, out);
}

static ls_emitted result_first(ls_emitter *e, ls_emitted out) {
  const ls_emitted_value value = *ls_emit_look(e, out);
  ls_batch_dims dims = value.dims;
  dims.dim[1] = value.dims.dim[dims.rank - 1];
  for (int32_t i = 2; i < dims.rank; ++i)
    dims.dim[i] = value.dims.dim[i - 1];
  return ls_emit_value(e, value.dtype, dims, NULL);
}

static void window_attrs(ls_onnx_writer *o, const ls_window *w, bool dilated) {
  int64_t pads[2 * LS_WINDOW_DIMS];
  const size_t rank = (size_t)w->rank;
  for (size_t i = 0; i < rank; ++i) {
    pads[i] = w->low[i];
    pads[rank + i] = w->high[i];
  }
  ls_onnx_ints(o, "kernel_shape", w->taps, rank);
  ls_onnx_ints(o, "strides", w->strides, rank);
  ls_onnx_ints(o, "pads", pads, 2 * rank);
  if (dilated) ls_onnx_ints(o, "dilations", w->dilations, rank);
}

// Turns windows over a dilated input into those of ConvTranspose, the gradient
// of a convolution, which has strides for dilations, reversed weights, and cuts
// off padding. Returns false if there is no such op.
static bool transpose_window(ls_window *window, int64_t groups) {
  for (int32_t i = 0; i < window->rank; ++i) {
    const int64_t span = (window->taps[i] - 1) * window->dilations[i];
    if (window->strides[i] != 1 || groups != 1) return false;
    window->strides[i] = window->input_dilations[i];
    window->input_dilations[i] = 1;
    window->low[i] = span - window->low[i];
    window->high[i] = span - window->high[i];
  }
  return true;
}

static bool convolve(ls_emitter *e, ls_emitted x, ls_emitted w,
                     const ls_window *given, int64_t groups, ls_emitted out) {
  static const int64_t axes[LS_WINDOW_DIMS] = {0, 1, 2};
  ls_onnx_writer *o = onnx_of(e);
  ls_window window = *given;
  int64_t permutation[LS_MAX_RANK];
  const int32_t rank = window.rank + 2;
  bool dilates = false;
  for (int32_t i = 0; i < window.rank; ++i)
    dilates |= window.input_dilations[i] != 1;
  if (dilates && !transpose_window(&window, groups)) return false;
  for (int32_t i = 0; i < window.rank; ++i) {
    if (window.low[i] < 0 || window.high[i] < 0) return false;
    permutation[i + 2] = i;
  }
  permutation[0] = dilates ? rank - 2 : rank - 1;
  permutation[1] = dilates ? rank - 1 : rank - 2;
  if (dilates) w = ls_emit_reverse(e, w, axes, (size_t)window.rank);
  const ls_emitted in[] = {channels_first(e, x),
                           ls_emit_transpose(e, w, permutation)};
  const ls_emitted y = result_first(e, out);
  ls_onnx_begin(o, dilates ? "ConvTranspose" : "Conv");
  ls_onnx_input(o, in[0]);
  ls_onnx_input(o, in[1]);
  ls_onnx_output(o, y);
  window_attrs(o, &window, true);
  ls_onnx_int(o, "group", groups);
  ls_onnx_end(o);
  channels_last(e, y, out);
  return true;
}

// Emits a sum as the mean, padding included, times the number of elements.
static bool slide(ls_emitter *e, uint16_t op, ls_emitted x,
                  const ls_window *window, ls_emitted out) {
  ls_onnx_writer *o = onnx_of(e);
  const bool is_max = op == LS_OP_REDUCE_MAX;
  double taps = 1;
  for (int32_t i = 0; i < window->rank; ++i) {
    taps *= (double)window->taps[i];
    if (!is_max && window->dilations[i] != 1) return false;
  }
  const ls_emitted in = channels_first(e, x);
  ls_emitted y = result_first(e, out);
  ls_onnx_begin(o, is_max ? "MaxPool" : "AveragePool");
  ls_onnx_input(o, in);
  ls_onnx_output(o, y);
  window_attrs(o, window, is_max);
  if (!is_max) ls_onnx_int(o, "count_include_pad", 1);
  ls_onnx_end(o);
  if (!is_max)
    y = ls_emit_2(e, LS_OP_MUL, y,
                  ls_emit_scalar(e, ls_emit_look(e, y)->dtype, taps));
  channels_last(e, y, out);
  return true;
}

const ls_emit_language ls_onnx_language = {.name = "ONNX",
                                           .prefix = "%",
                                           .is_lenient = true,
                                           .element = onnx_ops_element,
                                           .constant = constant,
                                           .reshape = onnx_ops_reshape,
                                           .broadcast = broadcast,
                                           .transpose = transpose,
                                           .reduce = onnx_ops_reduce,
                                           .dot = dot,
                                           .convolve = convolve,
                                           .slide = slide,
                                           .slice = slice,
                                           .pad = onnx_ops_pad,
                                           .concatenate = onnx_ops_concatenate,
                                           .reverse = onnx_ops_reverse,
                                           .gather = onnx_ops_gather,
                                           .iota = iota,
                                           .top_k = top_k};
