// SPDX-License-Identifier: Apache-2.0
// The simplest functions of each kind that a caller hands over.
#ifndef LS_TESTS_SUPPORT_CALLBACKS_H_
#define LS_TESTS_SUPPORT_CALLBACKS_H_

#include "lockstep/dataset.h"
#include "lockstep/host.h"
#include "lockstep/strategy.h"
#include "lockstep/variable_parts.h"

// ---- Functions of values ----------------------------------------------------
ls_nest give_args(ls_nest args, void *user);
ls_nest give_none(ls_nest args, void *user);
// Conditions of loops: true, and whether the first value is below 3.
ls_nest always_true(ls_nest values, void *user);
ls_nest below_three(ls_nest values, void *user);
// A merge function.
ls_nest merge_none(ls_strategy *strategy, ls_nest args, void *user);

// Counts the variables that are created, in the int at `user`.
ls_status count_creation(const ls_creator *next,
                         const ls_variable_options *options, void *user,
                         ls_variable **out_variable);

// ---- Host kernels -----------------------------------------------------------
// One result of the first operand's type.
ls_status infer_like_first(const ls_object *state, const ls_type *in,
                           size_t num_in, ls_type *out, size_t *num_out);
// Does nothing.
ls_status finish_at_once(ls_host_call *call);
// Minus the tensor at `user`.
ls_nest negate_user(ls_nest none, void *user);
// Minus the first value.
ls_nest negate_first(ls_nest args, void *user);
// Minus a nest that is a tensor.
ls_nest negate_leaf(ls_nest args, void *user);
// A gradient function that changes nothing.
ls_nest keep_gradients(ls_nest inputs, ls_nest outputs, ls_nest gradients,
                       void *user);
// The first argument as it is.
ls_nest give_first(ls_nest args, void *user);
// Ends a call that was asked to end.
void cancel_call(ls_host_call *call);
// A map function that changes nothing.
ls_nest keep_element(ls_nest element, const ls_map_call *call, void *user);
// A filter that keeps all.
ls_status keep_all(ls_nest element, const ls_map_call *call, void *user,
                   bool *out_keep);

#endif  // LS_TESTS_SUPPORT_CALLBACKS_H_
