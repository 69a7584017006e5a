// SPDX-License-Identifier: Apache-2.0
//
// Replicated computations survive any refused request for memory.
#include "lockstep/flow.h"
#include "lockstep/gradients.h"
#include "lockstep/ops.h"
#include "lockstep/replicate.h"
#include "lockstep/session.h"
#include "support/fault.h"
#include "support/spec.h"

typedef struct job {
  ls_graph *graph;
  ls_session *session;
  ls_nest result;
} job;

static ls_nest square(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_square(args.as.tensor));
}

// Outside, compiled, their gradient, a loop.
static ls_nest compute(ls_nest args, void *user) {
  const ls_nest x = ls_nest_item(args, 0);
  LS_DEVICE_SCOPE("/device:TPU_REPLICATED_CORE:0");
  const ls_nest y = ls_outside_compilation(square, user, x);
  if (ls_nest_is_failed(y)) return y;
  ls_nest gradient = ls_none();
  const ls_status status = ls_gradients(
      &y, 1, &x, 1, &(ls_gradient_options){.colocate_with_ops = true},
      &gradient);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  return LS_LIST(ls_leaf(ls_all_reduce(LS_REDUCE_SUM, y.as.tensor)), gradient);
}

static ls_status begin(void *self) {
  return ls_graph_create("g", &((job *)self)->graph);
}

static ls_nest inputs_of_two(void) {
  const ls_tensor x = ls_scalar(LS_DTYPE_F32, 3);
  return LS_LIST(LS_LIST(ls_leaf(x)), LS_LIST(ls_leaf(ls_neg(x))));
}

static ls_status build(job *j, ls_nest *outputs) {
  LS_GRAPH_SCOPE(j->graph);
  const ls_nest inputs = inputs_of_two();
  ls_status status = ls_nest_status(inputs);
  if (ls_status_is_ok(status))
    status = ls_replicate(compute, NULL, inputs, NULL, outputs);
  ls_nest_release(inputs);
  // What an op maker could not do is the graph's.
  const ls_status error = ls_graph_take_error(j->graph);
  return ls_status_join(status, error);
}

static ls_status act(void *self) {
  job *j = self;
  ls_nest outputs = ls_none();
  ls_status status = build(j, &outputs);
  if (ls_status_is_ok(status) && j->session == NULL)
    status = ls_session_create(j->graph, &j->session);
  if (ls_status_is_ok(status))
    status = ls_session_run(j->session, outputs, NULL, 0, &j->result);
  ls_nest_release(outputs);
  return status;
}

// 9 + 9, and the gradient on replica 1.
static double outcome(void *self) {
  const ls_nest of = ls_nest_item(((job *)self)->result, 1);
  return ls_nest_number(ls_nest_item(of, 0)) +
         100 * ls_nest_number(ls_nest_item(of, 1));
}

static void end(void *self) {
  job *j = self;
  ls_nest_release(j->result);
  ls_session_destroy(j->session);
  ls_graph_destroy(j->graph);
}

static void a_computation_survives_any_failed_request(void **state) {
  (void)state;
  LS_SPEC("O107");
  expect_faults_survived(&(fault_scenario){.name = "replicated computation",
                                           .size = sizeof(job),
                                           .begin = begin,
                                           .act = act,
                                           .outcome = outcome,
                                           .end = end});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_computation_survives_any_failed_request),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
