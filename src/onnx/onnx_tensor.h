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
  size_t arrays_capacity;
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

// Numbers of a list: of one varint or of packed ones.
typedef struct ls_onnx_list {
  int64_t *items;
  size_t count, capacity;
} ls_onnx_list;
LS_MUST_USE ls_status ls_onnx_list_add(ls_onnx_reader *r, ls_onnx_list *list,
                                       const ls_proto_field *field);
// Makes room for one more item of this size; the block is in the file's arena.
LS_MUST_USE ls_status ls_onnx_grow(ls_onnx_reader *r, void *items, size_t count,
                                   size_t *capacity, size_t item_size);

#endif  // LS_ONNX_ONNX_TENSOR_H_
