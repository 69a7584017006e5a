// SPDX-License-Identifier: Apache-2.0
//
// Traces a function for every replica.
//
// Each replica's callback runs on a fiber, in a region of its own. If the
// region equals replica 0's, it is dropped and its handles refer to replica 0's
// region. R traces then cost one graph, R small stubs and, one after another,
// one stack. With merge calls they cost R stacks, and the ops of all regions
// until the regions are compared.
#include <stdio.h>

#include "base/memory/own.h"
#include "distribute/replicas/rounds.h"
#include "graph/compare/compare.h"
#include "graph/context.h"
#include "graph/region.h"
#include "graph/slices.h"

typedef struct tracing {
  ls_strategy *strategy;
  ls_graph *graph;  // Graph of the function.
  const ls_function_options *function;
  ls_nest args;
  // Types of the split arguments in one replica.
  ls_type *split_types;
  ls_tensor *split;  // [split argument][replica]
  size_t num_split;
  ls_graph *first;  // Replica 0's region.
} tracing;

// ---- One replica -----------------------------------------------------------
typedef struct selection {
  ls_graph *region;
  size_t next_split;
} selection;

static ls_nest select_component(ls_nest leaf, void *user) {
  selection *s = user;
  if (leaf.kind != LS_KIND_DISTRIBUTED) return ls_nest_retain(leaf);
  if (ls_leaf_is_slices(leaf))
    return ls_slices_map(leaf, select_component, user);
  return ls_leaf(
      (ls_tensor){s->region, s->region->parameters[s->next_split++]});
}

static ls_status replicas_add_parameters(const tracing *all, ls_graph *region) {
  for (size_t s = 0; s < all->num_split; ++s) {
    ls_tensor parameter;
    LS_RETURN_IF_ERROR(ls_graph_add_parameter(
        region, (ls_type){all->split_types[s].dtype, all->split_types[s].shape},
        NULL, &parameter));
  }
  return ls_ok();
}

static void replicas_run_replica(void *user) {
  ls_replica_task *task = user;
  const tracing *all = task->rounds->user;
  task->status = replicas_add_parameters(all, task->graph);
  if (!ls_status_is_ok(task->status)) return;
  selection s = {.region = task->graph};
  const ls_nest args = ls_nest_map(all->args, select_component, &s);
  task->status = ls_nest_status(args);
  if (ls_status_is_ok(task->status)) {
    ls_replica_take_rows(task->replica, all->args, args);
    task->status = ls_region_trace(task->graph, all->function->call, args,
                                   all->function->user, &task->result);
  }
  ls_nest_release(args);
}

static ls_status prepare_replica(ls_replica_task *task) {
  tracing *all = task->rounds->user;
  char name[32];
  snprintf(name, sizeof(name), "replica_%d", task->replica->id);
  LS_RETURN_IF_ERROR(ls_graph_make(LS_GRAPH_REGION, name, all->graph->runtime,
                                   all->graph, &task->graph));
  task->graph->is_replica = true;
  task->replica->graph = task->graph;
  if (task->replica->id == 0) {
    all->first = task->graph;
    return ls_ok();
  }
  // The graph keeps the region as a stub, for handles that the callback has
  // kept.
  if (ls_graph_keep_stub(all->graph, task->graph)) return ls_ok();
  ls_graph_free(task->graph);
  return ls_out_of_memory();
}

// ---- Share regions ---------------------------------------------------------
static ls_status share_replica(ls_replica_task *task) {
  tracing *all = task->rounds->user;
  const ls_replica_task *first = &task->rounds->tasks[0];
  char difference[600];
  if (task == first) return ls_ok();
  ls_status same = ls_nest_same_structure(first->result, task->result);
  if (!ls_status_is_ok(same))
    return ls_status_annotate(same, "between the results of replicas 0 and %d",
                              task->replica->id);
  if (!ls_graph_equal(all->first, task->graph, difference, sizeof(difference)))
    return ls_unimplemented(
        "replica %d's step differs from replica 0's: %s; all replicas must "
        "record the same ops: compute values that depend on the replica from "
        "ls_replica_id(), or pass them as an argument with a component for "
        "each",
        task->replica->id, difference);
  ls_nest_release(task->result);
  task->result = ls_none();
  ls_graph_forward(task->graph, all->first);
  return ls_ok();
}

// ---- The replicate op ------------------------------------------------------
static ls_status replicas_add_op(tracing *all, ls_op *out_op) {
  const size_t replicas = (size_t)all->strategy->num_replicas;
  const size_t num_split = all->num_split * replicas;
  const size_t num_inputs = num_split + all->first->num_captures;
  LS_OWN_ARRAY_OR_RETURN(all->graph->allocator, ls_tensor, inputs, num_inputs);
  memcpy(inputs, all->split, num_split * sizeof(*inputs));
  ls_list_captures(&all->first, 1, inputs + num_split);
  const ls_attr attrs[] = {
      LS_OWN_I(REPLICAS, (int64_t)replicas),
      LS_OWN_I(NUM_SPLIT, (int64_t)all->num_split),
      LS_OWN_I(NUM_GATHERED, (int64_t)all->first->num_results),
      LS_OWN_SS(REPLICA_DEVICES, ls_strategy_devices(all->strategy), replicas)};
  const ls_scope_state there = ls_context_current()->scoped;
  ls_scope scope = {0};
  ls_context_enter_graph(&scope, all->graph);
  if (there.graph == all->graph)
    ls_context_current()->scoped.control = there.control;
  *out_op = ls_op_add(&(ls_op_spec){.type = LS_OP_REPLICATE,
                                    .inputs = inputs,
                                    .num_inputs = num_inputs,
                                    .attrs = attrs,
                                    .num_attrs = all->strategy->is_placed
                                                     ? LS_COUNT_OF(attrs)
                                                     : LS_COUNT_OF(attrs) - 1,
                                    .regions = &all->first,
                                    .num_regions = 1});
  ls_scope_end(&scope);
  if (ls_op_is_failed(*out_op)) return ls_graph_take_error(all->graph);
  all->first = NULL;  // The op owns the region now.
  return ls_ok();
}

// State of joining the replicas' results to one nest: each tensor becomes a
// PerReplica.
typedef struct gathering {
  ls_op op;
  ls_allocator *allocator;
  size_t next, replicas;
} gathering;

static ls_nest replicas_gather_leaf(ls_nest leaf, void *user) {
  gathering *g = user;
  // An op in the result becomes the replicate op, which contains all replicas'
  // ops.
  if (leaf.kind == LS_KIND_OP) return ls_nest_op(g->op);
  if (leaf.kind == LS_KIND_SLICES)
    return ls_slices_map(leaf, replicas_gather_leaf, user);
  if (leaf.kind != LS_KIND_TENSOR) return ls_nest_retain(leaf);
  LS_OWN_ARRAY(g->allocator, ls_nest, items, g->replicas);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  for (size_t r = 0; r < g->replicas; ++r)
    items[r] = ls_leaf(ls_op_output(g->op, (unsigned)(g->next++)));
  return ls_nest_distributed(LS_PER_REPLICA, items, g->replicas);
}

// ---- Arguments -------------------------------------------------------------
static ls_nest note_split(ls_nest leaf, void *user) {
  tracing *all = user;
  if (leaf.kind != LS_KIND_DISTRIBUTED) return ls_none();
  if (ls_leaf_is_slices(leaf)) return ls_slices_map(leaf, note_split, user);
  const size_t replicas = (size_t)all->strategy->num_replicas;
  const size_t at = all->num_split++;
  if (all->split == NULL) return ls_none();
  ls_type type = {0};
  for (size_t r = 0; r < replicas; ++r) {
    const ls_tensor t = ls_distributed_component(leaf, r).as.tensor;
    const ls_shape shape = ls_tensor_shape(t);
    all->split[at * replicas + r] = t;
    if (r == 0) type = (ls_type){ls_tensor_dtype(t), shape};
    if (shape.rank != type.shape.rank || ls_tensor_dtype(t) != type.dtype)
      return LS_FAIL(LS_INVALID_ARGUMENT,
                     "an argument has another dtype or rank on replica %zu "
                     "than on replica 0",
                     r);
    for (int d = 0; d < shape.rank; ++d)
      if (shape.dim[d] != type.shape.dim[d]) type.shape.dim[d] = LS_UNKNOWN_DIM;
  }
  all->split_types[at] = type;
  return ls_none();
}

static ls_status note_splits(tracing *all) {
  LS_OWN(ls_nest, counted) = ls_nest_map(all->args, note_split, all);
  const ls_status incomplete = ls_nest_status(counted);
  LS_RETURN_IF_ERROR(incomplete);
  const size_t count = all->num_split;
  const size_t replicas = (size_t)all->strategy->num_replicas;
  all->split = ls_new_array(all->graph->allocator, ls_tensor, count * replicas);
  all->split_types = ls_new_array(all->graph->allocator, ls_type, count);
  if (all->split == NULL || all->split_types == NULL) return ls_out_of_memory();
  all->num_split = 0;
  LS_OWN(ls_nest, noted) = ls_nest_map(all->args, note_split, all);
  return ls_nest_status(noted);
}

// Traces the only replica. There is nothing to join, so that its ops are added
// to the function's graph, or the graph being built.
static ls_status trace_one(tracing *all, ls_nest *out_result);

static ls_status trace_all(tracing *all, ls_nest *out_result) {
  LS_OWN(ls_rounds, rounds) = {.strategy = all->strategy,
                               .around = all->graph,
                               .call = replicas_run_replica,
                               .prepare = prepare_replica,
                               .end = share_replica,
                               .merge = ls_trace_merge,
                               .user = all};
  ls_op op = {0};
  LS_RETURN_IF_ERROR(note_splits(all));
  LS_RETURN_IF_ERROR(ls_rounds_run(&rounds));
  LS_RETURN_IF_ERROR(replicas_add_op(all, &op));
  gathering g = {.op = op,
                 .allocator = all->graph->allocator,
                 .replicas = (size_t)all->strategy->num_replicas};
  return ls_take_nest(
      ls_nest_map(rounds.tasks[0].result, replicas_gather_leaf, &g),
      out_result);
}

ls_status ls_replicas_trace(ls_strategy *strategy, ls_graph *graph,
                            const ls_function_options *function, ls_nest args,
                            ls_nest *out_result) {
  tracing all = {.strategy = strategy,
                 .graph = graph,
                 .function = function,
                 .args = args};
  LS_OWN_FIELD(graph->allocator, all.split_types);
  LS_OWN_FIELD(graph->allocator, all.split);
  if (strategy->num_replicas == 1) return trace_one(&all, out_result);
  ls_strategy_note_graph(strategy, graph);
  const ls_status status = trace_all(&all, out_result);
  ls_graph_free(all.first);
  return status;
}

// Calls the function on the device that the user chose for the replica.
static ls_nest call_placed(ls_nest args, void *user) {
  const tracing *all = user;
  const ls_strategy *strategy = all->strategy;
  LS_DEVICE_SCOPE(strategy->is_placed ? ls_strategy_device(strategy, 0) : "");
  return all->function->call(args, all->function->user);
}

static ls_status call_here(tracing *all, ls_nest args, ls_nest *out_result) {
  ls_status status = ls_take_nest(call_placed(args, all), out_result);
  // If an op maker has failed, its failure is the root cause.
  if (all->graph->error == NULL) return status;
  ls_status_free(status);
  ls_nest_release(*out_result);
  *out_result = ls_none();
  return ls_graph_take_error(all->graph);
}

static ls_status trace_one(tracing *all, ls_nest *out_result) {
  ls_replica *replica = NULL;
  LS_RETURN_IF_ERROR(ls_replicas_take(all->strategy, &replica));
  replica->graph = all->graph;
  ls_context *context = ls_context_current();
  ls_distribution entry = {.outer =
                               ls_distribute_scoped_of(context)->distribution,
                           .graph = all->graph,
                           .strategy = all->strategy,
                           .replica = replica};
  LS_OWN(ls_nest, args) = ls_none();
  ls_status status = ls_select_replica(0, all->args, &args);
  const int32_t around = context->replicas;
  if (ls_status_is_ok(status)) ls_replica_take_rows(replica, all->args, args);
  ls_distribute_scoped_of(context)->distribution = &entry;
  context->replicas = 1;
  // If the graph is already current, its owner reads the result itself.
  if (ls_status_is_ok(status))
    status =
        ls_graph_current() == all->graph
            ? call_here(all, args, out_result)
            : ls_region_trace(all->graph, call_placed, args, all, out_result);
  ls_distribute_scoped_of(context)->distribution = entry.outer;
  context->replicas = around;
  ls_replicas_give(all->strategy, replica);
  return status;
}
