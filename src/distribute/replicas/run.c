// SPDX-License-Identifier: Apache-2.0
//
// Runs a callable on every replica of a strategy.
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "distribute/base/strategy.h"
#include "distribute/context/context.h"
#include "distribute/cross_device/cross_device.h"
#include "distribute/values/values.h"
#include "engine/backend.h"
#include "lockstep/communicator.h"
#include "lockstep/strategy_extended.h"
#include "net/waiting.h"
#include "runtime/ranks.h"

static ls_status trace_mirrored(const ls_tracer *tracer, ls_graph *graph,
                                const ls_function_options *function,
                                ls_nest args, ls_nest *out_result) {
  return ls_replicas_trace(tracer->self, graph, function, args, out_result);
}

static ls_status call_mirrored(const ls_tracer *tracer,
                               const ls_function_options *function,
                               ls_nest args, ls_nest *out_result) {
  return ls_replicas_call(tracer->self, function->call, args, function->user,
                          out_result);
}

static ls_status run_traced(ls_strategy *strategy, ls_function *function,
                            ls_nest args, ls_nest *results) {
  const ls_tracer tracer = {.key = strategy->id,
                            .replicas = strategy->num_replicas,
                            .trace = trace_mirrored,
                            .call = call_mirrored,
                            .self = strategy};
  return ls_function_call_by(function, &tracer, args, results);
}

// Refuses devices that the runtime does not have. Of devices that nobody named
// the type counts: they may be more.
static ls_status check_devices(ls_strategy *strategy) {
  if ((strategy->no_cpu == NULL && !strategy->is_placed) ||
      __atomic_load_n(&strategy->has_devices, __ATOMIC_RELAXED))
    return ls_ok();
  const ls_graph *graph = ls_graph_current();
  if (graph == NULL || graph->kind == LS_GRAPH_BUILD) return ls_ok();
  bool are_cores = false;  // Their system may be shut down.
  for (int32_t i = 0; i < strategy->num_replicas; ++i) {
    int32_t device = 0;
    bool is_core = false;
    const ls_status status = ls_device_find(
        strategy->runtime, ls_strategy_device(strategy, i), &device, &is_core);
    are_cores |= is_core;
    if (strategy->is_placed || ls_status_code(status) != LS_NOT_FOUND)
      LS_RETURN_IF_ERROR(status);
    else
      ls_status_free(status);
  }
  __atomic_store_n(&strategy->has_devices, !are_cores, __ATOMIC_RELAXED);
  return ls_ok();
}

void ls_strategy_tell_ranks(const ls_strategy *strategy, ls_status status) {
  if (strategy->num_replicas > 1) ls_ranks_tell(ls_runtime_current(), status);
}

ls_status ls_mirrored_run(ls_strategy *strategy, ls_crossing *crossing,
                          const ls_run_request *request, ls_nest *results) {
  const ls_callable callable = request->callable;
  const ls_device_list list = {.devices = ls_strategy_devices(strategy),
                               .count = (size_t)strategy->num_replicas,
                               .must_have = true};
  LS_OWN(ls_nest, args) = ls_none();
  (void)crossing;  // The caller has entered the cross-replica context.
  LS_RETURN_IF_ERROR(
      ls_status_annotate(ls_check_components(request->args, &list),
                         "in the arguments of a run of %s", strategy->label));
  LS_RETURN_IF_ERROR(ls_order_components(request->args, &list, &args));
  return callable.traced != NULL
             ? run_traced(strategy, callable.traced, args, results)
             : ls_replicas_call(strategy, callable.plain, args, callable.user,
                                results);
}

// Finds the callable of an object, which is run in place of the object.
static ls_status run_find_entry(ls_callable *callable) {
  ls_object *object = callable->object;
  if (object == NULL) return ls_ok();
  if (object->type->call_entry != NULL)
    callable->traced = object->type->call_entry(object);
  if (callable->traced != NULL) return ls_ok();
  return ls_invalid_argument("a %s is no function that can be run: it has no "
                             "call entry (ls_object_type)",
                             object->type->name);
}

static ls_status check_run(ls_callable callable, ls_nest args) {
  if (callable.traced == NULL && callable.plain == NULL)
    return ls_invalid_argument("there is nothing to run on the replicas");
  if (args.kind == LS_KIND_NONE || args.kind == LS_KIND_LIST ||
      args.kind == LS_KIND_TUPLE)
    return ls_ok();
  LS_RETURN_IF_ERROR(ls_nest_status(args));
  return ls_invalid_argument(
      "the arguments of a run are a list or a tuple; wrap a single one: "
      "LS_TUPLE(ls_nest_retain(batch)); got %.60s",
      LS_NEST_TEXT(args));
}

static ls_status run_bound(ls_strategy *strategy, const ls_run_request *request,
                           ls_nest *results) {
  ls_crossing crossing;
  LS_RETURN_IF_ERROR(ls_cross_replica_begin(&crossing, strategy, "run"));
  // A traced function reuses the results of its previous call; a plain callback
  // makes new ones.
  const bool plain = request->callable.traced == NULL;
  ls_nest made = ls_none();
  ls_status status = check_devices(strategy);
  if (ls_status_is_ok(status))
    status = strategy->kind->run(strategy, &crossing, request,
                                 plain ? &made : results);
  status = ls_cross_replica_end(&crossing, status, plain ? &made : NULL);
  if (plain && ls_status_is_ok(status)) {
    ls_nest_release(*results);
    *results = made;
  }
  return status;
}

static ls_status run_check_flag(const char *name, ls_flag flag) {
  return (unsigned)flag <= LS_FLAG_OFF
             ? ls_ok()
             : ls_invalid_argument("%s %d is no flag", name, (int)flag);
}

static ls_status run_check_options(const ls_strategy *strategy,
                                   const ls_run_options *options) {
  LS_RETURN_IF_ERROR(
      run_check_flag("run_concurrently", options->run_concurrently));
  LS_RETURN_IF_ERROR(run_check_flag("dynamic_batch", options->dynamic_batch));
  LS_RETURN_IF_ERROR(run_check_flag("bucketize", options->bucketize));
  LS_RETURN_IF_ERROR(run_check_flag("soft_placement", options->soft_placement));
  const bool for_tpus = options->dynamic_batch != LS_FLAG_DEFAULT ||
                        options->bucketize != LS_FLAG_DEFAULT ||
                        options->soft_placement != LS_FLAG_DEFAULT ||
                        options->xla != NULL;
  if (!for_tpus || strategy->kind->check_run != NULL) return ls_ok();
  return ls_invalid_argument(
      "a run on %s with options dynamic_batch, bucketize, soft_placement or "
      "xla: they are for TPU strategies",
      strategy->label);
}

// Binds the arguments to the callable's parameters, and runs it.
static ls_status run(ls_strategy *strategy, ls_callable callable, ls_nest args,
                     const ls_run_options *options, ls_nest *results) {
  LS_RETURN_IF_ERROR(run_find_entry(&callable));
  LS_RETURN_IF_ERROR(check_run(callable, args));
  LS_RETURN_IF_ERROR(run_check_options(strategy, options));
  const ls_function_options *function =
      callable.traced != NULL ? ls_function_options_of(callable.traced) : NULL;
  const ls_parameters *parameters =
      function != NULL ? function->parameters : callable.parameters;
  const char *noun = function != NULL ? function->name : "a run's callback";
  ls_run_request request = {
      .callable = callable, .args = args, .options = options};
  if (strategy->kind->check_run != NULL)
    LS_RETURN_IF_ERROR(
        strategy->kind->check_run(strategy, &request, parameters, noun));
  if (ls_arguments_are_bound(parameters, args, options->named))
    return run_bound(strategy, &request, results);
  LS_OWN(ls_nest, bound) = ls_none();
  LS_RETURN_IF_ERROR(
      ls_parameters_bind(parameters, noun, args, options->named, &bound));
  request.args = bound;
  request.has_names = parameters != NULL ? parameters->any_names
                                         : ls_nest_count(options->named) > 0;
  return run_bound(strategy, &request, results);
}

ls_status ls_strategy_run_with(ls_strategy *strategy, ls_callable callable,
                               ls_nest args, const ls_run_options *options,
                               ls_nest *results) {
  static const ls_run_options defaults;
  LS_REQUIRE(strategy, results);
  const int64_t limit =
      ls_exchange_limit_set(ls_cross_device_limit(strategy->cross_device));
  const ls_status status = run(strategy, callable, args,
                               options != NULL ? options : &defaults, results);
  ls_exchange_limit_set(limit);
  ls_strategy_tell_ranks(strategy, status);
  return status;
}

ls_status ls_strategy_run(ls_strategy *strategy, ls_callable callable,
                          ls_nest args, ls_nest *results) {
  LS_REQUIRE(strategy, results);
  return ls_strategy_run_with(strategy, callable, args, NULL, results);
}

ls_status ls_strategy_call_for_each_replica(ls_strategy *strategy,
                                            ls_callback callback, ls_nest args,
                                            void *user, ls_nest *results) {
  LS_REQUIRE(strategy, callback, results);
  const ls_callable callable = ls_plain(callback, user);
  if (strategy->kind->call_each == NULL)
    return ls_strategy_run(strategy, callable, args, results);
  LS_RETURN_IF_ERROR(check_run(callable, args));
  ls_nest made = ls_none();
  LS_RETURN_IF_ERROR(LS_CROSS_REPLICA(
      strategy, "call_for_each_replica", &made,
      strategy->kind->call_each(strategy, callback, args, user, &made)));
  ls_nest_release(*results);
  *results = made;
  return ls_ok();
}
