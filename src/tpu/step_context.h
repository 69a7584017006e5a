// SPDX-License-Identifier: Apache-2.0
//
// What steps on an iterator say besides their results.
#ifndef LS_TPU_STEP_CONTEXT_H_
#define LS_TPU_STEP_CONTEXT_H_

#include "lockstep/object.h"
#include "lockstep/steps.h"

struct ls_step_context {
  ls_object object;
  ls_allocator *allocator;
  // Dicts by name. `reductions` has an ls_reduce_op, or none, for each output
  // that was set by itself.
  ls_nest outputs, reductions, others;
  ls_op run_op;
};

LS_MUST_USE ls_status ls_step_context_make(ls_step_context **out_context);

// The outputs are `values`, of `replicas` one behind the other: so many leaves
// as the outputs have, each time. None: an empty dict.
LS_MUST_USE ls_status ls_step_context_give(ls_step_context *context,
                                           const ls_nest *values, size_t count,
                                           size_t replicas);

#endif  // LS_TPU_STEP_CONTEXT_H_
