// SPDX-License-Identifier: Apache-2.0
// Curves of an estimator's folder, which has event files in place of
// metrics.jsonl: those of training in the folder, of evaluations in "eval" and
// "eval_NAME".
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/look/history.h"

CLI_OWNED_POINTER(ls_event_numbers, ls_event_numbers_destroy)

// Adds the numbers of a folder's event files, with `prefix` before their tags.
static ls_status add_events(cli_history *history, const char *folder,
                            const char *prefix) {
  CLI_OWN(ls_event_numbers, numbers) = NULL;
  LS_RETURN_IF_ERROR(ls_events_read(folder, NULL, &numbers));
  double first = 0;
  for (size_t i = 0; i < numbers->count; ++i) {
    const ls_event_number *number = &numbers->items[i];
    char name[2 * CLI_SERIES_NAME];
    snprintf(name, sizeof(name), "%s%s", prefix, number->tag);
    LS_RETURN_IF_ERROR(
        cli_history_add(history, name, (double)number->step, number->value));
    if (number->step > history->step) history->step = number->step;
    if (i == 0 || number->seconds < first) first = number->seconds;
    if (number->seconds - first > history->seconds)
      history->seconds = number->seconds - first;
  }
  history->num_lines += (int64_t)numbers->count;
  return ls_ok();
}

// Adds the evaluations in a subfolder, whose path ends in "eval" or
// "eval_NAME".
static ls_status add_evaluations(cli_history *history, const char *path) {
  const char *name = strrchr(path, '/');
  char prefix[CLI_SERIES_NAME] = "test_";
  name = name != NULL ? name + 1 : path;
  if (strncmp(name, "eval_", 5) == 0 && name[5] != '\0')
    snprintf(prefix, sizeof(prefix), "%s_", name + 5);
  return add_events(history, path, prefix);
}

ls_status cli_history_add_events(cli_history *history) {
  LS_RETURN_IF_ERROR(add_events(history, history->folder, ""));
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
      status = add_evaluations(history, found.gl_pathv[i]);
  globfree(&found);
  return status;
}
