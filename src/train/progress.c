// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>

#include "base/memory/own.h"
#include "base/plain.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "lockstep/training_parts.h"
#include "train/loop.h"

static const int64_t second = 1000000000;

struct ls_progress {
  ls_allocator *allocator;
  ls_runtime *runtime;
  ls_progress_options options;
  int64_t next;    // Time of the next line.
  bool line_open;  // On a terminal: the line will be rewritten.
};

ls_status ls_progress_create(const ls_progress_options *options,
                             ls_progress **out_progress) {
  LS_REQUIRE_OUT(out_progress, options, options->write);
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_NEW_OR_RETURN(allocator, ls_progress, progress);
  progress->allocator = allocator;
  progress->runtime = runtime;
  progress->options = *options;
  // On a terminal shows a line at once; otherwise a short run prints one line
  // per epoch.
  if (!options->terminal) progress->next = ls_runtime_now(runtime) + 5 * second;
  *out_progress = progress;
  return ls_ok();
}

void ls_progress_destroy(ls_progress *progress) {
  if (progress == NULL) return;
  if (progress->line_open)
    progress->options.write(progress->options.user, "\n");
  ls_release(progress->allocator, progress);
}

// ---- Pieces ----------------------------------------------------------------
// Prints seconds as 0:07, 12:34 or 1:02:03.
static void print_duration(double seconds, char *buffer, size_t size) {
  long long s = seconds > 0 ? (long long)(seconds + 0.5) : 0;
  if (s > 359999) s = 359999;  // Prints at most 99:59:59.
  if (s >= 3600)
    snprintf(buffer, size, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  else
    snprintf(buffer, size, "%lld:%02lld", s / 60, s % 60);
}

// Prints a bar of `width` columns with brackets, filled in proportion to `done`
// of `all`.
static void print_bar(int64_t done, int64_t all, int width, char *buffer) {
  const int inner = width - 2;
  const int full = all > 0 ? (int)(done * inner / all) : 0;
  char *at = buffer;
  *at++ = '[';
  for (int i = 0; i < inner; ++i)
    *at++ = i < full ? '=' : (i == full ? '>' : '.');
  *at++ = ']';
  *at = '\0';
}

// Appends as much of the epoch's budget as fits.
static void add_budget(const ls_train_report *report, int room, char tail[288],
                       int *out_room) {
  char budget[120];
  const size_t most = room < 0 ? 0 : (size_t)room;
  if (most < 16) return;
  ls_budget_print(&report->budget, budget,
                  most - 2 < sizeof(budget) ? most - 2 : sizeof(budget));
  if (budget[0] == '\0') return;
  const size_t length = strlen(tail);
  *out_room -= ls_format(tail + length, 288 - length, ", %s", budget);
}

// Appends " acc 91.2%", or the metric of another task, " mae 0.1234".
static int add_metric(const ls_train_report *report, double value, int digits,
                      char *buffer, size_t size) {
  const char *name = ls_train_metric_of(report);
  return strcmp(name, "accuracy") == 0
             ? ls_format(buffer, size, " acc %.*f%%", digits, 100 * value)
             : ls_format(buffer, size, " %s %.4g", name, value);
}

static void print_line(const ls_train_report *report, int width, bool bar,
                       char *buffer, size_t size) {
  char head[64] = "step ", tail[288], time[24];
  const bool done = report->step >= report->num_steps;
  print_duration(done ? report->seconds : report->seconds_left, time,
                 sizeof(time));
  if (report->epoch > 0)
    snprintf(head, sizeof(head), "epoch %lld/%lld ", (long long)report->epoch,
             (long long)report->num_epochs);
  int n = ls_format(tail, sizeof(tail), " %lld", (long long)report->epoch_step);
  if (report->epoch > 0 || report->steps_per_epoch > 0)
    n += ls_format(tail + n, sizeof(tail) - (size_t)n, "/%lld",
                   (long long)report->steps_per_epoch);
  // A diverged loss may have hundreds of digits.
  n += ls_format(tail + n, sizeof(tail) - (size_t)n,
                 fabs(report->loss) < 1e9 ? " loss %.4f" : " loss %.4g",
                 report->loss);
  if (report->epoch > 0)
    n += add_metric(report, report->accuracy, 1, tail + n,
                    sizeof(tail) - (size_t)n);
  if (report->tested) {
    n += ls_format(tail + n, sizeof(tail) - (size_t)n, " test");
    add_metric(report, report->test.accuracy, 2, tail + n,
               sizeof(tail) - (size_t)n);
  } else {
    ls_format(tail + n, sizeof(tail) - (size_t)n, " %.0f ex/s %s %s",
              report->examples_per_second, done ? "in" : "eta", time);
  }
  char drawn[64] = "";
  // Leaves one column free, since a full line would wrap.
  int room = width - 1 - (int)strlen(head) - (int)strlen(tail);
  if (report->epoch_end) add_budget(report, bar ? room : 100, tail, &room);
  if (bar && room >= 6)
    print_bar(report->epoch_step, report->steps_per_epoch,
              room > 40 ? 40 : room, drawn);
  snprintf(buffer, size, "%s%s%s", head, drawn,
           drawn[0] == '\0' ? tail + 1 : tail);
  // An epoch's last line stays, so that it may wrap.
  if (bar && !report->epoch_end && width < (int)size) buffer[width - 1] = '\0';
}

// Returns the terminal's current width, which may change.
static int columns(const ls_progress_options *options) {
  const int width = options->width != NULL ? options->width(options->user) : 0;
  return width > 0 ? width : 80;
}

// ---- Showing ---------------------------------------------------------------
void ls_progress_show(void *user, const ls_train_report *report) {
  ls_progress *progress = user;
  const bool terminal = progress->options.terminal;
  const int64_t now = ls_runtime_now(progress->runtime);
  if (report->stopped || (now < progress->next && !report->epoch_end)) return;
  progress->next = now + (terminal ? second / 10 : 5 * second);
  char line[420], text[460];
  print_line(report, columns(&progress->options), terminal, line, sizeof(line));
  // \r moves to the line's start, \033[K clears the remains of a longer line.
  snprintf(text, sizeof(text), "%s%s%s%s", terminal ? "\r" : "", line,
           terminal ? "\033[K" : "",
           !terminal || report->epoch_end ? "\n" : "");
  progress->line_open = terminal && !report->epoch_end;
  progress->options.write(progress->options.user, text);
}
