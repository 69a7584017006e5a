// SPDX-License-Identifier: Apache-2.0
//
// What a TPU strategy takes from its system.
#include <stdio.h>
#include <string.h>

#include "lockstep/strategy_extended.h"
#include "support/counted.h"
#include "support/fault.h"
#include "support/spec.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"
#include "tpu/strategy/strategy.h"

// ---- A system that answers -------------------------------------------------
typedef struct world {
  const char *const *devices;
  size_t num_devices;
  int queries, initializations;
} world;

// mesh 1x1x1x2, one task of two devices.
static const char two_cores[] = "\x0a\x04\x01\x01\x01\x02\x10\x01\x18\x02\x22"
                                "\x08\0\0\0\0\0\0\0\x01";

static ls_status query(void *user, const ls_tpu_question *question,
                       ls_tpu_answer *out) {
  world *w = user;
  ++w->queries;
  w->initializations += question->initializes;
  out->devices = w->devices;
  out->num_devices = w->num_devices;
  out->topology = two_cores;
  out->topology_size = sizeof(two_cores) - 1;
  return ls_ok();
}

static ls_tpu_resolver *create_queried(world *w) {
  ls_tpu_resolver *resolver = NULL;
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "grpc://a", .query = query, .user = w},
      &resolver));
  return resolver;
}

static ls_strategy *create(ls_tpu_resolver *resolver,
                           ls_device_assignment *assignment) {
  ls_strategy *strategy = NULL;
  expect_ok(ls_tpu_strategy_create(
      &(ls_tpu_options){.resolver = resolver, .assignment = assignment},
      &strategy));
  return strategy;
}

static void expect_device(const ls_strategy *strategy, int32_t replica,
                          int32_t core, const char *wanted) {
  ls_device_name name;
  expect_ok(ls_tpu_strategy_device(strategy, replica, core, &name));
  assert_string_equal(name.text, wanted);
}

// ---- Its system ------------------------------------------------------------
TEST(without_a_resolver_it_is_the_local_system) {
  LS_SPEC("T5");
  LS_OWN(counted, c) = counted_begin(1);
  LS_OWN(ls_strategy, strategy) = create(NULL, NULL);
  ls_tpu_resolver *resolver = ls_tpu_strategy_resolver(strategy);
  assert_non_null(resolver);
  assert_string_equal(ls_tpu_resolver_name(resolver), "");
  assert_int_equal(ls_strategy_num_replicas(strategy), 8);
  expect_device(strategy, 0, 0, "/job:localhost/replica:0/task:0/device:TPU:0");
  ls_strategy_release(strategy);
  LS_OWN(ls_tpu_resolver, given) = NULL;
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "virtual:2x1"}, &given));
  strategy = create(given, NULL);
  assert_ptr_equal(ls_tpu_strategy_resolver(strategy), given);
}

TEST(the_system_is_asked_once_and_not_initialized) {
  LS_SPEC("T6 T13");
  static const char *const devices[] = {"/job:w/task:0/device:TPU:0",
                                        "/job:w/task:0/device:TPU:1",
                                        "/job:w/task:0/device:CPU:0"};
  LS_OWN(counted, c) = counted_begin(1);
  world w = {.devices = devices, .num_devices = 3};
  LS_OWN(ls_tpu_resolver, resolver) = create_queried(&w);
  expect_ok(ls_tpu_connect(resolver));
  LS_OWN(ls_strategy, strategy) = create(resolver, NULL);
  assert_int_equal(w.queries, 1);
  assert_int_equal(w.initializations, 0);
  w.num_devices = 1;
  assert_int_equal(ls_tpu_strategy_metadata(strategy)->num_cores, 2);
  assert_int_equal(ls_tpu_strategy_metadata(strategy)->num_devices, 3);
  assert_int_equal(ls_strategy_num_replicas(strategy), 2);
  assert_int_equal(ls_tpu_strategy_num_replicas_per_host(strategy), 2);
  expect_device(strategy, 1, 0, "/job:w/replica:0/task:0/device:TPU:1");
  assert_int_equal(w.queries, 1);
  ls_strategy_release(strategy);
  ls_tpu_resolver_release(resolver);
  // A virtual system, not initialized by it either, nor before.
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "virtual:2x1"}, &resolver));
  strategy = create(resolver, NULL);
  LS_OWN(ls_pod, pod) = NULL;
  expect_ok(ls_tpu_pod(resolver, &pod));
  assert_false(ls_pod_is_initialized(pod));
}

TEST(its_resolver_initializes_its_system) {
  LS_SPEC("T30");
  LS_OWN(counted, c) = counted_begin(1);
  ls_tpu_resolver *resolver = NULL;
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "virtual:2x1"}, &resolver));
  LS_OWN(ls_strategy, strategy) = create(resolver, NULL);
  size_t size = 0;
  assert_null(ls_tpu_resolver_hardware(resolver, &size));
  LS_OWN(ls_topology, topology) = NULL;
  expect_ok(ls_tpu_initialize(ls_tpu_strategy_resolver(strategy), &topology));
  assert_non_null(ls_tpu_resolver_hardware(resolver, &size));
  ls_pod *pod = NULL;
  expect_ok(ls_tpu_pod(resolver, &pod));
  assert_true(ls_pod_is_initialized(pod));
  ls_pod_release(pod);
  ls_tpu_systems *systems = NULL;
  expect_ok(ls_tpu_initialized_systems(&systems));
  assert_int_equal(systems->count, 1);
  assert_string_equal(systems->systems[0].name, "virtual:2x1");
  ls_tpu_systems_destroy(systems);
  ls_strategy_release(strategy);
  ls_tpu_resolver_release(resolver);
  expect_ok(ls_mirrored_strategy_create(NULL, &strategy));
  ls_device_name name;
  assert_null(ls_tpu_strategy_resolver(strategy));
  assert_null(ls_tpu_strategy_metadata(strategy));
  expect_status(ls_tpu_strategy_device(strategy, 0, 0, &name),
                LS_INVALID_ARGUMENT, "no TPU strategy");
}

TEST(a_system_without_tpus_has_no_strategy) {
  LS_SPEC("T46 T195");
  static const char *const devices[] = {"/job:w/task:0/device:CPU:0"};
  LS_OWN(counted, c) = counted_begin(1);
  world w = {.devices = devices, .num_devices = 1};
  LS_OWN(ls_tpu_resolver, resolver) = create_queried(&w);
  ls_topology *topology = NULL;
  ls_device_assignment *assignment = NULL;
  ls_strategy *strategy = NULL;
  expect_ok(ls_topology_parse(two_cores, sizeof(two_cores) - 1, &topology));
  expect_ok(ls_device_assignment_build(topology, NULL, &assignment));
  for (int i = 0; i < 2; ++i) {
    ls_status status = ls_tpu_strategy_create(
        &(ls_tpu_options){.resolver = resolver,
                          .assignment = i == 0 ? NULL : assignment},
        &strategy);
    assert_non_null(status);
    expect_contains(ls_status_message(status), "grpc://a:8470");
    expect_status(status, LS_NOT_FOUND, "/job:w/replica:0/task:0/device:CPU:0");
    assert_null(strategy);
  }
  ls_device_assignment_release(assignment);
  LS_OWN(ls_array, none) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_I32, LS_SHAPE(0, 1, 4), &none));
  expect_status(ls_device_assignment_create(topology, none, &assignment),
                LS_INVALID_ARGUMENT, "is empty");
  ls_topology_release(topology);
  ls_tpu_resolver_release(resolver);
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "grpc://b"}, &resolver));
  expect_status(ls_tpu_strategy_create(&(ls_tpu_options){.resolver = resolver},
                                       &strategy),
                LS_UNIMPLEMENTED, "b:8470");
}

// ---- Its devices -----------------------------------------------------------
TEST(replicas_are_on_the_cores_in_metadata_order) {
  LS_SPEC("T44 T47 T50 T51");
  static const char *const devices[] = {
      "/job:w/task:1/device:TPU:0", "/job:w/task:0/device:TPU:10",
      "/job:w/task:0/device:TPU:2", "/job:w/task:1/device:TPU:1",
      "/job:w/task:0/device:CPU:0", "/job:w/task:0/device:TPU_SYSTEM:0"};
  static const char *const wanted[] = {"/job:w/replica:0/task:0/device:TPU:2",
                                       "/job:w/replica:0/task:0/device:TPU:10",
                                       "/job:w/replica:0/task:1/device:TPU:0",
                                       "/job:w/replica:0/task:1/device:TPU:1"};
  LS_OWN(counted, c) = counted_begin(1);
  world w = {.devices = devices, .num_devices = 6};
  LS_OWN(ls_tpu_resolver, resolver) = create_queried(&w);
  LS_OWN(ls_strategy, strategy) = create(resolver, NULL);
  const char *names[8] = {NULL};
  size_t count = 0;
  expect_ok(ls_strategy_worker_devices(strategy, names, 8, &count));
  assert_int_equal(count, 4);
  assert_int_equal(ls_strategy_num_replicas(strategy), 4);
  for (int32_t r = 0; r < 4; ++r) {
    assert_string_equal(names[r], wanted[r]);
    expect_device(strategy, r, 0, wanted[r]);
  }
  ls_device_name name;
  expect_status(ls_tpu_strategy_device(strategy, 0, 1, &name),
                LS_INVALID_ARGUMENT, "4 replicas of 1 core");
  expect_status(ls_tpu_strategy_device(strategy, 4, 0, &name),
                LS_INVALID_ARGUMENT, "replica 4");
  expect_ok(ls_tpu_strategy_host(strategy, &name));
  assert_string_equal(name.text, "/job:w/replica:0/task:0/device:CPU:0");
  assert_int_equal(ls_tpu_strategy_num_hosts(strategy), 2);
  assert_int_equal(ls_tpu_strategy_num_replicas_per_host(strategy), 2);
}

TEST(an_assignment_says_where_logical_cores_are) {
  LS_SPEC("T45 T47 T50 T51");
  LS_OWN(counted, c) = counted_begin(1);
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  LS_OWN(ls_topology, topology) = NULL;
  LS_OWN(ls_device_assignment, assignment) = NULL;
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "virtual:4x1,hosts=4", .job = "pod"},
      &resolver));
  expect_ok(ls_tpu_initialize(resolver, &topology));
  // Replica 0 on host 2, replicas 1 and 2 on host 1.
  static const int32_t data[] = {2, 0, 0, 1, 3, 0, 0, 0, 1, 0, 0, 0,
                                 3, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 1};
  LS_OWN(ls_array, cores) = NULL;
  expect_ok(
      ls_array_create_copy(LS_DTYPE_I32, LS_SHAPE(3, 2, 4), data, &cores));
  expect_ok(ls_device_assignment_create(topology, cores, &assignment));
  LS_OWN(ls_strategy, strategy) = create(resolver, assignment);
  assert_int_equal(ls_strategy_num_replicas(strategy), 3);
  expect_device(strategy, 0, 0, "/job:pod/replica:0/task:2/device:TPU:1");
  expect_device(strategy, 0, 1, "/job:pod/replica:0/task:3/device:TPU:0");
  expect_device(strategy, 2, 0, "/job:pod/replica:0/task:1/device:TPU:1");
  expect_device(strategy, 2, 1, "/job:pod/replica:0/task:0/device:TPU:1");
  ls_device_name name;
  expect_status(ls_tpu_strategy_device(strategy, 0, 2, &name),
                LS_INVALID_ARGUMENT, "logical core 2");
  expect_ok(ls_tpu_strategy_host(strategy, &name));
  assert_string_equal(name.text, "/job:pod/replica:0/task:2/device:CPU:0");
  assert_int_equal(ls_tpu_strategy_num_hosts(strategy), 2);
  // 2 cores a host, 2 a replica.
  assert_int_equal(ls_tpu_strategy_num_replicas_per_host(strategy), 1);
}

MEMORY_TEST(make_a_strategy) {
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_strategy_create(NULL, &strategy));
  return ls_ok();
}
