// SPDX-License-Identifier: Apache-2.0
//
// Handles Ctrl-C (SIGINT), SIGTERM and SIGHUP. Signal handlers may do little:
// ours request a stop and set an alarm, or write a line and end the program.
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/ranks.h"

static const struct {
  int number;
  const char *line;
} signals[] = {
    {SIGINT, "lockstep: ended by SIGINT\n"},
    {SIGTERM, "lockstep: ended by SIGTERM\n"},
    {SIGHUP, "lockstep: ended by SIGHUP\n"},
};
enum { NUM_SIGNALS = sizeof(signals) / sizeof(signals[0]) };

static ls_train_stop stop;
static volatile sig_atomic_t deferred;  // A run checks `stop`.
static volatile sig_atomic_t first;

static volatile sig_atomic_t saved;
static unsigned grace;

static void say(const char *line) {
  (void)!write(STDERR_FILENO, line, strlen(line));
}

// Ends by the signal itself: MPICH takes an exit with any code before MPI_Init
// for no failure, and leaves the other ranks waiting in theirs.
static void end_program(int number) {
  sigset_t raised;
  for (int i = 0; i < NUM_SIGNALS; ++i)
    if (signals[i].number == number) say(signals[i].line);
  sigemptyset(&raised);
  sigaddset(&raised, number);
  (void)signal(number, SIG_DFL);
  (void)raise(number);
  (void)sigprocmask(SIG_UNBLOCK, &raised, NULL);
  _exit(CLI_SIGNAL + number);
}

// Ends the program if a run has not stopped in time.
static void end_run(const char *why) {
  if (saved) _exit(CLI_SIGNAL + first);
  say(why);
  _exit(CLI_LATE);
}

static void handle(int number) {
  if (!deferred) end_program(number);
  if (first != 0)
    end_run(
        "lockstep: ended by a second signal; the last steps are not saved\n");
  first = number;
  ls_train_stop_request(&stop);
  if (grace > 0) alarm(grace);
}

static void handle_alarm(int number) {
  (void)number;
  end_run("lockstep: the run was not saved within --grace; its last steps are "
          "lost\n");
}

void cli_signals_handle(int number, void (*handler)(int)) {
  struct sigaction before,
      action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < NUM_SIGNALS; ++i)
    sigaddset(&action.sa_mask, signals[i].number);
  if (number == SIGHUP && sigaction(SIGHUP, NULL, &before) == 0 &&
      before.sa_handler == SIG_IGN)
    return;
  sigaction(number, &action, NULL);
}

void cli_signals_begin(void) {
  for (int i = 0; i < NUM_SIGNALS; ++i)
    cli_signals_handle(signals[i].number, handle);
  // A file beyond the limit of ulimit -f is an error of writing it.
  cli_signals_handle(SIGXFSZ, SIG_IGN);
}

const ls_train_stop *cli_signals_defer(unsigned seconds) {
  if (cli_process_current()->simulated != NULL) return NULL;
  cli_signals_handle(SIGALRM, handle_alarm);
  grace = seconds;
  saved = 0;
  deferred = 1;
  return &stop;
}

void cli_signals_saved(void) { saved = 1; }

int cli_signals_first(void) { return first; }
