// SPDX-License-Identifier: Apache-2.0
//
// lockstep launch: starts the ranks of a program by mpirun, reports the first
// cause of a failure, and starts the program again.
//
// Each rank is started as `lockstep launch --as-rank` (launch_rank.c), which
// says on standard error how the rank has ended: the codes of mpirun do not
// tell, and differ from one MPI to the next.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"

// Patience, in seconds, with ranks that go on after one has failed, which tells
// them, or after one was killed, which cannot. Open MPI ends them itself then,
// and must not be disturbed.
static const double patience = 5, killed_patience = 0.3;

typedef struct launch_flags {
  int64_t ranks, restarts, restart;
  const char *mpi, *hosts;
  bool as_rank;
  char **program;  // With its arguments, ended by NULL.
} launch_flags;

typedef struct rank_end {
  bool is_known;
  int status;  // As waitpid gives it.
} rank_end;

// One start of mpirun.
typedef struct job {
  const launch_flags *flags;
  const char *mpirun;
  bool is_mpich;
  pid_t child;
  int errors;  // Reads its standard error.
  char line[4096];
  size_t size;
  bool is_begun;    // A part of the line is printed.
  char said[4096];  // The last line of this command.
  rank_end *ends;   // For each rank.
  int64_t cause;    // The rank that failed first; -1: none.
  double failed;    // Time of that; 0: never.
  double due;       // Time of the next signal to mpirun.
  int kills;        // Signals sent to it in vain.
} job;

static volatile sig_atomic_t stop_signal;  // The first one.
static volatile sig_atomic_t num_signals;
static volatile sig_atomic_t num_quits;  // Each Ctrl-\ of a user.

// ---- Finding mpirun --------------------------------------------------------
static bool is_on_path(const char *path, const char *name) {
  char file[4096];
  while (path != NULL && *path != '\0') {
    const size_t size = strcspn(path, ":");
    const int length =
        snprintf(file, sizeof(file), "%.*s/%s", (int)size, path, name);
    if (length < (int)sizeof(file) && access(file, X_OK) == 0) return true;
    path += size + (path[size] == ':');
  }
  return false;
}

// Returns the name of mpirun; NULL if there is none.
static const char *find_mpirun(const launch_flags *flags, const char *path,
                               bool *out_mpich) {
  static const struct {
    const char *mpi, *name;
  } known[] = {{"openmpi", "mpirun.openmpi"},
               {"mpich", "mpirun.mpich"},
               {"mpich", "mpiexec.hydra"},
               {"openmpi", "mpirun"},
               {"mpich", "mpirun"}};
  for (size_t i = 0; i < sizeof(known) / sizeof(*known); ++i) {
    if (flags->mpi != NULL && strcmp(flags->mpi, known[i].mpi) != 0) continue;
    if (!is_on_path(path, known[i].name)) continue;
    *out_mpich = strcmp(known[i].mpi, "mpich") == 0;
    return known[i].name;
  }
  return NULL;
}

// ---- Starting --------------------------------------------------------------
enum { MOST_WORDS = 24 };

// Lists the words before the program's: mpirun and the command of a rank.
static size_t list_words(const job *self, const char **words, char *ranks,
                         char *restart, char *own) {
  size_t count = 0;
  words[count++] = self->mpirun;
  if (!self->is_mpich) {
    words[count++] = "-q";
    words[count++] = "--oversubscribe";
    if (geteuid() == 0) words[count++] = "--allow-run-as-root";
  }
  words[count++] = "-n";
  words[count++] = ranks;
  if (self->flags->hosts != NULL) {
    words[count++] = self->is_mpich ? "-hosts" : "--host";
    words[count++] = self->flags->hosts;
  }
  words[count++] = own;
  words[count++] = "launch";
  words[count++] = "--as-rank";
  words[count++] = "--restart";
  words[count++] = restart;
  words[count++] = "--";
  return count;
}

// Becomes mpirun; returns only if that fails.
static void become_mpirun(const job *self, int errors) {
  char ranks[24], restart[24], own[4096];
  const ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);
  size_t num_program = 0;
  while (self->flags->program[num_program] != NULL)
    ++num_program;
  const char **words =
      cli_allocate((MOST_WORDS + num_program + 1) * sizeof(*words));
  const int input = open("/dev/null", O_RDONLY);
  if (words == NULL) errno = ENOMEM;
  if (words == NULL || length < 0 || input < 0) return;
  own[length] = '\0';
  snprintf(ranks, sizeof(ranks), "%lld", (long long)self->flags->ranks);
  snprintf(restart, sizeof(restart), "%lld", (long long)self->flags->restart);
  size_t count = list_words(self, words, ranks, restart, own);
  for (size_t i = 0; i < num_program; ++i)
    words[count++] = self->flags->program[i];
  // A group of its own: Ctrl-C is for this program, which lets the ranks save.
  (void)setpgid(0, 0);
  dup2(input, STDIN_FILENO);
  dup2(errors, STDERR_FILENO);
  execvp(self->mpirun, (char *const *)(uintptr_t)words);
}

static bool start_job(job *self) {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0)
    return cli_refuse("launch", "no pipe: %s", strerror(errno));
  self->child = fork();
  if (self->child == 0) {
    become_mpirun(self, pipe_ends[1]);
    cli_say("launch", "cannot start %s: %s", self->mpirun, strerror(errno));
    _exit(CLI_FAILED);
  }
  close(pipe_ends[1]);
  self->errors = pipe_ends[0];
  if (self->child > 0) return true;
  close(pipe_ends[0]);
  return cli_refuse("launch", "cannot start %s: %s", self->mpirun,
                    strerror(errno));
}

// ---- Lines -----------------------------------------------------------------
// Takes the line in which a rank says how it has ended.
static bool take_end(job *self, const char *line) {
  int status = 0;
  long long rank = 0;
  if (sscanf(line, CLI_RANK_ENDED, &rank, &status) != 2 || rank < 0 ||
      rank >= self->flags->ranks)
    return false;
  self->ends[rank] = (rank_end){true, status};
  const bool is_bad = status != 0 && !(WIFEXITED(status) &&
                                       WEXITSTATUS(status) == CLI_OTHER_RANK);
  if (!is_bad || self->cause >= 0) return true;
  self->cause = rank;
  self->failed = cli_now();
  self->due =
      self->failed +
      (WIFSIGNALED(status) && self->is_mpich ? killed_patience : patience);
  return true;
}

static bool begins_with_any(const char *line, const char *const *heads) {
  for (; *heads != NULL; ++heads)
    if (strncmp(line, *heads, strlen(*heads)) == 0) return true;
  return false;
}

// Returns true for the farewells of mpirun, and of ranks that it ends.
static bool is_noise(const job *self, const char *line) {
  static const char *const banner[] = {
      "==============================================================",
      "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
      "=   PID ",
      "=   EXIT CODE: ",
      "=   CLEANING UP REMAINING PROCESSES",
      "=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES",
      "YOUR APPLICATION TERMINATED WITH THE EXIT ",
      "This typically refers to a problem with your application.",
      "Please see the FAQ page for debugging suggestions",
      NULL};
  static const char *const later[] = {"--------", "[proxy:", "[mpiexec@",
                                      "lockstep: ended by SIGTERM", NULL};
  if (self->is_mpich && begins_with_any(line, banner)) return true;
  // Open MPI and UCX, which read from the memory of a rank that is gone.
  const char *said = line[0] == '[' ? strstr(line, "] ") : NULL;
  if (said != NULL &&
      (strncmp(said, "] Read -1, expected ", 20) == 0 ||
       (strstr(said, " UCX ") != NULL &&
        strstr(said, ") returned -1: No such process") != NULL)))
    return true;
  return (self->failed != 0 || stop_signal != 0) &&
         (line[0] == '\0' || begins_with_any(line, later));
}

// Returns true for a line of this command that another rank has just said.
static bool is_repeated(job *self, const char *line) {
  if (strncmp(line, "lockstep ", 9) != 0) return false;
  const bool is_same = strcmp(line, self->said) == 0;
  snprintf(self->said, sizeof(self->said), "%s", line);
  return is_same;
}

static void take_line(job *self) {
  self->line[self->size] = '\0';
  self->size = 0;
  const bool is_end = take_end(self, self->line);
  if (self->is_begun || (!is_end && !is_noise(self, self->line) &&
                         !is_repeated(self, self->line)))
    fprintf(stderr, "%s\n", is_end ? "" : self->line);
  self->is_begun = false;
}

// Reads what there is. Returns false at the end.
static bool read_lines(job *self) {
  char data[4096];
  const ssize_t got = read(self->errors, data, sizeof(data));
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  for (ssize_t i = 0; i < got; ++i) {
    if (data[i] == '\n') {
      take_line(self);
      continue;
    }
    // A progress line is rewritten without a newline, and a program may end in
    // the middle of a line.
    const bool is_part =
        (data[i] == '\r' || data[i] == CLI_RANK_ENDED[0]) && self->size > 0;
    if (is_part || self->size + 1 == sizeof(self->line)) {
      fwrite(self->line, 1, self->size, stderr);
      self->size = 0;
      self->is_begun = true;
    }
    self->line[self->size++] = data[i];
  }
  return got > 0;
}

// ---- Waiting ---------------------------------------------------------------
// Ends ranks that go on though one has failed.
static void lose_patience(job *self) {
  static const int signals[] = {SIGTERM, SIGTERM, SIGKILL};
  if (self->failed == 0 || cli_now() < self->due) return;
  const int number = signals[self->kills < 2 ? self->kills : 2];
  (void)kill(number == SIGKILL ? -self->child : self->child, number);
  ++self->kills;
  self->due += patience;
}

// Passes signals on: a second one ends ranks that are saving, as it does
// without mpirun; with more, mpirun ends those that go on all the same.
static void pass_signals(const job *self, int *stops, int *quits) {
  // mpirun forwards these to the ranks, which take them for SIGTERM and
  // SIGQUIT.
  for (; *stops < num_signals; ++*stops)
    (void)kill(self->child, *stops < 2 ? SIGUSR1 : SIGTERM);
  for (; *quits < num_quits; ++*quits)
    (void)kill(self->child, SIGALRM);
}

static int wait_for_job(job *self) {
  int status = 0, stops = 0, quits = num_quits;
  struct pollfd reader = {.fd = self->errors, .events = POLLIN};
  for (bool goes_on = true; goes_on;) {
    const int ready = poll(&reader, 1, 100);
    if (ready > 0) goes_on = read_lines(self);
    pass_signals(self, &stops, &quits);
    lose_patience(self);
  }
  if (self->size > 0) take_line(self);
  close(self->errors);
  while (waitpid(self->child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// ---- Judging ---------------------------------------------------------------
static void print_end(char *text, size_t size, int status) {
  if (WIFSIGNALED(status))
    snprintf(text, size, "was killed by signal %d (%s)", WTERMSIG(status),
             strsignal(WTERMSIG(status)));
  else
    snprintf(text, size, "ended with code %d", WEXITSTATUS(status));
}

// Says why a job has failed. Returns its exit code.
static int report_cause(const job *self, int status) {
  char text[120];
  int64_t rank = self->cause;
  for (int64_t k = 0; rank < 0 && k < self->flags->ranks; ++k)
    if (!self->ends[k].is_known || self->ends[k].status != 0) rank = k;
  if (rank < 0) {
    print_end(text, sizeof(text), status);
    cli_say("launch", "%s %s", self->mpirun, text);
    return CLI_FAILED;
  }
  const rank_end *end = &self->ends[rank];
  if (!end->is_known) {
    cli_say("launch", "rank %lld has not said how it ended", (long long)rank);
    return CLI_FAILED;
  }
  print_end(text, sizeof(text), end->status);
  cli_say("launch", "rank %lld of %lld %s", (long long)rank,
          (long long)self->flags->ranks, text);
  return WIFSIGNALED(end->status) ? CLI_SIGNAL + WTERMSIG(end->status)
                                  : WEXITSTATUS(end->status);
}

static bool has_succeeded(const job *self, int status) {
  for (int64_t k = 0; k < self->flags->ranks; ++k)
    if (!self->ends[k].is_known || self->ends[k].status != 0) return false;
  return status == 0;
}

// Runs the program once. Returns its exit code.
static int run_job(job *self) {
  if (!start_job(self)) return CLI_FAILED;
  const int status = wait_for_job(self);
  if (stop_signal != 0) return CLI_SIGNAL + stop_signal;
  return has_succeeded(self, status) ? CLI_OK : report_cause(self, status);
}

// ---- The command -----------------------------------------------------------
static void request_stop(int number) {
  if (stop_signal == 0) stop_signal = number;
  ++num_signals;
}

static void count_quit(int number) {
  (void)number;
  ++num_quits;
}

// Returns the first word of a program that begins so; NULL: none.
static char **find_word(char **program, const char *begin) {
  while (*program != NULL && strncmp(*program, begin, strlen(begin)) != 0)
    ++program;
  return *program != NULL ? program : NULL;
}

// Returns the folder of a training's --run-dir; NULL: it has none.
static const char *find_folder(char **program) {
  char **at = find_word(program, "--run-dir");
  return at == NULL ? NULL : (*at)[9] == '=' ? *at + 10 : at[1];
}

static bool is_training(char **program) {
  const char *slash = strrchr(program[0], '/');
  return strcmp(slash != NULL ? slash + 1 : program[0], "lockstep") == 0 &&
         program[1] != NULL && strcmp(program[1], "train") == 0;
}

// Returns the step of the newest checkpoint in a folder; -1: none.
static int64_t newest_step(const char *folder) {
  CLI_OWN_MEMORY(int64_t, steps) = NULL;
  size_t count = 0;
  ls_status_free(cli_checkpoint_steps(folder, &steps, &count));
  return count > 0 ? steps[count - 1] : -1;
}

// Runs the program until it succeeds, or has been started again often enough.
static int launch(launch_flags *flags, const char *path) {
  bool is_mpich = false;
  const char *mpirun = find_mpirun(flags, path, &is_mpich);
  if (mpirun == NULL) {
    cli_say("launch",
            "%s is not installed; on Debian: apt-get install "
            "openmpi-bin libopenmpi-dev, or mpich libmpich-dev",
            flags->mpi != NULL ? flags->mpi : "mpirun");
    return CLI_FAILED;
  }
  // Other programs, and seeds, have their checkpoints elsewhere.
  const char *folder = is_training(flags->program) &&
                               find_word(flags->program, "--seeds") == NULL
                           ? find_folder(flags->program)
                           : NULL;
  cli_signals_handle(SIGINT, request_stop);
  cli_signals_handle(SIGTERM, request_stop);
  cli_signals_handle(SIGHUP, request_stop);
  cli_signals_handle(SIGQUIT, count_quit);
  for (;;) {
    rank_end *ends = cli_allocate((size_t)flags->ranks * sizeof(*ends));
    if (ends == NULL) return cli_report("launch", ls_out_of_memory());
    job run = {.flags = flags,
               .mpirun = mpirun,
               .is_mpich = is_mpich,
               .ends = ends,
               .cause = -1};
    const int64_t before = folder != NULL ? newest_step(folder) : -1;
    const int code = run_job(&run);
    cli_release(ends);
    if (code == CLI_OK || code == CLI_USAGE || stop_signal != 0 ||
        flags->restart >= flags->restarts)
      return code;
    // The same steps end in the same way, unless a signal has ended them.
    if (flags->restart > 0 && folder != NULL && code < CLI_SIGNAL &&
        newest_step(folder) == before) {
      cli_say("launch", "the restart made no new checkpoint: no other one "
                        "would do better");
      return code;
    }
    ++flags->restart;
    cli_say("launch", "starts the program again: restart %lld of %lld",
            (long long)flags->restart, (long long)flags->restarts);
  }
}

// Counts the processes on machines "A:2,B": one where no number is given.
static int64_t count_slots(const char *hosts) {
  int64_t count = 0;
  while (hosts != NULL && *hosts != '\0') {
    const size_t size = strcspn(hosts, ",");
    const char *colon = memchr(hosts, ':', size);
    count += colon != NULL ? strtol(colon + 1, NULL, 10) : 1;
    hosts += size + (hosts[size] == ',');
  }
  return count;
}

int cli_launch(int argc, char **argv) {
  launch_flags flags = {.ranks = 0};
  const cli_option options[] = {
      {"ranks", CLI_COUNT, &flags.ranks, "N",
       "number of processes (default: as many as --hosts has)"},
      {"restarts", CLI_COUNT_OR_ZERO, &flags.restarts, "N",
       "start the program again up to N times after a failure (default 0); see "
       "docs/ranks.md on what it must do"},
      {"mpi", CLI_TEXT, &flags.mpi, "NAME",
       "openmpi or mpich (default: the first that is there)"},
      {"hosts", CLI_TEXT, &flags.hosts, "A:N,B:N",
       "machines to run on, with N processes each (default 1), as mpirun takes "
       "them (default: this one)"},
      {"as-rank", CLI_FLAG, &flags.as_rank, "",
       "be one of the processes, and tell how it ends: what mpirun is made to "
       "start"},
      {"restart", CLI_COUNT_OR_ZERO, &flags.restart, "N",
       "with --as-rank: the program was started N times before"},
  };
  const cli_syntax syntax = {
      .command = "launch",
      .about = "Starts N processes of a program, its ranks, by mpirun, and "
               "waits for all. If one fails, ends the others, reports the "
               "first cause, and starts all again.\n\n  lockstep launch "
               "--ranks 4 -- lockstep train --replicas 64",
      CLI_OPTIONS(options)};
  const int own = cli_count_own(argc, argv);
  CLI_PARSE_OR_RETURN(&syntax, own, argv);
  if (own + 1 >= argc)
    return cli_misuse("launch",
                      "the program is missing: lockstep launch --ranks 4 -- "
                      "PROGRAM");
  flags.program = argv + own + 1;
  if (flags.as_rank) return cli_run_as_rank(flags.program, flags.restart);
  if (flags.restart > 0)
    return cli_misuse("launch", "--restart is for --as-rank; did you mean "
                                "'--restarts'?");
  if (flags.ranks == 0) flags.ranks = count_slots(flags.hosts);
  if (flags.ranks <= 0 ||
      (flags.mpi != NULL && strcmp(flags.mpi, "openmpi") != 0 &&
       strcmp(flags.mpi, "mpich") != 0))
    return cli_misuse("launch", flags.ranks <= 0
                                    ? "--ranks is missing"
                                    : "--mpi is neither openmpi nor mpich");
  if (flags.restarts > 0 && is_training(flags.program) &&
      find_folder(flags.program) == NULL &&
      find_word(flags.program, "--resume") == NULL &&
      find_word(flags.program, "--config") == NULL)
    return cli_misuse("launch",
                      "--restarts needs a training's --run-dir, to find the "
                      "run again");
  ls_runtime *runtime = NULL;
  ls_status status = cli_runtime_open(1, NULL, &runtime);
  const int code = ls_status_is_ok(status)
                       ? launch(&flags, ls_runtime_environment(runtime, "PATH"))
                       : cli_report("launch", status);
  return cli_runtime_close("launch", runtime, code);
}
