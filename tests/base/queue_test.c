// SPDX-License-Identifier: Apache-2.0
#include "base/threads/queue.h"

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/threads/worker.h"
#include "support/fault.h"

LS_OWNED_POINTER(ls_queue, ls_queue_destroy)

static ls_nest number(int64_t value) {
  ls_array *array = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_I64, LS_SCALAR, &value, &array));
  return ls_nest_array(array);
}

static ls_queue *make(size_t capacity) {
  ls_queue *queue = NULL;
  expect_ok(ls_queue_create(
      &(ls_queue_options){.capacity = capacity, .name = "infeed:0"}, &queue));
  return queue;
}

// Tries until the queue takes the item or is closed, and waits in between.
static ls_status push_waiting(ls_queue *queue, ls_nest item) {
  ls_event ready;
  expect_ok(ls_event_init(&ready));
  ls_queue_waiter waiter = {.ready = ls_event_set, .user = &ready};
  bool pushed = false;
  ls_status status = ls_queue_try_push(queue, 0, item, &pushed);
  while (ls_status_is_ok(status) && !pushed) {
    ready.is_set = false;
    if (ls_queue_on_ready(queue, LS_QUEUE_PUSH, &waiter)) ls_event_wait(&ready);
    status = ls_queue_try_push(queue, 0, item, &pushed);
  }
  ls_event_deinit(&ready);
  return status;
}

// The same for the head.
static ls_status pop_waiting(ls_queue *queue, ls_nest *out_item) {
  ls_event ready;
  expect_ok(ls_event_init(&ready));
  ls_queue_waiter waiter = {.ready = ls_event_set, .user = &ready};
  bool popped = false;
  ls_status status = ls_queue_try_pop(queue, 0, out_item, &popped);
  while (ls_status_is_ok(status) && !popped) {
    ready.is_set = false;
    if (ls_queue_on_ready(queue, LS_QUEUE_POP, &waiter)) ls_event_wait(&ready);
    status = ls_queue_try_pop(queue, 0, out_item, &popped);
  }
  ls_event_deinit(&ready);
  return status;
}

// Takes the head, which must be there, and gives its number.
static int64_t pop_number(ls_queue *queue) {
  LS_OWN(ls_nest, item) = ls_none();
  expect_ok(pop_waiting(queue, &item));
  return ls_array_i64(ls_nest_as_array(item), 0);
}

TEST(nests_come_out_in_the_order_they_went_in) {
  ls_queue *queue = make(3);
  int64_t next = 0;
  for (int64_t i = 0; i < 20; ++i) {
    expect_ok(push_waiting(queue, number(i)));
    if (i % 3 == 2) {
      assert_int_equal(ls_queue_count(queue), 3);
      while (ls_queue_count(queue) > 0) {
        assert_int_equal(pop_number(queue), next++);
      }
    }
  }
  ls_queue_destroy(queue);  // Two are left inside.
}

TEST(defaults_are_sixteen_and_a_name) {
  ls_queue *queue = NULL;
  expect_ok(ls_queue_create(NULL, &queue));
  assert_string_equal(ls_queue_name(queue), "queue");
  bool pushed = true;
  for (int i = 0; i < 16; ++i) {
    expect_ok(ls_queue_try_push(queue, 0, number(i), &pushed));
    assert_true(pushed);
  }
  const ls_nest extra = number(16);
  expect_ok(ls_queue_try_push(queue, 0, extra, &pushed));
  assert_false(pushed);
  assert_true(ls_array_is_unique(ls_nest_as_array(extra)));  // Still ours.
  ls_nest_release(extra);
  ls_queue_destroy(queue);
  ls_queue_destroy(NULL);
}

TEST(closing_drains_and_then_ends) {
  LS_OWN(ls_queue, queue) = make(4);
  expect_ok(push_waiting(queue, number(1)));
  assert_false(ls_queue_is_closed(queue));
  ls_queue_close(queue);
  ls_queue_close(queue);
  assert_true(ls_queue_is_closed(queue));
  const ls_nest late = number(2);
  expect_status(push_waiting(queue, late), LS_CANCELLED, "'infeed:0'");
  bool pushed = true;
  expect_status(ls_queue_try_push(queue, 0, late, &pushed), LS_CANCELLED,
                "closed");
  assert_false(pushed);
  ls_nest_release(late);
  assert_int_equal(pop_number(queue), 1);
  ls_nest item = ls_none();
  bool popped = true;
  expect_status(pop_waiting(queue, &item), LS_OUT_OF_RANGE, "drained");
  expect_status(ls_queue_try_pop(queue, 0, &item, &popped), LS_OUT_OF_RANGE,
                "drained");
  assert_false(popped);
}

TEST(trying_to_pop_an_empty_queue_gives_nothing) {
  LS_OWN(ls_queue, queue) = make(1);
  LS_OWN(ls_nest, item) = ls_none();
  bool popped = true;
  expect_ok(ls_queue_try_pop(queue, 0, &item, &popped));
  assert_false(popped);
  expect_ok(push_waiting(queue, number(5)));
  expect_ok(ls_queue_try_pop(queue, 0, &item, &popped));
  assert_true(popped);
  assert_int_equal(ls_array_i64(ls_nest_as_array(item), 0), 5);
}

TEST(a_queue_that_is_reset_is_empty_and_open) {
  LS_OWN(ls_queue, queue) = make(2);
  expect_ok(push_waiting(queue, number(1)));
  ls_queue_close(queue);
  ls_queue_reset(queue, 0);
  assert_false(ls_queue_is_closed(queue));
  assert_int_equal(ls_queue_count(queue), 0);
  expect_ok(push_waiting(queue, number(2)));
  assert_int_equal(pop_number(queue), 2);
}

TEST(a_caller_of_an_earlier_generation_moves_nothing) {
  LS_OWN(ls_queue, queue) = make(2);
  LS_OWN(ls_nest, item) = ls_none();
  bool moved = false;
  ls_queue_reset(queue, 7);
  expect_ok(ls_queue_try_push(queue, 7, number(1), &moved));
  assert_true(moved);
  ls_queue_reset(queue, 8);
  assert_int_equal(ls_queue_count(queue), 0);
  LS_OWN(ls_nest, late) = number(2);
  expect_ok(ls_queue_try_push(queue, 7, late, &moved));
  assert_false(moved);
  expect_ok(ls_queue_try_push(queue, 8, number(3), &moved));
  ls_queue_close(queue);
  expect_ok(ls_queue_try_push(queue, 7, late, &moved));
  expect_ok(ls_queue_try_pop(queue, 7, &item, &moved));
  assert_false(moved);
}

// ---- Threads ---------------------------------------------------------------
enum { PER_PRODUCER = 500, PRODUCERS = 2, CONSUMERS = 2 };

typedef struct producer {
  ls_queue *queue;
  int64_t first;
  bool failed;
} producer;

static void produce(void *user) {
  producer *self = user;
  for (int64_t i = 0; i < PER_PRODUCER; ++i) {
    const int64_t value = self->first + i;
    ls_array *array = NULL;
    LS_OWN(ls_status, status) =
        ls_array_create_copy(LS_DTYPE_I64, LS_SCALAR, &value, &array);
    if (ls_status_is_ok(status))
      status = push_waiting(self->queue, ls_nest_array(array));
    self->failed |= !ls_status_is_ok(status);
  }
}

typedef struct consumer {
  ls_queue *queue;
  int64_t sum;
  int64_t count;
  int64_t last[PRODUCERS];  // Of each producer.
  bool disordered;
  ls_code end;
} consumer;

static void consume(void *user) {
  consumer *self = user;
  for (;;) {
    ls_nest item = ls_none();
    ls_status status = pop_waiting(self->queue, &item);
    if (!ls_status_is_ok(status)) {
      self->end = ls_status_code(status);
      ls_status_free(status);
      return;
    }
    const int64_t value = ls_array_i64(ls_nest_as_array(item), 0);
    int64_t *last = &self->last[value / PER_PRODUCER];
    self->disordered |= value < *last;
    *last = value;
    self->sum += value;
    ++self->count;
    ls_nest_release(item);
  }
}

TEST(threads_lose_and_double_nothing) {
  LS_OWN(ls_queue, queue) = make(4);
  producer producers[PRODUCERS];
  consumer consumers[CONSUMERS];
  ls_worker threads[PRODUCERS + CONSUMERS] = {0};
  for (int i = 0; i < CONSUMERS; ++i) {
    consumers[i] = (consumer){.queue = queue};
    expect_ok(
        ls_worker_start(&threads[i], "consumer", NULL, consume, &consumers[i]));
  }
  for (int i = 0; i < PRODUCERS; ++i) {
    producers[i] = (producer){queue, (int64_t)i * PER_PRODUCER, false};
    expect_ok(ls_worker_start(&threads[CONSUMERS + i], "producer", NULL,
                              produce, &producers[i]));
  }
  for (int i = 0; i < PRODUCERS; ++i) {
    ls_worker_join(&threads[CONSUMERS + i]);
    assert_false(producers[i].failed);
  }
  ls_queue_close(queue);
  int64_t sum = 0;
  int64_t count = 0;
  for (int i = 0; i < CONSUMERS; ++i) {
    ls_worker_join(&threads[i]);
    assert_int_equal(consumers[i].end, LS_OUT_OF_RANGE);
    assert_false(consumers[i].disordered);
    sum += consumers[i].sum;
    count += consumers[i].count;
  }
  const int64_t n = PRODUCERS * PER_PRODUCER;
  assert_int_equal(count, n);
  assert_int_equal(sum, n * (n - 1) / 2);
}

typedef struct pusher {
  ls_queue *queue;
  ls_nest item;
  ls_code code;
} pusher;

static void push_one(void *user) {
  pusher *self = user;
  LS_OWN(ls_status, status) = push_waiting(self->queue, self->item);
  self->code = ls_status_code(status);
}

TEST(closing_wakes_who_waits_to_push) {
  LS_OWN(ls_queue, queue) = make(1);
  expect_ok(push_waiting(queue, number(0)));
  pusher blocked = {queue, number(1), LS_OK};
  ls_worker thread = {0};
  expect_ok(ls_worker_start(&thread, "pusher", NULL, push_one, &blocked));
  ls_queue_close(queue);  // Before or after it waits: the same.
  ls_worker_join(&thread);
  assert_int_equal(blocked.code, LS_CANCELLED);
  assert_true(ls_array_is_unique(ls_nest_as_array(blocked.item)));
  ls_nest_release(blocked.item);
}

// ---- Waiters ---------------------------------------------------------------
static char order[16];
static void note(void *user) {
  const size_t used = strlen(order);
  order[used] = *(const char *)user;
  order[used + 1] = '\0';
}

TEST(waiters_are_told_once_in_order) {
  order[0] = '\0';
  LS_OWN(ls_queue, queue) = make(2);
  ls_queue_waiter a = {.ready = note, .user = "a"};
  ls_queue_waiter b = {.ready = note, .user = "b"};
  ls_queue_waiter c = {.ready = note, .user = "c"};
  assert_true(ls_queue_on_ready(queue, LS_QUEUE_POP, &a));
  assert_true(ls_queue_on_ready(queue, LS_QUEUE_POP, &b));
  assert_true(ls_queue_on_ready(queue, LS_QUEUE_POP, &c));
  assert_true(ls_queue_withdraw(queue, LS_QUEUE_POP, &b));
  assert_false(ls_queue_withdraw(queue, LS_QUEUE_POP, &b));
  assert_string_equal(order, "");
  expect_ok(push_waiting(queue, number(1)));
  assert_string_equal(order, "ac");
  assert_false(ls_queue_withdraw(queue, LS_QUEUE_POP, &a));
  expect_ok(push_waiting(queue, number(2)));
  assert_string_equal(order, "ac");
  // Ready already: not registered.
  assert_false(ls_queue_on_ready(queue, LS_QUEUE_POP, &b));
  assert_false(ls_queue_withdraw(queue, LS_QUEUE_POP, &b));
  // Full: told when there is room.
  assert_true(ls_queue_on_ready(queue, LS_QUEUE_PUSH, &a));
  assert_string_equal(order, "ac");
  (void)pop_number(queue);
  assert_string_equal(order, "aca");
  (void)pop_number(queue);
  assert_true(ls_queue_on_ready(queue, LS_QUEUE_POP, &c));
  ls_queue_close(queue);
  assert_string_equal(order, "acac");
}

TEST(withdrawing_the_last_leaves_a_good_list) {
  order[0] = '\0';
  LS_OWN(ls_queue, queue) = make(2);
  ls_queue_waiter a = {.ready = note, .user = "a"};
  ls_queue_waiter b = {.ready = note, .user = "b"};
  assert_true(ls_queue_on_ready(queue, LS_QUEUE_POP, &a));
  assert_true(ls_queue_on_ready(queue, LS_QUEUE_POP, &b));
  assert_true(ls_queue_withdraw(queue, LS_QUEUE_POP, &b));
  assert_true(ls_queue_on_ready(queue, LS_QUEUE_POP, &b));
  assert_true(ls_queue_withdraw(queue, LS_QUEUE_POP, &a));
  assert_true(ls_queue_withdraw(queue, LS_QUEUE_POP, &b));
  assert_true(ls_queue_on_ready(queue, LS_QUEUE_POP, &a));
  expect_ok(push_waiting(queue, number(1)));
  assert_string_equal(order, "a");
}

// A task that takes all there is whenever it is told, as a parked lane would.
typedef struct task {
  ls_queue *queue;
  ls_queue_waiter waiter;
  int64_t sum;
  bool ended;
} task;

static void run_task(void *user) {
  task *self = user;
  do {
    ls_nest item = ls_none();
    bool popped = false;
    ls_status status = ls_queue_try_pop(self->queue, 0, &item, &popped);
    if (!ls_status_is_ok(status)) {
      ls_status_free(status);
      self->ended = true;
      return;
    }
    if (popped) self->sum += ls_array_i64(ls_nest_as_array(item), 0);
    ls_nest_release(item);
  } while (!ls_queue_on_ready(self->queue, LS_QUEUE_POP, &self->waiter));
}

TEST(a_task_can_park_instead_of_a_thread) {
  LS_OWN(ls_queue, queue) = make(2);
  task it = {.queue = queue};
  it.waiter = (ls_queue_waiter){.ready = run_task, .user = &it};
  run_task(&it);
  producer maker = {queue, 0, false};
  ls_worker thread = {0};
  expect_ok(ls_worker_start(&thread, "producer", NULL, produce, &maker));
  ls_worker_join(&thread);
  ls_queue_close(queue);
  assert_false(maker.failed);
  assert_true(it.ended);
  assert_int_equal(it.sum, PER_PRODUCER * (PER_PRODUCER - 1) / 2);
}

// ---- Failing memory --------------------------------------------------------
static ls_status create_queue(void *user) {
  (void)user;
  LS_OWN(ls_queue, queue) = NULL;
  return ls_queue_create(
      &(ls_queue_options){.allocator = ls_current_allocator()}, &queue);
}

TEST(failing_memory_is_survived) {
  REFUSE_EACH(create_queue, NULL);
  ls_queue *queue = NULL;
  expect_status(
      ls_queue_create(&(ls_queue_options){.capacity = SIZE_MAX}, &queue),
      LS_RESOURCE_EXHAUSTED, "creating queue 'queue'");
  assert_null(queue);
}
