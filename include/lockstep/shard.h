// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// Forms of replicated computations (lockstep/replicate.h): over parts of each
// input, and alone.
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
  ls_opt num_shards;      // Replicas. Default 1.
  const int *input_axes;  // Along which each input is cut. Default: all 0.
  size_t num_input_axes;
  const int *output_axes;  // Along which each output is joined. Default: all 0.
  size_t num_output_axes;
  // Whether an output is joined of all shards, or shard 0's: one for all
  // outputs, or one each. Default: joined.
  const bool *outputs_from_all;
  size_t num_outputs_from_all;
  const ls_replicate_options *replicate;
} ls_shard_options;

// Replicates `fn` over equal parts of the inputs, a list of tensors or none.
// `*outputs`, the caller's, is a list of its results: scalars of all shards as
// a vector, others one behind the other; a list with an op where it has none.
//   LS_INVALID_ARGUMENT  less than one shard, another number of axes, a size
//                        that the shards do not divide: names the numbers.
LS_PLACED LS_MUST_USE ls_status ls_shard(ls_callback fn, void *user,
                                         ls_nest inputs,
                                         const ls_shard_options *options,
                                         ls_nest *outputs);
// The same, with the compile status of ls_split_compile_and_replicate.
LS_PLACED LS_MUST_USE ls_status ls_split_compile_and_shard(
    ls_callback fn, void *user, ls_nest inputs, const ls_shard_options *options,
    ls_tensor *compile_status, ls_nest *outputs);
// ls_shard along dimension 0 of everything.
LS_PLACED LS_MUST_USE ls_status ls_batch_parallel(
    ls_callback fn, void *user, ls_nest inputs, int64_t num_shards,
    const ls_replicate_options *options, ls_nest *outputs);

// One replica. `inputs` is a list or tuple, or none; `*outputs` what the one
// replica has: a list of tensors, a nest, or an op.
LS_PLACED LS_MUST_USE ls_status ls_rewrite(ls_callback fn, void *user,
                                           ls_nest inputs,
                                           const ls_replicate_options *options,
                                           ls_nest *outputs);

// ls_rewrite of what serves and never trains: variables that `fn` makes are
// read outside of the computation, through an op `<variable>/GuaranteeConst`
// that promises that they do not change.
//   LS_UNIMPLEMENTED  `fn` writes a variable, or reads one that it has not
//                     made: names the op.
LS_PLACED LS_MUST_USE ls_status
ls_rewrite_for_inference(ls_callback fn, void *user, ls_nest inputs,
                         const ls_replicate_options *options, ls_nest *outputs);
//   LS_FAILED_PRECONDITION  no variable of the graph is read in that way.
LS_API LS_MUST_USE ls_status
ls_validate_inference_rewrite(const ls_graph *graph);

// Placeholders and reads of variables that nobody uses are taken out of their
// replicated computations, in the graph and all graphs in it; the log names
// each.
LS_API LS_MUST_USE ls_status ls_prune_unconnected_ops(ls_graph *graph);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SHARD_H_
