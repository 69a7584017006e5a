// SPDX-License-Identifier: Apache-2.0
//
// ONNX files as structs: nodes, initializers, inputs and outputs. Values, which
// ONNX names, are numbered; a node uses only values of earlier nodes.
//
// Nothing is known here of what ops mean.
#ifndef LS_ONNX_ONNX_FILE_H_
#define LS_ONNX_ONNX_FILE_H_

#include "base/memory/own.h"
#include "lockstep/graph.h"

typedef enum ls_onnx_attr_kind {
  LS_ONNX_FLOAT = 1,
  LS_ONNX_INT = 2,
  LS_ONNX_STRING = 3,
  LS_ONNX_TENSOR = 4,
  LS_ONNX_GRAPH = 5,
  LS_ONNX_FLOATS = 6,
  LS_ONNX_INTS = 7,
  LS_ONNX_STRINGS = 8,
} ls_onnx_attr_kind;

typedef struct ls_onnx_attr {
  const char *name;
  ls_onnx_attr_kind kind;
  int64_t number;
  double real;
  const char *text;
  const int64_t *numbers;
  const double *reals;
  const char *const *texts;
  size_t count;     // Number of items of a list.
  ls_array *array;  // Owned by the file.
} ls_onnx_attr;

typedef struct ls_onnx_node {
  const char *type, *name;
  const char *domain;                // "" for ONNX's own ops.
  const uint32_t *inputs, *outputs;  // Values; 0: not given.
  size_t num_inputs, num_outputs;
  const ls_onnx_attr *attrs;
  size_t num_attrs;
} ls_onnx_node;

typedef struct ls_onnx_initializer {
  uint32_t value;
  ls_array *array;   // Owned by the file.
  bool is_variable;  // Has its value in a file of weights.
  bool is_fixed;     // Is not trained.
} ls_onnx_initializer;

// An input or output of the graph. Sizes that the file leaves open are unknown.
typedef struct ls_onnx_port {
  uint32_t value;
  const char *name;
  ls_type type;
} ls_onnx_port;

typedef struct ls_onnx_file {
  ls_arena memory;
  const char *path;
  int64_t opset;       // Version of ONNX's own ops.
  const char **names;  // Name of each value.
  ls_type *types;      // Type of each value, in StableHLO.
  size_t num_values;   // Values are 1 to num_values - 1.
  ls_onnx_node *nodes;
  ls_onnx_initializer *initializers;
  ls_onnx_port *inputs, *outputs;  // Without inputs that are initializers.
  size_t num_nodes, num_initializers, num_inputs, num_outputs;
  ls_array **arrays;  // All arrays, for their release.
  size_t num_arrays;
} ls_onnx_file;

// Reads a file of up to 2 GiB, and the files of tensors that it names, which
// lie in its folder. Call deinit even after a failure.
//   LS_INVALID_ARGUMENT  damaged: says what and, where known, of which node.
//   LS_UNIMPLEMENTED     a type of numbers, or a value that is no tensor.
LS_MUST_USE ls_status ls_onnx_file_open(ls_runtime *runtime, const char *path,
                                        ls_onnx_file *out_file);
// Reads a file from memory. `path` is for messages, and for files beside it.
LS_MUST_USE ls_status ls_onnx_file_decode(ls_runtime *runtime, const char *path,
                                          const void *data, size_t size,
                                          ls_onnx_file *out_file);
void ls_onnx_file_deinit(ls_onnx_file *file);
LS_OWNED_STRUCT(ls_onnx_file, ls_onnx_file_deinit)

// Returns the dtype of an ONNX number type; LS_DTYPE_NONE if there is none.
ls_dtype ls_onnx_dtype_of(int64_t number);

#endif  // LS_ONNX_ONNX_FILE_H_
