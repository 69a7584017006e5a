// SPDX-License-Identifier: Apache-2.0
// lockstep checkpoint: inspects checkpoints and files of saved values.
#include "cli/compare/compare.h"
#include "cli/look/table.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const cli_command commands[] = {
    {"list", "the checkpoints of a folder", cli_checkpoint_list},
    {"show", "the contents of one: arrays, states, its run",
     cli_checkpoint_show},
    {"diff", "the differences of two", cli_checkpoint_diff},
    {"verify", "compare all bytes with their checksums", cli_checkpoint_verify},
    {"convert", "values as .safetensors or .npz, under other names",
     cli_checkpoint_convert},
    {NULL, NULL, NULL},
};

static void print_overview(void) {
  printf(
      "usage: lockstep checkpoint COMMAND [FLAG...]\n"
      "\n"
      "Inspects checkpoints and files of saved values. PATH is\n"
      "  a folder, such as a run's: its newest intact checkpoint, or else its\n"
      "    model.safetensors;\n"
      "  a checkpoint in it, DIR/model.ckpt-30;\n"
      "  a .safetensors or .npz file.\n"
      "Nothing there is changed, even while a run is writing.\n"
      "\n"
      "commands:\n");
  for (const cli_command *row = commands; row->name != NULL; ++row)
    printf("  %-8s  %s\n", row->name, row->about);
  printf(
      "\n"
      "'lockstep checkpoint COMMAND --help' lists the flags of a command.\n");
}

int cli_checkpoint(int argc, char **argv) {
  if (argc < 1)
    return cli_misuse("checkpoint",
                      "COMMAND is missing: list, show, diff, verify or "
                      "convert");
  if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0) {
    print_overview();
    return CLI_OK;
  }
  const char *names[LS_CLI_CHECKPOINT_COMMANDS];
  size_t count = 0;
  for (const cli_command *row = commands; row->name != NULL; ++row) {
    if (strcmp(argv[0], row->name) == 0) return row->run(argc - 1, argv + 1);
    names[count++] = row->name;
  }
  const char *nearest = cli_nearest(argv[0], names, count);
  if (nearest != NULL)
    cli_say("checkpoint", "there is no command '%s'; did you mean '%s'?",
            argv[0], nearest);
  else
    cli_say("checkpoint",
            "there is no command '%s'; see 'lockstep checkpoint --help'",
            argv[0]);
  return CLI_USAGE;
}

// ---- Verify ----------------------------------------------------------------
typedef struct verify_flags {
  const char **paths;
  size_t num_paths;
  bool json, bad;
} verify_flags;

static void print_verified(const verify_flags *flags, const char *path,
                           const ls_saved_info *info, size_t faults) {
  char bytes[CLI_CELL];
  if (flags->json) {
    cli_print_text('{', "path", path);
    printf(",\"arrays\":%zu,\"bytes\":%lld,\"checksums\":%s,\"damaged\":%zu}\n",
           info->num_entries, (long long)info->bytes,
           info->checked ? "true" : "false", faults);
    return;
  }
  cli_format_bytes((double)info->bytes, bytes);
  printf("%s: %zu array%s, %s, ", path, info->num_entries,
         info->num_entries == 1 ? "" : "s", bytes);
  if (faults > 0)
    printf("%zu damaged\n", faults);
  else
    printf(info->checked ? "whole\n"
                         : "as long as it should be; it has no checksums\n");
}

// Reports each array that is damaged.
static ls_status check_file(const verify_flags *flags, const char *path,
                            size_t *faults) {
  CLI_OWN(ls_saved_file, file) = NULL;
  ls_saved_info info;
  LS_RETURN_IF_ERROR(ls_saved_file_open_unread(path, &file));
  ls_saved_file_describe(file, &info);
  for (size_t i = 0; i < info.num_entries; ++i) {
    const ls_status status = ls_saved_file_check(file, i);
    if (ls_status_is_ok(status)) continue;
    ++*faults;
    (void)cli_report("checkpoint verify", status);
  }
  print_verified(flags, path, &info, *faults);
  return ls_ok();
}

static void verify_file(verify_flags *flags, const char *path) {
  size_t faults = 0;
  const ls_status status = check_file(flags, path, &faults);
  flags->bad |= faults > 0 || !ls_status_is_ok(status);
  if (flags->json && !ls_status_is_ok(status)) {
    cli_print_text('{', "path", path);
    cli_print_text(',', "why", ls_status_message(status));
    puts("}");
  }
  (void)cli_report("checkpoint verify", status);
}

// Verifies all checkpoints of a folder, or the file that the path names.
static ls_status verify_path(verify_flags *flags, const char *path) {
  CLI_OWN_MEMORY(int64_t, steps) = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(cli_recover_run(path));
  const ls_status status = cli_checkpoint_steps(path, &steps, &count);
  if (ls_status_code(status) == LS_RESOURCE_EXHAUSTED) return status;
  ls_status_free(status);
  if (count == 0) verify_file(flags, path);
  for (size_t i = 0; i < count; ++i) {
    char name[PATH_MAX + 64];
    snprintf(name, sizeof(name), "%s/model.ckpt-%lld", path,
             (long long)steps[i]);
    verify_file(flags, name);
  }
  return ls_ok();
}

static ls_status verify_all(void *user) {
  verify_flags *flags = user;
  for (size_t i = 0; i < flags->num_paths; ++i)
    LS_RETURN_IF_ERROR(verify_path(flags, flags->paths[i]));
  return ls_ok();
}

int cli_checkpoint_verify(int argc, char **argv) {
  verify_flags flags = {.paths = (const char **)argv};
  const cli_option options[] = {
      {"json", CLI_FLAG, &flags.json, NULL,
       "print a line of JSON per file: path, arrays, bytes, checksums, "
       "damaged; or path, why"},
  };
  const cli_syntax syntax = {
      .command = "checkpoint verify",
      .about =
          "Reads all values and verifies their checksums; for a folder those "
          "of all its checkpoints. Reports damaged files, and then ends with "
          "code 1. A separate .safetensors file may have no checksums.",
      CLI_OPTIONS(options),
      .operand_form = "PATH...",
      .num_operands = &flags.num_paths};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  int code = cli_with_runtime("checkpoint verify", verify_all, &flags);
  return flags.bad ? CLI_FAILED : code;
}

// ---- Convert ---------------------------------------------------------------
typedef struct convert_flags {
  const char **paths;
  size_t num_paths;
  const char *only, *except, *map;
  bool parts;
  cli_words only_words, except_words, maps;
} convert_flags;

static bool ends_in(const char *text, const char *end) {
  const size_t size = strlen(text), length = strlen(end);
  return size > length && strcmp(text + size - length, end) == 0;
}

static bool check_convert(const convert_flags *flags) {
  const char *to = flags->paths[1];
  if (flags->num_paths != 2)
    cli_say("checkpoint convert", "give PATH and TO, got %zu words",
            flags->num_paths);
  else if (!ends_in(to, ".safetensors") && !ends_in(to, ".npz"))
    cli_say("checkpoint convert",
            "'%s' must end in .safetensors or .npz, which selects the format",
            to);
  else
    return true;
  return false;
}

static bool open_words(convert_flags *flags) {
  static const char command[] = "checkpoint convert";
  return cli_words_open(command, "only", flags->only, NULL,
                        &flags->only_words) &&
         cli_words_open(command, "except", flags->except, NULL,
                        &flags->except_words) &&
         cli_words_open(command, "map", flags->map, "OLD=NEW", &flags->maps);
}

static ls_status convert_file(void *user) {
  const convert_flags *flags = user;
  CLI_OWN(ls_saved_file, file) = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(cli_recover_run(flags->paths[0]));
  LS_RETURN_IF_ERROR(ls_saved_file_open(flags->paths[0], &file));
  LS_RETURN_IF_ERROR(ls_saved_file_write(
      file, flags->paths[1],
      &(ls_saved_write_options){.only = flags->only_words.items,
                                .num_only = flags->only_words.count,
                                .except = flags->except_words.items,
                                .num_except = flags->except_words.count,
                                .names = flags->maps.maps,
                                .num_names = flags->maps.count,
                                .parts = flags->parts ? LS_FLAG_ON
                                                      : LS_FLAG_DEFAULT},
      &count));
  printf("%s: %zu array%s\n", flags->paths[1], count, count == 1 ? "" : "s");
  return ls_ok();
}

int cli_checkpoint_convert(int argc, char **argv) {
  convert_flags flags = {.paths = (const char **)argv};
  const cli_option options[] = {
      CLI_ONLY_OPTION(&flags.only),
      {"except", CLI_TEXT, &flags.except, "A,B",
       "leave these out, such as an optimizer's"},
      {"map", CLI_TEXT, &flags.map, "OLD=NEW,...",
       "rename arrays: one, or, if both names end in /, all below; / alone is "
       "the root"},
      {"parts", CLI_FLAG, &flags.parts, NULL,
       "also write replicas' parts, 'w:0' and so on"},
  };
  const cli_syntax syntax = {
      .command = "checkpoint convert",
      .about = "Writes values to a file for other tools, replacing it "
               "atomically. PATH is as in 'lockstep checkpoint --help'; TO "
               "ends in .safetensors or .npz.",
      CLI_OPTIONS(options),
      .operand_form = "PATH TO",
      .num_operands = &flags.num_paths};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  int code = CLI_USAGE;
  if (check_convert(&flags) && open_words(&flags))
    code = cli_with_runtime("checkpoint convert", convert_file, &flags);
  cli_words_close(&flags.only_words);
  cli_words_close(&flags.except_words);
  cli_words_close(&flags.maps);
  return code;
}

// ---- Differences -----------------------------------------------------------
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
  diff_flags flags = {.paths = (const char **)argv, .most = 1000};
  const cli_option options[] = {
      CLI_ONLY_OPTION(&flags.only),
      {"most", CLI_COUNT, &flags.most, "N",
       "number of arrays to list (default 1000)"},
      {"json", CLI_FLAG, &flags.json, NULL,
       "print a line of JSON per array that differs: array, type, elements, "
       "different, first, values, absolute, relative, ulp, no_numbers; or "
       "array, types; or array, only_in, type"},
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
      .num_operands = &flags.num_paths};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  int code = CLI_USAGE;
  if (flags.num_paths != 2)
    cli_say(command, "give two PATHs, got %zu", flags.num_paths);
  else if (cli_words_open(command, "only", flags.only, NULL, &flags.words))
    code = cli_with_runtime(command, diff_files, &flags);
  cli_words_close(&flags.words);
  return code == CLI_OK && !flags.equal ? CLI_FAILED : code;
}
