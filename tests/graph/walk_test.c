// SPDX-License-Identifier: Apache-2.0
//
// Walks over ops and what their regions hold.
#include "graph/walk.h"

#include "support/expect.h"

static const char nested_text[] =
    "graph lowered \"g\" {\n"
    "  %1 = parameter() {dtype = bool, shape = shape[], index = 0} : bool[]\n"
    "  %2 = parameter() {dtype = f32, shape = shape[2], index = 1} : f32[2]\n"
    "  %3 = neg(%2) : f32[2]\n"
    "  %4 = cond(%1, %1, %3, %2) (graph lowered \"yes\" {\n"
    "    %1 = parameter() {dtype = bool, shape = shape[], index = 0} captures "
    "(%1) : bool[]\n"
    "    %2 = parameter() {dtype = f32, shape = shape[2], index = 1} captures "
    "(%3) : f32[2]\n"
    "    %3 = cond(%1, %2, %2) (graph lowered \"inner\" {\n"
    "      %1 = parameter() {dtype = f32, shape = shape[2], index = 0} "
    "captures (%2) : f32[2]\n"
    "      %2 = exp(%1) : f32[2]\n"
    "      return %2\n"
    "    }, graph lowered \"other\" {\n"
    "      %1 = parameter() {dtype = f32, shape = shape[2], index = 0} "
    "captures (%2) : f32[2]\n"
    "      return %1\n"
    "    }) : f32[2]\n"
    "    return %3\n"
    "  }, graph lowered \"no\" {\n"
    "    %1 = parameter() {dtype = f32, shape = shape[2], index = 0} captures "
    "(%2) : f32[2]\n"
    "    %2 = log(%1) : f32[2]\n"
    "    return %2\n"
    "  }) : f32[2]\n"
    "  %5 = abs(%4) : f32[2]\n"
    "  return %5\n"
    "}\n";

static ls_graph *parse(const char *text) {
  ls_graph *graph = NULL;
  expect_ok(ls_graph_parse(text, NULL, 0, &graph));
  return graph;
}

// The names of the ops that the walk comes to, but for parameters.
static void expect_walk(ls_graph_walk *walk, const char *want) {
  char text[256] = "";
  while (ls_graph_walk_next(walk)) {
    if (walk->node->type == LS_OP_PARAMETER) continue;
    if (walk->graph != NULL)
      assert_ptr_equal(ls_graph_node(walk->graph, walk->node->id), walk->node);
    strcat(strcat(text, text[0] == '\0' ? "" : " "),
           ls_node_info(walk->node)->name);
  }
  assert_string_equal(text, want);
  assert_false(ls_graph_walk_next(walk));
}

TEST(ops_come_before_what_their_regions_hold) {
  LS_OWN(ls_held_graph, graph) = parse(nested_text);
  ls_graph_walk walk;
  ls_graph_walk_begin(&walk, graph);
  expect_walk(&walk, "neg cond cond exp log abs");
  ls_graph_walk_begin_at(&walk, ls_graph_node(graph, 4));
  expect_walk(&walk, "cond cond exp log");
  ls_graph_walk_begin_at(&walk, ls_graph_node(graph, 5));
  expect_walk(&walk, "abs");
}

TEST(regions_that_are_left_out_are_not_entered) {
  LS_OWN(ls_held_graph, graph) = parse(nested_text);
  ls_graph_walk walk;
  ls_graph_walk_begin(&walk, graph);
  size_t count = 0;
  for (; ls_graph_walk_next(&walk); ++count)
    if (walk.node->type == LS_OP_COND) ls_graph_walk_skip_regions(&walk);
  assert_int_equal(count, graph->num_nodes);
}

TEST(the_deepest_graph_is_walked) {
  LS_OWN(ls_held_graph, outermost) = parse(nested_text);
  ls_graph *at = outermost;
  for (int depth = 1; depth <= LS_MAX_GRAPH_DEPTH; ++depth) {
    ls_graph *region = NULL;
    expect_ok(
        ls_graph_make(LS_GRAPH_LOWERED, "region", at->runtime, at, &region));
    assert_non_null(ls_graph_append(
        at,
        &(ls_op_spec){.type = LS_OP_CALL, .regions = &region, .num_regions = 1},
        NULL, 0));
    at = region;
  }
  assert_non_null(ls_graph_append(
      at, &(ls_op_spec){.type = LS_OP_RANDOM_UNIFORM}, NULL, 1));
  assert_true(ls_graph_any_type(outermost, LS_OP_RANDOM_UNIFORM));
  assert_false(ls_graph_any_type(outermost, LS_OP_HOST));
  const ls_node *last = outermost->nodes[outermost->num_nodes - 1];
  assert_true(ls_node_any_trait(last, LS_OP_RANDOM));
}

TEST(captures_are_the_last_operands) {
  LS_OWN(ls_held_graph, graph) = parse(nested_text);
  const ls_node *node = ls_graph_node(graph, 4);
  assert_int_equal(ls_node_captures(node, 0), 1);
  assert_int_equal(ls_node_captures(node, 1), 3);
  assert_int_equal(ls_node_captures(node, 2), 4);
  assert_int_equal(ls_count_captures(node->regions, 2), 3);
  uint64_t refs[3];
  assert_int_equal(ls_list_capture_refs(node->regions, 2, refs), 3);
  for (size_t i = 0; i < 3; ++i)
    assert_int_equal(refs[i], node->inputs[1 + i]);
  ls_tensor tensors[3];
  assert_int_equal(ls_list_captures(node->regions, 2, tensors), 3);
  assert_ptr_equal(tensors[2].graph, graph);
  assert_int_equal(tensors[2].ref, node->inputs[3]);
}
