// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// What of an estimator others use: exports of its model, by whoever has neither
// its code nor its checkpoints (lockstep/serving.h); for TPUs its outputs,
// computed on one and copied to the host (lockstep/shard.h:
// ls_rewrite_for_inference).
//
// Threads: a graph belongs to the threads that build it, one at a time; an
// estimator is used by one thread at a time.
#ifndef LOCKSTEP_ESTIMATOR_EXPORT_H_
#define LOCKSTEP_ESTIMATOR_EXPORT_H_

#include "lockstep/estimator.h"
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

// ---- Exports of an estimator -----------------------------------------------
// What an exported model is given, in the current graph: placeholders whose
// first dimension is mostly unknown, and what is made of them. Taken over.
typedef struct ls_serving_receiver {
  ls_nest features;  // For the model: a tensor or a nest of them.
  ls_nest labels;    // Of a model that is exported to train or to evaluate.
  ls_nest inputs;    // A placeholder, or a dict of them. Default: `features`.
} ls_serving_receiver;

// Makes it: once for each graph of an export.
typedef struct ls_receiver_function {
  ls_status (*call)(void *user, ls_serving_receiver *out_receiver);
  void *user;
} ls_receiver_function;

// Zero in a field means its default.
typedef struct ls_estimator_exporting {
  const char *base;               // Required: exports are folders in it.
  ls_receiver_function receiver;  // Required.
  const char *checkpoint;  // A path "DIR/model.ckpt-7". Default: the newest;
                           // without any, what a training would begin with by
                           // its warm start.
  ls_estimator_mode mode;  // Default LS_MODE_PREDICT.
  const ls_serving_asset *assets;
  size_t num_assets;
  ls_flag onnx, stablehlo;  // Files for others beside it. Default off.
  int64_t batch_size;       // Of StableHLO. Default 1.
} ls_estimator_exporting;

// Writes an export of the model: a graph "serve" with the values of its
// variables, and where the estimator exports to TPUs (`use_tpu` and
// `export_to_tpu`) one "serve+tpu" that computes on one. Signatures are what
// the model's spec exports; of other modes than a prediction, without TPUs, it
// is one, "train" or "eval", with the loss and the predictions. Of a model that
// is exported nothing depends on cores or on batch sizes: it is called as for
// CPUs, with no `batch_size` in its parameters. `*out_path`, the caller's
// (ls_text_release), is the folder.
//   LS_INVALID_ARGUMENT     no receiver or base; what the receiver or the model
//                           gives does not fit.
//   LS_FAILED_PRECONDITION  no checkpoint: names model_dir; a variable that is
//                           not in it: names that, mode and path; ten folders
//                           are there, as of ls_serving_export.
//   LS_UNIMPLEMENTED        another mode than a prediction for TPUs: names it.
LS_API LS_MUST_USE ls_status
ls_estimator_export(ls_estimator *estimator,
                    const ls_estimator_exporting *exporting, char **out_path);

// The same for TPUs of an estimator of whatever kind, trained on CPUs or in a
// strategy too: through one of its model, parameters and folder that has
// batches of 2048.
LS_API LS_MUST_USE ls_status ls_estimator_export_for_tpu(
    ls_estimator *estimator, const ls_estimator_exporting *exporting,
    char **out_path);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ESTIMATOR_EXPORT_H_
