// SPDX-License-Identifier: Apache-2.0
//
// Calls a plain callback on every replica in the current graph: op by op in
// eager mode, adding ops in a build graph. Merge functions run here, once for
// all replicas, in cross-replica context.

#include <stdio.h>

#include "base/memory/own.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "distribute/context/context.h"
#include "distribute/cross_device/cross_device.h"
#include "distribute/replicas/rounds.h"
#include "distribute/values/values.h"
#include "graph/make/make.h"
#include "lockstep/slices.h"
#include "lockstep/strategy_extended.h"
#include "runtime/ranks.h"

typedef struct replica_call {
  ls_callback callback;
  void *user;
  ls_nest args;   // Arguments for all replicas.
  ls_nests each;  // Arguments of each replica.
  ls_nest rows;   // The argument whose rows are the examples, borrowed.
  bool differ;    // Replicas have, or may have, different numbers of rows.
  ls_graph *graph;
  ls_losses losses;  // The graph's record of losses before the call.
} replica_call;

// ---- A replica -------------------------------------------------------------
static void call_run_replica(void *user) {
  ls_replica_task *task = user;
  const replica_call *call = task->rounds->user;
  {
    LS_DEVICE_SCOPE(
        ls_strategy_device(task->rounds->strategy, task->replica->id));
    const ls_nest made =
        call->callback(call->each.items[task->replica->id], call->user);
    task->status = ls_take_nest(made, &task->result);
  }
  // If an op maker failed in the replica, its failure is the root cause.
  const ls_status failure = call->graph->kind == LS_GRAPH_EAGER
                                ? ls_status_clone(task->failure.status)
                                : ls_graph_take_error(call->graph);
  if (ls_status_is_ok(failure)) return;
  ls_status_free(task->status);
  task->status = failure;
}

static ls_tensor hook_all_gather(ls_tensor x, int axis);
static int64_t hook_rows_before(int64_t rows, int64_t total);
static ls_tensor hook_replica_id(void);
static const ls_replica_hooks hooks = {ls_replica_table_reduce, hook_all_gather,
                                       hook_rows_before, hook_replica_id,
                                       ls_merge_gradient};

// Returns true if replicas have, or may have, different numbers of rows.
static bool rows_differ(ls_nest rows) {
  const size_t count = ls_distributed_count(rows);
  for (size_t r = 0; r < count && count > 1; ++r)
    if (ls_rows_of(rows, r) < 0 || ls_rows_of(rows, r) != ls_rows_of(rows, 0))
      return true;
  return false;
}

static ls_status call_prepare(ls_replica_task *task) {
  const replica_call *call = task->rounds->user;
  task->graph = call->graph;
  task->losses = call->losses;
  task->replica->examples =
      ls_distributed_component(call->rows, (size_t)task->replica->id);
  task->replica->examples_differ = call->differ;
  char name[120];
  ls_graph *graph = task->graph;
  const char *prefix = task->replica->strategy->scope_prefix;
  if (task->replica->id == 0 || graph->kind == LS_GRAPH_EAGER) return ls_ok();
  snprintf(name, sizeof(name), "%s_%d", prefix != NULL ? prefix : "replica",
           task->replica->id);
  return ls_graph_name_scope(graph, task->context.scoped.names, name, false,
                             &task->context.scoped.names);
}

// ---- Merge -----------------------------------------------------------------
// Collects the control dependencies that the replicas' callbacks have entered.
static ls_status join_control(const ls_rounds *call, ls_op **out_ops,
                              size_t *out_count) {
  const ls_open_scope *around = ls_context_current()->scoped.control;
  size_t capacity = 0;
  for (size_t r = 0; r < call->count; ++r) {
    const ls_open_scope *s = call->tasks[r].context.scoped.control;
    for (; s != NULL && s != around; s = s->before.control) {
      const size_t more = s->own.control.count;
      if (!ls_grow(call->strategy->allocator, out_ops, &capacity,
                   *out_count + more, sizeof(**out_ops)))
        return ls_out_of_memory();
      if (more > 0)
        memcpy(*out_ops + *out_count, s->own.control.ops, more * sizeof(ls_op));
      *out_count += more;
    }
  }
  return ls_ok();
}

// Regroups the replicas' results, or the arguments of their merge call.
static ls_status regroup_tasks(const ls_rounds *call, bool by_result,
                               ls_nest *out_values) {
  LS_OWN_ARRAY_OR_RETURN(call->strategy->allocator, ls_nest, values,
                         call->count);
  for (size_t r = 0; r < call->count; ++r)
    values[r] = by_result ? call->tasks[r].result : call->tasks[r].merge_args;
  return ls_regroup(values, call->count, NULL, out_values);
}

static ls_status call_merge(const ls_rounds *call, ls_nest args,
                            ls_nest *out_result) {
  LS_OWN_MEMORY(call->strategy->allocator, ls_op, control) = NULL;
  size_t num_control = 0;
  const ls_replica_task *first = &call->tasks[0];
  LS_RETURN_IF_ERROR(join_control(call, &control, &num_control));
  ls_scope names = {0}, controls = {0};
  ls_context *context = ls_context_open(&names, &ls_graph_scopes.name);
  context->scoped.names = first->context.scoped.names;
  if (num_control > 0) ls_control_scope_begin(&controls, control, num_control);
  const ls_nest made = first->merge(call->strategy, args, first->merge_user);
  ls_scope_end(&controls);
  ls_scope_end(&names);
  return ls_take_nest(made, out_result);
}

// Records that a result is the same on all replicas, if it is one value or
// mirrored.
static ls_nest note_same(ls_nest leaf, void *user) {
  ls_replica_task *task = user;
  ls_nest own = leaf;
  if (leaf.kind == LS_KIND_DISTRIBUTED &&
      ls_distributed_kind_of(leaf) == LS_MIRRORED)
    own = ls_distributed_component(leaf, (size_t)task->replica->id);
  return own.kind != LS_KIND_TENSOR ||
                 ls_same_values_add(&task->same, own.as.tensor)
             ? ls_none()
             : ls_fail(ls_out_of_memory());
}

static ls_status call_give_results(ls_rounds *call, ls_nest result) {
  LS_RETURN_IF_ERROR(ls_status_annotate(
      ls_check_components(
          result,
          &(ls_device_list){.devices = ls_strategy_devices(call->strategy),
                            .count = call->count}),
      "in the result of a merge function"));
  for (size_t r = 0; r < call->count; ++r) {
    ls_replica_task *task = &call->tasks[r];
    ls_nest_release(task->merge_args);
    task->merge_args = ls_none();
    LS_RETURN_IF_ERROR(ls_select_replica((int64_t)r, result, &task->merged));
    LS_OWN(ls_nest, noted) = ls_nest_map(result, note_same, task);
    LS_RETURN_IF_ERROR(ls_nest_status(noted));
  }
  return ls_ok();
}

static ls_status merge_once(ls_rounds *call) {
  LS_OWN(ls_nest, args) = ls_none();
  LS_OWN(ls_nest, result) = ls_none();
  const ls_graph *graph = call->tasks[0].graph;
  call->merge_first = call->merge_end = graph->next_id;
  LS_RETURN_IF_ERROR(regroup_tasks(call, false, &args));
  const ls_status status = call_merge(call, args, &result);
  call->merge_end = graph->next_id;
  LS_RETURN_IF_ERROR(status);
  return call_give_results(call, result);
}

static ls_status merge(ls_rounds *call) {
  return ls_status_annotate(merge_once(call),
                            "in the merge call of %zu replicas", call->count);
}

// ---- All replicas ----------------------------------------------------------
static bool is_eager(const replica_call *call) {
  return call->graph->kind == LS_GRAPH_EAGER;
}

// Fails if a result is a failed tensor, which may have been made outside.
static ls_nest check_result(ls_nest leaf, void *user) {
  (void)user;
  return leaf.kind == LS_KIND_TENSOR && ls_tensor_is_failed(leaf.as.tensor)
             ? ls_fail(ls_made_status(leaf.as.tensor))
             : ls_none();
}

// Checks the results of replicas that ran op by op.
static ls_status check_results(const ls_rounds *rounds) {
  for (size_t r = 0; r < rounds->count; ++r) {
    LS_OWN(ls_nest, checked) =
        ls_nest_map(rounds->tasks[r].result, check_result, NULL);
    LS_RETURN_IF_ERROR(ls_nest_status(checked));
  }
  const ls_cancel *cancel = ls_cancel_current();
  return cancel != NULL && ls_cancel_is_requested(cancel)
             ? LS_STATUS(LS_CANCELLED, "the run was cancelled")
             : ls_ok();
}

static ls_status run_call(ls_strategy *strategy, replica_call *call,
                          ls_nest *results) {
  LS_OWN(ls_rounds, rounds) = {.strategy = strategy,
                               .around = ls_context_graph(),
                               .call = call_run_replica,
                               .hooks = &hooks,
                               .prepare = call_prepare,
                               .merge = merge,
                               .user = call};
  // Selects the arguments of all replicas before a callback runs.
  const size_t count = (size_t)strategy->num_replicas;
  LS_RETURN_IF_ERROR(ls_nests_init(&call->each, strategy->allocator, count));
  for (size_t r = 0; r < count; ++r)
    LS_RETURN_IF_ERROR(
        ls_select_replica((int64_t)r, call->args, &call->each.items[r]));
  const uint64_t first_id = call->graph->next_id;
  ls_first_failure first;  // A merge function's.
  ls_failure_begin(&first);
  LS_RETURN_IF_ERROR(ls_failure_end(&first, ls_rounds_run(&rounds)));
  if (is_eager(call)) LS_RETURN_IF_ERROR(check_results(&rounds));
  if (is_eager(call) && strategy->number != 0)
    LS_RETURN_IF_ERROR(ls_ranks_meet_eager(
        call->graph, first_id, strategy->number, strategy->num_replicas));
  return regroup_tasks(&rounds, true, results);
}

ls_status ls_replicas_call(ls_strategy *strategy, ls_callback callback,
                           ls_nest args, void *user, ls_nest *results) {
  replica_call call = {.callback = callback,
                       .user = user,
                       .args = args,
                       .rows = ls_examples_argument(strategy, args, args)};
  LS_RETURN_IF_ERROR(ls_graph_find_current(&call.graph));
  call.losses = call.graph->losses;
  call.differ = rows_differ(call.rows);
  const ls_status status = run_call(strategy, &call, results);
  ls_nests_deinit(&call.each);
  return status;
}

// Calls a merge function for the default strategy, or for the only replica, in
// cross-replica context.
static ls_nest default_merge(ls_strategy *strategy, ls_merge_function function,
                             ls_nest args, void *user) {
  ls_context *context = ls_context_current();
  ls_distribution entry = {.strategy = strategy};
  ls_distribution_push(context, &entry);
  const ls_nest made = function(strategy, args, user);
  ls_distribute_scoped_of(context)->distribution = entry.outer;
  return made;
}

// ---- In a replica ----------------------------------------------------------
// Merges for a replica that is traced on behalf of all: computes the values of
// all replicas and takes the replica's part.
static ls_nest merge_alone(ls_replica *replica, ls_merge_function function,
                           ls_nest args, void *user) {
  const ls_graph *graph = ls_graph_resolve(ls_graph_current());
  replica->first_merged = graph != NULL ? graph->next_id : 0;
  replica->merged_depth = graph != NULL ? graph->depth : 0;
  LS_OWN(ls_nest, made) =
      default_merge(replica->strategy, function, args, user);
  if (!replica->strategy->kind->distributes || ls_nest_is_failed(made))
    return ls_give(&made);
  ls_nest own = ls_none();
  return ls_made_nest(ls_select_replica(0, made, &own), &own);
}

// Pauses until all replicas have made this merge call, then merges.
static ls_nest meet_replicas(ls_replica *replica, const char *noun,
                             ls_merge_function function, ls_nest args,
                             void *user) {
  LS_RETURN_FAILED_IF_ERROR(ls_replica_check(replica, noun));
  return replica->task == NULL
             ? merge_alone(replica, function, args, user)
             : ls_rounds_merge_call(replica->task, noun, function, args, user);
}

ls_nest ls_replica_merge_as(ls_replica *replica, const char *noun,
                            ls_merge_function function, ls_nest args,
                            void *user) {
  const ls_nest made = meet_replicas(replica, noun, function, args, user);
  return ls_nest_is_failed(made) || replica->task == NULL ||
                 ls_context_current()->hooks == NULL
             ? made
             : ls_merge_meeting(replica->task->rounds, args, made);
}

ls_nest ls_replica_merge_call(ls_replica *replica, ls_merge_function function,
                              ls_nest args, void *user) {
  return ls_replica_merge_as(replica, LS_MERGE_CALL, function, args, user);
}

static ls_nest reduce_merge(ls_strategy *strategy, ls_nest args, void *user) {
  return ls_all_reduce_merged(strategy, *(const ls_reduce_op *)user, args);
}

// Returns the tensor that a merge made. If the merge failed, the tensor is
// failed, and so are ops that use it.
static ls_tensor merged_tensor(ls_nest made) {
  if (made.kind == LS_KIND_TENSOR) return made.as.tensor;
  const ls_status status = ls_nest_status(made);
  ls_nest_release(made);
  ls_graph *graph = ls_graph_current();
  if (graph->kind == LS_GRAPH_EAGER)
    return ls_op_output(ls_eager_fail(graph, status), 0);
  ls_graph_fail(graph, status);
  return ls_failed_tensor();
}

ls_tensor ls_replica_table_reduce(ls_reduce_op op, ls_tensor x) {
  if (x.ref == 0) return ls_identity(x);  // Fails with the reason.
  // `op` is on the stack of a paused fiber. Replica 0's is used.
  return merged_tensor(meet_replicas(ls_replica_context(), "all_reduce",
                                     reduce_merge, ls_leaf(x), &op));
}

static ls_nest gather_merge(ls_strategy *strategy, ls_nest args, void *user) {
  return ls_all_gather_merged(strategy, *(const int *)user, args);
}

static ls_tensor hook_all_gather(ls_tensor x, int axis) {
  return merged_tensor(meet_replicas(ls_replica_context(), "all_gather",
                                     gather_merge, ls_leaf(x), &axis));
}

static ls_nest sum_before(ls_strategy *strategy, ls_nest rows, void *user) {
  const size_t count = (size_t)strategy->num_replicas;
  LS_OWN_ARRAY(strategy->allocator, ls_nest, items, count);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  int64_t before = 0;
  for (size_t r = 0; r < count; ++r) {
    // A number that is the same on all replicas is not distributed.
    const ls_nest own = ls_distributed_component(rows, r);
    items[r] = ls_nest_i64(before);
    before += (int64_t)ls_nest_number(own);
  }
  const int64_t total = *(const int64_t *)user;
  if (total >= 0 && before != total) return ls_nest_i64(-1);
  return ls_nest_distributed(LS_PER_REPLICA, items, count);
}

// Sums the rows of replicas with lower ids. A failure is reported by the next
// merge.
static int64_t hook_rows_before(int64_t rows, int64_t total) {
  // `total` is on the stack of a paused fiber; replica 0's is used.
  LS_OWN(ls_nest, made) = meet_replicas(ls_replica_context(), "reduce_scatter",
                                        sum_before, ls_nest_i64(rows), &total);
  return made.kind == LS_KIND_SCALAR ? (int64_t)ls_nest_number(made) : 0;
}

static ls_tensor hook_replica_id(void) {
  return ls_scalar_i64(LS_DTYPE_I32, ls_replica_number());
}

// The reduced leaves, each with its original.
typedef struct reduced {
  ls_reduce_op op;
  const ls_nest *given;
  size_t next;
} reduced;

static ls_nest reduced_leaf(ls_nest got, void *user) {
  reduced *r = user;
  const ls_nest given = r->given[r->next++];
  return given.kind == LS_KIND_TENSOR && got.kind == LS_KIND_TENSOR
             ? ls_leaf(ls_same_note(
                   ls_make_reduced(r->op, given.as.tensor, got.as.tensor)))
             : ls_nest_retain(got);
}

// Replaces a variable by its read, to which the gradient belongs.
static ls_nest read_variable(ls_nest leaf, void *user) {
  (void)user;
  if (leaf.kind != LS_KIND_VARIABLE) return ls_nest_retain(leaf);
  ls_tensor x;
  LS_RETURN_FAILED_IF_ERROR(ls_distributed_as_tensor(leaf, &x));
  return ls_leaf(x);
}

static ls_nest call_reduce_together(ls_replica *replica, ls_reduce_op op,
                                    ls_nest nest) {
  LS_OWN(ls_nest, values) = ls_nest_map(nest, read_variable, NULL);
  if (ls_nest_is_failed(values)) return ls_give(&values);
  LS_OWN(ls_nest, made) =
      meet_replicas(replica, "all_reduce", reduce_merge, values, &op);
  const size_t count = ls_nest_num_leaves(values);
  LS_OWN_ARRAY(replica->strategy->allocator, ls_nest, given, count);
  if (given == NULL) return ls_fail(ls_out_of_memory());
  if (ls_nest_is_failed(made)) return ls_give(&made);
  reduced r = {op, given, 0};
  ls_nest_flatten(values, given, count);
  return ls_nest_map(made, reduced_leaf, &r);
}

static ls_nest reduce_alone(ls_strategy *strategy, ls_nest nest, void *user) {
  ls_nest made = ls_none();
  return ls_made_nest(
      ls_strategy_reduce(strategy, *(const ls_reduce_op *)user, nest, &made),
      &made);
}

// Gathers the indices and values of all replicas; for a mean, scales the
// values.
static ls_nest all_reduce_slices(ls_nest leaf, ls_reduce_op op) {
  ls_slices_parts parts;
  LS_RETURN_FAILED_IF_ERROR(ls_slices_parts_of(leaf, &parts));
  const ls_tensor indices = ls_all_gather(parts.indices, 0);
  ls_tensor values = ls_all_gather(parts.values, 0);
  if (op == LS_REDUCE_MEAN)
    values = ls_same_note(
        ls_mean_of_sum(values, (double)ls_context_replicas(), false));
  LS_RETURN_FAILED_IF_ERROR(ls_made_status(indices));
  LS_RETURN_FAILED_IF_ERROR(ls_made_status(values));
  return ls_nest_slices(ls_leaf(values), indices, parts.dense_shape);
}

static ls_nest all_reduce_leaf(ls_nest leaf, void *user) {
  ls_tensor x;
  if (leaf.kind == LS_KIND_SLICES)
    return all_reduce_slices(leaf, *(const ls_reduce_op *)user);
  LS_RETURN_FAILED_IF_ERROR(ls_distributed_as_tensor(leaf, &x));
  return ls_leaf(ls_all_reduce(*(const ls_reduce_op *)user, x));
}

ls_nest ls_replica_all_reduce(ls_replica *replica, ls_reduce_op op,
                              ls_nest nest) {
  LS_RETURN_FAILED_IF_ERROR(ls_replica_check(replica, "all_reduce"));
  if (op != LS_REDUCE_SUM && op != LS_REDUCE_MEAN)
    return LS_FAIL(LS_INVALID_ARGUMENT,
                   "all_reduce by %s, which is neither SUM nor MEAN",
                   LS_REDUCE_OP_TEXT(op));
  if (ls_replica_has_no_others(replica))
    return default_merge(replica->strategy, reduce_alone, nest, &op);
  // Calls the user's table by a merge call, because it reduces the values of
  // all replicas together.
  const ls_cross_device *ops = replica->strategy->cross_device;
  return ls_context_current()->hooks != NULL || (ops != NULL && !ops->built_in)
             ? call_reduce_together(replica, op, nest)
             : ls_nest_map(nest, all_reduce_leaf, &op);
}

typedef struct gathering {
  int axis;
  const ls_replica *replica;
} gathering;

static ls_nest all_gather_leaf(ls_nest leaf, void *user) {
  ls_tensor x;
  const gathering *g = user;
  const int axis = g->axis;
  LS_RETURN_FAILED_IF_ERROR(ls_distributed_as_tensor(leaf, &x));
  const int32_t rank = ls_tensor_shape(x).rank;
  if (rank == 0 || axis < 0 || (rank > 0 && axis >= rank))
    return LS_FAIL(LS_INVALID_ARGUMENT,
                   "all_gather along axis %d of rank %d; 0 to %d are possible",
                   axis, rank, rank - 1);
  return g->replica->count == 1 ? ls_nest_retain(leaf)
                                : ls_leaf(ls_all_gather(x, axis));
}

ls_nest ls_replica_all_gather(ls_replica *replica, ls_nest nest, int axis) {
  LS_RETURN_FAILED_IF_ERROR(ls_replica_check(replica, "all_gather"));
  if (ls_nest_has_slices(nest))
    return LS_FAIL(LS_UNIMPLEMENTED, "all_gather of IndexedSlices");
  const ls_status others = ls_replica_check_others(replica, "all_gather");
  if (!ls_status_is_ok(others)) return ls_fail(others);
  return ls_nest_map(nest, all_gather_leaf, &(gathering){axis, replica});
}
