// SPDX-License-Identifier: Apache-2.0
// Where people look: a line on standard error that tells how far a run is.
#ifndef LS_CLI_TERMINAL_H_
#define LS_CLI_TERMINAL_H_

#include "cli/cli.h"

// Whether a line can be rewritten there: by a terminal that knows how.
bool cli_can_rewrite(const ls_runtime *runtime);
// How wide it is now; 0: nobody knows.
int cli_columns(void);

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
