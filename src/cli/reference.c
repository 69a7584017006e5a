// SPDX-License-Identifier: Apache-2.0
// `lockstep help ls_train`: an entry of the table of public names, which
// tools/docs/table.awk makes of the headers and explains. It is a file, in the
// share folder of the build or of the installation.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

enum { MOST_NAME = 64, MOST_LINE = 4096 };

static FILE *open_table(void) {
  static const char *const folders[] = {LS_BIN_TO_DATA, "share"};
  char program[3072], path[4096];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof(program));
  if (length < 0 || length == (ssize_t)sizeof(program)) return NULL;
  program[length] = '\0';
  *(strrchr(program, '/') + 1) = '\0';
  FILE *file = NULL;
  for (size_t i = 0; file == NULL && i < 2; ++i) {
    snprintf(path, sizeof(path), "%s%s/lockstep/reference.txt", program,
             folders[i]);
    file = fopen(path, "r");
  }
  return file;
}

// Returns true if `name` is one of the words of a line, which it ends by zeros.
// `nearest` gets the most similar name so far.
static bool find_name(char *line, const char *name, char *nearest) {
  bool found = false;
  for (char *word = strtok(line, " \n"); word != NULL;
       word = strtok(NULL, " \n")) {
    const char *best = cli_nearest(name, (const char *[]){nearest, word}, 2);
    if (best == word) snprintf(nearest, MOST_NAME, "%s", word);
    found = found || strcmp(word, name) == 0;
  }
  return found;
}

// Prints the code and the comment that follow an entry's names.
static void print_entry(FILE *file, char *line, const char *header) {
  char before = 'C';
  while (fgets(line, MOST_LINE, file) != NULL &&
         (line[0] == 'C' || line[0] == 'T')) {
    if (line[0] != before) putchar('\n');
    before = line[0];
    fputs(line + 2, stdout);
  }
  printf("\n#include \"lockstep/%s\"\n", header);
}

int cli_help_name(const char *name, bool reports) {
  char line[MOST_LINE], header[MOST_NAME] = "", nearest[MOST_NAME] = "";
  CLI_OWN(FILE, file) = open_table();
  if (file == NULL && !reports) return CLI_USAGE;
  if (file == NULL)
    return cli_misuse(
        "help",
        "'%s' is explained in share/lockstep/reference.txt, which is not "
        "there",
        name);
  while (fgets(line, sizeof(line), file) != NULL) {
    if (line[0] == 'H') sscanf(line + 2, "%63s", header);
    if (line[0] == 'E' && find_name(line + 2, name, nearest)) {
      print_entry(file, line, header);
      return CLI_OK;
    }
  }
  if (!reports) return CLI_USAGE;
  if (nearest[0] != '\0')
    cli_say("help", "there is no '%s'; did you mean 'lockstep help %s'?", name,
            nearest);
  else
    cli_say("help", "there is no '%s' in the library", name);
  return CLI_USAGE;
}
