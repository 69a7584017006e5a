// SPDX-License-Identifier: Apache-2.0
// Finds models by name, in the library, in ONNX and StableHLO files and in
// users' shared libraries.
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/estimator.h"

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

static const ls_model_type *find_own(const char *command, const char *name) {
  if (cli_is_model_file(name)) return find_in_file(command, name);
  const ls_model_type *type = ls_model_find(name);
  if (type != NULL) return type;
  size_t count = 0;
  const ls_model_type *const *types = ls_model_types(&count);
  char all[256] = "";
  for (size_t i = 0; i < count; ++i) {
    const size_t at = strlen(all);
    snprintf(all + at, sizeof(all) - at, "%s%s", i > 0 ? ", " : "",
             types[i]->name);
  }
  cli_say(command,
          "there is no model '%s'; there are: %s, a file: net.onnx or "
          "net.mlir, and "
          "those of a shared library: ./mine.so",
          name, all);
  return NULL;
}

const ls_model_type *cli_find_model(const char *command, const char *text) {
  cli_found found;
  if (!cli_is_library(text)) return find_own(command, text);
  if (!cli_find_in_library(command, text, &found)) return NULL;
  if (found.model == NULL)
    cli_say(command,
            "'%s' is an estimator, which has no step of its own: use it with "
            "train, eval, predict or export",
            text);
  return found.model;
}

// Returns the value of a flag at argv[at], NULL if it is another flag.
static const char *value_at(int argc, char **argv, int at, const char *flag) {
  const size_t size = strlen(flag);
  if (strncmp(argv[at], flag, size) != 0) return NULL;
  if (argv[at][size] == '=') return argv[at] + size + 1;
  return argv[at][size] == '\0' && at + 1 < argc ? argv[at + 1] : NULL;
}

// Returns true for the run folder of a model, not of an estimator: then the
// model is checked before a library is loaded.
static bool is_model_run(const char *text) {
  char folder[PATH_MAX], path[PATH_MAX + 16];
  ls_opt step;
  cli_split_step(text, folder, &step);
  snprintf(path, sizeof(path), "%s/config.json", folder);
  return access(path, F_OK) == 0;
}

bool cli_find_estimator(const char *command, int argc, char **argv,
                        const ls_estimator_type **out_type) {
  const char *text = NULL;
  bool is_run = false, is_linked = false;
  cli_found found = {0};
  for (int i = 0; i < argc; ++i) {
    const char *model = value_at(argc, argv, i, "--model");
    const char *resumed = value_at(argc, argv, i, "--resume");
    if (model != NULL) text = model;
    is_linked |= strcmp(argv[i], "--estimator") == 0;
    if (resumed != NULL) is_run = is_model_run(resumed);
    // Commands other than `train` have the run folder as an operand.
    if (argv[i][0] != '-' && strcmp(command, "train") != 0)
      is_run |= is_model_run(argv[i]);
  }
  *out_type = NULL;
  if (is_linked && (text == NULL || !cli_is_library(text))) {
    const ls_model_type *model = find_own(command, text != NULL ? text : "mlp");
    if (model != NULL)
      *out_type = cli_linked_estimator(model, strcmp(command, "train") == 0);
    return model != NULL;
  }
  if (is_run || text == NULL || !cli_is_library(text)) return true;
  if (!cli_find_in_library(command, text, &found)) return false;
  *out_type = found.estimator;
  if (!is_linked || found.estimator != NULL) return true;
  cli_say(command,
          "--estimator is for models of the library: '%s' is of a shared one",
          text);
  return false;
}
