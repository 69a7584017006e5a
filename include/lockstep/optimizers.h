// SPDX-License-Identifier: Apache-2.0
// Layer: nn
//
// Optimizers, which update variables to reduce a loss; schedules of the
// learning rate, clipping, gradients of a batch in parts, and moving averages
// of weights.
//
// On many replicas the gradient g below is that of the whole batch: the mean of
// the replicas' gradients, added along the canonical tree. Clipping, decay and
// slots use that sum, so that they are the same as on one replica, and are
// computed once for all.
//
// Threads: an optimizer makes its slots at its first step, so it belongs to one
// thread at a time until then; afterwards its steps are ordered as writes of
// their variables are.
#ifndef LOCKSTEP_OPTIMIZERS_H_
#define LOCKSTEP_OPTIMIZERS_H_

#include "lockstep/eager.h"
#include "lockstep/flow.h"
#include "lockstep/variable.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Schedules -------------------------------------------------------------
typedef enum ls_schedule_kind {
  LS_SCHEDULE_CONSTANT,     // 1
  LS_SCHEDULE_LINEAR,       // 1 + (end - 1) p
  LS_SCHEDULE_COSINE,       // end + (1 - end) (1 + cos(pi p)) / 2
  LS_SCHEDULE_EXPONENTIAL,  // max(factor^(i / steps), end)
  LS_SCHEDULE_STEP,         // max(factor^floor(i / steps), end)
} ls_schedule_kind;

// Schedule of the learning rate: the rate of a step is the optimizer's times
// the schedule's factor. A plain value; zeroed: the rate is constant. In the
// table above i counts steps from 0 and p = min(i / steps, 1).
typedef struct ls_schedule {
  ls_schedule_kind kind;
  int64_t steps;  // Required, except for a constant.
  double end;     // Final or smallest factor. Default 0.
  double factor;  // For exponential and step. Default 0.1.
  // Number of initial steps during which the factor rises linearly: step i <
  // warmup has (i + 1) / warmup, and i then counts from its end. Default: none.
  int64_t warmup;
  // A custom factor, instead of `kind`: an f64 scalar for the number of steps
  // after the warm-up, an i64 scalar.
  ls_tensor (*custom)(ls_tensor step, void *user);
  void *user;
} ls_schedule;

// Returns the schedule's factor at `step`, an integer scalar; an f64 scalar.
LS_PLACED ls_tensor ls_schedule_factor(const ls_schedule *schedule,
                                       ls_tensor step);

// ---- Clipping --------------------------------------------------------------
// Limits of gradients. Zero: no limit. Several limits apply in this order.
typedef struct ls_clip {
  double value;  // Clamps each element to [-value, value].
  double norm;   // Multiplies each gradient by norm / max(|g|, norm).
  // Scales all gradients of a step by the norm of all of them.
  double global_norm;
} ls_clip;

// ---- Replicas --------------------------------------------------------------
// Reduction of the replicas' gradients. Those of replicas without examples are
// ignored, whatever their values.
typedef enum ls_gradients_over_replicas {
  // Gradient of the whole batch: each replica's loss is a mean over its
  // examples, and is weighted by their number (ls_replica_examples).
  LS_GRADIENTS_MEAN,
  LS_GRADIENTS_SUM,  // Sum, not scaled.
  // Sum; but while losses are scaled for an estimator (ls_loss_reduction
  // returns MEAN) the loss is first multiplied by 1 / the number of replicas,
  // and the graph records that (ls_graph_is_loss_scaled).
  LS_GRADIENTS_LIKE_LOSS,
} ls_gradients_over_replicas;

// ---- Optimizers ------------------------------------------------------------
// Reference-counted. Its slots are variables, called "<variable>/<slot>", of
// the variable's type and initially zero. Slots of 16-bit variables are f32, in
// which their steps are computed: in 16 bits an epsilon and squares of small
// gradients may be 0. The number of steps made is a variable too:
// "<name>/step", i64, created when something depends on it.
//
// With `accumulate` n, gradients of n calls make one step, for batches that are
// too large for one call: each call adds its gradients, those of the batch of
// all replicas, to a slot "gradient", and the n-th applies their mean, clipped
// and decayed as one gradient is, and clears the slots. A call is weighted by
// its examples on all replicas, so that the mean is the gradient of one batch
// with all of them: by the numbers of ls_replica_examples, or by the rows of
// the first argument that has any if all replicas have the same number or there
// is one replica, including a function without a strategy. Calls whose number
// is not known count as one example each, and so do all calls under
// LS_GRADIENTS_LIKE_LOSS, whose loss has its own weights. A call without
// examples counts nothing.
//
// The number of calls since the last step is in "<name>/calls", i64, their
// examples in "<name>/examples", and in "<name>/first_examples", f64, those of
// the first of them that had any, which is the unit of the slots. A checkpoint
// of a version that weighted calls equally has no such entries: restoring it
// reports that (LS_NOT_FOUND). Schedules, and all other counts of steps, count
// steps and not calls. The slots are as dense as their variables. Calls
// accumulated at the end of a run stay in them.
typedef struct ls_optimizer ls_optimizer;

// Fields common to the options of all optimizers. Zero in a field means its
// default; below, w is the variable, g the gradient, rate the learning rate and
// t the number of the step from 1.
//   name           Default: the kind's, such as "adam".
//   learning_rate  Default: see each. Must be above 0.
//   schedule       Default: the rate is constant.
//   clip           Default: none.
//   weight_decay   Unless stated otherwise, g + weight_decay w replaces g,
//                  after clipping. Default: none.
//   decays         Returns true if weight decay applies to a variable. Default:
//                  to all.
//   over_replicas  Default: the mean. Clipping sees its result.
//   accumulate     Calls per step, weighted by their examples. Default 1.
//   lazy           Returns true if a step moves only those rows of a variable,
//                  and of its slots, whose gradient has an element that is not
//                  0; others neither decay nor follow their momentum. For
//                  tables of embeddings: where few rows were looked up, the
//                  step costs what these rows cost. (Steps of `adagrad`, and of
//                  `sgd` without momentum, cost no more anyway, unless weights
//                  decay: they do not change other rows.) Default: false. Not
//                  for `lamb`.
//   counts         Counts steps, for ls_optimizer_step, also if nothing else
//                  depends on their number. Adam and its kind always count.
#define LS_OPTIMIZER_FIELDS                                                    \
  const char *name;                                                            \
  double learning_rate;                                                        \
  ls_schedule schedule;                                                        \
  ls_clip clip;                                                                \
  double weight_decay;                                                         \
  bool (*decays)(const ls_variable *variable);                                 \
  ls_gradients_over_replicas over_replicas;                                    \
  int64_t accumulate;                                                          \
  bool (*lazy)(const ls_variable *variable);                                   \
  bool counts

// Stochastic gradient descent: w' = w - rate g. With momentum
//   v' = momentum v + g             slot "momentum"
//   w' = w - rate v'                or, nesterov, w - rate (momentum v' + g)
typedef struct ls_sgd_options {
  LS_OPTIMIZER_FIELDS;  // Rate: default 0.01.
  double momentum;      // Default: none.
  bool nesterov;
} ls_sgd_options;
// Creates the optimizer. The caller owns a reference, here as below.
//   LS_INVALID_ARGUMENT  a number that is negative or NaN, a schedule without
//                        steps, or nesterov without momentum.
LS_API LS_MUST_USE ls_status ls_sgd_create(const ls_sgd_options *options,
                                           ls_optimizer **out_optimizer);

// Adam (Kingma and Ba, 2015).
//   m' = beta1 m + (1 - beta1) g                           slot "m"
//   v' = beta2 v + (1 - beta2) g^2                         slot "v"
//   u  = m' / (1 - beta1^t) / (sqrt(v' / (1 - beta2^t)) + epsilon)
//   w' = w - rate u
typedef struct ls_adam_options {
  LS_OPTIMIZER_FIELDS;  // Rate: default 0.001.
  double beta1;         // Default 0.9.
  double beta2;         // Default 0.999.
  double epsilon;       // Default 1e-8.
  bool no_momentum;     // beta1 is 0: m' = g, without a slot.
} ls_adam_options;
// Creates an Adam optimizer.
//   LS_INVALID_ARGUMENT  as ls_sgd_create; also a beta of 1 or more.
LS_API LS_MUST_USE ls_status ls_adam_create(const ls_adam_options *options,
                                            ls_optimizer **out_optimizer);
// Creates Adam with decoupled weight decay (Loshchilov and Hutter, 2019):
//   w' = w - rate (u + weight_decay w)
// Weight decay: default 0.01.
LS_API LS_MUST_USE ls_status ls_adamw_create(const ls_adam_options *options,
                                             ls_optimizer **out_optimizer);
// Creates LAMB, with Adam's direction scaled to the weight's norm (You et al.,
// 2020):
//   d  = u + weight_decay w
//   w' = w - rate (|w| / |d|) d        the quotient is 1 if a norm is 0
// Epsilon: default 1e-6.
LS_API LS_MUST_USE ls_status ls_lamb_create(const ls_adam_options *options,
                                            ls_optimizer **out_optimizer);

// Adagrad (Duchi et al., 2011).
//   s' = s + g^2                       slot "sum", initially `initial`
//   w' = w - rate g / sqrt(s' + epsilon)
typedef struct ls_adagrad_options {
  LS_OPTIMIZER_FIELDS;  // Rate: default 0.01.
  double initial;       // Default 0.1.
  double epsilon;       // Default 1e-7.
} ls_adagrad_options;
LS_API LS_MUST_USE ls_status ls_adagrad_create(
    const ls_adagrad_options *options, ls_optimizer **out_optimizer);

// RMSProp (Tieleman and Hinton, 2012).
//   s' = decay s + (1 - decay) g^2     slot "square"
//   u  = g / sqrt(s' + epsilon)
//   w' = w - rate u
// Centered, e' = decay e + (1 - decay) g is in slot "mean" and s' - e'^2
// replaces s' in u. With momentum v' = momentum v + rate u is in slot
// "momentum" and w' = w - v'.
typedef struct ls_rmsprop_options {
  LS_OPTIMIZER_FIELDS;  // Rate: default 0.001.
  double decay;         // Default 0.9.
  double momentum;      // Default: none.
  double epsilon;       // Default 1e-8.
  bool centered;
} ls_rmsprop_options;
LS_API LS_MUST_USE ls_status ls_rmsprop_create(
    const ls_rmsprop_options *options, ls_optimizer **out_optimizer);

// Lion (Chen et al., 2023), with decoupled weight decay.
//   u  = sign(beta1 m + (1 - beta1) g)
//   m' = beta2 m + (1 - beta2) g       slot "m"
//   w' = w - rate (u + weight_decay w)
typedef struct ls_lion_options {
  LS_OPTIMIZER_FIELDS;  // Rate: default 0.0001.
  double beta1;         // Default 0.9.
  double beta2;         // Default 0.99.
} ls_lion_options;
LS_API LS_MUST_USE ls_status ls_lion_create(const ls_lion_options *options,
                                            ls_optimizer **out_optimizer);

// Options common to all optimizers. Zero in a field means its default.
typedef struct ls_optimizer_options {
  LS_OPTIMIZER_FIELDS;
} ls_optimizer_options;
// Creates an optimizer whose kind is known at run time only: sgd, momentum (SGD
// with a momentum of 0.9), nesterov (the same, with nesterov), adam, adamw,
// lamb, adagrad, rmsprop or lion. `options` may be NULL. Options specific to
// the kind have their defaults.
//   LS_INVALID_ARGUMENT  as ls_sgd_create; also an unknown kind: the message
//                        lists the known ones.
LS_API LS_MUST_USE ls_status
ls_optimizer_create(const char *kind, const ls_optimizer_options *options,
                    ls_optimizer **out_optimizer);

LS_API ls_optimizer *ls_optimizer_retain(ls_optimizer *optimizer);
LS_API void ls_optimizer_release(ls_optimizer *optimizer);  // NULL is fine.

// ---- Steps -----------------------------------------------------------------
// Makes one step, in a function or build graph: applies the gradient of `loss`,
// a scalar, to every trainable variable that was read to compute it. On many
// replicas every variable is updated by the mean of the replicas' gradients,
// which is that of the whole batch when the replicas have equally many
// examples. Returns an op that runs after all updates, to be fetched in a
// session; in a function they run at each call anyway.
//
// In a build graph that op, like those of the other steps below, also runs the
// ops that LS_COLLECTION_UPDATE_OPS held when it was made, those of all
// replicas; but not one that needs a placeholder or a host call which the step
// itself does not: that belongs to another loss.
LS_PLACED ls_op ls_optimizer_minimize(ls_optimizer *optimizer, ls_tensor loss);
// Makes such a step of these variables alone: one net of two that train against
// each other, or the last layers of a net.
//   LS_INVALID_ARGUMENT  none of them was read to compute the loss, or one is
//                        listed twice.
LS_PLACED ls_op ls_optimizer_minimize_only(ls_optimizer *optimizer,
                                           ls_tensor loss,
                                           ls_variable *const *variables,
                                           size_t count);
// Makes a step in eager: ends the tape, on which `loss` was computed, and
// updates every trainable variable that was read on it.
LS_API LS_MUST_USE ls_status ls_optimizer_minimize_tape(ls_optimizer *optimizer,
                                                        ls_tape *tape,
                                                        ls_tensor loss);
// Makes a step with known gradients: `gradients[i]` belongs to `variables[i]`;
// a none leaves it unchanged; a component stands for its whole variable. All
// replicas pass the same variables in the same order.
//   LS_INVALID_ARGUMENT     none has a gradient: lists the variables; two
//                           components of one variable have one; or one is of
//                           another type or shape than its variable: no
//                           variable changes.
//   LS_FAILED_PRECONDITION  in a cross-replica context: see
//                           ls_optimizer_apply_across.
LS_PLACED ls_op ls_optimizer_apply(ls_optimizer *optimizer,
                                   ls_variable *const *variables,
                                   const ls_nest *gradients, size_t count);

// Returns the loss, a scalar, of one part of a batch.
typedef ls_tensor (*ls_loss_callback)(ls_nest args, void *user);
// Makes a step as ls_optimizer_minimize, with the memory of a smaller batch:
// dimension 0 of every tensor of `args` (lent) is cut into `parts` equal
// pieces, `loss` is traced for the first and, as a loop, for the others, and
// one step applies the mean of their gradients. Gradients and losses are added
// left to right over the parts, then along the tree over the replicas: the step
// agrees with that of the whole batch to rounding only. Returns the mean loss,
// after the updates. In functions and build graphs.
//   LS_INVALID_ARGUMENT  fewer than one part.
LS_PLACED ls_tensor ls_optimizer_minimize_parts(ls_optimizer *optimizer,
                                                int64_t parts,
                                                ls_loss_callback loss,
                                                ls_nest args, void *user);

// Returns the learning rate of the next step, an f64 scalar.
LS_PLACED ls_tensor ls_optimizer_rate(ls_optimizer *optimizer);
// Returns the number of steps made so far, an i64 scalar.
//   LS_FAILED_PRECONDITION  the optimizer does not count its steps: nothing
//                           else depends on them, and `counts` is not set.
LS_PLACED ls_tensor ls_optimizer_step(ls_optimizer *optimizer);

// ---- Own optimizers --------------------------------------------------------
// A rule of your own, by which an optimizer moves each variable. All else is as
// for the optimizers above, whose rules are such tables too: slots in
// checkpoints, replicas, clipping, accumulation, schedules, lazy steps.

// One variable in one step; valid during the call of `update`.
typedef struct ls_update ls_update;

enum { LS_MAX_SLOTS = 8 };

// A slot of each variable, of the variable's type; f32 for 16-bit variables.
typedef struct ls_slot_rule {
  const char *name;
  double initial;  // Initial value of all elements.
} ls_slot_rule;

typedef struct ls_optimizer_rule {
  const char *name;                  // Default name of the optimizer.
  double learning_rate;              // Default learning rate.
  ls_slot_rule slots[LS_MAX_SLOTS];  // Up to the first without a name.
  bool counts;                       // True if `update` uses ls_update_step.
  bool own_decay;  // True if `update` applies weight decay itself.
  // True if `update` changes neither variable nor slots in rows whose gradient
  // is 0: then steps of embeddings pass rows alone, also without `lazy`.
  bool keeps_rows;
  // True if `update` needs all rows at once, such as their norm: `lazy` is
  // refused then.
  bool needs_all;
  // Computes one variable's step by ops: calls ls_update_move or
  // ls_update_assign once, and ls_update_slot once for each slot. Called while
  // a step is traced, in eager mode at each step. Values are of the rows that
  // move: [rows, ...] if these are few. Those of 16-bit variables are f32.
  void (*update)(ls_update *update, void *user);
} ls_optimizer_rule;

// Creates an optimizer by a rule, which is copied; `user` is passed to the
// rule's `update` and must outlive the optimizer. `options` may be NULL.
//   LS_INVALID_ARGUMENT  as ls_sgd_create; also a rule without a name, a rate
//                        or `update`; slots of equal names, or one called
//                        "gradient" or "kept_gradient", which are taken.
LS_API LS_MUST_USE ls_status ls_optimizer_create_own(
    const ls_optimizer_rule *rule, void *user,
    const ls_optimizer_options *options, ls_optimizer **out_optimizer);

// Returns the gradient: of the whole batch, clipped, and with weight decay
// unless the rule has `own_decay`.
LS_PLACED ls_tensor ls_update_gradient(const ls_update *update);
// Returns the variable's current value.
LS_PLACED ls_tensor ls_update_value(ls_update *update);
// Returns the current value of slot number `slot`.
LS_PLACED ls_tensor ls_update_read(ls_update *update, size_t slot);
// Returns x times the learning rate of this step.
LS_PLACED ls_tensor ls_update_rate(const ls_update *update, ls_tensor x);
// Returns the number of this step, from 1, an f64 scalar. Only for rules that
// count.
LS_PLACED ls_tensor ls_update_step(ls_update *update);
// Returns true if weight decay applies to the variable.
LS_API bool ls_update_decays(const ls_update *update);
// Returns weight_decay times the variable's value.
LS_PLACED ls_tensor ls_update_decay(ls_update *update);
// Returns the variable, lent.
LS_API ls_variable *ls_update_variable(const ls_update *update);
// Sets slot number `slot`. Returns its new value, as the next two do.
LS_PLACED ls_tensor ls_update_slot(ls_update *update, size_t slot,
                                   ls_tensor value);
// Sets the variable to its value minus `delta`.
LS_PLACED ls_tensor ls_update_move(ls_update *update, ls_tensor delta);
// Sets the variable to `value`.
LS_PLACED ls_tensor ls_update_assign(ls_update *update, ls_tensor value);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_OPTIMIZERS_H_
