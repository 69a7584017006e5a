// SPDX-License-Identifier: Apache-2.0
//
// The text form over graphs that were made by calls: what is parsed equals
// what was printed, node for node, and prints back the same.
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/runtime_internal.h"
#include "graph/own.h"
#include "graph/variables/variable.h"
#include "lockstep/ops.h"
#include "support/attrs.h"
#include "support/callbacks.h"
#include "support/comma.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/round_trip.h"

// ---- Making graphs ---------------------------------------------------------
static ls_node *add(ls_graph *graph, uint16_t type, const uint64_t *inputs,
                    size_t num_inputs, const ls_attr *attrs, size_t num_attrs,
                    ls_type out) {
  const ls_op_spec spec = {.type = type,
                           .num_inputs = num_inputs,
                           .attrs = attrs,
                           .num_attrs = num_attrs};
  const size_t outputs = out.dtype == LS_DTYPE_NONE ? 0 : 1;
  ls_node *node = ls_graph_append(graph, &spec, inputs, outputs);
  assert_non_null(node);
  if (outputs > 0) node->outputs[0] = out;
  if (graph->kind != LS_GRAPH_LOWERED)
    expect_ok(ls_graph_name_node(graph, node, NULL, NULL));
  return node;
}

static ls_type type_of(ls_dtype dtype, ls_shape shape) {
  return (ls_type){dtype, shape};
}

static uint64_t add_constant(ls_graph *graph, ls_dtype dtype, ls_shape shape,
                             const void *data) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create_copy(dtype, shape, data, &array));
  const ls_attr attr = LS_ATTR_A("value", array);
  const ls_node *node =
      add(graph, LS_OP_CONSTANT, NULL, 0, &attr, 1, type_of(dtype, shape));
  return ls_ref(node->id, 0);
}

static ls_graph *make(ls_graph_kind kind, ls_graph *parent) {
  ls_graph *graph = NULL;
  expect_ok(ls_graph_make(kind, "graph", ls_runtime_current(), parent, &graph));
  return graph;
}

// while (false) x = x + y, where y is captured.
static void add_loop(ls_graph *graph, uint64_t x, uint64_t y) {
  const ls_type type = ls_graph_type(graph, x);
  ls_graph *regions[2] = {make(LS_GRAPH_REGION, graph),
                          make(LS_GRAPH_REGION, graph)};
  ls_tensor parameter[2];
  uint64_t captured = 0;
  for (int i = 0; i < 2; ++i)
    expect_ok(ls_graph_add_parameter(regions[i], type, NULL, &parameter[i]));
  const uint64_t no =
      add_constant(regions[0], LS_DTYPE_BOOL, LS_SCALAR, &(uint8_t){0});
  expect_ok(ls_graph_set_results(regions[0], &no, 1));
  expect_ok(ls_graph_import(regions[1], (ls_tensor){graph, y}, &captured));
  const uint64_t terms[] = {parameter[1].ref, captured};
  const uint64_t sum =
      ls_ref(add(regions[1], LS_OP_ADD, terms, 2, NULL, 0, type)->id, 0);
  expect_ok(ls_graph_set_results(regions[1], &sum, 1));
  const ls_attr attr = LS_ATTR_I("num_carried", 1);
  const uint64_t inputs[] = {x, y};
  const ls_op_spec spec = {.type = LS_OP_WHILE,
                           .num_inputs = 2,
                           .attrs = &attr,
                           .num_attrs = 1,
                           .regions = regions,
                           .num_regions = 2};
  ls_node *node = ls_graph_append(graph, &spec, inputs, 1);
  assert_non_null(node);
  node->outputs[0] = type;
  expect_ok(ls_graph_name_node(graph, node, NULL, NULL));
}

static void add_variable(ls_graph *graph, const char *name, uint64_t value) {
  ls_variable *variable = NULL;
  const ls_type type = ls_graph_type(graph, value);
  expect_ok(ls_variable_make(graph->runtime, name, type, true, &variable));
  assert_true(ls_grow(graph->allocator, &graph->variables,
                      &graph->variables_capacity, graph->num_variables + 1,
                      sizeof(*graph->variables)));
  graph->variables[graph->num_variables++] = &variable->object;
  variable->graph = graph;
  const ls_attr attr = LS_ATTR_O("variable", &variable->object);
  const ls_node *node = add(graph, LS_OP_ASSIGN, &value, 1, &attr, 1, type);
  variable->initializer = (ls_op){graph, node->id};
  add(graph, LS_OP_READ, NULL, 0, &attr, 1, type);
}

// A build graph with something of everything.
static ls_graph *make_example(void) {
  ls_graph *graph = make(LS_GRAPH_BUILD, NULL);
  const float numbers[] = {1, 0.1f, -0.0f, 1e-45f};
  const ls_name_scope *scope = NULL;
  const uint64_t x = add_constant(graph, LS_DTYPE_F32, LS_SHAPE(4), numbers);
  const ls_attr attrs[] = {LS_ATTR_T("dtype", LS_DTYPE_F32),
                           LS_ATTR_SH("shape", LS_SHAPE(-1))};
  const uint64_t y = ls_ref(add(graph, LS_OP_PLACEHOLDER, NULL, 0, attrs, 2,
                                type_of(LS_DTYPE_F32, LS_SHAPE(-1)))
                                ->id,
                            0);
  add_variable(graph, "scope/w", x);
  add_variable(graph, "scope/w", x);
  add_loop(graph, y, x);
  // A gap in the ids, as a refused op leaves one.
  graph->next_id += 3;
  const ls_op control[] = {{graph, 1}, {graph, 2}};
  const ls_op_spec spec = {
      .type = LS_OP_NO_OP, .control = control, .num_control = 2};
  ls_node *node = ls_graph_append(graph, &spec, NULL, 0);
  assert_non_null(node);
  node->device = "/device:CPU:1";
  expect_ok(ls_graph_name_scope_path(graph, "outer/inner/", &scope));
  expect_ok(ls_graph_name_node(graph, node, scope, "joined"));
  return graph;
}

// ---- Tests -----------------------------------------------------------------
TEST(a_build_graph_survives_the_round_trip) {
  expect_round_trip(make_example());
}

typedef struct model {
  ls_tensor x, scale;
} model;

static ls_nest one_round(ls_nest values, void *user) {
  const model *m = user;
  const ls_tensor i = ls_nest_tensor(values, 0);
  const ls_tensor y = ls_mul(ls_nest_tensor(values, 1), m->scale);
  return LS_TUPLE(ls_leaf(ls_add(i, ls_scalar_i64(LS_DTYPE_I32, 1))),
                  ls_leaf(ls_add(y, m->x)));
}

static ls_nest negated(ls_nest values, void *user) {
  (void)values;
  return ls_leaf(ls_neg(((model *)user)->x));
}

static ls_nest unchanged(ls_nest values, void *user) {
  (void)values;
  return ls_leaf(((model *)user)->x);
}

// A model with a loop in a branch's neighbourhood, as a user would write it.
static void build_model(ls_graph *graph) {
  {
    LS_GRAPH_SCOPE(graph);
    model m = {.x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1, 4), "x")};
    LS_OWN(ls_variable, w) = NULL;
    {
      LS_NAME_SCOPE("dense");
      {
        LS_DEVICE_SCOPE("/device:CPU:0");
        expect_ok(ls_variable_create(
            &(ls_variable_options){
                .name = "w",
                .initial_value = ls_random_normal(LS_DTYPE_F32, LS_SHAPE(4, 4),
                                                  0, 0.1, NULL)},
            &w));
        m.scale = ls_matmul(m.x, ls_variable_read(w));
      }
    }
    LS_OWN(ls_nest, looped) = ls_while(
        below_three, one_round, &m,
        LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)), ls_leaf(m.x)), 0);
    expect_ok(ls_nest_status(looped));
    const ls_tensor yes =
        ls_less(ls_reduce_sum(m.x, LS_ALL_AXES), ls_scalar(LS_DTYPE_F32, 0.3));
    LS_OWN(ls_nest, chosen) = ls_cond(yes, negated, unchanged, &m);
    expect_ok(ls_nest_status(chosen));
    const ls_op last = ls_tensor_op(ls_nest_tensor(looped, 1));
    {
      LS_CONTROL_SCOPE(&last, 1);
      ls_variable_assign_add(w, ls_fill(LS_DTYPE_F32, LS_SHAPE(4, 4), 1));
    }
  }
  expect_ok(ls_graph_error(graph));
}

TEST(what_op_makers_build_survives_the_round_trip) {
  ls_graph *graph = graph_named("model");
  build_model(graph);
  LS_OWN(printed, text) = graph_text(graph);
  expect_contains(text, "# \"dense/matmul\" @\"/device:CPU:0\"");
  expect_contains(text, "variable @\"dense/w\" : f32[4,4] trainable");
  expect_contains(text, "graph region \"while_condition\" loop {");
  expect_contains(text, "graph region \"while_body\" loop {");
  expect_contains(text, "graph region \"cond_then\" {");
  expect_round_trip(graph);
}

TEST(a_function_survives_without_the_graph_around_it) {
  LS_OWN(ls_held_graph, outer) = make(LS_GRAPH_BUILD, NULL);
  const uint64_t x = add_constant(outer, LS_DTYPE_F32, LS_SCALAR, &(float){2});
  ls_graph *function = make(LS_GRAPH_FUNCTION, outer);
  ls_tensor declared;
  uint64_t captured = 0;
  expect_ok(ls_graph_add_parameter(
      function, type_of(LS_DTYPE_F32, LS_SHAPE(2, -1)), "x", &declared));
  expect_ok(ls_graph_import(function, (ls_tensor){outer, x}, &captured));
  const uint64_t results[] = {captured, declared.ref, captured};
  expect_ok(ls_graph_set_results(function, results, 3));
  expect_round_trip(function);
}

TEST(a_lowered_graph_survives_the_round_trip) {
  ls_graph *graph = make(LS_GRAPH_LOWERED, NULL);
  ls_tensor x;
  const ls_type type = type_of(LS_DTYPE_F32, LS_SHAPE(3));
  expect_ok(ls_graph_add_parameter(graph, type, NULL, &x));
  ls_node *node = add(graph, LS_OP_NEG, &x.ref, 1, NULL, 0, type);
  node->varying = true;
  const uint64_t result = ls_ref(node->id, 0);
  expect_ok(ls_graph_set_results(graph, &result, 1));
  expect_round_trip(graph);
}

// Bits from a small generator, as numbers of every dtype: nans, denormals and
// all. The first arrays are printed as numbers, the last in base64.
TEST(arrays_of_any_bits_survive_the_round_trip) {
  uint64_t random = 88172645463325252u;
  for (ls_dtype dtype = LS_DTYPE_F64; dtype < LS_DTYPE_RESOURCE; ++dtype) {
    if (dtype == LS_DTYPE_STRING) continue;
    ls_graph *graph = make(LS_GRAPH_BUILD, NULL);
    for (int64_t count = 0; count < 70; count += 3) {
      uint64_t data[140];
      for (size_t i = 0; i < LS_COUNT_OF(data); ++i) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        data[i] = i % 5 == 4 ? random | 0x7ff07f807c007f80u : random;
        if (dtype == LS_DTYPE_BOOL && count < 60)
          data[i] &= UINT64_C(0x101010101010101);
      }
      add_constant(graph, dtype, LS_SHAPE(count), data);
    }
    expect_round_trip(graph);
  }
}

TEST(strings_may_hold_any_bytes) {
  char all[256];
  for (int i = 0; i < 256; ++i)
    all[i] = (char)i;
  const ls_bytes strings[] = {{all, 256}, {"", 0}, {"\\x\"//", 5}};
  ls_graph *graph = make(LS_GRAPH_BUILD, NULL);
  add_constant(graph, LS_DTYPE_STRING, LS_SHAPE(3, 1), strings);
  expect_round_trip(graph);
}

TEST(a_parsed_graph_can_be_built_on) {
  LS_OWN(ls_held_graph, graph) = NULL;
  expect_ok(ls_graph_parse("graph build \"g\" {\n"
                           "  %3 = constant() {value = f32[] [1]} # \"a/x\" : "
                           "f32[]\n"
                           "}\n",
                           NULL, 0, &graph));
  const ls_name_scope *scope = NULL;
  ls_node *node =
      ls_graph_append(graph, &(ls_op_spec){.type = LS_OP_NO_OP}, NULL, 0);
  assert_non_null(node);
  assert_int_equal(node->id, 4);
  expect_ok(ls_graph_name_scope_path(graph, "a/", &scope));
  expect_ok(ls_graph_name_node(graph, node, scope, "x"));
  assert_string_equal(ls_node_name(graph, node), "a/x_1");
  ls_op op;
  expect_ok(ls_graph_lookup_op(graph, "a/x", &op));
  assert_int_equal(op.id, 3);
  assert_string_equal(ls_op_file(op), "graph text");
  assert_int_equal(ls_op_line(op), 2);
}

TEST(regions_nest_so_deep_and_no_deeper) {
  for (int depth = 64; depth <= 65; ++depth) {
    char text[8192] = "graph build \"g\" {";
    for (int i = 0; i < depth; ++i)
      strcat(text, "%1 = call() (graph function \"f\" {");
    for (int i = 0; i < depth; ++i)
      strcat(text, "})");
    strcat(text, "}");
    ls_graph *graph = NULL;
    ls_status status = ls_graph_parse(text, NULL, 0, &graph);
    if (depth == 64) {
      expect_ok(status);
      ls_graph_free(graph);
    } else {
      expect_status(status, LS_INVALID_ARGUMENT, "deeper than the 64");
      assert_null(graph);
    }
  }
}

TEST(every_cut_of_a_text_gives_a_graph_or_a_status) {
  LS_OWN(ls_held_graph, graph) = make_example();
  LS_OWN(printed, text) = graph_text(graph);
  const size_t length = strlen(text);
  for (size_t n = 0; n + 1 < length; ++n) {
    HEAP(char, cut) = malloc(n + 1);
    assert_non_null(cut);
    memcpy(cut, text, n);
    cut[n] = '\0';
    ls_graph *parsed = NULL;
    expect_status(ls_graph_parse(cut, NULL, 0, &parsed), LS_INVALID_ARGUMENT,
                  "line ");
    assert_null(parsed);
  }
}

static ls_status parse_and_print(void *user) {
  LS_OWN(ls_held_graph, graph) = NULL;
  LS_OWN(printed, text) = NULL;
  LS_OWN(printed, drawing) = NULL;
  LS_RETURN_IF_ERROR(ls_graph_parse(user, NULL, 0, &graph));
  ls_status status = ls_graph_print(graph, &text);
  if (ls_status_is_ok(status)) status = ls_graph_print_dot(graph, &drawing);
  if (ls_status_is_ok(status)) assert_string_equal(text, user);
  return status;
}

TEST(failing_memory_loses_nothing) {
  LS_OWN(ls_held_graph, graph) = make_example();
  LS_OWN(printed, text) = graph_text(graph);
  REFUSE_EACH(parse_and_print, text);
}

TEST(numbers_have_a_point_in_every_language) {
  if (!comma_begin()) skip();
  ls_graph *graph = make(LS_GRAPH_BUILD, NULL);
  add_constant(graph, LS_DTYPE_F32, LS_SCALAR, &(float){2.5f});
  char *text = graph_text(graph);
  expect_contains(text, "[2.5]");
  ls_text_release(text);
  expect_round_trip(graph);
  comma_end();
}

TEST(a_drawing_has_boxes_arrows_and_frames) {
  LS_OWN(ls_held_graph, graph) = NULL;
  LS_OWN(printed, drawing) = NULL;
  expect_ok(ls_graph_parse(
      "graph build \"g\" {\n"
      "  %1 = constant() {value = f32[2] [1, 2]} # \"a\" : f32[2]\n"
      "  %2 = call(%1) ^%1 # \"b\" @\"/device:CPU:0\" (graph function \"f\" {\n"
      "    %1 = parameter() {dtype = f32, shape = shape[2], index = 0} : "
      "f32[2]\n"
      "    return %1\n"
      "  }) : f32[2]\n"
      "}\n",
      NULL, 0, &graph));
  expect_ok(ls_graph_print_dot(graph, &drawing));
  assert_string_equal(drawing, "digraph \"g\" {\n"
                               "  node [shape=box];\n"
                               "  n0_1 [label=\"constant\\na\"];\n"
                               "  n0_2 [label=\"call\\nb\\n/device:CPU:0\", "
                               "shape=doubleoctagon];\n"
                               "  subgraph cluster_1 {\n"
                               "    label=\"call 2: f\";\n"
                               "    n1_1 [label=\"parameter\"];\n"
                               "    r1_0 [label=\"result 0\", shape=ellipse];\n"
                               "    n1_1 -> r1_0;\n"
                               "  }\n"
                               "  n0_1 -> n0_2 [label=\"f32[2]\"];\n"
                               "  n0_1 -> n0_2 [style=dashed];\n"
                               "}\n");
}

TEST(no_op_follows_one_with_the_largest_number) {
  LS_OWN(ls_held_graph, graph) = NULL;
  LS_OWN(ls_held_graph, last) = NULL;
  expect_ok(ls_graph_parse(
      "graph build \"g\" {\n"
      "  %8796093022206 = constant() {value = f32[] [1]} # \"a\" : f32[]\n"
      "}\n",
      NULL, 0, &graph));
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor one = ls_scalar(LS_DTYPE_F32, 1);
    assert_false(ls_tensor_is_failed(one));
    assert_true(ls_tensor_is_failed(ls_neg(one)));
  }
  expect_status(ls_graph_take_error(graph), LS_FAILED_PRECONDITION,
                "graph 'g' has an op %8796093022207, the last number");
  expect_round_trip(graph);
  expect_status(ls_graph_parse("graph build \"g\" {\n"
                               "  %8796093022208 = no_op() # \"a\"\n"
                               "}\n",
                               NULL, 0, &last),
                LS_INVALID_ARGUMENT, "8796093022208");
}

TEST(the_eager_graph_has_no_text) {
  LS_OWN(ls_held_graph, graph) = make(LS_GRAPH_EAGER, NULL);
  char *text = NULL;
  expect_status(ls_graph_print(graph, &text), LS_FAILED_PRECONDITION,
                "the eager graph has no text");
  expect_status(ls_graph_print_dot(graph, &text), LS_FAILED_PRECONDITION,
                "the eager graph cannot be drawn");
  assert_null(text);
  ls_text_release(NULL);
}
