// SPDX-License-Identifier: Apache-2.0
// Steps of mirrored strategies as objects, and monitors that run them.
#include "lockstep/strategy_step.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/dataset.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/inputs.h"
#include "support/replicas.h"
#include "support/tpu_strategies.h"

typedef struct world {
  bool in_graph;
  int replicas;
  int64_t elements;  // The data set gives 0 to this less one, one by one.
  ls_strategy *strategy;
  ls_optimizer *optimizer;
  ls_variable *w;
  computation c;  // In a graph.
  ls_strategy_step *step;
  char order[200];  // Who was built, and when.
} world;

// The elements of host 0, the one there is.
static ls_nest make_elements(ls_input_context context, void *user) {
  const world *w = user;
  assert_int_equal(context.num_pipelines, 1);
  return ls_nest_dataset(whole_batches(w->elements, 1));
}

// Its gradient in w is the element.
static ls_tensor loss_of(ls_nest args, void *user) {
  world *w = user;
  const size_t at = strlen(w->order);
  snprintf(w->order + at, sizeof(w->order) - at, "<%d", ls_replica_number());
  const ls_tensor x = ls_convert(args.as.tensor, LS_DTYPE_F32);
  const ls_tensor loss =
      ls_reduce_sum(ls_mul(ls_variable_read(w->w), x), LS_ALL_AXES);
  strcat(w->order, ">");
  return loss;
}

static void begin(world *w, bool in_graph, int replicas, int64_t elements) {
  *w =
      (world){.in_graph = in_graph, .replicas = replicas, .elements = elements};
  w->strategy = mirrored_of(replicas);
  if (in_graph) {
    computation_open(&w->c);
    expect_ok(ls_session_create(w->c.graph, &w->c.session));
  }
  w->w = variable_in(w->strategy,
                     (variable_kind){.aggregation = LS_AGGREGATION_MEAN});
  expect_ok(ls_sgd_create(&(ls_sgd_options){.learning_rate = 1,
                                            .momentum = 1e-9,
                                            .over_replicas = LS_GRADIENTS_SUM},
                          &w->optimizer));
}

static void make_step(world *w, ls_opt iterations) {
  expect_ok(ls_single_loss_step_create(
      &(ls_single_loss_step_options){.strategy = w->strategy,
                                     .dataset = make_elements,
                                     .dataset_user = w,
                                     .loss = loss_of,
                                     .loss_user = w,
                                     .optimizer = w->optimizer,
                                     .iterations_per_step = iterations},
      &w->step));
}

static void end(world *w) {
  ls_strategy_step_release(w->step);
  ls_optimizer_release(w->optimizer);
  ls_variable_release(w->w);
  if (w->in_graph) computation_close(&w->c);
  ls_strategy_release(w->strategy);
}
LS_OWNED_STRUCT(world, end)

// What w has come to: less what all elements so far add up to.
static void expect_taken(world *w, int64_t elements) {
  double value = 0;
  if (w->in_graph) {
    value = computation_fetch(&w->c, ls_variable_read(w->w));
  } else {
    LS_OWN(ls_array, array) = variable_array(w->w);
    value = ls_array_f64(array, 0);
  }
  const double n = (double)elements;
  assert_true(value < -n * (n - 1) / 2 + 1e-3);
  assert_true(value > -n * (n - 1) / 2 - 1e-3);
}

// ---- Steps -----------------------------------------------------------------
TEST(what_a_step_does_not_have_is_unimplemented) {
  LS_SPEC("M169");
  for (int in_graph = 0; in_graph < 2; ++in_graph) {
    ls_strategy_step *input = NULL;
    ls_nest element = ls_none();
    ls_op op;
    LS_OWN_BEGUN(world, w, begin, in_graph, 2, 4);
    expect_ok(ls_strategy_step_create(w.strategy, &w.step));
    assert_ptr_equal(ls_strategy_step_strategy(w.step), w.strategy);
    expect_status(ls_strategy_step_run(w.step, &op), LS_UNIMPLEMENTED,
                  "cannot be run");
    expect_status(ls_strategy_step_next(w.step, &element), LS_UNIMPLEMENTED,
                  "input of a step that has none");
    expect_ok(ls_strategy_step_initialize(w.step, &op));
    assert_true(ls_op_is_failed(op));
    expect_ok(ls_input_step_create(w.strategy, make_elements, &w, &input));
    expect_status(ls_strategy_step_run(input, &op), LS_UNIMPLEMENTED,
                  "cannot be run");
    ls_strategy_step_release(input);
  }
}

TEST(each_replica_takes_an_element) {
  LS_SPEC("M169");
  for (int in_graph = 0; in_graph < 2; ++in_graph) {
    LS_OWN_BEGUN(world, w, begin, in_graph, 3, 6);
    expect_ok(ls_input_step_create(w.strategy, make_elements, &w, &w.step));
    LS_OWN(ls_nest, element) = ls_none();
    ls_op start = {0};
    expect_ok(ls_strategy_step_initialize(w.step, &start));
    assert_int_equal(ls_op_is_failed(start), !in_graph);
    if (in_graph) {
      expect_ok(computation_run(&w.c, ls_nest_op(start)));
      expect_ok(ls_strategy_step_next(w.step, &element));
    }
    for (int64_t step = 0; step < 2; ++step) {
      LS_OWN(ls_nest, got) = ls_none();
      if (in_graph) {
        ls_nest each[3];
        for (size_t r = 0; r < 3; ++r)
          each[r] = ls_nest_retain(ls_distributed_component(element, r));
        LS_OWN(ls_nest, fetches) = ls_nest_sequence(LS_KIND_LIST, each, 3);
        expect_ok(ls_session_run(w.c.session, fetches, NULL, 0, &got));
      } else {
        expect_ok(ls_strategy_step_next(w.step, &got));
      }
      for (size_t r = 0; r < 3; ++r)
        assert_true(number_of(in_graph ? ls_nest_item(got, r)
                                       : ls_distributed_component(got, r)) ==
                    (double)(3 * step + (int64_t)r));
    }
  }
}

TEST(a_single_loss_step_trains) {
  LS_SPEC("M169 M170");
  for (int in_graph = 0; in_graph < 2; ++in_graph)
    for (int replicas = 1; replicas <= 3; ++replicas)
      for (int64_t k = 1; k <= 3; k += 2) {
        ls_step_monitor *monitor = NULL;
        int64_t done = -1;
        // One step of the optimizer is missing at the end of the last but one.
        LS_OWN_BEGUN(world, w, begin, in_graph, replicas,
                     (6 * k - 1) * replicas);
        make_step(&w, k == 1 ? (ls_opt){0} : LS_SOME(k));
        expect_ok(ls_step_monitor_create(w.step, in_graph ? w.c.session : NULL,
                                         &monitor));
        if (in_graph) expect_taken(&w, 0);
        expect_ok(ls_step_monitor_run_steps(monitor, LS_SOME(2), &done));
        assert_int_equal(done, 2);
        expect_taken(&w, 2 * k * replicas);
        // Replicas were built one after the other: once, or for each trace.
        static const char *const orders[] = {"<0>", "<0><1>", "<0><1><2>"};
        assert_memory_equal(w.order, orders[replicas - 1],
                            strlen(orders[replicas - 1]));
        const size_t built = strlen(w.order);
        expect_ok(ls_step_monitor_run_steps(monitor, LS_SOME(0), &done));
        assert_int_equal(done, 0);
        expect_ok(ls_step_monitor_run_steps(monitor, LS_SOME(1), NULL));
        expect_taken(&w, 3 * k * replicas);
        // Until the data ends, which no step that is not whole counts for.
        expect_ok(ls_step_monitor_run_steps(monitor, (ls_opt){0}, &done));
        assert_int_equal(done, 2);
        expect_taken(&w, (6 * k - 1) * replicas);
        expect_ok(ls_step_monitor_run_steps(monitor, LS_SOME(5), &done));
        assert_int_equal(done, 0);
        assert_int_equal(strlen(w.order), built);
        ls_step_monitor_destroy(monitor);
      }
}

// ---- Monitors --------------------------------------------------------------
TEST(a_monitor_has_a_session_in_graphs_alone) {
  LS_SPEC("M170");
  for (int in_graph = 0; in_graph < 2; ++in_graph) {
    LS_OWN(world, w) = {0};
    ls_step_monitor *monitor = NULL;
    LS_OWN(ls_graph, other) = NULL;
    begin(&w, in_graph, 2, 4);
    make_step(&w, (ls_opt){0});
    expect_ok(ls_graph_create("other", &other));
    LS_OWN(ls_session, session) = session_of(other);
    expect_status(
        ls_step_monitor_create(w.step, in_graph ? NULL : session, &monitor),
        LS_INVALID_ARGUMENT,
        in_graph ? "should provide" : "should not provide");
    assert_null(monitor);
  }
}

static ls_tensor vector_loss(ls_nest args, void *user) {
  const world *w = user;
  (void)args;
  return ls_mul(ls_variable_read(w->w), ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 1));
}

TEST(other_failures_are_the_callers) {
  LS_SPEC("M170");
  for (int in_graph = 0; in_graph < 2; ++in_graph) {
    ls_step_monitor *monitor = NULL;
    LS_OWN_BEGUN(world, w, begin, in_graph, 2, 4);
    expect_ok(ls_single_loss_step_create(
        &(ls_single_loss_step_options){.strategy = w.strategy,
                                       .dataset = make_elements,
                                       .dataset_user = &w,
                                       .loss = vector_loss,
                                       .loss_user = &w,
                                       .optimizer = w.optimizer},
        &w.step));
    ls_status status =
        ls_step_monitor_create(w.step, in_graph ? w.c.session : NULL, &monitor);
    int64_t done = -1;
    if (!in_graph) {
      expect_ok(status);
      status = ls_step_monitor_run_steps(monitor, (ls_opt){0}, &done);
      assert_int_equal(done, 0);
    }
    expect_status(status, LS_INVALID_ARGUMENT, "a loss must be a float scalar");
    ls_step_monitor_destroy(monitor);
  }
}

TEST(steps_that_cannot_be_are_refused) {
  LS_OWN_BEGUN(world, w, begin, false, 2, 4);
  LS_OWN(ls_strategy, tpu) = tpu_strategy_of(2);
  ls_single_loss_step_options options = {.strategy = w.strategy,
                                         .dataset = make_elements,
                                         .dataset_user = &w,
                                         .loss = loss_of,
                                         .optimizer = w.optimizer,
                                         .iterations_per_step = LS_SOME(0)};
  expect_status(ls_single_loss_step_create(&options, &w.step),
                LS_INVALID_ARGUMENT,
                "iterations_per_step must be positive, got 0");
  options.iterations_per_step = (ls_opt){0};
  options.strategy = tpu;
  expect_status(ls_single_loss_step_create(&options, &w.step), LS_UNIMPLEMENTED,
                "ls_strategy_run_steps");
  options.strategy = w.strategy;
  options.loss = NULL;
  expect_status(ls_single_loss_step_create(&options, &w.step),
                LS_INVALID_ARGUMENT, "loss");
  assert_null(w.step);
}
