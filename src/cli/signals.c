// SPDX-License-Identifier: Apache-2.0
//
// Ctrl-C (SIGINT), SIGTERM and SIGHUP. What a handler may do is little: it asks
// a run to stop, or says a line and ends the program.
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

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
static volatile sig_atomic_t deferred;  // A run looks at `stop`.
static volatile sig_atomic_t first;

static void end_program(int number) {
  for (int i = 0; i < NUM_SIGNALS; ++i) {
    if (signals[i].number == number)
      (void)!write(STDERR_FILENO, signals[i].line, strlen(signals[i].line));
  }
  _exit(CLI_SIGNAL + number);
}

static void handle(int number) {
  if (!deferred || first != 0) end_program(number);
  first = number;
  ls_train_stop_request(&stop);
}

void cli_signals_begin(void) {
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < NUM_SIGNALS; ++i)
    sigaddset(&action.sa_mask, signals[i].number);
  for (int i = 0; i < NUM_SIGNALS; ++i) {
    struct sigaction before;
    // nohup ignores the one that tells of a closed terminal.
    if (signals[i].number == SIGHUP && sigaction(SIGHUP, NULL, &before) == 0 &&
        before.sa_handler == SIG_IGN)
      continue;
    sigaction(signals[i].number, &action, NULL);
  }
}

const ls_train_stop *cli_signals_defer(void) {
  deferred = 1;
  return &stop;
}

int cli_signals_first(void) { return first; }
