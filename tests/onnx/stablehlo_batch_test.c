// SPDX-License-Identifier: Apache-2.0
//
// StableHLO's texts with other batch sizes than their own, their logits, and
// ops and types at the edges of what is read.
#include <stdio.h>
#include <string.h>

#include "lockstep/full.h"
#include "nn/own.h"
#include "onnx/onnx_load.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/values.h"

enum { TEXT_SIZE = 4000, MOST = 128 };
#define LINE(text) "    " text "\n"
#define ZERO LINE("%z = stablehlo.constant dense<0.0> : tensor<f32>")

// Reads a text of a function main with these arguments, which makes %y.
static ls_status read_text(const char *arguments, const char *output,
                           const char *body, ls_onnx **out) {
  char text[TEXT_SIZE];
  *out = NULL;
  snprintf(text, sizeof(text),
           "module {\n  func.func public @main(%s) -> tensor<%s> {\n%s"
           "    return %%y : tensor<%s>\n  }\n}\n",
           arguments, output, body, output);
  return ls_onnx_decode("net.mlir", text, strlen(text), out);
}

// A text with an argument %x, applied to 1, 2, 3, ...
typedef struct row {
  const char *input, *output, *body;
  ls_shape shape;
  ls_code code;  // LS_OK: it is applied.
  const char *message;
} row;

static void expect_row(const row *r) {
  char arguments[100];
  double numbers[MOST];
  LS_OWN(ls_onnx, onnx) = NULL;
  for (int i = 0; i < MOST; ++i)
    numbers[i] = i + 1;
  snprintf(arguments, sizeof(arguments), "%%x: tensor<%s>", r->input);
  expect_ok(read_text(arguments, r->output, r->body, &onnx));
  expect_ok(ls_frame_begin());
  const ls_tensor x = eager_of(LS_DTYPE_F32, r->shape, numbers);
  LS_OWN(ls_nest, y) = ls_onnx_apply(onnx, ls_leaf(x), false);
  if (r->code == LS_OK)
    expect_ok(ls_nest_status(y));
  else
    expect_status(ls_nest_status(y), r->code, r->message);
  expect_ok(ls_frame_end(NULL));
}

// ---- Batches ---------------------------------------------------------------
#define ADD_TO_FOUR                                                            \
  LINE("%c = stablehlo.constant dense<[[1.0], [2.0], [3.0], [4.0]]> : "        \
       "tensor<4x1xf32>")                                                      \
  LINE("%y = stablehlo.add %x, %c : tensor<4x1xf32>")
#define UPDATE(part)                                                           \
  LINE("%c = stablehlo.constant dense<[[1.0], [2.0], [3.0], [4.0]]> : "        \
       "tensor<4x1xf32>")                                                      \
  LINE("%i = stablehlo.constant dense<0> : tensor<i32>")                       \
  LINE("%r = stablehlo.reshape %x : (tensor<2x1xf32>) -> tensor<" part ">")    \
  LINE("%y = stablehlo.dynamic_update_slice %c, %r, %i, %i : "                 \
       "(tensor<4x1xf32>, tensor<" part                                        \
       ">, tensor<i32>, tensor<i32>) -> tensor<4x1xf32>")

TEST(values_with_the_batch_size_of_the_text_are_refused_with_another_one) {
  static const row rows[] = {
      {"4x1xf32", "4x1xf32", ADD_TO_FOUR, LS_SHAPE(4, 1), LS_OK, NULL},
      {"4x1xf32", "4x1xf32", ADD_TO_FOUR, LS_SHAPE(1, 1), LS_UNIMPLEMENTED,
       "an operand with the batch in its sizes, for a batch of another size "
       "than 4, the text's"},
      {"2x1xf32", "4x1xf32", UPDATE("2x1xf32"), LS_SHAPE(2, 1), LS_OK, NULL},
      {"2x1xf32", "4x1xf32", UPDATE("2x1xf32"), LS_SHAPE(4, 1),
       LS_UNIMPLEMENTED, "an update of a part of the batch"},
      {"2x1xf32", "4x1xf32", UPDATE("2x1xf32"), LS_SHAPE(1, 1),
       LS_UNIMPLEMENTED, "an update of a part of the batch"},
      {"2x2xf32", "2xf32",
       ZERO LINE("%y = \"stablehlo.reduce\"(%x, %z) <{dimensions = array<i64: "
                 "-2>}> ({") LINE("^bb0(%a: tensor<f32>, %b: tensor<f32>):")
           LINE("  %s = stablehlo.add %a, %b : tensor<f32>")
               LINE("  stablehlo.return %s : tensor<f32>")
                   LINE("}) : (tensor<2x2xf32>, tensor<f32>) -> "
                        "tensor<2xf32>"),
       LS_SHAPE(4, 2), LS_UNIMPLEMENTED, "a reduction of the batch"},
      {"2x2xf32", "2x3xf32",
       LINE("%y = stablehlo.constant dense<1.0> : tensor<2x3xf32>"),
       LS_SHAPE(4, 2), LS_UNIMPLEMENTED,
       "rows that do not depend on the examples, for a batch of another size "
       "than 2, the text's"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i)
    expect_row(&rows[i]);
}

TEST(inputs_of_different_batch_sizes_are_refused) {
  static const double numbers[5] = {1, 2, 3, 4, 5};
  LS_OWN(ls_onnx, onnx) = NULL;
  expect_ok(read_text("%a: tensor<4x1xf32>, %b: tensor<4x1xf32>", "4x1xf32",
                      LINE("%y = stablehlo.add %a, %b : tensor<4x1xf32>"),
                      &onnx));
  for (int64_t rows = 1; rows <= 5; rows += 4) {
    const char *names[] = {"a", "b"};
    expect_ok(ls_frame_begin());
    const ls_nest leaves[] = {
        ls_leaf(eager_of(LS_DTYPE_F32, LS_SHAPE(5, 1), numbers)),
        ls_leaf(eager_of(LS_DTYPE_F32, LS_SHAPE(rows, 1), numbers))};
    LS_OWN(ls_nest, inputs) = ls_nest_dict("", names, leaves, 2);
    LS_OWN(ls_nest, y) = ls_onnx_apply(onnx, inputs, false);
    if (rows == 5)
      expect_ok(ls_nest_status(y));
    else
      expect_status(ls_nest_status(y), LS_INVALID_ARGUMENT,
                    "inputs of 'net.mlir' must have one batch size: 'a' is "
                    "f32[5,1], 'b' f32[1,1]");
    expect_ok(ls_frame_end(NULL));
  }
}

// ---- Logits ----------------------------------------------------------------
#define T33 "tensor<3x3xf32>"
#define SOFTMAX(shift, shift_dims, initial, sum_dims)                          \
  ZERO LINE("%o = stablehlo.constant dense<1.0> : tensor<f32>")                \
      LINE("%m = stablehlo.constant " shift) LINE(                             \
          "%w = stablehlo.broadcast_in_dim %m, dims = [" shift_dims "] :"      \
          " (tensor<3xf32>) -> " T33) LINE("%n = stablehlo.negate %x : " T33)  \
          LINE("%s = stablehlo.subtract %n, %w : " T33)                        \
              LINE("%e = stablehlo.exponential %s : " T33)                     \
                  LINE("%t = stablehlo.reduce(%e init: " initial               \
                       ") applies stablehlo.add across dimensions = "          \
                       "[1] : (" T33 ", tensor<f32>) -> tensor<3xf32>")        \
                      LINE("%u = stablehlo.broadcast_in_dim %t, dims "         \
                           "= [" sum_dims "] : (tensor<3xf32>) -> " T33)       \
                          LINE("%y = stablehlo.divide %e, %u : " T33)

TEST(logits_are_what_the_softmax_in_the_text_is_of) {
  static const struct {
    const char *body, *maker;
  } rows[] = {
      // A shift by numbers that are the same for all classes, and by a bias.
      {SOFTMAX("dense<[1.0, 2.0, 3.0]> : tensor<3xf32>", "0", "%z", "0"),
       "negate"},
      {SOFTMAX("dense<[1.0, 2.0, 3.0]> : tensor<3xf32>", "1", "%z", "0"),
       "subtract"},
      // Sums of other elements, or of more, which make no softmax.
      {SOFTMAX("dense<[1.0, 2.0, 3.0]> : tensor<3xf32>", "0", "%z", "1"),
       "divide"},
      {SOFTMAX("dense<[1.0, 2.0, 3.0]> : tensor<3xf32>", "0", "%o", "0"),
       "divide"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    const char *maker = NULL;
    LS_OWN(ls_onnx, onnx) = NULL;
    expect_ok(read_text("%x: " T33, "3x3xf32", rows[i].body, &onnx));
    const uint32_t logits = ls_onnx_logits(&onnx->file);
    for (size_t k = 0; k < onnx->file.num_nodes; ++k)
      if (onnx->file.nodes[k].outputs[0] == logits)
        maker = onnx->file.nodes[k].type;
    assert_string_equal(maker, rows[i].maker);
  }
}

// ---- Edges -----------------------------------------------------------------
#define WINDOW(initial, sizes, pads, type, result)                             \
  LINE("%z = stablehlo.constant dense<" initial "> : tensor<f32>")             \
  LINE("%y = \"stablehlo.reduce_window\"(%x, %z) <{padding = dense<" pads      \
       ", window_dimensions = array<i64: " sizes ">}> ({")                     \
  LINE("^bb0(%a: tensor<f32>, %b: tensor<f32>):")                              \
  LINE("  %s = stablehlo.add %a, %b : tensor<f32>")                            \
  LINE("  stablehlo.return %s : tensor<f32>")                                  \
  LINE("}) : (tensor<" type ">, tensor<f32>) -> tensor<" result ">")
#define PADDED "[[0, 0], [1, 1], [0, 0]]> : tensor<3x2xi64>"
#define PLAIN "0> : tensor<3x2xi64>"

TEST(ops_at_the_edges_of_what_is_read_are_refused) {
  static const row rows[] = {
      {"1x3x1xf32", "1x3x1xf32",
       WINDOW("0.0", "1, 3, 1", PADDED, "1x3x1xf32", "1x3x1xf32"),
       LS_SHAPE(1, 3, 1), LS_OK, NULL},
      {"1x3x1xf32", "1x1x1xf32",
       WINDOW("1.0", "1, 3, 1", PLAIN, "1x3x1xf32", "1x1x1xf32"),
       LS_SHAPE(1, 3, 1), LS_OK, NULL},
      {"1x3x1xf32", "1x3x1xf32",
       WINDOW("1.0", "1, 3, 1", PADDED, "1x3x1xf32", "1x3x1xf32"),
       LS_SHAPE(1, 3, 1), LS_UNIMPLEMENTED,
       "sums in windows with a padding other than zeros"},
      {"3xf32", "1xf32",
       WINDOW("0.0", "3", "0> : tensor<1x2xi64>", "3xf32", "1xf32"),
       LS_SHAPE(3), LS_UNIMPLEMENTED,
       "a window over a tensor of 1 dimensions, not 3 to 5"},
      {"3x4xf32", "4xf32",
       LINE("%i = stablehlo.constant dense<0> : tensor<i32>")
           LINE("%y = \"stablehlo.gather\"(%x, %i) <{dimension_numbers = "
                "#stablehlo.gather<offset_dims = [0], collapsed_slice_dims = "
                "[0], start_index_map = [0], index_vector_dim = -1>, "
                "slice_sizes = array<i64: 1, 4>}> : (tensor<3x4xf32>, "
                "tensor<i32>) -> tensor<4xf32>"),
       LS_SHAPE(3, 4), LS_UNIMPLEMENTED,
       "other than slices at positions, whole along other axes"},
      {"3x4xf32", "3x1xf32",
       LINE("%i = stablehlo.constant dense<> : tensor<0xi32>")
           LINE("%y = stablehlo.dynamic_slice %x, %i, %i, sizes = [3, 1] : "
                "(tensor<3x4xf32>, tensor<0xi32>, tensor<0xi32>) -> "
                "tensor<3x1xf32>"),
       LS_SHAPE(3, 4), LS_INVALID_ARGUMENT, "dynamic_slice"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i)
    expect_row(&rows[i]);
}

TEST(a_type_of_too_many_elements_is_refused) {
  ls_onnx *onnx = NULL;
  expect_status(
      read_text("%x: tensor<1x2000000000x0x2000000000xf32>", "1xf32", "",
                &onnx),
      LS_UNIMPLEMENTED,
      "sizes below 2^31, each followed by x, and 2^48 elements is expected");
  assert_null(onnx);
}
