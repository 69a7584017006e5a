// SPDX-License-Identifier: Apache-2.0
// lockstep: trains models in lock step on many replicas.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/ranks.h"

const cli_command cli_commands[] = {
    {"train", "train a model", cli_train},
    {"eval", "evaluate a trained model", cli_eval},
    {"predict", "print a trained model's predictions", cli_predict},
    {"generate", "continue a text by a trained language model", cli_generate},
    {"export", "export a trained model for serving", cli_export},
    {"show", "draw a run's metrics, or compare runs", cli_show},
    {"report", "write a page of HTML about runs", cli_report_runs},
    {"serve", "answer predictions of exports over HTTP", cli_serve},
    {"data", "show the contents of files, and their read speed",
     cli_data_command},
    {"checkpoint", "inspect, compare, verify and convert checkpoints",
     cli_checkpoint},
    {"diff", "find the first difference of two runs", cli_diff},
    {"replay", "make steps of a run again, and compare them", cli_replay},
    {"verify", "check a run against its chain of hashes", cli_verify},
    {"bench", "time a model's training step", cli_bench},
    {"summary", "list a model's layers, with parameters, work and memory",
     cli_summary},
    {"plan", "tell memory, time and disk of a run before its first step",
     cli_plan},
    {"graph", "print a model's training step", cli_graph},
    {"compile", "compile a model's training step, also without its devices",
     cli_compile},
    {"devices", "list the devices that compute", cli_devices},
    {"doctor", "check this machine for training, and say what to do",
     cli_doctor},
    {"launch", "start a program as many processes, by mpirun", cli_launch},
    {"simulate", "train with simulated faults, and compare", cli_simulate},
    {"help", "explain a command, the environment, or a name of the library",
     cli_help},
    {NULL, NULL, NULL},
};

// ---- Help ------------------------------------------------------------------
static void print_overview(void) {
  printf("lockstep trains models in lock step on many replicas.\n\n"
         "usage: lockstep COMMAND [FLAG...]\n\ncommands:\n");
  for (const cli_command *row = cli_commands; row->name != NULL; ++row)
    printf("  %-10s  %s\n", row->name, row->about);
  printf("\nmodels:\n");
  size_t count = 0;
  const ls_model_type *const *types = ls_model_types(&count);
  for (size_t i = 0; i < count; ++i)
    printf("  %-8s  %s\n", types[i]->name, types[i]->description);
  printf(
      "\n"
      "'lockstep help COMMAND' lists a command's flags, 'lockstep help env' "
      "the\n"
      "environment variables, 'lockstep help ls_train' explains a call of the\n"
      "library, 'lockstep --version' prints the version.\n"
      "\n"
      "If a flag is given twice, the last value counts.\n"
      "\n"
      "exit codes: 0 success, 1 failure, 2 usage error, 3 interrupted before\n"
      "saving, 4 another process failed and says why, 128+N killed by signal "
      "N.\n");
}

static int report_unknown(const char *name) {
  const char *names[sizeof(cli_commands) / sizeof(cli_commands[0])];
  size_t count = 0;
  for (const cli_command *row = cli_commands; row->name != NULL; ++row)
    names[count++] = row->name;
  const char *nearest = cli_nearest(name, names, count);
  static const cli_refusal rows[] = {{"-V,-v,version", "--version"},
                                     {"fit", "train"},
                                     {"test,evaluate", "eval"},
                                     {"infer", "predict"},
                                     {"find-lr", "train --find-lr"}};
  const cli_refusals others = {.rows = rows,
                               .count = sizeof(rows) / sizeof(*rows)};
  const char *other = cli_refusal_find(&others, name, strlen(name));
  if (other != NULL) nearest = other;
  if (nearest != NULL)
    cli_refuse(NULL, "there is no command '%s'; did you mean '%s'?", name,
               nearest);
  else
    cli_refuse(NULL, "there is no command '%s'; see 'lockstep help'", name);
  return CLI_USAGE;
}

int cli_help(int argc, char **argv) {
  const char *topic = NULL;
  const cli_syntax syntax = {
      .command = "help",
      .about = "Explains the program, a command, the environment (env), or a "
               "name of the\nlibrary: 'lockstep help ls_train'.",
      .operand_form = "[COMMAND|NAME]",
      .operand = &topic};
  if (argc == 0) {
    print_overview();
    return CLI_OK;
  }
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  if (strcmp(topic, "env") == 0) {
    fputs(ls_debug_switches_help(), stdout);
    return CLI_OK;
  }
  for (const cli_command *row = cli_commands; row->name != NULL; ++row) {
    char flag[] = "--help";
    if (strcmp(topic, row->name) == 0) return row->run(1, (char *[]){flag});
  }
  if (strncmp(topic, "ls_", 3) == 0 || strncmp(topic, "LS_", 3) == 0)
    return cli_help_name(topic, true);
  char name[80];
  snprintf(name, sizeof(name), "ls_%s", topic);
  return cli_help_name(name, false) == CLI_OK ? CLI_OK : report_unknown(topic);
}

// ---- The program -----------------------------------------------------------
// Runs a command, on all ranks together if it is for several processes.
static int run_command(const cli_command *command, int argc, char **argv) {
  const char *name = command->name;
  if (strcmp(name, "launch") == 0 || strcmp(name, "help") == 0)
    return command->run(argc, argv);
  if (strcmp(name, "train") != 0 && strcmp(name, "devices") != 0)
    return cli_is_alone(name) ? command->run(argc, argv) : CLI_USAGE;
  if (!cli_ranks_open(name)) return CLI_FAILED;
  const int code = cli_ranks_compare(name, argc, argv);
  return cli_ranks_close(name,
                         code == CLI_OK ? command->run(argc, argv) : code);
}

static int main_run(int argc, char **argv) {
  if (argc < 2)
    return cli_misuse(NULL, "a command is missing; see 'lockstep help'");
  const char *name = argv[1];
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) name = "help";
  if (strcmp(name, "--version") == 0) {
    printf("lockstep %s\n", ls_version());
    return CLI_OK;
  }
  for (const cli_command *row = cli_commands; row->name != NULL; ++row) {
    if (strcmp(name, row->name) != 0) continue;
    return run_command(row, argc - 2, argv + 2);
  }
  return report_unknown(name);
}

// Opens /dev/null for closed standard streams, else a run's file takes their
// number and gets messages. Using one still fails: it is open the wrong way.
static void fill_streams(void) {
  for (int i = 0; i <= STDERR_FILENO; ++i)
    if (fcntl(i, F_GETFD) < 0)
      (void)open("/dev/null", i == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv) {
  fill_streams();
  cli_signals_begin();
  // Numbers keep a decimal point, whatever locale a loaded library sets.
  const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (plain != (locale_t)0) uselocale(plain);
  int code = main_run(argc, argv);
  errno = 0;
  if ((fflush(stdout) != 0 || ferror(stdout)) && code == CLI_OK) {
    const int reason = errno;  // 0: an earlier write failed.
    if (reason == EPIPE) return CLI_SIGNAL + SIGPIPE;
    cli_refuse(NULL, "cannot write to standard output%s%s",
               reason != 0 ? ": " : "", reason != 0 ? strerror(reason) : "");
    code = CLI_FAILED;
  }
  return code;
}
