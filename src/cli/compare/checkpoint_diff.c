// SPDX-License-Identifier: Apache-2.0
// lockstep checkpoint diff.
#include <stdio.h>

#include "cli/compare/compare.h"

typedef struct diff_flags {
  const char **paths;
  size_t num_paths;
  const char *only;
  cli_words words;
  int64_t most;
  bool json, equal;
} diff_flags;

static ls_status compare_saved(const diff_flags *flags, const ls_saved_file *a,
                               const ls_saved_file *b, size_t *different) {
  ls_saved_info one, other;
  ls_saved_file_describe(a, &one);
  ls_saved_file_describe(b, &other);
  LS_RETURN_IF_ERROR(cli_words_check(&flags->words, a, b));
  if (one.step >= 0 && other.step >= 0 && !flags->json) {
    if (one.step != other.step)
      printf("step: %lld and %lld\n", (long long)one.step,
             (long long)other.step);
    LS_RETURN_IF_ERROR(cli_compare_notes(a, b, flags->words.count == 0, false));
  }
  return cli_compare_files(a, b,
                           &(cli_compare_options){.only = &flags->words,
                                                  .most = (size_t)flags->most,
                                                  .json = flags->json},
                           different);
}

static ls_status diff_files(void *user) {
  diff_flags *flags = user;
  CLI_OWN(ls_saved_file, a) = NULL;
  CLI_OWN(ls_saved_file, b) = NULL;
  size_t different = 0;
  for (int i = 0; i < 2; ++i)
    LS_RETURN_IF_ERROR(cli_recover_run(flags->paths[i]));
  LS_RETURN_IF_ERROR(ls_saved_file_open_unread(flags->paths[0], &a));
  LS_RETURN_IF_ERROR(ls_saved_file_open_unread(flags->paths[1], &b));
  LS_RETURN_IF_ERROR(compare_saved(flags, a, b, &different));
  flags->equal = different == 0;
  return ls_ok();
}

int cli_checkpoint_diff(int argc, char **argv) {
  static const char command[] = "checkpoint diff";
  CLI_OWN_MEMORY(const char *, paths) = cli_checkpoint_paths(argc);
  if (paths == NULL) return cli_report(command, ls_out_of_memory());
  diff_flags flags = {.paths = paths, .most = 1000};
  const cli_option options[] = {
      CLI_ONLY_OPTION(&flags.only),
      {"most", CLI_COUNT, &flags.most, "N",
       "number of arrays to list (default 1000)", 1},
      {"json", CLI_FLAG, &flags.json, NULL,
       "print a line of JSON per array that differs: array, type, elements, "
       "different, first, values, absolute, relative, ulp, no_numbers; or "
       "array, types; or array, only_in, type",
       0},
  };
  const cli_syntax syntax = {
      .command = command,
      .about = "Compares two checkpoints or files: step, run, states, and of "
               "the arrays names and types, how many elements differ, the "
               "first with its bits, and the largest difference; 0 and -0 "
               "differ. Ends with code 0 if all arrays are equal, else 1. PATH "
               "is as in 'lockstep checkpoint --help'.",
      CLI_OPTIONS(options),
      .operand_form = "PATH PATH",
      .operand = flags.paths,
      .num_operands = &flags.num_paths};
  int code = CLI_OK;
  if (!cli_parse(&syntax, argc, argv, &code)) return code;
  code = CLI_USAGE;
  if (flags.num_paths != 2)
    cli_say(command, "give two PATHs, got %zu", flags.num_paths);
  else if (cli_words_open(command, "only", flags.only, NULL, &flags.words))
    code = cli_with_runtime(command, diff_files, &flags);
  cli_words_close(&flags.words);
  return code == CLI_OK && !flags.equal ? CLI_FAILED : code;
}
