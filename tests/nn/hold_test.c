// SPDX-License-Identifier: Apache-2.0
//
// Steps that several calls make together: what they agree with, and what is
// there in between.
#include <math.h>
#include <string.h>

#include "lockstep/optimizer_state.h"
#include "lockstep/optimizers.h"
#include "lockstep/session.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable_parts.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

enum { WIDTH = 6, UNITS = 5, ROWS = 96, WEIGHTS = WIDTH * UNITS };

typedef enum way { TRACED, OP_BY_OP, SESSION } way;

typedef struct job {
  const char *kind;
  int replicas;
  int64_t batch, calls;  // Rows of a call, and calls that make a step.
  int steps;
  way way;
  ls_dtype dtype;    // Default f64.
  double clip;       // Of the global norm.
  bool distributed;  // The weights are the strategy's.
} job;

typedef struct problem {
  const job *job;
  ls_strategy *strategy;
  ls_optimizer *optimizer;
  ls_variable *weights;
  ls_tensor rows, wanted;  // Of all replicas, in a session.
} problem;

// ---- The problem -----------------------------------------------------------
static ls_dtype dtype_of(const job *work) {
  return work->dtype != LS_DTYPE_NONE ? work->dtype : LS_DTYPE_F64;
}

static int64_t num_calls(const job *work) {
  return work->steps * (work->calls > 0 ? work->calls : 1);
}

// Rows of a table of numbers, which are read again from the first one on.
static ls_array *some_rows(const job *work, int64_t call, int64_t width) {
  static double numbers[ROWS * WIDTH];
  fill_numbers(numbers, ROWS * (size_t)width, (uint32_t)width);
  const ls_shape shape =
      width > 1 ? LS_SHAPE(work->batch, width) : LS_SHAPE(work->batch);
  return array_of(dtype_of(work), shape,
                  numbers + call * work->batch % ROWS * width);
}

static ls_status make_weights(problem *p) {
  double first[WEIGHTS];
  fill_numbers(first, WEIGHTS, 77);
  LS_OWN(ls_array, value) =
      array_of(dtype_of(p->job), LS_SHAPE(WIDTH, UNITS), first);
  return ls_variable_create(
      &(ls_variable_options){.name = "w", .initial_array = value}, &p->weights);
}

static void begin(problem *p, const job *work) {
  *p = (problem){.job = work, .strategy = mirrored_of(work->replicas)};
  if (work->distributed) {
    {
      LS_STRATEGY_SCOPE(p->strategy);
      expect_ok(make_weights(p));
    }
  } else {
    expect_ok(make_weights(p));
  }
  expect_ok(ls_optimizer_create(
      work->kind,
      &(ls_optimizer_options){.learning_rate = 0.1,
                              .clip = {.global_norm = work->clip},
                              .accumulate = work->calls},
      &p->optimizer));
}

static void end(problem *p) {
  ls_optimizer_release(p->optimizer);
  ls_variable_release(p->weights);
  ls_strategy_release(p->strategy);
}
LS_OWNED_STRUCT(problem, end)

static ls_tensor loss_of(const problem *p, ls_tensor x, ls_tensor y) {
  const ls_tensor hidden = ls_tanh(ls_matmul(x, ls_variable_read(p->weights)));
  const ls_tensor error = ls_sub(ls_reduce_sum(hidden, LS_AXES(1)), y);
  return ls_reduce_mean(ls_square(error), LS_ALL_AXES);
}

// ---- Ways to call ----------------------------------------------------------
static ls_nest minimize(ls_nest args, void *user) {
  const problem *p = user;
  ls_optimizer_minimize(p->optimizer, loss_of(p, ls_nest_tensor(args, 0),
                                              ls_nest_tensor(args, 1)));
  return ls_none();
}

static ls_nest minimize_op_by_op(ls_nest args, void *user) {
  const problem *p = user;
  ls_tensor x = ls_failed_tensor(), y = ls_failed_tensor();
  LS_OWN(ls_tape, tape) = NULL;
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, 0), &x));
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, 1), &y));
  expect_ok(ls_tape_begin(&tape));
  const ls_status status =
      ls_optimizer_minimize_tape(p->optimizer, tape, loss_of(p, x, y));
  return ls_status_is_ok(status) ? ls_none() : ls_fail(status);
}

static ls_nest split_rows(const problem *p, int64_t call) {
  ls_nest parts[2];
  for (int i = 0; i < 2; ++i) {
    LS_OWN(ls_array, rows) = some_rows(p->job, call, i == 0 ? WIDTH : 1);
    expect_ok(ls_strategy_split(p->strategy, rows, &parts[i]));
  }
  return ls_nest_sequence(LS_KIND_TUPLE, parts, 2);
}

// One call after another; a function is traced for the first.
static void run_calls(problem *p, ls_callable how, int64_t first,
                      int64_t count) {
  LS_OWN(ls_nest, results) = ls_none();
  for (int64_t call = first; call < first + count; ++call) {
    LS_OWN(ls_nest, args) = split_rows(p, call);
    expect_ok(ls_frame_begin());
    expect_ok(ls_strategy_run(p->strategy, how, args, &results));
    expect_ok(ls_frame_end(NULL));
  }
}

// This replica's rows are cut out of all.
static ls_nest minimize_built(ls_nest args, void *user) {
  const problem *p = user;
  const int64_t rows = p->job->batch / p->job->replicas;
  const int64_t at = rows * ls_replica_number();
  LS_OWN(ls_nest, mine) =
      LS_TUPLE(ls_leaf(ls_slice_axis(p->rows, 0, at, at + rows)),
               ls_leaf(ls_slice_axis(p->wanted, 0, at, at + rows)));
  const ls_op op =
      ls_optimizer_minimize(p->optimizer, loss_of(p, ls_nest_tensor(mine, 0),
                                                  ls_nest_tensor(mine, 1)));
  (void)args;
  return ls_nest_op(op);
}

static void run_session(const job *work, double *weights) {
  LS_OWN(ls_graph, graph) = graph_named("held");
  LS_OWN(problem, p) = {0};
  LS_OWN(ls_session, session) = NULL;
  ls_op initial = {0};
  LS_OWN(ls_nest, moved) = ls_none();
  {
    LS_GRAPH_SCOPE(graph);
    begin(&p, work);
    p.rows = ls_placeholder(LS_DTYPE_F64, LS_SHAPE(work->batch, WIDTH), "x");
    p.wanted = ls_placeholder(LS_DTYPE_F64, LS_SHAPE(work->batch), "y");
    expect_ok(ls_strategy_run(p.strategy, ls_plain(minimize_built, &p),
                              ls_none(), &moved));
    initial = ls_global_initializer();
  }
  expect_ok(ls_graph_error(graph));
  expect_ok(ls_session_create(graph, &session));
  LS_OWN(ls_nest, results) = session_results(session, ls_nest_op(initial));
  for (int64_t call = 0; call < num_calls(work); ++call) {
    LS_OWN(ls_array, x) = some_rows(work, call, WIDTH);
    LS_OWN(ls_array, y) = some_rows(work, call, 1);
    const ls_feed feeds[] = {{p.rows, x}, {p.wanted, y}};
    expect_ok(ls_session_run(session, moved, feeds, 2, &results));
  }
  LS_OWN(ls_array, value) = session_array(
      session,
      work->distributed ? ls_variable_component(p.weights, 0) : p.weights);
  for (int64_t i = 0; i < WEIGHTS; ++i)
    weights[i] = ls_array_f64(value, i);
}

// The weights after all steps of a job.
static void run(const job *work, double *weights) {
  problem p;
  if (work->way == SESSION) {
    run_session(work, weights);
    return;
  }
  begin(&p, work);
  ls_function *function = function_of(minimize, &p);
  run_calls(&p,
            work->way == TRACED ? ls_traced(function)
                                : ls_plain(minimize_op_by_op, &p),
            0, num_calls(work));
  read_variable(p.weights, weights, WEIGHTS);
  ls_function_release(function);
  end(&p);
}

static void expect_close(const job *work, const double *got,
                         const double *want) {
  for (int i = 0; i < WEIGHTS; ++i)
    if (!(fabs(got[i] - want[i]) <= 1e-12))
      fail_msg("%s on %d replicas, way %d: weight %d is %.17g, wanted %.17g",
               work->kind, work->replicas, (int)work->way, i, got[i], want[i]);
}

// ---- What calls agree with -------------------------------------------------
// 12 rows are other numbers of them for eight replicas.
TEST(calls_make_the_step_of_all_their_rows) {
  static const char *const kinds[] = {"sgd", "momentum", "adam"};
  static const int replicas[] = {1, 3, 8};
  for (size_t k = 0; k < 3; ++k)
    for (size_t r = 0; r < 3; ++r) {
      double want[WEIGHTS], got[WEIGHTS];
      job work = {.kind = kinds[k],
                  .replicas = replicas[r],
                  .batch = 48,
                  .steps = 2,
                  .clip = 0.5};
      run(&work, want);
      work.batch = 12;
      work.calls = 4;
      run(&work, got);
      expect_close(&work, got, want);
    }
}

// Two and three replicas are added up in the order of calls.
TEST(calls_have_the_bits_of_as_many_replicas) {
  static const char *const kinds[] = {"sgd", "adam"};
  for (int64_t count = 2; count <= 3; ++count)
    for (size_t k = 0; k < 2; ++k) {
      double want[WEIGHTS], got[WEIGHTS];
      job work = {.kind = kinds[k],
                  .replicas = (int)count,
                  .batch = 8 * count,
                  .steps = 4,
                  .dtype = LS_DTYPE_F32};
      run(&work, want);
      work.replicas = 1;
      work.batch = 8;
      work.calls = count;
      run(&work, got);
      assert_memory_equal(got, want, sizeof(want));
    }
}

static void expect_same_in_all_ways(job work) {
  double want[WEIGHTS], got[WEIGHTS];
  work.way = TRACED;
  run(&work, want);
  for (work.way = OP_BY_OP; work.way <= SESSION; ++work.way) {
    run(&work, got);
    expect_close(&work, got, want);
  }
}

TEST(every_way_to_call_makes_the_same_step) {
  for (int64_t calls = 1; calls <= 3; calls += 2) {
    job work = {.kind = "adam",
                .replicas = 1,
                .batch = 12,
                .calls = calls,
                .steps = 2,
                .clip = 0.5};
    expect_same_in_all_ways(work);
    work.distributed = true;
    expect_same_in_all_ways(work);
    work.replicas = 3;
    expect_same_in_all_ways(work);
  }
}

// ---- In between ------------------------------------------------------------
static double largest(ls_variable *variable) {
  double values[WEIGHTS], most = 0;
  read_variable(variable, values, WEIGHTS);
  for (int i = 0; i < WEIGHTS; ++i)
    most = fmax(most, fabs(values[i]));
  return most;
}

TEST(variables_move_at_the_last_call_only) {
  const job work = {.kind = "adam", .replicas = 3, .batch = 9, .calls = 3};
  LS_OWN_BEGUN(problem, p, begin, &work);
  LS_OWN(ls_function, function) = function_of(minimize, &p);
  double before[WEIGHTS], after[WEIGHTS];
  ls_variable *held = NULL, *all[8];
  for (int64_t call = 0; call < 7; ++call) {
    read_variable(p.weights, before, WEIGHTS);
    run_calls(&p, ls_traced(function), call, 1);
    read_variable(p.weights, after, WEIGHTS);
    const bool last = call % 3 == 2;
    assert_int_equal(memcmp(before, after, sizeof(before)) != 0, last);
    expect_ok(ls_optimizer_slot(p.optimizer, p.weights, "gradient", &held));
    assert_int_equal(largest(held) == 0, last);
    // Steps and calls are told first.
    double counts[2];
    assert_int_equal(ls_optimizer_variables(p.optimizer, all, 8), 7);
    for (int i = 0; i < 2; ++i)
      read_variable(all[i], &counts[i], 1);
    assert_string_equal(ls_variable_name(all[1]), "adam/calls");
    assert_true(counts[0] == (double)((call + 1) / 3));
    assert_true(counts[1] == (double)((call + 1) % 3));
  }
}

TEST(sums_of_halves_are_wide) {
  const job work = {.kind = "sgd",
                    .replicas = 1,
                    .batch = 8,
                    .calls = 2,
                    .dtype = LS_DTYPE_BF16};
  LS_OWN_BEGUN(problem, p, begin, &work);
  ls_variable *held = NULL;
  expect_ok(ls_optimizer_prepare(p.optimizer, &p.weights, 1));
  expect_ok(ls_optimizer_slot(p.optimizer, p.weights, "gradient", &held));
  assert_int_equal(ls_variable_dtype(held), LS_DTYPE_F32);
  LS_OWN(ls_function, function) = function_of(minimize, &p);
  const double before = largest(p.weights);
  run_calls(&p, ls_traced(function), 0, 2);
  assert_true(largest(p.weights) != before);
}

TEST(fewer_than_no_calls_are_refused) {
  ls_optimizer *optimizer = NULL;
  expect_status(ls_sgd_create(&(ls_sgd_options){.accumulate = -2}, &optimizer),
                LS_INVALID_ARGUMENT, "sgd: -2 calls cannot make a step");
}
