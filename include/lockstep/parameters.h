// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Declared parameters of a callback. C functions have no argument names, so a
// callback that takes arguments by name, or wants their number checked,
// declares them.
//
// A declared callback gets a tuple with an item for each parameter, in order;
// then, if it takes more by position, a list of those; then, if it takes other
// names, a dict of those. A callback without a declaration gets the positional
// arguments unchanged, followed by the named ones as a dict.
//
// Threads: parameters are read only.
#ifndef LOCKSTEP_PARAMETERS_H_
#define LOCKSTEP_PARAMETERS_H_

#include "lockstep/nest.h"

#ifdef __cplusplus
extern "C" {
#endif

// Zeroed: no parameters. Everything that the fields point to is lent.
typedef struct ls_parameters {
  const char *const *names;
  size_t count;
  // Number of first parameters that cannot be passed by name.
  size_t num_positional_only;
  // Number of last parameters that may be omitted, and are then none.
  size_t num_optional;
  bool variadic;   // Takes more by position.
  bool any_names;  // Takes other names.
} ls_parameters;

// Makes the arguments as such a callback gets them, which the caller owns.
// `args` is a list, a tuple or none, `named` a dict or none, both lent;
// `parameters` may be NULL: nothing is declared. `callee` is the callback's
// name in messages.
//   LS_INVALID_ARGUMENT  too many or too few, one passed twice, or an unknown
//                        name: says which, and what is accepted.
LS_API LS_MUST_USE ls_status ls_parameters_bind(const ls_parameters *parameters,
                                                const char *callee,
                                                ls_nest args, ls_nest named,
                                                ls_nest *out_bound);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_PARAMETERS_H_
