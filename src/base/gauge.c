// SPDX-License-Identifier: Apache-2.0
#include "lockstep/gauge.h"

#include "base/plain.h"
#include "base/runtime_internal.h"

enum { MAX_KEY = 160 };

// Joins gauge and cell to one key: no gauge has a '/' in its name.
static const char *gauge_key_of(const char *gauge, const char *cell,
                                char key[MAX_KEY]) {
  ls_format(key, MAX_KEY, "%s/%s", gauge, cell);
  return key;
}

bool ls_gauge_read(ls_runtime *runtime, const char *gauge, const char *cell,
                   ls_gauge_value *out_value) {
  char key[MAX_KEY];
  ls_runtime_lock(runtime);
  const ls_gauge_value *value =
      ls_map_find_text(&runtime->gauges, gauge_key_of(gauge, cell, key));
  *out_value = value != NULL ? *value : (ls_gauge_value){0};
  ls_runtime_unlock(runtime);
  return value != NULL;
}

ls_status ls_gauge_set(ls_runtime *runtime, const char *gauge, const char *cell,
                       const ls_gauge_value *value) {
  char key[MAX_KEY];
  ls_runtime_lock(runtime);
  ls_gauge_value *kept =
      ls_map_find_text(&runtime->gauges, gauge_key_of(gauge, cell, key));
  bool made = kept != NULL;
  if (!made) {
    kept = ls_new(runtime->allocator, ls_gauge_value);
    made = kept != NULL && ls_map_insert_text(&runtime->gauges, key, kept);
    if (!made) ls_release(runtime->allocator, kept);
  }
  if (made) *kept = *value;
  ls_runtime_unlock(runtime);
  return made ? ls_ok() : ls_out_of_memory();
}

void ls_gauges_deinit(ls_runtime *runtime) {
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&runtime->gauges, &at, &item);)
    ls_release(runtime->allocator, item.value);
  ls_map_deinit(&runtime->gauges);
}
