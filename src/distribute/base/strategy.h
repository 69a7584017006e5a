// SPDX-License-Identifier: Apache-2.0
//
// Strategies inside.
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
  const ls_strategy_class *kind;  // Says what it does.
  // Never that of another one, even of one that is gone; a new one when a table
  // of the user's comes or goes, which traces have been made with.
  uint64_t id;
  char *label;         // For messages.
  char *scope_prefix;  // Of the name scopes of replicas; NULL: "replica".
  int32_t num_replicas;
  // Canonical; NULL: none. Behind accessors. One a replica, and then as many
  // for each further column: where replicas have several devices each.
  char **devices;
  int32_t num_columns;
  const char *no_cpu;     // The first device that is none; NULL: all are.
  char *default_device;   // Ops get it in the scope. NULL: none.
  bool packs_variables;   // Those made in eager get a packed handle.
  bool uses_policies;     // Variables are of one class, with a policy each.
  bool is_v1;             // Has no gather and no values from functions.
  ls_fiber_pool *fibers;  // Stacks for replicas' callbacks.
  ls_cross_device *cross_device;  // NULL: none.
  // Where replicas are on cores of a TPU system: tpu/pod/system_id.h. NULL:
  // elsewhere.
  const struct ls_strategy_cores *cores;
  ls_flag prefetch;
  ls_mutex lock;  // Guards the contexts of replicas that do not run.
  ls_replica *idle_replicas;
};

// A replica, as its callback sees it. Callbacks keep what they were lent: it
// stays until the strategy goes, and says when nothing of it runs.
struct ls_replica {
  ls_strategy *strategy;
  int32_t id, count;
  bool runs;
  struct ls_replica *next_idle;  // Of replica 0, whom the others lie behind.
  struct ls_replica_task *task;  // Its fiber; NULL: it is the only one.
  // It stands for all, whose ids are known when they run: where each says that
  // it is. NULL: its id is known.
  const char *device_of_all;
  bool is_alone;    // Called once, as replica 0, where the others are not.
  ls_graph *graph;  // Its trace; NULL: eager or a built graph.
  // An array or tensor of which this one's examples are dimension 0. What the
  // step has given goes before.
  ls_nest examples;      // Lent; none: not known.
  bool examples_differ;  // Other replicas may have other numbers.
  ls_tensor given_examples;
};

// Reports a failure of a run on the replicas, so that other ranks, which would
// wait for this one, fail too. Does nothing where they fail by themselves.
void ls_strategy_tell_ranks(const ls_strategy *strategy, ls_status status);

// Contexts of all replicas for one run, and back.
ls_status ls_replicas_take(ls_strategy *strategy, ls_replica **out_replicas);
void ls_replicas_give(ls_strategy *strategy, ls_replica *replicas);  // Or NULL.
// Frees them, with the strategy.
void ls_replicas_free(ls_strategy *strategy);

// Gives it an id that no strategy has had.
void ls_strategy_renew_id(ls_strategy *strategy);
// FAILED_PRECONDITION if it names no devices, so that it has no `noun`.
ls_status ls_strategy_check_devices(const ls_strategy *strategy,
                                    const char *noun);
// UNIMPLEMENTED if it has no such call, whose name is `noun`.
ls_status ls_strategy_check_has(const ls_strategy *strategy, const char *noun);
// Makes the label; `name` is the user's, NULL: none. Its devices are known.
ls_status ls_strategy_set_label(ls_strategy *strategy, const char *name);
// The canonical devices, one a replica; NULL: it has none. And that of one,
// then "".
const char *const *ls_strategy_devices(const ls_strategy *strategy);
const char *ls_strategy_device(const ls_strategy *strategy, int32_t replica);
// Returns the device of a replica in a column, and in the column of the thread:
// column 0 except in a scope that has pushed one of this strategy's.
const char *ls_strategy_column_device(const ls_strategy *strategy,
                                      int32_t column, int32_t replica);
const char *ls_strategy_device_here(const ls_strategy *strategy,
                                    int32_t replica);
// In a scope that is open and has no entry of its own yet.
void ls_column_push(ls_scope *scope, const ls_strategy *strategy,
                    int32_t column);
// The replica that has the device with this canonical name, or -1.
int32_t ls_strategy_device_index(const ls_strategy *strategy,
                                 const char *device);

// Traces `function` for every replica into `graph`, as one replicate op.
ls_status ls_replicas_trace(ls_strategy *strategy, ls_graph *graph,
                            const ls_function_options *function, ls_nest args,
                            ls_nest *out_result);
// Runs a plain callback on every replica where the thread is.
ls_status ls_replicas_call(ls_strategy *strategy, ls_callback callback,
                           ls_nest args, void *user, ls_nest *results);

// ---- Scopes ----------------------------------------------------------------
// This layer's room in a context (graph/context.h): scopes of strategies and
// variables.
typedef struct ls_distribute_scoped {
  // Strategies and replicas entered, innermost first: context/context.h.
  const struct ls_distribution *distribution;
  // Columns of strategies' devices.
  const struct ls_column_entry *columns;
  // Strategies whose losses are scaled.
  const struct ls_loss_scaling *loss_scaling;
  struct ls_summary_writer *summary_writer;  // NULL: none.
  bool sync_on_read;  // Replicas use such variables as the value of all.
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
