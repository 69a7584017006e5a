// SPDX-License-Identifier: Apache-2.0
//
// ONNX files: protobuf messages, by the numbers of their fields.
#ifndef LS_SERVE_ONNX_H_
#define LS_SERVE_ONNX_H_

#include "base/memory/own.h"
#include "serve/emit.h"

// A graph being written.
typedef struct ls_onnx {
  ls_emitter e;
  ls_text nodes, initializers;
  ls_text name;       // Scratch.
  size_t began;       // The node at hand.
  ls_emitted batch;   // i64[1]; 0: nobody has asked.
  ls_emitted source;  // An input whose first dimension is the batch's.
} ls_onnx;

extern const ls_emit_language ls_onnx_language;

// The format's number of a dtype, 0: it has none.
int64_t ls_onnx_dtype(ls_dtype dtype);

// ---- Nodes -----------------------------------------------------------------
// One at a time: its operands and results, then attributes.
void ls_onnx_begin(ls_onnx *o, const char *op);
void ls_onnx_input(ls_onnx *o, ls_emitted value);
void ls_onnx_output(ls_onnx *o, ls_emitted value);
void ls_onnx_int(ls_onnx *o, const char *name, int64_t value);
void ls_onnx_ints(ls_onnx *o, const char *name, const int64_t *values,
                  size_t count);
void ls_onnx_end(ls_onnx *o);
// One of up to three operands and nothing else.
void ls_onnx_node(ls_onnx *o, const char *op, const ls_emitted *in,
                  size_t count, ls_emitted out);

// A tensor with a name, in the graph's list of those.
void ls_onnx_initializer(ls_onnx *o, const char *name, const ls_array *array);
ls_emitted ls_onnx_i64s(ls_onnx *o, const int64_t *values, size_t count);
// Sizes as a tensor, computed where they depend on the batch.
ls_emitted ls_onnx_sizes(ls_onnx *o, const ls_dim *sizes, int32_t count);

#endif  // LS_SERVE_ONNX_H_
