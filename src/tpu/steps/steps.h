// SPDX-License-Identifier: Apache-2.0
// Loops of steps; steps on an iterator, their outputs, and how they are built.
#ifndef LS_TPU_STEPS_STEPS_H_
#define LS_TPU_STEPS_STEPS_H_

#include "base/memory/own.h"
#include "distribute/base/strategy.h"
#include "lockstep/object.h"
#include "lockstep/steps.h"
#include "lockstep/training_loop.h"

// ---- Loops of steps --------------------------------------------------------
// Loops of steps with a state that each step passes on to the next. Used by
// training loops, estimators' programs, the loops of training runs, and steps
// on an iterator.

// One step of a loop. It is built once and runs for all iterations.
typedef struct ls_step {
  ls_tensor index;  // Number of earlier steps, an i64; failed if not counted.
  // On input the previous step's state; on output this step's.
  ls_tensor *state;
  size_t num_state;
  ls_nest elements;  // The infeed's elements, borrowed; none without an infeed.
  ls_op *ops;        // The ops of the step, which ends when they have run.
  size_t num_ops, ops_capacity;
} ls_step;

// Options of a loop. A zero field has its default.
typedef struct ls_step_loop {
  ls_status (*step)(ls_step *step, void *user);
  // Makes a bool scalar, true if there is another step. NULL: the loop makes
  // `limit` steps.
  ls_status (*goes_on)(const ls_step *step, void *user, ls_tensor *out_goes_on);
  // Number of steps, an i64 scalar; a tensor of no graph: use `times`.
  ls_tensor limit;
  int64_t times;  // Number of steps as a constant; below 0: no limit.
  void *user;
  bool counts;  // True if the loop counts its steps even with `goes_on`.
  // Each step takes a tuple; the loop ends when none is left.
  ls_infeed_queue *infeed;
} ls_step_loop;

// Builds the loop in the current graph; a failure leaves no ops behind. `state`
// becomes that of the last step. `*out_count` (may be NULL) becomes the number
// of steps or, if the loop does not count, a tensor that waits for them.
//   LS_FAILED_PRECONDITION  an infeed outside of a replicated computation
LS_MUST_USE ls_status ls_step_loop_build(const ls_step_loop *loop,
                                         ls_tensor *state, size_t num_state,
                                         ls_tensor *out_count);
// Builds a loop whose state is a list of values, or none; if it is none,
// `*outputs` becomes the op to run.
LS_MUST_USE ls_status ls_step_loop_build_nest(const ls_step_loop *loop,
                                              ls_nest inputs, ls_nest *outputs);
// Checks a step's result, values for the whole state and then ops, and stores
// it in the step.
//   LS_INVALID_ARGUMENT  another structure or other types
LS_MUST_USE ls_status ls_step_take(ls_step *step, ls_nest made);

// ---- Outputs of steps ------------------------------------------------------
struct ls_step_context {
  ls_object object;
  ls_allocator *allocator;
  // Outputs by name. `reductions` has an ls_reduce_op for each output that was
  // set with one, and none for other outputs.
  ls_nest outputs, reductions, others;
  ls_op run_op;
};

LS_OWNED_POINTER(ls_step_context, ls_step_context_release)
LS_MUST_USE ls_status ls_step_context_make(ls_step_context **out_context);

// Replaces the outputs by `values`, replica by replica, with one value per
// output. Without values the outputs become an empty dict.
LS_MUST_USE ls_status ls_step_context_give(ls_step_context *context,
                                           const ls_nest *values, size_t count,
                                           size_t replicas);

// The outputs of a step that is built across replicas, as plain values: leaf by
// leaf in the order of the names, with one value or one per replica.
typedef struct ls_step_parts {
  ls_allocator *allocator;
  ls_tensor *values;
  size_t num_values, values_capacity;
  size_t *sizes;  // Each leaf's number of replicas; 0: one value.
  size_t num_leaves, sizes_capacity;
} ls_step_parts;
LS_MUST_USE ls_status ls_step_parts_take(ls_step_parts *parts,
                                         const ls_step_context *context);
// Replaces the outputs by the values in `parts`.
LS_MUST_USE ls_status ls_step_parts_give(const ls_step_parts *parts,
                                         const ls_nest *values,
                                         ls_step_context *context);
void ls_step_parts_drop(ls_step_parts *parts);
LS_OWNED_STRUCT(ls_step_parts, ls_step_parts_drop)

// ---- Steps on an iterator --------------------------------------------------
// Builders of steps on an iterator.

// The functions by which a kind of strategy builds steps. The caller releases
// the nests they return.
typedef struct ls_steps_build ls_steps_build;
typedef struct ls_steps_kind {
  // Builds a step: lists its outputs' values, then its ops.
  ls_status (*build_step)(ls_steps_build *build, ls_nest *out_list);
  // Lists the initial values of the outputs like build_step's; `leaves` are the
  // user's values.
  ls_status (*list_initial)(const ls_steps_build *build, const ls_nest *leaves,
                            size_t count, ls_nest *out_list);
  // Stores the values of the last step in the context; `leaves` are listed like
  // build_step's.
  ls_status (*give)(ls_steps_build *build, ls_nest *leaves, size_t count);
} ls_steps_kind;

struct ls_steps_build {
  const ls_steps_kind *kind;
  ls_strategy *strategy;
  const ls_steps *options;
  ls_step_context *context;
  ls_allocator *allocator;
  size_t num_replicas;
  ls_step_parts parts;  // Outputs across replicas.
};

// Steps that call the replicas themselves, built in the strategy's
// cross-replica context.
extern const ls_steps_kind ls_steps_across;

#endif  // LS_TPU_STEPS_STEPS_H_
