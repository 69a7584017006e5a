// SPDX-License-Identifier: Apache-2.0
//
// Two runs at the same time on one get_next of a distributed iterator: each
// gets values of an element of its own, and none is lost.
#include <pthread.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "lockstep/session.h"
#include "lockstep/variable_parts.h"
#include "support/function.h"
#include "support/inputs.h"
#include "support/replicas.h"
#include "support/sanitizer.h"

enum { THREADS = 2, ELEMENTS = LS_SANITIZED ? 100 : 400, ROWS = 4 };

typedef struct setup {
  ls_runtime *runtime;
  ls_strategy *strategy;
  ls_graph *graph;
  ls_session *session;
  ls_distributed_iterator *iterator;
  ls_variable *variables[THREADS];
  ls_nest fetches[THREADS];
} setup;

// What thread `number` fetches: both replicas' parts, and, with variables, a
// write of one of its own.
static ls_nest fetch_of(setup *self, ls_nest element, int number, bool writes) {
  ls_nest items[3];
  for (size_t r = 0; r < 2; ++r)
    items[r] = ls_nest_retain(ls_distributed_component(element, r));
  if (writes)
    items[2] = ls_leaf(ls_variable_assign_add(self->variables[number],
                                              ls_scalar(LS_DTYPE_F64, 1)));
  return ls_nest_sequence(LS_KIND_LIST, items, writes ? 3 : 2);
}

static void build(setup *self, bool writes) {
  self->runtime = ls_runtime_current();
  self->strategy = mirrored_of(2);
  expect_ok(ls_graph_create("runs", &self->graph));
  {
    LS_GRAPH_SCOPE(self->graph);
    LS_OWN(ls_nest, data) =
        distributed(self->strategy, whole_batches(ELEMENTS * ROWS, ROWS), NULL);
    expect_ok(ls_distributed_iterator_create(
        data, &(ls_distributed_iterator_options){.kind = LS_ITERATOR_ONE_SHOT},
        &self->iterator));
    for (int i = 0; i < THREADS && writes; ++i)
      expect_ok(ls_variable_create(
          &(ls_variable_options){.name = i == 0 ? "a" : "b",
                                 .initial_value = ls_scalar(LS_DTYPE_F64, 0)},
          &self->variables[i]));
    LS_OWN(ls_nest, element) = ls_distributed_iterator_get_next(self->iterator);
    expect_ok(ls_nest_status(element));
    for (int i = 0; i < THREADS; ++i)
      self->fetches[i] = fetch_of(self, element, i, writes);
  }
  expect_ok(ls_session_create(self->graph, &self->session));
  for (int i = 0; i < THREADS && writes; ++i) {
    LS_OWN(ls_nest, results) = session_results(
        self->session, ls_nest_op(ls_variable_initializer(self->variables[i])));
  }
}

static void drop(setup *self) {
  for (int i = 0; i < THREADS; ++i)
    ls_nest_release(self->fetches[i]);
  ls_session_destroy(self->session);
  for (int i = 0; i < THREADS; ++i)
    ls_variable_release(self->variables[i]);
  ls_distributed_iterator_release(self->iterator);
  ls_graph_destroy(self->graph);
  ls_strategy_release(self->strategy);
}

// ---- A thread --------------------------------------------------------------
typedef struct runner {
  setup *of;
  int number;
  int seen[ELEMENTS];
} runner;

// Both parts are of one element.
static int element_in(ls_nest results) {
  const ls_array *first = ls_nest_as_array(ls_nest_item(results, 0));
  const ls_array *second = ls_nest_as_array(ls_nest_item(results, 1));
  const int64_t at = ls_array_i64(first, 0);
  assert_int_equal(at % ROWS, 0);
  assert_int_equal(ls_array_i64(first, 1), at + 1);
  assert_int_equal(ls_array_i64(second, 0), at + 2);
  assert_int_equal(ls_array_i64(second, 1), at + 3);
  return (int)(at / ROWS);
}

static void *run_to_the_end(void *user) {
  runner *self = user;
  setup *of = self->of;
  ls_runtime *before = ls_runtime_make_current(of->runtime);
  ls_nest results = ls_none();
  for (bool more = true; more;) {
    const ls_status status = ls_session_run(
        of->session, of->fetches[self->number], NULL, 0, &results);
    more = ls_status_code(status) != LS_OUT_OF_RANGE;
    if (!more) {
      ls_status_free(status);
      continue;
    }
    expect_ok(status);
    ++self->seen[element_in(results)];
  }
  ls_nest_release(results);
  ls_runtime_make_current(before);
  return NULL;
}

static void run_together(bool writes) {
  static runner runners[THREADS];
  setup self = {0};
  pthread_t threads[THREADS];
  build(&self, writes);
  for (int i = 0; i < THREADS; ++i) {
    runners[i] = (runner){.of = &self, .number = i};
    assert_int_equal(
        pthread_create(&threads[i], NULL, run_to_the_end, &runners[i]), 0);
  }
  for (int i = 0; i < THREADS; ++i)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (int e = 0; e < ELEMENTS; ++e)
    assert_int_equal(runners[0].seen[e] + runners[1].seen[e], 1);
  drop(&self);
}

TEST(runs_at_the_same_time_get_an_element_each) {
  run_together(false);
  // Of programs that write variables of their own.
  run_together(true);
}
