// SPDX-License-Identifier: Apache-2.0
//
// Loops whose trips are steps: however many steps are put into a run or call,
// random ops draw the same, so training gives the same bytes.
#include <string.h>

#include "distribute/own.h"
#include "lockstep/function_plan.h"
#include "lockstep/layers.h"
#include "lockstep/session.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

enum { WIDTH = 5, MOST_REPLICAS = 3 };

static ls_tensor draw(void) {
  return ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(WIDTH), 0, 1, NULL);
}

static void expect_same_bytes(const ls_array *a, const ls_array *b) {
  assert_int_equal(ls_array_size(a), ls_array_size(b));
  assert_memory_equal(ls_array_data(a), ls_array_data(b), ls_array_size(a));
}

// ---- Steps in loops --------------------------------------------------------
// Training with dropout: `trips` steps in a run, in a loop that counts them
// unless it is 0.
typedef struct training {
  int trips;
  bool inner;  // Each step draws in a loop of its own too.
  ls_variable *w;
  ls_tensor x;
} training;

static ls_nest draw_more(ls_nest values, void *user) {
  (void)user;
  return LS_LIST(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)),
                 ls_leaf(ls_add(ls_nest_tensor(values, 1), draw())));
}

static ls_tensor one_step(const training *t) {
  ls_tensor y =
      ls_dropout(ls_mul(ls_variable_read(t->w), t->x), 0.4, true, NULL);
  if (t->inner) {
    LS_OWN(ls_nest, made) = ls_while(
        below_three, draw_more, NULL,
        LS_LIST(ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)), ls_leaf(y)), 0);
    y = ls_nest_tensor(made, 1);
  }
  const ls_tensor g = ls_all_reduce(LS_REDUCE_SUM, y);
  return ls_variable_assign_sub(t->w, ls_mul_scalar(g, 0.1));
}

static ls_nest steps_left(ls_nest values, void *user) {
  const training *t = user;
  return ls_leaf(ls_less(ls_nest_tensor(values, 0),
                         ls_scalar_i64(LS_DTYPE_I32, t->trips)));
}

static ls_nest step_again(ls_nest values, void *user) {
  (void)one_step(user);
  return ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1));
}

// What it draws around the loop is nobody's concern.
static ls_nest train(ls_nest args, void *user) {
  training t = *(const training *)user;
  t.x = ls_nest_tensor(args, 0);
  if (t.trips == 0) {
    (void)one_step(&t);
    return ls_none();
  }
  // By a condition, or by a bound.
  const ls_nest zero = ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0));
  ls_nest_release(
      t.trips % 2 == 0
          ? ls_step_while(steps_left, step_again, &t, zero, 0)
          : ls_step_while(always_true, step_again, &t, zero, t.trips));
  return ls_none();
}

static ls_nest rows_of(int replicas) {
  ls_nest items[MOST_REPLICAS];
  for (int r = 0; r < replicas; ++r) {
    const double x[WIDTH] = {1, 2, 3, 4 + r, 5};
    items[r] = ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(WIDTH), x));
  }
  const ls_nest made =
      ls_nest_distributed(LS_PER_REPLICA, items, (size_t)replicas);
  return LS_TUPLE(made);
}

static const double first_w[WIDTH] = {1, -1, 0.5, 2, 3};

// Steps traced by a function, with so many in each call; the variable after
// six, and the function's own count.
static ls_array *train_traced(int replicas, int trips, bool inner,
                              uint64_t *out_steps) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(replicas);
  training t = {.trips = trips, .inner = inner};
  LS_OWN(ls_function, function) = NULL;
  LS_OWN(ls_array, initial) = array_of(LS_DTYPE_F32, LS_SHAPE(WIDTH), first_w);
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "w", .initial_array = initial}, &t.w));
  }
  expect_ok(ls_function_create(
      &(ls_function_options){.call = train, .user = &t, .seed = 3}, &function));
  LS_OWN(ls_nest, args) = rows_of(replicas);
  for (int done = 0; done < 6; done += trips == 0 ? 1 : trips) {
    LS_OWN(ls_nest, result) =
        strategy_results(strategy, ls_traced(function), args);
  }
  *out_steps = ls_function_steps(function);
  ls_array *value = variable_array(ls_variable_component(t.w, 0) != NULL
                                       ? ls_variable_component(t.w, 0)
                                       : t.w);
  ls_variable_release(t.w);
  return value;
}

TEST(steps_in_a_loop_draw_what_as_many_calls_draw) {
  static const int trips[] = {1, 2, 3, 6};
  for (int replicas = 1; replicas <= MOST_REPLICAS; ++replicas)
    for (int inner = 0; inner < 2; ++inner) {
      uint64_t steps = 0;
      LS_OWN(ls_array, wanted) = train_traced(replicas, 0, inner != 0, &steps);
      assert_int_equal(steps, 6);
      for (size_t i = 0; i < 4; ++i) {
        LS_OWN(ls_array, got) =
            train_traced(replicas, trips[i], inner != 0, &steps);
        expect_same_bytes(got, wanted);
        assert_int_equal(steps, 6);
      }
    }
}

// ---- Loops of sessions -----------------------------------------------------
static ls_variable *make_global_step(void) {
  static const char *const collections[] = {LS_COLLECTION_GLOBAL_VARIABLES,
                                            LS_COLLECTION_GLOBAL_STEP};
  ls_variable *made = NULL;
  expect_ok(
      ls_variable_create(&(ls_variable_options){.name = "global_step",
                                                .dtype = LS_DTYPE_I64,
                                                .trainable = LS_FLAG_OFF,
                                                .collections = collections,
                                                .num_collections = 2},
                         &made));
  return made;
}

static ls_array *train_in_session(int trips, bool global_step) {
  training t = {.trips = trips};
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_variable, count) = NULL;
  ls_op step, initialize;
  ls_array *initial = array_of(LS_DTYPE_F32, LS_SHAPE(WIDTH), first_w);
  {
    LS_GRAPH_SCOPE(graph);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "w", .initial_array = initial}, &t.w));
    const size_t taken = trips == 0 ? 1 : (size_t)trips;
    t.x = ls_fill(LS_DTYPE_F32, LS_SHAPE(WIDTH), 2);
    ls_op done[2] = {{0}};
    if (trips == 0) {
      done[0] = ls_tensor_op(one_step(&t));
    } else {
      LS_OWN(ls_nest, made) =
          ls_step_while(steps_left, step_again, &t,
                        ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)), 0);
      done[0] = ls_tensor_op(ls_nest_tensor(made, 0));
    }
    if (global_step) {
      count = make_global_step();
      done[1] = ls_tensor_op(ls_variable_assign_add(
          count, ls_scalar_i64(LS_DTYPE_I64, (int64_t)taken)));
    }
    step = ls_group(done, global_step ? 2 : 1, "step");
    initialize = ls_global_initializer();
  }
  ls_array_release(initial);
  ls_session *session = session_of(graph);
  ls_nest none = session_results(session, ls_nest_op(initialize));
  for (int done = 0; done < 6; done += trips == 0 ? 1 : trips)
    expect_ok(ls_session_run(session, ls_nest_op(step), NULL, 0, &none));
  ls_array *value = session_array(session, t.w);
  ls_session_destroy(session);
  ls_variable_release(t.w);
  return value;
}

TEST(steps_in_a_loop_draw_what_as_many_runs_draw) {
  static const int trips[] = {1, 2, 3, 6};
  for (int global_step = 0; global_step < 2; ++global_step) {
    LS_OWN(ls_array, wanted) = train_in_session(0, global_step != 0);
    for (size_t i = 0; i < 4; ++i) {
      LS_OWN(ls_array, got) = train_in_session(trips[i], global_step != 0);
      expect_same_bytes(got, wanted);
    }
  }
}

// ---- Eager -----------------------------------------------------------------
static ls_array *train_in_eager(int trips) {
  training t = {.trips = trips};
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(NULL, &runtime));
  ls_runtime *before = ls_runtime_make_current(runtime);
  expect_ok(ls_frame_begin());
  t.w = variable_of("w", LS_DTYPE_F32, LS_SHAPE(WIDTH), first_w);
  const double x[WIDTH] = {1, 2, 3, 4, 5};
  const ls_nest args =
      LS_LIST(ls_leaf(eager_of(LS_DTYPE_F32, LS_SHAPE(WIDTH), x)));
  for (int done = 0; done < 6; done += trips == 0 ? 1 : trips)
    ls_nest_release(train(args, &t));
  ls_nest_release(args);
  ls_array *value = variable_array(t.w);
  ls_variable_release(t.w);
  expect_ok(ls_frame_end(NULL));
  // The array shall outlive its runtime.
  ls_array *copy = NULL;
  (void)ls_runtime_make_current(before);
  expect_ok(ls_array_create_copy(LS_DTYPE_F32, LS_SHAPE(WIDTH),
                                 ls_array_data(value), &copy));
  ls_array_release(value);
  expect_ok(ls_runtime_destroy(runtime));
  return copy;
}

TEST(steps_in_an_eager_loop_draw_what_as_many_draw) {
  static const int trips[] = {1, 2, 3, 6};
  LS_OWN(ls_array, wanted) = train_in_eager(0);
  for (size_t i = 0; i < 4; ++i) {
    LS_OWN(ls_array, got) = train_in_eager(trips[i]);
    expect_same_bytes(got, wanted);
  }
}

// ---- Failures --------------------------------------------------------------
// A step that fails when so many are counted, before or after its updates.
typedef struct stopping {
  bool is_late;
  ls_variable *count, *drawn;
  ls_tensor stop;
} stopping;

static void check_count(const stopping *s) {
  ls_assert_true(ls_not_equal(ls_variable_read(s->count), s->stop), "stop");
}

static ls_nest step_or_stop(ls_nest values, void *user) {
  const stopping *s = user;
  if (!s->is_late) check_count(s);
  ls_variable_assign_add(s->count, ls_scalar(LS_DTYPE_F32, 1));
  ls_variable_assign(s->drawn, draw());
  if (s->is_late) check_count(s);
  return ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1));
}

static ls_nest below_ten(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar(LS_DTYPE_F32, 10)));
}

// Steps from the first argument to 9; the second one is where it fails.
static ls_nest steps_from(ls_nest args, void *user) {
  stopping *s = user;
  s->stop = ls_nest_tensor(args, 1);
  return ls_step_while(below_ten, step_or_stop, s,
                       ls_leaf(ls_nest_tensor(args, 0)), 0);
}

// Sets the arguments and runs the steps.
typedef ls_status (*run_steps)(void *user, double start, double stop);

// Five steps: each in a run of its own, or four in a run that then fails.
static void run_five(run_steps run, void *user, bool fails) {
  if (fails)
    expect_status(run(user, 0, 4), LS_INVALID_ARGUMENT, "stop");
  else
    for (int i = 0; i < 4; ++i)
      expect_ok(run(user, 9, -1));
  expect_ok(run(user, 9, -1));
}

static ls_array *number_of_step(double value) {
  return array_of(LS_DTYPE_F32, LS_SCALAR, &value);
}

static ls_status call_steps(void *user, double start, double stop) {
  LS_OWN(ls_nest, args) = LS_LIST(ls_nest_array(number_of_step(start)),
                                  ls_nest_array(number_of_step(stop)));
  LS_OWN(ls_nest, result) = ls_none();
  return ls_function_call(user, args, &result);
}

static ls_array *draw_traced(bool is_late, bool fails) {
  static const double zeros[WIDTH];
  stopping s = {.is_late = is_late};
  LS_OWN(ls_variable, count) = variable_of("n", LS_DTYPE_F32, LS_SCALAR, zeros);
  LS_OWN(ls_variable, drawn) =
      variable_of("v", LS_DTYPE_F32, LS_SHAPE(WIDTH), zeros);
  LS_OWN(ls_function, function) = unnamed_function(steps_from, &s);
  s.count = count;
  s.drawn = drawn;
  run_five(call_steps, function, fails);
  assert_int_equal(ls_function_steps(function), 5);
  return variable_array(drawn);
}

typedef struct session_steps {
  ls_session *session;
  ls_tensor start, stop;
  ls_op step;
} session_steps;

static ls_status run_in_session(void *user, double start, double stop) {
  const session_steps *s = user;
  LS_OWN(ls_array, first) = number_of_step(start);
  LS_OWN(ls_array, last) = number_of_step(stop);
  LS_OWN(ls_nest, none) = ls_none();
  return ls_session_run(s->session, ls_nest_op(s->step),
                        (const ls_feed[]){{s->start, first}, {s->stop, last}},
                        2, &none);
}

static ls_array *draw_in_session(bool is_late, bool fails) {
  static const double zeros[WIDTH];
  stopping s = {.is_late = is_late};
  session_steps steps;
  LS_OWN(ls_graph, graph) = graph_named("g");
  ls_op initialize;
  {
    LS_GRAPH_SCOPE(graph);
    s.count = variable_of("n", LS_DTYPE_F32, LS_SCALAR, zeros);
    s.drawn = variable_of("v", LS_DTYPE_F32, LS_SHAPE(WIDTH), zeros);
    steps.start = ls_placeholder(LS_DTYPE_F32, LS_SCALAR, "start");
    steps.stop = ls_placeholder(LS_DTYPE_F32, LS_SCALAR, "stop");
    LS_OWN(ls_nest, args) = LS_LIST(ls_leaf(steps.start), ls_leaf(steps.stop));
    LS_OWN(ls_nest, made) = steps_from(args, &s);
    steps.step = ls_tensor_op(ls_nest_tensor(made, 0));
    initialize = ls_global_initializer();
  }
  steps.session = session_of(graph);
  LS_OWN(ls_nest, none) =
      session_results(steps.session, ls_nest_op(initialize));
  run_five(run_in_session, &steps, fails);
  ls_array *value = session_array(steps.session, s.drawn);
  ls_session_destroy(steps.session);
  ls_variable_release(s.count);
  ls_variable_release(s.drawn);
  return value;
}

TEST(steps_that_a_failed_run_keeps_are_counted) {
  static ls_array *(*const ways[])(bool, bool) = {draw_traced, draw_in_session};
  for (size_t way = 0; way < LS_COUNT_OF(ways); ++way)
    for (int is_late = 0; is_late < 2; ++is_late) {
      LS_OWN(ls_array, wanted) = ways[way](is_late != 0, false);
      LS_OWN(ls_array, got) = ways[way](is_late != 0, true);
      expect_same_bytes(got, wanted);
    }
}

// ---- Loops in loops --------------------------------------------------------
typedef struct nesting {
  bool outer_counts, inner_counts;
} nesting;

static ls_nest draw_on_stack(ls_nest values, void *user) {
  (void)user;
  const ls_tensor i = ls_nest_tensor(values, 0),
                  all = ls_nest_tensor(values, 1);
  const ls_tensor at = ls_nest_tensor(values, 2);
  const ls_tensor is_here = ls_equal(ls_iota(LS_DTYPE_I32, LS_SHAPE(9), 0), at);
  const ls_tensor x = ls_random_uniform(LS_DTYPE_F32, LS_SCALAR, 0, 1, NULL);
  return LS_LIST(ls_leaf(ls_add_scalar(i, 1)),
                 ls_leaf(ls_select(is_here, x, all)),
                 ls_leaf(ls_add_scalar(at, 1)));
}

static ls_nest loop_of(bool counts, ls_flow_callback body, void *user,
                       ls_nest values) {
  const ls_nest initial = LS_LIST(ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)),
                                  ls_leaf(ls_nest_tensor(values, 1)),
                                  ls_leaf(ls_nest_tensor(values, 2)));
  return counts ? ls_step_while(below_three, body, user, initial, 0)
                : ls_while(below_three, body, user, initial, 0);
}

static ls_nest draw_in_inner(ls_nest values, void *user) {
  const nesting *n = user;
  LS_OWN(ls_nest, made) = loop_of(n->inner_counts, draw_on_stack, user, values);
  return LS_LIST(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)),
                 ls_leaf(ls_nest_tensor(made, 1)),
                 ls_leaf(ls_nest_tensor(made, 2)));
}

static ls_nest draw_nine(ls_nest args, void *user) {
  (void)args;
  const nesting *n = user;
  LS_OWN(ls_nest, start) =
      LS_LIST(ls_none(), ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(9), 0)),
              ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)));
  LS_OWN(ls_nest, made) = loop_of(n->outer_counts, draw_in_inner, user, start);
  return ls_leaf(ls_nest_tensor(made, 1));
}

TEST(no_two_trips_of_loops_in_loops_draw_the_same) {
  for (int i = 0; i < 4; ++i) {
    nesting n = {.outer_counts = i & 1, .inner_counts = i & 2};
    const ls_nest none = ls_none();
    LS_OWN(ls_nest, made) = call_on(1, draw_nine, &n, none, 1);
    const float *drawn = ls_nest_data(made, 0);
    for (int a = 0; a < 9; ++a)
      for (int b = 0; b < a; ++b)
        assert_true(drawn[a] != drawn[b]);
  }
}
