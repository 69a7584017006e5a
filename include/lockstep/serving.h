// SPDX-License-Identifier: Apache-2.0
// Layer: serve
//
// Exports for serving: a folder with prediction graphs and the values of their
// variables, for programs that have neither the model's code nor its
// checkpoints.
//
//   BASE/1700000000/            named by the second of its export
//     serve.ls                  signatures, and the graph that they need
//     serve+tpu.ls              the same of the graph with these tags
//     variables.safetensors     the values that all of them read
//     assets.extra/             additional files
//     model.onnx                the signatures for other runtimes, if
//     serve.stablehlo.mlir      requested: "serving_default" here, another
//                               "KEY" in model.KEY.onnx and
//                               serve.KEY.stablehlo.mlir
//
// A .ls file is a graph's text (ls_graph_parse reads it) whose first line, a
// comment, holds the signatures. ls_serving_run accepts any sizes for unknown
// ones of placeholders. The other formats allow one unknown size, that of the
// batch, the first dimension: any size in ONNX, a fixed one in StableHLO.
//
// Threads: any number of threads may run signatures of a loaded program at the
// same time.
#ifndef LOCKSTEP_SERVING_H_
#define LOCKSTEP_SERVING_H_

#include "lockstep/host.h"
#include "lockstep/session.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Exports ---------------------------------------------------------------
typedef enum ls_export_kind {
  LS_EXPORT_PREDICT,         // A dict of tensors.
  LS_EXPORT_CLASSIFICATION,  // "scores", "classes", or both.
  LS_EXPORT_REGRESSION,      // "value".
} ls_export_kind;
typedef struct ls_export_output {
  const char *key;  // Key of the signature.
  ls_export_kind kind;
  ls_nest tensors;  // A dict, by the names above.
} ls_export_output;
#define LS_SERVING_DEFAULT "serving_default"
#define LS_SERVING_TAG "serve"
#define LS_SERVING_TPU_TAG "tpu"

// Named inputs and outputs of a program: feeding the inputs computes the
// outputs. Everything is lent.
typedef struct ls_serving_signature {
  ls_export_output output;
  // A dict of placeholders; a single placeholder is named "input".
  ls_nest inputs;
} ls_serving_signature;

// A graph of an export.
typedef struct ls_serving_graph {
  const ls_graph *graph;    // A build graph.
  const char *const *tags;  // Tags by which it is found. Default: "serve".
  size_t num_tags;
  const ls_serving_signature *signatures;
  size_t num_signatures;
  // Shares the variables of another graph of the export, by name: they are
  // neither looked up nor saved for it.
  bool shares_variables;
} ls_serving_graph;

// A file to copy to assets.extra/NAME, where NAME may contain folders.
typedef struct ls_serving_asset {
  const char *name, *path;
} ls_serving_asset;

// Zero in a field means its default.
typedef struct ls_serving_options {
  const char *base;  // Folder in which the export's folder is created.
  const ls_serving_graph *graphs;
  size_t num_graphs;
  // Source of the variables' values: a file of saved values, as in
  // ls_saved_file_open, or a session. Required if there are variables.
  const char *checkpoint;
  ls_session *session;
  const char *mode;  // Purpose of the graphs. Default "predict".
  const ls_serving_asset *assets;
  size_t num_assets;
  // Also writes these files, of the first graph. Default off.
  ls_flag onnx, stablehlo;
  int64_t batch_size;  // Batch size of StableHLO. Default 1.
} ls_serving_options;

// Writes an export. `*out_path`, which the caller owns (ls_text_release), is
// its folder. It is made as BASE/temp-SECONDS-PROCESS-NUMBER and renamed when
// it is complete; if the folder of this second exists, the next one is tried,
// ten in all. A failure leaves nothing. A signature that does not fit its kind
// is left out, with a warning: scores or a value that are no floats, classes
// that are no strings. If there is no signature, a warning says so.
//   LS_FAILED_PRECONDITION  ten folders exist already; a variable is not in the
//                           checkpoint: names it, mode and path.
//   LS_INVALID_ARGUMENT     duplicate signatures or tags; an input that is no
//                           placeholder; a placeholder that an output needs and
//                           that is no input; a tensor of another graph;
//                           another type in the checkpoint; no values.
//   LS_UNIMPLEMENTED        an op that a text, or ONNX or StableHLO, cannot
//                           hold: names it; a graph with the tag "tpu" and
//                           another mode than "predict": names that.
LS_API LS_MUST_USE ls_status
ls_serving_export(const ls_serving_options *options, char **out_path);

// ---- Loading ---------------------------------------------------------------
typedef struct ls_serving ls_serving;

// Zero in a field means its default.
typedef struct ls_serving_load_options {
  const char *const *tags;  // Default: "serve".
  size_t num_tags;
  const ls_host_kernel *const *kernels;  // Host kernels that the graph calls.
  size_t num_kernels;
} ls_serving_load_options;
// Loads the graph with these tags from the folder of an export, its variables
// with their values. `options` may be NULL. The caller owns it.
//   LS_NOT_FOUND         no such folder, or no graph with these tags: lists the
//                        existing ones; a variable without a value.
//   LS_INVALID_ARGUMENT  a file that is no export's: names it and the line.
//   LS_DATA_LOSS         damaged values.
LS_API LS_MUST_USE ls_status
ls_serving_load(const char *folder, const ls_serving_load_options *options,
                ls_serving **out_serving);
LS_API void ls_serving_destroy(ls_serving *serving);  // NULL is fine.

typedef struct ls_serving_value {
  const char *name;
  ls_type type;  // Unknown sizes accept any.
} ls_serving_value;
// Description of a signature; everything is lent.
typedef struct ls_serving_info {
  const char *key;
  ls_export_kind kind;
  const ls_serving_value *inputs, *outputs;
  size_t num_inputs, num_outputs;
} ls_serving_info;
LS_API size_t ls_serving_num_signatures(const ls_serving *serving);
// Describes signature number `index`.
//   LS_OUT_OF_RANGE  there are fewer signatures.
LS_API LS_MUST_USE ls_status ls_serving_signature_info(
    const ls_serving *serving, size_t index, ls_serving_info *out_info);

// Runs a signature (NULL: "serving_default"). `inputs` is a lent dict with an
// array for each input; `*outputs` becomes a dict of arrays, in-out as in
// ls_function_call.
//   LS_NOT_FOUND         no such signature: lists the existing ones.
//   LS_INVALID_ARGUMENT  an input is missing, unknown, or does not fit.
LS_API LS_MUST_USE ls_status ls_serving_run(ls_serving *serving,
                                            const char *key, ls_nest inputs,
                                            ls_nest *outputs);

// ---- Texts, token by token -------------------------------------------------
// A decoder computes the logits of a language model one token after another, as
// a text grows. For a token it computes that one alone, with the keys and
// values of those before, which it keeps: the bits are those of the whole
// window. This needs a model whose ops compute each token alone, but for causal
// attention (ls_attention), and read what differs by position along a dimension
// of N; of any other model it computes the whole window again.
//
// Once N tokens are there, each one drops the first and moves the others: the
// whole window is computed again.
//
// Threads: one call at a time.
typedef struct ls_decoder ls_decoder;
// Makes a decoder of a model in the session's graph, from tokens i32 [?, N] to
// logits [?, N, classes] of the token after each. It adds ops to the graph, and
// variables "decoder/cache", which no collection has. The caller owns it; the
// session must outlive it.
//   LS_INVALID_ARGUMENT  tokens or logits of other types.
LS_API LS_MUST_USE ls_status ls_decoder_create(ls_session *session,
                                               ls_tensor tokens,
                                               ls_tensor logits,
                                               ls_decoder **out_decoder);
// Makes one of a signature (NULL: "serving_default") of an export, by its only
// input and this output. No other thread may run the export meanwhile.
//   LS_NOT_FOUND         no such signature.
//   LS_INVALID_ARGUMENT  another number of inputs, no such output, other types.
LS_API LS_MUST_USE ls_status
ls_serving_create_decoder(ls_serving *serving, const char *key,
                          const char *output, ls_decoder **out_decoder);
LS_API void ls_decoder_destroy(ls_decoder *decoder);  // NULL is fine.
// Returns true if a token is computed alone.
LS_API bool ls_decoder_is_incremental(const ls_decoder *decoder);

// Begins a text with `count` tokens, of which the last N count. `*out_logits`
// are those [1, 1, classes] of the token after them, lent until the next call.
// A run that fails, here or in ls_decoder_next, ends the text: begin it again.
//   LS_INVALID_ARGUMENT  no tokens.
LS_API LS_MUST_USE ls_status ls_decoder_begin(ls_decoder *decoder,
                                              const int32_t *tokens,
                                              int64_t count,
                                              const ls_array **out_logits);
// Adds a token to the text, and computes the logits of the one after it.
//   LS_FAILED_PRECONDITION  no text has begun, or it has ended by a failure.
LS_API LS_MUST_USE ls_status ls_decoder_next(ls_decoder *decoder, int32_t token,
                                             const ls_array **out_logits);
// Ends the text, and computes the logits [1, N, classes] of a window of N
// tokens, lent until the next call.
LS_API LS_MUST_USE ls_status ls_decoder_run(ls_decoder *decoder,
                                            const int32_t *tokens,
                                            const ls_array **out_logits);

// ---- ONNX and StableHLO ----------------------------------------------------
// Writes a signature as ONNX (opset 17), with the values of its variables.
// Inputs and outputs keep their names, but an output with the name of an input
// becomes "NAME/output"; the first dimension, if unknown, is "batch".
//   LS_NOT_FOUND      no such signature.
//   LS_UNIMPLEMENTED  an op that ONNX cannot hold, or that depends on the batch
//                     size other than by a factor: names it; another unknown
//                     size; a file of 2 GiB.
LS_API LS_MUST_USE ls_status ls_serving_write_onnx(const ls_serving *serving,
                                                   const char *key,
                                                   const char *path);
// Writes a signature as StableHLO: a function "main" of the inputs followed by
// the variables, which `ls.input` and `ls.variable` name; `ls.output` names
// results,
// `ls.trainable = false` marks variables that are not trained. The first
// dimension is `batch_size` wherever it is unknown.
//   as ls_serving_write_onnx
LS_API LS_MUST_USE ls_status
ls_serving_write_stablehlo(const ls_serving *serving, const char *key,
                           int64_t batch_size, const char *path);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SERVING_H_
