// SPDX-License-Identifier: Apache-2.0
// Steps on an iterator of mirrored strategies, which call their replicas.
#include <string.h>

#include "base/memory/allocator.h"
#include "lockstep/graph_ops.h"
#include "lockstep/steps.h"
#include "runtime/own.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/inputs.h"
#include "support/replicas.h"

typedef struct job {
  ls_strategy *strategy;
  ls_variable *total;  // Mirrored: of what all replicas were given, so far.
  ls_distributed_iterator *iterator;
  ls_step_context *context;
  int calls;
  bool fails;
} job;

// Each step has one number a replica: 0, 1, 2, ...
static void begin(job *j, int replicas, int64_t steps) {
  *j = (job){.strategy = mirrored_of(replicas)};
  LS_OWN(ls_nest, data) =
      distributed(j->strategy, whole_batches(steps * replicas, replicas), NULL);
  expect_ok(ls_distributed_iterator_create(
      data, &(ls_distributed_iterator_options){.kind = LS_ITERATOR_ONE_SHOT},
      &j->iterator));
}

static void end(job *j) {
  ls_step_context_release(j->context);
  ls_distributed_iterator_release(j->iterator);
  ls_variable_release(j->total);
  ls_strategy_release(j->strategy);
}
LS_OWNED_STRUCT(job, end)

static ls_nest in_replica(ls_nest args, void *user) {
  job *j = user;
  const ls_tensor x =
      ls_reshape(ls_convert(ls_nest_tensor(args, 0), LS_DTYPE_F32), LS_SCALAR);
  const ls_op added = ls_tensor_op(
      ls_variable_assign_add(j->total, ls_all_reduce(LS_REDUCE_SUM, x)));
  const ls_status status =
      ls_step_context_set_output(j->context, "bare", ls_leaf(x), (ls_opt){0});
  expect_status(status, LS_INVALID_ARGUMENT,
                "output 'bare' of a step is set in a replica without");
  expect_ok(ls_step_context_set_output(j->context, "sum", ls_leaf(x),
                                       LS_SOME(LS_REDUCE_SUM)));
  expect_ok(ls_step_context_set_non_tensor_output(j->context, "note",
                                                  ls_nest_i64(42)));
  expect_ok(ls_step_context_set_non_tensor_output(
      j->context, "number", ls_nest_i64(ls_replica_number())));
  LS_CONTROL_SCOPE(&added, 1);
  return ls_leaf(ls_identity(x));
}

static ls_nest step(ls_step_context *context, ls_nest inputs, void *user) {
  job *j = user;
  ++j->calls;
  assert_true(ls_in_cross_replica_context());
  assert_true(ls_strategy_current() == j->strategy);
  ls_step_context_release(j->context);
  j->context = ls_step_context_retain(context);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_retain(inputs));
  ls_nest made = strategy_results(j->strategy, ls_plain(in_replica, j), args);
  expect_ok(ls_step_context_set_output(context, "own", made, (ls_opt){0}));
  expect_ok(ls_step_context_set_output(context, "mean", made,
                                       LS_SOME(LS_REDUCE_MEAN)));
  if (!j->fails) return made;
  ls_nest_release(made);
  return ls_nest_i64(3);
}

// In the order of names: mean, own, sum.
static ls_nest initial_of(int replicas) {
  static const char *const names[] = {"mean", "own", "sum"};
  ls_nest own[8], items[3];
  items[0] = ls_leaf(f32_of(-1));
  for (int r = 0; r < replicas; ++r)
    own[r] = ls_leaf(f32_of(-1));
  items[1] = replicas == 1
                 ? own[0]
                 : ls_nest_distributed(LS_PER_REPLICA, own, (size_t)replicas);
  items[2] = ls_leaf(f32_of(-1));
  return ls_nest_dict("", names, items, 3);
}

static ls_status build(job *j, int replicas, ls_opt iterations) {
  ls_step_context *context = NULL;
  LS_OWN(ls_nest, initial) = initial_of(replicas);
  const ls_status status =
      ls_strategy_run_steps(j->strategy,
                            &(ls_steps){.fn = step,
                                        .user = j,
                                        .iterator = j->iterator,
                                        .iterations = iterations,
                                        .initial = initial},
                            &context);
  if (ls_status_is_ok(status)) {
    assert_ptr_equal(context, j->context);
    ls_step_context_release(context);
  }
  return status;
}

static double total_of(const job *j, computation *c) {
  return computation_fetch(c, ls_variable_read(j->total));
}

// What a run of `steps` steps gives when `done` were made before.
static void expect_outputs(const job *j, computation *c, int replicas,
                           int64_t last) {
  LS_OWN(ls_nest, outputs) = ls_step_context_outputs(j->context);
  assert_int_equal(ls_nest_count(outputs), 3);
  const ls_nest own = ls_nest_find(outputs, "own");
  assert_int_equal(ls_distributed_count(own), replicas == 1 ? 0 : replicas);
  LS_OWN(ls_nest, fetches) = LS_LIST(
      ls_nest_retain(ls_nest_find(outputs, "sum")),
      ls_nest_retain(ls_nest_find(outputs, "mean")),
      replicas == 1
          ? ls_nest_retain(own)
          : ls_nest_retain(ls_distributed_component(own, (size_t)replicas - 1)),
      ls_nest_op(ls_step_context_run_op(j->context)));
  LS_OWN(ls_nest, got) = session_results(c->session, fetches);
  const double first = (double)(last * replicas);
  const double n = replicas;
  assert_true(ls_nest_number(ls_nest_item(got, 0)) ==
              n * first + n * (n - 1) / 2);
  assert_true(ls_nest_number(ls_nest_item(got, 1)) == first + (n - 1) / 2);
  assert_true(ls_nest_number(ls_nest_item(got, 2)) == first + n - 1);
}

TEST(runs_make_steps_and_give_what_the_last_one_has) {
  LS_SPEC("M171");
  for (int replicas = 1; replicas <= 3; ++replicas)
    for (int64_t k = 1; k <= 4; k += 3) {
      job j;
      begin(&j, replicas, 3 * k - 1);
      LS_OWN_BEGUN(computation, c, computation_open);
      j.total = variable_in(
          j.strategy, (variable_kind){.aggregation = LS_AGGREGATION_MEAN});
      expect_ok(build(&j, replicas, LS_SOME(k)));
      assert_int_equal(j.calls, 1);
      size_t loops = 0;
      for (size_t i = 0; i < ls_graph_num_ops(c.graph); ++i)
        loops += strcmp(ls_op_type_name(ls_graph_op(c.graph, i)), "while") == 0;
      assert_int_equal(loops, k > 1);
      expect_ok(ls_session_create(c.graph, &c.session));
      computation_initialize(&c, j.total);
      expect_outputs(&j, &c, replicas, k - 1);
      expect_outputs(&j, &c, replicas, 2 * k - 1);
      const double given = (double)(2 * k * replicas);
      assert_true(total_of(&j, &c) == given * (given - 1) / 2);
      // One step is missing in the last run: those before it stay.
      const ls_nest op = ls_nest_op(ls_step_context_run_op(j.context));
      expect_status(computation_run(&c, op), LS_OUT_OF_RANGE, "");
      const double all = (double)((3 * k - 1) * replicas);
      assert_true(total_of(&j, &c) == all * (all - 1) / 2);
      const ls_nest others = ls_step_context_non_tensor_outputs(j.context);
      const ls_nest note = ls_nest_find(others, "note");
      assert_int_equal(ls_nest_count(note), replicas);
      const ls_nest number = ls_nest_find(others, "number");
      assert_int_equal(ls_nest_count(number), replicas);
      for (int r = 0; r < replicas; ++r) {
        assert_true(ls_nest_number(ls_nest_item(note, (size_t)r)) == 42);
        assert_true(ls_nest_number(ls_nest_item(number, (size_t)r)) == r);
      }
      ls_nest_release(others);
      end(&j);
      j = (job){0};
    }
}

// ---- Traced ----------------------------------------------------------------
typedef struct tracing {
  job *job;
  int replicas;
} tracing;

static ls_nest traced(ls_nest args, void *user) {
  (void)args;
  const tracing *t = user;
  const ls_status status = build(t->job, t->replicas, LS_SOME(3));
  if (!ls_status_is_ok(status)) return ls_fail(status);
  LS_OWN(ls_nest, outputs) = ls_step_context_outputs(t->job->context);
  return ls_nest_retain(ls_nest_find(outputs, "sum"));
}

TEST(functions_have_such_runs) {
  LS_SPEC("M171");
  for (int replicas = 1; replicas <= 3; ++replicas) {
    LS_OWN_BEGUN(job, j, begin, replicas, 6);
    j.total = variable_in(j.strategy,
                          (variable_kind){.aggregation = LS_AGGREGATION_MEAN});
    tracing t = {&j, replicas};
    LS_OWN(ls_function, function) = function_of(traced, &t);
    for (int run = 1; run <= 2; ++run) {
      LS_OWN(ls_nest, sum) = call_results(function, ls_none());
      const double first = (double)((3 * run - 1) * replicas);
      assert_true(number_of(sum) ==
                  replicas * first + replicas * (replicas - 1) / 2.0);
    }
  }
}

// ---- Refused ---------------------------------------------------------------
TEST(what_does_not_fit_is_refused) {
  LS_SPEC("M171");
  LS_OWN_BEGUN(job, j, begin, 2, 4);
  expect_status(build(&j, 2, LS_SOME(2)), LS_FAILED_PRECONDITION,
                "part of a graph");
  LS_OWN_BEGUN(computation, c, computation_open);
  j.total = variable_in(j.strategy,
                        (variable_kind){.aggregation = LS_AGGREGATION_MEAN});
  size_t ops = ls_graph_num_ops(c.graph);
  expect_status(build(&j, 1, LS_SOME(2)), LS_INVALID_ARGUMENT,
                "(f32, f32, f32) and (f32, f32, f32, f32)");
  ops += 3;  // The initial values.
  assert_int_equal(ls_graph_num_ops(c.graph), ops);
  j.fails = true;
  expect_status(build(&j, 2, LS_SOME(1)), LS_INVALID_ARGUMENT,
                "must return an op, a tensor, those of its replicas, or none");
  assert_int_equal(ls_graph_num_ops(c.graph), ops + 4);
}
