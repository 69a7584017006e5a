// SPDX-License-Identifier: Apache-2.0
// Users' shared libraries: loads and checks their tables of models.
#define _GNU_SOURCE
#include "models/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/require.h"

// ---- Tables ----------------------------------------------------------------
// The common beginning of all kinds of tables.
typedef struct table {
  uint32_t size, version, type_size, count;
  const void *const *types;
} table;
_Static_assert(sizeof(table) == sizeof(ls_model_table), "they begin alike");

static ls_status check_row(const char *path, const ls_table_kind *kind,
                           uint32_t number, const void *type) {
  const char *missing = "type", *extra = NULL;
  if (type != NULL) {
    const char *name = *(const char *const *)type;
    missing = name != NULL && name[0] != '\0' ? kind->lacks(type) : "name";
    if (missing == NULL && kind->oversteps != NULL)
      extra = kind->oversteps(type);
  }
  if (missing != NULL)
    return ls_invalid_argument("%s %u of '%s' lacks its '%s'", kind->noun,
                               number, path, missing);
  if (extra != NULL)
    return ls_invalid_argument("%s %u of '%s' sets '%s', which is the "
                               "command's",
                               kind->noun, number, path, extra);
  return ls_ok();
}

ls_status ls_library_table(const ls_model_library *library,
                           const ls_table_kind *kind,
                           const void *const **out_types, size_t *out_count) {
  const void *from = dlsym(library->handle, kind->symbol);
  table head = {0};
  *out_types = NULL;
  *out_count = 0;
  if (from == NULL) return ls_ok();
  memcpy(&head, from, 2 * sizeof(uint32_t));
  if (head.version != kind->version)
    return ls_invalid_argument(
        "'%s' has %ss of version %u, this program needs %u: compile it again",
        library->path, kind->noun, head.version, kind->version);
  // Reads no further than the table's own size.
  const bool whole = head.size >= sizeof(head);
  if (whole) memcpy(&head, from, sizeof(head));
  if (!whole || head.type_size < kind->type_size)
    return ls_invalid_argument(
        "'%s' has %ss of an older Lockstep (%s of %u bytes, at least %zu are "
        "needed): compile it again",
        library->path, kind->noun, whole ? "types" : "a table",
        whole ? head.type_size : head.size,
        whole ? kind->type_size : sizeof(head));
  for (uint32_t i = 0; i < head.count; ++i)
    LS_RETURN_IF_ERROR(check_row(library->path, kind, i + 1, head.types[i]));
  *out_types = head.types;
  *out_count = head.count;
  return ls_ok();
}

// ---- Models ----------------------------------------------------------------
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

static const ls_table_kind models = {
    .noun = "model",
    .symbol = "ls_exported_models",
    .version = LS_MODEL_TABLE_VERSION,
    .type_size = sizeof(ls_model_type),
    .lacks = model_lacks,
};

static ls_status find_models(ls_model_library *library) {
  const void *const *types = NULL;
  LS_RETURN_IF_ERROR(
      ls_library_table(library, &models, &types, &library->count));
  library->types = (const ls_model_type *const *)types;
  if (dlsym(library->handle, models.symbol) != NULL ||
      dlsym(library->handle, "ls_exported_estimators") != NULL)
    return ls_ok();
  return ls_invalid_argument(
      "'%s' has no models: it does not export '%s'; see LS_EXPORT_MODELS in "
      "lockstep/models.h, or LS_EXPORT_ESTIMATORS in "
      "lockstep/estimator_table.h",
      library->path, models.symbol);
}

ls_status ls_model_library_open(const char *path,
                                ls_model_library *out_library) {
  LS_REQUIRE_OUT(out_library);
  LS_REQUIRE(path);
  struct stat info;
  if (stat(path, &info) != 0)
    return LS_STATUS(LS_NOT_FOUND, "cannot load models from '%s': %s", path,
                     strerror(errno));
  // Adds a slash: dlopen searches other folders for a name without one.
  char full[PATH_MAX];
  const char *resolved = realpath(path, full);
  ls_model_library library = {
      .path = path,
      .handle =
          dlopen(resolved != NULL ? resolved : path, RTLD_NOW | RTLD_LOCAL)};
  if (library.handle == NULL)
    return ls_invalid_argument(
        "cannot load models from '%s' as a shared library: %s", path,
        dlerror());
  const ls_status status = find_models(&library);
  if (ls_status_is_ok(status))
    *out_library = library;
  else
    ls_model_library_close(&library);
  return status;
}

void ls_model_library_close(ls_model_library *library) {
  if (library == NULL) return;
  if (library->handle != NULL) dlclose(library->handle);
  *library = (ls_model_library){0};
}
