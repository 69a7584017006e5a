// SPDX-License-Identifier: Apache-2.0
#include "cli/ranks.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lockstep/communicator.h"
#include "lockstep/mpi.h"

static cli_process real_process;
static _Thread_local cli_process *simulated_process;

// ---- The process -----------------------------------------------------------
static cli_process *find_process(void) {
  return simulated_process != NULL ? simulated_process : &real_process;
}

void cli_process_enter(cli_process *process) { simulated_process = process; }

const cli_process *cli_process_current(void) { return find_process(); }

FILE *cli_messages(void) {
  FILE *output = find_process()->output;
  return output != NULL ? output : stderr;
}

FILE *cli_results(void) {
  FILE *output = find_process()->output;
  return output != NULL ? output : stdout;
}

bool cli_exists(const char *path) {
  const ls_runtime_options *simulated = find_process()->simulated;
  struct stat info;
  bool exists = false;
  if (simulated == NULL) return lstat(path, &info) == 0;
  const ls_file_system *files = simulated->file_system;
  ls_status_free(files->exists(files->user, path, &exists));
  return exists;
}

static void rest(int millis) {
  const ls_runtime_options *simulated = find_process()->simulated;
  if (simulated == NULL)
    (void)poll(NULL, 0, millis);
  else
    simulated->clock->sleep(simulated->clock->user, millis * INT64_C(1000000));
}

// Names this program's own exchanges.
static ls_exchange_name next_name(void) {
  return (ls_exchange_name){.program = {UINT64_C(0x636c69)},
                            .iteration = find_process()->num_exchanges++,
                            .merge = UINT32_MAX - 5};
}

ls_communicator *cli_ranks(void) { return find_process()->ranks; }

bool cli_leads(void) { return cli_ranks() == NULL || cli_ranks()->rank == 0; }

static int32_t find_failed(void) {
  return __atomic_load_n(&cli_ranks()->failed_rank, __ATOMIC_ACQUIRE);
}

// ---- Life ------------------------------------------------------------------
bool cli_is_alone(const char *command) {
  const ls_mpi_launcher launcher = ls_mpi_find_launcher(NULL);
  if (launcher.name == NULL || launcher.ranks <= 1) return true;
  return cli_refuse(command,
                    "this command runs in one process: %s has started %d",
                    launcher.name, launcher.ranks);
}

bool cli_ranks_open(const char *command) {
  const ls_mpi_launcher launcher = ls_mpi_find_launcher(NULL);
  if (launcher.name == NULL || launcher.ranks == 1) return true;
  ls_status status = ls_mpi_open(NULL, &real_process.ranks);
  if (ls_status_is_ok(status))
    status = ls_communicator_share_cores(real_process.ranks);
  if (ls_status_is_ok(status)) return true;
  cli_report(command, status);
  return false;
}

// Lets the others end too, if this rank alone has failed.
static void tell_code(int code) {
  if (code == CLI_OK || code >= CLI_SIGNAL || find_failed() >= 0) return;
  ls_status status = LS_STATUS(LS_CANCELLED, "it ended with code %d", code);
  cli_ranks()->cancel(cli_ranks(), status);
  ls_status_free(status);
}

int cli_ranks_close(const char *command, int code) {
  ls_communicator *ranks = cli_ranks();
  if (ranks == NULL) return code;
  tell_code(code);
  if (find_process()->simulated != NULL) return code;
  const bool has_failed = find_failed() >= 0;
  ls_status status = ls_mpi_close(ranks);
  real_process.ranks = NULL;
  if (ls_status_is_ok(status)) return code;
  // After a failure, that one was reported.
  if (code == CLI_OK || !has_failed) return cli_report(command, status);
  ls_status_free(status);
  return code;
}

// ---- Agreement -------------------------------------------------------------
ls_status cli_ranks_gather(void *all, size_t size) {
  const ls_exchange_name name = next_name();
  return ls_communicator_gather(cli_ranks(), &name, all, size);
}

ls_status cli_ranks_agree(ls_status own) {
  const ls_communicator *ranks = cli_ranks();
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
    rest(1);
  return ls_status_is_ok(own) ? LS_STATUS(LS_CANCELLED, "rank %d has failed",
                                          (int)(first - failed))
                              : own;
}

ls_status cli_ranks_send(char *text, size_t size) {
  if (cli_ranks() == NULL) return ls_ok();
  const ls_exchange_name name = next_name();
  return ls_communicator_broadcast(cli_ranks(), &name, 0, text, size);
}

int cli_ranks_stopped(void) {
  const int32_t ranks = cli_ranks() != NULL ? cli_ranks()->ranks : 0;
  int first = cli_signals_first();
  CLI_OWN_MEMORY(char, all) = ranks > 0 ? cli_allocate((size_t)ranks) : NULL;
  if (all != NULL) {
    all[cli_ranks()->rank] = (char)first;
    const ls_status status = cli_ranks_gather(all, 1);
    for (int32_t k = 0; k < ranks && ls_status_is_ok(status); ++k)
      if (all[k] > first) first = all[k];
    ls_status_free(status);
  }
  return CLI_SIGNAL + (first != 0 ? first : SIGTERM);
}

// Flags whose ranks would wait for each other, or give results of one alone.
static const struct {
  const char *name;
  bool is_same;  // Needs the same value on all ranks.
} shared_flags[] = {
    {"--run-dir", false},    {"--resume", false},    {"--estimator", false},
    {"--warm-start", false}, {"--find-nan", false},  {"--find-lr", false},
    {"--events", false},     {"--seeds", true},      {"--find-spike", true},
};
enum { NUM_SHARED = sizeof(shared_flags) / sizeof(shared_flags[0]) };

// Returns 0 if a command line has no such flag, else a number of its value or,
// if any value does, 1.
static uint64_t number_flag(int flag, int argc, char **argv) {
  const char *name = shared_flags[flag].name;
  uint64_t number = 0;
  for (int i = 0; i < argc; ++i) {
    const char *value = cli_value_at(argc, argv, i, name);
    if (value == NULL && strcmp(argv[i], name) != 0) continue;
    number = 1;
    for (; shared_flags[flag].is_same && value != NULL && *value != 0; ++value)
      number = number * 1099511628211U + (unsigned char)*value;
  }
  return number;
}

static int refuse_flag(const char *command, int flag, int32_t rank,
                       uint64_t first, uint64_t other) {
  const char *name = shared_flags[flag].name;
  return first != 0 && other != 0
             ? cli_misuse(command,
                          "ranks 0 and %d have another %s: all ranks need the "
                          "same",
                          rank, name)
             : cli_misuse(command,
                          "rank %d has %s, rank %d has not: all ranks need it, "
                          "or none",
                          other != 0 ? rank : 0, name, other != 0 ? 0 : rank);
}

int cli_ranks_compare(const char *command, int argc, char **argv) {
  if (cli_ranks() == NULL) return CLI_OK;
  const int32_t ranks = cli_ranks()->ranks;
  const size_t size = NUM_SHARED * sizeof(uint64_t);
  CLI_OWN_MEMORY(uint64_t, all) = cli_allocate((size_t)ranks * size);
  if (all == NULL) return cli_report(command, ls_out_of_memory());
  for (int f = 0; f < NUM_SHARED; ++f)
    all[cli_ranks()->rank * NUM_SHARED + f] = number_flag(f, argc, argv);
  const ls_status status = cli_ranks_gather(all, size);
  if (!ls_status_is_ok(status)) return cli_report(command, status);
  for (int32_t k = 1; k < ranks; ++k)
    for (int f = 0; f < NUM_SHARED; ++f)
      if (all[k * NUM_SHARED + f] != all[f])
        return refuse_flag(command, f, k, all[f], all[k * NUM_SHARED + f]);
  return CLI_OK;
}

bool cli_is_told_elsewhere(const char *text) {
  enum { FIRST_MS = 1000, TURN_MS = 200, MOST_MS = 3000, LOOK_MS = 10 };
  ls_communicator *ranks = cli_ranks();
  if (ranks == NULL) return false;
  // Lower ranks that fail alike come first, of all rank 0, even if it is slow.
  const int patience = ranks->rank == 0 ? 0 : FIRST_MS + ranks->rank * TURN_MS;
  for (int waited = 0;
       find_failed() < 0 && waited < patience && waited < MOST_MS;
       waited += LOOK_MS)
    rest(LOOK_MS);
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

// Restores an overwritten run only for --resume auto: the command of another
// restart overwrites it.
static ls_status choose_restart(const char *folder, bool is_auto,
                                char *out_how) {
  bool has = false;
  if (is_auto && cli_leads()) LS_RETURN_IF_ERROR(cli_recover_run(folder));
  LS_RETURN_IF_ERROR(cli_has_checkpoints(folder, &has));
  has = has && !cli_is_overwritten(folder);
  *out_how = has ? CLI_RESUMES : CLI_BEGINS_ANEW;
  return ls_ok();
}

int cli_ranks_restart(const char *command, const char **run_folder,
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
  if (ls_status_is_ok(status) && is_again && *run_folder != NULL)
    status = choose_restart(*run_folder, is_auto, &how);
  if (ls_status_is_ok(status)) status = cli_ranks_send(&how, sizeof(how));
  *out_how = (cli_restart)how;
  if (how == CLI_RESUMES) {
    *resume = *run_folder;
    *run_folder = NULL;
  }
  // Only a missing flag is a usage error, after which nothing starts again.
  const bool misused = ls_status_code(status) == LS_INVALID_ARGUMENT;
  int code = cli_report(command, status);
  if (misused) code = CLI_USAGE;
  return cli_runtime_close(command, runtime, code);
}
