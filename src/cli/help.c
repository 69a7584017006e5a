// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static void print_overview(void) {
  printf("lockstep trains models in lock step on many replicas.\n\n"
         "usage: lockstep COMMAND [FLAG...]\n\ncommands:\n");
  for (const cli_command *it = cli_commands; it->name != NULL; ++it)
    printf("  %-10s  %s\n", it->name, it->about);
  printf("\nmodels:\n");
  size_t count = 0;
  const ls_model_type *const *types = ls_model_types(&count);
  for (size_t i = 0; i < count; ++i)
    printf("  %-8s  %s\n", types[i]->name, types[i]->description);
  printf(
      "\n"
      "'lockstep help COMMAND' lists a command's flags, 'lockstep help env' "
      "the\n"
      "environment variables, 'lockstep --version' prints the version.\n"
      "\n"
      "If a flag is given twice, the last value counts.\n"
      "\n"
      "exit codes: 0 success, 1 failure, 2 usage error, 3 interrupted before\n"
      "saving, 128+N killed by signal N.\n");
}

int cli_help(int argc, char **argv) {
  const char *topic = NULL;
  int code = CLI_OK;
  const cli_syntax syntax = {
      .command = "help",
      .about = "Explains the program, a command, or the environment (env).",
      .operand_form = "[COMMAND]",
      .operand = &topic};
  if (argc == 0) {
    print_overview();
    return CLI_OK;
  }
  if (!cli_parse(&syntax, argc, argv, &code)) return code;
  if (strcmp(topic, "env") == 0) {
    fputs(ls_debug_switches_help(), stdout);
    return CLI_OK;
  }
  for (const cli_command *it = cli_commands; it->name != NULL; ++it) {
    char flag[] = "--help";
    if (strcmp(topic, it->name) == 0) return it->run(1, (char *[]){flag});
  }
  cli_say("help", "there is no command '%s'; see 'lockstep help'", topic);
  return CLI_USAGE;
}
