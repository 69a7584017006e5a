// SPDX-License-Identifier: Apache-2.0
// A loaded ONNX file.
#ifndef LS_ONNX_ONNX_LOAD_H_
#define LS_ONNX_ONNX_LOAD_H_

#include "lockstep/onnx.h"
#include "nn/own.h"
#include "onnx/onnx_file.h"

struct ls_onnx {
  ls_allocator *allocator;
  ls_onnx_file file;
  ls_variable **variables;  // One per initializer; NULL: a constant.
};
LS_OWNED_POINTER(ls_onnx, ls_onnx_destroy)

// Loads a file from memory. `path` is for messages.
LS_MUST_USE ls_status ls_onnx_decode(const char *path, const void *data,
                                     size_t size, ls_onnx **out_onnx);

// Makes some values of the file.
LS_MUST_USE ls_status ls_onnx_make(const ls_onnx *onnx, ls_nest inputs,
                                   bool training, const uint32_t *wanted,
                                   size_t count, ls_tensor *out_tensors);
// Returns the value of the first output, before a softmax at its end.
uint32_t ls_onnx_logits(const ls_onnx_file *file);

#endif  // LS_ONNX_ONNX_LOAD_H_
