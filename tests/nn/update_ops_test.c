// SPDX-License-Identifier: Apache-2.0
//
// What layers update by the way: it runs with each step, in every way to run.
#include <math.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "graph/own.h"
#include "lockstep/function.h"
#include "lockstep/graph_ops.h"
#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "lockstep/session.h"
#include "lockstep/variable_parts.h"
#include "support/function.h"
#include "support/values.h"
#include "support/ways.h"

enum { ROWS = 4, CHANNELS = 3, STEPS = 3 };
#define MOMENTUM 0.75

// ---- In every way ----------------------------------------------------------
typedef struct norm_case {
  bool over_replicas;
  int64_t parts;    // Of a batch, for ls_optimizer_minimize_parts.
  int64_t calls;    // That make a step.
  bool from_trace;  // The layer is applied by a function that is called.
} norm_case;

static void make_norm(ways *self) {
  const norm_case *row = self->user;
  ls_batch_norm_layer *layer = NULL;
  expect_ok(ls_batch_norm_layer_create(
      &(ls_batch_norm_options){.channels = CHANNELS,
                               .momentum = MOMENTUM,
                               .over_replicas = row->over_replicas},
      &layer));
  self->more = layer;
  self->num_variables = ls_batch_norm_layer_variables(layer, self->variables,
                                                      WAYS_MOST_VARIABLES);
  for (size_t i = 0; i < self->num_variables; ++i)
    ls_variable_retain(self->variables[i]);
  expect_ok(ls_sgd_create(&(ls_sgd_options){.accumulate = row->calls},
                          &self->optimizer));
}

static void drop_norm(ways *self) { ls_batch_norm_layer_destroy(self->more); }

static ls_array *rows_of(int step, int replica) {
  return array_of_numbers(LS_DTYPE_F32, LS_SHAPE(ROWS, CHANNELS),
                          (uint32_t)(10 * step + replica));
}

static ls_nest own_rows(const ways *self, int step, int r) {
  (void)self;
  return ls_nest_array(rows_of(step, r));
}

static ls_nest apply_norm(ls_nest x, void *user) {
  const ways *self = user;
  return ls_leaf(ls_batch_norm_layer_apply(self->more, x.as.tensor, true));
}

static ls_tensor loss_of_norm(ls_nest x, ways *self) {
  const norm_case *row = self->user;
  ls_function *function = NULL;
  ls_nest y = ls_none();
  if (row->from_trace) {
    expect_ok(ls_function_create(
        &(ls_function_options){.call = apply_norm, .user = self}, &function));
    expect_ok(ls_function_call(function, x, &y));
    ls_function_release(function);
  } else {
    y = apply_norm(x, self);
  }
  const ls_tensor cubes = ls_mul(y.as.tensor, ls_square(y.as.tensor));
  return ls_reduce_loss(cubes, LS_REDUCTION_MEAN);
}

static ls_nest step_of_norm(ls_nest x, ways *self) {
  return ways_minimize(self, loss_of_norm, x);
}

// The average of a channel after all steps, of its means or variances.
static double wanted_average(const ways *self, int channel, bool variance) {
  const norm_case *row = self->user;
  const int replicas = self->replicas;
  const int64_t parts = row->parts > 0 ? row->parts : 1;
  double average = variance ? 1 : 0;
  for (int step = 0; step < STEPS * parts; ++step) {
    double value = 0, mean_of_all = 0, squares_of_all = 0;
    for (int r = 0; r < replicas; ++r) {
      LS_OWN(ls_array, x) = rows_of(step / (int)parts, r);
      const int64_t rows = ROWS / parts, first = step % parts * rows;
      double sum = 0, squares = 0;
      for (int64_t i = first; i < first + rows; ++i) {
        const double at = ls_array_f64(x, i * CHANNELS + channel);
        sum += at / (double)rows;
        squares += at * at / (double)rows;
      }
      value += (variance ? squares - sum * sum : sum) / replicas;
      mean_of_all += sum / replicas;
      squares_of_all += squares / replicas;
    }
    if (row->over_replicas && variance)
      value = squares_of_all - mean_of_all * mean_of_all;
    average = MOMENTUM * average + (1 - MOMENTUM) * value;
  }
  return average;
}

static void check_averages(const ways *self) {
  for (int v = 0; v < 2; ++v)
    for (int c = 0; c < self->replicas; ++c)
      for (int i = 0; i < CHANNELS; ++i)
        ways_expect(self, v == 0 ? "moving mean" : "moving variance",
                    ways_value(self, (size_t)v + 2, c, i),
                    wanted_average(self, i, v == 1), 1e-5);
}

TEST(averages_of_a_batch_norm_move_in_every_way) {
  static const norm_case rows[] = {
      {0},
      {.over_replicas = true},
      {.calls = 2},
      {.from_trace = true},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    ways_hold(&(ways_case){.name = "batch norm",
                           .user = &rows[i],
                           .make = make_norm,
                           .args = own_rows,
                           .step = step_of_norm,
                           .check = check_averages,
                           .drop = drop_norm,
                           .steps = STEPS},
              1);
}

static ls_tensor loss_of_part(ls_nest x, void *user) {
  return loss_of_norm(ls_nest_item(x, 0), user);
}

static ls_nest step_in_parts(ls_nest x, ways *self) {
  const norm_case *row = self->user;
  LS_OWN(ls_nest, args) = LS_TUPLE(x);
  const ls_tensor loss = ls_optimizer_minimize_parts(
      self->optimizer, row->parts, loss_of_part, args, self);
  return ls_leaf(loss);
}

TEST(averages_move_with_each_part_of_a_batch) {
  static const norm_case row = {.parts = 2};
  ways_hold(&(ways_case){.name = "parts",
                         .user = &row,
                         .make = make_norm,
                         .args = own_rows,
                         .step = step_in_parts,
                         .check = check_averages,
                         .drop = drop_norm,
                         .steps = STEPS,
                         .one_replica = true,
                         .without = 1 << WAY_EAGER},
            1);
}

// ---- In a build graph ------------------------------------------------------
// Two losses, each with a batch norm and an input of its own.
typedef struct two_losses {
  ls_graph *graph;
  ls_session *session;
  ls_batch_norm_layer *layers[2];
  ls_optimizer *optimizer;
  ls_tensor x[2], loss[2];
  ls_op steps[2];
  ls_variable *means[2];
} two_losses;

static void add_loss(two_losses *g, int i) {
  expect_ok(ls_batch_norm_layer_create(
      &(ls_batch_norm_options){.channels = 1, .momentum = 0.5}, &g->layers[i]));
  ls_variable *variables[4];
  ls_batch_norm_layer_variables(g->layers[i], variables, 4);
  g->means[i] = variables[2];
  g->x[i] = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(2, 1), "x");
  const ls_tensor y = ls_batch_norm_layer_apply(g->layers[i], g->x[i], true);
  g->loss[i] = ls_reduce_mean(ls_square(y), LS_ALL_AXES);
}

static void begin(two_losses *g) {
  *g = (two_losses){0};
  ls_op init = {0};
  expect_ok(ls_graph_create("g", &g->graph));
  {
    LS_GRAPH_SCOPE(g->graph);
    expect_ok(ls_sgd_create(NULL, &g->optimizer));
    for (int i = 0; i < 2; ++i)
      add_loss(g, i);
    for (int i = 0; i < 2; ++i)
      g->steps[i] = ls_optimizer_minimize(g->optimizer, g->loss[i]);
    init = ls_global_initializer();
  }
  expect_ok(ls_graph_verify(g->graph));
  expect_ok(ls_session_create(g->graph, &g->session));
  ls_nest_release(session_results(g->session, ls_nest_op(init)));
}

static void end(two_losses *g) {
  ls_session_destroy(g->session);
  for (int i = 0; i < 2; ++i)
    ls_batch_norm_layer_destroy(g->layers[i]);
  ls_optimizer_release(g->optimizer);
  ls_graph_destroy(g->graph);
}
LS_OWNED_STRUCT(two_losses, end)

// Feeds ones to the input of loss `i`; the moving means are then these.
static void run(two_losses *g, int i, ls_nest fetch, double first,
                double second) {
  LS_OWN(ls_array, ones) =
      array_of(LS_DTYPE_F32, LS_SHAPE(2, 1), (double[]){1, 1});
  const ls_feed feed = {g->x[i], ones};
  LS_OWN(ls_nest, result) = ls_none();
  expect_ok(ls_session_run(g->session, fetch, &feed, 1, &result));
  const double wanted[] = {first, second};
  for (int k = 0; k < 2; ++k) {
    LS_OWN(ls_array, mean) = session_array(g->session, g->means[k]);
    assert_float_equal(ls_array_f64(mean, 0), wanted[k], 1e-6);
  }
}

TEST(a_step_takes_along_what_its_inputs_are_enough_for) {
  LS_OWN_BEGUN(two_losses, g, begin);
  run(&g, 0, ls_leaf(g.loss[0]), 0, 0);  // No step.
  run(&g, 0, ls_nest_op(g.steps[0]), 0.5, 0);
  run(&g, 1, ls_nest_op(g.steps[1]), 0.5, 0.5);
  run(&g, 1, ls_nest_op(g.steps[1]), 0.5, 0.75);
}

TEST(updates_are_a_collection_of_the_graph) {
  LS_OWN_BEGUN(two_losses, g, begin);
  ls_nest updates[8];
  assert_int_equal(
      ls_graph_collection(g.graph, LS_COLLECTION_UPDATE_OPS, updates, 8), 4);
  for (int i = 0; i < 4; ++i)
    assert_int_equal(updates[i].kind, LS_KIND_OP);
  run(&g, 0, updates[0], 0.5, 0);  // By itself.
  run(&g, 1, updates[2], 0.5, 0.5);
  // What is taken out does not go along, what is added does.
  LS_OWN(ls_variable, count) = NULL;
  ls_op step = {0}, init = {0};
  {
    LS_GRAPH_SCOPE(g.graph);
    for (int i = 0; i < 4; ++i)
      ls_graph_remove_from_collection(g.graph, LS_COLLECTION_UPDATE_OPS,
                                      updates[i]);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.dtype = LS_DTYPE_F32, .trainable = LS_FLAG_OFF},
        &count));
    const ls_tensor counted =
        ls_variable_assign_add(count, ls_scalar(LS_DTYPE_F32, 1));
    expect_ok(ls_graph_add_to_collection(g.graph, LS_COLLECTION_UPDATE_OPS,
                                         ls_nest_op(ls_tensor_op(counted))));
    step = ls_optimizer_minimize(g.optimizer, g.loss[0]);
    init = ls_variable_initializer(count);
  }
  ls_nest_release(session_results(g.session, ls_nest_op(init)));
  run(&g, 0, ls_nest_op(step), 0.5, 0.5);
  LS_OWN(ls_array, value) = session_array(g.session, count);
  assert_float_equal(ls_array_f64(value, 0), 1, 0);
}

// The op that a strategy's step leaves in the collection of training ops.
static ls_nest step_on_replica(ls_nest args, void *user) {
  ways *self = user;
  const ls_tensor loss = loss_of_norm(ls_nest_item(args, 0), self);
  ls_optimizer_minimize(self->optimizer, loss);
  return ls_none();
}

TEST(the_training_op_of_a_strategy_moves_averages_once) {
  LS_SPEC("M168");
  static const norm_case row = {0};
  ways self = {.replicas = 2, .user = &row};
  ls_nest nothing = ls_none(), train[2];
  ls_op init = {0};
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(2)}, &self.strategy));
  ls_graph *graph = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    {
      LS_STRATEGY_SCOPE(self.strategy);
      make_norm(&self);
    }
    ls_nest parts[2];
    for (int r = 0; r < 2; ++r) {
      LS_OWN(ls_array, x) = rows_of(0, r);
      parts[r] = ls_leaf(ls_constant(x));
    }
    const ls_nest args =
        LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, parts, 2));
    expect_ok(ls_strategy_run(self.strategy, ls_plain(step_on_replica, &self),
                              args, &nothing));
    ls_nest_release(args);
    init = ls_global_initializer();
  }
  expect_ok(ls_graph_verify(graph));
  assert_int_equal(ls_graph_collection(graph, LS_COLLECTION_TRAIN_OP, train, 2),
                   1);
  ls_session *session = session_of(graph);
  expect_ok(ls_session_run(session, ls_nest_op(init), NULL, 0, &nothing));
  expect_ok(ls_session_run(session, train[0], NULL, 0, &nothing));
  double wanted = 0;
  for (int r = 0; r < 2; ++r) {
    LS_OWN(ls_array, x) = rows_of(0, r);
    for (int i = 0; i < ROWS; ++i)
      wanted += ls_array_f64(x, i * CHANNELS) / (2 * ROWS) * (1 - MOMENTUM);
  }
  for (size_t c = 0; c < 2; ++c) {
    LS_OWN(ls_array, mean) =
        session_array(session, ls_variable_component(self.variables[2], c));
    assert_float_equal(ls_array_f64(mean, 0), wanted, 1e-6);
  }
  ls_session_destroy(session);
  drop_norm(&self);
  ls_optimizer_release(self.optimizer);
  for (size_t i = 0; i < self.num_variables; ++i)
    ls_variable_release(self.variables[i]);
  ls_graph_destroy(graph);
  ls_strategy_release(self.strategy);
}
