// SPDX-License-Identifier: Apache-2.0
//
// A replicated computation while it is being built.
#ifndef LS_TPU_REPLICATE_REPLICATE_H_
#define LS_TPU_REPLICATE_REPLICATE_H_

#include "base/memory/arena.h"
#include "lockstep/infeed.h"
#include "lockstep/parameters.h"
#include "lockstep/replicate.h"
#include "tpu/replicate/context.h"

// The padded axes of an input, and the index of the input that holds the first
// one's real size.
typedef struct ls_padded {
  int64_t axes[LS_MAX_RANK];
  size_t count, first_size;
} ls_padded;

typedef struct ls_replication {
  const ls_replicate_options *options;  // Never NULL.
  const char *const *devices;           // See ls_replicate_at.
  ls_system_id *system;                 // The system; NULL: the local one.
  ls_graph *graph;
  ls_arena memory;
  size_t replicas;
  ls_nest first;      // Replica 0's inputs, borrowed.
  size_t num_leaves;  // Number of the leaves, which are the first inputs.
  // The inputs after the leaves are real sizes of padded leaves.
  size_t num_inputs;
  ls_tensor *values;   // [input][replica]; zeroed if the leaf is no tensor.
  ls_padded *padding;  // Padding of each leaf; NULL: nothing is padded.
  ls_tensor *inputs;   // The values inside the computation.
  ls_tpu_context context;
  ls_op metadata;
} ls_replication;

// Checks options of XLA.
//   LS_INVALID_ARGUMENT  not a valid flag: names it
ls_status ls_check_xla_options(const ls_xla_options *options);

// Replicates on cores of a system, as ls_replicate does; replica r's outputs
// are on devices[r].
ls_status ls_replicate_at(ls_system_id *system, const char *const *devices,
                          ls_callback fn, void *user, ls_nest inputs,
                          const ls_replicate_options *options,
                          ls_nest *outputs);

// Checks the inputs and stores their values in the replication.
ls_status ls_replication_take_inputs(ls_replication *r, ls_nest inputs);
// Lists the host of each core, replica by replica; the list is empty if all are
// on one host.
ls_status ls_replication_hosts(ls_replication *r, const char *const **out_hosts,
                               size_t *out_count);

// Makes maximum shapes for replicas' inputs, of the inputs' ranks with all
// sizes unknown; the caller releases them. Also checks that all sizes are known
// and equal.
//   LS_INVALID_ARGUMENT  a tensor without a rank or with another size: names it
ls_status ls_maximum_shapes_of(ls_nest inputs, ls_nest *out_maxima);
ls_status ls_check_static_shapes(ls_nest inputs);

// Pads inputs as their maximum shapes say (padding.c). The arena owns the table
// of the inputs that hold real sizes.
ls_status ls_replication_pad(ls_replication *r);
ls_status ls_replication_padding_map(ls_replication *r, int64_t **out_numbers,
                                     size_t *out_count);
// Cuts the padding off again inside the computation.
ls_status ls_replication_unpad(const ls_replication *r, ls_tensor *values);

// Results of a computation (outputs.c).
typedef struct ls_outputs {
  ls_nest like;  // Structure of one replica's results; the caller's.
  ls_nest *leaves;
  size_t num_leaves;
  // One tensor per leaf, made inside the computation; zeroed if the leaf is no
  // tensor.
  ls_tensor *tensors;
  ls_op *ops;
  size_t num_ops;
} ls_outputs;

// Collects the callback's results, inside the computation.
ls_status ls_outputs_take(ls_replication *r, ls_nest made, ls_outputs *out);
// Makes the replicas' results, outside the computation.
ls_status ls_outputs_give(ls_replication *r, const ls_outputs *outputs,
                          ls_nest *results);

static inline bool ls_replicate_is_sequence(ls_nest nest) {
  return nest.kind == LS_KIND_LIST || nest.kind == LS_KIND_TUPLE;
}

// ---- Arity -----------------------------------------------------------------
// Numbers of arguments, checked if callbacks declare their parameters.

// Checks that a callback accepts the inputs and, if `takes_infeed`, then a
// queue's elements. `noun` names the callback in messages. Undeclared
// parameters accept anything.
LS_MUST_USE ls_status ls_check_arity(const ls_parameters *parameters,
                                     const char *noun, ls_nest inputs,
                                     const ls_infeed_queue *queue,
                                     bool takes_infeed);

#endif  // LS_TPU_REPLICATE_REPLICATE_H_
