// SPDX-License-Identifier: Apache-2.0
//
// Steps that several calls make together are those of one batch with all their
// examples (ruling 56), however these are dealt to calls and to replicas.
#include <math.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "lockstep/full.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"
#include "support/ways.h"

enum { CALLS = 4, EACH = 2 };  // Calls of a run, and calls that make a step.

// ---- Examples --------------------------------------------------------------
// Rows of replica r in each call.
typedef struct dealing {
  const char *name;
  int rows[CALLS][WAYS_REPLICAS];
  ls_gradients_over_replicas over;
  double clip;  // Of values.
} dealing;

// Numbers of an example: none is another one's.
static double number(int call, int r, int row) {
  return (call + 1) * 1.5 + r * 7.25 + row * 0.5;
}

static ls_nest rows_of(const ways *self, int call, int r) {
  const dealing *d = self->user;
  double x[16];
  for (int i = 0; i < d->rows[call][r]; ++i)
    x[i] = number(call, r, i);
  return ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(d->rows[call][r]), x));
}

// Down by the rate, 1, times the mean of the rows.
static ls_tensor loss_of(ls_nest args, ways *self) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  return ls_reduce_mean(ls_mul(x, ls_variable_read(self->variables[0])),
                        LS_ALL_AXES);
}

static void make(ways *self) {
  const dealing *d = self->user;
  ways_vector(self, "w", 0, (const double[]){0});
  expect_ok(ls_sgd_create(&(ls_sgd_options){.learning_rate = 1,
                                            .accumulate = EACH,
                                            .over_replicas = d->over,
                                            .clip = {.value = d->clip}},
                          &self->optimizer));
}

static ls_nest step(ls_nest args, ways *self) {
  return ways_minimize(self, loss_of, args);
}

// ---- What is right ---------------------------------------------------------
// The sum of replica r's rows in a call, and how many they are.
static double sum_rows(const dealing *d, int call, int r, int *count) {
  double sum = 0;
  *count = d->rows[call][r];
  for (int i = 0; i < *count; ++i)
    sum += number(call, r, i);
  return sum;
}

// The gradient of a step from call `first` on.
static double wanted(const dealing *d, int replicas, int first) {
  double gradient = 0, weights = 0;
  for (int call = first; call < first + EACH; ++call) {
    double sum = 0, means = 0;
    int examples = 0, count;
    for (int r = 0; r < replicas; ++r) {
      const double own = sum_rows(d, call, r, &count);
      sum += own;
      means += count > 0 ? own / count : 0;
      examples += count;
    }
    const double weight = d->over == LS_GRADIENTS_LIKE_LOSS ? 1 : examples;
    gradient += d->over == LS_GRADIENTS_MEAN ? sum : weight * means;
    weights += weight;
  }
  gradient /= weights;
  return d->clip > 0 ? fmin(gradient, d->clip) : gradient;
}

static void check(const ways *self) {
  const dealing *d = self->user;
  double w = 0;
  for (int first = 0; first < CALLS; first += EACH)
    w -= wanted(d, self->replicas, first);
  for (int c = 0; c < self->replicas; ++c)
    ways_expect(self, d->name, ways_value(self, 0, c, 0), w, 1e-4);
}

TEST(calls_count_by_their_examples_in_every_way) {
  LS_SPEC("M182");
  static const dealing dealings[] = {
      {.name = "a short call",
       .rows = {{3, 3, 3}, {1, 1, 1}, {2, 2, 2}, {4, 4, 4}}},
      {.name = "uneven replicas",
       .rows = {{3, 1, 2}, {1, 2, 1}, {2, 2, 1}, {5, 1, 2}}},
      {.name = "replicas without rows",
       .rows = {{3, 2, 0}, {1, 0, 0}, {2, 0, 2}, {4, 1, 1}}},
      {.name = "clipped",
       .rows = {{3, 3, 3}, {1, 1, 1}, {2, 2, 2}, {4, 1, 4}},
       .clip = 6},
      {.name = "sums",
       .rows = {{3, 3, 3}, {1, 1, 1}, {2, 2, 2}, {4, 4, 4}},
       .over = LS_GRADIENTS_SUM},
      {.name = "the loss's own weights",
       .rows = {{3, 3, 3}, {1, 1, 1}, {2, 2, 2}, {4, 4, 4}},
       .over = LS_GRADIENTS_LIKE_LOSS},
  };
  for (size_t i = 0; i < LS_COUNT_OF(dealings); ++i)
    ways_hold(&(ways_case){.name = dealings[i].name,
                           .user = &dealings[i],
                           .make = make,
                           .args = rows_of,
                           .step = step,
                           .check = check,
                           .steps = CALLS,
                           .tolerance = 1e-4,
                           .without = 1U << WAY_GRAPH | 1U << WAY_GRAPH_TRACED},
              1);
}

// ---- Without a strategy ----------------------------------------------------
typedef struct plain {
  ls_variable *w;
  ls_optimizer *optimizer;
  bool by_tape, says;
} plain;

static plain plain_of(void) {
  plain p = {.w = variable_of("w", LS_DTYPE_F32, LS_SCALAR, (double[]){0})};
  expect_ok(ls_sgd_create(
      &(ls_sgd_options){.learning_rate = 1, .accumulate = 2}, &p.optimizer));
  return p;
}

static void drop(const plain *p) {
  ls_optimizer_release(p->optimizer);
  ls_variable_release(p->w);
}

static ls_tensor loss_by(const plain *p, ls_tensor x) {
  return ls_reduce_mean(ls_mul(x, ls_variable_read(p->w)), LS_ALL_AXES);
}

static ls_status step_here(const plain *p, ls_tensor x) {
  ls_tape *tape = NULL;
  if (!p->by_tape) {
    ls_optimizer_minimize(p->optimizer, loss_by(p, x));
    return ls_ok();
  }
  expect_ok(ls_tape_begin(&tape));
  const ls_status status =
      ls_optimizer_minimize_tape(p->optimizer, tape, loss_by(p, x));
  ls_tape_release(tape);
  return status;
}

static ls_nest plain_step(ls_nest args, void *user) {
  const plain *p = user;
  ls_tensor x = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, 0), &x));
  ls_status status = ls_ok();
  if (p->says) {
    LS_EXAMPLES_SCOPE(ls_dim_size(x, 0));
    status = step_here(p, x);
  } else {
    status = step_here(p, x);
  }
  return ls_status_is_ok(status) ? ls_none() : ls_fail(status);
}

// Three rows whose mean is 2, then one of 10.
static ls_nest three_or_one(int call) {
  return LS_TUPLE(ls_nest_array(
      call == 0 ? array_of(LS_DTYPE_F32, LS_SHAPE(3), (const double[]){1, 2, 3})
                : array_of(LS_DTYPE_F32, LS_SHAPE(1), (const double[]){10})));
}

typedef enum road { CALLED, RUN_PLAIN, RUN_TRACED, BY_HAND, NUM_ROADS } road;

static void go(road by, plain *p) {
  LS_OWN(ls_function, function) = function_of(plain_step, p);
  ls_strategy *strategy = NULL;
  LS_OWN(ls_nest, results) = ls_none();
  expect_ok(ls_strategy_default(&strategy));
  p->by_tape = by == RUN_PLAIN || by == BY_HAND;
  p->says = by == BY_HAND;
  for (int call = 0; call < 2; ++call) {
    LS_OWN(ls_nest, args) = three_or_one(call);
    expect_ok(ls_frame_begin());
    if (by == CALLED)
      expect_ok(ls_function_call(function, args, &results));
    else if (by == BY_HAND)
      expect_ok(ls_nest_status(plain_step(args, p)));
    else
      expect_ok(ls_strategy_run(strategy,
                                by == RUN_TRACED ? ls_traced(function)
                                                 : ls_plain(plain_step, p),
                                args, &results));
    expect_ok(ls_frame_end(NULL));
  }
}

TEST(without_a_strategy_arguments_and_scopes_tell) {
  for (road by = CALLED; by < NUM_ROADS; ++by) {
    plain p = plain_of();
    go(by, &p);
    expect_variable(p.w, (const double[]){-4}, 1, 1e-6);
    drop(&p);
  }
}

// What an op-by-op step computes is in no argument.
TEST(calls_of_unknown_size_count_alike) {
  plain p = plain_of();
  p.by_tape = true;
  for (int call = 0; call < 2; ++call) {
    LS_OWN(ls_nest, args) = three_or_one(call);
    expect_ok(ls_frame_begin());
    expect_ok(ls_nest_status(plain_step(args, &p)));
    expect_ok(ls_frame_end(NULL));
  }
  expect_variable(p.w, (const double[]){-6}, 1, 1e-6);
  drop(&p);
}

// ---- In a session ----------------------------------------------------------
static ls_nest built_step(ls_nest args, void *user) {
  const plain *p = user;
  return ls_nest_op(
      ls_optimizer_minimize(p->optimizer, loss_by(p, ls_nest_tensor(args, 0))));
}

typedef struct built {
  ls_graph *graph;
  ls_session *session;
  plain p;
  ls_strategy *strategy;
  ls_tensor x[2];  // Rows of a replica, of any number.
  ls_nest moved;
} built;

static void build(built *b, int replicas, bool traced) {
  ls_nest each[2], each_op[2], args = ls_none(), results = ls_none();
  ls_op initial = {0};
  LS_OWN(ls_function, function) = function_of(built_step, &b->p);
  expect_ok(ls_graph_create("held", &b->graph));
  {
    LS_GRAPH_SCOPE(b->graph);
    b->strategy = mirrored_of(replicas);
    {
      LS_STRATEGY_SCOPE(b->strategy);
      b->p = plain_of();
    }
    for (int r = 0; r < replicas; ++r) {
      b->x[r] = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1), "x");
      each[r] = LS_TUPLE(ls_leaf(b->x[r]));
    }
    expect_ok(ls_regroup(each, (size_t)replicas, NULL, &args));
    expect_ok(ls_strategy_run(
        b->strategy, traced ? ls_traced(function) : ls_plain(built_step, &b->p),
        args, &results));
    for (int r = 0; r < replicas; ++r)
      each_op[r] = results.kind == LS_KIND_DISTRIBUTED
                       ? ls_distributed_component(results, (size_t)r)
                       : results;
    b->moved = ls_nest_sequence(LS_KIND_LIST, each_op, (size_t)replicas);
    ls_nest_release(results);
    results = ls_none();
    initial = ls_global_initializer();
  }
  expect_ok(ls_graph_error(b->graph));
  expect_ok(ls_session_create(b->graph, &b->session));
  expect_ok(ls_session_run(b->session, ls_nest_op(initial), NULL, 0, &results));
  ls_nest_release(results);
  ls_nest_release(args);
  for (int r = 0; r < replicas; ++r)
    ls_nest_release(each[r]);
}

static void drop_built(built *b) {
  ls_nest_release(b->moved);
  ls_session_destroy(b->session);
  drop(&b->p);
  ls_strategy_release(b->strategy);
  ls_graph_destroy(b->graph);
}

static double run_built(built *b, int replicas) {
  static const int rows[2][2] = {{3, 2}, {1, 0}};
  LS_OWN(ls_nest, results) = ls_none();
  for (int call = 0; call < 2; ++call) {
    ls_feed feeds[2];
    for (int r = 0; r < replicas; ++r) {
      double x[3];
      for (int i = 0; i < rows[call][r]; ++i)
        x[i] = number(call, r, i);
      feeds[r] = (ls_feed){b->x[r],
                           array_of(LS_DTYPE_F32, LS_SHAPE(rows[call][r]), x)};
    }
    expect_ok(ls_session_run(b->session, b->moved, feeds, (size_t)replicas,
                             &results));
    for (int r = 0; r < replicas; ++r)
      ls_array_release((ls_array *)(uintptr_t)feeds[r].value);
  }
  LS_OWN(ls_array, w) = NULL;
  expect_ok(ls_session_variable_value(b->session,
                                      ls_variable_component(b->p.w, 0), &w));
  return ls_array_f64(w, 0);
}

// Sizes are known only when it runs, and may differ between replicas then.
TEST(a_session_counts_the_rows_that_it_is_fed) {
  const dealing d = {.rows = {{3, 2}, {1, 0}}};
  for (int replicas = 1; replicas <= 2; ++replicas)
    for (int traced = 0; traced < 2; ++traced) {
      built b = {0};
      build(&b, replicas, traced != 0);
      const double w = run_built(&b, replicas);
      if (!(fabs(w + wanted(&d, replicas, 0)) < 1e-5))
        fail_msg("%d replicas%s: w is %g, wanted %g", replicas,
                 traced ? ", traced" : "", w, -wanted(&d, replicas, 0));
      drop_built(&b);
    }
}

// ---- Checkpoints of before -------------------------------------------------
static bool is_of_examples(const ls_variable *variable) {
  return strstr(ls_variable_name(variable), "examples") != NULL;
}

// Calls were counted alike once, and no examples with them: what a step that is
// half made weighs is not in such a file.
TEST(a_file_without_the_examples_is_refused_as_a_whole) {
  static const char path[] = "held-examples.tmp.safetensors";
  plain p = plain_of();
  ls_variable *all[10], *old[10];
  expect_ok(ls_optimizer_prepare(p.optimizer, &p.w, 1));
  const size_t count = ls_optimizer_variables(p.optimizer, all, 9);
  all[count] = p.w;
  size_t num_old = 0;
  for (size_t i = 0; i <= count; ++i)
    if (!is_of_examples(all[i])) old[num_old++] = all[i];
  assert_int_equal(num_old, count - 1);
  expect_ok(ls_saver_save(
      &(ls_saver){.variables = old, .num_variables = num_old}, path));
  go(CALLED, &p);
  const ls_saver saver = {.variables = all, .num_variables = count + 1};
  expect_status(ls_saver_restore(&saver, path), LS_NOT_FOUND,
                "has no array 'sgd/examples', which variable 'sgd/examples' of "
                "f64[] needs");
  expect_status(ls_saver_restore(&saver, path), LS_NOT_FOUND,
                "2 of 5 variables cannot be restored");
  expect_variable(p.w, (const double[]){-4}, 1, 1e-6);
  // Who says so starts them at none.
  const ls_value_choice choice = {.missing = LS_FLAG_ON};
  expect_ok(ls_saver_restore_part(&saver, path, &choice, NULL));
  expect_variable(p.w, (const double[]){0}, 1, 0);
  go(CALLED, &p);
  expect_variable(p.w, (const double[]){-4}, 1, 1e-6);
  drop(&p);
}
