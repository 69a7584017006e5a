// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "lockstep/tpu_system.h"
#include "support/counted.h"
#include "support/fault.h"
#include "support/spec.h"
#include "tpu/own.h"

// ---- A world that is ours --------------------------------------------------
// Environment, clock, log, and a service that answers.
typedef struct world {
  const char *variables[8];  // Name, value, name, ...
  int64_t now;
  int warnings;
  char last_warning[512];
  // The service.
  ls_tpu_node node;
  ls_code lookup_code;
  int lookups;
  char asked[128];
  // The system.
  const char *const *devices;
  size_t num_devices;
  const char *topology;
  size_t topology_size;
  int late;  // Answers that do not come in time; -1: all.
  int queries, initializations;
  char master[128];
} world;

static const char *environment(void *user, const char *name) {
  const world *w = user;
  for (size_t i = 0; i + 1 < LS_COUNT_OF(w->variables) && w->variables[i]; ++i)
    if (i % 2 == 0 && strcmp(w->variables[i], name) == 0)
      return w->variables[i + 1];
  return NULL;
}

static int64_t now(void *user) { return ((world *)user)->now; }
static void sleep_nanos(void *user, int64_t nanos) {
  ((world *)user)->now += nanos;
}

static void note(void *user, const ls_log_line *line) {
  world *w = user;
  if (line->level != LS_LOG_WARNING) return;
  ++w->warnings;
  snprintf(w->last_warning, sizeof(w->last_warning), "%s", line->text);
}

static ls_status lookup(void *user, const char *name, const char *zone,
                        const char *project, ls_tpu_node *out) {
  world *w = user;
  ++w->lookups;
  snprintf(w->asked, sizeof(w->asked), "%s in %s of %s", name,
           zone != NULL ? zone : "-", project != NULL ? project : "-");
  if (w->lookup_code != LS_OK)
    return LS_STATUS(w->lookup_code, "the service has no '%s'", name);
  *out = w->node;
  return ls_ok();
}

static ls_status query(void *user, const ls_tpu_question *question,
                       ls_tpu_answer *out) {
  world *w = user;
  ++w->queries;
  snprintf(w->master, sizeof(w->master), "%s", question->master);
  if (w->late != 0) {
    if (w->late > 0) --w->late;
    return LS_STATUS(LS_DEADLINE_EXCEEDED, "no answer");
  }
  w->initializations += question->initializes;
  out->devices = w->devices;
  out->num_devices = w->num_devices;
  if (question->wants_topology) {
    out->topology = w->topology;
    out->topology_size = w->topology_size;
  }
  return ls_ok();
}

static counted begin(world *w) {
  const ls_clock clock = {now, now, sleep_nanos, w};
  return counted_begin_with((ls_runtime_options){.threads = 1,
                                                 .environment = environment,
                                                 .environment_user = w,
                                                 .clock = &clock,
                                                 .log = note,
                                                 .log_user = w});
}

static ls_tpu_resolver *create(const ls_tpu_resolver_options *options) {
  ls_tpu_resolver *resolver = NULL;
  expect_ok(ls_tpu_resolver_create(options, &resolver));
  return resolver;
}

static ls_tpu_resolver *create_named(const char *name) {
  return create(&(ls_tpu_resolver_options){.name = name});
}

// ---- What it is made of ----------------------------------------------------
TEST(a_resolver_keeps_what_it_is_given) {
  LS_SPEC("T14 T22");
  world w = {0};
  LS_OWN(counted, c) = begin(&w);
  char name[] = "mine", zone[] = "here";  // Copied.
  LS_OWN(ls_tpu_resolver, resolver) =
      create(&(ls_tpu_resolver_options){.name = name,
                                        .zone = zone,
                                        .project = "p",
                                        .job = "tpus",
                                        .coordinator = "boss",
                                        .coordinator_address = "10.0.0.9:1234",
                                        .lookup = lookup,
                                        .user = &w});
  name[0] = zone[0] = '?';
  assert_string_equal(ls_tpu_resolver_name(resolver), "mine");
  assert_string_equal(ls_tpu_resolver_zone(resolver), "here");
  assert_string_equal(ls_tpu_resolver_project(resolver), "p");
  assert_string_equal(ls_tpu_resolver_job(resolver), "tpus");
  assert_string_equal(ls_tpu_resolver_coordinator(resolver), "boss");
  assert_string_equal(ls_tpu_resolver_coordinator_address(resolver),
                      "10.0.0.9:1234");
  assert_string_equal(ls_tpu_resolver_environment(resolver), "");
  assert_string_equal(ls_tpu_resolver_coordination_leader(resolver).text,
                      "/job:tpus/task:0");
  assert_string_equal(ls_tpu_resolver_task_type(resolver), "tpus");
  assert_int_equal(ls_tpu_resolver_task_id(resolver), 0);
  expect_ok(ls_tpu_resolver_set_task(resolver, "boss", 3));
  assert_string_equal(ls_tpu_resolver_task_type(resolver), "boss");
  assert_int_equal(ls_tpu_resolver_task_id(resolver), 3);
  expect_status(ls_tpu_resolver_set_task(resolver, "boss", -1),
                LS_INVALID_ARGUMENT, "-1");
  ls_tpu_resolver *copy = ls_tpu_resolver_retain(resolver);
  assert_ptr_equal(copy, resolver);
  ls_tpu_resolver_release(copy);
  ls_tpu_resolver_release(resolver);

  resolver = create(NULL);
  assert_string_equal(ls_tpu_resolver_job(resolver), "worker");
  assert_string_equal(ls_tpu_resolver_name(resolver), "");
  assert_null(ls_tpu_resolver_zone(resolver));
  assert_null(ls_tpu_resolver_coordinator(resolver));
  assert_string_equal(ls_tpu_resolver_coordination_leader(resolver).text,
                      "/job:worker/task:0");
}

TEST(a_list_has_one_name) {
  LS_SPEC("T15");
  world w = {0};
  LS_OWN(counted, c) = begin(&w);
  static const char *const names[] = {"a", "b"};
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  expect_status(ls_tpu_resolver_create(
                    &(ls_tpu_resolver_options){.names = names}, &resolver),
                LS_INVALID_ARGUMENT, "at least one");
  expect_status(ls_tpu_resolver_create(
                    &(ls_tpu_resolver_options){.names = names, .num_names = 2},
                    &resolver),
                LS_UNIMPLEMENTED, "2 names");
  expect_status(ls_tpu_resolver_create(
                    &(ls_tpu_resolver_options){
                        .name = "x", .names = names, .num_names = 1},
                    &resolver),
                LS_INVALID_ARGUMENT, "both");
  assert_null(resolver);
  resolver = create(&(ls_tpu_resolver_options){.names = names, .num_names = 1});
  assert_string_equal(ls_tpu_resolver_name(resolver), "a");
}

TEST(a_missing_name_comes_from_the_environment) {
  LS_SPEC("T15");
  static const struct {
    const char *name, *zone, *project;  // Given.
    const char *variables[8];
    const char *wanted[3];  // Name, zone, project.
  } rows[] = {
      {NULL, NULL, NULL, {NULL}, {"", NULL, NULL}},
      {"", NULL, NULL, {"TPU_NAME", "t"}, {"t", NULL, NULL}},
      {"given", NULL, NULL, {"TPU_NAME", "t"}, {"given", NULL, NULL}},
      {NULL,
       NULL,
       NULL,
       {"TPU_NAME", "t", "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS", "grpc://h:1"},
       {"grpc://h:1", NULL, NULL}},
      {NULL,
       NULL,
       NULL,
       {"TPU_CONFIG", "{\"tpu_node_name\":\"n\",\"zone\":\"z\","
                      "\"project\":\"p\"}"},
       {"n", "z", "p"}},
      {NULL,
       "mine",
       "also",
       {"TPU_CONFIG", "{\"tpu_node_name\":\"n\",\"zone\":\"z\","
                      "\"project\":\"p\"}"},
       {"n", "mine", "also"}},
      {NULL,
       NULL,
       NULL,
       {"TPU_NAME", "t", "TPU_CONFIG",
        "{\"tpu_node_name\":\"n\","
        "\"zone\":\"z\"}"},
       {"t", NULL, NULL}},
      {NULL, NULL, NULL, {"TPU_CONFIG", "{}"}, {"", NULL, NULL}},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    world w = {0};
    memcpy(w.variables, rows[i].variables, sizeof(w.variables));
    LS_OWN(counted, c) = begin(&w);
    LS_OWN(ls_tpu_resolver, resolver) =
        create(&(ls_tpu_resolver_options){.name = rows[i].name,
                                          .zone = rows[i].zone,
                                          .project = rows[i].project});
    const char *got[] = {ls_tpu_resolver_name(resolver),
                         ls_tpu_resolver_zone(resolver),
                         ls_tpu_resolver_project(resolver)};
    for (size_t k = 0; k < 3; ++k)
      if ((got[k] == NULL) != (rows[i].wanted[k] == NULL) ||
          (got[k] != NULL && strcmp(got[k], rows[i].wanted[k]) != 0))
        fail_msg("row %zu, %zu: %s", i, k, got[k] ? got[k] : "(none)");
  }
}

TEST(a_config_that_is_none_is_refused) {
  LS_SPEC("T15");
  static const struct {
    const char *config, *part;
  } rows[] = {{"{", "TPU_CONFIG"},
              {"[]", "no JSON object"},
              {"{\"tpu_node_name\": 3}", "tpu_node_name is no string"}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    world w = {.variables = {"TPU_CONFIG", rows[i].config}};
    LS_OWN(counted, c) = begin(&w);
    ls_tpu_resolver *resolver = NULL;
    expect_status(ls_tpu_resolver_create(NULL, &resolver), LS_INVALID_ARGUMENT,
                  rows[i].part);
  }
}

// ---- Clusters --------------------------------------------------------------
// "worker: a:1 b:2; coordinator: c:3"
static const char *print(const ls_cluster_spec *spec) {
  static char text[512];
  size_t at = 0;
  text[0] = '\0';
  for (size_t i = 0; i < spec->num_jobs; ++i) {
    const ls_cluster_job *job = &spec->jobs[i];
    at += (size_t)snprintf(text + at, sizeof(text) - at,
                           "%s%s:", i == 0 ? "" : "; ", job->name);
    for (size_t k = 0; k < job->num_addresses; ++k)
      at += (size_t)snprintf(text + at, sizeof(text) - at, " %s",
                             job->addresses[k]);
  }
  return text;
}

static void expect_spec(const ls_tpu_resolver *resolver, const char *wanted) {
  LS_OWN(ls_cluster_spec, spec) = NULL;
  expect_ok(ls_tpu_resolver_cluster_spec(resolver, &spec));
  assert_string_equal(print(spec), wanted);
}

TEST(addresses_are_tasks_in_their_order) {
  LS_SPEC("T16");
  static const struct {
    const char *name, *wanted;
  } rows[] = {
      {"grpc://10.0.0.1:1234", "worker: 10.0.0.1:1234"},
      {"grpc://10.0.0.1", "worker: 10.0.0.1:8470"},
      {"grpc://b:2,a,grpc://c:3", "worker: b:2 a:8470 c:3"},
      {"grpc://[::1]:7,[fe80::2]", "worker: [::1]:7 [fe80::2]:8470"},
  };
  world w = {0};
  LS_OWN(counted, c) = begin(&w);
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(ls_tpu_resolver, resolver) = create(&(ls_tpu_resolver_options){
        .name = rows[i].name, .lookup = lookup, .user = &w});
    expect_spec(resolver, rows[i].wanted);
  }
  assert_int_equal(w.lookups, 0);
  static const struct {
    const char *name, *part;
  } refused[] = {{"grpc://", "has no host"},
                 {"grpc://a,,b", "has no host"},
                 {"grpc://a,:80", "':80' has no host"},
                 {"grpc://a:0", "'a:0' has no port"},
                 {"grpc://a:65536", "1 to 65535"},
                 {"grpc://a:12x", "'a:12x'"},
                 {"grpc://a:", "has no port"},
                 {"grpc://[::1", "'[::1' has no host"},
                 {"grpc://::1", "'::1' has no host"},
                 {"grpc://a]b:5", "'a]b:5' has no host"},
                 {"grpc://a, b", "' b' has no host"}};
  for (size_t i = 0; i < LS_COUNT_OF(refused); ++i) {
    ls_tpu_resolver *resolver = NULL;
    expect_status(
        ls_tpu_resolver_create(
            &(ls_tpu_resolver_options){.name = refused[i].name}, &resolver),
        LS_INVALID_ARGUMENT, refused[i].part);
  }
  // An ordinary name.
  w.node = (ls_tpu_node){.state = "READY", .single = {"1.2.3.4", 0}};
  LS_OWN(ls_tpu_resolver, resolver) = create(&(ls_tpu_resolver_options){
      .name = "grpctpu", .lookup = lookup, .user = &w});
  expect_spec(resolver, "worker: 1.2.3.4:8470");
  assert_int_equal(w.lookups, 1);
}

TEST(names_are_looked_up_each_time) {
  LS_SPEC("T17");
  static const ls_tpu_endpoint endpoints[] = {{"10.0.0.2", 8470},
                                              {"10.0.0.1", 99}};
  world w = {.node = {.state = "READY",
                      .endpoints = endpoints,
                      .num_endpoints = 2,
                      .single = {"10.9.9.9", 1}}};
  LS_OWN(counted, c) = begin(&w);
  LS_OWN(ls_tpu_resolver, resolver) =
      create(&(ls_tpu_resolver_options){.name = "big",
                                        .zone = "z1",
                                        .project = "p1",
                                        .lookup = lookup,
                                        .user = &w});
  assert_int_equal(w.lookups, 0);
  expect_spec(resolver, "worker: 10.0.0.2:8470 10.0.0.1:99");
  assert_string_equal(w.asked, "big in z1 of p1");
  w.node.num_endpoints = 0;
  expect_spec(resolver, "worker: 10.9.9.9:1");
  assert_int_equal(w.lookups, 2);

  ls_cluster_spec *spec = NULL;
  static const ls_tpu_endpoint wrong[][2] = {{{"10.0.0.1", 1}, {NULL, 1}},
                                             {{"10.0.0.1", 1}, {"", 1}},
                                             {{"10.0.0.1", 1}, {"::1", 1}},
                                             {{"10.0.0.1", 1}, {"b", -4}},
                                             {{"10.0.0.1", 1}, {"b", 65536}}};
  for (size_t i = 0; i < LS_COUNT_OF(wrong); ++i) {
    w.node.endpoints = wrong[i];
    w.node.num_endpoints = 2;
    expect_status(ls_tpu_resolver_cluster_spec(resolver, &spec),
                  LS_INVALID_ARGUMENT, "of endpoint 1: expected a host");
  }
  w.node.state = "CREATING";
  ls_status status = ls_tpu_resolver_cluster_spec(resolver, &spec);
  assert_non_null(status);
  expect_contains(ls_status_message(status), "'big'");
  expect_status(status, LS_FAILED_PRECONDITION, "CREATING");
  w.lookup_code = LS_NOT_FOUND;
  expect_status(ls_tpu_resolver_cluster_spec(resolver, &spec),
                LS_INVALID_ARGUMENT, "'big' is unknown");
  w.lookup_code = LS_UNAVAILABLE;
  expect_status(ls_tpu_resolver_cluster_spec(resolver, &spec), LS_UNAVAILABLE,
                "looking up TPU 'big'");
  ls_tpu_resolver_release(resolver);

  resolver = create_named("big");
  expect_status(ls_tpu_resolver_cluster_spec(resolver, &spec),
                LS_INVALID_ARGUMENT, "'big' is unknown");
  assert_null(spec);
}

TEST(a_cluster_is_workers_and_a_coordinator) {
  LS_SPEC("T18");
  world w = {0};
  LS_OWN(counted, c) = begin(&w);
  ls_tpu_resolver *resolver =
      create(&(ls_tpu_resolver_options){.name = "grpc://a,b",
                                        .job = "tpus",
                                        .coordinator = "boss",
                                        .coordinator_address = "me:5"});
  expect_spec(resolver, "tpus: a:8470 b:8470; boss: me:5");
  ls_tpu_resolver_release(resolver);

  // A free port of this machine, the same each time.
  resolver = create(
      &(ls_tpu_resolver_options){.name = "grpc://a", .coordinator = "boss"});
  const char *address = ls_tpu_resolver_coordinator_address(resolver);
  assert_non_null(address);
  const char *port = strrchr(address, ':');
  assert_non_null(port);
  assert_true(atoi(port + 1) > 0 && atoi(port + 1) <= 65535);
  char wanted[128];
  snprintf(wanted, sizeof(wanted), "worker: a:8470; boss: %s", address);
  expect_spec(resolver, wanted);
  expect_spec(resolver, wanted);
  ls_tpu_resolver_release(resolver);

  static const char *const empty[] = {"", "local", "virtual:2x2"};
  for (size_t i = 0; i < LS_COUNT_OF(empty); ++i) {
    resolver = create_named(empty[i]);
    expect_spec(resolver, "");
    ls_tpu_resolver_release(resolver);
  }
}

static void expect_master(const ls_tpu_resolver *resolver, const char *type,
                          ls_opt id, const char *wanted) {
  ls_master master;
  expect_ok(ls_tpu_resolver_master(resolver, type, id, &master));
  assert_string_equal(master.text, wanted);
}

TEST(the_master_is_the_address_of_a_task) {
  LS_SPEC("T19");
  world w = {0};
  LS_OWN(counted, c) = begin(&w);
  const ls_opt own = {0};
  LS_OWN(ls_tpu_resolver, resolver) =
      create(&(ls_tpu_resolver_options){.name = "grpc://a,b:2",
                                        .coordinator = "boss",
                                        .coordinator_address = "me:5"});
  expect_master(resolver, NULL, own, "grpc://a:8470");
  expect_master(resolver, NULL, LS_SOME(1), "grpc://b:2");
  expect_master(resolver, "boss", own, "grpc://me:5");
  expect_ok(ls_tpu_resolver_set_task(resolver, "worker", 1));
  expect_master(resolver, NULL, own, "grpc://b:2");
  expect_master(resolver, "worker", LS_SOME(0), "grpc://a:8470");
  ls_master master;
  expect_status(ls_tpu_resolver_master(resolver, "ps", own, &master),
                LS_INVALID_ARGUMENT, "no worker has job 'ps'");
  expect_status(ls_tpu_resolver_master(resolver, NULL, LS_SOME(2), &master),
                LS_INVALID_ARGUMENT, "no task 2");
  ls_tpu_resolver_release(resolver);
  resolver = create_named("");
  expect_master(resolver, NULL, own, "");
  expect_master(resolver, "any", LS_SOME(7), "");
}

TEST(ops_go_to_the_job_of_the_workers) {
  LS_SPEC("T26");
  static const struct {
    const char *master;
    bool has_cluster;
    const char *jobs[4];
    const char *wanted;  // NULL: none.
    bool is_refused;
  } rows[] = {
      {"", false, {NULL}, NULL, false},
      {"local", true, {"worker"}, NULL, false},
      {"grpc://a", false, {NULL}, "tpu_worker", false},
      {"grpc://a", true, {"w"}, "w", false},
      {"grpc://a", true, {"coordinator"}, "coordinator", false},
      {"grpc://a", true, {"coordinator", "w"}, "w", false},
      {"grpc://a", true, {"w", "coordinator"}, "w", false},
      {"grpc://a", true, {"tpu_worker"}, NULL, true},
      {"grpc://a", true, {"w", "tpu_worker"}, NULL, true},
      {"grpc://a", true, {NULL}, NULL, true},
      {"grpc://a", true, {"w", "ps"}, NULL, true},
      {"grpc://a", true, {"w", "ps", "coordinator"}, NULL, true},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    ls_cluster_job jobs[4] = {0};
    ls_cluster_spec spec = {.jobs = jobs};
    while (spec.num_jobs < 4 && rows[i].jobs[spec.num_jobs] != NULL) {
      jobs[spec.num_jobs].name = rows[i].jobs[spec.num_jobs];
      ++spec.num_jobs;
    }
    const char *job = NULL;
    ls_status status = ls_tpu_placement_job(
        rows[i].master, rows[i].has_cluster ? &spec : NULL, &job);
    if (rows[i].is_refused) {
      expect_status(status, LS_INVALID_ARGUMENT, "a cluster");
      assert_null(job);
      continue;
    }
    expect_ok(status);
    if (rows[i].wanted == NULL)
      assert_null(job);
    else
      assert_string_equal(job, rows[i].wanted);
  }
}

TEST(a_job_to_place_ops_on_has_a_name) {
  const ls_cluster_spec nameless = {(const ls_cluster_job[]){{.name = NULL}},
                                    1};
  const ls_cluster_spec empty = {NULL, 1};
  const char *job = NULL;
  expect_status(ls_tpu_placement_job("grpc://a", &nameless, &job),
                LS_INVALID_ARGUMENT, "a job of a cluster has no name");
  expect_status(ls_tpu_placement_job("grpc://a", &empty, &job),
                LS_INVALID_ARGUMENT, "jobs is NULL");
  assert_null(job);
}

// ---- What a system has -----------------------------------------------------
static ls_tpu_resolver *create_queried(world *w) {
  return create(&(ls_tpu_resolver_options){
      .name = "grpc://a", .query = query, .user = w});
}

TEST(accelerators_are_counted_by_host) {
  LS_SPEC("T20 T21");
  static const char *const even[] = {
      "/job:worker/replica:0/task:0/device:CPU:0",
      "/job:worker/replica:0/task:0/device:TPU:0",
      "/job:worker/replica:0/task:0/device:TPU:1",
      "/job:worker/replica:0/task:0/device:TPU_SYSTEM:0",
      "/job:worker/replica:0/task:1/device:TPU:1",
      "/job:worker/replica:0/task:1/device:GPU:0",
      "/job:worker/replica:0/task:1/device:TPU:0"};
  static const char *const uneven[] = {"/job:worker/task:0/device:TPU:0",
                                       "/job:worker/task:3/device:TPU:0",
                                       "/job:worker/task:3/device:TPU:1"};
  world w = {.devices = even, .num_devices = LS_COUNT_OF(even)};
  LS_OWN(counted, c) = begin(&w);
  LS_OWN(ls_tpu_resolver, resolver) = create_queried(&w);
  int32_t tpus = -1;
  expect_ok(ls_tpu_resolver_num_accelerators(resolver, &tpus));
  assert_int_equal(tpus, 2);
  assert_string_equal(w.master, "grpc://a:8470");
  w.num_devices = 1;
  expect_ok(ls_tpu_resolver_num_accelerators(resolver, &tpus));
  assert_int_equal(tpus, 0);
  w.devices = uneven;
  w.num_devices = 3;
  expect_status(ls_tpu_resolver_num_accelerators(resolver, &tpus),
                LS_FAILED_PRECONDITION, "{0: 1, 3: 2}");
  // No task, no core of a host.
  static const char *const homeless[] = {"/device:TPU:0"};
  w.devices = homeless;
  w.num_devices = 1;
  expect_ok(ls_tpu_resolver_num_accelerators(resolver, &tpus));
  assert_int_equal(tpus, 0);
  ls_tpu_resolver_release(resolver);

  resolver = create_named("");
  expect_ok(ls_tpu_resolver_num_accelerators(resolver, &tpus));
  assert_int_equal(tpus, 8);
}

TEST(a_late_answer_is_asked_for_again) {
  LS_SPEC("T20");
  static const char *const one[] = {"/job:worker/task:0/device:TPU:0"};
  world w = {.devices = one, .num_devices = 1, .late = 120};
  LS_OWN(counted, c) = begin(&w);
  LS_OWN(ls_tpu_resolver, resolver) = create_queried(&w);
  int32_t tpus = 0;
  expect_ok(ls_tpu_resolver_num_accelerators(resolver, &tpus));
  assert_int_equal(tpus, 1);
  assert_int_equal(w.warnings, 120);
  expect_contains(w.last_warning, "120 of 120");
  expect_contains(w.last_warning, "grpc://a:8470");
  assert_int_equal(w.now, 120 * INT64_C(1000000000));
  w.late = -1;
  w.warnings = w.queries = 0;
  expect_status(ls_tpu_resolver_num_accelerators(resolver, &tpus),
                LS_FAILED_PRECONDITION, "grpc://a:8470");
  assert_int_equal(w.warnings, 120);
  assert_int_equal(w.queries, 121);
}

TEST(metadata_lists_devices_in_order) {
  LS_SPEC("T23 T24");
  static const char *const devices[] = {
      "/job:b/task:0/device:TPU:10", "/job:b/task:0/tpu:2",
      "/job:b/replica:0/task:0/device:TPU_SYSTEM:0", "/job:a/cpu:0",
      "/job:b/task:0/device:CPU:0"};
  static const char *const wanted[] = {
      "/job:a/replica:0/task:0/device:CPU:0",
      "/job:b/replica:0/task:0/device:CPU:0",
      "/job:b/replica:0/task:0/device:TPU:2",
      "/job:b/replica:0/task:0/device:TPU:10",
      "/job:b/replica:0/task:0/device:TPU_SYSTEM:0"};
  world w = {.devices = devices, .num_devices = LS_COUNT_OF(devices)};
  LS_OWN(counted, c) = begin(&w);
  LS_OWN(ls_tpu_resolver, resolver) = create_queried(&w);
  ls_tpu_metadata *metadata = NULL;
  expect_ok(ls_tpu_metadata_query(resolver, false, &metadata));
  assert_int_equal(metadata->num_devices, LS_COUNT_OF(wanted));
  for (size_t i = 0; i < LS_COUNT_OF(wanted); ++i)
    assert_string_equal(metadata->devices[i].text, wanted[i]);
  assert_int_equal(metadata->num_cores, 2);
  assert_int_equal(metadata->num_hosts, 1);
  assert_int_equal(metadata->num_of_cores_per_host, 2);
  assert_null(metadata->topology);
  ls_tpu_metadata_destroy(metadata);

  // Nothing there is no error.
  w.num_devices = 0;
  expect_ok(ls_tpu_metadata_query(resolver, false, &metadata));
  assert_int_equal(metadata->num_cores, 0);
  assert_int_equal(metadata->num_hosts, 0);
  assert_int_equal(metadata->num_of_cores_per_host, 0);
  assert_int_equal(metadata->num_devices, 0);
  ls_tpu_metadata_destroy(metadata);

  static const char *const uneven[] = {"/job:w/task:0/device:TPU:0",
                                       "/job:w/task:1/device:TPU:0",
                                       "/job:w/task:1/device:TPU:1"};
  w.devices = uneven;
  w.num_devices = 3;
  expect_status(ls_tpu_metadata_query(resolver, false, &metadata),
                LS_FAILED_PRECONDITION,
                "/job:w/replica:0/task:0/device:TPU:0, "
                "/job:w/replica:0/task:1/device:TPU:0, "
                "/job:w/replica:0/task:1/device:TPU:1");
  assert_null(metadata);
  static const char *const bad[] = {"/job:w/what:0"};
  w.devices = bad;
  w.num_devices = 1;
  expect_status(ls_tpu_metadata_query(resolver, false, &metadata),
                LS_INVALID_ARGUMENT, "'what'");
}

// mesh 1x1x1x2, one task of two devices.
static const char two_cores[] = "\x0a\x04\x01\x01\x01\x02\x10\x01\x18\x02\x22"
                                "\x08\0\0\0\0\0\0\0\x01\x2a\x02\x08\x01";

TEST(a_topology_is_there_when_it_is_asked_for) {
  LS_SPEC("T23 T25");
  static const char *const devices[] = {"/job:w/task:0/device:TPU:0",
                                        "/job:w/task:0/device:TPU:1"};
  static const char *const none[] = {"/job:w/task:0/device:CPU:0"};
  world w = {.devices = devices,
             .num_devices = 2,
             .topology = two_cores,
             .topology_size = sizeof(two_cores) - 1};
  LS_OWN(counted, c) = begin(&w);
  LS_OWN(ls_tpu_resolver, resolver) = create_queried(&w);
  ls_tpu_metadata *metadata = NULL;
  expect_ok(ls_tpu_metadata_query(resolver, true, &metadata));
  assert_non_null(metadata->topology);
  assert_int_equal(ls_topology_num_devices_per_task(metadata->topology), 2);
  assert_int_equal(w.initializations, 0);
  ls_tpu_metadata_destroy(metadata);
  w.devices = none;
  w.num_devices = 1;
  ls_status status = ls_tpu_metadata_query(resolver, true, &metadata);
  assert_non_null(status);
  expect_contains(ls_status_message(status), "grpc://a:8470");
  expect_status(status, LS_FAILED_PRECONDITION,
                "/job:w/replica:0/task:0/device:CPU:0");
}

TEST(pinging_gives_up_in_the_end) {
  LS_SPEC("T25");
  world w = {.late = -1};
  LS_OWN(counted, c) = begin(&w);
  LS_OWN(ls_tpu_resolver, resolver) = create_queried(&w);
  ls_tpu_metadata *metadata = NULL;
  expect_status(ls_tpu_metadata_query(resolver, true, &metadata),
                LS_INVALID_ARGUMENT, "grpc://a:8470");
  assert_int_equal(w.queries, 289);
  assert_int_equal(w.warnings, 288);
  ls_tpu_resolver_release(resolver);
  w.queries = 0;
  resolver = create(&(ls_tpu_resolver_options){.name = "grpc://a",
                                               .query = query,
                                               .user = &w,
                                               .metadata_retries = LS_SOME(0)});
  expect_status(ls_tpu_metadata_query(resolver, false, &metadata),
                LS_INVALID_ARGUMENT, "grpc://a:8470");
  assert_int_equal(w.queries, 1);
}

MEMORY_TEST(resolve_a_cluster) {
  static const char *const devices[] = {"/job:w/task:0/device:TPU:0",
                                        "/job:w/task:0/device:TPU:1"};
  world w = {.devices = devices,
             .num_devices = 2,
             .topology = two_cores,
             .topology_size = sizeof(two_cores) - 1};
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  LS_OWN(ls_cluster_spec, spec) = NULL;
  LS_OWN(ls_tpu_metadata, metadata) = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "grpc://a,b",
                                 .coordinator_address = "c:1",
                                 .query = query,
                                 .user = &w},
      &resolver));
  LS_RETURN_IF_ERROR(ls_tpu_resolver_cluster_spec(resolver, &spec));
  LS_RETURN_IF_ERROR(ls_tpu_metadata_query(resolver, true, &metadata));
  return ls_ok();
}
