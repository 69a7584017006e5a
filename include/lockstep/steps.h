// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// Steps on an iterator: a function that is built once and runs on each of the
// next elements, in a loop on the host around one replicated computation.
//
//   static ls_nest step(ls_step_context *context, ls_nest inputs, void *user) {
//     ...
//     ls_status status = ls_step_context_set_output(
//         context, "loss", ls_leaf(loss), LS_SOME(LS_REDUCE_MEAN));
//     return ls_status_is_ok(status) ? ls_nest_op(train) : ls_fail(status);
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

// What a step says besides its result: counted.
typedef struct ls_step_context ls_step_context;

// A step, in the replicated computation: built once for all replicas, each of
// which has its own part of an element (lent) as `inputs`. Where it has set
// outputs, it returns an op or a tensor, behind which they are taken; else an
// op or none.
//
// Of a mirrored strategy it is built across replicas, which it calls itself
// (ls_strategy_run): `inputs` has a value for each, and it returns an op, a
// tensor, such ones of each replica, or none.
typedef ls_nest (*ls_step_function)(ls_step_context *context, ls_nest inputs,
                                    void *user);

// What to run. Zero in a field means its default.
typedef struct ls_steps {
  ls_step_function fn;  // Required.
  void *user;
  ls_distributed_iterator *iterator;  // Required. The graph retains it.
  // How many steps a run makes. 0 and below: none. Default 1. Of a TPU strategy
  // that makes one (steps_per_run) a run is one step.
  ls_opt iterations;
  // What the outputs are before the first step: a nest with as many leaves of
  // the same dtypes, lent; of a mirrored strategy those with a value for each
  // replica where the outputs have. Not looked at without a loop. Default:
  // none.
  ls_nest initial;
} ls_steps;

// Builds the steps in the current graph, a build graph or a traced function's,
// in the strategy's scope and on its host. The caller owns the context. A run
// reads elements in the loop, one a step; a step that fails, as at the end of
// the data (OUT_OF_RANGE), ends the run with its status, and what the steps
// before it did stays.
//   LS_UNIMPLEMENTED        a strategy that is neither a TPU's nor mirrored.
//   LS_FAILED_PRECONDITION  in eager; inside of a replica.
//   LS_INVALID_ARGUMENT     `fn` returns something else; initial values that
//                           are not like the outputs: names both types.
LS_API LS_MUST_USE ls_status ls_strategy_run_steps(ls_strategy *strategy,
                                                   const ls_steps *steps,
                                                   ls_step_context **out);

LS_API ls_step_context *ls_step_context_retain(ls_step_context *context);
LS_API void ls_step_context_release(ls_step_context *context);  // NULL is fine.

// The op that makes the steps; no op before they are built.
LS_API ls_op ls_step_context_run_op(const ls_step_context *context);

// Sets the output of that name, a nest of tensors (lent), in place of one set
// before.
// `reduce`: LS_SOME(LS_REDUCE_SUM) or MEAN of the replicas' values; unset: each
// replica has its own, which only code between replicas can say.
//   LS_INVALID_ARGUMENT  no reduction, in a replica; another one.
LS_API LS_MUST_USE ls_status ls_step_context_set_output(
    ls_step_context *context, const char *name, ls_nest output, ls_opt reduce);
// All outputs at once, a dict, lent; none of them is reduced.
//   LS_INVALID_ARGUMENT  no dict.
LS_API LS_MUST_USE ls_status
ls_step_context_set_outputs(ls_step_context *context, ls_nest outputs);
// Outputs by name, a dict of the caller's. Behind ls_strategy_run_steps they
// are what the last step of a run gives: PerReplica values, or one tensor where
// it was reduced. Without tensors, an empty dict.
LS_API ls_nest ls_step_context_outputs(const ls_step_context *context);

// Anything that is no tensor (lent), which stays as it is: set between
// replicas, what was given; in a replica, the tuple of what all replicas gave.
LS_API LS_MUST_USE ls_status ls_step_context_set_non_tensor_output(
    ls_step_context *context, const char *name, ls_nest output);
// By name, a dict of the caller's.
LS_API ls_nest
ls_step_context_non_tensor_outputs(const ls_step_context *context);

// Where the steps are that a thread builds: only their function sees it.
typedef struct ls_steps_place {
  ls_graph *graph;          // That the steps, or their loop, stand in. Lent.
  const char *computation;  // The name of the replicated one. Lent.
} ls_steps_place;
// Zeroes: none are being built on this thread.
LS_API ls_steps_place ls_strategy_steps_place(const ls_strategy *strategy);

// Takes the iterator's next element (NULL: there is none) in the strategy's
// scope, and is ls_strategy_run with that as the one argument.
//   LS_OUT_OF_RANGE  in eager: the end of the data.
LS_API LS_MUST_USE ls_status
ls_strategy_run_next(ls_strategy *strategy, ls_callable callable,
                     ls_distributed_iterator *iterator, ls_nest *results);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_STEPS_H_
