// SPDX-License-Identifier: Apache-2.0
// Layer: graph
//
// Variables: identity and rules. A variable has a name, a type and flags, but
// no value: values are in stores, one for eager, one in each session.
//
// Counted. Reads and writes are ops of the thread's current graph.
#ifndef LOCKSTEP_VARIABLE_H_
#define LOCKSTEP_VARIABLE_H_

#include "lockstep/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_variable ls_variable;

// A callback over nests; `args` is lent, the result is the caller's.
typedef ls_nest (*ls_callback)(ls_nest args, void *user);

// How to make a variable. Zero in a field means its default.
typedef struct ls_variable_options {
  const char *name;  // Within the current name scope. Default "Variable".
  ls_dtype dtype;    // Default: the initial value's.
  ls_shape shape;    // Used with an initializer callback.
  // The initial value: an array (lent, copied), else a tensor, else what the
  // callback returns (a tensor leaf of this dtype and shape), else zeros of
  // `dtype` and `shape`. Ops for it are made in the init scope.
  const ls_array *initial_array;
  ls_tensor initial_value;
  ls_callback initializer;  // args: none.
  void *initializer_user;
  ls_flag trainable;  // Default on.
} ls_variable_options;

// Creates a variable where the init scope leads: in a build graph it gets an
// initializer op, in eager it is initialized at once. The caller owns a
// reference.
//   LS_INVALID_ARGUMENT  no dtype, or an initial value of another type.
LS_API LS_MUST_USE ls_status ls_variable_create(
    const ls_variable_options *options, ls_variable **out_variable);

LS_API ls_variable *ls_variable_retain(ls_variable *variable);
LS_API void ls_variable_release(ls_variable *variable);

LS_API const char *ls_variable_name(const ls_variable *variable);
LS_API ls_dtype ls_variable_dtype(const ls_variable *variable);
LS_API ls_shape ls_variable_shape(const ls_variable *variable);
LS_API bool ls_variable_is_trainable(const ls_variable *variable);
// The op that initializes it in its build graph; failed in eager.
LS_API ls_op ls_variable_initializer(const ls_variable *variable);

// The value at this point of the current graph.
LS_PLACED ls_tensor ls_variable_read(ls_variable *variable);
// Writes. Each returns the value afterwards.
LS_PLACED ls_tensor ls_variable_assign(ls_variable *variable, ls_tensor value);
LS_PLACED ls_tensor ls_variable_assign_add(ls_variable *variable,
                                           ls_tensor delta);
LS_PLACED ls_tensor ls_variable_assign_sub(ls_variable *variable,
                                           ls_tensor delta);

// Writes the rows at some indices: as ls_scatter, with the variable in place of
// x. Only those rows are touched, where nothing else needs what was there
// before. For an effect alone: no gradient passes.
LS_PLACED ls_tensor ls_variable_scatter(ls_variable *variable, ls_scatter_op op,
                                        ls_tensor indices, ls_tensor updates);
LS_PLACED ls_tensor ls_variable_scatter_update(ls_variable *variable,
                                               ls_tensor indices,
                                               ls_tensor updates);
LS_PLACED ls_tensor ls_variable_scatter_add(ls_variable *variable,
                                            ls_tensor indices,
                                            ls_tensor updates);

// A leaf that holds the variable: takes one more reference.
LS_API ls_nest ls_nest_variable(ls_variable *variable);
// The variable of a leaf, lent; NULL if it is none.
LS_API ls_variable *ls_nest_as_variable(ls_nest nest);

// The op that runs all initializers of a build graph's variables.
LS_PLACED ls_op ls_global_initializer(void);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_VARIABLE_H_
