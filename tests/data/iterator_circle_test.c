// SPDX-License-Identifier: Apache-2.0
// Functions of data sets that would wait for themselves: what they ask for is
// refused, and nothing hangs.
#include <pthread.h>
#include <unistd.h>

#include "data/own.h"
#include "lockstep/data.h"
#include "lockstep/element_spec.h"
#include "support/place.h"
#include "support/stream_runs.h"

// ---- Releases --------------------------------------------------------------
// Drops the last reference; who reads holds none meanwhile.
static ls_nest release_own(ls_nest element, const ls_map_call *call,
                           void *user) {
  ls_iterator **iterator = user;
  (void)call;
  if (stream_number(element) == 2) ls_iterator_release(*iterator);
  return ls_nest_retain(element);
}

static void expect_release_refused(ls_dataset *numbers, int64_t ahead) {
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  LS_OWN(ls_dataset, data) = ls_dataset_map(
      numbers, &(ls_map_options){.call = release_own, .user = &iterator});
  expect_ok(ls_iterator_create(
      data, &(ls_iterator_options){.name = "it", .prefetch = LS_SOME(ahead)},
      &iterator));
  for (int i = 0; i < 5; ++i) {
    const ls_status status = ls_iterator_next(iterator, &element);
    if (i == 2)
      expect_status(status, LS_FAILED_PRECONDITION,
                    "'it' is released by a function of its own data set");
    else
      expect_ok(status);
    if (i != 2) assert_int_equal(stream_number(element), i);
  }
}

TEST(a_release_by_a_function_of_its_own_data_set_is_refused) {
  static const stream_numbers five = {.count = 5};
  for (int threads = 0; threads < 3; ++threads)
    for (int64_t ahead = 0; ahead <= 4; ahead += 2) {
      LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){
          .threads = 1, .input_threads = LS_SOME(threads)});
      expect_release_refused(ls_dataset_range(0, 5, 1), ahead);
      expect_release_refused(stream_of(&five), ahead);
      expect_release_refused(ls_dataset_prefetch(stream_of(&five), 2), ahead);
    }
}

// ---- Circles ---------------------------------------------------------------
// Two iterators; element 1 of each is made of the other's next one.
typedef struct circle {
  ls_iterator *iterators[2];
  int begun, ended;  // Functions that make an element 1. Atomic.
} circle;

typedef struct side {
  circle *circle;
  int number;
} side;

static void wait_for_two(const int *count) {
  for (int i = 0; i < 2000 && __atomic_load_n(count, __ATOMIC_ACQUIRE) < 2; ++i)
    usleep(1000);
}

static ls_nest read_other(ls_nest element, const ls_map_call *call,
                          void *user) {
  const side *self = user;
  circle *c = self->circle;
  ls_nest other = ls_none();
  (void)call;
  if (stream_number(element) != 1) return ls_nest_retain(element);
  __atomic_add_fetch(&c->begun, 1, __ATOMIC_ACQ_REL);
  wait_for_two(&c->begun);
  const ls_status status =
      ls_iterator_next(c->iterators[1 - self->number], &other);
  ls_nest_release(other);
  __atomic_add_fetch(&c->ended, 1, __ATOMIC_ACQ_REL);
  return ls_status_is_ok(status) ? ls_nest_retain(element) : ls_fail(status);
}

static ls_dataset *read_other_of(bool streams, side *self) {
  static const stream_numbers numbers = {.count = 4};
  return ls_dataset_map(
      streams ? stream_of(&numbers) : ls_dataset_range(0, 4, 1),
      &(ls_map_options){.call = read_other,
                        .user = self,
                        .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)});
}

// Each begins element 1 ahead, on a thread of its own.
static void expect_circle_refused(bool streams) {
  circle c = {.begun = 0};
  side sides[2] = {{&c, 0}, {&c, 1}};
  ls_dataset *data[2];
  ls_nest element = ls_none();
  for (int i = 0; i < 2; ++i) {
    data[i] = read_other_of(streams, &sides[i]);
    expect_ok(ls_iterator_create(data[i],
                                 &(ls_iterator_options){.prefetch = LS_SOME(1)},
                                 &c.iterators[i]));
  }
  for (int i = 0; i < 2; ++i)
    expect_ok(ls_iterator_next(c.iterators[i], &element));
  wait_for_two(&c.ended);
  int refused = 0;
  for (int i = 0; i < 2; ++i) {
    LS_OWN(ls_status, status) = ls_iterator_next(c.iterators[i], &element);
    refused += ls_status_code(status) == LS_FAILED_PRECONDITION;
    // This thread may have come upon the other's use before any circle.
    if (!ls_status_is_ok(status) &&
        strstr(ls_status_message(status), "at the same time") == NULL)
      expect_contains(ls_status_message(status),
                      "create another iterator there");
  }
  assert_true(refused > 0);
  ls_nest_release(element);
  for (int i = 0; i < 2; ++i) {
    ls_iterator_release(c.iterators[i]);
    ls_dataset_release(data[i]);
  }
}

TEST(two_iterators_that_wait_for_each_other_are_refused) {
  for (int i = 0; i < 10; ++i) {
    LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){
        .threads = 1, .input_threads = LS_SOME(2 + i / 2)});
    expect_circle_refused(i % 2 == 1);
  }
}

// ---- Two readers -----------------------------------------------------------
typedef struct slow {
  ls_iterator *iterator;
  int begun, tried;  // Atomic.
} slow;

static ls_nest wait_for_reader(ls_nest element, const ls_map_call *call,
                               void *user) {
  slow *self = user;
  (void)call;
  __atomic_store_n(&self->begun, 2, __ATOMIC_RELEASE);
  wait_for_two(&self->tried);
  return ls_nest_retain(element);
}

static void *read_too(void *user) {
  slow *self = user;
  ls_nest element = ls_none();
  wait_for_two(&self->begun);
  usleep(20000);  // The other one sleeps for the element, or makes it.
  expect_status(ls_iterator_next(self->iterator, &element),
                LS_FAILED_PRECONDITION, "by two threads at the same time");
  __atomic_store_n(&self->tried, 2, __ATOMIC_RELEASE);
  return NULL;
}

TEST(two_threads_cannot_read_at_the_same_time) {
  for (int64_t ahead = 0; ahead <= 2; ++ahead) {
    slow self = {.begun = 0};
    pthread_t thread;
    LS_OWN(ls_nest, element) = ls_none();
    LS_OWN(ls_dataset, data) = ls_dataset_map(
        ls_dataset_range(0, 1, 1),
        &(ls_map_options){.call = wait_for_reader,
                          .user = &self,
                          .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)});
    expect_ok(ls_iterator_create(
        data, &(ls_iterator_options){.prefetch = LS_SOME(ahead)},
        &self.iterator));
    assert_int_equal(pthread_create(&thread, NULL, read_too, &self), 0);
    expect_ok(ls_iterator_next(self.iterator, &element));
    assert_int_equal(pthread_join(thread, NULL), 0);
    ls_iterator_release(self.iterator);
  }
}
