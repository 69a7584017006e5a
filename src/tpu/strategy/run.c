// SPDX-License-Identifier: Apache-2.0
//
// Runs of a TPU strategy: runs a callable as a replicated computation of the
// current graph, and joins its results.
#include "base/memory/own.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "distribute/replicas/rounds.h"
#include "distribute/values/values.h"
#include "graph/region.h"
#include "lockstep/regroup.h"
#include "lockstep/slices.h"
#include "runtime/eager/eager.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"
#include "tpu/pod/topology.h"
#include "tpu/replicate/replicate.h"
#include "tpu/strategy/strategy.h"
#include "tpu/system/resolver.h"

// A run in progress.
typedef struct tpu_run {
  const ls_tpu_way *way;
  ls_strategy *strategy;
  ls_callback fn;
  void *user;
  ls_nest args;  // Arguments of all replicas.
  ls_nest like;  // Structure of the results of `fn`.
  size_t num_leaves;
  uint8_t *parts;  // Number of values of each leaf; slices have several.
} tpu_run;

// ---- Nests of a run --------------------------------------------------------
// Arguments of runs of TPU strategies. An argument whose first leaf is a
// distributed variable is passed to the callback unchanged ("bound"). All other
// arguments are inputs of the replicated computation. Each item of the dict of
// arguments by name counts as one argument.
static bool is_bound(ls_nest arg) {
  while (ls_nest_is_node(arg) && ls_nest_count(arg) > 0) {
    ls_nest first;
    if (arg.kind != LS_KIND_DICT) {
      arg = ls_nest_item(arg, 0);
    } else {
      ls_nest_flatten(arg, &first, 1);
      arg = first;
    }
  }
  return ls_is_distributed_variable(arg);
}

// ---- Checks ---------------------------------------------------------------
typedef struct variables {
  size_t by_position, by_name;
} variables;

static variables count_variables(ls_nest args, ls_nest named) {
  variables found = {0};
  for (size_t i = 0; i < ls_nest_count(args); ++i)
    found.by_position += is_bound(ls_nest_item(args, i));
  for (size_t i = 0; i < ls_nest_count(named); ++i)
    found.by_name += is_bound(ls_nest_item(named, i));
  return found;
}

// Refuses variables among the arguments that have no declared parameter,
// because no name binds them.
static ls_status check_tail(const ls_parameters *parameters, const char *noun,
                            ls_nest args) {
  size_t bound = 0;
  for (size_t i = 0; i < ls_nest_count(args); ++i) {
    const bool is_variable = is_bound(ls_nest_item(args, i));
    if (i < parameters->count) {
      bound += is_variable;
      continue;
    }
    if (is_variable)
      return ls_invalid_argument(
          "a run of %s on a TPU strategy: argument %zu is a variable, and "
          "variables cannot be among those that the parameters do not name: "
          "name a parameter for it, or capture the variable",
          noun, i);
    if (bound > 0)
      return ls_invalid_argument(
          "a run of %s on a TPU strategy mixes variables among the arguments "
          "by position with more of these than the %zu named parameters: give "
          "the variables by name, or capture them",
          noun, parameters->count);
  }
  return ls_ok();
}

static ls_status check_variables(const ls_parameters *parameters,
                                 const char *noun, ls_nest args,
                                 ls_nest named) {
  if (parameters == NULL) return ls_ok();
  if (parameters->num_positional_only > 0) {
    const variables found = count_variables(args, named);
    if (found.by_position + found.by_name == 0) return ls_ok();
    return ls_invalid_argument(
        "a run of %s on a TPU strategy: variables cannot be given to a "
        "function with positional-only parameters, got %zu by position and %zu "
        "by name",
        noun, found.by_position, found.by_name);
  }
  return parameters->variadic ? check_tail(parameters, noun, args) : ls_ok();
}

// Returns true in the callback of a traced function that is called under a
// gradient tape, where it runs op by op.
static bool runs_op_by_op(void) {
  const ls_graph *graph = ls_graph_resolve(ls_graph_current());
  return graph != NULL && graph->kind == LS_GRAPH_EAGER &&
         ls_eager_is_recording(graph) && ls_runtime_work_here()->callbacks > 0;
}

ls_status ls_tpu_class_check_run(const ls_strategy *strategy,
                                 const ls_run_request *request,
                                 const ls_parameters *parameters,
                                 const char *noun) {
  const ls_run_options *options = request->options;
  if (request->callable.traced == NULL &&
      ls_graph_is_eager(ls_graph_current()) && !runs_op_by_op())
    return ls_unimplemented(
        "ls_strategy_run of a plain callback on %s in eager: wrap the callback "
        "in a traced function (ls_function_create), or run it inside one",
        strategy->label);
  if (options->xla != NULL)
    LS_RETURN_IF_ERROR(ls_check_xla_options(options->xla));
  return check_variables(parameters, noun, request->args, options->named);
}

// ---- Inputs of replicas ---------------------------------------------------
static ls_nest to_tensor(ls_nest leaf, void *user) {
  ls_tensor made;
  if (leaf.kind == LS_KIND_DISTRIBUTED)
    return ls_distributed_map_components(leaf, to_tensor, user);
  if (leaf.kind != LS_KIND_SCALAR && leaf.kind != LS_KIND_ARRAY)
    return ls_nest_retain(leaf);
  LS_RETURN_FAILED_IF_ERROR(ls_region_tensor(leaf, &made));
  return ls_leaf(made);
}

// Replicas that run op by op select their values themselves.
static const size_t ALL_REPLICAS = SIZE_MAX;

static ls_nest selected(ls_nest arg, size_t replica) {
  ls_nest own = ls_none();
  if (replica == ALL_REPLICAS) return ls_nest_map(arg, to_tensor, NULL);
  return ls_made_nest(ls_select_replica((int64_t)replica, arg, &own), &own);
}

// Returns true if argument i is the dict of arguments by name.
static bool is_names(const tpu_run *run, size_t i) {
  return run->way->has_names && i + 1 == ls_nest_count(run->args);
}

// Makes the dict of arguments by name for a replica, without the bound ones.
static ls_nest names_of(ls_nest named, size_t replica) {
  LS_OWN(ls_nest_builder, items) = {.tag = ""};
  for (size_t i = 0; i < ls_nest_count(named); ++i) {
    const ls_nest item = ls_nest_item(named, i);
    if (!is_bound(item))
      ls_nest_builder_append_named(&items, ls_nest_key(named, i),
                                   selected(item, replica));
  }
  return ls_nest_builder_finish(&items, LS_KIND_DICT);
}

// Makes the inputs of a replica, or of all: the id, and all arguments except
// the bound ones.
static ls_nest inputs_of(const tpu_run *run, size_t replica) {
  LS_OWN(ls_nest_builder, inputs) = {0};
  ls_nest_builder_append(&inputs, ls_nest_i64((int64_t)replica));
  for (size_t i = 0; i < ls_nest_count(run->args); ++i) {
    const ls_nest arg = ls_nest_item(run->args, i);
    if (is_names(run, i))
      ls_nest_builder_append(&inputs, names_of(arg, replica));
    else if (!is_bound(arg))
      ls_nest_builder_append(&inputs, selected(arg, replica));
  }
  return ls_nest_builder_finish(&inputs, LS_KIND_LIST);
}

// Makes all replicas' inputs in the form that ls_replicate takes.
static ls_status tpu_run_inputs(const tpu_run *run, ls_nest *out_inputs) {
  LS_OWN(ls_nest_builder, each) = {0};
  for (int32_t r = 0; r < run->strategy->num_replicas; ++r)
    ls_nest_builder_append(&each, inputs_of(run, (size_t)r));
  return ls_take_nest(ls_nest_builder_finish(&each, LS_KIND_LIST), out_inputs);
}

// ---- Arguments of the callback --------------------------------------------
// Rebuilds the dict of arguments by name; `values` holds the unbound ones.
static ls_nest all_names(ls_nest named, ls_nest values) {
  LS_OWN(ls_nest_builder, items) = {.tag = ""};
  for (size_t i = 0; i < ls_nest_count(named); ++i) {
    const ls_nest item = ls_nest_item(named, i);
    const char *key = ls_nest_key(named, i);
    ls_nest_builder_append_named(
        &items, key,
        ls_nest_retain(is_bound(item) ? item : ls_nest_find(values, key)));
  }
  return ls_nest_builder_finish(&items, LS_KIND_DICT);
}

// Makes the callback's arguments from a replica's inputs and the bound
// arguments. The caller releases them.
static ls_nest tpu_run_args(const tpu_run *run, ls_nest inputs) {
  const size_t count = ls_nest_count(run->args);
  if (run->args.kind == LS_KIND_NONE) return ls_none();
  LS_OWN(ls_nest_builder, items) = {0};
  size_t next = 1;  // Input 0 is the replica's id.
  for (size_t i = 0; i < count; ++i) {
    const ls_nest arg = ls_nest_item(run->args, i);
    if (is_names(run, i))
      ls_nest_builder_append(&items,
                             all_names(arg, ls_nest_item(inputs, next++)));
    else
      ls_nest_builder_append(
          &items,
          ls_nest_retain(is_bound(arg) ? arg : ls_nest_item(inputs, next++)));
  }
  return ls_nest_builder_finish(&items, run->args.kind);
}

// ---- Run results -----------------------------------------------------------
// Results of runs. The computation returns values, then ops; slices count as
// two or three values.

enum { MOST_PARTS = 3 };

// ---- Inside the computation -----------------------------------------------
// Counts the values at the start of a top-level list, before its ops.
static size_t run_results_count_values(ls_nest list) {
  size_t count = ls_nest_count(list);
  while (count > 0 && ls_nest_item(list, count - 1).kind == LS_KIND_OP)
    --count;
  return count;
}

static ls_status keep_structure(tpu_run *r, ls_nest made, ls_nest *leaves,
                                size_t count) {
  const bool is_list = made.kind == LS_KIND_LIST;
  if (made.kind == LS_KIND_OP || made.kind == LS_KIND_NONE) return ls_ok();
  bool nested = false;
  for (size_t i = 0; i < ls_nest_count(made); ++i)
    nested |= ls_nest_is_node(ls_nest_item(made, i));
  r->num_leaves = is_list && !nested ? run_results_count_values(made) : count;
  for (size_t i = 0; i < r->num_leaves; ++i)
    if (leaves[i].kind == LS_KIND_OP && (!is_list || nested))
      return ls_invalid_argument("leaf %zu of the result is op '%s': ops must "
                                 "be alone or in a list, after all values",
                                 i, ls_op_name(leaves[i].as.op));
  if (r->num_leaves == count) {
    r->like = ls_nest_retain(made);
    return ls_ok();
  }
  LS_OWN(ls_nest_builder, values) = {0};
  for (size_t i = 0; i < r->num_leaves; ++i)
    ls_nest_builder_append(&values, ls_nest_retain(leaves[i]));
  r->like = ls_nest_builder_finish(&values, LS_KIND_LIST);
  return ls_nest_status(r->like);
}

// Appends the one to three values of leaf i.
static ls_status run_results_take_apart(tpu_run *r, size_t i, ls_nest leaf,
                                        ls_nest_builder *values) {
  ls_slices_parts parts;
  r->parts[i] = 1;
  if (leaf.kind != LS_KIND_SLICES) {
    ls_nest_builder_append(values, ls_nest_retain(leaf));
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(ls_slices_parts_of(leaf, &parts));
  ls_nest_builder_append(values, ls_leaf(parts.indices));
  ls_nest_builder_append(values, ls_leaf(parts.values));
  if (parts.dense_shape.ref != 0)
    ls_nest_builder_append(values, ls_leaf(parts.dense_shape));
  r->parts[i] = parts.dense_shape.ref != 0 ? 3 : 2;
  return ls_ok();
}

static ls_status flatten_result(tpu_run *r, ls_nest made, ls_nest *out_flat) {
  ls_allocator *allocator = r->strategy->allocator;
  const size_t count = ls_nest_num_leaves(made);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, count + 1);
  LS_SET_ARRAY_OR_RETURN(allocator, uint8_t, r->parts, count + 1);
  ls_nest_flatten(made, leaves, count);
  LS_RETURN_IF_ERROR(keep_structure(r, made, leaves, count));
  LS_OWN(ls_nest_builder, values) = {0};
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(run_results_take_apart(r, i, leaves[i], &values));
  *out_flat = ls_nest_builder_finish(&values, LS_KIND_LIST);
  return ls_ok();
}

// Inside the computation: lists the values and ops of the result `made`, which
// it takes over, and keeps its structure.
static ls_nest tpu_run_flatten(tpu_run *r, ls_nest made) {
  if (ls_nest_is_failed(made) || made.kind == LS_KIND_NONE) return made;
  ls_nest flat = ls_none();
  const ls_status status = flatten_result(r, made, &flat);
  ls_nest_release(made);
  return ls_status_is_ok(status) ? flat : ls_fail(status);
}

// ---- Outside the computation ----------------------------------------------
// Makes leaf i of a replica from its values, which start at number `at`.
static ls_nest leaf_of(const tpu_run *r, ls_nest values, size_t i, size_t at) {
  if (r->parts[i] == 1) return ls_nest_retain(ls_nest_item(values, at));
  return ls_nest_slices(
      ls_nest_item(values, at + 1), ls_nest_tensor(values, at),
      r->parts[i] == MOST_PARTS ? ls_nest_tensor(values, at + 2)
                                : (ls_tensor){0});
}

// Joins leaf i of all replicas.
static ls_nest join_leaf(const tpu_run *r, ls_nest outputs, size_t i, size_t at,
                         ls_nest *room) {
  const size_t replicas = (size_t)r->strategy->num_replicas;
  if (ls_nest_item(ls_nest_item(outputs, 0), at).kind == LS_KIND_NONE)
    return ls_none();
  for (size_t replica = 0; replica < replicas; ++replica)
    room[replica] = leaf_of(r, ls_nest_item(outputs, replica), i, at);
  return replicas == 1 ? room[0]
                       : ls_nest_distributed(LS_PER_REPLICA, room, replicas);
}

// Outside the computation: joins the replicas' results in the structure that
// tpu_run_flatten kept; `outputs` has a list of values for each replica.
static ls_status tpu_run_join(const tpu_run *r, ls_nest outputs,
                              ls_nest *out_result) {
  ls_allocator *allocator = r->strategy->allocator;
  const size_t replicas = (size_t)r->strategy->num_replicas;
  if (r->like.kind == LS_KIND_NONE) return ls_ok();  // No result, or an op.
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, r->num_leaves + 1);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, room, replicas);
  size_t at = 0;
  for (size_t i = 0; i < r->num_leaves; at += r->parts[i++])
    leaves[i] = join_leaf(r, outputs, i, at, room);
  return ls_take_nest(ls_nest_pack(r->like, leaves, r->num_leaves), out_result);
}

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
  ls_distribution_push(context, &r->entry);
  if (!in_computation) return ls_ok();
  r->replica->graph = ls_graph_resolve(ls_graph_current());
  r->same = (ls_same_values){.allocator = strategy->allocator,
                             .graph = r->replica->graph};
  // In a merge call the values noted by the enclosing replica stay known.
  if (!ls_same_values_cover(context->same, r->same.graph))
    context->same = &r->same;
  return ls_ok();
}

static void end_replica(tpu_replica *r) {
  ls_context *context = ls_context_current();
  ls_distribute_scoped_of(context)->distribution = r->entry.outer;
  context->same = r->outer_same;
  ls_same_values_deinit(&r->same);
  ls_replicas_give(r->entry.strategy, r->replica);
}

// Calls the callback once for all replicas, in a replica context.
static ls_nest call_replica(ls_nest inputs, void *user) {
  tpu_run *r = user;
  tpu_replica replica;
  LS_RETURN_FAILED_IF_ERROR(replica_begin(&replica, r->strategy, true));
  replica.replica->device_of_all = "/device:TPU_REPLICATED_CORE:0";
  const ls_nest args = tpu_run_args(r, inputs);
  ls_nest made = ls_none();
  if (ls_nest_is_failed(args)) {
    made = ls_nest_retain(args);
  } else {
    ls_replica_take_rows(replica.replica, r->args, args);
    made = r->fn(args, r->user);
  }
  made = tpu_run_flatten(r, made);
  end_replica(&replica);
  ls_nest_release(args);
  return made;
}

static ls_device_assignment *assignment_of(const ls_strategy *strategy) {
  const ls_tpu_strategy *self = ls_tpu_strategy_of(strategy);
  return self->cores.assignment != NULL ? self->cores.assignment
                                        : self->cores.all_cores;
}

static ls_status build_run(tpu_run *r, ls_nest *out_result) {
  const ls_tpu_way *way = r->way;
  ls_replicate_options options = {
      .assignment = assignment_of(r->strategy),
      .soft_placement = way->soft_placement ? LS_FLAG_ON : LS_FLAG_OFF,
      .xla = way->xla,
      .padding = way->bucketize ? LS_PADDING_POWER_OF_TWO : LS_PADDING_AUTO};
  LS_OWN(ls_nest, inputs) = ls_none();
  LS_OWN(ls_nest, outputs) = ls_none();
  LS_OWN(ls_nest, maximum_shapes) = ls_none();
  LS_RETURN_IF_ERROR(tpu_run_inputs(r, &inputs));
  LS_RETURN_IF_ERROR(way->dynamic_batch
                         ? ls_maximum_shapes_of(inputs, &maximum_shapes)
                         : ls_check_static_shapes(inputs));
  options.maximum_shapes = maximum_shapes;
  LS_RETURN_IF_ERROR(
      ls_replicate_at(ls_tpu_strategy_of(r->strategy)->resolver->id,
                      ls_strategy_devices(r->strategy), call_replica, r, inputs,
                      &options, &outputs));
  return tpu_run_join(r, outputs, out_result);
}

static ls_status run_build(const ls_tpu_way *way, ls_callback fn, void *user,
                           ls_nest args, ls_nest *out_result) {
  tpu_run r = {.way = way,
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

// Runs replicas op by op under a gradient tape. Numbers and arrays among the
// arguments become tensors, as in a computation.
static ls_status run_op_by_op(const ls_tpu_way *way, ls_callback fn, void *user,
                              ls_nest args, ls_nest *out_result) {
  const tpu_run run = {.way = way, .strategy = way->strategy, .args = args};
  LS_RETURN_IF_ERROR(begin_run(way->strategy));
  LS_OWN(ls_nest, inputs) = inputs_of(&run, ALL_REPLICAS);
  LS_RETURN_IF_ERROR(ls_nest_status(inputs));
  LS_OWN(ls_nest, tensors) = tpu_run_args(&run, inputs);
  LS_RETURN_IF_ERROR(ls_nest_status(tensors));
  return ls_replicas_call(way->strategy, fn, tensors, user, out_result);
}

static ls_status run_call(const ls_tracer *tracer,
                          const ls_function_options *function, ls_nest args,
                          ls_nest *out_result) {
  return run_op_by_op(tracer->self, function->call, function->user, args,
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
  LS_OWN(ls_nest, args) = ls_none();
  LS_RETURN_IF_ERROR(find_way(strategy, request, &way));
  const ls_device_list list = {.devices = ls_strategy_devices(strategy),
                               .count = (size_t)strategy->num_replicas,
                               .takes_more = true};
  LS_RETURN_IF_ERROR(
      ls_status_annotate(ls_check_components(request->args, &list),
                         "in the arguments of a run of %s", strategy->label));
  LS_RETURN_IF_ERROR(ls_order_components(request->args, &list, &args));
  if (callable.traced == NULL)
    return (runs_op_by_op() ? run_op_by_op : run_build)(
        &way, callable.plain, callable.user, args, results);
  const ls_tracer tracer = {.key = strategy->id,
                            .replicas = strategy->num_replicas,
                            .options = run_key_of(&way),
                            .trace = run_trace,
                            .call = run_call,
                            .self = &way};
  return ls_function_call_by(callable.traced, &tracer, args, results);
}

// Finds the first tensor whose number of rows is not known. In a computation
// the replicas may have different numbers.
static ls_nest find_uneven(ls_nest args) {
  if (args.kind == LS_KIND_TENSOR) {
    const ls_shape shape = ls_tensor_shape(args.as.tensor);
    return shape.rank >= 1 && shape.dim[0] == LS_UNKNOWN_DIM ? args : ls_none();
  }
  ls_nest found = ls_none();
  for (size_t i = 0; i < ls_nest_count(args) && found.kind == LS_KIND_NONE; ++i)
    found = find_uneven(ls_nest_item_sorted(args, i));
  return found;
}

// Implements the class's call_each: calls the callback once for all replicas,
// in a computation in which each variable stands for the replica's own.
ls_status ls_tpu_class_call_each(ls_strategy *strategy, ls_callback callback,
                                 ls_nest args, void *user, ls_nest *results) {
  tpu_replica r;
  const bool in_computation = ls_tpu_context_current() != NULL;
  LS_RETURN_IF_ERROR(replica_begin(&r, strategy, in_computation));
  r.replica->is_alone = true;
  if (in_computation) r.replica->examples = find_uneven(args);
  r.replica->examples_differ =
      strategy->num_replicas > 1 && r.replica->examples.kind != LS_KIND_NONE;
  const ls_status status = ls_take_nest(callback(args, user), results);
  end_replica(&r);
  return status;
}
