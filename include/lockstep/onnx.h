// SPDX-License-Identifier: Apache-2.0
// Layer: onnx
//
// ONNX files, and StableHLO's texts (.mlir), as parts of programs: a file's
// graph as ops, its weights as variables, so that it predicts, trains further
// and is exported as any model.
//
// Floating initializers of one dimension or more are variables, under their
// names in the file; means and variances of batch norms are not trainable.
// Constants are not variables: scalars, single factors, integers, what holds an
// infinity or NaN, operands that are settings (bounds, pads, scales), and names
// that begin with '%', which our own exports give to constants. Sizes may
// depend on those of inputs, such as an unknown batch size, but not on values.
//
// Files may be of opset 7 to 23. An op, or a form of it, that is not supported
// is LS_UNIMPLEMENTED, with the op, the node and the file: loops and branches,
// sequences, quantized numbers and ops of other domains are.
//
// A text of StableHLO is a module as JAX's as_text() or our own export writes
// it. Variables are its floating constants of more than one element, named by
// their position, and arguments whose values are in a file beside it: with
// ".safetensors" or ".npz" in place of ".mlir", under the argument's name or
// "arr_N"; of an export, variables.safetensors. Other arguments are inputs. All
// sizes are in the text, but inputs may have another batch size, which is the
// first dimension, unless an op depends on it. Loops of a known number of steps
// are unrolled. Anything else is LS_UNIMPLEMENTED, with the op and its line:
// custom calls, branches, sorts, unknown sizes, MLIR's bytecode.
//
// Threads: a loaded file never changes: any number of threads may apply it at
// the same time, each in a graph of its own.
#ifndef LOCKSTEP_ONNX_H_
#define LOCKSTEP_ONNX_H_

#include "lockstep/models.h"
#include "lockstep/serving.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_onnx ls_onnx;

// Zero in a field means its default.
typedef struct ls_onnx_options {
  ls_flag trainable;  // Off: no variable is trainable. Default on.
} ls_onnx_options;

// Loads a file of up to 2 GiB, and files of weights beside it. Creates its
// variables in the graph of the init scope. `options` may be NULL. The caller
// owns it.
//   LS_INVALID_ARGUMENT  neither ONNX nor StableHLO, or damaged: of a text, with
//                        line and column.
//   LS_NOT_FOUND         no such file, or none of the weights of an export.
//   LS_UNIMPLEMENTED     see above.
LS_API LS_MUST_USE ls_status ls_onnx_load(const char *path,
                                          const ls_onnx_options *options,
                                          ls_onnx **out_onnx);
LS_API void ls_onnx_destroy(ls_onnx *onnx);  // NULL is fine.

// Adds the ops of one use to the current graph: eager, a function or a build
// graph. `inputs` is lent: a dict by the file's names, a tuple in its order, or
// a single tensor; they are converted to the file's types. Returns a dict of
// the outputs, or a failed nest. `training` turns dropout on; batch norms keep
// their moving averages.
LS_PLACED ls_nest ls_onnx_apply(const ls_onnx *onnx, ls_nest inputs,
                                bool training);

// Lists all variables, lent. Writes up to `capacity`, returns their number.
LS_API size_t ls_onnx_variables(const ls_onnx *onnx, ls_variable **variables,
                                size_t capacity);
// List names and types, lent. Write up to `capacity`, return their number.
LS_API size_t ls_onnx_inputs(const ls_onnx *onnx, ls_serving_value *values,
                             size_t capacity);
LS_API size_t ls_onnx_outputs(const ls_onnx *onnx, ls_serving_value *values,
                              size_t capacity);

// ---- As a model ------------------------------------------------------------
// Creates a type of models from the file of a classifier: of one input,
// [batch, ...], and of logits [batch, ..., classes] as first output. A softmax
// at the end is left out of the logits. An input of images with channels first,
// [batch, 1 or 3, height, width], takes examples with channels last; the logits
// may then be [batch, classes, height, width]. The caller owns it, and keeps it
// until its models are destroyed.
//   LS_UNIMPLEMENTED  another form of inputs or outputs.
LS_API LS_MUST_USE ls_status ls_onnx_type_create(const char *path,
                                                 ls_model_type **out_type);
LS_API void ls_onnx_type_destroy(ls_model_type *type);  // NULL is fine.

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ONNX_H_
