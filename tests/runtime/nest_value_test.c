// SPDX-License-Identifier: Apache-2.0
//
// What nests show of values, and the number in a leaf.
#include <math.h>
#include <string.h>

#include "graph/own.h"
#include "lockstep/eager.h"
#include "lockstep/function.h"
#include "lockstep/graph.h"
#include "lockstep/ops.h"
#include "support/expect.h"
#include "support/function.h"

static void expect_text(ls_nest leaf, const char *wanted) {
  char text[300];
  assert_string_equal(ls_nest_print(leaf, text, sizeof(text)), wanted);
  ls_nest_release(leaf);
}

static ls_nest array_of(ls_dtype dtype, ls_shape shape, double first) {
  const ls_nest leaf = ls_nest_zeros(dtype, shape);
  const int64_t count = ls_array_num_elements(ls_nest_as_array(leaf));
  for (int64_t i = 0; i < count; ++i)
    ls_array_set_f64(ls_nest_as_array(leaf), i, first + (double)i);
  return leaf;
}

TEST(an_array_shows_its_first_numbers) {
  expect_text(array_of(LS_DTYPE_F32, LS_SCALAR, 0.1), "f32[] 0.1");
  expect_text(array_of(LS_DTYPE_F64, LS_SCALAR, 1.0 / 3),
              "f64[] 0.3333333333333333");
  expect_text(array_of(LS_DTYPE_I64, LS_SHAPE(2, 2), -1),
              "i64[2,2] [-1, 0, 1, 2]");
  expect_text(array_of(LS_DTYPE_U8, LS_SHAPE(8), 250),
              "u8[8] [250, 251, 252, 253, 254, 255, ...]");
  expect_text(array_of(LS_DTYPE_BOOL, LS_SCALAR, 1), "bool[] true");
  expect_text(array_of(LS_DTYPE_F32, LS_SHAPE(0, 3), 0), "f32[0,3] []");
  expect_text(array_of(LS_DTYPE_F32, LS_SCALAR, (double)NAN), "f32[] nan");
  // Cut, never beyond its end.
  LS_OWN(ls_nest, leaf) = array_of(LS_DTYPE_F32, LS_SHAPE(3), 1);
  char text[10];
  assert_int_equal(strlen(ls_nest_print(leaf, text, sizeof(text))), 9);
}

TEST(an_eager_tensor_shows_its_value) {
  expect_ok(ls_frame_begin());
  const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 2.5);
  expect_text(ls_leaf(x), "tensor f32[2] [2.5, 2.5]");
  expect_text(ls_leaf(ls_reduce_sum(x, LS_ALL_AXES)), "tensor f32[] 5");
  // A draw that nobody has looked at yet.
  const ls_tensor drawn =
      ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(1), 3, 3, NULL);
  expect_text(ls_leaf(drawn), "tensor f32[1] [3]");
  expect_text(ls_leaf(ls_add(x, ls_fill(LS_DTYPE_F32, LS_SHAPE(3), 1))),
              "failed tensor");
  expect_ok(ls_frame_end(NULL));
  char text[100];
  expect_contains(ls_nest_print(ls_leaf(x), text, sizeof(text)), "stale");
}

TEST(a_tensor_of_a_graph_shows_its_name) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1, 3), "x");
    {
      LS_NAME_SCOPE("main");
      const ls_tensor y = ls_identity_named(x, "y");
      expect_text(ls_leaf(y), "tensor 'main/y:0' f32[?,3]");
      expect_text(ls_nest_op(ls_tensor_op(y)), "op 'main/y' (identity)");
    }
    expect_text(ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 4)),
                "tensor 'constant:0' i32[] 4");
  }
}

static void expect_number(ls_nest leaf, double wanted) {
  double number = 0;
  expect_ok(ls_nest_to_number(leaf, &number));
  assert_true(number == wanted);
  assert_true(ls_nest_number(leaf) == wanted);
  ls_nest_release(leaf);
}

static void expect_none(ls_nest leaf, ls_code code, const char *says) {
  double number = 0;
  expect_status(ls_nest_to_number(leaf, &number), code, says);
  assert_true(isnan(number));
  assert_true(isnan(ls_nest_number(leaf)));
  ls_nest_release(leaf);
}

static ls_nest look_inside(ls_nest args, void *user) {
  (void)user;
  expect_none(ls_nest_retain(ls_nest_item(args, 0)), LS_FAILED_PRECONDITION,
              "has no value yet");
  expect_number(ls_leaf(ls_scalar(LS_DTYPE_F32, 3)), 3);
  return ls_nest_retain(args);
}

TEST(the_number_in_a_leaf_is_given_where_it_is_known) {
  expect_ok(ls_frame_begin());
  expect_number(ls_nest_f64(2.5), 2.5);
  expect_number(array_of(LS_DTYPE_F32, LS_SHAPE(1, 1), 4), 4);
  expect_number(ls_leaf(ls_scalar(LS_DTYPE_F32, 6)), 6);
  expect_number(ls_leaf(ls_fill(LS_DTYPE_I32, LS_SHAPE(1), 6)), 6);
  expect_none(ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 6)),
              LS_INVALID_ARGUMENT, "tensor f32[2] [6, 6] is not one number");
  expect_none(ls_none(), LS_INVALID_ARGUMENT, "none is not one number");
  expect_none(ls_leaf(ls_failed_tensor()), LS_FAILED_PRECONDITION,
              "failed tensor");
  ls_function *function = unnamed_function(look_inside, NULL);
  const ls_nest args = LS_TUPLE(array_of(LS_DTYPE_F32, LS_SCALAR, 1));
  ls_nest results = call_results(function, args);
  ls_nest_release(results);
  ls_nest_release(args);
  ls_function_release(function);
  expect_ok(ls_frame_end(NULL));
}
