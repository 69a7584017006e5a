// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "cli/look/history.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "cli/compare/compare.h"
#include "cli/words.h"

// ---- Series ----------------------------------------------------------------
static ls_status series_grow(cli_series *series) {
  const size_t room = series->room > 0 ? 2 * series->room : 64;
  CLI_OWN_ARRAY_OR_RETURN(double, steps, room);
  CLI_OWN_ARRAY_OR_RETURN(double, values, room);
  for (size_t i = 0; i < series->count; ++i) {
    steps[i] = series->steps[i];
    values[i] = series->values[i];
  }
  cli_release(series->steps);
  cli_release(series->values);
  series->steps = cli_give(&steps);
  series->values = cli_give(&values);
  series->room = room;
  return ls_ok();
}

static ls_status history_grow(cli_history *history) {
  if (history->num_series == CLI_MOST_SERIES)
    return ls_invalid_argument("'%s' has more than %d metrics", history->folder,
                               CLI_MOST_SERIES);
  const size_t room = history->series_room > 0 ? 2 * history->series_room : 16;
  CLI_NEW_ARRAY_OR_RETURN(cli_series, series, room);
  for (size_t i = 0; i < history->num_series; ++i)
    series[i] = history->series[i];
  cli_release(history->series);
  history->series = series;
  history->series_room = room;
  return ls_ok();
}

static bool is_series(const cli_series *series, const char *name, size_t size) {
  return strncmp(series->name, name, size) == 0 && series->name[size] == '\0';
}

// Returns the number of a metric's series; that of a new one if it has none.
// Lines mostly have the same metrics in the same order.
static size_t find_series(const cli_history *history, const char *name,
                          size_t size) {
  size_t at = history->next_series;
  if (at < history->num_series && is_series(&history->series[at], name, size))
    return at;
  for (at = 0; at < history->num_series; ++at)
    if (is_series(&history->series[at], name, size)) break;
  return at;
}

// Adds a value to the series of a metric, whose name has `size` bytes. Values
// that are not finite become NaN.
static ls_status add_value(cli_history *history, const char *metric,
                           size_t size, double step, double value) {
  const size_t at = find_series(history, metric, size);
  if (at == history->series_room) LS_RETURN_IF_ERROR(history_grow(history));
  cli_series *series = &history->series[at];
  if (at == history->num_series) {
    series->name = cli_copy_text(metric, size);
    if (series->name == NULL) return ls_out_of_memory();
    ++history->num_series;
  }
  history->next_series = at + 1;
  if (series->count == series->room) LS_RETURN_IF_ERROR(series_grow(series));
  if (!isfinite(value)) value = NAN;
  if (isnan(value)) ++series->num_missing;
  series->steps[series->count] = step;
  series->values[series->count++] = value;
  return ls_ok();
}

const cli_series *cli_history_series(const cli_history *history,
                                     const char *name) {
  for (size_t i = 0; i < history->num_series; ++i)
    if (strcmp(history->series[i].name, name) == 0) return &history->series[i];
  return NULL;
}

double cli_series_last(const cli_series *series) {
  return series != NULL && series->count > 0 ? series->values[series->count - 1]
                                             : NAN;
}

// Returns true if a name such as "test_mean_iou" has a word.
static bool has_word(const char *name, const char *word) {
  const size_t size = strlen(word);
  for (; *name != '\0'; name += strspn(name, "_/.- ")) {
    const size_t next = strcspn(name, "_/.- ");
    if (next == size && strncmp(name, word, size) == 0) return true;
    name += next;
  }
  return false;
}

// Returns 1 if larger values of a metric are better, -1 if smaller ones are, 0
// if unknown. Short words count only as whole ones: "previous" has "iou".
static int find_direction(const char *name) {
  static const struct {
    const char *part, *word;
    int direction;
  } rows[] = {{"accuracy", NULL, 1},    {NULL, "iou", 1},
              {"loss", NULL, -1},       {"error", NULL, -1},
              {"perplexity", NULL, -1}, {NULL, "mae", -1},
              {NULL, "mse", -1},        {NULL, "rmse", -1}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    if (rows[i].part != NULL ? strstr(name, rows[i].part) != NULL
                             : has_word(name, rows[i].word))
      return rows[i].direction;
  }
  return 0;
}

bool cli_series_best(const cli_series *series, double *out_step,
                     double *out_value) {
  const int direction = series != NULL ? find_direction(series->name) : 0;
  if (direction == 0) return false;
  bool found = false;
  for (size_t i = 0; i < series->count; ++i) {
    const double value = series->values[i];
    if (isnan(value)) continue;
    if (found && (value - *out_value) * direction <= 0) continue;
    found = true;
    *out_step = series->steps[i];
    *out_value = value;
  }
  return found;
}

// ---- Lines of metrics ------------------------------------------------------
// Reads a number, or null and the like as NaN. Returns false for other values.
static bool read_number(const cli_member *member, double *out) {
  char text[64], *end = NULL;
  if (member->value_size >= sizeof(text)) return false;
  memcpy(text, member->value, member->value_size);
  text[member->value_size] = '\0';
  *out = NAN;
  if (strcmp(text, "null") == 0) return true;
  *out = strtod(text, &end);
  return end != text && *end == '\0';
}

static double number_of(const char *object, const char *key) {
  cli_member member;
  double value = 0;
  if (!cli_json_find(object, key, &member) || !read_number(&member, &value))
    return 0;
  return isfinite(value) ? value : 0;
}

static void add_budget(cli_run_budget *sum, const char *object, double steps) {
  sum->whole += number_of(object, "whole");
  sum->compute += number_of(object, "compute");
  sum->input += number_of(object, "input");
  sum->collective += number_of(object, "collective");
  sum->host += number_of(object, "host");
  sum->save += number_of(object, "save");
  sum->rest += number_of(object, "rest");
  if (steps > 0 && steps < 1e15) sum->steps += (int64_t)steps;
}

// Returns true for members of a line that are no metric over steps.
static bool is_position(const cli_member *member) {
  static const char *const keys[] = {"step", "epoch", "steps", "seconds"};
  for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); ++i)
    if (cli_json_is_key(member, keys[i])) return true;
  return false;
}

// Returns true if a line is an object with the number of a step.
static bool is_line(const char *text, double *out_step) {
  cli_member member;
  const char *at = text;
  bool found = false;
  while (cli_json_next(&at, &member)) {
    if (cli_json_is_key(&member, "step"))
      found = read_number(&member, out_step) && fabs(*out_step) < 1e15;
  }
  at += strspn(at, " \t\r");
  return found && at[0] == '}' && at[1 + strspn(at + 1, " \t\r")] == '\0';
}

static ls_status add_line(cli_history *history, const char *text, double step) {
  cli_member member;
  history->step = (int64_t)step;
  history->next_series = 0;
  ++history->num_lines;
  for (const char *at = text; cli_json_next(&at, &member);) {
    double value = 0;
    if (cli_json_is_key(&member, "budget") && member.value[0] == '{')
      add_budget(&history->budget, member.value, number_of(text, "steps"));
    if (!read_number(&member, &value)) continue;
    if (cli_json_is_key(&member, "seconds") && value > history->seconds)
      history->seconds = value;
    if (cli_json_is_key(&member, "epoch") && fabs(value) < 1e15)
      history->epoch = (int64_t)value;
    if (is_position(&member)) continue;
    LS_RETURN_IF_ERROR(
        add_value(history, member.key, member.key_size, step, value));
  }
  return ls_ok();
}

// Reads all lines. A last one without its newline is still being written.
static ls_status read_lines(cli_history *history) {
  char *text = history->metrics;
  while (text != NULL) {
    char *end = strchr(text, '\n');
    if (end == NULL) break;
    *end = '\0';
    double step = 0;
    if (is_line(text, &step))
      LS_RETURN_IF_ERROR(add_line(history, text, step));
    else if (text[strspn(text, " \t\r")] != '\0')
      ++history->num_garbage;
    *end = '\n';
    text = end + 1;
  }
  return ls_ok();
}

// ---- Progress --------------------------------------------------------------
// Returns the number of steps of an epoch, by the first evaluation, which ends
// one, or by the first line of a later epoch; 0: unknown.
static int64_t count_epoch_steps(const cli_history *history) {
  double before = 0, steps = 0;
  char *text = history->metrics;
  for (char *end; text != NULL && (end = strchr(text, '\n')) != NULL;
       text = end + 1) {
    cli_member member;
    *end = '\0';
    const double epoch = number_of(text, "epoch");
    const double step = number_of(text, "step");
    const bool is_test = cli_json_find(text, "test_loss", &member);
    *end = '\n';
    if (epoch < 1) continue;
    if (is_test) return (int64_t)(step / epoch);
    if (before >= 1 && epoch > before) return (int64_t)(steps / before);
    before = epoch;
    steps = step;
  }
  return 0;
}

static int64_t count_total(const cli_history *history) {
  if (history->config == NULL) return 0;
  const double steps = number_of(history->config, "steps");
  const double epochs = number_of(history->config, "epochs");
  const double by_epochs = epochs * (double)count_epoch_steps(history);
  const double least =
      steps > 0 && (by_epochs <= 0 || steps < by_epochs) ? steps : by_epochs;
  return least > 0 && least < 1e15 ? (int64_t)least : 0;
}

// Returns true while a process holds the lock of the folder.
static bool is_locked(const char *folder) {
  char path[PATH_MAX];
  if (snprintf(path, sizeof(path), "%s/lock", folder) >= (int)sizeof(path))
    return false;
  const int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return false;
  // A file system without locks fails in another way.
  const bool locked =
      flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(file);
  return locked;
}

// Estimates the time left by the pace of the last lines of steps.
static double estimate_left(const cli_history *history) {
  enum { RECENT = 8 };
  const int64_t left = history->total_steps - history->step;
  const cli_run_budget *budget = &history->budget;
  if (history->total_steps <= 0 || left <= 0) return NAN;
  const cli_series *pace = cli_history_series(history, "examples_per_second");
  const double batch =
      history->config != NULL ? number_of(history->config, "batch_size") : 0;
  double sum = 0;
  size_t count = 0;
  for (size_t i = pace != NULL ? pace->count : 0; i > 0 && count < RECENT; --i)
    if (pace->values[i - 1] > 0) {
      sum += batch / pace->values[i - 1];
      ++count;
    }
  if (count > 0 && sum > 0) return (double)left * sum / (double)count;
  return budget->steps > 0
             ? (double)left * budget->whole / (double)budget->steps
             : NAN;
}

static void find_state(cli_history *history) {
  history->total_steps = count_total(history);
  history->seconds_left = estimate_left(history);
  if (is_locked(history->folder))
    history->state = CLI_RUN_RUNNING;
  else if (history->num_lines == 0)
    history->state = CLI_RUN_EMPTY;
  else if (history->total_steps > 0 && history->step >= history->total_steps)
    history->state = CLI_RUN_COMPLETE;
  else
    history->state = CLI_RUN_ENDED;
}

// ---- Event files -----------------------------------------------------------
CLI_OWNED_POINTER(ls_event_numbers, ls_event_numbers_destroy)

// Adds the numbers of a folder's event files, with `prefix` before their tags,
// which the first `known` series do not have.
static ls_status add_events(cli_history *history, const char *folder,
                            const char *prefix, size_t known) {
  CLI_OWN(ls_event_numbers, numbers) = NULL;
  LS_RETURN_IF_ERROR(ls_events_read(folder, NULL, &numbers));
  double first = 0;
  for (size_t i = 0; i < numbers->count; ++i) {
    const ls_event_number *number = &numbers->items[i];
    const size_t size = strlen(prefix) + strlen(number->tag);
    CLI_OWN_ARRAY_OR_RETURN(char, name, size + 1);
    snprintf(name, size + 1, "%s%s", prefix, number->tag);
    if (find_series(history, name, size) < known) continue;
    LS_RETURN_IF_ERROR(
        add_value(history, name, size, (double)number->step, number->value));
    if (number->step > history->step) history->step = number->step;
    if (i == 0 || number->seconds < first) first = number->seconds;
    if (history->metrics == NULL && number->seconds - first > history->seconds)
      history->seconds = number->seconds - first;
  }
  history->num_lines += (int64_t)numbers->count;
  return ls_ok();
}

// Adds the evaluations in a subfolder, whose path ends in "eval" or
// "eval_NAME".
static ls_status add_evaluations(cli_history *history, const char *path,
                                 size_t known) {
  const char *name = strrchr(path, '/');
  char prefix[NAME_MAX + 2] = "test_";
  name = name != NULL ? name + 1 : path;
  if (strncmp(name, "eval_", 5) == 0 && name[5] != '\0')
    snprintf(prefix, sizeof(prefix), "%s_", name + 5);
  return add_events(history, path, prefix, known);
}

// Adds the numbers of the folder's event files, of metrics that it lacks.
static ls_status add_all_events(cli_history *history) {
  const size_t known = history->num_series;
  LS_RETURN_IF_ERROR(add_events(history, history->folder, "", known));
  // Names of folders are taken as they are, not as patterns.
  char pattern[2 * PATH_MAX];
  size_t used = 0;
  for (const char *at = history->folder; *at != '\0'; ++at) {
    if (used + 16 > sizeof(pattern)) return ls_ok();
    if (strchr("*?[\\", *at) != NULL) pattern[used++] = '\\';
    pattern[used++] = *at;
  }
  snprintf(pattern + used, sizeof(pattern) - used, "/eval*");
  glob_t found = {0};
  ls_status status = ls_ok();
  if (glob(pattern, 0, NULL, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc && ls_status_is_ok(status); ++i)
      status = add_evaluations(history, found.gl_pathv[i], known);
  globfree(&found);
  return status;
}

// ---- A run -----------------------------------------------------------------
static ls_status read_run(const char *folder, cli_history *out) {
  *out = (cli_history){.seconds_left = NAN};
  out->folder = cli_copy_text(folder, strlen(folder));
  if (out->folder == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(cli_read_text(folder, "config.json", &out->config, NULL));
  const bool is_model = out->config != NULL;
  if (!is_model)
    LS_RETURN_IF_ERROR(
        cli_read_text(folder, "estimator.json", &out->config, NULL));
  LS_RETURN_IF_ERROR(
      cli_read_text(folder, "metrics.jsonl", &out->metrics, NULL));
  LS_RETURN_IF_ERROR(read_lines(out));
  // An estimator's functions may have written more.
  out->of_events = !is_model && (out->config != NULL || out->metrics == NULL);
  if (out->of_events) LS_RETURN_IF_ERROR(add_all_events(out));
  if (out->config == NULL && out->metrics == NULL && out->num_lines == 0)
    return cli_note_seeds(
        folder,
        ls_not_found("'%s' is no run folder: it has neither config.json "
                     "nor metrics.jsonl, nor event files",
                     folder));
  find_state(out);
  return ls_ok();
}

void cli_history_close(cli_history *history) {
  for (size_t i = 0; i < history->num_series; ++i) {
    cli_release(history->series[i].name);
    cli_release(history->series[i].steps);
    cli_release(history->series[i].values);
  }
  cli_release(history->series);
  cli_release(history->metrics);
  cli_release(history->config);
  cli_release(history->folder);
  *history = (cli_history){0};
}

ls_status cli_histories_read(const char *const *folders, size_t count,
                             cli_histories *out) {
  *out = (cli_histories){0};
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(cli_recover_run(folders[i]));
  CLI_SET_ARRAY_OR_RETURN(out->items, count);
  for (; out->count < count; ++out->count) {
    cli_history *history = &out->items[out->count];
    const ls_status status = read_run(folders[out->count], history);
    if (ls_status_is_ok(status)) continue;
    cli_history_close(history);
    return status;
  }
  return ls_ok();
}

void cli_histories_close(cli_histories *histories) {
  for (size_t i = 0; i < histories->count; ++i)
    cli_history_close(&histories->items[i]);
  cli_release(histories->items);
  *histories = (cli_histories){0};
}
