// SPDX-License-Identifier: Apache-2.0
#include "serve/stablehlo.h"

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "graph/variables/variable.h"

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

static void hlo_type_of(ls_text *out, ls_dtype dtype,
                        const ls_batch_dims *dims) {
  const char *name = dtype_name(dtype);
  ls_text_append(out, "tensor<");
  for (int32_t i = 0; i < dims->rank; ++i) {
    ls_text_append_i64(out, dims->dim[i].offset);
    ls_text_append_char(out, 'x');
  }
  ls_text_append(out, name != NULL ? name : "none");
  ls_text_append_char(out, '>');
}

void ls_hlo_type(ls_hlo *h, ls_emitted value) {
  const ls_emitted_value *v = ls_emit_look(&h->e, value);
  if (dtype_name(v->dtype) == NULL)
    ls_emit_refuse(&h->e, ls_dtype_name(v->dtype));
  hlo_type_of(&h->body, v->dtype, &v->dims);
}

void ls_hlo_name(ls_hlo *h, ls_emitted value) {
  ls_emit_name(&h->e, value, &h->body);
}

static void hlo_string(ls_text *out, const char *text) {
  ls_text_append_char(out, '"');
  for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; ++at)
    if (*at < ' ' || *at > '~' || *at == '"' || *at == '\\')
      ls_text_append_format(out, "\\%02X", *at);
    else
      ls_text_append_char(out, (char)*at);
  ls_text_append_char(out, '"');
}

// ---- The function ----------------------------------------------------------
static void write_argument(ls_hlo *h, ls_text *out, size_t index,
                           const char *mark, const char *name) {
  const ls_program *program = h->e.program->programs[0];
  const uint64_t ref = program->body->parameters[index];
  const ls_type type = ls_graph_type(program->body, ref);
  const ls_batch_dims dims = ls_lowered_dims(h->e.program, ref);
  const char *own = ls_arena_format(h->e.memory, "%%arg%zu", index);
  if (own == NULL) {
    ls_emit_fail(&h->e, ls_out_of_memory());
    return;
  }
  if (dtype_name(type.dtype) == NULL)
    ls_emit_refuse(&h->e, ls_dtype_name(type.dtype));
  ls_emit_bind(&h->e, ref, ls_emit_value(&h->e, type.dtype, dims, own));
  ls_text_append_format(out, "%s%s: ", index > 0 ? ", " : "", own);
  hlo_type_of(out, type.dtype, &dims);
  ls_text_append_format(out, " {ls.%s = ", mark);
  hlo_string(out, name);
  ls_text_append_char(out, '}');
}

static void write_arguments(ls_hlo *h, ls_text *out) {
  const ls_program *program = h->e.program->programs[0];
  const ls_serve_signature *s = h->e.program->signature;
  for (size_t i = 0; i < s->num_inputs; ++i)
    write_argument(h, out, i, "input", s->inputs[i].name);
  for (size_t i = 0; i < program->num_uses; ++i)
    write_argument(h, out, program->num_inputs + i, "variable",
                   ((const ls_variable *)program->uses[i].variable)->name);
}

static ls_emitted output(ls_hlo *h, size_t index) {
  const ls_lowered_signature *program = h->e.program;
  return ls_emit_of(&h->e,
                    ls_lowered_body(program)->results[program->outputs[index]]);
}

static void write_results(ls_hlo *h, ls_text *out) {
  const ls_serve_signature *s = h->e.program->signature;
  for (size_t i = 0; i < s->num_outputs; ++i) {
    const ls_emitted_value *value = ls_emit_look(&h->e, output(h, i));
    if (i > 0) ls_text_append(out, ", ");
    hlo_type_of(out, value->dtype, &value->dims);
    ls_text_append(out, " {ls.output = ");
    hlo_string(out, s->outputs[i].name);
    ls_text_append_char(out, '}');
  }
}

static void write_return(ls_hlo *h) {
  const size_t count = h->e.program->signature->num_outputs;
  ls_text_append(&h->body, "    return ");
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) ls_text_append(&h->body, ", ");
    ls_hlo_name(h, output(h, i));
  }
  ls_text_append(&h->body, " : ");
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) ls_text_append(&h->body, ", ");
    ls_hlo_type(h, output(h, i));
  }
  ls_text_append_char(&h->body, '\n');
}

static void hlo_deinit(ls_hlo *h) {
  ls_text_deinit(&h->body);
  ls_emitter_deinit(&h->e);
}
LS_OWNED_STRUCT(ls_hlo, hlo_deinit)

ls_status ls_write_stablehlo(const ls_lowered_signature *program,
                             ls_arena *memory, ls_text *out) {
  LS_OWN(ls_hlo, h) = {0};
  ls_emitter_init(&h.e, &ls_stablehlo_language, program, memory, &h);
  ls_text_init(&h.body, memory->allocator);
  ls_text_append(out, "module @lockstep {\n  func.func public @main(");
  if (ls_status_is_ok(h.e.status)) write_arguments(&h, out);
  ls_text_append(out, ") -> (");
  ls_status_free(ls_emit_program(&h.e));
  if (ls_status_is_ok(h.e.status)) {
    write_return(&h);
    write_results(&h, out);
  }
  ls_text_append(out, ") {\n");
  ls_text_append_bytes(out, ls_text_data(&h.body), h.body.size);
  ls_text_append(out, "  }\n}\n");
  LS_RETURN_IF_ERROR(ls_status_clone(h.e.status));
  LS_RETURN_IF_ERROR(ls_text_status(&h.body));
  return ls_text_status(out);
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

bool ls_hlo_convolve(ls_emitter *e, ls_emitted x, ls_emitted w,
                     const ls_window *window, int64_t groups, ls_emitted out) {
  const ls_emitted in[] = {x, w};
  const size_t rank = (size_t)window->rank;
  ls_text *text = ls_hlo_begin(e, "stablehlo.convolution(", out);
  ls_hlo_name(ls_hlo_of(e), x);
  ls_text_append(text, ", ");
  ls_hlo_name(ls_hlo_of(e), w);
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
  ls_text_append_format(text,
                        "} {batch_group_count = 1 : i64, feature_group_count "
                        "= %lld : i64, precision_config = "
                        "[#stablehlo<precision HIGHEST>, "
                        "#stablehlo<precision HIGHEST>]}",
                        (long long)groups);
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
  const ls_batch_dims scalar = {0};
  ls_text *text = ls_hlo_begin(e, "\"stablehlo.reduce_window\"(", out);
  ls_hlo_name(ls_hlo_of(e), x);
  ls_text_append(text, ", ");
  ls_hlo_name(ls_hlo_of(e), in[1]);
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
  hlo_type_of(text, dtype, &scalar);
  ls_text_append(text, ", %b: ");
  hlo_type_of(text, dtype, &scalar);
  ls_text_append_format(text,
                        "):\n      %%c = %s %%a, %%b : ", ls_hlo_reducer(op));
  hlo_type_of(text, dtype, &scalar);
  ls_text_append(text, "\n      stablehlo.return %c : ");
  hlo_type_of(text, dtype, &scalar);
  ls_text_append(text, "\n    })");
  ls_hlo_finish(e, in, 2, out);
  return true;
}
