// SPDX-License-Identifier: Apache-2.0
// lockstep checkpoint diff.
#include <stdio.h>

#include "cli/checkpoint.h"
#include "cli/compare.h"

typedef struct diff_flags {
  const char **paths;
  size_t num_paths;
  const char *only;
  cli_words words;
  int64_t most;
  bool json;
} diff_flags;

// ---- The command -----------------------------------------------------------
static ls_status checkpoint_diff_compare(const diff_flags *flags,
                                         const ls_saved_file *a,
                                         const ls_saved_file *b,
                                         size_t *different) {
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

static ls_status checkpoint_diff_run(const diff_flags *flags, bool *out_equal) {
  ls_saved_file *a = NULL, *b = NULL;
  size_t different = 0;
  ls_status status = ls_ok();
  for (int i = 0; i < 2 && ls_status_is_ok(status); ++i)
    status = cli_recover_run(flags->paths[i]);
  if (ls_status_is_ok(status))
    status = ls_saved_file_open_unread(flags->paths[0], &a);
  if (ls_status_is_ok(status))
    status = ls_saved_file_open_unread(flags->paths[1], &b);
  if (ls_status_is_ok(status))
    status = checkpoint_diff_compare(flags, a, b, &different);
  ls_saved_file_close(a);
  ls_saved_file_close(b);
  *out_equal = ls_status_is_ok(status) && different == 0;
  return status;
}

int cli_checkpoint_diff(int argc, char **argv) {
  static const char command[] = "checkpoint diff";
  diff_flags flags = {.paths = cli_checkpoint_paths(argc), .most = 1000};
  const cli_option options[] = {
      CLI_ONLY_OPTION(&flags.only),
      {"most", CLI_COUNT, &flags.most, "N",
       "arrays that are named (default 1000)", 1},
      {"json", CLI_FLAG, &flags.json, NULL,
       "print of each array that differs a line of JSON: array,\n"
       "type, elements, different, first, values, absolute,\n"
       "relative, ulp, no_numbers; or array, types; or array,\n"
       "only_in, type",
       0},
  };
  const cli_syntax syntax = {
      .command = command,
      .about =
          "Tells how two checkpoints or files differ: step, run, states, and "
          "of the arrays\nnames and types, and how many elements of each, "
          "the first with its bits, and how\nfar apart they are at most; 0 "
          "and -0 differ. Ends with code 0 if all arrays are\nequal, else "
          "1. PATH is as in 'lockstep checkpoint --help'.",
      .options = options,
      .num_options = sizeof(options) / sizeof(options[0]),
      .operand_form = "PATH PATH",
      .operand = flags.paths,
      .num_operands = &flags.num_paths};
  int code = CLI_OK;
  if (flags.paths == NULL) return cli_report(command, ls_out_of_memory());
  const bool parsed = cli_parse(&syntax, argc, argv, &code);
  if (parsed) code = CLI_USAGE;
  if (parsed && flags.num_paths != 2) {
    cli_say(command, "give two PATHs, got %zu", flags.num_paths);
  } else if (parsed &&
             cli_words_open(command, "only", flags.only, NULL, &flags.words)) {
    ls_runtime *runtime = NULL;
    bool equal = false;
    ls_status status = cli_saved_runtime(&runtime);
    if (ls_status_is_ok(status)) status = checkpoint_diff_run(&flags, &equal);
    code = ls_status_is_ok(status) ? (equal ? CLI_OK : CLI_FAILED)
                                   : cli_report(command, status);
    code = cli_runtime_close(command, runtime, code);
  }
  cli_words_close(&flags.words);
  cli_release(flags.paths);
  return code;
}
