// SPDX-License-Identifier: Apache-2.0
// A run's history in words: configuration, progress, times.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/look/history.h"
#include "cli/look/table.h"
#include "cli/words.h"

// Appends to the text in `text`, as far as it has room.
static void append(char *text, size_t size, const char *format, ...)
    LS_PRINTF(3, 4);
static void append(char *text, size_t size, const char *format, ...) {
  const size_t used = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + used, size - used, format, arguments);
  va_end(arguments);
}

// ---- Configuration ---------------------------------------------------------
void cli_history_entry(const cli_history *history, const char *key, char *text,
                       size_t size) {
  cli_member member;
  text[0] = '\0';
  if (history->config != NULL && cli_json_find(history->config, key, &member))
    cli_json_copy(&member, text, size);
}

// Returns an entry that is a number; 0 if it has none.
static double entry_number(const cli_history *history, const char *key) {
  char text[64];
  cli_history_entry(history, key, text, sizeof(text));
  const double value = strtod(text, NULL);
  return isfinite(value) ? value : 0;
}

// Appends ", LABEL TEXT" for an entry that is set.
static void append_entry(const cli_history *history, const char *key,
                         const char *label, char *text, size_t size) {
  char value[160];
  cli_history_entry(history, key, value, sizeof(value));
  if (value[0] == '\0' || strcmp(value, "0") == 0) return;
  append(text, size, ", %s%s", label, value);
}

static void append_rate(const cli_history *history, char *text, size_t size) {
  char schedule[64];
  const double rate = entry_number(history, "learning_rate");
  cli_history_entry(history, "schedule", schedule, sizeof(schedule));
  if (rate != 0)
    append(text, size, ", learning rate %g%s%s", rate,
           schedule[0] != '\0' ? " " : "", schedule);
  append_entry(history, "warmup", "warmup ", text, size);
}

void cli_history_describe(const cli_history *history, char *text, size_t size) {
  char name[160], data[512];
  text[0] = '\0';
  if (history->config == NULL) {
    append(text, size,
           history->of_events ? "an estimator's folder, by its event files"
                              : "no configuration (config.json is missing)");
    return;
  }
  cli_history_entry(history, "model", name, sizeof(name));
  cli_history_entry(history, "data", data, sizeof(data));
  if (name[0] == '\0')
    cli_history_entry(history, "estimator", name, sizeof(name));
  append(text, size, "%s on %s", name[0] != '\0' ? name : "unknown model",
         data[0] != '\0'      ? data
         : history->of_events ? "data of its own"
                              : "unknown data");
  append_entry(history, "batch_size", "batch size ", text, size);
  append_entry(history, "optimizer", "", text, size);
  append_rate(history, text, size);
  append_entry(history, "weight_decay", "weight decay ", text, size);
  append_entry(history, "clip_norm", "clip norm ", text, size);
  append(text, size, ", seed %.0f", entry_number(history, "seed"));
  const double replicas = entry_number(history, "replicas");
  const double threads = entry_number(history, "threads");
  if (replicas > 1) append(text, size, ", %.0f replicas", replicas);
  if (threads > 0)
    append(text, size, ", %.0f thread%s", threads, threads == 1 ? "" : "s");
  append_entry(history, "precision", "", text, size);
  append_entry(history, "math", "math ", text, size);
  append_entry(history, "warm_start", "started from ", text, size);
}

// ---- Progress --------------------------------------------------------------
const char *cli_run_state_name(cli_run_state state) {
  static const char *const names[] = {"empty", "ended", "complete", "running"};
  return names[state];
}

void cli_history_progress(const cli_history *history, char *text, size_t size) {
  char time[24];
  text[0] = '\0';
  append(text, size, "%s, ", cli_run_state_name(history->state));
  if (history->num_garbage > 0)
    append(text, size, "%lld line%s of metrics.jsonl cannot be read, ",
           (long long)history->num_garbage,
           history->num_garbage == 1 ? "" : "s");
  if (history->num_lines == 0) {
    append(text, size, "no line of metrics yet");
    return;
  }
  const double done = (double)history->step, all = (double)history->total_steps;
  append(text, size, "step %lld", (long long)history->step);
  if (history->total_steps > 0)
    append(text, size, " of %lld (%.0f%%)", (long long)history->total_steps,
           floor(100 * done / all));
  if (history->epoch > 0)
    append(text, size, ", epoch %lld", (long long)history->epoch);
  if (history->seconds > 0) {
    cli_print_duration(history->seconds, time, sizeof(time));
    append(text, size, ", time %s", time);
  }
  if (history->state == CLI_RUN_RUNNING && isfinite(history->seconds_left)) {
    cli_print_duration(history->seconds_left, time, sizeof(time));
    append(text, size, ", eta %s", time);
  }
}

void cli_list_times(const cli_run_budget *budget,
                    cli_time_part parts[CLI_TIME_PARTS]) {
  parts[0] = (cli_time_part){"compute", budget->compute};
  parts[1] = (cli_time_part){"input", budget->input};
  parts[2] = (cli_time_part){"other ranks", budget->collective};
  parts[3] = (cli_time_part){"host calls", budget->host};
  parts[4] = (cli_time_part){"saves", budget->save};
  parts[5] = (cli_time_part){"rest", budget->rest};
}

void cli_history_times(const cli_history *history, char *text, size_t size) {
  const cli_run_budget *budget = &history->budget;
  cli_time_part parts[CLI_TIME_PARTS];
  char step[CLI_CELL];
  cli_list_times(budget, parts);
  text[0] = '\0';
  if (budget->whole <= 0 || budget->steps <= 0) return;
  append(text, size, "%s per step",
         cli_format_seconds(budget->whole / (double)budget->steps, step));
  for (int i = 0; i < CLI_TIME_PARTS; ++i) {
    const double share = 100 * parts[i].seconds / budget->whole;
    if (share >= 0.5) append(text, size, ", %s %.0f%%", parts[i].name, share);
  }
}
