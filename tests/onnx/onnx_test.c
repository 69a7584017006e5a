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
#include "support/function.h"
#include "support/scratch.h"
#include "support/values.h"

TEST_FILE(.set_up = scratch_enter, .tear_down = scratch_leave);

enum { F32 = 1, U8 = 2, I64 = 7, OPSET = 17 };

// ---- Writing ---------------------------------------------------------------
// A node: inputs and outputs separated by spaces, then attributes such as
// "axis=1", "pads=1,1,1,1" or "mode=edge"; reals have a point, lists a comma
// behind each number.
static void add_attr(ls_text *out, const char *text) {
  const size_t attr = ls_proto_begin(out, 5);
  const char *value = strchr(text, '=') + 1;
  char name[40];
  snprintf(name, sizeof(name), "%.*s", (int)(value - 1 - text), text);
  ls_proto_string(out, 1, name);
  if (strchr("-0123456789", *value) == NULL)
    ls_proto_string(out, 4, value);
  else if (strchr(value, ',') == NULL && strchr(value, '.') != NULL)
    ls_proto_f32(out, 2, (float)atof(value));
  else if (strchr(value, ',') == NULL)
    ls_proto_i64(out, 3, atoll(value));
  const bool reals = strchr(value, '.') != NULL;
  for (; strchr(value, ',') != NULL; value = strchr(value, ',') + 1) {
    if (reals)
      ls_proto_f32(out, 7, (float)atof(value));
    else
      ls_proto_i64(out, 8, atoll(value));
  }
  ls_proto_end(out, attr);
}

static void add_words(ls_text *out, unsigned field, const char *words) {
  char copy[200], *rest = copy;
  snprintf(copy, sizeof(copy), "%s", words);
  for (char *word = strtok_r(copy, " ", &rest); word != NULL;
       word = strtok_r(NULL, " ", &rest))
    ls_proto_string(out, field, strcmp(word, "-") == 0 ? "" : word);
}

static void add_node(ls_text *out, const char *type, const char *inputs,
                     const char *outputs, const char *attrs) {
  char copy[200], *rest = copy;
  const size_t node = ls_proto_begin(out, 1);
  add_words(out, 1, inputs);
  add_words(out, 2, outputs);
  ls_proto_string(out, 3, "the_node");
  ls_proto_string(out, 4, type);
  snprintf(copy, sizeof(copy), "%s", attrs);
  for (char *word = strtok_r(copy, " ", &rest); word != NULL;
       word = strtok_r(NULL, " ", &rest))
    add_attr(out, word);
  ls_proto_end(out, node);
}

// An initializer of one or two dimensions (columns 0: one).
static void add_floats(ls_text *out, const char *name, int64_t rows,
                       int64_t columns, const float *values) {
  const size_t tensor = ls_proto_begin(out, 5);
  ls_proto_i64(out, 1, rows);
  if (columns > 0) ls_proto_i64(out, 1, columns);
  ls_proto_i64(out, 2, F32);
  ls_proto_string(out, 8, name);
  ls_proto_bytes(out, 9, values,
                 (size_t)(rows * (columns > 0 ? columns : 1)) * sizeof(float));
  ls_proto_end(out, tensor);
}

static void add_integers_of(ls_text *out, const char *name, int64_t type,
                            int64_t count, const int64_t *values) {
  const size_t tensor = ls_proto_begin(out, 5);
  ls_proto_i64(out, 1, count);
  ls_proto_i64(out, 2, type);
  for (int64_t i = 0; i < count; ++i)
    ls_proto_i64(out, type == I64 ? 7 : 5, values[i]);
  ls_proto_string(out, 8, name);
  ls_proto_end(out, tensor);
}

static void add_integers(ls_text *out, const char *name, int64_t count,
                         const int64_t *values) {
  add_integers_of(out, name, I64, count, values);
}

// An input or output; a size of -1 is unknown.
static void add_port(ls_text *out, unsigned field, const char *name,
                     ls_shape shape) {
  const size_t port = ls_proto_begin(out, field);
  ls_proto_string(out, 1, name);
  const size_t type = ls_proto_begin(out, 2), tensor = ls_proto_begin(out, 1);
  ls_proto_i64(out, 1, F32);
  const size_t sizes = ls_proto_begin(out, 2);
  for (int32_t i = 0; i < shape.rank; ++i) {
    const size_t dim = ls_proto_begin(out, 1);
    if (shape.dim[i] >= 0) ls_proto_i64(out, 1, shape.dim[i]);
    ls_proto_end(out, dim);
  }
  ls_proto_end(out, sizes);
  ls_proto_end(out, tensor);
  ls_proto_end(out, type);
  ls_proto_end(out, port);
}

static ls_text text_of(void) {
  ls_text text;
  ls_text_init(&text, ls_allocator_system());
  return text;
}

static ls_text model_of(const ls_text *graph, int64_t opset) {
  ls_text model = text_of();
  ls_proto_i64(&model, 1, 8);
  const size_t version = ls_proto_begin(&model, 8);
  ls_proto_i64(&model, 2, opset);
  ls_proto_end(&model, version);
  ls_proto_bytes(&model, 7, ls_text_data(graph), graph->size);
  return model;
}

static ls_status load(const ls_text *graph, int64_t opset, ls_onnx **out) {
  LS_OWN(ls_text, model) = model_of(graph, opset);
  *out = NULL;
  return ls_onnx_decode("net.onnx", ls_text_data(&model), model.size, out);
}

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
    expect_ok(load(file, row->opset > 0 ? row->opset : OPSET, &onnx));
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
  LS_OWN(ls_text, graph) = text_of();
  LS_OWN(ls_onnx, onnx) = NULL;
  ls_shape open = row->shape;
  open.dim[0] = -1;
  for (int i = 0; i < 24; ++i)
    numbers[i] = i + 1;
  add_node(&graph, row->type, row->inputs, "y", row->attrs);
  add_floats(&graph, "w", 2, 2, weights);
  add_floats(&graph, "b", 2, 0, weights);
  add_integers(&graph, "list", 2, list);
  add_integers(&graph, "ends", 2, ends);
  add_integers(&graph, "axes", 2, axes);
  add_integers(&graph, "pads", 4, pads);
  add_integers(&graph, "pair", 2, pair);
  add_port(&graph, 11, "x", open);
  add_port(&graph, 12, "y", LS_SHAPE(-1));
  expect_ok(load(&graph, row->opset > 0 ? row->opset : OPSET, &onnx));
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
  add_floats(graph, "w", 2, 1, w);
  add_floats(graph, "b", 1, 0, b);
  add_floats(graph, "mask", 2, 0, mask);
  add_floats(graph, "one", 1, 0, w);
  add_node(graph, "Gemm", "x w b", "z", "");
  add_node(graph, "Mul", "z one", "y", "");
  add_port(graph, 11, "x", LS_SHAPE(-1, 2));
  add_port(graph, 12, "y", LS_SHAPE(-1, 1));
}

TEST(weights_are_variables_under_their_names) {
  LS_OWN(ls_text, graph) = text_of();
  LS_OWN(ls_onnx, onnx) = NULL;
  ls_variable *variables[4] = {NULL};
  ls_serving_value values[2];
  add_line(&graph);
  expect_ok(load(&graph, OPSET, &onnx));
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
  LS_OWN(ls_text, graph) = text_of();
  LS_OWN(ls_onnx, onnx) = NULL;
  LS_OWN(ls_optimizer, optimizer) = NULL;
  ls_variable *variables[2] = {NULL};
  add_line(&graph);
  expect_ok(load(&graph, OPSET, &onnx));
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

static ls_model_type *type_of_node(const char *type, ls_shape x, ls_shape y) {
  LS_OWN(ls_text, graph) = text_of();
  ls_model_type *made = NULL;
  add_node(&graph, type, "x", "y", "");
  add_port(&graph, 11, "x", x);
  add_port(&graph, 12, "y", y);
  LS_OWN(ls_text, model) = model_of(&graph, OPSET);
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
  LS_OWN(ls_text, graph) = text_of();
  LS_OWN(ls_onnx, onnx) = NULL;
  add_node(&graph, type, inputs, "y", attrs);
  add_port(&graph, 11, "x", LS_SHAPE(-1, 4));
  add_port(&graph, 12, "y", LS_SHAPE(-1, 4));
  const ls_status status = load(&graph, opset, &onnx);
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
  expect_refused("Loop", "x", "", OPSET, LS_UNIMPLEMENTED, "the_node");
  expect_refused("Relu", "x", "", 5, LS_UNIMPLEMENTED, "opset");
  expect_refused("Relu", "z", "", OPSET, LS_INVALID_ARGUMENT, "takes 'z'");
  expect_refused("Relu", "x x", "", OPSET, LS_INVALID_ARGUMENT, "2 inputs");
  expect_refused("Reshape", "x x", "", OPSET, LS_UNIMPLEMENTED, "the_node");
  expect_refused("Flatten", "x", "axis=9", OPSET, LS_INVALID_ARGUMENT,
                 "axis 9");
  expect_refused("GRU", "x x x", "", OPSET, LS_UNIMPLEMENTED, "GRU");
  expect_refused("MaxPool", "x", "kernel_shape=2,", OPSET, LS_UNIMPLEMENTED,
                 "2 dimensions");
  expect_refused("Resize", "x - - x", "coordinate_transformation_mode=other",
                 OPSET, LS_UNIMPLEMENTED, "'other'");
  expect_refused("Resize", "x - - x", "keep_aspect_ratio_policy=not_larger",
                 OPSET, LS_UNIMPLEMENTED, "policy");
  expect_refused("BatchNormalization", "x x x x x", "spatial=0", 7,
                 LS_UNIMPLEMENTED, "spatial");
  expect_refused("Split", "x", "split=3, axis=1", 9, LS_UNIMPLEMENTED,
                 "a split");
  expect_refused("LSTM", "x x x", "activations=1,", OPSET, LS_UNIMPLEMENTED,
                 "activations of a recurrent layer that are no names");
}

// ---- Integers --------------------------------------------------------------
// A chain of nodes, separated by ';', each "Type inputs -> output attrs", whose
// last output is "a".
static void add_chain(ls_text *graph, const char *nodes) {
  char copy[300], *rest = copy;
  snprintf(copy, sizeof(copy), "%s", nodes);
  for (char *node = strtok_r(copy, ";", &rest); node != NULL;
       node = strtok_r(NULL, ";", &rest)) {
    char *inputs = strchr(node, ' '), *output = strstr(node, " -> ");
    *inputs = *output = '\0';
    output += 4;
    char *attrs = strchr(output, ' ');
    if (attrs != NULL) *attrs++ = '\0';
    add_node(graph, node, inputs + 1, output, attrs != NULL ? attrs : "");
  }
}

// Makes x times the sum of the integers of a chain; x is 1.
static ls_status sum_chain(const char *nodes, double *out_sum) {
  static const int64_t pair[] = {-1, 4}, list[] = {0, 1}, row[] = {1, 2},
                       four[] = {1, 2, 3, 4}, square[] = {2, 2}, unit[] = {1},
                       end[] = {4}, most[] = {INT64_MAX}, wide[] = {0, 5},
                       minus[] = {-7, 7, -6, 6}, by[] = {3, -3, 3, -3},
                       large[] = {200}, larger[] = {250};
  static int64_t many[3000];
  LS_OWN(ls_text, graph) = text_of();
  LS_OWN(ls_onnx, onnx) = NULL;
  add_chain(&graph, nodes);
  add_chain(&graph, "Cast a -> f to=1;ReduceSum f -> r keepdims=0;"
                    "Mul x r -> y");
  add_integers(&graph, "none", 0, pair);
  add_integers(&graph, "zero", 1, list);
  add_integers(&graph, "one", 1, unit);
  add_integers(&graph, "end", 1, end);
  add_integers(&graph, "most", 1, most);
  add_integers(&graph, "pair", 2, pair);
  add_integers(&graph, "list", 2, list);
  add_integers(&graph, "row", 2, row);
  add_integers(&graph, "wide", 2, wide);
  add_integers(&graph, "square", 2, square);
  add_integers(&graph, "four", 4, four);
  add_integers(&graph, "minus", 4, minus);
  add_integers(&graph, "by", 4, by);
  add_integers(&graph, "many", 3000, many);
  add_integers_of(&graph, "large", U8, 1, large);
  add_integers_of(&graph, "larger", U8, 1, larger);
  add_port(&graph, 11, "x", LS_SHAPE(-1));
  add_port(&graph, 12, "y", LS_SHAPE(-1));
  expect_ok(load(&graph, OPSET, &onnx));
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

// ---- Unknown sizes ---------------------------------------------------------
typedef struct open_chain {
  const char *nodes;
  ls_shape open, shape;  // Of the placeholder, and of what is fed: 1, 2, ...
  ls_shape result;
  double wanted[12];
  int64_t opset;
} open_chain;

static void add_numbers(ls_text *graph) {
  static const float floats[] = {2, 1, 0.7F}, line[] = {1, 2, 3, 4, 5, 6, 7, 8},
                     square[] = {1, 2, 3, 4};
  static const int64_t ints[] = {0, 2, 1, -1, 4, -100, -200, 512};
  static const char *const names[] = {"zero", "two", "one",     "minus",
                                      "four", "far", "farther", "most"};
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i)
    add_integers(graph, names[i], 1, ints + i);
  add_integers(graph, "swap", 3, ints);
  add_integers_of(graph, "one_of_i32", 6, 1, ints + 2);
  add_integers_of(graph, "none_of_i32", 6, 1, ints);
  add_floats(graph, "real", 1, 0, floats);
  add_floats(graph, "scales", 2, 0, floats + 1);
  add_floats(graph, "pair", 2, 0, line);
  add_floats(graph, "line", 8, 0, line);
  add_floats(graph, "square", 2, 2, square);
}

// Applies a chain, whose last output is "y", to a placeholder of the graph.
static ls_status apply_open(const open_chain *row, ls_onnx **onnx, ls_tensor *x,
                            ls_tensor *y) {
  LS_OWN(ls_text, file) = text_of();
  add_chain(&file, row->nodes);
  add_numbers(&file);
  add_port(&file, 11, "x", row->open);
  add_port(&file, 12, "y", LS_SHAPE(-1));
  expect_ok(load(&file, row->opset > 0 ? row->opset : OPSET, onnx));
  *x = ls_placeholder(LS_DTYPE_F32, row->open, "x");
  LS_OWN(ls_nest, outputs) = ls_onnx_apply(*onnx, ls_leaf(*x), false);
  *y = ls_nest_tensor(outputs, 0);
  return ls_nest_status(outputs);
}

static void expect_run(ls_graph *graph, ls_op init, ls_tensor x, ls_tensor y,
                       const open_chain *row) {
  double numbers[24];
  for (int i = 0; i < 24; ++i)
    numbers[i] = i + 1;
  LS_OWN(ls_array, fed) = array_of(LS_DTYPE_F32, row->shape, numbers);
  ls_session *session = session_of(graph);
  LS_OWN(ls_nest, begun) = session_results(session, ls_nest_op(init));
  LS_OWN(ls_nest, got) = ls_none();
  expect_ok(ls_session_run(session, ls_leaf(y),
                           &(ls_feed){.tensor = x, .value = fed}, 1, &got));
  const ls_array *array = ls_nest_as_array(got);
  if (!ls_shape_equal(ls_array_shape(array), row->result))
    fail_msg("%s: %s", row->nodes,
             LS_SHAPE_TEXT(ls_array_dtype(array), ls_array_shape(array)));
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    if (!(fabs(ls_array_f64(array, i) - row->wanted[i]) < 1e-5))
      fail_msg("%s: element %d is %g", row->nodes, (int)i,
               ls_array_f64(array, i));
  ls_session_destroy(session);
}

static void expect_open(const open_chain *row) {
  LS_OWN(ls_onnx, onnx) = NULL;
  LS_OWN(ls_graph, graph) = graph_named("g");
  ls_tensor x = ls_failed_tensor(), y = x;
  ls_op init = {NULL, 0};
  {
    LS_GRAPH_SCOPE(graph);
    expect_ok(apply_open(row, &onnx, &x, &y));
    init = ls_global_initializer();
  }
  expect_run(graph, init, x, y, row);
}

TEST(chains_with_unknown_sizes_compute_what_onnx_says) {
  const ls_shape open = LS_SHAPE(-1, -1), row = LS_SHAPE(1, 3),
                 line = LS_SHAPE(-1), map = LS_SHAPE(1, 1, -1);
  const open_chain rows[] = {
      {"Gather x minus -> y axis=1", open, row, LS_SHAPE(1, 1), {3}, 0},
      {"Slice x zero most one -> y", open, row, row, {1, 2, 3}, 0},
      {"Slice x zero two one -> y", open, row, LS_SHAPE(1, 2), {1, 2}, 0},
      {"Slice x four most one -> y", open, row, LS_SHAPE(1, 0), {0}, 0},
      {"Shape x -> s start=1;Slice line zero s -> y",
       open,
       row,
       LS_SHAPE(3),
       {1, 2, 3},
       0},
      {"Shape x -> s start=1;Concat s s -> t axis=0;Expand x t -> y",
       open,
       row,
       LS_SHAPE(3, 3),
       {1, 2, 3, 1, 2, 3, 1, 2, 3},
       0},
      {"Shape x -> s;Cast s -> n to=6;Range none_of_i32 n one_of_i32 -> r;"
       "Add r one_of_i32 -> q;Cast q -> y to=1",
       line,
       LS_SHAPE(3),
       LS_SHAPE(3),
       {1, 2, 3},
       0},
      {"MaxPool x -> y kernel_shape=2, strides=2, ceil_mode=1",
       map,
       LS_SHAPE(1, 1, 5),
       LS_SHAPE(1, 1, 3),
       {2, 4, 5},
       0},
      {"AveragePool x -> y kernel_shape=2, strides=2, ceil_mode=1",
       map,
       LS_SHAPE(1, 1, 4),
       LS_SHAPE(1, 1, 2),
       {1.5, 3.5},
       0},
      {"Shape x -> s;Equal s minus -> e;Where e one s -> t;Reshape x t -> y",
       line,
       LS_SHAPE(2),
       LS_SHAPE(2),
       {1, 2},
       0},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    expect_open(&rows[i]);
}

TEST(numbers_computed_from_unknown_sizes_are_refused) {
  static const char *const chains[] = {
      "Concat s s s s -> p axis=0;Pad x p -> y",
      "Split line s -> y",
      "OneHot swap s pair -> y",
      "CumSum x s -> y",
      "Trilu square s -> y",
      "Squeeze x s -> y",
      "Unsqueeze x s -> y",
      "Slice x zero two s -> y",
      "Slice x zero two one s -> y",
      "Slice swap zero two zero s -> y",
      "ReduceSum x s -> y",
      "TopK line s -> y",
      "Unsqueeze square zero -> q;Concat s s s -> z axis=0;"
      "Resize q - - z -> y",
      "Equal s one -> e;Where e one two -> w;Cast w -> y to=1",
  };
  for (size_t i = 0; i < LS_COUNT_OF(chains); ++i) {
    char nodes[300];
    LS_OWN(ls_onnx, onnx) = NULL;
    LS_OWN(ls_graph, graph) = graph_named("g");
    LS_GRAPH_SCOPE(graph);
    ls_tensor x = ls_failed_tensor(), y = x;
    snprintf(nodes, sizeof(nodes), "Shape x -> s end=1;%s", chains[i]);
    const open_chain row = {.nodes = nodes, .open = LS_SHAPE(-1, -1)};
    const ls_status status = apply_open(&row, &onnx, &x, &y);
    if (ls_status_is_ok(status)) fail_msg("%s", nodes);
    expect_contains(ls_status_message(status), "the_node");
    expect_status(status, LS_UNIMPLEMENTED, "known");
  }
}

// A slice up to 2 along an axis of unknown size, which may be shorter.
TEST(slices_that_end_behind_an_axis_have_gradients) {
  const open_chain rows[] = {
      {"Slice x zero two -> y",
       LS_SHAPE(-1),
       LS_SHAPE(3),
       LS_SHAPE(3),
       {2, 4, 0},
       0},
      {"Slice x zero two -> y", LS_SHAPE(-1), LS_SHAPE(1), LS_SHAPE(1), {2}, 0},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(ls_onnx, onnx) = NULL;
    LS_OWN(ls_graph, graph) = graph_named("g");
    ls_tensor x = ls_failed_tensor(), y = x;
    ls_op init = {NULL, 0};
    LS_OWN(ls_nest, gradients) = ls_none();
    {
      LS_GRAPH_SCOPE(graph);
      expect_ok(apply_open(&rows[i], &onnx, &x, &y));
      const ls_nest total = ls_leaf(ls_reduce_sum(ls_square(y), LS_ALL_AXES)),
                    wanted = ls_leaf(x);
      expect_ok(ls_gradients(&total, 1, &wanted, 1, NULL, &gradients));
      init = ls_global_initializer();
    }
    expect_run(graph, init, x, ls_nest_tensor(gradients, 0), &rows[i]);
  }
}

TEST(attributes_and_types_are_looked_at) {
  const ls_shape row = LS_SHAPE(1, 3), open = LS_SHAPE(-1, 3);
  const open_chain rows[] = {
      {"Sub x real -> d;Sub real real -> z;Div d z -> i;"
       "IsInf i -> f detect_negative=0;Cast f -> y to=1",
       open,
       row,
       row,
       {0, 0, 1},
       0},
      {"Cast x -> i to=6;Slice scales one two -> part;Pow i part -> p;"
       "Cast p -> y to=1",
       open,
       row,
       row,
       {1, 1, 2},
       0},
      {"Slice x far farther one minus -> y", open, row, LS_SHAPE(1, 1), {1}, 0},
      {"Cast x -> i to=6;Pow i i -> p;ReduceMean p -> m axes=1,;"
       "Cast m -> y to=1",
       open,
       row,
       LS_SHAPE(1, 1),
       {10},
       0},
      {"Greater x real -> g;ReduceMax g -> m axes=1,;Cast m -> y to=1",
       open,
       row,
       LS_SHAPE(1, 1),
       {1},
       0},
      {"Resize x - scales -> y coordinate_transformation_mode=asymmetric "
       "nearest_mode=floor",
       LS_SHAPE(-1, 10),
       LS_SHAPE(1, 10),
       LS_SHAPE(1, 7),
       {1, 2, 3, 5, 6, 8, 9},
       0},
      {"Upsample x -> y scales=1.,2.,",
       open,
       row,
       LS_SHAPE(1, 6),
       {1, 1, 2, 2, 3, 3},
       7},
      {"Resize x - - four -> y axes=1,",
       open,
       row,
       LS_SHAPE(1, 4),
       {1, 2, 2, 3},
       18},
      {"Unsqueeze pair zero -> k;Unsqueeze k zero -> q;Unsqueeze x one -> z;"
       "ConvTranspose z q -> y auto_pad=VALID",
       open,
       row,
       LS_SHAPE(1, 1, 4),
       {1, 4, 7, 6},
       0},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    expect_open(&rows[i]);
}

TEST(optional_outputs_that_are_not_made_are_refused_by_name) {
  for (int is_output = 0; is_output < 2; ++is_output) {
    LS_OWN(ls_text, graph) = text_of();
    LS_OWN(ls_onnx, onnx) = NULL;
    add_numbers(&graph);
    add_node(&graph, "LayerNormalization", "x pair", "n mean", "");
    add_node(&graph, "Add", "n mean", "y", "");
    add_port(&graph, 11, "x", LS_SHAPE(-1, 2));
    add_port(&graph, 12, is_output ? "mean" : "y", LS_SHAPE(-1, -1));
    expect_ok(load(&graph, OPSET, &onnx));
    expect_ok(ls_frame_begin());
    const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(1, 2), 1);
    LS_OWN(ls_nest, y) = ls_onnx_apply(onnx, ls_leaf(x), false);
    const ls_status made = ls_nest_status(y);
    expect_contains(ls_status_message(made), "net.onnx");
    expect_status(made, LS_UNIMPLEMENTED, "'mean', an optional output");
    expect_ok(ls_frame_end(NULL));
  }
}

TEST(ops_of_other_domains_are_refused) {
  LS_OWN(ls_text, graph) = text_of();
  ls_onnx *onnx = NULL;
  const size_t node = ls_proto_begin(&graph, 1);
  add_words(&graph, 1, "x x");
  add_words(&graph, 2, "y");
  ls_proto_string(&graph, 3, "the_node");
  ls_proto_string(&graph, 4, "add");
  ls_proto_string(&graph, 7, "stablehlo");
  ls_proto_end(&graph, node);
  add_port(&graph, 11, "x", LS_SHAPE(-1, 4));
  add_port(&graph, 12, "y", LS_SHAPE(-1, 4));
  expect_status(load(&graph, OPSET, &onnx), LS_UNIMPLEMENTED,
                "op stablehlo.add of node 'the_node'");
}

// ---- Files -----------------------------------------------------------------
// Adds "w", floats of the file at `location`, from byte 4 on.
static void add_external(ls_text *graph, const char *location, int64_t count) {
  const char *const entries[][2] = {{"location", location}, {"offset", "4"}};
  const size_t tensor = ls_proto_begin(graph, 5);
  ls_proto_i64(graph, 1, count);
  ls_proto_i64(graph, 2, F32);
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
  LS_OWN(ls_text, graph) = text_of();
  add_external(&graph, location, count);
  add_node(&graph, "Add", "x w", "y", "");
  add_port(&graph, 11, "x", LS_SHAPE(-1, 2));
  add_port(&graph, 12, "y", LS_SHAPE(-1, 2));
  LS_OWN(ls_text, model) = model_of(&graph, OPSET);
  write_file("net.onnx", &model);
  return ls_onnx_load("net.onnx", NULL, out);
}

TEST(weights_may_lie_in_a_file_beside_it) {
  static const float numbers[] = {7, 3, 4};
  LS_OWN(ls_text, data) = text_of();
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
  LS_OWN(ls_text, graph) = text_of();
  LS_OWN(ls_onnx, onnx) = NULL;
  ls_variable *w = NULL;
  const size_t tensor = ls_proto_begin(&graph, 5);
  ls_proto_i64(&graph, 1, 4);
  ls_proto_i64(&graph, 2, F32);
  ls_proto_string(&graph, 8, "w");
  ls_proto_bytes(&graph, 4, numbers, sizeof(float));
  ls_proto_bytes(&graph, 4, numbers + 1, 2 * sizeof(float));
  ls_proto_f32(&graph, 4, 6);
  ls_proto_end(&graph, tensor);
  add_node(&graph, "Add", "x w", "y", "");
  add_port(&graph, 11, "x", LS_SHAPE(-1, 4));
  add_port(&graph, 12, "y", LS_SHAPE(-1, 4));
  expect_ok(load(&graph, OPSET, &onnx));
  assert_int_equal(ls_onnx_variables(onnx, &w, 1), 1);
  expect_variable(w, (const double[]){3, 4, 5, 6}, 4, 0);
}

TEST(any_bytes_are_read_or_refused) {
  LS_OWN(ls_text, graph) = text_of();
  add_line(&graph);
  LS_OWN(ls_text, model) = model_of(&graph, OPSET);
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
