// SPDX-License-Identifier: Apache-2.0
//
// Gradients of loops around calls and around gradients, and the other way
// round.
#include "graph/region.h"
#include "support/count_up.h"
#include "support/expect.h"
#include "support/gradient_check.h"
#include "support/spec.h"

static ls_tensor number_of(ls_tensor trip) {
  return ls_convert(trip, LS_DTYPE_F64);
}

static ls_tensor growing(ls_tensor y, ls_tensor trip, ls_tensor w) {
  return ls_add(ls_sigmoid(ls_mul(y, w)), number_of(trip));
}

// ---- Calls -----------------------------------------------------------------
static ls_nest body_of_call(ls_nest args, void *user) {
  const counted *shape = user;
  const ls_tensor w = ls_exp(ls_mul_scalar(ls_nest_tensor(args, 1), 0.2));
  return ls_leaf(shape == NULL ? ls_mul(ls_tanh(ls_nest_tensor(args, 0)), w)
                               : count_up(shape, ls_nest_tensor(args, 0), w));
}

// A call of a function of two values, as one op: with a loop inside or none.
static ls_tensor call_op(ls_tensor a, ls_tensor b, const counted *shape) {
  ls_graph *graph = ls_graph_current(), *body = NULL;
  const ls_type types[] = {{ls_tensor_dtype(a), ls_tensor_shape(a)},
                           {ls_tensor_dtype(b), ls_tensor_shape(b)}};
  LS_OWN(ls_nest, like) = LS_LIST(ls_leaf(a), ls_leaf(b));
  LS_OWN(ls_nest, args) = ls_none();
  LS_OWN(ls_nest, results) = ls_none();
  expect_ok(
      ls_graph_make(LS_GRAPH_FUNCTION, "body", graph->runtime, graph, &body));
  expect_ok(ls_region_parameters(body, like, types, 2, &args));
  expect_ok(ls_region_trace(body, body_of_call, args, (void *)(uintptr_t)shape,
                            &results));
  return ls_op_output(
      ls_op_add(&(ls_op_spec){.type = LS_OP_CALL,
                              .inputs = (const ls_tensor[]){a, b},
                              .num_inputs = 2,
                              .regions = &body,
                              .num_regions = 1}),
      0);
}

static ls_tensor calling(ls_tensor y, ls_tensor trip, ls_tensor w) {
  return ls_add(call_op(y, w, NULL), number_of(trip));
}

static ls_tensor calling_loops(ls_tensor y, ls_tensor trip, ls_tensor w) {
  static const counted two = {2, 0, growing};
  return ls_add(call_op(y, w, &two), number_of(trip));
}

static ls_tensor make_called(const ls_tensor *xs, size_t count,
                             const void *user) {
  (void)count;
  return call_op(ls_square(xs[0]), xs[1], user);
}

TEST(calls_in_loops_and_loops_in_calls_agree) {
  LS_SPEC("O193 O194");
  static const counted three = {3, 0, growing}, calls = {3, 0, calling};
  static const counted loops = {2, 0, calling_loops};
  const gradient_case rows[] = {
      {"loop in a call", make_called, &three,
       .shapes = {LS_SHAPE(3), LS_SHAPE(3)}, .count = 2},
      {"call in a loop", make_counted, &calls,
       .shapes = {LS_SHAPE(3), LS_SHAPE(3)}, .count = 2},
      {"loop in a call in a loop", make_counted, &loops,
       .shapes = {LS_SHAPE(3), LS_SHAPE(3)}, .count = 2},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_gradients(&rows[i], 2);
}

// ---- Gradients inside ------------------------------------------------------
static ls_tensor inner_gradient(ls_tensor y, ls_tensor x) {
  const ls_nest ys[] = {ls_leaf(y)}, xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  expect_ok(ls_gradients(ys, 1, xs, 1, NULL, grads));
  return ls_nest_tensor(grads[0], 0);
}

typedef struct asking {
  ls_tensor y, x;
} asking;

static ls_nest ask(ls_nest none, void *user) {
  (void)none;
  const asking *a = user;
  return ls_leaf(ls_mul(inner_gradient(a->y, a->x), a->x));
}

static ls_nest ask_not(ls_nest none, void *user) {
  (void)none;
  const asking *a = user;
  return ls_leaf(ls_mul(a->x, a->y));
}

// The gradient of a loop, taken in a branch behind it.
static ls_tensor make_asked(const ls_tensor *xs, size_t count,
                            const void *user) {
  static const counted three = {3, 0, growing};
  const asking a = {count_up(&three, xs[0], xs[count - 1]), xs[0]};
  const ls_tensor sum = ls_reduce_sum(xs[0], LS_ALL_AXES);
  const ls_tensor limit = ls_scalar(LS_DTYPE_F64, *(const double *)user);
  LS_OWN(ls_nest, made) =
      ls_cond(ls_greater(sum, limit), ask, ask_not, (void *)(uintptr_t)&a);
  const ls_tensor result = ls_nest_tensor(made, 0);
  return ls_add(result, a.y);
}

// A step of training, whose loss has a loop.
static ls_tensor training(ls_tensor y, ls_tensor trip, ls_tensor w) {
  static const counted two = {2, 0, growing};
  const ls_tensor loss = ls_square(count_up(&two, w, y));
  const ls_tensor gradient = ls_mul_scalar(inner_gradient(loss, y), 0.3);
  return ls_add(ls_sub(y, gradient), number_of(trip));
}

TEST(gradients_of_what_gradients_gave_agree) {
  static const double low = -1000, high = 1000;
  static const counted steps = {3, 0, training};
  const gradient_case rows[] = {
      {"in a branch that runs", make_asked, &low,
       .shapes = {LS_SHAPE(3), LS_SHAPE(3)}, .count = 2},
      {"in a branch that does not run", make_asked, &high,
       .shapes = {LS_SHAPE(3), LS_SHAPE(3)}, .count = 2},
      {"through training", make_counted, &steps,
       .shapes = {LS_SHAPE(2), LS_SHAPE(2)}, .count = 2},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_gradients(&rows[i], 2);
}
