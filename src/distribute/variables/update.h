// SPDX-License-Identifier: Apache-2.0
#ifndef LS_DISTRIBUTE_VARIABLES_UPDATE_H_
#define LS_DISTRIBUTE_VARIABLES_UPDATE_H_

#include "distribute/base/strategy.h"

// What is called for each component or device, or each item of a map.
struct ls_update_call {
  ls_strategy *strategy;
  ls_callback fn;
  void *user;
  ls_nest args;
  bool group;
};
// What its function gets: (first, arguments of component `id`...); `first` is
// lent, and left out where there is none.
ls_nest ls_update_args(const ls_update_call *call, ls_nest first,
                       bool has_first, size_t id);
// Whether the arguments are a list or a tuple, and mirrored if they are to be.
ls_status ls_update_check_args(ls_nest args, bool mirrored);
// Calls the function under the device, in the name scope "update_<id>", as the
// update of component `id`, with the arguments of component `position`.
ls_status ls_update_call_once(const ls_update_call *call, ls_nest first,
                              bool has_first, size_t position, int32_t id,
                              const char *device, ls_nest *out_result);
// Puts the results together, if it went well so far, and frees them.
ls_status ls_update_end(const ls_update_call *call, ls_nest *results,
                        size_t count, ls_status status, ls_nest *out_value);
// Whether it was called in a replica of the strategy, and what it is there.
bool ls_update_is_in_replica(const ls_update_call *call);
ls_status ls_update_in_replica(const ls_update_call *call,
                               ls_variable *variable, ls_nest *out_value);

// A nest of mirrored values as one of tuples, each what
// ls_strategy_local_results says.
ls_status ls_update_ungroup(ls_strategy *strategy, ls_nest value,
                            ls_nest *out_value);

#endif  // LS_DISTRIBUTE_VARIABLES_UPDATE_H_
