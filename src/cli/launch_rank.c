// SPDX-License-Identifier: Apache-2.0
//
// One rank of `lockstep launch`: starts the program, passes signals on to it,
// and says how it has ended, as the program itself may not be able to.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"

// Time, in milliseconds, for a rank that failed first to say why.
enum { FAREWELL = 3000 };

static volatile sig_atomic_t child;

// Passes a signal on; mpirun forwards a request to stop as SIGUSR1, and SIGQUIT
// as SIGALRM.
static void pass_signal(int number) {
  if (child > 0)
    (void)kill((pid_t)child, number == SIGUSR1   ? SIGTERM
                             : number == SIGALRM ? SIGQUIT
                                                 : number);
}

static void handle_signals(void (*handler)(int)) {
  static const int numbers[] = {SIGINT,  SIGTERM, SIGHUP,
                                SIGQUIT, SIGUSR1, SIGALRM};
  for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); ++i)
    cli_signals_handle(numbers[i], handler);
}

// Returns this rank, as the launcher's environment says; -1: it does not.
static long long find_rank(const ls_runtime *runtime) {
  static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                      "PMIX_RANK", "SLURM_PROCID"};
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); ++i) {
    const char *text = ls_runtime_environment(runtime, names[i]);
    if (text != NULL) return strtoll(text, NULL, 10);
  }
  return -1;
}

// Becomes the program; ends with this one, whatever ends it.
static void become_program(char **program, int64_t restart, pid_t parent) {
  char text[24];
  snprintf(text, sizeof(text), "%lld", (long long)restart);
  setenv("LS_RESTART", text, 1);
  // A backtrace when another rank is gone hides who it was.
  setenv("UCX_HANDLE_ERRORS", "none", 0);
  handle_signals(SIG_DFL);
  cli_signals_handle(SIGXFSZ, SIG_DFL);
  // Open MPI sends signals to the whole group.
  (void)setpgid(0, 0);
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(CLI_FAILED);
  execvp(program[0], program);
  // At once, as all ranks write it at the same time.
  fprintf(stderr, "lockstep launch: cannot start %s: %s\n", program[0],
          strerror(errno));
  _exit(CLI_USAGE);
}

static int wait_for_program(const ls_runtime *runtime, pid_t started) {
  int status = 0;
  while (waitpid(started, &status, 0) < 0 && errno == EINTR) {
  }
  child = 0;
  fprintf(stderr, CLI_RANK_ENDED "\n", find_rank(runtime), status);
  fflush(stderr);
  // mpirun ends the others soon after this one: lets the rank that failed first
  // say why. A signal ends this.
  if (WIFEXITED(status) && WEXITSTATUS(status) == CLI_OTHER_RANK)
    (void)poll(NULL, 0, FAREWELL);
  return WIFSIGNALED(status) ? CLI_SIGNAL + WTERMSIG(status)
                             : WEXITSTATUS(status);
}

int cli_run_as_rank(char **program, int64_t restart) {
  ls_runtime *runtime = NULL;
  const pid_t parent = getpid();
  ls_status status = cli_runtime_open(1, NULL, &runtime);
  if (!ls_status_is_ok(status)) return cli_report("launch", status);
  handle_signals(pass_signal);
  const pid_t started = fork();
  if (started == 0) become_program(program, restart, parent);
  child = started;
  int code = CLI_FAILED;
  if (started > 0)
    code = wait_for_program(runtime, started);
  else
    cli_say("launch", "cannot start %s: %s", program[0], strerror(errno));
  return cli_runtime_close("launch", runtime, code);
}
