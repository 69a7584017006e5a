// SPDX-License-Identifier: Apache-2.0
// ONNX models: numbers of the fields of messages, and of types.
#ifndef LS_IO_PROTOBUF_ONNX_H_
#define LS_IO_PROTOBUF_ONNX_H_

#include "lockstep/shape.h"

// Field numbers of messages.
enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_GRAPH = 7, MODEL_OPSET = 8 };
enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum {
  GRAPH_NODE = 1,
  GRAPH_NAME = 2,
  GRAPH_INITIALIZER = 5,
  GRAPH_INPUT = 11,
  GRAPH_OUTPUT = 12,
  GRAPH_VALUE = 13
};
enum {
  NODE_INPUT = 1,
  NODE_OUTPUT = 2,
  NODE_NAME = 3,
  NODE_OP = 4,
  NODE_ATTRIBUTE = 5,
  NODE_DOMAIN = 7
};
enum {
  ATTR_NAME = 1,
  ATTR_FLOAT = 2,
  ATTR_INT = 3,
  ATTR_STRING = 4,
  ATTR_TENSOR = 5,
  ATTR_GRAPH = 6,
  ATTR_FLOATS = 7,
  ATTR_INTS = 8,
  ATTR_STRINGS = 9,
  ATTR_TYPE = 20
};
enum { VALUE_NAME = 1, VALUE_TYPE = 2 };
enum { TYPE_TENSOR = 1, TYPE_ELEMENT = 1, TYPE_SHAPE = 2 };
enum { SHAPE_DIM = 1 };
enum { DIM_VALUE = 1, DIM_PARAM = 2 };
enum {
  TENSOR_DIM = 1,
  TENSOR_TYPE = 2,
  TENSOR_FLOATS = 4,
  TENSOR_INT32S = 5,
  TENSOR_INT64S = 7,
  TENSOR_NAME = 8,
  TENSOR_RAW = 9,
  TENSOR_DOUBLES = 10,
  TENSOR_UINT64S = 11,
  TENSOR_EXTERNAL = 13,
  TENSOR_LOCATION = 14
};
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };

// Returns the number of a type, or 0.
static inline int64_t ls_onnx_dtype(ls_dtype dtype) {
  static const int64_t numbers[LS_DTYPE_COUNT] = {
      [LS_DTYPE_F64] = 11,  [LS_DTYPE_F32] = 1,  [LS_DTYPE_F16] = 10,
      [LS_DTYPE_BF16] = 16, [LS_DTYPE_I8] = 3,   [LS_DTYPE_I16] = 5,
      [LS_DTYPE_I32] = 6,   [LS_DTYPE_I64] = 7,  [LS_DTYPE_U8] = 2,
      [LS_DTYPE_U16] = 4,   [LS_DTYPE_U32] = 12, [LS_DTYPE_U64] = 13,
      [LS_DTYPE_BOOL] = 9};
  return (size_t)dtype < LS_DTYPE_COUNT ? numbers[dtype] : 0;
}

// Returns the type of a number, or LS_DTYPE_NONE.
static inline ls_dtype ls_onnx_dtype_of(int64_t number) {
  for (int dtype = LS_DTYPE_NONE + 1; dtype < LS_DTYPE_COUNT; ++dtype)
    if (number != 0 && ls_onnx_dtype((ls_dtype)dtype) == number)
      return (ls_dtype)dtype;
  return LS_DTYPE_NONE;
}

#endif  // LS_IO_PROTOBUF_ONNX_H_
