// SPDX-License-Identifier: Apache-2.0
//
// Makes variables and returns their values; stores bf16 variables in f32 where
// a scope demands it.
#include "base/memory/own.h"
#include "base/require.h"
#include "graph/make/make.h"
#include "graph/variables/variable.h"

void ls_bfloat16_scope_begin(ls_scope *scope, const char *name) {
  ls_name_scope_begin(
      scope, name != NULL && name[0] != '\0' ? name : ls_name_scope_current());
  if (ls_scope_opened(scope)->type == &ls_graph_scopes.name)
    ls_context_current()->scoped.stores_f32 = true;
}

static ls_dtype get_variable_dtype_of(const ls_variable_options *options) {
  if (options->dtype != LS_DTYPE_NONE) return options->dtype;
  if (options->initial_array != NULL)
    return ls_array_dtype(options->initial_array);
  if (options->initial_value.ref != 0)
    return ls_tensor_dtype(options->initial_value);
  return options->initial_of != NULL ? ls_variable_dtype(options->initial_of)
                                     : LS_DTYPE_NONE;
}

// Makes the variable's initial value in the variable's own type.
static ls_nest initial_value(const ls_variable_options *options, ls_nest args) {
  const ls_variable *from = options->initial_of;
  if (from != NULL)
    return ls_leaf(from->graph != NULL
                       ? from->initial_value
                       : ls_variable_read((ls_variable *)(uintptr_t)from));
  if (options->initial_array != NULL)
    return ls_leaf(ls_make_constant_copy(options->initial_array));
  if (options->initial_value.ref != 0) return ls_leaf(options->initial_value);
  return options->initializer(args, options->initializer_user);
}

// Makes the initial value in f32, for the initializer.
static ls_nest widened_value(ls_nest args, void *user) {
  const ls_nest made = initial_value(user, args);
  return made.kind == LS_KIND_TENSOR
             ? ls_leaf(ls_convert(made.as.tensor, LS_DTYPE_F32))
             : made;
}

static ls_shape get_variable_shape_of(const ls_variable_options *options) {
  if (options->initial_of != NULL)
    return ls_variable_shape(options->initial_of);
  if (options->initial_array != NULL)
    return ls_array_shape(options->initial_array);
  return options->initial_value.ref != 0
             ? ls_tensor_shape(options->initial_value)
             : options->shape;
}

// Makes options for the same variable in f32.
static void widen(const ls_variable_options *options,
                  ls_variable_options *out_wide) {
  *out_wide = *options;
  out_wide->dtype = LS_DTYPE_F32;
  out_wide->shape = get_variable_shape_of(options);
  const bool has_initial =
      options->initial_of != NULL || options->initial_array != NULL ||
      options->initial_value.ref != 0 || options->initializer != NULL;
  if (!has_initial) return;
  out_wide->initial_of = NULL;
  out_wide->initial_array = NULL;
  out_wide->initial_value = (ls_tensor){0};
  out_wide->initializer = widened_value;
  out_wide->initializer_user = (void *)(uintptr_t)options;
}

ls_status ls_get_variable(const ls_variable_options *options,
                          ls_variable **out_variable, ls_tensor *out_value) {
  LS_REQUIRE_OUT(out_variable);
  LS_REQUIRE_OUT(out_value);
  static const ls_variable_options defaults;
  if (options == NULL) options = &defaults;
  ls_variable_options wide;
  const bool is_cast = ls_context_current()->scoped.stores_f32 &&
                       get_variable_dtype_of(options) == LS_DTYPE_BF16;
  if (is_cast) widen(options, &wide);
  LS_RETURN_IF_ERROR(
      ls_variable_create(is_cast ? &wide : options, out_variable));
  *out_value = ls_variable_read(*out_variable);
  if (is_cast) *out_value = ls_convert(*out_value, LS_DTYPE_BF16);
  if (!ls_tensor_is_failed(*out_value)) return ls_ok();
  ls_variable_release(*out_variable);
  *out_variable = NULL;
  ls_graph *graph = ls_graph_current();
  return ls_graph_is_eager(graph) ? ls_graph_take_error(graph)
                                  : ls_graph_error(graph);
}
