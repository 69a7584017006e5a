// SPDX-License-Identifier: Apache-2.0
//
// Our own exports as ONNX and StableHLO, read back: the same predictions, and
// the same training.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/own.h"
#include "lockstep/full.h"
#include "nn/own.h"
#include "onnx/onnx_load.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/onnx_files.h"
#include "support/recurrence.h"
#include "support/served_model.h"
#include "support/small_models.h"
#include "support/spec.h"

enum { MOST_VARIABLES = 100, STEPS = 10, BATCH = 4 };

static ls_dtype dtype_of(const ls_model_type *type) {
  return type->example_dtype == LS_DTYPE_NONE ? LS_DTYPE_F32
                                              : type->example_dtype;
}

static ls_shape shape_of(const ls_model_type *type, int64_t batch) {
  ls_shape shape = {.rank = type->example_shape.rank + 1, .dim = {batch}};
  memcpy(shape.dim + 1, type->example_shape.dim,
         (size_t)type->example_shape.rank * sizeof(*shape.dim));
  return shape;
}

// Exports a fresh model, and writes the path of a file. StableHLO has another
// batch size than the one that trains.
static void export_model(const ls_model_type *type, const char *file,
                         char *path, size_t size) {
  LS_OWN(ls_graph, graph) = graph_named(type->name);
  LS_OWN(ls_nest, inputs) = ls_none();
  LS_OWN(ls_nest, outputs) = ls_none();
  ls_variable *variables[MOST_VARIABLES];
  ls_model model = {0};
  {
    LS_GRAPH_SCOPE(graph);
    expect_ok(ls_model_create(type, NULL, &model));
    const ls_tensor x =
        ls_placeholder(dtype_of(type), shape_of(type, -1), "examples");
    LS_OWN(ls_nest, args) = LS_TUPLE(ls_leaf(x));
    LS_OWN(ls_nest, logits) = type->logits(args, model.self);
    inputs = served_dict_of("examples", ls_leaf(x));
    outputs = served_dict_of("logits", ls_leaf(ls_nest_tensor(logits, 0)));
  }
  ls_session *session = session_of(graph);
  const size_t count = type->variables(model.self, variables, MOST_VARIABLES);
  for (size_t i = 0; i < count; ++i) {
    LS_OWN(ls_nest, results) = session_results(
        session, ls_nest_op(ls_variable_initializer(variables[i])));
  }
  const ls_serving_signature signature = {
      {LS_SERVING_DEFAULT, LS_EXPORT_PREDICT, outputs}, inputs};
  const ls_serving_graph served = {
      .graph = graph, .signatures = &signature, .num_signatures = 1};
  char *folder = NULL;
  expect_ok(ls_serving_export(&(ls_serving_options){.base = served_folder,
                                                    .graphs = &served,
                                                    .num_graphs = 1,
                                                    .session = session,
                                                    .onnx = LS_FLAG_ON,
                                                    .stablehlo = LS_FLAG_ON,
                                                    .batch_size = BATCH / 2},
                              &folder));
  snprintf(path, size, "%s/%s", folder, file);
  ls_text_release(folder);
  ls_session_destroy(session);
  ls_model_destroy(&model);
}

// A batch of examples and labels, the same for every model of these shapes.
static ls_nest batch_of(const ls_model_type *type) {
  ls_nest batch = ls_none();
  expect_ok(ls_model_synthetic_batch(type, BATCH, &batch));
  return batch;
}

static ls_nest call_logits(ls_nest args, void *user) {
  const ls_model *model = user;
  return model->type->logits(args, model->self);
}

static ls_nest call_step(ls_nest args, void *user) {
  const ls_model *model = user;
  return model->type->train_step(args, model->self);
}

static void train(const ls_model *model, ls_nest batch, int steps,
                  double *losses) {
  LS_OWN(ls_function, function) = function_of(call_step, (void *)model);
  for (int i = 0; i < steps; ++i) {
    LS_OWN(ls_nest, result) = call_results(function, batch);
    losses[i] = ls_nest_number(ls_nest_find(result, "loss"));
  }
}

// Makes a model that normalizes its examples, unless they are tokens.
static void create_model(const ls_model_type *type, ls_model *out) {
  LS_OWN(ls_optimizer, optimizer) = NULL;
  expect_ok(
      ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.05}, &optimizer));
  ls_model_options options = {.optimizer = optimizer};
  LS_OWN(ls_array, mean) = scalar_array(LS_DTYPE_F32, 0.25);
  LS_OWN(ls_array, deviation) = scalar_array(LS_DTYPE_F32, 2);
  if (type->example_dtype != LS_DTYPE_I32) {
    options.mean = mean;
    options.deviation = deviation;
  }
  expect_ok(ls_model_create(type, &options, out));
}

// The file's model predicts and trains as the one it was exported from.
static void expect_same(const ls_model_type *type, const char *name,
                        bool trains_alike, int steps) {
  char path[300];
  ls_model own = {0}, read = {0};
  ls_model_type *file = NULL;
  double losses[2][STEPS];
  served_make_folder();
  export_model(type, name, path, sizeof(path));
  expect_ok(ls_onnx_type_create(path, &file));
  assert_true(strncmp(file->name, name, strlen(file->name)) == 0);
  assert_true(ls_shape_equal(file->example_shape, type->example_shape));
  assert_true(ls_shape_equal(file->label_shape, type->label_shape));
  assert_int_equal(file->num_classes, type->num_classes);
  create_model(type, &own);
  create_model(file, &read);
  LS_OWN(ls_nest, batch) = batch_of(type);
  LS_OWN(ls_nest, wanted) = call_on(1, call_logits, &own, batch, 1);
  LS_OWN(ls_nest, got) = call_on(1, call_logits, &read, batch, 1);
  const ls_array *a = ls_nest_as_array(ls_nest_is_node(wanted)
                                           ? ls_nest_item(wanted, 0)
                                           : wanted),
                 *b = ls_nest_as_array(
                     ls_nest_is_node(got) ? ls_nest_item(got, 0) : got);
  assert_true(ls_shape_equal(ls_array_shape(a), ls_array_shape(b)));
  for (int64_t i = 0; i < ls_array_num_elements(a); ++i)
    assert_true(fabs(ls_array_f64(a, i) - ls_array_f64(b, i)) < 1e-5);
  train(&own, batch, steps, losses[0]);
  train(&read, batch, steps, losses[1]);
  assert_true(losses[1][steps - 1] < losses[1][0]);
  for (int i = 0; trains_alike && i < steps; ++i)
    assert_true(fabs(losses[0][i] - losses[1][i]) < 1e-4);
  ls_model_destroy(&own);
  ls_model_destroy(&read);
  ls_onnx_type_destroy(file);
  served_remove_folder(served_folder);
}

static const char onnx[] = "model.onnx", stablehlo[] = "serve.stablehlo.mlir";

TEST(a_perceptron_goes_out_and_comes_back) {
  expect_same(&small_mlp, onnx, true, STEPS);
  expect_same(&small_mlp, stablehlo, true, STEPS);
}

// Its dropout is not in the file.
TEST(a_convolutional_net_goes_out_and_comes_back) {
  expect_same(&small_cnn, onnx, false, STEPS);
  expect_same(&small_cnn, stablehlo, false, STEPS);
}

TEST(a_transformer_goes_out_and_comes_back) {
  expect_same(&small_gpt, onnx, true, STEPS);
  expect_same(&small_gpt, stablehlo, true, STEPS);
}

// With transposed convolutions.
TEST(a_u_net_goes_out_and_comes_back) {
  expect_same(ls_model_find("unet"), onnx, true, 2);
  expect_same(ls_model_find("unet"), stablehlo, true, 2);
}

// ---- Refused exports -------------------------------------------------------
// Returns the mean of the first rows, of up to 100.
static ls_tensor mean_of_first_rows(ls_tensor x) {
  static const int64_t numbers[] = {0, 100};
  LS_OWN(ls_text, file) = onnx_text();
  LS_OWN(ls_onnx, net) = NULL;
  onnx_add_chain(&file, "Slice x zero end zero -> q;ReduceMean q -> y axes=0,");
  onnx_add_integers(&file, "zero", 1, numbers);
  onnx_add_integers(&file, "end", 1, numbers + 1);
  onnx_add_port(&file, 11, "x", LS_SHAPE(-1, 2));
  onnx_add_port(&file, 12, "y", LS_SHAPE(1, 2));
  onnx_add_port(&file, 13, "q", LS_SHAPE(-1, 2));
  expect_ok(onnx_decode(&file, ONNX_OPSET, &net));
  LS_OWN(ls_nest, outputs) = ls_onnx_apply(net, ls_leaf(x), false);
  expect_ok(ls_nest_status(outputs));
  return ls_nest_tensor(outputs, 0);
}

TEST(a_slice_that_ends_with_the_batch_is_refused) {
  LS_SPEC("E194");
  char *path = NULL;
  served_make_folder();
  expect_status(served_export(mean_of_first_rows, LS_SHAPE(-1, 2), true, &path),
                LS_UNIMPLEMENTED, "end depends on the batch size");
  served_remove_folder(served_folder);
}

// Variables are called as an input, and as what that variable would be called
// in the file.
TEST(values_of_an_export_have_names_of_their_own) {
  LS_SPEC("E194");
  LS_OWN(ls_graph, graph) = graph_named("g");
  ls_variable *a = NULL, *b = NULL;
  LS_OWN(ls_nest, inputs) = ls_none();
  LS_OWN(ls_nest, outputs) = ls_none();
  char *folder = NULL, path[300];
  served_make_folder();
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1, 1), "p");
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "x",
                               .initial_value =
                                   ls_fill(LS_DTYPE_F32, LS_SHAPE(1), 10)},
        &a));
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "x/variable",
                               .initial_value =
                                   ls_fill(LS_DTYPE_F32, LS_SHAPE(1), 1)},
        &b));
    inputs = served_dict_of("x", ls_leaf(x));
    outputs = served_dict_of("x", ls_leaf(ls_add(ls_mul(x, ls_variable_read(a)),
                                                 ls_variable_read(b))));
  }
  ls_session *session = session_of(graph);
  LS_OWN(ls_nest, first) =
      session_results(session, ls_nest_op(ls_variable_initializer(a)));
  LS_OWN(ls_nest, second) =
      session_results(session, ls_nest_op(ls_variable_initializer(b)));
  const ls_serving_signature signature = {
      {LS_SERVING_DEFAULT, LS_EXPORT_PREDICT, outputs}, inputs};
  const ls_serving_graph served = {
      .graph = graph, .signatures = &signature, .num_signatures = 1};
  expect_ok(ls_serving_export(&(ls_serving_options){.base = served_folder,
                                                    .graphs = &served,
                                                    .num_graphs = 1,
                                                    .session = session,
                                                    .onnx = LS_FLAG_ON},
                              &folder));
  snprintf(path, sizeof(path), "%s/%s", folder, onnx);
  LS_OWN(ls_onnx, net) = NULL;
  expect_ok(ls_onnx_load(path, NULL, &net));
  expect_ok(ls_frame_begin());
  LS_OWN(ls_nest, got) = ls_onnx_apply(
      net, ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(1, 1), 2)), false);
  double number = 0;
  expect_ok(ls_tensor_item(ls_nest_tensor(got, 0), &number));
  assert_true(number == 21);
  expect_ok(ls_frame_end(NULL));
  ls_text_release(folder);
  ls_session_destroy(session);
  ls_variable_release(a);
  ls_variable_release(b);
  served_remove_folder(served_folder);
}
