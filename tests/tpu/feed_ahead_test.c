// SPDX-License-Identifier: Apache-2.0
//
// How far a loop of a host is ahead of the loop that takes its tuples, in one
// run: one large tuple, which is in the caches when it is taken; of small ones
// a whole queue.
#include "lockstep/flow.h"
#include "lockstep/host.h"
#include "lockstep/object.h"
#include "lockstep/replicate.h"
#include "lockstep/training_loop.h"
#include "support/callbacks.h"
#include "support/pod_runs.h"
#include "tpu/pod/core_queues.h"

enum { STEPS = 30, REPLICAS = 2 };

typedef struct ahead {
  ls_object object;
  pod_runs *runs;
  int64_t elements;
  size_t most;
  ls_infeed_queue *queue;
} ahead;

static void keep(ls_object *object) { (void)object; }
static const ls_object_type ahead_type = {.name = "ahead", .destroy = keep};

// How many tuples wait when a trip has taken its own.
static ls_status look(ls_host_call *call) {
  ahead *a = (ahead *)call->state;
  for (int core = 0; core < REPLICAS; ++core) {
    const size_t count =
        ls_queue_count(ls_pod_core(a->runs->pod, 0, core)->infeed->tuples);
    if (count > a->most) a->most = count;
  }
  ls_host_done(call, ls_ok());
  return ls_ok();
}
static const ls_host_kernel look_kernel = {
    .name = "look",
    .start = look,
    .flags = LS_HOST_INLINE | LS_HOST_ALL | LS_HOST_ON_CORES};

static ls_nest trip(ls_nest args, void *user) {
  ahead *a = user;
  const ls_tensor x = ls_reduce_sum(ls_nest_tensor(args, 1), LS_ALL_AXES);
  const ls_tensor sum = ls_add(ls_nest_tensor(args, 0), x);
  return LS_LIST(ls_leaf(sum), ls_nest_op(ls_host_call_add(
                                   &look_kernel, &a->object, NULL, 0)));
}

static ls_nest train(ls_nest args, void *user) {
  ahead *a = user;
  ls_nest outputs = ls_none();
  (void)args;
  const ls_training_loop loop = {.body = trip, .user = a, .infeed = a->queue};
  LS_OWN(ls_nest, inputs) = LS_LIST(ls_leaf(pod_number(0)));
  const ls_status status = ls_training_repeat(STEPS, &loop, inputs, &outputs);
  return ls_status_is_ok(status) ? outputs : ls_fail(status);
}

static ls_nest feed(ls_nest values, void *user) {
  const ahead *a = user;
  const ls_tensor i = ls_nest_tensor(values, 0);
  for (int core = 0; core < REPLICAS; ++core)
    (void)put_tensor(0, core, ls_broadcast(i, LS_SHAPE(a->elements)));
  return LS_LIST(ls_leaf(ls_add_scalar(i, 1)));
}

// The most tuples that wait for one core.
static size_t most_of(int64_t elements) {
  LS_OWN(pod_runs, f) =
      pod_runs_begin(1, REPLICAS, (ls_runtime_options){.threads = 1});
  ahead a = {.runs = &f, .elements = elements};
  const ls_dtype dtype = LS_DTYPE_F32;
  const ls_shape shape = LS_SHAPE(REPLICAS * elements);
  ls_nest outputs = ls_none(), loop = ls_none();
  ls_object_init(&a.object, &ahead_type);
  expect_ok(ls_infeed_queue_create(
      &(ls_infeed_options){
          .dtypes = &dtype, .num_dtypes = 1, .shapes = &shape, .num_shapes = 1},
      &a.queue));
  {
    LS_GRAPH_SCOPE(f.graph);
    LS_OWN(ls_nest, made) =
        ls_while(always_true, feed, &a, LS_LIST(ls_leaf(pod_number(0))), STEPS);
    loop = ls_leaf(ls_nest_tensor(made, 0));
    LS_OWN(ls_nest, inputs) = LS_LIST(LS_LIST(ls_leaf(pod_number(0))),
                                      LS_LIST(ls_leaf(pod_number(1))));
    expect_ok(ls_replicate(train, &a, inputs, NULL, &outputs));
  }
  pod_runs_do(&f, LS_LIST(loop, outputs));
  const ls_nest sums = ls_nest_item(f.results, 1);
  for (size_t r = 0; r < REPLICAS; ++r)
    assert_true(
        ls_array_f64(ls_nest_as_array(ls_nest_item(ls_nest_item(sums, r), 0)),
                     0) == (double)elements * STEPS * (STEPS - 1) / 2);
  ls_infeed_queue_release(a.queue);
  return a.most;
}

TEST(a_loop_is_one_large_tuple_ahead) {
  assert_in_range(most_of(1 << 12), 0, 2);  // Of 16 KiB.
  assert_true(most_of(1) > 2);
}
