// SPDX-License-Identifier: Apache-2.0
//
// How many threads there are while a pod trains: those that compute, whatever
// the number of hosts, cores and loops.
#include <stdlib.h>

#include "base/memory/own.h"
#include "lockstep/flow.h"
#include "lockstep/host.h"
#include "lockstep/replicate.h"
#include "lockstep/training_loop.h"
#include "support/bystander.h"
#include "support/callbacks.h"
#include "support/pod_runs.h"
#include "support/thread_count.h"

enum { STEPS = 20, MOST_HOSTS = 64 };

// Looked at in each trip.
static int most_threads;
static ls_status look_around(ls_host_call *call) {
  const int count = thread_count();
  if (count > most_threads) most_threads = count;
  ls_host_done(call, ls_ok());
  return ls_ok();
}
static const ls_host_kernel look_kernel = {
    .name = "look_around",
    .start = look_around,
    .flags = LS_HOST_INLINE | LS_HOST_ALL | LS_HOST_ON_CORES};

static ls_nest trip(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_reshape(ls_nest_tensor(args, 1), LS_SCALAR);
  return LS_LIST(ls_leaf(ls_add(ls_nest_tensor(args, 0), x)),
                 ls_nest_op(ls_host_call_add(&look_kernel, NULL, NULL, 0)));
}

static ls_nest train(ls_nest args, void *user) {
  ls_nest outputs = ls_none();
  (void)args;
  const ls_training_loop loop = {.body = trip, .infeed = user};
  LS_OWN(ls_nest, inputs) = LS_LIST(ls_leaf(pod_number(0)));
  const ls_status status = ls_training_repeat(STEPS, &loop, inputs, &outputs);
  return ls_status_is_ok(status) ? outputs : ls_fail(status);
}

static ls_nest device_loop(int replicas, ls_infeed_queue *queue) {
  HEAP(ls_nest, items) = calloc((size_t)replicas, sizeof(*items));
  ls_nest outputs = ls_none();
  for (int r = 0; r < replicas; ++r)
    items[r] = LS_LIST(ls_leaf(pod_number(r)));
  LS_OWN(ls_nest, inputs) =
      ls_nest_sequence(LS_KIND_LIST, items, (size_t)replicas);
  expect_ok(ls_replicate(train, queue, inputs, NULL, &outputs));
  return outputs;
}

typedef struct host {
  int task, cores;
} host;

// A tuple for each core of the host.
static ls_nest feed(ls_nest values, void *user) {
  const host *h = user;
  const ls_tensor i = ls_nest_tensor(values, 0);
  for (int core = 0; core < h->cores; ++core)
    (void)put_tensor(h->task, core, ls_reshape(i, LS_SHAPE(1)));
  return LS_LIST(ls_leaf(ls_add_scalar(i, 1)));
}

// The most threads that there were beside those before; T compute.
static int threads_of(int hosts, int cores, int threads) {
  const int before = thread_count();
  pod_runs f = pod_runs_begin(
      hosts, cores,
      (ls_runtime_options){.threads = threads, .stall_ms = 60000});
  ls_infeed_queue *queue = NULL;
  const ls_dtype dtype = LS_DTYPE_F32;
  const ls_shape shape = LS_SHAPE(hosts * cores);
  ls_nest fetches[MOST_HOSTS + 1];
  host all[MOST_HOSTS];
  expect_ok(ls_infeed_queue_create(
      &(ls_infeed_options){
          .dtypes = &dtype, .num_dtypes = 1, .shapes = &shape, .num_shapes = 1},
      &queue));
  {
    LS_GRAPH_SCOPE(f.graph);
    for (int i = 0; i < hosts; ++i) {
      all[i] = (host){i, cores};
      LS_OWN(ls_nest, made) = ls_while(always_true, feed, &all[i],
                                       LS_LIST(ls_leaf(pod_number(0))), STEPS);
      fetches[i] = ls_leaf(ls_nest_tensor(made, 0));
    }
    fetches[hosts] = device_loop(hosts * cores, queue);
  }
  most_threads = 0;
  pod_runs_do(&f, ls_nest_sequence(LS_KIND_LIST, fetches, (size_t)hosts + 1));
  const ls_nest of = ls_nest_item(f.results, (size_t)hosts);
  for (size_t r = 0; r < (size_t)(hosts * cores); ++r)
    assert_true(
        ls_array_f64(ls_nest_as_array(ls_nest_item(ls_nest_item(of, r), 0)),
                     0) == STEPS * (STEPS - 1) / 2);
  ls_infeed_queue_release(queue);
  pod_runs_end(&f);
  assert_int_equal(thread_count(), before);
  assert_true(most_threads >= before);
  return most_threads - before;
}

// A runtime has one for functions of users, though none is called here.
TEST(loops_of_many_hosts_take_no_thread) {
  assert_int_equal(threads_of(64, 1, 1), threads_of(1, 1, 1));
  assert_true(threads_of(64, 1, 1) <= 1);
}

// The caller's is one of those that compute.
TEST(a_large_pod_takes_the_threads_that_compute) {
  LS_SPEC("T194");
  enum { THREADS = 3 };
  assert_true(1 + threads_of(16, 64, THREADS) <= THREADS + 4);
}

static int stand_alone(void **state) {
  (void)state;
  bystander_forbid("all threads are counted");
  return 0;
}
TEST_FILE(.set_up = stand_alone)
