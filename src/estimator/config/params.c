// SPDX-License-Identifier: Apache-2.0
// Parameters of user functions: a dict.
#include "estimator/config/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/require.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "base/values/numbers.h"
#include "lockstep/runtime_settings.h"

// Returns the items of `params` with `key` set to `value`, which is taken over;
// a new key comes last.
static ls_nest with_param(ls_nest params, const char *key, ls_nest value) {
  LS_OWN(ls_nest_builder, made) = {.tag = ""};
  for (size_t i = 0; i < ls_nest_count(params); ++i)
    if (strcmp(ls_nest_key(params, i), key) != 0)
      ls_nest_builder_append_named(&made, ls_nest_key(params, i),
                                   ls_nest_retain(ls_nest_item(params, i)));
  ls_nest_builder_append_named(&made, key, value);
  return ls_nest_builder_finish(&made, LS_KIND_DICT);
}

ls_status ls_params_set(ls_nest *params, const char *key, ls_nest value) {
  LS_OWN(ls_nest, owned) = value;
  LS_REQUIRE(params, key);
  if (params->kind != LS_KIND_NONE && params->kind != LS_KIND_DICT)
    return ls_invalid_argument("parameters are a dict");
  ls_nest made = ls_none();
  LS_RETURN_IF_ERROR(
      ls_take_nest(with_param(*params, key, ls_give(&owned)), &made));
  ls_nest_release(*params);
  *params = made;
  return ls_ok();
}

double ls_params_f64(ls_nest params, const char *key, double otherwise) {
  double number = 0;
  const ls_nest value =
      params.kind == LS_KIND_DICT ? ls_nest_find(params, key) : ls_none();
  if (value.kind == LS_KIND_NONE) return otherwise;
  const ls_status status = ls_nest_to_number(value, &number);
  const bool is_number = ls_status_is_ok(status);
  ls_status_free(status);
  return is_number ? number : otherwise;
}

int64_t ls_params_i64(ls_nest params, const char *key, int64_t otherwise) {
  const ls_nest value =
      params.kind == LS_KIND_DICT ? ls_nest_find(params, key) : ls_none();
  const ls_array *array = ls_nest_as_array(value);
  if (array != NULL && ls_array_num_elements(array) == 1)
    return ls_array_i64(array, 0);
  if (value.kind == LS_KIND_SCALAR && !ls_dtype_is_float(value.dtype))
    return value.as.i64;
  const double number = ls_params_f64(params, key, (double)NAN);
  return isnan(number) ? otherwise
                       : ls_i64_of_f64(number, INT64_MIN, INT64_MAX);
}

// ---- Copies ----------------------------------------------------------------
static ls_nest copy_leaf(ls_nest leaf, void *user) {
  (void)user;
  const ls_array *from = ls_nest_as_array(leaf);
  ls_array *copy = NULL;
  if (from == NULL) return ls_nest_retain(leaf);
  LS_RETURN_FAILED_IF_ERROR(ls_array_create_copy(
      ls_array_dtype(from), ls_array_shape(from), ls_array_data(from), &copy));
  return ls_nest_array(copy);
}

ls_nest ls_params_copy(ls_nest params) {
  return params.kind == LS_KIND_NONE ? ls_nest_dict("", NULL, NULL, 0)
                                     : ls_nest_map(params, copy_leaf, NULL);
}

void ls_setting_read(const ls_runtime *runtime, const char *name,
                     ls_setting *out) {
  const char *rest = strncmp(name, "TF_", 3) == 0 ? name + 3 : name;
  snprintf(out->own, sizeof(out->own), "LS_%s", rest);
  out->name = out->own;
  out->value = ls_runtime_environment(runtime, out->own);
  if (out->value != NULL) return;
  out->name = name;
  out->value = ls_runtime_environment(runtime, name);
}

static void state_destroy(void *pointer) {
  ls_estimator_state *state = pointer;
  if (state->watchdogs != NULL) state->end_watchdogs(state->watchdogs);
  ls_release(state->allocator, state);
}

ls_estimator_state *ls_estimator_state_get(ls_runtime *runtime) {
  ls_estimator_state *state = ls_runtime_slot(runtime, LS_SLOT_ESTIMATOR);
  if (state != NULL) return state;
  state = ls_new(ls_runtime_allocator(runtime), ls_estimator_state);
  if (state == NULL) return NULL;
  state->allocator = ls_runtime_allocator(runtime);
  ls_runtime_set_slot(runtime, LS_SLOT_ESTIMATOR, state, state_destroy);
  return state;
}
