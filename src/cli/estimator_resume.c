// SPDX-License-Identifier: Apache-2.0
//
// estimator.json of an estimator's run folder: the flags on which its bits
// depend. A resumed run takes them from there and is refused others.
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/estimator.h"
#include "cli/ranks.h"
#include "cli/words.h"

static const char file_name[] = "estimator.json";

// A flag that estimator.json has, under its name.
typedef struct entry {
  const char *name;
  cli_kind kind;
  size_t place;  // In estimator_flags.
} entry;
static const entry entries[] = {
    {"tpu", CLI_TEXT, offsetof(estimator_flags, tpu)},
    {"replicas", CLI_COUNT, offsetof(estimator_flags, replicas)},
    {"batch-size", CLI_COUNT, offsetof(estimator_flags, batch_size)},
    {"seed", CLI_COUNT, offsetof(estimator_flags, seed)},
    {"math", CLI_TEXT, offsetof(estimator_flags, math)},
    {"data", CLI_TEXT, offsetof(estimator_flags, data.data)},
    {"split", CLI_REAL, offsetof(estimator_flags, data.split)},
    {"features", CLI_TEXT, offsetof(estimator_flags, data.features)},
    {"task", CLI_TEXT, offsetof(estimator_flags, data.task_name)},
    {"outputs", CLI_COUNT, offsetof(estimator_flags, data.outputs)},
    {"param", CLI_TEXT, offsetof(estimator_flags, params)},
};
enum { NUM_ENTRIES = sizeof(entries) / sizeof(*entries) };

// ---- Values ----------------------------------------------------------------
static bool counts_from_0(const char *name) {
  return strcmp(name, "seed") == 0 || strcmp(name, "keep") == 0 ||
         strcmp(name, "grace") == 0;
}

// Prints a flag's value; "" if it was not given.
static void print_flag(const char *name, cli_kind kind, const void *value,
                       char *text, size_t size) {
  text[0] = '\0';
  if (kind == CLI_COUNT) {
    const int64_t count = *(const int64_t *)value;
    if (count > 0 || (count == 0 && counts_from_0(name)))
      snprintf(text, size, "%lld", (long long)count);
  } else if (kind == CLI_REAL) {
    const double real = *(const double *)value;
    if (real != 0) snprintf(text, size, "%.17g", real);
  } else if (kind == CLI_TEXT && *(const char *const *)value != NULL) {
    char full[PATH_MAX];
    const char *given = *(const char *const *)value;
    if (strcmp(name, "data") == 0) given = cli_full_data(given, full);
    snprintf(text, size, "%s", given);
  }
}

static void set_flag(const entry *e, estimator_flags *flags, const char *text) {
  char *place = (char *)flags + e->place;
  if (e->kind == CLI_COUNT)
    *(int64_t *)(void *)place = strtoll(text, NULL, 10);
  else if (e->kind == CLI_REAL)
    *(double *)(void *)place = strtod(text, NULL);
  else
    *(const char **)(void *)place = text;
}

// Returns the value of a parameter in "NAME=N,..."; NULL if it has none.
static const char *find_param(const cli_words *words, const char *name) {
  const char *found = NULL;
  for (size_t i = 0; i < words->count; ++i)
    if (strcmp(words->maps[i].from, name) == 0) found = words->maps[i].to;
  return found;
}

static bool are_equal_numbers(const char *a, const char *b) {
  return strcmp(a, b) == 0 || strtod(a, NULL) == strtod(b, NULL);
}

// ---- Differences -----------------------------------------------------------
static bool report_difference(const estimator_flags *flags, const char *flag,
                              const char *asked, const char *has) {
  const char *quote = has[0] != '\0' ? "'" : "";
  if (!cli_leads()) return flags->inexact;
  cli_say("train",
          flags->inexact
              ? "--%s is '%s', the run in '%s' has %s%s%s: results will differ"
              : "--%s is '%s', the run in '%s' has %s%s%s: it can only "
                "continue with the same, or with --allow-inexact",
          flag, asked, flags->resume, quote, has[0] != '\0' ? has : "none",
          quote);
  return flags->inexact;
}

// Checks a parameter of --param.
static bool check_param(const estimator_flags *flags, const cli_words *saved,
                        const ls_name_map *param) {
  char given[NAME_MAX], has[NAME_MAX] = "";
  const char *value = find_param(saved, param->from);
  if (value != NULL && are_equal_numbers(value, param->to)) return true;
  snprintf(given, sizeof(given), "%s=%s", param->from, param->to);
  if (value != NULL) snprintf(has, sizeof(has), "%s=%s", param->from, value);
  return report_difference(flags, "param", given, has);
}

// Appends those of the run's parameters that --param does not have.
static bool add_saved_params(estimator_flags *flags, const cli_words *asked,
                             const cli_words *saved, size_t room,
                             cli_kept_flags *kept) {
  kept->params = cli_allocate(room);
  if (kept->params == NULL) {
    (void)cli_report("train", ls_out_of_memory());
    return false;
  }
  size_t size = (size_t)snprintf(kept->params, room, "%s", flags->params);
  for (size_t i = 0; i < saved->count; ++i) {
    const ls_name_map *param = &saved->maps[i];
    if (find_param(asked, param->from) == NULL)
      size += (size_t)snprintf(kept->params + size, room - size, ",%s=%s",
                               param->from, param->to);
  }
  flags->params = kept->params;
  return true;
}

static bool take_params(estimator_flags *flags, const char *has,
                        cli_kept_flags *kept) {
  CLI_OWN(cli_words, asked) = {0};
  CLI_OWN(cli_words, saved) = {0};
  if (!cli_words_open("train", "param", flags->params, "NAME=N", &asked) ||
      !cli_words_open("train", "param", has[0] != '\0' ? has : NULL, "NAME=N",
                      &saved))
    return false;
  for (size_t i = 0; i < asked.count; ++i)
    if (!check_param(flags, &saved, &asked.maps[i])) return false;
  return add_saved_params(flags, &asked, &saved,
                          strlen(flags->params) + strlen(has) + 2, kept);
}

// Replaces a flag that was not given by the run's value, `has`; checks one that
// was.
static bool take_entry(const entry *e, estimator_flags *flags,
                       const estimator_flags *line, const char *has,
                       cli_kept_flags *kept) {
  char asked[PATH_MAX];
  print_flag(e->name, e->kind, (const char *)line + e->place, asked,
             sizeof(asked));
  const bool is_replaced =
      flags->inexact &&
      ((strcmp(e->name, "replicas") == 0 && line->tpu != NULL) ||
       (strcmp(e->name, "tpu") == 0 && line->replicas > 0));
  if (asked[0] == '\0') {
    if (has[0] != '\0' && !is_replaced) set_flag(e, flags, has);
    return true;
  }
  if (strcmp(e->name, "param") == 0) return take_params(flags, has, kept);
  return strcmp(asked, has) == 0 ||
         report_difference(flags, e->name, asked, has);
}

// ---- Reading ---------------------------------------------------------------
void cli_kept_flags_close(cli_kept_flags *kept) {
  cli_release(kept->text);
  cli_release(kept->values);
  cli_release(kept->params);
  *kept = (cli_kept_flags){0};
}

static bool is_object(const char *text) {
  cli_member member;
  while (cli_json_next(&text, &member)) {
  }
  text += strspn(text, " \t\r\n");
  return text[0] == '}' && text[1 + strspn(text + 1, " \t\r\n")] == '\0';
}

// Reads the file of the run; leaves "" if there is none.
static ls_status read_file(const char *folder, char *text, size_t size) {
  char path[PATH_MAX];
  CLI_OWN(FILE, file) = NULL;
  if (snprintf(path, sizeof(path), "%s/%s", folder, file_name) >=
      (int)sizeof(path))
    return ls_ok();
  CLI_OWN(ls_status, status) = cli_open_file(path, &file);
  if (ls_status_code(status) == LS_NOT_FOUND) return ls_ok();
  if (!ls_status_is_ok(status)) return cli_give(&status);
  const size_t count = fread(text, 1, size - 1, file);
  if (count == size - 1 || strlen(text) != count || !is_object(text))
    return ls_invalid_argument("'%s' is damaged: it is no JSON object of flags",
                               path);
  return ls_ok();
}

// Takes the members of the run's file, in any order.
static bool take_members(estimator_flags *flags, const ls_estimator_type *type,
                         cli_kept_flags *kept) {
  const estimator_flags line = *flags;
  cli_member member;
  char *at = kept->values;
  if (cli_json_find(kept->text, "estimator", &member)) {
    cli_json_copy(&member, at, member.value_size + 1);
    if (strcmp(at, type->name) != 0) {
      if (cli_leads())
        cli_say("train", "the run in '%s' is of estimator '%s', not of '%s'",
                flags->resume, at, type->name);
      return false;
    }
  }
  for (size_t i = 0; i < NUM_ENTRIES; ++i) {
    char key[32];
    snprintf(key, sizeof(key), "%s", entries[i].name);
    for (char *dash = strchr(key, '-'); dash != NULL; dash = strchr(key, '-'))
      *dash = '_';
    *at = '\0';
    if (cli_json_find(kept->text, key, &member))
      cli_json_copy(&member, at, member.value_size + 1);
    if (!take_entry(&entries[i], flags, &line, at, kept)) return false;
    at += strlen(at) + 1;
  }
  return true;
}

int cli_estimator_continue(estimator_flags *flags,
                           const ls_estimator_type *type,
                           cli_kept_flags *kept) {
  enum { MOST_BYTES = 1 << 16 };
  if (flags->resume == NULL) return CLI_OK;
  kept->text = cli_allocate(MOST_BYTES);
  kept->values = cli_allocate(2 * MOST_BYTES);
  ls_status status = ls_out_of_memory();
  if (kept->text != NULL && kept->values != NULL) {
    ls_status_free(status);
    status = cli_leads() ? read_file(flags->resume, kept->text, MOST_BYTES)
                         : ls_ok();
  }
  status = cli_ranks_agree(status);
  if (ls_status_is_ok(status)) status = cli_ranks_send(kept->text, MOST_BYTES);
  if (!ls_status_is_ok(status)) return cli_report("train", status);
  // A run of an older version, or of a program of its own, has no such file.
  if (kept->text[0] == '\0') return CLI_OK;
  return take_members(flags, type, kept) ? CLI_OK : CLI_USAGE;
}

// ---- Writing ---------------------------------------------------------------
static void write_entries(FILE *to, const estimator_flags *flags,
                          const ls_estimator_type *type) {
  estimator_flags values = *flags;
  if (values.math == NULL) values.math = "fast";
  if (values.batch_size == 0 && type->options.train_batch_size.set)
    values.batch_size = type->options.train_batch_size.value;
  fputs("{\n  \"estimator\": ", to);
  cli_write_json(to, type->name, strlen(type->name));
  for (size_t i = 0; i < NUM_ENTRIES; ++i) {
    char text[PATH_MAX];
    print_flag(entries[i].name, entries[i].kind,
               (const char *)&values + entries[i].place, text, sizeof(text));
    if (text[0] == '\0') continue;
    fputs(",\n  \"", to);
    for (const char *at = entries[i].name; *at != '\0'; ++at)
      putc(*at == '-' ? '_' : *at, to);
    fputs("\": ", to);
    if (entries[i].kind == CLI_TEXT)
      cli_write_json(to, text, strlen(text));
    else
      fputs(text, to);
  }
  fputs("\n}\n", to);
}

ls_status cli_estimator_keep(const estimator_flags *flags,
                             const ls_estimator_type *type) {
  char path[PATH_MAX], aside[PATH_MAX];
  if (snprintf(path, sizeof(path), "%s/%s", flags->folder, file_name) >=
          (int)sizeof(path) ||
      snprintf(aside, sizeof(aside), "%s.tmp", path) >= (int)sizeof(aside))
    return ls_invalid_argument("the path of '%s' is too long", flags->folder);
  FILE *file = fopen(aside, "w");
  bool good = file != NULL;
  if (good) {
    write_entries(file, flags, type);
    good = ferror(file) == 0;
    good = fclose(file) == 0 && good;
  }
  if (good && rename(aside, path) == 0) return ls_ok();
  (void)unlink(aside);
  return LS_STATUS(LS_UNAVAILABLE, "'%s' cannot be written", path);
}

// ---- The command of a resumption -------------------------------------------
// Appends a word to a shell command, in quotes if it needs them.
static void append_word(char *line, size_t size, const char *word) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "0123456789_./:,=+@%-";
  const size_t at = strlen(line);
  const bool is_plain = word[0] != '\0' && word[strspn(word, plain)] == '\0';
  snprintf(line + at, size - at, is_plain ? " %s" : " '%s'", word);
}

// Returns true for flags that stand for a new run or are given by --resume.
static bool is_of_begin(const char *name) {
  static const char *const names[] = {"run-dir",    "resume", "allow-inexact",
                                      "warm-start", "only",   "map"};
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); ++i)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

void cli_estimator_resumption(const cli_syntax *syntax, const char *folder,
                              char *line, size_t size) {
  snprintf(line, size, "lockstep train");
  for (size_t i = 0; i < syntax->num_options; ++i) {
    const cli_option *option = &syntax->options[i];
    char text[PATH_MAX], flag[64];
    if (is_of_begin(option->name)) continue;
    print_flag(option->name, option->kind, option->value, text, sizeof(text));
    const bool is_on = option->kind == CLI_FLAG && *(const bool *)option->value;
    if (text[0] == '\0' && !is_on) continue;
    if (strcmp(option->name, "grace") == 0 && strcmp(text, "30") == 0) continue;
    snprintf(flag, sizeof(flag), "--%s", option->name);
    append_word(line, size, flag);
    if (!is_on) append_word(line, size, text);
  }
  append_word(line, size, "--resume");
  append_word(line, size, folder);
}
