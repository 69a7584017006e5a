// SPDX-License-Identifier: Apache-2.0
//
// Steps on an iterator: what is built, what comes out, what is refused.
#include <string.h>

#include "lockstep/optimizers.h"
#include "lockstep/replicate.h"
#include "lockstep/steps.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/training_loop.h"
#include "runtime/own.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/inputs.h"
#include "support/placed.h"
#include "support/replicas.h"
#include "support/tpu_strategies.h"
#include "tpu/strategy/strategy.h"

// ---- A test's steps --------------------------------------------------------
typedef struct job {
  ls_strategy *strategy;
  ls_variable *counter;  // Steps done. NULL: not counted.
  ls_variable *total;    // Of all that replica 0 was given.
  ls_distributed_iterator *iterator;
  ls_step_context *context;
  ls_optimizer *optimizer;
  ls_step_context *building;
  int calls, leaves;
} job;

// Each step has one number a replica.
static void begin(job *j, int replicas, int64_t steps_per_run, int64_t count) {
  *j = (job){.strategy = tpu_strategy_of(replicas)};
  ls_tpu_strategy_of(j->strategy)->steps_per_run = steps_per_run;
  LS_OWN(ls_nest, data) =
      distributed(j->strategy, whole_batches(count * replicas, replicas), NULL);
  expect_ok(ls_distributed_iterator_create(
      data, &(ls_distributed_iterator_options){.kind = LS_ITERATOR_ONE_SHOT},
      &j->iterator));
}

static ls_variable *number_variable(const char *name) {
  ls_variable *variable = NULL;
  LS_OWN(ls_array, zero) =
      array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){0});
  expect_ok(ls_variable_create(&(ls_variable_options){.name = name,
                                                      .initial_array = zero,
                                                      .trainable = LS_FLAG_OFF},
                               &variable));
  return variable;
}

static void end(job *j) {
  ls_step_context_release(j->context);
  ls_distributed_iterator_release(j->iterator);
  ls_variable_release(j->counter);
  ls_variable_release(j->total);
  ls_strategy_release(j->strategy);
}
LS_OWNED_STRUCT(job, end)

static ls_tensor number_of_input(ls_nest inputs) {
  return ls_reshape(ls_convert(ls_nest_tensor(inputs, 0), LS_DTYPE_F32),
                    LS_SCALAR);
}

static ls_op count_step(const job *j) {
  const ls_tensor next = ls_variable_assign_add(j->counter, f32_of(1));
  return ls_tensor_op(next);
}

// Two outputs, in another order than their names have.
static ls_nest step(ls_step_context *context, ls_nest inputs, void *user) {
  job *j = user;
  ++j->calls;
  assert_true(ls_strategy_current() == j->strategy);
  assert_true(ls_in_cross_replica_context());
  const ls_tensor x = number_of_input(inputs);
  expect_ok(
      ls_step_context_set_output(context, "own", ls_leaf(x), (ls_opt){0}));
  expect_ok(ls_step_context_set_output(context, "less", ls_leaf(ls_neg(x)),
                                       (ls_opt){0}));
  expect_ok(
      ls_step_context_set_non_tensor_output(context, "note", ls_nest_i64(42)));
  return ls_nest_op(count_step(j));
}

static ls_status build(job *j, ls_step_function fn, ls_opt iterations,
                       ls_nest initial) {
  ls_step_context_release(j->context);
  return ls_strategy_run_steps(j->strategy,
                               &(ls_steps){.fn = fn,
                                           .user = j,
                                           .iterator = j->iterator,
                                           .iterations = iterations,
                                           .initial = initial},
                               &j->context);
}

static ls_nest zeros(size_t count) {
  ls_nest items[8];
  for (size_t i = 0; i < count; ++i)
    items[i] = ls_leaf(f32_of(-(double)i - 1));
  return ls_nest_sequence(LS_KIND_LIST, items, count);
}

// What is fetched: the run's op and, of each output, all parts.
static ls_nest all_of(const job *j) {
  ls_nest items[33] = {ls_nest_op(ls_step_context_run_op(j->context))};
  size_t count = 1;
  LS_OWN(ls_nest, outputs) = ls_step_context_outputs(j->context);
  for (size_t i = 0; i < ls_nest_count(outputs); ++i) {
    const ls_nest output = ls_nest_item(outputs, i);
    const size_t parts = ls_distributed_count(output);
    for (size_t r = 0; r < parts; ++r)
      items[count++] = ls_nest_retain(ls_distributed_component(output, r));
    if (parts == 0) items[count++] = ls_nest_retain(output);
  }
  return ls_nest_sequence(LS_KIND_LIST, items, count);
}

// All but the first; `fetches` is taken over.
static ls_status fetch(computation *c, ls_nest fetches, double *numbers) {
  if (c->session == NULL) expect_ok(ls_session_create(c->graph, &c->session));
  LS_OWN(ls_nest, results) = ls_none();
  const ls_status status =
      ls_session_run(c->session, fetches, NULL, 0, &results);
  ls_nest_release(fetches);
  for (size_t i = 1; i < ls_nest_count(results) && numbers != NULL; ++i)
    numbers[i - 1] = ls_nest_number(ls_nest_item(results, i));
  return status;
}

static ls_status run(computation *c, const job *j, double *numbers) {
  return fetch(c, all_of(j), numbers);
}

// ---- What is run -----------------------------------------------------------
TEST(a_run_makes_its_steps_on_the_next_elements) {
  LS_SPEC("T157 T158 T159 T163 T164 T4");
  for (int replicas = 1; replicas <= 4; replicas *= 2)
    for (int per_run = 0; per_run <= 2; ++per_run)
      for (int iterations = 1; iterations <= 3; ++iterations) {
        const int steps = per_run == 2 ? iterations : 1;
        double got[8];
        LS_OWN_BEGUN(job, j, begin, replicas, per_run, 3 * steps);
        LS_OWN_BEGUN(computation, c, computation_open);
        j.counter = number_variable("counter");
        const ls_nest initial = zeros(2);
        expect_ok(build(&j, step, LS_SOME(iterations), initial));
        ls_nest_release(initial);
        computation_initialize(&c, j.counter);
        assert_int_equal(j.calls, 1);
        LS_OWN(ls_nest, outputs) = ls_step_context_outputs(j.context);
        assert_int_equal(outputs.kind, LS_KIND_DICT);
        assert_int_equal(ls_nest_count(outputs), 2);
        assert_int_equal(ls_distributed_count(ls_nest_find(outputs, "own")),
                         replicas);
        // Each run goes on behind the one before.
        for (int k = 1; k <= 3; ++k) {
          expect_ok(run(&c, &j, got));
          for (int r = 0; r < replicas; ++r) {
            const double want = (k * steps - 1) * replicas + r;
            assert_true(got[r] == -want);
            assert_true(got[replicas + r] == want);
          }
          assert_true(computation_fetch(&c, ls_variable_read(j.counter)) ==
                      k * steps);
        }
        // The end of the data is the run's.
        expect_status(run(&c, &j, NULL), LS_OUT_OF_RANGE, "at the end");
      }
}

TEST(steps_before_the_end_of_the_data_stay) {
  LS_SPEC("T166");
  LS_OWN_BEGUN(job, j, begin, 2, 100, 5);
  LS_OWN_BEGUN(computation, c, computation_open);
  j.counter = number_variable("counter");
  const ls_nest initial = zeros(2);
  expect_ok(build(&j, step, LS_SOME(4), initial));
  ls_nest_release(initial);
  computation_initialize(&c, j.counter);
  expect_ok(run(&c, &j, NULL));
  expect_status(run(&c, &j, NULL), LS_OUT_OF_RANGE, "at the end");
  assert_true(computation_fetch(&c, ls_variable_read(j.counter)) == 5);
}

TEST(steps_that_a_run_does_not_make_are_warned_of) {
  LS_SPEC("T158");
  LS_OWN_BEGUN(logged_runtime, log, logged_runtime_begin);
  const char *warning = "a run makes one step and not 3";
  for (int per_run = 1; per_run <= 2; ++per_run) {
    LS_OWN_BEGUN(job, j, begin, 2, per_run, 4);
    LS_OWN_BEGUN(computation, c, computation_open);
    j.counter = number_variable("counter");
    LS_OWN(ls_nest, initial) = zeros(2);
    expect_ok(build(&j, step, LS_SOME(1), initial));
    assert_int_equal(count_logged(&log, warning), per_run - 1);
    expect_ok(build(&j, step, LS_SOME(3), initial));
    assert_int_equal(count_logged(&log, warning), 1);
  }
}

TEST(everything_stands_on_the_host) {
  LS_SPEC("T158 T159");
  for (int per_run = 1; per_run <= 2; ++per_run) {
    LS_OWN_BEGUN(job, j, begin, 2, per_run, 4);
    LS_OWN_BEGUN(computation, c, computation_open);
    j.counter = number_variable("counter");
    const ls_nest initial = zeros(2);
    expect_ok(build(&j, step, LS_SOME(2), initial));
    ls_nest_release(initial);
    ls_device_name host;
    expect_ok(ls_tpu_strategy_host(j.strategy, &host));
    const ls_op op = ls_step_context_run_op(j.context);
    assert_string_equal(ls_op_device(op), host.text);
    assert_false(ls_op_is_replicated(op));
    // The computation is on the strategy's cores; sizes are as they are.
    const ls_attr *attr = NULL;
    static const int64_t cores[] = {0, 0, 0, 0, 1, 0, 0, 0};
    if (per_run == 1) {
      const ls_op metadata = op_named(c.graph, "tpu_replicate_metadata");
      expect_ok(ls_op_attr(metadata, "device_assignment", &attr));
      assert_int_equal(attr->as.ints.count, 8);
      assert_memory_equal(attr->as.ints.items, cores, sizeof(cores));
    }
  }
}

// In a traced function, which gives the outputs.
static ls_nest traced_steps(ls_nest args, void *user) {
  job *j = user;
  (void)args;
  LS_OWN(ls_nest, initial) = zeros(2);
  const ls_status status = build(j, step, LS_SOME(3), initial);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  LS_OWN(ls_nest, outputs) = ls_step_context_outputs(j->context);
  const ls_nest own = ls_nest_find(outputs, "own");
  return LS_LIST(ls_nest_retain(ls_distributed_component(own, 0)),
                 ls_nest_retain(ls_distributed_component(own, 1)));
}

TEST(a_traced_function_can_hold_steps) {
  LS_SPEC("T157 T158 T164");
  LS_OWN_BEGUN(job, j, begin, 2, 3, 6);
  j.counter = number_variable("counter");
  LS_OWN(ls_function, f) = function_of(traced_steps, &j);
  LS_OWN(ls_nest, results) = ls_none();
  for (int k = 1; k <= 2; ++k) {
    expect_ok(ls_function_call(f, ls_none(), &results));
    assert_true(ls_nest_number(ls_nest_item(results, 0)) == 6 * k - 2);
    assert_true(ls_nest_number(ls_nest_item(results, 1)) == 6 * k - 1);
  }
  assert_int_equal(j.calls, 1);
}

// ---- Outputs ---------------------------------------------------------------
static ls_nest no_outputs(ls_step_context *context, ls_nest inputs,
                          void *user) {
  const job *j = user;
  (void)context;
  return LS_KIND_NONE == inputs.kind ? ls_none() : ls_nest_op(count_step(j));
}

TEST(steps_without_outputs_are_an_op) {
  LS_SPEC("T160 T163 T164 T170");
  for (int per_run = 1; per_run <= 2; ++per_run) {
    LS_OWN_BEGUN(job, j, begin, 2, per_run, 4);
    LS_OWN_BEGUN(computation, c, computation_open);
    j.counter = number_variable("counter");
    expect_ok(build(&j, no_outputs, LS_SOME(2), ls_none()));
    computation_initialize(&c, j.counter);
    LS_OWN(ls_nest, outputs) = ls_step_context_outputs(j.context);
    assert_int_equal(outputs.kind, LS_KIND_DICT);
    assert_int_equal(ls_nest_count(outputs), 0);
    expect_ok(run(&c, &j, NULL));
    assert_true(computation_fetch(&c, ls_variable_read(j.counter)) == per_run);
  }
}

static ls_nest an_op_before_a_tensor(ls_nest args, void *user) {
  (void)user;
  const ls_tensor next = ls_add_scalar(ls_nest_tensor(args, 0), 1);
  return LS_LIST(ls_nest_op(ls_tensor_op(next)), ls_leaf(next));
}

TEST(a_loop_of_steps_gives_tensors_and_then_ops) {
  LS_SPEC("T170");
  LS_OWN_BEGUN(computation, c, computation_open);
  LS_OWN(ls_nest, initial) = LS_LIST(ls_leaf(f32_of(0)));
  expect_status(
      ls_training_repeat(2, &(ls_training_loop){.body = an_op_before_a_tensor},
                         initial, &c.outputs),
      LS_INVALID_ARGUMENT, "followed by zero or more Operations");
}

TEST(without_a_trip_outputs_are_the_initial_values) {
  LS_SPEC("T161 T170");
  double got[6];
  LS_OWN_BEGUN(job, j, begin, 3, 10, 1);
  LS_OWN_BEGUN(computation, c, computation_open);
  j.counter = number_variable("counter");
  const ls_nest initial = zeros(2);
  expect_ok(build(&j, step, LS_SOME(0), initial));
  ls_nest_release(initial);
  computation_initialize(&c, j.counter);
  expect_ok(run(&c, &j, got));
  for (int r = 0; r < 3; ++r) {
    assert_true(got[r] == -1);
    assert_true(got[3 + r] == -2);
  }
  assert_true(computation_fetch(&c, ls_variable_read(j.counter)) == 0);
}

TEST(initial_values_are_like_the_outputs) {
  LS_SPEC("T161");
  LS_OWN_BEGUN(job, j, begin, 2, 10, 1);
  LS_OWN_BEGUN(computation, c, computation_open);
  j.counter = number_variable("counter");
  // Too few, none, and others.
  LS_OWN(ls_nest, one) = zeros(1);
  expect_status(build(&j, step, LS_SOME(2), one), LS_INVALID_ARGUMENT,
                "(f32, f32) and (f32, f32, f32, f32)");
  assert_null(j.context);
  expect_status(build(&j, step, LS_SOME(2), ls_none()), LS_INVALID_ARGUMENT,
                "() and (f32, f32, f32, f32)");
  LS_OWN(ls_nest, other) =
      LS_LIST(ls_leaf(f32_of(0)), ls_leaf(ls_scalar(LS_DTYPE_I32, 0)));
  expect_status(build(&j, step, LS_SOME(2), other), LS_INVALID_ARGUMENT,
                "(f32, i32, f32, i32) and (f32, f32, f32, f32)");
  // Without a loop nobody looks at them.
  ls_tpu_strategy_of(j.strategy)->steps_per_run = 1;
  expect_ok(build(&j, step, LS_SOME(2), other));
}

// ---- Steps that train ------------------------------------------------------
static ls_nest train_replica(ls_nest args, void *user) {
  job *j = user;
  const ls_tensor x = number_of_input(ls_nest_item(args, 0));
  const ls_tensor loss = ls_mul(ls_variable_read(j->total), x);
  const ls_op trained = ls_optimizer_minimize(j->optimizer, loss);
  const ls_status status = ls_step_context_set_output(
      j->building, "loss", ls_leaf(loss), LS_SOME(LS_REDUCE_MEAN));
  return ls_status_is_ok(status) ? ls_nest_op(trained) : ls_fail(status);
}

static ls_nest train_replicas(ls_step_context *context, ls_nest inputs,
                              void *user) {
  job *j = user;
  ls_nest made = ls_none();
  j->building = context;
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_retain(inputs));
  const ls_status status = ls_strategy_call_for_each_replica(
      j->strategy, train_replica, args, j, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

// As in the header.
TEST(a_step_trains_by_a_call_for_each_replica) {
  for (int per_run = 1; per_run <= 2; ++per_run) {
    LS_OWN_BEGUN(job, j, begin, 2, per_run, 4);
    LS_OWN_BEGUN(computation, c, computation_open);
    {
      LS_STRATEGY_SCOPE(j.strategy);
      LS_OWN(ls_array, one) =
          array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){1});
      expect_ok(ls_variable_create(
          &(ls_variable_options){.name = "w", .initial_array = one}, &j.total));
    }
    expect_ok(
        ls_sgd_create(&(ls_sgd_options){.learning_rate = 1}, &j.optimizer));
    LS_OWN(ls_nest, initial) = zeros(1);
    expect_ok(build(&j, train_replicas, LS_SOME(2), initial));
    computation_initialize(&c, j.total);
    // Gradients are 0.5 and 2.5, the means of each step's numbers.
    double loss = 0;
    expect_ok(run(&c, &j, &loss));
    assert_true(loss == (per_run == 1 ? 0.5 : 1.25));
    assert_true(computation_fetch(&c, ls_variable_read(j.total)) ==
                (per_run == 1 ? 0.5 : -2));
    ls_optimizer_release(j.optimizer);
  }
}

// ---- What a step returns ---------------------------------------------------
static ls_nest sets_and_returns_a_tensor(ls_step_context *context,
                                         ls_nest inputs, void *user) {
  (void)user;
  const ls_tensor x = number_of_input(inputs);
  LS_OWN(ls_nest, pair) = LS_TUPLE(ls_leaf(x), ls_leaf(ls_add_scalar(x, 1)));
  expect_ok(ls_step_context_set_output(context, "x", pair, (ls_opt){0}));
  return ls_leaf(ls_neg(x));
}

static ls_nest sets_and_returns_none(ls_step_context *context, ls_nest inputs,
                                     void *user) {
  ls_nest_release(sets_and_returns_a_tensor(context, inputs, user));
  return ls_none();
}

static ls_nest sets_and_returns_a_list(ls_step_context *context, ls_nest inputs,
                                       void *user) {
  return LS_LIST(sets_and_returns_a_tensor(context, inputs, user));
}

static ls_nest returns_a_tensor(ls_step_context *context, ls_nest inputs,
                                void *user) {
  (void)context, (void)user;
  return ls_leaf(number_of_input(inputs));
}

static ls_nest fails(ls_step_context *context, ls_nest inputs, void *user) {
  (void)context, (void)inputs, (void)user;
  return LS_FAIL(LS_DATA_LOSS, "as the step says");
}

TEST(a_step_returns_an_op_a_tensor_or_none) {
  LS_SPEC("T160");
  double got[4];
  LS_OWN_BEGUN(job, j, begin, 2, 1, 2);
  LS_OWN_BEGUN(computation, c, computation_open);
  expect_status(build(&j, sets_and_returns_none, (ls_opt){0}, ls_none()),
                LS_INVALID_ARGUMENT, "must return an op or a tensor");
  expect_status(build(&j, sets_and_returns_a_list, (ls_opt){0}, ls_none()),
                LS_INVALID_ARGUMENT, "must return an op or a tensor");
  expect_status(build(&j, returns_a_tensor, (ls_opt){0}, ls_none()),
                LS_INVALID_ARGUMENT, "must return an op or none");
  expect_status(build(&j, fails, (ls_opt){0}, ls_none()), LS_DATA_LOSS,
                "as the step says");
  // A nest is one output; its leaves have replicas of their own.
  expect_ok(build(&j, sets_and_returns_a_tensor, (ls_opt){0}, ls_none()));
  LS_OWN(ls_nest, outputs) = ls_step_context_outputs(j.context);
  const ls_nest pair = ls_nest_find(outputs, "x");
  ls_nest parts[5] = {ls_nest_op(ls_step_context_run_op(j.context))};
  assert_int_equal(pair.kind, LS_KIND_TUPLE);
  for (size_t i = 0; i < 4; ++i)
    parts[1 + i] = ls_nest_retain(
        ls_distributed_component(ls_nest_item(pair, i / 2), i % 2));
  expect_ok(fetch(&c, ls_nest_sequence(LS_KIND_LIST, parts, 5), got));
  for (int i = 0; i < 4; ++i)
    assert_true(got[i] == i / 2 + i % 2);
}

// The outputs wait for the result: a fetched output has run the step.
TEST(outputs_wait_for_the_result) {
  LS_SPEC("T160");
  LS_OWN_BEGUN(job, j, begin, 2, 1, 4);
  LS_OWN_BEGUN(computation, c, computation_open);
  j.counter = number_variable("counter");
  expect_ok(build(&j, step, (ls_opt){0}, ls_none()));
  computation_initialize(&c, j.counter);
  LS_OWN(ls_nest, outputs) = ls_step_context_outputs(j.context);
  const ls_tensor own =
      ls_distributed_component(ls_nest_find(outputs, "own"), 1).as.tensor;
  assert_true(computation_fetch(&c, own) == 1);
  assert_true(computation_fetch(&c, ls_variable_read(j.counter)) == 1);
}

// ---- The context -----------------------------------------------------------
static ls_nest equal_on_all(ls_step_context *context, ls_nest inputs,
                            void *user) {
  (void)user;
  const ls_opt mean = LS_SOME(LS_REDUCE_MEAN);
  const ls_tensor x = number_of_input(inputs);
  expect_status(ls_step_context_set_output(context, "m", ls_leaf(x),
                                           LS_SOME(LS_REDUCE_MAX)),
                LS_INVALID_ARGUMENT, "'m'");
  // The last one of a name stays, and its reduction.
  expect_ok(ls_step_context_set_output(context, "a", ls_leaf(x), (ls_opt){0}));
  expect_ok(ls_step_context_set_output(context, "a", ls_leaf(f32_of(3)), mean));
  expect_ok(ls_step_context_set_output(context, "b", ls_leaf(f32_of(4)), mean));
  expect_ok(ls_step_context_set_output(context, "b", ls_leaf(x), (ls_opt){0}));
  return ls_leaf(x);
}

static ls_nest replaced_at_once(ls_step_context *context, ls_nest inputs,
                                void *user) {
  (void)user;
  const ls_tensor x = number_of_input(inputs);
  expect_ok(ls_step_context_set_output(context, "a", ls_leaf(x),
                                       LS_SOME(LS_REDUCE_MEAN)));
  const ls_nest own = ls_leaf(x);
  LS_OWN(ls_nest, dict) = ls_nest_dict("", (const char *const[]){"a"}, &own, 1);
  expect_ok(ls_step_context_set_outputs(context, dict));
  return ls_leaf(x);
}

TEST(outputs_set_at_once_are_not_reduced) {
  LS_SPEC("T165");
  double got[2];
  LS_OWN_BEGUN(job, j, begin, 2, 1, 2);
  LS_OWN_BEGUN(computation, c, computation_open);
  expect_ok(build(&j, replaced_at_once, (ls_opt){0}, ls_none()));
  LS_OWN(ls_nest, outputs) = ls_step_context_outputs(j.context);
  assert_int_equal(ls_distributed_count(ls_nest_find(outputs, "a")), 2);
  expect_ok(run(&c, &j, got));
  assert_true(got[0] == 0 && got[1] == 1);
}

TEST(what_was_reduced_is_one_tensor) {
  LS_SPEC("T165 T167");
  LS_OWN_BEGUN(job, j, begin, 2, 1, 2);
  LS_OWN_BEGUN(computation, c, computation_open);
  expect_ok(build(&j, equal_on_all, (ls_opt){0}, ls_none()));
  LS_OWN(ls_nest, outputs) = ls_step_context_outputs(j.context);
  assert_int_equal(ls_nest_count(outputs), 2);
  const ls_nest a = ls_nest_find(outputs, "a"), b = ls_nest_find(outputs, "b");
  assert_int_equal(a.kind, LS_KIND_TENSOR);
  assert_true(computation_fetch(&c, a.as.tensor) == 3);
  assert_int_equal(b.kind, LS_KIND_DISTRIBUTED);
  assert_int_equal(ls_distributed_kind_of(b), LS_PER_REPLICA);
}

// In a replica, and between replicas: values of all, put together once.
static ls_nest in_replica(ls_nest args, void *user) {
  ls_step_context *context = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  assert_false(ls_in_cross_replica_context());
  expect_status(
      ls_step_context_set_output(context, "s", ls_leaf(x), (ls_opt){0}),
      LS_INVALID_ARGUMENT, "'s' of a step is set in a replica");
  expect_ok(ls_step_context_set_output(context, "s", ls_leaf(x),
                                       LS_SOME(LS_REDUCE_SUM)));
  expect_ok(
      ls_step_context_set_non_tensor_output(context, "note", ls_nest_i64(7)));
  return ls_leaf(x);
}

static ls_nest reduced_step(ls_step_context *context, ls_nest inputs,
                            void *user) {
  const job *j = user;
  const ls_tensor x = number_of_input(inputs);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_leaf(x));
  ls_nest made = ls_none();
  expect_ok(ls_strategy_call_for_each_replica(j->strategy, in_replica, args,
                                              context, &made));
  expect_ok(ls_step_context_set_output(context, "m", ls_leaf(x),
                                       LS_SOME(LS_REDUCE_MEAN)));
  return made;
}

TEST(replicas_put_their_outputs_together) {
  LS_SPEC("T165 T167 T168 T169");
  for (int per_run = 1; per_run <= 2; ++per_run) {
    double got[2];
    LS_OWN_BEGUN(job, j, begin, 4, per_run, 6);
    LS_OWN_BEGUN(computation, c, computation_open);
    const ls_nest initial = zeros(2);
    expect_ok(build(&j, reduced_step, LS_SOME(2), initial));
    ls_nest_release(initial);
    LS_OWN(ls_nest, others) = ls_step_context_non_tensor_outputs(j.context);
    const ls_nest note = ls_nest_find(others, "note");
    assert_int_equal(note.kind, LS_KIND_TUPLE);
    assert_int_equal(ls_nest_count(note), 1);
    assert_true(ls_nest_number(ls_nest_item(note, 0)) == 7);
    LS_OWN(ls_nest, outputs) = ls_step_context_outputs(j.context);
    assert_int_equal(ls_nest_find(outputs, "s").kind, LS_KIND_TENSOR);
    assert_int_equal(ls_nest_find(outputs, "m").kind, LS_KIND_TENSOR);
    for (int k = 1; k <= 3; ++k) {
      // By name: the mean, then the sum.
      const double first = 4.0 * (k * per_run - 1);
      expect_ok(run(&c, &j, got));
      assert_true(got[0] == first + 1.5);
      assert_true(got[1] == 4 * first + 6);
    }
  }
}

TEST(others_stay_as_they_were_given) {
  LS_SPEC("T169");
  LS_OWN_BEGUN(job, j, begin, 2, 1, 2);
  LS_OWN_BEGUN(computation, c, computation_open);
  j.counter = number_variable("counter");
  expect_ok(build(&j, step, (ls_opt){0}, ls_none()));
  LS_OWN(ls_nest, others) = ls_step_context_non_tensor_outputs(j.context);
  assert_int_equal(ls_nest_count(others), 1);
  assert_true(ls_nest_number(ls_nest_find(others, "note")) == 42);
  // All at once: a dict.
  const ls_nest list = LS_LIST(ls_nest_i64(1));
  expect_status(ls_step_context_set_outputs(j.context, list),
                LS_INVALID_ARGUMENT, "are a dict");
  ls_nest_release(list);
  LS_OWN(ls_nest, dict) = ls_nest_dict("", (const char *const[]){"k"},
                                       (const ls_nest[]){ls_nest_i64(7)}, 1);
  expect_ok(ls_step_context_set_outputs(j.context, dict));
  ls_nest_release(dict);
  dict = ls_step_context_outputs(j.context);
  assert_true(ls_nest_number(ls_nest_find(dict, "k")) == 7);
}

// ---- Where they are --------------------------------------------------------
static ls_nest look_around(ls_step_context *context, ls_nest inputs,
                           void *user) {
  const job *j = user;
  (void)context, (void)inputs;
  const ls_steps_place place = ls_strategy_steps_place(j->strategy);
  assert_non_null(place.graph);
  assert_string_equal(place.computation, "cluster");
  // The loop's body is another graph.
  const bool is_loop = ls_tpu_strategy_of(j->strategy)->steps_per_run > 1;
  assert_int_equal(place.graph != ls_graph_current(), is_loop);
  return ls_none();
}

TEST(a_step_sees_where_it_is_built) {
  LS_SPEC("T162");
  for (int per_run = 1; per_run <= 2; ++per_run) {
    LS_OWN_BEGUN(job, j, begin, 2, per_run, 2);
    LS_OWN_BEGUN(computation, c, computation_open);
    expect_ok(build(&j, look_around, (ls_opt){0}, ls_none()));
    assert_null(ls_strategy_steps_place(j.strategy).graph);
    assert_null(ls_strategy_steps_place(j.strategy).computation);
    expect_status(build(&j, fails, (ls_opt){0}, ls_none()), LS_DATA_LOSS, "");
    assert_null(ls_strategy_steps_place(j.strategy).graph);
  }
}

static ls_nest steps_in_a_replica(ls_nest args, void *user) {
  job *j = user;
  (void)args;
  expect_status(build(j, step, (ls_opt){0}, ls_none()), LS_FAILED_PRECONDITION,
                "ls_strategy_run_steps");
  return ls_none();
}

TEST(steps_are_refused_elsewhere) {
  LS_SPEC("T157");
  LS_OWN_BEGUN(job, j, begin, 2, 1, 2);
  // In eager, before anything is read.
  expect_status(build(&j, step, (ls_opt){0}, ls_none()), LS_FAILED_PRECONDITION,
                "part of a graph");
  assert_int_equal(ls_distributed_iterator_position(j.iterator), 0);
  ls_step_context *context = NULL;
  ls_strategy *alone = ls_strategy_current();
  LS_OWN_BEGUN(computation, c, computation_open);
  expect_status(
      ls_strategy_run_steps(
          alone, &(ls_steps){.fn = step, .iterator = j.iterator}, &context),
      LS_UNIMPLEMENTED, "TPU strategies and mirrored ones alone");
  assert_null(context);
  LS_OWN(ls_nest, results) =
      strategy_results(j.strategy, ls_plain(steps_in_a_replica, &j), ls_none());
}

// ---- A run on the next element ---------------------------------------------
static ls_nest twice(ls_nest args, void *user) {
  (void)user;
  assert_int_equal(ls_nest_count(args), 1);
  return ls_leaf(ls_add(ls_nest_tensor(args, 0), ls_nest_tensor(args, 0)));
}

static ls_nest seven(ls_nest args, void *user) {
  (void)user;
  assert_int_equal(ls_nest_count(args), 0);
  return ls_leaf(f32_of(7));
}

TEST(a_run_can_take_the_next_element) {
  LS_SPEC("T171");
  job j;
  ls_nest results = ls_none();
  begin(&j, 2, 1, 2);
  ls_function *f = function_of(twice, NULL), *g = function_of(seven, NULL);
  for (int k = 0; k < 2; ++k) {
    expect_ok(
        ls_strategy_run_next(j.strategy, ls_traced(f), j.iterator, &results));
    for (size_t r = 0; r < 2; ++r)
      assert_true(ls_nest_number(ls_distributed_component(results, r)) ==
                  2 * (2 * k + (int)r));
  }
  expect_status(
      ls_strategy_run_next(j.strategy, ls_traced(f), j.iterator, &results),
      LS_OUT_OF_RANGE, "at the end");
  ls_nest_release(results);
  results = ls_none();
  expect_ok(ls_strategy_run_next(j.strategy, ls_traced(g), NULL, &results));
  assert_true(ls_nest_number(ls_distributed_component(results, 1)) == 7);
  ls_nest_release(results);
  ls_function_release(f);
  ls_function_release(g);
  end(&j);
  // In a graph: an op that reads.
  computation c;
  begin(&j, 2, 1, 2);
  computation_open(&c);
  expect_ok(ls_strategy_run_next(j.strategy, ls_plain(twice, NULL), j.iterator,
                                 &c.outputs));
  for (int k = 0; k < 2; ++k)
    assert_true(computation_fetch(
                    &c, ls_distributed_component(c.outputs, 1).as.tensor) ==
                2 * (2 * k + 1));
  computation_close(&c);
  end(&j);
}
