// SPDX-License-Identifier: Apache-2.0
// lockstep doctor: checks a machine for training.
#define _GNU_SOURCE
#include "cli/look/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static const char command[] = "doctor";

// ---- Findings --------------------------------------------------------------
cli_finding *cli_find(cli_checkup *checkup, cli_level level,
                      const char *subject, const char *format, ...) {
  if (checkup->count == CLI_MOST_FINDINGS) --checkup->count;
  cli_finding *finding = &checkup->items[checkup->count++];
  *finding = (cli_finding){.level = level, .subject = subject};
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(finding->text, sizeof(finding->text), format, arguments);
  va_end(arguments);
  return finding;
}

void cli_advise(cli_finding *finding, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(finding->advice, sizeof(finding->advice), format, arguments);
  va_end(arguments);
}

// ---- Output ----------------------------------------------------------------
static const char *const levels[] = {"ok", "note", "problem"};

static size_t count_level(const cli_checkup *checkup, cli_level level) {
  size_t count = 0;
  for (size_t i = 0; i < checkup->count; ++i)
    count += checkup->items[i].level == level;
  return count;
}

// Prints a text in lines of `width` columns, from column `indent` on.
static void print_wrapped(int indent, int width, const char *text) {
  int column = indent;
  while (*text != '\0') {
    const size_t size = strcspn(text, " ");
    const int columns = (int)size;
    if (column > indent && column + 1 + columns > width) {
      printf("\n%*s", indent, "");
      column = indent;
    } else if (column > indent) {
      putchar(' ');
      ++column;
    }
    for (size_t i = 0; i < size; ++i)
      putchar((unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i]);
    column += columns;
    text += size;
    text += strspn(text, " ");
  }
  putchar('\n');
}

static void print_findings(const cli_checkup *checkup, int width) {
  enum { INDENT = 23, NARROW = 9 };
  const int indent = width >= 60 ? INDENT : NARROW;
  for (size_t i = 0; i < checkup->count; ++i) {
    const cli_finding *finding = &checkup->items[i];
    printf("%-8s %-13s", levels[finding->level], finding->subject);
    printf(indent == INDENT ? " " : "\n%*s", NARROW, "");
    print_wrapped(indent, width, finding->text);
    if (finding->advice[0] == '\0') continue;
    printf("%*s", indent, "");
    print_wrapped(indent, width, finding->advice);
  }
}

static void print_text(const cli_checkup *checkup) {
  struct utsname system = {0};
  const size_t notes = count_level(checkup, CLI_LEVEL_NOTE);
  const size_t problems = count_level(checkup, CLI_LEVEL_PROBLEM);
  const cli_window window = cli_window_of(STDOUT_FILENO);
  if (uname(&system) != 0)
    snprintf(system.sysname, sizeof(system.sysname), "?");
  printf("lockstep %s on %s %s, %s\n\n", ls_version(), system.sysname,
         system.release, system.machine);
  print_findings(checkup, window.columns > 0 ? window.columns : 80);
  printf("\n%zu note%s, %zu problem%s: training is %s here\n", notes,
         notes == 1 ? "" : "s", problems, problems == 1 ? "" : "s",
         problems == 0 ? "possible" : "not possible");
}

static void print_json(const cli_checkup *checkup) {
  cli_print_text('{', "version", ls_version());
  printf(",\"problems\":%zu,\"notes\":%zu,\"findings\":[",
         count_level(checkup, CLI_LEVEL_PROBLEM),
         count_level(checkup, CLI_LEVEL_NOTE));
  for (size_t i = 0; i < checkup->count; ++i) {
    const cli_finding *finding = &checkup->items[i];
    printf("%s{\"level\":\"%s\",\"subject\":\"%s\",\"text\":", i > 0 ? "," : "",
           levels[finding->level], finding->subject);
    cli_print_json(finding->text);
    cli_print_text(',', "advice", finding->advice);
    putchar('}');
  }
  printf("]}\n");
}

// ---- The command -----------------------------------------------------------
static void check_all(cli_checkup *checkup) {
  static void (*const checks[])(cli_checkup *) = {
      cli_check_processors, cli_check_kernels,  cli_check_memory,
      cli_check_limits,     cli_check_disk,     cli_check_mpi,
      cli_check_plugins,    cli_check_examples, cli_check_training};
  for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); ++i)
    checks[i](checkup);
}

int cli_doctor(int argc, char **argv) {
  bool json = false;
  const cli_option options[] = {
      {"json", CLI_FLAG, &json, NULL,
       "print one line of JSON: version, problems, notes, findings (of each: "
       "level, subject, text, advice)"},
  };
  const cli_syntax syntax = {
      .command = command,
      .about =
          "Checks this machine for training: processors and their limits, "
          "vector kernels, memory, huge pages, limits of the shell, the disk "
          "of the current folder (writes a file of at most 64 MB and removes "
          "it), MPI, plug-ins of devices, data; and trains a tiny model for "
          "some steps. Each line is ok, a note, or a problem that prevents "
          "training, with what to do. Code 1 if there is a problem.",
      CLI_OPTIONS(options)};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  CLI_OWN_MEMORY(cli_checkup, checkup) = cli_allocate(sizeof(*checkup));
  if (checkup == NULL) return cli_report(command, ls_out_of_memory());
  ls_runtime *runtime = NULL;
  cli_show_warnings_alone();
  ls_status status = cli_runtime_open(0, NULL, &runtime);
  if (!ls_status_is_ok(status)) return cli_report(command, status);
  checkup->runtime = runtime;
  check_all(checkup);
  if (json)
    print_json(checkup);
  else
    print_text(checkup);
  const bool has_problem = count_level(checkup, CLI_LEVEL_PROBLEM) > 0;
  return cli_runtime_close(command, runtime, has_problem ? CLI_FAILED : CLI_OK);
}
