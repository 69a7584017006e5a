// SPDX-License-Identifier: Apache-2.0
// Layer: graph
//
// Ops on strings. The host runs them: a string is any bytes, and no core
// computes with it. They have no gradients. Several operands of an op must have
// one shape; scalars broadcast.
//
// Threads: a maker adds to the current graph of the thread that calls it.
#ifndef LOCKSTEP_STRINGS_H_
#define LOCKSTEP_STRINGS_H_

#include "lockstep/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

// Formats each number as the shortest text that reads back to the same bits;
// bools as "true" and "false". Strings are unchanged.
LS_PLACED ls_tensor ls_as_string(ls_tensor x);
// Parses each text as a number of `dtype`, with optional blanks around it. A
// run fails with INVALID_ARGUMENT if one is no number, or out of range for that
// dtype.
LS_PLACED ls_tensor ls_string_to_number(ls_tensor x, ls_dtype dtype);
// Joins the operands' texts, with the separator in between.
LS_PLACED ls_tensor ls_string_join(const ls_tensor *xs, size_t count,
                                   const char *separator);
// Returns true for each pair with equal bytes.
LS_PLACED ls_tensor ls_string_equal(ls_tensor x, ls_tensor y);
// Returns the numbers of bytes, as i32.
LS_PLACED ls_tensor ls_string_length(ls_tensor x);
// Convert ASCII letters to lower and upper case; all other bytes are unchanged.
LS_PLACED ls_tensor ls_string_lower(ls_tensor x);
LS_PLACED ls_tensor ls_string_upper(ls_tensor x);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_STRINGS_H_
