// SPDX-License-Identifier: Apache-2.0
// Sections of `lockstep report`: each writes HTML.
#ifndef LS_CLI_LOOK_REPORT_H_
#define LS_CLI_LOOK_REPORT_H_

#include "cli/look/classify.h"
#include "cli/look/page.h"

// Saved values in a run's folder.
typedef struct cli_saves {
  int64_t *steps;  // Steps of its checkpoints.
  double *bytes;   // Size of each.
  size_t count;
  double model_bytes;  // Size of model.safetensors; 0: there is none.
} cli_saves;

typedef struct cli_report_data {
  cli_histories runs;
  bool log;                     // Logarithmic charts.
  cli_saves *saves;             // For each run.
  cli_classes_result *classes;  // For each run.
} cli_report_data;

void cli_report_summary(FILE *out, const cli_report_data *data);
ls_status cli_report_curves(FILE *out, const cli_report_data *data);
void cli_report_metrics(FILE *out, const cli_report_data *data);
void cli_report_config(FILE *out, const cli_report_data *data);
void cli_report_times(FILE *out, const cli_report_data *data);
void cli_report_classes(FILE *out, const cli_report_data *data);

#endif  // LS_CLI_LOOK_REPORT_H_
