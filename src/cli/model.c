// SPDX-License-Identifier: Apache-2.0
// Models by name, of the library and of shared libraries of a user's.
#include <stdio.h>
#include <string.h>

#include "cli/models.h"

static const ls_model_type *find_own(const char *command, const char *name) {
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
          "there is no model '%s'; there are: %s, and those of a shared "
          "library: ./mine.so",
          name, all);
  return NULL;
}

const ls_model_type *cli_find_model(const char *command, const char *text) {
  cli_found found;
  if (!cli_is_library(text)) return find_own(command, text);
  if (!cli_find_in_library(command, text, &found)) return NULL;
  if (found.model == NULL)
    cli_say(command,
            "'%s' is an estimator, which has no step of its own: train, eval, "
            "predict and export take it",
            text);
  return found.model;
}

bool cli_find_estimator(const char *command, int argc, char **argv,
                        const ls_estimator_type **out_type) {
  static const char flag[] = "--model";
  const char *text = NULL;
  cli_found found = {0};
  for (int i = 0; i < argc; ++i) {
    if (strncmp(argv[i], flag, sizeof(flag) - 1) != 0) continue;
    const char *behind = argv[i] + sizeof(flag) - 1;
    if (*behind == '=') text = behind + 1;
    if (*behind == '\0' && i + 1 < argc) text = argv[i + 1];
  }
  *out_type = NULL;
  if (text == NULL || !cli_is_library(text)) return true;
  if (!cli_find_in_library(command, text, &found)) return false;
  *out_type = found.estimator;
  return true;
}
