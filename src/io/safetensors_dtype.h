// SPDX-License-Identifier: Apache-2.0
// Names of dtypes in safetensors files.
#ifndef LS_IO_SAFETENSORS_DTYPE_H_
#define LS_IO_SAFETENSORS_DTYPE_H_

#include "lockstep/shape.h"

// Returns the name of a dtype; NULL if the format does not have it.
static inline const char *ls_safetensors_dtype_name(ls_dtype dtype) {
  static const char *const names[LS_DTYPE_COUNT] = {
      [LS_DTYPE_F64] = "F64",   [LS_DTYPE_F32] = "F32", [LS_DTYPE_F16] = "F16",
      [LS_DTYPE_BF16] = "BF16", [LS_DTYPE_I8] = "I8",   [LS_DTYPE_I16] = "I16",
      [LS_DTYPE_I32] = "I32",   [LS_DTYPE_I64] = "I64", [LS_DTYPE_U8] = "U8",
      [LS_DTYPE_U16] = "U16",   [LS_DTYPE_U32] = "U32", [LS_DTYPE_U64] = "U64",
      [LS_DTYPE_BOOL] = "BOOL",
  };
  return names[dtype];
}

#endif  // LS_IO_SAFETENSORS_DTYPE_H_
