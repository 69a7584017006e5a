// SPDX-License-Identifier: Apache-2.0
//
// Random failures anywhere around trainings on cores: the call ends, with the
// first cause, told once, or, where a session recovers, as if nothing had been;
// no thread and no memory stays behind; and who goes on once all is well, also
// from a folder whose newest checkpoint was damaged meanwhile, comes to the
// bytes, and the examples of each step, of an undisturbed training.
//
// A few in each run of the tests, more with LS_TEST_FAULTS=300, from number
// LS_TEST_SEED on.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
  FEW = LS_SANITIZED ? 6 : 12
};  // Some wait for 5 seconds until the
    // main loop is ended.
static const char end_file[] = "model.ckpt-45.safetensors";

// ---- What is drawn ---------------------------------------------------------
typedef enum cause {
  INPUT,
  INPUTS,  // Of several hosts, all at the same example.
  TRACE,
  HOST,
  NUMBERS,
  GRADIENT,
  FILES,
  HOOK,
  PREEMPTED,
  LOST,
  BOTH,            // A host goes, and a core of another one.
  INPUT_AND_LOST,  // A core goes, and another host's input fails.
  ASKED_FIRST,
  ASKED_TRACE,
  ASKED_INPUT,
  ASKED_HOST,
  ASKED_SAVE,
  CAUSES
} cause;
static const char *const cause_names[] = {
    "input",      "inputs",      "trace",       "host",        "numbers",
    "gradient",   "files",       "hook",        "preempt",     "lost",
    "both",       "input, lost", "asked first", "asked trace", "asked input",
    "asked host", "asked save"};

typedef struct trial {
  uint64_t seed, state;
  cause cause;
  witnessed w;
  ls_train_stop stop;
  faulty_files files;
  int threads;
  bool begun;  // In a folder of a training that was asked to end.
  int damage;  // What becomes of the newest checkpoint behind it; 0: nothing.
  bool damaged;
  char pod[100], text[80];
} trial;

static const ls_code codes[] = {LS_DATA_LOSS, LS_UNAVAILABLE, LS_ABORTED,
                                LS_CANCELLED, LS_INTERNAL};

static void set_pod(trial *t, int64_t step) {
  witnessed_fault *f = &t->w.fault;
  const int host = (int)draw_below(&t->state, (uint64_t)t->w.hosts);
  const int other = (host + 1) % t->w.hosts;
  const bool lost = t->cause == LOST || t->cause == INPUT_AND_LOST;
  int used = snprintf(t->pod, sizeof(t->pod), "fault=%s@host%d%s:step%d",
                      lost ? "lost" : "preempt", host, lost ? ".core0" : "",
                      (int)step);
  if (t->cause == BOTH)
    snprintf(t->pod + used, sizeof(t->pod) - (size_t)used,
             ",fault=lost@host%d.core0:step%d", other,
             (int)step + (int)draw_below(&t->state, 3));
  if (t->cause == INPUT_AND_LOST) f->hosts = 1u << other;
  f->pod = t->pod;
}

static void set_files(trial *t) {
  faulty_files *f = &t->files;
  f->fails = true;
  f->call = (faulty_call)draw_below(&t->state, FAULTY_CALLS);
  f->at = 1 + (int)draw_below(&t->state, 12);
  f->count = (int)draw_below(&t->state, 3);
}

static void set_hook(trial *t) {
  witnessed_fault *f = &t->w.fault;
  f->moment =
      (witnessed_moment)(1 + draw_below(&t->state, WITNESSED_MOMENTS - 1));
  f->models = draw_below(&t->state, 2) == 1;
  f->code = codes[draw_below(&t->state, LS_COUNT_OF(codes))];
  f->at = (int)draw_below(&t->state, 6);
}

static void set_fault(trial *t) {
  witnessed_fault *f = &t->w.fault;
  const int64_t examples = WITNESSED_STEPS * WITNESSED_BATCH - 200;
  const int64_t example =
      1 + (int64_t)draw_below(&t->state, (uint64_t)(examples / t->w.hosts));
  const int64_t step = 1 + (int64_t)draw_below(&t->state, WITNESSED_STEPS - 1);
  f->hosts = 1u << draw_below(&t->state, (uint64_t)t->w.hosts);
  if (t->cause == INPUTS) f->hosts = (1u << t->w.hosts) - 1;
  if (t->cause == INPUT || t->cause == INPUTS || t->cause == INPUT_AND_LOST ||
      t->cause == ASKED_INPUT)
    f->input_at = example;
  if (t->cause == NUMBERS) f->nan_at = example;
  if (t->cause == GRADIENT) f->zeros_at = example;
  if (t->cause == HOST || t->cause == ASKED_HOST) f->host_at = step;
  if (t->cause == TRACE || t->cause == ASKED_TRACE) f->in_trace = true;
  if (t->cause == FILES) set_files(t);
  if (t->cause == HOOK) set_hook(t);
  if (t->cause >= PREEMPTED && t->cause <= INPUT_AND_LOST) set_pod(t, step);
  if (t->cause >= ASKED_FIRST && t->cause <= ASKED_HOST) f->asks = &t->stop;
  if (t->cause == ASKED_FIRST) ls_train_stop_request(&t->stop);
  if (t->cause == ASKED_SAVE)
    t->files =
        (faulty_files){.sync_micros = 1000 * (int)draw_below(&t->state, 30),
                       .asks = &t->stop,
                       .asks_at = 1 + (int)draw_below(&t->state, 10)};
}

static trial trial_of(uint64_t seed) {
  static const int threads[] = {1, 2, 8};
  static const int pods[][2] = {{1, 1}, {3, 1}, {3, 3}, {8, 1}, {8, 2}, {8, 4}};
  trial t = {.seed = seed, .state = seed};
  t.cause = (cause)draw_below(&t.state, CAUSES);
  const int *pod = pods[draw_below(&t.state, LS_COUNT_OF(pods))];
  t.w = (witnessed){.folder = "disturbed",
                    .log = "disturbed.log",
                    .replicas = pod[0],
                    .hosts = pod[1],
                    .save_steps = 1 + (int64_t)draw_below(&t.state, 20)};
  t.threads = threads[draw_below(&t.state, 3)];
  t.begun = draw_below(&t.state, 3) == 0;
  t.damage =
      (int)draw_below(&t.state, 3) == 0 ? 1 + (int)draw_below(&t.state, 8) : 0;
  return t;
}

// ---- What is told ----------------------------------------------------------

static void expect_told(ls_status status, ls_code code, const char *text) {
  assert_int_equal(ls_status_code(status), code);
  expect_contains(ls_status_message(status), text);
}

static void check_if_met(const trial *t, ls_status status, const char *text) {
  if (t->w.faults > 0)
    expect_told(status, LS_DATA_LOSS, text);
  else
    assert_int_equal(ls_status_code(status), LS_OK);
}

static void check_files(const trial *t, ls_status status) {
  if (ls_status_is_ok(status)) return;
  assert_true(t->files.failed > 0);
  if (t->files.call != FAULTY_SHORT)
    expect_contains(ls_status_message(status), "No space left");
  else
    assert_int_equal(ls_status_code(status), LS_DATA_LOSS);
}

static bool recovers(ls_code code) {
  return code == LS_UNAVAILABLE || code == LS_ABORTED;
}

static void check_hook(const trial *t, ls_status status) {
  const witnessed_fault *f = &t->w.fault;
  const bool again = recovers(f->code) && f->moment >= WITNESSED_SESSION &&
                     f->moment <= WITNESSED_AFTER;
  if (again || t->w.faults == 0)
    assert_int_equal(ls_status_code(status), LS_OK);
  else
    expect_told(status, f->code, "the hook fails");
}

static void check(const trial *t, ls_status status,
                  const ls_training_end *end) {
  const ls_code code = ls_status_code(status);
  const char *text = ls_status_message(status);
  assert_in_range(
      count_parts(text, "fails") + count_parts(text, "No space left"), 0, 1);
  if (code == LS_OK && t->cause < ASKED_FIRST)
    assert_int_equal(end->step, WITNESSED_STEPS);
  switch (t->cause) {
  case INPUT:
  case INPUTS:
    // What is made ahead may be of no step.
    if (code != LS_OK || t->w.faults == 0)
      check_if_met(t, status, "an example of");
    break;
  case TRACE:
    expect_told(status, LS_DATA_LOSS, "the model fails");
    break;
  case HOST:
    check_if_met(t, status, "the host fails");
    break;
  case NUMBERS:
    if (code != LS_FAILED_PRECONDITION && code != LS_OK)
      assert_int_equal(code, LS_INVALID_ARGUMENT);
    if (code != LS_OK) expect_contains(text, "NaN");
    break;
  case GRADIENT:
    if (code != LS_OK)
      expect_told(status, LS_INVALID_ARGUMENT, "Gradient for weights:0 is NaN");
    break;
  case FILES:
    check_files(t, status);
    break;
  case HOOK:
    check_hook(t, status);
    break;
  case INPUT_AND_LOST:
    if (code != LS_OK) expect_told(status, LS_DATA_LOSS, "an example of");
    break;
  default:
    assert_int_equal(code, LS_OK);
    if (t->cause < ASKED_FIRST) break;
    assert_int_equal(end->stopped, ls_train_stop_requested(&t->stop));
    if (t->cause <= ASKED_TRACE && !t->begun) assert_int_equal(end->step, 0);
    break;
  }
}

// ---- Damage ----------------------------------------------------------------
static void cut(const char *path, off_t size) {
  assert_int_equal(truncate(path, size), 0);
}

static void flip(const char *path, long at) {
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  fseek(file, at, SEEK_SET);
  const int byte = fgetc(file);
  fseek(file, at, SEEK_SET);
  fputc(byte ^ 4, file);
  fclose(file);
}

static void damage_file(trial *t, const char *path, int how) {
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  const off_t at = (off_t)draw_below(&t->state, (uint64_t)info.st_size);
  if (how == 0) cut(path, at);
  if (how == 1) flip(path, at);
  if (how == 2) unlink(path);
  if (how == 3) cut(path, 0);
}

// Of the newest checkpoint, where there is one before it.
static void damage(trial *t) {
  int newest = -1, count = 0;
  char path[100];
  for (int step = 0; step <= WITNESSED_STEPS; ++step) {
    snprintf(path, sizeof(path), "%s/model.ckpt-%d.json", t->w.folder, step);
    if (access(path, F_OK) != 0) continue;
    newest = step;
    ++count;
  }
  if (t->damage == 0 || count < 2) return;
  t->damaged = true;
  snprintf(path, sizeof(path), "%s/model.ckpt-%d.%s", t->w.folder, newest,
           t->damage > 4 ? "json" : "safetensors");
  damage_file(t, path, (t->damage - 1) % 4);
  if (getenv("LS_TEST_FAULTS") != NULL)
    fprintf(stderr, "  damage %d of %s\n", (t->damage - 1) % 4, path);
}

// ---- One of them -----------------------------------------------------------
typedef struct whole {
  char folder[40], log[48];
} whole;

// That of an undisturbed training, which is made by who is the first to ask.
static whole whole_of(const witnessed *like) {
  whole it;
  ls_training_end end;
  snprintf(it.folder, sizeof(it.folder), "whole-%d-%d", like->replicas,
           like->hosts);
  snprintf(it.log, sizeof(it.log), "%s.log", it.folder);
  static char made[9][5];
  if (made[like->replicas][like->hosts]++ > 0) {
    made[like->replicas][like->hosts] = 1;
    return it;
  }
  remove_folder(it.folder);
  unlink(it.log);
  LS_OWN(counted, c) = counted_begin(2);
  witnessed w = {.folder = it.folder,
                 .log = it.log,
                 .replicas = like->replicas,
                 .hosts = like->hosts,
                 .save_steps = 1000};
  expect_ok(witnessed_train(&w, &end));
  return it;
}

static void begin_folder(trial *t) {
  ls_train_stop stop = {0};
  ls_training_end end;
  remove_folder(t->w.folder);
  fclose(fopen(t->w.log, "w"));
  if (!t->begun) return;
  const witnessed_fault fault = {
      .host_at = 1 + (int64_t)draw_below(&t->state, WITNESSED_STEPS / 2),
      .asks = &stop};
  t->w.fault = fault;
  t->w.stop = &stop;
  expect_ok(witnessed_train(&t->w, &end));
  assert_true(end.stopped);
  t->w.fault = (witnessed_fault){0};
}

static void disturb(trial *t, const ls_runtime *runtime, bool tells) {
  ls_training_end end;
  set_fault(t);
  t->w.stop = &t->stop;
  if (tells)
    fprintf(
        stderr, "number %llu: %s %s, %d cores on %d hosts, saves each %d%s: ",
        (unsigned long long)t->seed, cause_names[t->cause],
        t->files.fails ? faulty_call_names[t->files.call] : "", t->w.replicas,
        t->w.hosts, (int)t->w.save_steps, t->begun ? ", begun" : "");
  const ls_status status = witnessed_train(&t->w, &end);
  if (tells)
    fprintf(stderr, "step %lld %s\n", (long long)end.step,
            ls_status_message(status));
  check(t, status, &end);
  ls_status_free(status);
  assert_int_equal(ls_runtime_abandoned_calls((ls_runtime *)runtime), 0);
  t->w.fault = (witnessed_fault){0};
  t->stop = (ls_train_stop){0};
  t->files = (faulty_files){0};
}

static void try_one(uint64_t seed, bool tells) {
  int counts[WITNESSED_STEPS];
  ls_training_end end;
  trial t = trial_of(seed);
  const int before = thread_count();
  const whole other = whole_of(&t.w);
  const ls_file_system system = faulty_files_system(&t.files);
  counted c = counted_begin_with(
      (ls_runtime_options){.threads = t.threads, .file_system = &system});
  begin_folder(&t);
  disturb(&t, c.runtime, tells);
  damage(&t);
  expect_ok(witnessed_train(&t.w, &end));
  assert_int_equal(end.step, WITNESSED_STEPS);
  counted_end(&c);
  for (int i = 0; i < 1000 && thread_count() != before; ++i)
    usleep(1000);
  assert_int_equal(thread_count(), before);
  expect_same_file(other.folder, t.w.folder, end_file);
  witnessed_expect_steps(t.w.log, other.log, counts);
  for (int i = 0; i < WITNESSED_STEPS; ++i)
    if (t.cause >= ASKED_FIRST && !t.damaged) assert_int_equal(counts[i], 1);
}

TEST(what_fails_is_told_and_leaves_nothing_behind) {
  LS_SPEC("E215");
  const uint64_t first = number_from_environment("LS_TEST_SEED", 1);
  const uint64_t count = number_from_environment("LS_TEST_FAULTS", FEW);
  for (uint64_t i = 0; i < count; ++i)
    try_one(first + i, getenv("LS_TEST_FAULTS") != NULL);
}
