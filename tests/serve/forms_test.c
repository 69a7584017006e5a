// SPDX-License-Identifier: Apache-2.0
//
// Forms of single ops in exports: operands, numbers and types, where no reader
// of the formats is at hand (interop/serving_test asks some that are).
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "lockstep/ops.h"
#include "support/served_model.h"

static ls_tensor make_slice(ls_tensor x) {
  return ls_slice(x, LS_SHAPE(0, 1), LS_SHAPE(-1, 4), LS_SHAPE(3, 2));
}

static ls_tensor make_product(ls_tensor x) {
  return ls_matmul_transposed(x, true, x, false);
}

static ls_tensor make_means(ls_tensor x) {
  return ls_avg_pool(x, LS_SHAPE(2, 2),
                     &(ls_window_options){.padding = LS_PADDING_SAME});
}

// Softmax of f32[2,3] and its logarithm, as far as they are the same.
#define POWERS_AND_SUM                                                         \
  "%v6 = stablehlo.subtract %arg0, %v5 : tensor<2x3xf32>\n"                    \
  "    %v7 = stablehlo.exponential %v6 : tensor<2x3xf32>\n"                    \
  "    %v9 = stablehlo.constant dense<\"0x00000000\"> : tensor<f32>\n"         \
  "    %v8 = stablehlo.reduce(%v7 init: %v9) applies stablehlo.add across "    \
  "dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>\n"       \
  "    %v10 = stablehlo.reshape %v8 : (tensor<2xf32>) -> tensor<2x1xf32>\n"

static const struct {
  ls_tensor (*make)(ls_tensor x);
  ls_shape shape;
  const char *lines;
} rows[] = {
    {make_slice,
     {.rank = 2, .dim = {6, 5}},
     "    %v2 = stablehlo.slice %arg0 [0:4:3, 1:4:2] : (tensor<6x5xf32>) -> "
     "tensor<2x2xf32>\n"
     "    return %v2 : tensor<2x2xf32>\n"},
    {make_product,
     {.rank = 3, .dim = {2, 4, 3}},
     "    %v2 = stablehlo.transpose %arg0, dims = [0, 2, 1] : "
     "(tensor<2x4x3xf32>) -> tensor<2x3x4xf32>\n"
     "    %v3 = stablehlo.dot_general %v2, %arg0, batching_dims = [0] x [0], "
     "contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : "
     "(tensor<2x3x4xf32>, tensor<2x4x3xf32>) -> tensor<2x3x3xf32>\n"},
    // Windows are counted in one plane of ones.
    {make_means,
     {.rank = 4, .dim = {2, 3, 4, 2}},
     "stablehlo.broadcast_in_dim %v4, dims = [] : (tensor<f32>) -> "
     "tensor<1x3x4x1xf32>\n"},
    {make_means,
     {.rank = 4, .dim = {2, 3, 4, 2}},
     "    }) : (tensor<1x3x4x1xf32>, tensor<f32>) -> tensor<1x2x2x1xf32>\n"},
    {ls_softmax,
     {.rank = 2, .dim = {2, 3}},
     POWERS_AND_SUM
     "    %v11 = stablehlo.constant dense<\"0x0000803F\"> : tensor<f32>\n"},
    {ls_log_softmax,
     {.rank = 2, .dim = {2, 3}},
     POWERS_AND_SUM "    %v11 = stablehlo.log %v10 : tensor<2x1xf32>\n"},
};

TEST(ops_have_their_form_in_stablehlo) {
  served_make_folder();
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    LS_OWN(printed, path) = NULL;
    expect_ok(served_export(rows[i].make, rows[i].shape, false, &path));
    HEAP(char, text) = served_read(path, "serve.stablehlo.mlir", NULL);
    expect_contains(text, rows[i].lines);
  }
  served_remove_folder(served_folder);
}

static ls_tensor make_maxima(ls_tensor x) {
  return ls_max_pool(x, LS_SHAPE(3, 2),
                     &(ls_window_options){.strides = LS_SHAPE(1, 2),
                                          .low = LS_SHAPE(1, 0),
                                          .high = LS_SHAPE(2, 1),
                                          .dilations = LS_SHAPE(1, 3)});
}

// An attribute as ONNX has it: field 1 is its name, 8 each number, 20 its kind.
#define NAMED(length, name) "\x0A" length name
#define INTS(a, b) "\x40" a "\x40" b
#define KIND "\xA0\x01\x07"

TEST(windows_have_their_form_in_onnx) {
  static const struct {
    const char *bytes;
    size_t size;
  } parts[] = {
#define PART(text) {text, sizeof(text) - 1}
      PART(NAMED("\x0C", "kernel_shape") INTS("\3", "\2") KIND),
      PART(NAMED("\7", "strides") INTS("\1", "\2") KIND),
      PART(NAMED("\x09", "dilations") INTS("\1", "\3") KIND),
      PART(NAMED("\4", "pads") INTS("\1", "\0") INTS("\2", "\1") KIND),
  };
  size_t size = 0;
  LS_OWN(printed, path) = NULL;
  served_make_folder();
  expect_ok(served_export(make_maxima, LS_SHAPE(2, 3, 4, 2), true, &path));
  char *bytes = served_read(path, "model.onnx", &size);
  for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); ++i)
    if (memmem(bytes, size, parts[i].bytes, parts[i].size) == NULL)
      fail_msg("no %s", parts[i].bytes);
  free(bytes);
  served_remove_folder(served_folder);
}
