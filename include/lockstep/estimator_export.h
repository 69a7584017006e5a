// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// What a model exports for TPUs: its outputs, computed on a TPU and copied to
// the host (lockstep/shard.h: ls_rewrite_for_inference).
//
// Threads: a graph belongs to the threads that build it, one at a time.
#ifndef LOCKSTEP_ESTIMATOR_EXPORT_H_
#define LOCKSTEP_ESTIMATOR_EXPORT_H_

#include "lockstep/estimator_spec.h"
#include "lockstep/shard.h"

#ifdef __cplusplus
extern "C" {
#endif

// The mode in which models are rewritten.
#define LS_REWRITE_FOR_INFERENCE_MODE LS_MODE_PREDICT

// The tensors of an output that a rewrite takes: a list of "scores" and
// "classes", of "value", or of all that is predicted; none for what is absent.
// The caller's. Failed: LS_INVALID_ARGUMENT for another kind.
LS_API ls_nest ls_export_output_tensors(const ls_export_output *output);
// The same output of other tensors: a list as above. `out_output->tensors` is
// the caller's, its key is lent.
//   LS_INVALID_ARGUMENT  another kind, or another number of tensors: 2 of a
//                        classification, 1 of a regression.
LS_API LS_MUST_USE ls_status
ls_export_output_with(const ls_export_output *output, ls_nest tensors,
                      ls_export_output *out_output);

// A list of outputs with references of its own.
typedef struct ls_export_outputs {
  ls_export_output *items;
  size_t count;
} ls_export_outputs;
LS_API void ls_export_outputs_release(ls_export_outputs *outputs);

// Builds the model on `inputs`: the spec that it gives is the callee's, whose
// outputs are used.
typedef ls_status (*ls_export_model)(void *user, ls_nest inputs,
                                     ls_estimator_spec **out_spec);

// Calls `model` once, in a computation for inference in the current graph;
// `inputs` is a list or tuple of tensors, or none. `*out_outputs` has the
// export outputs of its spec, their tensors replaced by the copies on the host;
// kinds, keys and names stay, and what is absent is. The caller's. `options`
// may be NULL.
//   LS_INVALID_ARGUMENT  another mode than the one above; an output of another
//                        kind; no outputs.
LS_API LS_MUST_USE ls_status ls_rewrite_model_for_inference(
    ls_estimator_mode mode, ls_export_model model, void *user, ls_nest inputs,
    const ls_replicate_options *options, ls_export_outputs *out_outputs);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ESTIMATOR_EXPORT_H_
