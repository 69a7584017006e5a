// SPDX-License-Identifier: Apache-2.0
//
// Gradients of loops as they are used: with variables, in sessions, on
// replicas.
#include "distribute/own.h"
#include "lockstep/function_plan.h"
#include "lockstep/graph_ops.h"
#include "lockstep/session.h"
#include "lockstep/strategy.h"
#include "lockstep/variable.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/recurrence.h"
#include "support/replicas.h"
#include "support/spec.h"

static double item(ls_nest list, size_t index, int64_t element) {
  return ls_array_f64(ls_nest_as_array(ls_nest_item(list, index)), element);
}

static ls_variable *new_variable(const char *name, ls_array *initial) {
  ls_variable *variable = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = name, .initial_array = initial},
      &variable));
  ls_array_release(initial);
  return variable;
}

// ---- Trips ------------------------------------------------------------------
static void expect_equal_lists(ls_nest have, ls_nest want) {
  const size_t count = ls_nest_num_leaves(want);
  assert_int_equal(ls_nest_num_leaves(have), count);
  for (size_t i = 0; i < count; ++i) {
    const ls_array *array = ls_nest_as_array(ls_nest_item(want, i));
    for (int64_t k = 0; k < ls_array_num_elements(array); ++k)
      expect_near(item(have, i, k), ls_array_f64(array, k));
  }
}

TEST(a_loop_has_the_gradient_of_its_trips_one_by_one) {
  LS_SPEC("O194");
  LS_OWN(ls_function, loop) = function_of(gradients_of_recurrence, NULL);
  LS_OWN(ls_nest, have) = ls_none();
  for (int trips = 0; trips < 12; trips += trips < 3 ? 1 : 4) {
    LS_OWN(ls_function, plain) = function_of(gradients_of_recurrence, &trips);
    LS_OWN(ls_nest, args) = recurrence_args(2, trips);
    expect_ok(ls_function_call(loop, args, &have));
    LS_OWN(ls_nest, want) = call_results(plain, args);
    expect_equal_lists(have, want);
  }
  assert_int_equal(ls_function_num_traces(loop), 1);
}

// Gated, and added up in pairs.
static ls_nest gradients_in_order(ls_nest args, void *user) {
  (void)user;
  const recurrence r = {ls_nest_tensor(args, 1), ls_nest_tensor(args, 2),
                        ls_nest_tensor(args, 3)};
  const ls_tensor h = ls_nest_tensor(args, 0);
  const ls_nest ys[] = {ls_leaf(loss_of(recur(h, r)))};
  const ls_nest xs[] = {ls_leaf(h), ls_leaf(r.w), ls_leaf(r.b)};
  ls_nest grads[3];
  const ls_status status = ls_gradients(
      ys, 1, xs, 3,
      &(ls_gradient_options){
          .gate = true, .aggregation = 1, .colocate_with_ops = true},
      grads);
  return ls_status_is_ok(status) ? ls_nest_sequence(LS_KIND_LIST, grads, 3)
                                 : ls_fail(status);
}

TEST(gates_and_other_sums_change_no_gradient_of_a_loop) {
  LS_OWN(ls_function, plain) = function_of(gradients_of_recurrence, NULL);
  LS_OWN(ls_function, gated) = function_of(gradients_in_order, NULL);
  LS_OWN(ls_nest, args) = recurrence_args(2, 5);
  LS_OWN(ls_nest, have) = call_results(gated, args);
  LS_OWN(ls_nest, want) = call_results(plain, args);
  expect_equal_lists(have, want);
}

// ---- Variables -------------------------------------------------------------
typedef struct reading {
  ls_variable *variable;
  bool writes;
} reading;

static ls_nest below_three(ls_nest values, void *user) {
  (void)user;
  const ls_tensor three = ls_scalar_i64(LS_DTYPE_I32, 3);
  return ls_leaf(ls_less(ls_nest_tensor(values, 0), three));
}

// y *= v; then v += 1, if it is written.
static ls_nest times_variable(ls_nest values, void *user) {
  const reading *r = user;
  const ls_tensor one = ls_scalar_i64(LS_DTYPE_I32, 1);
  const ls_tensor i = ls_add(ls_nest_tensor(values, 0), one);
  const ls_tensor v = ls_variable_read(r->variable);
  const ls_tensor y = ls_mul(ls_nest_tensor(values, 1), v);
  if (r->writes)
    ls_variable_assign_add(r->variable, ls_scalar(LS_DTYPE_F64, 1));
  return LS_LIST(ls_leaf(i), ls_leaf(y));
}

static ls_nest use_variable(ls_nest args, void *user) {
  const reading *r = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor zero = ls_scalar_i64(LS_DTYPE_I32, 0);
  LS_OWN(ls_nest, made) = ls_while(below_three, times_variable, user,
                                   LS_LIST(ls_leaf(zero), ls_leaf(x)), 0);
  const ls_tensor hundred = ls_scalar(LS_DTYPE_F64, 100);
  ls_variable_assign_add(r->variable, hundred);
  const ls_nest ys[] = {ls_leaf(ls_nest_tensor(made, 1))};
  const ls_nest xs[] = {ls_leaf(x), ls_nest_variable(r->variable)};
  ls_nest grads[2];
  const ls_status status = ls_gradients(ys, 1, xs, 2, NULL, grads);
  ls_nest_release(xs[1]);
  return ls_status_is_ok(status) ? ls_nest_sequence(LS_KIND_LIST, grads, 2)
                                 : ls_fail(status);
}

TEST(gradients_use_what_a_variable_was_in_each_trip) {
  const struct {
    bool writes;
    double dx, dv;  // Of x = 7, v = 2, and v = 2, 3, 4.
  } rows[] = {{false, 8, 7 * 12}, {true, 24, 7 * (12 + 8 + 6)}};
  for (size_t i = 0; i < 2; ++i) {
    reading r = {new_variable("v", scalar_array(LS_DTYPE_F64, 2)),
                 rows[i].writes};
    LS_OWN(ls_function, f) = function_of(use_variable, &r);
    LS_OWN(ls_nest, args) =
        LS_LIST(ls_nest_array(scalar_array(LS_DTYPE_F64, 7)));
    LS_OWN(ls_nest, result) = call_results(f, args);
    expect_near(item(result, 0, 0), rows[i].dx);
    expect_near(item(result, 1, 0), rows[i].dv);
    ls_variable_release(r.variable);
  }
}

// ---- Small floats ----------------------------------------------------------
typedef struct adding {
  ls_tensor x, table;
  ls_variable *variable;
} adding;

static ls_nest below_700(ls_nest values, void *user) {
  (void)user;
  const ls_tensor most = ls_scalar_i64(LS_DTYPE_I32, 700);
  return ls_leaf(ls_less(ls_nest_tensor(values, 0), most));
}

// y += x + v + row 1 of the table.
static ls_nest add_all(ls_nest values, void *user) {
  const adding *a = user;
  const ls_tensor one = ls_fill(LS_DTYPE_I32, LS_SHAPE(1), 1);
  const ls_tensor y = ls_add(ls_nest_tensor(values, 1), a->x);
  const ls_tensor more = ls_add(y, ls_variable_read(a->variable));
  return LS_LIST(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)),
                 ls_leaf(ls_add(more, ls_gather(a->table, one, 0))));
}

static ls_nest gradients_of_sums(ls_nest args, void *user) {
  adding a = {ls_nest_tensor(args, 0), ls_nest_tensor(args, 1), user};
  const ls_tensor zero = ls_scalar_i64(LS_DTYPE_I32, 0);
  const ls_tensor none = ls_mul_scalar(a.x, 0);
  LS_OWN(ls_nest, made) = ls_while(below_700, add_all, &a,
                                   LS_LIST(ls_leaf(zero), ls_leaf(none)), 0);
  const ls_nest ys[] = {ls_leaf(ls_nest_tensor(made, 1))};
  const ls_nest xs[] = {ls_leaf(a.x), ls_leaf(a.table),
                        ls_nest_variable(a.variable)};
  ls_nest grads[3];
  const ls_status status = ls_gradients(ys, 1, xs, 3, NULL, grads);
  ls_nest_release(xs[2]);
  return ls_status_is_ok(status) ? ls_nest_sequence(LS_KIND_LIST, grads, 3)
                                 : ls_fail(status);
}

TEST(many_small_terms_are_not_lost_in_16_bits) {
  // 700 needs 8 bits; one after another in bf16 ones stop at 256.
  const ls_dtype dtype = LS_DTYPE_BF16;
  LS_OWN(ls_variable, v) = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "v", .dtype = dtype, .shape = LS_SHAPE(1)},
      &v));
  LS_OWN(ls_function, f) = function_of(gradients_of_sums, v);
  LS_OWN(ls_nest, args) = LS_LIST(ls_nest_zeros(dtype, LS_SHAPE(1)),
                                  ls_nest_zeros(dtype, LS_SHAPE(3)));
  LS_OWN(ls_nest, result) = call_results(f, args);
  for (size_t i = 0; i < 3; ++i)
    assert_int_equal(ls_array_dtype(ls_nest_as_array(ls_nest_item(result, i))),
                     dtype);
  assert_true(item(result, 0, 0) == 700);
  assert_true(item(result, 1, 0) == 0 && item(result, 1, 1) == 700);
  assert_true(item(result, 2, 0) == 700);
}

// ---- Sessions --------------------------------------------------------------
static ls_nest run(ls_session *session, const ls_nest *fetches, size_t count,
                   ls_feed feed) {
  LS_OWN(ls_nest, wanted) = ls_nest_sequence(LS_KIND_LIST, fetches, count);
  ls_nest result = ls_none();
  expect_ok(ls_session_run(session, wanted, &feed, 1, &result));
  return result;
}

TEST(batches_of_any_size_go_through_a_session) {
  LS_SPEC("O192");
  LS_OWN(ls_graph, graph) = graph_named("unknown batch");
  {
    LS_GRAPH_SCOPE(graph);
    ls_array *w = steps_array(LS_SHAPE(3, 3), 0.3, -0.07);
    ls_array *b = steps_array(LS_SHAPE(3), -0.1, 0.2);
    const ls_tensor x = ls_placeholder(LS_DTYPE_F64, LS_SHAPE(-1, 3), "x");
    const recurrence r = {ls_constant(w), ls_constant(b),
                          ls_scalar_i64(LS_DTYPE_I32, 5)};
    ls_array_release(w);
    ls_array_release(b);
    const ls_nest xs[] = {ls_leaf(x), ls_leaf(r.w), ls_leaf(r.b)};
    const ls_nest loop[] = {ls_leaf(loss_of(recur(x, r)))};
    const ls_nest plain[] = {ls_leaf(loss_of(unrolled(x, r, 5)))};
    ls_nest have[3], want[3];
    expect_ok(ls_gradients(loop, 1, xs, 3, NULL, have));
    expect_ok(ls_gradients(plain, 1, xs, 3, NULL, want));
    expect_ok(ls_graph_verify(graph));
    LS_OWN(ls_session, session) = session_of(graph);
    for (int64_t rows = 1; rows <= 5; rows += 2) {
      LS_OWN(ls_array, batch) = steps_array(LS_SHAPE(rows, 3), -0.4, 0.11);
      LS_OWN(ls_nest, a) = run(session, have, 3, (ls_feed){x, batch});
      LS_OWN(ls_nest, b3) = run(session, want, 3, (ls_feed){x, batch});
      expect_equal_lists(a, b3);
    }
  }
  expect_ok(ls_graph_error(graph));
}

TEST(each_gradient_of_a_loop_has_stacks_of_its_own) {
  LS_OWN(ls_graph, graph) = graph_named("two gradients");
  {
    LS_GRAPH_SCOPE(graph);
    ls_array *w = steps_array(LS_SHAPE(3, 3), 0.3, -0.07);
    const ls_tensor x = ls_placeholder(LS_DTYPE_F64, LS_SHAPE(-1, 3), "x");
    const recurrence r = {ls_constant(w), ls_scalar(LS_DTYPE_F64, 0.1),
                          ls_scalar_i64(LS_DTYPE_I32, 4)};
    ls_array_release(w);
    const ls_nest ys[] = {ls_leaf(loss_of(recur(x, r)))};
    const ls_nest xs[] = {ls_leaf(x), ls_leaf(r.w)};
    ls_nest grads[4];
    expect_ok(ls_gradients(ys, 1, xs, 2, NULL, grads));
    expect_ok(ls_gradients(ys, 1, xs, 2, NULL, &grads[2]));
    LS_OWN(ls_session, session) = session_of(graph);
    LS_OWN(ls_array, batch) = steps_array(LS_SHAPE(2, 3), -0.4, 0.11);
    LS_OWN(ls_nest, result) = run(session, grads, 4, (ls_feed){x, batch});
    for (int64_t i = 0; i < 6; ++i)
      assert_true(item(result, 0, i) == item(result, 2, i) &&
                  item(result, 0, i) != 0);
    for (int64_t i = 0; i < 9; ++i)
      assert_true(item(result, 1, i) == item(result, 3, i));
  }
}

// ---- Replicas --------------------------------------------------------------
// x of this replica, w of all: gradients of the sum over replicas.
static ls_nest replicated(ls_nest args, void *user) {
  reading *shared = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor w = ls_variable_read(shared->variable);
  const recurrence r = {w, ls_scalar(LS_DTYPE_F64, 0.1),
                        ls_scalar_i64(LS_DTYPE_I32, 4)};
  // A loop that is the same on all replicas: its gradient is not.
  const ls_tensor common = recur(ls_mul_scalar(w, 0.5), r);
  const ls_tensor mixed = ls_matmul(recur(x, r), common);
  const ls_nest ys[] = {ls_leaf(loss_of(mixed))};
  const ls_nest xs[] = {ls_leaf(x), ls_nest_variable(shared->variable)};
  ls_nest grads[2];
  const ls_status status = ls_gradients(ys, 1, xs, 2, NULL, grads);
  ls_nest_release(xs[1]);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_tensor dw =
      ls_all_reduce(LS_REDUCE_SUM, ls_nest_tensor(grads[1], 0));
  return LS_LIST(grads[0], ls_leaf(dw));
}

// What replica r gives, by the unrolled loops on all of x.
static ls_nest whole(ls_nest args, void *user) {
  reading *shared = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor w = ls_variable_read(shared->variable);
  const recurrence r = {w, ls_scalar(LS_DTYPE_F64, 0.1), {0}};
  const ls_tensor common = unrolled(ls_mul_scalar(w, 0.5), r, 4);
  const ls_nest ys[] = {ls_leaf(loss_of(ls_matmul(unrolled(x, r, 4), common)))};
  const ls_nest xs[] = {ls_leaf(x), ls_nest_variable(shared->variable)};
  ls_nest grads[2];
  const ls_status status = ls_gradients(ys, 1, xs, 2, NULL, grads);
  ls_nest_release(xs[1]);
  return ls_status_is_ok(status) ? ls_nest_sequence(LS_KIND_LIST, grads, 2)
                                 : ls_fail(status);
}

static const ls_array *component(ls_nest result, size_t leaf, size_t replica) {
  const ls_nest value = ls_nest_item(result, leaf);
  return ls_nest_as_array(ls_distributed_count(value) != 0
                              ? ls_distributed_component(value, replica)
                              : value);
}

TEST(each_replica_has_stacks_of_its_own) {
  reading shared = {new_variable("w", steps_array(LS_SHAPE(3, 3), 0.3, -0.07)),
                    false};
  LS_OWN(ls_function, step) = function_of(replicated, &shared);
  LS_OWN(ls_function, reference) = function_of(whole, &shared);
  LS_OWN(ls_array, x) = steps_array(LS_SHAPE(6, 3), -0.4, 0.05);
  LS_OWN(ls_nest, plain) = LS_LIST(ls_nest_array(ls_array_retain(x)));
  LS_OWN(ls_nest, want) = call_results(reference, plain);
  for (int replicas = 1; replicas <= 3; ++replicas) {
    LS_OWN(ls_strategy, strategy) = mirrored_of(replicas);
    ls_nest split = ls_none();
    LS_OWN(ls_nest, have) = ls_none();
    expect_ok(ls_strategy_split(strategy, x, &split));
    LS_OWN(ls_nest, args) = LS_TUPLE(split);
    for (int again = 0; again < 2; ++again)
      expect_ok(ls_strategy_run(strategy, ls_traced(step), args, &have));
    const int64_t part = 18 / replicas;
    for (int64_t i = 0; i < 18; ++i)
      expect_near(
          ls_array_f64(component(have, 0, (size_t)(i / part)), i % part),
          item(want, 0, i));
    for (int64_t i = 0; i < 9; ++i)
      expect_near(ls_array_f64(component(have, 1, 0), i), item(want, 1, i));
  }
  ls_variable_release(shared.variable);
}

// h = tanh(h w) + the mean of h over all replicas, `trips` times or unrolled.
static ls_tensor mix(ls_tensor h, ls_tensor w) {
  const ls_tensor mean = ls_all_reduce(LS_REDUCE_MEAN, h);
  return ls_add(ls_tanh(ls_matmul(h, w)), mean);
}

static ls_nest mix_once(ls_nest values, void *user) {
  const recurrence *r = user;
  const ls_tensor one = ls_scalar_i64(LS_DTYPE_I32, 1);
  const ls_tensor i = ls_add(ls_nest_tensor(values, 0), one);
  return LS_LIST(ls_leaf(i), ls_leaf(mix(ls_nest_tensor(values, 1), r->w)));
}

static ls_nest meeting(ls_nest args, void *user) {
  (void)user;
  recurrence r = {ls_nest_tensor(args, 1), {0}, ls_scalar_i64(LS_DTYPE_I32, 3)};
  const ls_tensor x = ls_nest_tensor(args, 0);
  LS_OWN(ls_nest, made) =
      ls_while(is_below, mix_once, &r,
               LS_LIST(ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)), ls_leaf(x)), 0);
  ls_tensor h = x;
  for (int i = 0; i < 3; ++i)
    h = mix(h, r.w);
  const ls_nest loop[] = {ls_leaf(loss_of(ls_nest_tensor(made, 1)))};
  const ls_nest plain[] = {ls_leaf(loss_of(h))};
  const ls_nest xs[] = {ls_leaf(x), ls_leaf(r.w)};
  ls_nest grads[4];
  ls_status status = ls_gradients(loop, 1, xs, 2, NULL, grads);
  if (ls_status_is_ok(status))
    status = ls_gradients(plain, 1, xs, 2, NULL, &grads[2]);
  return ls_status_is_ok(status) ? ls_nest_sequence(LS_KIND_LIST, grads, 4)
                                 : ls_fail(status);
}

TEST(replicas_meet_in_loops_and_in_their_gradients) {
  LS_OWN(ls_function, step) = function_of(meeting, NULL);
  LS_OWN(ls_array, x) = steps_array(LS_SHAPE(6, 3), -0.4, 0.05);
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  ls_nest split = ls_none();
  expect_ok(ls_strategy_split(strategy, x, &split));
  LS_OWN(ls_nest, args) =
      LS_TUPLE(split, ls_nest_array(steps_array(LS_SHAPE(3, 3), 0.3, -0.07)));
  LS_OWN(ls_nest, have) = strategy_results(strategy, ls_traced(step), args);
  for (size_t r = 0; r < 3; ++r) {
    for (int64_t i = 0; i < 6; ++i)
      expect_near(ls_array_f64(component(have, 0, r), i),
                  ls_array_f64(component(have, 2, r), i));
    for (int64_t i = 0; i < 9; ++i)
      expect_near(ls_array_f64(component(have, 1, r), i),
                  ls_array_f64(component(have, 3, r), i));
  }
}
