// SPDX-License-Identifier: Apache-2.0
// Parameters of users' functions: a dict.
#include <math.h>
#include <string.h>

#include "base/require.h"
#include "base/values/numbers.h"
#include "estimator/config/params.h"

// A dict of the items of `params`, retained, where `key` has `value`, taken
// over; behind them if it is a new one.
static ls_nest with(ls_nest params, const char *key, ls_nest value) {
  ls_allocator *allocator = ls_current_allocator();
  const size_t room = ls_nest_count(params) + 1;
  const char **keys = ls_new_array(allocator, const char *, room);
  ls_nest *items = ls_new_array(allocator, ls_nest, room);
  size_t count = 0;
  ls_nest made = ls_none();
  if (keys == NULL || items == NULL) {
    ls_nest_release(value);
    made = ls_fail(ls_out_of_memory());
  } else {
    for (size_t i = 0; i + 1 < room; ++i) {
      if (strcmp(ls_nest_key(params, i), key) == 0) continue;
      keys[count] = ls_nest_key(params, i);
      items[count++] = ls_nest_retain(ls_nest_item(params, i));
    }
    keys[count] = key;
    items[count++] = value;
    made = ls_nest_dict("", keys, items, count);
  }
  ls_release(allocator, keys);
  ls_release(allocator, items);
  return made;
}

ls_status ls_params_set(ls_nest *params, const char *key, ls_nest value) {
  if (params == NULL || key == NULL) {
    ls_nest_release(value);
    return ls_null_argument(__func__, params == NULL ? "params" : "key");
  }
  if (params->kind != LS_KIND_NONE && params->kind != LS_KIND_DICT) {
    ls_nest_release(value);
    return ls_invalid_argument("parameters are a dict");
  }
  const ls_nest made = with(*params, key, value);
  const ls_status status = ls_nest_status(made);
  if (!ls_status_is_ok(status)) {
    ls_nest_release(made);
    return status;
  }
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
  const ls_status status = ls_array_create_copy(
      ls_array_dtype(from), ls_array_shape(from), ls_array_data(from), &copy);
  return ls_status_is_ok(status) ? ls_nest_array(copy) : ls_fail(status);
}

ls_nest ls_params_copy(ls_nest params) {
  return params.kind == LS_KIND_NONE ? ls_nest_dict("", NULL, NULL, 0)
                                     : ls_nest_map(params, copy_leaf, NULL);
}
