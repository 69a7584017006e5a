// SPDX-License-Identifier: Apache-2.0
// lockstep train --config: flags from a JSON object, such as a run's
// config.json, or the estimator.json of an estimator's.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/train/train_flags.h"
#include "cli/words.h"

enum { MOST_NAME = 64 };

// A file of flags that is read.
typedef struct config_file {
  const cli_syntax *syntax;
  const char *path;
  const train_flags *line;  // Flags of the command line alone.
  train_flags *flags;
  bool has_param;  // The command line has --param.
  char *texts;     // Room for the next text.
} config_file;

// ---- Members ---------------------------------------------------------------
// Writes the name of the flag of a member.
static void name_flag(const cli_member *member, char *name) {
  static const char *const others[][2] = {{"warm-only", "only"},
                                          {"warm-except", "except"},
                                          {"warm-map", "map"},
                                          {"warm-layout", "layout"}};
  snprintf(name, MOST_NAME, "%.*s", (int)member->key_size, member->key);
  for (char *at = name; *at != '\0'; ++at) {
    if (*at == '_') *at = '-';
  }
  for (size_t i = 0; i < sizeof(others) / sizeof(*others); ++i) {
    if (strcmp(name, others[i][0]) == 0)
      snprintf(name, MOST_NAME, "%s", others[i][1]);
  }
}

static bool refuse_member(const config_file *file, const cli_member *member) {
  const cli_syntax *syntax = file->syntax;
  char name[MOST_NAME];
  name_flag(member, name);
  const char *nearest = cli_nearest_flag(syntax, name, strlen(name));
  if (nearest != NULL && strcmp(nearest, "config") == 0) nearest = NULL;
  return cli_refuse(
      syntax->command, "'%s' has \"%.*s\", which is no flag of a file%s%s%s",
      file->path, (int)member->key_size, member->key,
      nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
      nearest != NULL ? "'?" : "");
}

static bool refuse_value(const config_file *file, const cli_member *member,
                         const char *wanted) {
  return cli_refuse(file->syntax->command,
                    "'%s': \"%.*s\" is %.*s, expected %s", file->path,
                    (int)member->key_size, member->key,
                    member->value_size < 200 ? (int)member->value_size : 200,
                    member->value, wanted);
}

// Returns true for a number that is 0, not one that is too small.
static bool is_zero(const char *text) {
  char *end = NULL;
  errno = 0;
  return strtod(text, &end) == 0 && end != text && *end == '\0' && errno == 0;
}

// Returns true if the value says that the flag is not given, as config.json
// says by "" and 0; or that the model has a schedule of its own.
static bool is_default(const cli_syntax *syntax, const cli_option *option,
                       const char *text) {
  // An estimator has no replicas, unless some are wanted.
  if (syntax->subject != NULL && strcmp(option->name, "replicas") == 0)
    return strcmp(text, "1") == 0;
  if (option->kind == CLI_COUNT || strcmp(option->name, "steps") == 0)
    return strcmp(text, "0") == 0;
  if (option->kind == CLI_COUNT_OR_ZERO) return false;
  if (option->kind == CLI_REAL) return is_zero(text);
  return text[0] == '\0' ||
         (strcmp(option->name, "schedule") == 0 && strcmp(text, "own") == 0);
}

static bool set_flag(config_file *file, const cli_option *option,
                     const cli_member *member) {
  const bool is_text = option->kind == CLI_TEXT || option->kind == CLI_MAYBE;
  const char *value = member->value, *end = value + member->value_size;
  char wanted[64] = "true or false";
  const bool on = end - value == 4 && strncmp(value, "true", 4) == 0;
  const bool off = end - value == 5 && strncmp(value, "false", 5) == 0;
  if (option->kind == CLI_FLAG) {
    *(bool *)option->value = on;
    return on || off || refuse_value(file, member, wanted);
  }
  if (option->kind == CLI_MAYBE && (on || off)) {
    *(const char **)option->value = on ? "" : NULL;
    return true;
  }
  if (is_text != (*value == '"'))
    return refuse_value(file, member, is_text ? "a text" : "a number");
  const char *text = file->texts;
  if (!cli_json_copy(member, file->texts, member->value_size + 1))
    return refuse_value(file, member, "a text of UTF-8");
  file->texts += strlen(text) + 1;
  // config.json has bf16 and bf16-direct, of which --precision is a part.
  if (strcmp(option->name, "math") == 0 && strncmp(text, "bf16", 4) == 0)
    text += text[4] == '-' ? 5 : 4;
  return is_default(file->syntax, option, text) ||
         cli_option_set(option, text, wanted, sizeof(wanted)) ||
         refuse_value(file, member, wanted);
}

// Takes the normalization of a run, "MEAN,DEVIATION;...", which is found again
// in its data.
static bool take_normalization(config_file *file, const cli_member *member) {
  if (*member->value == '"') {
    file->flags->normalize = member->value_size > 2;
    return !file->flags->normalize ||
           memchr(member->value, ',', member->value_size) != NULL ||
           refuse_value(file, member, "true or false");
  }
  return set_flag(file, cli_option_find(file->syntax, "normalize", 9), member);
}

// Returns true if the line names the file's own optimizer, in a library, which
// it has to.
static bool names_own_rule(const config_file *file) {
  const ls_optimizer_rule *rule = cli_own_optimizer()->rule;
  const char *kept = file->flags->asked.optimizer;
  if (kept == NULL || !cli_is_library(kept) ||
      !cli_is_library(file->line->asked.optimizer))
    return false;
  const char *name = strrchr(kept, ':');
  return name == NULL || strcmp(name + 1, rule->name) == 0;
}

// Returns true for members that the command line replaces by other flags, or by
// its operand, a model.
static bool is_replaced(const config_file *file, const char *name) {
  const ls_train_config *line = &file->line->asked;
  const bool ends =
      line->epochs != 0 || line->steps != 0 || file->line->steps > 0;
  const bool finds = file->line->find_lr != NULL;
  const bool is_estimator = file->syntax->subject != NULL;
  if (finds && cli_find_rate_replaces(name)) return true;
  if (strcmp(name, "test-steps") == 0)
    return line->test != NULL && strcmp(line->test, "none") == 0;
  if (strcmp(name, "iterations-per-loop") == 0) return is_estimator && finds;
  if (strcmp(name, "param") == 0)
    return is_estimator && (finds || line->learning_rate != 0);
  if (strcmp(name, "model") == 0) return file->syntax->operand_form != NULL;
  if (strcmp(name, "epochs") == 0 || strcmp(name, "steps") == 0)
    return ends || finds;
  return strcmp(name, "learning-rate") == 0 &&
         (file->has_param ||
          (line->optimizer != NULL && !names_own_rule(file)));
}

// Returns true for members of a warm start that begin a run which is resumed.
static bool has_begun(const config_file *file, const cli_member *member) {
  const char *resume = file->line->resume;
  return resume != NULL && strcmp(resume, "auto") != 0 &&
         strncmp(member->key, "warm_", 5) == 0;
}

// Returns true for members that a training finds itself: the checksum, which
// an edited file has no more, the classes of the data and the size of examples.
static bool is_found(const char *name) {
  return strcmp(name, "crc32c") == 0 || strcmp(name, "classes") == 0 ||
         strcmp(name, "categories") == 0 || strcmp(name, "columns") == 0 ||
         strcmp(name, "inputs") == 0 || strcmp(name, "optimizer-sha256") == 0;
}

// Takes that a run's data are scaled as bytes, unless others are given.
static bool take_bytes(config_file *file, const cli_member *member) {
  if (file->line->asked.data == NULL && member->value_size == 5 &&
      memcmp(member->value, "\"yes\"", 5) == 0)
    file->flags->asked.bytes = "yes";
  return *member->value == '"' || refuse_value(file, member, "a text");
}

// Checks that a file of an estimator's run is for that estimator.
static bool check_estimator(const config_file *file, const cli_member *member) {
  const char *subject = file->syntax->subject;
  const size_t size = member->value_size;
  if (subject != NULL && (*member->value != '"' ||
                          (strlen(subject) == size - 2 &&
                           memcmp(subject, member->value + 1, size - 2) == 0)))
    return true;
  return cli_refuse(file->syntax->command,
                    "'%s' is for the estimator %.*s, this is %s%s: give that "
                    "by --model, or a model of the library by --estimator",
                    file->path, size < 200 ? (int)size : 200, member->value,
                    subject != NULL ? "for " : "no estimator",
                    subject != NULL ? subject : "");
}

// Refuses a flag that the command lacks, unless it is not given.
static bool refuse_flag(const config_file *file, const cli_member *member,
                        const char *name) {
  const cli_refusals *refused = &file->syntax->refused;
  const char *reason = cli_refusal_find(refused, name, strlen(name));
  const size_t size = member->value_size;
  if (reason == NULL) return refuse_member(file, member);
  if (*member->value == 'f' || (size == 2 && *member->value == '"') ||
      (size == 1 && *member->value == '0'))
    return true;
  return cli_refuse(file->syntax->command, "'%s': --%s is not for %s: %s",
                    file->path, name, refused->kind, reason);
}

static bool take_member(config_file *file, const cli_member *member) {
  char name[MOST_NAME];
  name_flag(member, name);
  if (strcmp(name, "estimator") == 0) return check_estimator(file, member);
  if (is_found(name) || is_replaced(file, name) || has_begun(file, member))
    return true;
  if (strcmp(name, "bytes") == 0) return take_bytes(file, member);
  if (strcmp(name, "normalize") == 0) return take_normalization(file, member);
  const cli_option *option = cli_option_find(file->syntax, name, strlen(name));
  return option != NULL && option->value != &file->flags->config
             ? set_flag(file, option, member)
             : refuse_flag(file, member, name);
}

// ---- The file --------------------------------------------------------------
// Takes all members of the object in `text`.
static bool take_members(config_file *file, const char *text) {
  const char *at = text + strspn(text, " \t\r\n");
  cli_member member;
  if (*at == '{' && at[1 + strspn(at + 1, " \t\r\n")] == '}')
    at += 1 + strspn(at + 1, " \t\r\n");
  else
    while (cli_json_next(&at, &member))
      if (!take_member(file, &member)) return false;
  at += strspn(at, " \t\r\n");
  if (*at == '}' && at[1 + strspn(at + 1, " \t\r\n")] == '\0') return true;
  const char *line = text;
  long long number = 1;
  for (const char *end; (end = memchr(line, '\n', (size_t)(at - line))) != NULL;
       ++number)
    line = end + 1;
  return cli_refuse(file->syntax->command,
                    "'%s' is no JSON object of flags, {\"epochs\": 3, ...}: an "
                    "error at line %lld, byte %lld",
                    file->path, number, (long long)(at - line) + 1);
}

// A library is code: only one that the command line names is loaded.
static bool check_library(const config_file *file, const char *flag,
                          const char *named, const char *kept) {
  if (named != NULL || kept == NULL || !cli_is_library(kept)) return true;
  return cli_refuse(
      file->syntax->command,
      "the %s of '%s' is in a shared library, which is code and is "
      "loaded only if you name it: add --%s %s",
      flag, file->path, flag, kept);
}

int cli_train_read_config(const cli_syntax *syntax, int argc, char **argv,
                          const train_flags *defaults, train_flags *flags,
                          char **out_text) {
  int code = CLI_OK;
  if (flags->config == NULL) return CLI_OK;
  const train_flags line = *flags;
  const cli_option *param = cli_option_find(syntax, "param", 5);
  config_file file = {
      .syntax = syntax,
      .path = line.config,
      .line = &line,
      .flags = flags,
      .has_param = param != NULL && *(const char *const *)param->value != NULL};
  char path[PATH_MAX + 16];
  snprintf(path, sizeof(path), "%s/config.json", line.config);
  if (cli_is_run(line.config)) file.path = path;
  const ls_status status = cli_read_flags(file.path, out_text);
  if (!ls_status_is_ok(status)) return cli_report(syntax->command, status);
  const char *optimizer = line.asked.optimizer;
  if (optimizer != NULL && cli_is_library(optimizer) &&
      !cli_find_optimizer(syntax->command, optimizer))
    return CLI_USAGE;
  file.texts = *out_text + CLI_MOST_FLAGS;
  *flags = *defaults;
  if (!take_members(&file, *out_text) ||
      !check_library(&file, "model", line.asked.model, flags->asked.model) ||
      !check_library(&file, "optimizer", line.asked.optimizer,
                     flags->asked.optimizer))
    return CLI_USAGE;
  (void)cli_parse(syntax, argc, argv, &code);
  return code;
}
