// SPDX-License-Identifier: Apache-2.0
// Layer: nn
//
// Slots and rates of optimizers, averages of weights, and the optimizer over
// shards.
//
// Threads: as in lockstep/optimizers.h.
#ifndef LOCKSTEP_OPTIMIZER_STATE_H_
#define LOCKSTEP_OPTIMIZER_STATE_H_

#include "lockstep/optimizers.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Optimizers ------------------------------------------------------------
// The name of kind `index`, NULL behind the last one. Static.
LS_API const char *ls_optimizer_kind(size_t index);

// Options of an optimizer around another. Zero in a field means its default.
typedef struct ls_cross_shard_options {
  ls_optimizer *optimizer;  // What it is around; required, retained.
  ls_gradients_over_replicas reduction;  // The mean, which is default, or sum.
  const ls_replica_groups *groups;       // Lent. Default: one of all replicas.
} ls_cross_shard_options;
// For replicated computations without a strategy, where an optimizer alone
// leaves each replica its own gradient: each gradient goes through one
// ls_cross_replica_sum beside the op that made it, and, for the mean, is
// multiplied by 1 / the number of replicas in a group; the loss is never
// scaled. Where replicas have given numbers of examples (LS_EXAMPLES_SCOPE,
// ls_replica_examples) they count by these. What comes out moves the variables
// by the optimizer inside, which has the slots and names them: the bits are
// those that it makes on a mirrored strategy. In a strategy's replicas it takes
// the place of what the optimizer inside does there. Where there is no shard
// (ls_num_shards, ls_num_replicas) there is one, and a line in the log says so.
//
// Groups are looked at where gradients are applied: LS_INVALID_ARGUMENT unless
// each replica is in one. What several groups make differs between them, so it
// moves variables of which each replica has its own. Replicas that run op by op
// have one group of all, or LS_UNIMPLEMENTED. Across replicas
// (ls_optimizer_apply_across) it is refused.
//   LS_INVALID_ARGUMENT  another reduction; around another such optimizer, or
//                        one whose own `over_replicas` is not the default.
LS_API LS_MUST_USE ls_status ls_cross_shard_create(
    const ls_cross_shard_options *options, ls_optimizer **out_optimizer);

// Return what it was made with: its rate, and how that changes.
LS_API double ls_optimizer_learning_rate(const ls_optimizer *optimizer);
LS_API ls_schedule ls_optimizer_schedule(const ls_optimizer *optimizer);

// ---- Steps -----------------------------------------------------------------
// In the cross-replica context of a mirrored strategy, as in a merge function:
// one step for all replicas. `gradients[i]` has a component for each of them,
// or is one value for all; a none leaves `variables[i]` alone. One batch-reduce
// of the strategy's cross-device ops brings what they make together to the
// variables' devices; then each component of each variable moves on its device,
// in the scope "update_<replica>/update_<name of the component>", with the
// slots beside it. After all updates the number of steps and, if given, every
// component of `global_step` are one more; a call that only adds to what is
// accumulated counts nothing. `*out_op` runs after all that; in a build graph
// it joins the collection LS_COLLECTION_TRAIN_OP.
//
// Replicas that run op by op and apply gradients to distributed variables make
// this step once all have come.
//   LS_FAILED_PRECONDITION  in another context.
//   LS_INVALID_ARGUMENT     no gradient (lists the variables), or a variable
//                           that is not distributed.
//   LS_UNIMPLEMENTED        a gradient that is no tensor; a variable that is
//                           not on all devices of the strategy.
LS_API LS_MUST_USE ls_status ls_optimizer_apply_across(
    ls_optimizer *optimizer, ls_variable *const *variables,
    const ls_nest *gradients, size_t count, ls_variable *global_step,
    ls_op *out_op);

// Makes the slots of these variables, and the number of steps, which are else
// made when they are first needed, just as their first use would: for who wants
// to restore them. Outside of steps.
LS_API LS_MUST_USE ls_status ls_optimizer_prepare(ls_optimizer *optimizer,
                                                  ls_variable *const *variables,
                                                  size_t count);
// The slot of that name of a variable, lent; of a component the slot's on that
// device.
//   LS_NOT_FOUND  there is none, or it was not needed yet.
LS_API LS_MUST_USE ls_status ls_optimizer_slot(const ls_optimizer *optimizer,
                                               const ls_variable *variable,
                                               const char *name,
                                               ls_variable **out_slot);
// Lists what there is to save, lent: the numbers of steps and calls, then
// slots, variable by variable in the order in which they were made. Writes up
// to `capacity`, returns their number.
LS_API size_t ls_optimizer_variables(const ls_optimizer *optimizer,
                                     ls_variable **variables, size_t capacity);

// ---- Averages of weights ---------------------------------------------------
// The exponential moving average of variables over steps: for evaluation, where
// it is often better than the last values. The average after update t is that
// of the values seen, value k with a weight in proportion to decay^(t - k): it
// starts at the first value, not at 0.
typedef struct ls_average ls_average;

// Options of an average. Zero in a field means its default.
typedef struct ls_average_options {
  const char *name;               // Default "average".
  ls_variable *const *variables;  // Required; retained.
  size_t count;
  double decay;  // Default 0.999.
} ls_average_options;
// Creates variables "<variable>/<name>", and the number of updates as
// "<name>/step". The caller owns it.
//   LS_INVALID_ARGUMENT  no variables, or a decay outside of (0, 1).
LS_API LS_MUST_USE ls_status
ls_average_create(const ls_average_options *options, ls_average **out_average);
LS_API void ls_average_destroy(ls_average *average);  // NULL is fine.
// Takes the variables' values at this point in: after a step's updates. In a
// session the op is to be fetched.
//   average' = average + (1 - decay) / (1 - decay^t) (w - average)
LS_PLACED ls_op ls_average_update(ls_average *average);
// Exchanges variables and averages: once before an evaluation, and once more
// behind it.
LS_PLACED ls_op ls_average_swap(ls_average *average);
// Lists what there is to save, lent; as ls_optimizer_variables.
LS_API size_t ls_average_variables(const ls_average *average,
                                   ls_variable **variables, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_OPTIMIZER_STATE_H_
