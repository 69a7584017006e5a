// SPDX-License-Identifier: Apache-2.0
//
// Writes StableHLO's loops, branches and collectives. Devices are XLA's
// replicas.
#include "emit/stablehlo.h"

static void write_names(ls_hlo *h, ls_emitted_list values) {
  for (size_t i = 0; i < values.count; ++i) {
    if (i > 0) ls_text_append(&h->body, ", ");
    ls_hlo_name(h, values.items[i]);
  }
}

static void write_types(ls_hlo *h, ls_emitted_list values) {
  for (size_t i = 0; i < values.count; ++i) {
    if (i > 0) ls_text_append(&h->body, ", ");
    ls_hlo_type(h, values.items[i]);
  }
}

// Begins an op with regions: " %v1, %v2 = OP(%v0) ({".
static void begin_op(ls_hlo *h, const char *op, ls_emitted_list in,
                     ls_emitted_list results) {
  ls_text_append(&h->body, "    ");
  write_names(h, results);
  ls_text_append_format(&h->body, " = \"%s\"(", op);
  write_names(h, in);
  ls_text_append(&h->body, ") ({\n");
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

static void write_return(ls_hlo *h, ls_emitted_list values) {
  ls_text_append(&h->body, "    stablehlo.return ");
  write_names(h, values);
  ls_text_append(&h->body, " : ");
  write_types(h, values);
  ls_text_append_char(&h->body, '\n');
}

// ---- Loops and branches ----------------------------------------------------
static void while_begin(ls_emitter *e, ls_emitted_list initial,
                        ls_emitted_list parameters, ls_emitted_list results) {
  begin_op(ls_hlo_of(e), "stablehlo.while", initial, results);
  write_parameters(ls_hlo_of(e), parameters);
}

static void while_next(ls_emitter *e, ls_emitted condition,
                       ls_emitted_list parameters) {
  write_return(ls_hlo_of(e), (ls_emitted_list){&condition, 1});
  ls_text_append(&ls_hlo_of(e)->body, "    }, {\n");
  write_parameters(ls_hlo_of(e), parameters);
}

static void while_end(ls_emitter *e, ls_emitted_list values,
                      ls_emitted_list initial) {
  ls_hlo *h = ls_hlo_of(e);
  write_return(h, values);
  ls_text_append(&h->body, "    }) : (");
  write_types(h, initial);
  ls_text_append(&h->body, ") -> (");
  write_types(h, initial);
  ls_text_append(&h->body, ")\n");
}

static void if_begin(ls_emitter *e, ls_emitted predicate,
                     ls_emitted_list results) {
  begin_op(ls_hlo_of(e), "stablehlo.if", (ls_emitted_list){&predicate, 1},
           results);
}

static void if_next(ls_emitter *e, ls_emitted_list values) {
  write_return(ls_hlo_of(e), values);
  ls_text_append(&ls_hlo_of(e)->body, "    }, {\n");
}

static void if_end(ls_emitter *e, ls_emitted_list values) {
  ls_hlo *h = ls_hlo_of(e);
  write_return(h, values);
  ls_text_append(&h->body, "    }) : (tensor<i1>) -> (");
  write_types(h, values);
  ls_text_append(&h->body, ")\n");
}

// ---- Devices ---------------------------------------------------------------
static void device(ls_emitter *e, ls_emitted out) {
  ls_text *text = ls_hlo_begin(e, "stablehlo.replica_id : ", out);
  ls_hlo_type(ls_hlo_of(e), out);
  ls_text_append_char(text, '\n');
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
  ls_hlo *h = ls_hlo_of(e);
  const char *combine =
      ls_hlo_reducer(op == LS_OP_ADD       ? LS_OP_REDUCE_SUM
                     : op == LS_OP_MAXIMUM ? LS_OP_REDUCE_MAX
                                           : LS_OP_REDUCE_MIN);
  const ls_batch_dims scalar = {0};
  const ls_dtype dtype = ls_dtype_at(e, x);
  ls_text *text = ls_hlo_begin(e, "\"stablehlo.all_reduce\"(", out);
  ls_hlo_name(h, x);
  ls_text_append(text, ") <{");
  write_groups(e, text);
  ls_text_append(text, "}> ({\n    ^bb0(%a: ");
  ls_hlo_append_type(h, text, dtype, &scalar);
  ls_text_append(text, ", %b: ");
  ls_hlo_append_type(h, text, dtype, &scalar);
  ls_text_append_format(text, "):\n      %%c = %s %%a, %%b : ", combine);
  ls_hlo_append_type(h, text, dtype, &scalar);
  ls_text_append(text, "\n      stablehlo.return %c : ");
  ls_hlo_append_type(h, text, dtype, &scalar);
  ls_text_append(text, "\n    })");
  ls_hlo_finish(e, &x, 1, out);
}

static void settle(ls_emitter *e, ls_emitted x, ls_emitted out) {
  ls_text *text = ls_hlo_begin(e, "stablehlo.optimization_barrier ", out);
  ls_hlo_name(ls_hlo_of(e), x);
  ls_text_append(text, " : ");
  ls_hlo_type(ls_hlo_of(e), out);
  ls_text_append_char(text, '\n');
}

static void all_gather(ls_emitter *e, ls_emitted x, ls_emitted out) {
  ls_text *text = ls_hlo_begin(e, "\"stablehlo.all_gather\"(", out);
  ls_hlo_name(ls_hlo_of(e), x);
  ls_text_append(text, ") <{all_gather_dim = 0 : i64, ");
  write_groups(e, text);
  ls_text_append(text, "}>");
  ls_hlo_finish(e, &x, 1, out);
}

static void call_host(ls_emitter *e, size_t site, ls_emitted_list in,
                      ls_emitted_list out) {
  ls_hlo *h = ls_hlo_of(e);
  ls_text_append(&h->body, "    ");
  write_names(h, out);
  ls_text_append(&h->body, " = \"stablehlo.custom_call\"(");
  write_names(h, in);
  ls_text_append_format(&h->body,
                        ") <{call_target_name = \"lockstep_host\", api_version "
                        "= 4 : i32, backend_config = {site = %zu : i64}, "
                        "has_side_effect = true}> : (",
                        site);
  write_types(h, in);
  ls_text_append(&h->body, ") -> (");
  write_types(h, out);
  ls_text_append(&h->body, ")\n");
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
