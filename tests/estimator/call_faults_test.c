// SPDX-License-Identifier: Apache-2.0
//
// Random failures around evaluations, predictions and trainings with
// evaluations on cores: the call ends with the first cause, told once, or as if
// nothing had been; no thread and no memory stays behind; and the next call
// comes to the bytes of an undisturbed one.
//
// A few in each run of the tests, more with LS_TEST_FAULTS=300, from number
// LS_TEST_SEED on.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "lockstep/runtime_settings.h"
#include "support/counted.h"
#include "support/draw.h"
#include "support/expect.h"
#include "support/faulty_files.h"
#include "support/resumable.h"
#include "support/sanitizer.h"
#include "support/thread_count.h"
#include "support/witnessed.h"

enum {
  FEW = LS_SANITIZED ? 5 : 10,
  ROWS = WITNESSED_BATCHES * WITNESSED_BATCH
};
static const char end_file[] = "model.ckpt-45.safetensors";

// ---- What is drawn ---------------------------------------------------------
typedef enum call { EVALUATE, PREDICT, TRAIN_AND_EVALUATE, CALLS } call;
static const char *const call_names[] = {"evaluate", "predict",
                                         "train and evaluate"};
typedef enum cause {
  INPUT,
  TRACE,
  HOST,
  FILES,
  HOOK,
  PREEMPTED,
  LOST,
  ASKED_FIRST,
  ASKED_TRACE,
  ASKED_INPUT,
  ASKED_HOST,
  CAUSES
} cause;
static const char *const cause_names[] = {
    "input",       "trace",       "host",      "files",
    "hook",        "preempt",     "lost",      "asked first",
    "asked trace", "asked input", "asked host"};

// What a call comes to.
typedef struct outcome {
  double metrics[3];
  int num_rows;
  float rows[ROWS * ESTIMATOR_CLASSES];
  int64_t steps;
} outcome;

typedef struct trial {
  uint64_t seed, state;
  call call;
  cause cause;
  witnessed w;
  ls_train_stop stop;
  faulty_files files;
  char pod[60], folder[40], whole[40], checkpoint[60];
} trial;

static void set_fault(trial *t) {
  static const ls_code codes[] = {LS_DATA_LOSS, LS_UNAVAILABLE, LS_ABORTED,
                                  LS_CANCELLED, LS_INTERNAL};
  witnessed_fault *f = &t->w.fault;
  const bool trains = t->call == TRAIN_AND_EVALUATE;
  const int most = trains ? WITNESSED_STEPS : WITNESSED_BATCHES;
  const int step = 1 + (int)draw_below(&t->state, (uint64_t)most - 1);
  const int64_t example =
      1 + (int64_t)draw_below(&t->state, (uint64_t)step * WITNESSED_BATCH);
  if (t->cause == INPUT || t->cause == ASKED_INPUT) f->input_at = example;
  if (t->cause == HOST || t->cause == ASKED_HOST) f->host_at = step;
  if (t->cause == TRACE || t->cause == ASKED_TRACE) f->in_trace = true;
  if (t->cause == FILES)
    t->files =
        (faulty_files){.fails = true,
                       .call = (faulty_call)draw_below(&t->state, FAULTY_CALLS),
                       .at = 1 + (int)draw_below(&t->state, 12),
                       .count = (int)draw_below(&t->state, 3)};
  if (t->cause == HOOK) {
    f->moment =
        (witnessed_moment)(1 + draw_below(&t->state, WITNESSED_MOMENTS - 1));
    f->models = draw_below(&t->state, 2) == 1;
    f->code = codes[draw_below(&t->state, LS_COUNT_OF(codes))];
    f->at = (int)draw_below(&t->state, 4);
  }
  if (t->cause == PREEMPTED || t->cause == LOST) {
    const int host = (int)draw_below(&t->state, (uint64_t)t->w.hosts);
    snprintf(t->pod, sizeof(t->pod), "fault=%s@host%d%s:step%d",
             t->cause == LOST ? "lost" : "preempt", host,
             t->cause == LOST ? ".core0" : "", step);
    f->pod = t->pod;
  }
  if (t->cause >= ASKED_FIRST) f->asks = &t->stop;
  if (t->cause == ASKED_FIRST) ls_train_stop_request(&t->stop);
}

static trial trial_of(uint64_t seed) {
  static const int pods[][2] = {{1, 1}, {3, 1}, {8, 1}, {8, 2}};
  trial t = {.seed = seed, .state = seed ^ 0x5555};
  t.call = (call)draw_below(&t.state, CALLS);
  t.cause = (cause)draw_below(&t.state, CAUSES);
  // Those that make steps know one way to feed several hosts, others another.
  const int *pod =
      pods[draw_below(&t.state, t.call == TRAIN_AND_EVALUATE ? 3 : 4)];
  t.w = (witnessed){.folder = "called",
                    .log = "called.log",
                    .replicas = pod[0],
                    .hosts = pod[1],
                    .save_steps = 5 + (int64_t)draw_below(&t.state, 20)};
  return t;
}

// ---- Calls -----------------------------------------------------------------
static ls_status evaluate(trial *t, outcome *out) {
  static const char *const names[] = {"loss", "right", "global_step"};
  LS_OWN(ls_nest, metrics) = ls_none();
  LS_RETURN_IF_ERROR(witnessed_evaluate(&t->w, t->checkpoint, &metrics));
  for (int i = 0; i < 3; ++i)
    out->metrics[i] = estimator_metric(metrics, names[i]);
  return ls_ok();
}

static ls_status train_and_evaluate(trial *t, outcome *out) {
  ls_train_and_evaluation both;
  const ls_status status = witnessed_train_and_evaluate(&t->w, &both);
  out->steps = both.training.step;
  ls_train_and_evaluation_deinit(&both);
  return status;
}

static ls_status make_call(trial *t, outcome *out) {
  memset(out, 0, sizeof(*out));
  switch (t->call) {
  case EVALUATE:
    return evaluate(t, out);
  case PREDICT:
    return witnessed_predict(&t->w, t->checkpoint, out->rows, &out->num_rows);
  default:
    return train_and_evaluate(t, out);
  }
}

// That of an undisturbed call; a training's is the folder's.
static void expect_same(const trial *t, const outcome *it,
                        const outcome *whole) {
  if (t->call == EVALUATE) {
    assert_memory_equal(it->metrics, whole->metrics, sizeof(it->metrics));
  } else if (t->call == PREDICT) {
    assert_int_equal(it->num_rows, ROWS);
    assert_int_equal(whole->num_rows, ROWS);
    assert_memory_equal(it->rows, whole->rows, sizeof(it->rows));
  } else {
    expect_same_file(t->whole, t->w.folder, end_file);
    assert_int_equal(it->steps, WITNESSED_STEPS);
  }
}

// ---- What is told ----------------------------------------------------------

static void expect_told(ls_status status, ls_code code, const char *text) {
  assert_int_equal(ls_status_code(status), code);
  expect_contains(ls_status_message(status), text);
}

static bool recovers(const witnessed_fault *f) {
  return (f->code == LS_UNAVAILABLE || f->code == LS_ABORTED) &&
         f->moment >= WITNESSED_SESSION && f->moment <= WITNESSED_AFTER;
}

static void check(const trial *t, ls_status status) {
  const bool ok = ls_status_is_ok(status);
  const char *text = ls_status_message(status);
  assert_in_range(
      count_parts(text, "fails") + count_parts(text, "No space left"), 0, 1);
  if (ok && t->w.faults == 0) return;
  switch (t->cause) {
  case INPUT:  // What is made ahead may be of no step.
    if (!ok) expect_told(status, LS_DATA_LOSS, "an example of host 0 fails");
    break;
  case TRACE:
    expect_told(status, LS_DATA_LOSS, "the model fails");
    break;
  case HOST:
    expect_told(status, LS_DATA_LOSS, "the host fails");
    break;
  case FILES:
    if (t->files.call != FAULTY_SHORT && !ok)
      expect_contains(text, "No space left");
    else if (!ok)
      assert_int_equal(ls_status_code(status), LS_DATA_LOSS);
    break;
  case HOOK:
    if (recovers(&t->w.fault))
      assert_true(ok);
    else
      expect_told(status, t->w.fault.code, "the hook fails");
    break;
  default:
    assert_true(ok);
    break;
  }
}

// ---- One of them -----------------------------------------------------------
typedef struct whole {
  bool trained, called[CALLS];
  outcome of[CALLS];
} whole;
static whole wholes[9][3];

static whole *whole_of(trial *t) {
  whole *it = &wholes[t->w.replicas][t->w.hosts];
  snprintf(t->whole, sizeof(t->whole), "trained-%d-%d", t->w.replicas,
           t->w.hosts);
  snprintf(t->checkpoint, sizeof(t->checkpoint), "%s/model.ckpt-%d", t->whole,
           WITNESSED_STEPS);
  LS_OWN(counted, c) = counted_begin(2);
  if (!it->trained) {
    ls_training_end end;
    remove_folder(t->whole);
    witnessed w = {.folder = t->whole,
                   .log = "trained.log",
                   .replicas = t->w.replicas,
                   .hosts = t->w.hosts,
                   .save_steps = 1000};
    expect_ok(witnessed_train(&w, &end));
    it->trained = true;
  }
  if (!it->called[t->call] && t->call != TRAIN_AND_EVALUATE)
    expect_ok(make_call(t, &it->of[t->call]));
  it->called[t->call] = true;
  return it;
}

static void disturb(trial *t, const outcome *other, bool tells) {
  outcome out;
  set_fault(t);
  t->w.stop = &t->stop;
  if (tells)
    fprintf(stderr, "number %llu: %s, %s %s, %d cores on %d hosts: ",
            (unsigned long long)t->seed, call_names[t->call],
            cause_names[t->cause],
            t->files.fails ? faulty_call_names[t->files.call] : "",
            t->w.replicas, t->w.hosts);
  const ls_status status = make_call(t, &out);
  if (tells) fprintf(stderr, "%s\n", ls_status_message(status));
  check(t, status);
  if (ls_status_is_ok(status) && t->cause < ASKED_FIRST)
    expect_same(t, &out, other);
  ls_status_free(status);
  t->w.fault = (witnessed_fault){0};
  t->stop = (ls_train_stop){0};
  t->files = (faulty_files){0};
}

static void try_one(uint64_t seed, bool tells) {
  static const int threads[] = {1, 2, 8};
  trial t = trial_of(seed);
  outcome out;
  const int before = thread_count();
  const whole *other = whole_of(&t);
  remove_folder(t.w.folder);
  const ls_file_system system = faulty_files_system(&t.files);
  counted c = counted_begin_with((ls_runtime_options){
      .threads = threads[draw_below(&t.state, 3)], .file_system = &system});
  disturb(&t, &other->of[t.call], tells);
  assert_int_equal(ls_runtime_abandoned_calls(c.runtime), 0);
  expect_ok(make_call(&t, &out));
  expect_same(&t, &out, &other->of[t.call]);
  counted_end(&c);
  for (int i = 0; i < 1000 && thread_count() != before; ++i)
    usleep(1000);
  assert_int_equal(thread_count(), before);
}

TEST(what_fails_in_a_call_is_none_of_the_next_ones) {
  LS_SPEC("E172");
  const uint64_t first = number_from_environment("LS_TEST_SEED", 1);
  const uint64_t count = number_from_environment("LS_TEST_FAULTS", FEW);
  for (uint64_t i = 0; i < count; ++i)
    try_one(first + i, getenv("LS_TEST_FAULTS") != NULL);
}
