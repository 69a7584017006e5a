// SPDX-License-Identifier: Apache-2.0
// Users' shared libraries: loads their tables of models and of estimators.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/estimator.h"

// ---- Names -----------------------------------------------------------------
bool cli_is_onnx(const char *text) {
  const size_t size = strlen(text);
  return size > 5 && strcmp(text + size - 5, ".onnx") == 0;
}

// Returns the length of the file's name in "dir/mine.so" or "dir/mine.so:name";
// 0 if the text is the name of a model, or of an ONNX file. A file's name has a
// slash or ends in
// ".so".
static size_t file_size(const char *text) {
  const char *slash = strrchr(text, '/');
  const char *colon = strchr(slash != NULL ? slash : text, ':');
  const size_t size = colon != NULL ? (size_t)(colon - text) : strlen(text);
  const bool library = size > 3 && memcmp(text + size - 3, ".so", 3) == 0;
  return (slash != NULL || library) && !cli_is_onnx(text) ? size : 0;
}

bool cli_is_library(const char *text) { return file_size(text) > 0; }

const char *cli_full_model(const char *text, char *buffer, size_t size) {
  const size_t file = cli_is_onnx(text) ? strlen(text) : file_size(text);
  char path[PATH_MAX], full[PATH_MAX];
  snprintf(path, sizeof(path), "%.*s", (int)file, text);
  if (file == 0 || realpath(path, full) == NULL) return text;
  snprintf(buffer, size, "%s%s", full, text + file);
  return buffer;
}

// ---- Tables ----------------------------------------------------------------
// The common beginning of both kinds of tables; rows begin with a name.
typedef struct table {
  uint32_t size, version, type_size, count;
  const void *const *types;
} table;

static const char *library_name_of(const void *type) {
  return *(const char *const *)type;
}

static const char *model_lacks(const void *row) {
  const ls_model_type *type = row;
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

static const char *estimator_lacks(const void *row) {
  const ls_estimator_type *type = row;
  return type->options.model_fn.call == NULL ? "options.model_fn" : NULL;
}

// Returns the name of a field that the row sets, though only the command may;
// or NULL.
static const char *estimator_oversteps(const void *row) {
  const ls_estimator_options *options =
      &((const ls_estimator_type *)row)->options;
  if (options->config != NULL) return "options.config";
  if (options->model_dir != NULL) return "options.model_dir";
  if (options->params.kind != LS_KIND_NONE) return "options.params";
  if (options->use_tpu != LS_FLAG_DEFAULT) return "options.use_tpu";
  return options->warm_start != NULL ? "options.warm_start" : NULL;
}

static const struct {
  const char *noun, *symbol;
  uint32_t version;
  size_t size, type_size;
  const char *(*lacks)(const void *row);
  const char *(*oversteps)(const void *row);  // Checks fields. May be NULL.
} kinds[] = {
    {"model", "ls_exported_models", LS_MODEL_TABLE_VERSION,
     sizeof(ls_model_table), sizeof(ls_model_type), model_lacks, NULL},
    {"estimator", "ls_exported_estimators", LS_ESTIMATOR_TABLE_VERSION,
     sizeof(ls_estimator_table), sizeof(ls_estimator_type), estimator_lacks,
     estimator_oversteps},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), MODELS = 0, ESTIMATORS = 1 };
_Static_assert(sizeof(table) == sizeof(ls_model_table), "they begin alike");
_Static_assert(sizeof(table) == sizeof(ls_estimator_table), "they begin alike");

// Checks a row; reports a problem and returns false.
static bool check_row(const char *command, const char *path, size_t kind,
                      uint32_t number, const void *type) {
  const char *missing = "type", *extra = NULL;
  if (type != NULL) {
    const char *name = library_name_of(type);
    const bool named = name != NULL && name[0] != '\0';
    missing = named ? kinds[kind].lacks(type) : "name";
    if (missing == NULL && kinds[kind].oversteps != NULL)
      extra = kinds[kind].oversteps(type);
  }
  if (missing != NULL)
    cli_say(command, "%s %u of '%s' lacks its '%s'", kinds[kind].noun, number,
            path, missing);
  else if (extra != NULL)
    cli_say(command, "%s %u of '%s' sets '%s', which is the command's",
            kinds[kind].noun, number, path, extra);
  return missing == NULL && extra == NULL;
}

// Copies and checks a table; reports a problem and returns false.
static bool read_table(const char *command, const char *path, size_t kind,
                       const void *from, table *out) {
  uint32_t head[2];
  memcpy(head, from, sizeof(head));
  if (head[1] != kinds[kind].version) {
    cli_say(
        command,
        "'%s' has %ss of version %u, this program needs %u: compile it again",
        path, kinds[kind].noun, head[1], kinds[kind].version);
    return false;
  }
  // Reads no further than the table's own size.
  const bool whole = head[0] >= sizeof(*out);
  if (whole) memcpy(out, from, sizeof(*out));
  if (!whole || out->type_size < kinds[kind].type_size) {
    cli_say(command,
            "'%s' has %ss of an older Lockstep (%s of %u bytes, at least %zu "
            "are needed): compile it again",
            path, kinds[kind].noun, whole ? "types" : "a table",
            whole ? out->type_size : head[0],
            whole ? kinds[kind].type_size : sizeof(*out));
    return false;
  }
  for (uint32_t i = 0; i < out->count; ++i)
    if (!check_row(command, path, kind, i + 1, out->types[i])) return false;
  return true;
}

// ---- Loading ---------------------------------------------------------------
// Loads a library for the rest of the program. A missing table counts as empty.
static bool library_load(const char *command, const char *path,
                         table tables[KINDS]) {
  struct stat info;
  if (stat(path, &info) != 0) {
    cli_say(command, "cannot load models from '%s': %s", path, strerror(errno));
    return false;
  }
  // Adds a slash: dlopen searches other folders for a name without one.
  char full[PATH_MAX];
  const char *resolved = realpath(path, full);
  void *library =
      dlopen(resolved != NULL ? resolved : path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    cli_say(command, "cannot load models from '%s' as a shared library: %s",
            path, dlerror());
    return false;
  }
  bool has_some = false;
  for (size_t i = 0; i < KINDS; ++i) {
    const void *from = dlsym(library, kinds[i].symbol);
    tables[i] = (table){0};
    if (from == NULL) continue;
    has_some = true;
    if (!read_table(command, path, i, from, &tables[i])) return false;
  }
  if (!has_some)
    cli_say(command,
            "'%s' has no models: it does not export '%s'; see LS_EXPORT_MODELS "
            "in lockstep/models.h, or LS_EXPORT_ESTIMATORS in "
            "lockstep/estimator_table.h",
            path, kinds[MODELS].symbol);
  return has_some;
}

// ---- Finding ---------------------------------------------------------------
// Finds a row by name; "" finds the only row of both tables.
static const void *library_find(const table tables[KINDS], const char *name,
                                size_t *out_kind) {
  const bool only =
      name[0] == '\0' && tables[MODELS].count + tables[ESTIMATORS].count == 1;
  for (size_t i = 0; i < KINDS; ++i) {
    for (uint32_t k = 0; k < tables[i].count; ++k) {
      const void *type = tables[i].types[k];
      *out_kind = i;
      if (only || strcmp(library_name_of(type), name) == 0) return type;
    }
  }
  return NULL;
}

static void say_what_there_is(const char *command, const char *path,
                              const char *name, const table tables[KINDS]) {
  char all[256] = "";
  for (size_t i = 0; i < KINDS; ++i) {
    for (uint32_t k = 0; k < tables[i].count; ++k) {
      const size_t at = strlen(all);
      snprintf(all + at, sizeof(all) - at, "%s%s", at > 0 ? ", " : "",
               library_name_of(tables[i].types[k]));
    }
  }
  if (name[0] == '\0')
    cli_say(command, "'%s' has %u models; name one, as in '%s:NAME': %s", path,
            tables[MODELS].count + tables[ESTIMATORS].count, path, all);
  else
    cli_say(command, "'%s' has no model '%s'; it has: %s", path, name, all);
}

bool cli_find_in_library(const char *command, const char *text,
                         cli_found *out) {
  char path[PATH_MAX];
  table tables[KINDS];
  size_t kind = 0;
  const size_t size = file_size(text);
  snprintf(path, sizeof(path), "%.*s", (int)size, text);
  const char *name = text[size] == ':' ? text + size + 1 : "";
  *out = (cli_found){0};
  if (!library_load(command, path, tables)) return false;
  const void *type = library_find(tables, name, &kind);
  if (type == NULL)
    say_what_there_is(command, path, name, tables);
  else if (kind == MODELS)
    out->model = type;
  else
    out->estimator = type;
  return type != NULL;
}
