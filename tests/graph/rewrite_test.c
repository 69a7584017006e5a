// SPDX-License-Identifier: Apache-2.0
//
// Changing a lowered graph: who uses what stays known, and nodes stand where
// they were put.
#include "support/expect.h"

#include <string.h>

#include "graph/graph.h"
#include "graph/passes/rewrite.h"
#include "graph/verify/verify.h"
#include "support/function.h"

static const char chain_text[] =
    "graph lowered \"g\" {\n"
    "  %1 = parameter() {dtype = f32, shape = shape[2], index = 0} : f32[2]\n"
    "  %2 = neg(%1) : f32[2]\n"
    "  %3 = exp(%2) : f32[2]\n"
    "  %4 = mul(%2, %2) : f32[2]\n"
    "  %5 = add(%3, %4) : f32[2]\n"
    "  return %5, %2\n"
    "}\n";

static const char branch_text[] =
    "graph lowered \"g\" {\n"
    "  %1 = parameter() {dtype = bool, shape = shape[], index = 0} : bool[]\n"
    "  %2 = parameter() {dtype = f32, shape = shape[2], index = 1} : f32[2]\n"
    "  %3 = neg(%2) : f32[2]\n"
    "  %4 = cond(%1, %3, %3) (graph lowered \"yes\" {\n"
    "    %1 = parameter() {dtype = f32, shape = shape[2], index = 0} captures "
    "(%3) : f32[2]\n"
    "    %2 = exp(%1) : f32[2]\n"
    "    return %2\n"
    "  }, graph lowered \"no\" {\n"
    "    %1 = parameter() {dtype = f32, shape = shape[2], index = 0} captures "
    "(%3) : f32[2]\n"
    "    return %1\n"
    "  }) : f32[2]\n"
    "  return %4\n"
    "}\n";

static ls_graph *parse(const char *text) {
  ls_graph *graph = NULL;
  expect_ok(ls_graph_parse(text, NULL, 0, &graph));
  return graph;
}

// What is there now, without the first line and the last ones.
static void expect_text(const ls_graph *graph, const char *want) {
  expect_ok(ls_graph_verify(graph));
  LS_OWN(printed, text) = graph_text(graph);
  expect_contains(text, want);
}

static ls_rewrite begin(ls_graph *graph) {
  ls_rewrite r;
  expect_ok(ls_rewrite_begin(&r, graph));
  return r;
}

TEST(uses_are_operands_and_results) {
  LS_OWN(ls_held_graph, graph) = parse(chain_text);
  ls_rewrite r = begin(graph);
  assert_int_equal(ls_rewrite_count_uses(&r, 2), 4);
  assert_int_equal(ls_rewrite_count_leaving(&r, 2), 1);
  const ls_node_use *use = ls_rewrite_first_use(&r, 2);
  assert_int_equal(use->user->id, 3);
  use = ls_rewrite_next_use(&r, ls_rewrite_next_use(&r, use));
  assert_int_equal(use->user->id, 4);
  assert_int_equal(use->input, 1);
  assert_ptr_equal(use, ls_rewrite_last_use(&r, 2));
  assert_int_equal(ls_rewrite_previous_use(&r, use)->input, 0);
  assert_null(ls_rewrite_next_use(&r, use));
  assert_null(ls_rewrite_first_use(&r, 5));
  assert_non_null(ls_rewrite_match(&r, ls_ref(2, 0), LS_OP_NEG));
  assert_null(ls_rewrite_match(&r, ls_ref(2, 0), LS_OP_EXP));
  expect_ok(ls_rewrite_end(&r));
}

TEST(nodes_come_and_go_and_move) {
  LS_OWN(ls_held_graph, graph) = parse(chain_text);
  ls_rewrite r = begin(graph);
  ls_node *made = NULL, *exp = ls_graph_node(graph, 3);
  const uint64_t x = ls_ref(1, 0);
  expect_ok(ls_rewrite_insert(&r, ls_graph_node(graph, 5),
                              &(ls_op_spec){.type = LS_OP_ABS, .num_inputs = 1},
                              &x, ls_graph_type(graph, x), &made));
  ls_rewrite_set_input(&r, ls_graph_node(graph, 5), 1, ls_ref(made->id, 0));
  ls_rewrite_erase(&r, ls_graph_node(graph, 4));
  ls_rewrite_move_behind(&r, exp, made);
  expect_ok(ls_rewrite_end(&r));
  expect_text(graph, "  %2 = neg(%1) : f32[2]\n"
                     "  %3 = abs(%1) : f32[2]\n"
                     "  %4 = exp(%2) : f32[2]\n"
                     "  %5 = add(%4, %3) : f32[2]\n"
                     "  return %5, %2\n");
}

TEST(a_result_more_moves_those_behind_it) {
  LS_OWN(ls_held_graph, graph) =
      parse("graph lowered \"g\" {\n"
            "  %1 = parameter() {dtype = f32, shape = shape[2], "
            "index = 0} : f32[2]\n"
            "  %2:2 = barrier(%1, %1) : f32[2], f32[2]\n"
            "  %3 = sub(%2, %2:1) : f32[2]\n"
            "  return %2:1, %3\n"
            "}\n");
  ls_rewrite r = begin(graph);
  ls_node *barrier = ls_graph_node(graph, 2);
  const uint64_t all[] = {ls_ref(1, 0), ls_ref(1, 0), ls_ref(1, 0)};
  expect_ok(
      ls_rewrite_add_output(&r, barrier, 1, ls_graph_type(graph, all[0])));
  expect_ok(ls_rewrite_set_inputs(&r, barrier, all, 3));
  assert_int_equal(ls_rewrite_count_uses(&r, 1), 3);
  expect_ok(ls_rewrite_end(&r));
  expect_text(graph, "  %3 = sub(%2:0, %2:2) : f32[2]\n"
                     "  return %2:2, %3\n");
}

TEST(what_regions_capture_is_kept_the_same) {
  LS_OWN(ls_held_graph, graph) = parse(branch_text);
  ls_rewrite r = begin(graph);
  for (uint32_t input = 1; input < 3; ++input)
    ls_rewrite_set_input(&r, ls_graph_node(graph, 4), input, ls_ref(2, 0));
  ls_rewrite_erase(&r, ls_graph_node(graph, 3));
  expect_ok(ls_rewrite_end(&r));
  expect_text(graph, "  %3 = cond(%1, %2, %2)");
  expect_text(graph, "captures (%2)");
}
