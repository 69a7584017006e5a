// SPDX-License-Identifier: Apache-2.0
//
// What a refused call leaves in a build graph: nothing.
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "graph/own.h"
#include "lockstep/cross_device.h"
#include "lockstep/gradients.h"
#include "lockstep/graph.h"
#include "lockstep/graph_ops.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/optimizers.h"
#include "lockstep/strategy_extended.h"
#include "support/describe.h"
#include "support/replicas.h"

#define LOCAL "/job:localhost/replica:0/task:0/device:"

// What stands in the graph before each refusal.
typedef struct scene {
  ls_graph *graph;
  ls_strategy *strategy;
  ls_variable *variable;  // Distributed, [2].
  ls_variable *apart;     // The same, of aggregation NONE.
  ls_optimizer *optimizer;
  ls_variable *plain;
  ls_tensor pair, three;       // [2] and [3].
  ls_tensor doubled, unknown;  // Of `pair`; the latter has no gradient.
  ls_nest parts, strange;  // Of [2]; of [2] and of a tensor of another graph.
  ls_variable *made;       // By a callback.
} scene;

static ls_tensor vector(int64_t count) {
  return ls_fill(LS_DTYPE_F32, LS_SHAPE(count), 1);
}

static ls_variable *variable_of(const char *name,
                                ls_variable_aggregation aggregation) {
  ls_variable *made = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){
          .name = name, .initial_value = vector(2), .aggregation = aggregation},
      &made));
  return made;
}

// Everything that a graph keeps track of, once.
static void build_a_bit(void) {
  const ls_tensor x = ls_identity_named(vector(2), "x");
  ls_graph *graph = ls_graph_current();
  ls_tensor drawn = ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(2), 0, 1, NULL);
  {
    LS_NAME_SCOPE("inner");
    drawn = ls_add(drawn, x);
  }
  expect_ok(ls_graph_add_to_collection(graph, "losses", ls_leaf(drawn)));
  expect_ok(ls_graph_record_loss_reduction(graph, "weighted_mean"));
}

static ls_tensor bad_product(void) {
  return ls_matmul(ls_identity_named(vector(2), "left"), vector(3));
}

// ---- Callbacks that fail ---------------------------------------------------
static ls_nest fail_on_last(ls_nest args, void *user) {
  scene *s = user;
  (void)args;
  build_a_bit();
  ls_variable *made = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "made", .initial_value = vector(2)},
      &made));
  if (s->made == NULL)
    s->made = made;
  else
    ls_variable_release(made);
  return ls_replica_number() == 1
             ? LS_FAIL(LS_ABORTED, "the second one gives up")
             : ls_leaf(ls_variable_read(s->made));
}

static void a_replica_fails(scene *s) {
  ls_nest made = ls_none();
  expect_status(
      ls_strategy_run(s->strategy, ls_plain(fail_on_last, s), ls_none(), &made),
      LS_ABORTED, "the second one gives up");
  // Who kept a variable of it is told.
  assert_true(ls_tensor_is_failed(ls_variable_read(s->made)));
  expect_status(ls_graph_take_error(s->graph), LS_FAILED_PRECONDITION, "made");
}

static ls_nest multiply_badly(ls_nest args, void *user) {
  (void)args;
  (void)user;
  build_a_bit();
  return ls_leaf(bad_product());
}

static void an_op_in_a_replica_is_refused(scene *s) {
  ls_nest made = ls_none();
  expect_status(ls_strategy_run(s->strategy, ls_plain(multiply_badly, s),
                                ls_none(), &made),
                LS_INVALID_ARGUMENT, "matmul");
}

static ls_nest forget_a_bad_op(ls_nest args, void *user) {
  (void)multiply_badly(args, user);
  return ls_none();
}

static void a_forgotten_op_in_a_replica_is_refused(scene *s) {
  ls_nest made = ls_none();
  expect_status(ls_strategy_run(s->strategy, ls_plain(forget_a_bad_op, s),
                                ls_none(), &made),
                LS_INVALID_ARGUMENT, "matmul");
}

static ls_nest differ(ls_nest args, void *user) {
  (void)args;
  (void)user;
  build_a_bit();
  return ls_replica_number() == 0 ? LS_LIST(ls_none()) : ls_none();
}

static void results_cannot_be_put_together(scene *s) {
  ls_nest made = ls_none();
  expect_status(
      ls_strategy_run(s->strategy, ls_plain(differ, s), ls_none(), &made),
      LS_INVALID_ARGUMENT, "");
}

static ls_nest fail_merged(ls_strategy *strategy, ls_nest args, void *user) {
  (void)strategy;
  (void)args;
  (void)user;
  build_a_bit();
  return LS_FAIL(LS_ABORTED, "no merging today");
}

static ls_nest merge_and_go_on(ls_nest args, void *user) {
  build_a_bit();
  const ls_nest merged =
      ls_replica_merge_call(ls_replica_context(), fail_merged, args, user);
  build_a_bit();
  return merged;
}

static void a_merge_fails(scene *s) {
  ls_nest made = ls_none();
  expect_status(ls_strategy_run(s->strategy, ls_plain(merge_and_go_on, s),
                                ls_none(), &made),
                LS_ABORTED, "no merging today");
}

static ls_nest fail_in_second_update(ls_nest args, void *user) {
  (void)args;
  (void)user;
  build_a_bit();
  return ls_update_replica_id().value == 1 ? LS_FAIL(LS_ABORTED, "not here")
                                           : ls_leaf(vector(2));
}

static void an_update_fails(scene *s) {
  ls_nest made = ls_none();
  expect_status(ls_strategy_update(s->strategy, s->variable,
                                   fail_in_second_update, ls_none(), NULL, true,
                                   &made),
                LS_ABORTED, "not here");
}

static void an_update_of_no_variable_fails(scene *s) {
  static const char *const devices[] = {LOCAL "CPU:0", LOCAL "CPU:1"};
  ls_nest made = ls_none();
  expect_status(ls_strategy_update_non_slot(s->strategy, devices, 2,
                                            fail_in_second_update, ls_none(),
                                            NULL, true, &made),
                LS_ABORTED, "not here");
}

static ls_nest fail_on_two(ls_nest args, void *user) {
  (void)user;
  build_a_bit();
  return ls_nest_number(ls_nest_item(args, 0)) == 2
             ? LS_FAIL(LS_ABORTED, "two is too much")
             : ls_leaf(vector(2));
}

static void a_map_fails(scene *s) {
  const ls_nest items[] = {ls_nest_f64(1), ls_nest_f64(2)};
  ls_nest made = ls_none();
  expect_status(ls_strategy_map(s->strategy, items, 2, fail_on_two, ls_none(),
                                NULL, &made),
                LS_ABORTED, "two is too much");
}

static ls_nest fail_fetched(ls_nest value, void *user) {
  (void)value;
  (void)user;
  build_a_bit();
  return LS_FAIL(LS_ABORTED, "nothing to see");
}

static void a_fetch_fails(scene *s) {
  ls_nest made = ls_none();
  LS_OWN(ls_nest, leaf) = ls_nest_variable(s->variable);
  expect_status(
      ls_strategy_fetch(s->strategy, leaf, NULL, fail_fetched, NULL, &made),
      LS_ABORTED, "nothing to see");
}

static ls_nest fail_for_one(int32_t replica, int32_t replicas, void *user) {
  (void)replicas;
  (void)user;
  build_a_bit();
  return replica == 1 ? LS_FAIL(LS_ABORTED, "no value") : ls_leaf(vector(2));
}

static void values_from_a_function_fail(scene *s) {
  ls_nest made = ls_none();
  expect_status(
      ls_strategy_values_from_function(s->strategy, fail_for_one, NULL, &made),
      LS_ABORTED, "no value");
}

// ---- Values that do not fit ------------------------------------------------
static void a_part_to_assign_has_another_shape(scene *s) {
  const ls_nest parts[] = {ls_leaf(s->pair), ls_leaf(s->three)};
  LS_OWN(ls_nest, value) = ls_nest_distributed(LS_PER_REPLICA, parts, 2);
  ls_nest made = ls_none();
  expect_status(
      ls_variable_write(s->apart, LS_WRITE_ASSIGN, value, NULL, &made),
      LS_INVALID_ARGUMENT, "apart");
}

static void the_second_value_cannot_be_reduced_or_gathered(scene *s) {
  LS_OWN(ls_nest, value) =
      LS_TUPLE(ls_nest_retain(s->parts), ls_nest_retain(s->strange));
  ls_nest made = ls_none();
  expect_status(ls_strategy_reduce(s->strategy, LS_REDUCE_SUM, value, &made),
                LS_INVALID_ARGUMENT, "belongs to graph");
  expect_status(ls_strategy_gather(s->strategy, value, 0, &made),
                LS_INVALID_ARGUMENT, "belongs to graph");
}

static void a_value_cannot_be_reduced_to_a_place(scene *s) {
  ls_nest made = ls_none();
  expect_status(ls_strategy_reduce_to(s->strategy, LS_REDUCE_MEAN, s->strange,
                                      (ls_destinations){.device = "CPU:1"},
                                      &made),
                LS_INVALID_ARGUMENT, "belongs to graph");
}

static void the_second_of_a_batch_cannot_be_reduced(scene *s) {
  const ls_nest values[] = {s->parts, s->strange};
  const ls_destinations where[] = {{.device = "CPU:0"}, {.device = "CPU:1"}};
  ls_nest made = ls_none();
  expect_status(ls_strategy_batch_reduce_to(s->strategy, LS_REDUCE_SUM, values,
                                            where, 2, &made),
                LS_INVALID_ARGUMENT, "belongs to graph");
  ls_cross_device *ops = ls_strategy_cross_device(s->strategy);
  expect_status(
      ls_cross_device_batch_reduce(ops, LS_REDUCE_SUM, values, where, 2, &made),
      LS_INVALID_ARGUMENT, "belongs to graph");
}

static void gradients_do_not_pass(scene *s) {
  const ls_nest y = ls_leaf(s->doubled), x = ls_leaf(s->pair);
  const ls_nest start = ls_leaf(s->three);
  ls_nest grad = ls_none();
  expect_status(ls_gradients(&y, 1, &x, 1,
                             &(ls_gradient_options){.grad_ys = &start}, &grad),
                LS_INVALID_ARGUMENT, "");
  const ls_nest rounded = ls_leaf(s->unknown);
  expect_status(ls_gradients(&rounded, 1, &x, 1, NULL, &grad), LS_UNIMPLEMENTED,
                "");
}

static ls_nest start_badly(ls_nest args, void *user) {
  (void)args;
  (void)user;
  build_a_bit();
  return ls_leaf(vector(3));
}

static void a_variable_starts_with_another_shape(scene *s) {
  const ls_variable_options options = {.name = "made",
                                       .dtype = LS_DTYPE_F32,
                                       .shape = LS_SHAPE(2),
                                       .initializer = start_badly};
  ls_variable *made = NULL;
  expect_status(ls_variable_create(&options, &made), LS_INVALID_ARGUMENT, "");
  {
    LS_STRATEGY_SCOPE(s->strategy);
    expect_status(ls_variable_create(&options, &made), LS_INVALID_ARGUMENT, "");
  }
}

// ---- Optimizers ------------------------------------------------------------
static void a_gradient_cannot_be_applied_across(scene *s) {
  ls_variable *const variables[] = {s->variable, s->apart};
  const ls_nest gradients[] = {s->parts, s->strange};
  ls_op op = {0};
  {
    LS_STRATEGY_SCOPE(s->strategy);
    expect_status(ls_optimizer_apply_across(s->optimizer, variables, gradients,
                                            2, NULL, &op),
                  LS_INVALID_ARGUMENT, "");
  }
  assert_int_equal(ls_optimizer_variables(s->optimizer, NULL, 0), 0);
}

static void a_gradient_cannot_be_applied(scene *s) {
  ls_variable *const variables[] = {s->plain, s->plain};
  const ls_nest gradients[] = {ls_leaf(s->pair), ls_leaf(s->three)};
  assert_true(ls_op_is_failed(
      ls_optimizer_apply(s->optimizer, variables, gradients, 2)));
  expect_status(ls_graph_take_error(s->graph), LS_INVALID_ARGUMENT, "");
}

static ls_nest step_and_fail(ls_nest args, void *user) {
  scene *s = user;
  (void)args;
  const ls_tensor loss =
      ls_reduce_sum(ls_square(ls_variable_read(s->variable)), LS_ALL_AXES);
  const ls_op op = ls_optimizer_minimize(s->optimizer, loss);
  assert_false(ls_op_is_failed(op));
  return ls_replica_number() == 1 ? LS_FAIL(LS_ABORTED, "after the step")
                                  : ls_nest_op(op);
}

static void a_replica_fails_behind_its_step(scene *s) {
  ls_nest made = ls_none();
  expect_status(ls_strategy_run(s->strategy, ls_plain(step_and_fail, s),
                                ls_none(), &made),
                LS_ABORTED, "after the step");
}

// ---- All of them -----------------------------------------------------------
typedef struct refusal {
  const char *name;
  void (*refuse)(scene *s);
} refusal;
#define REFUSAL(function)                                                      \
  { #function, function }
static const refusal refusals[] = {
    REFUSAL(a_replica_fails),
    REFUSAL(an_op_in_a_replica_is_refused),
    REFUSAL(a_forgotten_op_in_a_replica_is_refused),
    REFUSAL(results_cannot_be_put_together),
    REFUSAL(a_merge_fails),
    REFUSAL(an_update_fails),
    REFUSAL(an_update_of_no_variable_fails),
    REFUSAL(a_map_fails),
    REFUSAL(a_fetch_fails),
    REFUSAL(values_from_a_function_fail),
    REFUSAL(a_part_to_assign_has_another_shape),
    REFUSAL(the_second_value_cannot_be_reduced_or_gathered),
    REFUSAL(a_value_cannot_be_reduced_to_a_place),
    REFUSAL(the_second_of_a_batch_cannot_be_reduced),
    REFUSAL(gradients_do_not_pass),
    REFUSAL(a_variable_starts_with_another_shape),
    REFUSAL(a_gradient_cannot_be_applied_across),
    REFUSAL(a_gradient_cannot_be_applied),
    REFUSAL(a_replica_fails_behind_its_step),
};

// What all scenes have in common, before the refusal.
static void fill_scene(scene *s, ls_tensor elsewhere) {
  s->pair = ls_identity_named(vector(2), "pair");
  s->three = ls_identity_named(vector(3), "three");
  s->doubled = ls_add(s->pair, s->pair);
  s->unknown = ls_scatter(LS_SCATTER_MUL, s->pair,
                          ls_fill(LS_DTYPE_I32, LS_SHAPE(1), 0), vector(1));
  s->plain = variable_of("plain", LS_AGGREGATION_NONE);
  {
    LS_STRATEGY_SCOPE(s->strategy);
    s->variable = variable_of("v", LS_AGGREGATION_MEAN);
    s->apart = variable_of("apart", LS_AGGREGATION_NONE);
  }
  const ls_nest parts[] = {ls_leaf(s->pair), ls_leaf(s->doubled)};
  s->parts = ls_nest_distributed(LS_PER_REPLICA, parts, 2);
  const ls_nest strange[] = {ls_leaf(s->pair), ls_leaf(elsewhere)};
  s->strange = ls_nest_distributed(LS_PER_REPLICA, strange, 2);
}

static ls_nest build_well(ls_nest args, void *user) {
  (void)args;
  (void)user;
  build_a_bit();
  return ls_none();
}

// What comes after: it gets the names, places and numbers that are free.
static void go_on(scene *s) {
  ls_variable *variable = NULL;
  ls_nest_release(
      strategy_results(s->strategy, ls_plain(build_well, NULL), ls_none()));
  {
    LS_STRATEGY_SCOPE(s->strategy);
    variable = variable_of("made", LS_AGGREGATION_MEAN);
  }
  ls_variable_release(variable);
  const ls_tensor loss =
      ls_reduce_sum(ls_square(ls_variable_read(s->plain)), LS_ALL_AXES);
  assert_false(ls_op_is_failed(ls_optimizer_minimize(s->optimizer, loss)));
  assert_false(ls_op_is_failed(ls_global_initializer()));
}

static char *play(void (*refuse)(scene *s)) {
  scene s = {0};
  LS_OWN(ls_graph, elsewhere) = NULL;
  ls_tensor stranger = ls_failed_tensor();
  expect_ok(ls_graph_create("elsewhere", &elsewhere));
  {
    LS_GRAPH_SCOPE(elsewhere);
    stranger = vector(2);
  }
  expect_ok(ls_graph_create("g", &s.graph));
  expect_ok(ls_sgd_create(&(ls_sgd_options){.momentum = 0.9}, &s.optimizer));
  s.strategy = mirrored_of(2);
  {
    LS_GRAPH_SCOPE(s.graph);
    fill_scene(&s, stranger);
    if (refuse != NULL) refuse(&s);
    expect_ok(ls_graph_error(s.graph));
    go_on(&s);
  }
  char *text = describe(s.graph);
  ls_nest_release(s.parts);
  ls_nest_release(s.strange);
  ls_variable_release(s.variable);
  ls_variable_release(s.apart);
  ls_variable_release(s.plain);
  ls_variable_release(s.made);
  ls_optimizer_release(s.optimizer);
  ls_strategy_release(s.strategy);
  ls_graph_destroy(s.graph);
  return text;
}

TEST(a_refused_call_leaves_the_graph_as_it_was) {
  LS_SPEC("M156 V169");
  HEAP(char, wanted) = play(NULL);
  for (size_t i = 0; i < LS_COUNT_OF(refusals); ++i) {
    HEAP(char, got) = play(refusals[i].refuse);
    if (strcmp(got, wanted) != 0) {
      size_t at = 0;
      while (got[at] == wanted[at])
        ++at;
      while (at > 0 && got[at - 1] != '\n')
        --at;
      fail_msg("%s leaves:\n%.300s\n--- in place of:\n%.300s", refusals[i].name,
               got + at, wanted + at);
    }
  }
}
