// SPDX-License-Identifier: Apache-2.0
//
// ONNX files, written here byte by byte: what they compute, what is refused,
// and garbage.
#include "lockstep/onnx.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/own.h"
#include "io/protobuf/protobuf.h"
#include "lockstep/full.h"
#include "nn/own.h"
#include "onnx/onnx_load.h"
#include "runtime/own.h"
#include "support/counted.h"
#include "support/function.h"
#include "support/onnx_files.h"
#include "support/scratch.h"
#include "support/values.h"

TEST_FILE(.set_up = scratch_enter, .tear_down = scratch_leave);

// ---- One node --------------------------------------------------------------
typedef struct one {
  const char *type, *inputs, *attrs;
  ls_shape shape, result;
  double wanted[12];
  int64_t opset;
} one;

// Runs the file in a build graph, where the batch is unknown.
static void expect_any_batch(const one *row, const ls_text *file, ls_shape open,
                             ls_tensor x) {
  ls_onnx *onnx = NULL;
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_array, fed) = tensor_array(x);
  ls_tensor any = ls_failed_tensor(), y = any;
  ls_op init = {NULL, 0};
  {
    LS_GRAPH_SCOPE(graph);
    expect_ok(
        onnx_decode(file, row->opset > 0 ? row->opset : ONNX_OPSET, &onnx));
    any = ls_placeholder(LS_DTYPE_F32, open, "x");
    LS_OWN(ls_nest, outputs) = ls_onnx_apply(onnx, ls_leaf(any), false);
    expect_ok(ls_nest_status(outputs));
    y = ls_nest_tensor(outputs, 0);
    init = ls_global_initializer();
  }
  ls_session *session = session_of(graph);
  LS_OWN(ls_nest, begun) = session_results(session, ls_nest_op(init));
  LS_OWN(ls_nest, got) = ls_none();
  expect_ok(ls_session_run(session, ls_leaf(y),
                           &(ls_feed){.tensor = any, .value = fed}, 1, &got));
  const ls_array *array = ls_nest_as_array(got);
  assert_true(ls_shape_equal(ls_array_shape(array), row->result));
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    assert_true(fabs(ls_array_f64(array, i) - row->wanted[i]) < 1e-5);
  ls_session_destroy(session);
  ls_onnx_destroy(onnx);
}

// Expects the result of a node for x = 1, 2, 3, ..., in eager mode and in a
// graph.
static void expect_node(const one *row) {
  static const float weights[] = {1, -1, 2, 0.5F};
  static const int64_t list[] = {0, -1}, ends[] = {2, 9}, axes[] = {1, 2},
                       pads[] = {0, 1, 0, 1}, pair[] = {1, 3};
  double numbers[24];
  LS_OWN(ls_text, graph) = onnx_text();
  LS_OWN(ls_onnx, onnx) = NULL;
  ls_shape open = row->shape;
  open.dim[0] = -1;
  for (int i = 0; i < 24; ++i)
    numbers[i] = i + 1;
  onnx_add_node(&graph, row->type, row->inputs, "y", row->attrs);
  onnx_add_floats(&graph, "w", 2, 2, weights);
  onnx_add_floats(&graph, "b", 2, 0, weights);
  onnx_add_integers(&graph, "list", 2, list);
  onnx_add_integers(&graph, "ends", 2, ends);
  onnx_add_integers(&graph, "axes", 2, axes);
  onnx_add_integers(&graph, "pads", 4, pads);
  onnx_add_integers(&graph, "pair", 2, pair);
  onnx_add_port(&graph, 11, "x", open);
  onnx_add_port(&graph, 12, "y", LS_SHAPE(-1));
  expect_ok(
      onnx_decode(&graph, row->opset > 0 ? row->opset : ONNX_OPSET, &onnx));
  expect_ok(ls_frame_begin());
  const ls_tensor x = eager_of(LS_DTYPE_F32, row->shape, numbers);
  LS_OWN(ls_nest, y) = ls_onnx_apply(onnx, ls_leaf(x), false);
  expect_ok(ls_nest_status(y));
  expect_tensor_of(ls_nest_tensor(y, 0), row->result, row->wanted, 1e-5);
  expect_any_batch(row, &graph, open, x);
  expect_ok(ls_frame_end(NULL));
}

TEST(nodes_compute_what_onnx_says) {
  static const one rows[] = {
      {"Relu", "x", "", LS_SHAPE(2), LS_SHAPE(2), {1, 2}, 0},
      {"Add", "x b", "", LS_SHAPE(1, 2), LS_SHAPE(1, 2), {2, 1}, 0},
      {"Max", "x b", "", LS_SHAPE(1, 2), LS_SHAPE(1, 2), {1, 2}, 0},
      {"Clip",
       "x",
       "min=1.5 max=2.5",
       LS_SHAPE(3),
       LS_SHAPE(3),
       {1.5, 2, 2.5},
       7},
      {"HardSigmoid", "x", "", LS_SHAPE(3), LS_SHAPE(3), {0.7, 0.9, 1}, 0},
      {"Cast", "x", "to=1", LS_SHAPE(2), LS_SHAPE(2), {1, 2}, 0},
      {"MatMul", "x w", "", LS_SHAPE(1, 2), LS_SHAPE(1, 2), {5, 0}, 0},
      {"Gemm",
       "x w b",
       "alpha=2.0 beta=3.0 transB=1",
       LS_SHAPE(1, 2),
       LS_SHAPE(1, 2),
       {1, 3},
       0},
      {"Reshape",
       "x list",
       "",
       LS_SHAPE(2, 2, 2),
       LS_SHAPE(2, 4),
       {1, 2, 3, 4, 5, 6, 7, 8},
       0},
      {"Flatten", "x", "", LS_SHAPE(2, 2, 1), LS_SHAPE(2, 2), {1, 2, 3, 4}, 0},
      {"Transpose",
       "x",
       "perm=1,0,",
       LS_SHAPE(2, 2),
       LS_SHAPE(2, 2),
       {1, 3, 2, 4},
       0},
      {"Transpose",
       "x",
       "perm=0,2,1,",
       LS_SHAPE(1, 2, 2),
       LS_SHAPE(1, 2, 2),
       {1, 3, 2, 4},
       0},
      {"Squeeze",
       "x",
       "axes=1,",
       LS_SHAPE(2, 1, 1),
       LS_SHAPE(2, 1),
       {1, 2},
       11},
      {"Unsqueeze", "x axes", "", LS_SHAPE(2), LS_SHAPE(2, 1, 1), {1, 2}, 0},
      {"Concat",
       "x x",
       "axis=-1",
       LS_SHAPE(1, 2),
       LS_SHAPE(1, 4),
       {1, 2, 1, 2},
       0},
      {"Concat",
       "x x",
       "axis=@2",
       LS_SHAPE(1, 2),
       LS_SHAPE(2, 2),
       {1, 2, 1, 2},
       0},
      {"HardSigmoid",
       "x",
       "alpha=@1 beta=0.25",
       LS_SHAPE(2),
       LS_SHAPE(2),
       {0.25, 0.25},
       0},
      {"Gelu", "x", "approximate=@3", LS_SHAPE(1), LS_SHAPE(1), {0.841345}, 20},
      {"Slice",
       "x list ends axes",
       "",
       LS_SHAPE(1, 3, 3),
       LS_SHAPE(1, 2, 1),
       {3, 6},
       0},
      {"Slice",
       "x",
       "starts=1, ends=3, axes=1,",
       LS_SHAPE(1, 3),
       LS_SHAPE(1, 2),
       {2, 3},
       9},
      {"Gather", "x list", "axis=1", LS_SHAPE(1, 3), LS_SHAPE(1, 2), {1, 3}, 0},
      {"Expand",
       "x pair",
       "",
       LS_SHAPE(2, 1),
       LS_SHAPE(2, 3),
       {1, 1, 1, 2, 2, 2},
       0},
      {"Tile",
       "x pair",
       "",
       LS_SHAPE(1, 2),
       LS_SHAPE(1, 6),
       {1, 2, 1, 2, 1, 2},
       0},
      {"Pad",
       "x pads",
       "mode=constant",
       LS_SHAPE(1, 2),
       LS_SHAPE(1, 4),
       {0, 1, 2, 0},
       0},
      {"Pad",
       "x pads",
       "mode=reflect",
       LS_SHAPE(1, 2),
       LS_SHAPE(1, 4),
       {2, 1, 2, 1},
       0},
      {"ReduceMean",
       "x",
       "axes=1, keepdims=0",
       LS_SHAPE(2, 2),
       LS_SHAPE(2),
       {1.5, 3.5},
       0},
      {"ReduceL2",
       "x",
       "axes=1,",
       LS_SHAPE(1, 2),
       LS_SHAPE(1, 1),
       {2.2360679775},
       0},
      {"Softmax",
       "x",
       "",
       LS_SHAPE(1, 2),
       LS_SHAPE(1, 2),
       {0.26894142, 0.73105858},
       0},
      {"Softmax",
       "x",
       "",
       LS_SHAPE(1, 2, 1),
       LS_SHAPE(1, 2, 1),
       {0.26894142, 0.73105858},
       11},
      {"MaxPool",
       "x",
       "kernel_shape=2, strides=2, ceil_mode=1",
       LS_SHAPE(1, 1, 3),
       LS_SHAPE(1, 1, 2),
       {2, 3},
       0},
      {"AveragePool",
       "x",
       "kernel_shape=2, auto_pad=SAME_LOWER",
       LS_SHAPE(1, 1, 3),
       LS_SHAPE(1, 1, 3),
       {1, 1.5, 2.5},
       0},
      {"GlobalAveragePool",
       "x",
       "",
       LS_SHAPE(1, 2, 2),
       LS_SHAPE(1, 2, 1),
       {1.5, 3.5},
       0},
      {"BatchNormalization",
       "x b b b b",
       "epsilon=3.0",
       LS_SHAPE(1, 2),
       LS_SHAPE(1, 2),
       {1, -3.12132034},
       0},
      {"Trilu",
       "x",
       "upper=0",
       LS_SHAPE(1, 2, 2),
       LS_SHAPE(1, 2, 2),
       {1, 0, 3, 4},
       0},
      {"CumSum", "x list", "", LS_SHAPE(2), LS_SHAPE(2), {1, 3}, 0},
      {"LayerNormalization",
       "x b b",
       "",
       LS_SHAPE(1, 2),
       LS_SHAPE(1, 2),
       {0.00002, -1.99998},
       0},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i)
    expect_node(&rows[i]);
}

// ---- Variables -------------------------------------------------------------
static void add_line(ls_text *graph) {
  static const float w[] = {1, 2}, b[] = {0.5F}, mask[] = {0, -INFINITY};
  onnx_add_floats(graph, "w", 2, 1, w);
  onnx_add_floats(graph, "b", 1, 0, b);
  onnx_add_floats(graph, "mask", 2, 0, mask);
  onnx_add_floats(graph, "one", 1, 0, w);
  onnx_add_node(graph, "Gemm", "x w b", "z", "");
  onnx_add_node(graph, "Mul", "z one", "y", "");
  onnx_add_port(graph, 11, "x", LS_SHAPE(-1, 2));
  onnx_add_port(graph, 12, "y", LS_SHAPE(-1, 1));
}

TEST(weights_are_variables_under_their_names) {
  LS_OWN(ls_text, graph) = onnx_text();
  LS_OWN(ls_onnx, onnx) = NULL;
  ls_variable *variables[4] = {NULL};
  ls_serving_value values[2];
  add_line(&graph);
  expect_ok(onnx_decode(&graph, ONNX_OPSET, &onnx));
  assert_int_equal(ls_onnx_variables(onnx, variables, 4), 2);
  assert_string_equal(ls_variable_name(variables[0]), "w");
  assert_string_equal(ls_variable_name(variables[1]), "b");
  assert_true(ls_variable_is_trainable(variables[0]));
  assert_int_equal(ls_onnx_inputs(onnx, values, 2), 1);
  assert_string_equal(values[0].name, "x");
  assert_int_equal(ls_onnx_outputs(onnx, values, 2), 1);
  assert_int_equal(values[0].type.shape.dim[1], 1);
}

static ls_nest line_loss(ls_nest args, void *user) {
  const ls_nest outputs = ls_onnx_apply(user, args, true);
  if (ls_nest_is_failed(outputs)) return outputs;
  const ls_tensor y = ls_nest_tensor(outputs, 0);
  ls_nest_release(outputs);
  return ls_leaf(ls_reduce_mean(ls_square(y), LS_ALL_AXES));
}

typedef struct learner {
  ls_onnx *onnx;
  ls_optimizer *optimizer;
} learner;

static ls_nest line_step(ls_nest args, void *user) {
  const learner *self = user;
  const ls_nest loss = line_loss(args, self->onnx);
  if (!ls_nest_is_failed(loss))
    ls_optimizer_minimize(self->optimizer, ls_nest_tensor(loss, 0));
  return loss;
}

// For x = 1, 2: y = 5.5, and a step of 0.01 takes 2 y x 0.01 off w.
TEST(a_step_changes_the_weights) {
  LS_OWN(ls_text, graph) = onnx_text();
  LS_OWN(ls_onnx, onnx) = NULL;
  LS_OWN(ls_optimizer, optimizer) = NULL;
  ls_variable *variables[2] = {NULL};
  add_line(&graph);
  expect_ok(onnx_decode(&graph, ONNX_OPSET, &onnx));
  ls_onnx_variables(onnx, variables, 2);
  expect_ok(
      ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.01}, &optimizer));
  const double numbers[] = {1, 2}, w[] = {0.89, 1.78}, b[] = {0.39};
  LS_OWN(ls_nest, x) =
      LS_TUPLE(ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(1, 2), numbers)));
  LS_OWN(ls_nest, loss) =
      call_on(1, line_step, &(learner){onnx, optimizer}, x, 1);
  assert_true(fabs(ls_nest_number(loss) - 30.25) < 1e-4);
  expect_variable(variables[0], w, 2, 1e-5);
  expect_variable(variables[1], b, 1, 1e-5);
}

// ---- Types -----------------------------------------------------------------
static void write_file(const char *path, const ls_text *text) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fwrite(ls_text_data(text), 1, text->size, file);
  fclose(file);
}

TEST(a_model_without_inputs_is_refused) {
  static const float two[] = {2};
  LS_OWN(ls_text, graph) = onnx_text();
  ls_model_type *type = NULL;
  onnx_add_node(&graph, "Relu", "x", "y", "");
  onnx_add_floats(&graph, "x", 1, 0, two);
  onnx_add_port(&graph, 11, "x", LS_SHAPE(1));
  onnx_add_port(&graph, 12, "y", LS_SHAPE(1));
  LS_OWN(ls_text, model) = onnx_model(&graph, ONNX_OPSET);
  write_file("net.onnx", &model);
  expect_status(ls_onnx_type_create("net.onnx", &type), LS_UNIMPLEMENTED,
                "'net.onnx' as a model: it has 0 inputs, not one");
  remove("net.onnx");
}

static ls_model_type *type_of_node(const char *type, ls_shape x, ls_shape y) {
  LS_OWN(ls_text, graph) = onnx_text();
  ls_model_type *made = NULL;
  onnx_add_node(&graph, type, "x", "y", "");
  onnx_add_port(&graph, 11, "x", x);
  onnx_add_port(&graph, 12, "y", y);
  LS_OWN(ls_text, model) = onnx_model(&graph, ONNX_OPSET);
  write_file("net.onnx", &model);
  ls_status_free(ls_onnx_type_create("net.onnx", &made));
  remove("net.onnx");
  return made;
}

TEST(types_of_images_have_channels_last) {
  ls_model_type *map =
      type_of_node("Relu", LS_SHAPE(-1, 3, 4, 5), LS_SHAPE(-1, 3, 4, 5));
  assert_true(ls_shape_equal(map->example_shape, LS_SHAPE(4, 5, 3)));
  assert_true(ls_shape_equal(map->label_shape, LS_SHAPE(4, 5)));
  assert_int_equal(map->num_classes, 3);
  ls_onnx_type_destroy(map);
  assert_null(type_of_node("Relu", LS_SHAPE(-1, -1), LS_SHAPE(-1, 2)));
  assert_null(type_of_node("Relu", LS_SHAPE(-1, 2), LS_SHAPE(-1, -1)));
  assert_null(type_of_node("Relu", LS_SHAPE(-1), LS_SHAPE(-1)));
}

// ---- Refusals --------------------------------------------------------------
static void expect_refused(const char *type, const char *inputs,
                           const char *attrs, int64_t opset, ls_code code,
                           const char *part) {
  LS_OWN(ls_text, graph) = onnx_text();
  LS_OWN(ls_onnx, onnx) = NULL;
  onnx_add_node(&graph, type, inputs, "y", attrs);
  onnx_add_port(&graph, 11, "x", LS_SHAPE(-1, 4));
  onnx_add_port(&graph, 12, "y", LS_SHAPE(-1, 4));
  const ls_status status = onnx_decode(&graph, opset, &onnx);
  if (!ls_status_is_ok(status)) {
    expect_status(status, code, part);
    return;
  }
  expect_ok(ls_frame_begin());
  const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(2, 4), 1);
  LS_OWN(ls_nest, y) = ls_onnx_apply(onnx, ls_leaf(x), false);
  const ls_status made = ls_nest_status(y);
  expect_contains(ls_status_message(made), "net.onnx");
  expect_status(made, code, part);
  expect_ok(ls_frame_end(NULL));
}

TEST(what_cannot_be_read_is_refused_by_name) {
  expect_refused("Loop", "x", "", ONNX_OPSET, LS_UNIMPLEMENTED, "the_node");
  expect_refused("Relu", "x", "", 5, LS_UNIMPLEMENTED, "opset");
  expect_refused("Relu", "z", "", ONNX_OPSET, LS_INVALID_ARGUMENT, "takes 'z'");
  expect_refused("Relu", "x x", "", ONNX_OPSET, LS_INVALID_ARGUMENT,
                 "2 inputs");
  expect_refused("Softmax", "", "", ONNX_OPSET, LS_INVALID_ARGUMENT,
                 "'net.onnx': op Softmax of node 'the_node' has 0 inputs and 1 "
                 "outputs");
  expect_refused("Identity", "-", "", ONNX_OPSET, LS_INVALID_ARGUMENT,
                 "op Identity of node 'the_node' has 1 inputs");
  expect_refused("Reshape", "x x", "", ONNX_OPSET, LS_UNIMPLEMENTED,
                 "the_node");
  expect_refused("Flatten", "x", "axis=9", ONNX_OPSET, LS_INVALID_ARGUMENT,
                 "axis 9");
  expect_refused("GRU", "x x x", "", ONNX_OPSET, LS_UNIMPLEMENTED, "GRU");
  expect_refused("MaxPool", "x", "kernel_shape=2,", ONNX_OPSET,
                 LS_UNIMPLEMENTED, "2 dimensions");
  expect_refused("Resize", "x - - x", "coordinate_transformation_mode=other",
                 ONNX_OPSET, LS_UNIMPLEMENTED, "'other'");
  expect_refused("Resize", "x - - x", "keep_aspect_ratio_policy=not_larger",
                 ONNX_OPSET, LS_UNIMPLEMENTED, "policy");
  expect_refused("BatchNormalization", "x x x x x", "spatial=0", 7,
                 LS_UNIMPLEMENTED, "spatial");
  expect_refused("Split", "x", "split=3, axis=1", 9, LS_UNIMPLEMENTED,
                 "a split");
  expect_refused("LSTM", "x x x", "activations=1,", ONNX_OPSET,
                 LS_UNIMPLEMENTED,
                 "activations of a recurrent layer that are no names");
}

TEST(a_value_that_is_made_twice_is_refused) {
  static const float numbers[] = {1, 2};
  for (int k = 0; k < 3; ++k) {
    LS_OWN(ls_text, graph) = onnx_text();
    LS_OWN(ls_onnx, onnx) = NULL;
    onnx_add_chain(&graph, "Add x c -> y;Neg y -> z");
    onnx_add_floats(&graph, "c", 1, 0, numbers);
    if (k == 0) onnx_add_floats(&graph, "c", 1, 0, numbers + 1);
    onnx_add_port(&graph, 11, "x", LS_SHAPE(1));
    if (k == 1) onnx_add_port(&graph, 11, "x", LS_SHAPE(1));
    if (k == 2) onnx_add_chain(&graph, "Abs x -> z");
    onnx_add_port(&graph, 12, "y", LS_SHAPE(1));
    expect_status(onnx_decode(&graph, ONNX_OPSET, &onnx), LS_INVALID_ARGUMENT,
                  k == 0   ? "'c' is made twice"
                  : k == 1 ? "'x' is made twice"
                           : "'z' is made twice");
  }
}

// ---- Integers --------------------------------------------------------------
// Makes x times the sum of the integers of a chain; x is 1.
static ls_status sum_chain(const char *nodes, double *out_sum) {
  static const int64_t pair[] = {-1, 4}, list[] = {0, 1}, row[] = {1, 2},
                       four[] = {1, 2, 3, 4}, square[] = {2, 2}, unit[] = {1},
                       end[] = {4}, most[] = {INT64_MAX}, wide[] = {0, 5},
                       minus[] = {-7, 7, -6, 6}, by[] = {3, -3, 3, -3},
                       large[] = {200}, larger[] = {250}, last[] = {-1},
                       before[] = {-2}, ones[] = {1, 1}, vast[] = {2000000000};
  static int64_t many[3000];
  LS_OWN(ls_text, graph) = onnx_text();
  LS_OWN(ls_onnx, onnx) = NULL;
  onnx_add_chain(&graph, nodes);
  onnx_add_chain(&graph, "Cast a -> f to=1;ReduceSum f -> r keepdims=0;"
                         "Mul x r -> y");
  onnx_add_integers(&graph, "none", 0, pair);
  onnx_add_integers(&graph, "zero", 1, list);
  onnx_add_integers(&graph, "one", 1, unit);
  onnx_add_integers(&graph, "end", 1, end);
  onnx_add_integers(&graph, "most", 1, most);
  onnx_add_integers(&graph, "pair", 2, pair);
  onnx_add_integers(&graph, "list", 2, list);
  onnx_add_integers(&graph, "row", 2, row);
  onnx_add_integers(&graph, "wide", 2, wide);
  onnx_add_integers(&graph, "square", 2, square);
  onnx_add_integers(&graph, "four", 4, four);
  onnx_add_integers(&graph, "minus", 4, minus);
  onnx_add_integers(&graph, "by", 4, by);
  onnx_add_integers(&graph, "last", 1, last);
  onnx_add_integers(&graph, "before", 1, before);
  onnx_add_integers(&graph, "ones", 2, ones);
  onnx_add_integers(&graph, "vast", 1, vast);
  onnx_add_integers(&graph, "many", 3000, many);
  onnx_add_integers_of(&graph, "large", ONNX_U8, 1, large);
  onnx_add_integers_of(&graph, "larger", ONNX_U8, 1, larger);
  onnx_add_port(&graph, 11, "x", LS_SHAPE(-1));
  onnx_add_port(&graph, 12, "y", LS_SHAPE(-1));
  expect_ok(onnx_decode(&graph, ONNX_OPSET, &onnx));
  expect_ok(ls_frame_begin());
  const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(1), 1);
  LS_OWN(ls_nest, y) = ls_onnx_apply(onnx, ls_leaf(x), false);
  ls_status status = ls_nest_status(y);
  if (ls_status_is_ok(status))
    status = ls_tensor_item(ls_nest_tensor(y, 0), out_sum);
  ls_status kept = ls_status_clone(status);
  ls_status_free(status);
  ls_status_free(ls_frame_end(NULL));
  return kept;
}

TEST(arithmetic_of_known_integers_is_that_of_their_ops) {
  static const struct {
    const char *nodes;
    double sum;
  } rows[] = {
      {"Reshape list row -> at;Gather pair at -> a", 3},
      {"Reshape four square -> m;Gather m one -> a", 7},
      {"Reshape none wide -> e;Transpose e -> t;Transpose t -> a", 0},
      {"Where list one row -> a", 2},
      {"Where list pair one -> a", 5},
      {"Slice four one end zero most -> a", 2},
      {"Mod minus by -> a", 0},
      {"Mod minus by -> b;Mul b b -> a", 8},
      {"Mod minus by -> a fmod=1", 0},
      {"Mod minus by -> b fmod=1;Mul b b -> a", 2},
      {"Mod large larger -> a", 200},
      {"Reshape minus square -> m;Reshape by square -> n;Mod m n -> b;"
       "Mul b b -> a",
       8},
      {"Resize pair - - end -> a mode=linear", 5},
      {"Squeeze one -> s;Unsqueeze s list -> u;Shape u -> a", 2},
      {"Reshape one ones -> m;Squeeze m zero -> s;Shape s -> a", 1},
      {"Expand one none -> e;Shape e -> a", 1},
      {"ReduceProd row -> a", 2},
      {"ReduceProd row -> a noop_with_empty_axes=1", 3},
      {"Cast most -> a to=6", -1},
      {"Cast vast -> b to=6;Add b b -> c;Cast c -> a to=7", -294967296},
      {"Cast vast -> b to=6;Mul b b -> c;Cast c -> a to=7", -1651507200},
      {"Reshape four square -> m;Transpose m -> t perm=0,1,;"
       "Gather t zero -> a",
       3},
      {"Reshape four square -> m;Slice m last before zero last -> a", 7},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    double sum = -1;
    expect_ok(sum_chain(rows[i].nodes, &sum));
    if (sum != rows[i].sum) fail_msg("%s: %g", rows[i].nodes, sum);
  }
  double sum = 0;
  expect_status(sum_chain("Where many pair many -> a", &sum),
                LS_INVALID_ARGUMENT, "3000");
}

// Few bytes of a file may name long lists: memory for them is bounded.
TEST(long_chains_of_integers_take_little_memory) {
  static int64_t many[4096];
  static const int64_t zero[] = {0}, unit[] = {1};
  for (int k = 0; k < 2; ++k) {
    LS_OWN(counted, c) = counted_begin(1);
    LS_OWN(ls_text, graph) = onnx_text();
    LS_OWN(ls_onnx, onnx) = NULL;
    for (int i = 0; i < 2000; ++i) {
      char nodes[60];
      snprintf(nodes, sizeof(nodes),
               k == 0 ? "Identity k%d -> k%d" : "Add k%d one -> k%d", i, i + 1);
      onnx_add_chain(&graph, nodes);
    }
    onnx_add_chain(&graph, "Gather k2000 zero -> a;Cast a -> f to=1;"
                           "Mul x f -> y");
    onnx_add_integers(&graph, "k0", 4096, many);
    onnx_add_integers(&graph, "zero", 1, zero);
    onnx_add_integers(&graph, "one", 1, unit);
    onnx_add_port(&graph, 11, "x", LS_SHAPE(-1));
    onnx_add_port(&graph, 12, "y", LS_SHAPE(-1));
    expect_ok(onnx_decode(&graph, ONNX_OPSET, &onnx));
    expect_ok(ls_frame_begin());
    const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(1), 1);
    double y = -1;
    LS_OWN(ls_nest, outputs) = ls_onnx_apply(onnx, ls_leaf(x), false);
    expect_ok(ls_tensor_item(ls_nest_tensor(outputs, 0), &y));
    assert_true(y == (k == 0 ? 0 : 2000));
    assert_true(counted_now(&c).peak_bytes < 150 << 20);
    expect_ok(ls_frame_end(NULL));
  }
}

TEST(ops_of_other_domains_are_refused) {
  LS_OWN(ls_text, graph) = onnx_text();
  ls_onnx *onnx = NULL;
  const size_t node = ls_proto_begin(&graph, 1);
  onnx_add_words(&graph, 1, "x x");
  onnx_add_words(&graph, 2, "y");
  ls_proto_string(&graph, 3, "the_node");
  ls_proto_string(&graph, 4, "add");
  ls_proto_string(&graph, 7, "stablehlo");
  ls_proto_end(&graph, node);
  onnx_add_port(&graph, 11, "x", LS_SHAPE(-1, 4));
  onnx_add_port(&graph, 12, "y", LS_SHAPE(-1, 4));
  expect_status(onnx_decode(&graph, ONNX_OPSET, &onnx), LS_UNIMPLEMENTED,
                "op stablehlo.add of node 'the_node'");
}

// ---- Files -----------------------------------------------------------------
// Adds "w", floats of the file at `location`, from byte 4 on.
static void add_external(ls_text *graph, const char *location, int64_t count) {
  const char *const entries[][2] = {{"location", location}, {"offset", "4"}};
  const size_t tensor = ls_proto_begin(graph, 5);
  ls_proto_i64(graph, 1, count);
  ls_proto_i64(graph, 2, ONNX_F32);
  ls_proto_string(graph, 8, "w");
  for (size_t i = 0; i < 2; ++i) {
    const size_t entry = ls_proto_begin(graph, 13);
    ls_proto_string(graph, 1, entries[i][0]);
    ls_proto_string(graph, 2, entries[i][1]);
    ls_proto_end(graph, entry);
  }
  ls_proto_i64(graph, 14, 1);
  ls_proto_end(graph, tensor);
}

static ls_status load_external(const char *location, int64_t count,
                               ls_onnx **out) {
  LS_OWN(ls_text, graph) = onnx_text();
  add_external(&graph, location, count);
  onnx_add_node(&graph, "Add", "x w", "y", "");
  onnx_add_port(&graph, 11, "x", LS_SHAPE(-1, 2));
  onnx_add_port(&graph, 12, "y", LS_SHAPE(-1, 2));
  LS_OWN(ls_text, model) = onnx_model(&graph, ONNX_OPSET);
  write_file("net.onnx", &model);
  return ls_onnx_load("net.onnx", NULL, out);
}

TEST(weights_may_lie_in_a_file_beside_it) {
  static const float numbers[] = {7, 3, 4};
  LS_OWN(ls_text, data) = onnx_text();
  LS_OWN(ls_onnx, onnx) = NULL;
  ls_onnx *none = NULL;
  ls_variable *w = NULL;
  ls_text_append_bytes(&data, numbers, sizeof(numbers));
  write_file("weights", &data);
  expect_ok(load_external("weights", 2, &onnx));
  assert_int_equal(ls_onnx_variables(onnx, &w, 1), 1);
  expect_variable(w, (const double[]){3, 4}, 2, 0);
  expect_status(load_external("../weights", 2, &none), LS_INVALID_ARGUMENT,
                "..");
  data.size = 8;
  write_file("weights", &data);
  expect_status(load_external("weights", 2, &none), LS_INVALID_ARGUMENT,
                "8 bytes");
  // No memory is asked for.
  expect_status(load_external("weights", (int64_t)1 << 50, &none),
                LS_INVALID_ARGUMENT, "8 bytes");
  expect_status(load_external("weights", INT64_MAX, &none), LS_INVALID_ARGUMENT,
                "data end earlier");
  remove("weights");
  remove("net.onnx");
}

TEST(packed_numbers_may_come_in_several_parts) {
  static const float numbers[] = {3, 4, 5};
  LS_OWN(ls_text, graph) = onnx_text();
  LS_OWN(ls_onnx, onnx) = NULL;
  ls_variable *w = NULL;
  const size_t tensor = ls_proto_begin(&graph, 5);
  ls_proto_i64(&graph, 1, 4);
  ls_proto_i64(&graph, 2, ONNX_F32);
  ls_proto_string(&graph, 8, "w");
  ls_proto_bytes(&graph, 4, numbers, sizeof(float));
  ls_proto_bytes(&graph, 4, numbers + 1, 2 * sizeof(float));
  ls_proto_f32(&graph, 4, 6);
  ls_proto_end(&graph, tensor);
  onnx_add_node(&graph, "Add", "x w", "y", "");
  onnx_add_port(&graph, 11, "x", LS_SHAPE(-1, 4));
  onnx_add_port(&graph, 12, "y", LS_SHAPE(-1, 4));
  expect_ok(onnx_decode(&graph, ONNX_OPSET, &onnx));
  assert_int_equal(ls_onnx_variables(onnx, &w, 1), 1);
  expect_variable(w, (const double[]){3, 4, 5, 6}, 4, 0);
}

TEST(any_bytes_are_read_or_refused) {
  LS_OWN(ls_text, graph) = onnx_text();
  add_line(&graph);
  LS_OWN(ls_text, model) = onnx_model(&graph, ONNX_OPSET);
  for (size_t size = 0; size < model.size; ++size) {
    LS_OWN(ls_onnx, onnx) = NULL;
    ls_status_free(ls_onnx_decode("cut", ls_text_data(&model), size, &onnx));
  }
  for (size_t i = 0; i < model.size; ++i) {
    LS_OWN(ls_onnx, onnx) = NULL;
    model.data[i] ^= (char)(1 << (i * 37 % 8));
    ls_status_free(
        ls_onnx_decode("bits", ls_text_data(&model), model.size, &onnx));
    model.data[i] ^= (char)(1 << (i * 37 % 8));
  }
}
