// SPDX-License-Identifier: Apache-2.0
//
// Tasks and devices of training clusters.
#include "lockstep/cluster.h"
#include "support/expect.h"
#include "support/spec.h"

static const char *const hosts[] = {"a:1", "b:1", "c:1"};

#define CLUSTER(...)                                                           \
  (&(ls_cluster_spec){(const ls_cluster_job[]){__VA_ARGS__},                   \
                      sizeof((ls_cluster_job[]){__VA_ARGS__}) /                \
                          sizeof(ls_cluster_job)})
#define JOB(name, count)                                                       \
  { name, hosts, count }

static void expect_task(const ls_cluster_spec *spec, const char *type,
                        int32_t index, ls_cluster_task expected) {
  ls_cluster_task task;
  expect_ok(ls_cluster_find_task(spec, type, index, &task));
  assert_int_equal(task.is_chief, expected.is_chief);
  assert_int_equal(task.id, expected.id);
  assert_int_equal(task.num_workers, expected.num_workers);
}

static void expect_refused(const ls_cluster_spec *spec, const char *type,
                           int32_t index, const char *part) {
  ls_cluster_task task;
  expect_status(ls_cluster_find_task(spec, type, index, &task),
                LS_INVALID_ARGUMENT, part);
}

TEST(the_chief_is_first_among_the_workers) {
  LS_SPEC("M162");
  const ls_cluster_spec *led = CLUSTER(JOB("worker", 2), JOB("chief", 1),
                                       JOB("ps", 2), JOB("evaluator", 1));
  expect_task(led, "chief", 0, (ls_cluster_task){true, 0, 3});
  expect_task(led, "worker", 0, (ls_cluster_task){false, 1, 3});
  expect_task(led, "worker", 1, (ls_cluster_task){false, 2, 3});
  expect_task(led, "evaluator", 0, (ls_cluster_task){true, 0, 1});
  expect_task(led, "ps", 1, (ls_cluster_task){false, -1, 3});
  const ls_cluster_spec *equal = CLUSTER(JOB("worker", 3));
  expect_task(equal, "worker", 0, (ls_cluster_task){true, 0, 3});
  expect_task(equal, "worker", 2, (ls_cluster_task){false, 2, 3});
}

TEST(each_breach_of_a_cluster_is_named) {
  LS_SPEC("M162");
  expect_refused(CLUSTER(JOB("worker", 1), JOB("master", 1)), "worker", 0,
                 "job 'master'");
  expect_refused(CLUSTER(JOB("worker", 1)), "boss", 0, "task type 'boss'");
  expect_refused(CLUSTER(JOB("worker", 1), JOB("worker", 1)), "worker", 0,
                 "job 'worker' twice");
  expect_refused(CLUSTER(JOB("chief", 2)), "chief", 0,
                 "2 tasks of job 'chief'");
  expect_refused(CLUSTER(JOB("chief", 1), JOB("evaluator", 3)), "chief", 0,
                 "3 tasks of job 'evaluator'");
  expect_refused(CLUSTER(JOB("worker", 2)), "worker", 2,
                 "task id 2 of job 'worker', of which the cluster has 2");
  expect_refused(CLUSTER(JOB("worker", 2)), "worker", -1, "task id -1");
  expect_refused(CLUSTER(JOB("worker", 2)), "evaluator", 0,
                 "task id 0 of job 'evaluator', of which the cluster has 0");
  ls_cluster_task task;
  expect_null_argument(task_type, ls_cluster_find_task,
                       CLUSTER(JOB("worker", 1)), (const char *)NULL, 0, &task);
}

TEST(devices_of_a_cluster_are_those_of_the_chief_then_of_the_workers) {
  LS_SPEC("M162");
  const ls_cluster_spec *spec =
      CLUSTER(JOB("worker", 2), JOB("chief", 1), JOB("ps", 1));
  static const char *const expected[] = {
      "/job:chief/task:0/device:GPU:0",  "/job:chief/task:0/device:GPU:1",
      "/job:worker/task:0/device:GPU:0", "/job:worker/task:0/device:GPU:1",
      "/job:worker/task:1/device:GPU:0", "/job:worker/task:1/device:GPU:1"};
  ls_device_name names[6];
  size_t count = 0;
  expect_ok(ls_cluster_devices(spec, 2, names, 6, &count));
  assert_int_equal(count, 6);
  for (size_t i = 0; i < count; ++i)
    assert_string_equal(names[i].text, expected[i]);
  expect_ok(ls_cluster_devices(spec, 0, names, 2, &count));
  assert_int_equal(count, 3);
  assert_string_equal(names[0].text, "/job:chief/task:0/device:CPU:0");
  assert_string_equal(names[1].text, "/job:worker/task:0/device:CPU:0");
  expect_status(ls_cluster_devices(spec, -1, names, 6, &count),
                LS_INVALID_ARGUMENT, "-1 GPUs");
}
