// SPDX-License-Identifier: Apache-2.0
// Models by name, of the library and of shared libraries of a user's.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"

static const char symbol[] = "ls_exported_models";

// ---- Names -----------------------------------------------------------------
static void list_names(const ls_model_type *const *types, size_t count,
                       char *buffer, size_t size) {
  buffer[0] = '\0';
  for (size_t i = 0; i < count; ++i) {
    const size_t at = strlen(buffer);
    snprintf(buffer + at, size - at, "%s%s", i > 0 ? ", " : "", types[i]->name);
  }
}

static const ls_model_type *find_own(const char *command, const char *name) {
  const ls_model_type *type = ls_model_find(name);
  if (type != NULL) return type;
  size_t count = 0;
  const ls_model_type *const *types = ls_model_types(&count);
  char all[256];
  list_names(types, count, all, sizeof(all));
  cli_say(command,
          "there is no model '%s'; there are: %s, and those of a shared "
          "library: ./mine.so",
          name, all);
  return NULL;
}

// ---- Shared libraries ------------------------------------------------------
// "dir/mine.so" or "dir/mine.so:name": the file's part of the text, 0 where the
// text is the name of a model. A file's name has a slash or ends in ".so".
static size_t file_size(const char *text) {
  const char *slash = strrchr(text, '/');
  const char *colon = strchr(slash != NULL ? slash : text, ':');
  const size_t size = colon != NULL ? (size_t)(colon - text) : strlen(text);
  const bool library = size > 3 && memcmp(text + size - 3, ".so", 3) == 0;
  return slash != NULL || library ? size : 0;
}

bool cli_is_library(const char *text) { return file_size(text) > 0; }

static const char *missing_part(const ls_model_type *type) {
  if (type->name == NULL || type->name[0] == '\0') return "name";
  if (type->batch_size < 1) return "batch_size";
  if (type->epochs < 1) return "epochs";
  if (type->num_classes < 1) return "num_classes";
  if (type->create == NULL) return "create";
  if (type->destroy == NULL) return "destroy";
  if (type->train_step == NULL) return "train_step";
  if (type->logits == NULL) return "logits";
  if (type->variables == NULL) return "variables";
  return type->optimizer == NULL ? "optimizer" : NULL;
}

// False when the table cannot be used, which has been said.
static bool check_table(const char *command, const char *path,
                        const ls_model_table *table) {
  if (table->version != LS_MODEL_TABLE_VERSION) {
    cli_say(command,
            "'%s' has models of version %u, this program takes %d: compile it "
            "anew",
            path, table->version, LS_MODEL_TABLE_VERSION);
    return false;
  }
  // What stands behind a table that is too small is not looked at.
  const bool whole = table->size >= sizeof(*table);
  if (!whole || table->type_size < sizeof(ls_model_type)) {
    cli_say(command,
            "'%s' has models of an older Lockstep (%s of %u bytes, at least "
            "%zu are needed): compile it anew",
            path, whole ? "types" : "a table",
            whole ? table->type_size : table->size,
            whole ? sizeof(ls_model_type) : sizeof(*table));
    return false;
  }
  for (uint32_t i = 0; i < table->count; ++i) {
    const ls_model_type *type = table->types[i];
    const char *missing = type != NULL ? missing_part(type) : "type";
    if (missing == NULL) continue;
    cli_say(command, "model %u of '%s' lacks its '%s'", i + 1, path, missing);
    return false;
  }
  return true;
}

// The library stays loaded until the program ends.
static const ls_model_table *load_table(const char *command, const char *path) {
  struct stat info;
  if (stat(path, &info) != 0) {
    cli_say(command, "cannot load models from '%s': %s", path, strerror(errno));
    return NULL;
  }
  // A name without a slash would be looked for elsewhere.
  char full[PATH_MAX];
  const char *resolved = realpath(path, full);
  void *library =
      dlopen(resolved != NULL ? resolved : path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    cli_say(command, "cannot load models from '%s' as a shared library: %s",
            path, dlerror());
    return NULL;
  }
  const ls_model_table *table = dlsym(library, symbol);
  if (table == NULL) {
    cli_say(command,
            "'%s' has no models: it does not export '%s'; see LS_EXPORT_MODELS "
            "in lockstep/models.h",
            path, symbol);
    return NULL;
  }
  return check_table(command, path, table) ? table : NULL;
}

static const ls_model_type *find_in_library(const char *command,
                                            const char *text, size_t size) {
  char path[PATH_MAX];
  snprintf(path, sizeof(path), "%.*s", (int)size, text);
  const char *name = text[size] == ':' ? text + size + 1 : "";
  const ls_model_table *table = load_table(command, path);
  if (table == NULL) return NULL;
  if (table->count == 1 && name[0] == '\0') return table->types[0];
  for (uint32_t i = 0; i < table->count; ++i) {
    if (strcmp(table->types[i]->name, name) == 0) return table->types[i];
  }
  char all[256];
  list_names(table->types, table->count, all, sizeof(all));
  if (name[0] == '\0')
    cli_say(command, "'%s' has %u models, say which one, as in '%s:NAME': %s",
            path, table->count, path, all);
  else
    cli_say(command, "'%s' has no model '%s'; it has: %s", path, name, all);
  return NULL;
}

const ls_model_type *cli_find_model(const char *command, const char *text) {
  const size_t size = file_size(text);
  return size > 0 ? find_in_library(command, text, size)
                  : find_own(command, text);
}

const char *cli_full_model(const char *text, char *buffer, size_t size) {
  const size_t file = file_size(text);
  char path[PATH_MAX], full[PATH_MAX];
  snprintf(path, sizeof(path), "%.*s", (int)file, text);
  if (file == 0 || realpath(path, full) == NULL) return text;
  snprintf(buffer, size, "%s%s", full, text + file);
  return buffer;
}
