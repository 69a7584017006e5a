// SPDX-License-Identifier: Apache-2.0
// Optimizers, private part. optimizer.c and apply.c have the common code; a
// rule updates one variable.
#ifndef LS_NN_OPTIMIZER_H_
#define LS_NN_OPTIMIZER_H_

#include "base/memory/allocator.h"
#include "base/memory/map.h"
#include "lockstep/object.h"
#include "lockstep/optimizers.h"
#include "lockstep/variable.h"
#include "nn/shares.h"

enum { LS_MAX_STEP_SCALARS = 2 };

// Scalars shared by all variables of one step, f64.
typedef struct ls_step_scalars {
  bool rate_changes;
  ls_tensor rate;    // Set if it changes, or if the rule counts steps.
  ls_tensor number;  // Number of this step, from 1; set if the rule counts.
  ls_tensor own[LS_MAX_STEP_SCALARS];  // Scalars of the rule.
} ls_step_scalars;

// The update of one variable.
struct ls_update {
  const ls_optimizer *optimizer;
  const ls_step_scalars *scalars;
  ls_variable *variable;
  ls_variable *const *slots;
  // The rows that move, if these are few: distinct indices, -1 for entries that
  // are not used. All values below are [rows, ...] then.
  bool has_rows;
  ls_tensor rows;
  // In a lazy update of all rows: a bool for each row, true if it moves.
  bool is_masked;
  ls_tensor mask;
  ls_tensor w;         // Current value of the variable; set if needed.
  ls_tensor gradient;  // The same on all replicas, and clipped.
  ls_op *ops;          // Assignments of the variable, then of its slots.
  ls_tensor failed;    // The first wrong call of the rule, if there is one.
};

// Makes the scalars of a rule, from the number of the step.
typedef void (*ls_step_begin)(const ls_optimizer *optimizer, ls_tensor number,
                              ls_step_scalars *scalars);

struct ls_optimizer {
  ls_object object;
  ls_allocator *allocator;
  char *name_text;  // Storage of `name`.
  LS_OPTIMIZER_FIELDS;
  ls_optimizer_rule rule;  // Owns the names of slots.
  size_t rule_slots;       // Number of the rule's slots.
  void *user;              // The user's; of the rules here the optimizer.
  ls_step_begin begin;     // NULL: the rule has no scalars.
  // Number of slots of each variable: those of the rule, and with several calls
  // per step a sum of gradients.
  size_t num_slots;
  ls_map slots;  // Variable id -> ls_variable *[num_slots].
  ls_map kept;   // Variable id -> the variable that holds its last gradient.
  ls_variable *step;   // Number of steps done, i64; NULL until needed.
  ls_variable *calls;  // Calls since the last step, i64; NULL until needed.
  // Numbers of examples, f64: of the calls since the last step, and of the
  // first of these calls that had any.
  ls_variable *examples, *first_examples;
  // Parameters of the rules.
  double momentum, beta1, beta2, epsilon;
  bool nesterov, centered, no_momentum;
  // In a cross-shard optimizer: the inner optimizer, which uses all fields
  // above except `over_replicas`, and the groups of replicas; without members
  // all replicas.
  ls_optimizer *inner;
  ls_replica_groups groups;
  bool one_group;  // True: a single group, of ids 0 to its size - 1.
};

// Creates an optimizer from options that begin with LS_OPTIMIZER_FIELDS (NULL:
// all zero); the caller sets the rule's parameters.
LS_MUST_USE ls_status ls_optimizer_make(const ls_optimizer_rule *rule,
                                        const void *options,
                                        ls_optimizer **out_optimizer);
// Checks that a number is in [0, limit); else fails with INVALID_ARGUMENT, and
// names the number.
LS_MUST_USE ls_status ls_optimizer_check(const char *kind, const char *what,
                                         double value, double limit);

// Returns the slots of a variable, which are made at its first update; NULL if
// the rule has none.
LS_MUST_USE ls_status ls_optimizer_slots(ls_optimizer *optimizer,
                                         ls_variable *variable,
                                         ls_variable ***out_slots);
// Returns the component of a slot that belongs to a component of the slot's
// variable.
ls_variable *ls_slot_component(ls_variable *slot, const ls_variable *component);
// Makes the counters of steps, calls and examples, unless they exist or nothing
// depends on them.
LS_MUST_USE ls_status ls_optimizer_count_steps(ls_optimizer *optimizer);
// Makes the scalars of a step, and the counter of steps.
LS_MUST_USE ls_status ls_optimizer_begin_step(ls_optimizer *optimizer,
                                              ls_step_scalars *scalars);
// Makes the error for a step in which no variable has a gradient.
LS_MUST_USE ls_status ls_optimizer_no_gradients(ls_variable *const *variables,
                                                size_t count);
// Checks that a gradient, a tensor or array, fits its variable. All gradients
// are checked before the first update.
LS_MUST_USE ls_status ls_optimizer_check_gradient(const ls_variable *variable,
                                                  ls_nest gradient);
// Returns true if replicas that run op by op must make a merge call for one
// step of all. ls_optimizer_apply_met makes that step.
bool ls_optimizer_meets(ls_variable *const *variables, size_t count);
LS_MUST_USE ls_status ls_optimizer_apply_met(ls_optimizer *optimizer,
                                             ls_variable *const *variables,
                                             const ls_tensor *gradients,
                                             size_t count, ls_op *out_op);
// Computes the gradients of `loss` with respect to the variables.
LS_MUST_USE ls_status ls_optimizer_gradients(const ls_optimizer *optimizer,
                                             ls_tensor loss,
                                             ls_variable *const *variables,
                                             size_t count, ls_nest *gradients);
bool ls_schedule_changes(const ls_schedule *schedule);
// Returns an op that runs after all of `ops`. In eager mode, where all have
// run, returns the first failed op, or the last op.
ls_op ls_join_ops(const ls_op *ops, size_t count, const char *name);
// Refuses eager mode, and losses that are not float scalars.
LS_MUST_USE ls_status ls_optimizer_check_loss(ls_tensor loss);
LS_MUST_USE ls_status ls_optimizer_nothing_to_train(ls_tensor loss);

// Updates one variable: finds its rows, reads `w`, applies weight decay, and
// calls the rule.
void ls_update_make(ls_update *update);

// ---- Helpers of rules ------------------------------------------------------
// Returns a number as scalars of a step are: of f64.
static inline ls_tensor ls_step_number(double value) {
  return ls_scalar(LS_DTYPE_F64, value);
}
// Returns x in the type in which it is computed with: f32 for 16-bit floats.
ls_tensor ls_widened(ls_tensor x);
// Returns x times a scalar of the step, in the type of x.
ls_tensor ls_update_scale(ls_tensor x, ls_tensor scalar);
// Returns decay times x + (1 - decay) times y.
ls_tensor ls_update_mix(double decay, ls_tensor x, ls_tensor y);

// ---- Rows ------------------------------------------------------------------
// Returns true if a gradient is of a few rows out of many, with their distinct
// indices (-1 for entries that are not used) and gradients, [rows, ...].
bool ls_find_rows(ls_tensor gradient, ls_tensor *out_rows,
                  ls_tensor *out_gradient);
// Returns a bool for each row of a gradient, of shape [rows, 1, ...]: true if
// an element is not 0.
ls_tensor ls_rows_with_gradient(ls_tensor gradient);
// Computes the gradient of the whole batch from the gradients of the replicas'
// parts. Slices are concatenated over replicas, if the replicas have equal
// parts.
ls_tensor ls_gradient_of_all(const ls_optimizer *optimizer,
                             const ls_shares *shares, ls_tensor gradient);

// ---- Across shards ---------------------------------------------------------
// Returns true if gradients go through cross_replica_sum here. Where replicas
// run op by op, they are merged as without a cross-shard optimizer.
bool ls_cross_shard_sums(const ls_optimizer *optimizer);
// Refuses contexts that are not supported. Where there are no shards, logs that
// and opens a scope of one shard, which the caller ends.
LS_MUST_USE ls_status ls_cross_shard_begin(const ls_optimizer *optimizer,
                                           ls_scope *scope);
// Finds this replica's share of the batch of its group.
LS_MUST_USE ls_status ls_cross_shard_find(const ls_optimizer *optimizer,
                                          ls_shares *out_shares);
// Returns the number of examples of all replicas, in all groups: see
// ls_shares_examples.
ls_tensor ls_cross_shard_examples(void);
// Reduces gradients over the replica's group.
LS_MUST_USE ls_status ls_cross_shard_reduce(const ls_optimizer *optimizer,
                                            const ls_shares *shares,
                                            ls_tensor *gradient);

// ---- Over several calls ----------------------------------------------------
// Returns true if several calls make one step, so that gradients are held.
bool ls_optimizer_holds(const ls_optimizer *optimizer);
// The weights of one call, f64 scalars, made before its gradients are added.
// The first call has weight 1: a call with twice as many examples has weight 2,
// and with equal numbers no gradient is scaled.
typedef struct ls_held_call {
  ls_tensor weight;  // Weight of its gradients; 0: no examples.
  ls_tensor total;   // Weight of all calls so far, with this one.
  // New values of the variables `examples`, `first_examples`.
  ls_tensor examples, first;
} ls_held_call;
// Begins a call. `examples`, an f64 scalar, is the number of examples of all
// replicas in this call.
LS_MUST_USE ls_status ls_hold_begin(ls_optimizer *optimizer, ls_tensor examples,
                                    ls_held_call *out_call);
// Counts the examples of all replicas in a call, as an f64 scalar. It is 1 if
// the number is not known, or if the loss has weights of its own
// (LS_GRADIENTS_LIKE_LOSS).
ls_tensor ls_optimizer_examples(const ls_optimizer *optimizer,
                                const ls_shares *shares);
// Adds a gradient to the sum in a variable's slots; returns the sum.
ls_tensor ls_hold_gradient(const ls_optimizer *optimizer,
                           const ls_held_call *call, ls_variable *const *slots,
                           ls_tensor gradient);
// Returns the mean of the held gradients in `dtype`: `sum` times `share`, an
// f64 scalar, which is 1 / the calls' total weight.
ls_tensor ls_held_mean(ls_tensor sum, ls_tensor share, ls_dtype dtype);
// Resets the sum of held gradients to zero.
ls_op ls_hold_nothing(const ls_optimizer *optimizer, ls_variable *const *slots);
// Takes the step if it is due; called after all gradients of the call were
// added. `*out_op` runs after the step.
typedef ls_status (*ls_held_step)(void *user, ls_tensor share);
LS_MUST_USE ls_status ls_optimizer_step_if_due(ls_optimizer *optimizer,
                                               const ls_held_call *call,
                                               ls_held_step step, void *user,
                                               ls_op *out_op);

// ---- Clipping --------------------------------------------------------------
// Clips a gradient by its limits `value` and `norm`.
ls_tensor ls_clip_one(const ls_clip *clip, ls_tensor gradient);
// Clips all gradients by the limit `global_norm`, in place.
void ls_clip_all(const ls_clip *clip, ls_tensor *gradients, size_t count,
                 ls_tensor *squares);

// ---- reads.c ----------------------------------------------------------------
// Finds the variables on which a value depends.

// Finds the trainable variables read to compute `value`, in its graph, in
// enclosing graphs and in regions, in order of creation. The caller frees the
// array with ls_release; the variables are borrowed.
LS_MUST_USE ls_status ls_reads_find(ls_allocator *allocator, ls_tensor value,
                                    ls_variable ***out_variables,
                                    size_t *out_count);

#endif  // LS_NN_OPTIMIZER_H_
