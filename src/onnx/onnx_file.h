// SPDX-License-Identifier: Apache-2.0
//
// ONNX files as structs: nodes, initializers, inputs and outputs. Values, which
// ONNX names, are numbered; a node uses only values of earlier nodes.
//
// Nothing is known here of what ops mean.
#ifndef LS_ONNX_ONNX_FILE_H_
#define LS_ONNX_ONNX_FILE_H_

#include "base/memory/own.h"
#include "io/protobuf/protobuf.h"
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
  ls_onnx_port *between;           // Other values, if the file describes them.
  size_t num_nodes, num_initializers, num_inputs, num_outputs, num_between;
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

// ---- Readers of messages ---------------------------------------------------
// Parts shared by the readers of ONNX files: messages field by field, and
// tensors.

typedef struct ls_onnx_reader {
  ls_runtime *runtime;
  ls_onnx_file *file;
  ls_map values;  // Numbers of values by name.
} ls_onnx_reader;

// Calls `read` for each field of a message.
typedef ls_status (*ls_onnx_read_field)(ls_onnx_reader *r,
                                        const ls_proto_field *field, void *out);
LS_MUST_USE ls_status ls_onnx_read_message(ls_onnx_reader *r,
                                           const ls_proto_field *message,
                                           ls_onnx_read_field read, void *out);
// Returns an error about the file.
LS_MUST_USE ls_status ls_onnx_damaged(const ls_onnx_reader *r,
                                      const char *what);
// Copies a string of a message; NULL without memory, or with a zero byte.
const char *ls_onnx_string(ls_onnx_reader *r, const ls_proto_field *field);

// Reads a TensorProto; `*out_name` may be "". The file owns the array.
LS_MUST_USE ls_status ls_onnx_read_tensor(ls_onnx_reader *r,
                                          const ls_proto_field *message,
                                          const char **out_name,
                                          ls_array **out_array);

// Appends a zeroed item to a list in the file's arena, and returns it; NULL
// without memory. `items` is the address of the list's pointer.
void *ls_onnx_push(ls_onnx_reader *r, void *items, size_t *count,
                   size_t item_size);
#define LS_ONNX_PUSH_OR_RETURN(r, Type, name, items, count)                    \
  Type *name = ls_onnx_push(r, &(items), &(count), sizeof(Type));              \
  LS_RETURN_IF_NO_MEMORY(name)
// Appends the numbers of a field: one varint or packed ones.
LS_MUST_USE ls_status ls_onnx_add_numbers(ls_onnx_reader *r,
                                          const ls_proto_field *field,
                                          const int64_t **numbers,
                                          size_t *count);

#endif  // LS_ONNX_ONNX_FILE_H_
