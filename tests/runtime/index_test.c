// SPDX-License-Identifier: Apache-2.0
//
// The makers of ops that take parts, join, look up, scan and order, on known
// values; and sizes that come to light only in a run.
#include "lockstep/eager.h"
#include "lockstep/ops.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/expect.h"
#include "support/values.h"

static ls_tensor numbers(ls_shape shape, const double *data) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_F64, shape, data, &array));
  return ls_constant(array);
}
#define NUMBERS(shape, ...) numbers(shape, (const double[]){__VA_ARGS__})

#define VALUES(tensor, shape, ...)                                             \
  expect_tensor_of(tensor, shape, (const double[]){__VA_ARGS__}, 0)

TEST(slices_count_from_the_start_to_a_limit_or_the_end) {
  const ls_tensor x = NUMBERS(LS_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
  VALUES(ls_slice(x, LS_SHAPE(0, 1), LS_SHAPE(1, -1), LS_SCALAR),
         LS_SHAPE(1, 2), 2, 3);
  VALUES(ls_slice(x, LS_SHAPE(0, 0), LS_SHAPE(2, 3), LS_SHAPE(1, 2)),
         LS_SHAPE(2, 2), 1, 3, 4, 6);
  VALUES(ls_slice_axis(x, -1, 1, -1), LS_SHAPE(2, 2), 2, 3, 5, 6);
  VALUES(ls_reverse(x, LS_ALL_AXES), LS_SHAPE(2, 3), 6, 5, 4, 3, 2, 1);
  const ls_tensor starts[] = {ls_scalar_i64(LS_DTYPE_I32, 9),
                              ls_scalar_i64(LS_DTYPE_I64, 1)};
  const ls_tensor part = ls_dynamic_slice(x, starts, LS_SHAPE(1, 2));
  VALUES(part, LS_SHAPE(1, 2), 5, 6);
  VALUES(ls_dynamic_slice_like(x, starts, part), LS_SHAPE(1, 2), 5, 6);
  VALUES(ls_dynamic_update_slice(x, ls_neg(part), starts), LS_SHAPE(2, 3), 1, 2,
         3, 4, -5, -6);
}

TEST(values_are_joined_and_cut_again) {
  const ls_tensor x = NUMBERS(LS_SHAPE(2, 1), 1, 2);
  const ls_tensor y = NUMBERS(LS_SHAPE(2, 2), 3, 4, 5, 6);
  const ls_tensor both[] = {x, y};
  const ls_tensor joined = ls_concatenate(both, 2, -1);
  VALUES(joined, LS_SHAPE(2, 3), 1, 3, 4, 2, 5, 6);
  const ls_op pieces = ls_split_like(joined, both, 2, -1);
  VALUES(ls_op_output(pieces, 0), LS_SHAPE(2, 1), 1, 2);
  VALUES(ls_op_output(pieces, 1), LS_SHAPE(2, 2), 3, 4, 5, 6);
  VALUES(ls_pad(x, ls_scalar(LS_DTYPE_F64, 9), LS_SHAPE(0, 1), LS_SHAPE(0, 0),
                LS_SHAPE(1, 0)),
         LS_SHAPE(3, 2), 9, 1, 9, 9, 9, 2);
}

TEST(orders_tell_values_and_places) {
  const ls_tensor x = NUMBERS(LS_SHAPE(5), 3, 1, 2, 3, 0);
  const ls_tensor items[] = {x, NUMBERS(LS_SHAPE(5), 0, 1, 2, 3, 4)};
  VALUES(ls_sort(x, -1, false), LS_SHAPE(5), 0, 1, 2, 3, 3);
  VALUES(ls_argsort(x, -1, true), LS_SHAPE(5), 0, 3, 2, 1, 4);
  const ls_op sorted = ls_sort_by(items, 2, 0, false);
  VALUES(ls_op_output(sorted, 1), LS_SHAPE(5), 4, 1, 2, 0, 3);
  VALUES(ls_op_output(sorted, 2), LS_SHAPE(5), 4, 1, 2, 0, 3);
  const ls_op top = ls_top_k(x, 2);
  VALUES(ls_op_output(top, 0), LS_SHAPE(2), 3, 3);
  VALUES(ls_op_output(top, 1), LS_SHAPE(2), 0, 3);
  VALUES(ls_argmin(x, 0), LS_SCALAR, 4);
}

TEST(scans_and_lookups_take_negative_axes) {
  const ls_tensor x = NUMBERS(LS_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
  VALUES(ls_cumsum(x, -1, true, false), LS_SHAPE(2, 3), 0, 1, 3, 0, 4, 9);
  VALUES(ls_cumprod(x, -2, false, true), LS_SHAPE(2, 3), 4, 10, 18, 4, 5, 6);
  VALUES(ls_linear_scan(x, x, -1, false), LS_SHAPE(2, 3), 1, 4, 15, 4, 25, 156);
  const ls_tensor places = ls_convert(NUMBERS(LS_SHAPE(2), 2, 0), LS_DTYPE_I32);
  VALUES(ls_gather(x, places, -1), LS_SHAPE(2, 2), 3, 1, 6, 4);
  VALUES(ls_scatter(LS_SCATTER_MAX, x, places, ls_mul_scalar(x, 10)),
         LS_SHAPE(2, 3), 40, 50, 60, 4, 5, 6);
  VALUES(ls_clamp(ls_scalar(LS_DTYPE_F64, 2), x, ls_scalar(LS_DTYPE_F64, 5)),
         LS_SHAPE(2, 3), 2, 2, 3, 4, 5, 5);
}

static void expect_refusal(ls_tensor tensor, ls_code code, const char *part) {
  ls_array *array = NULL;
  assert_true(ls_tensor_is_failed(tensor));
  expect_status(ls_tensor_value(tensor, &array), code, part);
}

TEST(axes_and_ops_that_there_are_not_are_refused) {
  const ls_tensor x = NUMBERS(LS_SHAPE(2), 1, 2);
  expect_refusal(ls_slice_axis(x, 1, 0, 1), LS_INVALID_ARGUMENT,
                 "axis 1 is out of range for f64[2]");
  expect_refusal(ls_cumsum(x, -2, false, false), LS_INVALID_ARGUMENT,
                 "'axis' is -2, must be 0 to 7");
  expect_refusal(ls_cumsum(x, 1, false, false), LS_INVALID_ARGUMENT,
                 "cumsum of f64[2] along axis 1");
  expect_refusal(ls_scatter((ls_scatter_op)99, x, x, x), LS_INVALID_ARGUMENT,
                 "scatter op 99 is none of");
  expect_refusal(ls_concatenate(NULL, 0, 0), LS_INVALID_ARGUMENT,
                 "concatenate takes at least 1 operands, got 0");
  expect_refusal(ls_op_output(ls_top_k(x, 3), 0), LS_INVALID_ARGUMENT,
                 "top_k of f64[2] with k 3");
}

// Pieces of sizes that only the run knows, fed.
static ls_status sizes_of_split(int64_t first, int64_t second) {
  LS_OWN(ls_graph, graph) = NULL;
  LS_OWN(ls_session, session) = NULL;
  ls_tensor likes[2];
  ls_op pieces = {0};
  expect_ok(ls_graph_create("g", &graph));
  {
    LS_GRAPH_SCOPE(graph);
    for (int i = 0; i < 2; ++i)
      likes[i] = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1), "like");
    const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(5), 1);
    pieces = ls_split_like(x, likes, 2, 0);
  }
  ls_array *arrays[2] = {NULL, NULL};
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(first), &arrays[0]));
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(second), &arrays[1]));
  const ls_feed feeds[] = {{likes[0], arrays[0]}, {likes[1], arrays[1]}};
  LS_OWN(ls_nest, result) = ls_none();
  expect_ok(ls_session_create(graph, &session));
  ls_status status = ls_session_run(session, ls_leaf(ls_op_output(pieces, 1)),
                                    feeds, 2, &result);
  if (ls_status_is_ok(status))
    assert_int_equal(ls_array_num_elements(ls_nest_as_array(result)), second);
  ls_array_release(arrays[0]);
  ls_array_release(arrays[1]);
  return status;
}

TEST(pieces_must_come_to_the_whole_in_a_run) {
  expect_ok(sizes_of_split(3, 2));
  expect_status(sizes_of_split(3, 1), LS_INVALID_ARGUMENT, "make 4");
  expect_status(sizes_of_split(4, 3), LS_INVALID_ARGUMENT, "make 7");
}
