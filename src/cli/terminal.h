// SPDX-License-Identifier: Apache-2.0
// Where people look: a line on standard error that tells how far a run is.
#ifndef LS_CLI_TERMINAL_H_
#define LS_CLI_TERMINAL_H_

#include "cli/cli.h"

// Whether a line can be rewritten there: by a terminal that knows how.
bool cli_can_rewrite(const ls_runtime *runtime);
// How wide it is now; 0: nobody knows.
int cli_columns(void);

// Writes progress to standard error: a text without a newline at its end leaves
// its line open, to be rewritten. Thread-safe, as the next one.
void cli_show_progress(const char *text);
// Clears a line that is open: what is written next has a line of its own.
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
// The run began with `first` steps and ends with `all`; 0: nobody knows.
typedef struct cli_place {
  int64_t step, first, all;
  double loss;
} cli_place;
void cli_ticker_show(cli_ticker *ticker, const cli_place *place);
// Ends the line, if there is one.
void cli_ticker_end(cli_ticker *ticker);

#endif  // LS_CLI_TERMINAL_H_
