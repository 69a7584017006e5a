// SPDX-License-Identifier: Apache-2.0
//
// A plain callback on every replica, where the thread is: in eager op by op, in
// a graph under construction as ops of it.
//
// Each replica is a fiber. One after the other runs until it pauses in a merge
// call or ends; when all have paused, replica 0's merge function runs here, in
// cross-replica context, and all go on. When one fails the others are told so
// in the merge call where they stand and unwind by themselves: the library
// never jumps over a user's frames.
#include "dist/call.h"

#include <stdio.h>

#include "base/runtime_internal.h"
#include "dist/context.h"
#include "dist/cross_device.h"
#include "dist/sharing.h"

typedef struct replica_call {
  ls_strategy *strategy;
  ls_allocator *allocator;
  ls_callback callback;
  void *user;
  ls_graph *graph;  // Where the callbacks' ops go.
  ls_replica_task *tasks;
  size_t count;
  ls_sharing sharing;
  bool stopped;  // A replica or merge failed: nothing counts any more.
} replica_call;

struct ls_replica_task {
  replica_call *call;
  ls_replica replica;
  ls_context context;
  ls_distribution entry;
  ls_creator_entry creator;
  ls_shared_requests requests;
  ls_fiber *fiber;
  ls_nest args, result;
  ls_status status;
  // While it waits in a merge call:
  bool merging;
  ls_merge_function merge;
  ls_nest merge_args, merged;
  void *merge_user;
};

// ---- A replica -------------------------------------------------------------
static void run_replica(void *user) {
  ls_replica_task *task = user;
  const replica_call *call = task->call;
  LS_DEVICE_SCOPE(call->strategy->devices[task->replica.id]) {
    const ls_nest made = call->callback(task->args, call->user);
    task->status = ls_take_nest(made, &task->result);
  }
}

static ls_status name_replica(replica_call *call, ls_replica_task *task) {
  char name[32];
  if (task->replica.id == 0 || call->graph->kind == LS_GRAPH_EAGER)
    return ls_ok();
  snprintf(name, sizeof(name), "replica_%d", task->replica.id);
  return ls_graph_name_scope(call->graph, task->context.names, name, false,
                             &task->context.names);
}

static ls_tensor hook_all_reduce(ls_reduce_op op, ls_tensor x);
static ls_tensor hook_all_gather(ls_tensor x, int axis);
static int64_t hook_rows_before(int64_t rows);
static ls_tensor hook_replica_id(void);
static const ls_replica_hooks hooks = {hook_all_reduce, hook_all_gather,
                                       hook_rows_before, hook_replica_id};

// The first value in a nest that has rows for each replica; none.
static ls_nest find_rows(ls_nest nest) {
  if (nest.kind == LS_KIND_DISTRIBUTED)
    return ls_rows_of(nest, 0) >= 0 ? nest : ls_none();
  ls_nest found = ls_none();
  for (size_t i = 0; i < ls_nest_count(nest) && found.kind == LS_KIND_NONE; ++i)
    found = find_rows(ls_nest_item(nest, i));
  return found;
}

static void note_examples(ls_replica_task *task, ls_nest args) {
  const ls_nest rows = find_rows(args);
  const size_t count = ls_distributed_count(rows);
  for (size_t r = 1; r < count; ++r)
    if (ls_rows_of(rows, r) != ls_rows_of(rows, 0))
      task->replica.examples =
          ls_distributed_component(rows, (size_t)task->replica.id);
}

static ls_status init_task(replica_call *call, size_t id, ls_nest args) {
  ls_replica_task *task = &call->tasks[id];
  task->call = call;
  task->replica = (ls_replica){.strategy = call->strategy,
                               .id = (int32_t)id,
                               .count = (int32_t)call->count,
                               .task = task};
  note_examples(task, args);
  LS_RETURN_IF_ERROR(
      ls_select_for(call->strategy, (int32_t)id, args, &task->args));
  ls_context_fork(&task->context);
  task->context.replicas = (int32_t)call->count;
  task->entry = (ls_distribution){.strategy = call->strategy,
                                  .replica = &task->replica};
  ls_distribution_push(&task->context, &task->entry);
  task->requests = (ls_shared_requests){.sharing = &call->sharing,
                                        .replica = (int32_t)id};
  task->creator = (ls_creator_entry){.outer = task->context.creators,
                                     .graph = ls_context_graph(),
                                     .create = ls_sharing_create,
                                     .user = &task->requests};
  task->context.creators = &task->creator;
  task->context.hooks = &hooks;
  LS_RETURN_IF_ERROR(name_replica(call, task));
  LS_RETURN_IF_ERROR(ls_fiber_create(call->strategy->fibers, run_replica, task,
                                     &task->fiber));
  ls_fiber_set_state(task->fiber, &task->context);
  return ls_ok();
}

static void deinit_task(ls_replica_task *task) {
  ls_fiber_destroy(task->fiber);
  ls_shared_requests_deinit(&task->requests);
  ls_nest_release(task->args);
  ls_nest_release(task->result);
  ls_nest_release(task->merge_args);
  ls_nest_release(task->merged);
  ls_status_free(task->status);
}

static ls_nest stop_nest(void) {
  return LS_FAIL(LS_CANCELLED, "another replica has failed");
}

// Everything that has started ends: a merge call gives a failed nest.
static void stop(replica_call *call) {
  call->stopped = true;
  for (size_t r = 0; r < call->count; ++r) {
    ls_replica_task *task = &call->tasks[r];
    while (task->fiber != NULL && ls_fiber_is_started(task->fiber) &&
           !ls_fiber_is_done(task->fiber)) {
      ls_nest_release(task->merged);
      task->merged = stop_nest();
      ls_status_free(ls_fiber_resume(task->fiber));
    }
  }
}

// Lets every replica run to its next merge call or to its end.
static ls_status run_round(replica_call *call, size_t *out_done) {
  *out_done = 0;
  for (size_t r = 0; r < call->count; ++r) {
    ls_replica_task *task = &call->tasks[r];
    LS_RETURN_IF_ERROR(ls_fiber_resume(task->fiber));
    if (ls_fiber_is_done(task->fiber)) {
      ++*out_done;
      if (task->status != NULL) {
        const ls_status status = task->status;
        task->status = NULL;
        return ls_status_annotate(status, "on replica %zu", r);
      }
    }
    if (*out_done != 0 && *out_done != r + 1)
      return ls_failed_precondition(
          "the replicas made different numbers of merge calls (merge_call): "
          "%s",
          ls_fiber_is_done(task->fiber)
              ? "a replica has ended while another waits in one"
              : "a replica waits in one while another has ended");
  }
  return ls_ok();
}

// ---- Merging ---------------------------------------------------------------
// The control dependencies that replicas have entered, of all of them.
static ls_status join_control(const replica_call *call, ls_op **out_ops,
                              size_t *out_count) {
  const ls_scope *around = ls_context_current()->control;
  size_t capacity = 0;
  for (size_t r = 0; r < call->count; ++r) {
    const ls_scope *s = call->tasks[r].context.control;
    for (; s != NULL && s != around;
         s = (const ls_scope *)(uintptr_t)s->extra[LS_SCOPE_SAVED_CONTROL]) {
      if (!ls_grow(call->allocator, out_ops, &capacity, *out_count + s->extra[5],
                   sizeof(**out_ops)))
        return ls_out_of_memory();
      memcpy(*out_ops + *out_count, s->data, s->extra[5] * sizeof(ls_op));
      *out_count += s->extra[5];
    }
  }
  return ls_ok();
}

static ls_status regroup_merge_args(const replica_call *call,
                                    ls_nest *out_args) {
  ls_nest *values = ls_new_array(call->allocator, ls_nest, call->count);
  if (values == NULL) return ls_out_of_memory();
  for (size_t r = 0; r < call->count; ++r)
    values[r] = call->tasks[r].merge_args;
  const ls_status status = ls_regroup(values, call->count, NULL, out_args);
  ls_release(call->allocator, values);
  return status;
}

static ls_status call_merge(replica_call *call, ls_nest args,
                            ls_nest *out_result) {
  ls_op *control = NULL;
  size_t num_control = 0;
  const ls_replica_task *first = &call->tasks[0];
  ls_status status = join_control(call, &control, &num_control);
  if (ls_status_is_ok(status)) {
    ls_scope names = {0}, controls = {0};
    ls_context *context =
        ls_context_open(&names, LS_SCOPE_NAME, first->context.names);
    context->names = first->context.names;
    if (num_control > 0)
      ls_control_scope_begin(&controls, control, num_control);
    status = ls_take_nest(
        first->merge(call->strategy, args, first->merge_user), out_result);
    ls_scope_end(&controls);
    ls_scope_end(&names);
  }
  ls_release(call->allocator, control);
  return status;
}

static ls_status give_results(replica_call *call, ls_nest result) {
  for (size_t r = 0; r < call->count; ++r) {
    ls_replica_task *task = &call->tasks[r];
    ls_nest_release(task->merge_args);
    task->merge_args = ls_none();
    task->merging = false;
    LS_RETURN_IF_ERROR(ls_select_replica((int64_t)r, result, &task->merged));
  }
  return ls_ok();
}

static ls_status merge(replica_call *call) {
  ls_nest args = ls_none(), result = ls_none();
  ls_status status = regroup_merge_args(call, &args);
  if (ls_status_is_ok(status)) status = call_merge(call, args, &result);
  ls_nest_release(args);
  if (ls_status_is_ok(status)) status = give_results(call, result);
  ls_nest_release(result);
  return ls_status_annotate(status, "in the merge call of %zu replicas",
                            call->count);
}

// ---- All of them -----------------------------------------------------------
static ls_status gather_results(const replica_call *call, ls_nest *results) {
  ls_nest *values = ls_new_array(call->allocator, ls_nest, call->count);
  if (values == NULL) return ls_out_of_memory();
  for (size_t r = 0; r < call->count; ++r) values[r] = call->tasks[r].result;
  ls_nest made = ls_none();
  const ls_status status = ls_regroup(values, call->count, NULL, &made);
  ls_release(call->allocator, values);
  LS_RETURN_IF_ERROR(status);
  ls_nest_release(*results);
  *results = made;
  return ls_ok();
}

static ls_status run_all(replica_call *call, ls_nest args, ls_nest *results) {
  for (size_t r = 0; r < call->count; ++r)
    LS_RETURN_IF_ERROR(init_task(call, r, args));
  for (size_t done = 0; done < call->count;) {
    LS_RETURN_IF_ERROR(run_round(call, &done));
    if (done < call->count) LS_RETURN_IF_ERROR(merge(call));
  }
  return gather_results(call, results);
}

ls_status ls_replicas_call(ls_strategy *strategy, ls_callback callback,
                           ls_nest args, void *user, ls_nest *results) {
  replica_call call = {.strategy = strategy,
                       .allocator = strategy->allocator,
                       .callback = callback,
                       .user = user,
                       .graph = ls_graph_current(),
                       .count = (size_t)strategy->num_replicas};
  if (call.graph == NULL) return ls_out_of_memory();
  call.tasks = ls_new_array(call.allocator, ls_replica_task, call.count);
  if (call.tasks == NULL) return ls_out_of_memory();
  ls_sharing_init(&call.sharing, strategy);
  const ls_status status = run_all(&call, args, results);
  if (!ls_status_is_ok(status)) stop(&call);
  for (size_t r = 0; r < call.count; ++r) deinit_task(&call.tasks[r]);
  ls_sharing_deinit(&call.sharing);
  ls_release(call.allocator, call.tasks);
  return status;
}

// ---- From inside -----------------------------------------------------------
ls_nest ls_replica_merge_call(ls_replica *replica, ls_merge_function function,
                              ls_nest args, void *user) {
  const ls_status status = ls_replica_check(replica, "merge_call");
  if (!ls_status_is_ok(status)) return ls_fail(status);
  if (replica->strategy->kind == LS_STRATEGY_DEFAULT)
    return ls_default_merge(replica->strategy, function, args, user);
  ls_replica_task *task = replica->task;
  if (task == NULL)
    return LS_FAIL(LS_UNIMPLEMENTED,
                   "merge_call in a traced function; all_reduce is possible "
                   "there, and merge_call in a plain callback");
  if (ls_graph_resolve(ls_graph_current()) != task->call->graph)
    return LS_FAIL(LS_FAILED_PRECONDITION,
                   "merge_call inside of a nested function or of the body of a "
                   "loop or branch (control flow): it belongs into the "
                   "replica's callback itself");
  if (ls_fiber_current() != task->fiber)
    return LS_FAIL(LS_FAILED_PRECONDITION,
                   "merge_call from another thread or fiber than that of "
                   "replica %d",
                   replica->id);
  if (task->call->stopped) return stop_nest();
  task->merge = function;
  task->merge_user = user;
  task->merge_args = ls_nest_retain(args);
  task->merging = true;
  ls_fiber_pause();
  const ls_nest merged = task->merged;
  task->merged = ls_none();
  return merged;
}

// The default strategy's: at once, in a cross-replica context of its own.
ls_nest ls_default_merge(ls_strategy *strategy, ls_merge_function function,
                         ls_nest args, void *user) {
  ls_context *context = ls_context_current();
  ls_distribution entry = {.strategy = strategy};
  ls_distribution_push(context, &entry);
  const ls_nest made = function(strategy, args, user);
  context->distribution = entry.outer;
  return made;
}

static ls_nest reduce_merge(ls_strategy *strategy, ls_nest args, void *user) {
  return ls_all_reduce_merged(strategy, *(const ls_reduce_op *)user, args);
}

static ls_nest reduce_in_replica(ls_replica *replica, ls_reduce_op op,
                                 ls_nest nest) {
  // Lives until all have met: replica 0's is the one that is used.
  return ls_replica_merge_call(replica, reduce_merge, nest, &op);
}

// What a merge has made of a tensor; a failed one fails where it is used.
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

static ls_tensor hook_all_reduce(ls_reduce_op op, ls_tensor x) {
  return merged_tensor(
      reduce_in_replica(ls_replica_context(), op, ls_leaf(x)));
}

static ls_nest gather_merge(ls_strategy *strategy, ls_nest args, void *user) {
  return ls_all_gather_merged(strategy, *(const int *)user, args);
}

static ls_tensor hook_all_gather(ls_tensor x, int axis) {
  return merged_tensor(ls_replica_merge_call(
      ls_replica_context(), gather_merge, ls_leaf(x), &axis));
}

static ls_nest sum_before(ls_strategy *strategy, ls_nest rows, void *user) {
  (void)user;
  const size_t count = (size_t)strategy->num_replicas;
  ls_nest *items = ls_new_array(strategy->allocator, ls_nest, count);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  int64_t before = 0;
  for (size_t r = 0; r < count; ++r) {
    // The same number on all is one.
    const ls_nest own = rows.kind == LS_KIND_DISTRIBUTED
                            ? ls_distributed_component(rows, r)
                            : rows;
    items[r] = ls_nest_i64(before);
    before += (int64_t)ls_nest_number(own);
  }
  const ls_nest made = ls_nest_distributed(LS_PER_REPLICA, items, count);
  ls_release(strategy->allocator, items);
  return made;
}

// A failure shows in what is merged next.
static int64_t hook_rows_before(int64_t rows) {
  const ls_nest made = ls_replica_merge_call(ls_replica_context(), sum_before,
                                             ls_nest_i64(rows), NULL);
  const int64_t before =
      made.kind == LS_KIND_SCALAR ? (int64_t)ls_nest_number(made) : 0;
  ls_nest_release(made);
  return before;
}

static ls_tensor hook_replica_id(void) {
  return ls_scalar_i64(LS_DTYPE_I32, ls_replica_number());
}

static bool is_sum_or_mean(ls_reduce_op op) {
  return op == LS_REDUCE_SUM || op == LS_REDUCE_MEAN;
}

static ls_nest all_reduce_leaf(ls_nest leaf, void *user) {
  ls_tensor x;
  const ls_status status = ls_distributed_as_tensor(leaf, &x);
  return ls_status_is_ok(status)
             ? ls_leaf(ls_all_reduce(*(const ls_reduce_op *)user, x))
             : ls_fail(status);
}

ls_nest ls_replica_all_reduce(ls_replica *replica, ls_reduce_op op,
                              ls_nest nest) {
  const ls_status status = ls_replica_check(replica, "all_reduce");
  if (!ls_status_is_ok(status)) return ls_fail(status);
  if (!is_sum_or_mean(op))
    return LS_FAIL(LS_INVALID_ARGUMENT,
                   "all_reduce by op %d: it is neither SUM nor MEAN", (int)op);
  // A table of the user's own is called by all replicas together.
  const ls_cross_device *ops = replica->strategy->cross_device;
  return replica->task != NULL || (ops != NULL && !ops->built_in)
             ? reduce_in_replica(replica, op, nest)
             : ls_nest_map(nest, all_reduce_leaf, &op);
}

static ls_nest all_gather_leaf(ls_nest leaf, void *user) {
  ls_tensor x;
  const int axis = *(const int *)user;
  const ls_status status = ls_distributed_as_tensor(leaf, &x);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const int32_t rank = ls_tensor_shape(x).rank;
  if (rank == 0 || axis < 0 || (rank > 0 && axis >= rank))
    return LS_FAIL(LS_INVALID_ARGUMENT,
                   "all_gather along axis %d of rank %d; 0 to %d are possible",
                   axis, rank, rank - 1);
  return ls_leaf(ls_all_gather(x, axis));
}

ls_nest ls_replica_all_gather(ls_replica *replica, ls_nest nest, int axis) {
  const ls_status status = ls_replica_check(replica, "all_gather");
  if (!ls_status_is_ok(status)) return ls_fail(status);
  if (replica->count == 1) return ls_nest_retain(nest);
  return replica->task != NULL
             ? ls_replica_merge_call(replica, gather_merge, nest, &axis)
             : ls_nest_map(nest, all_gather_leaf, &axis);
}
