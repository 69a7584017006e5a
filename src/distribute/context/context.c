// SPDX-License-Identifier: Apache-2.0
#include "distribute/context/context.h"

#include "base/memory/own.h"
#include "base/require.h"
#include "base/threads/thread_state.h"
#include "graph/flow.h"
#include "lockstep/strategy_extended.h"

// ---- Current entry ---------------------------------------------------------
const ls_distribution *ls_distribution_current(void) {
  const ls_distribution *entry = ls_distribute_scoped_here()->distribution;
  while (entry != NULL && !ls_context_is_inside(entry->graph))
    entry = entry->outer;
  return entry;
}

void ls_distribution_push(ls_context *context, ls_distribution *entry) {
  entry->outer = ls_distribute_scoped_of(context)->distribution;
  entry->graph = ls_context_graph();
  ls_distribute_scoped_of(context)->distribution = entry;
}

static bool is_default(const ls_strategy *strategy) {
  return strategy->kind->is_default;
}

ls_strategy *ls_strategy_current(void) {
  const ls_distribution *entry = ls_distribution_current();
  if (entry != NULL) return entry->strategy;
  ls_runtime *runtime = ls_runtime_current();
  return runtime == NULL ? NULL : ls_default_strategy(runtime);
}

bool ls_has_strategy(void) {
  const ls_distribution *entry = ls_distribution_current();
  return entry != NULL && !is_default(entry->strategy);
}

bool ls_in_cross_replica_context(void) {
  const ls_distribution *entry = ls_distribution_current();
  return entry != NULL && entry->replica == NULL;
}

// Data of this layer per thread.
typedef struct thread_part {
  ls_replica alone;  // Replica 0 of 1, for a thread outside strategies.
  // The strategy made current without a scope, while no strategy was entered.
  struct set_entry *set;
} thread_part;

static thread_part *this_thread(void) {
  return LS_THREAD_PART(thread_part, distribute);
}

ls_replica *ls_replica_context(void) {
  const ls_distribution *entry = ls_distribution_current();
  if (entry != NULL) return entry->replica;
  ls_replica *alone = &this_thread()->alone;
  *alone =
      (ls_replica){.strategy = ls_strategy_current(), .count = 1, .runs = true};
  return alone;
}

ls_opt ls_update_replica_id(void) {
  const ls_distribution *entry = ls_distribution_current();
  return entry != NULL && entry->is_update ? LS_SOME(entry->update_id)
                                           : (ls_opt){0};
}

const char *ls_update_device(void) {
  const ls_distribution *entry = ls_distribution_current();
  return entry != NULL && entry->is_update ? entry->update_device : "";
}

int32_t ls_num_replicas(void) {
  const ls_distribution *entry = ls_distribution_current();
  return entry == NULL || entry->replica == NULL ? 1 : entry->replica->count;
}

int32_t ls_replica_number(void) {
  const ls_distribution *entry = ls_distribution_current();
  if (entry == NULL) return 0;
  return entry->replica == NULL || entry->replica->device_of_all != NULL
             ? -1
             : entry->replica->id;
}

// ---- Errors ----------------------------------------------------------------
ls_status ls_mixing_error(const ls_strategy *current,
                          const ls_strategy *required) {
  return ls_failed_precondition(
      "inside %s, but this is for %s: strategies cannot be mixed",
      current->label, required->label);
}

ls_status ls_cross_replica_error(const ls_strategy *strategy,
                                 const char *noun) {
  return ls_failed_precondition(
      "%s needs the cross-replica context of %s, but a replica of it is "
      "running; use merge_call (ls_replica_merge_call) to get there",
      noun, strategy->label);
}

// ---- Enter -----------------------------------------------------------------
// The scope of a strategy: makes it current, and makes variables by its rules.
typedef struct strategy_entry {
  ls_distribution distribution;
  ls_creator_entry creator;
} strategy_entry;

// Creates a variable by the rules of the strategy's kind, if the strategy is
// current.
static ls_status create_variable(const ls_creator *next,
                                 const ls_variable_options *options, void *user,
                                 ls_variable **out_variable) {
  ls_strategy *strategy = user;
  const ls_strategy *current = ls_strategy_current();
  *out_variable = NULL;
  if (current == NULL) return ls_out_of_memory();
  if (current != strategy) return ls_mixing_error(current, strategy);
  if (options->skip_mirrored) {
    ls_variable_options plain = *options;
    plain.skip_mirrored = false;
    return ls_creator_create(next, &plain, out_variable);
  }
  return strategy->kind->create_variable(strategy, next, options, out_variable);
}

static void push_creator(strategy_entry *entry, ls_strategy *strategy) {
  ls_creator_entry_push(
      &entry->creator,
      (ls_creator_entry){.create = create_variable,
                         .user = strategy,
                         .is_strategy = !is_default(strategy)});
}

static void leave_strategy(const ls_distribution *entry) {
  const ls_strategy_class *kind = entry->strategy->kind;
  if (kind->leave != NULL) kind->leave(entry->strategy);
}

static void left_scope(ls_scope_state *inside) {
  const ls_distribution *entry = ls_distribute_scoped_in(inside)->distribution;
  if (entry != NULL) leave_strategy(entry);
}

static const ls_scope_type strategy_scope = {.name = "a strategy's scope",
                                             .left = left_scope};

static void open_strategy(ls_scope *scope, ls_strategy *strategy) {
  const char *device = ls_context_current()->scoped.device;
  if (strategy->default_device != NULL && ls_graph_current() != NULL) {
    const ls_status status = ls_graph_merge_device(
        ls_graph_current(), device, strategy->default_device, &device);
    if (!ls_status_is_ok(status)) {
      ls_context_refuse(scope, status);
      return;
    }
  }
  ls_context *context = ls_context_open(scope, &strategy_scope);
  strategy_entry *entry = LS_SCOPE_ENTRY(strategy_entry, scope);
  entry->distribution = (ls_distribution){.strategy = strategy};
  ls_distribution_push(context, &entry->distribution);
  push_creator(entry, strategy);
  context->scoped.device = device;
}

static ls_status check_enter(const ls_strategy *strategy) {
  const ls_distribution *entry = ls_distribution_current();
  if (entry == NULL) return ls_ok();
  if (is_default(strategy))
    return is_default(entry->strategy)
               ? ls_ok()
               : ls_failed_precondition("the scope of the default strategy "
                                        "must not nest in that of %s",
                                        entry->strategy->label);
  if (entry->strategy == strategy)
    return entry->replica == NULL
               ? ls_ok()
               : ls_cross_replica_error(strategy, "entering its scope");
  return is_default(entry->strategy)
             ? ls_ok()
             : ls_mixing_error(entry->strategy, strategy);
}

void ls_strategy_scope_begin(ls_scope *scope, ls_strategy *strategy) {
  const ls_status status = strategy == NULL
                               ? ls_invalid_argument("the strategy is NULL")
                               : check_enter(strategy);
  if (!ls_status_is_ok(status)) {
    ls_context_refuse(scope, status);
    return;
  }
  const ls_distribution *entry = ls_distribution_current();
  if (entry != NULL && entry->strategy == strategy)
    // The strategy is current already.
    ls_context_open(scope, &strategy_scope);
  else
    open_strategy(scope, strategy);
}

ls_status ls_strategy_scope_end(ls_scope *scope) {
  LS_REQUIRE(scope);
  const ls_open_scope *top = ls_context_current()->top;
  const ls_open_scope *opened = ls_scope_opened(scope);
  if (opened->type != NULL && top != opened)
    return ls_failed_precondition(
        "%s that was opened inside of the strategy's scope is still open",
        top == NULL ? "nothing" : top->type->name);
  ls_scope_end(scope);
  return ls_ok();
}

static ls_status enter_cross_replica(ls_scope *scope, ls_strategy *strategy,
                                     const char *noun) {
  const ls_context *context = ls_context_current();
  if (context->refused != NULL) return ls_status_clone(context->refusal);
  if (strategy == NULL) return ls_invalid_argument("the strategy is NULL");
  const ls_distribution *entry = ls_distribution_current();
  if (entry == NULL || is_default(entry->strategy)) {
    if (entry != NULL && entry->strategy == strategy) return ls_ok();
    open_strategy(scope, strategy);
    return ls_scope_status();
  }
  if (entry->strategy != strategy)
    return ls_mixing_error(entry->strategy, strategy);
  return entry->replica == NULL ? ls_ok()
                                : ls_cross_replica_error(strategy, noun);
}

ls_status ls_cross_replica_begin(ls_crossing *crossing, ls_strategy *strategy,
                                 const char *noun) {
  crossing->scope = (ls_scope){0};
  LS_RETURN_IF_ERROR(enter_cross_replica(&crossing->scope, strategy, noun));
  ls_trial_begin(&crossing->trial);
  return ls_ok();
}

ls_status ls_cross_replica_end(ls_crossing *crossing, ls_status status,
                               ls_nest *out_value) {
  ls_scope_end(&crossing->scope);
  return ls_trial_end_with(&crossing->trial, status, out_value);
}

void ls_update_begin(ls_scope *scope, ls_strategy *strategy, int32_t id,
                     const char *device) {
  ls_context *context = ls_context_open(scope, &strategy_scope);
  ls_distribution *entry = LS_SCOPE_ENTRY(ls_distribution, scope);
  *entry = (ls_distribution){.strategy = strategy,
                             .update_device = device,
                             .update_id = id,
                             .is_update = true};
  ls_distribution_push(context, entry);
}

// ---- Put in force without a scope ------------------------------------------
typedef struct set_entry {
  strategy_entry in_force;
  // Innermost scope when the strategy was made current.
  const ls_open_scope *top;
  ls_allocator *allocator;
} set_entry;

static void drop_set(ls_context *context) {
  set_entry *set = this_thread()->set;
  if (set == NULL) return;
  // If the entries differ, the strategy was left together with an enclosing
  // scope.
  if (ls_distribute_scoped_of(context)->distribution ==
      &set->in_force.distribution) {
    ls_distribute_scoped_of(context)->distribution = NULL;
    context->scoped.creators = set->in_force.creator.outer;
  }
  leave_strategy(&set->in_force.distribution);
  ls_strategy_release(set->in_force.distribution.strategy);
  ls_release(set->allocator, set);
  this_thread()->set = NULL;
}

// Leaves a strategy that was made current without a scope, when its thread
// ends.
static void leave_set(void) { drop_set(ls_context_current()); }

ls_status ls_strategy_set_current(ls_strategy *strategy) {
  ls_context *context = ls_context_current();
  const ls_distribution *entry = ls_distribute_scoped_of(context)->distribution;
  if (entry != NULL && !entry->by_set)
    return ls_failed_precondition(
        "%s cannot be put in force inside of the scope of %s",
        strategy == NULL ? "the default strategy" : strategy->label,
        entry->strategy->label);
  // A scope restores the strategy that was current when the scope was opened.
  if (entry != NULL && context->top != this_thread()->set->top)
    return ls_failed_precondition("%s cannot be left: a scope that was opened "
                                  "after it was put in force is still open",
                                  entry->strategy->label);
  if (strategy == NULL || is_default(strategy)) {
    drop_set(context);
    return ls_ok();
  }
  LS_NEW_OR_RETURN(strategy->allocator, set_entry, made);
  if (!ls_thread_at_end(LS_THREAD_DISTRIBUTE, leave_set)) {
    ls_release(strategy->allocator, made);
    return ls_out_of_memory();
  }
  drop_set(context);
  made->allocator = strategy->allocator;
  made->top = context->top;
  made->in_force.distribution = (ls_distribution){
      .strategy = ls_strategy_retain(strategy), .by_set = true};
  this_thread()->set = made;
  ls_distribution_push(context, &made->in_force.distribution);
  push_creator(&made->in_force, strategy);
  return ls_ok();
}

// ---- Replica contexts ------------------------------------------------------
ls_status ls_replica_check(const ls_replica *replica, const char *noun) {
  const ls_context *context = ls_context_current();
  if (context->refused != NULL) return ls_status_clone(context->refusal);
  if (replica == NULL)
    return ls_failed_precondition(
        "%s needs a replica context, there is none here: use "
        "call_for_each_replica (ls_strategy_call_for_each_replica)",
        noun);
  if (!replica->runs && replica->strategy == NULL)
    return ls_failed_precondition("%s: the strategy of replica %d that this "
                                  "context was lent for has gone",
                                  noun, replica->id);
  if (!replica->runs)
    return ls_failed_precondition(
        "%s: the run of replica %d of %s that this context was lent for has "
        "ended; take the current one (ls_replica_context)",
        noun, replica->id, replica->strategy->label);
  const ls_replica *current = ls_replica_context();
  if (current == replica) return ls_ok();
  const ls_strategy *strategy = ls_strategy_current();
  if (strategy != replica->strategy)
    return ls_mixing_error(strategy, replica->strategy);
  if (current == NULL)
    return ls_failed_precondition(
        "%s needs a replica context, this is the cross-replica context of %s: "
        "use call_for_each_replica (ls_strategy_call_for_each_replica)",
        noun, strategy->label);
  return ls_failed_precondition("%s: mismatching replica context: it is that "
                                "of replica %d, replica %d is running",
                                noun, replica->id, current->id);
}

bool ls_replica_has_no_others(const ls_replica *replica) {
  return replica->is_alone && ls_flow_replicated() == NULL;
}

ls_status ls_replica_check_others(const ls_replica *replica, const char *noun) {
  if (!ls_replica_has_no_others(replica) || replica->count == 1) return ls_ok();
  return ls_failed_precondition("%s of %d replicas where one is called for "
                                "all: it is for a run (ls_strategy_run)",
                                noun, replica->count);
}

ls_status ls_replica_device(const ls_replica *replica,
                            const char **out_device) {
  LS_REQUIRE_OUT(out_device);
  LS_RETURN_IF_ERROR(ls_replica_check(replica, "the device of a replica"));
  *out_device = replica->device_of_all != NULL
                    ? replica->device_of_all
                    : ls_strategy_device_here(replica->strategy, replica->id);
  return ls_ok();
}

ls_status ls_replica_id_in_sync_group(const ls_replica *replica,
                                      ls_tensor *out_id) {
  LS_REQUIRE_OUT(out_id);
  LS_RETURN_IF_ERROR(ls_replica_check(replica, "the id of a replica"));
  *out_id = replica->is_alone ? ls_scalar_i64(LS_DTYPE_I32, replica->id)
                              : ls_replica_id();
  return ls_ok();
}

ls_status ls_replica_is_single(const ls_replica *replica, bool *out_is_single) {
  LS_REQUIRE_OUT(out_is_single);
  LS_RETURN_IF_ERROR(ls_replica_check(replica, "is_single_replica"));
  *out_is_single = replica->count == 1;
  return ls_ok();
}

// ---- Loss reduction --------------------------------------------------------
// How losses are reduced over replicas: what an estimator demands of a
// strategy, and what the losses in a graph were.

// A scope of scaled losses, on the C stack of the code that opened it.
struct ls_loss_scaling {
  const struct ls_loss_scaling *outer;
  const ls_strategy *strategy;
};

static const ls_scope_type scale_loss_scope = {.name =
                                                   "a scope of scaled losses"};

void ls_scale_loss_scope_begin(ls_scope *scope, ls_strategy *strategy) {
  if (strategy == NULL) {
    ls_context_refuse(scope, ls_invalid_argument("the strategy is NULL"));
    return;
  }
  ls_context *context = ls_context_open(scope, &scale_loss_scope);
  struct ls_loss_scaling *entry = LS_SCOPE_ENTRY(struct ls_loss_scaling, scope);
  *entry = (struct ls_loss_scaling){
      ls_distribute_scoped_of(context)->loss_scaling, strategy};
  ls_distribute_scoped_of(context)->loss_scaling = entry;
}

static bool scales_loss(const ls_strategy *strategy) {
  const struct ls_loss_scaling *entry =
      ls_distribute_scoped_here()->loss_scaling;
  while (entry != NULL && entry->strategy != strategy)
    entry = entry->outer;
  return entry != NULL;
}

ls_reduce_op ls_loss_reduction(void) {
  if (!scales_loss(ls_strategy_current())) return LS_REDUCE_SUM;
  const char *last = ls_graph_loss_reduction(ls_graph_current());
  const bool sum =
      strcmp(last, "weighted_sum") == 0 || strcmp(last, "sum") == 0;
  return sum ? LS_REDUCE_SUM : LS_REDUCE_MEAN;
}
