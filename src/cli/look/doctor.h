// SPDX-License-Identifier: Apache-2.0
// Checks of a machine: each adds findings.
#ifndef LS_CLI_LOOK_DOCTOR_H_
#define LS_CLI_LOOK_DOCTOR_H_

#include "cli/cli.h"

typedef enum cli_level {
  CLI_LEVEL_OK,
  CLI_LEVEL_NOTE,     // Could be better, or is missing for some uses.
  CLI_LEVEL_PROBLEM,  // Prevents training.
} cli_level;

typedef struct cli_finding {
  cli_level level;
  const char *subject;  // Static.
  char text[320];
  char advice[320];  // Tells what to do; "": nothing.
} cli_finding;

enum { CLI_MOST_FINDINGS = 40 };
typedef struct cli_checkup {
  const ls_runtime *runtime;  // NULL: none can be created.
  cli_finding items[CLI_MOST_FINDINGS];
  size_t count;
} cli_checkup;

// Adds a finding and returns it, so that the caller can give advice.
cli_finding *cli_find(cli_checkup *checkup, cli_level level,
                      const char *subject, const char *format, ...)
    LS_PRINTF(4, 5);
void cli_advise(cli_finding *finding, const char *format, ...) LS_PRINTF(2, 3);

// Calls `read` for the folder of each control group of this process, of both
// versions, of a controller such as "memory", from the innermost on; returns
// the least result; INFINITY if there is no limit.
double cli_least_of_groups(const char *controller,
                           double (*read)(const char *folder));
// Reads the number above 0 in a file of a group; INFINITY if there is none.
double cli_group_number(const char *folder, const char *name);
// Returns the memory that the control groups allow (room.c).
double cli_group_limit(void);

// ---- Checks ----------------------------------------------------------------
void cli_check_processors(cli_checkup *checkup);
void cli_check_kernels(cli_checkup *checkup);
void cli_check_memory(cli_checkup *checkup);
void cli_check_limits(cli_checkup *checkup);
void cli_check_disk(cli_checkup *checkup);
void cli_check_mpi(cli_checkup *checkup);
void cli_check_plugins(cli_checkup *checkup);
void cli_check_examples(cli_checkup *checkup);
void cli_check_training(cli_checkup *checkup);

#endif  // LS_CLI_LOOK_DOCTOR_H_
