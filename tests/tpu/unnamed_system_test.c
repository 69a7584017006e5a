// SPDX-License-Identifier: Apache-2.0
//
// Computations without a strategy while systems come and go: they keep to the
// system that they meant, in functions and in the text of graphs.
#include <string.h>

#include "lockstep/function_plan.h"
#include "support/computation.h"
#include "support/counted.h"
#include "support/function.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"

static char on_red[] = "/job:red/task:0", on_blue[] = "/job:blue/task:0";

static ls_tpu_resolver *resolver_of(const char *job) {
  ls_tpu_resolver *resolver = NULL;
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "virtual:1x1", .job = job},
      &resolver));
  return resolver;
}

static void lose_core(const ls_tpu_resolver *resolver) {
  LS_OWN(ls_pod, pod) = NULL;
  expect_ok(ls_tpu_pod(resolver, &pod));
  expect_ok(ls_pod_inject(pod, &(ls_pod_fault){.kind = LS_POD_CORE_LOST}));
}

static ls_nest sum_of_ids(ls_nest args, void *user) {
  (void)args, (void)user;
  return ls_leaf(
      ls_all_reduce(LS_REDUCE_SUM, ls_convert(ls_replica_id(), LS_DTYPE_F32)));
}

// ---- Functions -------------------------------------------------------------
// A function that says nothing meant the system that was there first: it does
// not go over to another one, by a call that is traced later.
static ls_nest replicate_sum_on(const char *device, size_t replicas) {
  LS_DEVICE_SCOPE(device);
  ls_nest outputs = ls_none();
  LS_OWN(ls_nest, inputs) = computation_inputs(replicas);
  const ls_status status =
      ls_replicate(sum_of_ids, NULL, inputs, NULL, &outputs);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_tensor sum = ls_nest_tensor(ls_nest_item(outputs, 0), 0);
  ls_nest_release(outputs);
  return ls_leaf(sum);
}

static ls_nest replicate_sum(ls_nest args, void *user) {
  (void)args;
  return replicate_sum_on(user != NULL ? user : "", 2);
}

static ls_status call_plain(ls_function *f, int64_t size) {
  LS_OWN(ls_nest, results) = ls_none();
  LS_OWN(ls_nest, args) = ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(size));
  return ls_function_call(f, args, &results);
}

TEST(what_says_nothing_does_not_go_over_to_another) {
  LS_OWN(counted, c) = counted_begin(1);
  LS_OWN(ls_tpu_resolver, red) = resolver_of("red");
  LS_OWN(ls_tpu_resolver, blue) = resolver_of("blue");
  LS_OWN(ls_function, f) = function_of(replicate_sum, NULL);
  LS_OWN(ls_function, named) = function_of(replicate_sum, on_blue);
  static const char *const says = "a replicated computation may be for TPU "
                                  "system 'virtual:1x1' of job red, "
                                  "which was shut down, or for 'virtual:1x1' "
                                  "of job blue: select one by "
                                  "a device such as /job:blue/task:0";
  expect_ok(ls_tpu_initialize(red, NULL));
  expect_ok(call_plain(f, 1));
  expect_ok(ls_tpu_initialize(blue, NULL));
  expect_ok(ls_tpu_shutdown(red));
  // Compiled before, and not.
  for (int64_t size = 1; size <= 2; ++size)
    expect_status(call_plain(f, size), LS_FAILED_PRECONDITION, says);
  expect_ok(call_plain(named, 3));
  // Its program is made anew, while there are two.
  expect_ok(ls_tpu_initialize(red, NULL));
  expect_status(call_plain(f, 1), LS_FAILED_PRECONDITION,
                "a replicated computation may be for TPU system 'virtual:1x1' "
                "of job blue or for 'virtual:1x1' of job red");
  // One that came later, and is gone, is missed by nobody.
  expect_ok(ls_tpu_shutdown(blue));
  expect_ok(call_plain(f, 1));
  expect_ok(call_plain(f, 4));
  // After the last one's end the next one is the first.
  expect_ok(ls_tpu_shutdown(red));
  expect_ok(ls_tpu_initialize(blue, NULL));
  for (int64_t size = 1; size <= 5; ++size)
    expect_ok(call_plain(f, size));
}

static ls_nest sum_on_assignment(ls_nest args, void *user) {
  ls_nest outputs = ls_none();
  LS_OWN(ls_nest, inputs) = computation_inputs(2);
  (void)args;
  const ls_status status =
      ls_replicate(sum_of_ids, NULL, inputs,
                   &(ls_replicate_options){.assignment = user}, &outputs);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_tensor sum = ls_nest_tensor(ls_nest_item(outputs, 0), 0);
  ls_nest_release(outputs);
  return ls_leaf(sum);
}

// ---- For CPUs --------------------------------------------------------------
static ls_nest sum_on_cpus(ls_nest args, void *user) {
  ls_nest outputs = ls_none();
  LS_OWN(ls_nest, inputs) = computation_inputs(2);
  (void)args, (void)user;
  const ls_status status =
      ls_replicate(sum_of_ids, NULL, inputs,
                   &(ls_replicate_options){.use_tpu = LS_FLAG_OFF}, &outputs);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_tensor sum = ls_nest_tensor(ls_nest_item(outputs, 0), 0);
  ls_nest_release(outputs);
  return ls_leaf(sum);
}

// It waits for no system, passes none of its doors, and means none of several.
TEST(a_computation_for_cpus_needs_no_system) {
  LS_OWN(counted, c) = counted_begin(1);
  LS_OWN(ls_tpu_resolver, red) = resolver_of("red");
  LS_OWN(ls_tpu_resolver, blue) = resolver_of("blue");
  LS_OWN(ls_function, f) = function_of(sum_on_cpus, NULL);
  expect_ok(call_plain(f, 1));
  expect_ok(ls_tpu_initialize(red, NULL));
  expect_ok(call_plain(f, 2));
  lose_core(red);
  expect_ok(call_plain(f, 2));
  expect_ok(call_plain(f, 3));
  expect_ok(ls_tpu_initialize(blue, NULL));
  expect_ok(call_plain(f, 3));
  expect_ok(call_plain(f, 4));
  expect_ok(ls_tpu_shutdown(red));
  for (int64_t size = 1; size <= 5; ++size)
    expect_ok(call_plain(f, size));
}

// ---- Text ------------------------------------------------------------------
// One replica, whose ops stay where they were built, or two.
typedef struct sum_case {
  const char *device;
  size_t replicas;
} sum_case;

static ls_nest sum_of_case(ls_nest args, void *user) {
  const sum_case *c = user;
  (void)args;
  return replicate_sum_on(c->device, c->replicas);
}

// The text of f with its computation as one op, read back.
static ls_function *read_gathered(ls_function *f) {
  ls_function *read = NULL;
  LS_OWN(printed, text) = NULL;
  expect_ok(ls_graph_print_gathered(ls_function_graph(f), &text));
  expect_ok(ls_function_load(text, NULL, 0, &read));
  return read;
}

static ls_status call_read(ls_function *read, double *out_sum) {
  LS_OWN(ls_nest, result) = ls_none();
  LS_OWN(ls_nest, empty) = ls_nest_sequence(LS_KIND_LIST, NULL, 0);
  const ls_status status = ls_function_call(read, empty, &result);
  if (ls_status_is_ok(status))
    *out_sum = ls_nest_number(ls_nest_item(result, 0));
  return status;
}

static void expect_sum(ls_function *read, const sum_case *wanted) {
  double sum = -1;
  expect_ok(call_read(read, &sum));
  assert_true(sum == (wanted->replicas == 1 ? 0 : 1));
}

static void expect_refused(ls_function *read, ls_code code, const char *says) {
  double sum = -1;
  expect_status(call_read(read, &sum), code, says);
}

// It may be printed and read while the system is not there.
TEST(a_gathered_graph_keeps_its_system_in_its_text) {
  for (int row = 0; row < 4; ++row) {
    const bool late = row % 2 == 1;
    sum_case of = {.device = on_red, .replicas = row < 2 ? 2 : 1};
    LS_OWN(counted, c) = counted_begin(1);
    LS_OWN(ls_tpu_resolver, red) = resolver_of("red");
    LS_OWN(ls_tpu_resolver, blue) = resolver_of("blue");
    LS_OWN(ls_function, f) = function_of(sum_of_case, &of);
    expect_ok(ls_tpu_initialize(red, NULL));
    expect_ok(ls_tpu_initialize(blue, NULL));
    LS_OWN(ls_nest, result) = call_results(f, ls_none());
    if (late) expect_ok(ls_tpu_shutdown(red));
    LS_OWN(ls_function, read) = read_gathered(f);
    if (!late) {
      expect_sum(read, &of);
      expect_ok(ls_tpu_shutdown(red));
    }
    expect_refused(read, LS_FAILED_PRECONDITION,
                   "the TPU system 'virtual:1x1' is not initialized, in job "
                   "red");
    expect_ok(ls_tpu_initialize(red, NULL));
    expect_sum(read, &of);
    lose_core(blue);
    expect_sum(read, &of);
    lose_core(red);
    expect_refused(read, LS_UNAVAILABLE,
                   "core /job:red/replica:0/task:0/device:TPU:0 of TPU system "
                   "'virtual:1x1' was lost");
  }
}

// The marks of a stranger's text may say anything.
TEST(marks_that_cannot_be_are_refused) {
  static const struct {
    const char *says, *instead;  // This is not longer than that.
    const char *refused;
  } rows[] = {{"num_cores_per_replica = 1", "num_cores_per_replica = 0",
               "a computation of 0 cores per replica"},
              {"num_cores_per_replica = 1", "num_cores_per_replica = 9",
               "a device assignment of 8 numbers: 2 replicas of 9 cores"},
              {"device_assignment = [0, ", "device_assignment = [",
               "a device assignment of 7 numbers: 2 replicas of 1 cores"}};
  LS_OWN(counted, c) = counted_begin(1);
  LS_OWN(ls_tpu_resolver, red) = resolver_of("red");
  LS_OWN(ls_topology, topology) = NULL;
  LS_OWN(ls_device_assignment, assignment) = NULL;
  expect_ok(ls_tpu_initialize(red, &topology));
  expect_ok(ls_device_assignment_build(
      topology, &(ls_device_assignment_options){.num_replicas = LS_SOME(2)},
      &assignment));
  LS_OWN(ls_function, f) = function_of(sum_on_assignment, assignment);
  LS_OWN(ls_nest, result) = call_results(f, ls_none());
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(printed, text) = NULL;
    LS_OWN(ls_function, read) = NULL;
    expect_ok(ls_graph_print_gathered(ls_function_graph(f), &text));
    char *at = strstr(text, rows[i].says);
    if (at == NULL) print_message("%s\n", text);
    assert_non_null(at);
    const size_t from = strlen(rows[i].says), to = strlen(rows[i].instead);
    memcpy(at, rows[i].instead, to);
    memmove(at + to, at + from, strlen(at + from) + 1);
    expect_ok(ls_function_load(text, NULL, 0, &read));
    expect_refused(read, LS_INVALID_ARGUMENT, rows[i].refused);
  }
}
