// SPDX-License-Identifier: Apache-2.0
// Layer: nn
//
// Slots and rates of optimizers, averages of weights, and the cross-shard
// optimizer.
//
// Threads: as in lockstep/optimizers.h.
#ifndef LOCKSTEP_OPTIMIZER_STATE_H_
#define LOCKSTEP_OPTIMIZER_STATE_H_

#include "lockstep/optimizers.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Optimizers ------------------------------------------------------------
// Returns the name of kind `index`, NULL after the last one. Static.
LS_API const char *ls_optimizer_kind(size_t index);

// Options of an optimizer that wraps another. Zero in a field means its
// default.
typedef struct ls_cross_shard_options {
  ls_optimizer *optimizer;  // The wrapped optimizer; required, retained.
  ls_gradients_over_replicas reduction;  // LS_GRADIENTS_MEAN (default) or SUM.
  const ls_replica_groups *groups;  // Lent. Default: one group of all replicas.
} ls_cross_shard_options;
// Creates an optimizer for replicated computations without a strategy, where
// another optimizer would use each replica's own gradient: each gradient goes
// through one ls_cross_replica_sum next to the op that made it, and, for the
// mean, is multiplied by 1 / the number of replicas in a group; the loss is
// never scaled. If replicas have set numbers of examples (LS_EXAMPLES_SCOPE,
// ls_replica_examples) they are weighted by these. The wrapped optimizer, which
// has the slots and names them, applies the result: the bits equal those of
// that optimizer on a mirrored strategy. In a strategy's replicas it replaces
// the wrapped optimizer's own reduction. Without shards (ls_num_shards,
// ls_num_replicas) there is one, and a line in the log says so.
//
// Groups are checked when gradients are applied: LS_INVALID_ARGUMENT unless
// each replica is in exactly one. Results differ between groups, so several
// groups need variables of which each replica has its own. Replicas that run op
// by op support only one group of all, otherwise LS_UNIMPLEMENTED. Across
// replicas (ls_optimizer_apply_across) it is refused.
//   LS_INVALID_ARGUMENT  another reduction; the wrapped optimizer is such an
//                        optimizer too, or its own `over_replicas` is not the
//                        default.
LS_API LS_MUST_USE ls_status ls_cross_shard_create(
    const ls_cross_shard_options *options, ls_optimizer **out_optimizer);

// Return the options it was created with: its rate, and its schedule.
LS_API double ls_optimizer_learning_rate(const ls_optimizer *optimizer);
LS_API ls_schedule ls_optimizer_schedule(const ls_optimizer *optimizer);

// ---- Steps -----------------------------------------------------------------
// Makes one step for all replicas, in the cross-replica context of a mirrored
// strategy, as in a merge function. `gradients[i]` has a component for each
// replica, or is one value for all; a none leaves `variables[i]` unchanged. One
// batch-reduce of the strategy's cross-device ops reduces them to the
// variables' devices; then each component of each variable is updated on its
// device, in the scope "update_<replica>/update_<name of the component>", with
// its slots there. After all updates the number of steps and, if given, every
// component of `global_step` are incremented; a call that only accumulates
// increments neither. `*out_op` runs after all that; in a build graph it is
// added to the collection LS_COLLECTION_TRAIN_OP.
//
// Replicas that run op by op and apply gradients make this step once all of
// them have called; they may move variables that are not distributed, too,
// once.
//   LS_FAILED_PRECONDITION  in another context.
//   LS_INVALID_ARGUMENT     no gradient (lists the variables), or a variable
//                           that is not distributed.
//   LS_UNIMPLEMENTED        a gradient that is no tensor; a variable that is
//                           not on all devices of the strategy.
LS_API LS_MUST_USE ls_status ls_optimizer_apply_across(
    ls_optimizer *optimizer, ls_variable *const *variables,
    const ls_nest *gradients, size_t count, ls_variable *global_step,
    ls_op *out_op);

// Creates the slots of these variables and the step counter, which are
// otherwise created when first needed, exactly as their first use would: call
// it to restore them. Outside of steps.
LS_API LS_MUST_USE ls_status ls_optimizer_prepare(ls_optimizer *optimizer,
                                                  ls_variable *const *variables,
                                                  size_t count);
// Lets every step that is traced from now on also store the gradients by which
// it moves these variables: of all replicas, clipped, the mean of an
// accumulation, before weight decay. Outside of steps.
LS_API LS_MUST_USE ls_status ls_optimizer_keep_gradients(
    ls_optimizer *optimizer, ls_variable *const *variables, size_t count);
// Gets the variable that holds the gradient, lent.
//   LS_NOT_FOUND  it is not kept.
LS_API LS_MUST_USE ls_status ls_optimizer_kept_gradient(
    const ls_optimizer *optimizer, const ls_variable *variable,
    ls_variable **out_gradient);
// Gets the slot of that name of a variable, lent; for a component the slot's
// component on that device.
//   LS_NOT_FOUND  there is none, or it was not created yet.
LS_API LS_MUST_USE ls_status ls_optimizer_slot(const ls_optimizer *optimizer,
                                               const ls_variable *variable,
                                               const char *name,
                                               ls_variable **out_slot);
// Lists the variables to save, lent: the numbers of steps and calls, then
// slots, variable by variable in the order of creation. Writes up to
// `capacity`, returns their number. Warns if none has been created yet.
LS_API size_t ls_optimizer_variables(const ls_optimizer *optimizer,
                                     ls_variable **variables, size_t capacity);

// ---- Averages of weights ---------------------------------------------------
// Exponential moving average of variables over steps: for evaluation, where it
// is often better than the last values. The average after update t is a
// weighted mean of the values seen, with a weight in proportion to decay^(t -
// k) for value k: it starts at the first value, not at 0. It is f32 for 16-bit
// variables, as slots are.
typedef struct ls_average ls_average;

// Options of an average. Zero in a field means its default.
typedef struct ls_average_options {
  const char *name;               // Default "average".
  ls_variable *const *variables;  // Required; retained.
  size_t count;
  double decay;  // Default 0.999.
} ls_average_options;
// Creates variables "<variable>/<name>", and the number of updates as
// "<name>/step"; for 16-bit variables also "<variable>/<name>_rest", the digits
// of an average that a swapped variable cannot hold. The caller owns the
// average.
//   LS_INVALID_ARGUMENT  no variables, one that is not of floats, or a decay
//                        outside (0, 1).
LS_API LS_MUST_USE ls_status
ls_average_create(const ls_average_options *options, ls_average **out_average);
LS_API void ls_average_destroy(ls_average *average);  // NULL is fine.
// Adds the variables' current values: call it after a step's updates. In a
// session the op must be fetched. Replicas that run op by op all make this call
// and ls_average_swap, in their callbacks themselves.
//   average' = average + (1 - decay) / (1 - decay^t) (w - average)
LS_PLACED ls_op ls_average_update(ls_average *average);
// Exchanges variables and averages: once before an evaluation, and once more
// after it.
LS_PLACED ls_op ls_average_swap(ls_average *average);
// Lists the variables to save, lent; as ls_optimizer_variables.
LS_API size_t ls_average_variables(const ls_average *average,
                                   ls_variable **variables, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_OPTIMIZER_STATE_H_
