// SPDX-License-Identifier: Apache-2.0
// Layer: graph
//
// Creators that intercept the creation of variables, and properties of a
// variable: components, slices, initializers.
//
// Threads: as in lockstep/variable.h.
#ifndef LOCKSTEP_VARIABLE_PARTS_H_
#define LOCKSTEP_VARIABLE_PARTS_H_

#include "lockstep/variable.h"

#ifdef __cplusplus
extern "C" {
#endif

// Creates a variable and returns its value in the current graph: cast to bf16
// if a bfloat16 scope stores it as f32.
LS_API LS_MUST_USE ls_status ls_get_variable(const ls_variable_options *options,
                                             ls_variable **out_variable,
                                             ls_tensor *out_value);
// Begins a scope in which ls_get_variable stores bf16 variables as f32, so that
// small changes add up, and returns bf16 values; initial values are converted.
// Names get the prefix of the name scope `name`, NULL or "": none. End it with
// ls_scope_end.
LS_API void ls_bfloat16_scope_begin(ls_scope *scope, const char *name);
#define LS_BFLOAT16_SCOPE(name) LS_SCOPE_(ls_bfloat16_scope_begin, name)

// ---- Creators --------------------------------------------------------------
// A maker of variables in a scope: the innermost creator is called first, and
// calls the next outer one; the last makes a plain variable.
typedef struct ls_creator ls_creator;
// Creates a variable; the caller owns a reference to `*out_variable`.
typedef ls_status (*ls_variable_creator)(const ls_creator *next,
                                         const ls_variable_options *options,
                                         void *user,
                                         ls_variable **out_variable);
LS_API LS_MUST_USE ls_status
ls_creator_create(const ls_creator *creator, const ls_variable_options *options,
                  ls_variable **out_variable);
// Begins a scope in which `create` makes variables; end it with ls_scope_end.
LS_API void ls_creator_scope_begin(ls_scope *scope, ls_variable_creator create,
                                   void *user);
#define LS_CREATOR_SCOPE(create, user)                                         \
  LS_SCOPE_(ls_creator_scope_begin, create, user)

// ---- Variables -------------------------------------------------------------
// Return the options it was created with; AUTO and NONE for a plain variable.
LS_API ls_variable_synchronization
ls_variable_synchronization_of(const ls_variable *variable);
LS_API ls_variable_aggregation
ls_variable_aggregation_of(const ls_variable *variable);
// Returns the canonical name of its device, lent; "" when it has none. For a
// distributed variable: in a replica or update the device of that component,
// else of the one on the current device, else of the first; in a computation of
// a TPU strategy it has none.
LS_API const char *ls_variable_device(const ls_variable *variable);
// Return the number of components of a distributed variable (the container), 0
// for any other, and the i-th, lent (NULL when there is none).
LS_API size_t ls_variable_num_components(const ls_variable *variable);
LS_API ls_variable *ls_variable_component(const ls_variable *variable,
                                          size_t index);
// Returns the build graph it was created in; NULL: eager.
LS_API ls_graph *ls_variable_graph(const ls_variable *variable);
// Returns a number that no other variable ever has; for a distributed one that
// of its first component.
LS_API uint64_t ls_variable_id(const ls_variable *variable);
// Returns the op that initializes it in its build graph; failed in eager. For a
// distributed variable it runs the initializers of all components.
LS_API ls_op ls_variable_initializer(const ls_variable *variable);
// Replaces the initializer.
//   LS_INVALID_ARGUMENT  no op of its build graph.
LS_API LS_MUST_USE ls_status ls_variable_set_initializer(ls_variable *variable,
                                                         ls_op op);
// Returns true if the variable has a constraint (ls_variable_constrain applies
// it), which optimizers must honor.
LS_API bool ls_variable_has_constraint(const ls_variable *variable);
// Marks a variable as a slice of a larger one: a saver writes it by its own
// name and shape. For a distributed variable set on every component.
typedef struct ls_slice_info {
  char full_name[256];  // Name of the whole variable.
  ls_shape full_shape;
  ls_shape offset;  // Start of the slice in each dimension.
} ls_slice_info;
LS_API LS_MUST_USE ls_status ls_variable_set_slice(ls_variable *variable,
                                                   const ls_slice_info *slice);
LS_API const ls_slice_info *ls_variable_slice(const ls_variable *variable);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_VARIABLE_PARTS_H_
