// SPDX-License-Identifier: Apache-2.0
//
// Exports as ONNX and StableHLO: what is written, and what cannot be. That
// others run them is held by interop/serving_test.
#define _GNU_SOURCE
#include "lockstep/serving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/own.h"
#include "lockstep/lockstep.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/served_model.h"
#include "support/spec.h"

// ---- What is written -------------------------------------------------------
TEST(a_signature_is_written_as_stablehlo) {
  served_make_folder();
  served_model m = served_open_model();
  served_request r;
  served_ask(&r, &m);
  r.options.stablehlo = LS_FLAG_ON;
  r.options.batch_size = 5;
  LS_OWN(printed, path) = NULL;
  expect_ok(ls_serving_export(&r.options, &path));
  char *text = served_read(path, "serve.stablehlo.mlir", NULL);
  assert_string_equal(
      text,
      "module @lockstep {\n"
      "  func.func public @main(%arg0: tensor<5x3xf32> {ls.input = "
      "\"features\"}, %arg1: tensor<3x2xf32> {ls.variable = \"layer/w\"}, "
      "%arg2: tensor<2xf32> {ls.variable = \"layer/b\"}) -> "
      "(tensor<5x2xf32> {ls.output = \"y\"}) {\n"
      "    %v4 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x "
      "[0], precision = [HIGHEST, HIGHEST] : (tensor<5x3xf32>, "
      "tensor<3x2xf32>) -> tensor<5x2xf32>\n"
      "    %v5 = stablehlo.broadcast_in_dim %arg2, dims = [1] : "
      "(tensor<2xf32>) -> tensor<5x2xf32>\n"
      "    %v6 = stablehlo.add %v4, %v5 : tensor<5x2xf32>\n"
      "    %v7 = stablehlo.constant dense<\"0x00000000\"> : tensor<f32>\n"
      "    %v8 = stablehlo.broadcast_in_dim %v7, dims = [] : (tensor<f32>) -> "
      "tensor<5x2xf32>\n"
      "    %v9 = stablehlo.maximum %v6, %v8 : tensor<5x2xf32>\n"
      "    return %v9 : tensor<5x2xf32>\n"
      "  }\n"
      "}\n");
  free(text);
  served_drop(&r);
  served_close_model(&m);
  served_remove_folder(served_folder);
}

// A class that cannot be, -inf, would make 0 * -inf of what is multiplied.
TEST(a_loss_leaves_other_classes_out) {
  served_make_folder();
  ls_tensor x, labels, y;
  ls_graph *graph = graph_named("loss");
  {
    LS_GRAPH_SCOPE(graph);
    x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1, 3), "x");
    labels = ls_placeholder(LS_DTYPE_I32, LS_SHAPE(-1), "labels");
    y = ls_softmax_cross_entropy(x, labels);
  }
  const ls_nest inputs = ls_nest_dict(
                    "", (const char *const[]){"x", "labels"},
                    (const ls_nest[]){ls_leaf(x), ls_leaf(labels)}, 2),
                outputs = served_dict_of("loss", ls_leaf(y));
  char *path = NULL;
  expect_ok(ls_serving_export(
      &(ls_serving_options){
          .base = served_folder,
          .graphs =
              &(ls_serving_graph){.graph = graph,
                                  .signatures =
                                      &(ls_serving_signature){
                                          .output = {.key = LS_SERVING_DEFAULT,
                                                     .tensors = outputs},
                                          .inputs = inputs},
                                  .num_signatures = 1},
          .num_graphs = 1,
          .stablehlo = LS_FLAG_ON},
      &path));
  char *text = served_read(path, "serve.stablehlo.mlir", NULL);
  assert_non_null(strstr(text, "stablehlo.select"));
  assert_null(strstr(text, "stablehlo.multiply"));
  free(text);
  ls_text_release(path);
  ls_nest_release(inputs);
  ls_nest_release(outputs);
  ls_graph_destroy(graph);
  served_remove_folder(served_folder);
}

static bool holds(const char *bytes, size_t size, const char *part) {
  return memmem(bytes, size, part, strlen(part)) != NULL;
}

TEST(a_signature_is_written_as_onnx) {
  served_make_folder();
  served_model m = served_open_model();
  served_request r;
  served_ask(&r, &m);
  const ls_serving_signature two[] = {
      r.signature, {{"again", LS_EXPORT_PREDICT, r.outputs}, r.inputs}};
  r.graph.signatures = two;
  r.graph.num_signatures = 2;
  r.options.onnx = LS_FLAG_ON;
  char *path = NULL, file[200];
  expect_ok(ls_serving_export(&r.options, &path));
  size_t size = 0, again = 0;
  char *bytes = served_read(path, "model.onnx", &size);
  static const char *const parts[] = {"lockstep", "MatMul",  "features",
                                      "layer/w",  "layer/b", "batch"};
  for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); ++i)
    assert_true(holds(bytes, size, parts[i]));
  free(bytes);
  free(served_read(path, "model.again.onnx", NULL));
  // Of what was loaded it is the same.
  ls_serving *s = NULL;
  expect_ok(ls_serving_load(path, NULL, &s));
  snprintf(file, sizeof(file), "%s/here.onnx", path);
  expect_ok(ls_serving_write_onnx(s, NULL, file));
  bytes = served_read(path, "model.onnx", &size);
  char *other = served_read(path, "here.onnx", &again);
  assert_int_equal(size, again);
  assert_memory_equal(bytes, other, size);
  free(bytes);
  free(other);
  snprintf(file, sizeof(file), "%s/here.mlir", path);
  expect_ok(ls_serving_write_stablehlo(s, "again", 3, file));
  expect_status(ls_serving_write_stablehlo(s, "again", 0, file),
                LS_INVALID_ARGUMENT, "at least 1");
  expect_status(ls_serving_write_onnx(s, "other", file), LS_NOT_FOUND,
                "'serving_default', 'again'");
  ls_serving_destroy(s);
  ls_text_release(path);
  served_drop(&r);
  served_close_model(&m);
  served_remove_folder(served_folder);
}

// ---- What cannot be --------------------------------------------------------
typedef ls_tensor (*make_function)(ls_tensor x);

static ls_tensor make_random(ls_tensor x) {
  LS_NAME_SCOPE("dice");
  return ls_mul(x, ls_random_uniform(LS_DTYPE_F32, LS_SCALAR, 0, 1, NULL));
}
static ls_tensor make_order(ls_tensor x) {
  LS_NAME_SCOPE("order");
  return ls_sort(x, 1, false);
}
static ls_nest smaller(ls_nest carried, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(carried, 0), ls_scalar(LS_DTYPE_F32, 9)));
}
static ls_nest doubled(ls_nest carried, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(carried, 0);
  return LS_LIST(ls_leaf(ls_add(x, x)));
}
static ls_tensor make_loop(ls_tensor x) {
  const ls_nest start = LS_LIST(ls_leaf(ls_reduce_max(x, LS_ALL_AXES)));
  LS_OWN(ls_nest, made) = ls_while(smaller, doubled, NULL, start, 0);
  return ls_nest_tensor(made, 0);
}
// 1 / the batch size is a constant.
static ls_tensor make_mean(ls_tensor x) {
  LS_NAME_SCOPE("average");
  return ls_reduce_mean(x, LS_AXES(0));
}
static ls_tensor make_square(ls_tensor x) {
  LS_NAME_SCOPE("square");
  return ls_reshape(ls_matmul_transposed(x, false, x, true), LS_SHAPE(-1));
}

// Has one row at all batch sizes near ten thousand.
static ls_tensor make_thinned(ls_tensor x) {
  LS_NAME_SCOPE("thinned");
  return ls_slice(x, LS_SHAPE(0, 0), LS_SHAPE(-1, -1), LS_SHAPE(20000, 1));
}
static ls_tensor make_sum(ls_tensor x) {
  const ls_tensor terms[] = {ls_neg(x), ls_abs(x), ls_exp(x), ls_tanh(x),
                             ls_sqrt(ls_abs(x))};
  return ls_add_n(terms, 5);
}
static ls_tensor make_half_sum(ls_tensor x) {
  return make_sum(ls_convert(x, LS_DTYPE_BF16));
}

static ls_status try(make_function make, ls_shape shape, bool onnx) {
  LS_OWN(printed, path) = NULL;
  return served_export(make, shape, onnx, &path);
}

TEST(what_cannot_be_written_is_named) {
  served_make_folder();
  const ls_shape rows = LS_SHAPE(-1, 3);
  static const struct {
    make_function make;
    const char *says;
  } onnx[] = {{make_random, "op 'dice/random_uniform' (random_uniform)"},
              {make_order, "(sort): there is no form of this op"},
              {make_order, "form of this op (at "},
              {make_order, "languages_test.c:"}};
  for (size_t i = 0; i < sizeof(onnx) / sizeof(*onnx); ++i)
    expect_status(try(onnx[i].make, rows, true), LS_UNIMPLEMENTED,
                  onnx[i].says);
  expect_status(try(make_random, rows, false), LS_UNIMPLEMENTED, onnx[0].says);
  expect_status(try(make_loop, rows, true), LS_UNIMPLEMENTED,
                "(while): there are no regions");
  expect_ok(try(make_loop, LS_SHAPE(2, 3), false));
  // Any batch: sizes that are no multiple of it, and constants.
  expect_status(try(make_mean, rows, true), LS_UNIMPLEMENTED,
                "'average/reduce_mean'");
  expect_status(try(make_square, rows, true), LS_UNIMPLEMENTED,
                "size depends on the batch size other than by a factor");
  expect_status(try(make_thinned, rows, true), LS_UNIMPLEMENTED,
                "op 'thinned/slice' (slice): its size depends on the batch");
  expect_ok(try(make_mean, rows, false));
  expect_ok(try(make_mean, LS_SHAPE(2, 3), true));
  expect_status(try(ls_relu, LS_SHAPE(2, -1), true), LS_UNIMPLEMENTED,
                "input 'x' is f32[2,?]");
  expect_status(try(ls_relu, LS_SHAPE_UNKNOWN, false), LS_UNIMPLEMENTED,
                "input 'x'");
  served_remove_folder(served_folder);
}

// Operands of the sums in a StableHLO text, in order; their number.
static int find_sums(const char *text, int (*sums)[3], int capacity) {
  int count = 0;
  for (const char *at = text; (at = strstr(at, "%v")) != NULL; at += 2)
    if (count < capacity &&
        sscanf(at, "%%v%d = stablehlo.add %%v%d, %%v%d", &sums[count][0],
               &sums[count][1], &sums[count][2]) == 3)
      ++count;
  return count;
}

static void expect_tree(make_function make, const char *type, bool rounds) {
  int sums[8][3];
  LS_OWN(printed, path) = NULL;
  expect_ok(served_export(make, LS_SHAPE(2, 3), false, &path));
  HEAP(char, text) = served_read(path, "serve.stablehlo.mlir", NULL);
  assert_int_equal(find_sums(text, sums, 8), 4);
  // (a + b) + (c + d), and e.
  assert_int_equal(sums[2][1], sums[0][0]);
  assert_int_equal(sums[2][2], sums[1][0]);
  assert_int_equal(sums[3][1], sums[2][0]);
  char last[80], end[80];
  snprintf(last, sizeof(last), "%%v%d : (tensor<2x3x%s>)", sums[3][0], type);
  snprintf(end, sizeof(end), ", %%v%d : tensor<2x3x%s>", sums[3][2], type);
  assert_int_equal(strstr(text, last) != NULL, rounds);
  assert_non_null(strstr(text, end));
}

// As our kernels add: 16-bit floats in f32, rounded once.
TEST(sums_of_many_are_added_along_the_tree) {
  served_make_folder();
  expect_tree(make_sum, "f32", false);
  expect_tree(make_half_sum, "f32", true);
  served_remove_folder(served_folder);
}

static ls_tensor make_hollow(ls_tensor x) {
  return ls_slice(x, LS_SHAPE(0, 0), LS_SHAPE(2, 0), LS_SHAPE(1, 2));
}

static bool has_numbers(const char *bytes, size_t size, int64_t a, int64_t b) {
  const int64_t wanted[] = {a, b};
  return memmem(bytes, size, wanted, sizeof(wanted)) != NULL;
}

// An end below 0 would be one from the other side.
TEST(slices_of_nothing_end_where_they_begin) {
  LS_OWN(printed, path) = NULL;
  size_t size = 0;
  served_make_folder();
  expect_ok(served_export(make_hollow, LS_SHAPE(2, 3), true, &path));
  char *bytes = served_read(path, "model.onnx", &size);
  assert_true(has_numbers(bytes, size, 2, 0));
  assert_false(has_numbers(bytes, size, 2, -1));
  free(bytes);
  served_remove_folder(served_folder);
}

TEST(signatures_that_write_are_refused) {
  served_make_folder();
  served_model m = served_open_model();
  ls_tensor y;
  {
    LS_GRAPH_SCOPE(m.graph);
    const ls_tensor sum = ls_reduce_sum(m.x, LS_AXES(0));
    y = ls_variable_assign_add(m.other, ls_slice_axis(sum, 0, 0, 2));
  }
  served_request r;
  served_ask(&r, &m);
  const ls_nest outputs = served_dict_of("y", ls_leaf(y));
  r.signature.output.tensors = outputs;
  char *path = NULL;
  expect_ok(ls_serving_export(&r.options, &path));  // As our own.
  ls_text_release(path);
  path = NULL;
  r.options.base = "written-export";
  r.options.onnx = LS_FLAG_ON;
  expect_status(ls_serving_export(&r.options, &path), LS_UNIMPLEMENTED,
                "writes variable 'other'");
  assert_true(served_is_empty("written-export"));
  ls_nest_release(outputs);
  served_drop(&r);
  served_close_model(&m);
  served_remove_folder(served_folder);
  served_remove_folder("written-export");
}

// ---- Memory ----------------------------------------------------------------
static ls_tensor make_net(ls_tensor x) {
  const ls_tensor hot = ls_one_hot(ls_argmax(x, 1), 3, LS_DTYPE_F32);
  return ls_gelu(ls_softmax(ls_add(ls_matmul_transposed(hot, false, x, true),
                                   ls_scalar(LS_DTYPE_F32, 1))));
}

static ls_status write_both(void *user) {
  (void)user;
  LS_OWN(ls_graph, graph) = NULL;
  LS_OWN(ls_nest, inputs) = ls_none();
  LS_OWN(ls_nest, outputs) = ls_none();
  LS_RETURN_IF_ERROR(ls_graph_create("g", &graph));
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(2, 3), "x");
    inputs = served_dict_of("x", ls_leaf(x));
    outputs = served_dict_of("y", ls_leaf(make_net(x)));
  }
  LS_RETURN_IF_ERROR(ls_graph_take_error(graph));
  LS_RETURN_IF_ERROR(ls_nest_status(inputs));
  LS_RETURN_IF_ERROR(ls_nest_status(outputs));
  const ls_serving_signature signature = {
      {LS_SERVING_DEFAULT, LS_EXPORT_PREDICT, outputs}, inputs};
  const ls_serving_graph one = {
      .graph = graph, .signatures = &signature, .num_signatures = 1};
  static int count;
  char base[100], *path = NULL;
  snprintf(base, sizeof(base), "%s/%d", served_folder, count++);
  LS_RETURN_IF_ERROR(
      ls_serving_export(&(ls_serving_options){.base = base,
                                              .graphs = &one,
                                              .num_graphs = 1,
                                              .onnx = LS_FLAG_ON,
                                              .stablehlo = LS_FLAG_ON},
                        &path));
  ls_text_release(path);
  return ls_ok();
}

TEST(any_allocation_may_fail) {
  served_make_folder();
  REFUSE_EACH(write_both, NULL);
  served_remove_folder(served_folder);
}
