// SPDX-License-Identifier: Apache-2.0
#include "lockstep/session.h"

#include "lockstep/distributed.h"
#include "lockstep/gradients.h"
#include "lockstep/graph_ops.h"
#include "runtime/own.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/values.h"

// A graph with y = w x + b and a step down the gradient of its square.
typedef struct net {
  ls_graph *graph;
  ls_session *session;
  ls_tensor x, y, loss;
  ls_variable *w;
  ls_op init, step;
} net;

static void setup(net *n) {
  *n = (net){0};
  expect_ok(ls_graph_create("net", &n->graph));
  {
    LS_GRAPH_SCOPE(n->graph);
    n->x = ls_placeholder(LS_DTYPE_F64, LS_SHAPE(LS_UNKNOWN_DIM), "x");
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "w",
                               .initial_value = ls_scalar(LS_DTYPE_F64, 3)},
        &n->w));
    const ls_tensor w = ls_variable_read(n->w);
    n->y = ls_mul(n->x, w);
    n->loss = ls_reduce_mean(ls_square(n->y), LS_ALL_AXES);
    const ls_nest ys[] = {ls_leaf(n->loss)}, xs[] = {ls_nest_variable(n->w)};
    ls_nest grads[1];
    expect_ok(ls_gradients(ys, 1, xs, 1, NULL, grads));
    n->step = ls_tensor_op(ls_variable_assign_sub(
        n->w, ls_mul_scalar(ls_nest_tensor(grads[0], 0), 0.25)));
    n->init = ls_global_initializer();
    ls_nest_release(xs[0]);
  }
  expect_ok(ls_graph_take_error(n->graph));
  expect_ok(ls_graph_verify(n->graph));
  expect_ok(ls_session_create(n->graph, &n->session));
}

static void teardown(net *n) {
  ls_session_destroy(n->session);
  ls_variable_release(n->w);
  ls_graph_destroy(n->graph);
}
LS_OWNED_STRUCT(net, teardown)

static ls_array *f64_array(size_t count, const double *values) {
  ls_array *array = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_F64, LS_SHAPE((int64_t)count), values,
                                 &array));
  return array;
}

static void init(net *n) {
  ls_nest result = session_results(n->session, ls_nest_op(n->init));
  assert_int_equal(result.kind, LS_KIND_NONE);
}

TEST(a_run_does_what_its_fetches_need) {
  LS_OWN_BEGUN(net, n, setup);
  init(&n);
  LS_OWN(ls_array, x) = f64_array(2, (double[]){1, 2});
  const ls_feed feed = {n.x, x};
  LS_OWN(ls_nest, result) = {0};
  expect_ok(ls_session_run(n.session, ls_leaf(n.y), &feed, 1, &result));
  assert_true(nest_element(result, 0) == 3);
  assert_true(nest_element(result, 1) == 6);
  // The step: d loss / d w = mean(2 w x^2) = 15; w = 3 - 15 / 4.
  LS_OWN(ls_nest, both) = LS_TUPLE(ls_leaf(n.loss), ls_nest_op(n.step));
  expect_ok(ls_session_run(n.session, both, &feed, 1, &result));
  assert_true(nest_element(ls_nest_item(result, 0), 0) == (9.0 + 36.0) / 2);
  LS_OWN(ls_array, w) = NULL;
  expect_ok(ls_session_variable_value(n.session, n.w, &w));
  assert_true(ls_array_f64(w, 0) == 3 - 15.0 / 4);
}

TEST(a_distributed_value_comes_with_all_its_components) {
  LS_OWN_BEGUN(net, n, setup);
  init(&n);
  LS_OWN(ls_array, x) = f64_array(2, (double[]){1, 2});
  const ls_feed feed = {n.x, x};
  const ls_nest parts[] = {ls_leaf(n.y), ls_leaf(n.loss), ls_leaf(n.y)};
  LS_OWN(ls_nest, all) =
      LS_LIST(ls_nest_op(n.step), ls_nest_distributed(LS_PER_REPLICA, parts, 3),
              ls_leaf(n.loss));
  LS_OWN(ls_nest, result) = {0};
  for (int run = 0; run < 2; ++run) {  // Anew, and in place.
    init(&n);
    expect_ok(ls_session_run(n.session, all, &feed, 1, &result));
    const ls_nest value = ls_nest_item(result, 1);
    assert_int_equal(ls_distributed_count(value), 3);
    assert_int_equal(ls_distributed_kind_of(value), LS_PER_REPLICA);
    assert_true(nest_element(ls_distributed_component(value, 0), 1) == 6);
    assert_true(nest_element(ls_distributed_component(value, 1), 0) == 22.5);
    assert_ptr_equal(ls_nest_as_array(ls_distributed_component(value, 2)),
                     ls_nest_as_array(ls_distributed_component(value, 0)));
    assert_true(nest_element(ls_nest_item(result, 2), 0) == 22.5);
  }
  // Components that are no tensors, or of another graph.
  const ls_nest numbers[] = {ls_leaf(n.y), ls_nest_i64(1)};
  const ls_nest failed[] = {ls_leaf(n.y), ls_leaf(ls_failed_tensor())};
  const ls_nest bad[] = {ls_nest_distributed(LS_PER_REPLICA, numbers, 2),
                         ls_nest_distributed(LS_MIRRORED, failed, 2)};
  static const char *const says[] = {"cannot be fetched", "(failed)"};
  for (int i = 0; i < 2; ++i) {
    expect_status(ls_session_run(n.session, bad[i], &feed, 1, &result),
                  LS_INVALID_ARGUMENT, says[i]);
    ls_nest_release(bad[i]);
  }
}

TEST(a_failed_run_leaves_the_results_as_they_were) {
  LS_OWN_BEGUN(net, n, setup);
  LS_OWN(ls_array, x) = f64_array(2, (double[]){1, 2});
  const ls_feed feed = {n.x, x};
  ls_array *kept = f64_array(1, (double[]){7});
  LS_OWN(ls_nest, result) = ls_nest_array(kept);
  expect_status(ls_session_run(n.session, ls_leaf(n.y), &feed, 1, &result),
                LS_FAILED_PRECONDITION, "w");
  assert_ptr_equal(ls_nest_as_array(result), kept);
  assert_true(nest_element(result, 0) == 7);
  ls_nest none = {0};
  expect_status(ls_session_run(n.session, ls_leaf(n.y), &feed, 1, &none),
                LS_FAILED_PRECONDITION, "w");
  assert_int_equal(none.kind, LS_KIND_NONE);
  init(&n);
  expect_ok(ls_session_run(n.session, ls_leaf(n.y), &feed, 1, &result));
  assert_true(nest_element(result, 1) == 6);
}

TEST(a_batch_of_another_size_is_another_program) {
  LS_OWN_BEGUN(net, n, setup);
  init(&n);
  LS_OWN(ls_nest, result) = {0};
  for (size_t count = 1; count <= 3; ++count) {
    LS_OWN(ls_array, x) = f64_array(count, (double[]){1, 2, 3});
    const ls_feed feed = {n.x, x};
    expect_ok(ls_session_run(n.session, ls_leaf(n.loss), &feed, 1, &result));
    const double want[] = {9, 22.5, 42};
    assert_true(nest_element(result, 0) > want[count - 1] - 1e-12);
    assert_true(nest_element(result, 0) < want[count - 1] + 1e-12);
  }
}

TEST(two_sessions_have_their_own_values) {
  LS_OWN_BEGUN(net, n, setup);
  init(&n);
  LS_OWN(ls_session, other) = NULL;
  LS_OWN(ls_nest, result) = {0};
  expect_ok(ls_session_create(n.graph, &other));
  LS_OWN(ls_array, x) = f64_array(1, (double[]){1});
  const ls_feed feed = {n.x, x};
  expect_status(ls_session_run(other, ls_leaf(n.y), &feed, 1, &result),
                LS_FAILED_PRECONDITION, "'w'");
  LS_OWN(ls_array, five) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F64, LS_SCALAR, &five));
  ls_array_set_f64(five, 0, 5);
  expect_ok(ls_session_set_variable_value(other, n.w, five));
  expect_ok(ls_session_run(other, ls_leaf(n.y), &feed, 1, &result));
  assert_true(nest_element(result, 0) == 5);
  LS_OWN(ls_array, value) = session_array(n.session, n.w);
  assert_true(ls_array_f64(value, 0) == 3);
}

TEST(assignments_that_nobody_asked_for_do_not_run) {
  LS_OWN_BEGUN(net, n, setup);
  {
    LS_GRAPH_SCOPE(n.graph);  // As a saver's restore would stand there.
    ls_variable_assign(n.w, ls_scalar(LS_DTYPE_F64, 100));
    n.y = ls_variable_read(n.w);
  }
  init(&n);
  LS_OWN(ls_nest, result) = session_results(n.session, ls_leaf(n.y));
  assert_true(nest_element(result, 0) == 3);
}

TEST(a_control_scope_forces_its_ops_into_the_run) {
  LS_OWN_BEGUN(net, n, setup);
  ls_tensor after = {0};
  {
    LS_GRAPH_SCOPE(n.graph);
    const ls_op op =
        ls_tensor_op(ls_variable_assign_add(n.w, ls_scalar(LS_DTYPE_F64, 1)));
    {
      LS_CONTROL_SCOPE(&op, 1);
      after = ls_variable_read(n.w);
    }
  }
  init(&n);
  LS_OWN(ls_nest, result) = {0};
  for (int i = 1; i <= 3; ++i) {
    expect_ok(ls_session_run(n.session, ls_leaf(after), NULL, 0, &result));
    assert_true(nest_element(result, 0) == 3 + i);
  }
}

TEST(any_tensor_can_be_fed) {
  LS_OWN_BEGUN(net, n, setup);
  LS_OWN(ls_array, y) = f64_array(2, (double[]){3, 4});
  const ls_feed feed = {n.y, y};
  LS_OWN(ls_nest, result) = {0};  // Neither x nor w is needed.
  expect_ok(ls_session_run(n.session, ls_leaf(n.loss), &feed, 1, &result));
  assert_true(nest_element(result, 0) == 12.5);
}

TEST(bad_fetches_and_feeds_are_named) {
  LS_OWN_BEGUN(net, n, setup);
  init(&n);
  ls_nest result = {0};
  expect_status(ls_session_run(n.session, ls_leaf(n.y), NULL, 0, &result),
                LS_INVALID_ARGUMENT, "placeholder 'x'");
  LS_OWN(ls_array, wrong) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(2), &wrong));
  const ls_feed feed = {n.x, wrong};
  expect_status(ls_session_run(n.session, ls_leaf(n.y), &feed, 1, &result),
                LS_INVALID_ARGUMENT, "x");
  expect_status(ls_session_run(n.session, ls_nest_f64(3), NULL, 0, &result),
                LS_INVALID_ARGUMENT, "fetched");
  const ls_tensor eager = ls_scalar(LS_DTYPE_F64, 1);
  expect_status(ls_session_run(n.session, ls_leaf(eager), NULL, 0, &result),
                LS_INVALID_ARGUMENT, "eager");
}

TEST(a_graph_with_an_error_does_not_run_until_it_is_taken) {
  LS_OWN_BEGUN(net, n, setup);
  init(&n);
  {
    LS_GRAPH_SCOPE(n.graph);
    {
      LS_NAME_SCOPE("late");
      ls_matmul(n.x, n.x);
      ls_exp(ls_convert(n.x, LS_DTYPE_I32));  // Not the first error.
    }
  }
  ls_nest result = {0};
  expect_status(ls_session_run(n.session, ls_nest_op(n.init), NULL, 0, &result),
                LS_INVALID_ARGUMENT, "late/matmul");
  expect_status(ls_graph_take_error(n.graph), LS_INVALID_ARGUMENT, "matmul");
  expect_ok(ls_session_run(n.session, ls_nest_op(n.init), NULL, 0, &result));
}

#define NAMED_ON(name, device)                                                 \
  LS_NAME_SCOPE(name);                                                         \
  LS_DEVICE_SCOPE(device)

TEST(scopes_that_begin_on_one_line_are_all_in_force) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    {
      NAMED_ON("a", "/CPU:0");
      NAMED_ON("b", "/CPU:1");
      const ls_op op = ls_tensor_op(ls_scalar(LS_DTYPE_F32, 1));
      assert_string_equal(ls_op_name(op), "a/b/constant");
      assert_string_equal(ls_op_device(op), "/device:CPU:1");
    }
    assert_string_equal(ls_name_scope_current(), "");
  }
}

TEST(names_follow_scopes_and_are_unique) {
  LS_OWN_BEGUN(net, n, setup);
  {
    LS_GRAPH_SCOPE(n.graph);
    const ls_tensor a = ls_neg(n.x), b = ls_neg(n.x);
    assert_string_equal(ls_tensor_name(a), "neg:0");
    assert_string_equal(ls_tensor_name(b), "neg_1:0");
    {
      LS_NAME_SCOPE("s");
      assert_string_equal(ls_op_name(ls_tensor_op(ls_neg(n.x))), "s/neg");
      {
        LS_NAME_SCOPE("t");
        assert_string_equal(ls_op_name(ls_tensor_op(ls_neg(n.x))), "s/t/neg");
        assert_string_equal(ls_name_scope_current(), "s/t/");
      }
    }
    {
      LS_NAME_SCOPE("s");
      assert_string_equal(ls_op_name(ls_tensor_op(ls_neg(n.x))), "s_1/neg");
    }
    {
      LS_NAME_SCOPE("s/");
      assert_string_equal(ls_op_name(ls_tensor_op(ls_neg(n.x))), "s/neg_1");
    }
    {
      LS_NAME_SCOPE(NULL);
      assert_string_equal(ls_tensor_name(ls_identity_named(n.x, "neg_2")),
                          "neg_2:0");
    }
    assert_string_equal(ls_tensor_name(ls_neg(n.x)), "neg_3:0");
  }
}

static bool has_value(const net *n, ls_tensor is_initialized) {
  LS_OWN(ls_nest, result) =
      session_results(n->session, ls_leaf(is_initialized));
  return nest_element(result, 0) != 0;
}

TEST(each_run_sees_whether_a_variable_has_a_value) {
  LS_OWN_BEGUN(net, n, setup);
  ls_tensor is_initialized = ls_failed_tensor();
  {
    LS_GRAPH_SCOPE(n.graph);
    is_initialized = ls_variable_is_initialized(n.w, NULL);
  }
  assert_false(has_value(&n, is_initialized));
  assert_false(has_value(&n, is_initialized));
  init(&n);
  assert_true(has_value(&n, is_initialized));
}

TEST(a_size_that_no_operand_tells_is_refused) {
  LS_OWN_BEGUN(net, n, setup);
  LS_OWN(ls_array, x) = f64_array(2, (double[]){1, 2});
  ls_tensor drawn = ls_failed_tensor();
  {
    LS_GRAPH_SCOPE(n.graph);
    const ls_tensor noise =
        ls_random_normal(LS_DTYPE_F64, ls_tensor_shape(n.x), 0, 1, NULL);
    drawn = ls_add(noise, n.x);
  }
  const ls_feed feed = {n.x, x};
  LS_OWN(ls_nest, result) = {0};
  expect_status(ls_session_run(n.session, ls_leaf(drawn), &feed, 1, &result),
                LS_INVALID_ARGUMENT,
                "not known when it is to run: take its sizes from a tensor");
}
