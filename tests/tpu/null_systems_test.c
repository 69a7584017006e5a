// SPDX-License-Identifier: Apache-2.0
//
// A NULL where something is needed is refused by name.
#include "lockstep/tpu_system.h"
#include "support/expect.h"

// Something that is not NULL; nobody looks at it before all are there.
static _Alignas(16) char place[LS_MAX_MASTER];
static void *const some = place;

TEST(calls_of_topologies_refuse_null) {
  const ls_coordinate at = {{0}};
  expect_null(ls_topology_create(NULL, 4, some, some),
              "ls_topology_create: mesh is NULL");
  expect_null(ls_topology_create(some, 4, NULL, some),
              "ls_topology_create: coordinates is NULL");
  expect_null(ls_topology_create(some, 4, some, NULL),
              "ls_topology_create: out_topology is NULL");
  expect_null(ls_topology_parse(NULL, 1, some),
              "ls_topology_parse: bytes is NULL");
  expect_null(ls_topology_parse(some, 1, NULL),
              "ls_topology_parse: out_topology is NULL");
  expect_null(ls_topology_place_of(NULL, 0, 0, some),
              "ls_topology_place_of: topology is NULL");
  expect_null(ls_topology_place_of(some, 0, 0, NULL),
              "ls_topology_place_of: out_place is NULL");
  expect_null(ls_topology_task_at(NULL, at, some),
              "ls_topology_task_at: topology is NULL");
  expect_null(ls_topology_task_at(some, at, NULL),
              "ls_topology_task_at: out_task is NULL");
  expect_null(ls_topology_ordinal_at(NULL, at, some),
              "ls_topology_ordinal_at: topology is NULL");
  expect_null(ls_topology_ordinal_at(some, at, NULL),
              "ls_topology_ordinal_at: out_ordinal is NULL");
  expect_null(ls_topology_device_at(NULL, at, "", some),
              "ls_topology_device_at: topology is NULL");
  expect_null(ls_topology_device_at(some, at, "", NULL),
              "ls_topology_device_at: out_name is NULL");
  expect_null(ls_topology_host_at(NULL, at, "", some),
              "ls_topology_host_at: topology is NULL");
  expect_null(ls_topology_host_at(some, at, "", NULL),
              "ls_topology_host_at: out_name is NULL");
  ls_topology_release(NULL);
}

TEST(calls_of_assignments_refuse_null) {
  expect_null(ls_device_assignment_build(NULL, NULL, some),
              "ls_device_assignment_build: topology is NULL");
  expect_null(ls_device_assignment_build(some, NULL, NULL),
              "ls_device_assignment_build: out_assignment is NULL");
  expect_null(ls_device_assignment_create(NULL, some, some),
              "ls_device_assignment_create: topology is NULL");
  expect_null(ls_device_assignment_create(some, NULL, some),
              "ls_device_assignment_create: cores is NULL");
  expect_null(ls_device_assignment_create(some, some, NULL),
              "ls_device_assignment_create: out_assignment is NULL");
  expect_null(ls_single_core_assignment(NULL),
              "ls_single_core_assignment: out_cores is NULL");
  expect_null(ls_device_assignment_place(NULL, 0, 0, some),
              "ls_device_assignment_place: assignment is NULL");
  expect_null(ls_device_assignment_place(some, 0, 0, NULL),
              "ls_device_assignment_place: out_place is NULL");
  expect_null(ls_device_assignment_ordinal(some, 0, 0, NULL),
              "ls_device_assignment_ordinal: out_ordinal is NULL");
  expect_null(ls_device_assignment_device(some, 0, 0, "", NULL),
              "ls_device_assignment_device: out_name is NULL");
  expect_null(ls_device_assignment_host(some, 0, 0, "", NULL),
              "ls_device_assignment_host: out_name is NULL");
  expect_null(ls_device_assignment_replicas_on(NULL, 0, 0, some, 1, some),
              "ls_device_assignment_replicas_on: assignment is NULL");
  expect_null(ls_device_assignment_replicas_on(some, 0, 0, NULL, 1, some),
              "ls_device_assignment_replicas_on: replicas is NULL");
  expect_null(ls_device_assignment_replicas_on(some, 0, 0, some, 1, NULL),
              "ls_device_assignment_replicas_on: out_count is NULL");
  ls_device_assignment_release(NULL);
}

TEST(calls_of_resolvers_refuse_null) {
  const ls_opt own = {0};
  expect_null(ls_tpu_resolver_create(NULL, NULL),
              "ls_tpu_resolver_create: out_resolver is NULL");
  expect_null(ls_tpu_resolver_connect(NULL, NULL),
              "ls_tpu_resolver_connect: out_resolver is NULL");
  expect_null(ls_tpu_resolver_set_task(NULL, "", 0),
              "ls_tpu_resolver_set_task: resolver is NULL");
  expect_null(ls_tpu_resolver_set_task(some, NULL, 0),
              "ls_tpu_resolver_set_task: type is NULL");
  expect_null(ls_tpu_resolver_cluster_spec(NULL, some),
              "ls_tpu_resolver_cluster_spec: resolver is NULL");
  expect_null(ls_tpu_resolver_cluster_spec(some, NULL),
              "ls_tpu_resolver_cluster_spec: out_spec is NULL");
  expect_null(ls_tpu_resolver_master(NULL, "", own, some),
              "ls_tpu_resolver_master: resolver is NULL");
  expect_null(ls_tpu_resolver_master(some, "", own, NULL),
              "ls_tpu_resolver_master: out_master is NULL");
  expect_null(ls_tpu_placement_job(NULL, NULL, some),
              "ls_tpu_placement_job: master is NULL");
  expect_null(ls_tpu_placement_job("", NULL, NULL),
              "ls_tpu_placement_job: out_job is NULL");
  expect_null(ls_tpu_resolver_num_accelerators(NULL, some),
              "ls_tpu_resolver_num_accelerators: resolver is NULL");
  expect_null(ls_tpu_resolver_num_accelerators(some, NULL),
              "ls_tpu_resolver_num_accelerators: out_tpus is NULL");
  ls_tpu_resolver_release(NULL);
  ls_cluster_spec_destroy(NULL);
}

TEST(calls_of_systems_refuse_null) {
  expect_null(ls_tpu_metadata_query(NULL, true, some),
              "ls_tpu_metadata_query: resolver is NULL");
  expect_null(ls_tpu_metadata_query(some, true, NULL),
              "ls_tpu_metadata_query: out_metadata is NULL");
  expect_null(ls_tpu_connect(NULL), "ls_tpu_connect: resolver is NULL");
  expect_null(ls_tpu_initialize(NULL, some),
              "ls_tpu_initialize: resolver is NULL");
  expect_null(ls_tpu_shutdown(NULL), "ls_tpu_shutdown: resolver is NULL");
  expect_null(ls_tpu_initialized_systems(NULL),
              "ls_tpu_initialized_systems: out_systems is NULL");
  expect_null(ls_runtime_devices(NULL, some, some),
              "ls_runtime_devices: runtime is NULL");
  expect_null(ls_runtime_devices(some, NULL, some),
              "ls_runtime_devices: out_devices is NULL");
  expect_null(ls_runtime_devices(some, some, NULL),
              "ls_runtime_devices: out_count is NULL");
  expect_null(ls_tpu_system_device("", NULL),
              "ls_tpu_system_device: out_name is NULL");
  expect_null(ls_tpu_pod(NULL, some), "ls_tpu_pod: resolver is NULL");
  expect_null(ls_tpu_pod(some, NULL), "ls_tpu_pod: out_pod is NULL");
  expect_null(ls_pod_print(NULL, some), "ls_pod_print: pod is NULL");
  expect_null(ls_pod_print(some, NULL), "ls_pod_print: out_text is NULL");
  expect_null(ls_pod_inject(NULL, some), "ls_pod_inject: pod is NULL");
  expect_null(ls_pod_inject(some, NULL), "ls_pod_inject: fault is NULL");
  ls_tpu_metadata_destroy(NULL);
  ls_tpu_systems_destroy(NULL);
  ls_pod_release(NULL);
}
