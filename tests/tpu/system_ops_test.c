// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "lockstep/eager.h"
#include "lockstep/function.h"
#include "lockstep/infeed.h"
#include "lockstep/session.h"
#include "lockstep/tpu_system.h"
#include "support/counted.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/spec.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"

// What was found, which stays as long as it is in the table.
static ls_pod *lent(ls_pod *pod) {
  ls_object_release(pod);
  return pod;
}

static int warnings;
static void count_warning(void *user, const ls_log_line *line) {
  (void)user;
  warnings += line->level == LS_LOG_WARNING;
}

static counted begin(void) {
  warnings = 0;
  return counted_begin_with(
      (ls_runtime_options){.threads = 1, .log = count_warning});
}

TEST(a_job_has_a_device_for_its_system) {
  LS_SPEC("O4");
  ls_device_name name;
  expect_ok(ls_tpu_system_device(NULL, &name));
  assert_string_equal(name.text, "/device:TPU_SYSTEM:0");
  expect_ok(ls_tpu_system_device("", &name));
  assert_string_equal(name.text, "/device:TPU_SYSTEM:0");
  expect_ok(ls_tpu_system_device("w", &name));
  assert_string_equal(name.text, "/job:w/device:TPU_SYSTEM:0");
  expect_status(ls_tpu_system_device("a/b", &name), LS_INVALID_ARGUMENT,
                "'a/b'");
  char job[80];
  memset(job, 'j', sizeof(job) - 1);
  job[sizeof(job) - 1] = '\0';
  expect_status(ls_tpu_system_device(job, &name), LS_INVALID_ARGUMENT, "jjj");
}

TEST(a_logical_core_is_a_device) {
  LS_SPEC("O5");
  assert_string_equal(ls_tpu_core_device(3).text,
                      "device:TPU_REPLICATED_CORE:3");
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_GRAPH_SCOPE(graph);
  LS_DEVICE_SCOPE(ls_tpu_core_device(1).text);
  const ls_tensor placed = ls_scalar(LS_DTYPE_F32, 1);
  assert_string_equal(ls_op_device(ls_tensor_op(placed)),
                      "/device:TPU_REPLICATED_CORE:1");
}

// The topology in a result.
static ls_topology *parse(ls_nest result) {
  const ls_array *array = ls_nest_as_array(result);
  assert_non_null(array);
  assert_int_equal(ls_array_dtype(array), LS_DTYPE_STRING);
  assert_int_equal(ls_array_shape(array).rank, 0);
  const ls_bytes *bytes = ls_array_data(array);
  ls_topology *topology = NULL;
  expect_ok(ls_topology_parse(bytes->data, bytes->size, &topology));
  return topology;
}

TEST(an_op_initializes_the_system_when_it_is_run) {
  LS_SPEC("O4 O6");
  LS_OWN(counted, c) = begin();
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  LS_OWN(ls_pod, pod) = NULL;
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "virtual:2x1", .job = "w"},
      &resolver));
  expect_ok(ls_tpu_connect(resolver));
  expect_ok(ls_tpu_pod(resolver, &pod));
  ls_tensor made;
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    made = ls_tpu_initialize_op("w");
  }
  const ls_op op = ls_tensor_op(made);
  assert_string_equal(ls_op_type_name(op), "configure_distributed_tpu");
  assert_string_equal(ls_op_device(op), "/job:w/device:TPU_SYSTEM:0");
  assert_int_equal(ls_tensor_dtype(made), LS_DTYPE_STRING);
  assert_false(ls_pod_is_initialized(pod));
  LS_OWN(ls_session, session) = session_of(graph);
  LS_OWN(ls_nest, results) = session_results(session, ls_leaf(made));
  const uint64_t first = ls_pod_generation(pod);
  assert_true(first > 0);
  ls_topology *topology = parse(results);
  static const int32_t mesh[] = {2, 1, 1, 2};
  assert_memory_equal(ls_topology_mesh(topology), mesh, sizeof(mesh));
  ls_topology_release(topology);

  // Run again it begins anew, and nobody is warned.
  expect_ok(ls_session_run(session, ls_leaf(made), NULL, 0, &results));
  assert_true(ls_pod_generation(pod) > first);
  assert_int_equal(warnings, 0);
  ls_tpu_systems *systems = NULL;
  expect_ok(ls_tpu_initialized_systems(&systems));
  assert_int_equal(systems->count, 1);
  assert_string_equal(systems->systems[0].name, "virtual:2x1");
  ls_tpu_systems_destroy(systems);
}

TEST(an_op_shuts_the_system_down_when_it_is_run) {
  LS_SPEC("O6");
  LS_OWN(counted, c) = begin();
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  expect_ok(ls_tpu_resolver_connect(
      &(ls_tpu_resolver_options){.name = "virtual:2x1"}, &resolver));
  ls_op op;
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    op = ls_tpu_shutdown_op("worker");
  }
  assert_string_equal(ls_op_type_name(op), "shutdown_distributed_tpu");
  assert_string_equal(ls_op_device(op), "/job:worker/device:TPU_SYSTEM:0");
  LS_OWN(ls_session, session) = session_of(graph);
  assert_non_null(lent(ls_pod_of_job(c.runtime, "worker")));
  LS_OWN(ls_nest, results) = session_results(session, ls_nest_op(op));
  assert_null(lent(ls_pod_of_job(c.runtime, "worker")));
  assert_int_equal(warnings, 0);
  expect_ok(ls_session_run(session, ls_nest_op(op), NULL, 0, &results));
  assert_int_equal(warnings, 1);
}

// Eager and traced, on the local system, which needs nobody to connect.
static ls_nest initialize_local(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return ls_leaf(ls_tpu_initialize_op(NULL));
}

TEST(the_ops_work_in_every_way) {
  LS_SPEC("O6");
  LS_OWN(counted, c) = begin();
  ls_function *function = function_of(initialize_local, NULL);
  uint64_t before = 0;
  for (int i = 0; i < 2; ++i) {
    LS_OWN(ls_nest, results) = call_results(function, ls_none());
    ls_topology *topology = parse(results);
    assert_int_equal(ls_topology_num_devices_per_task(topology), 8);
    ls_topology_release(topology);
    const ls_pod *pod = lent(ls_pod_of_job(c.runtime, ""));
    assert_true(ls_pod_generation(pod) > before);
    before = ls_pod_generation(pod);
  }
  ls_function_release(function);
  const ls_tensor eager = ls_tpu_initialize_op("");
  assert_false(ls_tensor_is_failed(eager));
  assert_true(ls_pod_generation(lent(ls_pod_of_job(c.runtime, ""))) > before);
  ls_tpu_shutdown_op(NULL);
  assert_null(lent(ls_pod_of_job(c.runtime, "")));
}

TEST(a_job_that_is_not_there_is_refused_when_it_runs) {
  LS_SPEC("O6");
  LS_OWN(counted, c) = begin();
  ls_tensor made;
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    made = ls_tpu_initialize_op("nobody");
  }
  ls_session *session = session_of(graph);
  ls_nest results = ls_none();
  expect_status(ls_session_run(session, ls_leaf(made), NULL, 0, &results),
                LS_NOT_FOUND, "no TPU system of job nobody");
  ls_session_destroy(session);
  {
    LS_GRAPH_SCOPE(graph);
    ls_tpu_initialize_op("a:b");
    expect_status(ls_graph_take_error(graph), LS_INVALID_ARGUMENT, "'a:b'");
  }
}

static ls_status run_op(ls_graph *graph, ls_nest fetch) {
  LS_OWN(ls_session, session) = NULL;
  LS_OWN(ls_nest, results) = ls_none();
  expect_ok(ls_session_create(graph, &session));
  return ls_session_run(session, fetch, NULL, 0, &results);
}

// As long as none is initialized, an op does not choose among those that are
// connected.
TEST(an_op_of_a_job_with_several_systems_is_refused) {
  LS_SPEC("O6");
  LS_OWN(counted, c) = begin();
  static const char *const names[] = {"virtual:2x1", "virtual:2x2"};
  ls_tpu_resolver *resolvers[2] = {NULL, NULL};
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_GRAPH_SCOPE(graph);
  const ls_nest fetches[] = {ls_leaf(ls_tpu_initialize_op("worker")),
                             ls_nest_op(ls_tpu_shutdown_op("worker"))};
  for (int k = 0; k < 2; ++k) {
    expect_ok(ls_tpu_resolver_create(
        &(ls_tpu_resolver_options){.name = names[k]}, &resolvers[k]));
    expect_ok(ls_tpu_connect(resolvers[k]));
  }
  for (int k = 0; k < 2; ++k)
    expect_status(run_op(graph, fetches[k]), LS_FAILED_PRECONDITION,
                  "may be for TPU system 'virtual:2x1' or for 'virtual:2x2' of "
                  "job worker, and neither is initialized");
  {
    LS_DEVICE_SCOPE("/job:worker/task:0");
    (void)ls_infeed_enqueue(ls_scalar(LS_DTYPE_F32, 1), LS_SCALAR, 0);
  }
  expect_status(ls_graph_take_error(graph), LS_FAILED_PRECONDITION,
                "infeed_enqueue may be for TPU system 'virtual:2x1' or for "
                "'virtual:2x2' of job worker, and neither is initialized");
  // It is the one that is initialized, whichever was connected last.
  expect_ok(ls_tpu_initialize(resolvers[0], NULL));
  expect_ok(run_op(graph, fetches[0]));
  expect_ok(run_op(graph, fetches[1]));
  // Then there is one.
  expect_ok(run_op(graph, fetches[0]));
  ls_tpu_systems *systems = NULL;
  expect_ok(ls_tpu_initialized_systems(&systems));
  assert_int_equal(systems->count, 1);
  assert_string_equal(systems->systems[0].name, "virtual:2x2");
  ls_tpu_systems_destroy(systems);
  for (int k = 0; k < 2; ++k)
    ls_tpu_resolver_release(resolvers[k]);
}

MEMORY_TEST(initialize_in_a_session) {
  LS_OWN(ls_graph, graph) = NULL;
  LS_OWN(ls_session, session) = NULL;
  LS_OWN(ls_nest, results) = ls_none();
  ls_nest fetch = ls_none();
  LS_RETURN_IF_ERROR(ls_graph_create("g", &graph));
  {
    LS_GRAPH_SCOPE(graph);
    fetch = ls_leaf(ls_tpu_initialize_op(NULL));
  }
  LS_RETURN_IF_ERROR(ls_session_create(graph, &session));
  return ls_session_run(session, fetch, NULL, 0, &results);
}
