// SPDX-License-Identifier: Apache-2.0
// The commands of `lockstep checkpoint`.
#ifndef LS_CLI_CHECKPOINT_H_
#define LS_CLI_CHECKPOINT_H_

#include "cli/cli.h"
#include "cli/words.h"

enum { LS_CLI_CHECKPOINT_COMMANDS = 5 };
int cli_checkpoint_list(int argc, char **argv);
int cli_checkpoint_show(int argc, char **argv);
int cli_checkpoint_diff(int argc, char **argv);
int cli_checkpoint_verify(int argc, char **argv);
int cli_checkpoint_convert(int argc, char **argv);

// ---- For all of them -------------------------------------------------------
// Allocates an array for the operands of `argc` words; NULL without memory.
// Free it with cli_release.
const char **cli_checkpoint_paths(int argc);
// Lists the steps of a folder's checkpoints. Free the list with cli_release.
ls_status cli_checkpoint_steps(const char *folder, int64_t **out_steps,
                               size_t *out_count);
// Formats a size, such as "1.5 MB".
void cli_print_bytes(double bytes, char *text, size_t size);

#endif  // LS_CLI_CHECKPOINT_H_
