// SPDX-License-Identifier: Apache-2.0
//
// A NULL where something is needed is refused by name.
#include "lockstep/cross_device.h"
#include "lockstep/export.h"
#include "lockstep/handles.h"
#include "lockstep/regroup.h"
#include "lockstep/replica.h"
#include "lockstep/strategy.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/summary.h"
#include "lockstep/variable_recipe.h"
#include "support/expect.h"

// Something that is not NULL; nobody looks at it before all are there.
static _Alignas(16) char place[512];
static void *const some = place;

TEST(calls_of_cross_device_refuse_null) {
  expect_null_argument(table, ls_cross_device_create, NULL, some, some);
  expect_null_argument(out_ops, ls_cross_device_create, some, some, NULL);
  expect_null_argument(out_ops, ls_reduce_to_one_create, some, NULL);
  expect_null_argument(out_ops, ls_all_reduce_ops_create, some, NULL);
  expect_null_argument(out_ops, ls_nccl_all_reduce_create, (ls_opt){0}, NULL);
  expect_null_argument(out_ops, ls_hierarchical_copy_create, (ls_opt){0}, NULL);
  expect_null_argument(machine, ls_cross_device_by_links, some, 1, NULL, some);
  expect_null_argument(out_ops, ls_cross_device_by_links, some, 1, some, NULL);
  expect_null_argument(devices, ls_cross_device_by_links, NULL, 1, some, some);
  expect_null_argument(out_ops, ls_cross_device_auto, some, 1, some, NULL);
  expect_null_argument(devices, ls_cross_device_auto, NULL, 1, some, some);
  expect_null_argument(ops, ls_cross_device_reduce, NULL, 0, (ls_nest){0},
                       (ls_destinations){0}, some);
  expect_null_argument(out_value, ls_cross_device_reduce, some, 0, (ls_nest){0},
                       (ls_destinations){0}, NULL);
  expect_null_argument(ops, ls_cross_device_batch_reduce, NULL, 0, some, some,
                       1, some);
  expect_null_argument(out_list, ls_cross_device_batch_reduce, some, 0, some,
                       some, 1, NULL);
  expect_null_argument(values, ls_cross_device_batch_reduce, some, 0, NULL,
                       some, 1, some);
  expect_null_argument(where, ls_cross_device_batch_reduce, some, 0, some, NULL,
                       1, some);
  expect_null_argument(ops, ls_cross_device_broadcast, NULL, (ls_nest){0},
                       (ls_destinations){0}, some);
  expect_null_argument(out_value, ls_cross_device_broadcast, some, (ls_nest){0},
                       (ls_destinations){0}, NULL);
  expect_null_argument(ops, ls_cross_device_gather, NULL, (ls_nest){0}, 0,
                       (ls_destinations){0}, some);
  expect_null_argument(out_value, ls_cross_device_gather, some, (ls_nest){0}, 0,
                       (ls_destinations){0}, NULL);
  expect_null_argument(out_sum, ls_sum_gradient, some, 1, false, NULL, some);
}

TEST(more_calls_of_cross_device_refuse_null) {
  expect_null_argument(items, ls_sum_gradient, NULL, 1, false, some, some);
}

TEST(calls_of_handles_refuse_null) {
  expect_null_argument(variable, ls_caching_variable_create, NULL, some);
  expect_null_argument(out_variable, ls_caching_variable_create, some, NULL);
  expect_null_argument(out_variable, ls_packed_variable_create, some, some, 1,
                       NULL);
  expect_null_argument(leaves, ls_packed_variable_create, some, NULL, 1, some);
  expect_null_argument(packed, ls_packed_variable_on, NULL, some, some);
  expect_null_argument(device, ls_packed_variable_on, some, NULL, some);
  expect_null_argument(out_variable, ls_packed_variable_on, some, some, NULL);
}

TEST(calls_of_regroup_refuse_null) {
  expect_null_argument(out_value, ls_regroup, some, 1, some, NULL);
  expect_null_argument(values, ls_regroup, NULL, 1, some, some);
  expect_null_argument(out_value, ls_select_replica, 0, (ls_nest){0}, NULL);
  expect_null_argument(out_value, ls_select_replica_mirrored, 0, (ls_nest){0},
                       NULL);
  expect_null_argument(strategy, ls_update_regroup, NULL, some, 1, false, some);
  expect_null_argument(out_value, ls_update_regroup, some, some, 1, false,
                       NULL);
  expect_null_argument(updates, ls_update_regroup, some, NULL, 1, false, some);
}

TEST(calls_of_strategy_refuse_null) {
  expect_null_argument(out_strategy, ls_mirrored_strategy_create, some, NULL);
  expect_null_argument(device, ls_one_device_strategy_create, NULL, some);
  expect_null_argument(out_strategy, ls_one_device_strategy_create, some, NULL);
  expect_null_argument(out_strategy, ls_strategy_default, NULL);
  expect_null_argument(strategy, ls_strategy_worker_devices, NULL, some, 1,
                       some);
  expect_null_argument(out_count, ls_strategy_worker_devices, some, some, 1,
                       NULL);
  expect_null_argument(devices, ls_strategy_worker_devices, some, NULL, 1,
                       some);
  expect_null_argument(strategy, ls_strategy_parameter_devices, NULL, some, 1,
                       some);
  expect_null_argument(out_count, ls_strategy_parameter_devices, some, some, 1,
                       NULL);
  expect_null_argument(devices, ls_strategy_parameter_devices, some, NULL, 1,
                       some);
  expect_null_argument(strategy, ls_strategy_non_slot_devices, NULL, some, 1,
                       some, 1, some);
  expect_null_argument(out_count, ls_strategy_non_slot_devices, some, some, 1,
                       some, 1, NULL);
  expect_null_argument(variables, ls_strategy_non_slot_devices, some, NULL, 1,
                       some, 1, some);
  expect_null_argument(devices, ls_strategy_non_slot_devices, some, some, 1,
                       NULL, 1, some);
  expect_null_argument(strategy, ls_strategy_worker_device_index, NULL, some);
  expect_null_argument(out_index, ls_strategy_worker_device_index, some, NULL);
  expect_null_argument(strategy, ls_strategy_set_cross_device, NULL, some);
  expect_null_argument(scope, ls_strategy_scope_end, NULL);
  expect_null_argument(strategy, ls_strategy_run, NULL, (ls_callable){0},
                       (ls_nest){0}, some);
  expect_null_argument(results, ls_strategy_run, some, (ls_callable){0},
                       (ls_nest){0}, NULL);
  expect_null_argument(strategy, ls_strategy_run_with, NULL, (ls_callable){0},
                       (ls_nest){0}, some, some);
  expect_null_argument(results, ls_strategy_run_with, some, (ls_callable){0},
                       (ls_nest){0}, some, NULL);
}

TEST(more_calls_of_strategy_refuse_null) {
  expect_null_argument(strategy, ls_strategy_call_for_each_replica, NULL, some,
                       (ls_nest){0}, some, some);
  expect_null_argument(callback, ls_strategy_call_for_each_replica, some, NULL,
                       (ls_nest){0}, some, some);
  expect_null_argument(results, ls_strategy_call_for_each_replica, some, some,
                       (ls_nest){0}, some, NULL);
  expect_null_argument(strategy, ls_strategy_split, NULL, some, some);
  expect_null_argument(array, ls_strategy_split, some, NULL, some);
  expect_null_argument(out_value, ls_strategy_split, some, some, NULL);
  expect_null_argument(strategy, ls_strategy_values_from_function, NULL, some,
                       some, some);
  expect_null_argument(function, ls_strategy_values_from_function, some, NULL,
                       some, some);
  expect_null_argument(out_value, ls_strategy_values_from_function, some, some,
                       some, NULL);
  expect_null_argument(strategy, ls_strategy_unwrap, NULL, (ls_nest){0}, some);
  expect_null_argument(out_list, ls_strategy_unwrap, some, (ls_nest){0}, NULL);
  expect_null_argument(strategy, ls_strategy_local_results, NULL, (ls_nest){0},
                       some);
  expect_null_argument(out_tuple, ls_strategy_local_results, some, (ls_nest){0},
                       NULL);
  expect_null_argument(strategy, ls_strategy_group, NULL, (ls_nest){0}, some,
                       some);
  expect_null_argument(out_op, ls_strategy_group, some, (ls_nest){0}, some,
                       NULL);
  expect_null_argument(out_component, ls_distributed_get, (ls_nest){0}, some,
                       NULL);
  expect_null_argument(out_tensor, ls_distributed_as_tensor, (ls_nest){0},
                       NULL);
  expect_null_argument(out_tensor, ls_distributed_as_tensor_of, (ls_nest){0}, 0,
                       NULL);
  expect_null_argument(function, ls_distributed_map, (ls_nest){0}, NULL, some,
                       some);
  expect_null_argument(out_nest, ls_distributed_map, (ls_nest){0}, some, some,
                       NULL);
  expect_null_argument(text, ls_reduce_op_parse, NULL, some);
  expect_null_argument(out_op, ls_reduce_op_parse, some, NULL);
}

TEST(further_calls_of_strategy_refuse_null) {
  expect_null_argument(strategy, ls_strategy_reduce, NULL, 0, (ls_nest){0},
                       some);
  expect_null_argument(out_value, ls_strategy_reduce, some, 0, (ls_nest){0},
                       NULL);
  expect_null_argument(strategy, ls_strategy_reduce_with, NULL, 0, (ls_nest){0},
                       some, some);
  expect_null_argument(out_value, ls_strategy_reduce_with, some, 0,
                       (ls_nest){0}, some, NULL);
  expect_null_argument(strategy, ls_strategy_reduce_to, NULL, 0, (ls_nest){0},
                       (ls_destinations){0}, some);
  expect_null_argument(out_value, ls_strategy_reduce_to, some, 0, (ls_nest){0},
                       (ls_destinations){0}, NULL);
  expect_null_argument(strategy, ls_strategy_batch_reduce_to, NULL, 0, some,
                       some, 1, some);
  expect_null_argument(out_list, ls_strategy_batch_reduce_to, some, 0, some,
                       some, 1, NULL);
  expect_null_argument(values, ls_strategy_batch_reduce_to, some, 0, NULL, some,
                       1, some);
  expect_null_argument(destinations, ls_strategy_batch_reduce_to, some, 0, some,
                       NULL, 1, some);
  expect_null_argument(strategy, ls_strategy_broadcast_to, NULL, (ls_nest){0},
                       (ls_destinations){0}, some);
  expect_null_argument(out_value, ls_strategy_broadcast_to, some, (ls_nest){0},
                       (ls_destinations){0}, NULL);
  expect_null_argument(strategy, ls_strategy_gather, NULL, (ls_nest){0}, 0,
                       some);
  expect_null_argument(out_value, ls_strategy_gather, some, (ls_nest){0}, 0,
                       NULL);
  expect_null_argument(strategy, ls_strategy_distribute_dataset, NULL,
                       (ls_nest){0}, some);
  expect_null_argument(out_dataset, ls_strategy_distribute_dataset, some,
                       (ls_nest){0}, NULL);
  expect_null_argument(strategy, ls_strategy_distribute_datasets_from_function,
                       NULL, some, some, some);
  expect_null_argument(function, ls_strategy_distribute_datasets_from_function,
                       some, NULL, some, some);
  expect_null_argument(out_dataset,
                       ls_strategy_distribute_datasets_from_function, some,
                       some, some, NULL);
  expect_null_argument(strategy, ls_strategy_update, NULL, some, some,
                       (ls_nest){0}, some, false, some);
  expect_null_argument(variable, ls_strategy_update, some, NULL, some,
                       (ls_nest){0}, some, false, some);
  expect_null_argument(fn, ls_strategy_update, some, some, NULL, (ls_nest){0},
                       some, false, some);
}

TEST(other_calls_of_strategy_refuse_null) {
  expect_null_argument(out_value, ls_strategy_update, some, some, some,
                       (ls_nest){0}, some, false, NULL);
  expect_null_argument(strategy, ls_strategy_update_non_slot, NULL, some, 1,
                       some, (ls_nest){0}, some, false, some);
  expect_null_argument(fn, ls_strategy_update_non_slot, some, some, 1, NULL,
                       (ls_nest){0}, some, false, some);
  expect_null_argument(out_value, ls_strategy_update_non_slot, some, some, 1,
                       some, (ls_nest){0}, some, false, NULL);
  expect_null_argument(devices, ls_strategy_update_non_slot, some, NULL, 1,
                       some, (ls_nest){0}, some, false, some);
  expect_null_argument(strategy, ls_strategy_fetch, NULL, (ls_nest){0}, some,
                       some, some, some);
  expect_null_argument(out_value, ls_strategy_fetch, some, (ls_nest){0}, some,
                       some, some, NULL);
  expect_null_argument(strategy, ls_strategy_map, NULL, some, 1, some,
                       (ls_nest){0}, some, some);
  expect_null_argument(fn, ls_strategy_map, some, some, 1, NULL, (ls_nest){0},
                       some, some);
  expect_null_argument(out_value, ls_strategy_map, some, some, 1, some,
                       (ls_nest){0}, some, NULL);
  expect_null_argument(items, ls_strategy_map, some, NULL, 1, some,
                       (ls_nest){0}, some, some);
  expect_null_argument(out_op, ls_aggregation_reduce_op, 0, NULL);
  expect_null_argument(strategy, ls_validate_colocate, (ls_nest){0}, NULL);
  expect_null_argument(variable, ls_variable_handle, NULL, some);
  expect_null_argument(out_handle, ls_variable_handle, some, NULL);
  expect_null_argument(variable, ls_variable_as_reference, NULL, some);
  expect_null_argument(out_reference, ls_variable_as_reference, some, NULL);
  expect_null_argument(variable, ls_variable_copy, NULL, some);
  expect_null_argument(out_copy, ls_variable_copy, some, NULL);
  expect_null_argument(variable, ls_variable_write, NULL, 0, (ls_nest){0}, some,
                       some);
  expect_null_argument(out_value, ls_variable_write, some, 0, (ls_nest){0},
                       some, NULL);
}

TEST(calls_of_export_refuse_null) {
  expect_null_argument(variable, ls_export_resource, NULL, some);
  expect_null_argument(out_resource, ls_export_resource, some, NULL);
  expect_null_argument(variable, ls_export_describe, NULL, some);
  expect_null_argument(record, ls_export_describe, some, NULL);
  expect_null_argument(function, ls_export_function, NULL, some, some);
  expect_null_argument(out_graph, ls_export_function, some, some, NULL);
  expect_null_argument(variable, ls_variable_copy_to_cpu, NULL, some);
  expect_null_argument(copy, ls_variable_copy_to_cpu, some, NULL);
}

TEST(calls_of_summary_refuse_null) {
  expect_null_argument(function, ls_summary_writer_create, NULL, some, some);
  expect_null_argument(out_writer, ls_summary_writer_create, some, some, NULL);
}

TEST(calls_of_replica_refuse_null) {
  expect_null_argument(out_device, ls_replica_device, some, NULL);
  expect_null_argument(out_id, ls_replica_id_in_sync_group, some, NULL);
  expect_null_argument(out_is_single, ls_replica_is_single, some, NULL);
  expect_null_argument(strategy, ls_strategy_replica_result, NULL, (ls_nest){0},
                       0, some);
  expect_null_argument(out_result, ls_strategy_replica_result, some,
                       (ls_nest){0}, 0, NULL);
}

TEST(calls_of_variable_recipe_refuse_null) {
  expect_null_argument(list, ls_component_list_add, NULL, NULL);
  expect_null_argument(recipe, ls_create_mirrored_variable, NULL, some, some);
  expect_null_argument(out_variable, ls_create_mirrored_variable, some, some,
                       NULL);
}
