// SPDX-License-Identifier: Apache-2.0
#ifndef LS_DISTRIBUTE_VARIABLES_UPDATE_H_
#define LS_DISTRIBUTE_VARIABLES_UPDATE_H_

#include "distribute/strategies/strategy.h"

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

// One op after all of these: a no-op for each of their devices, in sorted
// order, and one over those; with one device that alone. Default name
// "group_deps".
ls_op ls_group_by_device(const ls_op *ops, size_t count, const char *name);

// A nest of mirrored values as one of tuples, each what
// ls_strategy_local_results says.
ls_status ls_update_ungroup(ls_strategy *strategy, ls_nest value,
                            ls_nest *out_value);

#endif  // LS_DISTRIBUTE_VARIABLES_UPDATE_H_
