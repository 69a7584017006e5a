// SPDX-License-Identifier: Apache-2.0
//
// Refused calls leave their results empty: none, NULL or zero.
#include "lockstep/cross_device.h"
#include "lockstep/distribute_input.h"
#include "lockstep/export.h"
#include "lockstep/handles.h"
#include "lockstep/multi_worker.h"
#include "lockstep/regroup.h"
#include "lockstep/replica.h"
#include "lockstep/strategy.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/summary.h"
#include "lockstep/table.h"
#include "lockstep/variable_recipe.h"
#include "support/refused.h"

TEST(refused_calls_of_cross_device_leave_nothing) {
  REFUSED_MEMORY(ls_cross_device *, ls_all_reduce_ops_create(NULL, &out));
  REFUSED(ls_cross_device *, ls_cross_device_auto(NULL, 0, NULL, &out));
  REFUSED(ls_nest, ls_cross_device_batch_reduce(NULL, (ls_reduce_op){0}, NULL,
                                                NULL, 0, &out));
  REFUSED(ls_nest, ls_cross_device_broadcast(NULL, ls_none(),
                                             (ls_destinations){0}, &out));
  REFUSED(ls_cross_device *, ls_cross_device_by_links(NULL, 0, NULL, &out));
  REFUSED(ls_cross_device *, ls_cross_device_create(NULL, NULL, &out));
  REFUSED(ls_nest, ls_cross_device_gather(NULL, ls_none(), -1,
                                          (ls_destinations){0}, &out));
  REFUSED(ls_nest, ls_cross_device_reduce(NULL, (ls_reduce_op){0}, ls_none(),
                                          (ls_destinations){0}, &out));
  REFUSED_MEMORY(ls_cross_device *,
                 ls_hierarchical_copy_create((ls_opt){0}, &out));
  REFUSED_MEMORY(ls_cross_device *,
                 ls_nccl_all_reduce_create((ls_opt){0}, &out));
  REFUSED_MEMORY(ls_cross_device *, ls_reduce_to_one_create(NULL, &out));
  REFUSED_TWO(ls_tensor, ls_tensor,
              ls_sum_gradient(NULL, 0, false, &out, &second));
}

TEST(refused_calls_of_multi_worker_leave_nothing) {
  REFUSED(ls_collective_implementation,
          ls_collective_implementation_parse("x", &out));
  REFUSED(ls_cross_device *, ls_collective_ops_create(NULL, 0, 1, NULL, &out));
  REFUSED(ls_cross_device *,
          ls_spec_all_reduce_create(
              &(ls_spec_all_reduce_options){.gpus_per_worker = -1}, &out));
  REFUSED(ls_strategy *, ls_multi_worker_strategy_create(NULL, NULL, &out));
}

TEST(refused_calls_of_distribute_input_leave_nothing) {
  REFUSED(ls_nest, ls_distributed_dataset_spec(ls_none(), &out));
  REFUSED(ls_distributed_iterator *,
          ls_distributed_iterator_create(ls_none(), NULL, &out));
  REFUSED(ls_op, ls_distributed_iterator_initializer(NULL, &out));
  ls_nest element = ls_none();
  REFUSED(_Bool,
          ls_distributed_iterator_next_as_optional(NULL, &out, &element));
  REFUSED(int64_t, ls_input_context_per_replica_batch_size(
                       (ls_input_context){0}, -1, &out));
  REFUSED_TWO(ls_nest, ls_dataset *,
              ls_strategy_array_dataset(NULL, ls_none(), NULL, &out, &second));
  REFUSED(ls_nest,
          ls_strategy_distribute_dataset_with(NULL, ls_none(), NULL, &out));
  REFUSED(ls_nest, ls_strategy_distribute_datasets_from_function_with(
                       NULL, NULL, NULL, NULL, &out));
  REFUSED(ls_distributed_iterator *,
          ls_strategy_make_dataset_iterator(NULL, ls_none(), &out));
  REFUSED(ls_distributed_iterator *,
          ls_strategy_make_input_fn_iterator(NULL, NULL, NULL,
                                             (ls_replication_mode){0}, &out));
}

TEST(refused_calls_of_export_leave_nothing) {
  REFUSED(const ls_graph *, ls_export_function(NULL, NULL, &out));
  REFUSED(ls_variable *, ls_export_resource(NULL, &out));
}

TEST(refused_calls_of_handles_leave_nothing) {
  REFUSED(ls_variable *, ls_caching_variable_create(NULL, &out));
  REFUSED(ls_variable *, ls_packed_variable_create(NULL, NULL, 0, &out));
  REFUSED(ls_variable *, ls_packed_variable_on(NULL, NULL, &out));
}

TEST(refused_calls_of_regroup_leave_nothing) {
  REFUSED(ls_nest, ls_regroup(NULL, 0, NULL, &out));
  const ls_nest two[] = {ls_nest_i64(1), ls_nest_i64(2)};
  LS_OWN(ls_nest, per_replica) = ls_none();
  expect_ok(ls_regroup(two, 2, NULL, &per_replica));
  REFUSED(ls_nest, ls_select_replica(2, per_replica, &out));
  REFUSED(ls_nest, ls_select_replica_mirrored(0, per_replica, &out));
  REFUSED(ls_nest, ls_distributed_get(per_replica, "/nothing:1", &out));
  REFUSED(ls_nest, ls_update_regroup(NULL, NULL, 0, false, &out));
}

TEST(refused_calls_of_replica_leave_nothing) {
  REFUSED(const char *, ls_replica_device(NULL, &out));
  REFUSED(ls_tensor, ls_replica_id_in_sync_group(NULL, &out));
  REFUSED(_Bool, ls_replica_is_single(NULL, &out));
}

TEST(refused_calls_of_strategy_leave_nothing) {
  REFUSED(ls_reduce_op,
          ls_aggregation_reduce_op((ls_variable_aggregation){0}, &out));
  REFUSED(ls_tensor, ls_distributed_as_tensor(ls_none(), &out));
  REFUSED(ls_tensor,
          ls_distributed_as_tensor_of(ls_none(), (ls_dtype){0}, &out));
  REFUSED(ls_nest, ls_distributed_map(ls_none(), NULL, NULL, &out));
  REFUSED_MEMORY(ls_strategy *, ls_mirrored_strategy_create(NULL, &out));
  REFUSED(ls_strategy *, ls_one_device_strategy_create(NULL, &out));
  REFUSED(ls_reduce_op, ls_reduce_op_parse(NULL, &out));
  REFUSED(ls_nest, ls_strategy_batch_reduce_to(NULL, (ls_reduce_op){0}, NULL,
                                               NULL, 0, &out));
  REFUSED(ls_nest, ls_strategy_broadcast_to(NULL, ls_none(),
                                            (ls_destinations){0}, &out));
  REFUSED_MEMORY(ls_strategy *, ls_strategy_default(&out));
  REFUSED(ls_nest, ls_strategy_distribute_dataset(NULL, ls_none(), &out));
  REFUSED(ls_nest, ls_strategy_distribute_datasets_from_function(NULL, NULL,
                                                                 NULL, &out));
  REFUSED(ls_nest, ls_strategy_fetch(NULL, ls_none(), NULL, NULL, NULL, &out));
  REFUSED(ls_nest, ls_strategy_gather(NULL, ls_none(), -1, &out));
  REFUSED(ls_op, ls_strategy_group(NULL, ls_none(), NULL, &out));
  REFUSED(ls_nest, ls_strategy_local_results(NULL, ls_none(), &out));
  REFUSED(ls_nest, ls_strategy_map(NULL, NULL, 0, NULL, ls_none(), NULL, &out));
  REFUSED(size_t, ls_strategy_non_slot_devices(NULL, NULL, 0, NULL, 0, &out));
  REFUSED(size_t, ls_strategy_parameter_devices(NULL, NULL, 0, &out));
  REFUSED(ls_nest,
          ls_strategy_reduce(NULL, (ls_reduce_op){0}, ls_none(), &out));
  REFUSED(ls_nest, ls_strategy_reduce_to(NULL, (ls_reduce_op){0}, ls_none(),
                                         (ls_destinations){0}, &out));
  REFUSED(ls_nest, ls_strategy_reduce_with(NULL, (ls_reduce_op){0}, ls_none(),
                                           NULL, &out));
  REFUSED(ls_nest, ls_strategy_replica_result(NULL, ls_none(), -1, &out));
  REFUSED(ls_nest, ls_strategy_split(NULL, NULL, &out));
  REFUSED(ls_nest, ls_strategy_unwrap(NULL, ls_none(), &out));
  REFUSED(ls_nest,
          ls_strategy_update(NULL, NULL, NULL, ls_none(), NULL, false, &out));
  REFUSED(ls_nest, ls_strategy_update_non_slot(NULL, NULL, 0, NULL, ls_none(),
                                               NULL, false, &out));
  REFUSED(ls_nest, ls_strategy_values_from_function(NULL, NULL, NULL, &out));
  REFUSED(ls_nest, ls_strategy_worker_device_index(NULL, &out));
  REFUSED(size_t, ls_strategy_worker_devices(NULL, NULL, 0, &out));
  REFUSED(ls_variable *, ls_variable_as_reference(NULL, &out));
  REFUSED(ls_variable *, ls_variable_copy(NULL, &out));
  REFUSED(ls_variable *, ls_variable_handle(NULL, &out));
  REFUSED(ls_nest,
          ls_variable_write(NULL, (ls_write_op){0}, ls_none(), NULL, &out));
}

TEST(refused_calls_of_summary_leave_nothing) {
  REFUSED(ls_summary_writer *, ls_summary_writer_create(NULL, NULL, &out));
}

TEST(refused_calls_of_table_leave_nothing) {
  REFUSED(ls_table *, ls_table_create(NULL, &out));
}

TEST(refused_calls_of_variable_recipe_leave_nothing) {
  REFUSED(ls_variable *, ls_create_mirrored_variable(NULL, NULL, &out));
}
