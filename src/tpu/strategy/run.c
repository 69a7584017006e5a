// SPDX-License-Identifier: Apache-2.0
//
// Runs of a TPU strategy: runs a callable as a replicated computation of the
// current graph, and joins its results.
#include "base/values/nest_internal.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"
#include "tpu/pod/topology.h"
#include "tpu/replicate/context.h"
#include "tpu/replicate/replicate.h"
#include "tpu/strategy/strategy.h"
#include "tpu/system/resolver.h"

typedef ls_tpu_run run;

// ---- The replica context ---------------------------------------------------
// The replica context of one callback, on its C stack.
typedef struct tpu_replica {
  ls_replica *replica;
  ls_distribution entry;
  ls_same_values same, *outer_same;
} tpu_replica;

static ls_status replica_begin(tpu_replica *r, ls_strategy *strategy,
                               bool in_computation) {
  ls_context *context = ls_context_current();
  *r = (tpu_replica){.entry.strategy = strategy, .outer_same = context->same};
  LS_RETURN_IF_ERROR(ls_replicas_take(strategy, &r->replica));
  r->entry.replica = r->replica;
  if (in_computation) r->replica->graph = ls_graph_resolve(ls_graph_current());
  ls_distribution_push(context, &r->entry);
  return ls_ok();
}

static void end_replica(tpu_replica *r) {
  ls_context *context = ls_context_current();
  ls_distribute_scoped_of(context)->distribution = r->entry.outer;
  context->same = r->outer_same;
  ls_same_values_deinit(&r->same);
  ls_replicas_give(r->entry.strategy, r->replica);
}

static ls_status begin_replica(tpu_replica *out, ls_strategy *strategy) {
  LS_RETURN_IF_ERROR(replica_begin(out, strategy, true));
  out->replica->device_of_all = "/device:TPU_REPLICATED_CORE:0";
  out->same = (ls_same_values){.allocator = strategy->allocator,
                               .graph = out->replica->graph};
  ls_context_current()->same = &out->same;
  return ls_ok();
}

// Calls the callback once for all replicas, in a replica context.
static ls_nest call_replica(ls_nest inputs, void *user) {
  run *r = user;
  tpu_replica replica;
  LS_RETURN_FAILED_IF_ERROR(begin_replica(&replica, r->strategy));
  const ls_nest examples = ls_tpu_run_examples(r, inputs);
  replica.replica->examples = examples;
  replica.replica->examples_differ =
      examples.kind == LS_KIND_TENSOR &&
      ls_tensor_shape(examples.as.tensor).dim[0] == LS_UNKNOWN_DIM;
  const ls_nest args = ls_tpu_run_args(r, inputs);
  ls_nest made = ls_none();
  if (ls_nest_is_failed(args)) {
    made = ls_nest_retain(args);
  } else {
    made = r->fn(args, r->user);
  }
  made = ls_tpu_run_flatten(r, made);
  end_replica(&replica);
  ls_nest_release(args);
  return made;
}

static ls_device_assignment *assignment_of(const ls_strategy *strategy) {
  const ls_tpu_strategy *self = ls_tpu_strategy_of(strategy);
  return self->cores.assignment != NULL ? self->cores.assignment
                                        : self->cores.all_cores;
}

static ls_status build_run(run *r, ls_nest *out_result) {
  const ls_tpu_way *way = r->way;
  ls_replicate_options options = {
      .assignment = assignment_of(r->strategy),
      .soft_placement = way->soft_placement ? LS_FLAG_ON : LS_FLAG_OFF,
      .xla = way->xla,
      .padding = way->bucketize ? LS_PADDING_POWER_OF_TWO : LS_PADDING_AUTO};
  LS_OWN(ls_nest, inputs) = ls_none();
  LS_OWN(ls_nest, outputs) = ls_none();
  LS_OWN(ls_nest, maximum_shapes) = ls_none();
  LS_RETURN_IF_ERROR(ls_tpu_run_inputs(r, &inputs));
  LS_RETURN_IF_ERROR(way->dynamic_batch
                         ? ls_maximum_shapes_of(inputs, &maximum_shapes)
                         : ls_check_static_shapes(inputs));
  options.maximum_shapes = maximum_shapes;
  LS_RETURN_IF_ERROR(
      ls_replicate_at(ls_tpu_strategy_of(r->strategy)->resolver->id,
                      ls_strategy_devices(r->strategy), call_replica, r, inputs,
                      &options, &outputs));
  return ls_tpu_run_join(r, outputs, out_result);
}

static ls_status run_build(const ls_tpu_way *way, ls_callback fn, void *user,
                           ls_nest args, ls_nest *out_result) {
  run r = {.way = way,
           .strategy = way->strategy,
           .fn = fn,
           .user = user,
           .args = args};
  ls_strategy_note_graph(way->strategy, ls_graph_current());
  const ls_status status = build_run(&r, out_result);
  ls_release(way->strategy->allocator, r.parts);
  ls_nest_release(r.like);
  return status;
}

// ---- Tracing ---------------------------------------------------------------
static ls_status run_trace(const ls_tracer *tracer, ls_graph *graph,
                           const ls_function_options *function, ls_nest args,
                           ls_nest *out_result) {
  ls_scope scope = {0};
  if (ls_graph_resolve(ls_graph_current()) != graph)
    ls_context_enter_graph(&scope, graph);
  const ls_status status =
      run_build(tracer->self, function->call, function->user, args, out_result);
  ls_scope_end(&scope);
  return status;
}

static ls_status begin_run(const ls_strategy *strategy) {
  const ls_topology *topology = assignment_of(strategy) != NULL
                                    ? assignment_of(strategy)->topology
                                    : NULL;
  ls_pod_of_now now;
  LS_RETURN_IF_ERROR(ls_pod_ready(
      strategy->runtime, ls_tpu_strategy_of(strategy)->resolver->id, &now));
  if (now.pod == NULL) return ls_ok();
  LS_OWN(ls_pod, pod) = now.pod;
  if (topology != NULL && topology->system != NULL) {
    int64_t sizes[LS_POD_SIZES];
    ls_topology_sizes(topology, sizes);
    LS_RETURN_IF_ERROR(ls_pod_check_sizes(pod, sizes));
  }
  return ls_pod_pass_all(pod, ls_strategy_devices(strategy),
                         strategy->num_replicas, LS_DOOR_RUN);
}

// Calls a function under a gradient tape, where replicas run op by op.
static ls_status run_call(const ls_tracer *tracer,
                          const ls_function_options *function, ls_nest args,
                          ls_nest *out_result) {
  const ls_tpu_way *way = tracer->self;
  LS_RETURN_IF_ERROR(begin_run(way->strategy));
  return ls_replicas_call(way->strategy, function->call, args, function->user,
                          out_result);
}

// ---- Options of a run ------------------------------------------------------
static ls_status find_way(ls_strategy *strategy, const ls_run_request *request,
                          ls_tpu_way *out) {
  const ls_run_options *o = request->options;
  *out = (ls_tpu_way){.strategy = strategy,
                      .dynamic_batch = o->dynamic_batch != LS_FLAG_OFF,
                      .bucketize = o->bucketize == LS_FLAG_ON,
                      .soft_placement = o->soft_placement != LS_FLAG_OFF,
                      .has_names = request->has_names};
  const bool spmd = o->xla != NULL ? o->xla->spmd != LS_FLAG_OFF
                                   : ls_tpu_strategy_of(strategy)->spmd;
  const bool padder = o->xla == NULL || o->xla->dynamic_padder != LS_FLAG_OFF;
  out->xla.spmd = spmd ? LS_FLAG_ON : LS_FLAG_OFF;
  out->xla.dynamic_padder = padder ? LS_FLAG_ON : LS_FLAG_OFF;
  return ls_ok();
}

// Packs the run's options into a number that is part of the trace's key.
static uint64_t run_key_of(const ls_tpu_way *way) {
  const bool bits[] = {
      way->xla.spmd == LS_FLAG_ON, way->xla.dynamic_padder == LS_FLAG_ON,
      way->dynamic_batch,          way->bucketize,
      way->soft_placement,         way->has_names};
  uint64_t key = 0;
  for (size_t i = 0; i < LS_COUNT_OF(bits); ++i)
    key |= (uint64_t)bits[i] << i;
  return key;
}

ls_status ls_tpu_class_run(ls_strategy *strategy, ls_crossing *crossing,
                           const ls_run_request *request, ls_nest *results) {
  const ls_callable callable = request->callable;
  ls_tpu_way way;
  (void)crossing;  // The replicas run inside the computation, without rounds.
  LS_RETURN_IF_ERROR(find_way(strategy, request, &way));
  if (callable.traced == NULL)
    return run_build(&way, callable.plain, callable.user, request->args,
                     results);
  const ls_tracer tracer = {.key = strategy->id,
                            .replicas = strategy->num_replicas,
                            .options = run_key_of(&way),
                            .trace = run_trace,
                            .call = run_call,
                            .self = &way};
  return ls_function_call_by(callable.traced, &tracer, request->args, results);
}

// Implements the class's call_each: calls the callback once for all replicas,
// in a computation in which each variable stands for the replica's own.
ls_status ls_tpu_class_call_each(ls_strategy *strategy, ls_callback callback,
                                 ls_nest args, void *user, ls_nest *results) {
  tpu_replica r;
  LS_RETURN_IF_ERROR(
      replica_begin(&r, strategy, ls_tpu_context_current() != NULL));
  r.replica->is_alone = true;
  const ls_status status = ls_take_nest(callback(args, user), results);
  end_replica(&r);
  return status;
}
