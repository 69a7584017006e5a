// SPDX-License-Identifier: Apache-2.0
#include "cli/look/canvas.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

char cli_curve_mark(size_t index) {
  static const char marks[] = "ox+#@%&=";
  return index == 0 ? '\0' : marks[(index - 1) % (sizeof(marks) - 1)];
}

static cli_panel *find_panel(cli_panels *panels, const char *name) {
  for (size_t i = 0; i < panels->count; ++i)
    if (strcmp(panels->items[i].name, name) == 0) return &panels->items[i];
  return NULL;
}

// Adds a curve to the panel of its metric, after making that.
static ls_status add_curve(cli_panels *panels, const cli_series *series,
                           const char *folder, size_t run, size_t most) {
  const char *name = series->name;
  if (!panels->compares && strncmp(name, "test_", 5) == 0) name += 5;
  cli_panel *panel = find_panel(panels, name);
  if (panel == NULL) {
    panel = &panels->items[panels->count++];
    panel->name = name;
    CLI_SET_ARRAY_OR_RETURN(panel->curves, most);
  }
  const size_t index = panels->compares ? run : panel->num_curves;
  panel->curves[panel->num_curves++] =
      (cli_curve){.label = panels->compares ? folder : series->name,
                  .series = series,
                  .color = (int)(index % CLI_NUM_COLORS) + 1,
                  .mark = cli_curve_mark(index),
                  .points = !panels->compares && index > 0};
  cli_range_add(&panels->steps, series->steps, series->count);
  return ls_ok();
}

ls_status cli_panels_check(const cli_histories *histories,
                           const cli_words *only) {
  for (size_t k = 0; k < only->count; ++k) {
    char all[512] = "none";
    bool found = false;
    for (size_t r = 0; r < histories->count && !found; ++r) {
      const cli_history *history = &histories->items[r];
      for (size_t i = 0; i < history->num_series; ++i) {
        const char *name = history->series[i].name;
        found |= fnmatch(only->items[k], name, FNM_NOESCAPE) == 0;
        const size_t used = i > 0 ? strlen(all) : 0;
        snprintf(all + used, sizeof(all) - used, "%s%s", i > 0 ? ", " : "",
                 name);
      }
    }
    if (!found)
      return ls_not_found("there is no metric '%s' in '%s'; there are: %s",
                          only->items[k],
                          histories->items[histories->count - 1].folder, all);
  }
  return ls_ok();
}

ls_status cli_panels_make(const cli_histories *histories, const cli_words *only,
                          cli_panels *out) {
  *out = (cli_panels){.steps = {NAN, NAN}, .compares = histories->count > 1};
  size_t count = 0;
  for (size_t r = 0; r < histories->count; ++r)
    count += histories->items[r].num_series;
  CLI_SET_ARRAY_OR_RETURN(out->items, count);
  const size_t most = histories->count > 1 ? histories->count : 2;
  for (size_t r = 0; r < histories->count; ++r) {
    const cli_history *history = &histories->items[r];
    for (size_t i = 0; i < history->num_series; ++i)
      if (cli_words_fit(only, history->series[i].name))
        LS_RETURN_IF_ERROR(
            add_curve(out, &history->series[i], history->folder, r, most));
  }
  // Axes begin at step 0, unless the run went on from a late one.
  const bool is_late =
      out->steps.low > out->steps.high / 2 && out->steps.low < out->steps.high;
  if (out->steps.low > 0 && !is_late) out->steps.low = 0;
  return ls_ok();
}

void cli_panels_close(cli_panels *panels) {
  for (size_t i = 0; i < panels->count; ++i)
    cli_release(panels->items[i].curves);
  cli_release(panels->items);
  *panels = (cli_panels){0};
}
