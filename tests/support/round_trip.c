// SPDX-License-Identifier: Apache-2.0
#include "support/round_trip.h"

#include "graph/graph.h"
#include "graph/variables/variable.h"
#include "support/expect.h"

static void expect_same_graph(const ls_graph *a, const ls_graph *b);

static void expect_same_array(const ls_array *a, const ls_array *b) {
  assert_int_equal(ls_array_dtype(a), ls_array_dtype(b));
  assert_true(ls_shape_equal(ls_array_shape(a), ls_array_shape(b)));
  if (ls_array_dtype(a) != LS_DTYPE_STRING) {
    assert_memory_equal(ls_array_data(a), ls_array_data(b), ls_array_size(a));
    return;
  }
  const ls_bytes *x = ls_array_data(a), *y = ls_array_data(b);
  for (int64_t i = 0; i < ls_array_num_elements(a); ++i) {
    assert_int_equal(x[i].size, y[i].size);
    if (x[i].size > 0) assert_memory_equal(x[i].data, y[i].data, x[i].size);
  }
}

static void expect_same_attr(const ls_attr *a, const ls_attr *b) {
  assert_string_equal(a->name, b->name);
  assert_int_equal(a->kind, b->kind);
  switch (a->kind) {
  case LS_ATTR_ARRAY:
    expect_same_array(a->as.array, b->as.array);
    break;
  case LS_ATTR_OBJECT: {
    const ls_variable *x = (const ls_variable *)(const void *)a->as.object;
    const ls_variable *y = (const ls_variable *)(const void *)b->as.object;
    assert_string_equal(x->name, y->name);
    assert_int_equal(x->trainable, y->trainable);
    assert_int_equal(x->initializer.id, y->initializer.id);
    break;
  }
  case LS_ATTR_SHAPE:
    assert_true(ls_shape_equal(a->as.shape, b->as.shape));
    break;
  case LS_ATTR_DTYPE:
    assert_int_equal(a->as.dtype, b->as.dtype);
    break;
  case LS_ATTR_STRING:
    assert_string_equal(a->as.string, b->as.string);
    break;
  case LS_ATTR_INTS:
    assert_int_equal(a->as.ints.count, b->as.ints.count);
    for (size_t i = 0; i < a->as.ints.count; ++i)
      assert_int_equal(a->as.ints.items[i], b->as.ints.items[i]);
    break;
  case LS_ATTR_SIZES:
    assert_int_equal(a->as.sizes.count, b->as.sizes.count);
    for (size_t i = 0; i < a->as.sizes.count; ++i) {
      assert_int_equal(a->as.sizes.items[i].operand,
                       b->as.sizes.items[i].operand);
      assert_int_equal(a->as.sizes.items[i].value, b->as.sizes.items[i].value);
    }
    break;
  case LS_ATTR_STRINGS:
    assert_int_equal(a->as.strings.count, b->as.strings.count);
    for (size_t i = 0; i < a->as.strings.count; ++i)
      assert_string_equal(a->as.strings.items[i], b->as.strings.items[i]);
    break;
  default:  // Numbers and bools, by their bits.
    assert_true(a->kind == LS_ATTR_INT || a->kind == LS_ATTR_FLOAT ||
                a->kind == LS_ATTR_BOOL);
    assert_int_equal(a->as.i, b->as.i);
  }
}

static void expect_same_node(const ls_graph *ga, const ls_graph *gb, ls_node *a,
                             ls_node *b) {
  assert_int_equal(a->id, b->id);
  assert_int_equal(a->type, b->type);
  assert_int_equal(a->num_outputs, b->num_outputs);
  assert_int_equal(a->num_inputs, b->num_inputs);
  assert_int_equal(a->num_control, b->num_control);
  assert_int_equal(a->num_attrs, b->num_attrs);
  assert_int_equal(a->num_regions, b->num_regions);
  assert_int_equal(a->varying, b->varying);
  assert_int_equal(a->not_fed, b->not_fed);
  assert_int_equal(a->not_fetched, b->not_fetched);
  assert_string_equal(ls_node_name((ls_graph *)(uintptr_t)ga, a),
                      ls_node_name((ls_graph *)(uintptr_t)gb, b));
  assert_string_equal(a->device ? a->device : "", b->device ? b->device : "");
  for (uint32_t i = 0; i < a->num_inputs; ++i)
    assert_int_equal(a->inputs[i], b->inputs[i]);
  for (uint32_t i = 0; i < a->num_control; ++i)
    assert_int_equal(a->control[i], b->control[i]);
  for (uint32_t i = 0; i < a->num_outputs; ++i) {
    assert_int_equal(a->outputs[i].dtype, b->outputs[i].dtype);
    assert_true(ls_shape_equal(a->outputs[i].shape, b->outputs[i].shape));
  }
  for (uint32_t i = 0; i < a->num_attrs; ++i)
    expect_same_attr(&a->attrs[i], &b->attrs[i]);
  for (uint32_t i = 0; i < a->num_regions; ++i)
    expect_same_graph(a->regions[i], b->regions[i]);
}

static void expect_same_graph(const ls_graph *a, const ls_graph *b) {
  assert_int_equal(a->kind, b->kind);
  assert_string_equal(a->name, b->name);
  assert_int_equal(a->is_while_body, b->is_while_body);
  assert_int_equal(a->seed, b->seed);
  if (a->parent == NULL) assert_int_equal(a->num_random, b->num_random);
  assert_int_equal(a->num_nodes, b->num_nodes);
  assert_int_equal(a->num_declared, b->num_declared);
  assert_int_equal(a->num_parameters, b->num_parameters);
  assert_int_equal(a->num_captures, b->num_captures);
  assert_int_equal(a->num_results, b->num_results);
  assert_int_equal(a->num_variables, b->num_variables);
  for (size_t i = 0; i < a->num_nodes; ++i)
    expect_same_node(a, b, a->nodes[i], b->nodes[i]);
  for (size_t i = 0; i < a->num_parameters; ++i)
    assert_int_equal(a->parameters[i], b->parameters[i]);
  for (size_t i = 0; i < a->num_captures; ++i) {
    assert_int_equal(a->captures[i].inner, b->captures[i].inner);
    assert_int_equal(a->captures[i].outer.ref, b->captures[i].outer.ref);
    if (a->captures[i].outer.graph == a->parent)
      assert_ptr_equal(b->captures[i].outer.graph, b->parent);
  }
  for (size_t i = 0; i < a->num_results; ++i)
    assert_int_equal(a->results[i], b->results[i]);
}

void expect_round_trip(ls_graph *graph) {
  char *text = NULL, *again = NULL;
  ls_graph *parsed = NULL;
  expect_ok(ls_graph_verify(graph));
  expect_ok(ls_graph_print(graph, &text));
  expect_ok(ls_graph_parse(text, NULL, 0, &parsed));
  expect_same_graph(graph, parsed);
  expect_ok(ls_graph_print(parsed, &again));
  assert_string_equal(text, again);
  ls_text_release(text);
  ls_text_release(again);
  ls_graph_free(parsed);
  ls_graph_free(graph);
}
