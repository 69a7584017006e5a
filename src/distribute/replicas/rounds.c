// SPDX-License-Identifier: Apache-2.0
#include "distribute/replicas/rounds.h"

#include "base/runtime_internal.h"
#include "base/threads/thread_state.h"
#include "distribute/cross_device/cross_device.h"
#include "graph/region.h"

// ---- A replica -------------------------------------------------------------
static ls_status init_task(ls_rounds *rounds, size_t id) {
  ls_replica_task *task = &rounds->tasks[id];
  task->rounds = rounds;
  task->replica = &rounds->replicas[id];
  task->replica->task = task;
  ls_context_fork(&task->context);
  task->context.replicas = (int32_t)rounds->count;
  task->context.replica = task->replica->id + 1;
  task->context.hooks = rounds->hooks;
  task->failure.outer = task->context.failure;
  task->context.failure = &task->failure;
  const ls_cross_device *ops = rounds->strategy->cross_device;
  task->context.table_reduce =
      ops != NULL && !ops->built_in ? ls_replica_table_reduce : NULL;
  task->entry = (ls_distribution){
      .outer = ls_distribute_scoped_of(&task->context)->distribution,
      .graph = rounds->around,
      .strategy = rounds->strategy,
      .replica = task->replica};
  ls_distribute_scoped_of(&task->context)->distribution = &task->entry;
  task->requests =
      (ls_shared_requests){.sharing = &rounds->sharing, .replica = (int32_t)id};
  task->creator = (ls_creator_entry){.outer = task->context.scoped.creators,
                                     .graph = ls_context_graph(),
                                     .create = ls_sharing_create,
                                     .shares = rounds->hooks == NULL,
                                     .user = &task->requests};
  task->context.scoped.creators = &task->creator;
  if (rounds->prepare != NULL) LS_RETURN_IF_ERROR(rounds->prepare(task));
  task->same = (ls_same_values){.allocator = rounds->strategy->allocator,
                                .graph = task->graph};
  task->context.same = &task->same;
  LS_RETURN_IF_ERROR(ls_fiber_create(rounds->strategy->fibers, rounds->call,
                                     task, &task->fiber));
  ls_fiber_set_context(task->fiber, &task->context);
  return ls_ok();
}

static void deinit_task(ls_replica_task *task) {
  ls_fiber_destroy(task->fiber);
  ls_shared_requests_deinit(&task->requests);
  ls_same_values_deinit(&task->same);
  ls_nest_release(task->result);
  ls_nest_release(task->merge_args);
  ls_nest_release(task->merged);
  ls_status_free(task->status);
  ls_status_free(task->failure.status);
}

// Returns the failure that ended the run, as the result of a replica's merge
// call.
static ls_nest stop_nest(const ls_rounds *rounds) {
  return ls_fail(ls_status_clone(rounds->cause));
}

// Ends all replicas that have started, by making their merge calls fail.
static void stop(ls_rounds *rounds, ls_status cause) {
  rounds->cause = cause;
  for (size_t r = 0; r < rounds->count; ++r) {
    ls_replica_task *task = &rounds->tasks[r];
    while (task->fiber != NULL && ls_fiber_is_started(task->fiber) &&
           !ls_fiber_is_done(task->fiber)) {
      ls_nest_release(task->merged);
      task->merged = stop_nest(rounds);
      ls_status_free(ls_fiber_resume(task->fiber));
    }
  }
  rounds->cause = NULL;
}

// ---- Rounds ----------------------------------------------------------------
static ls_status end_task(ls_replica_task *task) {
  ls_status status = task->status;
  task->status = NULL;
  if (ls_status_is_ok(status) && task->rounds->end != NULL)
    return task->rounds->end(task);
  return ls_status_annotate(status, "on replica %d", task->replica->id);
}

// Resumes a replica with its own record of losses, because other replicas use
// the same graph. The numbers of random streams are the same in each replica;
// the replica's id makes the draws different.
static ls_status rounds_resume(ls_replica_task *task) {
  ls_rounds *rounds = task->rounds;
  ls_graph *graph = task->graph, *whole = ls_graph_whole(graph);
  if (task->replica->id == 0)
    rounds->first_random = rounds->most_random = whole->num_random;
  whole->num_random = rounds->first_random;
  graph->losses = task->losses;
  const ls_status status = ls_fiber_resume(task->fiber);
  task->losses = graph->losses;
  if (rounds->most_random < whole->num_random)
    rounds->most_random = whole->num_random;
  whole->num_random = rounds->most_random;
  return status;
}

// Runs every replica up to its next merge call, or its end.
static ls_status run_round(ls_rounds *rounds, bool *out_done) {
  size_t done = 0;
  for (size_t r = 0; r < rounds->count; ++r) {
    ls_replica_task *task = &rounds->tasks[r];
    if (task->fiber == NULL) LS_RETURN_IF_ERROR(init_task(rounds, r));
    LS_RETURN_IF_ERROR(rounds_resume(task));
    const bool ended = ls_fiber_is_done(task->fiber);
    done += ended;
    if (ended && (!ls_status_is_ok(task->status) || done == r + 1))
      LS_RETURN_IF_ERROR(end_task(task));
    if (done != 0 && done != r + 1)
      return ls_failed_precondition(
          "the replicas made different numbers of merge calls (merge_call), "
          "collectives or writes of aggregated variables: a replica waits in "
          "%s while another has ended",
          rounds->tasks[ended ? 0 : r].noun);
  }
  *out_done = done > 0;
  return ls_ok();
}

static ls_status run_rounds(ls_rounds *rounds) {
  for (;;) {
    bool is_done = false;
    LS_RETURN_IF_ERROR(run_round(rounds, &is_done));
    if (is_done) return ls_ok();
    // Checks the arguments of a merge call. A failed nest makes the replica
    // fail, and so does an op that failed before.
    for (size_t r = 0; r < rounds->count; ++r) {
      const ls_replica_task *task = &rounds->tasks[r];
      const ls_status status = task->failure.status != NULL
                                   ? ls_status_clone(task->failure.status)
                                   : ls_nest_status(task->merge_args);
      LS_RETURN_IF_ERROR(ls_status_annotate(status, "on replica %zu", r));
    }
    LS_RETURN_IF_ERROR(rounds->merge(rounds));
  }
}

ls_status ls_rounds_run(ls_rounds *rounds) {
  ls_runtime *runtime = ls_runtime_current();
  ls_graph *eager = NULL;
  LS_RETURN_IF_ERROR(ls_eager_graph(runtime, &eager));
  rounds->count = (size_t)rounds->strategy->num_replicas;
  LS_SET_ARRAY_OR_RETURN(rounds->strategy->allocator, ls_replica_task,
                         rounds->tasks, rounds->count);
  ls_sharing_init(&rounds->sharing, rounds->strategy);
  LS_RETURN_IF_ERROR(ls_replicas_take(rounds->strategy, &rounds->replicas));
  const uint64_t outside = ls_eager_begin_replicas(eager);
  ls_runtime_begin_callback(runtime);
  const ls_status status = run_rounds(rounds);
  if (!ls_status_is_ok(status)) stop(rounds, status);
  ls_runtime_end_callback(runtime);
  ls_eager_end_replicas(eager, outside);
  return status;
}

void ls_rounds_deinit(ls_rounds *rounds) {
  if (rounds->tasks == NULL) return;
  for (size_t r = 0; r < rounds->count; ++r)
    deinit_task(&rounds->tasks[r]);
  ls_replicas_give(rounds->strategy, rounds->replicas);
  ls_sharing_deinit(&rounds->sharing);
  ls_release(rounds->strategy->allocator, rounds->tasks);
}

// ---- In a replica ----------------------------------------------------------
ls_nest ls_rounds_merge_call(ls_replica_task *task, const char *noun,
                             ls_merge_function function, ls_nest args,
                             void *user) {
  if (ls_graph_resolve(ls_graph_current()) != task->graph)
    return LS_FAIL(
        LS_FAILED_PRECONDITION,
        "%s inside a nested function or the body of a loop or branch (control "
        "flow): call it in the replica's callback itself%s",
        noun,
        task->rounds->hooks != NULL && strcmp(noun, LS_MERGE_CALL) != 0
            ? ", or run a traced function (ls_traced) in place of the plain "
              "callback"
            : "");
  if (ls_fiber_current() != task->fiber)
    return LS_FAIL(LS_FAILED_PRECONDITION,
                   "%s from another thread or fiber than that of replica %d",
                   noun, task->replica->id);
  if (ls_this_thread.work.pins != 0 && task->rounds->count > 1)
    return LS_FAIL(LS_UNIMPLEMENTED,
                   "%s in a callback of a language that cannot pause it while "
                   "those of other replicas go on: trace a function, and "
                   "reduce in it with all_reduce, or make the call from C",
                   noun);
  if (task->rounds->cause != NULL) return stop_nest(task->rounds);
  task->noun = noun;
  task->merge = function;
  task->merge_user = user;
  task->merge_args = ls_nest_retain(args);
  ls_fiber_pause();
  ++task->context.meetings;
  const ls_nest merged = task->merged;
  task->merged = ls_none();
  return merged;
}
