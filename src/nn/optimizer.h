// SPDX-License-Identifier: Apache-2.0
// Optimizers, inside: what is common is in optimizer.c and apply.c, and a rule
// says how one variable moves.
#ifndef LS_NN_OPTIMIZER_H_
#define LS_NN_OPTIMIZER_H_

#include "base/memory/allocator.h"
#include "base/memory/map.h"
#include "lockstep/object.h"
#include "lockstep/optimizers.h"
#include "lockstep/variable.h"
#include "nn/shares.h"

enum { LS_MAX_SLOTS = 3, LS_MAX_STEP_SCALARS = 2 };

// Shared by all variables of one step: f64 scalars.
typedef struct ls_step_scalars {
  bool rate_changes;
  ls_tensor rate;  // Where it changes, or the rule counts steps.
  ls_tensor own[LS_MAX_STEP_SCALARS];  // The rule's.
} ls_step_scalars;

// A move of one variable.
typedef struct ls_update {
  const ls_optimizer *optimizer;
  const ls_step_scalars *scalars;
  ls_variable *variable;
  ls_variable *const *slots;
  ls_tensor w;         // The variable's value.
  ls_tensor gradient;  // The same on all replicas; clipped.
  ls_op *ops;          // The variable's assignment, then the slots'.
} ls_update;

typedef struct ls_optimizer_rule {
  const char *name;  // Of the optimizer unless it is given one.
  bool counts;       // Needs the number of steps, whatever the schedule.
  bool own_decay;    // `update` sees to weight decay.
  size_t num_slots;
  const char *slot_names[LS_MAX_SLOTS];
  // Makes the rule's own scalars. `t` is the number of this step from 1, an f64
  // scalar. NULL: none.
  void (*begin)(const ls_optimizer *optimizer, ls_tensor t,
                ls_step_scalars *scalars);
  // Adds the ops that move one variable: one ls_update_slot for each slot and
  // one ls_update_move.
  void (*update)(const ls_update *update);
} ls_optimizer_rule;

struct ls_optimizer {
  ls_object object;
  ls_allocator *allocator;
  char *name_text;  // What `name` points to.
  LS_OPTIMIZER_FIELDS;
  ls_optimizer_rule rule;
  // Slots of each variable: those of the rule, then, where several calls make a
  // step, the sum of their gradients.
  size_t num_slots;
  ls_map slots;        // Id of a variable -> its ls_variable *[num_slots].
  ls_variable *step;   // Steps done, i64; NULL until it is needed.
  ls_variable *calls;  // Since the last step, i64; the same.
  // Examples of these calls, and of the first of them that had any: f64.
  ls_variable *examples, *first_examples;
  // Numbers of the rules.
  double momentum, beta1, beta2, epsilon, initial;
  bool nesterov, centered, no_momentum;
  // For a cross-shard one: the optimizer that it is around, which has all of
  // the above but `over_replicas`, and its groups; without members one of all.
  ls_optimizer *inner;
  ls_replica_groups groups;
  bool one_group;  // They are one, of 0 to its size less 1.
};

// Creates an optimizer from options that begin with LS_OPTIMIZER_FIELDS (NULL:
// all zero); the numbers of its rule are still to be set.
LS_MUST_USE ls_status ls_optimizer_make(const ls_optimizer_rule *rule,
                                        const void *options,
                                        double learning_rate,
                                        ls_optimizer **out_optimizer);
// INVALID_ARGUMENT naming the number unless it lies in [0, limit).
LS_MUST_USE ls_status ls_optimizer_check(const char *kind, const char *what,
                                         double value, double limit);
LS_MUST_USE ls_status ls_schedule_check(const char *kind,
                                        const ls_schedule *schedule);

// The slots of a variable, made when it is first moved; NULL without any.
LS_MUST_USE ls_status ls_optimizer_slots(ls_optimizer *optimizer,
                                         ls_variable *variable,
                                         ls_variable ***out_slots);
// Returns what belongs to a component of the slot's variable.
ls_variable *ls_slot_component(ls_variable *slot, const ls_variable *component);
// Makes the numbers of steps, calls and examples unless they are there or
// nothing depends on them.
LS_MUST_USE ls_status ls_optimizer_count_steps(ls_optimizer *optimizer);
// Makes what the updates of one step share, and the number of steps.
LS_MUST_USE ls_status ls_optimizer_begin_step(ls_optimizer *optimizer,
                                              ls_step_scalars *scalars);
// Names those of which none has a gradient.
LS_MUST_USE ls_status ls_optimizer_no_gradients(ls_variable *const *variables,
                                                size_t count);
// Checks that a gradient, a tensor or array, can move the variable: all are
// looked at before the first moves.
LS_MUST_USE ls_status ls_optimizer_check_gradient(const ls_variable *variable,
                                                  ls_nest gradient);
// The loss to differentiate, scaled where the optimizer is like the loss; marks
// the graph.
ls_tensor ls_optimizer_scale_loss(const ls_optimizer *optimizer,
                                  ls_tensor loss);
// Returns true if replicas that run op by op meet for one step of all, and that
// step.
bool ls_optimizer_meets(ls_variable *const *variables, size_t count);
LS_MUST_USE ls_status ls_optimizer_apply_met(ls_optimizer *optimizer,
                                             ls_variable *const *variables,
                                             const ls_tensor *gradients,
                                             size_t count, ls_op *out_op);
// The gradients of `loss` with respect to the variables.
LS_MUST_USE ls_status ls_optimizer_gradients(const ls_optimizer *optimizer,
                                             ls_tensor loss,
                                             ls_variable *const *variables,
                                             size_t count, ls_nest *gradients);
bool ls_schedule_changes(const ls_schedule *schedule);
// One op that runs after all of them: in eager, where all have run, the first
// that failed or the last.
ls_op ls_join_ops(const ls_op *ops, size_t count, const char *name);
// Refuses eager and what is no float scalar.
LS_MUST_USE ls_status ls_optimizer_check_loss(ls_tensor loss);
LS_MUST_USE ls_status ls_optimizer_nothing_to_train(ls_tensor loss);

// Moves one variable: reads `w`, sees to weight decay and asks the rule.
void ls_update_make(ls_update *update);

// ---- For rules -------------------------------------------------------------
// x times a scalar of the step, in x's type.
ls_tensor ls_update_scale(ls_tensor x, ls_tensor scalar);
// x times the learning rate.
ls_tensor ls_update_rate(const ls_update *update, ls_tensor x);
// Returns true if weight decay moves the variable.
bool ls_update_decays(const ls_update *update);
// weight_decay w
ls_tensor ls_update_decay(const ls_update *update);
// decay x + (1 - decay) y
ls_tensor ls_update_mix(double decay, ls_tensor x, ls_tensor y);
ls_tensor ls_update_read(const ls_update *update, size_t slot);
void ls_update_slot(const ls_update *update, size_t slot, ls_tensor value);
// w - delta
void ls_update_move(const ls_update *update, ls_tensor delta);

// ---- Rows ------------------------------------------------------------------
// The rows of a variable that have a gradient, no index twice but -1, which is
// no row; and the gradient, [rows, ...].
typedef struct ls_update_rows {
  ls_tensor indices, gradient;
} ls_update_rows;
// Returns true if the gradient is that of some rows of many. Then a rule that
// leaves a row alone whose gradient is 0 may move those rows alone.
bool ls_update_find_rows(ls_tensor gradient, ls_update_rows *out_rows);
ls_tensor ls_update_read_rows(const ls_update *update, size_t slot,
                              const ls_update_rows *rows);
void ls_update_slot_rows(const ls_update *update, size_t slot,
                         const ls_update_rows *rows, ls_tensor values);
void ls_update_move_rows(const ls_update *update, const ls_update_rows *rows,
                         ls_tensor delta);
// The gradient of the whole batch from that of this replica's part. Rows are
// put one behind the other, replica by replica, where all parts are alike.
ls_tensor ls_gradient_of_all(const ls_optimizer *optimizer,
                             const ls_shares *shares, ls_tensor gradient);

// ---- Across shards ---------------------------------------------------------
// Returns true if gradients go through cross_replica_sum here: replicas that
// run op by op meet as they do without it.
bool ls_cross_shard_sums(const ls_optimizer *optimizer);
// Refuses what it cannot do here; says so where there are no shards, and then
// opens a scope of one. The scope is the caller's to end.
LS_MUST_USE ls_status ls_cross_shard_begin(const ls_optimizer *optimizer,
                                           ls_scope *scope);
// This replica's share in the batch of its group.
LS_MUST_USE ls_status ls_cross_shard_find(const ls_optimizer *optimizer,
                                          ls_shares *out_shares);
// Examples of all replicas, whatever the groups: see ls_shares_examples.
ls_tensor ls_cross_shard_examples(void);
// Reduces the group's gradients.
LS_MUST_USE ls_status ls_cross_shard_reduce(const ls_optimizer *optimizer,
                                            const ls_shares *shares,
                                            ls_tensor *gradient);

// ---- Over several calls ----------------------------------------------------
// Returns true if several calls make one step.
bool ls_optimizer_holds(const ls_optimizer *optimizer);
// Sums are in units of the first call's gradients: those of a call with twice
// its examples count twice, and where all calls have as many nothing is scaled.
// The weights of one call, f64 scalars; made before its gradients are held.
typedef struct ls_held_call {
  ls_tensor weight;           // Of its gradients, in that unit; 0: none.
  ls_tensor total;            // Weight of all calls, with this one.
  ls_tensor examples, first;  // What the variables are from here on.
} ls_held_call;
// `examples`: of all replicas in this call, an f64 scalar.
LS_MUST_USE ls_status ls_hold_begin(ls_optimizer *optimizer, ls_tensor examples,
                                    ls_held_call *out_call);
// Counts the examples of a call in a step of several, an f64 scalar made here:
// those of all replicas; 1 where that is not known, or where the loss has its
// own weights (LS_GRADIENTS_LIKE_LOSS).
ls_tensor ls_optimizer_examples(const ls_optimizer *optimizer,
                                const ls_shares *shares);
// Adds a gradient to the sum that a variable's slots hold; gives the new one.
ls_tensor ls_hold_gradient(const ls_optimizer *optimizer,
                           const ls_held_call *call, ls_variable *const *slots,
                           ls_tensor gradient);
// The mean over the calls, of which a unit has this share (f64), in `dtype`.
ls_tensor ls_held_mean(ls_tensor sum, ls_tensor share, ls_dtype dtype);
// Holds nothing from here on.
ls_op ls_hold_nothing(const ls_optimizer *optimizer, ls_variable *const *slots);
// When all of this call's gradients are held: takes the step if it is the call
// for it. `*out_op` runs after that.
typedef ls_status (*ls_held_step)(void *user, ls_tensor share);
LS_MUST_USE ls_status ls_optimizer_step_if_due(ls_optimizer *optimizer,
                                               const ls_held_call *call,
                                               ls_held_step step, void *user,
                                               ls_op *out_op);

// ---- Clipping --------------------------------------------------------------
// The gradient within the limits of its own: `value` and `norm`.
ls_tensor ls_clip_one(const ls_clip *clip, ls_tensor gradient);
// All within the limit `global_norm`, in place.
void ls_clip_all(const ls_clip *clip, ls_tensor *gradients, size_t count,
                 ls_tensor *squares);

// ---- reads.c ----------------------------------------------------------------
// Reads: which variables a value depends on.

// The trainable variables that are read on the way to `value`, in its graph,
// in graphs around it and in regions, in the order in which they were made.
// The caller gives the array back with ls_release; the variables are lent.
LS_MUST_USE ls_status ls_reads_find(ls_allocator *allocator, ls_tensor value,
                                    ls_variable ***out_variables,
                                    size_t *out_count);

#endif  // LS_NN_OPTIMIZER_H_
