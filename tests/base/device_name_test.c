// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device_name.h"

#include <string.h>

#include "support/expect.h"
#include "support/spec.h"

#define LOCAL "/job:localhost/replica:0/task:0/device:"

static void expect_canonical(const char *name, const char *fallback,
                             const char *wanted) {
  ls_device_name got;
  expect_ok(ls_device_canonical(name, fallback, &got));
  if (strcmp(got.text, wanted) != 0)
    fail_msg("'%s' is '%s', wanted '%s'", name, got.text, wanted);
}

TEST(missing_parts_come_from_the_local_cpu) {
  LS_SPEC("M9");
  static const char *const same[] = {"", "CPU:0", "/cpu:0", "/CPU:0",
                                     "/device:CPU:0"};
  for (size_t i = 0; i < sizeof(same) / sizeof(*same); ++i)
    expect_canonical(same[i], NULL, LOCAL "CPU:0");
  expect_canonical("/gpu:1", NULL, LOCAL "GPU:1");
  expect_canonical("/job:worker/task:3", NULL,
                   "/job:worker/replica:0/task:3/device:CPU:0");
}

TEST(a_default_wins_over_local_and_a_name_over_both) {
  LS_SPEC("M10");
  expect_canonical("/cpu:0", "/job:worker/task:1",
                   "/job:worker/replica:0/task:1/device:CPU:0");
  expect_canonical("/task:2", "/job:worker/task:1/device:GPU:3",
                   "/job:worker/replica:0/task:2/device:GPU:3");
  expect_canonical("/gpu:1", "/cpu:0", LOCAL "GPU:1");
}

TEST(types_are_capitals_or_refused) {
  LS_SPEC("M11");
  expect_canonical("gPu:2", NULL, LOCAL "GPU:2");
  expect_canonical("/tpu:1", NULL, LOCAL "TPU:1");
  expect_canonical("/device:gpu:2", NULL, LOCAL "GPU:2");
  expect_canonical("/device:XLA_CPU:1", NULL, LOCAL "XLA_CPU:1");
  ls_device_name got;
  expect_status(ls_device_canonical("/device:tpu:0", NULL, &got),
                LS_INVALID_ARGUMENT, "'tpu'");
  expect_status(ls_device_canonical("/device:Gpu:0", NULL, &got),
                LS_INVALID_ARGUMENT, "'Gpu'");
}

TEST(malformed_names_are_refused) {
  LS_SPEC("M12");
  expect_canonical("/device:GPU:*", NULL, LOCAL "GPU:0");
  expect_canonical("/gpu:*", NULL, LOCAL "GPU:0");
  expect_canonical("//gpu:1/", NULL, LOCAL "GPU:1");
  static const struct {
    const char *name, *says;
  } cases[] = {
      {"/foo:1", "'foo'"},
      {"/cpu:0/gpu:1", "'/cpu:0/gpu:1'"},
      {"/device:CPU:0/device:GPU:1", "'/device:CPU:0/device:GPU:1'"},
      {"/gpu:one", "'one'"},
      {"/job:a/job:a", "'/job:a/job:a' names two jobs"},
      {"/replica:0/task:1/replica:*", "names two replicas"},
      {"/task:1/task:2", "names two tasks"},
      {"/task:*/device:CPU:0/task:2", "names two tasks"},
      {"/device:GPU:-1", "'-1'"},
      // Its canonical name would have a part that is none.
      {"/device:A_TYPE_THAT_IS_LONGER_THAN_ANY_THERE_WILL_EVER_BE",
       "a type of 49 characters; up to 45"},
      {"/task:x", "task 'x'"},
      {"/replica:1a", "replica '1a'"},
      // Nothing where something is to be.
      {"/", "an empty part: write one, as in '/job:worker/task:1'"},
      {"//", "an empty part"},
      {"/device", "an empty device type: write one, as in '/device:CPU:0'"},
      {"/device:", "an empty device type"},
      {"/device::3", "an empty device type"},
      {"/job:w/device:", "'/job:w/device:' has an empty device type"},
      {"/device:CPU:", "index ''"},
      {"cpu:", "index ''"},
      {"/job", "an empty job: write one, as in '/job:worker'"},
      {"/job:", "an empty job"},
      {"/task:", "task ''"},
      {"/replica", "replica ''"},
      {":", "attribute ''"},
      {"/:3", "attribute ''"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); ++i) {
    ls_device_name got;
    expect_status(ls_device_canonical(cases[i].name, NULL, &got),
                  LS_INVALID_ARGUMENT, cases[i].says);
    expect_status(ls_device_canonical("", cases[i].name, &got),
                  LS_INVALID_ARGUMENT, cases[i].says);
    expect_status(ls_device_merge(cases[i].name, "/task:1", &got),
                  LS_INVALID_ARGUMENT, cases[i].says);
    expect_status(ls_device_host(cases[i].name, &got), LS_INVALID_ARGUMENT,
                  cases[i].says);
  }
}

TEST(names_merge_part_by_part) {
  LS_SPEC("O34");
  static const struct {
    const char *name, *around, *merged;
  } cases[] = {
      {"/cpu:1", NULL, "/device:CPU:1"},
      {"device:TPU_REPLICATED_CORE:2", NULL, "/device:TPU_REPLICATED_CORE:2"},
      {"", "/job:w/task:1", "/job:w/task:1"},
      {"/device:FOO:3", "/job:w/task:1", "/job:w/task:1/device:FOO:3"},
      {"/task:2", "/job:w/task:1/cpu:0", "/job:w/task:2/device:CPU:0"},
      {"/job:v/replica:4/task:2/gpu:1", "/job:w/replica:0/task:1/cpu:0",
       "/job:v/replica:4/task:2/device:GPU:1"},
      // A type and its index are two parts.
      {"/gpu", NULL, "/device:GPU:*"},
      {"/gpu:*", "/task:1", "/task:1/device:GPU:*"},
      {"/gpu", "/cpu:3", "/device:GPU:3"},
      {"/device:*:2", "/gpu:1", "/device:GPU:2"},
      {"/device:*:2", NULL, "/device:*:2"},
      {"/gpu:*", "/device:*:2", "/device:GPU:2"},
      {"", NULL, ""},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); ++i) {
    ls_device_name got;
    expect_ok(ls_device_merge(cases[i].name, cases[i].around, &got));
    if (strcmp(got.text, cases[i].merged) != 0)
      fail_msg("'%s' in '%s' is '%s', wanted '%s'", cases[i].name,
               cases[i].around, got.text, cases[i].merged);
  }
  ls_device_name got;
  expect_status(ls_device_merge("/foo:1", NULL, &got), LS_INVALID_ARGUMENT,
                "'foo'");
  expect_status(ls_device_merge("/cpu:1", "/foo:1", &got), LS_INVALID_ARGUMENT,
                "'foo'");
}

TEST(the_host_is_cpu_0_beside_the_device) {
  LS_SPEC("M13");
  ls_device_name host;
  expect_ok(ls_device_host("/job:worker/replica:0/task:3/device:GPU:5", &host));
  assert_string_equal(host.text, "/job:worker/replica:0/task:3/device:CPU:0");
  expect_ok(ls_device_host("/device:GPU:1", &host));
  assert_string_equal(host.text, "/device:CPU:0");
}
