// SPDX-License-Identifier: Apache-2.0
//
// A run of a TPU strategy on its way: run.c; its arguments: run_args.c.
#ifndef LS_TPU_STRATEGY_RUN_H_
#define LS_TPU_STRATEGY_RUN_H_

#include "distribute/base/class.h"
#include "lockstep/replicate.h"
#include "tpu/strategy/strategy.h"

// How it is done: what its options and the strategy say.
typedef struct ls_tpu_way {
  ls_strategy *strategy;
  ls_xla_options xla;
  bool dynamic_batch, bucketize, soft_placement;
  bool has_names;  // As in an ls_run_request.
} ls_tpu_way;

typedef struct ls_tpu_run {
  const ls_tpu_way *way;
  ls_strategy *strategy;
  ls_callback fn;
  void *user;
  ls_nest args;  // Of all replicas.
  ls_nest like;  // The structure of what `fn` has returned.
  size_t num_leaves;
  uint8_t *parts;  // How many values each leaf is: slices are more than one.
} ls_tpu_run;

// All replicas' inputs, as ls_replicate takes them.
ls_status ls_tpu_run_inputs(const ls_tpu_run *run, ls_nest *out_inputs);
// The arguments as the callback gets them, from a replica's inputs: those that
// begin with a distributed variable as they were given. The caller's.
ls_nest ls_tpu_run_args(const ls_tpu_run *run, ls_nest inputs);
// The first input that has rows for each replica; none: there is none.
ls_nest ls_tpu_run_examples(const ls_tpu_run *run, ls_nest inputs);

// Inside of the computation: what `fn` has returned (taken over), as values and
// ops behind each other; keeps its structure. run_results.c.
ls_nest ls_tpu_run_flatten(ls_tpu_run *run, ls_nest made);
// Outside: the replicas' results in that structure; `outputs` has a list of
// values for each.
ls_status ls_tpu_run_join(const ls_tpu_run *run, ls_nest outputs,
                          ls_nest *out_result);

// Of the strategies' class: check_run.
ls_status ls_tpu_class_check_run(const ls_strategy *strategy,
                                 const ls_run_request *request,
                                 const ls_parameters *parameters,
                                 const char *what);

#endif  // LS_TPU_STRATEGY_RUN_H_
