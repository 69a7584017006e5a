// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// Steps on an iterator: a function that is built once and runs on each of the
// next elements, in a loop on the host around one replicated computation.
//
//   static ls_nest replica_step(ls_nest args, void *user) {
//     ls_step_context *context = user;
//     ... the loss of ls_nest_item(args, 0) ...
//     ls_op train = ls_optimizer_minimize(optimizer, loss);
//     ls_status status = ls_step_context_set_output(
//         context, "loss", ls_leaf(loss), LS_SOME(LS_REDUCE_MEAN));
//     return ls_status_is_ok(status) ? ls_nest_op(train) : ls_fail(status);
//   }
//   static ls_nest step(ls_step_context *context, ls_nest inputs, void *user) {
//     ls_nest args = LS_TUPLE(ls_nest_retain(inputs)), made = ls_none();
//     ls_status status = ls_strategy_call_for_each_replica(
//         strategy, replica_step, args, context, &made);
//     ls_nest_release(args);
//     return ls_status_is_ok(status) ? made : ls_fail(status);
//   }
//   ...
//   status = ls_strategy_run_steps(
//       strategy,
//       &(ls_steps){.fn = step, .iterator = it, .iterations = LS_SOME(100)},
//       &context);
//   ... run ls_step_context_run_op(context), fetch its outputs ...
//
// Threads: a context belongs to the threads that build its graph, one at a
// time.
#ifndef LOCKSTEP_STEPS_H_
#define LOCKSTEP_STEPS_H_

#include "lockstep/distribute_input.h"

#ifdef __cplusplus
extern "C" {
#endif

// Outputs of a step besides its result; reference-counted.
typedef struct ls_step_context ls_step_context;

// Builds a step, in the replicated computation: called once for all replicas,
// each of which has its own part of an element (lent) as `inputs`. If it has
// set outputs, it returns an op or a tensor, after which they are read; else an
// op or none. It is in cross-replica context: an optimizer works only in a
// callback of ls_strategy_call_for_each_replica, as above.
//
// For a mirrored strategy it is called in cross-replica context, and calls the
// replicas itself (ls_strategy_run): `inputs` has a value for each, and it
// returns an op, a tensor, these of each replica, or none.
typedef ls_nest (*ls_step_function)(ls_step_context *context, ls_nest inputs,
                                    void *user);

// Options of the steps. Zero in a field means its default.
typedef struct ls_steps {
  ls_step_function fn;  // Required.
  void *user;
  ls_distributed_iterator *iterator;  // Required. The graph retains it.
  // Number of steps per run. 0 and below: none. Default 1. For a TPU strategy
  // whose steps_per_run is 1, a run is one step, whatever the number, with a
  // warning: only ls_tpu_strategy_v1_create sets steps_per_run.
  ls_opt iterations;
  // Initial outputs, before the first step: a nest with as many leaves of the
  // same dtypes, lent; for a mirrored strategy with a value for each replica
  // where the outputs have one. Ignored without a loop. Default: none.
  ls_nest initial;
} ls_steps;

// Builds the steps in the current graph, a build graph or a traced function's,
// in the strategy's scope and on its host. The caller owns the context. A run
// reads elements in the loop, one per step; a step that fails, for instance at
// the end of the data (OUT_OF_RANGE), ends the run with its status, and the
// effects of earlier steps remain.
//   LS_UNIMPLEMENTED        a strategy that is neither a TPU's nor mirrored.
//   LS_FAILED_PRECONDITION  in eager; inside a replica.
//   LS_INVALID_ARGUMENT     `fn` returns something else; initial values whose
//                           types differ from the outputs': names both types.
LS_API LS_MUST_USE ls_status ls_strategy_run_steps(ls_strategy *strategy,
                                                   const ls_steps *steps,
                                                   ls_step_context **out);

LS_API ls_step_context *ls_step_context_retain(ls_step_context *context);
LS_API void ls_step_context_release(ls_step_context *context);  // NULL is fine.

// Returns the op that makes the steps; no op before they are built.
LS_API ls_op ls_step_context_run_op(const ls_step_context *context);

// Sets or replaces the output of that name, a nest of tensors (lent). `reduce`:
// LS_SOME(LS_REDUCE_SUM) or MEAN of the replicas' values; unset: each replica
// has its own, which only code in cross-replica context can set.
//   LS_INVALID_ARGUMENT  no reduction, in a replica; another one.
LS_API LS_MUST_USE ls_status ls_step_context_set_output(
    ls_step_context *context, const char *name, ls_nest output, ls_opt reduce);
// Sets all outputs at once, a dict, lent, without reductions.
//   LS_INVALID_ARGUMENT  no dict.
LS_API LS_MUST_USE ls_status
ls_step_context_set_outputs(ls_step_context *context, ls_nest outputs);
// Returns the outputs by name, a dict that the caller owns. After
// ls_strategy_run_steps they are the outputs of a run's last step: PerReplica
// values, or one tensor if reduced. Without tensors, an empty dict.
LS_API ls_nest ls_step_context_outputs(const ls_step_context *context);

// Sets an output that is no tensor (lent): in cross-replica context it stays as
// given; in a replica it becomes the tuple of all replicas' values.
LS_API LS_MUST_USE ls_status ls_step_context_set_non_tensor_output(
    ls_step_context *context, const char *name, ls_nest output);
// Returns these outputs by name, a dict that the caller owns.
LS_API ls_nest
ls_step_context_non_tensor_outputs(const ls_step_context *context);

// Graph and computation of the steps being built on a thread, visible to their
// function only.
typedef struct ls_steps_place {
  ls_graph *graph;          // Graph that holds the steps, or their loop. Lent.
  const char *computation;  // Name of the replicated computation. Lent.
} ls_steps_place;
// Returns zeroes if this thread builds no steps.
LS_API ls_steps_place ls_strategy_steps_place(const ls_strategy *strategy);

// Takes the iterator's next element (NULL: none) in the strategy's scope, and
// calls ls_strategy_run with it as the one argument.
//   LS_OUT_OF_RANGE  in eager: the end of the data.
LS_API LS_MUST_USE ls_status
ls_strategy_run_next(ls_strategy *strategy, ls_callable callable,
                     ls_distributed_iterator *iterator, ls_nest *results);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_STEPS_H_
