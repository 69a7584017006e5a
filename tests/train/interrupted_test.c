// SPDX-License-Identifier: Apache-2.0
//
// Runs that are ended from outside at any moment: killed, they go on from what
// they saved; asked to end, they save all there is first. Whatever they are
// resumed with, they end with the bytes of a run that nobody touched, having
// taken each example once an epoch.
//
// LS_TEST_KILLS says how many lives are killed (default 24), LS_TEST_SEED by
// which draw.
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/runtime_internal.h"
#include "lockstep/chain.h"
#include "lockstep/saved_file.h"
#include "state/own.h"
#include "support/draw.h"
#include "support/expect.h"
#include "support/process.h"
#include "support/resumable.h"
#include "support/sanitizer.h"
#include "support/spec.h"

static const char model[] = "model.safetensors";
enum {
  ENDED = 0,
  FAILED = 1,
  STOPPED = 2,
  KEEP = 3,
  MOST_LIVES = 2000,
  MOST_SECONDS = 120,
  MOST_MICROS = LS_SANITIZED ? 4000000 : 400000
};

// ---- Lives -----------------------------------------------------------------
static ls_train_stop asked;
static void ask(int number) {
  (void)number;
  ls_train_stop_request(&asked);
}

// A child that runs; a SIGTERM that comes early waits for its handler.
static pid_t begin_life(const resumable *run) {
  sigset_t set, before;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, &before);
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    ls_train_result result;
    alarm(MOST_SECONDS);
    signal(SIGTERM, ask);
    sigprocmask(SIG_SETMASK, &before, NULL);
    resumable r = *run;
    r.stop = &asked;
    const ls_status status = resumable_run(&r, &result);
    if (!ls_status_is_ok(status))
      fprintf(stderr, "a life failed: %s\n", ls_status_message(status));
    _exit(!ls_status_is_ok(status) ? FAILED
                                   : (result.stopped ? STOPPED : ENDED));
  }
  sigprocmask(SIG_SETMASK, &before, NULL);
  assert_true(child > 0);
  return child;
}

static bool has_file(const char *folder, const char *name) {
  char path[512];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  return access(path, F_OK) == 0;
}

// ---- Folders ---------------------------------------------------------------
// What a killed writer may leave, until the next save.
static bool is_left_over(const char *name) {
  const char *end = strrchr(name, '.');
  return strcmp(name, "lock") == 0 || strcmp(name, "checkpoint.lock") == 0 ||
         strcmp(name, "checkpoint.ranks") == 0 ||
         (end != NULL && strcmp(end, ".tmp") == 0);
}

// Checkpoints that are kept, and one more at most; `clean`: and nothing that a
// killed writer has left.
static void expect_known_files(const char *folder, bool clean) {
  static const char *const known[] = {"config.json", "metrics.jsonl",
                                      "chain.jsonl", "checkpoint",
                                      "model.safetensors"};
  DIR *all = opendir(folder);
  int checkpoints = 0;
  for (const struct dirent *it; all != NULL && (it = readdir(all)) != NULL;) {
    const char *name = it->d_name, *end = strrchr(name, '.');
    bool ours = name[0] == '.';
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); ++i)
      ours = ours || strcmp(name, known[i]) == 0;
    const bool is_json = strncmp(name, "model.ckpt-", 11) == 0 && end != NULL &&
                         strcmp(end, ".json") == 0;
    ours = ours || is_json ||
           (strncmp(name, "model.ckpt-", 11) == 0 &&
            strcmp(end, ".safetensors") == 0);
    checkpoints += is_json;
    if (!ours && (clean || !is_left_over(name)))
      fail_msg("'%s/%s' is left", folder, name);
  }
  if (all != NULL) closedir(all);
  if (checkpoints > KEEP + 1)
    fail_msg("'%s' has %d checkpoints", folder, checkpoints);
}

static void print_difference(void *user, const char *text, bool differs) {
  (void)user;
  if (differs) print_error("%s\n", text);
}

// The run is as its chain says, if it has come to have one.
static void expect_verified(const char *folder) {
  const ls_chain_report report = {print_difference, NULL};
  ls_chain_result result;
  if (!has_file(folder, "chain.jsonl")) return;
  expect_ok(ls_chain_check(folder, &report, &result));
  assert_int_equal(result.differences, 0);
}

// ---- Many lives of a run ---------------------------------------------------
typedef struct trial {
  resumable run;
  int signal;
  unsigned seed;
  int64_t micros;  // At most so long after its beginning.
  int lives;       // How many were ended from outside.
} trial;

// Threads and ranks of the next life.
static void vary(trial *t) {
  static const int threads[] = {1, 2, 8};
  t->run.threads = threads[rand_r(&t->seed) % 3];
  t->run.ranks = t->run.replicas < 4 ? 1 : 1 << rand_r(&t->seed) % 3;
}

static void live_until_the_end(trial *t) {
  remove_folder(t->run.folder);
  unlink(t->run.log);
  for (int life = 0; life < MOST_LIVES; ++life) {
    vary(t);
    t->run.resume = has_file(t->run.folder, "config.json");
    t->run.attest = true;
    const pid_t child = begin_life(&t->run);
    usleep((useconds_t)rand_r(&t->seed) % (useconds_t)t->micros);
    kill(child, t->signal);
    const int code = wait_for_child(child);
    expect_known_files(t->run.folder, t->signal != SIGKILL);
    expect_verified(t->run.folder);
    if (code == ENDED) {
      expect_known_files(t->run.folder, true);
      return;
    }
    ++t->lives;
    assert_int_equal(code, t->signal == SIGKILL ? -SIGKILL : STOPPED);
  }
  fail_msg("the run in '%s' does not end", t->run.folder);
}

// How often its functions were called, by which random ops draw, as the last
// checkpoint says: whatever a signal has cut short, an evaluation too.
static int64_t calls_of(const char *folder, const char *function) {
  LS_OWN(ls_saved_file, file) = NULL;
  LS_OWN(ls_record, states) = NULL;
  const ls_record *functions = NULL;
  int64_t calls = -1;
  expect_ok(ls_saved_file_open_unread(folder, &file));
  expect_ok(ls_saved_file_records(file, NULL, &states));
  expect_ok(ls_record_find(states, "functions", &functions));
  ls_status_free(ls_record_get_i64(functions, function, &calls));
  return calls;
}

static void expect_same_calls(const char *folder, const char *whole) {
  static const char *const functions[] = {"train_step", "evaluate", "eager"};
  for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); ++i)
    if (calls_of(folder, functions[i]) != calls_of(whole, functions[i]))
      fail_msg("'%s' has %lld calls of '%s', undisturbed it has %lld", folder,
               (long long)calls_of(folder, functions[i]), functions[i],
               (long long)calls_of(whole, functions[i]));
}

// The same bytes, from the same examples at each step.
static void expect_same_run(const trial *t, const char *whole) {
  size_t sizes[2] = {0};
  expect_same_file(whole, t->run.folder, model);
  expect_same_calls(t->run.folder, whole);
  expect_each_example_once(t->run.log, RESUMABLE_STEPS);
  char *wanted = read_folder_file(".", "whole.log", &sizes[0]);
  char *got = read_folder_file(".", t->run.log, &sizes[1]);
  assert_int_equal(sizes[0], sizes[1]);
  assert_memory_equal(wanted, got, sizes[0]);
  ls_release(ls_allocator_system(), wanted);
  ls_release(ls_allocator_system(), got);
}

// How long a run takes that nobody touches; not more than that where something
// else has held it up.
static int64_t run_whole(const trial *t, const char *folder) {
  resumable r = t->run;
  r.folder = folder;
  r.log = "whole.log";
  r.slow_from = 0;
  remove_folder(folder);
  const int64_t began = micros_now();
  const int code = wait_for_child(begin_life(&r));
  assert_int_equal(code, ENDED);
  const int64_t micros = micros_now() - began;
  return micros < MOST_MICROS ? micros : MOST_MICROS;
}

// ---- Killed ----------------------------------------------------------------
TEST(a_run_that_is_killed_goes_on_as_if_it_had_not_been) {
  LS_SPEC("E215");
  const int kills =
      int_from_environment("LS_TEST_KILLS", LS_SANITIZED ? 6 : 24);
  trial t = {.run = {.folder = "killed",
                     .log = "killed.log",
                     .replicas = 4,
                     .convolves = true,
                     .save_steps = 1,
                     .keep = LS_SOME(KEEP)},
             .signal = SIGKILL,
             .seed = (unsigned)int_from_environment("LS_TEST_SEED", 1)};
  t.micros = run_whole(&t, "whole") / 2;
  int runs = 0;
  while (t.lives < kills) {
    live_until_the_end(&t);
    expect_same_run(&t, "whole");
    ++runs;
  }
  print_message("%d lives were killed in %d runs\n", t.lives, runs);
}

// ---- Asked to end ----------------------------------------------------------
static void ask_often(const char *what, resumable run, int lives) {
  trial t = {.run = run, .signal = SIGTERM, .seed = 3};
  t.run.folder = "asked";
  t.run.log = "asked.log";
  t.run.keep = LS_SOME(KEEP);
  t.micros = run_whole(&t, "whole");
  int runs = 0;
  while (t.lives < lives) {
    live_until_the_end(&t);
    expect_same_run(&t, "whole");
    ++runs;
  }
  print_message("%s: %d lives were ended in %d runs\n", what, t.lives, runs);
}

TEST(a_run_that_is_asked_to_end_saves_all) {
  const int lives =
      int_from_environment("LS_TEST_KILLS", LS_SANITIZED ? 6 : 24) / 3;
  ask_often("steps", (resumable){.replicas = 4}, lives);
  ask_often("steps that are all saved",
            (resumable){.replicas = 4, .convolves = true, .save_steps = 1},
            lives);
  ask_often("a slow evaluation",
            (resumable){.replicas = 1, .with_test = true, .test_micros = 1000},
            lives);
  ask_often("an evaluation behind steps that are saved",
            (resumable){.replicas = 1,
                        .with_test = true,
                        .test_micros = 1000,
                        .save_steps = 1},
            lives);
}

// The input hangs from an example on until the run is saved: each life gets
// some steps further, and none waits for it.
TEST(input_that_hangs_does_not_hold_it_up) {
  for (int stream = 0; stream < 2; ++stream) {
    const resumable run = {.folder = "hangs",
                           .log = "hangs.log",
                           .stream = stream == 1,
                           .keep = LS_SOME(KEEP)};
    trial t = {.run = run, .signal = SIGTERM};
    (void)run_whole(&t, "whole");
    remove_folder("hangs");
    unlink("hangs.log");
    int code = STOPPED, lives = 0;
    for (; code == STOPPED && lives < 100; ++lives) {
      t.run.resume = has_file("hangs", "config.json");
      // A stream is read again from its start.
      t.run.slow_from = 70 * (stream == 1 ? lives + 1 : 1);
      const pid_t child = begin_life(&t.run);
      usleep(LS_SANITIZED ? 300000 : 60000);
      kill(child, SIGTERM);
      code = wait_for_child(child);
      expect_known_files("hangs", true);
    }
    assert_int_equal(code, ENDED);
    assert_true(lives > 2);
    expect_same_run(&t, "whole");
  }
}
