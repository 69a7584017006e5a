// SPDX-License-Identifier: Apache-2.0
//
// Hosts that will go, and a system that is gone for good.
#define _GNU_SOURCE
#include "lockstep/shutdown_hooks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/fault.h"
#include "support/function.h"
#include "support/monitored_runs.h"
#include "train/own.h"

static const char mode_name[] = "TF_TPU_GRACEFUL_SHUTDOWN_MODE";
static const char own_mode_name[] = "LS_TPU_GRACEFUL_SHUTDOWN_MODE";
static const int64_t second = 1000000000;

static void folder_of(char *path) {
  strcpy(path, "XXXXXX");
  assert_non_null(mkdtemp(path));
}

static bool has(const char *folder, const char *file) {
  char path[200];
  snprintf(path, sizeof(path), "%s/%s", folder, file);
  return access(path, F_OK) == 0;
}

// A training beside a system of three hosts.
typedef struct pod_training {
  monitored_runs runs;
  ls_tpu_resolver *resolver;
  ls_pod *pod;
  char folder[8];
} pod_training;

static void begin(pod_training *f) {
  *f = (pod_training){.resolver = NULL};
  unsetenv(mode_name);
  unsetenv(own_mode_name);
  monitored_runs_begin(&f->runs);
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "virtual:3x1,hosts=3"}, &f->resolver));
  expect_ok(ls_tpu_initialize(f->resolver, NULL));
  expect_ok(ls_tpu_pod(f->resolver, &f->pod));
  folder_of(f->folder);
  (void)monitored_runs_log();
}

static void end(pod_training *f) {
  ls_pod_release(f->pod);
  ls_tpu_resolver_release(f->resolver);
  monitored_runs_end(&f->runs);
}
LS_OWNED_STRUCT(pod_training, end)

static void plan(pod_training *f, ls_pod_fault_kind kind, int32_t host) {
  expect_ok(ls_pod_inject(f->pod, &(ls_pod_fault){.kind = kind, .host = host}));
}

static ls_code health_of(pod_training *f, int32_t host) {
  ls_pod_health health;
  LS_OWN(ls_status, status) = ls_pod_ask_health(f->pod, host, second, &health);
  return ls_status_code(status);
}

static ls_hook *hook_of(pod_training *f, ls_shutdown_mode mode,
                        const char *folder) {
  ls_hook *hook = NULL;
  expect_ok(ls_graceful_shutdown_hook(
      &(ls_graceful_shutdown_options){
          .resolver = f->resolver, .mode = mode, .folder = folder},
      &hook));
  assert_non_null(hook);
  return hook;
}

// Initializes the system for each session, as who feeds it does.
static ls_status initialize(void *user, ls_run_context *context) {
  (void)context;
  return ls_tpu_initialize(((pod_training *)user)->resolver, NULL);
}

static ls_hook *initializer_of(pod_training *f) {
  ls_hook *hook = NULL;
  expect_ok(ls_hook_create(
      &(ls_hook_options){.user = f, .after_create_session = initialize},
      &hook));
  return hook;
}

// ---- The environment -------------------------------------------------------
static ls_status make_by_environment(pod_training *f, ls_hook **hook) {
  return ls_graceful_shutdown_hook(
      &(ls_graceful_shutdown_options){.resolver = f->resolver}, hook);
}

TEST(the_environment_says_what_is_shut_down) {
  LS_SPEC("E190");
  static const struct {
    const char *mode, *own;  // NULL: not set.
    const char *refused;     // NULL: fine.
    int gone;                // Of the other hosts; -1: there is no hook.
  } rows[] = {
      {NULL, NULL, NULL, 0},
      {"shutdown_worker", NULL, NULL, 0},
      {"shutdown_computation", NULL, NULL, 2},
      {"", NULL, NULL, -1},
      {"Shutdown_worker", NULL,
       "TF_TPU_GRACEFUL_SHUTDOWN_MODE is 'Shutdown_worker'", 0},
      {"none", NULL, "TF_TPU_GRACEFUL_SHUTDOWN_MODE is 'none'", 0},
      {"none", "shutdown_computation", NULL, 2},
      {"shutdown_worker", "", NULL, -1},
      {"", "bad", "LS_TPU_GRACEFUL_SHUTDOWN_MODE is 'bad'", 0},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    ls_hook *hook = NULL;
    LS_OWN_BEGUN(pod_training, f, begin);
    if (rows[i].mode != NULL) setenv(mode_name, rows[i].mode, 1);
    if (rows[i].own != NULL) setenv(own_mode_name, rows[i].own, 1);
    const bool refused = rows[i].refused != NULL;
    expect_status(make_by_environment(&f, &hook),
                  refused ? LS_INVALID_ARGUMENT : LS_OK,
                  refused ? rows[i].refused : "");
    assert_int_equal(hook != NULL, !refused && rows[i].gone >= 0);
    if (hook != NULL) {
      monitored_runs_open(&f.runs, &hook, 1, NULL);
      plan(&f, LS_POD_HOST_LAME, 1);
      expect_ok(monitored_runs_try(&f.runs));
      assert_int_equal(health_of(&f, 1), LS_UNAVAILABLE);
      const int gone = (health_of(&f, 0) == LS_UNAVAILABLE) +
                       (health_of(&f, 2) == LS_UNAVAILABLE);
      assert_int_equal(gone, rows[i].gone);
      expect_status(monitored_runs_try_close(&f.runs, ls_ok()),
                    gone > 0 ? LS_ABORTED : LS_OK,
                    gone > 0 ? "coordinator shutdown" : "");
    }
  }
}

TEST(options_are_checked) {
  ls_hook *hook = NULL;
  LS_OWN_BEGUN(pod_training, f, begin);
  expect_status(ls_graceful_shutdown_hook(
                    &(ls_graceful_shutdown_options){.folder = "x"}, &hook),
                LS_INVALID_ARGUMENT, "resolver is NULL");
  expect_status(ls_graceful_shutdown_hook(NULL, &hook), LS_INVALID_ARGUMENT,
                "options is NULL");
  expect_status(ls_graceful_shutdown_hook(
                    &(ls_graceful_shutdown_options){.resolver = f.resolver,
                                                    .timeout_ms = LS_SOME(0)},
                    &hook),
                LS_INVALID_ARGUMENT, "timeout_ms of a graceful shutdown is 0");
  expect_status(ls_graceful_shutdown_hook(
                    &(ls_graceful_shutdown_options){
                        .resolver = f.resolver, .mode = (ls_shutdown_mode)9},
                    &hook),
                LS_INVALID_ARGUMENT, "no mode 9");
  expect_ok(ls_graceful_shutdown_hook(
      &(ls_graceful_shutdown_options){.resolver = f.resolver,
                                      .mode = LS_SHUTDOWN_NONE},
      &hook));
  assert_null(hook);
  expect_status(
      ls_preemption_hook(&(ls_preemption_options){.folder = "x"}, &hook),
      LS_INVALID_ARGUMENT, "resolver is NULL");
  expect_status(
      ls_preemption_hook(&(ls_preemption_options){.resolver = f.resolver,
                                                  .poll_seconds = LS_SOME(0)},
                         &hook),
      LS_INVALID_ARGUMENT, "poll_seconds of a preemption hook is 0");
}

// ---- Hosts that will go ----------------------------------------------------
TEST(a_lame_host_is_shut_down_behind_a_checkpoint) {
  LS_SPEC("E190 E191");
  LS_OWN_BEGUN(pod_training, f, begin);
  ls_hook *hooks[] = {hook_of(&f, LS_SHUTDOWN_WORKER, f.folder),
                      initializer_of(&f)};
  monitored_runs_open(&f.runs, hooks, 2, f.folder);
  (void)monitored_runs_log();
  assert_int_equal(monitored_runs_all(&f.runs, 3), 3);
  assert_false(has(f.folder, "model.ckpt-3.json"));
  plan(&f, LS_POD_HOST_LAME, 1);
  expect_ok(monitored_runs_try(&f.runs));
  expect_contains(monitored_runs_log(),
                  "lame workers found: hosts 1 of TPU system 'virtual:3x1");
  assert_true(has(f.folder, "model.ckpt-4.json"));
  assert_true(has(f.folder, "model.ckpt-4.safetensors"));
  assert_int_equal(health_of(&f, 1), LS_UNAVAILABLE);
  assert_int_equal(health_of(&f, 0), LS_OK);
  assert_int_equal(health_of(&f, 2), LS_OK);
  assert_false(ls_monitored_session_should_stop(f.runs.session));
  // The next run finds that the host is gone: the session begins again, with
  // that checkpoint, and goes on.
  assert_int_equal(monitored_runs_all(&f.runs, 2), 2);
  expect_contains(monitored_runs_log(), "restored the checkpoint of step 4");
  assert_int_equal(monitored_runs_step(&f.runs), 6);
  assert_int_equal(health_of(&f, 1), LS_OK);
  monitored_runs_close(&f.runs);
}

TEST(a_computation_is_shut_down_and_ends) {
  LS_SPEC("E191");
  LS_OWN_BEGUN(pod_training, f, begin);
  ls_hook *hook = hook_of(&f, LS_SHUTDOWN_COMPUTATION, f.folder);
  monitored_runs_open(&f.runs, &hook, 1, f.folder);
  expect_ok(monitored_runs_try(&f.runs));
  plan(&f, LS_POD_HOST_LAME, 0);
  plan(&f, LS_POD_HOST_LAME, 2);
  assert_int_equal(monitored_runs_all(&f.runs, 10), 1);
  for (int32_t i = 0; i < 3; ++i)
    assert_int_equal(health_of(&f, i), LS_UNAVAILABLE);
  assert_true(has(f.folder, "model.ckpt-2.json"));
  expect_status(monitored_runs_try_close(&f.runs, ls_ok()), LS_ABORTED,
                "coordinator shutdown: hosts 0, 2 of TPU system 'virtual:3x1");
}

TEST(a_host_that_says_nothing_for_a_minute_is_lame) {
  LS_SPEC("E190");
  LS_OWN_BEGUN(pod_training, f, begin);
  ls_hook *hook = hook_of(&f, LS_SHUTDOWN_WORKER, NULL);
  monitored_runs_open(&f.runs, &hook, 1, NULL);
  plan(&f, LS_POD_HOST_SILENT, 2);
  const double before = monitored_runs_now();
  expect_ok(monitored_runs_try(&f.runs));
  assert_true(fabs(monitored_runs_now() - before - 60) < 1e-6);
  assert_int_equal(health_of(&f, 2), LS_UNAVAILABLE);
  expect_contains(monitored_runs_log(), "no checkpoint is saved");
  monitored_runs_close(&f.runs);
}

static ls_hook *saver_of(const char *folder) {
  ls_hook *hook = NULL;
  expect_ok(ls_saver_hook(
      &(ls_saver_hook_options){.folder = folder, .every_steps = LS_SOME(100)},
      &hook));
  return hook;
}

TEST(the_sole_saver_of_the_session_saves) {
  LS_SPEC("E191");
  for (int savers = 1; savers <= 2; ++savers) {
    char folders[2][8];
    LS_OWN_BEGUN(pod_training, f, begin);
    ls_hook *hooks[3] = {hook_of(&f, LS_SHUTDOWN_WORKER, f.folder)};
    for (int i = 0; i < savers; ++i) {
      folder_of(folders[i]);
      hooks[1 + i] = saver_of(folders[i]);
    }
    monitored_runs_open(&f.runs, hooks, 1 + (size_t)savers, NULL);
    (void)monitored_runs_log();
    expect_ok(monitored_runs_try(&f.runs));
    assert_false(has(folders[0], "model.ckpt-1.json"));
    plan(&f, LS_POD_HOST_LAME, 1);
    expect_ok(monitored_runs_try(&f.runs));
    assert_int_equal(has(folders[0], "model.ckpt-2.json"), savers == 1);
    assert_false(has(f.folder, "model.ckpt-2.json"));
    const char *log = monitored_runs_log();
    if (savers == 2) {
      assert_false(has(folders[1], "model.ckpt-2.json"));
      expect_contains(log, "multiple savers, 2 of them: no checkpoint");
    }
    assert_int_equal(health_of(&f, 1), LS_UNAVAILABLE);
    monitored_runs_close(&f.runs);
  }
}

TEST(nothing_is_saved_where_a_user_does) {
  LS_SPEC("E191");
  ls_hook *hooks[2] = {NULL};
  LS_OWN_BEGUN(pod_training, f, begin);
  expect_ok(ls_graceful_shutdown_hook(
      &(ls_graceful_shutdown_options){.resolver = f.resolver,
                                      .mode = LS_SHUTDOWN_WORKER,
                                      .folder = f.folder,
                                      .saves = LS_FLAG_OFF},
      &hooks[0]));
  char folder[8];
  folder_of(folder);
  hooks[1] = saver_of(folder);
  monitored_runs_open(&f.runs, hooks, 2, NULL);
  plan(&f, LS_POD_HOST_LAME, 1);
  expect_ok(monitored_runs_try(&f.runs));
  assert_false(has(folder, "model.ckpt-1.json"));
  assert_false(has(f.folder, "model.ckpt-1.json"));
  assert_int_equal(health_of(&f, 1), LS_UNAVAILABLE);
  monitored_runs_close(&f.runs);
}

TEST(hosts_without_heartbeats_are_not_asked) {
  LS_SPEC("E191");
  for (int i = 0; i < 4; ++i) {
    const bool silent = i % 2 == 1;
    const int32_t mute = i / 2;  // Host 0, or one after hosts that answer.
    char says[60];
    LS_OWN_BEGUN(pod_training, f, begin);
    plan(&f, silent ? LS_POD_HOST_SILENT : LS_POD_NO_HEARTBEAT, mute);
    plan(&f, LS_POD_HOST_LAME, 1 - mute);
    ls_hook *hook = hook_of(&f, LS_SHUTDOWN_WORKER, f.folder);
    const double before = monitored_runs_now();
    monitored_runs_open(&f.runs, &hook, 1, NULL);
    assert_true(fabs(monitored_runs_now() - before - (silent ? 5 : 0)) < 1e-6);
    snprintf(says, sizeof(says), "host %d does not support heartbeats", mute);
    expect_contains(monitored_runs_log(), says);
    assert_int_equal(monitored_runs_all(&f.runs, 2), 2);
    assert_int_equal(health_of(&f, 1 - mute), LS_OK);
    assert_false(has(f.folder, "checkpoint"));
    monitored_runs_close(&f.runs);
  }
  // Of addresses nothing is known.
  LS_OWN_BEGUN(pod_training, f, begin);
  LS_OWN(ls_tpu_resolver, far) = NULL;
  ls_hook *hook = NULL;
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "grpc://10.0.0.1"}, &far));
  expect_ok(ls_graceful_shutdown_hook(
      &(ls_graceful_shutdown_options){.resolver = far,
                                      .mode = LS_SHUTDOWN_WORKER},
      &hook));
  monitored_runs_open(&f.runs, &hook, 1, NULL);
  expect_contains(monitored_runs_log(), "no host of this system supports");
  assert_int_equal(monitored_runs_all(&f.runs, 2), 2);
  monitored_runs_close(&f.runs);
}

TEST(what_would_be_saved_needs_a_global_step) {
  LS_SPEC("E191");
  LS_OWN_BEGUN(pod_training, f, begin);
  for (int saves = 0; saves < 2; ++saves) {
    LS_OWN(ls_graph, graph) = graph_named("without steps");
    ls_monitored_session *session = NULL;
    LS_OWN(ls_hook, hook) =
        hook_of(&f, LS_SHUTDOWN_WORKER, saves ? f.folder : NULL);
    expect_status(ls_monitored_session_create(
                      &(ls_monitored_options){
                          .graph = graph, .hooks = &hook, .num_hooks = 1},
                      &session),
                  saves ? LS_FAILED_PRECONDITION : LS_OK,
                  saves ? "'without steps' has no global step" : "");
    if (!saves) expect_ok(ls_monitored_session_close(session, ls_ok()));
  }
}

// ---- Systems that are gone for good ----------------------------------------
typedef struct service {
  int asked;          // Atomic.
  const char *state;  // Atomic. NULL: the service fails.
} service;

static ls_status look_up(void *user, const char *name, const char *zone,
                         const char *project, ls_tpu_node *out_node) {
  service *self = user;
  (void)name, (void)zone, (void)project;
  const char *state = __atomic_load_n(&self->state, __ATOMIC_ACQUIRE);
  *out_node = (ls_tpu_node){.state = state, .single = {"10.0.0.1", 0}};
  __atomic_fetch_add(&self->asked, 1, __ATOMIC_RELEASE);
  return state != NULL ? ls_ok()
                       : LS_STATUS(LS_UNAVAILABLE, "no answer from the cloud");
}

static int asked_so_far(const service *self) {
  return __atomic_load_n(&self->asked, __ATOMIC_ACQUIRE);
}

static void say(service *self, const char *state) {
  __atomic_store_n(&self->state, state, __ATOMIC_RELEASE);
}

// Until it was asked so often, at most some seconds.
static void wait_for(const service *self, int times) {
  for (int i = 0; i < 20000 && asked_so_far(self) < times; ++i)
    usleep(500);
  assert_int_equal(asked_so_far(self), times);
}

static ls_tpu_resolver *cloud_of(service *self) {
  ls_tpu_resolver *resolver = NULL;
  expect_ok(ls_tpu_resolver_create(&(ls_tpu_resolver_options){.name = "my-tpu",
                                                              .lookup = look_up,
                                                              .user = self},
                                   &resolver));
  return resolver;
}

TEST(a_system_that_is_gone_ends_the_training) {
  LS_SPEC("E193");
  static const char *const states[] = {"PREEMPTED", "TERMINATED"};
  for (int by_saver = 0; by_saver < 2; ++by_saver) {
    service cloud = {.state = "READY"};
    char folder[8];
    ls_hook *hooks[2] = {NULL};
    LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
    folder_of(folder);
    LS_OWN(ls_tpu_resolver, resolver) = cloud_of(&cloud);
    expect_ok(ls_preemption_hook(
        &(ls_preemption_options){.resolver = resolver, .folder = folder},
        &hooks[by_saver]));
    if (by_saver) hooks[0] = saver_of(folder);
    monitored_runs_open(&f, hooks, 1 + (size_t)by_saver, NULL);
    wait_for(&cloud, 1);
    assert_int_equal(monitored_runs_all(&f, 2), 2);
    // 30 seconds later, and not before.
    monitored_runs_pass(29.5);
    usleep(20000);
    assert_int_equal(asked_so_far(&cloud), 1);
    monitored_runs_pass(0.5);
    wait_for(&cloud, 2);
    say(&cloud, NULL);
    monitored_runs_pass(30);
    wait_for(&cloud, 3);
    // A failure to ask is borne.
    assert_int_equal(monitored_runs_all(&f, 1), 1);
    say(&cloud, states[by_saver]);
    monitored_runs_pass(30);
    wait_for(&cloud, 4);
    const int more = monitored_runs_all(&f, 100000);
    assert_true(more >= 1 && more < 100000);
    const int64_t step = monitored_runs_step(&f);
    const ls_status status = monitored_runs_try_close(&f, ls_ok());
    assert_int_equal(ls_status_code(status), LS_UNAVAILABLE);
    expect_contains(ls_status_message(status), "TPU 'my-tpu' is in state ");
    expect_contains(ls_status_message(status), states[by_saver]);
    ls_status_free(status);
    char file[60];
    snprintf(file, sizeof(file), "model.ckpt-%lld.json", (long long)step);
    assert_true(has(folder, file));
    expect_contains(monitored_runs_log(), states[by_saver]);
  }
}

TEST(a_thread_that_polls_ends_with_the_training) {
  LS_SPEC("E193");
  for (int fails = 0; fails < 2; ++fails) {
    service cloud = {.state = "READY"};
    ls_hook *hook = NULL;
    LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
    LS_OWN(ls_tpu_resolver, resolver) = cloud_of(&cloud);
    expect_ok(ls_preemption_hook(&(ls_preemption_options){.resolver = resolver},
                                 &hook));
    monitored_runs_open(&f, &hook, 1, NULL);
    wait_for(&cloud, 1);
    expect_status(monitored_runs_try_close(
                      &f, fails ? ls_invalid_argument("failed") : ls_ok()),
                  fails ? LS_INVALID_ARGUMENT : LS_OK, "");
    monitored_runs_pass(100);
    usleep(20000);
    assert_int_equal(asked_so_far(&cloud), 1);
  }
}

TEST(a_stop_is_asked_for_from_outside_too) {
  service cloud = {.state = "PREEMPTED"};
  ls_train_stop stop = {0};
  ls_hook *hook = NULL;
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_OWN(ls_tpu_resolver, resolver) = cloud_of(&cloud);
  expect_ok(ls_preemption_hook(
      &(ls_preemption_options){.resolver = resolver, .stop = &stop}, &hook));
  monitored_runs_open(&f, &hook, 1, NULL);
  for (int i = 0; i < 20000 && !ls_train_stop_requested(&stop); ++i)
    usleep(500);
  assert_true(ls_train_stop_requested(&stop));
  expect_status(monitored_runs_try_close(&f, ls_ok()), LS_UNAVAILABLE,
                "PREEMPTED");
}

// A session that never comes, as hosts do not answer; the system is gone with
// the third try.
typedef struct absent {
  service *cloud;
  ls_train_stop *stop;
  int tries;
} absent;

static ls_status no_hosts(void *user, ls_run_context *context) {
  absent *self = user;
  (void)context;
  if (++self->tries == 3) {
    const int asked = asked_so_far(self->cloud);
    say(self->cloud, "PREEMPTED");
    monitored_runs_pass(30);
    for (int i = 0; i < 20000 && !ls_train_stop_requested(self->stop); ++i)
      usleep(500);
    assert_true(asked_so_far(self->cloud) > asked);
  }
  return LS_STATUS(LS_UNAVAILABLE, "the hosts do not answer");
}

TEST(who_waits_for_a_session_of_a_lost_system_ends) {
  LS_SPEC("E193");
  service cloud = {.state = "READY"};
  ls_train_stop stop = {0};
  absent hosts = {&cloud, &stop, 0};
  ls_hook *hooks[2] = {NULL};
  ls_monitored_session *session = NULL;
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  LS_OWN(ls_tpu_resolver, resolver) = cloud_of(&cloud);
  expect_ok(ls_hook_create(
      &(ls_hook_options){.user = &hosts, .after_create_session = no_hosts},
      &hooks[0]));
  expect_ok(ls_preemption_hook(
      &(ls_preemption_options){.resolver = resolver, .stop = &stop},
      &hooks[1]));
  expect_status(
      ls_monitored_session_create(&(ls_monitored_options){.graph = f.graph,
                                                          .hooks = hooks,
                                                          .num_hooks = 2,
                                                          .other_stop = &stop},
                                  &session),
      LS_UNAVAILABLE, "do not answer");
  assert_int_equal(hosts.tries, 3);
  assert_true(monitored_runs_now() < 60);
  ls_hook_release(hooks[0]);
  ls_hook_release(hooks[1]);
}

TEST(only_a_system_that_is_looked_up_is_watched_so) {
  LS_SPEC("E193");
  static const char *const names[] = {"local", "virtual:2x2",
                                      "grpc://10.0.0.1"};
  LS_OWN_BEGUN(monitored_runs, f, monitored_runs_begin);
  for (int i = 0; i < 3; ++i) {
    LS_OWN(ls_tpu_resolver, resolver) = NULL;
    ls_hook *hook = NULL;
    expect_ok(ls_tpu_resolver_create(
        &(ls_tpu_resolver_options){.name = names[i]}, &resolver));
    expect_ok(ls_preemption_hook(&(ls_preemption_options){.resolver = resolver},
                                 &hook));
    assert_null(hook);
  }
}

// ---- Memory ----------------------------------------------------------------
MEMORY_TEST(train_beside_a_lame_host) {
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  LS_OWN(ls_hook, hook) = NULL;
  ls_status status = ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "virtual:2x1,hosts=2"}, &resolver);
  if (ls_status_is_ok(status))
    status = ls_graceful_shutdown_hook(
        &(ls_graceful_shutdown_options){
            .resolver = resolver, .mode = LS_SHUTDOWN_WORKER, .folder = "x"},
        &hook);
  ls_hook_release(hook);
  hook = NULL;
  LS_OWN(ls_tpu_resolver, cloud) = NULL;
  service lookup = {.state = "READY"};
  if (ls_status_is_ok(status))
    status = ls_tpu_resolver_create(
        &(ls_tpu_resolver_options){
            .name = "my-tpu", .lookup = look_up, .user = &lookup},
        &cloud);
  if (ls_status_is_ok(status))
    status = ls_preemption_hook(
        &(ls_preemption_options){.resolver = cloud, .folder = "x"}, &hook);
  return status;
}
