// SPDX-License-Identifier: Apache-2.0
// What lockstep train was asked for, and the configuration that comes of it.
#ifndef LS_CLI_TRAIN_FLAGS_H_
#define LS_CLI_TRAIN_FLAGS_H_

#include "cli/cli.h"

// What was asked for. A zero, or -1 as `seed` or `keep`, is not given.
typedef struct train_flags {
  ls_train_config asked;
  const char *run_folder, *resume, *trace, *events, *tpu;
  int64_t save_seconds, save_steps, grace, iterations;
  bool overwrite, quiet, inexact;
  bool estimator;  // Never here: others read it.
} train_flags;

// Whether the flags go together; says what does not.
bool cli_train_check(train_flags *flags);
// Whether what was asked for is what the run has; says so if not. A run may
// become longer and have other threads, and its data another place. Its model
// is for cli_run_model.
bool cli_train_agrees(const cli_syntax *syntax, const train_flags *flags,
                      const ls_train_config *config);

// A new run's configuration: what was asked for, and defaults.
ls_train_config cli_train_fresh(const train_flags *flags);
// The run's configuration, with its model, to another end and with data in
// another place if that was asked for.
ls_train_config cli_train_resumed(const cli_syntax *syntax,
                                  const train_flags *flags,
                                  const ls_train_config *resumed,
                                  const char *model);

#endif  // LS_CLI_TRAIN_FLAGS_H_
