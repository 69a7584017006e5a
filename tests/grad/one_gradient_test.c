// SPDX-License-Identifier: Apache-2.0
//
// The gradient of one tensor with respect to another, as a tensor.
#include "graph/own.h"
#include "lockstep/gradients.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/values.h"

// x^3, and its first to fourth derivatives: the last is 0 everywhere.
static ls_nest differentiate(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  ls_nest items[5] = {ls_leaf(ls_mul(ls_square(x), x))};
  for (size_t i = 1; i < 5; ++i)
    items[i] = ls_leaf(ls_gradient(items[i - 1].as.tensor, x));
  return ls_nest_sequence(LS_KIND_TUPLE, items, 5);
}

static void expect_derivatives(ls_nest made, size_t r, double x, int64_t at) {
  const double wanted[] = {x * x * x, 3 * x * x, 6 * x, 6, 0};
  for (size_t i = 0; i < 5; ++i)
    assert_float_equal(ls_array_f64(ls_nest_as_array(ls_distributed_component(
                                        ls_nest_item(made, i), r)),
                                    at),
                       wanted[i], 1e-12);
}

TEST(a_gradient_of_a_gradient_is_a_call_of_a_call) {
  const double xs[] = {1, -2, 3, 0.5, 4};
  for (int replicas = 1; replicas <= 3; ++replicas) {
    LS_OWN(ls_nest, args) =
        LS_TUPLE(split_of(replicas, array_of(LS_DTYPE_F64, LS_SHAPE(5), xs)));
    LS_OWN(ls_nest, made) = call_on(replicas, differentiate, NULL, args, 1);
    for (int r = 0, x = 0; r < replicas; ++r)
      for (int at = 0; at < 5 / replicas + (r < 5 % replicas); ++at)
        expect_derivatives(made, (size_t)r, xs[x++], at);
  }
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_GRAPH_SCOPE(graph);
  LS_OWN(ls_nest, x) =
      LS_TUPLE(ls_leaf(ls_placeholder(LS_DTYPE_F64, LS_SHAPE(-1), "x")));
  const ls_nest fetches = differentiate(x, NULL);
  LS_OWN(ls_session, session) = session_of(graph);
  LS_OWN(ls_array, value) = array_of(LS_DTYPE_F64, LS_SHAPE(5), xs);
  LS_OWN(ls_nest, made) = {0};
  expect_ok(ls_session_run(session, fetches,
                           &(ls_feed){ls_nest_tensor(x, 0), value}, 1, &made));
  for (int i = 0; i < 5; ++i)
    expect_derivatives(made, 0, xs[i], i);
  ls_nest_release(fetches);
}

TEST(one_gradient_is_refused_in_an_eager_graph) {
  const double one = 1;
  expect_ok(ls_frame_begin());
  const ls_tensor x = eager_of(LS_DTYPE_F32, LS_SCALAR, &one);
  expect_status(ls_tensor_status(ls_gradient(ls_exp(x), x)),
                LS_FAILED_PRECONDITION, "ls_tape_gradients");
  expect_ok(ls_frame_end(NULL));
}

static ls_nest fail_first(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor failed = ls_reshape(x, LS_SHAPE(7));
  return ls_leaf(*(const bool *)user ? ls_gradient(failed, x)
                                     : ls_gradient(x, failed));
}

TEST(one_gradient_passes_failures_on) {
  const double xs[] = {1, 2};
  for (int of = 0; of < 2; ++of) {
    bool is_y = of == 0;
    LS_OWN(ls_function, function) = unnamed_function(fail_first, &is_y);
    LS_OWN(ls_nest, args) =
        LS_TUPLE(ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(2), xs)));
    LS_OWN(ls_nest, made) = {0};
    expect_status(ls_function_call(function, args, &made), LS_INVALID_ARGUMENT,
                  "reshape");
  }
}

// A read that y does not use stands for the variable; one that it uses, for
// itself alone.
static ls_nest differentiate_reads(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor a = ls_variable_read(user), b = ls_variable_read(user);
  const ls_tensor y = ls_mul(ls_mul(a, b), x);
  return LS_TUPLE(ls_leaf(ls_gradient(y, a)),
                  ls_leaf(ls_gradient(y, ls_variable_read(user))),
                  ls_leaf(ls_gradient(x, a)));
}

TEST(a_read_that_is_not_used_stands_for_its_variable) {
  const double x = 5, wanted[] = {15, 30, 0};
  LS_OWN(ls_variable, variable) = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "v",
                             .initial_value = ls_scalar(LS_DTYPE_F64, 3)},
      &variable));
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_array(array_of(LS_DTYPE_F64, LS_SCALAR, &x)));
  for (int replicas = 1; replicas <= 2; ++replicas) {
    LS_OWN(ls_nest, made) =
        call_on(replicas, differentiate_reads, variable, args, 1);
    for (int r = 0; r < replicas; ++r)
      for (size_t i = 0; i < 3; ++i)
        assert_true(ls_array_f64(ls_nest_as_array(ls_distributed_component(
                                     ls_nest_item(made, i), (size_t)r)),
                                 0) == wanted[i]);
  }
}
