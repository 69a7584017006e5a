// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Rules of types and shapes: parsing, merging, compatibility.
//
// Threads: any number of threads may call these at the same time.
#ifndef LOCKSTEP_SHAPE_RULES_H_
#define LOCKSTEP_SHAPE_RULES_H_

#include "lockstep/shape.h"

#ifdef __cplusplus
extern "C" {
#endif

// Parses the name of a dtype.
//   LS_INVALID_ARGUMENT  no such name; the message lists the known ones.
LS_API LS_MUST_USE ls_status ls_dtype_parse(const char *text,
                                            ls_dtype *out_dtype);
LS_API bool ls_dtype_is_unsigned(ls_dtype dtype);  // u8..u64
LS_API bool ls_dtype_is_complex(ls_dtype dtype);
// Returns true if gradients flow through it: floats, complex, resource,
// variant.
LS_API bool ls_dtype_is_trainable(ls_dtype dtype);
// Returns true if one actual shape could fit both.
LS_API bool ls_shape_compatible(ls_shape a, ls_shape b);
// Merges what both know. LS_INVALID_ARGUMENT names both when incompatible.
LS_API LS_MUST_USE ls_status ls_shape_merge(ls_shape a, ls_shape b,
                                            ls_shape *out_shape);
// Checks a shape. LS_INVALID_ARGUMENT: a rank above LS_MAX_RANK, a dimension
// below -1, or more than 2^46 elements, not counting dimensions of 0.
LS_API LS_MUST_USE ls_status ls_shape_check(ls_shape shape);
// Parses the output of ls_shape_print, from the whole of `text`.
//   LS_INVALID_ARGUMENT  names the text and the position of the first error.
LS_API LS_MUST_USE ls_status ls_shape_parse(const char *text,
                                            ls_dtype *out_dtype,
                                            ls_shape *out_shape);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SHAPE_RULES_H_
