// SPDX-License-Identifier: Apache-2.0
#include "support/system_player.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/flow.h"
#include "lockstep/infeed.h"
#include "lockstep/training_loop.h"
#include "lockstep/variable_parts.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/system_builds.h"
#include "tpu/own.h"

// ---- Building --------------------------------------------------------------
static ls_status initialize_variable(system_player *p) {
  LS_OWN(ls_nest, results) = ls_none();
  LS_RETURN_IF_ERROR(ls_session_create(p->graph, &p->session));
  return ls_session_run(p->session,
                        ls_nest_op(ls_variable_initializer(p->variable)), NULL,
                        0, &results);
}

static ls_status build_in_graph(system_player *p) {
  LS_GRAPH_SCOPE(p->graph);
  return p->plan->way == BY_SESSION ? system_build_run(p)
                                    : system_build_replicated(p);
}

static ls_status build_estimator(system_player *p) {
  const system_size *size = &p->plan->sizes[p->size];
  p->estimator = (fitted){.pod = size->name,
                          .local = size->local,
                          .job = p->plan->job,
                          .folder = p->folder,
                          .y = strcmp(p->plan->job, "ruby") == 0 ? 2 : -2};
  return fitted_open(&p->estimator);
}

static ls_status build(system_player *p) {
  if (p->plan->way == BY_ESTIMATOR) return build_estimator(p);
  LS_RETURN_IF_ERROR(ls_tpu_strategy_create(
      &(ls_tpu_options){.resolver = p->resolver}, &p->strategy));
  if (p->plan->way == BY_FUNCTION || p->plan->way == BY_INFEED)
    return system_build_function(p);
  LS_RETURN_IF_ERROR(ls_graph_create("g", &p->graph));
  LS_RETURN_IF_ERROR(build_in_graph(p));
  return initialize_variable(p);
}

static void drop(system_player *p) {
  ls_session_destroy(p->session);
  ls_function_release(p->function);
  ls_nest_release(p->fetches);
  ls_graph_destroy(p->graph);
  ls_variable_release(p->variable);
  ls_strategy_release(p->strategy);
  fitted_end(&p->estimator);
  p->session = NULL;
  p->function = NULL;
  p->fetches = ls_none();
  p->graph = NULL;
  p->variable = NULL;
  p->strategy = NULL;
}

static ls_status connect_resolver(system_player *p) {
  const system_size *size = &p->plan->sizes[p->size];
  return ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){
          .name = size->name, .job = p->plan->job, .local = size->local},
      &p->resolver);
}

static ls_status rebuild(system_player *p) {
  LS_RETURN_IF_ERROR(ls_tpu_initialize(p->resolver, NULL));
  drop(p);
  return build(p);
}

void system_player_begin(system_player *p, const system_plan *plan,
                         ls_runtime *runtime, const char *name) {
  char command[60];
  *p = (system_player){.plan = plan, .runtime = runtime, .fetches = ls_none()};
  snprintf(p->folder, sizeof(p->folder), "%s-%s", plan->job, name);
  snprintf(command, sizeof(command), "rm -rf %s", p->folder);
  ls_runtime *before = ls_runtime_make_current(runtime);
  if (plan->way == BY_ESTIMATOR) assert_int_equal(system(command), 0);
  expect_ok(connect_resolver(p));
  expect_ok(rebuild(p));
  ls_runtime_make_current(before);
}

void system_player_end(system_player *p) {
  ls_runtime *before = ls_runtime_make_current(p->runtime);
  drop(p);
  ls_tpu_resolver_release(p->resolver);
  ls_runtime_make_current(before);
}

// ---- Acts ------------------------------------------------------------------
static ls_status put_tuples(const system_player *p) {
  const int32_t count = ls_strategy_num_replicas(p->strategy);
  const ls_nest number = ls_nest_zeros(LS_DTYPE_F32, LS_SCALAR);
  ls_array_set_f64(ls_nest_as_array(number), 0, p->runs + 0.3);
  LS_OWN(ls_nest, tuple) = LS_LIST(number);
  ls_status status = ls_ok();
  for (int32_t r = 0; r < count && ls_status_is_ok(status); ++r) {
    ls_device_name device;
    status = ls_tpu_strategy_device(p->strategy, r, 0, &device);
    if (ls_status_is_ok(status)) status = ls_infeed_put(device.text, tuple);
  }
  return status;
}

static ls_status train(system_player *p, float *out_value) {
  double w = 0;
  LS_RETURN_IF_ERROR(fitted_train(&p->estimator, 4));
  LS_RETURN_IF_ERROR(fitted_weight(&p->estimator, &w));
  *out_value = (float)w;
  return ls_ok();
}

static ls_nest first_number(ls_nest results) {
  while (ls_distributed_count(results) > 0)
    results = ls_distributed_component(results, 0);
  while (ls_nest_is_node(results))
    results = ls_nest_item(results, 0);
  return results;
}

static ls_status run(system_player *p, float *out_value) {
  ls_nest results = ls_none();
  ls_status status = ls_ok();
  ++p->runs;
  if (p->plan->way == BY_ESTIMATOR) return train(p, out_value);
  if (p->plan->way == BY_INFEED) status = put_tuples(p);
  if (ls_status_is_ok(status))
    status = p->session != NULL
                 ? ls_session_run(p->session, p->fetches, NULL, 0, &results)
                 : ls_strategy_run(p->strategy, ls_traced(p->function),
                                   ls_none(), &results);
  if (ls_status_is_ok(status))
    *out_value = (float)ls_nest_number(first_number(results));
  ls_nest_release(results);
  return status;
}

static ls_status lose(const system_player *p) {
  LS_OWN(ls_pod, pod) = NULL;
  ls_status status = ls_tpu_pod(p->resolver, &pod);
  if (ls_status_is_ok(status))
    status = ls_pod_inject(
        pod, &(ls_pod_fault){.kind = p->runs % 2 == 0 ? LS_POD_HOST_PREEMPTED
                                                      : LS_POD_CORE_LOST});
  return status;
}

static ls_status resize(system_player *p) {
  LS_RETURN_IF_ERROR(ls_tpu_shutdown(p->resolver));
  ls_tpu_resolver_release(p->resolver);
  p->resolver = NULL;
  p->size = 1 - p->size;
  LS_RETURN_IF_ERROR(connect_resolver(p));
  return ls_tpu_initialize(p->resolver, NULL);
}

static ls_status do_act(system_player *p, system_act act, float *out_value) {
  switch (act) {
  case RUN:
    return run(p, out_value);
  case INITIALIZE:
    return ls_tpu_initialize(p->resolver, NULL);
  case SHUT_DOWN:
    return ls_tpu_shutdown(p->resolver);
  case LOSE:
    return lose(p);
  case RESIZE:
    return resize(p);
  default:
    return rebuild(p);
  }
}

// A failure is its own system's.
static void check_names(system_player *p, ls_status status) {
  const char *text = ls_status_message(status);
  const char *own = system_plan_is_local(p->plan) ? "local" : p->plan->job;
  if (strstr(text, own) != NULL &&
      (p->other_job == NULL || strstr(text, p->other_job) == NULL))
    return;
  snprintf(p->wrong, sizeof(p->wrong), "%s: %s", p->plan->job, text);
}

bool system_player_goes_on(const system_player *p) {
  return p->next < p->plan->num_acts;
}

void system_player_act(system_player *p) {
  system_outcome *out = &p->outcomes[p->next];
  LS_OWN(ls_status, status) = do_act(p, p->plan->acts[p->next++], &out->value);
  out->code = ls_status_code(status);
  if (!ls_status_is_ok(status)) check_names(p, status);
}
