// SPDX-License-Identifier: Apache-2.0
// Models and estimators of users' shared libraries, by the texts of flags.
#define _GNU_SOURCE
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/estimator.h"

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
// The tables of a library; rows of both kinds begin with a name.
typedef struct library {
  ls_model_library models;
  const ls_estimator_type *const *estimators;
  size_t num_estimators;
} library;

static size_t count_rows(const library *from) {
  return from->models.count + from->num_estimators;
}

// Returns row number `at` of both tables.
static cli_found library_row(const library *from, size_t at) {
  const size_t models = from->models.count;
  return at < models ? (cli_found){.model = from->models.types[at]}
                     : (cli_found){.estimator = from->estimators[at - models]};
}

static const char *found_name(const cli_found *found) {
  return found->model != NULL ? found->model->name : found->estimator->name;
}

static ls_status library_open(const char *path, library *out) {
  LS_RETURN_IF_ERROR(ls_model_library_open(path, &out->models));
  return ls_model_library_estimators(&out->models, &out->estimators,
                                     &out->num_estimators);
}

// Finds a row by name; "" finds the only row of both tables.
static bool library_find(const library *from, const char *name,
                         cli_found *out) {
  for (size_t i = 0; i < count_rows(from); ++i) {
    *out = library_row(from, i);
    if (name[0] == '\0' ? count_rows(from) == 1
                        : strcmp(found_name(out), name) == 0)
      return true;
  }
  *out = (cli_found){0};
  return false;
}

static void say_what_there_is(const char *command, const char *path,
                              const char *name, const library *from) {
  char all[256] = "";
  for (size_t i = 0; i < count_rows(from); ++i) {
    const cli_found row = library_row(from, i);
    const size_t at = strlen(all);
    snprintf(all + at, sizeof(all) - at, "%s%s", at > 0 ? ", " : "",
             found_name(&row));
  }
  if (name[0] == '\0')
    cli_say(command, "'%s' has %zu models; name one, as in '%s:NAME': %s", path,
            count_rows(from), path, all);
  else
    cli_say(command, "'%s' has no model '%s'; it has: %s", path, name, all);
}

bool cli_find_in_library(const char *command, const char *text,
                         cli_found *out) {
  char path[PATH_MAX];
  library loaded = {0};  // Stays loaded for the rest of the program.
  const size_t size = file_size(text);
  snprintf(path, sizeof(path), "%.*s", (int)size, text);
  const char *name = text[size] == ':' ? text + size + 1 : "";
  *out = (cli_found){0};
  CLI_OWN(ls_status, status) = library_open(path, &loaded);
  if (!ls_status_is_ok(status)) {
    cli_say(command, "%s", ls_status_message(status));
    return false;
  }
  if (library_find(&loaded, name, out)) return true;
  say_what_there_is(command, path, name, &loaded);
  return false;
}
