// SPDX-License-Identifier: Apache-2.0
//
// StableHLO's ops.
#include <math.h>

#include "base/runtime_internal.h"
#include "serve/stablehlo.h"

static ls_hlo *hlo_of(ls_emitter *e) { return e->self; }

// ---- Pieces ----------------------------------------------------------------
// "    %v3 = NAME"
static ls_text *begin(ls_emitter *e, const char *op, ls_emitted out) {
  ls_hlo *h = hlo_of(e);
  ls_text_append(&h->body, "    ");
  ls_hlo_name(h, out);
  ls_text_append_format(&h->body, " = %s", op);
  return &h->body;
}

static void names(ls_emitter *e, const ls_emitted *in, size_t count) {
  ls_hlo *h = hlo_of(e);
  for (size_t i = 0; i < count; ++i) {
    ls_text_append(&h->body, i > 0 ? ", " : " ");
    ls_hlo_name(h, in[i]);
  }
}

static void types(ls_emitter *e, const ls_emitted *in, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) ls_text_append(&hlo_of(e)->body, ", ");
    ls_hlo_type(hlo_of(e), in[i]);
  }
}

// " : (types) -> type" and the line's end.
static void finish(ls_emitter *e, const ls_emitted *in, size_t count,
                   ls_emitted out) {
  ls_text *text = &hlo_of(e)->body;
  ls_text_append(text, " : (");
  types(e, in, count);
  ls_text_append(text, ") -> ");
  ls_hlo_type(hlo_of(e), out);
  ls_text_append_char(text, '\n');
}

static void list(ls_text *text, const int64_t *values, size_t count) {
  ls_text_append_char(text, '[');
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) ls_text_append(text, ", ");
    ls_text_append_i64(text, values[i]);
  }
  ls_text_append_char(text, ']');
}

// ", key = [1, 2]"
static void attr(ls_text *text, const char *key, const int64_t *values,
                 size_t count) {
  ls_text_append_format(text, ", %s = ", key);
  list(text, values, count);
}

// "key = array<i64: 1, 2>"
static void array(ls_text *text, const char *key, const int64_t *values,
                  size_t count) {
  ls_text_append_format(text, "%s = array<i64: ", key);
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) ls_text_append(text, ", ");
    ls_text_append_i64(text, values[i]);
  }
  ls_text_append_char(text, '>');
}

static int32_t rank_of(const ls_emitter *e, ls_emitted value) {
  return ls_emit_look(e, value)->dims.rank;
}

// ---- Constants -------------------------------------------------------------
// Bools are made of bytes, as bits are packed here.
static void constant(ls_emitter *e, const ls_array *value, ls_emitted out) {
  const bool is_bool = ls_array_dtype(value) == LS_DTYPE_BOOL;
  const ls_dims dims = ls_emit_look(e, out)->dims;
  const ls_emitted made =
      is_bool ? ls_emit_value(e, LS_DTYPE_U8, dims, NULL) : out;
  const unsigned char *data = ls_array_data(value);
  const size_t size = ls_array_size(value);
  ls_text *text = begin(e, "stablehlo.constant dense<", made);
  if (size > 0) ls_text_append(text, "\"0x");
  for (size_t i = 0; i < size; ++i) {
    static const char digits[] = "0123456789ABCDEF";
    ls_text_append_char(text, digits[data[i] >> 4]);
    ls_text_append_char(text, digits[data[i] & 15]);
  }
  ls_text_append(text, size > 0 ? "\"> : " : "> : ");
  ls_hlo_type(hlo_of(e), made);
  ls_text_append_char(text, '\n');
  if (!is_bool) return;
  begin(e, "stablehlo.convert", out);
  names(e, &made, 1);
  finish(e, &made, 1, out);
}

// The least or largest of a type.
static ls_emitted extreme(ls_emitter *e, ls_dtype dtype, bool least) {
  if (ls_dtype_is_float(dtype))
    return ls_emit_scalar(e, dtype, least ? -INFINITY : INFINITY);
  ls_array *value = NULL;
  ls_emit_fail(e, ls_array_create(dtype, LS_SCALAR, &value));
  if (!ls_status_is_ok(e->status)) return 0;
  const bool is_signed = dtype >= LS_DTYPE_I8 && dtype <= LS_DTYPE_I64;
  unsigned char *bytes = ls_array_mutable_data(value);
  const size_t size = ls_array_size(value);
  memset(bytes, least ? 0 : 0xff, size);  // Little-endian, as all machines.
  if (dtype == LS_DTYPE_BOOL) bytes[0] = !least;
  if (is_signed) bytes[size - 1] ^= 0x80;
  const ls_emitted out = ls_emit_constant(e, value);
  ls_array_release(value);
  return out;
}

// ---- Elementwise -----------------------------------------------------------
static const struct {
  uint16_t op;
  const char *name;
} element_names[] = {
    {LS_OP_NEG, "negate"},
    {LS_OP_ABS, "abs"},
    {LS_OP_SIGN, "sign"},
    {LS_OP_EXP, "exponential"},
    {LS_OP_LOG, "log"},
    {LS_OP_SQRT, "sqrt"},
    {LS_OP_TANH, "tanh"},
    {LS_OP_SIGMOID, "logistic"},
    {LS_OP_NOT, "not"},
    {LS_OP_ADD, "add"},
    {LS_OP_SUB, "subtract"},
    {LS_OP_MUL, "multiply"},
    {LS_OP_DIV, "divide"},
    {LS_OP_MAXIMUM, "maximum"},
    {LS_OP_MINIMUM, "minimum"},
    {LS_OP_POW, "power"},
    {LS_OP_AND, "and"},
    {LS_OP_OR, "or"},
    {LS_OP_XOR, "xor"},
    {LS_OP_EXPM1, "exponential_minus_one"},
    {LS_OP_LOG1P, "log_plus_one"},
    {LS_OP_CEIL, "ceil"},
    {LS_OP_FLOOR, "floor"},
    {LS_OP_ROUND, "round_nearest_even"},
    {LS_OP_ROUND_AWAY, "round_nearest_afz"},
    {LS_OP_COS, "cosine"},
    {LS_OP_SIN, "sine"},
    {LS_OP_TAN, "tan"},
    {LS_OP_CBRT, "cbrt"},
    {LS_OP_ATAN2, "atan2"},
    {LS_OP_REMAINDER, "remainder"},
    {LS_OP_SHIFT_LEFT, "shift_left"},
    {LS_OP_SHIFT_RIGHT_ARITHMETIC, "shift_right_arithmetic"},
    {LS_OP_SHIFT_RIGHT_LOGICAL, "shift_right_logical"},
    {LS_OP_POPCOUNT, "popcnt"},
    {LS_OP_COUNT_LEADING_ZEROS, "count_leading_zeros"},
};

// Those whose results are of another type.
static const struct {
  uint16_t op;
  const char *name;
} other_names[] = {
    {LS_OP_CONVERT, "stablehlo.convert"},
    {LS_OP_BITCAST, "stablehlo.bitcast_convert"},
    {LS_OP_IS_FINITE, "stablehlo.is_finite"},
    {LS_OP_EQUAL, "stablehlo.compare EQ,"},
    {LS_OP_NOT_EQUAL, "stablehlo.compare NE,"},
    {LS_OP_LESS, "stablehlo.compare LT,"},
    {LS_OP_LESS_EQUAL, "stablehlo.compare LE,"},
    {LS_OP_GREATER, "stablehlo.compare GT,"},
    {LS_OP_GREATER_EQUAL, "stablehlo.compare GE,"},
};

static bool element(ls_emitter *e, uint16_t op, const ls_emitted *in,
                    size_t count, ls_emitted out) {
  ls_text *text = &hlo_of(e)->body;
  for (size_t i = 0; i < sizeof(other_names) / sizeof(*other_names); ++i) {
    if (other_names[i].op != op) continue;
    begin(e, other_names[i].name, out);
    names(e, in, count);
    finish(e, in, count, out);
    return true;
  }
  if (op == LS_OP_SELECT) {
    begin(e, "stablehlo.select", out);
    names(e, in, 3);
    ls_text_append(text, " : ");
    types(e, in, 2);
    ls_text_append_char(text, '\n');
    return true;
  }
  const char *name = NULL;
  for (size_t i = 0; i < sizeof(element_names) / sizeof(*element_names); ++i)
    if (element_names[i].op == op) name = element_names[i].name;
  if (op != LS_OP_ERF && name == NULL) return false;
  begin(e, op == LS_OP_ERF ? "chlo.erf" : "stablehlo.", out);
  if (name != NULL) ls_text_append(text, name);
  names(e, in, count);
  ls_text_append(text, " : ");
  ls_hlo_type(hlo_of(e), out);
  if (op == LS_OP_ERF) {
    ls_text_append(text, " -> ");
    ls_hlo_type(hlo_of(e), out);
  }
  ls_text_append_char(text, '\n');
  return true;
}

// ---- Shapes ----------------------------------------------------------------
static void reshape(ls_emitter *e, ls_emitted x, ls_emitted out) {
  begin(e, "stablehlo.reshape", out);
  names(e, &x, 1);
  finish(e, &x, 1, out);
}

static void broadcast(ls_emitter *e, ls_emitted x, ls_emitted out) {
  int64_t dims[LS_MAX_RANK];
  for (int i = 0; i < LS_MAX_RANK; ++i)
    dims[i] = i;
  ls_text *text = begin(e, "stablehlo.broadcast_in_dim", out);
  names(e, &x, 1);
  attr(text, "dims", dims, (size_t)rank_of(e, x));
  finish(e, &x, 1, out);
}

static void transpose(ls_emitter *e, ls_emitted x, const int64_t *permutation,
                      ls_emitted out) {
  ls_text *text = begin(e, "stablehlo.transpose", out);
  names(e, &x, 1);
  attr(text, "dims", permutation, (size_t)rank_of(e, x));
  finish(e, &x, 1, out);
}

static void slice(ls_emitter *e, ls_emitted x, const int64_t *starts,
                  const int64_t *strides, ls_emitted out) {
  const ls_dims dims = ls_emit_look(e, out)->dims;
  ls_text *text = begin(e, "stablehlo.slice", out);
  names(e, &x, 1);
  ls_text_append(text, " [");
  for (int32_t i = 0; i < dims.rank; ++i) {
    const int64_t size = dims.dim[i].offset;
    const int64_t limit =
        starts[i] + (size > 0 ? (size - 1) * strides[i] + 1 : 0);
    ls_text_append_format(text, "%s%lld:%lld:%lld", i > 0 ? ", " : "",
                          (long long)starts[i], (long long)limit,
                          (long long)strides[i]);
  }
  ls_text_append_char(text, ']');
  finish(e, &x, 1, out);
}

static bool pad(ls_emitter *e, ls_emitted x, ls_emitted value,
                const int64_t *low, const int64_t *high,
                const int64_t *interior, ls_emitted out) {
  const ls_emitted in[] = {x, value};
  const size_t rank = (size_t)rank_of(e, x);
  ls_text *text = begin(e, "stablehlo.pad", out);
  names(e, in, 2);
  attr(text, "low", low, rank);
  attr(text, "high", high, rank);
  attr(text, "interior", interior, rank);
  finish(e, in, 2, out);
  return true;
}

static void concatenate(ls_emitter *e, const ls_emitted *in, size_t count,
                        int64_t axis, ls_emitted out) {
  ls_text *text = begin(e, "stablehlo.concatenate", out);
  names(e, in, count);
  ls_text_append_format(text, ", dim = %lld", (long long)axis);
  finish(e, in, count, out);
}

static void reverse(ls_emitter *e, ls_emitted x, const int64_t *axes,
                    size_t count, ls_emitted out) {
  ls_text *text = begin(e, "stablehlo.reverse", out);
  names(e, &x, 1);
  attr(text, "dims", axes, count);
  ls_text_append(text, " : ");
  ls_hlo_type(hlo_of(e), out);
  ls_text_append_char(text, '\n');
}

static void iota(ls_emitter *e, int64_t axis, ls_emitted out) {
  ls_text *text = begin(e, "stablehlo.iota", out);
  ls_text_append_format(text, " dim = %lld : ", (long long)axis);
  ls_hlo_type(hlo_of(e), out);
  ls_text_append_char(text, '\n');
}

static void gather(ls_emitter *e, ls_emitted x, ls_emitted indices,
                   int64_t axis, ls_emitted out) {
  const ls_emitted in[] = {x, indices};
  const ls_dims dims = ls_emit_look(e, x)->dims;
  const int64_t rank = rank_of(e, indices);
  int64_t offsets[LS_MAX_RANK], sizes[LS_MAX_RANK];
  size_t count = 0;
  for (int32_t i = 0; i < dims.rank; ++i) {
    sizes[i] = i == axis ? 1 : dims.dim[i].offset;
    if (i != axis) offsets[count++] = i < axis ? i : i + rank - 1;
  }
  ls_text *text = begin(e, "\"stablehlo.gather\"(", out);
  ls_hlo_name(hlo_of(e), x);
  ls_text_append(text, ", ");
  ls_hlo_name(hlo_of(e), indices);
  ls_text_append(text, ") <{dimension_numbers = #stablehlo.gather<");
  ls_text_append(text, "offset_dims = ");
  list(text, offsets, count);
  attr(text, "collapsed_slice_dims", &axis, 1);
  attr(text, "start_index_map", &axis, 1);
  ls_text_append_format(text, ", index_vector_dim = %lld>, ", (long long)rank);
  array(text, "slice_sizes", sizes, (size_t)dims.rank);
  ls_text_append(text, ", indices_are_sorted = false}>");
  finish(e, in, 2, out);
}

// ---- Sums and products -----------------------------------------------------
static const char *reducer(uint16_t op) {
  switch (op) {
  case LS_OP_REDUCE_SUM:
    return "stablehlo.add";
  case LS_OP_REDUCE_MAX:
    return "stablehlo.maximum";
  case LS_OP_REDUCE_MIN:
    return "stablehlo.minimum";
  case LS_OP_REDUCE_PRODUCT:
    return "stablehlo.multiply";
  case LS_OP_REDUCE_AND:
    return "stablehlo.and";
  case LS_OP_REDUCE_OR:
    return "stablehlo.or";
  default:
    return NULL;
  }
}

static ls_emitted first_value(ls_emitter *e, uint16_t op, ls_dtype dtype) {
  if (op == LS_OP_REDUCE_MAX || op == LS_OP_REDUCE_MIN)
    return extreme(e, dtype, op == LS_OP_REDUCE_MAX);
  return ls_emit_scalar(
      e, dtype, op == LS_OP_REDUCE_PRODUCT || op == LS_OP_REDUCE_AND ? 1 : 0);
}

static bool reduce(ls_emitter *e, uint16_t op, ls_emitted x,
                   const int64_t *axes, size_t count, ls_emitted out) {
  if (reducer(op) == NULL) return false;
  const ls_emitted in[] = {x, first_value(e, op, ls_emit_look(e, x)->dtype)};
  ls_text *text = begin(e, "stablehlo.reduce(", out);
  ls_hlo_name(hlo_of(e), x);
  ls_text_append(text, " init: ");
  ls_hlo_name(hlo_of(e), in[1]);
  ls_text_append_format(text, ") applies %s across dimensions = ", reducer(op));
  list(text, axes, count);
  finish(e, in, 2, out);
  return true;
}

static void dot(ls_emitter *e, ls_emitted a, ls_emitted b, ls_emitted out) {
  const ls_emitted in[] = {a, b};
  const int64_t rank = rank_of(e, a);
  const int64_t last = rank - 1, before = rank - 2;
  int64_t batch[LS_MAX_RANK];
  for (int64_t i = 0; i < before; ++i)
    batch[i] = i;
  ls_text *text = begin(e, "stablehlo.dot_general", out);
  names(e, in, 2);
  if (before > 0) {
    attr(text, "batching_dims", batch, (size_t)before);
    ls_text_append(text, " x ");
    list(text, batch, (size_t)before);
  }
  attr(text, "contracting_dims", &last, 1);
  ls_text_append(text, " x ");
  list(text, &before, 1);
  ls_text_append(text, ", precision = [HIGHEST, HIGHEST]");
  finish(e, in, 2, out);
}

// ---- Windows ---------------------------------------------------------------
// "[b, 0, 1, f]"
static void places(ls_text *text, const char *first, int32_t rank,
                   const char *last) {
  ls_text_append_format(text, "[%s", first);
  for (int32_t i = 0; i < rank; ++i)
    ls_text_append_format(text, "%s%d", i > 0 || first[0] != '\0' ? ", " : "",
                          i);
  ls_text_append_format(text, ", %s]", last);
}

static void padding(ls_text *text, const ls_window *w, bool all) {
  ls_text_append(text, all ? "[[0, 0]" : "[");
  for (int32_t i = 0; i < w->rank; ++i)
    ls_text_append_format(text, "%s[%lld, %lld]", i > 0 || all ? ", " : "",
                          (long long)w->low[i], (long long)w->high[i]);
  ls_text_append(text, all ? ", [0, 0]]" : "]");
}

static bool convolve(ls_emitter *e, ls_emitted x, ls_emitted w,
                     const ls_window *window, int64_t groups, ls_emitted out) {
  const ls_emitted in[] = {x, w};
  const size_t rank = (size_t)window->rank;
  ls_text *text = begin(e, "stablehlo.convolution(", out);
  ls_hlo_name(hlo_of(e), x);
  ls_text_append(text, ", ");
  ls_hlo_name(hlo_of(e), w);
  ls_text_append(text, ") dim_numbers = ");
  places(text, "b", window->rank, "f");
  ls_text_append_char(text, 'x');
  places(text, "", window->rank, "i, o");
  ls_text_append(text, "->");
  places(text, "b", window->rank, "f");
  ls_text_append(text, ", window = {stride = ");
  list(text, window->strides, rank);
  ls_text_append(text, ", pad = ");
  padding(text, window, false);
  attr(text, "lhs_dilate", window->input_dilations, rank);
  attr(text, "rhs_dilate", window->dilations, rank);
  ls_text_append_format(text,
                        "} {batch_group_count = 1 : i64, feature_group_count "
                        "= %lld : i64, precision_config = "
                        "[#stablehlo<precision HIGHEST>, "
                        "#stablehlo<precision HIGHEST>]}",
                        (long long)groups);
  finish(e, in, 2, out);
  return true;
}

// Numbers of the spatial dimensions, 1 around them.
static void around(ls_text *text, const char *key, const int64_t *values,
                   int32_t rank) {
  int64_t all[LS_MAX_RANK];
  all[0] = all[rank + 1] = 1;
  for (int32_t i = 0; i < rank; ++i)
    all[i + 1] = values[i];
  array(text, key, all, (size_t)rank + 2);
}

static bool slide(ls_emitter *e, uint16_t op, ls_emitted x, const ls_window *w,
                  ls_emitted out) {
  const ls_dtype dtype = ls_emit_look(e, x)->dtype;
  const ls_emitted in[] = {x, first_value(e, op, dtype)};
  const ls_dims scalar = {0};
  ls_text *text = begin(e, "\"stablehlo.reduce_window\"(", out);
  ls_hlo_name(hlo_of(e), x);
  ls_text_append(text, ", ");
  ls_hlo_name(hlo_of(e), in[1]);
  ls_text_append(text, ") <{");
  around(text, "window_dimensions", w->taps, w->rank);
  ls_text_append(text, ", ");
  around(text, "window_strides", w->strides, w->rank);
  ls_text_append(text, ", ");
  around(text, "window_dilations", w->dilations, w->rank);
  ls_text_append(text, ", padding = dense<");
  padding(text, w, true);
  ls_text_append_format(
      text, "> : tensor<%dx2xi64>}> ({\n    ^bb0(%%a: ", w->rank + 2);
  ls_hlo_type_of(text, dtype, &scalar);
  ls_text_append(text, ", %b: ");
  ls_hlo_type_of(text, dtype, &scalar);
  ls_text_append_format(text, "):\n      %%c = %s %%a, %%b : ", reducer(op));
  ls_hlo_type_of(text, dtype, &scalar);
  ls_text_append(text, "\n      stablehlo.return %c : ");
  ls_hlo_type_of(text, dtype, &scalar);
  ls_text_append(text, "\n    })");
  finish(e, in, 2, out);
  return true;
}

const ls_emit_language ls_stablehlo_language = {.name = "StableHLO",
                                                .prefix = "%v",
                                                .equal_shapes = true,
                                                .element = element,
                                                .constant = constant,
                                                .reshape = reshape,
                                                .broadcast = broadcast,
                                                .transpose = transpose,
                                                .reduce = reduce,
                                                .dot = dot,
                                                .convolve = convolve,
                                                .slide = slide,
                                                .slice = slice,
                                                .pad = pad,
                                                .concatenate = concatenate,
                                                .reverse = reverse,
                                                .gather = gather,
                                                .iota = iota};
