// SPDX-License-Identifier: Apache-2.0
//
// estimator.json of an estimator's run folder: the flags on which its bits
// depend, and what was found in its data. A resumed run takes them from there
// and is refused others; commands that use the run take what they need.
#include <dirent.h>
#include <errno.h>
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

// Uses of a value in estimator.json.
typedef enum use {
  FIXED,  // A resumed run has the same.
  ENDS,   // The end of a run; a resumed one may have another.
  FREE,   // A resumed run may have another.
  KEPT,   // FIXED, and what commands that use the run take.
  FOUND,  // KEPT, found in the data; no flag.
} use;
// A value that estimator.json has, under its flag's name.
typedef struct entry {
  const char *name;
  cli_kind kind;
  size_t place;  // In estimator_flags.
  use use;
} entry;
#define ASKED(member) offsetof(estimator_flags, train.asked.member)
#define FOUND_IN_DATA(name, kind)                                              \
  { #name, kind, ASKED(name), FOUND }
static const entry entries[] = {
    {"model", CLI_TEXT, ASKED(model), FOUND},  // The library's.
    {"tpu", CLI_TEXT, offsetof(estimator_flags, train.tpu), FIXED},
    {"iterations-per-loop", CLI_TEXT, offsetof(estimator_flags, iterations),
     FREE},
    {"replicas", CLI_COUNT, ASKED(replicas), FIXED},
    {"batch-size", CLI_COUNT, ASKED(batch_size), FIXED},
    {"seed", CLI_COUNT_OR_ZERO, ASKED(seed), FIXED},
    {"steps", CLI_COUNT, ASKED(steps), ENDS},
    {"epochs", CLI_COUNT, ASKED(epochs), ENDS},
    {"flip", CLI_FLAG, offsetof(estimator_flags, train.flip), FIXED},
    {"crop", CLI_COUNT, ASKED(crop), FIXED},
    {"gradient-norm", CLI_FLAG, offsetof(estimator_flags, train.gradient_norm),
     FREE},
    {"attest", CLI_FLAG, offsetof(estimator_flags, train.attest), FREE},
    {"events", CLI_FLAG, offsetof(estimator_flags, train.own_events), FREE},
    {"keep", CLI_COUNT_OR_ZERO, ASKED(keep), FREE},
    {"keep-best", CLI_TEXT, ASKED(keep_best), FREE},
    {"stop-early", CLI_TEXT, ASKED(stop_early), FREE},
    {"patience", CLI_COUNT, ASKED(patience), FREE},
    {"min-delta", CLI_REAL, ASKED(min_delta), FREE},
    {"keep-every-hours", CLI_REAL, ASKED(keep_every_hours), FREE},
    {"test-steps", CLI_COUNT, ASKED(test_steps), FREE},
    {"eval-every", CLI_COUNT, offsetof(estimator_flags, eval_seconds), FREE},
    {"save-every", CLI_COUNT, ASKED(save_every), FREE},
    {"save-every-steps", CLI_COUNT, ASKED(save_every_steps), FREE},
    {"checksum", CLI_COUNT, ASKED(checksum), FREE},
    {"check-ranks", CLI_COUNT, ASKED(check_ranks), FREE},
    {"optimizer-sha256", CLI_TEXT, ASKED(optimizer_sha256), FIXED},
    {"optimizer", CLI_TEXT, ASKED(optimizer), FIXED},
    {"learning-rate", CLI_REAL, ASKED(learning_rate), FIXED},
    {"schedule", CLI_TEXT, ASKED(schedule), FIXED},
    {"warmup", CLI_COUNT, ASKED(warmup), FIXED},
    {"weight-decay", CLI_REAL, ASKED(weight_decay), FIXED},
    {"clip-norm", CLI_REAL, ASKED(clip_norm), FIXED},
    {"accumulate", CLI_COUNT, ASKED(accumulate), FIXED},
    {"math", CLI_TEXT, ASKED(math), KEPT},
    {"precision", CLI_TEXT, ASKED(precision), KEPT},
    {"data", CLI_TEXT, ASKED(data), KEPT},
    {"test", CLI_TEXT, ASKED(test), KEPT},
    {"split", CLI_REAL, ASKED(split), KEPT},
    {"features", CLI_TEXT, ASKED(features), KEPT},
    {"one-hot", CLI_TEXT, ASKED(one_hot), KEPT},
    {"missing", CLI_TEXT, ASKED(missing), KEPT},
    {"task", CLI_TEXT, ASKED(task), KEPT},
    {"outputs", CLI_COUNT, ASKED(outputs), KEPT},
    {"param", CLI_TEXT, offsetof(estimator_flags, params), KEPT},
    FOUND_IN_DATA(inputs, CLI_COUNT),
    FOUND_IN_DATA(classes, CLI_TEXT),
    FOUND_IN_DATA(categories, CLI_TEXT),
    FOUND_IN_DATA(columns, CLI_TEXT),
    FOUND_IN_DATA(bytes, CLI_TEXT),
    FOUND_IN_DATA(normalize, CLI_TEXT),
};
enum { NUM_ENTRIES = sizeof(entries) / sizeof(*entries) };

// ---- Values ----------------------------------------------------------------
// Sets the value of a flag; returns false if it cannot have this one.
static bool set_flag(const entry *e, void *flags, const char *text,
                     char wanted[64]) {
  const cli_option option = {e->name, e->kind, (char *)flags + e->place,
                             "a text", NULL};
  if (e->kind != CLI_FLAG) return cli_option_set(&option, text, wanted, 64);
  snprintf(wanted, 64, "true or false");
  *(bool *)option.value = strcmp(text, "true") == 0;
  return *(bool *)option.value || strcmp(text, "false") == 0;
}

// Returns the value of a parameter in "NAME=N,..."; NULL if it has none.
static const char *find_param(const cli_words *words, const char *name) {
  const char *found = NULL;
  for (size_t i = 0; i < words->count; ++i)
    if (strcmp(words->maps[i].from, name) == 0) found = words->maps[i].to;
  return found;
}

// ---- Differences -----------------------------------------------------------
// Checks a parameter of --param.
static bool check_param(const estimator_flags *flags, const cli_words *saved,
                        const ls_name_map *param) {
  char given[NAME_MAX], has[NAME_MAX] = "";
  const char *value = find_param(saved, param->from);
  if (value != NULL && (strcmp(value, param->to) == 0 ||
                        strtod(value, NULL) == strtod(param->to, NULL)))
    return true;
  snprintf(given, sizeof(given), "%s=%s", param->from, param->to);
  if (value != NULL) snprintf(has, sizeof(has), "%s=%s", param->from, value);
  return cli_train_differs(&flags->train, "param", given, has);
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

static bool take_params(estimator_flags *flags, bool uses, const char *has,
                        cli_kept_flags *kept) {
  CLI_OWN(cli_words, asked) = {0};
  CLI_OWN(cli_words, saved) = {0};
  if (!cli_words_open("train", "param", flags->params, "NAME=N", &asked) ||
      !cli_words_open("train", "param", has[0] != '\0' ? has : NULL, "NAME=N",
                      &saved))
    return false;
  for (size_t i = 0; i < asked.count && !uses; ++i)
    if (!check_param(flags, &saved, &asked.maps[i])) return false;
  return add_saved_params(flags, &asked, &saved,
                          strlen(flags->params) + strlen(has) + 2, kept);
}

// Replaces a flag that was not given by the run's value, `has`; checks one that
// was, unless the command may have another.
static bool take_entry(const entry *e, estimator_flags *flags,
                       const estimator_flags *line, bool uses, const char *has,
                       cli_kept_flags *kept) {
  char room[PATH_MAX];
  const char *asked = cli_train_flag_text(e->name, e->kind,
                                          (const char *)line + e->place, room);
  const bool is_replaced =
      (flags->train.inexact &&
       ((strcmp(e->name, "replicas") == 0 && line->train.tpu != NULL) ||
        (strcmp(e->name, "tpu") == 0 && line->train.asked.replicas > 0))) ||
      (e->place == offsetof(estimator_flags, iterations) &&
       flags->train.tpu == NULL) ||
      (e->place == ASKED(save_every) &&
       line->train.asked.save_every_steps > 0) ||
      (e->place == ASKED(save_every_steps) &&
       line->train.asked.save_every > 0) ||
      (e->use == ENDS &&
       (line->train.asked.steps > 0 || line->train.asked.epochs > 0));
  if (uses && e->use < KEPT) return true;
  if (e->place == ASKED(optimizer) && cli_is_library(has))
    return cli_train_optimizer_agrees(&flags->train, has,
                                      flags->train.asked.optimizer_sha256);
  if (asked[0] == '\0') {
    char wanted[64];
    return has[0] == '\0' || is_replaced || set_flag(e, flags, has, wanted);
  }
  if (strcmp(e->name, "param") == 0) return take_params(flags, uses, has, kept);
  const bool has_moved =
      e->place == ASKED(model) || (e->place == ASKED(data) && has[0] != '\0' &&
                                   cli_is_place(asked) && cli_is_place(has));
  return uses || has_moved || e->use == ENDS || e->use == FREE ||
         strcmp(asked, has) == 0 ||
         cli_train_differs(&flags->train, e->name, asked, has);
}

// ---- Reading ---------------------------------------------------------------
void cli_kept_flags_close(cli_kept_flags *kept) {
  cli_release(kept->text);
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

// Copies the value of a flag as a text; "": the file has none.
static void copy_value(const entry *e, const char *object, char *text) {
  char key[32];
  cli_member member;
  snprintf(key, sizeof(key), "%s", e->name);
  for (char *dash = strchr(key, '-'); dash != NULL; dash = strchr(key, '-'))
    *dash = '_';
  *text = '\0';
  if (cli_json_find(object, key, &member))
    cli_json_copy(&member, text, member.value_size + 1);
}

// Checks the values, for which there is room after the text.
static ls_status check_values(const char *path, char *text) {
  char *value = text + CLI_MOST_FLAGS, wanted[64];
  estimator_flags flags;
  if (!is_object(text))
    return ls_invalid_argument("'%s' is damaged: it is no JSON object of flags",
                               path);
  for (size_t i = 0; i < NUM_ENTRIES; ++i) {
    copy_value(&entries[i], text, value);
    if (value[0] != '\0' && !set_flag(&entries[i], &flags, value, wanted))
      return ls_invalid_argument(
          "'%s' is damaged: its '%s' is '%.200s', expected %s", path,
          entries[i].name, value, wanted);
  }
  return ls_ok();
}

// Reads the file of the run, or makes an empty text if there is none.
static ls_status read_file(const char *folder, char **out_text) {
  char path[PATH_MAX];
  ls_status status = ls_ok();
  if (snprintf(path, sizeof(path), "%s/%s", folder, file_name) <
      (int)sizeof(path))
    status = cli_read_flags(path, out_text);
  if (*out_text != NULL) return check_values(path, *out_text);
  if (!ls_status_is_ok(status) && ls_status_code(status) != LS_NOT_FOUND)
    return status;
  ls_status_free(status);
  *out_text = cli_allocate(2 * CLI_MOST_FLAGS);
  return *out_text != NULL ? ls_ok() : ls_out_of_memory();
}

// Takes the members of the run's file, in any order: for `train`, or for a
// command that uses the run.
static bool take_members(const char *command, estimator_flags *flags,
                         const ls_estimator_type *type, const char *folder,
                         cli_kept_flags *kept) {
  const bool uses = strcmp(command, "train") != 0;
  const estimator_flags line = *flags;
  cli_member member;
  char *at = kept->text + CLI_MOST_FLAGS;
  if (cli_json_find(kept->text, "estimator", &member)) {
    cli_json_copy(&member, at, member.value_size + 1);
    // A row of a library may be another way to use the runs of its neighbour.
    if (strcmp(at, type->name) != 0 && (!uses || cli_is_linked(type))) {
      cli_say(command, "the run in '%s' is of estimator '%s', not of '%s'",
              folder, at, type->name);
      return false;
    }
  }
  for (size_t i = 0; i < NUM_ENTRIES; ++i) {
    copy_value(&entries[i], kept->text, at);
    if (!take_entry(&entries[i], flags, &line, uses, at, kept)) return false;
    at += strlen(at) + 1;
  }
  return true;
}

static ls_status recover_run(void *user) {
  return cli_recover_run(*(const char **)user);
}

int cli_estimator_recall(const char *command, const char *folder,
                         estimator_flags *flags, const ls_estimator_type *type,
                         cli_kept_flags *kept) {
  if (folder == NULL) return CLI_OK;
  if (cli_leads() && cli_is_overwritten(folder))
    (void)cli_with_runtime(command, recover_run, &folder);
  ls_status status = cli_ranks_agree(read_file(folder, &kept->text));
  if (ls_status_is_ok(status))
    status = cli_ranks_send(kept->text, CLI_MOST_FLAGS);
  if (!ls_status_is_ok(status)) return cli_report(command, status);
  // A run of an older version, or of a program of its own, has no such file.
  if (kept->text[0] == '\0') return CLI_OK;
  return take_members(command, flags, type, folder, kept) ? CLI_OK : CLI_USAGE;
}

bool cli_estimator_kept_model(const char *path, bool is_any, char *model,
                              size_t size) {
  cli_member member;
  CLI_OWN_MEMORY(char, text) = NULL;
  CLI_OWN(ls_status, status) = cli_read_flags(path, &text);
  if (!ls_status_is_ok(status) ||
      (!is_any && !cli_json_find(text, "estimator", &member)) ||
      !cli_json_find(text, "model", &member))
    return false;
  cli_json_copy(&member, model, size);
  return !cli_is_library(model);  // Code is loaded if a user names it.
}

// ---- Another folder --------------------------------------------------------
// Copies a file, unless there is one already; `only_checks`: if it could.
static ls_status copy_file(const char *from, const char *to, const char *name,
                           bool only_checks) {
  char path[PATH_MAX], bytes[1 << 14];
  cli_new_file output;
  CLI_OWN(FILE, input) = NULL;
  snprintf(path, sizeof(path), "%s/%s", from, name);
  LS_RETURN_IF_ERROR(cli_open_file(path, &input));
  snprintf(path, sizeof(path), "%s/%s", to, name);
  if (access(path, F_OK) == 0)
    return LS_STATUS(LS_ALREADY_EXISTS,
                     "'%s' is there already: choose another folder", path);
  if (only_checks) return ls_ok();
  LS_RETURN_IF_ERROR(cli_create_file(path, &output));
  for (size_t n; (n = fread(bytes, 1, sizeof(bytes), input)) > 0;)
    if (fwrite(bytes, 1, n, output.file) != n) break;
  return cli_finish_file(
      &output, ferror(input)
                   ? LS_STATUS(LS_DATA_LOSS, "cannot read '%s/%s'", from, name)
                   : ls_ok());
}

// Copies the event files of evaluations, from which a training recalls them,
// and hides those of later steps.
static ls_status copy_evaluations(const char *from, int64_t step,
                                  const char *to) {
  char read[PATH_MAX], written[PATH_MAX];
  bool made = false;
  ls_event_writer *writer = NULL;
  snprintf(read, sizeof(read), "%s/eval", from);
  snprintf(written, sizeof(written), "%s/eval", to);
  DIR *folder = opendir(read);
  if (folder == NULL) return ls_ok();
  ls_status status = cli_make_folder(written, &made);
  for (const struct dirent *item;
       ls_status_is_ok(status) && (item = readdir(folder)) != NULL;)
    if (strncmp(item->d_name, "events.", 7) == 0)
      status = copy_file(read, written, item->d_name, false);
  (void)closedir(folder);
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(ls_event_writer_open(
      &(ls_event_writer_options){
          .folder = written, .first_step = step + 1, .begins = true},
      &writer));
  return ls_event_writer_close(writer);
}

ls_status cli_estimator_branch(const char *from, int64_t step, const char *to) {
  enum { COUNT = 3 };
  char names[COUNT][64], path[PATH_MAX];
  bool made = false;
  snprintf(names[0], 64, "model.ckpt-%lld.safetensors", (long long)step);
  snprintf(names[1], 64, "model.ckpt-%lld.json", (long long)step);
  snprintf(names[2], 64, "%s", file_name);
  for (size_t i = 0; i < COUNT; ++i)
    LS_RETURN_IF_ERROR(copy_file(from, to, names[i], true));
  LS_RETURN_IF_ERROR(cli_make_folder(to, &made));
  for (size_t i = 0; i <= COUNT; ++i) {
    const ls_status status = i < COUNT ? copy_file(from, to, names[i], false)
                                       : copy_evaluations(from, step, to);
    if (ls_status_is_ok(status)) continue;
    while (i-- > 0) {
      snprintf(path, sizeof(path), "%s/%s", to, names[i]);
      (void)unlink(path);
    }
    if (made) (void)rmdir(to);
    return status;
  }
  return ls_ok();
}

// ---- Writing ---------------------------------------------------------------
static void write_member(FILE *to, const char *name, cli_kind kind,
                         const char *text) {
  fputs(",\n  \"", to);
  for (const char *at = name; *at != '\0'; ++at)
    putc(*at == '-' ? '_' : *at, to);
  fputs("\": ", to);
  if (kind == CLI_TEXT)
    cli_write_json(to, text, strlen(text));
  else
    fputs(text, to);
}

static void write_entries(FILE *to, const estimator_flags *flags,
                          const ls_estimator_type *type) {
  char room[PATH_MAX], model[PATH_MAX];
  estimator_flags values = *flags;
  ls_train_config *config = &values.train.asked;
  config->model = NULL;
  values.train.own_events =
      values.train.events != NULL && values.train.events[0] == '\0';
  fputs("{\n  \"estimator\": ", to);
  cli_write_json(to, type->name, strlen(type->name));
  if (cli_is_linked(type)) {
    *config = *cli_linked_config();
    config->seed = flags->train.asked.seed;
    config->replicas = flags->train.asked.replicas;
    config->keep = flags->train.asked.keep;
    config->model =
        flags->train.asked.model != NULL
            ? cli_full_model(flags->train.asked.model, model, sizeof(model))
            : type->name;
  }
  // Epochs tell more steps than a flag takes.
  if (config->epochs > 0 && config->steps > INT32_MAX) config->steps = 0;
  if (config->math == NULL) config->math = "fast";
  if (config->keep < 0) config->keep = 5;
  if (config->batch_size == 0 && type->options.train_batch_size.set)
    config->batch_size = type->options.train_batch_size.value;
  for (size_t i = 0; i < NUM_ENTRIES; ++i) {
    const char *text =
        cli_train_flag_text(entries[i].name, entries[i].kind,
                            (const char *)&values + entries[i].place, room);
    if (text[0] != '\0')
      write_member(to, entries[i].name, entries[i].kind, text);
  }
  fputs("\n}\n", to);
}

ls_status cli_estimator_print(const estimator_flags *flags,
                              const ls_estimator_type *type, bool is_line,
                              char **out_text) {
  *out_text = cli_allocate(CLI_MOST_FLAGS);
  FILE *file =
      *out_text != NULL ? fmemopen(*out_text, CLI_MOST_FLAGS, "w") : NULL;
  if (file == NULL) return ls_out_of_memory();
  write_entries(file, flags, type);
  const bool fits = fflush(file) == 0 && ferror(file) == 0;
  if (fclose(file) != 0 || !fits)
    return ls_invalid_argument("the flags are longer than %d bytes",
                               CLI_MOST_FLAGS);
  // Texts have no newlines: these are between members.
  for (char *at = *out_text; is_line && *at != '\0'; ++at)
    if (*at == '\n') *at = ' ';
  return ls_ok();
}

ls_status cli_estimator_keep(const char *folder, const char *text) {
  char path[PATH_MAX];
  cli_new_file file;
  if (snprintf(path, sizeof(path), "%s/%s", folder, file_name) >=
      (int)sizeof(path))
    return ls_invalid_argument("the path of '%s' is too long", folder);
  LS_RETURN_IF_ERROR(cli_create_file(path, &file));
  (void)fputs(text, file.file);  // An error stays with the file.
  return cli_finish_file(&file, ls_ok());
}
