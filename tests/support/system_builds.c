// SPDX-License-Identifier: Apache-2.0
#include "support/system_builds.h"

#include <stdio.h>

#include "lockstep/flow.h"
#include "lockstep/infeed.h"
#include "lockstep/training_loop.h"
#include "support/computation.h"
#include "support/function.h"
#include "tpu/own.h"

enum { TRIPS = 3, MOST_HOSTS = 4 };

// ---- On the cores ----------------------------------------------------------
static ls_tensor share_of_replica(void) {
  return ls_mul_scalar(
      ls_add_scalar(ls_convert(ls_replica_id(), LS_DTYPE_F32), 1), 0.1);
}

static ls_nest add_up(ls_nest args, void *user) {
  const system_player *p = user;
  (void)args;
  ls_tensor x = share_of_replica();
  if (p->plan->way == BY_INFEED)
    x = ls_mul(x, ls_infeed_dequeue(LS_DTYPE_F32, LS_SCALAR));
  return ls_leaf(
      ls_variable_assign_add(p->variable, ls_all_reduce(LS_REDUCE_SUM, x)));
}

static ls_nest take_and_add(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x =
      ls_mul(share_of_replica(), ls_infeed_dequeue(LS_DTYPE_F32, LS_SCALAR));
  return LS_LIST(ls_leaf(
      ls_add(ls_nest_tensor(args, 0), ls_all_reduce(LS_REDUCE_SUM, x))));
}

static ls_nest replicated(ls_nest args, void *user) {
  const system_player *p = user;
  ls_nest outputs = ls_none();
  if (p->plan->way != BY_ENQUEUE) {
    const ls_nest made = add_up(args, user);
    return LS_LIST(made);
  }
  LS_OWN(ls_nest, inputs) = LS_LIST(ls_leaf(f32_of(0)));
  const ls_status status = ls_training_repeat(
      TRIPS, &(ls_training_loop){.body = take_and_add}, inputs, &outputs);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_tensor sum = ls_nest_tensor(outputs, 0);
  ls_nest_release(outputs);
  return LS_LIST(ls_leaf(ls_variable_assign_add(p->variable, sum)));
}

// ---- On the hosts ----------------------------------------------------------
typedef struct feeding {
  const char *device;
  int32_t cores;
} feeding;

static ls_nest always(ls_nest values, void *user) {
  (void)values, (void)user;
  return ls_leaf(ls_scalar(LS_DTYPE_BOOL, 1));
}

// A tuple for each core of the host.
static ls_nest feed_cores(ls_nest values, void *user) {
  const feeding *f = user;
  const ls_tensor x = ls_nest_tensor(values, 0);
  LS_DEVICE_SCOPE(f->device);
  for (int32_t core = 0; core < f->cores; ++core)
    (void)ls_infeed_enqueue(ls_add_scalar(x, core), LS_SCALAR, core);
  return LS_LIST(ls_leaf(ls_add_scalar(x, 1)));
}

// What is fetched: the output and the loop of each host.
static ls_status add_feeding_loops(system_player *p,
                                   const ls_topology *topology) {
  ls_nest items[1 + MOST_HOSTS] = {p->fetches};
  const int32_t hosts = ls_topology_num_tasks(topology);
  ls_status status = ls_ok();
  for (int32_t h = 0; h < hosts && ls_status_is_ok(status); ++h) {
    char device[80];
    snprintf(device, sizeof(device), "/job:%s/task:%d/device:CPU:0",
             system_plan_is_local(p->plan) ? "localhost" : p->plan->job, h);
    feeding f = {.device = device,
                 .cores = ls_topology_num_devices_per_task(topology)};
    LS_OWN(ls_nest, made) =
        ls_while(always, feed_cores, &f, LS_LIST(ls_leaf(f32_of(0.3))), TRIPS);
    status = ls_nest_status(made);
    items[1 + h] = ls_leaf(ls_nest_tensor(made, 0));
  }
  p->fetches = ls_nest_sequence(LS_KIND_LIST, items, 1 + (size_t)hosts);
  return status;
}

// ---- Both ------------------------------------------------------------------
static ls_status make_variable(system_player *p) {
  return ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_F32,
                                                   .shape = LS_SCALAR,
                                                   .name = p->plan->job},
                            &p->variable);
}

static ls_status make_variable_of_strategy(system_player *p) {
  LS_STRATEGY_SCOPE(p->strategy);
  return make_variable(p);
}

ls_status system_build_function(system_player *p) {
  LS_RETURN_IF_ERROR(make_variable_of_strategy(p));
  p->function = function_of(add_up, p);
  return ls_ok();
}

static ls_nest first_of(ls_nest results) {
  return ls_distributed_count(results) > 0
             ? ls_distributed_component(results, 0)
             : results;
}

ls_status system_build_run(system_player *p) {
  LS_OWN(ls_nest, results) = ls_none();
  LS_RETURN_IF_ERROR(make_variable_of_strategy(p));
  LS_RETURN_IF_ERROR(
      ls_strategy_run(p->strategy, ls_plain(add_up, p), ls_none(), &results));
  p->fetches = ls_leaf(ls_nest_tensor(first_of(results), 0));
  return ls_ok();
}

static ls_status replicate_on(system_player *p,
                              ls_device_assignment *assignment) {
  LS_OWN(ls_nest, outputs) = ls_none();
  LS_OWN(ls_nest, inputs) =
      computation_inputs((size_t)ls_strategy_num_replicas(p->strategy));
  ls_status status = make_variable(p);
  if (ls_status_is_ok(status))
    status = ls_replicate(replicated, p, inputs,
                          &(ls_replicate_options){.assignment = assignment},
                          &outputs);
  LS_RETURN_IF_ERROR(status);
  p->fetches = ls_leaf(ls_nest_tensor(ls_nest_item(outputs, 0), 0));
  return ls_ok();
}

ls_status system_build_replicated(system_player *p) {
  LS_OWN(ls_topology, topology) = NULL;
  ls_device_assignment *assignment = NULL;
  const int32_t replicas = ls_strategy_num_replicas(p->strategy);
  LS_RETURN_IF_ERROR(ls_tpu_initialize(p->resolver, &topology));
  ls_status status = ls_device_assignment_build(
      topology,
      &(ls_device_assignment_options){.num_replicas = LS_SOME(replicas)},
      &assignment);
  if (ls_status_is_ok(status)) status = replicate_on(p, assignment);
  ls_device_assignment_release(assignment);
  if (ls_status_is_ok(status) && p->plan->way == BY_ENQUEUE)
    status = add_feeding_loops(p, topology);
  return status;
}
