// SPDX-License-Identifier: Apache-2.0
// Parts shared by the readers of ONNX files: messages field by field, and
// tensors.
#ifndef LS_ONNX_ONNX_TENSOR_H_
#define LS_ONNX_ONNX_TENSOR_H_

#include "io/protobuf/protobuf.h"
#include "onnx/onnx_file.h"

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

#endif  // LS_ONNX_ONNX_TENSOR_H_
