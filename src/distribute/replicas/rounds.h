// SPDX-License-Identifier: Apache-2.0
//
// Replicas in turns: each a fiber that runs until it pauses in a merge call or
// ends. When all have paused they are merged, and all go on. When one fails the
// others are told so in the merge call where they stand and unwind by
// themselves: the library never jumps over a user's frames.
#ifndef LS_DISTRIBUTE_REPLICAS_ROUNDS_H_
#define LS_DISTRIBUTE_REPLICAS_ROUNDS_H_

#include "distribute/base/strategy.h"
#include "distribute/context/context.h"
#include "graph/compare/compare.h"
#include "runtime/eager/eager.h"

// ---- Sharing ---------------------------------------------------------------
// Variables that replicas make: once, by replica 0; the others get the same
// ones, matched by name without uniquifying numbers, in the order of creation.
//
// The variables that replica 0 made in one run of all replicas.
typedef struct ls_sharing {
  ls_strategy *strategy;
  ls_map made;  // Canonical name -> list of variables.
} ls_sharing;

// One replica's requests.
typedef struct ls_shared_requests {
  ls_sharing *sharing;
  int32_t replica;
  ls_map counts;  // Canonical name -> number of requests.
} ls_shared_requests;

void ls_sharing_init(ls_sharing *sharing, ls_strategy *strategy);
void ls_sharing_deinit(ls_sharing *sharing);
void ls_shared_requests_deinit(ls_shared_requests *requests);
// The creator to put in force in a replica; `user` is its requests.
ls_status ls_sharing_create(const ls_creator *next,
                            const ls_variable_options *options, void *user,
                            ls_variable **out_variable);
// Writes "foo_1/bar_1/baz" as "foo/bar/baz", "foo_1" as "foo", into `out`,
// which is as large as the name with its zero.
void ls_canonical_variable_name(const char *name, char *out);

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
  // Ids of the last merge's ops: from `merge_first` to before `merge_end`,
  // where it adds to the replicas' graph.
  uint64_t merge_first, merge_end;
};

// Runs all replicas to their ends. The tasks stay until ls_rounds_deinit.
ls_status ls_rounds_run(ls_rounds *rounds);
void ls_rounds_deinit(ls_rounds *rounds);
LS_OWNED_STRUCT(ls_rounds, ls_rounds_deinit)

// The merge call of a task's callback.
ls_nest ls_rounds_merge_call(ls_replica_task *task, ls_merge_function function,
                             ls_nest args, void *user);

// Merges replicas that are being traced and wait in a merge call: replica 0's
// function is traced once, in cross-replica context, and each replica's graph
// gets a merge op whose body that is.
ls_status ls_trace_merge(ls_rounds *rounds);

// ---- Merges -----------------------------------------------------------------
// Makes the result `made` (taken over) of the last merge call pass gradients to
// a replica's `args`, and computes those gradients (merge_gradient.c).
ls_nest ls_merge_meeting(const ls_rounds *rounds, ls_nest args, ls_nest made);
ls_status ls_merge_gradient(const ls_tensor *given, size_t num_given,
                            const ls_tensor *got, const ls_tensor *gradients,
                            size_t num_got, ls_tensor *out_gradients);
// All-reduces op by op, by the strategy's table.
ls_tensor ls_replica_table_reduce(ls_reduce_op op, ls_tensor x);
// Makes the merged part of all_reduce and all_gather (merged.c): each leaf is
// one value a replica, the same object counting as often as there are replicas.
ls_nest ls_all_reduce_merged(ls_strategy *strategy, ls_reduce_op op,
                             ls_nest args);
ls_nest ls_all_gather_merged(ls_strategy *strategy, int axis, ls_nest args);

// ---- Examples --------------------------------------------------------------
// The number of examples of a replica, by its step, a scope or its arguments.
//
// Finds this replica's number of examples, a scalar made here; false if none is
// known. `*out_alike`: all replicas have that many. ls_replica_examples is this
// where they may differ.
//
// If no strategy has split the arguments, the examples are the rows of the
// first argument that has any: of one replica's run, of a function that is
// called, or of a replicated computation.
bool ls_examples_find(ls_tensor *out_count, bool *out_alike);

// The first leaf of a run's arguments with rows that has a part for each
// replica, lent; of one replica, that has rows at all. None: there is none.
ls_nest ls_examples_argument(const ls_strategy *strategy, ls_nest args);

// Dimension 0 of a component, -1 if it has none or it is not known.
int64_t ls_rows_of(ls_nest value, size_t index);

#endif  // LS_DISTRIBUTE_REPLICAS_ROUNDS_H_
