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
  expect_null(ls_cross_device_create(NULL, some, some),
              "ls_cross_device_create: table is NULL");
  expect_null(ls_cross_device_create(some, some, NULL),
              "ls_cross_device_create: out_ops is NULL");
  expect_null(ls_reduce_to_one_create(some, NULL),
              "ls_reduce_to_one_create: out_ops is NULL");
  expect_null(ls_all_reduce_ops_create(some, NULL),
              "ls_all_reduce_ops_create: out_ops is NULL");
  expect_null(ls_nccl_all_reduce_create((ls_opt){0}, NULL),
              "ls_nccl_all_reduce_create: out_ops is NULL");
  expect_null(ls_hierarchical_copy_create((ls_opt){0}, NULL),
              "ls_hierarchical_copy_create: out_ops is NULL");
  expect_null(ls_cross_device_by_links(some, 1, NULL, some),
              "ls_cross_device_by_links: machine is NULL");
  expect_null(ls_cross_device_by_links(some, 1, some, NULL),
              "ls_cross_device_by_links: out_ops is NULL");
  expect_null(ls_cross_device_by_links(NULL, 1, some, some),
              "ls_cross_device_by_links: devices is NULL");
  expect_null(ls_cross_device_auto(some, 1, some, NULL),
              "ls_cross_device_auto: out_ops is NULL");
  expect_null(ls_cross_device_auto(NULL, 1, some, some),
              "ls_cross_device_auto: devices is NULL");
  expect_null(
      ls_cross_device_reduce(NULL, 0, (ls_nest){0}, (ls_destinations){0}, some),
      "ls_cross_device_reduce: ops is NULL");
  expect_null(
      ls_cross_device_reduce(some, 0, (ls_nest){0}, (ls_destinations){0}, NULL),
      "ls_cross_device_reduce: out_value is NULL");
  expect_null(ls_cross_device_batch_reduce(NULL, 0, some, some, 1, some),
              "ls_cross_device_batch_reduce: ops is NULL");
  expect_null(ls_cross_device_batch_reduce(some, 0, some, some, 1, NULL),
              "ls_cross_device_batch_reduce: out_list is NULL");
  expect_null(ls_cross_device_batch_reduce(some, 0, NULL, some, 1, some),
              "ls_cross_device_batch_reduce: values is NULL");
  expect_null(ls_cross_device_batch_reduce(some, 0, some, NULL, 1, some),
              "ls_cross_device_batch_reduce: where is NULL");
  expect_null(
      ls_cross_device_broadcast(NULL, (ls_nest){0}, (ls_destinations){0}, some),
      "ls_cross_device_broadcast: ops is NULL");
  expect_null(
      ls_cross_device_broadcast(some, (ls_nest){0}, (ls_destinations){0}, NULL),
      "ls_cross_device_broadcast: out_value is NULL");
  expect_null(
      ls_cross_device_gather(NULL, (ls_nest){0}, 0, (ls_destinations){0}, some),
      "ls_cross_device_gather: ops is NULL");
  expect_null(
      ls_cross_device_gather(some, (ls_nest){0}, 0, (ls_destinations){0}, NULL),
      "ls_cross_device_gather: out_value is NULL");
  expect_null(ls_sum_gradient(some, 1, false, NULL, some),
              "ls_sum_gradient: out_sum is NULL");
}

TEST(more_calls_of_cross_device_refuse_null) {
  expect_null(ls_sum_gradient(NULL, 1, false, some, some),
              "ls_sum_gradient: items is NULL");
}

TEST(calls_of_handles_refuse_null) {
  expect_null(ls_caching_variable_create(NULL, some),
              "ls_caching_variable_create: variable is NULL");
  expect_null(ls_caching_variable_create(some, NULL),
              "ls_caching_variable_create: out_variable is NULL");
  expect_null(ls_packed_variable_create(some, some, 1, NULL),
              "ls_packed_variable_create: out_variable is NULL");
  expect_null(ls_packed_variable_create(some, NULL, 1, some),
              "ls_packed_variable_create: leaves is NULL");
  expect_null(ls_packed_variable_on(NULL, some, some),
              "ls_packed_variable_on: packed is NULL");
  expect_null(ls_packed_variable_on(some, NULL, some),
              "ls_packed_variable_on: device is NULL");
  expect_null(ls_packed_variable_on(some, some, NULL),
              "ls_packed_variable_on: out_variable is NULL");
}

TEST(calls_of_regroup_refuse_null) {
  expect_null(ls_regroup(some, 1, some, NULL), "ls_regroup: out_value is NULL");
  expect_null(ls_regroup(NULL, 1, some, some), "ls_regroup: values is NULL");
  expect_null(ls_select_replica(0, (ls_nest){0}, NULL),
              "ls_select_replica: out_value is NULL");
  expect_null(ls_select_replica_mirrored(0, (ls_nest){0}, NULL),
              "ls_select_replica_mirrored: out_value is NULL");
  expect_null(ls_update_regroup(NULL, some, 1, false, some),
              "ls_update_regroup: strategy is NULL");
  expect_null(ls_update_regroup(some, some, 1, false, NULL),
              "ls_update_regroup: out_value is NULL");
  expect_null(ls_update_regroup(some, NULL, 1, false, some),
              "ls_update_regroup: updates is NULL");
}

TEST(calls_of_strategy_refuse_null) {
  expect_null(ls_mirrored_strategy_create(some, NULL),
              "ls_mirrored_strategy_create: out_strategy is NULL");
  expect_null(ls_one_device_strategy_create(NULL, some),
              "ls_one_device_strategy_create: device is NULL");
  expect_null(ls_one_device_strategy_create(some, NULL),
              "ls_one_device_strategy_create: out_strategy is NULL");
  expect_null(ls_strategy_default(NULL),
              "ls_strategy_default: out_strategy is NULL");
  expect_null(ls_strategy_worker_devices(NULL, some, 1, some),
              "ls_strategy_worker_devices: strategy is NULL");
  expect_null(ls_strategy_worker_devices(some, some, 1, NULL),
              "ls_strategy_worker_devices: out_count is NULL");
  expect_null(ls_strategy_worker_devices(some, NULL, 1, some),
              "ls_strategy_worker_devices: devices is NULL");
  expect_null(ls_strategy_parameter_devices(NULL, some, 1, some),
              "ls_strategy_parameter_devices: strategy is NULL");
  expect_null(ls_strategy_parameter_devices(some, some, 1, NULL),
              "ls_strategy_parameter_devices: out_count is NULL");
  expect_null(ls_strategy_parameter_devices(some, NULL, 1, some),
              "ls_strategy_parameter_devices: devices is NULL");
  expect_null(ls_strategy_non_slot_devices(NULL, some, 1, some, 1, some),
              "ls_strategy_non_slot_devices: strategy is NULL");
  expect_null(ls_strategy_non_slot_devices(some, some, 1, some, 1, NULL),
              "ls_strategy_non_slot_devices: out_count is NULL");
  expect_null(ls_strategy_non_slot_devices(some, NULL, 1, some, 1, some),
              "ls_strategy_non_slot_devices: variables is NULL");
  expect_null(ls_strategy_non_slot_devices(some, some, 1, NULL, 1, some),
              "ls_strategy_non_slot_devices: devices is NULL");
  expect_null(ls_strategy_worker_device_index(NULL, some),
              "ls_strategy_worker_device_index: strategy is NULL");
  expect_null(ls_strategy_worker_device_index(some, NULL),
              "ls_strategy_worker_device_index: out_index is NULL");
  expect_null(ls_strategy_set_cross_device(NULL, some),
              "ls_strategy_set_cross_device: strategy is NULL");
  expect_null(ls_strategy_scope_end(NULL),
              "ls_strategy_scope_end: scope is NULL");
  expect_null(ls_strategy_run(NULL, (ls_callable){0}, (ls_nest){0}, some),
              "ls_strategy_run: strategy is NULL");
  expect_null(ls_strategy_run(some, (ls_callable){0}, (ls_nest){0}, NULL),
              "ls_strategy_run: results is NULL");
  expect_null(
      ls_strategy_run_with(NULL, (ls_callable){0}, (ls_nest){0}, some, some),
      "ls_strategy_run_with: strategy is NULL");
  expect_null(
      ls_strategy_run_with(some, (ls_callable){0}, (ls_nest){0}, some, NULL),
      "ls_strategy_run_with: results is NULL");
}

TEST(more_calls_of_strategy_refuse_null) {
  expect_null(
      ls_strategy_call_for_each_replica(NULL, some, (ls_nest){0}, some, some),
      "ls_strategy_call_for_each_replica: strategy is NULL");
  expect_null(
      ls_strategy_call_for_each_replica(some, NULL, (ls_nest){0}, some, some),
      "ls_strategy_call_for_each_replica: callback is NULL");
  expect_null(
      ls_strategy_call_for_each_replica(some, some, (ls_nest){0}, some, NULL),
      "ls_strategy_call_for_each_replica: results is NULL");
  expect_null(ls_strategy_split(NULL, some, some),
              "ls_strategy_split: strategy is NULL");
  expect_null(ls_strategy_split(some, NULL, some),
              "ls_strategy_split: array is NULL");
  expect_null(ls_strategy_split(some, some, NULL),
              "ls_strategy_split: out_value is NULL");
  expect_null(ls_strategy_values_from_function(NULL, some, some, some),
              "ls_strategy_values_from_function: strategy is NULL");
  expect_null(ls_strategy_values_from_function(some, NULL, some, some),
              "ls_strategy_values_from_function: function is NULL");
  expect_null(ls_strategy_values_from_function(some, some, some, NULL),
              "ls_strategy_values_from_function: out_value is NULL");
  expect_null(ls_strategy_unwrap(NULL, (ls_nest){0}, some),
              "ls_strategy_unwrap: strategy is NULL");
  expect_null(ls_strategy_unwrap(some, (ls_nest){0}, NULL),
              "ls_strategy_unwrap: out_list is NULL");
  expect_null(ls_strategy_local_results(NULL, (ls_nest){0}, some),
              "ls_strategy_local_results: strategy is NULL");
  expect_null(ls_strategy_local_results(some, (ls_nest){0}, NULL),
              "ls_strategy_local_results: out_tuple is NULL");
  expect_null(ls_strategy_group(NULL, (ls_nest){0}, some, some),
              "ls_strategy_group: strategy is NULL");
  expect_null(ls_strategy_group(some, (ls_nest){0}, some, NULL),
              "ls_strategy_group: out_op is NULL");
  expect_null(ls_distributed_get((ls_nest){0}, some, NULL),
              "ls_distributed_get: out_component is NULL");
  expect_null(ls_distributed_as_tensor((ls_nest){0}, NULL),
              "ls_distributed_as_tensor: out_tensor is NULL");
  expect_null(ls_distributed_as_tensor_of((ls_nest){0}, 0, NULL),
              "ls_distributed_as_tensor_of: out_tensor is NULL");
  expect_null(ls_distributed_map((ls_nest){0}, NULL, some, some),
              "ls_distributed_map: function is NULL");
  expect_null(ls_distributed_map((ls_nest){0}, some, some, NULL),
              "ls_distributed_map: out_nest is NULL");
  expect_null(ls_reduce_op_parse(NULL, some),
              "ls_reduce_op_parse: text is NULL");
  expect_null(ls_reduce_op_parse(some, NULL),
              "ls_reduce_op_parse: out_op is NULL");
}

TEST(further_calls_of_strategy_refuse_null) {
  expect_null(ls_strategy_reduce(NULL, 0, (ls_nest){0}, some),
              "ls_strategy_reduce: strategy is NULL");
  expect_null(ls_strategy_reduce(some, 0, (ls_nest){0}, NULL),
              "ls_strategy_reduce: out_value is NULL");
  expect_null(ls_strategy_reduce_with(NULL, 0, (ls_nest){0}, some, some),
              "ls_strategy_reduce_with: strategy is NULL");
  expect_null(ls_strategy_reduce_with(some, 0, (ls_nest){0}, some, NULL),
              "ls_strategy_reduce_with: out_value is NULL");
  expect_null(
      ls_strategy_reduce_to(NULL, 0, (ls_nest){0}, (ls_destinations){0}, some),
      "ls_strategy_reduce_to: strategy is NULL");
  expect_null(
      ls_strategy_reduce_to(some, 0, (ls_nest){0}, (ls_destinations){0}, NULL),
      "ls_strategy_reduce_to: out_value is NULL");
  expect_null(ls_strategy_batch_reduce_to(NULL, 0, some, some, 1, some),
              "ls_strategy_batch_reduce_to: strategy is NULL");
  expect_null(ls_strategy_batch_reduce_to(some, 0, some, some, 1, NULL),
              "ls_strategy_batch_reduce_to: out_list is NULL");
  expect_null(ls_strategy_batch_reduce_to(some, 0, NULL, some, 1, some),
              "ls_strategy_batch_reduce_to: values is NULL");
  expect_null(ls_strategy_batch_reduce_to(some, 0, some, NULL, 1, some),
              "ls_strategy_batch_reduce_to: destinations is NULL");
  expect_null(
      ls_strategy_broadcast_to(NULL, (ls_nest){0}, (ls_destinations){0}, some),
      "ls_strategy_broadcast_to: strategy is NULL");
  expect_null(
      ls_strategy_broadcast_to(some, (ls_nest){0}, (ls_destinations){0}, NULL),
      "ls_strategy_broadcast_to: out_value is NULL");
  expect_null(ls_strategy_gather(NULL, (ls_nest){0}, 0, some),
              "ls_strategy_gather: strategy is NULL");
  expect_null(ls_strategy_gather(some, (ls_nest){0}, 0, NULL),
              "ls_strategy_gather: out_value is NULL");
  expect_null(ls_strategy_distribute_dataset(NULL, (ls_nest){0}, some),
              "ls_strategy_distribute_dataset: strategy is NULL");
  expect_null(ls_strategy_distribute_dataset(some, (ls_nest){0}, NULL),
              "ls_strategy_distribute_dataset: out_dataset is NULL");
  expect_null(
      ls_strategy_distribute_datasets_from_function(NULL, some, some, some),
      "ls_strategy_distribute_datasets_from_function: strategy is NULL");
  expect_null(
      ls_strategy_distribute_datasets_from_function(some, NULL, some, some),
      "ls_strategy_distribute_datasets_from_function: function is NULL");
  expect_null(
      ls_strategy_distribute_datasets_from_function(some, some, some, NULL),
      "ls_strategy_distribute_datasets_from_function: out_dataset is NULL");
  expect_null(
      ls_strategy_update(NULL, some, some, (ls_nest){0}, some, false, some),
      "ls_strategy_update: strategy is NULL");
  expect_null(
      ls_strategy_update(some, NULL, some, (ls_nest){0}, some, false, some),
      "ls_strategy_update: variable is NULL");
  expect_null(
      ls_strategy_update(some, some, NULL, (ls_nest){0}, some, false, some),
      "ls_strategy_update: fn is NULL");
}

TEST(other_calls_of_strategy_refuse_null) {
  expect_null(
      ls_strategy_update(some, some, some, (ls_nest){0}, some, false, NULL),
      "ls_strategy_update: out_value is NULL");
  expect_null(ls_strategy_update_non_slot(NULL, some, 1, some, (ls_nest){0},
                                          some, false, some),
              "ls_strategy_update_non_slot: strategy is NULL");
  expect_null(ls_strategy_update_non_slot(some, some, 1, NULL, (ls_nest){0},
                                          some, false, some),
              "ls_strategy_update_non_slot: fn is NULL");
  expect_null(ls_strategy_update_non_slot(some, some, 1, some, (ls_nest){0},
                                          some, false, NULL),
              "ls_strategy_update_non_slot: out_value is NULL");
  expect_null(ls_strategy_update_non_slot(some, NULL, 1, some, (ls_nest){0},
                                          some, false, some),
              "ls_strategy_update_non_slot: devices is NULL");
  expect_null(ls_strategy_fetch(NULL, (ls_nest){0}, some, some, some, some),
              "ls_strategy_fetch: strategy is NULL");
  expect_null(ls_strategy_fetch(some, (ls_nest){0}, some, some, some, NULL),
              "ls_strategy_fetch: out_value is NULL");
  expect_null(ls_strategy_map(NULL, some, 1, some, (ls_nest){0}, some, some),
              "ls_strategy_map: strategy is NULL");
  expect_null(ls_strategy_map(some, some, 1, NULL, (ls_nest){0}, some, some),
              "ls_strategy_map: fn is NULL");
  expect_null(ls_strategy_map(some, some, 1, some, (ls_nest){0}, some, NULL),
              "ls_strategy_map: out_value is NULL");
  expect_null(ls_strategy_map(some, NULL, 1, some, (ls_nest){0}, some, some),
              "ls_strategy_map: items is NULL");
  expect_null(ls_aggregation_reduce_op(0, NULL),
              "ls_aggregation_reduce_op: out_op is NULL");
  expect_null(ls_validate_colocate((ls_nest){0}, NULL),
              "ls_validate_colocate: strategy is NULL");
  expect_null(ls_variable_handle(NULL, some),
              "ls_variable_handle: variable is NULL");
  expect_null(ls_variable_handle(some, NULL),
              "ls_variable_handle: out_handle is NULL");
  expect_null(ls_variable_as_reference(NULL, some),
              "ls_variable_as_reference: variable is NULL");
  expect_null(ls_variable_as_reference(some, NULL),
              "ls_variable_as_reference: out_reference is NULL");
  expect_null(ls_variable_copy(NULL, some),
              "ls_variable_copy: variable is NULL");
  expect_null(ls_variable_copy(some, NULL),
              "ls_variable_copy: out_copy is NULL");
  expect_null(ls_variable_write(NULL, 0, (ls_nest){0}, some, some),
              "ls_variable_write: variable is NULL");
  expect_null(ls_variable_write(some, 0, (ls_nest){0}, some, NULL),
              "ls_variable_write: out_value is NULL");
}

TEST(calls_of_export_refuse_null) {
  expect_null(ls_export_resource(NULL, some),
              "ls_export_resource: variable is NULL");
  expect_null(ls_export_resource(some, NULL),
              "ls_export_resource: out_resource is NULL");
  expect_null(ls_export_describe(NULL, some),
              "ls_export_describe: variable is NULL");
  expect_null(ls_export_describe(some, NULL),
              "ls_export_describe: record is NULL");
  expect_null(ls_export_function(NULL, some, some),
              "ls_export_function: function is NULL");
  expect_null(ls_export_function(some, some, NULL),
              "ls_export_function: out_graph is NULL");
  expect_null(ls_variable_copy_to_cpu(NULL, some),
              "ls_variable_copy_to_cpu: variable is NULL");
  expect_null(ls_variable_copy_to_cpu(some, NULL),
              "ls_variable_copy_to_cpu: copy is NULL");
}

TEST(calls_of_summary_refuse_null) {
  expect_null(ls_summary_writer_create(NULL, some, some),
              "ls_summary_writer_create: function is NULL");
  expect_null(ls_summary_writer_create(some, some, NULL),
              "ls_summary_writer_create: out_writer is NULL");
}

TEST(calls_of_replica_refuse_null) {
  expect_null(ls_replica_device(some, NULL),
              "ls_replica_device: out_device is NULL");
  expect_null(ls_replica_id_in_sync_group(some, NULL),
              "ls_replica_id_in_sync_group: out_id is NULL");
  expect_null(ls_replica_is_single(some, NULL),
              "ls_replica_is_single: out_is_single is NULL");
  expect_null(ls_strategy_replica_result(NULL, (ls_nest){0}, 0, some),
              "ls_strategy_replica_result: strategy is NULL");
  expect_null(ls_strategy_replica_result(some, (ls_nest){0}, 0, NULL),
              "ls_strategy_replica_result: out_result is NULL");
}

TEST(calls_of_variable_recipe_refuse_null) {
  expect_null(ls_component_list_add(NULL, NULL),
              "ls_component_list_add: list is NULL");
  expect_null(ls_create_mirrored_variable(NULL, some, some),
              "ls_create_mirrored_variable: recipe is NULL");
  expect_null(ls_create_mirrored_variable(some, some, NULL),
              "ls_create_mirrored_variable: out_variable is NULL");
}
