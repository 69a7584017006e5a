// SPDX-License-Identifier: Apache-2.0
//
// Refused calls leave their results empty: none, NULL or zero.
#include "lockstep/infeed.h"
#include "lockstep/replicate.h"
#include "lockstep/shard.h"
#include "lockstep/steps.h"
#include "lockstep/topology.h"
#include "lockstep/tpu_strategy.h"
#include "lockstep/tpu_system.h"
#include "lockstep/tpu_variable.h"
#include "lockstep/training_loop.h"
#include "support/refused.h"

TEST(refused_calls_of_infeed_leave_nothing) {
  REFUSED(ls_infeed_queue *, ls_infeed_queue_create(NULL, &out));
  REFUSED(ls_nest, ls_infeed_queue_dequeue(NULL, -1, &out));
  REFUSED(ls_nest, ls_infeed_queue_enqueue(NULL, ls_none(), NULL, &out));
  REFUSED(ls_nest,
          ls_infeed_queue_split_and_enqueue(NULL, ls_none(), NULL, &out));
  REFUSED(ls_nest, ls_outfeed_take(NULL, &out));
  REFUSED(ls_infeed_queue *, ls_partitioned_infeed_create(NULL, &out));
  REFUSED_SHAPE(
      ls_sharding_policy_shard_shape(NULL, (ls_shape){0}, (ls_opt){0}, &out));
  REFUSED_SHAPE(
      ls_sharding_policy_unpartition_shape(NULL, (ls_shape){0}, &out));
  REFUSED_SHAPE(ls_sharding_policy_unshard_shape(NULL, NULL, 0, &out));
}

TEST(refused_calls_of_replicate_leave_nothing) {
  REFUSED(ls_nest, ls_replicate(NULL, NULL, ls_none(), NULL, &out));
  REFUSED_TWO(ls_tensor, ls_nest,
              ls_split_compile_and_replicate(NULL, NULL, ls_none(), NULL, &out,
                                             &second));
}

TEST(refused_calls_of_shard_leave_nothing) {
  REFUSED(ls_nest, ls_batch_parallel(NULL, NULL, ls_none(), -1, NULL, &out));
  REFUSED(ls_nest, ls_rewrite(NULL, NULL, ls_none(), NULL, &out));
  REFUSED(ls_nest, ls_rewrite_for_inference(NULL, NULL, ls_none(), NULL, &out));
  REFUSED(ls_nest, ls_shard(NULL, NULL, ls_none(), NULL, &out));
  REFUSED_TWO(
      ls_tensor, ls_nest,
      ls_split_compile_and_shard(NULL, NULL, ls_none(), NULL, &out, &second));
}

TEST(refused_calls_of_steps_leave_nothing) {
  REFUSED(ls_step_context *, ls_strategy_run_steps(NULL, NULL, &out));
}

TEST(refused_calls_of_topology_leave_nothing) {
  REFUSED(ls_device_assignment *, ls_device_assignment_build(NULL, NULL, &out));
  REFUSED(ls_device_assignment *,
          ls_device_assignment_create(NULL, NULL, &out));
  REFUSED(ls_device_name,
          ls_device_assignment_device(NULL, -1, -1, NULL, &out));
  REFUSED(ls_device_name, ls_device_assignment_host(NULL, -1, -1, NULL, &out));
  REFUSED(int32_t, ls_device_assignment_ordinal(NULL, -1, -1, &out));
  REFUSED(ls_coordinate, ls_device_assignment_place(NULL, -1, -1, &out));
  REFUSED(size_t,
          ls_device_assignment_replicas_on(NULL, -1, -1, NULL, 0, &out));
  REFUSED_MEMORY(ls_array *, ls_single_core_assignment(&out));
  REFUSED(ls_topology *, ls_topology_create(NULL, 0, NULL, &out));
  REFUSED(ls_device_name,
          ls_topology_device_at(NULL, (ls_coordinate){0}, NULL, &out));
  REFUSED(ls_device_name,
          ls_topology_host_at(NULL, (ls_coordinate){0}, NULL, &out));
  REFUSED(int32_t, ls_topology_ordinal_at(NULL, (ls_coordinate){0}, &out));
  REFUSED(ls_topology *, ls_topology_parse(NULL, 0, &out));
  REFUSED(ls_coordinate, ls_topology_place_of(NULL, -1, -1, &out));
  REFUSED(int32_t, ls_topology_task_at(NULL, (ls_coordinate){0}, &out));
}

TEST(refused_calls_of_tpu_strategy_leave_nothing) {
  REFUSED_MEMORY(ls_strategy *, ls_tpu_strategy_create(NULL, &out));
  REFUSED(ls_device_name, ls_tpu_strategy_device(NULL, -1, -1, &out));
  REFUSED_MEMORY(ls_strategy *,
                 ls_tpu_strategy_experimental_create(NULL, &out));
  REFUSED(ls_device_name, ls_tpu_strategy_host(NULL, &out));
  REFUSED(ls_session_config, ls_tpu_strategy_update_config(NULL, NULL, &out));
  REFUSED_MEMORY(ls_strategy *, ls_tpu_strategy_v1_create(NULL, &out));
}

TEST(refused_calls_of_tpu_system_leave_nothing) {
  REFUSED(ls_pod_health, ls_pod_ask_health(NULL, -1, -1, &out));
  REFUSED(char *, ls_pod_print(NULL, &out));
  REFUSED_TWO(ls_device_name *, size_t,
              ls_runtime_devices(NULL, &out, &second));
  REFUSED(ls_topology *, ls_tpu_initialize(NULL, &out));
  REFUSED_MEMORY(ls_tpu_systems *, ls_tpu_initialized_systems(&out));
  REFUSED(ls_tpu_metadata *, ls_tpu_metadata_query(NULL, false, &out));
  REFUSED(const char *, ls_tpu_placement_job(NULL, NULL, &out));
  REFUSED(ls_pod *, ls_tpu_pod(NULL, &out));
  REFUSED(ls_cluster_spec *, ls_tpu_resolver_cluster_spec(NULL, &out));
  REFUSED_MEMORY(ls_tpu_resolver *, ls_tpu_resolver_connect(NULL, &out));
  REFUSED_MEMORY(ls_tpu_resolver *, ls_tpu_resolver_create(NULL, &out));
  REFUSED(ls_master, ls_tpu_resolver_master(NULL, NULL, (ls_opt){0}, &out));
  REFUSED(int32_t, ls_tpu_resolver_num_accelerators(NULL, &out));
  REFUSED(ls_device_name, ls_tpu_system_device("/", &out));
}

TEST(refused_calls_of_tpu_variable_leave_nothing) {
  REFUSED(ls_variable *, ls_replicated_variable_create(NULL, NULL, 0, &out));
  REFUSED(ls_tensor, ls_tpu_read_variable(ls_none(), &out));
  REFUSED(ls_op, ls_tpu_variable_handle(NULL, &out));
}

TEST(refused_calls_of_training_loop_leave_nothing) {
  REFUSED(ls_nest, ls_training_repeat(-1, NULL, ls_none(), &out));
  REFUSED(ls_nest, ls_training_while(NULL, ls_none(), &out));
}
