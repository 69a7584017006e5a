// SPDX-License-Identifier: Apache-2.0
// What an input function gives.
#include "estimator/returned.h"

#include "base/values/nest_internal.h"

ls_status ls_returned_split(ls_nest value, ls_nest *out_features,
                            ls_nest *out_labels) {
  *out_features = value;
  *out_labels = ls_none();
  if (value.kind != LS_KIND_TUPLE) return ls_ok();
  const size_t count = ls_nest_count(value);
  if (count != 2)
    return ls_invalid_argument(
        "input_fn gives a tuple of %zu: it must be a len 2 tuple (features, "
        "labels); several features are a list or a dict",
        count);
  *out_features = ls_nest_item(value, 0);
  *out_labels = ls_nest_item(value, 1);
  return ls_ok();
}

size_t ls_returned_keys(ls_nest value, const char **keys, size_t capacity) {
  if (value.kind != LS_KIND_DICT) return 0;
  const size_t count = ls_nest_count(value);
  for (size_t i = 0; i < count && i < capacity; ++i)
    keys[i] = ls_nest_key(value, ls_nest_sorted_position(value, i));
  return count;
}

ls_nest ls_returned_dict(ls_nest features, ls_nest labels, const char *name,
                         ls_nest other) {
  const char *keys[3] = {"features"};
  ls_nest items[3] = {features};
  size_t count = 1;
  if (labels.kind != LS_KIND_NONE) {
    keys[count] = "labels";
    items[count++] = labels;
  }
  if (other.kind != LS_KIND_NONE) {
    keys[count] = name;
    items[count++] = other;
  }
  return ls_nest_dict("", keys, items, count);
}
