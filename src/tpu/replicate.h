// SPDX-License-Identifier: Apache-2.0
//
// A replicated computation on its way.
#ifndef LS_TPU_REPLICATE_H_
#define LS_TPU_REPLICATE_H_

#include "base/memory/arena.h"
#include "lockstep/replicate.h"
#include "tpu/context.h"

typedef struct ls_replication {
  const ls_replicate_options *options;  // Not NULL.
  const char *const *devices;           // As below.
  ls_graph *graph;
  ls_arena memory;
  size_t replicas;
  ls_nest first;      // Replica 0's inputs, lent.
  size_t num_inputs;  // Leaves of it.
  ls_tensor *values;  // [input][replica]; zeroed: none.
  ls_tensor *inputs;  // What the computation sees.
  ls_tpu_context context;
  ls_op metadata;
} ls_replication;

//   LS_INVALID_ARGUMENT  no flag: names it.
ls_status ls_check_xla_options(const ls_xla_options *options);

// ls_replicate, with what replica r gives on devices[r]. NULL: where the
// computation stands.
ls_status ls_replicate_at(const char *const *devices, ls_callback fn,
                          void *user, ls_nest inputs,
                          const ls_replicate_options *options,
                          ls_nest *outputs);

// Checks the inputs and takes their values: inputs.c.
ls_status ls_replication_take_inputs(ls_replication *r, ls_nest inputs);
// Builds the computation and what is around it.
ls_status ls_replication_build(ls_replication *r, ls_callback fn, void *user,
                               ls_nest *outputs);

// What a computation returns: outputs.c.
typedef struct ls_outputs {
  ls_nest like;  // The structure of one replica's; the caller's.
  ls_nest *leaves;
  size_t num_leaves;
  ls_tensor *tensors;  // One a leaf, zeroed: none; within the computation.
  ls_op *ops;
  size_t num_ops;
} ls_outputs;

// Inside of the computation: takes what it has returned.
ls_status ls_outputs_take(ls_replication *r, ls_nest made, ls_outputs *out);
// Outside: the replicas' results.
ls_status ls_outputs_give(ls_replication *r, const ls_outputs *outputs,
                          ls_nest *results);

#endif  // LS_TPU_REPLICATE_H_
