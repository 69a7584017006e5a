// SPDX-License-Identifier: Apache-2.0
//
// Feeds, queues and loops survive each refused allocation, and leave nothing.
#include "base/memory/own.h"
#include "lockstep/flow.h"
#include "lockstep/replicate.h"
#include "lockstep/training_loop.h"
#include "support/fault.h"
#include "support/pod_runs.h"

enum { CORES = 2, STEPS = 3 };

typedef struct scenario {
  ls_pod *pod;
  ls_infeed_queue *queue;
  ls_graph *graph;
  ls_session *session;
  ls_nest ops, outputs, results;
} scenario;

static ls_nest add_next(ls_nest args, void *user) {
  (void)user;
  const ls_tensor sum = ls_add(ls_nest_tensor(args, 0),
                               ls_reshape(ls_nest_tensor(args, 1), LS_SCALAR));
  LS_DEVICE_SCOPE("/device:TPU_REPLICATED_CORE:0");
  return LS_LIST(ls_leaf(sum), ls_nest_op(ls_outfeed_enqueue(sum)));
}

static ls_nest compute(ls_nest args, void *user) {
  const scenario *s = user;
  ls_nest outputs = ls_none();
  (void)args;
  const ls_training_loop loop = {
      .body = add_next, .user = user, .infeed = s->queue};
  LS_OWN(ls_nest, inputs) = LS_LIST(ls_leaf(pod_number(0)));
  const ls_status status =
      ls_nest_is_failed(inputs)
          ? ls_nest_status(inputs)
          : ls_training_repeat(STEPS, &loop, inputs, &outputs);
  return ls_status_is_ok(status) ? outputs : ls_fail(status);
}

static ls_status build(scenario *s) {
  LS_GRAPH_SCOPE(s->graph);
  const ls_tensor whole = ls_fill(LS_DTYPE_F32, LS_SHAPE(CORES), 2);
  ls_nest inputs = LS_LIST(ls_leaf(whole));
  ls_status status = ls_nest_status(inputs);
  if (ls_status_is_ok(status))
    status = ls_infeed_queue_set_num_shards(s->queue, CORES);
  if (ls_status_is_ok(status))
    status = ls_infeed_queue_split_and_enqueue(s->queue, inputs, NULL, &s->ops);
  ls_nest_release(inputs);
  LS_RETURN_IF_ERROR(status);
  inputs =
      LS_LIST(LS_LIST(ls_leaf(pod_number(0))), LS_LIST(ls_leaf(pod_number(1))));
  status = ls_nest_status(inputs);
  if (ls_status_is_ok(status))
    status = ls_replicate(compute, s, inputs, NULL, &s->outputs);
  ls_nest_release(inputs);
  return status;
}

static ls_status go(scenario *s) {
  const ls_pod_shape shape = {.mesh = {1, CORES, 1, 1}, .hosts = 1};
  LS_RETURN_IF_ERROR(
      ls_pod_open(ls_runtime_current(), "virtual", "", &shape, &s->pod));
  ls_pod_initialize(s->pod);
  LS_RETURN_IF_ERROR(ls_infeed_queue_create(
      &(ls_infeed_options){.num_elements = LS_SOME(1)}, &s->queue));
  LS_RETURN_IF_ERROR(ls_graph_create("g", &s->graph));
  LS_RETURN_IF_ERROR(build(s));
  LS_RETURN_IF_ERROR(ls_session_create(s->graph, &s->session));
  for (int step = 0; step < STEPS; ++step)
    LS_RETURN_IF_ERROR(
        ls_session_run(s->session, s->ops, NULL, 0, &s->results));
  LS_RETURN_IF_ERROR(
      ls_session_run(s->session, s->outputs, NULL, 0, &s->results));
  LS_OWN(ls_nest, tuple) = ls_none();
  LS_RETURN_IF_ERROR(ls_outfeed_take("/device:TPU:1", &tuple));
  return ls_infeed_put("/device:TPU:1", tuple);
}

MEMORY_TEST(feed_a_loop) {
  scenario s = {0};
  const ls_status status = go(&s);
  ls_nest_release(s.results);
  ls_nest_release(s.ops);
  ls_nest_release(s.outputs);
  ls_session_destroy(s.session);
  ls_graph_destroy(s.graph);
  ls_infeed_queue_release(s.queue);
  if (s.pod != NULL) ls_pod_shut_down(s.pod);
  ls_object_release(s.pod);
  return status;
}
