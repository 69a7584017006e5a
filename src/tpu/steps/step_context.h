// SPDX-License-Identifier: Apache-2.0
//
// Outputs of steps on an iterator.
#ifndef LS_TPU_STEPS_STEP_CONTEXT_H_
#define LS_TPU_STEPS_STEP_CONTEXT_H_

#include "base/memory/own.h"
#include "lockstep/object.h"
#include "lockstep/steps.h"

struct ls_step_context {
  ls_object object;
  ls_allocator *allocator;
  // Dicts by name. `reductions` has an ls_reduce_op for each output that was
  // set on its own, and none for the others.
  ls_nest outputs, reductions, others;
  ls_op run_op;
};

LS_OWNED_POINTER(ls_step_context, ls_step_context_release)
LS_MUST_USE ls_status ls_step_context_make(ls_step_context **out_context);

// Replaces the outputs by `values`, replica by replica, as many leaves as there
// are outputs. No values make an empty dict.
LS_MUST_USE ls_status ls_step_context_give(ls_step_context *context,
                                           const ls_nest *values, size_t count,
                                           size_t replicas);

// The outputs of a step that is built across replicas, as plain values: leaf by
// leaf in the order of the names, with one value or one per replica.
typedef struct ls_step_parts {
  ls_allocator *allocator;
  ls_tensor *values;
  size_t num_values, values_capacity;
  size_t *sizes;  // Each leaf's number of replicas; 0: one value.
  size_t num_leaves, sizes_capacity;
} ls_step_parts;
LS_MUST_USE ls_status ls_step_parts_take(ls_step_parts *parts,
                                         const ls_step_context *context);
// Replaces the outputs by such values.
LS_MUST_USE ls_status ls_step_parts_give(const ls_step_parts *parts,
                                         const ls_nest *values,
                                         ls_step_context *context);
void ls_step_parts_drop(ls_step_parts *parts);
LS_OWNED_STRUCT(ls_step_parts, ls_step_parts_drop)

#endif  // LS_TPU_STEPS_STEP_CONTEXT_H_
