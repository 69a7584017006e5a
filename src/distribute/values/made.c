// SPDX-License-Identifier: Apache-2.0
//
// Values that are made with a part for each replica.
#include "base/memory/own.h"
#include "base/require.h"
#include "base/values/nest_internal.h"
#include "distribute/context/context.h"
#include "lockstep/strategy_extended.h"

ls_status ls_strategy_worker_device_index(ls_strategy *strategy,
                                          ls_nest *out_index) {
  LS_REQUIRE_OUT(out_index);
  LS_REQUIRE(strategy);
  LS_RETURN_IF_ERROR(
      ls_strategy_check_devices(strategy, "worker_device_index"));
  ls_crossing crossing;
  LS_RETURN_IF_ERROR(
      ls_cross_replica_begin(&crossing, strategy, "worker_device_index"));
  LS_RETURN_IF_ERROR(ls_cross_replica_end(&crossing, ls_ok(), NULL));
  const size_t count = (size_t)strategy->num_replicas;
  LS_OWN_ARRAY_OR_RETURN(strategy->allocator, ls_nest, items, count);
  for (size_t i = 0; i < count; ++i)
    items[i] = ls_nest_i64((int64_t)i);
  const ls_nest made = ls_nest_distributed_on(
      LS_PER_REPLICA, items, ls_strategy_devices(strategy), count);
  return ls_take_nest(made, out_index);
}

ls_status ls_strategy_split(ls_strategy *strategy, ls_array *array,
                            ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value);
  LS_REQUIRE(strategy);
  LS_REQUIRE(array);
  return ls_array_split(array, strategy->num_replicas, out_value);
}

ls_status ls_strategy_values_from_function(ls_strategy *strategy,
                                           ls_value_function function,
                                           void *user, ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value);
  LS_REQUIRE(strategy);
  LS_REQUIRE(function);
  if (function == NULL)
    return ls_invalid_argument("the function of values is NULL");
  LS_RETURN_IF_ERROR(
      ls_strategy_check_has(strategy, "distribute_values_from_function"));
  ls_crossing crossing;
  LS_RETURN_IF_ERROR(ls_cross_replica_begin(&crossing, strategy,
                                            "distribute_values_from_function"));
  const int32_t count = strategy->num_replicas;
  LS_OWN_ARRAY(strategy->allocator, ls_nest, values, (size_t)count);
  ls_status status = values == NULL ? ls_out_of_memory() : ls_ok();
  for (int32_t r = 0; r < count && ls_status_is_ok(status); ++r)
    status = ls_take_nest(function(r, count, user), &values[r]);
  if (ls_status_is_ok(status)) {
    if (!strategy->kind->distributes)
      *out_value = ls_nest_retain(values[0]);
    else
      status =
          ls_regroup(values, (size_t)count,
                     &(ls_regroup_options){.always_wrap = true}, out_value);
  }
  for (int32_t r = 0; values != NULL && r < count; ++r)
    ls_nest_release(values[r]);
  return ls_cross_replica_end(&crossing, status, out_value);
}
