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
#include "lockstep/device_name.h"
#include "lockstep/regroup.h"
#include "lockstep/summary.h"
#include "runtime/function.h"

struct ls_strategy {
  ls_object object;
  ls_allocator *allocator;
  ls_runtime *runtime;
  const ls_strategy_class *kind;  // Table of its functions.
  // Unique, also among freed strategies. It changes when the user's
  // cross-device table changes, because traces depend on that.
  uint64_t id;
  char *label;         // For messages.
  char *scope_prefix;  // Prefix of replicas' name scopes; NULL: "replica".
  int32_t num_replicas;
  // Canonical; NULL: none. Read through accessors. One device per replica, and
  // as many again for each further column, if replicas have several devices
  // each.
  char **devices;
  int32_t num_columns;
  const char *no_cpu;     // First device that is not a CPU, or NULL.
  char *default_device;   // Device of ops in its scope; NULL: none.
  bool packs_variables;   // Variables made in eager mode get a packed handle.
  bool uses_policies;     // Variables have one class, each with a policy.
  bool is_v1;             // Has no gather, and no values from functions.
  ls_fiber_pool *fibers;  // Stacks for replicas' callbacks.
  ls_cross_device *cross_device;  // NULL: none.
  // Cores of a TPU system that replicas are on: tpu/pod/system_id.h. NULL:
  // none.
  const struct ls_strategy_cores *cores;
  ls_flag prefetch;
  ls_mutex lock;  // Guards the idle replica contexts.
  ls_replica *idle_replicas;
};

// A replica as its callback sees it. Callbacks may keep the pointer: it stays
// valid until the strategy is freed, and `runs` tells if its callback is
// running.
struct ls_replica {
  ls_strategy *strategy;
  int32_t id, count;
  bool runs;
  // Set in replica 0; the others follow it in memory.
  struct ls_replica *next_idle;
  struct ls_replica_task *task;  // Its fiber; NULL: there is only this replica.
  // Device name for a context that stands for all replicas, whose ids are known
  // at run time. NULL: its id is known.
  const char *device_of_all;
  bool is_alone;    // Called once, as replica 0, where the others do not run.
  ls_graph *graph;  // Its trace; NULL: eager or a built graph.
  // Array or tensor whose dimension 0 is this replica's examples. A number
  // given by the step takes precedence.
  ls_nest examples;      // Borrowed; none: not known.
  bool examples_differ;  // Other replicas may have other numbers.
  ls_tensor given_examples;
};

// Tells other ranks about a failure of a run on the replicas, because they
// would wait for this one. Does nothing if they fail by themselves.
void ls_strategy_tell_ranks(const ls_strategy *strategy, ls_status status);

// Take the contexts of all replicas for one run, and give them back.
ls_status ls_replicas_take(ls_strategy *strategy, ls_replica **out_replicas);
// NULL is allowed.
void ls_replicas_give(ls_strategy *strategy, ls_replica *replicas);
// Frees the idle contexts together with the strategy.
void ls_replicas_free(ls_strategy *strategy);

// Gives the strategy a new unique id.
void ls_strategy_renew_id(ls_strategy *strategy);
// Fails with FAILED_PRECONDITION if the strategy names no devices, so that it
// has no `noun`.
ls_status ls_strategy_check_devices(const ls_strategy *strategy,
                                    const char *noun);
// Fails with UNIMPLEMENTED if the strategy has no call named `noun`.
ls_status ls_strategy_check_has(const ls_strategy *strategy, const char *noun);
// Makes the label after the devices are set; `name` is the user's, or NULL.
ls_status ls_strategy_set_label(ls_strategy *strategy, const char *name);
// Return the canonical devices, one per replica (NULL: none), and the device of
// a replica ("": none).
const char *const *ls_strategy_devices(const ls_strategy *strategy);
const char *ls_strategy_device(const ls_strategy *strategy, int32_t replica);
// Return the device of a replica in a column, and in the thread's current
// column: 0, except in a scope that pushed a column of this strategy.
const char *ls_strategy_column_device(const ls_strategy *strategy,
                                      int32_t column, int32_t replica);
const char *ls_strategy_device_here(const ls_strategy *strategy,
                                    int32_t replica);
// Pushes a column, in an open scope that has no entry yet.
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
// Room of this layer in a context (graph/context.h): scopes of strategies and
// variables.
typedef struct ls_distribute_scoped {
  // Entered strategies and replicas, innermost first: context/context.h.
  const struct ls_distribution *distribution;
  // Pushed columns of strategies' devices.
  const struct ls_column_entry *columns;
  // Strategies whose losses are scaled.
  const struct ls_loss_scaling *loss_scaling;
  struct ls_summary_writer *summary_writer;  // NULL: none.
  // Replicas read such variables as aggregates of all components.
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
