// SPDX-License-Identifier: Apache-2.0
//
// Hosts that go when nobody asks how they are, and who asks.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lockstep/shutdown_hooks.h"
#include "support/counted.h"
#include "support/fault.h"
#include "support/monitored_runs.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"

static const int64_t second = 1000000000;

typedef struct hosts {
  monitored_runs runs;  // For its clock.
  ls_tpu_resolver *resolver;
  ls_pod *pod;
} hosts;

static void begin(hosts *f) {
  *f = (hosts){.resolver = NULL};
  unsetenv("TF_TPU_WATCHDOG_TIMEOUT");
  unsetenv("LS_TPU_WATCHDOG_TIMEOUT");
  monitored_runs_begin(&f->runs);
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "virtual:2x1,hosts=2"}, &f->resolver));
  expect_ok(ls_tpu_initialize(f->resolver, NULL));
  expect_ok(ls_tpu_pod(f->resolver, &f->pod));
  // Times of the clock are above 0.
  monitored_runs_pass(1000);
}

static void end(hosts *f) {
  ls_pod_release(f->pod);
  ls_tpu_resolver_release(f->resolver);
  monitored_runs_end(&f->runs);
}
LS_OWNED_STRUCT(hosts, end)

static ls_code health_of(hosts *f, int32_t host) {
  ls_pod_health health;
  LS_OWN(ls_status, status) = ls_pod_ask_health(f->pod, host, second, &health);
  return ls_status_code(status);
}

// When a host was asked last, in seconds.
static double last_asked(hosts *f, int32_t host) {
  ls_mutex_lock(&f->pod->lock);
  const int64_t at = f->pod->asked != NULL ? f->pod->asked[host] : 0;
  ls_mutex_unlock(&f->pod->lock);
  return (double)at / 1e9;
}

static double seconds_now(void) {
  return (double)ls_runtime_now(ls_runtime_current()) / 1e9;
}

static double watched(const hosts *f) {
  return (double)__atomic_load_n(&f->pod->watched, __ATOMIC_RELAXED) / 1e9;
}

// Until all hosts were asked at the time it is now, at most some seconds.
static void wait_for_pings(hosts *f) {
  for (int i = 0; i < 20000; ++i) {
    if (last_asked(f, 0) == seconds_now() && last_asked(f, 1) == seconds_now())
      return;
    usleep(500);
  }
  assert_true(last_asked(f, 0) == seconds_now());
  assert_true(last_asked(f, 1) == seconds_now());
}

// Starts it, and waits until hosts were asked for the first time.
static void start(hosts *f, int64_t timeout) {
  expect_ok(ls_pod_inject(
      f->pod, &(ls_pod_fault){.kind = LS_POD_NO_HEARTBEAT, .host = 1}));
  (void)monitored_runs_log();
  expect_ok(ls_watchdog_start(f->resolver, timeout));
  for (int i = 0; i < 20000; ++i) {
    if (strstr(monitored_runs_log(), "the watchdog continues") != NULL) break;
    usleep(500);
  }
  ls_pod_heal(f->pod);
}

// ---- Hosts -----------------------------------------------------------------
TEST(a_host_that_nobody_asks_goes) {
  LS_OWN_BEGUN(hosts, f, begin);
  expect_ok(ls_pod_watch(f.pod, 10 * second));
  monitored_runs_pass(10);
  assert_int_equal(health_of(&f, 0), LS_OK);
  monitored_runs_pass(0.5);
  assert_int_equal(health_of(&f, 0), LS_OK);
  (void)monitored_runs_log();
  assert_int_equal(health_of(&f, 1), LS_UNAVAILABLE);
  expect_contains(monitored_runs_log(),
                  "host 1 of TPU system 'virtual:2x1,hosts=2' shuts down: its "
                  "health was not queried for 10.5 s");
  monitored_runs_pass(5);
  assert_int_equal(health_of(&f, 0), LS_OK);
  assert_int_equal(health_of(&f, 1), LS_UNAVAILABLE);
  // The system begins anew: all are there, and are watched.
  expect_ok(ls_tpu_initialize(f.resolver, NULL));
  assert_int_equal(health_of(&f, 1), LS_OK);
  monitored_runs_pass(11);
  assert_int_equal(health_of(&f, 1), LS_UNAVAILABLE);
  expect_ok(ls_tpu_initialize(f.resolver, NULL));
  expect_ok(ls_pod_watch(f.pod, 0));
  monitored_runs_pass(1000);
  assert_int_equal(health_of(&f, 1), LS_OK);
  expect_status(ls_pod_watch(f.pod, -1), LS_INVALID_ARGUMENT,
                "a time of -1 ns");
  expect_status(ls_pod_watch(NULL, 1), LS_INVALID_ARGUMENT, "pod is NULL");
}

// ---- The watchdog ----------------------------------------------------------
TEST(hosts_are_asked_each_tenth_of_the_time) {
  LS_SPEC("E192");
  static const struct {
    int64_t timeout;
    double each;
  } rows[] = {{60, 6}, {600, 60}, {3600, 60}, {5, 0.5}};
  for (int i = 0; i < 4; ++i) {
    LS_OWN_BEGUN(hosts, f, begin);
    start(&f, rows[i].timeout);  // At once,
    for (int round = 0; round < 3; ++round) {
      monitored_runs_pass(rows[i].each - 0.25);
      usleep(10000);
      assert_true(last_asked(&f, 0) < seconds_now());
      monitored_runs_pass(0.25);
      wait_for_pings(&f);  // and then so often.
    }
    // For as long as it takes: nobody goes.
    for (double passed = 0; passed < 2 * (double)rows[i].timeout;
         passed += rows[i].each * (rows[i].timeout > 600 ? 10 : 1)) {
      monitored_runs_pass(rows[i].each * (rows[i].timeout > 600 ? 10 : 1));
      wait_for_pings(&f);
    }
    assert_int_equal(health_of(&f, 0), LS_OK);
    assert_int_equal(health_of(&f, 1), LS_OK);
    ls_watchdog_stop();
  }
}

TEST(hosts_that_do_not_answer_are_borne) {
  LS_SPEC("E192");
  LS_OWN_BEGUN(hosts, f, begin);
  expect_ok(ls_pod_inject(
      f.pod, &(ls_pod_fault){.kind = LS_POD_NO_HEARTBEAT, .host = 0}));
  expect_ok(ls_watchdog_start(f.resolver, 100));
  const double before = last_asked(&f, 0);
  for (int i = 0; i < 3; ++i) {
    monitored_runs_pass(10);
    for (int k = 0; k < 20000 && last_asked(&f, 1) < seconds_now(); ++k)
      usleep(500);
    assert_true(last_asked(&f, 1) == seconds_now());
    assert_true(last_asked(&f, 0) == before);
  }
  ls_pod_heal(f.pod);
  monitored_runs_pass(10);
  wait_for_pings(&f);
  ls_watchdog_stop();
}

TEST(a_stop_disarms_it) {
  LS_SPEC("E192");
  hosts f;
  begin(&f);
  start(&f, 60);
  assert_true(watched(&f) == 60);
  ls_watchdog_stop();
  ls_watchdog_stop();
  assert_true(watched(&f) == 0);
  const double before = last_asked(&f, 0);
  monitored_runs_pass(1000);
  usleep(10000);
  assert_true(last_asked(&f, 0) == before);
  assert_int_equal(health_of(&f, 0), LS_OK);
  expect_ok(ls_watchdog_start(f.resolver, 30));
  assert_true(watched(&f) == 30);
  end(&f);  // It ends with its runtime.
}

TEST(a_system_has_one_watchdog) {
  LS_SPEC("E192");
  LS_OWN_BEGUN(hosts, f, begin);
  expect_ok(ls_watchdog_start(f.resolver, 60));
  expect_ok(ls_watchdog_start(f.resolver, 30));
  assert_true(watched(&f) == 60);
  // Another runtime has its own.
  ls_runtime *other = NULL, *before = NULL;
  ls_tpu_resolver *resolver = NULL;
  ls_pod *pod = NULL;
  expect_ok(ls_runtime_create(NULL, &other));
  before = ls_runtime_make_current(other);
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "virtual:2x1"}, &resolver));
  expect_ok(ls_tpu_pod(resolver, &pod));
  expect_ok(ls_watchdog_start(resolver, 20));
  assert_true(pod->watched == 20 * second);
  ls_watchdog_stop();
  assert_true(pod->watched == 0);
  assert_true(watched(&f) == 60);
  ls_pod_release(pod);
  ls_tpu_resolver_release(resolver);
  ls_runtime_make_current(before);
  expect_ok(ls_runtime_destroy(other));
  // One of a system that was shut down is none any more.
  expect_ok(ls_tpu_shutdown(f.resolver));
  expect_ok(ls_tpu_initialize(f.resolver, NULL));
  expect_ok(ls_watchdog_start(f.resolver, 30));
  ls_pod_release(f.pod);
  expect_ok(ls_tpu_pod(f.resolver, &f.pod));
  assert_true(watched(&f) == 30);
}

// Expects that the hosts of all of them are asked: one that does not answer is
// told of.
static void expect_asked(ls_tpu_resolver *const *resolvers,
                         const char *const *names, int count) {
  for (int k = 0; k < count; ++k) {
    char says[120];
    LS_OWN(ls_pod, pod) = NULL;
    expect_ok(ls_tpu_pod(resolvers[k], &pod));
    expect_ok(ls_pod_inject(pod, &(ls_pod_fault){.kind = LS_POD_NO_HEARTBEAT}));
    (void)monitored_runs_log();
    monitored_runs_pass(7);
    snprintf(says, sizeof(says), "of TPU system '%s'", names[k]);
    bool is_told = false;
    for (int i = 0; i < 20000 && !is_told; ++i) {
      is_told = strstr(monitored_runs_log(), says) != NULL;
      usleep(500);
    }
    assert_true(is_told);
    ls_pod_heal(pod);
  }
}

TEST(each_system_is_watched) {
  LS_SPEC("E192");
  static const char *const names[] = {"virtual:2x1,hosts=2", "virtual:2x1",
                                      "virtual:1x1"};
  static const char *const jobs[] = {"worker", "red", "blue"};
  ls_tpu_resolver *resolvers[3];
  LS_OWN_BEGUN(hosts, f, begin);
  setenv("TF_TPU_WATCHDOG_TIMEOUT", "60", 1);
  for (int k = 0; k < 3; ++k) {
    char says[120];
    expect_ok(ls_tpu_resolver_create(
        &(ls_tpu_resolver_options){.name = names[k], .job = jobs[k]},
        &resolvers[k]));
    if (k > 0) expect_ok(ls_tpu_initialize(resolvers[k], NULL));
    (void)monitored_runs_log();
    for (int again = 0; again < 2; ++again)
      expect_ok(ls_watchdog_start_by_environment(resolvers[k]));
    snprintf(says, sizeof(says),
             "watchdog of 60 seconds: queries the health of the hosts of TPU "
             "system '%s' of job %s",
             names[k], jobs[k]);
    expect_contains(monitored_runs_log(), says);
  }
  expect_asked(resolvers, names, 3);
  // One that is shut down takes none of the others along.
  expect_ok(ls_tpu_shutdown(resolvers[1]));
  expect_ok(ls_tpu_initialize(resolvers[1], NULL));
  expect_ok(ls_watchdog_start_by_environment(resolvers[1]));
  expect_asked(resolvers, names, 3);
  ls_watchdog_stop();
  monitored_runs_pass(1000);
  for (int k = 0; k < 3; ++k) {
    ls_pod *pod = NULL;
    ls_pod_health health;
    expect_ok(ls_tpu_pod(resolvers[k], &pod));
    expect_ok(ls_pod_ask_health(pod, 0, second, &health));
    ls_pod_release(pod);
    ls_tpu_resolver_release(resolvers[k]);
  }
  unsetenv("TF_TPU_WATCHDOG_TIMEOUT");
}

// A sink of lines that takes its time, and uses the library.
typedef struct slow_sink {
  ls_runtime *runtime;
  bool entered, starting;  // Atomic.
} slow_sink;

static void take_time(void *user, const ls_log_line *line) {
  slow_sink *self = user;
  if (strstr(line->text, "the watchdog continues") == NULL ||
      __atomic_exchange_n(&self->entered, true, __ATOMIC_ACQ_REL))
    return;
  while (!__atomic_load_n(&self->starting, __ATOMIC_ACQUIRE))
    usleep(500);
  usleep(20000);
  assert_null(ls_pod_find(self->runtime, "none", "none"));
}

TEST(a_watchdog_that_is_replaced_may_still_be_asking) {
  slow_sink sink = {0};
  LS_OWN(counted, c) = counted_begin_with(
      (ls_runtime_options){.log = take_time, .log_user = &sink});
  LS_OWN(ls_pod, pod) = NULL;
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  sink.runtime = c.runtime;
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "virtual:2x1,hosts=2"}, &resolver));
  expect_ok(ls_tpu_initialize(resolver, NULL));
  expect_ok(ls_tpu_pod(resolver, &pod));
  expect_ok(ls_pod_inject(
      pod, &(ls_pod_fault){.kind = LS_POD_NO_HEARTBEAT, .host = 1}));
  expect_ok(ls_watchdog_start(resolver, 600));
  while (!__atomic_load_n(&sink.entered, __ATOMIC_ACQUIRE))
    usleep(500);
  expect_ok(ls_tpu_shutdown(resolver));
  expect_ok(ls_tpu_initialize(resolver, NULL));
  __atomic_store_n(&sink.starting, true, __ATOMIC_RELEASE);
  expect_ok(ls_watchdog_start(resolver, 30));
  ls_watchdog_stop();
}

// No lock of the runtime is held by who tells of it: another thread goes on.
static void *find_pod(void *runtime) {
  assert_null(ls_pod_find(runtime, "none", "none"));
  return NULL;
}

static void let_another_in(void *user, const ls_log_line *line) {
  const counted *c = user;
  pthread_t thread;
  if (strstr(line->text, "watchdog of 60 seconds") == NULL) return;
  assert_int_equal(pthread_create(&thread, NULL, find_pod, c->runtime), 0);
  pthread_join(thread, NULL);
}

TEST(that_it_begins_is_told_without_a_lock) {
  LS_OWN(counted, c) = {0};
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  c = counted_begin_with(
      (ls_runtime_options){.log = let_another_in, .log_user = &c});
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "virtual:2x1,hosts=2"}, &resolver));
  expect_ok(ls_tpu_initialize(resolver, NULL));
  expect_ok(ls_watchdog_start(resolver, 60));
  ls_watchdog_stop();
}

TEST(the_environment_starts_it) {
  static const struct {
    const char *value, *own;  // NULL: not set.
    const char *refused;      // NULL: fine.
    double timeout;           // 0: there is none.
  } rows[] = {
      {NULL, NULL, NULL, 0},
      {"0", NULL, NULL, 0},
      {"120", NULL, NULL, 120},
      {"120", "30", NULL, 30},
      {"120", "0", NULL, 0},
      {"-1", NULL, "TF_TPU_WATCHDOG_TIMEOUT is '-1'", 0},
      {"5m", NULL, "TF_TPU_WATCHDOG_TIMEOUT is '5m'", 0},
      {"5", "", "LS_TPU_WATCHDOG_TIMEOUT is ''", 0},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    LS_OWN_BEGUN(hosts, f, begin);
    if (rows[i].value != NULL)
      setenv("TF_TPU_WATCHDOG_TIMEOUT", rows[i].value, 1);
    if (rows[i].own != NULL) setenv("LS_TPU_WATCHDOG_TIMEOUT", rows[i].own, 1);
    expect_status(ls_watchdog_start_by_environment(f.resolver),
                  rows[i].refused != NULL ? LS_INVALID_ARGUMENT : LS_OK,
                  rows[i].refused != NULL ? rows[i].refused : "");
    assert_true(watched(&f) == rows[i].timeout);
  }
}

TEST(what_cannot_be_watched_is_refused) {
  LS_OWN_BEGUN(hosts, f, begin);
  LS_OWN(ls_tpu_resolver, far) = NULL;
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "grpc://10.0.0.1"}, &far));
  expect_status(ls_watchdog_start(far, 60), LS_UNIMPLEMENTED, "");
  expect_status(ls_watchdog_start(f.resolver, 0), LS_INVALID_ARGUMENT,
                "a watchdog of 0 seconds");
  expect_status(ls_watchdog_start(NULL, 60), LS_INVALID_ARGUMENT,
                "resolver is NULL");
}

// ---- Memory ----------------------------------------------------------------
MEMORY_TEST(watch_for_a_moment) {
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  ls_status status = ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "virtual:2x1,hosts=2"}, &resolver);
  if (ls_status_is_ok(status)) status = ls_watchdog_start(resolver, 60);
  ls_watchdog_stop();
  return status;
}
