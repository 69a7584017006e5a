// SPDX-License-Identifier: Apache-2.0
//
// Loops of hosts and of the device in one session run: they go side by side on
// one thread, however deep their queues are.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "distribute/own.h"
#include "lockstep/cancel.h"
#include "lockstep/distributed.h"
#include "lockstep/eager.h"
#include "lockstep/flow.h"
#include "lockstep/function.h"
#include "lockstep/replicate.h"
#include "lockstep/runtime_settings.h"
#include "lockstep/strategy.h"
#include "lockstep/training_loop.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/pod_runs.h"
#include "tpu/pod/core_queues.h"

// ---- Loops -----------------------------------------------------------------
typedef struct loops {
  ls_infeed_queue *queue;
  int64_t steps;
  int replicas;
  bool gives;  // Each step gives the sum away.
} loops;

static ls_nest add_next(ls_nest args, void *user) {
  const loops *l = user;
  const ls_tensor sum = ls_add(ls_nest_tensor(args, 0),
                               ls_reshape(ls_nest_tensor(args, 1), LS_SCALAR));
  if (!l->gives) return ls_leaf(sum);
  LS_DEVICE_SCOPE("/device:TPU_REPLICATED_CORE:0");
  return LS_LIST(ls_leaf(sum), ls_nest_op(ls_outfeed_enqueue(sum)));
}

static ls_nest compute(ls_nest args, void *user) {
  const loops *l = user;
  ls_nest outputs = ls_none();
  (void)args;
  const ls_training_loop loop = {
      .body = add_next, .user = user, .infeed = l->queue};
  LS_OWN(ls_nest, inputs) = LS_LIST(ls_leaf(pod_number(0)));
  const ls_status status =
      ls_training_repeat(l->steps, &loop, inputs, &outputs);
  return ls_status_is_ok(status) ? outputs : ls_fail(status);
}

static ls_nest device_loop(loops *l) {
  enum { MOST = 64 };
  ls_nest items[MOST], outputs = ls_none();
  const ls_dtype dtype = LS_DTYPE_F32;
  const ls_shape shape = LS_SHAPE(l->replicas);
  expect_ok(ls_infeed_queue_create(
      &(ls_infeed_options){
          .dtypes = &dtype, .num_dtypes = 1, .shapes = &shape, .num_shapes = 1},
      &l->queue));
  for (int r = 0; r < l->replicas; ++r)
    items[r] = LS_LIST(ls_leaf(pod_number(r)));
  LS_OWN(ls_nest, inputs) =
      ls_nest_sequence(LS_KIND_LIST, items, (size_t)l->replicas);
  expect_ok(ls_replicate(compute, l, inputs, NULL, &outputs));
  return outputs;
}

typedef struct host {
  int task;
  bool gets;
} host;

// Puts 0, 1, 2, ..., or adds up what comes.
static ls_nest host_trip(ls_nest values, void *user) {
  const host *h = user;
  const ls_tensor i = ls_nest_tensor(values, 0);
  ls_tensor sum = ls_nest_tensor(values, 1);
  if (h->gets)
    sum = ls_add(sum, get_number(h->task, 0));
  else
    (void)put_tensor(h->task, 0, ls_reshape(i, LS_SHAPE(1)));
  return LS_LIST(ls_leaf(ls_add_scalar(i, 1)), ls_leaf(sum));
}

static ls_tensor host_loop(host *h, int64_t steps) {
  LS_OWN(ls_nest, made) =
      ls_while(always_true, host_trip, h,
               LS_LIST(ls_leaf(pod_number(0)), ls_leaf(pod_number(0))), steps);
  return ls_nest_tensor(made, 1);
}

// ---- Side by side ----------------------------------------------------------
TEST(many_hosts_and_the_device_go_side_by_side) {
  LS_SPEC("O141");
  enum { HOSTS = 64, STEPS = 1000 };
  LS_OWN(pod_runs, f) = pod_runs_begin(
      HOSTS, 1, (ls_runtime_options){.threads = 1, .stall_ms = 20000});
  loops l = {.steps = STEPS, .replicas = HOSTS, .gives = true};
  static host hosts[2 * HOSTS];
  static ls_nest fetches[2 * HOSTS + 1];
  {
    LS_GRAPH_SCOPE(f.graph);
    for (int i = 0; i < 2 * HOSTS; ++i) {
      hosts[i] = (host){i / 2, i % 2 == 1};
      fetches[i] = ls_leaf(host_loop(&hosts[i], STEPS));
    }
    fetches[2 * HOSTS] = device_loop(&l);
  }
  pod_runs_do(&f, ls_nest_sequence(LS_KIND_LIST, fetches, 2 * HOSTS + 1));
  // Sums of 0 to n - 1, and the sum of those.
  double last = 0, all = 0;
  for (int k = 0; k < STEPS; ++k) {
    last += k;
    all += last;
  }
  const ls_nest of = ls_nest_item(f.results, 2 * HOSTS);
  for (size_t r = 0; r < HOSTS; ++r) {
    const ls_nest item = ls_nest_item(ls_nest_item(of, r), 0);
    assert_true(ls_array_f64(ls_nest_as_array(item), 0) == last);
    assert_true(pod_runs_number(&f, 2 * r + 1) > 0.99 * all);
    assert_true(pod_runs_number(&f, 2 * r + 1) < 1.01 * all);
  }
  ls_infeed_queue_release(l.queue);
}

// Allocations of a second run of loops of so many steps.
static uint64_t allocations(int64_t steps) {
  enum { HOSTS = 2 };
  LS_OWN(pod_runs, f) = pod_runs_begin(
      HOSTS, 1, (ls_runtime_options){.threads = 1, .stall_ms = 20000});
  loops l = {.steps = steps, .replicas = HOSTS, .gives = true};
  host hosts[2 * HOSTS];
  ls_nest fetches[2 * HOSTS + 1];
  {
    LS_GRAPH_SCOPE(f.graph);
    for (int i = 0; i < 2 * HOSTS; ++i) {
      hosts[i] = (host){i / 2, i % 2 == 1};
      fetches[i] = ls_leaf(host_loop(&hosts[i], steps));
    }
    fetches[2 * HOSTS] = device_loop(&l);
  }
  LS_OWN(ls_nest, all) = ls_nest_sequence(LS_KIND_LIST, fetches, 2 * HOSTS + 1);
  uint64_t made = 0;
  for (int run = 0; run < 3; ++run) {
    const ls_allocator_counts before = counted_now(&f.c);
    pod_runs_do(&f, ls_nest_retain(all));
    made = (uint64_t)(counted_now(&f.c).allocations - before.allocations);
  }
  ls_infeed_queue_release(l.queue);
  return made;
}

TEST(tuples_are_filled_again) {
  assert_int_equal(allocations(600), allocations(300));
}

// ---- Cancelling ------------------------------------------------------------
static void *request(void *cancel) {
  usleep((useconds_t)(rand() % 700));
  ls_cancel_request(cancel);
  return NULL;
}

// Another call takes the second core's tuple once the first core's is taken.
typedef struct thief {
  ls_core_queue *queues[2];
  ls_cancel *cancel;
} thief;

static void steal(void *user) {
  thief *self = user;
  LS_OWN(ls_nest, tuple) = ls_none();
  bool popped = false;
  expect_ok(ls_queue_try_pop(self->queues[1]->tuples,
                             ls_pod_generation(self->queues[1]->core->pod),
                             &tuple, &popped));
  assert_true(popped);
  ls_cancel_request(self->cancel);
}

static void fill_queue(ls_core_queue *queue, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    LS_OWN(ls_nest, tuple) = LS_LIST(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(1)));
    expect_ok(ls_core_put(queue->core, tuple));
  }
}

TEST(a_cancelled_call_takes_no_tuple) {
  LS_SPEC("O143");
  LS_OWN(pod_runs, f) = pod_runs_begin(
      2, 1, (ls_runtime_options){.threads = 1, .stall_ms = 20000});
  loops l = {.steps = 1, .replicas = 2};
  thief self = {.cancel = NULL};
  ls_nest made = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    made = device_loop(&l);
  }
  for (int i = 0; i < 2; ++i)
    expect_ok(ls_core_queue_of(&f.pod->cores[i], false, &self.queues[i]));
  const size_t depth = (size_t)f.pod->queue_depth;
  fill_queue(self.queues[0], depth);
  fill_queue(self.queues[1], 1);
  ls_queue_waiter waiter = {.ready = steal, .user = &self};
  assert_true(
      ls_queue_on_ready(self.queues[0]->tuples, LS_QUEUE_PUSH, &waiter));
  expect_ok(ls_cancel_create(f.c.runtime, &self.cancel));
  assert_null(ls_cancel_make_current(self.cancel));
  expect_status(pod_runs_try(&f, ls_nest_retain(made)), LS_CANCELLED,
                "cancelled");
  (void)ls_cancel_make_current(NULL);
  assert_int_equal(ls_queue_count(self.queues[0]->tuples), depth);
  assert_int_equal(ls_queue_count(self.queues[1]->tuples), 0);
  // The tuples serve the next call.
  fill_queue(self.queues[1], 1);
  pod_runs_do(&f, made);
  assert_int_equal(ls_queue_count(self.queues[0]->tuples), depth - 1);
  ls_cancel_destroy(self.cancel);
  ls_infeed_queue_release(l.queue);
}

// Loops of three hosts and the device that go on and on, and others that end.
TEST(a_cancelled_run_ends_wherever_it_is) {
  LS_SPEC("O143");
  enum { HOSTS = 3, TIMES = 100 };
  const char *times = getenv("LS_TEST_CANCELS");
  const int count = times != NULL ? atoi(times) : TIMES;
  LS_OWN(pod_runs, f) = pod_runs_begin(
      HOSTS, 1, (ls_runtime_options){.threads = 1, .stall_ms = 20000});
  loops endless = {.steps = 1 << 30, .replicas = HOSTS, .gives = true};
  loops l = {.steps = 20, .replicas = HOSTS, .gives = true};
  host hosts[2 * HOSTS];
  ls_nest all[2];
  {
    LS_GRAPH_SCOPE(f.graph);
    for (int k = 0; k < 2; ++k) {
      loops *these = k == 0 ? &endless : &l;
      ls_nest fetches[2 * HOSTS + 1];
      for (int i = 0; i < 2 * HOSTS; ++i) {
        hosts[i] = (host){i / 2, i % 2 == 1};
        fetches[i] = ls_leaf(host_loop(&hosts[i], these->steps));
      }
      fetches[2 * HOSTS] = device_loop(these);
      all[k] = ls_nest_sequence(LS_KIND_LIST, fetches, 2 * HOSTS + 1);
    }
  }
  ls_cancel *cancel = NULL;
  expect_ok(ls_cancel_create(f.c.runtime, &cancel));
  for (int i = 0; i < count; ++i) {
    pthread_t thread;
    assert_null(ls_cancel_make_current(cancel));
    assert_int_equal(pthread_create(&thread, NULL, request, cancel), 0);
    expect_status(pod_runs_try(&f, ls_nest_retain(all[0])), LS_CANCELLED,
                  "cancelled");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ptr_equal(ls_cancel_make_current(NULL), cancel);
    ls_cancel_reset(cancel);
    ls_pod_initialize(f.pod);
    pod_runs_do(&f, ls_nest_retain(all[1]));
    const ls_nest of = ls_nest_item(f.results, 2 * HOSTS);
    const ls_nest item = ls_nest_item(ls_nest_item(of, 1), 0);
    assert_true(ls_array_f64(ls_nest_as_array(item), 0) == 19 * 20 / 2);
  }
  assert_int_equal(ls_runtime_abandoned_calls(f.c.runtime), 0);
  ls_cancel_destroy(cancel);
  ls_nest_release(all[0]);
  ls_nest_release(all[1]);
  ls_infeed_queue_release(endless.queue);
  ls_infeed_queue_release(l.queue);
}

// ---- Nobody at the other end -----------------------------------------------
TEST(a_queue_that_nobody_feeds_is_named) {
  LS_OWN(pod_runs, f) =
      pod_runs_begin(2, 1, (ls_runtime_options){.threads = 1, .stall_ms = 50});
  loops l = {.steps = 3, .replicas = 2};
  host fed = {0, false}, read = {1, true};
  LS_OWN(ls_nest, device) = ls_none();
  ls_nest one = ls_none(), reads = ls_none(), puts = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    device = device_loop(&l);
    one = ls_leaf(host_loop(&fed, 3));
    reads = ls_leaf(host_loop(&read, 1));
    puts = ls_leaf(host_loop(&fed, 100));
  }
  // Host 0 feeds its core; nobody feeds that of host 1.
  expect_status(pod_runs_try(&f, LS_LIST(ls_nest_retain(device), one)),
                LS_DEADLINE_EXCEEDED,
                "infeed of /job:localhost/replica:0/task:1/device:TPU:0");
  expect_status(pod_runs_try(&f, reads), LS_DEADLINE_EXCEEDED,
                "outfeed of /job:localhost/replica:0/task:1/device:TPU:0");
  ls_pod_initialize(f.pod);
  expect_status(pod_runs_try(&f, puts), LS_DEADLINE_EXCEEDED,
                "infeed of /job:localhost/replica:0/task:0/device:TPU:0, which "
                "is full");
  assert_int_equal(ls_runtime_abandoned_calls(f.c.runtime), 0);
  ls_infeed_queue_release(l.queue);
}

// ---- Other ways to run -----------------------------------------------------
static const char *no_cut(void *user, const char *name) {
  (void)user;
  return strcmp(name, "LS_CUT") == 0 ? "0" : NULL;
}

// The same where each replica calls for itself.
TEST(replicas_that_go_their_own_ways_take_their_tuples) {
  LS_SPEC("O141 O206");
  enum { REPLICAS = 3 };
  LS_OWN(pod_runs, f) = pod_runs_begin(
      1, REPLICAS,
      (ls_runtime_options){
          .threads = 1, .stall_ms = 20000, .environment = no_cut});
  loops l = {.steps = 5, .replicas = REPLICAS};
  ls_nest device = ls_none(), closes = ls_none(), puts[REPLICAS];
  {
    LS_GRAPH_SCOPE(f.graph);
    device = device_loop(&l);
    for (int r = 0; r < REPLICAS; ++r)
      puts[r] = ls_nest_op(
          put_tensor(0, r, ls_fill(LS_DTYPE_F32, LS_SHAPE(1), r + 1)));
    closes =
        LS_LIST(ls_nest_op(ls_infeed_close(0)), ls_nest_op(ls_infeed_close(1)),
                ls_nest_op(ls_infeed_close(2)));
  }
  LS_OWN(ls_nest, all) = ls_nest_sequence(LS_KIND_LIST, puts, REPLICAS);
  for (int k = 0; k < 8; ++k)
    pod_runs_do(&f, ls_nest_retain(all));
  pod_runs_do(&f, closes);
  for (int run = 0; run < 2; ++run) {
    pod_runs_do(&f, ls_nest_retain(device));
    for (size_t r = 0; r < REPLICAS; ++r) {
      const ls_nest item = ls_nest_item(ls_nest_item(f.results, r), 0);
      assert_true(ls_array_f64(ls_nest_as_array(item), 0) ==
                  (double)(r + 1) * (run == 0 ? 5 : 3));
    }
  }
  ls_nest_release(device);
  ls_infeed_queue_release(l.queue);
}

static ls_nest take_one(ls_nest args, void *user) {
  (void)args, (void)user;
  return ls_leaf(ls_infeed_dequeue(LS_DTYPE_F32, LS_SCALAR));
}

// A step of a mirrored strategy: replica r takes from core r; what is put op by
// op in eager is there.
TEST(replicas_of_a_mirrored_strategy_are_the_first_cores) {
  enum { REPLICAS = 3 };
  LS_OWN(pod_runs, f) = pod_runs_begin(
      2, 2, (ls_runtime_options){.threads = 1, .stall_ms = 20000});
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_nest, results) = ls_none();
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(REPLICAS)}, &strategy));
  LS_OWN(ls_function, function) = unnamed_function(take_one, NULL);
  for (int k = 0; k < 3; ++k) {
    {
      expect_ok(ls_frame_begin());
      for (int r = 0; r < REPLICAS; ++r)
        (void)put_number(r / 2, r % 2, 10 * k + r);
      expect_ok(ls_graph_take_error(ls_graph_current()));
      expect_ok(ls_frame_end(NULL));
    }
    expect_ok(
        ls_strategy_run(strategy, ls_traced(function), ls_none(), &results));
    for (int r = 0; r < REPLICAS; ++r) {
      const ls_nest item = ls_distributed_component(results, (size_t)r);
      assert_true(ls_array_f64(ls_nest_as_array(item), 0) == 10 * k + r);
    }
  }
  {
    expect_ok(ls_frame_begin());
    (void)put_number(1, 1, 77);
    double number = 0;
    expect_ok(ls_nest_to_number(ls_leaf(take_number(1, 1)), &number));
    assert_true(number == 77);
    expect_ok(ls_frame_end(NULL));
  }
}
