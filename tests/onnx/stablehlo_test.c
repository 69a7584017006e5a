// SPDX-License-Identifier: Apache-2.0
//
// StableHLO's texts, as JAX and others write them: what they compute, for the
// batch of the text and for another one, what is refused, and garbage.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/own.h"
#include "lockstep/full.h"
#include "nn/own.h"
#include "onnx/onnx_load.h"
#include "runtime/own.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/scratch.h"
#include "support/values.h"

TEST_FILE(.set_up = scratch_enter, .tear_down = scratch_leave);

enum { TEXT_SIZE = 4000, MOST = 32 };

// Functions that rows call.
static const char functions[] =
    "  func.func private @relu(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
    "    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>\n"
    "    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> "
    "tensor<2x3xf32>\n"
    "    %1 = stablehlo.maximum %arg0, %0 : tensor<2x3xf32>\n"
    "    return %1 : tensor<2x3xf32>\n  }\n"
    "  func.func private @both(%arg0: tensor<2x3xf32>) -> (tensor<2x3xf32>, "
    "tensor<2x3xf32>) {\n"
    "    %0 = func.call @relu(%arg0) : (tensor<2x3xf32>) -> tensor<2x3xf32>\n"
    "    %1 = stablehlo.negate %0 : tensor<2x3xf32>\n"
    "    return %0, %1 : tensor<2x3xf32>, tensor<2x3xf32>\n  }\n}\n";

// Writes a module whose main function makes %y of %x.
static void write_module(const char *input, const char *output,
                         const char *body, char *out) {
  snprintf(out, TEXT_SIZE,
           "module @m attributes {mhlo.num_partitions = 1 : i32} {\n"
           "  func.func public @main(%%x: tensor<%s> loc(\"x\")) -> "
           "(tensor<%s> {jax.result_info = \"y\"}) {\n%s\n"
           "    return %%y : tensor<%s>\n  }\n%s",
           input, output, body, output, functions);
}

static ls_status decode(const char *text, size_t size, ls_onnx **out) {
  *out = NULL;
  return ls_onnx_decode("net.mlir", text, size, out);
}

// A text of a few ops on x = 1, 2, 3, ...
typedef struct row {
  const char *input, *output, *body;
  ls_shape shape, result;
  double wanted[12];
  const char *refused;  // Part of the message for another batch size, or NULL.
} row;

// Applies a row to `copies` batches, one after the other.
static void expect_copies(const row *r, const ls_onnx *onnx, int copies) {
  double numbers[2 * MOST], wanted[2 * MOST];
  const int64_t size = ls_shape_num_elements(r->shape);
  const int64_t count = ls_shape_num_elements(r->result);
  ls_shape shape = r->shape, result = r->result;
  shape.dim[0] *= copies;
  result.dim[0] *= copies;
  for (int64_t i = 0; i < copies * size; ++i)
    numbers[i] = (double)(i % size) + 1;
  for (int64_t i = 0; i < copies * count; ++i)
    wanted[i] = r->wanted[i % count];
  expect_ok(ls_frame_begin());
  const ls_tensor x = eager_of(LS_DTYPE_F32, shape, numbers);
  LS_OWN(ls_nest, y) = ls_onnx_apply(onnx, ls_leaf(x), false);
  if (copies > 1 && r->refused != NULL) {
    expect_status(ls_nest_status(y), LS_UNIMPLEMENTED, r->refused);
  } else {
    expect_ok(ls_nest_status(y));
    assert_non_null(ls_nest_find(y, "y").kind == LS_KIND_TENSOR ? "" : NULL);
    expect_tensor_of(ls_nest_tensor(y, 0), result, wanted, 1e-5);
  }
  expect_ok(ls_frame_end(NULL));
}

static void expect_row(const row *r) {
  char text[TEXT_SIZE];
  LS_OWN(ls_onnx, onnx) = NULL;
  write_module(r->input, r->output, r->body, text);
  expect_ok(decode(text, strlen(text), &onnx));
  expect_copies(r, onnx, 1);
  expect_copies(r, onnx, 2);
}

#define T23 "tensor<2x3xf32>"
#define LINE(text) "    " text "\n"
#define ROW23(body, ...)                                                       \
  {                                                                            \
    "2x3xf32", "2x3xf32", body, LS_SHAPE(2, 3), LS_SHAPE(2, 3), {__VA_ARGS__}, \
        NULL                                                                   \
  }

TEST(elementwise_ops_compute_what_the_text_says) {
  static const row rows[] = {
      ROW23("%y = stablehlo.negate %x : " T23, -1, -2, -3, -4, -5, -6),
      ROW23("%y = \"stablehlo.add\"(%x, %x) : (" T23 ", " T23 ") -> " T23, 2, 4,
            6, 8, 10, 12),
      ROW23(LINE("%c = stablehlo.constant dense<[1.0, 2.0, 3.0]> : "
                 "tensor<3xf32> loc(#loc2)")
                LINE("%0 = stablehlo.broadcast_in_dim %c, dims = [1] : "
                     "(tensor<3xf32>) -> tensor<1x3xf32>")
                    LINE("%1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : "
                         "(tensor<1x3xf32>) -> " T23)
                        LINE("%y = stablehlo.multiply %x, %1 : " T23),
            1, 4, 9, 4, 10, 18),
      ROW23(LINE("%c = stablehlo.constant dense<0x40400000> : tensor<2x3xf32>")
                LINE("%0 = stablehlo.compare GT, %x, %c, FLOAT : (" T23 ", " T23
                     ") -> tensor<2x3xi1>")
                    LINE("%y = stablehlo.select %0, %x, %c : "
                         "tensor<2x3xi1>, " T23),
            3, 3, 3, 4, 5, 6),
      ROW23(LINE("%c = stablehlo.constant dense<\"0x0000A0400000A0C0\"> : "
                 "tensor<2xf32>")
                LINE("%0 = \"stablehlo.broadcast_in_dim\"(%c) "
                     "<{broadcast_dimensions = array<i64: 0>}> : "
                     "(tensor<2xf32>) -> " T23)
                    LINE("%1 = \"stablehlo.compare\"(%x, %x) <{compare_type = "
                         "#stablehlo<comparison_type FLOAT>, "
                         "comparison_direction = "
                         "#stablehlo<comparison_direction NE>}> : (" T23
                         ", " T23 ") -> tensor<2x3xi1>")
                        LINE("%2 = stablehlo.convert %1 : (tensor<2x3xi1>) "
                             "-> " T23)
                            LINE("%3 = stablehlo.clamp %2, %x, %x : "
                                 "(" T23 ", " T23 ", " T23 ") -> " T23)
                                LINE("%y = chlo.square %3 : " T23 " -> " T23),
            1, 4, 9, 16, 25, 36),
      ROW23(LINE("%n = stablehlo.negate %x : " T23)
                LINE("%y = call @relu(%n) : (" T23 ") -> " T23),
            0, 0, 0, 0, 0, 0),
      ROW23(LINE("%0:2 = call @both(%x) : (" T23 ") -> (" T23 ", " T23 ")")
                LINE("%y = stablehlo.add %0#0, %0#1 : " T23),
            0, 0, 0, 0, 0, 0),
      ROW23(LINE("%n = stablehlo.negate %x : " T23)
                LINE("%y = \"func.call\"(%n) <{callee = @relu}> : (" T23
                     ") -> " T23),
            0, 0, 0, 0, 0, 0),
      ROW23(LINE("%a = stablehlo.constant dense<18446744073709551615> : "
                 "tensor<ui64>")
                LINE("%b = stablehlo.constant dense<1> : tensor<ui64>")
                    LINE("%p = stablehlo.compare GT, %a, %b : (tensor<ui64>, "
                         "tensor<ui64>) -> tensor<i1>")
                        LINE("%n = stablehlo.negate %x : " T23)
                            LINE("%y = stablehlo.select %p, %x, %n : "
                                 "tensor<i1>, " T23),
            1, 2, 3, 4, 5, 6),
      ROW23(LINE("%0 = stablehlo.iota dim = 1 : tensor<2x3xi32>")
                LINE("%1 = stablehlo.convert %0 : (tensor<2x3xi32>) -> " T23)
                    LINE("%y = stablehlo.subtract %x, %1 : " T23),
            1, 1, 1, 4, 4, 4),
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i)
    expect_row(&rows[i]);
}

TEST(ops_of_shapes_compute_what_the_text_says) {
  static const row rows[] = {
      {"2x3xf32",
       "2x3x1xf32",
       "%y = stablehlo.reshape %x : (" T23 ") -> tensor<2x3x1xf32>",
       LS_SHAPE(2, 3),
       LS_SHAPE(2, 3, 1),
       {1, 2, 3, 4, 5, 6},
       NULL},
      {"2x2x2xf32",
       "2x4xf32",
       LINE(
           "%0 = stablehlo.reshape %x : (tensor<2x2x2xf32>) -> tensor<4x2xf32>")
           LINE("%1 = stablehlo.negate %0 : tensor<4x2xf32>")
               LINE("%y = stablehlo.reshape %1 : (tensor<4x2xf32>) -> "
                    "tensor<2x4xf32>"),
       LS_SHAPE(2, 2, 2),
       LS_SHAPE(2, 4),
       {-1, -2, -3, -4, -5, -6, -7, -8},
       NULL},
      {"2x3xf32",
       "2x2xf32",
       "%y = stablehlo.slice %x [0:2, 0:3:2] : (" T23 ") -> tensor<2x2xf32>",
       LS_SHAPE(2, 3),
       LS_SHAPE(2, 2),
       {1, 3, 4, 6},
       NULL},
      {"2x3xf32",
       "1x3xf32",
       "%y = stablehlo.slice %x [1:2, 0:3] : (" T23 ") -> tensor<1x3xf32>",
       LS_SHAPE(2, 3),
       LS_SHAPE(1, 3),
       {4, 5, 6},
       "a slice of the batch"},
      {"2x2xf32",
       "2x5xf32",
       LINE("%c = stablehlo.constant dense<9.0> : tensor<f32>")
           LINE("%y = stablehlo.pad %x, %c, low = [0, 1], high = [0, 1], "
                "interior = [0, 1] : (tensor<2x2xf32>, tensor<f32>) -> "
                "tensor<2x5xf32>"),
       LS_SHAPE(2, 2),
       LS_SHAPE(2, 5),
       {9, 1, 9, 2, 9, 9, 3, 9, 4, 9},
       NULL},
      {"2x2xf32",
       "2x3xf32",
       LINE("%c = stablehlo.constant dense<0.5> : tensor<f32>")
           LINE("%0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) "
                "-> tensor<2x1xf32>")
               LINE("%1 = stablehlo.reverse %x, dims = [1] : tensor<2x2xf32>")
                   LINE("%y = stablehlo.concatenate %1, %0, dim = 1 : "
                        "(tensor<2x2xf32>, tensor<2x1xf32>) -> "
                        "tensor<2x3xf32>"),
       LS_SHAPE(2, 2),
       LS_SHAPE(2, 3),
       {2, 1, 0.5, 4, 3, 0.5},
       NULL},
      {"2x3xf32",
       "2x1xf32",
       LINE("%c = stablehlo.constant dense<0> : tensor<i32>")
           LINE("%d = stablehlo.constant dense<7> : tensor<i32>")
               LINE("%y = stablehlo.dynamic_slice %x, %c, %d, sizes = [2, 1] : "
                    "(" T23 ", tensor<i32>, tensor<i32>) -> tensor<2x1xf32>"),
       LS_SHAPE(2, 3),
       LS_SHAPE(2, 1),
       {3, 6},
       NULL},
      {"2x3xf32",
       "2x2xf32",
       LINE("%c = stablehlo.constant dense<[[0, 2]]> : tensor<1x2xi32>")
           LINE("%i = stablehlo.reshape %c : (tensor<1x2xi32>) -> "
                "tensor<2x1xi32>")
               LINE("%t = stablehlo.transpose %x, dims = [1, 0] : (" T23
                    ") -> tensor<3x2xf32>")
                   LINE("%0 = stablehlo.constant dense<[[1.0, 0.0, 0.0], [0.0, "
                        "0.0, 1.0]]> : tensor<2x3xf32>")
                       LINE("%y = stablehlo.dot_general %x, %0, "
                            "contracting_dims = [1] x [1], precision = "
                            "[DEFAULT, DEFAULT] : (" T23 ", " T23
                            ") -> tensor<2x2xf32>"),
       LS_SHAPE(2, 3),
       LS_SHAPE(2, 2),
       {1, 3, 4, 6},
       NULL},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i)
    expect_row(&rows[i]);
}

TEST(sums_and_windows_compute_what_the_text_says) {
  static const row rows[] = {
      {"2x3xf32",
       "2xf32",
       LINE("%c = stablehlo.constant dense<1.0> : tensor<f32>") LINE(
           "%y = stablehlo.reduce(%x init: %c) applies stablehlo.add "
           "across dimensions = [1] : (" T23 ", tensor<f32>) -> tensor<2xf32>"),
       LS_SHAPE(2, 3),
       LS_SHAPE(2),
       {7, 16},
       NULL},
      {"2x3xf32",
       "2xf32",
       LINE("%c = stablehlo.constant dense<0xFF800000> : tensor<f32>")
           LINE("%y = stablehlo.reduce(%x init: %c) across dimensions = [1] : "
                "(" T23 ", tensor<f32>) -> tensor<2xf32>")
               LINE(" reducer(%a: tensor<f32>, %b: tensor<f32>) {")
                   LINE("  %m = stablehlo.maximum %a, %b : tensor<f32>")
                       LINE("  stablehlo.return %m : tensor<f32>") LINE("}"),
       LS_SHAPE(2, 3),
       LS_SHAPE(2),
       {3, 6},
       NULL},
      {"2x3xf32",
       "3xf32",
       LINE("%c = stablehlo.constant dense<0.0> : tensor<f32>") LINE(
           "%y = stablehlo.reduce(%x init: %c) applies stablehlo.add "
           "across dimensions = [0] : (" T23 ", tensor<f32>) -> tensor<3xf32>"),
       LS_SHAPE(2, 3),
       LS_SHAPE(3),
       {5, 7, 9},
       "a reduction of the batch"},
      {"1x2x4x1xf32",
       "1x1x2x1xf32",
       LINE("%c = stablehlo.constant dense<0xFF800000> : tensor<f32>")
           LINE("%y = \"stablehlo.reduce_window\"(%x, %c) <{padding = dense<0> "
                ": tensor<4x2xi64>, window_dimensions = array<i64: 1, 2, 2, "
                "1>, window_strides = array<i64: 1, 2, 2, 1>}> ({")
               LINE("^bb0(%a: tensor<f32>, %b: tensor<f32>):")
                   LINE("  %m = stablehlo.maximum %a, %b : tensor<f32>")
                       LINE("  stablehlo.return %m : tensor<f32>")
                           LINE("}) : (tensor<1x2x4x1xf32>, tensor<f32>) -> "
                                "tensor<1x1x2x1xf32>"),
       LS_SHAPE(1, 2, 4, 1),
       LS_SHAPE(1, 1, 2, 1),
       {6, 8},
       NULL},
      {"2x3xf32",
       "2x3xf32",
       LINE("%c = stablehlo.constant dense<0.0> : tensor<f32>")
           LINE("%y = \"stablehlo.reduce_window\"(%x, %c) <{padding = "
                "dense<[[0, 0], [2, 0]]> : tensor<2x2xi64>, "
                "window_dimensions = array<i64: 1, 3>}> ({")
               LINE("^bb0(%a: tensor<f32>, %b: tensor<f32>):")
                   LINE("  %m = stablehlo.add %a, %b : tensor<f32>")
                       LINE("  stablehlo.return %m : tensor<f32>")
                           LINE("}) : (tensor<2x3xf32>, tensor<f32>) -> "
                                "tensor<2x3xf32>"),
       LS_SHAPE(2, 3),
       LS_SHAPE(2, 3),
       {1, 3, 6, 4, 9, 15},
       NULL},
      {"1x2x2x1xf32",
       "1x2x2x1xf32",
       LINE("%c = stablehlo.constant dense<0.0> : tensor<f32>") LINE(
           "%d = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> "
           "tensor<f32>")
           LINE("%y = \"stablehlo.reduce_window\"(%x, %d) <{padding = "
                "dense<[[0, 0], [1, 0], [0, 0], [0, 0]]> : tensor<4x2xi64>, "
                "window_dimensions = array<i64: 1, 2, 1, 1>}> ({")
               LINE("^bb0(%a: tensor<f32>, %b: tensor<f32>):")
                   LINE("  %m = stablehlo.add %a, %b : tensor<f32>")
                       LINE("  stablehlo.return %m : tensor<f32>")
                           LINE("}) : (tensor<1x2x2x1xf32>, tensor<f32>) -> "
                                "tensor<1x2x2x1xf32>"),
       LS_SHAPE(1, 2, 2, 1),
       LS_SHAPE(1, 2, 2, 1),
       {1, 2, 4, 6},
       NULL},
      {"1x2x2x1xf32",
       "1x2x2x1xf32",
       LINE("%c = stablehlo.constant dense<[[[[1.0]], [[10.0]]]]> : "
            "tensor<1x2x1x1xf32>")
           LINE("%y = stablehlo.convolution(%x, %c) dim_numbers = [b, 0, 1, "
                "f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad "
                "= [[0, 0], [0, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], "
                "reverse = [false, false]} {batch_group_count = 1 : i64, "
                "feature_group_count = 1 : i64, precision_config = "
                "[#stablehlo<precision DEFAULT>, #stablehlo<precision "
                "DEFAULT>]} : (tensor<1x2x2x1xf32>, tensor<1x2x1x1xf32>) -> "
                "tensor<1x2x2x1xf32>"),
       LS_SHAPE(1, 2, 2, 1),
       LS_SHAPE(1, 2, 2, 1),
       {21, 2, 43, 4},
       NULL},
      {"2x2x2xf32",
       "2x2x2xf32",
       "%y = stablehlo.dot_general %x, %x, batching_dims = [0] x [0], "
       "contracting_dims = [2] x [2] : (tensor<2x2x2xf32>, tensor<2x2x2xf32>) "
       "-> tensor<2x2x2xf32>",
       LS_SHAPE(2, 2, 2),
       LS_SHAPE(2, 2, 2),
       {5, 11, 11, 25, 61, 83, 83, 113},
       NULL},
      {"2x1xf32",
       "2x1x2xf32",
       LINE("%w = stablehlo.constant dense<[[0.0, 1.0], [2.0, 3.0], [4.0, "
            "5.0], [6.0, 7.0]]> : tensor<4x2xf32>")
           LINE("%0 = stablehlo.convert %x : (tensor<2x1xf32>) -> "
                "tensor<2x1xi32>")
               LINE("%1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : "
                    "(tensor<2x1xi32>) -> tensor<2x1x1xi32>")
                   LINE("%y = \"stablehlo.gather\"(%w, %1) "
                        "<{dimension_numbers = #stablehlo.gather<offset_dims = "
                        "[2], collapsed_slice_dims = [0], start_index_map = "
                        "[0], index_vector_dim = 2>, indices_are_sorted = "
                        "false, slice_sizes = array<i64: 1, 2>}> : "
                        "(tensor<4x2xf32>, tensor<2x1x1xi32>) -> "
                        "tensor<2x1x2xf32>"),
       LS_SHAPE(2, 1),
       LS_SHAPE(2, 1, 2),
       {2, 3, 4, 5},
       NULL},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i)
    expect_row(&rows[i]);
}

#define LOOP(condition)                                                        \
  LINE("%c = stablehlo.constant dense<0> : tensor<i32>")                       \
  LINE("%r:2 = stablehlo.while(%i = %c, %v = %x) : tensor<i32>, " T23)         \
  LINE("cond {")                                                               \
  condition LINE("} do {")                                                     \
      LINE("  %one = stablehlo.constant dense<1> : tensor<i32>")               \
          LINE("  %n = stablehlo.add %i, %one : tensor<i32>")                  \
              LINE("  %w = stablehlo.add %v, %x : " T23)                       \
                  LINE("  stablehlo.return %n, %w : tensor<i32>, " T23)        \
                      LINE("}") LINE("%y = stablehlo.negate %r#1 : " T23)

TEST(a_loop_of_known_steps_is_unrolled) {
  static const row rows[] = {
      ROW23(LOOP(LINE("  %l = stablehlo.constant dense<3> : tensor<i32>")
                     LINE("  %t = stablehlo.compare LT, %i, %l, SIGNED : "
                          "(tensor<i32>, tensor<i32>) -> tensor<i1>")
                         LINE("  stablehlo.return %t : tensor<i1>")),
            -4, -8, -12, -16, -20, -24)};
  expect_row(&rows[0]);
}

// A bool is 0 or 1, however its number is written; places in a region are no
// ops.
TEST(bools_and_places_are_read) {
  static const row rows[] = {
      ROW23(LINE("%c = stablehlo.constant dense<[2, 0, -1]> : tensor<3xi1>")
                LINE("%0 = stablehlo.convert %c : (tensor<3xi1>) -> "
                     "tensor<3xf32>")
                    LINE("%1 = stablehlo.broadcast_in_dim %0, dims = [1] : "
                         "(tensor<3xf32>) -> " T23)
                        LINE("%y = stablehlo.add %x, %1 : " T23),
            2, 2, 4, 5, 5, 7),
      ROW23(LINE("%z = stablehlo.constant dense<0.0> : tensor<f32>") LINE(
                "%s = \"stablehlo.reduce\"(%x, %z) <{dimensions = "
                "array<i64: 1>}> ({")
                LINE("^bb0(%a: tensor<f32> loc(\"file.py\":1:2), %b: "
                     "tensor<f32>):")
                    LINE("  %m = stablehlo.add %a, %b : tensor<f32> "
                         "loc(\"file.py\":1:2)")
                        LINE("  stablehlo.return %m : tensor<f32>")
                            LINE("}) : (" T23 ", tensor<f32>) -> "
                                 "tensor<2xf32>")
                                LINE("%y = stablehlo.broadcast_in_dim %s, "
                                     "dims = [0] : (tensor<2xf32>) -> " T23),
            6, 6, 6, 15, 15, 15),
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i)
    expect_row(&rows[i]);
}

// ---- Places of maxima ------------------------------------------------------
#define PLACES(input, least, iota, word, tie)                                  \
  LINE("%i = stablehlo.iota dim = " iota " : tensor<2x3xi32>")                 \
  LINE("%l = stablehlo.constant dense<" least "> : tensor<f32>")               \
  LINE("%z = stablehlo.constant dense<0> : tensor<i32>")                       \
  LINE("%r:2 = stablehlo.reduce(" input " init: %l), (%i init: %z) across "    \
       "dimensions = [1] : (" T23 ", tensor<2x3xi32>, tensor<f32>, "           \
       "tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)")                       \
  LINE("reducer(%a: tensor<f32>, %c: tensor<f32>) (%b: tensor<i32>, "          \
       "%d: tensor<i32>)  {")                                                  \
  LINE("%2 = stablehlo.compare " word ", %a, %c, FLOAT : (f) -> i1")           \
  LINE("%3 = stablehlo.compare NE, %a, %a, FLOAT : (f) -> i1")                 \
  LINE("%4 = stablehlo.or %2, %3 : tensor<i1>")                                \
  LINE("%5 = stablehlo.compare EQ, %a, %c, FLOAT : (f) -> i1")                 \
  LINE("%6 = stablehlo.compare " tie ", %b, %d, SIGNED : (i) -> i1")           \
  LINE("%7 = stablehlo.and %5, %6 : tensor<i1>")                               \
  LINE("%8 = stablehlo.or %4, %7 : tensor<i1>")                                \
  LINE("%9 = stablehlo.select %4, %a, %c : tensor<i1>, tensor<f32>")           \
  LINE("%10 = stablehlo.select %8, %b, %d : tensor<i1>, tensor<i32>")          \
  LINE("stablehlo.return %9, %10 : tensor<f32>, tensor<i32> }")                \
  LINE("%p = stablehlo.convert %r#1 : (tensor<2xi32>) -> tensor<2xf32>")
#define SUM LINE("%y = stablehlo.add %p, %r#0 : tensor<2xf32>")
#define PLACE LINE("%y = stablehlo.add %p, %p : tensor<2xf32>")
#define ROW2(body, ...)                                                        \
  { "2x3xf32", "2xf32", body, LS_SHAPE(2, 3), LS_SHAPE(2), {__VA_ARGS__}, NULL }

// The first of equal values, or of NaNs.
TEST(places_of_maxima_and_minima_are_read) {
  static const row rows[] = {
      ROW2(PLACES("%x", "0xFF800000", "1", "GT", "LT") SUM, 5, 8),
      ROW2(PLACES("%x", "0x7F800000", "1", "LT", "LT") SUM, 1, 4),
      ROW2(LINE("%h = stablehlo.constant dense<2.0> : " T23)
               LINE("%q = stablehlo.minimum %x, %h : " T23)
                   PLACES("%q", "0xFF800000", "1", "GT", "LT") SUM,
           3, 2),
      ROW2(LINE("%h = stablehlo.constant dense<1.5> : " T23)
               LINE("%g = stablehlo.subtract %h, %x : " T23)
                   LINE("%q = stablehlo.sqrt %g : " T23)
                       PLACES("%q", "0xFF800000", "1", "GT", "LT") PLACE,
           2, 0)};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i)
    expect_row(&rows[i]);
}

// Expects that a text is read and not built, with this part of the message.
static void expect_unread(const char *output, const char *body,
                          const char *part) {
  char text[TEXT_SIZE];
  LS_OWN(ls_onnx, onnx) = NULL;
  write_module("2x3xf32", output, body, text);
  expect_ok(decode(text, strlen(text), &onnx));
  expect_ok(ls_frame_begin());
  const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(2, 3), 1);
  LS_OWN(ls_nest, y) = ls_onnx_apply(onnx, ls_leaf(x), false);
  expect_status(ls_nest_status(y), LS_UNIMPLEMENTED, part);
  expect_ok(ls_frame_end(NULL));
}

// Not a place: another start, places of another dimension, another body, the
// last of equal ones; nor is a reduction of bits.
TEST(other_reductions_are_refused) {
  static const char *const bodies[] = {
      PLACES("%x", "0.0", "1", "GT", "LT") SUM,
      PLACES("%x", "0x7F800000", "1", "GT", "LT") SUM,
      PLACES("%x", "0xFF800000", "0", "GT", "LT") SUM,
      PLACES("%x", "0xFF800000", "1", "GE", "LT") SUM,
      PLACES("%x", "0xFF800000", "1", "GT", "GT") SUM};
  for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); ++i)
    expect_unread("2xf32", bodies[i], "op reduce of node 'line 6'");
  expect_unread(
      "2xf32",
      LINE("%i = stablehlo.convert %x : (" T23 ") -> tensor<2x3xi32>")
          LINE("%z = stablehlo.constant dense<6> : tensor<i32>")
              LINE("%s = stablehlo.reduce(%i init: %z) applies stablehlo.and "
                   "across dimensions = [1] : (tensor<2x3xi32>, tensor<i32>) "
                   "-> tensor<2xi32>")
                  LINE("%y = stablehlo.convert %s : (tensor<2xi32>) -> "
                       "tensor<2xf32>"),
      "a region that computes 'and' of i32");
}

// ---- Weights ---------------------------------------------------------------
static const char net[] =
    "module {\n"
    "  func.func public @main(%arg0: tensor<3x2xf32> loc(\"p['w']\"), %arg1: "
    "tensor<2xf32>, %arg2: tensor<1x3xf32>) -> tensor<1x2xf32> {\n"
    "    %cst = stablehlo.constant dense<0.000000e+00> : tensor<2xf32>\n"
    "    %half = stablehlo.constant dense<0.5> : tensor<1x2xf32>\n"
    "    %0 = stablehlo.dot_general %arg2, %arg0, contracting_dims = [1] x [0] "
    ": (tensor<1x3xf32>, tensor<3x2xf32>) -> tensor<1x2xf32>\n"
    "    %1 = stablehlo.add %arg1, %cst : tensor<2xf32>\n"
    "    %2 = stablehlo.broadcast_in_dim %1, dims = [1] : (tensor<2xf32>) -> "
    "tensor<1x2xf32>\n"
    "    %3 = stablehlo.broadcast_in_dim %cst, dims = [1] : (tensor<2xf32>) -> "
    "tensor<1x2xf32>\n"
    "    %4 = stablehlo.add %0, %2 : tensor<1x2xf32>\n"
    "    %5 = stablehlo.add %4, %3 : tensor<1x2xf32>\n"
    "    %6 = stablehlo.multiply %5, %half : tensor<1x2xf32>\n"
    "    return %6 : tensor<1x2xf32>\n  }\n}\n";

static void remove_weights(void) { assert_int_equal(remove("net.npz"), 0); }

static void write_weights(int64_t columns) {
  LS_OWN(ls_array, w) = NULL;
  LS_OWN(ls_array, b) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(3, columns), &w));
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(2), &b));
  for (int64_t i = 0; i < ls_array_num_elements(w); ++i)
    ls_array_set_f64(w, i, (double)i);
  ls_array_set_f64(b, 0, 2);
  ls_array_set_f64(b, 1, 4);
  const char *names[] = {"p['w']", "arr_1"};
  const ls_nest leaves[] = {ls_nest_array(ls_array_retain(w)),
                            ls_nest_array(ls_array_retain(b))};
  LS_OWN(ls_nest, all) = ls_nest_dict("", names, leaves, 2);
  expect_ok(ls_npz_write("net.npz", all, LS_FLAG_OFF));
}

TEST(arguments_with_values_in_a_file_are_variables) {
  static const double x[] = {1, 2, 3};
  ls_variable *variables[4];
  ls_serving_value input;
  LS_OWN(ls_onnx, onnx) = NULL;
  write_weights(2);
  expect_ok(decode(net, sizeof(net) - 1, &onnx));
  // The constant of one value for all is a weight, the factor is not.
  assert_int_equal(ls_onnx_variables(onnx, variables, 4), 3);
  assert_string_equal(ls_variable_name(variables[0]), "p['w']");
  assert_string_equal(ls_variable_name(variables[1]), "arg1");
  assert_string_equal(ls_variable_name(variables[2]), "cst_line_3");
  assert_int_equal(ls_onnx_inputs(onnx, &input, 1), 1);
  assert_string_equal(input.name, "arg2");
  expect_ok(ls_frame_begin());
  const ls_tensor in = eager_of(LS_DTYPE_F32, LS_SHAPE(1, 3), x);
  LS_OWN(ls_nest, y) = ls_onnx_apply(onnx, ls_leaf(in), false);
  expect_ok(ls_nest_status(y));
  expect_tensor_of(ls_nest_tensor(y, 0), LS_SHAPE(1, 2), (double[]){9, 13},
                   1e-5);
  expect_ok(ls_frame_end(NULL));
  remove_weights();
}

// Names have escapes, as our own exports write them.
TEST(marks_of_an_export_are_read) {
  static const char text[] =
      "func.func @main(%a: tensor<3x2xf32> {ls.variable = \"p['\\77']\", "
      "ls.trainable = true}, %b: tensor<2xf32> {ls.variable = \"arr_1\", "
      "ls.trainable = false}, %x: tensor<1x3xf32> {ls.input = "
      "\"gr\\C3\\B6\\C3\\9fe \\\\ \\\"x\\\"\"}) -> tensor<1x2xf32> {\n"
      "  %0 = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] : "
      "(tensor<1x3xf32>, tensor<3x2xf32>) -> tensor<1x2xf32>\n"
      "  return %0 : tensor<1x2xf32>\n}\n";
  ls_variable *variables[2];
  ls_serving_value input;
  LS_OWN(ls_onnx, onnx) = NULL;
  write_weights(2);
  expect_ok(decode(text, sizeof(text) - 1, &onnx));
  assert_int_equal(ls_onnx_variables(onnx, variables, 2), 2);
  assert_string_equal(ls_variable_name(variables[0]), "p['w']");
  assert_true(ls_variable_is_trainable(variables[0]));
  assert_false(ls_variable_is_trainable(variables[1]));
  assert_int_equal(ls_onnx_inputs(onnx, &input, 1), 1);
  assert_string_equal(input.name, "gr\xC3\xB6\xC3\x9F"
                                  "e \\ \"x\"");
  remove_weights();
}

TEST(constants_of_one_name_on_one_line_differ) {
  static const char text[] =
      "func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> { "
      "%c = stablehlo.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32> "
      "%0 = call @g(%x) : (tensor<1x2xf32>) -> tensor<1x2xf32> "
      "%1 = call @g(%0) : (tensor<1x2xf32>) -> tensor<1x2xf32> "
      "%2 = stablehlo.multiply %1, %c : tensor<1x2xf32> "
      "return %2 : tensor<1x2xf32> } "
      "func.func private @g(%x: tensor<1x2xf32>) -> tensor<1x2xf32> { "
      "%c = stablehlo.constant dense<[[7.0, 8.0]]> : tensor<1x2xf32> "
      "%0 = stablehlo.add %x, %c : tensor<1x2xf32> "
      "return %0 : tensor<1x2xf32> }";
  ls_variable *variables[3];
  LS_OWN(ls_onnx, onnx) = NULL;
  expect_ok(decode(text, sizeof(text) - 1, &onnx));
  assert_int_equal(ls_onnx_variables(onnx, variables, 3), 2);
  assert_string_equal(ls_variable_name(variables[0]), "c_line_1");
  expect_contains(ls_variable_name(variables[1]), "c_line_1_byte_");
  expect_ok(ls_frame_begin());
  const ls_tensor in = eager_of(LS_DTYPE_F32, LS_SHAPE(1, 2), (double[]){1, 2});
  LS_OWN(ls_nest, y) = ls_onnx_apply(onnx, ls_leaf(in), false);
  expect_ok(ls_nest_status(y));
  expect_tensor_of(ls_nest_tensor(y, 0), LS_SHAPE(1, 2), (double[]){15, 36},
                   1e-5);
  expect_ok(ls_frame_end(NULL));
}

TEST(weights_of_another_shape_are_refused) {
  LS_OWN(ls_onnx, onnx) = NULL;
  write_weights(1);
  expect_status(decode(net, sizeof(net) - 1, &onnx), LS_INVALID_ARGUMENT,
                "'net.mlir': line 2, column 62: expected f32[3,2] for "
                "argument 'p['w']', the weights have f32[3,1]");
  remove_weights();
}

TEST(arguments_without_values_are_inputs_that_no_model_has) {
  ls_model_type *type = NULL;
  FILE *file = fopen("net.mlir", "w");
  assert_non_null(file);
  assert_int_equal(fwrite(net, 1, sizeof(net) - 1, file), sizeof(net) - 1);
  assert_int_equal(fclose(file), 0);
  expect_status(ls_onnx_type_create("net.mlir", &type), LS_UNIMPLEMENTED,
                "'net.mlir' as a model: it has 3 inputs, not one; values of "
                "weights that are arguments are in a file beside it");
  write_weights(2);
  expect_ok(ls_onnx_type_create("net.mlir", &type));
  assert_int_equal(type->num_classes, 2);
  ls_onnx_type_destroy(type);
  remove_weights();
  assert_int_equal(remove("net.mlir"), 0);
}

TEST(the_logits_are_before_a_softmax) {
  static const char softmax[] = LINE(
      "%c = stablehlo.constant "
      "dense<0xFF800000> : tensor<f32>") LINE("%z = stablehlo.constant "
                                              "dense<0.0> : tensor<f32>")
      LINE("%n = stablehlo.negate %x : " T23) LINE(
          "%0 = stablehlo.reduce(%n init: %c) applies stablehlo.maximum across "
          "dimensions = [1] : (" T23 ", tensor<f32>) -> tensor<2xf32>")
          LINE("%1 = stablehlo.broadcast_in_dim %0, dims = [0] : "
               "(tensor<2xf32>) -> "
               "tensor<2x1xf32>")
              LINE("%2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : "
                   "(tensor<2x1xf32>) -> " T23)
                  LINE("%3 = stablehlo.subtract %n, %2 : " T23)
                      LINE("%4 = stablehlo.exponential %3 : " T23) LINE(
                          "%5 = stablehlo.reduce(%4 init: %z) applies "
                          "stablehlo.add across "
                          "dimensions = [1] : (" T23
                          ", tensor<f32>) -> tensor<2xf32>")
                          LINE("%6 = stablehlo.broadcast_in_dim %5, dims = [0] "
                               ": (tensor<2xf32>) -> "
                               "tensor<2x1xf32>")
                              LINE("%7 = stablehlo.broadcast_in_dim %6, dims = "
                                   "[0, 1] : "
                                   "(tensor<2x1xf32>) -> " T23)
                                  LINE("%y = stablehlo.divide %4, %7 : " T23);
  char text[TEXT_SIZE];
  LS_OWN(ls_onnx, onnx) = NULL;
  write_module("2x3xf32", "2x3xf32", softmax, text);
  expect_ok(decode(text, strlen(text), &onnx));
  const uint32_t logits = ls_onnx_logits(&onnx->file);
  assert_string_equal(onnx->file.nodes[0].type, "negate");
  assert_int_equal(logits, onnx->file.nodes[0].outputs[0]);
}

// ---- Refusals --------------------------------------------------------------
TEST(other_texts_are_refused_with_their_place) {
  static const struct {
    const char *body;
    ls_code code;
    const char *message;
  } rows[] = {
      {"%y = stablehlo.custom_call @mine(%x) : (" T23 ") -> " T23,
       LS_UNIMPLEMENTED,
       "'net.mlir': line 3, column 6: op stablehlo.custom_call @mine"},
      {"%y = stablehlo.fft %x : " T23, LS_UNIMPLEMENTED,
       "line 3, column 6: op stablehlo.fft"},
      {"%y = stablehlo.negate %z : " T23, LS_INVALID_ARGUMENT,
       "nothing makes %z"},
      {"%y = stablehlo.negate %x : tensor<?x3xf32>", LS_UNIMPLEMENTED,
       "a size that is not known"},
      {"%y = stablehlo.negate %x : tensor<2x3xcomplex<f32>>", LS_UNIMPLEMENTED,
       "a tensor of elements 'complex<'"},
      {"%y = stablehlo.negate %x " T23, LS_INVALID_ARGUMENT,
       "line 3, column 33: expected"},
      {"%y = stablehlo.constant dense<[1.0, 2.0]> : tensor<3xf32>",
       LS_INVALID_ARGUMENT, "expected the elements of f32[3]"},
      {"%y = stablehlo.constant dense<\"0x00\"> : tensor<3xf32>",
       LS_INVALID_ARGUMENT, "expected the elements of f32[3]"},
      {"%y = stablehlo.constant dense<[255, -128, 256]> : tensor<3xi8>",
       LS_INVALID_ARGUMENT, "expected the elements of i8[3]"},
      {"%y = stablehlo.constant dense<-129> : tensor<3xi8>",
       LS_INVALID_ARGUMENT, "expected the elements of i8[3]"},
      {"%y = stablehlo.constant dense<[1, 2, -1]> : tensor<3xui32>",
       LS_INVALID_ARGUMENT, "expected the elements of u32[3]"},
      {"%y = stablehlo.constant dense<99999999999999999999> : tensor<3xi64>",
       LS_INVALID_ARGUMENT, "expected the elements of i64[3]"},
      {"%y = stablehlo.constant dense<[true, false]> : tensor<2xf32>",
       LS_INVALID_ARGUMENT, "expected the elements of f32[2]"},
      {"%y = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0]]> : "
       "tensor<2x2xf32>",
       LS_INVALID_ARGUMENT, "expected the elements of f32[2,2]"},
      {"%y = stablehlo.constant dense<]1.0 2.0,,, [ 3.0]> : tensor<3xf32>",
       LS_INVALID_ARGUMENT, "expected the elements of f32[3]"},
      {"%x = stablehlo.negate %x : " T23, LS_INVALID_ARGUMENT,
       "expected each name once, got a second 'x'"},
      {"%y = call @relu(%x) : (" T23 ") -> tensor<4xf32>", LS_INVALID_ARGUMENT,
       "line 4, column 5: expected f32[4] as result 0 of call before, got "
       "f32[2,3]"},
      {"%y = stablehlo.convert %x : (" T23 ") -> tensor<2x3xi32>",
       LS_INVALID_ARGUMENT,
       "expected f32[2,3] as result 0 of main before, got i32[2,3]"},
      {"%y = call @none(%x) : (" T23 ") -> " T23, LS_INVALID_ARGUMENT, "@none"},
      {"%y = call @main(%x) : (" T23 ") -> " T23, LS_UNIMPLEMENTED,
       "calls more than 64 deep"},
      {"%y:2 = stablehlo.negate %x : " T23, LS_INVALID_ARGUMENT,
       "expected 2 results of op negate, got 1 types"},
      {LOOP(LINE("  %l = stablehlo.constant dense<9999> : tensor<i32>")
                LINE("  %t = stablehlo.compare NE, %i, %l : (tensor<i32>, "
                     "tensor<i32>) -> tensor<i1>")
                    LINE("  stablehlo.return %t : tensor<i1>")),
       LS_UNIMPLEMENTED, "a loop (stablehlo.while)"},
      {"%y = \"stablehlo.constant\"() <{value = dense<1.0> : "
       "tensor<4xf32>}> : () -> " T23,
       LS_INVALID_ARGUMENT,
       "line 3, column 7: expected a constant dense<...> of the type f32[2,3]"},
      {"%y = stablehlo.reduce(%x init: %x) region = 3 applies stablehlo.add "
       "across dimensions = [1] : (" T23 ", " T23 ") -> tensor<2xf32>",
       LS_INVALID_ARGUMENT, "expected no attribute region"},
      {"%y = stablehlo.negate %x {a = {word = \"LT\"}} : " T23,
       LS_INVALID_ARGUMENT, "expected no attribute word"},
      {"%y = stablehlo.negate %x {a = \"\\q\"} : " T23, LS_INVALID_ARGUMENT,
       "line 3, column 32: expected"},
      {"%y = stablehlo.negate %x {a = \"\\0\"} : " T23, LS_INVALID_ARGUMENT,
       "after \\ in a string"},
      {"%y = stablehlo.negate %x {a = \"b\\00\"} : " T23, LS_INVALID_ARGUMENT,
       "after \\ in a string"},
      {"%0 = stablehlo.compare LT, %x, %x, TOTALORDER : (" T23 ", " T23
       ") -> tensor<2x3xi1>",
       LS_UNIMPLEMENTED,
       "line 3, column 6: op compare of floats in order TOTALORDER"},
      {"%0 = \"stablehlo.compare\"(%x, %x) <{compare_type = "
       "#stablehlo<comparison_type TOTALORDER>, comparison_direction = "
       "#stablehlo<comparison_direction LT>}> : (" T23 ", " T23
       ") -> tensor<2x3xi1>",
       LS_UNIMPLEMENTED, "op compare of floats in order TOTALORDER"},
  };
  char text[TEXT_SIZE];
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    ls_onnx *onnx = NULL;
    write_module("2x3xf32", "2x3xf32", rows[i].body, text);
    expect_status(decode(text, strlen(text), &onnx), rows[i].code,
                  rows[i].message);
    assert_null(onnx);
  }
}

#define REDUCE(region)                                                         \
  LINE("%z = stablehlo.constant dense<0.0> : tensor<f32>")                     \
  LINE("%s = stablehlo.reduce(%x init: %z) across dimensions = [1] : (" T23    \
       ", tensor<f32>) -> tensor<2xf32>")                                      \
  LINE("reducer(%a: tensor<f32>, %b: tensor<f32>) {")                          \
  LINE("  %m = stablehlo.add " region)                                         \
  LINE("}")                                                                    \
  LINE("%y = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<2xf32>) "     \
       "-> " T23)

TEST(a_region_of_other_values_than_its_arguments_is_refused) {
  static const row sums =
      ROW23(REDUCE("%b, %a : tensor<f32> stablehlo.return %m : tensor<f32>"), 6,
            6, 6, 15, 15, 15);
  static const char *const bodies[] = {
      REDUCE("%a, %a : tensor<f32> stablehlo.return %m : tensor<f32>"),
      REDUCE("%a, %b : tensor<f32> stablehlo.return %b : tensor<f32>"),
      REDUCE("%a, %z : tensor<f32> stablehlo.return %m : tensor<f32>")};
  expect_row(&sums);
  for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); ++i)
    expect_unread("2x3xf32", bodies[i],
                  "a region that computes 'add of other values'");
}

TEST(functions_in_the_generic_form_are_refused_by_name) {
  static const char text[] =
      "module {\n  \"func.func\"() <{sym_name = \"main\"}> ({\n"
      "  ^bb0(%x: tensor<2xf32>):\n"
      "    \"func.return\"(%x) : (tensor<2xf32>) -> ()\n"
      "  }) : () -> ()\n}\n";
  ls_onnx *onnx = NULL;
  expect_status(decode(text, strlen(text), &onnx), LS_INVALID_ARGUMENT,
                "print functions without --mlir-print-op-generic");
}

TEST(a_name_that_is_long_is_refused) {
  char body[TEXT_SIZE], text[TEXT_SIZE];
  ls_onnx *onnx = NULL;
  snprintf(body, sizeof(body),
           "%%%0250d = stablehlo.constant dense<1.0> : tensor<f32>\n"
           "%%y = stablehlo.negate %%x : " T23,
           7);
  write_module("2x3xf32", "2x3xf32", body, text);
  expect_status(decode(text, strlen(text), &onnx), LS_INVALID_ARGUMENT,
                "'net.mlir': line 4, column 2: expected a shorter name");
}

// Each function calls the next one twice; spaces fill the text.
TEST(calls_that_multiply_are_refused) {
  enum { FUNCTIONS = 30, SIZE = FUNCTIONS * 1200 };
  char *text = malloc(SIZE);
  assert_non_null(text);
  ls_onnx *onnx = NULL;
  size_t size = 0;
  for (int i = 0; i < FUNCTIONS; ++i)
    size += (size_t)snprintf(
        text + size, SIZE - size,
        "func.func @%.0d%s(%%x: tensor<f32>) -> tensor<f32> {\n"
        "  %%0 = call @%d(%%x) : (tensor<f32>) -> %400s\n"
        "  %%1 = call @%d(%%0) : (tensor<f32>) -> %400s\n"
        "  return %%1 : tensor<f32>\n}\n",
        i, i == 0 ? "main" : "", i + 1, "tensor<f32>", i + 1, "tensor<f32>");
  size += (size_t)snprintf(text + size, SIZE - size,
                           "func.func @%d(%%x: tensor<f32>) -> tensor<f32> {\n"
                           "  return %%x : tensor<f32>\n}\n",
                           FUNCTIONS);
  expect_status(decode(text, size, &onnx), LS_UNIMPLEMENTED,
                "a text of more than 16777216 bytes in addition to its own");
  free(text);
}

TEST(bytecode_is_refused_by_name) {
  static const char bytes[] = "ML\xEFR\rStableHLO_v1";
  ls_onnx *onnx = NULL;
  expect_status(decode(bytes, sizeof(bytes) - 1, &onnx), LS_UNIMPLEMENTED,
                "'net.mlir' is MLIR's bytecode: write it as text");
  expect_status(decode("nonsense", 8, &onnx), LS_INVALID_ARGUMENT,
                "'net.mlir' is no StableHLO text");
}

TEST(a_type_that_an_op_does_not_make_is_refused) {
  char text[TEXT_SIZE];
  LS_OWN(ls_onnx, onnx) = NULL;
  write_module("2x3xf32", "2x4xf32",
               "%y = stablehlo.negate %x : tensor<2x4xf32>", text);
  expect_ok(decode(text, strlen(text), &onnx));
  expect_ok(ls_frame_begin());
  const ls_tensor x =
      eager_of(LS_DTYPE_F32, LS_SHAPE(2, 3), (double[]){1, 2, 3, 4, 5, 6});
  LS_OWN(ls_nest, y) = ls_onnx_apply(onnx, ls_leaf(x), false);
  expect_status(ls_nest_status(y), LS_INVALID_ARGUMENT,
                "it makes f32[2,3], but its type is f32[2,4]");
  expect_ok(ls_frame_end(NULL));
}

TEST(a_text_cut_off_anywhere_is_refused) {
  write_weights(2);
  for (size_t size = 0; size + 8 < sizeof(net); ++size) {
    ls_onnx *onnx = NULL;
    char *copy = malloc(size + 1);
    memcpy(copy, net, size);
    const ls_status status = decode(copy, size, &onnx);
    assert_false(ls_status_is_ok(status));
    assert_null(onnx);
    ls_status_free(status);
    free(copy);
  }
  remove_weights();
}

MEMORY_TEST(read_a_text) {
  ls_onnx *onnx = NULL;
  const ls_status status = decode(net, sizeof(net) - 1, &onnx);
  ls_onnx_destroy(onnx);
  return status;
}
