// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// Variants of replicated computations (lockstep/replicate.h): over parts of
// each input, and on one replica.
//
// Threads: a graph belongs to the threads that build it, one at a time.
#ifndef LOCKSTEP_SHARD_H_
#define LOCKSTEP_SHARD_H_

#include "lockstep/replicate.h"

#ifdef __cplusplus
extern "C" {
#endif

// Zero in a field means its default.
typedef struct ls_shard_options {
  ls_opt num_shards;  // Number of replicas. Default 1.
  // Axis along which each input is cut; negative ones count from the end.
  // Default: all 0.
  const int *input_axes;
  size_t num_input_axes;
  // Axis along which each output is joined, likewise. Default: all 0.
  const int *output_axes;
  size_t num_output_axes;
  // True: an output is joined from all shards; false: it is shard 0's. One for
  // all outputs, or one each. Default: joined.
  const bool *outputs_from_all;
  size_t num_outputs_from_all;
  const ls_replicate_options *replicate;
} ls_shard_options;

// Replicates `fn` over equal parts of the inputs, a list of tensors or none.
// `*outputs`, which the caller owns, is a list of its results: scalars of all
// shards as a vector, others concatenated; a list with an op if it has none.
//   LS_INVALID_ARGUMENT  less than one shard, another number of axes, a size
//                        that the shards do not divide: names the numbers.
LS_PLACED LS_MUST_USE ls_status ls_shard(ls_callback fn, void *user,
                                         ls_nest inputs,
                                         const ls_shard_options *options,
                                         ls_nest *outputs);
// Shards, with the compilation status of ls_split_compile_and_replicate.
LS_PLACED LS_MUST_USE ls_status ls_split_compile_and_shard(
    ls_callback fn, void *user, ls_nest inputs, const ls_shard_options *options,
    ls_tensor *compile_status, ls_nest *outputs);
// Shards along dimension 0 of everything.
LS_PLACED LS_MUST_USE ls_status ls_batch_parallel(
    ls_callback fn, void *user, ls_nest inputs, int64_t num_shards,
    const ls_replicate_options *options, ls_nest *outputs);

// Replicates on one replica. `inputs` is a list or tuple, or none; `*outputs`,
// which the caller owns, is the result of the one replica: a list of tensors, a
// nest, or an op.
LS_PLACED LS_MUST_USE ls_status ls_rewrite(ls_callback fn, void *user,
                                           ls_nest inputs,
                                           const ls_replicate_options *options,
                                           ls_nest *outputs);

// Rewrites a model for serving only: variables that `fn` makes are read outside
// of the computation, through an op `<variable>/GuaranteeConst` that promises
// that they do not change.
//   LS_UNIMPLEMENTED  `fn` writes a variable, or reads one that it has not
//                     made: names the op.
LS_PLACED LS_MUST_USE ls_status
ls_rewrite_for_inference(ls_callback fn, void *user, ls_nest inputs,
                         const ls_replicate_options *options, ls_nest *outputs);
// Checks that a variable of the graph is read in that way.
//   LS_FAILED_PRECONDITION  none is.
LS_API LS_MUST_USE ls_status
ls_validate_inference_rewrite(const ls_graph *graph);

// Removes unused placeholders and reads of variables from their replicated
// computations, in the graph and all graphs in it; the log names each.
LS_API LS_MUST_USE ls_status ls_prune_unconnected_ops(ls_graph *graph);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SHARD_H_
