// SPDX-License-Identifier: Apache-2.0
// Iterators in graphs: ops that read and start them.
#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/runtime_internal.h"
#include "distribute/own.h"
#include "lockstep/eager.h"
#include "lockstep/element_spec.h"
#include "lockstep/flow.h"
#include "lockstep/graph_ops.h"
#include "lockstep/session.h"
#include "lockstep/strategy_extended.h"
#include "support/function.h"
#include "support/inputs.h"
#include "support/place.h"
#include "support/replicas.h"

// What tests run: a graph, and what is fetched of it.
typedef struct graph_run {
  ls_graph *graph;
  ls_session *session;
  ls_nest fetch;
} graph_run;

static graph_run run_of(ls_graph *graph, ls_nest fetch) {
  graph_run run = {.graph = graph, .fetch = fetch};
  expect_ok(ls_session_create(graph, &run.session));
  return run;
}

static void end_run(graph_run *run) {
  ls_session_destroy(run->session);
  ls_nest_release(run->fetch);
  ls_graph_destroy(run->graph);
}
LS_OWNED_STRUCT(graph_run, end_run)

// A list of a leaf's components.
static ls_nest components_of(ls_nest leaf) {
  ls_nest items[8];
  const size_t count = ls_distributed_count(leaf);
  for (size_t r = 0; r < count; ++r)
    items[r] = ls_nest_retain(ls_distributed_component(leaf, r));
  return count == 0 ? LS_LIST(ls_nest_retain(leaf))
                    : ls_nest_sequence(LS_KIND_LIST, items, count);
}

// Runs it once: what the replicas got, as print_dealt says.
static ls_status run_once(graph_run *run, char *text, size_t size) {
  LS_OWN(ls_nest, results) = ls_none();
  LS_RETURN_IF_ERROR(
      ls_session_run(run->session, run->fetch, NULL, 0, &results));
  ls_nest items[8];
  const size_t count = ls_nest_count(results);
  for (size_t r = 0; r < count; ++r)
    items[r] = ls_nest_retain(ls_nest_item(results, r));
  LS_OWN(ls_nest, value) = ls_nest_distributed(LS_PER_REPLICA, items, count);
  print_dealt(value, text, size);
  return ls_ok();
}

static void expect_run(graph_run *run, const char *want) {
  char text[200];
  expect_ok(run_once(run, text, sizeof(text)));
  assert_string_equal(text, want);
}

static void expect_end(graph_run *run) {
  char text[200];
  for (int i = 0; i < 2; ++i)
    expect_status(run_once(run, text, sizeof(text)), LS_OUT_OF_RANGE,
                  "is at the end");
}

static void run_op(graph_run *run, ls_op op) {
  LS_OWN(ls_nest, results) = session_results(run->session, ls_nest_op(op));
}

// ---- Initializable ----------------------------------------------------------
TEST(an_initializable_iterator_starts_again) {
  LS_SPEC("T138 M64");
  ls_strategy *all[] = {mirrored_of(2), pod_of_tasks(2, 1)};
  for (size_t i = 0; i < LS_COUNT_OF(all); ++i) {
    ls_distributed_iterator *iterator = NULL;
    ls_op start = {0}, again = {0};
    ls_nest element = ls_none();
    ls_graph *graph = graph_named("input");
    {
      LS_GRAPH_SCOPE(graph);
      const ls_nest data = ls_nest_dataset(whole_batches(8, 4));
      expect_ok(ls_strategy_make_dataset_iterator(all[i], data, &iterator));
      ls_nest_release(data);
      expect_ok(ls_distributed_iterator_initializer(iterator, &start));
      expect_ok(ls_distributed_iterator_initializer(iterator, &again));
      assert_int_equal(start.id, again.id);
      element = ls_distributed_iterator_get_next(iterator);
      expect_ok(ls_nest_status(element));
    }
    graph_run run = run_of(graph, components_of(element));
    char text[200];
    expect_status(run_once(&run, text, sizeof(text)), LS_FAILED_PRECONDITION,
                  "is not initialized: run its initializer");
    run_op(&run, start);
    expect_run(&run, "[0 1] [2 3]");
    // In the middle.
    run_op(&run, start);
    expect_run(&run, "[0 1] [2 3]");
    expect_run(&run, "[4 5] [6 7]");
    expect_end(&run);
    run_op(&run, start);
    expect_run(&run, "[0 1] [2 3]");
    ls_nest_release(element);
    ls_distributed_iterator_release(iterator);
    end_run(&run);
    ls_strategy_release(all[i]);
  }
}

static ls_nest make_batches(ls_input_context context, void *user) {
  *(int *)user += 1;
  return ls_nest_dataset(ls_dataset_batch(
      ls_dataset_range(100 * context.pipeline, 100 * context.pipeline + 4, 1),
      &(ls_batch_options){.size = 2, .remainder = LS_REMAINDER_DROP}));
}

TEST(an_input_function_has_an_iterator) {
  LS_SPEC("T139 V200");
  LS_OWN(ls_strategy, pod) = pod_of_tasks(2, 1);
  ls_distributed_iterator *iterator = NULL;
  ls_op start = {0};
  ls_nest element = ls_none();
  int calls = 0;
  ls_graph *graph = graph_named("input");
  {
    LS_GRAPH_SCOPE(graph);
    expect_status(ls_strategy_make_input_fn_iterator(pod, make_batches, &calls,
                                                     LS_PIPELINE_PER_REPLICA,
                                                     &iterator),
                  LS_INVALID_ARGUMENT, "PER_REPLICA");
    assert_int_equal(calls, 0);
    expect_ok(ls_strategy_make_input_fn_iterator(
        pod, make_batches, &calls, LS_PIPELINE_PER_WORKER, &iterator));
    assert_int_equal(calls, 2);
    expect_ok(ls_distributed_iterator_initializer(iterator, &start));
    element = ls_distributed_iterator_get_next(iterator);
    expect_ok(ls_nest_status(element));
  }
  LS_OWN(graph_run, run) = run_of(graph, components_of(element));
  run_op(&run, start);
  expect_run(&run, "[0 1] [100 101]");
  expect_run(&run, "[2 3] [102 103]");
  expect_end(&run);
  ls_nest_release(element);
  ls_distributed_iterator_release(iterator);
}

TEST(eager_has_no_initializable_iterators) {
  LS_SPEC("M64");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  ls_distributed_iterator *iterator = NULL;
  LS_OWN(ls_nest, data) = ls_nest_dataset(whole_batches(8, 4));
  expect_status(ls_strategy_make_dataset_iterator(two, data, &iterator),
                LS_FAILED_PRECONDITION, "eager mode");
  assert_null(iterator);
}

// ---- One-shot ---------------------------------------------------------------
TEST(a_one_shot_iterator_needs_no_start) {
  LS_SPEC("M59 M60 M61 M62 T154");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  const ls_flag flags[] = {LS_FLAG_DEFAULT, LS_FLAG_ON, LS_FLAG_OFF};
  for (size_t i = 0; i < LS_COUNT_OF(flags); ++i) {
    ls_distributed_iterator *iterator = NULL;
    ls_nest element = ls_none();
    ls_graph *graph = graph_named("input");
    {
      LS_GRAPH_SCOPE(graph);
      const ls_nest data = distributed(
          two, ls_dataset_range(0, 5, 1),
          &(ls_input_options){.whole_elements = true, .prefetch = flags[i]});
      expect_status(ls_distributed_iterator_create(data, NULL, &iterator),
                    LS_FAILED_PRECONDITION, "is built for sessions");
      expect_ok(ls_distributed_iterator_create(
          data,
          &(ls_distributed_iterator_options){.kind = LS_ITERATOR_ONE_SHOT},
          &iterator));
      ls_nest_release(data);
      element = ls_distributed_iterator_get_next(iterator);
      expect_ok(ls_nest_status(element));
      for (int r = 0; r < 2; ++r) {
        const ls_nest part = ls_distributed_component(element, (size_t)r);
        char want[80];
        snprintf(want, sizeof(want),
                 "/job:localhost/replica:0/task:0/device:CPU:%d", r);
        assert_string_equal(ls_op_device(ls_tensor_op(part.as.tensor)), want);
      }
    }
    LS_OWN(graph_run, run) = run_of(graph, components_of(element));
    expect_run(&run, "0 1");
    expect_run(&run, "2 3");
    expect_end(&run);
    ls_nest_release(element);
    ls_distributed_iterator_release(iterator);
  }
}

// One component alone is still one step's.
TEST(whatever_is_fetched_a_run_is_a_step) {
  LS_SPEC("M61");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  ls_distributed_iterator *iterator = NULL;
  ls_nest element = ls_none();
  ls_graph *graph = graph_named("input");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_nest data = distributed(two, whole_batches(12, 4), NULL);
    expect_ok(ls_distributed_iterator_create(
        data, &(ls_distributed_iterator_options){.kind = LS_ITERATOR_ONE_SHOT},
        &iterator));
    ls_nest_release(data);
    element = ls_distributed_iterator_get_next(iterator);
  }
  LS_OWN(graph_run, all) = run_of(graph, components_of(element));
  graph_run second = {
      .session = all.session,
      .fetch = LS_LIST(ls_nest_retain(ls_distributed_component(element, 1)))};
  expect_run(&second, "[2 3]");
  expect_run(&all, "[4 5] [6 7]");
  expect_run(&second, "[10 11]");
  expect_end(&all);
  ls_nest_release(second.fetch);
  ls_nest_release(element);
  ls_distributed_iterator_release(iterator);
}

// ---- Optional ---------------------------------------------------------------
TEST(the_end_can_be_a_value) {
  LS_SPEC("T153");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_distributed_iterator, iterator) = NULL;
  ls_nest made = ls_none();
  ls_graph *graph = graph_named("input");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_nest data = distributed(two, whole_batches(5, 4), NULL);
    expect_ok(ls_distributed_iterator_create(
        data, &(ls_distributed_iterator_options){.kind = LS_ITERATOR_ONE_SHOT},
        &iterator));
    ls_nest_release(data);
    made = ls_distributed_iterator_get_next_as_optional(iterator);
    expect_ok(ls_nest_status(made));
  }
  graph_run has = run_of(graph, LS_LIST(ls_nest_retain(ls_nest_item(made, 0))));
  graph_run value = {.session = has.session,
                     .fetch = components_of(ls_nest_item(made, 1))};
  expect_run(&value, "[0 1] [2 3]");
  expect_run(&has, "0");
  expect_run(&value, "[0 0] [0 0]");
  ls_nest_release(value.fetch);
  ls_nest_release(made);
  ls_distributed_iterator_release(iterator);
  end_run(&has);
  // In eager.
  iterator = iterator_on(distributed(two, number_batches(3, 2), NULL));
  const bool wanted[] = {true, true, false, false};
  const char *const dealt[] = {"[0] [1]", "[2] []", "[] []", "[] []"};
  for (size_t i = 0; i < LS_COUNT_OF(wanted); ++i) {
    char text[100];
    made = ls_distributed_iterator_get_next_as_optional(iterator);
    expect_ok(ls_nest_status(made));
    assert_true(ls_nest_number(ls_nest_item(made, 0)) == wanted[i]);
    assert_string_equal(print_dealt(ls_nest_item(made, 1), text, sizeof(text)),
                        dealt[i]);
    ls_nest_release(made);
  }
  ls_distributed_iterator_release(iterator);
  // Zeros, as in graphs.
  iterator = iterator_on(distributed(two, whole_batches(4, 4), NULL));
  ls_nest_release(ls_distributed_iterator_get_next_as_optional(iterator));
  made = ls_distributed_iterator_get_next_as_optional(iterator);
  char text[100];
  assert_string_equal(print_dealt(ls_nest_item(made, 1), text, sizeof(text)),
                      "[0 0] [0 0]");
  ls_nest_release(made);
}

// ---- In functions -----------------------------------------------------------
typedef struct stepper {
  ls_strategy *strategy;
  ls_distributed_iterator *iterator;
} stepper;

static ls_nest times_ten(ls_nest args, void *user) {
  (void)user;
  ls_tensor x;
  const ls_status status = ls_distributed_as_tensor(ls_nest_item(args, 0), &x);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  return ls_leaf(ls_mul_scalar(x, 10));
}

static ls_nest read_and_run(ls_nest args, void *user) {
  (void)args;
  stepper *s = user;
  const ls_nest element = ls_distributed_iterator_get_next(s->iterator);
  if (ls_nest_is_failed(element)) return element;
  LS_OWN(ls_nest, inner) = LS_TUPLE(element);
  ls_nest results = ls_none();
  const ls_status status =
      ls_strategy_run(s->strategy, ls_plain(times_ten, NULL), inner, &results);
  return ls_status_is_ok(status) ? results : ls_fail(status);
}

TEST(a_function_reads_and_runs) {
  LS_SPEC("T154 T139");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  stepper s = {two, iterator_on(distributed(two, whole_batches(8, 4), NULL))};
  char text[100];
  LS_OWN(ls_function, function) = unnamed_function(read_and_run, &s);
  LS_OWN(ls_nest, results) = call_results(function, ls_none());
  assert_string_equal(print_dealt(results, text, sizeof(text)),
                      "[0 10] [20 30]");
  expect_ok(ls_function_call(function, ls_none(), &results));
  assert_string_equal(print_dealt(results, text, sizeof(text)),
                      "[40 50] [60 70]");
  expect_status(ls_function_call(function, ls_none(), &results),
                LS_OUT_OF_RANGE, "is at the end");
  expect_ok(ls_distributed_iterator_restart(s.iterator));
  expect_ok(ls_function_call(function, ls_none(), &results));
  assert_string_equal(print_dealt(results, text, sizeof(text)),
                      "[0 10] [20 30]");
  ls_distributed_iterator_release(s.iterator);
}

// ---- Refusals ---------------------------------------------------------------
TEST(an_op_needs_known_shapes) {
  LS_SPEC("T150");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_strategy, three) = mirrored_of(3);
  ls_distributed_iterator *iterator = NULL;
  LS_OWN(ls_graph, graph) = graph_named("input");
  const ls_distributed_iterator_options once = {.kind = LS_ITERATOR_ONE_SHOT};
  ls_scope scope = {0};
  ls_graph_begin(&scope, graph);
  ls_nest data = distributed(two, number_batches(7, 4), NULL);
  expect_ok(ls_distributed_iterator_create(data, &once, &iterator));
  ls_nest made = ls_distributed_iterator_get_next(iterator);
  expect_status(ls_nest_status(made), LS_INVALID_ARGUMENT,
                "leaf 0 of iterator 'iterator' is i64[?] for replica 0: an op "
                "needs a shape that is known");
  ls_nest_release(made);
  ls_nest_release(data);
  ls_distributed_iterator_release(iterator);
  // Parts of other sizes are known too.
  data = distributed(three, whole_batches(8, 4), NULL);
  expect_ok(ls_distributed_iterator_create(data, &once, &iterator));
  made = ls_distributed_iterator_get_next(iterator);
  expect_ok(ls_nest_status(made));
  for (size_t r = 0; r < 3; ++r)
    assert_int_equal(
        ls_tensor_shape(ls_distributed_component(made, r).as.tensor).dim[0],
        r == 0 ? 2 : 1);
  ls_nest_release(made);
  ls_nest_release(data);
  ls_distributed_iterator_release(iterator);
  ls_scope_end(&scope);
}

static int warnings;
static void count_warning(void *user, const ls_log_line *line) {
  (void)user;
  if (line->level == LS_LOG_WARNING && strstr(line->text, "get_next") != NULL)
    ++warnings;
}

TEST(many_reading_ops_are_warned_of) {
  LS_SPEC("M63");
  LS_OWN(open_place, home) =
      runtime_begin((ls_runtime_options){.log = count_warning});
  LS_OWN(ls_strategy, one) = mirrored_of(1);
  LS_OWN(ls_graph, graph) = graph_named("input");
  LS_OWN(ls_distributed_iterator, iterator) = NULL;
  {
    LS_GRAPH_SCOPE(graph);
    const ls_nest data = distributed(one, whole_batches(8, 4), NULL);
    expect_ok(ls_distributed_iterator_create(
        data, &(ls_distributed_iterator_options){.kind = LS_ITERATOR_ONE_SHOT},
        &iterator));
    ls_nest_release(data);
    warnings = 0;
    for (int i = 1; i <= 35; ++i) {
      ls_nest_release(ls_distributed_iterator_get_next(iterator));
      assert_int_equal(warnings, i > 32 ? i - 32 : 0);
    }
  }
}

// ---- Slow input -------------------------------------------------------------
static ls_status make_slowly(ls_nest element, ls_nest out,
                             const ls_map_call *call, void *user) {
  (void)call;
  (void)user;
  ls_runtime_sleep(ls_runtime_current(), 20 * 1000 * 1000);
  ls_array_set_i64(ls_nest_as_array(out), 0,
                   ls_array_i64(ls_nest_as_array(element), 0));
  return ls_ok();
}

// A batch takes 20 times what an element takes.
static ls_dataset *slow_batches(void) {
  return ls_dataset_batch(
      ls_dataset_map(
          ls_dataset_range(0, 20, 1),
          &(ls_map_options){.fill = make_slowly,
                            .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)}),
      &(ls_batch_options){.size = 20});
}

static ls_nest read_plain(ls_nest args, void *user) {
  (void)args;
  return ls_iterator_get_next(user);
}

static ls_nest read_distributed(ls_nest args, void *user) {
  (void)args;
  return ls_distributed_iterator_get_next(user);
}

TEST(input_that_goes_on_is_no_stall) {
  for (int threads = 0; threads < 2; ++threads) {
    LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){
        .stall_ms = 150, .input_threads = LS_SOME(threads)});
    LS_OWN(ls_strategy, two) = mirrored_of(2);
    ls_dataset *dataset = slow_batches();
    LS_OWN(ls_iterator, plain) = NULL;
    expect_ok(ls_iterator_create(dataset, NULL, &plain));
    LS_OWN(ls_distributed_iterator, iterator) =
        iterator_on(distributed(two, dataset, NULL));
    ls_function *functions[2] = {NULL};
    expect_ok(ls_function_create(
        &(ls_function_options){.call = read_plain, .user = plain},
        &functions[0]));
    expect_ok(ls_function_create(
        &(ls_function_options){.call = read_distributed, .user = iterator},
        &functions[1]));
    for (int i = 0; i < 2; ++i) {
      LS_OWN(ls_nest, results) = call_results(functions[i], ls_none());
      ls_function_release(functions[i]);
    }
  }
}
