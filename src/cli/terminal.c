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

int cli_columns(void) { return cli_window_of(STDERR_FILENO).columns; }

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

void cli_ticker_begin(cli_ticker *ticker) {
  ticker->began = cli_now();
  ticker->next = ticker->began + (ticker->terminal ? 0 : 5);
}

bool cli_ticker_due(const cli_ticker *ticker) {
  return cli_now() >= ticker->next;
}

void cli_print_duration(double seconds, char *text, size_t size) {
  const double most = 359999;  // Prints at most 99:59:59.
  const long s =
      seconds > 0 ? (long)(seconds < most ? seconds + 0.5 : most) : 0;
  if (s >= 3600)
    snprintf(text, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  else
    snprintf(text, size, "%ld:%02ld", s / 60, s % 60);
}

void cli_ticker_show(cli_ticker *ticker, const cli_place *place) {
  const int64_t step = place->step, all = place->all;
  const double at = cli_now(), took = at - ticker->began;
  const double rate = took > 0 ? (double)(step - place->first) / took : 0;
  char line[160], end[24] = "", left[32] = "", loss[32];
  if (all > 0) snprintf(end, sizeof(end), "/%lld", (long long)all);
  if (all > step && rate > 0)
    cli_print_duration((double)(all - step) / rate, left, sizeof(left));
  // Uses another format for a diverged loss, which may have hundreds of digits.
  snprintf(loss, sizeof(loss), fabs(place->loss) < 1e9 ? "%.4f" : "%.4g",
           place->loss);
  snprintf(line, sizeof(line), "step %lld%s, loss %s, %.*f steps/s%s%s",
           (long long)step, end, loss, rate < 10 ? 2 : 0, rate,
           left[0] != '\0' ? ", eta " : "", left);
  const int columns = cli_columns();
  // Leaves one column free, since a full line would wrap.
  if (ticker->terminal && columns > 1 && strlen(line) >= (size_t)columns)
    line[columns - 1] = '\0';
  char text[sizeof(line) + 8];
  snprintf(text, sizeof(text), ticker->terminal ? "\r%s\033[K" : "%s\n", line);
  cli_show_progress(text);
  ticker->line_open = ticker->terminal;
  ticker->next = at + (ticker->terminal ? 0.1 : 5);
}

void cli_ticker_end(cli_ticker *ticker) {
  if (ticker->line_open) cli_show_progress("\n");
  ticker->line_open = false;
}
