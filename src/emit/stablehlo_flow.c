// SPDX-License-Identifier: Apache-2.0
//
// Writes StableHLO's ops that have regions, and collectives. Devices are XLA's
// replicas.
#include "emit/stablehlo.h"

// ---- Updates and orders -----------------------------------------------------
static const ls_batch_dims scalar;

void ls_hlo_scatter(ls_emitter *e, uint16_t op, ls_emitted x,
                    ls_emitted indices, ls_emitted updates, ls_emitted out) {
  const ls_emitted in[] = {x, indices, updates};
  ls_text *text = ls_hlo_begin(e, "\"stablehlo.scatter\"(", in, 3, out);
  ls_text_append(text,
                 ") <{scatter_dimension_numbers = #stablehlo.scatter<"
                 "update_window_dims = [1], inserted_window_dims = [0], "
                 "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, "
                 "indices_are_sorted = false, unique_indices = false}");
  ls_hlo_combine(e, op, ls_dtype_at(e, x));
  ls_hlo_finish(e, in, 3, out);
}

// Writes a line of a comparison of %a0 and %b0.
static void write_compare(ls_hlo *h, const char *name, const char *how,
                          const char *operands, ls_dtype dtype) {
  ls_text *text = &h->body;
  ls_text_append_format(text, "      %%%s = stablehlo.compare %s, %s : (", name,
                        how, operands);
  ls_hlo_append_type(h, text, dtype, &scalar);
  ls_text_append(text, ", ");
  ls_hlo_append_type(h, text, dtype, &scalar);
  ls_text_append(text, ") -> tensor<i1>\n");
}

// A NaN is larger than any number; -0 and 0 are equal.
void ls_hlo_sort(ls_emitter *e, const ls_emitted *in, size_t count,
                 int64_t axis, bool descending, const ls_emitted *out) {
  ls_hlo *h = ls_hlo_of(e);
  ls_text *text = &h->body;
  const ls_dtype dtype = ls_dtype_at(e, in[0]);
  ls_text_append(text, "   ");
  ls_hlo_names(e, out, count);
  ls_text_append(text, " = \"stablehlo.sort\"(");
  ls_hlo_names(e, in, count);
  ls_text_append_format(
      text, ") <{dimension = %lld : i64, is_stable = true}> ({\n    ^bb0(",
      (long long)axis);
  for (size_t i = 0; i < 2 * count; ++i) {
    ls_text_append_format(text, "%s%%%c%zu: ", i > 0 ? ", " : "", "ab"[i % 2],
                          i / 2);
    ls_hlo_append_type(h, text, ls_dtype_at(e, in[i / 2]), &scalar);
  }
  ls_text_append(text, "):\n");
  write_compare(h, "c", descending ? "GT" : "LT", "%a0, %b0", dtype);
  if (ls_dtype_is_float(dtype)) {
    write_compare(h, "d", "NE", descending ? "%a0, %a0" : "%b0, %b0", dtype);
    write_compare(h, "e", "EQ", descending ? "%b0, %b0" : "%a0, %a0", dtype);
    ls_text_append(text, "      %f = stablehlo.and %d, %e : tensor<i1>\n"
                         "      %g = stablehlo.or %c, %f : tensor<i1>\n");
  }
  ls_text_append_format(text,
                        "      stablehlo.return %%%c : tensor<i1>\n    }) : (",
                        ls_dtype_is_float(dtype) ? 'g' : 'c');
  for (size_t i = 0; i < 2 * count; ++i) {
    if (i > 0) ls_text_append(text, i == count ? ") -> (" : ", ");
    ls_hlo_type(h, i < count ? in[i] : out[i - count]);
  }
  ls_text_append(text, ")\n");
}

// Begins an op of several results: " %v1, %v2 = OP(%v0) ".
static void begin_op(ls_emitter *e, const char *op, ls_emitted_list in,
                     ls_emitted_list results) {
  ls_text *text = &ls_hlo_of(e)->body;
  ls_text_append(text, "   ");
  ls_hlo_names(e, results.items, results.count);
  ls_text_append_format(text, " = \"%s\"(", op);
  ls_hlo_names(e, in.items, in.count);
  ls_text_append(text, ") ");
}

// Ends one: "END : (types) -> (types)".
static void end_op(ls_emitter *e, const char *end, ls_emitted_list in,
                   ls_emitted_list results) {
  ls_text *text = &ls_hlo_of(e)->body;
  ls_text_append_format(text, "%s : (", end);
  ls_hlo_types(e, in.items, in.count);
  ls_text_append(text, ") -> (");
  ls_hlo_types(e, results.items, results.count);
  ls_text_append(text, ")\n");
}

static void write_parameters(ls_hlo *h, ls_emitted_list parameters) {
  ls_text_append(&h->body, "    ^bb0(");
  for (size_t i = 0; i < parameters.count; ++i) {
    if (i > 0) ls_text_append(&h->body, ", ");
    ls_hlo_name(h, parameters.items[i]);
    ls_text_append(&h->body, ": ");
    ls_hlo_type(h, parameters.items[i]);
  }
  ls_text_append(&h->body, "):\n");
}

static void write_return(ls_emitter *e, ls_emitted_list values) {
  ls_text *text = &ls_hlo_of(e)->body;
  ls_text_append(text, "    stablehlo.return");
  ls_hlo_names(e, values.items, values.count);
  ls_text_append(text, " : ");
  ls_hlo_types(e, values.items, values.count);
  ls_text_append_char(text, '\n');
}

// ---- Loops and branches ----------------------------------------------------
static void while_begin(ls_emitter *e, ls_emitted_list initial,
                        ls_emitted_list parameters, ls_emitted_list results) {
  begin_op(e, "stablehlo.while", initial, results);
  ls_text_append(&ls_hlo_of(e)->body, "({\n");
  write_parameters(ls_hlo_of(e), parameters);
}

static void if_next(ls_emitter *e, ls_emitted_list values) {
  write_return(e, values);
  ls_text_append(&ls_hlo_of(e)->body, "    }, {\n");
}

static void while_next(ls_emitter *e, ls_emitted condition,
                       ls_emitted_list parameters) {
  if_next(e, (ls_emitted_list){&condition, 1});
  write_parameters(ls_hlo_of(e), parameters);
}

static void while_end(ls_emitter *e, ls_emitted_list values,
                      ls_emitted_list initial) {
  write_return(e, values);
  end_op(e, "    })", initial, initial);
}

static void if_begin(ls_emitter *e, ls_emitted predicate,
                     ls_emitted_list results) {
  begin_op(e, "stablehlo.if", (ls_emitted_list){&predicate, 1}, results);
  ls_text_append(&ls_hlo_of(e)->body, "({\n");
}

static void if_end(ls_emitter *e, ls_emitted_list values) {
  write_return(e, values);
  ls_text_append(&ls_hlo_of(e)->body, "    }) : (tensor<i1>) -> (");
  ls_hlo_types(e, values.items, values.count);
  ls_text_append(&ls_hlo_of(e)->body, ")\n");
}

// ---- Devices ---------------------------------------------------------------
static void device(ls_emitter *e, ls_emitted out) {
  ls_hlo_begin(e, "stablehlo.replica_id", NULL, 0, out);
  ls_hlo_end(e, out);
}

// Appends "replica_groups = ...": one group of all devices.
static void write_groups(ls_emitter *e, ls_text *text) {
  ls_text_append(text, "replica_groups = dense<[[");
  for (int32_t i = 0; i < e->num_devices; ++i)
    ls_text_append_format(text, "%s%d", i > 0 ? ", " : "", i);
  ls_text_append_format(text, "]]> : tensor<1x%dxi64>", e->num_devices);
}

static void all_reduce(ls_emitter *e, uint16_t op, ls_emitted x,
                       ls_emitted out) {
  ls_text *text = ls_hlo_begin(e, "\"stablehlo.all_reduce\"(", &x, 1, out);
  ls_text_append(text, ") <{");
  write_groups(e, text);
  ls_text_append_char(text, '}');
  ls_hlo_combine(e, op, ls_dtype_at(e, x));
  ls_hlo_finish(e, &x, 1, out);
}

static void settle(ls_emitter *e, ls_emitted x, ls_emitted out) {
  ls_hlo_begin(e, "stablehlo.optimization_barrier", &x, 1, out);
  ls_hlo_end(e, out);
}

static void all_gather(ls_emitter *e, ls_emitted x, ls_emitted out) {
  ls_text *text = ls_hlo_begin(e, "\"stablehlo.all_gather\"(", &x, 1, out);
  ls_text_append(text, ") <{all_gather_dim = 0 : i64, ");
  write_groups(e, text);
  ls_text_append(text, "}>");
  ls_hlo_finish(e, &x, 1, out);
}

static void call_host(ls_emitter *e, size_t site, ls_emitted_list in,
                      ls_emitted_list out) {
  begin_op(e, "stablehlo.custom_call", in, out);
  ls_text_append_format(&ls_hlo_of(e)->body,
                        "<{call_target_name = \"lockstep_host\", api_version "
                        "= 4 : i32, backend_config = {site = %zu : i64}, "
                        "has_side_effect = true}>",
                        site);
  end_op(e, "", in, out);
}

const ls_emit_flow ls_stablehlo_flow = {.while_begin = while_begin,
                                        .while_next = while_next,
                                        .while_end = while_end,
                                        .if_begin = if_begin,
                                        .if_next = if_next,
                                        .if_end = if_end,
                                        .device = device,
                                        .all_reduce = all_reduce,
                                        .settle = settle,
                                        .all_gather = all_gather,
                                        .call_host = call_host};
