// SPDX-License-Identifier: Apache-2.0
#include "cli/ranks.h"

#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lockstep/communicator.h"
#include "lockstep/mpi.h"

static ls_communicator *ranks;

// Names of this program's own exchanges.
static ls_exchange_name next_name(void) {
  static uint64_t count;
  return (ls_exchange_name){.program = {UINT64_C(0x636c69)},
                            .iteration = count++,
                            .merge = UINT32_MAX - 5};
}

ls_communicator *cli_ranks(void) { return ranks; }

bool cli_leads(void) { return ranks == NULL || ranks->rank == 0; }

static int32_t find_failed(void) {
  return __atomic_load_n(&ranks->failed_rank, __ATOMIC_ACQUIRE);
}

// ---- Life ------------------------------------------------------------------
bool cli_is_alone(const char *command) {
  const ls_mpi_launcher launcher = ls_mpi_find_launcher(NULL);
  if (launcher.name == NULL || launcher.ranks <= 1) return true;
  cli_say(command, "this command runs in one process: %s has started %d",
          launcher.name, launcher.ranks);
  return false;
}

bool cli_ranks_open(const char *command) {
  const ls_mpi_launcher launcher = ls_mpi_find_launcher(NULL);
  if (launcher.name == NULL || launcher.ranks == 1) return true;
  ls_status status = ls_mpi_open(NULL, &ranks);
  if (ls_status_is_ok(status)) status = ls_communicator_share_cores(ranks);
  if (ls_status_is_ok(status)) return true;
  cli_report(command, status);
  return false;
}

// Lets the others end too, if this rank alone has failed.
static void tell_code(int code) {
  if (code == CLI_OK || code >= CLI_SIGNAL || find_failed() >= 0) return;
  ls_status status = LS_STATUS(LS_CANCELLED, "it ended with code %d", code);
  ranks->cancel(ranks, status);
  ls_status_free(status);
}

int cli_ranks_close(const char *command, int code) {
  if (ranks == NULL) return code;
  tell_code(code);
  const bool has_failed = find_failed() >= 0;
  ls_status status = ls_mpi_close(ranks);
  ranks = NULL;
  if (ls_status_is_ok(status)) return code;
  // After a failure, that one was reported.
  if (code == CLI_OK || !has_failed) return cli_report(command, status);
  ls_status_free(status);
  return code;
}

// ---- Agreement -------------------------------------------------------------
ls_status cli_ranks_gather(void *all, size_t size) {
  const ls_exchange_name name = next_name();
  return ls_communicator_gather(ranks, &name, all, size);
}

ls_status cli_ranks_agree(ls_status own) {
  if (ranks == NULL || ranks->failed_rank >= 0) return own;
  CLI_OWN_MEMORY(char, failed) = cli_allocate((size_t)ranks->ranks);
  if (failed == NULL) return ls_status_join(own, ls_out_of_memory());
  failed[ranks->rank] = !ls_status_is_ok(own);
  const ls_status status = cli_ranks_gather(failed, 1);
  if (!ls_status_is_ok(status)) return ls_status_join(own, status);
  const char *first = memchr(failed, 1, (size_t)ranks->ranks);
  if (first == NULL || first == failed + ranks->rank) return own;
  // Waits until that one tells of it.
  while (find_failed() < 0)
    (void)poll(NULL, 0, 1);
  return ls_status_is_ok(own) ? LS_STATUS(LS_CANCELLED, "rank %d has failed",
                                          (int)(first - failed))
                              : own;
}

ls_status cli_ranks_send(char *text, size_t size) {
  if (ranks == NULL) return ls_ok();
  const ls_exchange_name name = next_name();
  return ls_communicator_broadcast(ranks, &name, 0, text, size);
}

bool cli_is_told_elsewhere(const char *text) {
  enum { TURN_MS = 200, MOST_MS = 2000, LOOK_MS = 10 };
  if (ranks == NULL) return false;
  const int patience = ranks->rank * TURN_MS;
  // Lower ranks that fail alike come first.
  for (int waited = 0;
       find_failed() < 0 && waited < patience && waited < MOST_MS;
       waited += LOOK_MS)
    (void)poll(NULL, 0, LOOK_MS);
  if (find_failed() < 0) {
    ls_status status = LS_STATUS(LS_CANCELLED, "%s", text);
    ranks->cancel(ranks, status);
    ls_status_free(status);
  }
  return find_failed() != ranks->rank;
}

// ---- Restarts --------------------------------------------------------------
static bool was_restarted(const ls_runtime *runtime) {
  const char *text = ls_runtime_environment(runtime, "LS_RESTART");
  return text != NULL && atoi(text) > 0;
}

static bool has_checkpoint(const char *folder) {
  char path[PATH_MAX];
  struct stat info;
  const int size = snprintf(path, sizeof(path), "%s/checkpoint", folder);
  return size < (int)sizeof(path) && stat(path, &info) == 0;
}

bool cli_ranks_restart(const char *command, const char **run_folder,
                       const char **resume, cli_restart *out_how) {
  char how = CLI_NO_RESTART;
  ls_runtime *runtime = NULL;
  ls_status status = cli_runtime_open(1, NULL, &runtime);
  const bool is_auto = *resume != NULL && strcmp(*resume, "auto") == 0;
  const bool is_again =
      is_auto || (ls_status_is_ok(status) && was_restarted(runtime));
  if (is_auto) *resume = NULL;
  if (is_again && *run_folder == NULL && *resume == NULL)
    status = ls_invalid_argument("%s needs --run-dir, to find the run",
                                 is_auto ? "--resume auto" : "a restart");
  if (is_again && *run_folder != NULL)
    how = has_checkpoint(*run_folder) ? CLI_RESUMES : CLI_BEGINS_ANEW;
  if (ls_status_is_ok(status)) status = cli_ranks_send(&how, sizeof(how));
  *out_how = (cli_restart)how;
  if (how == CLI_RESUMES) {
    *resume = *run_folder;
    *run_folder = NULL;
  }
  const int code =
      ls_status_is_ok(status) ? CLI_OK : cli_report(command, status);
  return cli_runtime_close(command, runtime, code) == CLI_OK;
}
