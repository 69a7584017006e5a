// SPDX-License-Identifier: Apache-2.0
//
// The verifier finds what a faulty pass or maker would leave behind: each case
// breaks one rule in a graph that was right. Rules that text can break have
// their cases in tests/cases/rules.ls.
#include "graph/graph.h"
#include "support/expect.h"

static const char build_text[] =
    "graph build \"g\" {\n"
    "  %1 = constant() {value = f32[2] [1, 2]} # \"a\" : f32[2]\n"
    "  %2 = constant() {value = f32[2] [3, 4]} # \"b\" : f32[2]\n"
    "  %3 = add(%1, %2) ^%1 # \"sum\" : f32[2]\n"
    "  %4 = while(%3, %1) {num_carried = 1} # \"loop\" (graph region \"c\" "
    "loop "
    "{\n"
    "    %1 = parameter() {dtype = f32, shape = shape[2], index = 0} # \"x\" : "
    "f32[2]\n"
    "    %2 = constant() {value = bool[] [false]} # \"no\" : bool[]\n"
    "    return %2\n"
    "  }, graph region \"b\" loop {\n"
    "    %1 = parameter() {dtype = f32, shape = shape[2], index = 0} # \"x\" : "
    "f32[2]\n"
    "    %2 = parameter() {dtype = f32, shape = shape[2], index = 1} # \"y\" "
    "captures (%1) : f32[2]\n"
    "    %3 = mul(%1, %2) # \"product\" : f32[2]\n"
    "    return %3\n"
    "  }) : f32[2]\n"
    "}\n";

static const char lowered_text[] =
    "graph lowered \"g\" {\n"
    "  %1 = parameter() {dtype = f32, shape = shape[2], index = 0} : f32[2]\n"
    "  %2 = neg(%1) : f32[2]\n"
    "  return %2\n"
    "}\n";

static ls_node *node(const ls_graph *graph, size_t index) {
  assert_in_range(index, 0, graph->num_nodes - 1);
  return graph->nodes[index];
}

static ls_graph *body(const ls_graph *graph) {
  return node(graph, 3)->regions[1];
}

// ---- Faults ----------------------------------------------------------------
static void id_descends(ls_graph *g) { node(g, 1)->id = 1; }
static void id_is_not_given_out(ls_graph *g) { node(g, 3)->id = 9; }
static void type_is_none(ls_graph *g) { node(g, 2)->type = 0; }
static void type_is_too_large(ls_graph *g) {
  node(g, 2)->type = LS_OP_TABLE_COUNT;
}
static void input_is_later(ls_graph *g) {
  node(g, 2)->inputs[1] = ls_ref(4, 0);
}
static void input_is_the_op_itself(ls_graph *g) {
  node(g, 2)->inputs[1] = ls_ref(3, 0);
}
static void output_is_not_there(ls_graph *g) {
  node(g, 2)->inputs[0] = ls_ref(1, 1);
}
static void control_is_later(ls_graph *g) { node(g, 2)->control[0] = 4; }
static void an_input_is_missing(ls_graph *g) { --node(g, 2)->num_inputs; }
static void shape_is_wrong(ls_graph *g) {
  node(g, 2)->outputs[0].shape = LS_SHAPE(3);
}
static void dtype_is_wrong(ls_graph *g) {
  node(g, 2)->outputs[0].dtype = LS_DTYPE_F64;
}
static void attribute_is_missing(ls_graph *g) { node(g, 3)->num_attrs = 0; }
static void attribute_is_null(ls_graph *g) {
  ls_attr *attr = &node(g, 0)->attrs[0];
  ls_array_release(attr->as.array);
  attr->as.array = NULL;
}
static void a_name_is_there_twice(ls_graph *g) {
  node(g, 1)->base = node(g, 0)->base;
  node(g, 1)->rendered = NULL;
}
static void a_capture_is_lost(ls_graph *g) { --body(g)->num_captures; }
static void a_capture_is_of_another_parameter(ls_graph *g) {
  body(g)->captures[0].inner = ls_ref(1, 0);
}
static void a_capture_is_of_another_type(ls_graph *g) {
  body(g)->captures[0].outer.ref = ls_ref(77, 0);
}
static void a_parameter_is_lost(ls_graph *g) { --body(g)->num_parameters; }
static void a_parameter_is_another_op(ls_graph *g) {
  body(g)->parameters[1] = ls_ref(3, 0);
}
static void a_result_is_not_there(ls_graph *g) {
  body(g)->results[0] = ls_ref(5, 0);
}
static void the_condition_is_no_bool(ls_graph *g) {
  node(g, 3)->regions[0]->results[0] = ls_ref(1, 0);
}
static void the_body_returns_nothing(ls_graph *g) { body(g)->num_results = 0; }

static void a_shape_is_not_known(ls_graph *g) {
  node(g, 1)->outputs[0].shape = LS_SHAPE(-1);
}
static void an_op_is_of_the_build_stage(ls_graph *g) {
  node(g, 1)->type = LS_OP_IDENTITY;
}
static void an_op_has_a_device(ls_graph *g) { node(g, 1)->device = "/CPU:0"; }
static void an_op_has_a_name(ls_graph *g) { node(g, 1)->base = "x"; }

// ---- Cases -----------------------------------------------------------------
typedef struct fault {
  const char *text;
  void (*make)(ls_graph *graph);
  const char *want;
} fault;

static const fault faults[] = {
    {build_text, id_descends, "%1, op 'b'"},
    {build_text, id_is_not_given_out, "its id is not between 3 and 5"},
    {build_text, type_is_none, "there is no such type of op"},
    {build_text, type_is_too_large, "there is no such type of op"},
    {build_text, input_is_later, "input 1 is %4:0, which is no output"},
    {build_text, input_is_the_op_itself, "input 1 is %3:0, which is no output"},
    {build_text, output_is_not_there, "input 0 is %1:1, which is no output"},
    {build_text, control_is_later, "control input ^%4 is no earlier op"},
    {build_text, an_input_is_missing, "add takes 2 operands, got 1"},
    {build_text, shape_is_wrong,
     "output 0 is f32[3], by the shape rule f32[2]"},
    {build_text, dtype_is_wrong,
     "output 0 is f64[2], by the shape rule f32[2]"},
    {build_text, attribute_is_missing, "it needs the attribute 'num_carried'"},
    {build_text, attribute_is_null, "attribute 'value' is NULL"},
    {build_text, a_name_is_there_twice,
     "op 'a' (constant) at graph text:3: %1 has this name too"},
    {build_text, a_capture_is_lost, "1 declared, 0 capture"},
    {build_text, a_capture_is_of_another_parameter,
     "capture 0 is not parameter 1"},
    {build_text, a_capture_is_of_another_type, "captures %77 of graph 'g'"},
    {build_text, a_parameter_is_lost, "%2 is not parameter 1 of the list"},
    {build_text, a_parameter_is_another_op,
     "%2 is not parameter 1 of the list"},
    {build_text, a_result_is_not_there, "graph 'b': result 0 is no value"},
    {build_text, the_condition_is_no_bool, "must return one bool scalar"},
    {build_text, the_body_returns_nothing, "graph 'g', %4, op 'loop' (while)"},
    {lowered_text, a_shape_is_not_known, "lowered shapes are known"},
    {lowered_text, an_op_is_of_the_build_stage,
     "lowering should have replaced"},
    {lowered_text, an_op_has_a_device, "has a name or a device"},
    {lowered_text, an_op_has_a_name, "has a name or a device"},
};

TEST(each_fault_is_found_and_named) {
  for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); ++i) {
    LS_OWN(ls_held_graph, graph) = NULL;
    expect_ok(ls_graph_parse(faults[i].text, NULL, 0, &graph));
    expect_ok(ls_graph_verify(graph));
    faults[i].make(graph);
    expect_status(ls_graph_verify(graph), LS_INTERNAL, faults[i].want);
  }
}

TEST(the_eager_graph_is_not_judged) {
  LS_OWN(ls_held_graph, graph) = NULL;
  expect_ok(ls_graph_make(LS_GRAPH_EAGER, "eager", ls_runtime_current(), NULL,
                          &graph));
  expect_status(ls_graph_verify(graph), LS_FAILED_PRECONDITION, "eager");
}
