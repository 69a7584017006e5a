// SPDX-License-Identifier: Apache-2.0
// The ranks of which this process is one, if a launcher has started it.
#ifndef LS_CLI_RANKS_H_
#define LS_CLI_RANKS_H_

#include "cli/cli.h"

// Refuses a command that runs in one process, if a launcher has started
// several. Returns true if it may run.
bool cli_is_alone(const char *command);

// Connects the ranks, if a launcher has started several. Reports a failure.
bool cli_ranks_open(const char *command);
// Refuses command lines of which some have a flag and others do not or, of some
// flags, have another value, if it changes what all ranks do: those that choose
// or resume a run, and others. Returns an exit code.
int cli_ranks_compare(const char *command, int argc, char **argv);
// Ends this rank, after its runtime; returns the exit code.
int cli_ranks_close(const char *command, int code);

// A process that a thread is, as a simulated rank.
typedef struct cli_process {
  ls_communicator *ranks;
  uint64_t num_exchanges;  // Exchanges of this program.
  // Base of its runtimes' options: clock, files, environment. NULL: this is the
  // real process.
  const ls_runtime_options *simulated;
  FILE *output;  // Gets what it prints; NULL: standard output and error do.
} cli_process;
// Makes this thread a process until it enters another one; NULL: the real one.
void cli_process_enter(cli_process *process);
const cli_process *cli_process_current(void);
// Returns true if a file or folder exists.
bool cli_exists(const char *path);
// Returns the stream for messages, or for results.
FILE *cli_messages(void);
FILE *cli_results(void);

// Returns the connection; NULL: this process is alone.
ls_communicator *cli_ranks(void);
// Returns true on the rank that prints and writes files.
bool cli_leads(void);
// Decides, on rank 0, how a run goes on that `lockstep launch` has started
// again, or whose `*resume` is "auto": from its newest checkpoint, then
// `*run_folder` becomes `*resume`; or anew if it has none yet. Returns an exit
// code; reports a failure.
typedef enum cli_restart {
  CLI_NO_RESTART,
  CLI_RESUMES,
  CLI_BEGINS_ANEW,
} cli_restart;
int cli_ranks_restart(const char *command, const char **run_folder,
                      const char **resume, cli_restart *out_how);

// Makes a failure of one rank before training that of all: returns OK if no
// rank has failed, else this rank's own failure, or CANCELLED if a lower rank
// has failed, too, or this one has not.
ls_status cli_ranks_agree(ls_status own);
// Gathers `size` bytes of each rank: `all` is a block for each.
ls_status cli_ranks_gather(void *all, size_t size);
// Copies rank 0's text of `size` bytes to all.
ls_status cli_ranks_send(char *text, size_t size);
// Returns the exit code of a training that was stopped: that of the signal, on
// all ranks even if one alone got it.
int cli_ranks_stopped(void);
// Returns true if another rank tells of a failure: of the ranks that fail alike
// the first one does. Otherwise the others learn of it, with this text.
bool cli_is_told_elsewhere(const char *text);

#endif  // LS_CLI_RANKS_H_
