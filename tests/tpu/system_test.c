// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/memory/allocator.h"
#include "lockstep/eager.h"
#include "lockstep/function.h"
#include "lockstep/strategy.h"
#include "lockstep/tpu_system.h"
#include "support/counted.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/spec.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"

// ---- A world that is ours --------------------------------------------------
typedef struct world {
  int warnings;
  char last_warning[512];
  const char *local;  // LS_LOCAL_POD.
  const char *const *devices;
  size_t num_devices;
  int initializations;
} world;

static void note(void *user, const ls_log_line *line) {
  world *w = user;
  if (line->level != LS_LOG_WARNING) return;
  ++w->warnings;
  snprintf(w->last_warning, sizeof(w->last_warning), "%s", line->text);
}

static const char *environment(void *user, const char *name) {
  const world *w = user;
  return strcmp(name, "LS_LOCAL_POD") == 0 ? w->local : NULL;
}

static counted begin(world *w) {
  return counted_begin_with((ls_runtime_options){.threads = 1,
                                                 .environment = environment,
                                                 .environment_user = w,
                                                 .log = note,
                                                 .log_user = w});
}

// mesh 1x1x1x2, one task of two devices, hardware {embedding_feature: 1}.
static const char two_cores[] = "\x0a\x04\x01\x01\x01\x02\x10\x01\x18\x02\x22"
                                "\x08\0\0\0\0\0\0\0\x01\x2a\x02\x08\x01";

static ls_status query(void *user, const ls_tpu_question *question,
                       ls_tpu_answer *out) {
  world *w = user;
  w->initializations += question->initializes;
  out->devices = w->devices;
  out->num_devices = w->num_devices;
  out->topology = two_cores;
  out->topology_size = sizeof(two_cores) - 1;
  return ls_ok();
}

static ls_tpu_resolver *create(const char *name) {
  ls_tpu_resolver *resolver = NULL;
  expect_ok(ls_tpu_resolver_create(&(ls_tpu_resolver_options){.name = name},
                                   &resolver));
  return resolver;
}

static void initialize(ls_tpu_resolver *resolver) {
  expect_ok(ls_tpu_initialize(resolver, NULL));  // The topology is not wanted.
}

// "virtual:2x2 of worker, ..."
static const char *systems(void) {
  static char text[512];
  ls_tpu_systems *all = NULL;
  size_t at = 0;
  text[0] = '\0';
  expect_ok(ls_tpu_initialized_systems(&all));
  for (size_t i = 0; i < all->count; ++i) {
    assert_non_null(all->systems[i].topology);
    at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s of %s",
                           i == 0 ? "" : ", ", all->systems[i].name,
                           all->systems[i].job);
  }
  ls_tpu_systems_destroy(all);
  return text;
}

// ---- Names of virtual pods -------------------------------------------------
TEST(virtual_pods_are_named_by_their_mesh) {
  LS_SPEC("T194");
  static const struct {
    const char *name;
    int32_t mesh[4], hosts;
  } rows[] = {
      {"virtual:2x2", {2, 2, 1, 2}, 1},
      {"virtual:1x1", {1, 1, 1, 2}, 1},
      {"virtual:4x2x3", {4, 2, 3, 2}, 1},
      {"virtual:4x2,cores=1", {4, 2, 1, 1}, 1},
      {"virtual:4x2,hosts=2", {4, 2, 1, 2}, 2},
      {"virtual:4x4x4,hosts=4,cores=3", {4, 4, 4, 3}, 4},
      {"virtual:16x16x2,hosts=16", {16, 16, 2, 2}, 16},
  };
  world w = {0};
  LS_OWN(counted, c) = begin(&w);
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(ls_tpu_resolver, resolver) = create(rows[i].name);
    LS_OWN(ls_tpu_metadata, metadata) = NULL;
    expect_ok(ls_tpu_connect(resolver));
    expect_ok(ls_tpu_metadata_query(resolver, true, &metadata));
    const int32_t *mesh = rows[i].mesh;
    const int32_t cores = mesh[0] * mesh[1] * mesh[2] * mesh[3];
    assert_memory_equal(ls_topology_mesh(metadata->topology), mesh,
                        sizeof(rows[i].mesh));
    assert_int_equal(ls_topology_num_tasks(metadata->topology), rows[i].hosts);
    assert_int_equal(ls_topology_missing(metadata->topology, NULL, 0), 0);
    assert_int_equal(metadata->num_cores, cores);
    assert_int_equal(metadata->num_hosts, rows[i].hosts);
    assert_int_equal(metadata->num_of_cores_per_host, cores / rows[i].hosts);
    assert_int_equal(metadata->num_devices, cores + 2 * rows[i].hosts);
    // Hosts split x.
    for (int32_t t = 0; t < rows[i].hosts; ++t) {
      ls_coordinate first, last;
      const int32_t wide = mesh[0] / rows[i].hosts;
      expect_ok(ls_topology_place_of(metadata->topology, t, 0, &first));
      expect_ok(ls_topology_place_of(metadata->topology, t,
                                     cores / rows[i].hosts - 1, &last));
      assert_int_equal(first.at[0], t * wide);
      assert_int_equal(last.at[0], (t + 1) * wide - 1);
    }
  }
}

TEST(names_of_pods_that_cannot_be_are_refused) {
  LS_SPEC("T194");
  static const struct {
    const char *name, *part;
  } rows[] = {
      {"virtual:", "'' is no number"},
      {"virtual:4", "'4' has one size"},
      {"virtual:0x2", "'0' is below 1"},
      {"virtual:2x", "'' is no number"},
      {"virtual:2x-1", "'-1' is no number"},
      {"virtual:2x2y", "'2y' is no number"},
      {"virtual:2x2x2x2", "'2x2x2x2' has more than 3"},
      {"virtual:2x2,cores=0", "'0' is below 1"},
      {"virtual:2x2,cores=", "'' is no number"},
      {"virtual:2x2,hosts=0", "'0' is below 1"},
      {"virtual:2x2,hosts=3", "'hosts=3' does not divide A"},
      {"virtual:4x4x4,hosts=16", "'hosts=16' does not divide A"},
      {"virtual:2x2,hosts=1,hosts=2", "'hosts=2' is there twice"},
      {"virtual:2x2,chips=4", "'chips=4' is an unknown word"},
      {"virtual:2x2,", "'' is an unknown word"},
      {"virtual:99999999999999999999x2", "is more cores than a pod has"},
      {"virtual:1000x1000", "more than 65536 cores"},
      {"virtual:60000x60000x60000,cores=60000", "more than 65536 cores"},
  };
  world w = {0};
  LS_OWN(counted, c) = begin(&w);
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    ls_tpu_resolver *resolver = NULL;
    ls_status status = ls_tpu_resolver_create(
        &(ls_tpu_resolver_options){.name = rows[i].name}, &resolver);
    assert_non_null(status);
    expect_contains(ls_status_message(status), rows[i].name);
    if (strstr(rows[i].part, "65536") == NULL)
      expect_contains(ls_status_message(status), "AxB[xC][,cores=N][,hosts=H]");
    expect_status(status, LS_INVALID_ARGUMENT, rows[i].part);
  }
}

static ls_status never(void *user, const char *name, const char *zone,
                       const char *project, ls_tpu_node *out) {
  (void)name;
  (void)zone;
  (void)project;
  (void)out;
  ++*(int *)user;
  return ls_not_found("never");
}

TEST(one_name_is_one_pod_and_is_not_looked_up) {
  LS_SPEC("T194");
  world w = {0};
  LS_OWN(counted, c) = begin(&w);
  int lookups = 0;
  LS_OWN(ls_tpu_resolver, first) = NULL;
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){
          .name = "virtual:2x2", .lookup = never, .user = &lookups},
      &first));
  LS_OWN(ls_tpu_resolver, second) = create("virtual:2x2");
  ls_pod *pod = NULL, *same = NULL;
  expect_ok(ls_tpu_pod(first, &pod));
  expect_ok(ls_tpu_pod(second, &same));
  assert_ptr_equal(pod, same);
  ls_pod_release(same);
  initialize(first);
  expect_ok(ls_tpu_shutdown(second));
  expect_ok(ls_tpu_pod(first, &same));
  assert_ptr_not_equal(pod, same);
  assert_int_equal(lookups, 0);
  ls_pod_release(pod);
  ls_pod_release(same);
}

TEST(a_pod_of_1024_cores_costs_little) {
  LS_SPEC("T194");
  world w = {0};
  LS_OWN(counted, c) = begin(&w);
  const clock_t began = clock();
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  expect_ok(ls_tpu_resolver_connect(
      &(ls_tpu_resolver_options){.name = "virtual:16x16x2,hosts=16"},
      &resolver));
  const double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
  assert_true(seconds < 0.02);
  assert_null(c.runtime->workers);
  assert_null(c.runtime->host_threads);
}

// ---- The local pod ---------------------------------------------------------
TEST(the_local_pod_has_eight_cores_unless_told_otherwise) {
  LS_SPEC("T20 T194");
  static const struct {
    const char *option, *variable;
    int32_t hosts, per_host;
  } rows[] = {{NULL, NULL, 1, 8},
              {NULL, "4x2,hosts=2", 2, 8},
              {"1x1,cores=1", "4x2,hosts=2", 1, 1}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    world w = {.local = rows[i].variable};
    LS_OWN(counted, c) = begin(&w);
    LS_OWN(ls_tpu_resolver, resolver) = NULL;
    LS_OWN(ls_tpu_metadata, metadata) = NULL;
    expect_ok(ls_tpu_resolver_create(
        &(ls_tpu_resolver_options){.local = rows[i].option}, &resolver));
    expect_ok(ls_tpu_metadata_query(resolver, false, &metadata));
    assert_int_equal(metadata->num_hosts, rows[i].hosts);
    assert_int_equal(metadata->num_of_cores_per_host, rows[i].per_host);
    assert_string_equal(metadata->devices[1].text,
                        "/job:localhost/replica:0/task:0/device:TPU:0");
    int32_t tpus = 0;
    expect_ok(ls_tpu_resolver_num_accelerators(resolver, &tpus));
    assert_int_equal(tpus, rows[i].per_host);
  }
  world w = {.local = "2x2,hosts=3"};
  LS_OWN(counted, c) = begin(&w);
  ls_tpu_resolver *resolver = NULL;
  expect_status(ls_tpu_resolver_create(NULL, &resolver), LS_INVALID_ARGUMENT,
                "hosts=3");
}

TEST(another_shape_needs_a_shut_down_first) {
  world w = {0};
  LS_OWN(counted, c) = begin(&w);
  LS_OWN(ls_tpu_resolver, first) = create("local");
  LS_OWN(ls_tpu_resolver, second) = NULL;
  expect_ok(ls_tpu_connect(first));
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.local = "4x2", .queue_depth = 3}, &second));
  expect_status(ls_tpu_connect(second), LS_FAILED_PRECONDITION,
                "[2, 2, 1, 2] on 1 hosts, not of [4, 2, 1, 2] on 1");
  expect_ok(ls_tpu_shutdown(first));
  expect_ok(ls_tpu_connect(second));
  LS_OWN(ls_pod, pod) = NULL;
  expect_ok(ls_tpu_pod(second, &pod));
  assert_int_equal(pod->queue_depth, 3);
}

// ---- Connecting ------------------------------------------------------------
TEST(addresses_are_not_connected_to) {
  LS_SPEC("T195");
  world w = {0};
  LS_OWN(counted, c) = begin(&w);
  static const char *const fine[] = {"", "local", "virtual:2x2"};
  for (size_t i = 0; i < LS_COUNT_OF(fine); ++i) {
    LS_OWN(ls_tpu_resolver, resolver) = create(fine[i]);
    for (int times = 0; times < 3; ++times)
      expect_ok(ls_tpu_connect(resolver));
  }
  ls_tpu_resolver *resolver = create("grpc://10.0.0.3,10.0.0.4");
  ls_topology *topology = NULL;
  ls_tpu_metadata *metadata = NULL;
  int32_t tpus = 0;
  ls_status status = ls_tpu_connect(resolver);
  assert_non_null(status);
  expect_contains(ls_status_message(status), "virtual pods");
  expect_contains(ls_status_message(status), "ranks of the job");
  expect_status(status, LS_UNIMPLEMENTED, "10.0.0.3:8470");
  expect_status(ls_tpu_initialize(resolver, &topology), LS_UNIMPLEMENTED,
                "10.0.0.3:8470");
  expect_status(ls_tpu_metadata_query(resolver, false, &metadata),
                LS_UNIMPLEMENTED, "10.0.0.3:8470");
  expect_status(ls_tpu_resolver_num_accelerators(resolver, &tpus),
                LS_UNIMPLEMENTED, "10.0.0.3:8470");
  ls_pod *pod = NULL;
  expect_status(ls_tpu_pod(resolver, &pod), LS_UNIMPLEMENTED, "a pod of TPU");
  ls_tpu_resolver_release(resolver);
  expect_status(
      ls_tpu_resolver_connect(
          &(ls_tpu_resolver_options){.name = "grpc://10.0.0.3"}, &resolver),
      LS_UNIMPLEMENTED, "10.0.0.3:8470");
  assert_null(resolver);

  static const char *const devices[] = {"/job:worker/task:0/device:TPU:0",
                                        "/job:worker/task:0/device:TPU:1"};
  w.devices = devices;
  w.num_devices = 2;
  expect_ok(ls_tpu_resolver_connect(
      &(ls_tpu_resolver_options){
          .name = "grpc://10.0.0.3", .query = query, .user = &w},
      &resolver));
  expect_ok(ls_tpu_resolver_num_accelerators(resolver, &tpus));
  assert_int_equal(tpus, 2);
  assert_string_equal(systems(), "grpc://10.0.0.3 of worker");
  ls_tpu_resolver_release(resolver);
}

TEST(connecting_by_options_initializes) {
  LS_SPEC("T22");
  world w = {0};
  LS_OWN(counted, c) = begin(&w);
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  expect_ok(ls_tpu_resolver_connect(
      &(ls_tpu_resolver_options){
          .name = "virtual:2x2", .zone = "z", .project = "p"},
      &resolver));
  assert_string_equal(ls_tpu_resolver_zone(resolver), "z");
  assert_string_equal(ls_tpu_resolver_project(resolver), "p");
  assert_string_equal(systems(), "virtual:2x2 of worker");
}

// ---- Initializing ----------------------------------------------------------
TEST(initializing_gives_and_registers_a_topology) {
  LS_SPEC("T27");
  static const char *const devices[] = {"/job:worker/task:0/device:TPU:0",
                                        "/job:worker/task:0/device:TPU:1"};
  world w = {.devices = devices, .num_devices = 2};
  LS_OWN(counted, c) = begin(&w);
  assert_string_equal(systems(), "");
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){
          .name = "grpc://a", .query = query, .user = &w},
      &resolver));
  size_t size = 9;
  assert_null(ls_tpu_resolver_hardware(resolver, &size));
  assert_int_equal(size, 0);
  ls_topology *topology = NULL;
  expect_ok(ls_tpu_initialize(resolver, &topology));
  assert_int_equal(w.initializations, 1);
  assert_int_equal(ls_topology_num_devices_per_task(topology), 2);
  assert_memory_equal(ls_tpu_resolver_hardware(resolver, &size), "\x08\x01", 2);
  assert_int_equal(size, 2);
  ls_topology_release(topology);

  // The job is the other system's.
  ls_tpu_resolver *pod = create("virtual:2x1");
  expect_status(ls_tpu_initialize(pod, NULL), LS_FAILED_PRECONDITION,
                "TPU system 'virtual:2x1' cannot be initialized: its job "
                "worker belongs to TPU system 'grpc://a'");
  ls_tpu_resolver_release(pod);
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "virtual:2x1", .job = "pod"}, &pod));
  assert_null(ls_tpu_resolver_hardware(pod, &size));
  expect_ok(ls_tpu_initialize(pod, &topology));
  assert_non_null(ls_tpu_resolver_hardware(pod, &size));
  static const int32_t mesh[] = {2, 1, 1, 2};
  assert_memory_equal(ls_topology_mesh(topology), mesh, sizeof(mesh));
  ls_topology_release(topology);

  // The table is a copy: it stays as it was.
  ls_tpu_systems *before = NULL;
  expect_ok(ls_tpu_initialized_systems(&before));
  expect_ok(ls_tpu_shutdown(resolver));
  assert_int_equal(before->count, 2);
  assert_string_equal(before->systems[0].name, "grpc://a");
  assert_string_equal(before->systems[1].name, "virtual:2x1");
  assert_int_equal(ls_topology_num_tasks(before->systems[0].topology), 1);
  ls_tpu_systems_destroy(before);
  assert_string_equal(systems(), "virtual:2x1 of pod");
  ls_tpu_resolver_release(pod);
}

TEST(initializing_again_warns_and_starts_anew) {
  LS_SPEC("T28");
  world w = {0};
  LS_OWN(counted, c) = begin(&w);
  LS_OWN(ls_tpu_resolver, resolver) = create("virtual:2x2");
  LS_OWN(ls_pod, pod) = NULL;
  expect_ok(ls_tpu_pod(resolver, &pod));
  initialize(resolver);
  assert_int_equal(w.warnings, 0);
  const uint64_t before = ls_pod_generation(pod);
  // An op by itself leaves a program in a cache.
  const ls_tensor sum =
      ls_add(ls_scalar(LS_DTYPE_F32, 1), ls_scalar(LS_DTYPE_F32, 2));
  assert_false(ls_tensor_is_failed(sum));
  const ls_allocator_counts full = counted_now(&c);
  initialize(resolver);
  const ls_allocator_counts emptied = counted_now(&c);
  assert_true(emptied.live_bytes < full.live_bytes);
  assert_int_equal(w.warnings, 1);
  expect_contains(w.last_warning, "virtual:2x2");
  expect_contains(w.last_warning, "variables");
  assert_true(ls_pod_generation(pod) > before);
  assert_string_equal(systems(), "virtual:2x2 of worker");
}

TEST(a_system_without_tpus_is_not_found) {
  LS_SPEC("T28");
  static const char *const devices[] = {"/job:worker/task:0/device:CPU:0"};
  world w = {.devices = devices, .num_devices = 1};
  LS_OWN(counted, c) = begin(&w);
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  ls_topology *topology = NULL;
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){
          .name = "grpc://a", .query = query, .user = &w},
      &resolver));
  expect_status(ls_tpu_initialize(resolver, &topology), LS_NOT_FOUND,
                "/job:worker/replica:0/task:0/device:CPU:0");
  assert_null(topology);
  assert_string_equal(systems(), "");
}

TEST(shutting_down_takes_the_name_out) {
  LS_SPEC("T29");
  world w = {0};
  LS_OWN(counted, c) = begin(&w);
  LS_OWN(ls_tpu_resolver, resolver) = create("virtual:2x2");
  expect_ok(ls_tpu_shutdown(resolver));
  assert_int_equal(w.warnings, 1);
  expect_contains(w.last_warning, "virtual:2x2");
  initialize(resolver);
  assert_false(ls_tensor_is_failed(
      ls_add(ls_scalar(LS_DTYPE_F32, 1), ls_scalar(LS_DTYPE_F32, 2))));
  const ls_allocator_counts full = counted_now(&c);
  expect_ok(ls_tpu_shutdown(resolver));
  assert_true(counted_now(&c).live_bytes < full.live_bytes);
  assert_int_equal(w.warnings, 1);
  assert_string_equal(systems(), "");
  assert_null(ls_pod_find(c.runtime, "virtual:2x2", "worker"));
  expect_ok(ls_tpu_shutdown(resolver));
  assert_int_equal(w.warnings, 2);
}

// ---- While tracing ---------------------------------------------------------
typedef struct traced {
  ls_tpu_resolver *resolver;
  ls_code shutdown;
  ls_topology *topology;
} traced;

static ls_nest initialize_in_trace(ls_nest args, void *user) {
  traced *t = user;
  (void)args;
  const ls_status status = ls_tpu_shutdown(t->resolver);
  t->shutdown = ls_status_code(status);
  expect_contains(ls_status_message(status), "traced");
  ls_status_free(status);
  ls_topology_release(t->topology);
  const ls_status made = ls_tpu_initialize(t->resolver, &t->topology);
  if (!ls_status_is_ok(made)) return ls_fail(made);
  return ls_leaf(ls_scalar(LS_DTYPE_F32, 1));
}

TEST(a_trace_gets_the_topology_and_registers_nothing) {
  LS_SPEC("T28 T29");
  world w = {0};
  LS_OWN(counted, c) = begin(&w);
  traced t = {.resolver = create("virtual:2x2")};
  LS_OWN(ls_function, function) = function_of(initialize_in_trace, &t);
  LS_OWN(ls_nest, results) = call_results(function, ls_none());
  assert_int_equal(t.shutdown, LS_FAILED_PRECONDITION);
  assert_non_null(t.topology);
  assert_string_equal(systems(), "");
  size_t size = 0, wanted_size = 0;
  assert_null(ls_tpu_resolver_hardware(t.resolver, &size));
  const char *got = ls_topology_serialized(t.topology, &size);
  LS_OWN(ls_topology, wanted) = NULL;
  expect_ok(ls_tpu_initialize(t.resolver, &wanted));
  const char *bytes = ls_topology_serialized(wanted, &wanted_size);
  assert_int_equal(size, wanted_size);
  assert_memory_equal(got, bytes, size);
  ls_topology_release(t.topology);
  ls_tpu_resolver_release(t.resolver);
}

// ---- Devices ---------------------------------------------------------------
static size_t count_devices(ls_runtime *runtime, const char *last) {
  ls_device_name *devices = NULL;
  size_t count = 0;
  expect_ok(ls_runtime_devices(runtime, &devices, &count));
  assert_true(count > 0);
  if (last != NULL) assert_string_equal(devices[count - 1].text, last);
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  allocator->release(allocator, devices);
  return count;
}

TEST(an_initialized_system_has_devices_of_the_runtime) {
  world w = {0};
  LS_OWN(counted, c) = begin(&w);
  LS_OWN(ls_tpu_resolver, resolver) = create("virtual:2x2,hosts=2");
  LS_OWN(ls_tpu_resolver, local) = create("local");
  assert_int_equal(
      count_devices(c.runtime, "/job:localhost/replica:0/task:0/device:CPU:0"),
      1);
  expect_ok(ls_tpu_connect(resolver));
  assert_int_equal(count_devices(c.runtime, NULL), 1);
  initialize(resolver);
  assert_int_equal(
      count_devices(c.runtime,
                    "/job:worker/replica:0/task:1/device:TPU_SYSTEM:0"),
      1 + 2 * (1 + 4 + 1));
  initialize(local);  // Its CPU is there already.
  assert_int_equal(
      count_devices(c.runtime,
                    "/job:localhost/replica:0/task:0/device:TPU_SYSTEM:0"),
      13 + 8 + 1);
  expect_ok(ls_tpu_shutdown(resolver));
  assert_int_equal(count_devices(c.runtime, NULL), 1 + 8 + 1);
}

static ls_nest add_one(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_add(ls_nest_tensor(args, 0), ls_scalar(LS_DTYPE_F32, 1)));
}

// As CPUs do, while the system is initialized.
TEST(its_cores_compute) {
  world w = {0};
  LS_OWN(counted, c) = begin(&w);
  LS_OWN(ls_tpu_resolver, resolver) = create("virtual:2x1");
  static const char *const cores[] = {"/job:worker/task:0/device:TPU:0",
                                      "/job:worker/task:0/device:TPU:3"};
  LS_OWN(ls_strategy, strategy) = NULL;
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.devices = cores, .num_devices = 2}, &strategy));
  LS_OWN(ls_function, function) = function_of(add_one, NULL);
  const ls_callable callable = {.traced = function};
  ls_array *one = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SCALAR, &one));
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(one));
  ls_nest results = ls_none();
  expect_ok(ls_tpu_connect(resolver));
  expect_status(ls_strategy_run(strategy, callable, args, &results),
                LS_UNIMPLEMENTED,
                "TPU:0': the devices of this "
                "runtime are of type CPU");
  initialize(resolver);
  expect_ok(ls_strategy_run(strategy, callable, args, &results));
  ls_nest_release(results);
  results = ls_none();
  expect_ok(ls_tpu_shutdown(resolver));
  expect_status(ls_strategy_run(strategy, callable, args, &results),
                LS_UNIMPLEMENTED, "are of type CPU");
}

MEMORY_TEST(use_a_system) {
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  ls_tpu_systems *all = NULL;
  ls_device_name *devices = NULL;
  ls_topology *topology = NULL;
  size_t count = 0;
  ls_runtime *runtime = ls_runtime_current();
  LS_RETURN_IF_ERROR(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "virtual:2x1"}, &resolver));
  ls_status status = ls_tpu_connect(resolver);
  if (ls_status_is_ok(status)) status = ls_tpu_initialize(resolver, &topology);
  if (ls_status_is_ok(status)) status = ls_tpu_initialized_systems(&all);
  if (ls_status_is_ok(status))
    status = ls_runtime_devices(runtime, &devices, &count);
  ls_tpu_systems_destroy(all);
  ls_topology_release(topology);
  if (devices != NULL) ls_release(ls_runtime_allocator(runtime), devices);
  // Needs no memory.
  status = ls_status_join(status, ls_tpu_shutdown(resolver));
  return status;
}
