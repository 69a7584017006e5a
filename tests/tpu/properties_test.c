// SPDX-License-Identifier: Apache-2.0
//
// What TPU strategies say of themselves, where nobody replicates and inside of
// what is replicated.
#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "lockstep/logical_device.h"
#include "lockstep/regroup.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable_parts.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/logical_strategies.h"
#include "support/spec.h"
#include "tpu/own.h"

// ---- All of it as a text ---------------------------------------------------
static void describe(ls_strategy *strategy, char *text, size_t size) {
  const char *devices[8] = {NULL};
  size_t count = 0;
  ls_device_name host;
  expect_ok(ls_strategy_worker_devices(strategy, devices, 8, &count));
  size_t at = (size_t)snprintf(
      text, size, "%d %d %d %d%d%d%d%d%d%d%d ",
      ls_strategy_num_replicas(strategy), ls_tpu_strategy_num_hosts(strategy),
      ls_tpu_strategy_num_replicas_per_host(strategy),
      ls_strategy_between_graph(strategy), ls_strategy_should_init(strategy),
      ls_strategy_should_checkpoint(strategy),
      ls_strategy_should_save_summary(strategy),
      ls_strategy_is_multi_worker(strategy),
      ls_strategy_has_global_batches(strategy),
      ls_strategy_needs_static_shapes(strategy),
      ls_strategy_packs_variables(strategy));
  for (size_t i = 0; i < count; ++i)
    at += (size_t)snprintf(text + at, size - at, "%s ",
                           strstr(devices[i], "/task"));
  const char *same[8] = {NULL};
  expect_ok(ls_strategy_parameter_devices(strategy, same, 8, &count));
  for (size_t i = 0; i < count; ++i)
    assert_ptr_equal(same[i], devices[i]);
  expect_ok(ls_tpu_strategy_host(strategy, &host));
  at += (size_t)snprintf(text + at, size - at, "on %s",
                         strstr(host.text, "/task"));
  assert_true(at < size);
}

enum { DESCRIBED = 1000 };

// ---- Inside ----------------------------------------------------------------
typedef struct inside {
  ls_strategy *strategy;
  char outside[DESCRIBED];
  int calls;
} inside;

static ls_nest look(ls_nest args, void *user) {
  inside *in = user;
  char text[DESCRIBED];
  (void)args;
  ++in->calls;
  describe(in->strategy, text, sizeof(text));
  assert_string_equal(text, in->outside);
  const ls_replica *replica = ls_replica_context();
  assert_non_null(replica);
  assert_int_equal(ls_replica_num_replicas(replica),
                   ls_strategy_num_replicas(in->strategy));
  assert_int_equal(ls_num_replicas(), ls_strategy_num_replicas(in->strategy));
  return ls_leaf(ls_replica_id());
}

TEST(they_are_the_same_everywhere) {
  LS_SPEC("T49 T52 T56 V157");
  for (strategy_flavour f = 0; f < NUM_FLAVOURS; ++f)
    for (int replicas = 1; replicas <= 3; ++replicas) {
      inside in = {.strategy =
                       logical_strategy(f, replicas, 2, LS_FLAG_DEFAULT)};
      LS_OWN(ls_strategy, s) = in.strategy;
      assert_int_equal(ls_strategy_num_replicas(s), replicas);
      assert_false(ls_strategy_between_graph(s));
      assert_true(ls_strategy_should_init(s));
      assert_true(ls_strategy_should_checkpoint(s));
      assert_true(ls_strategy_should_save_summary(s));
      assert_true(ls_strategy_has_global_batches(s));
      assert_false(ls_strategy_is_multi_worker(s));
      assert_true(ls_strategy_needs_static_shapes(s));
      describe(s, in.outside, sizeof(in.outside));
      // Traced.
      ls_function *fn = function_of(look, &in);
      ls_nest result = ls_none();
      expect_ok(ls_strategy_run(s, ls_traced(fn), ls_none(), &result));
      assert_int_equal(in.calls, 1);
      ls_nest_release(result);
      ls_function_release(fn);
      // In a graph.
      LS_OWN_BEGUN(computation, c, computation_open);
      expect_ok(ls_strategy_run(s, ls_plain(look, &in), ls_none(), &c.outputs));
      assert_int_equal(in.calls, 2);
      const ls_nest last =
          replicas == 1
              ? c.outputs
              : ls_distributed_component(c.outputs, (size_t)replicas - 1);
      assert_true(computation_fetch(&c, last.as.tensor) == replicas - 1);
    }
}

TEST(without_an_assignment_each_core_is_a_replica) {
  LS_SPEC("T49");
  LS_OWN(ls_tpu_resolver, pod) = NULL;
  LS_OWN(ls_strategy, strategy) = NULL;
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "virtual:2x3"}, &pod));
  expect_ok(
      ls_tpu_strategy_create(&(ls_tpu_options){.resolver = pod}, &strategy));
  assert_int_equal(ls_strategy_num_replicas(strategy),
                   ls_tpu_strategy_metadata(strategy)->num_cores);
  assert_int_equal(ls_strategy_num_replicas(strategy), 12);
}

// The replica that has the id gets its own component of a PerReplica.
static ls_nest local_of(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_sub(ls_nest_tensor(args, 0),
                        ls_convert(ls_replica_id(), LS_DTYPE_F32)));
}

TEST(a_replicas_local_id_is_its_id) {
  LS_SPEC("T53");
  for (int replicas = 1; replicas <= 4; ++replicas) {
    LS_OWN(ls_strategy, s) =
        logical_strategy(FLAVOUR_CURRENT, replicas, 1, LS_FLAG_DEFAULT);
    for (int32_t r = -1; r <= replicas; ++r)
      assert_int_equal(ls_tpu_strategy_local_replica_id(s, r),
                       r < replicas ? r : -1);
    ls_nest items[4];
    for (int r = 0; r < replicas; ++r)
      items[r] =
          ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){r}));
    LS_OWN(ls_nest, args) =
        LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, items, (size_t)replicas));
    LS_OWN(ls_function, f) = function_of(local_of, NULL);
    LS_OWN(ls_nest, result) = ls_none();
    expect_ok(ls_strategy_run(s, ls_traced(f), args, &result));
    for (int r = 0; r < replicas; ++r)
      assert_true(ls_nest_number(replicas == 1 ? result
                                               : ls_distributed_component(
                                                     result, (size_t)r)) == 0);
  }
}

// ---- Containers ------------------------------------------------------------
static void expect_itself(const ls_strategy *strategy, ls_nest value) {
  const ls_nest container = ls_strategy_value_container(strategy, value);
  assert_int_equal(container.kind, value.kind);
  assert_memory_equal(&container.as, &value.as, sizeof(value.as));
}

static ls_variable *variable_in(ls_strategy *strategy) {
  ls_variable *v = NULL;
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.dtype = LS_DTYPE_F32, .shape = LS_SHAPE(2)},
        &v));
  }
  return v;
}

TEST(a_value_is_its_own_container_but_on_mirrored_strategies) {
  LS_SPEC("T55 V25");
  LS_OWN(ls_strategy, tpu) =
      logical_strategy(FLAVOUR_CURRENT, 2, 1, LS_FLAG_DEFAULT);
  LS_OWN(ls_strategy, mirrored) = NULL;
  ls_strategy *usual = NULL;
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(2)}, &mirrored));
  expect_ok(ls_strategy_default(&usual));
  ls_strategy *const makers[] = {tpu, mirrored};
  for (size_t i = 0; i < LS_COUNT_OF(makers); ++i) {
    LS_OWN(ls_variable, v) = variable_in(makers[i]);
    LS_OWN(ls_nest, whole) = ls_nest_variable(v);
    LS_OWN(ls_nest, part) = ls_nest_variable(ls_variable_component(v, 1));
    expect_itself(tpu, whole);
    expect_itself(tpu, part);
    expect_itself(usual, whole);
    expect_itself(usual, part);
    expect_itself(mirrored, whole);
    assert_ptr_equal(
        ls_nest_as_variable(ls_strategy_value_container(mirrored, part)), v);
  }
  expect_itself(tpu, ls_nest_f64(3));
  expect_itself(mirrored, ls_nest_f64(3));
}

// ---- Configurations of sessions --------------------------------------------
typedef struct lookups {
  int count;
  ls_tpu_endpoint endpoints[2];
} lookups;

static const char *const two_devices[] = {"/job:worker/task:0/device:TPU:0",
                                          "/job:worker/task:0/device:TPU:1"};

static ls_status query(void *user, const ls_tpu_question *question,
                       ls_tpu_answer *out) {
  (void)user;
  (void)question;
  out->devices = two_devices;
  out->num_devices = 2;
  return ls_ok();
}

static ls_status look_up(void *user, const char *name, const char *zone,
                         const char *project, ls_tpu_node *out) {
  lookups *l = user;
  (void)name;
  (void)zone;
  (void)project;
  ++l->count;
  // Another port each time.
  l->endpoints[0] = (ls_tpu_endpoint){"10.0.0.1", 8000 + l->count};
  l->endpoints[1] = (ls_tpu_endpoint){"10.0.0.2", 9};
  *out = (ls_tpu_node){
      .state = "READY", .endpoints = l->endpoints, .num_endpoints = 2};
  return ls_ok();
}

TEST(a_configuration_gets_what_its_system_needs) {
  LS_SPEC("T54");
  lookups l = {0};
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  LS_OWN(ls_strategy, strategy) = NULL;
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){
          .name = "mine", .lookup = look_up, .query = query, .user = &l},
      &resolver));
  expect_ok(ls_tpu_strategy_create(&(ls_tpu_options){.resolver = resolver},
                                   &strategy));
  static const char *const others[] = {"a:1"};
  const ls_cluster_job job = {"other", others, 1};
  ls_session_config given = {.soft_placement = LS_FLAG_ON}, updated;
  expect_ok(ls_cluster_spec_copy(&(ls_cluster_spec){&job, 1}, &given.cluster));
  const ls_cluster_spec *before = given.cluster;
  const int made = l.count;
  for (int i = 1; i <= 2; ++i) {
    expect_ok(ls_tpu_strategy_update_config(strategy, &given, &updated));
    assert_int_equal(l.count, made + i);
    assert_int_equal(updated.isolate_session_state, LS_FLAG_ON);
    assert_int_equal(updated.soft_placement, LS_FLAG_ON);
    assert_int_equal(updated.cluster->num_jobs, 1);
    assert_string_equal(updated.cluster->jobs[0].name, "worker");
    assert_int_equal(updated.cluster->jobs[0].num_addresses, 2);
    char address[32];
    snprintf(address, sizeof(address), "10.0.0.1:%d", 8000 + made + i);
    assert_string_equal(updated.cluster->jobs[0].addresses[0], address);
    ls_session_config_deinit(&updated);
    // What was given stays as it was.
    assert_int_equal(given.isolate_session_state, LS_FLAG_DEFAULT);
    assert_ptr_equal(given.cluster, before);
    assert_string_equal(given.cluster->jobs[0].name, "other");
  }
  // Configuring puts it in the place of the other, whoever is who.
  expect_ok(ls_tpu_strategy_configure(strategy, NULL, NULL, NULL, (ls_opt){0}));
  expect_ok(ls_tpu_strategy_configure(
      strategy, &given, &(ls_cluster_spec){&job, 1}, "other", LS_SOME(77)));
  assert_int_equal(given.isolate_session_state, LS_FLAG_ON);
  assert_string_equal(given.cluster->jobs[0].name, "worker");
  ls_session_config_deinit(&given);
}

TEST(without_addresses_the_cluster_stays) {
  LS_SPEC("T54");
  LS_OWN(ls_strategy, tpu) =
      logical_strategy(FLAVOUR_CURRENT, 1, 1, LS_FLAG_DEFAULT);
  static const char *const others[] = {"a:1"};
  const ls_cluster_job job = {"other", others, 1};
  ls_session_config given = {0}, updated;
  expect_ok(ls_tpu_strategy_update_config(tpu, NULL, &updated));
  assert_int_equal(updated.isolate_session_state, LS_FLAG_ON);
  assert_null(updated.cluster);
  // A session can be had of it.
  ls_graph *graph = NULL;
  ls_session *session = NULL;
  expect_ok(ls_graph_create("g", &graph));
  expect_ok(ls_session_create_with(graph, &updated, &session));
  ls_session_destroy(session);
  ls_session_config_deinit(&updated);
  expect_ok(ls_cluster_spec_copy(&(ls_cluster_spec){&job, 1}, &given.cluster));
  expect_ok(ls_tpu_strategy_update_config(tpu, &given, &updated));
  assert_string_equal(updated.cluster->jobs[0].name, "other");
  assert_ptr_not_equal(updated.cluster, given.cluster);
  ls_session_config_deinit(&given);
  expect_status(ls_session_create_with(graph, &updated, &session),
                LS_UNIMPLEMENTED, "connects to 'a:1' of job 'other'");
  assert_null(session);
  ls_session_config_deinit(&updated);
  ls_graph_destroy(graph);
  ls_strategy_release(tpu);
  expect_ok(ls_mirrored_strategy_create(NULL, &tpu));
  expect_status(ls_tpu_strategy_update_config(tpu, NULL, &updated),
                LS_INVALID_ARGUMENT, "no TPU strategy");
}
