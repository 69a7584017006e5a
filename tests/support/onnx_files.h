// SPDX-License-Identifier: Apache-2.0
//
// ONNX files, written byte by byte.
#ifndef LS_TESTS_SUPPORT_ONNX_FILES_H_
#define LS_TESTS_SUPPORT_ONNX_FILES_H_

#include "io/protobuf/protobuf.h"
#include "lockstep/onnx.h"

// Types of numbers, and the usual opset.
enum { ONNX_F32 = 1, ONNX_U8 = 2, ONNX_I32 = 6, ONNX_I64 = 7, ONNX_OPSET = 17 };

// Returns an empty text: a graph, to which these add.
ls_text onnx_text(void);
// Adds words, separated by spaces, to a field; "-" is the empty one.
void onnx_add_words(ls_text *out, unsigned field, const char *words);
// Adds a node "the_node": inputs and outputs separated by spaces, then
// attributes such as "axis=1", "pads=1,1,1,1," or "mode=edge"; reals have a
// point, lists a comma behind each number; "axis=@2" has a type and no value.
void onnx_add_node(ls_text *out, const char *type, const char *inputs,
                   const char *outputs, const char *attrs);
// Adds nodes, separated by ';', each "Type inputs -> output attrs".
void onnx_add_chain(ls_text *graph, const char *nodes);
// Adds an initializer of one or two dimensions (columns 0: one).
void onnx_add_floats(ls_text *out, const char *name, int64_t rows,
                     int64_t columns, const float *values);
void onnx_add_integers(ls_text *out, const char *name, int64_t count,
                       const int64_t *values);
void onnx_add_integers_of(ls_text *out, const char *name, int64_t type,
                          int64_t count, const int64_t *values);
// Adds an input (field 11), output (12) or other value (13) of floats; a size
// of -1 is unknown.
void onnx_add_port(ls_text *out, unsigned field, const char *name,
                   ls_shape shape);
// Returns the file of a graph.
ls_text onnx_model(const ls_text *graph, int64_t opset);
// Reads a graph as the file "net.onnx".
ls_status onnx_decode(const ls_text *graph, int64_t opset, ls_onnx **out);

#endif  // LS_TESTS_SUPPORT_ONNX_FILES_H_
