// SPDX-License-Identifier: Apache-2.0
//
// Data sets of strategies: what they become is up to the class.
#include "distribute/strategies/strategy.h"

#include "base/require.h"

ls_status ls_strategy_distribute_dataset(ls_strategy *strategy, ls_nest dataset,
                                         ls_nest *out_dataset) {
  LS_REQUIRE(strategy);
  LS_REQUIRE(out_dataset);
  *out_dataset = ls_none();
  return strategy->kind->distribute(
      strategy,
      &(ls_input_request){.what = "distribute_dataset", .dataset = dataset},
      out_dataset);
}

ls_status ls_strategy_distribute_datasets_from_function(
    ls_strategy *strategy, ls_dataset_function function, void *user,
    ls_nest *out_dataset) {
  LS_REQUIRE(strategy);
  LS_REQUIRE(function);
  LS_REQUIRE(out_dataset);
  *out_dataset = ls_none();
  if (function == NULL)
    return ls_invalid_argument("the function of data sets is NULL");
  return strategy->kind->distribute(
      strategy,
      &(ls_input_request){.what = "distribute_datasets_from_function",
                          .function = function,
                          .user = user},
      out_dataset);
}
