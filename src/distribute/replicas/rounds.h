// SPDX-License-Identifier: Apache-2.0
//
// Replicas in turns: each a fiber that runs until it pauses in a merge call or
// ends. When all have paused they are merged, and all go on. When one fails the
// others are told so in the merge call where they stand and unwind by
// themselves: the library never jumps over a user's frames.
#ifndef LS_DISTRIBUTE_REPLICAS_ROUNDS_H_
#define LS_DISTRIBUTE_REPLICAS_ROUNDS_H_

#include "distribute/context/context.h"
#include "distribute/replicas/sharing.h"
#include "graph/compare/compare.h"

typedef struct ls_rounds ls_rounds;

// One replica.
typedef struct ls_replica_task {
  ls_rounds *rounds;
  ls_replica *replica;
  ls_graph *graph;  // Where its callback's ops go.
  ls_context context;
  ls_distribution entry;
  ls_creator_entry creator;
  ls_shared_requests requests;
  ls_same_values same;
  ls_fiber *fiber;
  ls_nest result;
  ls_status status;
  void *own;         // The caller's.
  ls_losses losses;  // Of `graph` while this replica runs.
  // While it waits in a merge call:
  ls_merge_function merge;
  ls_nest merge_args, merged;
  void *merge_user;
} ls_replica_task;

// How they are run. `call` runs on a task's fiber; what it gives or fails with
// it leaves in the task. NULL stands for nothing to do.
struct ls_rounds {
  ls_strategy *strategy;
  const ls_graph *around;  // In which the replicas' contexts hold; NULL: eager.
  ls_fiber_function call;  // Its argument is the task.
  const ls_replica_hooks *hooks;
  ls_status (*prepare)(ls_replica_task *task);
  ls_status (*end)(ls_replica_task *task);  // It has ended, and did not fail.
  ls_status (*merge)(ls_rounds *rounds);    // All wait; sets each `merged`.
  void *user;
  // The rest is made by ls_rounds_run.
  ls_replica_task *tasks;
  ls_replica *replicas;
  size_t count;
  ls_sharing sharing;  // Variables that the replicas make.
  // Random streams when a round began, and the most after a replica's part.
  uint32_t first_random, most_random;
  ls_status
      cause;  // Why a replica or merge failed, while the others end; lent.
  // Of the last merge: its ops' ids are from `merge_first` to before
  // `merge_end`, where it adds to the replicas' graph.
  uint64_t merge_first, merge_end;
};

// Runs all replicas to their ends. The tasks stay until ls_rounds_deinit.
ls_status ls_rounds_run(ls_rounds *rounds);
void ls_rounds_deinit(ls_rounds *rounds);

// The merge call of a task's callback.
ls_nest ls_rounds_merge_call(ls_replica_task *task, ls_merge_function function,
                             ls_nest args, void *user);

#endif  // LS_DISTRIBUTE_REPLICAS_ROUNDS_H_
