// SPDX-License-Identifier: Apache-2.0
#include "emit/stablehlo.h"

#include "base/runtime_internal.h"

// Returns StableHLO's name of a dtype; NULL if it has none.
static const char *dtype_name(ls_dtype dtype) {
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
  const char *name = dtype_name(dtype);
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

ls_emitted ls_hlo_operand(ls_emitter *e, ls_emitted x) {
  return ls_hlo_of(e)->bf16 && ls_dtype_at(e, x) == LS_DTYPE_F32
             ? ls_emit_convert(e, x, LS_DTYPE_BF16)
             : x;
}

bool ls_hlo_convolve(ls_emitter *e, ls_emitted x, ls_emitted w,
                     const ls_window *window, int64_t groups, ls_emitted out) {
  const ls_emitted in[] = {ls_hlo_operand(e, x), ls_hlo_operand(e, w)};
  const size_t rank = (size_t)window->rank;
  ls_text *text = ls_hlo_begin(e, "stablehlo.convolution(", in, 2, out);
  ls_text_append(text, ") dim_numbers = ");
  places(text, "b", window->rank, "f");
  ls_text_append_char(text, 'x');
  places(text, "", window->rank, "i, o");
  ls_text_append(text, "->");
  places(text, "b", window->rank, "f");
  ls_text_append(text, ", window = {stride = ");
  ls_hlo_list(text, window->strides, rank);
  ls_text_append(text, ", pad = ");
  padding(text, window, false);
  ls_hlo_attr(text, "lhs_dilate", window->input_dilations, rank);
  ls_hlo_attr(text, "rhs_dilate", window->dilations, rank);
  const char *precision = ls_hlo_precision(ls_hlo_of(e));
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
  ls_hlo_array(text, key, all, (size_t)rank + 2);
}

bool ls_hlo_slide(ls_emitter *e, uint16_t op, ls_emitted x, const ls_window *w,
                  ls_emitted out) {
  const ls_dtype dtype = ls_emit_look(e, x)->dtype;
  const ls_emitted in[] = {x, ls_hlo_first(e, op, dtype)};
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
  ls_hlo_combine(e, ls_hlo_reducer(op), dtype);
  ls_hlo_finish(e, in, 2, out);
  return true;
}
