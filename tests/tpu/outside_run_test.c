// SPDX-License-Identifier: Apache-2.0
//
// Outside compilation at work: its ops give what they give anywhere, for each
// replica, in the order of data and control alone.
#include <string.h>

#include "lockstep/flow.h"
#include "lockstep/graph_ops.h"
#include "lockstep/host.h"
#include "lockstep/ops.h"
#include "runtime/own.h"
#include "support/callbacks.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/spec.h"

// ---- A function on the host that notes its calls ---------------------------
enum { MOST_CALLS = 64 };
static struct {
  int replica;
  float value;
} calls[MOST_CALLS];
static int num_calls, fail_on;

static ls_status note(ls_host_call *call) {
  if (call->replica == fail_on)
    return LS_STATUS(LS_DATA_LOSS, "the host has lost it");
  const int i = __atomic_fetch_add(&num_calls, 1, __ATOMIC_RELAXED);
  assert_true(i < MOST_CALLS);
  calls[i].replica = call->replica;
  memcpy(&calls[i].value, call->inputs[0], sizeof(float));
  memcpy(call->outputs[0], call->inputs[0], sizeof(float));
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel note_kernel = {
    .name = "note", .infer = infer_like_first, .start = note};

static ls_nest call_note(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = args.as.tensor;
  return ls_leaf(ls_op_output(ls_host_call_add(&note_kernel, NULL, &x, 1), 0));
}

static ls_tensor noted(ls_tensor x) {
  return ls_outside_compilation(call_note, NULL, ls_leaf(x)).as.tensor;
}

static void begin_calls(void) {
  num_calls = 0;
  fail_on = -1;
}

static int calls_of(int replica, float value) {
  int count = 0;
  for (int i = 0; i < num_calls; ++i)
    count += calls[i].replica == replica && calls[i].value == value;
  return count;
}

// ---- Values ----------------------------------------------------------------
typedef struct mixed {
  ls_tensor outer;
  bool outside;
} mixed;

static ls_nest multiply_all(ls_nest args, void *user) {
  const mixed *m = user;
  const ls_tensor x = ls_nest_tensor(args, 0), y = ls_nest_tensor(args, 1);
  return ls_leaf(ls_mul(ls_mul(x, y), m->outer));
}

static ls_tensor maybe_outside(ls_callback fn, void *user, ls_nest args) {
  const ls_nest made = ((const mixed *)user)->outside
                           ? ls_outside_compilation(fn, user, args)
                           : fn(args, user);
  ls_nest_release(args);
  assert_int_equal(made.kind, LS_KIND_TENSOR);
  return made.as.tensor;
}

// In and out: compiled, outside, compiled, outside.
static ls_nest weave(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor a = ls_exp(x);
  const ls_tensor b =
      maybe_outside(multiply_all, user, LS_TUPLE(ls_leaf(a), ls_leaf(x)));
  const ls_tensor c = ls_all_reduce(LS_REDUCE_MEAN, ls_tanh(b));
  const ls_tensor d =
      maybe_outside(multiply_all, user, LS_TUPLE(ls_leaf(c), ls_leaf(b)));
  return LS_LIST(ls_leaf(d), ls_leaf(ls_sub(d, a)));
}

TEST(values_pass_in_and_out_without_a_change) {
  LS_SPEC("O44 O66 O75 O82");
  for (size_t replicas = 1; replicas <= 4; ++replicas) {
    double results[2][4][2];
    for (int outside = 0; outside < 2; ++outside) {
      LS_OWN_BEGUN(computation, c, computation_open);
      mixed m = {f32_of(0.7), outside == 1};
      computation_replicate(&c, replicas, weave, &m);
      for (size_t r = 0; r < replicas; ++r)
        for (size_t i = 0; i < 2; ++i)
          results[outside][r][i] = computation_output(&c, r, i);
    }
    for (size_t r = 0; r < replicas; ++r)
      for (size_t i = 0; i < 2; ++i)
        assert_true(results[0][r][i] == results[1][r][i]);
  }
}

// ---- Calls -----------------------------------------------------------------
static ls_nest note_once(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  *(ls_tensor *)user = noted(x);
  return LS_LIST(ls_leaf(ls_neg(x)), ls_leaf(ls_add(x, x)));
}

TEST(each_replica_calls_once_whatever_is_fetched) {
  LS_SPEC("O68 O70 O71 O74 O117");
  for (size_t replicas = 1; replicas <= 4; ++replicas) {
    ls_tensor unused;
    LS_OWN_BEGUN(computation, c, computation_open);
    computation_replicate(&c, replicas, note_once, &unused);
    begin_calls();
    for (int run = 1; run <= 2; ++run) {
      assert_true(computation_output(&c, replicas - 1, 1) ==
                  2.0 * (double)replicas);
      // They have all ended.
      assert_int_equal(num_calls, run * (int)replicas);
      for (size_t r = 0; r < replicas; ++r)
        assert_int_equal(calls_of((int)r, (float)r + 1), run);
    }
  }
}

TEST(with_one_replica_it_is_fed_and_fetched) {
  LS_SPEC("O17 O18 O67");
  for (size_t replicas = 1; replicas <= 2; ++replicas) {
    ls_tensor made;
    LS_OWN_BEGUN(computation, c, computation_open);
    computation_replicate(&c, replicas, note_once, &made);
    begin_calls();
    LS_OWN(ls_array, value) =
        array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){7});
    const ls_feed feed = {made, value};
    LS_OWN(ls_nest, result) = ls_none();
    LS_OWN(ls_session, session) = session_of(c.graph);
    const ls_status fetched =
        ls_session_run(session, ls_leaf(made), NULL, 0, &result);
    if (replicas == 1) {
      expect_ok(fetched);
      assert_true(ls_nest_number(result) == 1);
      assert_string_equal(ls_op_name(ls_tensor_op(made)), "note");
      LS_OWN(ls_nest, fed) = ls_none();
      expect_ok(ls_session_run(session, ls_leaf(made), &feed, 1, &fed));
      assert_true(ls_nest_number(fed) == 7);
      assert_int_equal(num_calls, 1);
    } else {
      expect_status(fetched, LS_INVALID_ARGUMENT, "marked as not fetchable");
      expect_status(ls_session_run(session,
                                   ls_nest_item(ls_nest_item(c.outputs, 0), 0),
                                   &feed, 1, &result),
                    LS_INVALID_ARGUMENT, "'note:0' may not be fed");
    }
  }
}

// ---- Order -----------------------------------------------------------------
static ls_nest chain_by_control(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor first = noted(ls_add(x, f32_of(10)));
  const ls_op before = ls_tensor_op(first);
  LS_CONTROL_SCOPE(&before, 1);
  const ls_tensor compiled = ls_neg(x);
  const ls_op between = ls_tensor_op(compiled);
  LS_CONTROL_SCOPE(&between, 1);
  noted(ls_add(x, f32_of(20)));
  return LS_LIST(ls_leaf(compiled));
}

TEST(control_edges_order_it) {
  LS_SPEC("O72");
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, 3, chain_by_control, NULL);
  begin_calls();
  expect_ok(computation_run(&c, c.outputs));
  assert_int_equal(num_calls, 6);
  for (int r = 0; r < 3; ++r) {
    int first = -1, second = -1;
    for (int i = 0; i < 6; ++i) {
      if (calls[i].replica != r) continue;
      if (calls[i].value > 20)
        second = i;
      else
        first = i;
    }
    assert_true(first >= 0 && second > first);
  }
}

TEST(who_waits_for_it_waits_for_all_replicas) {
  LS_SPEC("O83 O74");
  ls_tensor made;
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, 3, note_once, &made);
  const ls_op op = ls_tensor_op(made);
  const ls_op after = ls_group(&op, 1, "after");
  begin_calls();
  expect_ok(computation_run(&c, ls_nest_op(after)));
  assert_int_equal(num_calls, 3);
}

// ---- Loops and branches ----------------------------------------------------
static ls_nest below(ls_nest values, void *user) {
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0),
              ls_add(ls_nest_tensor(values, 1), *(const ls_tensor *)user)));
}

static ls_nest note_and_count(ls_nest values, void *user) {
  (void)user;
  const ls_tensor i = ls_nest_tensor(values, 0);
  const ls_tensor next = noted(ls_add(i, f32_of(1)));
  expect_outside(next, "0");
  assert_string_equal(attr_text(ls_tensor_op(next), "_tpu_replicate"),
                      "cluster");
  return LS_LIST(ls_leaf(next), ls_nest_retain(ls_nest_item(values, 1)));
}

// Replica r makes r + 1 trips.
static ls_nest loop_by_replica(ls_nest args, void *user) {
  (void)user;
  ls_tensor none = f32_of(0);
  LS_OWN(ls_nest, made) = ls_while(
      below, note_and_count, &none,
      LS_LIST(ls_leaf(f32_of(0)), ls_nest_retain(ls_nest_item(args, 0))), 0);
  return LS_LIST(ls_nest_retain(ls_nest_item(made, 0)));
}

TEST(in_a_loop_it_runs_each_trip_of_its_replica) {
  LS_SPEC("O43 O78");
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, 3, loop_by_replica, NULL);
  begin_calls();
  expect_ok(computation_run(&c, c.outputs));
  assert_int_equal(num_calls, 1 + 2 + 3);
  for (int r = 0; r < 3; ++r) {
    float last = 0;
    for (int i = 0; i < num_calls; ++i)
      if (calls[i].replica == r) {
        assert_true(calls[i].value == last + 1);  // No trip before the last.
        last = calls[i].value;
      }
    assert_true(last == (float)r + 1);
  }
}

static ls_nest note_it(ls_nest none, void *user) {
  (void)none;
  return ls_leaf(noted(*(const ls_tensor *)user));
}

static ls_nest branch_by_replica(ls_nest args, void *user) {
  (void)user;
  ls_tensor x = ls_nest_tensor(args, 0);
  return LS_LIST(ls_cond(ls_greater(x, f32_of(1.5)), note_it, negate_user, &x));
}

TEST(in_a_branch_it_runs_where_a_replica_goes_that_way) {
  LS_SPEC("O77");
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, 3, branch_by_replica, NULL);
  begin_calls();
  expect_ok(computation_run(&c, c.outputs));
  assert_int_equal(num_calls, 2);
  assert_int_equal(calls_of(1, 2), 1);
  assert_int_equal(calls_of(2, 3), 1);
  assert_true(computation_output(&c, 0, 0) == -1);
}

static ls_nest count_plainly(ls_nest values, void *user) {
  (void)user;
  const ls_tensor next = ls_add(ls_nest_tensor(values, 0), f32_of(1));
  expect_outside(next, "0");
  return LS_LIST(ls_leaf(next), ls_nest_retain(ls_nest_item(values, 1)));
}

static ls_nest loop_inside_outside(ls_nest args, void *user) {
  (void)user;
  ls_tensor two = f32_of(2);
  return ls_while(below, count_plainly, &two, ls_nest_retain(args), 0);
}

static ls_nest call_loop(ls_nest args, void *user) {
  LS_OWN(ls_nest, start) =
      LS_LIST(ls_leaf(f32_of(0)), ls_nest_retain(ls_nest_item(args, 0)));
  LS_OWN(ls_nest, made) =
      ls_outside_compilation(loop_inside_outside, user, start);
  const ls_nest count = LS_LIST(ls_nest_retain(ls_nest_item(made, 0)));
  expect_outside(ls_nest_tensor(made, 0), "0");
  return count;
}

TEST(a_loop_made_outside_is_outside_throughout) {
  LS_SPEC("O43 O29");
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, 2, call_loop, NULL);
  assert_true(computation_output(&c, 0, 0) == 3);
  assert_true(computation_output(&c, 1, 0) == 4);
}

// ---- Failures --------------------------------------------------------------
TEST(a_failure_names_op_and_replica_and_the_next_run_works) {
  LS_SPEC("O88");
  ls_tensor made;
  LS_OWN_BEGUN(computation, c, computation_open);
  computation_replicate(&c, 3, note_once, &made);
  begin_calls();
  fail_on = 1;
  const ls_status status = computation_run(&c, c.outputs);
  assert_non_null(strstr(ls_status_message(status), "note"));
  assert_non_null(strstr(ls_status_message(status), "replica 1"));
  expect_status(status, LS_DATA_LOSS, "the host has lost it");
  begin_calls();
  expect_ok(computation_run(&c, c.outputs));
  assert_int_equal(num_calls, 3);
}
