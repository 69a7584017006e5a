// SPDX-License-Identifier: Apache-2.0
//
// Random failures anywhere around trainings on cores: the call ends, with the
// first cause or, where a session recovers, as if nothing had been; no thread
// and no memory stays behind; and who goes on once all is well comes to the
// bytes, and the examples of each step, of an undisturbed training.
//
// A few in each run of the tests, more with LS_TEST_FAULTS=300, from number
// LS_TEST_SEED on.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/runtime_internal.h"
#include "support/counted.h"
#include "support/resumable.h"
#include "support/sanitizer.h"
#include "support/thread_count.h"
#include "support/witnessed.h"

enum { FEW = 8 };  // Some wait for 5 seconds until the main loop is ended.
static const char end_file[] = "model.ckpt-45.safetensors";

// ---- What is drawn ---------------------------------------------------------
typedef enum cause {
  INPUT,
  TRACE,
  HOST,
  NUMBERS,
  DISK,
  PREEMPTED,
  LOST,
  ASKED_FIRST,
  ASKED_TRACE,
  ASKED_INPUT,
  ASKED_HOST,
  CAUSES
} cause;
static const char *const cause_names[] = {
    "input",       "trace",       "host",      "numbers",
    "disk",        "preempt",     "lost",      "asked first",
    "asked trace", "asked input", "asked host"};

static uint64_t draw(uint64_t *state, uint64_t below) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (z ^ (z >> 31)) % below;
}

// ---- A disk that is full ---------------------------------------------------
static ls_file_system real;
static int writes_left;  // Below 0: any number.

static bool is_full(void) {
  const int left = __atomic_load_n(&writes_left, __ATOMIC_RELAXED);
  if (left > 0) __atomic_sub_fetch(&writes_left, 1, __ATOMIC_RELAXED);
  return left == 0;
}
static ls_status full(const char *path) {
  return LS_STATUS(LS_UNAVAILABLE, "cannot write '%s': No space left", path);
}
static ls_status full_write(void *user, const char *path, const void *data,
                            size_t size) {
  return is_full() ? full(path) : real.write(user, path, data, size);
}
static ls_status full_append(void *user, const char *path, const void *data,
                             size_t size) {
  return is_full() ? full(path) : real.append(user, path, data, size);
}

static ls_file_system files(void) {
  real = *ls_file_system_system();
  ls_file_system made = real;
  made.write = full_write;
  made.append = full_append;
  return made;
}

// ---- One of them -----------------------------------------------------------
typedef struct trial {
  cause cause;
  witnessed w;
  ls_train_stop stop;
  char pod[60], text[80];
} trial;

static void set_fault(trial *t, uint64_t *state) {
  witnessed_fault *f = &t->w.fault;
  const int64_t examples = WITNESSED_STEPS * WITNESSED_BATCH;
  const int64_t example = 1 + (int64_t)draw(state, (uint64_t)examples - 200);
  const int64_t step = 1 + (int64_t)draw(state, WITNESSED_STEPS - 1);
  writes_left = t->cause == DISK ? (int)draw(state, 12) : -1;
  if (t->cause == INPUT || t->cause == ASKED_INPUT) f->input_at = example;
  if (t->cause == NUMBERS) f->nan_at = example;
  if (t->cause == HOST || t->cause == ASKED_HOST) f->host_at = step;
  if (t->cause == TRACE || t->cause == ASKED_TRACE) f->in_trace = true;
  if (t->cause >= ASKED_FIRST) f->asks = &t->stop;
  if (t->cause == ASKED_FIRST) ls_train_stop_request(&t->stop);
  if (t->cause == PREEMPTED || t->cause == LOST) {
    snprintf(t->pod, sizeof(t->pod), "fault=%s@host%d%s:step%d",
             t->cause == LOST ? "lost" : "preempt", 0,
             t->cause == LOST ? ".core0" : "", (int)step);
    f->pod = t->pod;
  }
}

static void check(const trial *t, ls_status status,
                  const ls_training_end *end) {
  const ls_code code = ls_status_code(status);
  const char *text = ls_status_message(status);
  switch (t->cause) {
  case INPUT:
    assert_int_equal(code, LS_DATA_LOSS);
    expect_contains(text, "an example fails");
    break;
  case TRACE:
    assert_int_equal(code, LS_DATA_LOSS);
    expect_contains(text, "the model fails");
    break;
  case HOST:
    assert_int_equal(code, LS_DATA_LOSS);
    expect_contains(text, "the host fails");
    break;
  case NUMBERS:
    assert_true(code == LS_INVALID_ARGUMENT || code == LS_FAILED_PRECONDITION);
    expect_contains(text, "NaN");
    break;
  case DISK:
    if (code != LS_OK) expect_contains(text, "No space left");
    break;
  case PREEMPTED:
  case LOST:
    assert_int_equal(code, LS_OK);
    assert_int_equal(end->step, WITNESSED_STEPS);
    break;
  default:
    assert_int_equal(code, LS_OK);
    assert_true(end->stopped);
    if (t->cause <= ASKED_TRACE) assert_int_equal(end->step, 0);
    break;
  }
}

static void try_one(uint64_t seed, bool tells) {
  static const int threads[] = {1, 2, 8}, replicas[] = {1, 3, 8};
  uint64_t state = seed;
  char whole[40], whole_log[48];
  int counts[WITNESSED_STEPS];
  trial t = {.cause = (cause)draw(&state, CAUSES)};
  t.w = (witnessed){.folder = "disturbed",
                    .log = "disturbed.log",
                    .replicas = replicas[draw(&state, 3)],
                    .save_steps = 1 + (int64_t)draw(&state, 20),
                    .stop = &t.stop};
  snprintf(whole, sizeof(whole), "whole-%d", t.w.replicas);
  snprintf(whole_log, sizeof(whole_log), "%s.log", whole);
  set_fault(&t, &state);
  remove_folder(t.w.folder);
  fclose(fopen(t.w.log, "w"));
  const int before = thread_count();
  const ls_file_system system = files();
  counted c = counted_begin_with((ls_runtime_options){
      .threads = threads[draw(&state, 3)], .file_system = &system});
  ls_training_end end;
  if (tells)
    fprintf(stderr, "number %llu: %s, %d cores, saves each %d: ",
            (unsigned long long)seed, cause_names[t.cause], t.w.replicas,
            (int)t.w.save_steps);
  const ls_status status = witnessed_train(&t.w, &end);
  if (tells)
    fprintf(stderr, "step %lld %s\n", (long long)end.step,
            ls_status_message(status));
  check(&t, status, &end);
  ls_status_free(status);
  assert_int_equal(ls_runtime_abandoned_calls(c.runtime), 0);
  t.w.fault = (witnessed_fault){0};
  t.stop = (ls_train_stop){0};
  writes_left = -1;
  expect_ok(witnessed_train(&t.w, &end));
  counted_end(&c);
  for (int i = 0; i < 1000 && thread_count() != before; ++i)
    usleep(1000);
  assert_int_equal(thread_count(), before);
  expect_same_file(whole, t.w.folder, end_file);
  witnessed_expect_steps(t.w.log, whole_log, counts);
  if (t.cause >= ASKED_FIRST)
    for (int i = 0; i < WITNESSED_STEPS; ++i)
      assert_int_equal(counts[i], 1);
}

static void make_whole(int replicas) {
  char folder[40], log[48];
  ls_training_end end;
  snprintf(folder, sizeof(folder), "whole-%d", replicas);
  snprintf(log, sizeof(log), "%s.log", folder);
  remove_folder(folder);
  unlink(log);
  counted c = counted_begin(2);
  witnessed w = {
      .folder = folder, .log = log, .replicas = replicas, .save_steps = 1000};
  expect_ok(witnessed_train(&w, &end));
  counted_end(&c);
}

static uint64_t number_of(const char *name, uint64_t otherwise) {
  const char *text = getenv(name);
  return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void what_fails_is_told_and_leaves_nothing_behind(void **state) {
  (void)state;
  LS_SPEC("E215");
  const uint64_t first = number_of("LS_TEST_SEED", 1);
  const uint64_t count = number_of("LS_TEST_FAULTS", FEW);
  make_whole(1);
  make_whole(3);
  make_whole(8);
  for (uint64_t i = 0; i < count; ++i)
    try_one(first + i, getenv("LS_TEST_FAULTS") != NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_fails_is_told_and_leaves_nothing_behind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
