// SPDX-License-Identifier: Apache-2.0
//
// Values and updates of TPU strategies survive any refused request for memory.
#include "distribute/own.h"
#include "lockstep/cross_device.h"
#include "lockstep/flow.h"
#include "lockstep/ops.h"
#include "lockstep/session.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable_parts.h"
#include "support/callbacks.h"
#include "support/counted.h"
#include "support/fault.h"
#include "support/tpu_strategies.h"

enum { REPLICAS = 3 };

typedef struct job {
  ls_strategy *strategy;
  ls_graph *graph;
  ls_session *session;
  ls_variable *variable;
  ls_nest result;
} job;

static ls_nest add(ls_nest args, void *user) {
  (void)user;
  ls_tensor x;
  const ls_status status = ls_distributed_as_tensor(ls_nest_item(args, 1), &x);
  return ls_status_is_ok(status)
             ? ls_leaf(ls_variable_assign_add(
                   ls_nest_as_variable(ls_nest_item(args, 0)), x))
             : ls_fail(status);
}

static ls_nest merged(ls_strategy *s, ls_nest args, void *user) {
  const job *j = user;
  const ls_nest x = ls_nest_item(args, 0);
  ls_nest mean = ls_none(), first = ls_none(), made = ls_none();
  LS_OWN(ls_nest, host) = ls_none();
  ls_status status =
      ls_strategy_reduce_to(s, LS_REDUCE_MEAN, x, (ls_destinations){0}, &mean);
  if (ls_status_is_ok(status))
    status = ls_strategy_broadcast_to(s, x, (ls_destinations){0}, &first);
  LS_OWN(ls_nest, given) = LS_TUPLE(mean);
  if (ls_status_is_ok(status))
    status = ls_strategy_update(s, j->variable, add, given, NULL, true, &made);
  if (ls_status_is_ok(status))
    status = ls_strategy_update_non_slot(s, NULL, 0, give_first, args, NULL,
                                         false, &host);
  return ls_status_is_ok(status) ? LS_LIST(made, first) : ls_fail(status);
}

static ls_nest step(ls_nest args, void *user) {
  const ls_nest made =
      ls_replica_merge_call(ls_replica_context(), merged, args, user);
  if (ls_nest_is_failed(made)) return made;
  return LS_LIST(made, ls_replica_all_gather(ls_replica_context(),
                                             ls_nest_item(args, 0), 0));
}

static ls_status begin(void *self) {
  job *j = self;
  j->strategy = tpu_strategy_of(REPLICAS);
  return ls_graph_create("g", &j->graph);
}

static ls_nest parts(void) {
  ls_nest items[REPLICAS];
  for (int r = 0; r < REPLICAS; ++r)
    items[r] =
        ls_leaf(ls_broadcast(ls_scalar(LS_DTYPE_F32, r + 1), LS_SHAPE(1)));
  return LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, items, REPLICAS));
}

// What is made across replicas, outside of computations.
static ls_status build_across(job *j, ls_nest args, ls_nest *out) {
  static const char *where[] = {"/device:CPU:0", "/device:TPU:1",
                                "/device:TPU:2"};
  const ls_nest x = ls_nest_item(args, 0);
  ls_nest sum = ls_none(), rows = ls_none(), updated = ls_none();
  ls_status status = ls_strategy_reduce_to(
      j->strategy, LS_REDUCE_SUM, x,
      (ls_destinations){.devices = where, .num_devices = 3}, &sum);
  if (ls_status_is_ok(status))
    status = ls_strategy_gather(j->strategy, x, 0, &rows);
  LS_OWN(ls_nest, given) = LS_TUPLE(sum);
  if (ls_status_is_ok(status))
    status = ls_strategy_update(j->strategy, j->variable, add, given, NULL,
                                false, &updated);
  *out = LS_LIST(rows, updated);
  return ls_status_join(status, ls_nest_status(*out));
}

static ls_status build(job *j, ls_nest *out) {
  LS_GRAPH_SCOPE(j->graph);
  ls_nest each = ls_none(), across = ls_none();
  LS_OWN(ls_nest, made) = ls_none();
  {
    LS_STRATEGY_SCOPE(j->strategy);
    LS_RETURN_IF_ERROR(ls_scope_status());
    LS_RETURN_IF_ERROR(ls_variable_create(
        &(ls_variable_options){
            .name = "v", .dtype = LS_DTYPE_F32, .shape = LS_SHAPE(1)},
        &j->variable));
  }
  LS_OWN(ls_nest, args) = parts();
  ls_status status = ls_nest_status(args);
  if (ls_status_is_ok(status))
    status = ls_strategy_run(j->strategy, ls_plain(step, j), args, &made);
  if (ls_status_is_ok(status))
    status = ls_strategy_local_results(j->strategy, made, &each);
  if (ls_status_is_ok(status)) status = build_across(j, args, &across);
  *out = LS_LIST(each, across);
  // What an op maker could not do is the graph's.
  status = ls_status_join(status, ls_graph_take_error(j->graph));
  return ls_status_join(status, ls_nest_status(*out));
}

static ls_status act(void *self) {
  job *j = self;
  LS_OWN(ls_nest, outputs) = ls_none();
  LS_OWN(ls_nest, none) = ls_none();
  ls_variable_release(j->variable);
  j->variable = NULL;
  ls_status status = build(j, &outputs);
  if (ls_status_is_ok(status) && j->session == NULL)
    status = ls_session_create(j->graph, &j->session);
  if (ls_status_is_ok(status))
    status = ls_session_run(j->session,
                            ls_nest_op(ls_variable_initializer(j->variable)),
                            NULL, 0, &none);
  if (ls_status_is_ok(status))
    status = ls_session_run(j->session, outputs, NULL, 0, &j->result);
  return status;
}

// What the last replica has of the first one, and the last row.
static double outcome(void *self) {
  const ls_nest each = ls_nest_item(((job *)self)->result, 0);
  const ls_nest last = ls_nest_item(each, REPLICAS - 1);
  const ls_nest first = ls_nest_item(ls_nest_item(last, 0), 1);
  return ls_nest_number(first) +
         10 * ls_array_f64(ls_nest_as_array(ls_nest_item(last, 1)),
                           REPLICAS - 1);
}

static void end(void *self) {
  job *j = self;
  ls_nest_release(j->result);
  ls_session_destroy(j->session);
  ls_variable_release(j->variable);
  ls_graph_destroy(j->graph);
  ls_strategy_release(j->strategy);
}

TEST(values_survive_any_failed_request) {
  refuse_each(&(fault_scenario){.name = "values of a TPU strategy",
                                .size = sizeof(job),
                                .begin = begin,
                                .act = act,
                                .outcome = outcome,
                                .end = end});
}

TEST(a_refused_destination_leaves_nothing) {
  LS_OWN(counted, c) = counted_begin(1);
  LS_OWN(ls_strategy, s) = tpu_strategy_of(1);
  LS_OWN(ls_nest, value) = ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(3));
  const ls_destinations nowhere = {.device = "no device//at all"};
  ls_nest made = ls_none();
  {
    LS_STRATEGY_SCOPE(s);
    expect_status(
        ls_strategy_reduce_to(s, LS_REDUCE_SUM, value, nowhere, &made),
        LS_INVALID_ARGUMENT, "no device");
  }
}
