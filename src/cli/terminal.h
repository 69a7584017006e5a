// SPDX-License-Identifier: Apache-2.0
// The progress line on standard error.
#ifndef LS_CLI_TERMINAL_H_
#define LS_CLI_TERMINAL_H_

#include "cli/cli.h"

// Returns true if standard error is a terminal that can rewrite a line.
bool cli_can_rewrite(const ls_runtime *runtime);
// Returns the terminal's current width; 0 if unknown.
int cli_columns(void);

// Writes progress to standard error: a text without newline leaves the line
// open, to be rewritten. Thread-safe, like cli_clear_progress.
void cli_show_progress(const char *text);
// Clears an open line, so that the next output has a line of its own.
void cli_clear_progress(void);

// Prints "step 120/1000, loss 0.5120, 340 steps/s, eta 0:03": on a terminal
// rewrites the line up to ten times a second, else prints a line every 5
// seconds. Initialize to zero except `terminal`.
typedef struct cli_ticker {
  bool terminal;
  bool line_open;
  double began, next;  // Seconds.
} cli_ticker;
void cli_ticker_begin(cli_ticker *ticker);
bool cli_ticker_due(const cli_ticker *ticker);
// Shows progress of a run that began at step `first` and ends at `all` (0:
// unknown).
typedef struct cli_place {
  int64_t step, first, all;
  double loss;
} cli_place;
void cli_ticker_show(cli_ticker *ticker, const cli_place *place);
// Ends the line if one is open.
void cli_ticker_end(cli_ticker *ticker);

#endif  // LS_CLI_TERMINAL_H_
