// SPDX-License-Identifier: Apache-2.0
//
// Feeds are made with every request for memory refused once.
#include <string.h>

#include "data/dataset.h"
#include "distribute/input/feed.h"
#include "estimator/input/input.h"
#include "lockstep/ops.h"
#include "support/fault.h"
#include "support/fed.h"
#include "tpu/own.h"

// ---- Inputs ----------------------------------------------------------------
// Data sets and values of a pair.
static ls_nest pair_of(ls_nest element, const ls_map_call *call, void *user) {
  (void)call, (void)user;
  return LS_TUPLE(ls_nest_retain(element), ls_nest_retain(element));
}

static ls_nest data(void *user, ls_input_call *call) {
  (void)user;
  return ls_nest_dataset(
      ls_dataset_map(fed_rows(10, ls_params_i64(call->params, "batch_size", 1)),
                     &(ls_map_options){.call = pair_of}));
}

static ls_nest values(void *user, ls_input_call *call) {
  (void)user;
  const ls_shape shape =
      LS_SHAPE(ls_params_i64(call->params, "batch_size", 1) - 1);
  return LS_TUPLE(ls_leaf(ls_iota(LS_DTYPE_F32, shape, 0)),
                  ls_leaf(ls_iota(LS_DTYPE_I32, shape, 0)));
}

// ---- Making ----------------------------------------------------------------
typedef struct way {
  const char *pod;
  ls_estimator_mode mode;
  ls_tpu_config tpu;
  ls_input_function input;
  bool any_batch, on_cpu, has_axes;
} way;

static ls_status make_graph(const way *w, const ls_estimator_calls *calls) {
  LS_OWN(ls_graph, graph) = NULL;
  LS_RETURN_IF_ERROR(ls_graph_create("g", &graph));
  {
    LS_GRAPH_SCOPE(graph);
    ls_variable *step = NULL;
    static const int64_t axes[] = {0, 0};
    const ls_input_feed_options options = {
        .any_batch = w->any_batch,
        .batch_axis = w->has_axes ? axes : NULL,
        .num_batch_axes = w->has_axes ? 2 : 0};
    ls_input_feed feed = {0};
    ls_cpu_input input = {0};
    LS_RETURN_IF_ERROR(ls_global_step_create(graph, &step));
    LS_RETURN_IF_ERROR(w->on_cpu ? ls_cpu_input_make(calls, &input)
                                 : ls_input_feed_make(calls, &options, &feed));
    LS_RETURN_IF_ERROR(ls_graph_error(graph));
    ls_cpu_input_drop(&input);
    ls_input_feed_drop(&feed);
  }
  return ls_ok();
}

static ls_status make_plans(const way *w, ls_run_config *config) {
  ls_plans *plans = NULL;
  const ls_opt batch = LS_SOME(4);
  LS_RETURN_IF_ERROR(ls_plans_create(
      &(ls_estimator_facts){
          .config = config,
          .batch_sizes = {batch, batch, batch, batch},
          .use_tpu = w->on_cpu ? LS_FLAG_OFF : LS_FLAG_DEFAULT,
          .eval_on_tpu = w->on_cpu ? LS_FLAG_OFF : LS_FLAG_DEFAULT,
          .any_batch = w->any_batch},
      &plans));
  ls_estimator_calls calls = {.input = &w->input,
                              .config = config,
                              .params = ls_nest_dict("", NULL, NULL, 0)};
  ls_status status = ls_nest_status(calls.params);
  if (ls_status_is_ok(status))
    status = ls_plans_get(plans, w->mode, false, &calls.plan);
  if (ls_status_is_ok(status)) status = make_graph(w, &calls);
  ls_nest_release(calls.params);
  ls_plans_destroy(plans);
  return status;
}

static ls_status make(void *user) {
  const way *w = user;
  ls_run_config *config = NULL;
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = w->pod}, &resolver));
  ls_status status = ls_tpu_initialize(resolver, NULL);
  const bool is_there = ls_status_is_ok(status);
  if (is_there)
    status = ls_tpu_run_config_create(
        &(ls_run_config_options){.master = w->pod, .tpu = &w->tpu}, &config);
  if (ls_status_is_ok(status)) status = make_plans(w, config);
  ls_run_config_release(config);
  // What there is of a system stays with the runtime until it is shut down.
  const ls_status ended = ls_tpu_shutdown(resolver);
  if (is_there)
    status = ls_status_join(status, ended);
  else
    ls_status_free(ended);
  return status;
}

TEST(refused_memory_is_survived) {
  static const char *const two = "virtual:2x1,cores=1";
  static const char *const hosts = "virtual:2x1,cores=1,hosts=2";
  const way ways[] = {
      {two, LS_MODE_TRAIN, .input = {.call = data}},
      {two, LS_MODE_TRAIN, .input = {.call = values}, .any_batch = true},
      {two, LS_MODE_EVAL, .tpu.per_host_input = LS_INPUT_PER_HOST_V2,
       .input = {.call = data}, .any_batch = true},
      {hosts, LS_MODE_EVAL, .tpu.per_host_input = LS_INPUT_PER_HOST_V2,
       .input = {.call = data}, .any_batch = true},
      {hosts, LS_MODE_TRAIN, .input = {.call = data}, .any_batch = true,
       .has_axes = true},
      {two, LS_MODE_TRAIN, .input = {.call = values}, .any_batch = true,
       .has_axes = true},
      {two, LS_MODE_PREDICT, .input = {.call = data}},
      {two, LS_MODE_PREDICT, .tpu.per_host_input = LS_INPUT_BROADCAST,
       .input = {.call = data}},
      {two, LS_MODE_TRAIN, .tpu.per_host_input = LS_INPUT_PER_SHARD_V1,
       .input = {.call = values}, .any_batch = true},
      {two, LS_MODE_TRAIN, .input = {.call = data}, .on_cpu = true},
  };
  for (size_t i = 0; i < LS_COUNT_OF(ways); ++i)
    REFUSE_EACH(make, (void *)(uintptr_t)&ways[i]);
}

// A data set that gives full batches, or none at all.
typedef struct filling {
  ls_dataset *full;
} filling;

static ls_status make_full(void *user) {
  filling *self = user;
  ls_dataset_release(self->full);
  self->full = ls_even_batches(
      fed_rows(10, 4), &(ls_even_options){.shares = {.parts = 1, .room = 4}});
  return ls_dataset_status(self->full);
}

static double rows_of_batches(void *user) {
  return (double)((const filling *)user)->full->leaves[0].type.shape.dim[0];
}

static void end_full(void *user) {
  ls_dataset_release(((filling *)user)->full);
}

TEST(batches_are_full_or_refused) {
  refuse_each(&(fault_scenario){.name = "full batches",
                                .size = sizeof(filling),
                                .act = make_full,
                                .outcome = rows_of_batches,
                                .end = end_full});
}
