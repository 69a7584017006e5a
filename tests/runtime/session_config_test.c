// SPDX-License-Identifier: Apache-2.0
//
// What a session is told of how to run is had or refused, field by field.
#include "base/memory/allocator.h"
#include "lockstep/ops.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/fault.h"
#include "support/function.h"

TEST(what_cannot_be_had_is_refused_by_name) {
  static const char *const addresses[] = {"10.0.0.1:8470"};
  const ls_cluster_job jobs[] = {{"empty", NULL, 0}, {"w", addresses, 1}};
  ls_cluster_spec one = {jobs, 1}, two = {jobs, 2};
  const struct {
    ls_session_config config;
    ls_code code;
    const char *says;
  } rows[] = {
      {{0}, LS_OK, ""},
      {{.isolate_session_state = LS_FLAG_ON, .soft_placement = LS_FLAG_ON},
       LS_OK,
       ""},
      {{.cluster = &one}, LS_OK, ""},  // Nobody to connect to.
      {{.isolate_session_state = LS_FLAG_OFF},
       LS_UNIMPLEMENTED,
       "isolate_session_state off"},
      {{.soft_placement = LS_FLAG_OFF}, LS_UNIMPLEMENTED, "soft_placement off"},
      {{.cluster = &two}, LS_UNIMPLEMENTED, "'10.0.0.1:8470' of job 'w'"},
      {{.isolate_session_state = (ls_flag)9},
       LS_INVALID_ARGUMENT,
       "isolate_session_state 9"},
      {{.soft_placement = (ls_flag)9}, LS_INVALID_ARGUMENT, "soft_placement 9"},
  };
  LS_OWN(ls_graph, graph) = graph_named("g");
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(ls_session, session) = NULL;
    expect_status(ls_session_create_with(graph, &rows[i].config, &session),
                  rows[i].code, rows[i].says);
    assert_int_equal(session != NULL, rows[i].code == LS_OK);
  }
}

TEST(ops_run_whatever_device_they_name) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_session, session) = NULL;
  ls_tensor x;
  {
    LS_GRAPH_SCOPE(graph);
    LS_DEVICE_SCOPE("/job:far/device:GPU:7");
    x = ls_scalar(LS_DTYPE_F32, 3);
    x = ls_add(x, x);
  }
  expect_ok(ls_session_create_with(
      graph, &(ls_session_config){.soft_placement = LS_FLAG_ON}, &session));
  LS_OWN(ls_nest, result) = session_results(session, ls_leaf(x));
  assert_true(ls_nest_number(result) == 6);
}

TEST(a_copy_has_its_own_cluster) {
  static const char *const addresses[] = {"a:1", "b:2"};
  const ls_cluster_job job = {"w", addresses, 2};
  ls_session_config config = {.soft_placement = LS_FLAG_ON}, copy;
  expect_ok(ls_cluster_spec_copy(&(ls_cluster_spec){&job, 1}, &config.cluster));
  expect_ok(ls_session_config_copy(&config, &copy));
  assert_ptr_not_equal(copy.cluster, config.cluster);
  ls_session_config_deinit(&config);
  assert_null(config.cluster);
  assert_int_equal(config.soft_placement, LS_FLAG_DEFAULT);
  assert_int_equal(copy.soft_placement, LS_FLAG_ON);
  assert_string_equal(copy.cluster->jobs[0].addresses[1], "b:2");
  ls_session_config_deinit(&copy);
  expect_ok(ls_session_config_copy(NULL, &copy));
  assert_null(copy.cluster);
  ls_session_config_deinit(&copy);
  ls_session_config_deinit(NULL);
}

MEMORY_TEST(copy_a_session_config) {
  static const char *const addresses[] = {"a:1", "b:2"};
  const ls_cluster_job job = {"w", addresses, 2};
  LS_OWN(ls_cluster_spec, spec) = NULL;
  LS_RETURN_IF_ERROR(ls_cluster_spec_copy(&(ls_cluster_spec){&job, 1}, &spec));
  ls_session_config copy;
  const ls_status status =
      ls_session_config_copy(&(ls_session_config){.cluster = spec}, &copy);
  ls_session_config_deinit(&copy);
  return status;
}
