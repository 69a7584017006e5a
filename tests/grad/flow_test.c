// SPDX-License-Identifier: Apache-2.0
//
// Values of gradients through calls and branches, of variables, and where
// sizes are not known while building.
#include "graph/own.h"
#include "graph/region.h"
#include "lockstep/eager.h"
#include "lockstep/function.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/gradient_check.h"
#include "support/spec.h"

// ---- Branches --------------------------------------------------------------
typedef struct operands {
  ls_tensor a, b;
} operands;

static ls_nest steep(ls_nest none, void *user) {
  (void)none;
  const operands *o = user;
  return ls_leaf(ls_mul(ls_exp(o->a), o->b));
}

static ls_nest flat(ls_nest none, void *user) {
  (void)none;
  const operands *o = user;
  return ls_leaf(ls_tanh(o->a));
}

// Whether the sum of x's elements is above `limit`.
static ls_tensor is_above(ls_tensor x, double limit) {
  const ls_tensor sum = ls_reduce_sum(x, LS_ALL_AXES);
  return ls_greater(sum, ls_scalar(LS_DTYPE_F64, limit));
}

// A branch with a branch inside, which uses what the outer one computes.
static ls_nest nested(ls_nest none, void *user) {
  (void)none;
  const operands *o = user;
  operands inner = {ls_square(o->a), ls_sigmoid(o->b)};
  LS_OWN(ls_nest, made) = ls_cond(is_above(o->b, -1000), steep, flat, &inner);
  return ls_leaf(ls_mul(ls_nest_tensor(made, 0), inner.b));
}

typedef struct branching {
  double limit;
  ls_flow_callback then_branch, else_branch;
} branching;

static ls_tensor make_cond(const ls_tensor *xs, size_t count,
                           const void *user) {
  (void)count;
  const branching *b = user;
  operands o = {xs[0], xs[1]};
  const ls_tensor predicate = is_above(xs[0], b->limit);
  LS_OWN(ls_nest, made) =
      ls_cond(predicate, b->then_branch, b->else_branch, &o);
  return ls_square(ls_nest_tensor(made, 0));
}

static ls_nest stopped(ls_nest none, void *user) {
  (void)none;
  const operands *o = user;
  return ls_leaf(ls_mul(ls_stop_gradient(ls_exp(o->a)), o->b));
}

static ls_nest alone(ls_nest none, void *user) {
  (void)none;
  const operands *o = user;
  return ls_leaf(ls_square(o->b));
}

static ls_nest gradients_of_stopped(ls_nest args, void *user) {
  const ls_tensor v = ls_variable_read(user), x = ls_nest_tensor(args, 0);
  operands o = {ls_mul(v, x), ls_nest_tensor(args, 1)};
  LS_OWN(ls_nest, made) = ls_cond(is_above(o.b, 0), stopped, alone, &o);
  const ls_nest xs[] = {ls_leaf(x), ls_nest_variable(user), ls_leaf(o.b)};
  ls_nest grads[3];
  const ls_status status = ls_gradients(&made, 1, xs, 3, NULL, grads);
  ls_nest_release(xs[1]);
  return ls_status_is_ok(status) ? ls_nest_sequence(LS_KIND_LIST, grads, 3)
                                 : ls_fail(status);
}

TEST(a_branch_has_no_gradient_where_neither_side_has_one) {
  LS_OWN(ls_variable, v) = NULL;
  expect_ok(ls_variable_create(&(ls_variable_options){.name = "v",
                                                      .dtype = LS_DTYPE_F64,
                                                      .shape = LS_SCALAR},
                               &v));
  LS_OWN(ls_function, f) = unnamed_function(gradients_of_stopped, v);
  LS_OWN(ls_nest, args) = LS_LIST(ls_nest_zeros(LS_DTYPE_F64, LS_SCALAR),
                                  ls_nest_zeros(LS_DTYPE_F64, LS_SCALAR));
  for (int i = 0; i < 2; ++i) {
    ls_array_set_f64(ls_nest_as_array(ls_nest_item(args, 1)), 0, i * 2);
    LS_OWN(ls_nest, result) = call_results(f, args);
    assert_int_equal(ls_nest_item(result, 0).kind, LS_KIND_NONE);
    assert_int_equal(ls_nest_item(result, 1).kind, LS_KIND_NONE);
    // exp(0), or 2 times 0.
    assert_true(ls_array_f64(ls_nest_as_array(ls_nest_item(result, 2)), 0) ==
                i);
  }
}

TEST(the_branch_that_ran_is_differentiated) {
  LS_SPEC("O194");
  static const branching then_runs = {-1000, steep, flat};
  static const branching else_runs = {1000, steep, flat};
  static const branching inner_runs = {-1000, nested, flat};
  const gradient_case rows[] = {
      {"then", make_cond, &then_runs, {LS_SHAPE(2, 3), LS_SHAPE(3)}, 2, 0, 0},
      {"else", make_cond, &else_runs, {LS_SHAPE(2, 3), LS_SHAPE(3)}, 2, 0, 0},
      {"nested",
       make_cond,
       &inner_runs,
       {LS_SHAPE(2, 3), LS_SHAPE(3)},
       2,
       0,
       0},
  };
  // Both branches give [2,3]: steep broadcasts its second operand.
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_gradients(&rows[i], 2);
}

// ---- Calls -----------------------------------------------------------------
static ls_nest body_of_call(ls_nest args, void *user) {
  (void)user;
  const ls_tensor a = ls_exp(ls_nest_tensor(args, 0));
  const ls_tensor b = ls_nest_tensor(args, 1);
  const ls_tensor product = ls_mul(a, b);
  return LS_LIST(ls_leaf(ls_square(product)), ls_leaf(b));
}

// A call of a function of two values, as one op.
static ls_tensor call_op(ls_tensor a, ls_tensor b, unsigned result) {
  ls_graph *graph = ls_graph_current(), *body = NULL;
  const ls_type types[] = {{ls_tensor_dtype(a), ls_tensor_shape(a)},
                           {ls_tensor_dtype(b), ls_tensor_shape(b)}};
  LS_OWN(ls_nest, like) = LS_LIST(ls_leaf(a), ls_leaf(b));
  LS_OWN(ls_nest, args) = ls_none();
  LS_OWN(ls_nest, results) = ls_none();
  expect_ok(
      ls_graph_make(LS_GRAPH_FUNCTION, "body", graph->runtime, graph, &body));
  expect_ok(ls_region_parameters(body, like, types, 2, &args));
  expect_ok(ls_region_trace(body, body_of_call, args, NULL, &results));
  return ls_op_output(
      ls_op_add(&(ls_op_spec){.type = LS_OP_CALL,
                              .inputs = (const ls_tensor[]){a, b},
                              .num_inputs = 2,
                              .regions = &body,
                              .num_regions = 1}),
      result);
}

static ls_tensor make_call(const ls_tensor *xs, size_t count,
                           const void *user) {
  (void)count;
  (void)user;
  const ls_tensor once = call_op(xs[0], xs[1], 0);
  return call_op(ls_tanh(once), xs[1], 0);
}

static ls_nest calling(ls_nest none, void *user) {
  (void)none;
  const operands *o = user;
  return ls_leaf(call_op(ls_tanh(o->a), o->b, 0));
}

// What the call gives is needed again.
static ls_nest calling_between(ls_nest none, void *user) {
  (void)none;
  const operands *o = user;
  const ls_tensor made = call_op(ls_tanh(o->a), o->b, 0);
  return ls_leaf(ls_mul(ls_square(made), ls_tanh(made)));
}

TEST(calls_are_differentiated_in_and_out_of_branches) {
  LS_SPEC("O193");
  static const branching branches = {-1000, calling, flat},
                         between = {-1000, calling_between, flat};
  const gradient_case rows[] = {
      {"call", make_call, NULL, {LS_SHAPE(2, 3), LS_SHAPE(3)}, 2, -1, 1},
      {"call in a branch",
       make_cond,
       &branches,
       {LS_SHAPE(2, 3), LS_SHAPE(3)},
       2,
       -1,
       1},
      {"call in the middle of a branch",
       make_cond,
       &between,
       {LS_SHAPE(2, 3), LS_SHAPE(3)},
       2,
       -1,
       1},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_gradients(&rows[i], 2);
}

// ---- Variables -------------------------------------------------------------
typedef struct written_later {
  ls_variable *variable;
  ls_tensor x;
  bool in_branch;
} written_later;

static ls_nest times_variable(ls_nest none, void *user) {
  (void)none;
  const written_later *w = user;
  const ls_tensor square = ls_square(ls_variable_read(w->variable));
  return ls_leaf(ls_mul(w->x, square));
}

static ls_nest itself(ls_nest none, void *user) {
  (void)none;
  const written_later *w = user;
  return ls_leaf(ls_identity(w->x));
}

// Reads, computes, writes; only then are gradients taken.
static ls_nest read_then_write(ls_nest args, void *user) {
  written_later *w = user;
  w->x = ls_nest_tensor(args, 0);
  LS_OWN(ls_nest, made) = ls_none();
  if (w->in_branch) {
    const ls_tensor zero = ls_scalar(LS_DTYPE_F64, 0);
    made = ls_cond(ls_greater(w->x, zero), times_variable, itself, w);
  } else {
    made = times_variable(ls_none(), w);
  }
  const ls_tensor hundred = ls_scalar(LS_DTYPE_F64, 100);
  ls_variable_assign_add(w->variable, hundred);
  const ls_nest xs[] = {ls_leaf(w->x), ls_nest_variable(w->variable)};
  ls_nest grads[2];
  const ls_status status = ls_gradients(&made, 1, xs, 2, NULL, grads);
  ls_nest_release(xs[1]);
  return ls_status_is_ok(status) ? ls_nest_sequence(LS_KIND_LIST, grads, 2)
                                 : ls_fail(status);
}

static double item(ls_nest list, size_t index) {
  return ls_array_f64(ls_nest_as_array(ls_nest_item(list, index)), 0);
}

static ls_array *scalar_array(double value) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F64, LS_SCALAR, &array));
  ls_array_set_f64(array, 0, value);
  return array;
}

TEST(gradients_use_what_a_variable_was_when_it_was_read) {
  for (int in_branch = 0; in_branch < 2; ++in_branch) {
    LS_OWN(ls_array, three) = scalar_array(3);
    written_later w = {.in_branch = in_branch != 0};
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "v", .initial_array = three},
        &w.variable));
    LS_OWN(ls_function, f) = unnamed_function(read_then_write, &w);
    LS_OWN(ls_nest, args) = LS_LIST(ls_nest_array(scalar_array(5)));
    LS_OWN(ls_nest, result) = call_results(f, args);
    assert_true(item(result, 0) == 9);   // v^2
    assert_true(item(result, 1) == 30);  // 2 x v
    ls_variable_release(w.variable);
  }
}

// ---- Sizes that are known when run -----------------------------------------
static ls_array *batch_of(int64_t rows) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F64, LS_SHAPE(rows, 2), &array));
  for (int64_t i = 0; i < rows * 2; ++i)
    ls_array_set_f64(array, i, (double)(i + 1));
  return array;
}

TEST(sizes_are_those_of_the_run) {
  LS_SPEC("O192");
  LS_OWN(ls_graph, graph) = graph_named("unknown batch");
  ls_tensor x = {0};
  ls_nest grads[2];
  {
    LS_GRAPH_SCOPE(graph);
    x = ls_placeholder(LS_DTYPE_F64, LS_SHAPE(-1, 2), "x");
    const ls_tensor bias = ls_placeholder(LS_DTYPE_F64, LS_SHAPE(-1), "bias");
    const ls_tensor shifted =
        ls_add(ls_square(x), ls_reduce_sum(bias, LS_AXES(0)));
    const ls_nest ys[] = {ls_leaf(ls_reduce_mean(shifted, LS_ALL_AXES))};
    const ls_nest xs[] = {ls_leaf(x), ls_leaf(bias)};
    expect_ok(ls_gradients(ys, 1, xs, 2, NULL, grads));
    LS_OWN(ls_session, session) = session_of(graph);
    for (int64_t rows = 1; rows <= 4; rows += 3) {
      LS_OWN(ls_array, batch) = batch_of(rows);
      LS_OWN(ls_array, biases) = NULL;
      expect_ok(ls_array_create(LS_DTYPE_F64, LS_SHAPE(rows + 1), &biases));
      const ls_feed feeds[] = {{x, batch}, {bias, biases}};
      LS_OWN(ls_nest, fetches) = ls_nest_sequence(LS_KIND_LIST, grads, 2);
      LS_OWN(ls_nest, result) = ls_none();
      expect_ok(ls_session_run(session, fetches, feeds, 2, &result));
      const ls_array *dx = ls_nest_as_array(ls_nest_item(result, 0));
      const ls_array *db = ls_nest_as_array(ls_nest_item(result, 1));
      assert_true(ls_shape_equal(ls_array_shape(dx), LS_SHAPE(rows, 2)));
      for (int64_t i = 0; i < rows * 2; ++i)
        assert_true(ls_array_f64(dx, i) ==
                    2 * (double)(i + 1) * (1 / (double)(rows * 2)));
      assert_true(ls_shape_equal(ls_array_shape(db), LS_SHAPE(rows + 1)));
      for (int64_t i = 0; i < rows + 1; ++i)
        assert_true(ls_array_f64(db, i) == 1);
    }
  }
  expect_ok(ls_graph_error(graph));
}

// ---- Tapes -----------------------------------------------------------------
TEST(a_tape_is_walked_like_a_graph) {
  LS_OWN(ls_array, two) = scalar_array(2);
  LS_OWN(ls_variable, variable) = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "v", .initial_array = two}, &variable));
  expect_ok(ls_frame_begin());
  const ls_tensor x = ls_tensor_from_array(two);
  ls_tape *tape = NULL;
  expect_ok(ls_tape_begin(&tape));
  expect_ok(ls_tape_watch(tape, x));
  const ls_tensor v = ls_variable_read(variable);
  const ls_tensor y = ls_mul(ls_square(x), ls_mul(v, v));
  const ls_nest xs[] = {ls_leaf(x), ls_nest_variable(variable)};
  ls_nest grads[2];
  expect_ok(ls_tape_gradients(tape, ls_leaf(y), xs, 2, grads));
  for (int i = 0; i < 2; ++i) {
    double got = 0;
    expect_ok(ls_tensor_item(ls_nest_tensor(grads[i], 0), &got));
    assert_true(got == 16);
  }
  ls_nest_release(xs[1]);
  expect_ok(ls_tape_end(tape));
  ls_tape_release(tape);
  expect_ok(ls_frame_end(NULL));
}
