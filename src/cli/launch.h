// SPDX-License-Identifier: Apache-2.0
// Parts of `lockstep launch`: the starter and its ranks.
#ifndef LS_CLI_LAUNCH_H_
#define LS_CLI_LAUNCH_H_

#include "cli/cli.h"

// The line in which a rank says how it has ended: its number, and its status as
// waitpid gives it.
#define CLI_RANK_ENDED "\001lockstep rank %lld ended: %d"

// Runs a program as one of the ranks that `lockstep launch` has started, and
// says how it ends. The program is told by LS_RESTART how often it was started
// before. Returns the exit code.
int cli_run_as_rank(char **program, int64_t restart);

#endif  // LS_CLI_LAUNCH_H_
