// SPDX-License-Identifier: Apache-2.0
//
// Runs replicas in rounds: each replica is a fiber that runs until it pauses in
// a merge call or ends. When all replicas have paused, their merge function is
// called, and all continue. When a replica fails, the merge calls of the others
// fail and their callbacks return by themselves: the library never unwinds a
// user's frames.
#ifndef LS_DISTRIBUTE_REPLICAS_ROUNDS_H_
#define LS_DISTRIBUTE_REPLICAS_ROUNDS_H_

#include "distribute/base/strategy.h"
#include "distribute/context/context.h"
#include "graph/compare/compare.h"
#include "runtime/eager/eager.h"

// ---- Sharing ---------------------------------------------------------------
// The variables that replica 0 made in one run of all replicas. The other
// replicas get the same variables, matched by name without the numbers that
// make names unique, in order of creation.
typedef struct ls_sharing {
  ls_strategy *strategy;
  ls_map made;  // Canonical name -> list of variables.
} ls_sharing;

// The requests for variables of one replica.
typedef struct ls_shared_requests {
  ls_sharing *sharing;
  int32_t replica;
  ls_map counts;  // Canonical name -> number of requests.
} ls_shared_requests;

void ls_sharing_init(ls_sharing *sharing, ls_strategy *strategy);
void ls_sharing_deinit(ls_sharing *sharing);
void ls_shared_requests_deinit(ls_shared_requests *requests);
// The creator of variables in a replica; `user` is the replica's requests.
ls_status ls_sharing_create(const ls_creator *next,
                            const ls_variable_options *options, void *user,
                            ls_variable **out_variable);
// Removes numbers that make names unique: writes "foo_1/bar_1/baz" as
// "foo/bar/baz", "foo_1" as "foo". `out` has room for the name with its zero.
void ls_canonical_variable_name(const char *name, char *out);

typedef struct ls_rounds ls_rounds;

// A replica in a run of all replicas.
typedef struct ls_replica_task {
  ls_rounds *rounds;
  ls_replica *replica;
  ls_graph *graph;  // Graph to which its callback adds ops.
  ls_context context;
  ls_first_failure failure;  // In its callback, op by op.
  ls_distribution entry;
  ls_creator_entry creator;
  ls_shared_requests requests;
  ls_same_values same;
  ls_fiber *fiber;
  ls_nest result;
  ls_status status;
  void *own;         // Data of the code that started the run.
  ls_losses losses;  // Record of `graph` while this replica runs.
  // The merge call in which the replica waits; `noun` is on its stack.
  const char *noun;
  ls_merge_function merge;
  ls_nest merge_args, merged;
  void *merge_user;
} ls_replica_task;

// A run of all replicas. `call` runs on a task's fiber, and leaves its result
// or failure in the task. The other functions may be NULL.
struct ls_rounds {
  ls_strategy *strategy;
  // Graph in which the replica contexts apply; NULL: eager mode.
  const ls_graph *around;
  ls_fiber_function call;  // Called with the task.
  const ls_replica_hooks *hooks;
  ls_status (*prepare)(ls_replica_task *task);
  // Called when a task has ended without failure.
  ls_status (*end)(ls_replica_task *task);
  // Called when all tasks wait in a merge call; sets `merged` in each task.
  ls_status (*merge)(ls_rounds *rounds);
  void *user;
  // Fields set by ls_rounds_run.
  ls_replica_task *tasks;
  ls_replica *replicas;
  size_t count;
  ls_sharing sharing;  // Shared variables made by the replicas.
  // Number of random streams at the start of a round, and the largest number
  // after a replica's turn.
  uint32_t first_random, most_random;
  ls_status cause;  // Root cause, while other replicas end; borrowed.
  // The ops of the last merge have ids from `merge_first` up to `merge_end`
  // (exclusive), if they are in the replicas' graph.
  uint64_t merge_first, merge_end;
};

// Runs all replicas to their ends. The tasks stay until ls_rounds_deinit.
ls_status ls_rounds_run(ls_rounds *rounds);
void ls_rounds_deinit(ls_rounds *rounds);
LS_OWNED_STRUCT(ls_rounds, ls_rounds_deinit)

// Makes a merge call in a task's callback; `noun` is the call in messages:
// LS_MERGE_CALL, or the collective or write that makes one where replicas run
// op by op.
#define LS_MERGE_CALL "merge_call"
ls_nest ls_rounds_merge_call(ls_replica_task *task, const char *noun,
                             ls_merge_function function, ls_nest args,
                             void *user);
// Makes a merge call as ls_replica_merge_call, with that `noun`.
ls_nest ls_replica_merge_as(ls_replica *replica, const char *noun,
                            ls_merge_function function, ls_nest args,
                            void *user);

// Implements merge calls of traced replicas: traces replica 0's function once,
// in cross-replica context, and adds a merge op with this body to each
// replica's graph.
ls_status ls_trace_merge(ls_rounds *rounds);

// ---- Merges -----------------------------------------------------------------
// Makes the result `made` (taken over) of the last merge call pass gradients to
// a replica's `args`. ls_merge_gradient computes these gradients.
ls_nest ls_merge_meeting(const ls_rounds *rounds, ls_nest args, ls_nest made);
ls_status ls_merge_gradient(const ls_tensor *given, size_t num_given,
                            const ls_tensor *got, const ls_tensor *gradients,
                            size_t num_got, ls_tensor *out_gradients);
// All-reduces with the strategy's table, in replicas that run op by op.
ls_tensor ls_replica_table_reduce(ls_reduce_op op, ls_tensor x);
// Make the merged parts of all_reduce and all_gather (merged.c). Each leaf is
// one value per replica; if all replicas passed one object, it counts once per
// replica.
ls_nest ls_all_reduce_merged(ls_strategy *strategy, ls_reduce_op op,
                             ls_nest args);
ls_nest ls_all_gather_merged(ls_strategy *strategy, int axis, ls_nest args);

// ---- Examples --------------------------------------------------------------
// The number of examples of a replica, from its step, a scope or its arguments.
//
// Finds this replica's number of examples, a scalar made here; false if none is
// known. `*out_alike`: all replicas have equal numbers. ls_replica_examples
// finds it only if they may differ.
//
// If no strategy has split the arguments, the examples are the rows of the
// first argument that has any, in a run of one replica, a called function or a
// replicated computation.
bool ls_examples_find(ls_tensor *out_count, bool *out_alike);

// Finds the first leaf of a run's arguments that has rows and a part for each
// replica, and returns the leaf of `own`, a nest of the same structure, in its
// position: borrowed, or none. With one replica the leaf needs no parts.
ls_nest ls_examples_argument(const ls_strategy *strategy, ls_nest args,
                             ls_nest own);
// Records that leaf as a traced replica's examples; `own` has the replica's
// parts of `args`.
void ls_replica_take_rows(ls_replica *replica, ls_nest args, ls_nest own);

// Returns the size of dimension 0 of a component; -1 if it has none or the size
// is not known.
int64_t ls_rows_of(ls_nest value, size_t index);

#endif  // LS_DISTRIBUTE_REPLICAS_ROUNDS_H_
