// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

bool cli_can_rewrite(const ls_runtime *runtime) {
  const char *kind = ls_runtime_environment(runtime, "TERM");
  return isatty(STDERR_FILENO) == 1 && kind != NULL &&
         strcmp(kind, "dumb") != 0;
}

cli_window cli_window_of(int descriptor) {
  struct winsize window = {0};
  (void)ioctl(descriptor, TIOCGWINSZ, &window);
  return (cli_window){window.ws_col, window.ws_row};
}

// ---- Progress --------------------------------------------------------------
// True while the line on standard error has no newline yet. Guarded by stderr's
// lock.
static bool is_open;

void cli_show_progress(const char *text) {
  const size_t size = strlen(text);
  flockfile(stderr);
  // If the line was cleared meanwhile, does not print its newline.
  if (is_open || strcmp(text, "\n") != 0) fwrite(text, 1, size, stderr);
  is_open = size > 0 && text[size - 1] != '\n';
  funlockfile(stderr);
}

void cli_clear_progress(void) {
  flockfile(stderr);
  if (is_open) fputs("\r\033[K", stderr);
  is_open = false;
  funlockfile(stderr);
}

// ---- Tickers ---------------------------------------------------------------
double cli_now(void) {
  struct timespec time = {0};
  (void)clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

void cli_print_duration(double seconds, char *text, size_t size) {
  const double most = 1e9;
  const long s =
      seconds > 0 ? (long)(seconds < most ? seconds + 0.5 : most) : 0;
  if (s >= 3600)
    snprintf(text, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  else
    snprintf(text, size, "%ld:%02ld", s / 60, s % 60);
}

static void write_progress(void *user, const char *text) {
  (void)user;
  cli_show_progress(text);
}

static int tell_width(void *user) {
  (void)user;
  return cli_window_of(STDERR_FILENO).columns;
}

ls_status cli_progress_open(const ls_runtime *runtime, ls_progress **out) {
  return ls_progress_create(
      &(ls_progress_options){.write = write_progress,
                             .terminal = cli_can_rewrite(runtime),
                             .width = tell_width},
      out);
}
