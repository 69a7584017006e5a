// SPDX-License-Identifier: Apache-2.0
// Collections go through the text of their graph.
#include <string.h>

#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/graph_ops.h"
#include "lockstep/session.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

static ls_graph *loaded(const ls_graph *graph, char **out_text) {
  ls_graph *copy = NULL;
  expect_ok(ls_graph_print(graph, out_text));
  expect_ok(ls_graph_parse(*out_text, NULL, 0, &copy));
  LS_OWN(printed, again) = graph_text(copy);
  assert_string_equal(*out_text, again);
  return copy;
}

TEST(entries_are_again_what_they_were) {
  LS_SPEC("E12");
  LS_OWN(printed, text) = NULL;
  ls_graph *graph = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_variable, a) = f32_variable("w", 3);
    LS_OWN(ls_variable, b) = f32_variable("w", 4);
    const ls_tensor sum = ls_add(ls_variable_read(a), ls_variable_read(b));
    const ls_nest dict_of_names = ls_nest_i64(7);
    const ls_nest leaves[] = {ls_nest_variable(b), ls_leaf(sum),
                              ls_nest_op(ls_tensor_op(sum)), dict_of_names};
    for (size_t i = 0; i < LS_COUNT_OF(leaves); ++i) {
      expect_ok(ls_graph_add_to_collection(graph, "all kinds", leaves[i]));
      ls_nest_release(leaves[i]);
    }
    expect_ok(
        ls_graph_add_to_collection(graph, "only a number", ls_nest_i64(1)));
  }
  ls_graph *copy = loaded(graph, &text);
  expect_contains(text, "collection \"all kinds\" = @\"w_1\", %");
  assert_null(strstr(text, "only a number"));
  ls_graph_destroy(graph);  // The copy stands alone.
  ls_nest leaves[4];
  assert_int_equal(ls_graph_collection(copy, "all kinds", leaves, 4), 3);
  ls_variable *again = ls_nest_as_variable(leaves[0]);
  assert_non_null(again);
  assert_string_equal(ls_variable_name(again), "w_1");
  assert_int_equal(leaves[1].kind, LS_KIND_TENSOR);
  assert_int_equal(leaves[2].kind, LS_KIND_OP);
  const ls_tensor sum = leaves[1].as.tensor;
  // It is a graph to run: what is in "variables" gets its first values.
  LS_OWN(computation, c) = {.graph = copy};
  ls_graph_begin(&c.scope, copy);
  ls_nest variables[3];
  assert_int_equal(
      ls_graph_collection(copy, LS_COLLECTION_GLOBAL_VARIABLES, variables, 3),
      2);
  assert_int_equal(
      ls_graph_collection(copy, LS_COLLECTION_TRAINABLE_VARIABLES, NULL, 0), 2);
  expect_ok(ls_session_create(copy, &c.session));
  for (size_t i = 0; i < 2; ++i)
    computation_initialize(&c, ls_nest_as_variable(variables[i]));
  assert_true(computation_fetch(&c, sum) == 7);
}

TEST(a_variable_that_only_a_collection_has_is_declared) {
  LS_SPEC("E12");
  LS_OWN(ls_graph, graph) = graph_named("g");
  char *text = NULL;
  LS_OWN(ls_variable, eager) =
      variable_of("elsewhere", LS_DTYPE_F32, LS_SHAPE(2), (double[]){1, 2});
  expect_ok(ls_graph_add_to_collection(
      graph, "far", (ls_nest){.kind = LS_KIND_VARIABLE, .as.ref = eager}));
  LS_OWN(ls_graph, copy) = loaded(graph, &text);
  ls_nest leaf = ls_none();
  assert_int_equal(ls_graph_collection(copy, "far", &leaf, 1), 1);
  assert_string_equal(ls_variable_name(ls_nest_as_variable(leaf)), "elsewhere");
  ls_text_release(text);
}

// Of a variable with components the first stands there.
TEST(a_distributed_variable_is_its_first_component) {
  LS_SPEC("E12");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  char *text = NULL;
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    ls_variable_release(variable_in(strategy, (variable_kind){.name = "w"}));
  }
  LS_OWN(ls_graph, copy) = loaded(graph, &text);
  ls_nest leaves[2];
  assert_int_equal(
      ls_graph_collection(copy, LS_COLLECTION_GLOBAL_VARIABLES, leaves, 2), 1);
  assert_string_equal(ls_variable_name(ls_nest_as_variable(leaves[0])), "w");
  assert_null(strstr(text, "#2"));
  ls_text_release(text);
}
