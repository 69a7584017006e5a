// SPDX-License-Identifier: Apache-2.0
//
// Ranks that differ: all fail at once, in the same words, before anything runs.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "distribute/own.h"
#include "lockstep/communicator.h"
#include "lockstep/flow.h"
#include "lockstep/function_plan.h"
#include "lockstep/graph.h"
#include "lockstep/places.h"
#include "lockstep/runs.h"
#include "lockstep/session.h"
#include "support/function.h"
#include "support/place.h"
#include "support/replicas.h"
#include "support/values.h"

enum { MOST_RANKS = 3, REPLICAS = 6, ROWS = 4, TRIPS = 2 };

typedef enum difference {
  NO_DIFFERENCE,
  OTHER_CONSTANT,
  OTHER_OP,
  ONE_OP_MORE,
  OTHER_REPLICAS,
  OTHER_MATH,
  OTHER_LANES,
  OTHER_SEED,
  OTHER_STEP,
} difference;

typedef enum way {
  IN_FUNCTION,
  IN_LOOP,
  IN_BRANCH,
  IN_SESSION,
  IN_EAGER,  // The replicas run op by op.
} way;

// Tasks of ranks, in one way each time.
typedef struct job {
  way way;
  difference difference;
  int ranks, odd;  // The rank that differs.
  bool exchanges;  // The replicas have a value each, and sum them up.
  bool draws;
  char seen[MOST_RANKS][1000];  // The failure of each, with its code.
  double sums[MOST_RANKS];
} job;

// A rank's part in it.
typedef struct part {
  job *work;
  difference difference;  // None on ranks that are not odd.
  ls_strategy *strategy;
  ls_function *step;
  ls_nest args, results;
} part;

// ---- Steps -----------------------------------------------------------------
static ls_tensor multiply(ls_tensor x, difference by) {
  return ls_mul_scalar(x, by == OTHER_CONSTANT ? 3 : 2);
}

static ls_nest step_of_replica(ls_nest args, void *user) {
  const part *p = user;
  ls_tensor x = multiply(p->work->way == IN_EAGER ? constant_argument(args)
                                                  : ls_nest_tensor(args, 0),
                         p->difference);
  LS_NAME_SCOPE("inner");
  x = p->difference == OTHER_OP ? ls_neg(x) : ls_square(x);
  if (p->difference == ONE_OP_MORE) x = ls_sin(x);
  if (p->work->draws)
    x = ls_add(x, ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(ROWS), 0, 1, NULL));
  x = ls_reduce_sum(x, LS_ALL_AXES);
  return ls_leaf(p->work->exchanges ? ls_all_reduce(LS_REDUCE_SUM, x) : x);
}

static ls_nest run_replicas(part *p) {
  ls_nest results = ls_none();
  const ls_status status =
      ls_strategy_run(p->strategy, ls_traced(p->step), p->args, &results);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  ls_nest first = ls_none();
  const ls_status taken =
      ls_strategy_replica_result(p->strategy, results, 0, &first);
  ls_nest_release(results);
  return ls_status_is_ok(taken) ? first : ls_fail(taken);
}

static ls_nest below_trips(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar_i64(LS_DTYPE_I32, TRIPS)));
}

static ls_nest go_round(ls_nest values, void *user) {
  LS_OWN(ls_nest, made) = run_replicas(user);
  if (ls_nest_is_failed(made)) return ls_nest_retain(made);
  return LS_TUPLE(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)),
                  ls_leaf(ls_add(ls_nest_tensor(values, 1), made.as.tensor)));
}

static ls_nest loop_around(ls_nest args, void *user) {
  (void)args;
  LS_OWN(ls_nest, last) =
      ls_while(below_trips, go_round, user,
               LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)),
                        ls_leaf(ls_scalar(LS_DTYPE_F32, 0))),
               0);
  return ls_nest_retain(ls_nest_is_failed(last) ? last : ls_nest_item(last, 1));
}

static ls_nest take_branch(ls_nest none, void *user) {
  (void)none;
  return run_replicas(user);
}

static ls_nest leave_branch(ls_nest none, void *user) {
  (void)none, (void)user;
  return ls_leaf(ls_scalar(LS_DTYPE_F32, 0));
}

static ls_nest branch_around(ls_nest args, void *user) {
  return ls_cond(ls_nest_tensor(args, 0), take_branch, leave_branch, user);
}

// ---- Ways ------------------------------------------------------------------
static ls_status call_around(part *p, ls_callback callback, ls_nest args) {
  LS_OWN(ls_function, around) = unnamed_function(callback, p);
  return ls_function_call(around, args, &p->results);
}

static ls_status run_in_session(part *p) {
  LS_OWN(ls_graph, graph) = NULL;
  ls_session *session = NULL;
  ls_nest fetch = ls_none();
  expect_ok(ls_graph_create("built", &graph));
  {
    LS_GRAPH_SCOPE(graph);
    fetch = run_replicas(p);
  }
  ls_status status = ls_nest_status(fetch);
  if (ls_status_is_ok(status)) status = ls_session_create(graph, &session);
  if (ls_status_is_ok(status))
    status = ls_session_run(session, fetch, NULL, 0, &p->results);
  ls_session_destroy(session);
  ls_nest_release(fetch);
  return status;
}

static ls_status run_replicas_of(part *p, ls_callable callable) {
  ls_nest results = ls_none();
  ls_status status = ls_strategy_run(p->strategy, callable, p->args, &results);
  if (ls_status_is_ok(status))
    status = ls_strategy_replica_result(p->strategy, results, 0, &p->results);
  ls_nest_release(results);
  return status;
}

static ls_status run_part(part *p) {
  switch (p->work->way) {
  case IN_LOOP:
    return call_around(p, loop_around, ls_none());
  case IN_BRANCH: {
    LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_zeros(LS_DTYPE_BOOL, LS_SCALAR));
    ls_array_set_f64(ls_nest_as_array(ls_nest_item(args, 0)), 0, 1);
    return call_around(p, branch_around, args);
  }
  case IN_SESSION:
    return run_in_session(p);
  case IN_EAGER:
    return run_replicas_of(p, ls_plain(step_of_replica, p));
  case IN_FUNCTION:
    break;
  }
  return run_replicas_of(p, ls_traced(p->step));
}

// An argument for each replica, or one for all.
static ls_nest make_args(const job *work, int replicas) {
  ls_nest items[2 * REPLICAS];
  for (int r = 0; r < replicas; ++r) {
    items[r] = ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(ROWS));
    for (int i = 0; i < ROWS; ++i)
      ls_array_set_f64(ls_nest_as_array(items[r]), i,
                       i + 1 + (work->exchanges ? r : 0));
  }
  if (work->exchanges)
    return LS_TUPLE(
        ls_nest_distributed(LS_PER_REPLICA, items, (size_t)replicas));
  for (int r = 1; r < replicas; ++r)
    ls_nest_release(items[r]);
  return LS_TUPLE(items[0]);
}

static const char *lanes_of_odd(void *user, const char *name) {
  const part *p = user;
  return strcmp(name, "LS_LANES") == 0 && p->difference == OTHER_LANES
             ? "blocks"
             : NULL;
}

static ls_status play_rank(ls_communicator *communicator, void *user) {
  job *work = user;
  const int rank = communicator->rank;
  part p = {.work = work,
            .difference = rank == work->odd ? work->difference : NO_DIFFERENCE,
            .results = ls_none()};
  LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){
      .threads = 1,
      .communicator = communicator,
      .environment = lanes_of_odd,
      .environment_user = &p,
      .math = p.difference == OTHER_MATH ? LS_MATH_DIRECT : LS_MATH_FAST});
  const int replicas = p.difference == OTHER_REPLICAS ? 2 * REPLICAS : REPLICAS;
  p.strategy = mirrored_of(replicas);
  p.args = make_args(work, replicas);
  expect_ok(ls_function_create(
      &(ls_function_options){.call = step_of_replica,
                             .user = &p,
                             .name = "my_step",
                             .seed = p.difference == OTHER_SEED ? 7 : 3},
      &p.step));
  if (p.difference == OTHER_STEP) ls_function_set_steps(p.step, 5);
  ls_status status = run_part(&p);
  snprintf(work->seen[rank], sizeof(work->seen[rank]), "%s: %s",
           ls_code_name(ls_status_code(status)), ls_status_message(status));
  if (ls_status_is_ok(status)) work->sums[rank] = number_of(p.results);
  ls_status_free(status);
  ls_nest_release(p.results);
  ls_nest_release(p.args);
  ls_function_release(p.step);
  ls_strategy_release(p.strategy);
  return ls_ok();
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// Runs a job whose ranks fail, all in the same words, which contain `parts`.
static void expect_difference(job work, const char *const *parts) {
  const double began = seconds_now();
  const ls_status status = ls_standin_run(work.ranks, play_rank, &work);
  // The communicator's failure is left.
  ls_status_free(status);
  if (seconds_now() - began > 5) fail_msg("ranks wait");
  for (int k = 0; k < work.ranks; ++k) {
    expect_contains(work.seen[k], "FAILED_PRECONDITION: ");
    assert_string_equal(work.seen[k], work.seen[0]);
    for (size_t i = 0; parts[i] != NULL; ++i)
      expect_contains(work.seen[k], parts[i]);
  }
}

static void expect_agreement(job work) {
  expect_ok(ls_standin_run(work.ranks, play_rank, &work));
  for (int k = 0; k < work.ranks; ++k) {
    assert_string_equal(work.seen[k], "OK: ");
    assert_true(work.sums[k] == work.sums[0] && work.sums[k] != 0);
  }
}

// ---- Programs --------------------------------------------------------------
static void expect_in_ways(way last, job work, const char *const *parts) {
  for (int i = IN_FUNCTION; i <= (int)last; ++i)
    for (int exchanges = 0; exchanges < 2; ++exchanges) {
      work.way = (way)i;
      work.exchanges = exchanges == 1;
      if (parts == NULL)
        expect_agreement(work);
      else
        expect_difference(work, parts);
    }
}

static void expect_in_all_ways(job work, const char *const *parts) {
  expect_in_ways(IN_SESSION, work, parts);
}

TEST(ranks_that_are_equal_agree) {
  expect_in_ways(IN_EAGER, (job){.ranks = 2}, NULL);
  expect_in_ways(IN_EAGER, (job){.ranks = 3}, NULL);
}

TEST(ops_that_run_one_by_one_are_compared) {
  static const struct {
    difference difference;
    const char *parts[5];
  } rows[] = {
      {OTHER_CONSTANT,
       {"'a call of replicas op by op' with another program",
        "on rank 0 op constant at ", "value = 2", "value = 3"}},
      {OTHER_OP, {"on rank 0 op mul at ", "on rank 2 op neg at "}},
      {ONE_OP_MORE, {"on rank 0 op reduce_sum at ", "on rank 2 op sin at "}},
      {OTHER_REPLICAS, {"another number of replicas: 6 and 12"}},
      {OTHER_MATH, {"ranks 0 and 2 run", "with another arithmetic: '"}},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    for (int exchanges = 0; exchanges < 2; ++exchanges)
      expect_difference((job){.way = IN_EAGER,
                              .ranks = 3,
                              .odd = 2,
                              .exchanges = exchanges == 1,
                              .difference = rows[i].difference},
                        rows[i].parts);
}

TEST(steps_with_another_constant_name_it) {
  static const char *const parts[] = {
      "ranks 0 and 1 run \'", "is the first to differ", "on rank 0 op ",
      "(constant) at ",       "handshake_test.c:",      "value = f32[] [2]",
      "on rank 1 op",         "value = f32[] [3]",      NULL};
  expect_in_all_ways((job){.ranks = 2, .odd = 1, .difference = OTHER_CONSTANT},
                     parts);
}

TEST(steps_with_another_op_name_it) {
  static const char *const parts[] = {"ranks 0 and 1 run \'",
                                      "on rank 0 op '",
                                      "inner/mul",
                                      "on rank 1 op '",
                                      "inner/neg",
                                      "handshake_test.c:",
                                      NULL};
  expect_in_all_ways((job){.ranks = 2, .odd = 1, .difference = OTHER_OP},
                     parts);
}

TEST(the_third_rank_is_named_if_it_differs) {
  static const char *const parts[] = {"ranks 0 and 2 run \'", "on rank 2 op '",
                                      "inner/sin", NULL};
  expect_in_all_ways((job){.ranks = 3, .odd = 2, .difference = ONE_OP_MORE},
                     parts);
}

TEST(the_first_rank_may_differ) {
  static const char *const parts[] = {"ranks 0 and 1 run \'", "on rank 0 op '",
                                      "inner/sin", NULL};
  expect_in_all_ways((job){.ranks = 3, .odd = 0, .difference = ONE_OP_MORE},
                     parts);
}

// ---- Options ---------------------------------------------------------------
TEST(other_numbers_of_replicas_are_named) {
  static const char *const parts[] = {
      "ranks 0 and 1 run '", "another number of replicas: 6 and 12", NULL};
  expect_in_all_ways((job){.ranks = 2, .odd = 1, .difference = OTHER_REPLICAS},
                     parts);
}

TEST(another_arithmetic_is_named) {
  static const char *const math[] = {"ranks 0 and 2 run '",
                                     "with another arithmetic: '", "fast",
                                     "direct", NULL};
  static const char *const lanes[] = {"with another arithmetic: '",
                                      " and 'lanes, ", NULL};
  expect_in_all_ways((job){.ranks = 3, .odd = 2, .difference = OTHER_MATH},
                     math);
  expect_in_all_ways((job){.ranks = 2, .odd = 1, .difference = OTHER_LANES},
                     lanes);
}

TEST(another_seed_or_step_is_named_if_the_program_draws) {
  static const char *const seeds[] = {
      "run 'my_step' with another seed: 3 and 7", NULL};
  static const char *const steps[] = {
      "run 'my_step' with another step: 0 and 5", NULL};
  for (int exchanges = 0; exchanges < 2; ++exchanges) {
    job work = {.ranks = 2,
                .odd = 1,
                .exchanges = exchanges == 1,
                .draws = true,
                .difference = OTHER_SEED};
    expect_difference(work, seeds);
    work.difference = OTHER_STEP;
    expect_difference(work, steps);
    work.draws = false;
    expect_agreement(work);
  }
}

// ---- Programs of a rank's own ----------------------------------------------
static ls_nest square_of(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_square(ls_nest_tensor(args, 0)));
}

static ls_status call_square(ls_nest args) {
  ls_nest results = ls_none();
  LS_OWN(ls_function, function) = unnamed_function(square_of, NULL);
  const ls_status status = ls_function_call(function, args, &results);
  ls_nest_release(results);
  return status;
}

static ls_status run_square(ls_strategy *strategy, ls_nest args) {
  ls_nest results = ls_none();
  LS_OWN(ls_function, function) = unnamed_function(square_of, NULL);
  const ls_status status =
      ls_strategy_run(strategy, ls_traced(function), args, &results);
  ls_nest_release(results);
  return status;
}

// Rank 0 alone runs a program of the same ops before and after, on a strategy
// of one replica too, and prints where runs are.
static ls_status play_with_more(ls_communicator *communicator, void *user) {
  (void)user;
  char *text = NULL;
  const bool has_more = communicator->rank == 0;
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(ROWS)));
  LS_OWN(ls_strategy, all) = mirrored_of(REPLICAS);
  if (has_more) {
    LS_OWN(ls_strategy, one) = mirrored_of(1);
    LS_RETURN_IF_ERROR(call_square(args));
    LS_RETURN_IF_ERROR(run_square(one, args));
    LS_RETURN_IF_ERROR(ls_runs_print(home.runtime, &text));
    ls_text_release(text);
  }
  for (int i = 0; i < 3; ++i)
    LS_RETURN_IF_ERROR(run_square(all, args));
  if (has_more) LS_RETURN_IF_ERROR(call_square(args));
  return run_square(all, args);
}

TEST(programs_of_one_replica_are_a_ranks_own) {
  for (int ranks = 2; ranks <= MOST_RANKS; ++ranks)
    expect_ok(ls_standin_run(ranks, play_with_more, NULL));
}

// ---- Two strategies on two threads -----------------------------------------
typedef struct side {
  ls_runtime *runtime;
  ls_strategy *strategy;
  int delay_ms;
  float factor;  // Tells its programs from those of the other side.
  ls_status status;
} side;

static ls_nest scale(ls_nest args, void *user) {
  const side *s = user;
  const ls_tensor x = ls_mul_scalar(ls_nest_tensor(args, 0), s->factor);
  return ls_leaf(ls_all_reduce(LS_REDUCE_SUM, ls_reduce_sum(x, LS_ALL_AXES)));
}

static void *play_side(void *user) {
  side *s = user;
  ls_runtime *before = ls_runtime_make_current(s->runtime);
  ls_nest results = ls_none();
  usleep((useconds_t)s->delay_ms * 1000);
  {
    LS_OWN(ls_nest, args) =
        LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(ROWS)));
    LS_OWN(ls_function, function) = unnamed_function(scale, s);
    for (int i = 0; i < 3 && ls_status_is_ok(s->status); ++i)
      s->status =
          ls_strategy_run(s->strategy, ls_traced(function), args, &results);
  }
  ls_nest_release(results);
  ls_runtime_make_current(before);
  return NULL;
}

static ls_status play_sides(ls_communicator *communicator, void *user) {
  const float *factors = user;
  side sides[2];
  pthread_t threads[2];
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  for (int i = 0; i < 2; ++i)
    sides[i] =
        (side){.runtime = home.runtime,
               .strategy = mirrored_of(REPLICAS),
               .delay_ms = i == communicator->rank % 2 ? 0 : 30,
               .factor = communicator->rank == 1 ? factors[i] : (float)(i + 1)};
  for (int i = 0; i < 2; ++i)
    assert_int_equal(pthread_create(&threads[i], NULL, play_side, &sides[i]),
                     0);
  for (int i = 0; i < 2; ++i)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < 2; ++i)
    ls_strategy_release(sides[i].strategy);
  return ls_status_join(sides[0].status, sides[1].status);
}

TEST(strategies_on_two_threads_begin_in_any_order) {
  expect_ok(ls_standin_run(2, play_sides, (float[]){1, 2}));
  expect_ok(ls_standin_run(3, play_sides, (float[]){1, 2}));
}

TEST(and_their_programs_are_compared) {
  expect_status(ls_standin_run(3, play_sides, (float[]){1, 5}),
                LS_FAILED_PRECONDITION,
                "on rank 1 op 'constant' (constant) at ");
}

// ---- Sessions of which one rank runs more ----------------------------------
static ls_status play_session(ls_communicator *communicator, void *user) {
  job *work = user;
  part p = {.work = work, .results = ls_none()};
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  LS_OWN(ls_graph, graph) = NULL;
  ls_session *session = NULL;
  ls_nest fetch = ls_none(), own = ls_none(), made = ls_none();
  p.strategy = mirrored_of(REPLICAS);
  p.args = make_args(work, REPLICAS);
  p.step = unnamed_function(step_of_replica, &p);
  expect_ok(ls_graph_create("built", &graph));
  {
    LS_GRAPH_SCOPE(graph);
    fetch = run_replicas(&p);
    own = ls_leaf(ls_square(ls_scalar(LS_DTYPE_F32, 3)));
  }
  expect_ok(ls_session_create(graph, &session));
  ls_status status = ls_ok();
  for (int i = 0; i < 3 && ls_status_is_ok(status); ++i) {
    if (communicator->rank == 0)
      expect_ok(ls_session_run(session, own, NULL, 0, &made));
    status = ls_session_run(session, fetch, NULL, 0, &p.results);
  }
  ls_session_destroy(session);
  ls_nest_release(fetch);
  ls_nest_release(own);
  ls_nest_release(made);
  ls_nest_release(p.results);
  ls_nest_release(p.args);
  ls_function_release(p.step);
  ls_strategy_release(p.strategy);
  return status;
}

TEST(one_rank_may_run_more_in_a_session) {
  expect_ok(ls_standin_run(2, play_session, &(job){.exchanges = true}));
  expect_ok(ls_standin_run(2, play_session,
                           &(job){.exchanges = true, .draws = true}));
}

// ---- Functions that one rank keeps -----------------------------------------
// Rank 0 keeps the first of two equal functions, others release it.
static ls_status play_two_functions(ls_communicator *communicator, void *user) {
  part p = {.work = user, .results = ls_none()};
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  ls_function *first = NULL;
  ls_status status = ls_ok();
  p.strategy = mirrored_of(REPLICAS);
  p.args = make_args(p.work, REPLICAS);
  for (int i = 0; i < 2 && ls_status_is_ok(status); ++i) {
    p.step = unnamed_function(step_of_replica, &p);
    for (int k = 0; k < 2 && ls_status_is_ok(status); ++k)
      status =
          ls_strategy_run(p.strategy, ls_traced(p.step), p.args, &p.results);
    if (i == 0 && communicator->rank == 0)
      first = p.step;
    else
      ls_function_release(p.step);
  }
  ls_function_release(first);
  ls_nest_release(p.results);
  ls_nest_release(p.args);
  ls_strategy_release(p.strategy);
  return status;
}

TEST(one_rank_may_keep_a_function_for_longer) {
  expect_ok(ls_standin_run(2, play_two_functions, &(job){.exchanges = true}));
}

// ---- Initial values --------------------------------------------------------
typedef struct beginning {
  bool in_creator;  // A creator around the strategy's scope gives the value.
  float starts[MOST_RANKS];
} beginning;

// Creates a variable with a drawn value.
static ls_status create_drawn(const ls_creator *next,
                              const ls_variable_options *options, void *user,
                              ls_variable **out_variable) {
  ls_variable_options drawn = *options;
  if (((const beginning *)user)->in_creator)
    drawn.initial_value =
        ls_random_uniform(LS_DTYPE_F32, LS_SCALAR, 0, 1, NULL);
  return ls_creator_create(next, &drawn, out_variable);
}

// Starts a variable from drawn numbers; rank 0 has drawn some before.
static ls_status start_variable(ls_communicator *communicator, void *user) {
  beginning *b = user;
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  LS_OWN(ls_strategy, strategy) = mirrored_of(REPLICAS);
  LS_OWN(ls_variable, variable) = NULL;
  LS_OWN(ls_array, value) = NULL;
  ls_variable_options options = {.name = "w", .dtype = LS_DTYPE_F32};
  if (communicator->rank == 0)
    expect_ok(ls_tensor_status(
        ls_random_uniform(LS_DTYPE_F32, LS_SCALAR, 0, 1, NULL)));
  if (!b->in_creator)
    options.initial_value =
        ls_random_uniform(LS_DTYPE_F32, LS_SCALAR, 0, 1, NULL);
  {
    LS_CREATOR_SCOPE(create_drawn, b);
    LS_STRATEGY_SCOPE(strategy);
    LS_RETURN_IF_ERROR(ls_variable_create(&options, &variable));
  }
  LS_RETURN_IF_ERROR(ls_variable_value(variable, &value));
  b->starts[communicator->rank] = *(const float *)ls_array_data(value);
  return ls_ok();
}

TEST(variables_start_from_the_values_of_rank_0) {
  for (int in_creator = 0; in_creator < 2; ++in_creator) {
    beginning b = {.in_creator = in_creator == 1};
    expect_ok(ls_standin_run(MOST_RANKS, start_variable, &b));
    assert_true(b.starts[0] > 0);
    assert_true(b.starts[1] == b.starts[0] && b.starts[2] == b.starts[0]);
  }
}

// Creates variables of zeros and without a value on rank 0 alone.
static ls_status create_alone(ls_communicator *communicator, void *user) {
  (void)user;
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  LS_OWN(ls_strategy, strategy) = mirrored_of(REPLICAS);
  for (int i = 0; i < 2 && communicator->rank == 0; ++i) {
    LS_OWN(ls_variable, variable) = NULL;
    LS_STRATEGY_SCOPE(strategy);
    LS_RETURN_IF_ERROR(ls_variable_create(
        &(ls_variable_options){
            .dtype = LS_DTYPE_F32, .shape = LS_SHAPE(2), .no_value = i == 1},
        &variable));
  }
  return ls_ok();
}

TEST(one_rank_may_create_zeros_alone) {
  expect_ok(ls_standin_run(2, create_alone, NULL));
}
