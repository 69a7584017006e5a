// SPDX-License-Identifier: Apache-2.0
//
// The op that reads an iterator: traced, op by op, in sessions, in loops and on
// replicas; several runs at once; the end of data; what cancels it; what is a
// stall and what is not.
#if defined(__linux__)
#define _GNU_SOURCE  // For the default attributes of threads.
#endif
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "data/iterator.h"
#include "data/own.h"
#include "lockstep/cancel.h"
#include "lockstep/element_spec.h"
#include "lockstep/flow.h"
#include "lockstep/runtime_settings.h"
#include "lockstep/session.h"
#include "support/callbacks.h"
#include "support/counted.h"
#include "support/function.h"
#include "support/pipelines.h"
#include "support/place.h"
#include "support/sanitizer.h"
#include "support/values.h"

// ---- A pipeline whose map may be slow, or hang -----------------------------
typedef struct slow_map {
  int sleep_us;
  int hangs;   // Atomic: until it is 0.
  int64_t at;  // The number that hangs.
  int calls;   // Atomic.
} slow_map;

static ls_status go_slow(ls_nest element, ls_nest out, const ls_map_call *call,
                         void *user) {
  slow_map *self = user;
  (void)call;
  __atomic_fetch_add(&self->calls, 1, __ATOMIC_RELAXED);
  if (self->sleep_us > 0) usleep((useconds_t)self->sleep_us);
  while (number_in(element) == self->at &&
         __atomic_load_n(&self->hangs, __ATOMIC_RELAXED))
    usleep(200);
  *(float *)ls_nest_data(out, 0) = (float)number_in(element);
  return ls_ok();
}

static ls_iterator *slow_iterator(slow_map *self, int64_t count, int64_t batch,
                                  int64_t prefetch) {
  LS_OWN(ls_dataset, d) = ls_dataset_map(
      count_to(count),
      &(ls_map_options){.name = "go_slow",
                        .fill = go_slow,
                        .user = self,
                        .result = ls_nest_spec(LS_DTYPE_F32, LS_SCALAR)});
  if (batch > 0)
    d = ls_dataset_batch(
        d, &(ls_batch_options){.size = batch, .remainder = LS_REMAINDER_DROP});
  ls_iterator *iterator = NULL;
  expect_ok(ls_iterator_create(
      d, &(ls_iterator_options){.name = "slow", .prefetch = LS_SOME(prefetch)},
      &iterator));
  return iterator;
}

// ---- Ways to run -----------------------------------------------------------
static ls_tensor next_of(ls_iterator *iterator) {
  LS_OWN(ls_nest, element) = ls_iterator_get_next(iterator);
  expect_ok(ls_nest_status(element));
  return ls_nest_is_node(element) ? ls_nest_tensor(element, 0)
                                  : element.as.tensor;
}

static ls_nest traced_next(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(ls_mul_scalar(next_of(user), 2));
}

TEST(a_traced_call_reads_one) {
  for (int prefetch = 0; prefetch < 3; ++prefetch) {
    slow_map map = {.at = -1};
    LS_OWN(ls_iterator, iterator) = slow_iterator(&map, 5, 0, prefetch);
    LS_OWN(ls_nest, results) = ls_none();
    LS_OWN(ls_function, function) = unnamed_function(traced_next, iterator);
    for (int i = 0; i < 5; ++i) {
      expect_ok(ls_function_call(function, ls_none(), &results));
      assert_true(ls_array_f64(ls_nest_as_array(results), 0) == 2 * i);
      assert_int_equal(ls_iterator_position(iterator), i + 1);
    }
    for (int i = 0; i < 2; ++i)
      expect_status(ls_function_call(function, ls_none(), &results),
                    LS_OUT_OF_RANGE, "the end of 'slow'");
    expect_ok(ls_iterator_restart(iterator));
    expect_ok(ls_function_call(function, ls_none(), &results));
    assert_true(ls_array_f64(ls_nest_as_array(results), 0) == 0);
  }
}

// Elements so large that a run reads them where they are, and more of them than
// an iterator keeps to write again.
enum { SEVERAL = LS_RETURNED + 2, ROWS = 256 };

static ls_nest sums_of_several(ls_nest args, void *user) {
  ls_nest items[SEVERAL];
  (void)args;
  for (int i = 0; i < SEVERAL; ++i)
    items[i] = ls_leaf(ls_reduce_sum(next_of(user), LS_ALL_AXES));
  return ls_nest_sequence(LS_KIND_LIST, items, SEVERAL);
}

TEST(a_call_gives_back_more_elements_than_are_kept) {
  for (int prefetch = 0; prefetch < 3; ++prefetch) {
    LS_OWN(counted, memory) = counted_begin(1);
    slow_map map = {.at = -1};
    LS_OWN(ls_iterator, iterator) =
        slow_iterator(&map, 3 * SEVERAL * ROWS, ROWS, prefetch);
    LS_OWN(ls_nest, results) = ls_none();
    LS_OWN(ls_function, function) = unnamed_function(sums_of_several, iterator);
    for (size_t k = 0; k < 3 * SEVERAL; ++k) {
      if (k % SEVERAL == 0)
        expect_ok(ls_function_call(function, ls_none(), &results));
      const double mean = ROWS * (double)k + (ROWS - 1) / 2.0;
      assert_true(ls_nest_number(ls_nest_item(results, k % SEVERAL)) ==
                  ROWS * mean);
    }
  }
}

TEST(an_eager_op_reads_one) {
  for (int prefetch = 0; prefetch < 3; ++prefetch) {
    slow_map map = {.at = -1};
    LS_OWN(ls_iterator, iterator) = slow_iterator(&map, 5, 0, prefetch);
    expect_ok(ls_frame_begin());
    for (int i = 0; i < 5; ++i)
      assert_true(item_of(next_of(iterator)) == i);
    expect_ok(ls_frame_end(NULL));
    expect_ok(ls_frame_begin());
    const ls_tensor behind = next_of(iterator);
    expect_status(ls_tensor_status(behind), LS_OUT_OF_RANGE,
                  "the end of 'slow'");
    expect_ok(ls_frame_end(NULL));
  }
}

// A graph with a loop that adds up `trips` elements.
typedef struct sum_loop {
  ls_iterator *iterator;
  ls_variable *count;
} sum_loop;

static ls_nest trip(ls_nest values, void *user) {
  const sum_loop *self = user;
  const ls_tensor x = next_of(self->iterator);
  if (self->count != NULL)
    (void)ls_variable_assign_add(self->count, ls_scalar(LS_DTYPE_F32, 1));
  return ls_leaf(ls_add(values.kind == LS_KIND_LIST ? ls_nest_tensor(values, 0)
                                                    : values.as.tensor,
                        x));
}

typedef struct graph_of {
  ls_graph *graph;
  ls_session *session;
  ls_nest fetch, results;
} graph_of;

static void begin_loop(graph_of *g, sum_loop *loop, int64_t trips) {
  *g = (graph_of){0};
  expect_ok(ls_graph_create("sums", &g->graph));
  {
    LS_GRAPH_SCOPE(g->graph);
    g->fetch = ls_while(always_true, trip, loop,
                        ls_leaf(ls_scalar(LS_DTYPE_F32, 0)), trips);
    expect_ok(ls_nest_status(g->fetch));
  }
  expect_ok(ls_session_create(g->graph, &g->session));
}

static ls_status run_graph(graph_of *g) {
  return ls_session_run(g->session, g->fetch, NULL, 0, &g->results);
}

static double result_of(const graph_of *g) {
  return ls_array_f64(ls_nest_as_array(g->results), 0);
}

static void end_graph(graph_of *g) {
  ls_nest_release(g->fetch);
  ls_nest_release(g->results);
  ls_session_destroy(g->session);
  ls_graph_destroy(g->graph);
}

TEST(a_loop_reads_one_each_trip) {
  for (int prefetch = 0; prefetch < 5; prefetch += 2) {
    slow_map map = {.at = -1};
    sum_loop loop = {.iterator = slow_iterator(&map, 100, 0, prefetch)};
    graph_of g;
    begin_loop(&g, &loop, 30);
    for (int run = 0; run < 3; ++run) {
      expect_ok(run_graph(&g));
      const double first = 30 * run, last = first + 29;
      assert_true(result_of(&g) == (first + last) * 15);
    }
    expect_status(run_graph(&g), LS_OUT_OF_RANGE, "the end of 'slow'");
    expect_status(run_graph(&g), LS_OUT_OF_RANGE, "the end of 'slow'");
    expect_ok(ls_iterator_restart(loop.iterator));
    expect_ok(run_graph(&g));
    end_graph(&g);
    ls_iterator_release(loop.iterator);
  }
}

// ---- Replicas --------------------------------------------------------------
static ls_nest next_on_replica(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(next_of(user));
}

TEST(replicas_read_in_their_order) {
  for (int prefetch = 0; prefetch < 3; ++prefetch)
    for (int replicas = 1; replicas <= 4; ++replicas) {
      slow_map map = {.at = -1};
      LS_OWN(ls_iterator, iterator) = slow_iterator(&map, 12, 0, prefetch);
      LS_OWN(ls_nest, made) =
          call_on(replicas, next_on_replica, iterator, ls_none(), 3);
      bool seen[12] = {false};
      for (int r = 0; r < replicas; ++r) {
        const ls_nest own = ls_distributed_count(made) > 0
                                ? ls_distributed_component(made, (size_t)r)
                                : made;
        const int value = (int)ls_array_f64(ls_nest_as_array(own), 0);
        assert_in_range(value, 2 * replicas, 3 * replicas - 1);
        assert_false(seen[value]);
        seen[value] = true;
      }
      assert_int_equal(ls_iterator_position(iterator), 3 * replicas);
    }
}

// ---- Strings and many leaves -----------------------------------------------
static ls_nest pass_strings(ls_nest args, void *user) {
  (void)args;
  return ls_iterator_get_next(user);
}

TEST(strings_and_nests_come_through) {
  const ls_bytes words[] = {{"one", 3}, {"", 0}, {"three", 5}, {"4", 1}};
  for (int prefetch = 0; prefetch < 3; ++prefetch) {
    ls_array *array = NULL;
    expect_ok(
        ls_array_create_copy(LS_DTYPE_STRING, LS_SHAPE(4), words, &array));
    const char *const keys[] = {"text", "at"};
    ls_dataset *d = ls_dataset_zip(ls_nest_dict(
        "", keys,
        (ls_nest[]){
            ls_nest_dataset(ls_dataset_from_arrays(ls_nest_array(array))),
            ls_nest_dataset(count_to(4))},
        2));
    d = ls_dataset_batch(d, &(ls_batch_options){.size = 2});
    LS_OWN(ls_iterator, iterator) = pipeline_iterator(d, LS_SOME(prefetch));
    ls_nest results[2] = {ls_none(), ls_none()};
    LS_OWN(ls_function, function) = unnamed_function(pass_strings, iterator);
    for (int i = 0; i < 2; ++i)
      expect_ok(ls_function_call(function, ls_none(), &results[i]));
    for (int i = 0; i < 4; ++i) {
      const ls_nest found = ls_nest_find(results[i / 2], "text");
      const ls_bytes *found_words = ls_array_data(ls_nest_as_array(found));
      assert_int_equal(found_words[i % 2].size, words[i].size);
      assert_memory_equal(found_words[i % 2].data, words[i].data,
                          words[i].size);
      assert_int_equal(
          ls_array_i64(ls_nest_as_array(ls_nest_find(results[i / 2], "at")),
                       i % 2),
          i);
      if (i % 2) ls_nest_release(results[i / 2]);
    }
  }
  LS_OWN(ls_iterator, iterator) = pipeline_iterator(
      ls_dataset_batch(count_to(5), &(ls_batch_options){.size = 2}),
      LS_SOME(0));
  LS_OWN(ls_nest, refused) = ls_iterator_get_next(iterator);
  expect_status(ls_nest_status(refused), LS_INVALID_ARGUMENT,
                "leaf 0 is i64[?]: drop or pad a last batch");
}

// ---- The end of data -------------------------------------------------------
TEST(variables_keep_the_last_whole_steps_values) {
  for (int prefetch = 0; prefetch < 3; ++prefetch) {
    slow_map map = {.at = -1};
    const double zero = 0;
    sum_loop loop = {.iterator = slow_iterator(&map, 7, 0, prefetch),
                     .count =
                         variable_of("count", LS_DTYPE_F32, LS_SCALAR, &zero)};
    LS_OWN(ls_nest, results) = ls_none();
    LS_OWN(ls_function, function) = unnamed_function(trip, &loop);
    const double one = 1;
    LS_OWN(ls_nest, args) =
        ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, &one));
    for (int i = 0; i < 7; ++i)
      expect_ok(ls_function_call(function, args, &results));
    for (int i = 0; i < 3; ++i)
      expect_status(ls_function_call(function, args, &results), LS_OUT_OF_RANGE,
                    "the end of 'slow'");
    const double seven = 7;
    expect_variable(loop.count, &seven, 1, 0);
    ls_variable_release(loop.count);
    ls_iterator_release(loop.iterator);
  }
}

// ---- Several runs at once --------------------------------------------------
enum { RUNS = 4 };
typedef struct runner {
  graph_of graph;
  double sum;
  int runs;
  pthread_t thread;
} runner;

static void *run_to_the_end(void *user) {
  runner *self = user;
  for (;;) {
    ls_status status = run_graph(&self->graph);
    if (ls_status_code(status) == LS_OUT_OF_RANGE) {
      ls_status_free(status);
      return NULL;
    }
    expect_ok(status);
    self->sum += result_of(&self->graph);
    ++self->runs;
  }
}

TEST(runs_at_the_same_time_share_the_elements) {
  for (int prefetch = 0; prefetch < 6; prefetch += 2) {
    slow_map map = {.at = -1, .sleep_us = 20};
    sum_loop loop = {.iterator = slow_iterator(&map, 600, 0, prefetch)};
    runner runners[RUNS];
    memset(runners, 0, sizeof(runners));
    for (int i = 0; i < RUNS; ++i)
      begin_loop(&runners[i].graph, &loop, 1);
    for (int i = 0; i < RUNS; ++i)
      assert_int_equal(
          pthread_create(&runners[i].thread, NULL, run_to_the_end, &runners[i]),
          0);
    double sum = 0;
    int runs = 0;
    for (int i = 0; i < RUNS; ++i) {
      assert_int_equal(pthread_join(runners[i].thread, NULL), 0);
      sum += runners[i].sum;
      runs += runners[i].runs;
    }
    assert_int_equal(runs, 600);
    assert_true(sum == 599.0 * 600 / 2);
    for (int i = 0; i < RUNS; ++i)
      end_graph(&runners[i].graph);
    ls_iterator_release(loop.iterator);
  }
}

// ---- Leaving ---------------------------------------------------------------
static void *request(void *cancel) {
  usleep(2000);
  ls_cancel_request(cancel);
  return NULL;
}

TEST(a_cancelled_run_leaves_the_line) {
  slow_map map = {.hangs = 1, .at = 0};
  sum_loop loop = {.iterator = slow_iterator(&map, 10, 0, 2)};
  graph_of g;
  begin_loop(&g, &loop, 3);
  ls_cancel *cancel = NULL;
  expect_ok(ls_cancel_create(ls_runtime_current(), &cancel));
  for (int i = 0; i < 10; ++i) {
    pthread_t thread;
    assert_null(ls_cancel_make_current(cancel));
    assert_int_equal(pthread_create(&thread, NULL, request, cancel), 0);
    expect_status(run_graph(&g), LS_CANCELLED, "");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ptr_equal(ls_cancel_make_current(NULL), cancel);
    ls_cancel_reset(cancel);
  }
  // Nothing was taken.
  assert_int_equal(ls_iterator_position(loop.iterator), 0);
  __atomic_store_n(&map.hangs, 0, __ATOMIC_RELAXED);
  expect_ok(run_graph(&g));
  assert_true(result_of(&g) == 0 + 1 + 2);
  assert_int_equal(ls_runtime_abandoned_calls(ls_runtime_current()), 0);
  ls_cancel_destroy(cancel);
  end_graph(&g);
  ls_iterator_release(loop.iterator);
}

static void *close_session(void *user) {
  usleep(3000);
  expect_ok(ls_session_close(((graph_of *)user)->session));
  return NULL;
}

TEST(a_closed_session_leaves_the_line) {
  slow_map map = {.hangs = 1, .at = 2};
  sum_loop loop = {.iterator = slow_iterator(&map, 10, 0, 2)};
  graph_of g;
  begin_loop(&g, &loop, 5);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, close_session, &g), 0);
  expect_status(run_graph(&g), LS_CANCELLED, "session was closed");
  assert_int_equal(pthread_join(thread, NULL), 0);
  end_graph(&g);
  // It is released while its thread is at work.
  __atomic_store_n(&map.hangs, 0, __ATOMIC_RELAXED);
  ls_iterator_release(loop.iterator);
}

// ---- Standing still --------------------------------------------------------

// 100 elements of 4 ms each make a batch of 0.4 s, where 0.1 s is a stall.
TEST(a_slow_map_is_no_stall) {
  for (int threads = 0; threads < 3; ++threads) {
    LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){
        .threads = 1, .input_threads = LS_SOME(threads), .stall_ms = 100});
    slow_map map = {.at = -1, .sleep_us = 4000};
    sum_loop loop = {.iterator = slow_iterator(&map, 100, 100, 1)};
    expect_ok(ls_frame_begin());
    const ls_tensor batch = next_of(loop.iterator);
    assert_true(item_of(ls_reduce_sum(batch, LS_ALL_AXES)) == 99.0 * 100 / 2);
    expect_ok(ls_frame_end(NULL));
    ls_iterator_release(loop.iterator);
  }
}

TEST(a_pipeline_that_hangs_is_named) {
  for (int batches = 0; batches < 2; ++batches) {
    LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){
        .threads = 1, .input_threads = LS_SOME(2), .stall_ms = 100});
    slow_map map = {.hangs = 1, .at = 3};
    sum_loop loop = {.iterator = slow_iterator(&map, 100, batches ? 1 : 0, 2)};
    graph_of g;
    expect_ok(ls_graph_create("one", &g.graph));
    {
      LS_GRAPH_SCOPE(g.graph);
      g.fetch = ls_leaf(next_of(loop.iterator));
      g.results = ls_none();
    }
    expect_ok(ls_session_create(g.graph, &g.session));
    for (int i = 0; i < 3; ++i)
      expect_ok(run_graph(&g));
    ls_status status = run_graph(&g);
    expect_contains(ls_status_message(status), "iterator_get_next");
    expect_status(status, LS_DEADLINE_EXCEEDED,
                  "iterator 'slow', at work in map 'go_slow' for 0.");
    __atomic_store_n(&map.hangs, 0, __ATOMIC_RELAXED);
    expect_ok(run_graph(&g));
    assert_true(result_of(&g) == 3);
    end_graph(&g);
    ls_iterator_release(loop.iterator);
  }
}

// ---- Threads that are not there --------------------------------------------
#if defined(__GLIBC__)
static void no_thread_can_be_started(bool none) {
  static pthread_attr_t usual;
  pthread_attr_t attributes;
  if (none) {
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, (size_t)1 << 46),
                     0);
    assert_int_equal(pthread_setattr_default_np(&attributes), 0);
    (void)pthread_attr_destroy(&attributes);
  } else {
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
  }
}

TEST(without_threads_who_reads_does_the_work) {
  if (LS_SANITIZED) skip();
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .input_threads = LS_SOME(3)});
  slow_map map = {.at = -1};
  LS_OWN(ls_iterator, iterator) = slow_iterator(&map, 20, 0, 3);
  // A host thread is there.
  ls_iterator *alone = slow_iterator(&map, 20, 0, 0);
  expect_ok(ls_frame_begin());
  assert_true(item_of(next_of(alone)) == 0);
  expect_ok(ls_frame_end(NULL));
  ls_iterator_release(alone);
  no_thread_can_be_started(true);
  LS_OWN(ls_nest, element) = ls_none();
  for (int i = 0; i < 10; ++i) {
    expect_ok(ls_iterator_next(iterator, &element));
    assert_true(ls_array_f64(ls_nest_as_array(element), 0) == i);
  }
  expect_ok(ls_iterator_seek(iterator, 2));
  graph_of g = {0};
  expect_ok(ls_graph_create("one", &g.graph));
  {
    LS_GRAPH_SCOPE(g.graph);
    g.fetch = ls_leaf(next_of(iterator));
  }
  expect_ok(ls_session_create(g.graph, &g.session));
  expect_status(run_graph(&g), LS_RESOURCE_EXHAUSTED,
                "no input thread could be started for 'slow'");
  no_thread_can_be_started(false);
  expect_ok(run_graph(&g));
  assert_true(result_of(&g) == 2);
  end_graph(&g);
}
#endif

// ---- Letting go ------------------------------------------------------------
// Runs that end at the same time as their iterator's last owner lets go.
TEST(an_iterator_goes_with_its_last_run) {
  for (int i = 0; i < 100; ++i) {
    LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){
        .threads = 1, .input_threads = LS_SOME(1 + i % 3)});
    slow_map map = {.at = -1, .sleep_us = i % 5 * 50};
    sum_loop loop = {.iterator = slow_iterator(&map, 50, i % 2 * 3, 1 + i % 7)};
    expect_ok(ls_frame_begin());
    const ls_tensor x = next_of(loop.iterator);
    ls_iterator_release(loop.iterator);
    assert_true(item_of(ls_reduce_sum(x, LS_ALL_AXES)) == (i % 2 ? 3 : 0));
    expect_ok(ls_frame_end(NULL));
  }
}
