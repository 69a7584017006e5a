// SPDX-License-Identifier: Apache-2.0
// Estimators of a user's shared library.
#include "lockstep/estimator_table.h"

#include "base/require.h"
#include "models/library.h"

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

static const ls_table_kind estimators = {
    .noun = "estimator",
    .symbol = "ls_exported_estimators",
    .version = LS_ESTIMATOR_TABLE_VERSION,
    .type_size = sizeof(ls_estimator_type),
    .lacks = estimator_lacks,
    .oversteps = estimator_oversteps,
};
_Static_assert(sizeof(ls_estimator_table) == sizeof(ls_model_table),
               "they begin alike");

ls_status
ls_model_library_estimators(const ls_model_library *library,
                            const ls_estimator_type *const **out_types,
                            size_t *out_count) {
  LS_REQUIRE_OUT(out_types);
  LS_REQUIRE_OUT(out_count);
  LS_REQUIRE(library);
  if (library->handle == NULL)
    return ls_invalid_argument("the library of models is not open");
  const void *const *types = NULL;
  LS_RETURN_IF_ERROR(ls_library_table(library, &estimators, &types, out_count));
  *out_types = (const ls_estimator_type *const *)types;
  return ls_ok();
}
