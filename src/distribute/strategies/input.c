// SPDX-License-Identifier: Apache-2.0
//
// Data sets of strategies: on the default strategy they are what they are.
#include "distribute/strategies/strategy.h"

#include "base/require.h"

static ls_status check(const ls_strategy *strategy, const char *what) {
  return strategy->kind == LS_STRATEGY_DEFAULT
             ? ls_ok()
             : ls_unimplemented("%s of %s: split batches with "
                                "ls_strategy_split",
                                what, strategy->label);
}

ls_status ls_strategy_distribute_dataset(ls_strategy *strategy, ls_nest dataset,
                                         ls_nest *out_dataset) {
  LS_REQUIRE(strategy);
  LS_REQUIRE(out_dataset);
  *out_dataset = ls_none();
  LS_RETURN_IF_ERROR(check(strategy, "distribute_dataset"));
  *out_dataset = ls_nest_retain(dataset);
  return ls_ok();
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
  LS_RETURN_IF_ERROR(check(strategy, "distribute_datasets_from_function"));
  return ls_take_nest(
      function((ls_input_context){.num_pipelines = 1, .num_replicas = 1}, user),
      out_dataset);
}
