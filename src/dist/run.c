// SPDX-License-Identifier: Apache-2.0
//
// Running a callable on every replica of a strategy.
#include "base/nest_internal.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "dist/context.h"
#include "lockstep/trunk.h"

static ls_status trace_mirrored(const ls_tracer *tracer, ls_graph *graph,
                                const ls_function_options *function,
                                ls_nest args, ls_nest *out_result) {
  return ls_replicas_trace(tracer->self, graph, function, args, out_result);
}

// Takes no memory: a walk, not a map.
static ls_status check_components(const ls_strategy *strategy, ls_nest nest) {
  for (size_t i = 0; i < ls_nest_count(nest); ++i)
    LS_RETURN_IF_ERROR(check_components(strategy, ls_nest_item(nest, i)));
  const size_t count = ls_distributed_count(nest);
  if (nest.kind == LS_KIND_DISTRIBUTED &&
      count != (size_t)strategy->num_replicas)
    return ls_invalid_argument(
        "an argument has %zu components, the strategy %d replicas", count,
        strategy->num_replicas);
  return ls_ok();
}

static ls_status run_traced(ls_strategy *strategy, ls_function *function,
                            ls_nest args, ls_nest *results) {
  LS_RETURN_IF_ERROR(check_components(strategy, args));
  const ls_tracer tracer = {.key = strategy->id,
                            .replicas = strategy->num_replicas,
                            .trace = trace_mirrored,
                            .self = strategy};
  return ls_function_call_by(function, &tracer, args, results);
}

// A GPU is a name only, until a back end for it is there.
static ls_status check_devices(const ls_strategy *strategy) {
  if (strategy->no_cpu == NULL) return ls_ok();
  const ls_graph *graph = ls_graph_current();
  if (graph == NULL || graph->kind == LS_GRAPH_BUILD) return ls_ok();
  return ls_unimplemented("running on device '%s': only CPUs compute",
                          strategy->no_cpu);
}

static ls_status run_default(ls_callable callable, ls_nest args,
                             ls_nest *results) {
  if (callable.traced != NULL)
    return ls_function_call(callable.traced, args, results);
  return ls_nest_give(callable.plain(args, callable.user), results);
}

// Other ranks wait for one that fails before its program runs. They fail like
// it where what they were all given is wrong; what one rank lacks (memory, a
// file), only it can tell them.
static void tell_ranks(ls_status status) {
  const ls_code code = ls_status_code(status);
  if (code == LS_OK || code == LS_INVALID_ARGUMENT ||
      code == LS_FAILED_PRECONDITION || code == LS_UNIMPLEMENTED)
    return;
  ls_trunk *trunk = ls_runtime_trunk(ls_runtime_current());
  if (trunk != NULL) trunk->cancel(trunk, status);
}

static ls_status run_replicas(ls_strategy *strategy, ls_callable callable,
                              ls_nest args, ls_nest *results) {
  LS_RETURN_IF_ERROR(check_devices(strategy));
  const ls_status status =
      callable.traced != NULL
          ? run_traced(strategy, callable.traced, args, results)
          : ls_replicas_call(strategy, callable.plain, args, callable.user,
                             results);
  if (strategy->num_replicas > 1) tell_ranks(status);
  return status;
}

ls_status ls_strategy_run(ls_strategy *strategy, ls_callable callable,
                          ls_nest args, ls_nest *results) {
  LS_REQUIRE(strategy);
  LS_REQUIRE(results);
  if (callable.traced == NULL && callable.plain == NULL)
    return ls_invalid_argument("there is nothing to run on the replicas");
  if (args.kind != LS_KIND_NONE && args.kind != LS_KIND_LIST &&
      args.kind != LS_KIND_TUPLE) {
    LS_RETURN_IF_ERROR(ls_nest_status(args));
    char text[160];
    return ls_invalid_argument(
        "the arguments of a run are a list or a tuple, got %s",
        ls_nest_print(args, text, sizeof(text)));
  }
  ls_scope scope = {0};
  LS_RETURN_IF_ERROR(ls_cross_replica_begin(&scope, strategy, "run"));
  ls_status status = ls_ok();
  if (strategy->kind == LS_STRATEGY_DEFAULT) {
    ls_scope_end(&scope);
    status = run_default(callable, args, results);
  } else {
    status = run_replicas(strategy, callable, args, results);
  }
  ls_scope_end(&scope);
  return status;
}

ls_status ls_strategy_run_with(ls_strategy *strategy, ls_callable callable,
                               ls_nest args, const ls_run_options *options,
                               ls_nest *results) {
  LS_REQUIRE(strategy);
  LS_REQUIRE(results);
  if (options != NULL && (unsigned)options->run_concurrently > LS_FLAG_OFF)
    return ls_invalid_argument("run_concurrently %d is no flag",
                               (int)options->run_concurrently);
  return ls_strategy_run(strategy, callable, args, results);
}

ls_status ls_strategy_call_for_each_replica(ls_strategy *strategy,
                                            ls_callback callback, ls_nest args,
                                            void *user, ls_nest *results) {
  LS_REQUIRE(strategy);
  LS_REQUIRE(callback);
  LS_REQUIRE(results);
  return ls_strategy_run(strategy, ls_plain(callback, user), args, results);
}
