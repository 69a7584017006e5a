// SPDX-License-Identifier: Apache-2.0
//
// Trainings on cores that are ended from outside at any moment, in loops of 7
// steps: killed, they go on from what they saved; asked to end, they save all
// there is first. Whatever threads they are resumed with, they end with the
// bytes of one that nobody touched, each step having used the same examples.
//
// LS_TEST_KILLS says how many lives are ended each way (default 8),
// LS_TEST_SEED by which draw.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lockstep/runtime.h"
#include "support/draw.h"
#include "support/process.h"
#include "support/resumable.h"
#include "support/sanitizer.h"
#include "support/witnessed.h"

enum {
  ENDED = 0,
  FAILED = 1,
  STOPPED = 2,
  MOST_LIVES = 1000,
  MOST_SECONDS = 120
};
static const char end_file[] = "model.ckpt-45.safetensors";

// ---- Lives -----------------------------------------------------------------
static ls_train_stop asked;
static void ask(int number) {
  (void)number;
  ls_train_stop_request(&asked);
}

static int live(witnessed w, int threads) {
  ls_runtime *runtime = NULL;
  ls_training_end end = {0};
  w.stop = &asked;
  ls_status status =
      ls_runtime_create(&(ls_runtime_options){.threads = threads}, &runtime);
  if (ls_status_is_ok(status)) {
    ls_runtime_make_current(runtime);
    status = witnessed_train(&w, &end);
  }
  if (!ls_status_is_ok(status))
    fprintf(stderr, "a life failed: %s\n", ls_status_message(status));
  if (!ls_status_is_ok(status)) return FAILED;
  return end.step < WITNESSED_STEPS ? (end.stopped ? STOPPED : FAILED) : ENDED;
}

// A child that runs; a SIGTERM that comes early waits for its handler.
static pid_t begin_life(const witnessed *w, int threads) {
  sigset_t set, before;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, &before);
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    alarm(MOST_SECONDS);
    signal(SIGTERM, ask);
    sigprocmask(SIG_SETMASK, &before, NULL);
    _exit(live(*w, threads));
  }
  sigprocmask(SIG_SETMASK, &before, NULL);
  assert_true(child > 0);
  return child;
}

// ---- Many lives of a training ----------------------------------------------
typedef struct tally {
  int lives, runs, unheard;
  int saved;  // Lives that had saved before they were ended.
  unsigned seed;
} tally;

// When the list of its checkpoints was written; 0: there is none.
static int64_t last_save(const char *folder) {
  char path[100];
  struct stat info;
  snprintf(path, sizeof(path), "%s/checkpoint", folder);
  if (stat(path, &info) != 0) return 0;
  return (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
}

static void live_until_the_end(witnessed w, int sent, int64_t micros,
                               tally *t) {
  static const int threads[] = {1, 2, 8};
  remove_folder(w.folder);
  unlink(w.log);
  for (int life = 0; life < MOST_LIVES; ++life) {
    w.save_steps = 1 + rand_r(&t->seed) % 20;
    const int64_t before = last_save(w.folder);
    const pid_t child = begin_life(&w, threads[rand_r(&t->seed) % 3]);
    // Longer lives in time, on a machine that has become slower.
    const int64_t most = micros + micros * life / 10;
    usleep((useconds_t)(rand_r(&t->seed) % most));
    kill(child, sent);
    const int code = wait_for_child(child);
    if (code == ENDED) return;
    ++t->lives;
    t->saved += last_save(w.folder) != before;
    assert_int_equal(code, sent == SIGKILL ? -SIGKILL : STOPPED);
  }
  fail_msg("the training in '%s' does not end", w.folder);
}

// A killed one does a step again that it had not saved, and may have saved one
// of which its host had not yet written; one that was asked to end does each
// once.
static void check(const char *log, const char *whole, int sent, tally *t) {
  int counts[WITNESSED_STEPS];
  witnessed_expect_steps(log, whole, counts);
  for (int i = 0; i < WITNESSED_STEPS; ++i) {
    if (sent == SIGTERM) assert_int_equal(counts[i], 1);
    t->unheard += counts[i] == 0;
  }
}

static void end_often(int sent, int lives) {
  static const int replicas[] = {1, 3, 8};
  tally t = {.seed = (unsigned)int_from_environment("LS_TEST_SEED", 1)};
  int64_t micros[3] = {0};
  char whole[3][40], logs[3][48];
  for (int i = 0; i < 3; ++i) {
    snprintf(whole[i], sizeof(whole[i]), "undisturbed-%d", replicas[i]);
    snprintf(logs[i], sizeof(logs[i]), "%s.log", whole[i]);
    remove_folder(whole[i]);
    unlink(logs[i]);
    const witnessed w = {.folder = whole[i],
                         .log = logs[i],
                         .replicas = replicas[i],
                         .save_steps = 1000};
    const int64_t began = micros_now();
    assert_int_equal(wait_for_child(begin_life(&w, 2)), ENDED);
    micros[i] = micros_now() - began;
    check(logs[i], logs[i], SIGTERM, &t);
  }
  for (int i = 0; t.lives < lives || t.runs < 3; i = (i + 1) % 3) {
    const witnessed w = {
        .folder = "ended", .log = "ended.log", .replicas = replicas[i]};
    live_until_the_end(w, sent, micros[i], &t);
    expect_same_file(whole[i], "ended", end_file);
    check("ended.log", logs[i], sent, &t);
    ++t.runs;
  }
  print_message("%d lives were ended in %d trainings, %d of them behind their "
                "first save; %d steps are unheard\n",
                t.lives, t.runs, t.saved, t.unheard);
}

static int lives_wanted(void) {
  return int_from_environment("LS_TEST_KILLS", LS_SANITIZED ? 3 : 8);
}

TEST(a_training_that_is_killed_goes_on_as_if_it_had_not_been) {
  LS_SPEC("E215");
  end_often(SIGKILL, lives_wanted());
}

TEST(a_training_that_is_asked_to_end_has_done_each_step_once) {
  LS_SPEC("E215");
  end_often(SIGTERM, lives_wanted());
}
