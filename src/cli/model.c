// SPDX-License-Identifier: Apache-2.0
// Finds models by name, in the library, in ONNX and StableHLO files and in
// users' shared libraries.
#define _GNU_SOURCE
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/estimator.h"
#include "cli/ranks.h"
#include "lockstep/optimizer_table.h"

// A type made of a file, which lives as long as the program: models and
// estimators refer to it.
typedef struct file_item {
  ls_model_type *type;
  struct file_item *next;
} file_item;
static file_item *file_items;

static const ls_model_type *find_in_file(const char *command,
                                         const char *path) {
  file_item *item = cli_allocate(sizeof(*item));
  ls_status status =
      item != NULL ? ls_onnx_type_create(path, &item->type)
                   : LS_STATUS(LS_RESOURCE_EXHAUSTED, "there is no memory");
  if (!ls_status_is_ok(status)) {
    cli_report(command, status);
    cli_release(item);
    return NULL;
  }
  item->next = __atomic_load_n(&file_items, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&file_items, &item->next, item, true,
                                      __ATOMIC_RELEASE, __ATOMIC_RELAXED))
    ;
  return item->type;
}

// Refuses a run as a model; returns false if the text names none.
static bool refuse_run(const char *command, const char *text) {
  if (!cli_is_run(text)) return false;
  cli_refuse(command,
             "'%s' is a run, no model: --config %s/config.json trains as it, "
             "--resume goes on with it, --warm-start begins with its values",
             text, text);
  return true;
}

// Appends a name to a list.
static void append_name(char *all, size_t size, const char *name) {
  const size_t at = strlen(all);
  snprintf(all + at, size - at, "%s%s", at > 0 ? ", " : "", name);
}

static const ls_model_type *find_own(const char *command, const char *name) {
  if (cli_is_model_file(name)) return find_in_file(command, name);
  const ls_model_type *type = ls_model_find(name);
  if (type != NULL) return type;
  if (refuse_run(command, name)) return NULL;
  size_t count = 0;
  const ls_model_type *const *types = ls_model_types(&count);
  char all[256] = "";
  for (size_t i = 0; i < count; ++i)
    append_name(all, sizeof(all), types[i]->name);
  cli_refuse(command,
             "there is no model '%s'; there are: %s, a file: net.onnx or "
             "net.mlir, and "
             "those of a shared library: ./mine.so",
             name, all);
  return NULL;
}

bool cli_find_type(const char *command, const char *text, cli_found *out) {
  *out = (cli_found){0};
  if (cli_is_library(text)) return cli_find_in_library(command, text, out);
  out->model = find_own(command, text);
  return out->model != NULL;
}

const ls_model_type *cli_find_model(const char *command, const char *text) {
  cli_found found;
  if (!cli_find_type(command, text, &found)) return NULL;
  if (found.model == NULL)
    cli_refuse(command, "'%s' is an estimator, expected a model", text);
  return found.model;
}

const char *cli_value_at(int argc, char **argv, int at, const char *flag) {
  const size_t size = strlen(flag);
  if (strncmp(argv[at], flag, size) != 0) return NULL;
  if (argv[at][size] == '=') return argv[at] + size + 1;
  return argv[at][size] == '\0' && at + 1 < argc ? argv[at + 1] : NULL;
}

// Restores an overwritten run, on rank 0 for all. Commands that open the run
// report a failure.
static void restore_run(const char *command, const char *folder) {
  ls_runtime *runtime = NULL;
  if (cli_leads() && cli_is_overwritten(folder)) {
    ls_status status = cli_runtime_open(1, NULL, &runtime);
    if (ls_status_is_ok(status)) status = cli_recover_run(folder);
    ls_status_free(status);
    (void)cli_runtime_close(command, runtime, CLI_OK);
  }
  ls_status_free(cli_ranks_agree(ls_ok()));
}

// Finds the kind of run in a folder. A model is checked before a library is
// loaded; the run of an estimator made from the library's models names it.
static void find_run(const char *command, const char *text, bool *is_model,
                     char model[PATH_MAX]) {
  char folder[PATH_MAX], path[PATH_MAX + 16];
  ls_opt step;
  (void)cli_split_step(NULL, text, folder, &step);
  restore_run(command, folder);
  *is_model |= cli_is_run(folder);
  snprintf(path, sizeof(path), "%s/estimator.json", folder);
  if (!*is_model && !cli_estimator_kept_model(path, false, model, PATH_MAX))
    model[0] = '\0';
}

bool cli_find_estimator(const char *command, int argc, char **argv,
                        const ls_estimator_type **out_type) {
  const char *text = NULL, *config = NULL;
  char kept[PATH_MAX] = "";
  bool is_run = false, is_linked = false;
  cli_found found = {0};
  for (int i = 0; i < argc; ++i) {
    const char *model = cli_value_at(argc, argv, i, "--model");
    const char *resumed = cli_value_at(argc, argv, i, "--resume");
    const char *file = cli_value_at(argc, argv, i, "--config");
    if (model != NULL) text = model;
    if (file != NULL) config = file;
    is_linked |= strcmp(argv[i], "--estimator") == 0;
    if (resumed != NULL) find_run(command, resumed, &is_run, kept);
    // Commands other than `train` have the run folder as an operand.
    if (argv[i][0] != '-' && strcmp(command, "train") != 0 && kept[0] == '\0')
      find_run(command, argv[i], &is_run, kept);
  }
  *out_type = NULL;
  if (config != NULL && text == NULL && kept[0] == '\0' &&
      !cli_estimator_kept_model(config, is_linked, kept, sizeof(kept)))
    kept[0] = '\0';
  if (text == NULL && kept[0] != '\0') text = kept;
  is_linked |= kept[0] != '\0' && !cli_is_library(text);
  if (is_linked && (text == NULL || !cli_is_library(text))) {
    const ls_model_type *model = find_own(command, text != NULL ? text : "mlp");
    if (model != NULL) *out_type = cli_linked_estimator(model);
    return model != NULL;
  }
  if (is_run || text == NULL || !cli_is_library(text)) return true;
  if (!cli_find_in_library(command, text, &found)) return false;
  *out_type = found.estimator;
  if (!is_linked || found.estimator != NULL) return true;
  return cli_refuse(
      command,
      "--estimator is for models of the library: '%s' is of a shared one",
      text);
}

// ---- Names -----------------------------------------------------------------
bool cli_is_model_file(const char *text) {
  const size_t size = strlen(text);
  return size > 5 && (strcmp(text + size - 5, ".onnx") == 0 ||
                      strcmp(text + size - 5, ".mlir") == 0);
}

// Returns the length of the file's name in "dir/mine.so" or "dir/mine.so:name";
// 0 if the text is the name of a model, or of a file of a model. A file's name
// has a slash or ends in
// ".so".
static size_t file_size(const char *text) {
  const char *slash = strrchr(text, '/');
  const char *colon = strchr(slash != NULL ? slash : text, ':');
  const size_t size = colon != NULL ? (size_t)(colon - text) : strlen(text);
  const bool library = size > 3 && memcmp(text + size - 3, ".so", 3) == 0;
  return (slash != NULL || library) && !cli_is_model_file(text) ? size : 0;
}

bool cli_is_library(const char *text) { return file_size(text) > 0; }

const char *cli_full_model(const char *text, char *buffer, size_t size) {
  const size_t file = cli_is_model_file(text) ? strlen(text) : file_size(text);
  char path[PATH_MAX], full[PATH_MAX];
  snprintf(path, sizeof(path), "%.*s", (int)file, text);
  if (file == 0 || realpath(path, full) == NULL) return text;
  snprintf(buffer, size, "%s%s", full, text + file);
  return buffer;
}

// ---- Finding ---------------------------------------------------------------
// Splits a text into the path of a library and the name, which it returns.
static const char *split_name(const char *text, char path[PATH_MAX]) {
  const size_t size = file_size(text);
  snprintf(path, PATH_MAX, "%.*s", (int)size, text);
  return text[size] == ':' ? text + size + 1 : "";
}

// Finds a row of two tables, whose rows begin with their names; "" finds the
// only one. Returns its number, or reports that there is none and returns -1.
static ptrdiff_t find_row(const char *command, const char *text,
                          const char *noun, const void *const *const tables[2],
                          const size_t counts[2]) {
  char path[PATH_MAX], all[256] = "";
  const size_t count = counts[0] + counts[1];
  const char *name = split_name(text, path);
  for (size_t i = 0; i < count; ++i) {
    const char *const *row =
        i < counts[0] ? tables[0][i] : tables[1][i - counts[0]];
    if (name[0] == '\0' ? count == 1 : strcmp(*row, name) == 0)
      return (ptrdiff_t)i;
    append_name(all, sizeof(all), *row);
  }
  if (count == 0)
    cli_refuse(command, "'%s' exports no %ss", path, noun);
  else if (name[0] == '\0')
    cli_refuse(command, "'%s' has %zu %ss; name one, as in '%s:NAME': %s", path,
               count, noun, path, all);
  else
    cli_refuse(command, "'%s' has no %s '%s'; it has: %s", path, noun, name,
               all);
  return -1;
}

bool cli_find_in_library(const char *command, const char *text,
                         cli_found *out) {
  char path[PATH_MAX];
  ls_model_library loaded = {0};  // Stays loaded for the rest of the program.
  const ls_estimator_type *const *estimators = NULL;
  size_t counts[2] = {0};
  (void)split_name(text, path);
  *out = (cli_found){0};
  if (refuse_run(command, path)) return false;
  CLI_OWN(ls_status, status) = ls_model_library_open(path, &loaded);
  if (ls_status_is_ok(status))
    status = ls_model_library_estimators(&loaded, &estimators, &counts[1]);
  if (!ls_status_is_ok(status))
    return cli_refuse(command, "%s", ls_status_message(status));
  const void *const *const tables[] = {(const void *const *)loaded.types,
                                       (const void *const *)estimators};
  counts[0] = loaded.count;
  const ptrdiff_t at = find_row(command, text, "model", tables, counts);
  if (at >= (ptrdiff_t)counts[0])
    out->estimator = estimators[at - (ptrdiff_t)counts[0]];
  else if (at >= 0)
    out->model = loaded.types[at];
  return at >= 0;
}

// ---- Optimizers ------------------------------------------------------------
// Simulated ranks, of which one runs at a time, find the same.
static cli_optimizer optimizer;

const cli_optimizer *cli_own_optimizer(void) { return &optimizer; }

bool cli_find_optimizer(const char *command, const char *text) {
  char path[PATH_MAX], full[PATH_MAX];
  ls_model_library loaded = {0};  // Stays loaded for the rest of the program.
  const ls_optimizer_rule *const *rules = NULL;
  size_t counts[2] = {0};
  (void)split_name(text, path);
  CLI_OWN(ls_status, status) = ls_model_library_open(path, &loaded);
  if (ls_status_is_ok(status))
    status = ls_model_library_optimizers(&loaded, &rules, &counts[0]);
  if (!ls_status_is_ok(status))
    return cli_refuse(command, "%s", ls_status_message(status));
  const void *const *const tables[] = {(const void *const *)rules, NULL};
  const ptrdiff_t at = find_row(command, text, "optimizer", tables, counts);
  if (at < 0) return false;
  optimizer.rule = rules[at];
  snprintf(optimizer.text, sizeof(optimizer.text), "%s:%s",
           cli_full_model(path, full, sizeof(full)), rules[at]->name);
  memcpy(optimizer.sha256, loaded.sha256, sizeof(optimizer.sha256));
  return true;
}

void cli_note_optimizer(ls_train_config *config) {
  const bool is_own =
      optimizer.rule != NULL && cli_is_library(config->optimizer);
  if (is_own) config->optimizer = optimizer.text;
  config->optimizer_sha256 = is_own ? optimizer.sha256 : "";
}
