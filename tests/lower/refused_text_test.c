// SPDX-License-Identifier: Apache-2.0
//
// Graphs from text, which pass the verifier, run or are refused: no attribute
// of a text is trusted.
#include <stdio.h>

#include "graph/own.h"
#include "lockstep/graph_ops.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/values.h"

// Runs the op 'y' of a text.
static ls_status run_text(const char *text, ls_nest *out_value) {
  LS_OWN(ls_graph, graph) = NULL;
  LS_OWN(ls_session, session) = NULL;
  ls_op op;
  *out_value = ls_none();
  expect_ok(ls_graph_parse(text, NULL, 0, &graph));
  expect_ok(ls_session_create(graph, &session));
  expect_ok(ls_graph_lookup_op(graph, "y", &op));
  return ls_session_run(session, ls_leaf(ls_op_output(op, 0)), NULL, 0,
                        out_value);
}

static void expect_refused(const char *text, const char *part) {
  LS_OWN(ls_nest, value) = ls_none();
  expect_status(run_text(text, &value), LS_INVALID_ARGUMENT, part);
}

// ---- Marks -----------------------------------------------------------------
static void expect_empty_report(const char *mark) {
  char text[200];
  snprintf(text, sizeof(text),
           "graph build \"g\" {\n"
           "  %%1 = tpu_compilation_result() {_told = %s} # \"y\" : string[]\n"
           "}\n",
           mark);
  LS_OWN(ls_nest, value) = ls_none();
  expect_ok(run_text(text, &value));
  const ls_bytes *report = ls_array_data(ls_nest_as_array(value));
  assert_int_equal(report->size, 0);
}

TEST(a_compilation_report_is_an_array_of_a_string) {
  expect_empty_report("12345");
  expect_empty_report("\"text\"");
  expect_empty_report("f32[] [1]");
  expect_empty_report("string[2] [\"a\", \"b\"]");
}

// ---- Replicas --------------------------------------------------------------
#define REPLICATE(op)                                                          \
  "graph build \"g\" {\n"                                                      \
  "  %1 = constant() {value = f32[4] [1, 2, 3, 4]} : f32[4]\n"                 \
  "  %2:2 = replicate(%1, %1) {replicas = 2, num_split = 1, "                  \
  "num_gathered = 1} # \"y\" (graph region \"b\" {\n"                          \
  "    %1 = parameter() {dtype = f32, shape = shape[4], index = 0} : f32[4]\n" \
  "    %2 = " op "\n"                                                          \
  "    return %2\n"

TEST(collectives_have_the_number_of_replicas_around_them) {
  expect_refused(REPLICATE("reduce_scatter(%1) {reduce = \"sum\", axis = 0, "
                           "replicas = 4} : f32[1]") "  }) : f32[1], f32[1]\n"
                                                     "}\n",
                 "reduce_scatter was made for 4 replicas; there are 2");
  expect_refused(
      REPLICATE(
          "all_gather(%1) {axis = 0, replicas = 1} : f32[4]") "  }) : f32[4], "
                                                              "f32[4]\n"
                                                              "}\n",
      "all_gather was made for 1 replicas; there are 2");
  expect_refused(
      "graph build \"g\" {\n"
      "  %1 = constant() {value = f32[2] [1, 2]} : f32[2]\n"
      "  %2 = all_gather(%1) {axis = 0, replicas = 4} # \"y\" : f32[8]\n"
      "}\n",
      "all_gather was made for 4 replicas; there are 1");
}

// ---- Sizes and constants ---------------------------------------------------
TEST(a_sum_to_an_unknown_size_is_refused) {
  expect_refused("graph build \"g\" {\n"
                 "  %1 = constant() {value = f32[3] [1, 2, 3]} : f32[3]\n"
                 "  %2 = sum_to(%1) {sizes = sizes[-1]} # \"y\" : f32[?]\n"
                 "}\n",
                 "sum_to f32[?]: its sizes are not known");
}

static uint32_t bits_of(const char *shape, const char *value) {
  char text[600];
  snprintf(text, sizeof(text),
           "graph build \"g\" {\n"
           "  %%1 = constant() {value = f32%s [%s]} : f32%s\n"
           "  %%2 = neg(%%1) : f32%s\n"
           "  %%3 = bitcast(%%2) {dtype = u32} # \"y\" : u32%s\n"
           "}\n",
           shape, value, shape, shape, shape);
  LS_OWN(ls_nest, result) = ls_none();
  expect_ok(run_text(text, &result));
  return *(const uint32_t *)ls_array_data(ls_nest_as_array(result));
}

TEST(folding_keeps_the_bits_of_every_nan) {
  static const char *const nans[] = {"nan(0x7f800001)", "nan(0xffc00001)",
                                     "nan"};
  for (size_t i = 0; i < 3; ++i)
    assert_int_equal(bits_of("[]", nans[i]), bits_of("[1]", nans[i]));
}
