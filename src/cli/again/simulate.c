// SPDX-License-Identifier: Apache-2.0
//
// lockstep simulate: trainings on simulated ranks, with faults, all by a seed;
// each is started again after a failure, as `lockstep launch` does, and has to
// end with the bytes of one that nothing disturbed, or with an error that names
// the fault.
#define _GNU_SOURCE
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/compare/compare.h"
#include "cli/estimator.h"
#include "cli/ranks.h"

static const char command[] = "simulate";

enum { WANTED = 3, MOST_WORDS = 100 };
#define SECOND INT64_C(1000000000)

// A file of the run folder to compare with.
typedef struct wanted_file {
  char path[64];
  const char *data;  // Ended by a zero.
  size_t size;
  char *owned;  // The data, if it is a file of --reference.
} wanted_file;

typedef struct simulate {
  int64_t seed, seeds, ranks, faults;
  const char *log, *reference;
  char **words;  // Words of the train command.
  int num_words;
  size_t first_given, num_given;  // Words of the user among them.
  ls_runtime *runtime;
  FILE *out_log;
  wanted_file wanted[WANTED];  // The lines of metrics come first.
  int64_t events;              // Events of an undisturbed training.
  int64_t num_right, num_errors, num_wrong, num_restarts;
} simulate;

// The training of a seed.
typedef struct trial {
  const simulate *self;
  int64_t seed;
  ls_simulation *simulation;
  ls_fault *faults;
  size_t num_faults;
  int restart;        // Number of times it was started before,
  char restarts[12];  // as a text.
  int64_t began;      // Time of the last start.
  char first[600];    // First message of a rank that failed since then.
  int code;           // First exit code other than 0 since then.
} trial;

// ---- Ranks -----------------------------------------------------------------
typedef struct speaker {
  trial *owner;
  ls_communicator *rank;
} speaker;

// Takes lines of a rank's output.
static ssize_t take_output(void *user, const char *data, size_t size) {
  const speaker *self = user;
  static const char failure[] = "lockstep train: ";
  char *first = self->owner->first;
  for (size_t at = 0; at < size;) {
    char line[600];
    const size_t length = strcspn(data + at, "\n") < size - at
                              ? strcspn(data + at, "\n")
                              : size - at;
    snprintf(line, sizeof(line), "%.*s", (int)length, data + at);
    at += length + 1;
    if (ls_simulation_say(self->rank, line) && first[0] == '\0' &&
        strncmp(line, failure, sizeof(failure) - 1) == 0)
      memcpy(first, line, sizeof(line));
  }
  return (ssize_t)size;
}

// Looks up a variable of the environment, to which a launcher adds one.
static const char *find_variable(void *user, const char *name) {
  const trial *t = user;
  return strcmp(name, "LS_RESTART") == 0
             ? t->restarts
             : ls_runtime_environment(t->self->runtime, name);
}

// Trains, as one process of several.
static ls_status run_process(ls_communicator *communicator, void *user) {
  trial *t = user;
  speaker self = {t, communicator};
  ls_runtime_options options = {.environment = find_variable,
                                .environment_user = t};
  FILE *output =
      fopencookie(&self, "w", (cookie_io_functions_t){.write = take_output});
  if (output == NULL) return ls_out_of_memory();
  setvbuf(output, NULL, _IOLBF, BUFSIZ);
  ls_simulation_set_rank(communicator, &options);
  cli_process process = {
      .ranks = communicator, .simulated = &options, .output = output};
  cli_process_enter(&process);
  const int code =
      cli_ranks_close("train", cli_train(t->self->num_words, t->self->words));
  cli_process_enter(NULL);
  fclose(output);
  if (code == CLI_OK) return ls_ok();
  if (t->code == CLI_OK && ls_simulation_say(communicator, "fails"))
    t->code = code;
  return LS_STATUS(LS_CANCELLED, "it ended with code %d", code);
}

// ---- Faults ----------------------------------------------------------------
static uint64_t draw_bits(uint64_t *seed) {
  uint64_t z = *seed += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  return z ^ (z >> 29);
}

static int64_t draw_nanos(uint64_t *seed, int64_t most_seconds) {
  return (int64_t)(draw_bits(seed) % (uint64_t)most_seconds * SECOND +
                   draw_bits(seed) % SECOND);
}

// Draws a fault: most are short, some stops and full disks last.
static ls_fault draw_fault(uint64_t *seed, int64_t events) {
  ls_fault made = {.kind = (ls_fault_kind)(draw_bits(seed) % LS_FAULT_KINDS)};
  const bool is_long = draw_bits(seed) % 4 == 0;
  made.at =
      1 + (int64_t)(draw_bits(seed) % (uint64_t)(events + events / 4 + 1));
  switch (made.kind) {
  case LS_FAULT_LATE:
    made.nanos = draw_nanos(seed, 3);
    break;
  case LS_FAULT_STOP:
    made.nanos = draw_nanos(seed, is_long ? 20 : 3);
    break;
  case LS_FAULT_FULL:
    made.nanos = draw_nanos(seed, is_long ? 1000000 : 3);
    break;
  case LS_FAULT_JUMP:
    made.nanos = draw_nanos(seed, 1000000);
    if (is_long) made.nanos = -made.nanos;
    break;
  default:
    break;
  }
  return made;
}

// Returns true if a fault can end the run that began last.
static bool can_end(const trial *t, const ls_fault *fault) {
  const int64_t patience = 4 * SECOND;
  const int64_t end = fault->time + fault->nanos;
  if (fault->event == 0) return false;
  if (fault->kind == LS_FAULT_FULL) return end >= t->began;
  if (fault->time < t->began) return false;
  return fault->kind == LS_FAULT_LATE || fault->kind == LS_FAULT_STOP
             ? fault->nanos >= patience
             : fault->kind != LS_FAULT_TWICE && fault->kind != LS_FAULT_JUMP;
}

// Returns true if the first message of a run that has failed names the fault:
// its rank, or its file.
static bool names_fault(const trial *t, const ls_fault *fault) {
  char rank[24], to[24];
  snprintf(rank, sizeof(rank), "rank %d", fault->rank);
  snprintf(to, sizeof(to), "rank %d", fault->to);
  if (fault->kind == LS_FAULT_POWER) return true;
  if (fault->kind == LS_FAULT_KILL && t->first[0] == '\0') return true;
  if (fault->kind == LS_FAULT_FULL)
    return strstr(t->first, "No space left") != NULL;
  return fault->path[0] != '\0' && fault->kind == LS_FAULT_DISK
             ? strstr(t->first, fault->path) != NULL
             : strstr(t->first, rank) != NULL || strstr(t->first, to) != NULL;
}

// Returns true if the disk has stayed full since before the run.
static bool is_full(const trial *t) {
  for (size_t i = 0; i < t->num_faults; ++i)
    if (t->faults[i].kind == LS_FAULT_FULL && t->faults[i].time < t->began &&
        can_end(t, &t->faults[i]))
      return true;
  return false;
}

// Returns the fault that has ended the run; NULL if it names none.
static const ls_fault *find_cause(const trial *t) {
  for (size_t i = 0; i < t->num_faults; ++i)
    if (can_end(t, &t->faults[i]) && names_fault(t, &t->faults[i]))
      return &t->faults[i];
  return NULL;
}

// ---- Results ---------------------------------------------------------------
// Compares lines of metrics, but for times; those of steps may be others after
// a restart.
static bool lines_are_right(const char *wanted, const char *found, char *why,
                            size_t room) {
  cli_line a = {0}, b = {0};
  cli_line_next(&found, &b);
  for (cli_line_next(&wanted, &a); a.text != NULL; cli_line_next(&wanted, &a)) {
    const bool is_there = cli_line_seek(&found, &b, &a);
    if (is_there ? cli_lines_are_equal(&a, &b, false)
                 : a.kind == CLI_LINE_OF_STEPS)
      continue;
    snprintf(why, room, "metrics.jsonl %s at step %lld",
             is_there ? "differs" : "lacks a line", (long long)a.step);
    return false;
  }
  while (b.text != NULL)
    cli_line_next(&found, &b);
  if (b.damaged > 0) snprintf(why, room, "metrics.jsonl has a damaged line");
  return b.damaged == 0;
}

// Compares the files of a training that has ended with the wanted ones.
static bool files_are_right(const trial *t, char *why, size_t room) {
  for (int i = 0; i < WANTED; ++i) {
    const wanted_file *wanted = &t->self->wanted[i];
    size_t size = 0;
    const char *found = ls_simulation_file(t->simulation, wanted->path, &size);
    if (found == NULL && i == 0) found = "";  // --steps 0 makes no lines.
    if (found == NULL) {
      snprintf(why, room, "there is no '%s'", wanted->path);
      return false;
    }
    if (i == 0 && !lines_are_right(wanted->data, found, why, room))
      return false;
    if (i > 0 &&
        (size != wanted->size || memcmp(found, wanted->data, size) != 0)) {
      snprintf(why, room, "'%s' has other bytes", wanted->path);
      return false;
    }
  }
  return true;
}

// ---- A seed ----------------------------------------------------------------
static ls_status open_trial(const simulate *self, int64_t seed, size_t faults,
                            trial *t) {
  uint64_t random = (uint64_t)seed * UINT64_C(0xD1B54A32D192ED03);
  *t = (trial){
      .self = self, .seed = seed, .num_faults = faults, .restarts = "0"};
  CLI_SET_ARRAY_OR_RETURN(t->faults, faults);
  for (size_t i = 0; i < faults; ++i)
    t->faults[i] = draw_fault(&random, self->events);
  return ls_simulation_create(&(ls_simulation_options){.seed = (uint64_t)seed,
                                                       .faults = t->faults,
                                                       .num_faults = faults},
                              &t->simulation);
}

static void close_trial(trial *t) {
  ls_simulation_destroy(t->simulation);
  cli_release(t->faults);
}
CLI_OWNED_STRUCT(trial, close_trial)

// Starts all ranks once. Returns true if all have succeeded.
static bool start_ranks(trial *t) {
  t->began = ls_simulation_now(t->simulation);
  t->first[0] = '\0';
  t->code = CLI_OK;
  const ls_status status =
      ls_simulation_run(t->simulation, (int32_t)t->self->ranks, run_process, t);
  bool is_dead = false;
  for (size_t i = 0; i < t->num_faults; ++i)
    is_dead |= t->faults[i].event > 0 && t->faults[i].time >= t->began &&
               (t->faults[i].kind == LS_FAULT_KILL ||
                t->faults[i].kind == LS_FAULT_POWER);
  if (!ls_status_is_ok(status) && t->first[0] == '\0' && !is_dead)
    snprintf(t->first, sizeof(t->first), "%s", ls_status_message(status));
  const bool is_good = ls_status_is_ok(status) && !is_dead;
  ls_status_free(status);
  return is_good;
}

typedef enum verdict { RIGHT_BYTES, RIGHT_ERROR, WRONG } verdict;

// Starts the training, and again after each failure that a fault has caused.
static verdict run_trial(trial *t, char *why, size_t room) {
  for (;;) {
    if (start_ranks(t))
      return files_are_right(t, why, room) ? RIGHT_BYTES : WRONG;
    const ls_fault *cause = find_cause(t);
    if (cause == NULL || t->code == CLI_USAGE) {
      snprintf(why, room, "no fault explains the failure '%s'", t->first);
      return WRONG;
    }
    if (t->restart > 4 * (int)t->num_faults) {
      snprintf(why, room, "'%s'", t->first);
      return is_full(t) ? RIGHT_ERROR : WRONG;
    }
    snprintf(t->restarts, sizeof(t->restarts), "%d", ++t->restart);
    ls_simulation_wait(t->simulation, 2 * SECOND);
    ls_simulation_note(t->simulation, "the ranks are started again");
  }
}

static void print_command(const simulate *self, int64_t seed) {
  char word[PATH_MAX];
  printf("  lockstep simulate --seed %lld --ranks %lld --faults %lld",
         (long long)seed, (long long)self->ranks, (long long)self->faults);
  if (self->reference != NULL)
    printf(" --reference %s", cli_quote(self->reference, word, sizeof(word)));
  printf(" -- train");
  for (size_t i = 0; i < self->num_given; ++i)
    printf(" %s",
           cli_quote(self->words[self->first_given + i], word, sizeof(word)));
  putchar('\n');
}

static void print_trial(FILE *out, const trial *t, const char *result) {
  fprintf(out, "seed %lld, %d restarts: %s\n", (long long)t->seed, t->restart,
          result);
  for (size_t i = 0; i < t->num_faults; ++i) {
    const ls_fault *fault = &t->faults[i];
    fprintf(out, "  %s from event %lld on: ", ls_fault_name(fault->kind),
            (long long)fault->at);
    if (fault->event == 0)
      fprintf(out, "never\n");
    else
      fprintf(out, "event %lld at %.6f s, rank %d%s%s\n",
              (long long)fault->event, (double)fault->time * 1e-9, fault->rank,
              fault->path[0] != '\0' ? ", " : "", fault->path);
  }
}

static ls_status try_seed(simulate *self, int64_t seed) {
  static const char *const results[] = {"the right bytes", "the right error",
                                        "WRONG"};
  char why[800] = "", result[900];
  CLI_OWN(trial, t) = {0};
  LS_RETURN_IF_ERROR(open_trial(self, seed, (size_t)self->faults, &t));
  const verdict found = run_trial(&t, why, sizeof(why));
  self->num_right += found == RIGHT_BYTES;
  self->num_errors += found == RIGHT_ERROR;
  self->num_wrong += found == WRONG;
  self->num_restarts += t.restart;
  snprintf(result, sizeof(result), "%s%s%s", results[found],
           why[0] != '\0' ? ": " : "", why);
  if (self->out_log != NULL) {
    print_trial(self->out_log, &t, result);
    fputs(ls_simulation_log(t.simulation), self->out_log);
  }
  if (found != WRONG) return ls_ok();
  print_trial(stdout, &t, result);
  print_command(self, seed);
  return ls_ok();
}

// ---- The undisturbed training ----------------------------------------------
static ls_status read_wanted(const char *folder, wanted_file *file) {
  const char *name = strchr(file->path, '/') + 1;
  LS_RETURN_IF_ERROR(cli_read_text(folder, name, &file->owned, &file->size));
  file->data = file->owned;
  return file->data != NULL ? ls_ok()
                            : ls_not_found("there is no '%s/%s'", folder, name);
}

// Finds the files to compare with: those of the reference, or of the training.
static ls_status find_wanted(simulate *self, const trial *alone) {
  size_t size = 0;
  const char *lines =
      ls_simulation_file(alone->simulation, "run/metrics.jsonl", &size);
  if (lines == NULL) lines = "";
  wanted_file *files = self->wanted;
  snprintf(files[0].path, sizeof(files->path), "run/metrics.jsonl");
  snprintf(files[1].path, sizeof(files->path), "run/model.safetensors");
  snprintf(files[2].path, sizeof(files->path),
           "run/model.ckpt-%lld.safetensors", (long long)cli_last_step(lines));
  files[0].data = lines;
  for (int i = 0; i < WANTED; ++i) {
    if (i > 0)
      files[i].data =
          ls_simulation_file(alone->simulation, files[i].path, &files[i].size);
    if (files[i].data == NULL)
      return ls_invalid_argument("the training has made no run: '%s'",
                                 alone->first);
    if (self->reference != NULL)
      LS_RETURN_IF_ERROR(read_wanted(self->reference, &files[i]));
  }
  return ls_ok();
}

static ls_status run_seeds(void *user) {
  simulate *self = user;
  CLI_OWN(trial, alone) = {0};
  self->runtime = ls_runtime_current();
  // The same for all seeds, so that each is the same in any series.
  LS_RETURN_IF_ERROR(open_trial(self, 0, 0, &alone));
  if (!start_ranks(&alone))
    return ls_invalid_argument("the training fails without faults: %s",
                               alone.first);
  self->events = ls_simulation_events(alone.simulation);
  LS_RETURN_IF_ERROR(find_wanted(self, &alone));
  for (int64_t k = 0; k < self->seeds; ++k)
    LS_RETURN_IF_ERROR(try_seed(self, self->seed + k));
  printf("%lld seeds: %lld with the right bytes, %lld with the right error, "
         "%lld WRONG; %lld restarts\n",
         (long long)self->seeds, (long long)self->num_right,
         (long long)self->num_errors, (long long)self->num_wrong,
         (long long)self->num_restarts);
  return ls_ok();
}

// ---- The command -----------------------------------------------------------
// Returns true if the words after `--` are a training; completes them.
static bool take_words(simulate *self, int argc, char **argv, char **words) {
  static char *const earlier[] = {"--quiet", "--checksum", "1",
                                  "--save-every-steps", "1"};
  static char *const later[] = {"--run-dir", "run"};
  static const char *const refused[] = {"--run-dir", "--resume", "--overwrite",
                                        "--seeds",   "--trace",  "--events"};
  enum { EARLIER = 5, LATER = 2 };
  const char *data = NULL;
  bool has_config = false;  // A file that may have the data.
  if (argc < 1 || strcmp(argv[0], "train") != 0)
    return cli_refuse(command,
                      "%s%s: lockstep simulate --ranks 2 -- train --model tiny "
                      "--data synthetic --replicas 2",
                      argc < 1 ? "the training is missing"
                               : "only a training is simulated, not ",
                      argc < 1 ? "" : argv[0]);
  if (argc - 1 + EARLIER + LATER > MOST_WORDS)
    return cli_refuse(command, "train has more than %d words",
                      MOST_WORDS - EARLIER - LATER);
  const ls_estimator_type *estimator = NULL;
  if (!cli_find_estimator("train", argc, argv, &estimator)) return false;
  if (estimator != NULL)
    return cli_refuse(command,
                      "an estimator's training is not simulated: its cores are "
                      "fed and read by threads, and a simulated rank has one; "
                      "'lockstep launch' starts it on ranks, and restarts it "
                      "with --restarts");
  for (int i = 1; i < argc; ++i) {
    if (strncmp(argv[i], "--data=", 7) == 0) data = argv[i] + 7;
    if (strcmp(argv[i], "--data") == 0 && i + 1 < argc) data = argv[i + 1];
    has_config |= strcmp(argv[i], "--config") == 0 ||
                  strncmp(argv[i], "--config=", 9) == 0;
    for (size_t k = 0; k < sizeof(refused) / sizeof(*refused); ++k) {
      const size_t size = strlen(refused[k]);
      if (strncmp(argv[i], refused[k], size) != 0 ||
          (argv[i][size] != '\0' && argv[i][size] != '='))
        continue;
      return cli_refuse(
          command,
          "train %s: a simulated training has one new run, in memory; "
          "leave it out",
          refused[k]);
    }
  }
  if (data == NULL ? !has_config : strcmp(data, "synthetic") != 0)
    return cli_refuse(command,
                      "train%s%s: the disk of a simulated training is in "
                      "memory and has no files; give --data synthetic",
                      data != NULL ? " --data " : "", data != NULL ? data : "");
  memcpy(words, earlier, sizeof(earlier));
  memcpy(words + EARLIER, argv + 1, (size_t)(argc - 1) * sizeof(*words));
  memcpy(words + EARLIER + argc - 1, later, sizeof(later));
  self->words = words;
  self->num_words = argc - 1 + EARLIER + LATER;
  self->first_given = EARLIER;
  self->num_given = (size_t)argc - 1;
  return true;
}

static int simulate_seeds(simulate *self) {
  if (self->log != NULL && (self->out_log = fopen(self->log, "w")) == NULL) {
    cli_say(command, "cannot write '%s'", self->log);
    return CLI_FAILED;
  }
  int code = cli_with_runtime(command, run_seeds, self);
  for (int i = 0; i < WANTED; ++i)
    cli_release(self->wanted[i].owned);
  if (self->out_log != NULL && fclose(self->out_log) != 0) {
    cli_say(command, "cannot write '%s'", self->log);
    code = CLI_FAILED;
  }
  return code == CLI_OK && self->num_wrong > 0 ? CLI_FAILED : code;
}

int cli_simulate(int argc, char **argv) {
  simulate self = {.seeds = 1, .ranks = 2, .faults = 1};
  const cli_option options[] = {
      {"seed", CLI_COUNT_OR_ZERO, &self.seed, "S",
       "seed of the faults and of the order of events (default 0)"},
      {"seeds", CLI_COUNT, &self.seeds, "N",
       "try N seeds, from this one on (default 1)"},
      {"ranks", CLI_COUNT, &self.ranks, "N", "number of ranks (default 2)"},
      {"faults", CLI_COUNT_OR_ZERO, &self.faults, "K",
       "faults that each seed draws (default 1): late, lost, twice, cut: a "
       "message; disk, full: a call of the disk; kill, stop: a rank; power: "
       "all ranks and what was not synced; jump: a wall clock"},
      {"reference", CLI_TEXT, &self.reference, "RUN",
       "compare with this run, of lockstep train with the same flags and "
       "--checksum 1 (default: a simulated training without faults)"},
      {"log", CLI_TEXT, &self.log, "FILE",
       "write all faults and events there; equal for equal seeds"},
  };
  const cli_syntax syntax = {
      .command = command,
      .about =
          "Trains on simulated ranks, in one process: with simulated time, a "
          "disk in memory, and faults. Starts the ranks again after a failure, "
          "as 'lockstep launch' does. Each training must end with the bytes of "
          "one without faults, or with an error that names a lasting fault. "
          "Prints the faults of a seed that does not, and ends with code "
          "1.\n\n  lockstep simulate --seeds 100 --ranks 3 --faults 2 -- \\\n  "
          "  train --model tiny --data synthetic --replicas 4 --steps 8",
      CLI_OPTIONS(options)};
  char *words[MOST_WORDS];
  const int own = cli_count_own(argc, argv);
  CLI_PARSE_OR_RETURN(&syntax, own, argv);
  if (!take_words(&self, argc - own - 1, argv + own + 1, words))
    return CLI_USAGE;
  return simulate_seeds(&self);
}
