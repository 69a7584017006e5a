// SPDX-License-Identifier: Apache-2.0
// The seed of a graph: all that is made in it draws by it.
#include <string.h>

#include "distribute/own.h"
#include "lockstep/eager.h"
#include "lockstep/flow.h"
#include "lockstep/regroup.h"
#include "lockstep/session.h"
#include "lockstep/strategy.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/weights.h"
#include "support/expect.h"
#include "support/function.h"

enum { ITEMS = 8, REPLICAS = 3, KINDS = 5 + REPLICAS };

static ls_tensor noise(int64_t seed) {
  return ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(ITEMS), 0, 1,
                           &(ls_random_options){.seed = seed});
}

// ---- What is made in a graph -----------------------------------------------
static ls_nest plain(ls_nest args, void *user) {
  (void)args, (void)user;
  return ls_leaf(noise(0));
}

static ls_nest one_trip(ls_nest loop, void *user) {
  (void)user;
  return LS_TUPLE(ls_leaf(ls_add_scalar(ls_nest_tensor(loop, 0), 1)),
                  ls_leaf(noise(0)));
}

static ls_nest not_twice(ls_nest loop, void *user) {
  (void)user;
  return ls_leaf(ls_less(ls_nest_tensor(loop, 0), ls_scalar(LS_DTYPE_F32, 2)));
}

static ls_tensor in_a_loop(void) {
  LS_OWN(ls_nest, made) =
      ls_while(not_twice, one_trip, NULL,
               LS_TUPLE(ls_leaf(ls_scalar(LS_DTYPE_F32, 0)),
                        ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(ITEMS), 0))),
               0);
  return ls_nest_tensor(made, 1);
}

static ls_tensor in_a_function(void) {
  LS_OWN(ls_function, function) = unnamed_function(plain, NULL);
  LS_OWN(ls_nest, args) = LS_TUPLE();
  LS_OWN(ls_nest, made) = call_results(function, args);
  return ls_nest_tensor(made, 0);
}

static ls_tensor initial_weight(void) {
  LS_OWN(ls_variable, w) = NULL;
  expect_ok(ls_weight_create(
      &(ls_weight_options){.name = "w", .shape = LS_SHAPE(ITEMS, 1)}, &w));
  return ls_reshape(ls_variable_read(w), LS_SHAPE(ITEMS));
}

static void in_replicas(ls_nest *out) {
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_nest, made) = ls_none();
  LS_OWN(ls_nest, args) = LS_TUPLE();
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(REPLICAS)}, &strategy));
  expect_ok(
      ls_strategy_call_for_each_replica(strategy, plain, args, NULL, &made));
  for (int r = 0; r < REPLICAS; ++r)
    expect_ok(ls_select_replica(r, made, &out[r]));
}

// ---- Its numbers -----------------------------------------------------------
typedef float numbers[KINDS][ITEMS];

static void draw(int64_t seed, numbers out) {
  ls_nest items[KINDS], results = ls_none(), begin = ls_none();
  LS_OWN(ls_graph, graph) = graph_named("g");
  expect_ok(ls_graph_set_seed(graph, seed));
  {
    LS_GRAPH_SCOPE(graph);
    items[0] = ls_leaf(noise(0));
    items[1] = ls_leaf(noise(5));
    items[2] = ls_leaf(in_a_loop());
    items[3] = ls_leaf(in_a_function());
    items[4] = ls_leaf(initial_weight());
    in_replicas(items + 5);
    begin = ls_nest_op(ls_global_initializer());
  }
  expect_ok(ls_graph_take_error(graph));
  LS_OWN(ls_session, session) = session_of(graph);
  expect_ok(ls_session_run(session, begin, NULL, 0, &results));
  LS_OWN(ls_nest, fetches) = ls_nest_sequence(LS_KIND_LIST, items, KINDS);
  expect_ok(ls_session_run(session, fetches, NULL, 0, &results));
  for (size_t k = 0; k < KINDS; ++k)
    memcpy(out[k], ls_nest_data(results, k), sizeof(out[k]));
  ls_nest_release(results);
}

TEST(all_that_is_made_in_a_graph_draws_by_its_seed) {
  numbers none, seven, again, eight;
  draw(0, none);
  draw(7, seven);
  draw(7, again);
  draw(-8, eight);
  assert_memory_equal(seven, again, sizeof(seven));
  for (int k = 0; k < KINDS; ++k) {
    assert_memory_not_equal(none[k], seven[k], sizeof(none[k]));
    assert_memory_not_equal(seven[k], eight[k], sizeof(none[k]));
    for (int other = 0; other < k; ++other)
      assert_memory_not_equal(seven[other], seven[k], sizeof(none[k]));
  }
}

// As a function's seed is put beside those of its ops.
TEST(a_graphs_seed_gives_the_numbers_of_a_functions) {
  LS_OWN(ls_function, function) = NULL;
  LS_OWN(ls_nest, made) = ls_none();
  numbers seven;
  LS_OWN(ls_nest, args) = LS_TUPLE();
  draw(7, seven);
  expect_ok(ls_function_create(&(ls_function_options){.call = plain, .seed = 7},
                               &function));
  // The graph's run to begin with draws nothing that counts.
  expect_ok(ls_function_call(function, args, &made));
  assert_memory_equal(ls_nest_data(made, 0), seven[0], sizeof(seven[0]));
}

static ls_nest set_inside(ls_nest args, void *user) {
  (void)args;
  *(ls_status *)user = ls_graph_set_seed(ls_graph_current(), 7);
  return ls_nest_i64(0);
}

TEST(only_graphs_that_are_built_have_one) {
  ls_status status = ls_ok();
  LS_OWN(ls_nest, args) = LS_TUPLE();
  expect_status(ls_graph_set_seed(NULL, 7), LS_INVALID_ARGUMENT, "graph");
  expect_status(ls_graph_set_seed(ls_graph_current(), 7), LS_INVALID_ARGUMENT,
                "no build graph");
  LS_OWN(ls_function, function) = unnamed_function(set_inside, &status);
  LS_OWN(ls_nest, made) = call_results(function, args);
  expect_status(status, LS_INVALID_ARGUMENT, "no build graph");
}
