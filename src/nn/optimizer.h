// SPDX-License-Identifier: Apache-2.0
// Optimizers, private part. optimizer.c and apply.c have the common code, and a
// rule moves one variable.
#ifndef LS_NN_OPTIMIZER_H_
#define LS_NN_OPTIMIZER_H_

#include "base/memory/allocator.h"
#include "base/memory/map.h"
#include "lockstep/object.h"
#include "lockstep/optimizers.h"
#include "lockstep/variable.h"
#include "nn/shares.h"

enum { LS_MAX_SLOTS = 3, LS_MAX_STEP_SCALARS = 2 };

// Scalars shared by all variables of one step, f64.
typedef struct ls_step_scalars {
  bool rate_changes;
  ls_tensor rate;  // Set if it changes, or if the rule counts steps.
  ls_tensor own[LS_MAX_STEP_SCALARS];  // The rule's own.
} ls_step_scalars;

// An update of one variable.
typedef struct ls_update {
  const ls_optimizer *optimizer;
  const ls_step_scalars *scalars;
  ls_variable *variable;
  ls_variable *const *slots;
  ls_tensor w;         // Current value of the variable.
  ls_tensor gradient;  // The same on all replicas, after clipping.
  ls_op *ops;          // Assignment of the variable, then of the slots.
} ls_update;

typedef struct ls_optimizer_rule {
  const char *name;  // Default name of the optimizer.
  bool counts;       // Needs the number of steps, with any schedule.
  bool own_decay;    // `update` applies weight decay itself.
  size_t num_slots;
  const char *slot_names[LS_MAX_SLOTS];
  // Makes the rule's own scalars. `t` is the number of this step from 1 on, an
  // f64 scalar. May be NULL.
  void (*begin)(const ls_optimizer *optimizer, ls_tensor t,
                ls_step_scalars *scalars);
  // Adds the ops that update one variable: one ls_update_slot for each slot,
  // and one ls_update_move.
  void (*update)(const ls_update *update);
} ls_optimizer_rule;

struct ls_optimizer {
  ls_object object;
  ls_allocator *allocator;
  char *name_text;  // Storage of `name`.
  LS_OPTIMIZER_FIELDS;
  ls_optimizer_rule rule;
  // Slots of each variable: the rule's, and with several calls per step the sum
  // of the gradients.
  size_t num_slots;
  ls_map slots;        // Variable id -> ls_variable *[num_slots].
  ls_variable *step;   // Number of steps done, i64; NULL until needed.
  ls_variable *calls;  // Calls since the last step, i64; NULL until needed.
  // Number of examples of these calls, and of the first call that had any: f64.
  ls_variable *examples, *first_examples;
  // Parameters of the rules.
  double momentum, beta1, beta2, epsilon, initial;
  bool nesterov, centered, no_momentum;
  // For a cross-shard optimizer: the inner optimizer, which uses all of the
  // above but `over_replicas`; and the groups, all replicas without members.
  ls_optimizer *inner;
  ls_replica_groups groups;
  bool one_group;  // The groups are one, of ids 0 to its size - 1.
};

// Creates an optimizer from options that begin with LS_OPTIMIZER_FIELDS (NULL:
// all zero); the caller sets the rule's parameters.
LS_MUST_USE ls_status ls_optimizer_make(const ls_optimizer_rule *rule,
                                        const void *options,
                                        double learning_rate,
                                        ls_optimizer **out_optimizer);
// Checks that a number is in [0, limit); otherwise INVALID_ARGUMENT with its
// name.
LS_MUST_USE ls_status ls_optimizer_check(const char *kind, const char *what,
                                         double value, double limit);
LS_MUST_USE ls_status ls_schedule_check(const char *kind,
                                        const ls_schedule *schedule);

// Returns the slots of a variable, made at its first update; NULL if there are
// none.
LS_MUST_USE ls_status ls_optimizer_slots(ls_optimizer *optimizer,
                                         ls_variable *variable,
                                         ls_variable ***out_slots);
// Returns the part of a slot that belongs to a component of its variable.
ls_variable *ls_slot_component(ls_variable *slot, const ls_variable *component);
// Makes the counters of steps, calls and examples, unless they exist or nothing
// depends on them.
LS_MUST_USE ls_status ls_optimizer_count_steps(ls_optimizer *optimizer);
// Makes the scalars of a step, and the counter of steps.
LS_MUST_USE ls_status ls_optimizer_begin_step(ls_optimizer *optimizer,
                                              ls_step_scalars *scalars);
// Makes the error for variables of which none has a gradient.
LS_MUST_USE ls_status ls_optimizer_no_gradients(ls_variable *const *variables,
                                                size_t count);
// Checks that a gradient, a tensor or array, fits the variable. All are checked
// before the first update.
LS_MUST_USE ls_status ls_optimizer_check_gradient(const ls_variable *variable,
                                                  ls_nest gradient);
// Returns the loss to differentiate, scaled if the optimizer treats gradients
// like the loss, and notes that in the graph.
ls_tensor ls_optimizer_scale_loss(const ls_optimizer *optimizer,
                                  ls_tensor loss);
// ls_optimizer_meets returns true if replicas that run op by op must merge for
// one step of all; the other function makes that step.
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
// Returns an op that runs after all of them; in eager mode, where all have run,
// the first failed one or the last.
ls_op ls_join_ops(const ls_op *ops, size_t count, const char *name);
// Refuses eager mode, and losses that are not float scalars.
LS_MUST_USE ls_status ls_optimizer_check_loss(ls_tensor loss);
LS_MUST_USE ls_status ls_optimizer_nothing_to_train(ls_tensor loss);

// Updates one variable: reads `w`, applies weight decay, and calls the rule.
void ls_update_make(ls_update *update);

// ---- Helpers of rules ------------------------------------------------------
// Returns x times a scalar of the step, in x's type.
ls_tensor ls_update_scale(ls_tensor x, ls_tensor scalar);
// Returns x times the learning rate.
ls_tensor ls_update_rate(const ls_update *update, ls_tensor x);
// Returns true if weight decay applies to the variable.
bool ls_update_decays(const ls_update *update);
// Returns weight_decay w.
ls_tensor ls_update_decay(const ls_update *update);
// Returns decay x + (1 - decay) y.
ls_tensor ls_update_mix(double decay, ls_tensor x, ls_tensor y);
ls_tensor ls_update_read(const ls_update *update, size_t slot);
void ls_update_slot(const ls_update *update, size_t slot, ls_tensor value);
// Sets the variable to w - delta.
void ls_update_move(const ls_update *update, ls_tensor delta);

// ---- Rows ------------------------------------------------------------------
// The rows of a variable that have a gradient, without duplicate indices,
// except -1 for unused entries; and the gradient, [rows, ...].
typedef struct ls_update_rows {
  ls_tensor indices, gradient;
} ls_update_rows;
// Returns true if the gradient is of a few rows out of many. A rule that does
// not change rows with gradient 0 may then update only these rows.
bool ls_update_find_rows(ls_tensor gradient, ls_update_rows *out_rows);
ls_tensor ls_update_read_rows(const ls_update *update, size_t slot,
                              const ls_update_rows *rows);
void ls_update_slot_rows(const ls_update *update, size_t slot,
                         const ls_update_rows *rows, ls_tensor values);
void ls_update_move_rows(const ls_update *update, const ls_update_rows *rows,
                         ls_tensor delta);
// Computes the gradient of the whole batch from this replica's. Slices are
// concatenated over replicas, if these have equal parts.
ls_tensor ls_gradient_of_all(const ls_optimizer *optimizer,
                             const ls_shares *shares, ls_tensor gradient);

// ---- Across shards ---------------------------------------------------------
// Returns true if gradients go through cross_replica_sum here. Replicas that
// run op by op merge as without a cross-shard optimizer.
bool ls_cross_shard_sums(const ls_optimizer *optimizer);
// Refuses unsupported contexts. Without shards logs that and opens a scope of
// one shard, which the caller ends.
LS_MUST_USE ls_status ls_cross_shard_begin(const ls_optimizer *optimizer,
                                           ls_scope *scope);
// Finds this replica's share in its group's batch.
LS_MUST_USE ls_status ls_cross_shard_find(const ls_optimizer *optimizer,
                                          ls_shares *out_shares);
// Returns the number of examples of all replicas, regardless of groups: see
// ls_shares_examples.
ls_tensor ls_cross_shard_examples(void);
// Reduces the group's gradients.
LS_MUST_USE ls_status ls_cross_shard_reduce(const ls_optimizer *optimizer,
                                            const ls_shares *shares,
                                            ls_tensor *gradient);

// ---- Over several calls ----------------------------------------------------
// Returns true if several calls make one step.
bool ls_optimizer_holds(const ls_optimizer *optimizer);
// Weights of one call, f64 scalars, made before its gradients are added. The
// unit is the first call's gradient: a call with twice its examples counts
// twice, and equal numbers need no scaling.
typedef struct ls_held_call {
  ls_tensor weight;           // Weight of its gradients; 0: none.
  ls_tensor total;            // Weight of all calls, including this one.
  ls_tensor examples, first;  // New values of the variables.
} ls_held_call;
// Begins a call. `examples`: of all replicas in this call, an f64 scalar.
LS_MUST_USE ls_status ls_hold_begin(ls_optimizer *optimizer, ls_tensor examples,
                                    ls_held_call *out_call);
// Counts the examples of all replicas in a call, an f64 scalar; 1 if that is
// not known, or if the loss has its own weights (LS_GRADIENTS_LIKE_LOSS).
ls_tensor ls_optimizer_examples(const ls_optimizer *optimizer,
                                const ls_shares *shares);
// Adds a gradient to the sum in a variable's slots; returns the new sum.
ls_tensor ls_hold_gradient(const ls_optimizer *optimizer,
                           const ls_held_call *call, ls_variable *const *slots,
                           ls_tensor gradient);
// Returns the mean over the calls in `dtype`; `share` (f64) is 1 / their total
// weight.
ls_tensor ls_held_mean(ls_tensor sum, ls_tensor share, ls_dtype dtype);
// Resets the sum to zero.
ls_op ls_hold_nothing(const ls_optimizer *optimizer, ls_variable *const *slots);
// Call after all of this call's gradients were added: takes the step if it is
// due. `*out_op` runs after that.
typedef ls_status (*ls_held_step)(void *user, ls_tensor share);
LS_MUST_USE ls_status ls_optimizer_step_if_due(ls_optimizer *optimizer,
                                               const ls_held_call *call,
                                               ls_held_step step, void *user,
                                               ls_op *out_op);

// ---- Clipping --------------------------------------------------------------
// Clips a gradient by its own limits `value` and `norm`.
ls_tensor ls_clip_one(const ls_clip *clip, ls_tensor gradient);
// Clips all gradients by the limit `global_norm`, in place.
void ls_clip_all(const ls_clip *clip, ls_tensor *gradients, size_t count,
                 ls_tensor *squares);

// ---- reads.c ----------------------------------------------------------------
// Reads: which variables a value depends on.

// Finds the trainable variables read to compute `value`, in its graph, in
// enclosing graphs and in regions, in order of creation. The caller frees the
// array with ls_release; the variables are borrowed.
LS_MUST_USE ls_status ls_reads_find(ls_allocator *allocator, ls_tensor value,
                                    ls_variable ***out_variables,
                                    size_t *out_count);

#endif  // LS_NN_OPTIMIZER_H_
