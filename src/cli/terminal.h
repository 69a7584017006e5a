// SPDX-License-Identifier: Apache-2.0
// Progress line on standard error.
#ifndef LS_CLI_TERMINAL_H_
#define LS_CLI_TERMINAL_H_

#include "cli/cli.h"

// Returns true if a line can be rewritten there, on a capable terminal.
bool cli_can_rewrite(const ls_runtime *runtime);
// Returns its current width; 0: unknown.
int cli_columns(void);

// Writes progress to standard error: a text without a newline at its end leaves
// its line open, to be rewritten. Thread-safe, as the next one.
void cli_show_progress(const char *text);
// Clears an open line, so that the next output has a line of its own.
void cli_clear_progress(void);

// "step 120/1000, loss 0.5120, 340 steps/s, eta 0:03", at most ten times a
// second on a terminal, where the line is rewritten, else each 5 seconds.
// Zeroed but for `terminal`.
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
// Ends the line, if there is one.
void cli_ticker_end(cli_ticker *ticker);

#endif  // LS_CLI_TERMINAL_H_
