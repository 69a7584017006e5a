// SPDX-License-Identifier: Apache-2.0
// Layer: graph
//
// Ops on strings. The host runs them: a string is any bytes, and no core
// computes with it. They have no gradients. Where an op takes several operands
// they are of one shape, but for scalars, which go with each element.
//
// Threads: a maker adds to the current graph of the thread that calls it.
#ifndef LOCKSTEP_STRINGS_H_
#define LOCKSTEP_STRINGS_H_

#include "lockstep/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

// Each number as text: the shortest that reads back to the same bits; "true"
// and "false" of a bool. Strings as they are.
LS_PLACED ls_tensor ls_as_string(ls_tensor x);
// Each text as a number of `dtype`, with blanks around it at most. A run fails
// with INVALID_ARGUMENT where one is no number, or none of that dtype.
LS_PLACED ls_tensor ls_string_to_number(ls_tensor x, ls_dtype dtype);
// The operands' texts, one behind the other with the separator in between.
LS_PLACED ls_tensor ls_string_join(const ls_tensor *xs, size_t count,
                                   const char *separator);
// Whether the bytes are equal.
LS_PLACED ls_tensor ls_string_equal(ls_tensor x, ls_tensor y);
// How many bytes, as i32.
LS_PLACED ls_tensor ls_string_length(ls_tensor x);
// ASCII letters in the other case; all other bytes as they are.
LS_PLACED ls_tensor ls_string_lower(ls_tensor x);
LS_PLACED ls_tensor ls_string_upper(ls_tensor x);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_STRINGS_H_
