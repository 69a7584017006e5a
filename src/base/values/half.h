// SPDX-License-Identifier: Apache-2.0
#ifndef LS_BASE_VALUES_HALF_H_
#define LS_BASE_VALUES_HALF_H_

#include "lockstep/shape.h"

// Floats of 16 bits, which are computed in f32.
static inline bool ls_is_half(ls_dtype dtype) {
  return dtype == LS_DTYPE_F16 || dtype == LS_DTYPE_BF16;
}

#endif  // LS_BASE_VALUES_HALF_H_
