// SPDX-License-Identifier: Apache-2.0
//
// A replicated computation on its way.
#ifndef LS_TPU_REPLICATE_REPLICATE_H_
#define LS_TPU_REPLICATE_REPLICATE_H_

#include "base/memory/arena.h"
#include "lockstep/infeed.h"
#include "lockstep/parameters.h"
#include "lockstep/replicate.h"
#include "tpu/replicate/context.h"

// The padded axes of an input, and the input with the first's real size.
typedef struct ls_padded {
  int64_t axes[LS_MAX_RANK];
  size_t count, first_size;
} ls_padded;

typedef struct ls_replication {
  const ls_replicate_options *options;  // Not NULL.
  const char *const *devices;           // As below.
  ls_system_id *system;  // Whose cores it is for; NULL: of the local system.
  ls_graph *graph;
  ls_arena memory;
  size_t replicas;
  ls_nest first;       // Replica 0's inputs, lent.
  size_t num_leaves;   // Of it; each is an input. Behind them are real sizes of
  size_t num_inputs;   // what is padded.
  ls_tensor *values;   // [input][replica]; zeroed: none.
  ls_padded *padding;  // Of each leaf; NULL: none is padded.
  ls_tensor *inputs;   // What the computation sees.
  ls_tpu_context context;
  ls_op metadata;
} ls_replication;

//   LS_INVALID_ARGUMENT  no flag: names it.
ls_status ls_check_xla_options(const ls_xla_options *options);

// ls_replicate on cores of a system, with what replica r gives on devices[r].
ls_status ls_replicate_at(ls_system_id *system, const char *const *devices,
                          ls_callback fn, void *user, ls_nest inputs,
                          const ls_replicate_options *options,
                          ls_nest *outputs);

// Checks the inputs and takes their values: inputs.c.
ls_status ls_replication_take_inputs(ls_replication *r, ls_nest inputs);
// The hosts of the replicas' cores, of all cores of replica 0 first; none where
// all are on one: hosts.c.
ls_status ls_replication_hosts(ls_replication *r, const char *const **out_hosts,
                               size_t *out_count);

// Makes maximum shapes of replicas' inputs, of their ranks, with unknown sizes
// alone; the caller's. And checks that all sizes are known and equal.
//   LS_INVALID_ARGUMENT  a tensor without a rank; a size that is not. Names it.
ls_status ls_maximum_shapes_of(ls_nest inputs, ls_nest *out_maxima);
ls_status ls_check_static_shapes(ls_nest inputs);

// Pads what is to be, where its maximum shapes say so: padding.c. The numbers
// of which input's axis has which input as its size are the arena's.
ls_status ls_replication_pad(ls_replication *r);
ls_status ls_replication_padding_map(ls_replication *r, int64_t **out_numbers,
                                     size_t *out_count);
// In the computation: its inputs as they really are.
ls_status ls_replication_unpad(const ls_replication *r, ls_tensor *values);

// Results of a computation: outputs.c.
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

// ---- Arity -----------------------------------------------------------------
// Numbers of arguments, where callbacks declare what they take.

// Checks that the callback named `noun` takes the inputs and, if
// `takes_infeed`, a queue's elements after them. Without parameters it takes
// anything.
LS_MUST_USE ls_status ls_check_arity(const ls_parameters *parameters,
                                     const char *noun, ls_nest inputs,
                                     const ls_infeed_queue *queue,
                                     bool takes_infeed);

#endif  // LS_TPU_REPLICATE_REPLICATE_H_
