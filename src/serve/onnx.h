// SPDX-License-Identifier: Apache-2.0
//
// Writes ONNX files: protobuf messages, by field numbers.
#ifndef LS_SERVE_ONNX_H_
#define LS_SERVE_ONNX_H_

#include "base/memory/own.h"
#include "serve/lowered.h"

// A graph being written.
typedef struct ls_onnx_writer {
  ls_emitter e;
  const ls_lowered_signature *program;
  ls_text nodes, initializers;
  ls_map names;  // Names of inputs, outputs and variables.
  const char **outputs;
  ls_text name;       // Temporary text.
  size_t began;       // Offset of the current node.
  ls_emitted batch;   // The batch size as i64[1]; 0: not emitted yet.
  ls_emitted source;  // An input whose first dimension is the batch size.
} ls_onnx_writer;

extern const ls_emit_language ls_onnx_language;

// ---- Nodes -----------------------------------------------------------------
// Begin a node; then add operands and results, then attributes.
void ls_onnx_begin(ls_onnx_writer *o, const char *op);
void ls_onnx_input(ls_onnx_writer *o, ls_emitted value);
void ls_onnx_output(ls_onnx_writer *o, ls_emitted value);
void ls_onnx_int(ls_onnx_writer *o, const char *name, int64_t value);
void ls_onnx_ints(ls_onnx_writer *o, const char *name, const int64_t *values,
                  size_t count);
void ls_onnx_end(ls_onnx_writer *o);
// Writes a node with up to three operands and no attributes.
void ls_onnx_write_node(ls_onnx_writer *o, const char *op, const ls_emitted *in,
                        size_t count, ls_emitted out);

// Adds a named tensor to the graph's initializers.
void ls_onnx_write_initializer(ls_onnx_writer *o, const char *name,
                               const ls_array *array);
ls_emitted ls_onnx_i64s(ls_onnx_writer *o, const int64_t *values, size_t count);
// Makes a tensor of sizes; computes those that depend on the batch.
ls_emitted ls_onnx_sizes(ls_onnx_writer *o, const ls_dim *sizes, int32_t count);

#endif  // LS_SERVE_ONNX_H_
