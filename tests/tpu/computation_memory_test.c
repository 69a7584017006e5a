// SPDX-License-Identifier: Apache-2.0
//
// Replicated computations survive any refused request for memory.
#include "base/memory/own.h"
#include "lockstep/flow.h"
#include "lockstep/gradients.h"
#include "lockstep/ops.h"
#include "lockstep/replicate.h"
#include "lockstep/session.h"
#include "lockstep/variable_parts.h"
#include "support/fault.h"
#include "support/spec.h"

typedef struct job {
  ls_graph *graph;
  ls_session *session;
  ls_nest result;
  ls_variable *v;  // That is written outside; NULL: none.
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
  LS_OWN(ls_nest, inputs) = inputs_of_two();
  ls_status status = ls_nest_status(inputs);
  if (ls_status_is_ok(status))
    status = ls_replicate(compute, NULL, inputs, NULL, outputs);
  // What an op maker could not do is the graph's.
  const ls_status error = ls_graph_take_error(j->graph);
  return ls_status_join(status, error);
}

static ls_nest add_outside(ls_nest args, void *user) {
  return ls_leaf(ls_variable_assign_add(user, args.as.tensor));
}

typedef struct branch {
  ls_variable *v;
  ls_tensor x;
} branch;

static ls_nest add_it(ls_nest none, void *user) {
  const branch *b = user;
  (void)none;
  return ls_outside_compilation(add_outside, b->v, ls_leaf(b->x));
}

static ls_nest leave_it(ls_nest none, void *user) {
  (void)none;
  return ls_leaf(((const branch *)user)->x);
}

// Replica 0 does.
static ls_nest write_by_replica(ls_nest args, void *user) {
  branch b = {user, ls_nest_tensor(args, 0)};
  const ls_tensor zero = ls_scalar(LS_DTYPE_F32, 0);
  return LS_LIST(ls_cond(ls_greater(b.x, zero), add_it, leave_it, &b));
}

static ls_status build_writer(job *j, ls_nest *outputs) {
  LS_GRAPH_SCOPE(j->graph);
  LS_OWN(ls_nest, inputs) = inputs_of_two();
  ls_status status = ls_nest_status(inputs);
  if (ls_status_is_ok(status) && j->v == NULL)
    status = ls_variable_create(&(ls_variable_options){.name = "v",
                                                       .dtype = LS_DTYPE_F32,
                                                       .shape = LS_SCALAR},
                                &j->v);
  if (ls_status_is_ok(status))
    status = ls_replicate(write_by_replica, j->v, inputs, NULL, outputs);
  const ls_status error = ls_graph_take_error(j->graph);
  return ls_status_join(status, error);
}

static ls_status write_and_run(void *self) {
  job *j = self;
  LS_OWN(ls_nest, outputs) = ls_none();
  LS_OWN(ls_nest, none) = ls_none();
  ls_status status = build_writer(j, &outputs);
  if (ls_status_is_ok(status) && j->session == NULL)
    status = ls_session_create(j->graph, &j->session);
  if (ls_status_is_ok(status))
    status = ls_session_run(
        j->session, ls_nest_op(ls_variable_initializer(j->v)), NULL, 0, &none);
  if (ls_status_is_ok(status))
    status = ls_session_run(j->session, outputs, NULL, 0, &j->result);
  return status;
}

// Of both replicas.
static double sum_and_number(void *self) {
  const ls_nest result = ((job *)self)->result;
  return 10 * ls_nest_number(ls_nest_item(ls_nest_item(result, 0), 0)) +
         ls_nest_number(ls_nest_item(ls_nest_item(result, 1), 0));
}

static ls_status act(void *self) {
  job *j = self;
  LS_OWN(ls_nest, outputs) = ls_none();
  ls_status status = build(j, &outputs);
  if (ls_status_is_ok(status) && j->session == NULL)
    status = ls_session_create(j->graph, &j->session);
  if (ls_status_is_ok(status))
    status = ls_session_run(j->session, outputs, NULL, 0, &j->result);
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
  ls_variable_release(j->v);
  ls_graph_destroy(j->graph);
}

TEST(a_computation_survives_any_failed_request) {
  LS_SPEC("O107");
  refuse_each(&(fault_scenario){.name = "replicated computation",
                                .size = sizeof(job),
                                .begin = begin,
                                .act = act,
                                .outcome = outcome,
                                .end = end});
}

TEST(writes_in_a_branch_survive_any_failed_request) {
  LS_SPEC("O90 O107");
  refuse_each(&(fault_scenario){.name = "writes in a branch",
                                .size = sizeof(job),
                                .begin = begin,
                                .act = write_and_run,
                                .outcome = sum_and_number,
                                .end = end});
}
