// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// What a callback takes, declared: C knows no names of arguments, so who wants
// to give them by name, or to have their number checked, says them.
//
// A declared callback gets a tuple with an item for each parameter, in order;
// then, if it takes more by position, a list of those; then, if it takes other
// names, a dict of those. A callback that declares nothing gets the arguments
// as they are given, and those with names as a dict behind them.
//
// Threads: parameters are read only.
#ifndef LOCKSTEP_PARAMETERS_H_
#define LOCKSTEP_PARAMETERS_H_

#include "lockstep/nest.h"

#ifdef __cplusplus
extern "C" {
#endif

// Zeroed: no parameters. All that it points to is lent.
typedef struct ls_parameters {
  const char *const *names;
  size_t count;
  size_t num_positional_only;  // The first so many cannot be given by name.
  size_t num_optional;  // The last so many may be left out, and come as none.
  bool variadic;        // Takes more by position.
  bool any_names;       // Takes other names.
} ls_parameters;

// The arguments as such a callback gets them. `args` is a list, a tuple or
// none, `named` a dict or none, both lent; `parameters` may be NULL: nothing is
// declared. `what` is called with them, for messages.
//   LS_INVALID_ARGUMENT  too many or too few, one given twice, or a name that
//                        there is not: says which, and what is taken.
LS_API LS_MUST_USE ls_status ls_parameters_bind(const ls_parameters *parameters,
                                                const char *what, ls_nest args,
                                                ls_nest named,
                                                ls_nest *out_bound);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_PARAMETERS_H_
