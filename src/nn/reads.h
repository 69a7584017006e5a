// SPDX-License-Identifier: Apache-2.0
// Reads: which variables a value depends on.
#ifndef LS_NN_READS_H_
#define LS_NN_READS_H_

#include "base/memory/allocator.h"
#include "lockstep/variable.h"

// The trainable variables that are read on the way to `value`, in its graph,
// in graphs around it and in regions, in the order in which they were made.
// The caller gives the array back with ls_release; the variables are lent.
LS_MUST_USE ls_status ls_reads_find(ls_allocator *allocator, ls_tensor value,
                                    ls_variable ***out_variables,
                                    size_t *out_count);

#endif  // LS_NN_READS_H_
