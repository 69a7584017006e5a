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
  expect_null_argument(mesh, ls_topology_create, NULL, 4, some, some);
  expect_null_argument(coordinates, ls_topology_create, some, 4, NULL, some);
  expect_null_argument(out_topology, ls_topology_create, some, 4, some, NULL);
  expect_null_argument(bytes, ls_topology_parse, NULL, 1, some);
  expect_null_argument(out_topology, ls_topology_parse, some, 1, NULL);
  expect_null_argument(topology, ls_topology_place_of, NULL, 0, 0, some);
  expect_null_argument(out_place, ls_topology_place_of, some, 0, 0, NULL);
  expect_null_argument(topology, ls_topology_task_at, NULL, at, some);
  expect_null_argument(out_task, ls_topology_task_at, some, at, NULL);
  expect_null_argument(topology, ls_topology_ordinal_at, NULL, at, some);
  expect_null_argument(out_ordinal, ls_topology_ordinal_at, some, at, NULL);
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
  expect_null_argument(topology, ls_device_assignment_build, NULL, NULL, some);
  expect_null_argument(out_assignment, ls_device_assignment_build, some, NULL,
                       NULL);
  expect_null_argument(topology, ls_device_assignment_create, NULL, some, some);
  expect_null_argument(cores, ls_device_assignment_create, some, NULL, some);
  expect_null_argument(out_assignment, ls_device_assignment_create, some, some,
                       NULL);
  expect_null_argument(out_cores, ls_single_core_assignment, NULL);
  expect_null_argument(assignment, ls_device_assignment_place, NULL, 0, 0,
                       some);
  expect_null_argument(out_place, ls_device_assignment_place, some, 0, 0, NULL);
  expect_null_argument(out_ordinal, ls_device_assignment_ordinal, some, 0, 0,
                       NULL);
  expect_null(ls_device_assignment_device(some, 0, 0, "", NULL),
              "ls_device_assignment_device: out_name is NULL");
  expect_null(ls_device_assignment_host(some, 0, 0, "", NULL),
              "ls_device_assignment_host: out_name is NULL");
  expect_null_argument(assignment, ls_device_assignment_replicas_on, NULL, 0, 0,
                       some, 1, some);
  expect_null_argument(replicas, ls_device_assignment_replicas_on, some, 0, 0,
                       NULL, 1, some);
  expect_null_argument(out_count, ls_device_assignment_replicas_on, some, 0, 0,
                       some, 1, NULL);
  ls_device_assignment_release(NULL);
}

TEST(calls_of_resolvers_refuse_null) {
  const ls_opt own = {0};
  expect_null_argument(out_resolver, ls_tpu_resolver_create, NULL, NULL);
  expect_null_argument(out_resolver, ls_tpu_resolver_connect, NULL, NULL);
  expect_null(ls_tpu_resolver_set_task(NULL, "", 0),
              "ls_tpu_resolver_set_task: resolver is NULL");
  expect_null_argument(type, ls_tpu_resolver_set_task, some, NULL, 0);
  expect_null_argument(resolver, ls_tpu_resolver_cluster_spec, NULL, some);
  expect_null_argument(out_spec, ls_tpu_resolver_cluster_spec, some, NULL);
  expect_null(ls_tpu_resolver_master(NULL, "", own, some),
              "ls_tpu_resolver_master: resolver is NULL");
  expect_null(ls_tpu_resolver_master(some, "", own, NULL),
              "ls_tpu_resolver_master: out_master is NULL");
  expect_null_argument(master, ls_tpu_placement_job, NULL, NULL, some);
  expect_null(ls_tpu_placement_job("", NULL, NULL),
              "ls_tpu_placement_job: out_job is NULL");
  expect_null_argument(resolver, ls_tpu_resolver_num_accelerators, NULL, some);
  expect_null_argument(out_tpus, ls_tpu_resolver_num_accelerators, some, NULL);
  ls_tpu_resolver_release(NULL);
  ls_cluster_spec_destroy(NULL);
}

TEST(calls_of_systems_refuse_null) {
  expect_null_argument(resolver, ls_tpu_metadata_query, NULL, true, some);
  expect_null_argument(out_metadata, ls_tpu_metadata_query, some, true, NULL);
  expect_null_argument(resolver, ls_tpu_connect, NULL);
  expect_null_argument(resolver, ls_tpu_initialize, NULL, some);
  expect_null_argument(resolver, ls_tpu_shutdown, NULL);
  expect_null_argument(out_systems, ls_tpu_initialized_systems, NULL);
  expect_null_argument(runtime, ls_runtime_devices, NULL, some, some);
  expect_null_argument(out_devices, ls_runtime_devices, some, NULL, some);
  expect_null_argument(out_count, ls_runtime_devices, some, some, NULL);
  expect_null(ls_tpu_system_device("", NULL),
              "ls_tpu_system_device: out_name is NULL");
  expect_null_argument(resolver, ls_tpu_pod, NULL, some);
  expect_null_argument(out_pod, ls_tpu_pod, some, NULL);
  expect_null_argument(pod, ls_pod_print, NULL, some);
  expect_null_argument(out_text, ls_pod_print, some, NULL);
  expect_null_argument(pod, ls_pod_inject, NULL, some);
  expect_null_argument(fault, ls_pod_inject, some, NULL);
  ls_tpu_metadata_destroy(NULL);
  ls_tpu_systems_destroy(NULL);
  ls_pod_release(NULL);
}
