// SPDX-License-Identifier: Apache-2.0
// Panels: which curves stand in one chart. Those of a single run have training
// and test values together; those of several runs compare one metric.
#ifndef LS_CLI_LOOK_PANELS_H_
#define LS_CLI_LOOK_PANELS_H_

#include "cli/look/canvas.h"
#include "cli/words.h"

typedef struct cli_panel {
  char name[CLI_SERIES_NAME];
  cli_curve *curves;
  size_t num_curves;
} cli_panel;

typedef struct cli_panels {
  cli_panel *items;
  size_t count;
  cli_range steps;  // Range of the steps of all curves.
  bool log;         // Logarithmic values, where all are above 0; by the caller.
  bool compares;    // There are several runs, whose names label curves.
} cli_panels;

// Makes panels of the metrics that fit `only`. The series are lent, so the
// histories must outlive the panels.
//   LS_NOT_FOUND  a pattern of `only` fits no metric: lists them.
ls_status cli_panels_make(const cli_histories *histories, const cli_words *only,
                          cli_panels *out);
void cli_panels_close(cli_panels *panels);  // Accepts zeroed panels.
CLI_OWNED_STRUCT(cli_panels, cli_panels_close)

// Returns the mark of a run's curves, or of the k-th curve of a panel, where
// colors do not tell them apart; 0 for the first: dots.
char cli_curve_mark(size_t index);

#endif  // LS_CLI_LOOK_PANELS_H_
