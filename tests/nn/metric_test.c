// SPDX-License-Identifier: Apache-2.0
#include "lockstep/losses.h"

#include <math.h>

#include "nn/own.h"
#include "support/fault.h"
#include "support/values.h"

TEST(top_k_counts_labels_among_the_largest) {
  const double logits[] = {1, 5, 3, 2,  //
                           4, 4, 4, 4,  // Equal ones by index.
                           0, 1, 2, 3};
  const double labels[] = {2, 1, 0};
  const double parts[] = {0, 2.0 / 3, 2.0 / 3, 1};
  expect_ok(ls_frame_begin());
  const ls_tensor x = eager_of(LS_DTYPE_F32, LS_SHAPE(3, 4), logits);
  const ls_tensor y = eager_of(LS_DTYPE_I32, LS_SHAPE(3), labels);
  for (int k = 1; k <= 4; ++k)
    assert_float_equal(item_of(ls_top_k_accuracy(x, y, k)), parts[k - 1], 1e-6);
  expect_ok(ls_frame_end(NULL));
}

// [n, 1] against [n] would count each label against each row.
TEST(labels_of_other_shapes_than_the_rows_are_refused) {
  const ls_shape others[] = {LS_SHAPE(3, 1), LS_SHAPE(1), LS_SCALAR,
                             LS_SHAPE(3, 4)};
  expect_ok(ls_frame_begin());
  const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(3, 4), 1);
  for (size_t i = 0; i < sizeof(others) / sizeof(*others); ++i) {
    const ls_tensor y = ls_fill(LS_DTYPE_I32, others[i], 1);
    const ls_tensor made[] = {ls_accuracy(x, y), ls_count_correct(x, y),
                              ls_top_k_accuracy(x, y, 2)};
    for (size_t k = 0; k < sizeof(made) / sizeof(*made); ++k)
      expect_status(ls_tensor_status(made[k]), LS_INVALID_ARGUMENT,
                    "labels must be integers, one for each row of the logits");
  }
  expect_ok(ls_frame_end(NULL));
}

TEST(labels_with_fractions_and_no_k_are_refused) {
  expect_ok(ls_frame_begin());
  const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(2, 3), 1);
  expect_status(
      ls_tensor_status(ls_accuracy(x, ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 0.9))),
      LS_INVALID_ARGUMENT, "labels f32[2] for logits f32[2,3]");
  const ls_tensor y = ls_fill(LS_DTYPE_I32, LS_SHAPE(2), 1);
  expect_status(ls_tensor_status(ls_top_k_accuracy(x, y, 0)),
                LS_INVALID_ARGUMENT, "k must be at least 1, got 0");
  expect_ok(ls_frame_end(NULL));
}

static ls_nest take_in(ls_nest args, void *user) {
  ls_running_mean_update(user, ls_nest_tensor(args, 0));
  return ls_none();
}

TEST(a_running_mean_is_that_of_all_elements_so_far) {
  const double first[] = {1, 2, 3, 4}, second[] = {10, 20};
  for (int replicas = 1; replicas <= 2; ++replicas) {
    LS_OWN(ls_running_mean, mean) = NULL;
    double number = 0;
    expect_ok(ls_running_mean_create("loss", &mean));
    expect_ok(ls_running_mean_read(mean, &number));
    assert_true(isnan(number));
    ls_nest args = LS_TUPLE(
        split_of(replicas, array_of(LS_DTYPE_F32, LS_SHAPE(4), first)));
    ls_nest_release(call_on(replicas, take_in, mean, args, 2));
    ls_nest_release(args);
    args = LS_TUPLE(
        split_of(replicas, array_of(LS_DTYPE_F32, LS_SHAPE(2, 1), second)));
    ls_nest_release(call_on(replicas, take_in, mean, args, 1));
    ls_nest_release(args);
    expect_ok(ls_running_mean_read(mean, &number));
    assert_true(number == 5);
    expect_ok(ls_frame_begin());
    assert_true(item_of(ls_running_mean_value(mean)) == 5);
    ls_variable *variables[2] = {NULL};
    assert_int_equal(ls_running_mean_variables(mean, variables, 2), 2);
    assert_string_equal(ls_variable_name(variables[0]), "loss/total");
    assert_string_equal(ls_variable_name(variables[1]), "loss/count");
    const double total = 50, count = 10;
    expect_variable(variables[0], &total, 1, 0);
    expect_variable(variables[1], &count, 1, 0);
    expect_ok(ls_tensor_status(ls_op_output(ls_running_mean_reset(mean), 0)));
    assert_true(isnan(item_of(ls_running_mean_value(mean))));
    expect_ok(ls_frame_end(NULL));
  }
}

TEST(a_running_mean_counts_large_integers) {
  LS_OWN(ls_running_mean, mean) = NULL;
  const double values[] = {16777217, 16777217};  // Not f32.
  double number = 0;
  expect_ok(ls_running_mean_create("large", &mean));
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_array(array_of(LS_DTYPE_I64, LS_SHAPE(2), values)));
  ls_nest_release(call_on(1, take_in, mean, args, 1));
  expect_ok(ls_running_mean_read(mean, &number));
  assert_true(number == 16777217);
}

MEMORY_TEST(make_a_mean) {
  LS_OWN(ls_running_mean, mean) = NULL;
  return ls_running_mean_create(NULL, &mean);
}
