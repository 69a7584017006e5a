// SPDX-License-Identifier: Apache-2.0
#include "tpu/pod/pod.h"

#include <string.h>
#include <time.h>

#include "support/counted.h"
#include "support/fault.h"
#include "support/spec.h"
#include "tpu/own.h"

// What was found, which stays as long as it is in the table.
static ls_pod *lent(ls_pod *pod) {
  ls_object_release(pod);
  return pod;
}

static const ls_pod_shape two_hosts = {.mesh = {4, 2, 1, 2}, .hosts = 2};

static ls_pod *open_pod(const char *name, const ls_pod_shape *shape) {
  ls_pod *pod = NULL;
  expect_ok(ls_pod_open(ls_runtime_current(), name, "worker", shape, &pod));
  return pod;
}

TEST(a_name_means_one_pod_until_it_is_shut_down) {
  LS_OWN(counted, c) = counted_begin(1);
  ls_pod *pod = open_pod("virtual:4x2,hosts=2", &two_hosts);
  ls_pod *again = open_pod("virtual:4x2,hosts=2", &two_hosts);
  assert_ptr_equal(pod, again);
  ls_object_release(again);
  assert_ptr_equal(
      lent(ls_pod_find(c.runtime, "virtual:4x2,hosts=2", "worker")), pod);
  assert_null(lent(ls_pod_find(c.runtime, "virtual:4x2,hosts=2", "other")));
  ls_pod_shut_down(pod);
  assert_null(lent(ls_pod_find(c.runtime, "virtual:4x2,hosts=2", "worker")));
  again = open_pod("virtual:4x2,hosts=2", &two_hosts);
  assert_ptr_not_equal(pod, again);
  ls_pod_initialize(pod);  // Too late.
  assert_false(ls_pod_is_initialized(pod));
  ls_object_release(pod);
  ls_object_release(again);
}

TEST(hosts_split_x_and_cores_count_fastest) {
  LS_OWN(counted, c) = counted_begin(1);
  LS_OWN(ls_pod, pod) = open_pod("p", &two_hosts);
  assert_int_equal(ls_pod_num_cores(pod), 16);
  assert_int_equal(pod->cores_per_host, 8);
  static const struct {
    int32_t host, ordinal, at[4];
  } rows[] = {
      {0, 0, {0, 0, 0, 0}}, {0, 1, {0, 0, 0, 1}}, {0, 2, {1, 0, 0, 0}},
      {0, 4, {0, 1, 0, 0}}, {1, 0, {2, 0, 0, 0}}, {1, 7, {3, 1, 0, 1}},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    const ls_core *core = ls_pod_core(pod, rows[i].host, rows[i].ordinal);
    assert_memory_equal(core->at, rows[i].at, sizeof(core->at));
    assert_int_equal(core->host, rows[i].host);
    assert_int_equal(core->ordinal, rows[i].ordinal);
  }
  assert_null(ls_pod_core(pod, 2, 0));
  assert_null(ls_pod_core(pod, 0, 8));
  assert_null(ls_pod_core(pod, -1, 0));
}

TEST(devices_name_cores) {
  LS_OWN(counted, c) = counted_begin(1);
  ls_core *core = NULL;
  expect_status(
      ls_pod_lookup_core(c.runtime, "/job:worker/task:1/tpu:3", &core),
      LS_NOT_FOUND, "no TPU system of job worker");
  LS_OWN(ls_pod, pod) = open_pod("p", &two_hosts);
  expect_status(ls_pod_lookup_core(c.runtime, "/device:TPU:0", &core),
                LS_NOT_FOUND,
                "job localhost: 'p' is of job worker, whose first core is "
                "/job:worker/task:0/device:TPU:0");
  expect_ok(
      ls_pod_lookup_core(c.runtime, "/job:worker/task:1/device:TPU:3", &core));
  assert_ptr_equal(core, ls_pod_core(pod, 1, 3));
  ls_core_release(core);
  ls_device_name name;
  ls_core_device(core, &name);
  assert_string_equal(name.text, "/job:worker/replica:0/task:1/device:TPU:3");
  expect_ok(ls_pod_lookup_core(c.runtime, "/job:worker/tpu", &core));
  assert_ptr_equal(core, ls_pod_core(pod, 0, 0));
  ls_core_release(core);
  static const struct {
    const char *device;
    ls_code code;
    const char *part;
  } refused[] = {
      {"/job:worker/task:1/device:TPU:8", LS_NOT_FOUND, "TPU:0 to TPU:7"},
      {"/job:worker/task:2/device:TPU:0", LS_NOT_FOUND, "tasks 0 to 1"},
      {"/job:worker/device:CPU:0", LS_NOT_FOUND, "is no TPU core"},
      {"/device:TPU:0", LS_NOT_FOUND, "job localhost"},
      {"/job:worker/what:3", LS_INVALID_ARGUMENT, "'what'"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(refused); ++i) {
    expect_status(ls_pod_lookup_core(c.runtime, refused[i].device, &core),
                  refused[i].code, refused[i].part);
    assert_null(core);
  }
}

// Of two pods of a job, devices mean the one that was initialized last.
TEST(devices_mean_what_was_initialized_last) {
  LS_OWN(counted, c) = counted_begin(1);
  LS_OWN(ls_pod, first) = open_pod("first", &two_hosts);
  LS_OWN(ls_pod, second) = open_pod("second", &two_hosts);
  assert_ptr_equal(lent(ls_pod_of_job(c.runtime, "worker")), second);
  ls_pod_initialize(first);
  assert_ptr_equal(lent(ls_pod_of_job(c.runtime, "worker")), first);
  ls_pod_initialize(second);
  assert_ptr_equal(lent(ls_pod_of_job(c.runtime, "worker")), second);
  const uint64_t before = ls_pod_generation(first);
  ls_pod_initialize(first);
  assert_true(ls_pod_generation(first) > before);
  assert_true(ls_pod_generation(first) > ls_pod_generation(second));
}

// What keeps queues is told once for each core.
static int destroyed, reset;
static void count_destroyed(ls_core *core) { destroyed += core->pod != NULL; }
static void count_reset(ls_core *core) { reset += core->pod != NULL; }

TEST(queues_go_with_the_pod_and_begin_anew_with_the_system) {
  static const ls_core_queues queues = {count_destroyed, count_reset};
  counted c = counted_begin(1);
  destroyed = reset = 0;
  ls_pod *pod = open_pod("p", &two_hosts);
  ls_pod_initialize(pod);
  pod->queues = &queues;
  assert_int_equal(reset, 0);
  ls_pod_initialize(pod);
  assert_int_equal(reset, 16);
  ls_object_release(pod);
  assert_int_equal(destroyed, 0);
  counted_end(&c);
  assert_int_equal(destroyed, 16);
}

TEST(meshes_that_cannot_be_are_refused) {
  LS_OWN(counted, c) = counted_begin(1);
  static const struct {
    ls_pod_shape shape;
    const char *part;
  } rows[] = {
      {{.mesh = {0, 1, 1, 1}, .hosts = 1}, "a size of 0"},
      {{.mesh = {1, 1, 1, -2}, .hosts = 1}, "a size of -2"},
      {{.mesh = {1 << 16, 2, 1, 1}, .hosts = 1}, "more than 65536 cores"},
      {{.mesh = {4, 1, 1, 1}, .hosts = 3}, "must divide 4"},
      {{.mesh = {4, 1, 1, 1}, .hosts = 0}, "0 hosts"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    ls_pod *pod = NULL;
    expect_status(ls_pod_open(c.runtime, "bad", "worker", &rows[i].shape, &pod),
                  LS_INVALID_ARGUMENT, rows[i].part);
    assert_null(pod);
  }
}

// 1,024 cores in 20 ms of the processor's time; T194 allows a whole second.
TEST(a_large_pod_is_made_quickly) {
  LS_OWN(counted, c) = counted_begin(1);
  const clock_t began = clock();
  LS_OWN(ls_pod, pod) =
      open_pod("large", &(ls_pod_shape){.mesh = {16, 16, 2, 2}, .hosts = 16});
  ls_pod_initialize(pod);
  const double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
  assert_int_equal(ls_pod_num_cores(pod), 1024);
  assert_true(seconds < 0.02);
}

MEMORY_TEST(open_a_pod) {
  LS_OWN(ls_pod, pod) = NULL;
  LS_RETURN_IF_ERROR(
      ls_pod_open(ls_runtime_current(), "p", "worker", &two_hosts, &pod));
  ls_pod_initialize(pod);
  ls_pod_shut_down(pod);
  return ls_ok();
}
