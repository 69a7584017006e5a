// SPDX-License-Identifier: Apache-2.0
//
// Kernels in PyTorch's layout are permuted when they are restored, and refused
// where the layout is another, or in doubt.
#include <string.h>
#include <unistd.h>

#include "base/memory/own.h"
#include "distribute/own.h"
#include "support/replicas.h"
#include "support/saving.h"
#include "support/values.h"

// A variable of the numbers 0, 1, 2, ...
static ls_variable *counted_variable(const char *name, ls_shape shape) {
  double values[128];
  for (int i = 0; i < 128; ++i)
    values[i] = i;
  return variable_of(name, LS_DTYPE_F32, shape, values);
}

// Writes one array, which counts.
static void write_array(const char *name, ls_shape shape) {
  LS_OWN(ls_variable, variable) = counted_variable("given", shape);
  const ls_saver saver = {
      .variables = &variable, .num_variables = 1, .names = &name};
  expect_ok(ls_saver_save(&saver, path));
}

static ls_status restore_as(ls_variable *const *variables, size_t count,
                            const char *entry, ls_value_choice choice) {
  const ls_saver saver = {.variables = variables, .num_variables = count};
  const ls_name_map map = {entry, ls_variable_name(variables[count - 1])};
  choice.names = &map;
  choice.num_names = 1;
  if (count > 1) choice.missing = LS_FLAG_ON;
  return ls_saver_restore_part(&saver, path, &choice, NULL);
}

static const ls_value_choice torch = {.layout = LS_LAYOUT_TORCH};

TEST(kernels_of_pytorch_are_permuted) {
  static const struct {
    const char *name;
    ls_shape given, shape;
  } rows[] = {
      {"dense/kernel", {2, {3, 2}}, {2, {2, 3}}},
      {"lstm/recurrent_kernel", {2, {2, 2}}, {2, {2, 2}}},
      {"conv/kernel", {4, {3, 2, 5, 4}}, {4, {5, 4, 2, 3}}},
      {"kernel", {3, {3, 2, 5}}, {3, {5, 2, 3}}},
  };
  for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); ++r) {
    const ls_shape given = rows[r].given;
    LS_OWN(ls_variable, variable) =
        counted_variable(rows[r].name, rows[r].shape);
    write_array("layer.weight", given);
    expect_ok(restore_as(&variable, 1, "layer.weight", torch));
    LS_OWN(ls_array, value) = variable_array(variable);
    const int64_t outputs = given.dim[0], inputs = given.dim[1];
    const int64_t spatial = ls_shape_num_elements(given) / outputs / inputs;
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t i = 0; i < inputs; ++i)
        for (int64_t s = 0; s < spatial; ++s)
          assert_true(ls_array_f64(value, (s * inputs + i) * outputs + o) ==
                      (double)((o * inputs + i) * spatial + s));
  }
  unlink(path);
}

// Converts floats of other dtypes on request, permuted or not.
TEST(floats_of_other_dtypes_are_converted_on_request) {
  static const ls_dtype dtypes[] = {LS_DTYPE_F64, LS_DTYPE_F16, LS_DTYPE_BF16};
  const double values[] = {1, 2.5, -3, 4};
  for (size_t i = 0; i < 6; ++i) {
    const bool turned = i % 2 == 1;
    LS_OWN(ls_variable, given) =
        variable_of("net.weight", dtypes[i / 2], LS_SHAPE(2, 2), values);
    LS_OWN(ls_variable, variable) =
        counted_variable("net/kernel", LS_SHAPE(2, 2));
    ls_value_choice choice = {.layout =
                                  turned ? LS_LAYOUT_TORCH : LS_LAYOUT_OWN};
    expect_ok(ls_saver_save(
        &(ls_saver){.variables = &given, .num_variables = 1}, path));
    expect_status(restore_as(&variable, 1, "net.weight", choice),
                  LS_INVALID_ARGUMENT, "variable 'net/kernel' needs f32");
    choice.convert = LS_FLAG_ON;
    expect_ok(restore_as(&variable, 1, "net.weight", choice));
    LS_OWN(ls_array, value) = variable_array(variable);
    for (int k = 0; k < 4; ++k)
      assert_true(ls_array_f64(value, k) ==
                  values[turned ? k % 2 * 2 + k / 2 : k]);
    // A square kernel is in doubt in any dtype.
    choice.layout = LS_LAYOUT_DEFAULT;
    expect_status(restore_as(&variable, 1, "net.weight", choice),
                  LS_INVALID_ARGUMENT, "in both layouts");
  }
  // Integers are not converted.
  LS_OWN(ls_variable, table) =
      variable_of("table", LS_DTYPE_I32, LS_SHAPE(2, 2), values);
  expect_status(restore_as(&table, 1, "net.weight",
                           (ls_value_choice){.convert = LS_FLAG_ON}),
                LS_INVALID_ARGUMENT, "variable 'table' needs i32[2,2]");
  unlink(path);
}

TEST(names_of_pytorch_are_recognized) {
  LS_OWN(ls_variable, variable) = counted_variable("net/kernel", LS_SHAPE(2));
  write_array("net.weight", LS_SHAPE(2));
  expect_status(restore_as(&variable, 1, "other.weight", torch), LS_NOT_FOUND,
                "these look like PyTorch's names");
  unlink(path);
}

TEST(other_variables_stay_as_they_are) {
  LS_OWN(ls_variable, table) =
      counted_variable("embedding/table", LS_SHAPE(4, 4));
  write_array("embedding.weight", LS_SHAPE(4, 4));
  expect_ok(restore_as(&table, 1, "embedding.weight", torch));
  LS_OWN(ls_array, value) = variable_array(table);
  assert_true(ls_array_f64(value, 1) == 1);
  unlink(path);
}

// A kernel of 8 inputs, after a convolution with 2 filters.
TEST(a_dense_kernel_after_a_convolution_needs_its_images) {
  ls_variable *variables[] = {
      counted_variable("conv/kernel", LS_SHAPE(1, 1, 1, 2)),
      counted_variable("conv/bias", LS_SHAPE(2)),
      counted_variable("dense/kernel", LS_SHAPE(8, 3))};
  write_array("fc.weight", LS_SHAPE(3, 8));
  expect_status(restore_as(variables, 3, "fc.weight", torch),
                LS_INVALID_ARGUMENT,
                "--layout torch,dense/kernel=2xHEIGHTxWIDTH, or =8x1x1");
  ls_value_choice choice = torch;
  ls_flat_kernel flat = {"dense/kernel", 2, 3, 2};
  choice.flat = &flat;
  choice.num_flat = 1;
  expect_status(restore_as(variables, 3, "fc.weight", choice),
                LS_INVALID_ARGUMENT,
                "has 8 inputs, which are no images of "
                "2x3x2");
  flat.height = 2;
  expect_ok(restore_as(variables, 3, "fc.weight", choice));
  LS_OWN(ls_array, value) = variable_array(variables[2]);
  // Pixel s of channel c is input s * 2 + c here, c * 4 + s there.
  for (int o = 0; o < 3; ++o)
    for (int c = 0; c < 2; ++c)
      for (int s = 0; s < 4; ++s)
        assert_true(ls_array_f64(value, (s * 2 + c) * 3 + o) ==
                    (double)(o * 8 + c * 4 + s));
  const ls_flat_kernel flats[] = {flat, flat, {"typo/kernel", 3, 5, 7}};
  choice.flat = flats + 1;
  choice.num_flat = 2;
  expect_status(restore_as(variables, 3, "fc.weight", choice),
                LS_INVALID_ARGUMENT,
                "images are given for 'typo/kernel', which is not a dense "
                "kernel that is restored from PyTorch's layout");
  choice.flat = flats;
  expect_status(restore_as(variables, 3, "fc.weight", choice),
                LS_INVALID_ARGUMENT,
                "the images of 'dense/kernel' are given twice");
  choice.num_flat = 1;
  choice.layout = LS_LAYOUT_OWN;
  write_array("fc.weight", LS_SHAPE(8, 3));
  expect_status(restore_as(variables, 3, "fc.weight", choice),
                LS_INVALID_ARGUMENT, "images are given for 'dense/kernel'");
  for (size_t i = 0; i < 3; ++i)
    ls_variable_release(variables[i]);
  unlink(path);
}

TEST(a_convolution_without_filters_has_no_images) {
  ls_variable *variables[] = {
      counted_variable("conv/kernel", LS_SHAPE(1, 1, 1, 0)),
      counted_variable("dense/kernel", LS_SHAPE(8, 3))};
  write_array("fc.weight", LS_SHAPE(3, 8));
  expect_ok(restore_as(variables, 2, "fc.weight", torch));
  for (size_t i = 0; i < 2; ++i)
    ls_variable_release(variables[i]);
  unlink(path);
}

TEST(kernels_of_another_layout_are_refused_with_the_one_that_fits) {
  LS_OWN(ls_variable, kernel) = counted_variable("d/kernel", LS_SHAPE(2, 3));
  LS_OWN(ls_variable, square) = counted_variable("s/kernel", LS_SHAPE(3, 3));
  write_array("d.weight", LS_SHAPE(3, 2));
  expect_status(restore_as(&kernel, 1, "d.weight", (ls_value_choice){0}),
                LS_INVALID_ARGUMENT,
                "needs f32[2,3]: it fits with --layout torch");
  write_array("d.weight", LS_SHAPE(2, 3));
  expect_status(restore_as(&kernel, 1, "d.weight", torch), LS_INVALID_ARGUMENT,
                "it is in our layout, not in that of --layout torch");
  write_array("s.weight", LS_SHAPE(3, 3));
  expect_status(restore_as(&square, 1, "s.weight", (ls_value_choice){0}),
                LS_INVALID_ARGUMENT,
                "would fit variable 's/kernel' in both layouts: give --layout "
                "torch ([outputs, inputs, ...]) or --layout own");
  expect_ok(restore_as(&square, 1, "s.weight",
                       (ls_value_choice){.layout = LS_LAYOUT_OWN}));
  LS_OWN(ls_array, value) = variable_array(square);
  assert_true(ls_array_f64(value, 1) == 1);
  unlink(path);
}

TEST(a_mirrored_kernel_is_permuted_too) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, kernel) = NULL;
  {
    LS_STRATEGY_SCOPE(strategy);
    kernel = counted_variable("d/kernel", LS_SHAPE(2, 3));
  }
  write_array("d.weight", LS_SHAPE(3, 2));
  expect_ok(restore_as(&kernel, 1, "d.weight", torch));
  LS_OWN(ls_array, value) = variable_array(kernel);
  assert_true(ls_array_f64(value, 1) == 2);
  unlink(path);
}
