// SPDX-License-Identifier: Apache-2.0
// What eager tells of values that are not there, and what it leaves behind.
#include "support/counted.h"
#include "support/expect.h"

#include "graph/own.h"
#include "lockstep/eager.h"
#include "lockstep/ops.h"
#include "lockstep/variable.h"
#include "support/function.h"
#include "support/values.h"

static ls_variable *make_variable(int64_t size) {
  ls_variable *variable = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.dtype = LS_DTYPE_F32, .shape = LS_SHAPE(size)},
      &variable));
  return variable;
}

TEST(a_write_tells_whether_it_was_done) {
  LS_OWN(ls_variable, variable) = make_variable(3);
  expect_ok(ls_frame_begin());
  const ls_tensor three = ls_fill(LS_DTYPE_F32, LS_SHAPE(3), 1);
  const ls_tensor four = ls_fill(LS_DTYPE_F32, LS_SHAPE(4), 1);
  expect_ok(ls_tensor_status(ls_variable_assign(variable, three)));
  const ls_tensor refused = ls_variable_assign(variable, four);
  assert_true(ls_tensor_is_failed(refused));
  expect_status(ls_tensor_status(refused), LS_INVALID_ARGUMENT, "f32[4]");
  // And what needs it, and so on.
  const ls_tensor after = ls_neg(ls_neg(refused));
  expect_status(ls_tensor_status(after), LS_INVALID_ARGUMENT, "f32[4]");
  expect_ok(ls_frame_end(NULL));
}

TEST(what_runs_after_a_failed_op_fails_like_it) {
  LS_OWN(ls_variable, variable) = make_variable(3);
  expect_ok(ls_frame_begin());
  const ls_tensor four = ls_fill(LS_DTYPE_F32, LS_SHAPE(4), 1);
  const ls_op done[] = {ls_tensor_op(ls_variable_read(variable))};
  const ls_op failed[] = {ls_tensor_op(ls_variable_read(variable)),
                          ls_tensor_op(ls_variable_assign(variable, four))};
  expect_ok(ls_tensor_status(ls_op_output(ls_group(done, 1, NULL), 0)));
  expect_status(ls_tensor_status(ls_op_output(ls_group(failed, 2, NULL), 0)),
                LS_INVALID_ARGUMENT, "f32[4]");
  expect_ok(ls_frame_end(NULL));
}

TEST(a_handle_without_an_op_has_a_status_too) {
  expect_ok(ls_frame_begin());
  const ls_tensor gone = ls_scalar(LS_DTYPE_F32, 1);
  expect_ok(ls_tensor_status(gone));
  expect_ok(ls_frame_end(NULL));
  expect_status(ls_tensor_status(gone), LS_INVALID_ARGUMENT, "stale");
  expect_status(ls_tensor_status(ls_failed_tensor()), LS_INVALID_ARGUMENT,
                "failed");
}

TEST(a_value_of_a_graph_being_built_has_none_yet) {
  LS_OWN(ls_graph, graph) = graph_named("plan");
  {
    LS_GRAPH_SCOPE(graph);
    expect_status(ls_tensor_status(ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 1)),
                  LS_FAILED_PRECONDITION, "belongs to graph 'plan'");
  }
}

enum { LARGE = 1 << 20 };  // So large that it has memory of its own.

static ls_nest make_ones(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(LARGE), 1));
}

static ls_variable *make_variable_of_ones(void) {
  ls_variable *variable = NULL;
  expect_ok(ls_variable_create(&(ls_variable_options){.initializer = make_ones},
                               &variable));
  return variable;
}

// Outside any frame, where eager values stay for good.
TEST(a_variable_leaves_no_copy_of_its_first_value) {
  LS_OWN(counted, memory) = counted_begin(1);
  ls_variable_release(make_variable_of_ones());  // What is made once is made.
  const uint64_t before = counted_now(&memory).live_bytes;
  ls_variable *variable = make_variable_of_ones();
  const uint64_t with = counted_now(&memory).live_bytes;
  assert_in_range(with - before, LARGE * 4, LARGE * 4 + 4096);
  ls_variable_release(variable);
  assert_int_equal(counted_now(&memory).live_bytes, before);
}

TEST(zeros_stand_nowhere_but_in_their_variable) {
  LS_OWN(counted, memory) = counted_begin(1);
  ls_variable_release(make_variable(1));
  const uint64_t before = counted_now(&memory).live_bytes;
  LS_OWN(ls_variable, variable) = make_variable(LARGE);
  assert_in_range(counted_now(&memory).peak_bytes - before, LARGE * 4,
                  LARGE * 4 + 4096);
  LS_OWN(ls_array, value) = variable_array(variable);
  const float *data = ls_array_data(value);
  for (int64_t i = 0; i < LARGE; ++i)
    assert_true(data[i] == 0);
}

TEST(every_output_of_a_failed_op_has_its_status) {
  expect_ok(ls_frame_begin());
  const ls_op failed = ls_top_k(ls_fill(LS_DTYPE_F32, LS_SHAPE(4, 5), 1), 9);
  for (unsigned i = 0; i < 2; ++i) {
    const ls_tensor output = ls_op_output(failed, i);
    ls_array *value = NULL;
    double item = 0;
    expect_status(ls_tensor_status(output), LS_INVALID_ARGUMENT, "top_k");
    expect_status(ls_tensor_value(output, &value), LS_INVALID_ARGUMENT,
                  "top_k");
    assert_null(value);
    expect_status(ls_tensor_item(output, &item), LS_INVALID_ARGUMENT, "top_k");
  }
  expect_ok(ls_frame_end(NULL));
}
