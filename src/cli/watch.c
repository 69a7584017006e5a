// SPDX-License-Identifier: Apache-2.0
//
// Ctrl-\: a thread waits for SIGQUIT, which all other threads block, and prints
// the table of runs. As no signal handler runs, it may call any function.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#include "cli/ranks.h"

static struct {
  ls_runtime *runtime;
  pthread_t thread;
  sigset_t before;  // The signal mask before the watch.
  bool running;
  bool ends;             // Atomic.
  pthread_mutex_t lock;  // Guards what is printed also.
  void (*also)(void *user);
  void *user;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void print_table(void) {
  char *text = NULL;
  ls_status status = ls_runs_print(watch.runtime, &text);
  pthread_mutex_lock(&watch.lock);
  if (ls_status_is_ok(status)) {
    const char *idle = watch.also == NULL ? "nothing is running\n" : "";
    fprintf(stderr, "\n%s", text[0] != '\0' ? text : idle);
    ls_text_release(text);
  } else {
    (void)cli_report("train", status);
  }
  if (watch.also != NULL) watch.also(watch.user);
  pthread_mutex_unlock(&watch.lock);
}

void cli_watch_also(void (*print)(void *user), void *user) {
  pthread_mutex_lock(&watch.lock);
  watch.also = print;
  watch.user = user;
  pthread_mutex_unlock(&watch.lock);
}

static void *run_watch(void *user) {
  const sigset_t *signals = user;
  int number = 0;
  while (sigwait(signals, &number) == 0) {
    if (__atomic_load_n(&watch.ends, __ATOMIC_ACQUIRE)) break;
    print_table();
  }
  return NULL;
}

static sigset_t *watched(void) {
  static sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGQUIT);
  return &signals;
}

ls_status cli_watch_begin(ls_runtime *runtime) {
  if (cli_process_current()->simulated != NULL) return ls_ok();
  sigset_t *signals = watched();
  watch.runtime = runtime;
  watch.ends = false;
  pthread_sigmask(SIG_BLOCK, signals, &watch.before);
  if (pthread_create(&watch.thread, NULL, run_watch, signals) != 0) {
    pthread_sigmask(SIG_SETMASK, &watch.before, NULL);
    return ls_internal("no thread to wait for Ctrl-\\");
  }
  watch.running = true;
  return ls_ok();
}

void cli_watch_end(void) {
  if (!watch.running) return;
  __atomic_store_n(&watch.ends, true, __ATOMIC_RELEASE);
  pthread_kill(watch.thread, SIGQUIT);
  pthread_join(watch.thread, NULL);
  pthread_sigmask(SIG_SETMASK, &watch.before, NULL);
  watch.running = false;
}
