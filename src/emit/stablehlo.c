// SPDX-License-Identifier: Apache-2.0
#include "emit/stablehlo.h"

const char *ls_stablehlo_dtype(ls_dtype dtype) {
  static const char *const names[LS_DTYPE_COUNT] = {
      [LS_DTYPE_F64] = "f64",  [LS_DTYPE_F32] = "f32",
      [LS_DTYPE_F16] = "f16",  [LS_DTYPE_BF16] = "bf16",
      [LS_DTYPE_I8] = "i8",    [LS_DTYPE_I16] = "i16",
      [LS_DTYPE_I32] = "i32",  [LS_DTYPE_I64] = "i64",
      [LS_DTYPE_U8] = "ui8",   [LS_DTYPE_U16] = "ui16",
      [LS_DTYPE_U32] = "ui32", [LS_DTYPE_U64] = "ui64",
      [LS_DTYPE_BOOL] = "i1"};
  return (size_t)dtype < LS_DTYPE_COUNT ? names[dtype] : NULL;
}

void ls_hlo_append_type(ls_hlo *h, ls_text *out, ls_dtype dtype,
                        const ls_batch_dims *dims) {
  const char *name = ls_stablehlo_dtype(dtype);
  if (name == NULL) ls_emit_refuse(&h->e, ls_dtype_name(dtype));
  ls_text_append(out, "tensor<");
  for (int32_t i = 0; i < dims->rank; ++i) {
    ls_text_append_i64(out, dims->dim[i].offset);
    ls_text_append_char(out, 'x');
  }
  ls_text_append(out, name != NULL ? name : "none");
  ls_text_append_char(out, '>');
}

void ls_hlo_type(ls_hlo *h, ls_emitted value) {
  const ls_emitted_value v = *ls_emit_look(&h->e, value);
  ls_hlo_append_type(h, &h->body, v.dtype, &v.dims);
}

void ls_hlo_name(ls_hlo *h, ls_emitted value) {
  ls_emit_name(&h->e, value, &h->body);
}

// ---- Pieces ----------------------------------------------------------------
ls_text *ls_hlo_begin(ls_emitter *e, const char *op, const ls_emitted *in,
                      size_t count, ls_emitted out) {
  ls_hlo *h = ls_hlo_of(e);
  ls_text_append(&h->body, "    ");
  ls_hlo_name(h, out);
  ls_text_append_format(&h->body, " = %s", op);
  for (size_t i = 0; i < count; ++i) {
    const bool is_open = op[strlen(op) - 1] == '(';
    ls_text_append(&h->body, i > 0 ? ", " : is_open ? "" : " ");
    ls_hlo_name(h, in[i]);
  }
  return &h->body;
}

void ls_hlo_names(ls_emitter *e, const ls_emitted *in, size_t count) {
  ls_hlo *h = ls_hlo_of(e);
  for (size_t i = 0; i < count; ++i) {
    ls_text_append(&h->body, i > 0 ? ", " : " ");
    ls_hlo_name(h, in[i]);
  }
}

void ls_hlo_types(ls_emitter *e, const ls_emitted *in, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) ls_text_append(&ls_hlo_of(e)->body, ", ");
    ls_hlo_type(ls_hlo_of(e), in[i]);
  }
}

void ls_hlo_end(ls_emitter *e, ls_emitted out) {
  ls_text_append(&ls_hlo_of(e)->body, " : ");
  ls_hlo_type(ls_hlo_of(e), out);
  ls_text_append_char(&ls_hlo_of(e)->body, '\n');
}

void ls_hlo_finish(ls_emitter *e, const ls_emitted *in, size_t count,
                   ls_emitted out) {
  ls_text *text = &ls_hlo_of(e)->body;
  ls_text_append(text, " : (");
  ls_hlo_types(e, in, count);
  ls_text_append(text, ") -> ");
  ls_hlo_type(ls_hlo_of(e), out);
  ls_text_append_char(text, '\n');
}

static void write_numbers(ls_text *text, const int64_t *values, size_t count,
                          char end) {
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) ls_text_append(text, ", ");
    ls_text_append_i64(text, values[i]);
  }
  ls_text_append_char(text, end);
}

// Appends a list: "[1, 2]".
static void append_list(ls_text *text, const int64_t *values, size_t count) {
  ls_text_append_char(text, '[');
  write_numbers(text, values, count, ']');
}

// Appends a list attribute: ", key = [1, 2]".
static void append_attr(ls_text *text, const char *key, const int64_t *values,
                        size_t count) {
  ls_text_append_format(text, ", %s = ", key);
  append_list(text, values, count);
}

// Appends an array attribute: "key = array<i64: 1, 2>".
static void append_array(ls_text *text, const char *key, const int64_t *values,
                         size_t count) {
  ls_text_append_format(text, "%s = array<i64: ", key);
  write_numbers(text, values, count, '>');
}

static int32_t rank_of(const ls_emitter *e, ls_emitted value) {
  return ls_emit_look(e, value)->dims.rank;
}

// ---- Constants -------------------------------------------------------------
// Writes a constant. Bools are converted from bytes, as StableHLO packs them
// into bits.
static void constant(ls_emitter *e, const ls_array *value, ls_emitted out) {
  const bool is_bool = ls_array_dtype(value) == LS_DTYPE_BOOL;
  const ls_batch_dims dims = ls_emit_look(e, out)->dims;
  const ls_emitted made =
      is_bool ? ls_emit_value(e, LS_DTYPE_U8, dims, NULL) : out;
  const unsigned char *data = ls_array_data(value);
  const size_t size = ls_array_size(value);
  ls_text *text = ls_hlo_begin(e, "stablehlo.constant dense<", NULL, 0, made);
  if (size > 0) ls_text_append(text, "\"0x");
  for (size_t i = 0; i < size; ++i) {
    static const char digits[] = "0123456789ABCDEF";
    ls_text_append_char(text, digits[data[i] >> 4]);
    ls_text_append_char(text, digits[data[i] & 15]);
  }
  ls_text_append(text, size > 0 ? "\"> : " : "> : ");
  ls_hlo_type(ls_hlo_of(e), made);
  ls_text_append_char(text, '\n');
  if (!is_bool) return;
  ls_hlo_begin(e, "stablehlo.convert", &made, 1, out);
  ls_hlo_finish(e, &made, 1, out);
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

// Ops whose results have a type of their own.
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

// Returns StableHLO's name of an elementwise op, NULL if it has none.
static const char *element_name(uint16_t op) {
  for (size_t i = 0; i < LS_COUNT_OF(element_names); ++i)
    if (element_names[i].op == op) return element_names[i].name;
  return NULL;
}

static bool element(ls_emitter *e, uint16_t op, const ls_emitted *in,
                    size_t count, ls_emitted out) {
  ls_text *text = &ls_hlo_of(e)->body;
  for (size_t i = 0; i < LS_COUNT_OF(other_names); ++i) {
    if (other_names[i].op != op) continue;
    ls_hlo_begin(e, other_names[i].name, in, count, out);
    ls_hlo_finish(e, in, count, out);
    return true;
  }
  if (op == LS_OP_SELECT) {
    ls_hlo_begin(e, "stablehlo.select", in, 3, out);
    ls_text_append(text, " : ");
    ls_hlo_types(e, in, 2);
    ls_text_append_char(text, '\n');
    return true;
  }
  if (element_name(op) == NULL) return false;
  ls_hlo_begin(e, "stablehlo.", NULL, 0, out);
  ls_text_append(text, element_name(op));
  ls_hlo_names(e, in, count);
  ls_hlo_end(e, out);
  return true;
}

// ---- Shapes ----------------------------------------------------------------
static void reshape(ls_emitter *e, ls_emitted x, ls_emitted out) {
  ls_hlo_begin(e, "stablehlo.reshape", &x, 1, out);
  ls_hlo_finish(e, &x, 1, out);
}

static void broadcast(ls_emitter *e, ls_emitted x, ls_emitted out) {
  const int32_t rank = rank_of(e, x);
  const int32_t more = rank_of(e, out) - rank;
  int64_t dims[LS_MAX_RANK] = {0};
  for (int i = 0; i < rank; ++i)
    dims[i] = i + more;
  ls_text *text = ls_hlo_begin(e, "stablehlo.broadcast_in_dim", &x, 1, out);
  append_attr(text, "dims", dims, (size_t)rank);
  ls_hlo_finish(e, &x, 1, out);
}

static void transpose(ls_emitter *e, ls_emitted x, const int64_t *permutation,
                      ls_emitted out) {
  ls_text *text = ls_hlo_begin(e, "stablehlo.transpose", &x, 1, out);
  append_attr(text, "dims", permutation, (size_t)rank_of(e, x));
  ls_hlo_finish(e, &x, 1, out);
}

static void slice(ls_emitter *e, ls_emitted x, const int64_t *starts,
                  const int64_t *strides, ls_emitted out) {
  const ls_batch_dims dims = ls_emit_look(e, out)->dims;
  ls_text *text = ls_hlo_begin(e, "stablehlo.slice", &x, 1, out);
  ls_text_append(text, " [");
  for (int32_t i = 0; i < dims.rank; ++i) {
    const int64_t size = dims.dim[i].offset;
    // An empty slice may be clamped, and start beyond the end.
    const int64_t start = size > 0 ? starts[i] : 0;
    const int64_t limit = size > 0 ? start + (size - 1) * strides[i] + 1 : 0;
    ls_text_append_format(text, "%s%lld:%lld:%lld", i > 0 ? ", " : "",
                          (long long)start, (long long)limit,
                          (long long)strides[i]);
  }
  ls_text_append_char(text, ']');
  ls_hlo_finish(e, &x, 1, out);
}

static bool pad(ls_emitter *e, ls_emitted x, ls_emitted value,
                const int64_t *low, const int64_t *high,
                const int64_t *interior, ls_emitted out) {
  const ls_emitted in[] = {x, value};
  const size_t rank = (size_t)rank_of(e, x);
  ls_text *text = ls_hlo_begin(e, "stablehlo.pad", in, 2, out);
  append_attr(text, "low", low, rank);
  append_attr(text, "high", high, rank);
  append_attr(text, "interior", interior, rank);
  ls_hlo_finish(e, in, 2, out);
  return true;
}

static void concatenate(ls_emitter *e, const ls_emitted *in, size_t count,
                        int64_t axis, ls_emitted out) {
  ls_text *text = ls_hlo_begin(e, "stablehlo.concatenate", in, count, out);
  ls_text_append_format(text, ", dim = %lld", (long long)axis);
  ls_hlo_finish(e, in, count, out);
}

static void reverse(ls_emitter *e, ls_emitted x, const int64_t *axes,
                    size_t count, ls_emitted out) {
  ls_text *text = ls_hlo_begin(e, "stablehlo.reverse", &x, 1, out);
  append_attr(text, "dims", axes, count);
  ls_hlo_end(e, out);
}

static void iota(ls_emitter *e, int64_t axis, ls_emitted out) {
  ls_text *text = ls_hlo_begin(e, "stablehlo.iota", NULL, 0, out);
  ls_text_append_format(text, " dim = %lld", (long long)axis);
  ls_hlo_end(e, out);
}

static void gather(ls_emitter *e, ls_emitted x, ls_emitted indices,
                   int64_t axis, ls_emitted out) {
  const ls_emitted in[] = {x, indices};
  const ls_batch_dims dims = ls_emit_look(e, x)->dims;
  const int64_t rank = rank_of(e, indices);
  int64_t offsets[LS_MAX_RANK], sizes[LS_MAX_RANK] = {0};
  size_t count = 0;
  for (int32_t i = 0; i < dims.rank; ++i) {
    sizes[i] = i == axis ? 1 : dims.dim[i].offset;
    if (i != axis) offsets[count++] = i < axis ? i : i + rank - 1;
  }
  ls_text *text = ls_hlo_begin(e, "\"stablehlo.gather\"(", in, 2, out);
  ls_text_append(text, ") <{dimension_numbers = #stablehlo.gather<");
  ls_text_append(text, "offset_dims = ");
  append_list(text, offsets, count);
  append_attr(text, "collapsed_slice_dims", &axis, 1);
  append_attr(text, "start_index_map", &axis, 1);
  ls_text_append_format(text, ", index_vector_dim = %lld>, ", (long long)rank);
  append_array(text, "slice_sizes", sizes, (size_t)dims.rank);
  ls_text_append(text, ", indices_are_sorted = false}>");
  ls_hlo_finish(e, in, 2, out);
}

static void dynamic_slice(ls_emitter *e, ls_emitted x, const ls_emitted *starts,
                          ls_emitted out) {
  const ls_batch_dims dims = ls_batch_dims_at(e, out);
  const size_t rank = (size_t)dims.rank;
  int64_t sizes[LS_MAX_RANK];
  ls_emitted in[LS_MAX_RANK + 1] = {x};
  memcpy(in + 1, starts, rank * sizeof(*starts));
  for (int32_t i = 0; i < dims.rank; ++i)
    sizes[i] = dims.dim[i].offset;
  ls_text *text = ls_hlo_begin(e, "stablehlo.dynamic_slice", in, rank + 1, out);
  append_attr(text, "sizes", sizes, rank);
  ls_hlo_finish(e, in, rank + 1, out);
}

static void dynamic_update(ls_emitter *e, ls_emitted x, ls_emitted part,
                           const ls_emitted *starts, ls_emitted out) {
  const size_t rank = (size_t)rank_of(e, x);
  ls_emitted in[LS_MAX_RANK + 2] = {x, part};
  memcpy(in + 2, starts, rank * sizeof(*starts));
  ls_hlo_begin(e, "stablehlo.dynamic_update_slice", in, rank + 2, out);
  ls_hlo_finish(e, in, rank + 2, out);
}

// ---- Sums and products -----------------------------------------------------
// Returns the op that reduces two values, LS_OP_NONE if there is none, and its
// initial value.
static uint16_t reducer(uint16_t op) {
  static const uint16_t ops[][2] = {
      {LS_OP_REDUCE_SUM, LS_OP_ADD},     {LS_OP_REDUCE_MAX, LS_OP_MAXIMUM},
      {LS_OP_REDUCE_MIN, LS_OP_MINIMUM}, {LS_OP_REDUCE_PRODUCT, LS_OP_MUL},
      {LS_OP_REDUCE_AND, LS_OP_AND},     {LS_OP_REDUCE_OR, LS_OP_OR}};
  for (size_t i = 0; i < LS_COUNT_OF(ops); ++i)
    if (ops[i][0] == op) return ops[i][1];
  return LS_OP_NONE;
}

void ls_hlo_combine(ls_emitter *e, uint16_t op, ls_dtype dtype) {
  static const ls_batch_dims scalar;
  ls_text *text = &ls_hlo_of(e)->body;
  const char *const parts[] = {"> ({\n    ^bb0(%a: ", ", %b: ", "):\n"};
  const char *name = element_name(op);
  for (size_t i = 0; i < 3; ++i) {
    ls_text_append(text, parts[i]);
    if (i < 2) ls_hlo_append_type(ls_hlo_of(e), text, dtype, &scalar);
  }
  if (name != NULL) {
    ls_text_append_format(text, "      %%c = stablehlo.%s %%a, %%b : ", name);
    ls_hlo_append_type(ls_hlo_of(e), text, dtype, &scalar);
  }
  ls_text_append_format(
      text, "\n      stablehlo.return %%%s : ", name != NULL ? "c" : "b");
  ls_hlo_append_type(ls_hlo_of(e), text, dtype, &scalar);
  ls_text_append(text, "\n    })");
}

static ls_emitted first_value(ls_emitter *e, uint16_t op, ls_dtype dtype) {
  if (op == LS_OP_REDUCE_MAX || op == LS_OP_REDUCE_MIN)
    return ls_emit_extreme(e, dtype, op == LS_OP_REDUCE_MAX);
  return ls_emit_scalar(
      e, dtype, op == LS_OP_REDUCE_PRODUCT || op == LS_OP_REDUCE_AND ? 1 : 0);
}

static bool reduce(ls_emitter *e, uint16_t op, ls_emitted x,
                   const int64_t *axes, size_t count, ls_emitted out) {
  const char *name = element_name(reducer(op));
  if (name == NULL) return false;
  const ls_emitted in[] = {x, first_value(e, op, ls_emit_look(e, x)->dtype)};
  ls_text *text = ls_hlo_begin(e, "stablehlo.reduce(", &x, 1, out);
  ls_text_append(text, " init: ");
  ls_hlo_name(ls_hlo_of(e), in[1]);
  ls_text_append_format(text,
                        ") applies stablehlo.%s across dimensions = ", name);
  append_list(text, axes, count);
  ls_hlo_finish(e, in, 2, out);
  return true;
}

// Returns an operand of a product, rounded to bf16 where the program asks for
// it.
static ls_emitted product_operand(ls_emitter *e, ls_emitted x) {
  return ls_hlo_of(e)->bf16 && ls_dtype_at(e, x) == LS_DTYPE_F32
             ? ls_emit_convert(e, x, LS_DTYPE_BF16)
             : x;
}

// Returns the precision of products.
static const char *precision_of(ls_emitter *e) {
  return ls_hlo_of(e)->highest ? "HIGHEST" : "DEFAULT";
}

// Writes "%v3 = stablehlo.dot_general %a, %b, ...", with these dimensions.
static void write_dot(ls_emitter *e, const ls_emitted *in, size_t num_batch,
                      const int64_t *left, const int64_t *right, size_t count,
                      ls_emitted out) {
  int64_t batch[LS_MAX_RANK];
  for (size_t i = 0; i < num_batch; ++i)
    batch[i] = (int64_t)i;
  ls_text *text = ls_hlo_begin(e, "stablehlo.dot_general", in, 2, out);
  if (num_batch > 0) {
    append_attr(text, "batching_dims", batch, num_batch);
    ls_text_append(text, " x ");
    append_list(text, batch, num_batch);
  }
  append_attr(text, "contracting_dims", left, count);
  ls_text_append(text, " x ");
  append_list(text, right, count);
  const char *precision = precision_of(e);
  ls_text_append_format(text, ", precision = [%s, %s]", precision, precision);
  ls_hlo_finish(e, in, 2, out);
}

static void dot(ls_emitter *e, ls_emitted a, ls_emitted b, ls_emitted out) {
  const int64_t last = rank_of(e, a) - 1, before = last - 1;
  const ls_emitted in[] = {product_operand(e, a), product_operand(e, b)};
  write_dot(e, in, (size_t)before, &last, &before, 1, out);
}

static void dot_sum(ls_emitter *e, ls_emitted a, ls_emitted b, ls_emitted out) {
  static const int64_t left[] = {0, 2}, right[] = {0, 1};
  const ls_emitted in[] = {product_operand(e, a), product_operand(e, b)};
  write_dot(e, in, 0, left, right, 2, out);
}

// ---- Convolutions and windows ----------------------------------------------

// Writes dimension labels: "[b, 0, 1, f]".
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

static bool write_convolution(ls_emitter *e, ls_emitted x, ls_emitted w,
                              const ls_window *window, int64_t groups,
                              ls_emitted out) {
  const ls_emitted in[] = {product_operand(e, x), product_operand(e, w)};
  const size_t rank = (size_t)window->rank;
  ls_text *text = ls_hlo_begin(e, "stablehlo.convolution(", in, 2, out);
  ls_text_append(text, ") dim_numbers = ");
  places(text, "b", window->rank, "f");
  ls_text_append_char(text, 'x');
  places(text, "", window->rank, "i, o");
  ls_text_append(text, "->");
  places(text, "b", window->rank, "f");
  ls_text_append(text, ", window = {stride = ");
  append_list(text, window->strides, rank);
  ls_text_append(text, ", pad = ");
  padding(text, window, false);
  append_attr(text, "lhs_dilate", window->input_dilations, rank);
  append_attr(text, "rhs_dilate", window->dilations, rank);
  const char *precision = precision_of(e);
  ls_text_append_format(text,
                        "} {batch_group_count = 1 : i64, feature_group_count "
                        "= %lld : i64, precision_config = "
                        "[#stablehlo<precision %s>, "
                        "#stablehlo<precision %s>]}",
                        (long long)groups, precision, precision);
  ls_hlo_finish(e, in, 2, out);
  return true;
}

// Writes numbers of the spatial dimensions, with 1 before and after them.
static void around(ls_text *text, const char *key, const int64_t *values,
                   int32_t rank) {
  int64_t all[LS_MAX_RANK];
  all[0] = all[rank + 1] = 1;
  for (int32_t i = 0; i < rank; ++i)
    all[i + 1] = values[i];
  append_array(text, key, all, (size_t)rank + 2);
}

static bool write_windows(ls_emitter *e, uint16_t op, ls_emitted x,
                          const ls_window *w, ls_emitted out) {
  const ls_dtype dtype = ls_emit_look(e, x)->dtype;
  const ls_emitted in[] = {x, first_value(e, op, dtype)};
  ls_text *text = ls_hlo_begin(e, "\"stablehlo.reduce_window\"(", in, 2, out);
  ls_text_append(text, ") <{");
  around(text, "window_dimensions", w->taps, w->rank);
  ls_text_append(text, ", ");
  around(text, "window_strides", w->strides, w->rank);
  ls_text_append(text, ", ");
  around(text, "window_dilations", w->dilations, w->rank);
  ls_text_append(text, ", padding = dense<");
  padding(text, w, true);
  ls_text_append_format(text, "> : tensor<%dx2xi64>}", w->rank + 2);
  ls_hlo_combine(e, reducer(op), dtype);
  ls_hlo_finish(e, in, 2, out);
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
                                                .dot_sum = dot_sum,
                                                .convolve = write_convolution,
                                                .slide = write_windows,
                                                .slice = slice,
                                                .pad = pad,
                                                .concatenate = concatenate,
                                                .reverse = reverse,
                                                .gather = gather,
                                                .dynamic_update =
                                                    dynamic_update,
                                                .iota = iota,
                                                .dynamic_slice = dynamic_slice,
                                                .scatter = ls_hlo_scatter,
                                                .sort = ls_hlo_sort,
                                                .flow = &ls_stablehlo_flow};
