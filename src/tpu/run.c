// SPDX-License-Identifier: Apache-2.0
//
// Runs of a TPU strategy: a callable as a replicated computation of the current
// graph, and its results put together.
#include "tpu/run.h"

#include "distribute/replicas/context.h"
#include "lockstep/regroup.h"
#include "tpu/pod_fault.h"
#include "tpu/replicate.h"

typedef ls_tpu_run run;

// ---- Results ---------------------------------------------------------------
// How many of a top-level list are values: ops stand behind them.
static size_t count_values(ls_nest list) {
  size_t count = ls_nest_count(list);
  while (count > 0 && ls_nest_item(list, count - 1).kind == LS_KIND_OP)
    --count;
  return count;
}

static ls_status refuse_op(ls_nest leaf, size_t at) {
  return ls_invalid_argument("leaf %zu of the result is op '%s': ops stand "
                             "alone or in a list, behind all values",
                             at, ls_op_name(leaf.as.op));
}

// Keeps the structure; the computation itself returns values and ops behind
// each other.
static ls_status keep_structure(run *r, ls_nest made, ls_nest *leaves,
                                size_t count) {
  const bool is_list = made.kind == LS_KIND_LIST;
  if (made.kind == LS_KIND_OP || made.kind == LS_KIND_NONE) return ls_ok();
  bool nested = false;
  for (size_t i = 0; i < ls_nest_count(made); ++i)
    nested |= ls_nest_is_node(ls_nest_item(made, i));
  r->num_leaves = is_list && !nested ? count_values(made) : count;
  for (size_t i = 0; i < r->num_leaves; ++i)
    if (leaves[i].kind == LS_KIND_OP && (!is_list || nested))
      return refuse_op(leaves[i], i);
  if (r->num_leaves == count) {
    r->like = ls_nest_retain(made);
    return ls_ok();
  }
  ls_nest *values =
      ls_new_array(r->strategy->allocator, ls_nest, r->num_leaves);
  if (values == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < r->num_leaves; ++i)
    values[i] = ls_nest_retain(leaves[i]);
  r->like = ls_nest_sequence(LS_KIND_LIST, values, r->num_leaves);
  ls_release(r->strategy->allocator, values);
  return ls_nest_status(r->like);
}

static ls_nest flatten(run *r, ls_nest made) {
  if (ls_nest_is_failed(made) || made.kind == LS_KIND_NONE) return made;
  const size_t count = ls_nest_num_leaves(made);
  ls_nest *leaves = ls_new_array(r->strategy->allocator, ls_nest, count);
  if (leaves == NULL) {
    ls_nest_release(made);
    return ls_fail(ls_out_of_memory());
  }
  ls_nest_flatten(made, leaves, count);
  const ls_status status = keep_structure(r, made, leaves, count);
  for (size_t i = 0; i < count; ++i)
    ls_nest_retain(leaves[i]);
  const ls_nest flat = ls_nest_sequence(LS_KIND_LIST, leaves, count);
  ls_release(r->strategy->allocator, leaves);
  ls_nest_release(made);
  if (ls_status_is_ok(status)) return flat;
  ls_nest_release(flat);
  return ls_fail(status);
}

// One leaf of all replicas; `outputs` has a list of leaves for each.
static ls_nest join_leaf(const run *r, ls_nest outputs, size_t i,
                         ls_nest *room) {
  const size_t replicas = (size_t)r->strategy->num_replicas;
  for (size_t replica = 0; replica < replicas; ++replica)
    room[replica] = ls_nest_item(ls_nest_item(outputs, replica), i);
  if (replicas == 1 || room[0].kind == LS_KIND_NONE)
    return ls_nest_retain(room[0]);
  return ls_nest_distributed(LS_PER_REPLICA, room, replicas);
}

static ls_status join(const run *r, ls_nest outputs, ls_nest *out_result) {
  ls_allocator *allocator = r->strategy->allocator;
  const size_t replicas = (size_t)r->strategy->num_replicas;
  if (r->like.kind == LS_KIND_NONE) return ls_ok();  // Nothing, or an op.
  ls_nest *leaves = ls_new_array(allocator, ls_nest, r->num_leaves);
  ls_nest *room = ls_new_array(allocator, ls_nest, replicas);
  ls_nest made = ls_none();
  ls_status status = ls_ok();
  if (leaves == NULL || room == NULL) {
    status = ls_out_of_memory();
  } else {
    for (size_t i = 0; i < r->num_leaves; ++i)
      leaves[i] = join_leaf(r, outputs, i, room);
    made = ls_nest_pack(r->like, leaves, r->num_leaves);
    status = ls_take_nest(made, out_result);
  }
  ls_release(allocator, leaves);
  ls_release(allocator, room);
  return status;
}

// ---- The replica -----------------------------------------------------------
// The callback once for all of them, in a replica's context.
static ls_nest call_replica(ls_nest inputs, void *user) {
  run *r = user;
  ls_replica *replica = NULL;
  ls_status status = ls_replicas_take(r->strategy, &replica);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  ls_context *context = ls_context_current();
  replica->graph = ls_graph_resolve(ls_graph_current());
  replica->examples = ls_tpu_run_examples(r, inputs);
  ls_distribution entry = {.strategy = r->strategy, .replica = replica};
  const ls_nest args = ls_tpu_run_args(r, inputs);
  ls_nest made = ls_none();
  ls_distribution_push(context, &entry);
  if (ls_nest_is_failed(args)) {
    made = ls_nest_retain(args);
  } else {
    made = r->fn(args, r->user);
  }
  made = flatten(r, made);
  context->scoped.distribution = entry.outer;
  ls_nest_release(args);
  ls_replicas_give(r->strategy, replica);
  return made;
}

static ls_device_assignment *assignment_of(const ls_strategy *strategy) {
  const ls_tpu_strategy *self = ls_tpu_strategy_of(strategy);
  return self->assignment != NULL ? self->assignment : self->all_cores;
}

static ls_status build(const ls_tpu_way *way, ls_callback fn, void *user,
                       ls_nest args, ls_nest *out_result) {
  ls_strategy *strategy = way->strategy;
  run r = {
      .way = way, .strategy = strategy, .fn = fn, .user = user, .args = args};
  const ls_replicate_options options = {
      .assignment = assignment_of(strategy),
      .soft_placement = way->soft_placement ? LS_FLAG_ON : LS_FLAG_OFF,
      .xla = way->xla};
  ls_nest inputs = ls_none(), outputs = ls_none();
  ls_status status = ls_tpu_run_inputs(&r, &inputs);
  if (ls_status_is_ok(status))
    status = ls_replicate_at(ls_strategy_devices(strategy), call_replica, &r,
                             inputs, &options, &outputs);
  if (ls_status_is_ok(status)) status = join(&r, outputs, out_result);
  ls_nest_release(inputs);
  ls_nest_release(outputs);
  ls_nest_release(r.like);
  return status;
}

// ---- Tracing ---------------------------------------------------------------
static ls_status trace(const ls_tracer *tracer, ls_graph *graph,
                       const ls_function_options *function, ls_nest args,
                       ls_nest *out_result) {
  ls_scope scope = {0};
  if (ls_graph_resolve(ls_graph_current()) != graph)
    ls_context_enter_graph(&scope, graph);
  const ls_status status =
      build(tracer->self, function->call, function->user, args, out_result);
  ls_scope_end(&scope);
  return status;
}

// Under a tape replicas run op by op.
static ls_status call(const ls_tracer *tracer,
                      const ls_function_options *function, ls_nest args,
                      ls_nest *out_result) {
  const ls_tpu_way *way = tracer->self;
  return ls_replicas_call(way->strategy, function->call, args, function->user,
                          out_result);
}

// ---- The way ---------------------------------------------------------------
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
  if (!out->dynamic_batch || out->bucketize)
    return ls_unimplemented("a run on a TPU strategy with dynamic_batch off, "
                            "or with bucketize on");
  return ls_ok();
}

// What traces of it differ by, as a number.
static uint64_t key_of(const ls_tpu_way *way) {
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
  (void)crossing;  // Replicas run inside of it.
  LS_RETURN_IF_ERROR(find_way(strategy, request, &way));
  if (callable.traced == NULL)
    return build(&way, callable.plain, callable.user, request->args, results);
  const ls_tracer tracer = {.key = strategy->id,
                            .replicas = strategy->num_replicas,
                            .options = key_of(&way),
                            .trace = trace,
                            .call = call,
                            .self = &way};
  if (ls_graph_is_eager(ls_graph_current()))
    LS_RETURN_IF_ERROR(ls_pod_pass_all(strategy->runtime,
                                       ls_strategy_devices(strategy),
                                       strategy->num_replicas, LS_DOOR_RUN));
  return ls_function_call_by(callable.traced, &tracer, request->args, results);
}
