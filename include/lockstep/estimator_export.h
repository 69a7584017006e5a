// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// Exports of an estimator's model, for programs that have neither its code nor
// its checkpoints (lockstep/serving.h); for TPUs its outputs are computed on
// one and copied to the host (lockstep/shard.h: ls_rewrite_for_inference).
//
// Threads: one thread at a time builds a graph and uses an estimator.
#ifndef LOCKSTEP_ESTIMATOR_EXPORT_H_
#define LOCKSTEP_ESTIMATOR_EXPORT_H_

#include "lockstep/estimator.h"
#include "lockstep/shard.h"

#ifdef __cplusplus
extern "C" {
#endif

// Mode in which models are rewritten.
#define LS_REWRITE_FOR_INFERENCE_MODE LS_MODE_PREDICT

// Lists the tensors of an output that a rewrite takes: "scores" and "classes",
// "value", or all predictions; none leaves for absent ones. The caller owns the
// nest. It is failed with LS_INVALID_ARGUMENT for another kind.
LS_API ls_nest ls_export_output_tensors(const ls_export_output *output);
// Makes the same output with other tensors: a list as above. The caller owns
// `out_output->tensors`; its key is lent.
//   LS_INVALID_ARGUMENT  another kind, or another number of tensors: 2 of a
//                        classification, 1 of a regression.
LS_API LS_MUST_USE ls_status
ls_export_output_with(const ls_export_output *output, ls_nest tensors,
                      ls_export_output *out_output);

// A list of outputs that holds references.
typedef struct ls_export_outputs {
  ls_export_output *items;
  size_t count;
} ls_export_outputs;
LS_API void ls_export_outputs_release(ls_export_outputs *outputs);

// Builds the model on `inputs` and returns its spec, whose export outputs are
// used; the caller of the function owns the spec.
typedef ls_status (*ls_export_model)(void *user, ls_nest inputs,
                                     ls_estimator_spec **out_spec);

// Calls `model` once, in a computation for inference in the current graph;
// `inputs` is a list or tuple of tensors, or none. `*out_outputs` has the
// export outputs of its spec, with tensors replaced by the copies on the host;
// kinds, keys and names stay, and absent tensors stay absent. The caller owns
// it. `options` may be NULL.
//   LS_INVALID_ARGUMENT  another mode than the one above; an output of another
//                        kind; no outputs.
LS_API LS_MUST_USE ls_status ls_rewrite_model_for_inference(
    ls_estimator_mode mode, ls_export_model model, void *user, ls_nest inputs,
    const ls_replicate_options *options, ls_export_outputs *out_outputs);

// ---- Exports of an estimator -----------------------------------------------
// Inputs of an exported model, in the current graph: placeholders whose first
// dimension is mostly unknown, and the features computed from them. Taken over.
typedef struct ls_serving_receiver {
  ls_nest features;  // For the model: a tensor or a nest of them.
  ls_nest labels;    // For a model that is exported to train or to evaluate.
  ls_nest inputs;    // A placeholder, or a dict of them. Default: `features`.
} ls_serving_receiver;

// Makes the receiver, once for each graph of an export.
typedef struct ls_receiver_function {
  ls_status (*call)(void *user, ls_serving_receiver *out_receiver);
  void *user;
} ls_receiver_function;

// Zero in a field means its default.
typedef struct ls_estimator_exporting {
  const char *base;  // Required: the folder that holds the exports' folders.
  ls_receiver_function receiver;  // Required.
  // A path "DIR/model.ckpt-7". Default: the newest; without any, the values
  // that a training would start with by its warm start.
  const char *checkpoint;
  ls_estimator_mode mode;  // Default LS_MODE_PREDICT.
  const ls_serving_asset *assets;
  size_t num_assets;
  // Also writes these files, for other programs. Default off.
  ls_flag onnx, stablehlo;
  int64_t batch_size;  // Batch size of StableHLO. Default 1.
} ls_estimator_exporting;

// Writes an export of the model: a graph "serve" with the values of its
// variables, and if the estimator exports to TPUs (`use_tpu` and
// `export_to_tpu`) one "serve+tpu" that computes on one. Signatures are the
// export outputs of the model's spec; in other modes than prediction, which
// export without TPUs, there is one, "train" or "eval", with the loss and the
// predictions. An exported model does not depend on cores or batch sizes: it is
// called as for CPUs, with no `batch_size` and a false `use_tpu` in its
// parameters, for both graphs. `*out_path`, which the caller owns
// (ls_text_release), is the folder.
//   LS_INVALID_ARGUMENT     no receiver or base; a result of the receiver or
//                           the model does not fit.
//   LS_FAILED_PRECONDITION  no checkpoint: names model_dir; a variable is not
//                           in it: names the variable, mode and path; ten
//                           folder names are taken, as in ls_serving_export.
//   LS_UNIMPLEMENTED        another mode than prediction for TPUs: names it.
LS_API LS_MUST_USE ls_status
ls_estimator_export(ls_estimator *estimator,
                    const ls_estimator_exporting *exporting, char **out_path);

// Writes the same export for TPUs of an estimator of any kind, also one trained
// on CPUs or in a strategy: through an estimator with its model, parameters and
// folder that has batches of 2048.
LS_API LS_MUST_USE ls_status ls_estimator_export_for_tpu(
    ls_estimator *estimator, const ls_estimator_exporting *exporting,
    char **out_path);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ESTIMATOR_EXPORT_H_
