// SPDX-License-Identifier: Apache-2.0
//
// Random failures beside random loops of steps on cores: the call ends, with
// the first cause or, where a session recovers, as if nothing had been; no
// thread and no memory stays behind; and once all is well the next call comes
// to what an undisturbed one comes to.
//
// A few in each run of the tests, more with LS_TEST_FAULTS=1000, from number
// LS_TEST_SEED on.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lockstep/runtime_settings.h"
#include "support/device_runs.h"
#include "support/draw.h"
#include "support/thread_count.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"

enum { FEW = 60, WIDE = 2, MOST_STEPS = 30, MOST_RUNS = 1000 };

// ---- What is drawn ---------------------------------------------------------
typedef enum cause { NOTHING, SOURCE, SINK, POD, CLOSED, CAUSES } cause;

typedef struct plan {
  device_runs_options options;
  int64_t iterations, last;
  cause cause;
  device_end end;  // Of the source, or the sink.
  ls_pod_fault fault;
  int micros;  // Until the session is closed.
} plan;

static plan plan_of(uint64_t seed) {
  static const ls_code codes[] = {LS_DATA_LOSS, LS_UNAVAILABLE, LS_ABORTED,
                                  LS_OUT_OF_RANGE, LS_CANCELLED};
  static const ls_pod_fault_kind kinds[] = {
      LS_POD_HOST_PREEMPTED, LS_POD_CORE_LOST,     LS_POD_CORE_SLOW,
      LS_POD_COMPILE_FAILS,  LS_POD_TUPLE_LATE,    LS_POD_TUPLE_CHANGED,
      LS_POD_INFEED_CLOSED,  LS_POD_OUTFEED_FAILS, LS_POD_TUPLE_LOST};
  uint64_t state = seed;
  plan p = {.cause = (cause)draw_below(&state, CAUSES)};
  p.options =
      (device_runs_options){.hosts = 1 + (int)draw_below(&state, WIDE),
                            .cores = 1 + (int)draw_below(&state, WIDE),
                            .loops = draw_below(&state, 2) == 1,
                            .silent = draw_below(&state, 4) == 1,
                            .real_clock = p.cause == CLOSED,
                            .asks_compiler = draw_below(&state, 4) == 1};
  p.iterations = 1 + (int64_t)draw_below(&state, 5);
  p.last = 1 + (int64_t)draw_below(&state, MOST_STEPS);
  p.end = (device_end){
      .at = (int64_t)draw_below(&state, MOST_STEPS),
      .code = (int32_t)codes[draw_below(&state, LS_COUNT_OF(codes))],
      .once = true};
  p.fault = (ls_pod_fault){
      .kind = kinds[draw_below(&state, LS_COUNT_OF(kinds))],
      .host = (int32_t)draw_below(&state, (uint64_t)p.options.hosts),
      .core = (int32_t)draw_below(&state, (uint64_t)p.options.cores),
      .at_step = (int64_t)draw_below(&state, MOST_STEPS),
      .nanos = 1000000,
      .text = "as planned"};
  // Then nothing moves any more.
  if (p.cause == POD && p.fault.kind == LS_POD_TUPLE_LOST) {
    p.options.real_clock = true;
    p.options.stall_ms = 200;
  }
  p.micros = (int)draw_below(&state, 5000);
  return p;
}

// ---- One of them -----------------------------------------------------------
typedef struct closer {
  ls_session *session;
  int micros;
  pthread_t thread;
} closer;

static void *close_later(void *user) {
  const closer *c = user;
  usleep((useconds_t)c->micros);
  ls_session_request_close(c->session);
  return NULL;
}

static ls_hook *stop_hook(const plan *p) {
  ls_hook *hook = NULL;
  expect_ok(ls_tpu_stop_hook((ls_loop_length){.steps = p->iterations},
                             (ls_opt){0}, LS_SOME(p->last), &hook));
  return hook;
}

static void open(device_runs *d, const plan *p) {
  ls_hook *stop = stop_hook(p);
  device_runs_open(d, &stop, 1);
}

static void plan_fault(device_runs *d, const plan *p) {
  if (p->cause == SOURCE || p->cause == SINK) {
    device_end *end = p->cause == SOURCE ? &d->source : &d->sink;
    end->at = p->end.at;
    end->code = p->end.code;
    end->once = true;
  }
  LS_OWN(ls_pod, pod) = device_runs_pod(d);
  if (p->cause == POD) expect_ok(ls_pod_inject(pod, &p->fault));
}

static ls_status run(device_runs *d) {
  ls_status status = ls_ok();
  int runs = 0;
  while (ls_status_is_ok(status) &&
         !ls_monitored_session_should_stop(d->session)) {
    assert_true(++runs < MOST_RUNS);
    status = device_runs_try(d);
  }
  return status;
}

// What the call says.
static ls_status disturbed(device_runs *d, const plan *p, int64_t *out_step) {
  plan_fault(d, p);
  open(d, p);
  closer c = {.session = ls_monitored_session_now(d->session),
              .micros = p->micros};
  const bool closes = p->cause == CLOSED;
  if (closes)
    assert_int_equal(pthread_create(&c.thread, NULL, close_later, &c), 0);
  const ls_status status = run(d);
  if (closes) assert_int_equal(pthread_join(c.thread, NULL), 0);
  *out_step = device_runs_step(d);
  const ls_status closed = device_runs_close(d, status);
  return ls_status_join(ls_rendezvous_status(d->rendezvous, 0), closed);
}

static void check(const plan *p, const device_runs *d, int64_t step,
                  ls_status status) {
  const ls_code code = ls_status_code(status);
  const bool ended = p->cause == SOURCE && p->end.code == LS_OUT_OF_RANGE &&
                     p->end.at < p->last;
  if (p->cause == NOTHING || ended) assert_int_equal(code, LS_OK);
  if (ended) assert_int_equal(step, p->end.at);
  if (ended) assert_true(d->input_ended);
  if (code == LS_OK && !ended &&
      ls_device_hook_compile_error(d->hook) == NULL &&
      !(p->cause == POD && (p->fault.kind == LS_POD_COMPILE_FAILS ||
                            p->fault.kind == LS_POD_INFEED_CLOSED)))
    assert_int_equal(step, p->last);
  const bool fails =
      (p->cause == SOURCE || (p->cause == SINK && !p->options.silent)) &&
      p->end.code == LS_DATA_LOSS && p->end.at < p->last;
  if (fails) assert_int_equal(code, LS_DATA_LOSS);
  ls_status_free(status);
}

static void undisturbed(device_runs *d, const plan *p) {
  ls_pod *pod = device_runs_pod(d);
  if (pod != NULL) ls_pod_heal(pod);
  ls_pod_release(pod);
  ls_rendezvous_destroy(d->rendezvous);
  d->rendezvous = NULL;
  d->source.count = d->sink.count = d->sink.wrong = 0;
  d->source.at = d->sink.at = -1;
  d->input_ended = false;
  device_runs_renew(d);
  open(d, p);
  expect_ok(run(d));
  assert_int_equal(device_runs_step(d), p->last);
  assert_true(device_runs_total(d) == (double)(p->last * (p->last + 1) / 2));
  expect_ok(device_runs_close(d, ls_ok()));
  assert_int_equal(d->source.count, p->last);
  assert_int_equal(d->sink.count, p->options.silent ? 0 : p->last);
  assert_int_equal(d->sink.wrong, 0);
  expect_ok(ls_rendezvous_status(d->rendezvous, 0));
}

static void expect_threads(int count) {
  for (int i = 0; i < 1000 && thread_count() != count; ++i)
    usleep(1000);
  assert_int_equal(thread_count(), count);
}

static void try_one(uint64_t seed) {
  const plan p = plan_of(seed);
  const int before = thread_count();
  device_runs d;
  int64_t step = 0;
  device_runs_begin(&d, &p.options);
  const ls_status status = disturbed(&d, &p, &step);
  check(&p, &d, step, status);
  assert_int_equal(ls_runtime_abandoned_calls(d.world.runtime), 0);
  undisturbed(&d, &p);
  device_runs_end(&d);
  expect_threads(before);
}

TEST(what_fails_leaves_nothing_behind) {
  LS_SPEC("E86 E88");
  const uint64_t first = number_from_environment("LS_TEST_SEED", 1);
  const uint64_t count = number_from_environment("LS_TEST_FAULTS", FEW);
  const bool tells = getenv("LS_TEST_FAULTS") != NULL;
  for (uint64_t i = 0; i < count; ++i) {
    if (tells)
      fprintf(stderr, "number %llu\n", (unsigned long long)(first + i));
    try_one(first + i);
  }
}
