// SPDX-License-Identifier: Apache-2.0
//
// Strategies, private part.
#ifndef LS_DISTRIBUTE_BASE_STRATEGY_H_
#define LS_DISTRIBUTE_BASE_STRATEGY_H_

#include "base/threads/fiber.h"
#include "base/threads/threads.h"
#include "base/values/nest_internal.h"
#include "distribute/base/class.h"
#include "graph/context.h"
#include "lockstep/regroup.h"
#include "lockstep/summary.h"
#include "runtime/function.h"

struct ls_strategy {
  ls_object object;
  ls_allocator *allocator;
  ls_runtime *runtime;
  const ls_strategy_class *kind;  // Table of its functions.
  // A number that no other strategy has had. It changes when the user sets a
  // cross-device table, because traces depend on the table.
  uint64_t id;
  // Number among the runtime's strategies of several replicas, from 1: the same
  // on all ranks.
  uint64_t number;
  bool has_run;        // Replicas have run in a graph. Atomic.
  char *label;         // For messages.
  char *scope_prefix;  // Prefix of replicas' name scopes; NULL: "replica".
  int32_t num_replicas;
  // Canonical device names; NULL: no devices. Other code reads them through
  // accessors. First one device per replica; if replicas have several devices,
  // as many again for each further column.
  char **devices;
  int32_t num_columns;
  const char *no_cpu;     // First device that is not a CPU, or NULL.
  bool is_placed;         // The user chose the devices.
  bool has_devices;       // The runtime has all of them for good. Atomic.
  char *default_device;   // Device of ops in the strategy's scope; NULL: none.
  bool packs_variables;   // Variables made in eager mode get a packed handle.
  bool uses_policies;     // Variables have one class, each with a policy.
  bool follows_chief;     // Variables start from rank 0's values.
  bool is_v1;             // True for V1: no gather, no values from functions.
  ls_fiber_pool *fibers;  // Stacks for replicas' callbacks.
  ls_cross_device *cross_device;  // NULL: none.
  // The cores of a TPU system on which replicas are: tpu/pod/system_id.h. NULL:
  // none.
  const struct ls_strategy_cores *cores;
  ls_flag prefetch;
  ls_mutex lock;  // Guards the idle replica contexts.
  ls_replica *idle_replicas;
};

// A replica as its callback sees it. Callbacks may keep the pointer: it stays
// valid until the strategy is freed. `runs` is true while the replica's
// callback is running.
struct ls_replica {
  ls_strategy *strategy;
  int32_t id, count;
  bool runs;
  // In replica 0: the next idle contexts. The contexts of the other replicas
  // follow replica 0's in memory.
  struct ls_replica *next_idle;
  // The replica's fiber; NULL: no other replica runs.
  struct ls_replica_task *task;
  // A device name in a context that stands for all replicas, whose ids are
  // known only at run time. NULL: the id is known.
  const char *device_of_all;
  // In a merge call in such a context: the id of the first op that the merge
  // function makes, and the depth of its graph.
  uint64_t first_merged;
  int merged_depth;
  bool is_alone;    // True if replica 0 is called on behalf of all replicas.
  ls_graph *graph;  // Graph of its trace; NULL: eager mode or a build graph.
  // Array or tensor with one row per example of this replica. A number of
  // examples set by the step takes precedence.
  ls_nest examples;  // Borrowed; none: not known.
  // True if replicas may have different numbers of examples.
  bool examples_differ;
  ls_tensor given_examples;
};

// Tells other ranks about a failed run on the replicas, because otherwise they
// would wait for this rank. Does nothing if the others fail, too.
void ls_strategy_tell_ranks(const ls_strategy *strategy, ls_status status);

// Returns the communicator over whose ranks the replicas are spread; NULL: this
// process has all of them.
struct ls_communicator *ls_strategy_communicator(const ls_strategy *strategy);
// Finds the replicas of this process: from `*out_first` up to `*out_end`.
void ls_strategy_own_replicas(const ls_strategy *strategy, size_t *out_first,
                              size_t *out_end);

// Takes the contexts of all replicas for one run. ls_replicas_give gives them
// back.
ls_status ls_replicas_take(ls_strategy *strategy, ls_replica **out_replicas);
// NULL is allowed.
void ls_replicas_give(ls_strategy *strategy, ls_replica *replicas);

// Gives the strategy a new unique id.
void ls_strategy_renew_id(ls_strategy *strategy);
// Notes that the strategy's replicas run in a graph; not in an eager graph.
void ls_strategy_note_graph(ls_strategy *strategy, ls_graph *graph);
// Fails with FAILED_PRECONDITION if the strategy names no devices; `noun` is
// what it lacks without them.
ls_status ls_strategy_check_devices(const ls_strategy *strategy,
                                    const char *noun);
// Fails with UNIMPLEMENTED if the strategy has no call named `noun`.
ls_status ls_strategy_check_has(const ls_strategy *strategy, const char *noun);
// Makes the label after the devices are set; `name` is the user's name for the
// strategy, or NULL.
ls_status ls_strategy_set_label(ls_strategy *strategy, const char *name);
// Returns the canonical devices, one per replica (NULL: no devices). The second
// function returns the device of a replica ("": none).
const char *const *ls_strategy_devices(const ls_strategy *strategy);
const char *ls_strategy_device(const ls_strategy *strategy, int32_t replica);
// Returns the device of a replica in a column. The second function uses the
// thread's current column: 0, except in a scope that pushed a column of this
// strategy.
const char *ls_strategy_column_device(const ls_strategy *strategy,
                                      int32_t column, int32_t replica);
const char *ls_strategy_device_here(const ls_strategy *strategy,
                                    int32_t replica);
// Pushes a column, for an open scope that has no entry yet.
void ls_column_push(ls_scope *scope, const ls_strategy *strategy,
                    int32_t column);
// Returns the replica whose device has this canonical name, or -1.
int32_t ls_strategy_device_index(const ls_strategy *strategy,
                                 const char *device);

// Traces `function` for all replicas into `graph`, as one replicate op.
ls_status ls_replicas_trace(ls_strategy *strategy, ls_graph *graph,
                            const ls_function_options *function, ls_nest args,
                            ls_nest *out_result);
// Calls a plain callback on every replica, in the thread's current graph.
ls_status ls_replicas_call(ls_strategy *strategy, ls_callback callback,
                           ls_nest args, void *user, ls_nest *results);

// ---- Scopes ----------------------------------------------------------------
// Data of this layer in a context (graph/context.h): the scopes of strategies
// and variables.
typedef struct ls_distribute_scoped {
  // The strategies and replicas that the thread has entered, innermost first:
  // context/context.h.
  const struct ls_distribution *distribution;
  // Columns of strategies' devices that were pushed, innermost first.
  const struct ls_column_entry *columns;
  // Strategies whose losses are scaled, innermost first.
  const struct ls_loss_scaling *loss_scaling;
  struct ls_summary_writer *summary_writer;  // NULL: none.
  // True if replicas read the aggregate of all components of variables that are
  // synchronized on read.
  bool sync_on_read;
} ls_distribute_scoped;

static inline ls_distribute_scoped *
ls_distribute_scoped_in(ls_scope_state *state) {
  return LS_CONTEXT_ROOM(ls_distribute_scoped, state, distribute);
}
static inline ls_distribute_scoped *
ls_distribute_scoped_of(ls_context *context) {
  return ls_distribute_scoped_in(&context->scoped);
}
static inline ls_distribute_scoped *ls_distribute_scoped_here(void) {
  return ls_distribute_scoped_of(ls_context_current());
}

#endif  // LS_DISTRIBUTE_BASE_STRATEGY_H_
