// SPDX-License-Identifier: Apache-2.0
// Steps of a run made again, in memory, and compared with what it recorded.
#ifndef LS_CLI_AGAIN_REPLAY_H_
#define LS_CLI_AGAIN_REPLAY_H_

#include "cli/compare/compare.h"
#include "cli/estimator.h"
#include "cli/train/train_flags.h"

// ---- Breakpoints -----------------------------------------------------------
// The step at which a run is stopped; step 0: none.
typedef struct cli_breakpoint {
  const char *folder;  // Folder of its files.
  int64_t step;
} cli_breakpoint;

// Writes the variables before the step. Called after the step before it.
ls_status cli_breakpoint_before(const cli_breakpoint *at,
                                const cli_again *again);
// Writes the batch and the gradients of the step: makes it once more, from the
// variables before it, with its gradients kept. Prints the largest ones. Called
// after the step.
//   LS_UNIMPLEMENTED  a model without an ls_optimizer; names it.
//   LS_INTERNAL       the step came to other values the second time.
ls_status cli_breakpoint_after(const cli_breakpoint *at, const cli_again *again,
                               const ls_run_context *context);

// ---- Replays ---------------------------------------------------------------
typedef struct cli_replaying {
  train_flags flags;
  const ls_estimator_type *estimator;  // NULL: a model's run.
  const char *folder;
  int64_t from, to;  // Steps. -1: the start, and the last step recorded.
  int64_t began;     // The step of the checkpoint.
  cli_breakpoint breakpoint;
  // Records of the run: its checkpoints, and its lines of metrics.
  int64_t *steps;
  size_t num_steps, at_step;
  char *text;
  const char *at_text;
  cli_line recorded;
  cli_line made;  // The last line made again.
  cli_again again;
  // Results: numbers of equal lines and checkpoints, the step up to which all
  // is equal.
  int64_t lines, checkpoints, equal;
  bool differs;
  bool goes_on;     // Past the last step recorded, to a NaN, spike or the end.
  int64_t reached;  // The last step made.
  int64_t spike;  // Step of a loss above --find-spike; 0: none.
} cli_replaying;

// Rows of flags for `flags`.
#define CLI_REPLAY_OPTIONS(flags)                                              \
  CLI_ROW("model", CLI_TEXT, &(flags)->asked.model, "PATH",                    \
          "the run's shared library of models or estimators, which is loaded " \
          "only if it is named here"),                                         \
      CLI_ROW("optimizer", CLI_TEXT, &(flags)->asked.optimizer, "PATH",        \
              "the shared library of its --optimizer, likewise"),              \
      CLI_ROW("data", CLI_TEXT, &(flags)->asked.data, "PATH",                  \
              "the new place of the run's data"),                              \
      CLI_ROW("test", CLI_TEXT, &(flags)->asked.test, "PATH",                  \
              "the new place of its test data"),                               \
      CLI_THREADS_OPTION(&(flags)->asked.threads), CLI_DEVICE_OPTIONS,         \
      CLI_FIND_NAN_OPTION, CLI_TRACE_OPTION(&(flags)->trace),                  \
      CLI_ROW("quiet", CLI_FLAG, &(flags)->quiet, NULL, "show no progress")

// Initializes the state for a command; it must not move afterwards.
void cli_replay_init(cli_replaying *r, const char *command);
// Parses the words of a command as cli_parse does, and finds the estimator of
// the run.
bool cli_replay_parse(const cli_syntax *syntax, int argc, char **argv,
                      cli_replaying *r, int *out_code);
// Makes the steps again and prints the first difference, or what is equal;
// returns an exit code. May be called again with other steps.
int cli_replay_steps(const cli_syntax *syntax, cli_replaying *r);

#endif  // LS_CLI_AGAIN_REPLAY_H_
