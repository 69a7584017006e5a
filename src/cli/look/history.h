// SPDX-License-Identifier: Apache-2.0
// History of a run, read from its folder: configuration, curves, progress, and
// where its time went. The folder is untrusted: lines that are no metrics are
// counted and skipped.
#ifndef LS_CLI_LOOK_HISTORY_H_
#define LS_CLI_LOOK_HISTORY_H_

#include "cli/cli.h"

// Most metrics of a run: a limit for files that are no metrics.
enum { CLI_MOST_SERIES = 4096 };

// Values of one metric over steps. Values that are no finite number, which
// metrics.jsonl has as null, are NaN.
typedef struct cli_series {
  char *name;
  double *steps, *values;
  size_t count, room;
  size_t num_missing;  // Values that are NaN.
} cli_series;

typedef enum cli_run_state {
  CLI_RUN_EMPTY,     // No step yet.
  CLI_RUN_ENDED,     // Ended before its last step, or that is unknown.
  CLI_RUN_COMPLETE,  // Made all its steps.
  CLI_RUN_RUNNING,   // A process is writing to the folder.
} cli_run_state;

// Seconds of all recorded steps, by cause.
typedef struct cli_run_budget {
  double whole, compute, input, collective, host, save, rest;
  int64_t steps;
} cli_run_budget;

// A part of a run's time.
typedef struct cli_time_part {
  const char *name;
  double seconds;
} cli_time_part;
enum { CLI_TIME_PARTS = 6 };
void cli_list_times(const cli_run_budget *budget,
                    cli_time_part parts[CLI_TIME_PARTS]);

typedef struct cli_history {
  char *folder;   // As the user named it.
  char *config;   // Text of config.json or estimator.json; NULL: none.
  char *metrics;  // Text of metrics.jsonl; NULL: none.
  cli_series *series;
  size_t num_series, series_room;
  size_t next_series;  // Number of the one that the next value is likely of.
  // Lines of metrics, or numbers of event files, and lines that are neither.
  int64_t num_lines, num_garbage;
  bool of_events;  // An estimator's folder, which has event files.
  cli_run_state state;
  int64_t step, epoch;  // Position of the last line.
  int64_t total_steps;  // Steps that the run is to make; 0: unknown.
  double seconds;       // Duration up to the last line.
  double seconds_left;  // Estimate; NaN: unknown.
  cli_run_budget budget;
} cli_history;

void cli_history_close(cli_history *history);  // Accepts zeroed histories.
CLI_OWNED_STRUCT(cli_history, cli_history_close)

// Histories of several runs.
typedef struct cli_histories {
  cli_history *items;
  size_t count;
} cli_histories;
// Recovers the runs in the folders, and reads them. The caller closes `*out`,
// also after a failure. A runtime is current.
//   LS_NOT_FOUND         a folder has neither config.json nor metrics.jsonl nor
//                        event files.
//   LS_INVALID_ARGUMENT  a run has more than CLI_MOST_SERIES metrics.
ls_status cli_histories_read(const char *const *folders, size_t count,
                             cli_histories *out);
void cli_histories_close(cli_histories *histories);
CLI_OWNED_STRUCT(cli_histories, cli_histories_close)

// Returns the series of a metric; NULL if the run has none.
const cli_series *cli_history_series(const cli_history *history,
                                     const char *name);
// Returns the last value; NaN if there is none.
double cli_series_last(const cli_series *series);
// Finds the best value, by the metric's name: the largest accuracy, the least
// loss. Returns false if no value is finite, or the name tells no direction.
bool cli_series_best(const cli_series *series, double *out_step,
                     double *out_value);

// Copies an entry of config.json as plain text, "" if there is none.
void cli_history_entry(const cli_history *history, const char *key, char *text,
                       size_t size);
// Writes the configuration in some words: "mlp on synthetic, batch size 256,
// sgd, learning rate 0.1 linear, seed 0, 2 replicas".
void cli_history_describe(const cli_history *history, char *text, size_t size);
// Writes the progress: "complete, 96 steps in 0:08".
void cli_history_progress(const cli_history *history, char *text, size_t size);
// Writes where the time went: "compute 97%, input 2%, save 1%"; "" if unknown.
void cli_history_times(const cli_history *history, char *text, size_t size);
// Returns "empty", "ended", "complete" or "running".
const char *cli_run_state_name(cli_run_state state);

#endif  // LS_CLI_LOOK_HISTORY_H_
